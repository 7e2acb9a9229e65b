//! The way to the primary: encryption, and the question to Patroni.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::servers::{Server, open, server};
use crate::stores::{P, PartitionWriter, commit, everything, pairs};
use orrery_storage::{CommitOutcome, PartitionId, Store};
use orrery_storage_postgres::{ClusterConfig, PostgresStore, StoreOptions, Tls};
use orrery_test_wait::{wait_for, wait_until};

/// Starts a Patroni that answers with this status, and returns its address.
fn patroni(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut request = [0; 1_000];
            let length = client.read(&mut request).unwrap_or(0);
            assert!(request[..length].starts_with(b"GET /primary HTTP/1.1\r\n"));
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}");
            // A client that has gone needs no answer.
            let _ = client.write_all(answer.as_bytes());
        }
    });
    url
}

fn refusal(config: &ClusterConfig) -> String {
    match PostgresStore::open(config.clone()) {
        Ok(_) => panic!("the cluster was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_server_that_patroni_names_is_used_and_no_other() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = free.local_addr().unwrap().port();
    drop(free);
    // The first server stands first in the list and takes writes, but Patroni says no.
    let mut config = server().config_at(&[server().port, closed]);
    config.hosts[0].patroni = Some(patroni("503 Service Unavailable"));
    config.hosts[1].patroni = Some(patroni("200 OK"));
    let message = refusal(&config);
    assert!(
        message.contains("Patroni says that it is no primary"),
        "{message}"
    );
    assert!(
        message.contains(&format!("127.0.0.1:{closed}: ")),
        "{message}"
    );

    config.hosts.reverse();
    config.hosts[0].patroni = Some(patroni("503 Service Unavailable"));
    config.hosts[1].patroni = Some(patroni("200 OK"));
    PartitionWriter::open(&open(&config), P).put(&[(b"a", b"1")]);

    // A Patroni that does not answer says nothing about its server.
    config.hosts[1].patroni = Some(format!("http://127.0.0.1:{closed}"));
    assert_eq!(everything(&open(&config), P).len(), 1);
}

#[test]
fn connections_are_encrypted_and_the_certificate_is_checked() {
    let server = Server::start(&["-c", "fsync=off"]);
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let mut config = server.config();
    config.tls = Tls::Verify;
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, made.cert.pem()).unwrap();
    config.ca_file = Some(ca_file.clone());
    let message = refusal(&config);
    assert!(message.contains("server does not support TLS"), "{message}");

    server.use_tls(&made.cert.pem(), &made.signing_key.serialize_pem());
    PartitionWriter::open(&open(&config), P).put(&[(b"a", b"1")]);
    let encrypted = "SELECT count(*) > 0 FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
                     WHERE a.application_name = 'orrery' AND s.ssl";
    let store = open(&config);
    assert_eq!(everything(&store, P).len(), 1);
    assert_eq!(server.sql(encrypted), [["t"]]);

    std::fs::write(&ca_file, other.cert.pem()).unwrap();
    let message = refusal(&config);
    assert!(message.to_lowercase().contains("certificate"), "{message}");
}

/// A program connects before it may own partitions: the owner before goes on until the store is
/// opened, and a connection that has ended meanwhile is replaced.
#[test]
fn a_prepared_store_disturbs_no_owner_and_replaces_connections_that_have_ended() {
    const OTHERS: &str = "FROM pg_stat_activity WHERE application_name = 'orrery'";
    let server = Server::start(&["-c", "fsync=off"]);
    let config = server.config();
    let owner = open(&config);
    let mut writer = PartitionWriter::open(&owner, P);
    writer.put(&[(b"a", b"1")]);
    let count = || server.sql(&format!("SELECT pid {OTHERS}")).len();
    let of_owner = count();

    let options = StoreOptions {
        only_writer: true,
        ..StoreOptions::default()
    };
    let prepared = PostgresStore::prepare(config, options).unwrap();
    wait_for("the connections", count, |count| *count >= of_owner + 2);
    writer.put(&[(b"a", b"2")]);
    server.sql(&format!("SELECT pg_terminate_backend(pid) {OTHERS}"));

    let next = prepared.open().unwrap();
    assert_eq!(everything(&next, P), pairs(&[(b"a", b"2")]));
    let late = writer.commit(commit(2, &[(b"a", b"3")]));
    assert_eq!(late, CommitOutcome::Fenced);
}

#[test]
fn a_store_is_prepared_without_its_server_and_not_opened_without_it() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = free.local_addr().unwrap().port();
    drop(free);
    let config = server().config_at(&[closed]);
    let prepared = PostgresStore::prepare(config, StoreOptions::default()).unwrap();
    let refused = prepared.open().err().map(|error| error.to_string());
    let refused = refused.expect("no server is there");
    assert!(refused.contains("Connection refused"), "{refused}");
}

/// A server that takes no further connections, as with too many clients, serves those that there
/// are.
#[test]
fn connections_from_before_serve_while_no_new_one_can_be_made() {
    let server = Server::start(&["-c", "fsync=off"]);
    let store = open(&server.config());
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    drop(store.snapshot(P).unwrap());
    server.sql("UPDATE pg_database SET datallowconn = false WHERE datname = 'postgres'");
    // The connection of the snapshot before comes back some time after its end.
    let held = wait_until("a connection", || store.snapshot(P));
    // A further snapshot needs a further connection.
    let other = PartitionId(P.0 + 1);
    let refused = store.snapshot(other).map(drop).expect_err("no connection");
    assert!(
        refused
            .to_string()
            .contains("not currently accepting connections"),
        "{refused}"
    );
    drop(held);
    for _ in 0..3 {
        writer.put(&[(b"a", b"2")]);
        // The connection of a snapshot comes back some time after the end of the snapshot.
        wait_until("a read through a connection from before", || {
            store.snapshot(P).map(drop)
        });
    }
}
