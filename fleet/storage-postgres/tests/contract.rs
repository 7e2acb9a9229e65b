//! The contract of all stores, on a real PostgreSQL.
//!
//! With `ORRERY_POSTGRES_DSN` in the environment the tests run on the server that it names, such as
//! a YugabyteDB or a CockroachDB: `postgres://user:password@host:port/database`.

use crate::servers;
use crate::stores::promises::{NewStore, for_every_promise};
use orrery_storage_postgres::{ClusterConfig, HostConfig, PostgresStore, StoreOptions, Tls};
use tokio_postgres::config::Host;

macro_rules! contract {
    ($($name:ident),+ $(,)?) => {
        mod any_writer {
            $(#[test] fn $name() { super::on_postgres(crate::stores::promises::$name, false) })+
        }
        mod only_writer {
            $(#[test] fn $name() { super::on_postgres(crate::stores::promises::$name, true) })+
        }
    };
}

for_every_promise!(contract);

/// Runs a test with stores that use the transactions of snapshots again, or do not.
fn on_postgres(test: fn(NewStore<'_>), only_writer: bool) {
    let options = StoreOptions {
        only_writer,
        ..StoreOptions::default()
    };
    let open = |config| PostgresStore::open_with(config, options).unwrap();
    let new_config = || servers::server().config();
    match std::env::var("ORRERY_POSTGRES_DSN") {
        Err(_) => test(&|| Box::new(open(new_config()))),
        Ok(dsn) => {
            let folder = tempfile::tempdir().unwrap();
            let described = config_of(&dsn, folder.path());
            test(&|| {
                let config = ClusterConfig {
                    schema: servers::new_schema(),
                    ..described.clone()
                };
                Box::new(open(config))
            });
        }
    }
}

/// Returns the description of the server of a DSN, with its password in a file.
fn config_of(dsn: &str, folder: &std::path::Path) -> ClusterConfig {
    let parsed: tokio_postgres::Config = dsn.parse().expect("a DSN");
    let mut hosts = Vec::new();
    for (at, host) in parsed.get_hosts().iter().enumerate() {
        let Host::Tcp(name) = host else { continue };
        let port = parsed.get_ports().get(at).copied().unwrap_or(5432);
        hosts.push(HostConfig {
            address: format!("{name}:{port}"),
            patroni: None,
        });
    }
    let (user, database) = (parsed.get_user(), parsed.get_dbname());
    let (user, database) = (user.unwrap_or("postgres"), database.unwrap_or("postgres"));
    let mut config = ClusterConfig::new("environment", hosts, user, database);
    if let Some(password) = parsed.get_password() {
        let file = folder.join("password");
        std::fs::write(&file, password).unwrap();
        config.password_file = Some(file);
    }
    if parsed.get_ssl_mode() != tokio_postgres::config::SslMode::Require {
        config.tls = Tls::Off;
    }
    config
}
