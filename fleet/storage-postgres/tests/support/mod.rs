//! Servers for tests: a PostgreSQL of its own for each test binary, and more where a test breaks
//! one.
//!
//! A server lives in a temporary directory and ends with the process that started it, however that
//! ends: a shell keeps it until its standard input closes. PostgreSQL does not run as root, so root
//! starts it as the user `postgres`.

#![allow(dead_code)] // each program that includes the module uses its own part

pub(crate) mod proxy;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use orrery_storage_postgres::{ClusterConfig, HostConfig, PostgresStore, Tls};
use orrery_test_wait::wait_for;
use tokio_postgres::SimpleQueryMessage;

const PASSWORD: &str = "correct horse";

/// A running server. Dropping it stops it and removes its files.
pub(crate) struct Server {
    keeper: Child,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
}

/// Returns the server that the tests of this binary share.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&["-c", "fsync=off"]))
}

impl Server {
    /// Creates a database and starts a server with these further arguments.
    pub(crate) fn start(arguments: &[&str]) -> Server {
        let folder = server_folder();
        std::fs::write(folder.path().join("password"), format!("{PASSWORD}\n")).unwrap();
        let data = folder.path().join("data");
        let password = folder.path().join("password");
        let created = as_server_user("initdb")
            .args([
                "-U",
                "orrery",
                "-A",
                "scram-sha-256",
                "-N",
                "--locale=C",
                "-D",
            ])
            .arg(&data)
            .arg("--pwfile")
            .arg(&password)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&created.stderr);
        assert!(created.status.success(), "initdb: {errors}");
        Server::run(folder, arguments)
    }

    /// Starts a standby of this server.
    pub(crate) fn start_standby(&self) -> Server {
        let folder = server_folder();
        std::fs::write(folder.path().join("password"), format!("{PASSWORD}\n")).unwrap();
        let mut copy = as_server_user("pg_basebackup");
        copy.env("PGPASSWORD", PASSWORD)
            .args([
                "-h",
                "127.0.0.1",
                "-U",
                "orrery",
                "-R",
                "-c",
                "fast",
                "-X",
                "stream",
                "-p",
            ])
            .arg(self.port.to_string())
            .arg("-D")
            .arg(folder.path().join("data"));
        let output = copy.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "pg_basebackup: {errors}");
        Server::run(folder, &["-c", "fsync=off"])
    }

    /// Starts a server on the data directory that `fill` makes, and waits for the end of its
    /// recovery.
    pub(crate) fn start_restored(fill: impl FnOnce(&Path)) -> Server {
        let folder = server_folder();
        let password = folder.path().join("password");
        std::fs::write(password, format!("{PASSWORD}\n")).unwrap();
        fill(&folder.path().join("data"));
        give_to_server_user(folder.path());
        let server = Server::run(folder, &["-c", "fsync=off"]);
        server.wait_for_sql("SELECT pg_is_in_recovery()", |rows| rows == [["f"]]);
        server
    }

    /// Has the server archive all that it has written.
    pub(crate) fn archive_now(&self) {
        let file = "SELECT pg_walfile_name(pg_current_wal_lsn())";
        let file = self.sql(file).concat().concat();
        self.sql("SELECT pg_switch_wal()");
        let question = format!("SELECT last_archived_wal >= '{file}' FROM pg_stat_archiver");
        self.wait_for_sql(&question, |rows| rows == [["t"]]);
    }

    /// Lets a standby tell its primary which rows it needs, or not.
    pub(crate) fn set_feedback(&self, setting: &str) {
        self.sql(&format!(
            "ALTER SYSTEM SET hot_standby_feedback = {setting}"
        ));
        self.sql("SELECT pg_reload_conf()");
        self.wait_for_sql("SHOW hot_standby_feedback", |rows| rows == [[setting]]);
    }

    /// Starts the server of a folder on a port that is free.
    fn run(folder: tempfile::TempDir, arguments: &[&str]) -> Server {
        const KEEP: &str = r#"
            bin="$1"; folder="$2"; shift 2
            "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w -t 60 -o "$*" start >/dev/null \
                2>&1 && echo ready || { cat "$folder/log" >&2; echo failed; exit 1; }
            cat >/dev/null
            "$bin/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1
        "#;
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let mut keeper = as_server_user("sh");
            keeper
                .args(["-c", KEEP, "sh"])
                .arg(binaries())
                .arg(folder.path())
                .args(["-p", &port.to_string(), "-k", "''"])
                .args([
                    "-c",
                    "listen_addresses=127.0.0.1",
                    "-c",
                    "max_connections=300",
                ])
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let mut keeper = keeper.spawn().unwrap();
            let mut line = String::new();
            let output = keeper.stdout.take().unwrap();
            BufReader::new(output).read_line(&mut line).unwrap();
            if line == "ready\n" {
                return Server {
                    keeper,
                    folder,
                    port,
                };
            }
            keeper.wait().unwrap();
        }
        panic!("no PostgreSQL could be started");
    }

    /// Returns the description of this server as a cluster, with a schema of its own.
    pub(crate) fn config(&self) -> ClusterConfig {
        self.config_at(&[self.port])
    }

    /// Returns the description with servers at these ports of this machine.
    pub(crate) fn config_at(&self, ports: &[u16]) -> ClusterConfig {
        let hosts = ports.iter().map(|port| HostConfig {
            address: format!("127.0.0.1:{port}"),
            patroni: None,
        });
        let mut config = ClusterConfig::new("test", hosts.collect(), "orrery", "postgres");
        config.password_file = Some(self.folder.path().join("password"));
        config.tls = Tls::Off;
        config.schema = new_schema();
        config
    }

    /// Runs SQL beside the store, and returns the rows as text.
    pub(crate) fn sql(&self, text: &str) -> Vec<Vec<String>> {
        self.try_sql(text).unwrap()
    }

    /// Runs SQL until its rows are those that a test waits for.
    #[track_caller]
    pub(crate) fn wait_for_sql(&self, text: &str, has_come: impl Fn(&[Vec<String>]) -> bool) {
        wait_for(text, || self.sql(text), |rows| has_come(rows));
    }

    /// Runs SQL as `sql` does, and returns the error of a server that refuses it or ends.
    pub(crate) fn try_sql(&self, text: &str) -> Result<Vec<Vec<String>>, tokio_postgres::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut options = tokio_postgres::Config::new();
            options
                .host("127.0.0.1")
                .port(self.port)
                .user("orrery")
                .password(PASSWORD)
                .dbname("postgres");
            let (client, connection) = options.connect(tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let messages = client.simple_query(text).await?;
            let rows = messages.into_iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(
                    (0..row.len())
                        .map(|column| row.get(column).unwrap_or_default().to_owned())
                        .collect(),
                ),
                _ => None,
            });
            Ok(rows.collect())
        })
    }

    /// Runs a program of PostgreSQL with the address of this server, and returns its output.
    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) -> Vec<u8> {
        let mut command = as_server_user(program);
        command
            .env("PGPASSWORD", PASSWORD)
            .args(["-h", "127.0.0.1", "-U", "orrery", "-d", "postgres", "-p"])
            .arg(self.port.to_string())
            .args(arguments);
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {errors}");
        output.stdout
    }

    /// Makes the server take TLS, with this certificate and key in PEM.
    pub(crate) fn use_tls(&self, certificate: &str, key: &str) {
        let data = self.folder.path().join("data");
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            // Written by the server's user, who must own the key.
            let mut write = as_server_user("sh")
                .args(["-c", "umask 077; cat > \"$1\"", "sh"])
                .arg(data.join(name))
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            write
                .stdin
                .take()
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
            assert!(write.wait().unwrap().success());
        }
        self.sql("ALTER SYSTEM SET ssl = on");
        self.sql("SELECT pg_reload_conf()");
        self.wait_for_sql("SHOW ssl", |rows| rows == [["on"]]);
    }

    /// Runs pgbench on this server, and returns its output.
    pub(crate) fn pgbench(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = as_server_user("pgbench");
        command
            .env("PGPASSWORD", PASSWORD)
            .args(["-h", "127.0.0.1", "-U", "orrery", "-p"])
            .arg(self.port.to_string())
            .args(arguments)
            .arg("postgres");
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "pgbench: {errors}");
        output.stdout
    }

    /// Makes a standby the primary.
    pub(crate) fn promote(&self) {
        let done = as_server_user("pg_ctl")
            .args(["-w", "promote", "-D"])
            .arg(self.folder.path().join("data"))
            .output()
            .unwrap();
        assert!(done.status.success());
    }

    /// Returns the folder of the server, in which its user may write.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The folder is removed after the server has ended.
        let _ = self.keeper.wait();
    }
}

/// Returns the text of a cluster file for the program.
pub(crate) fn cluster_file(clusters: &[ClusterConfig]) -> String {
    let mut text = String::new();
    for config in clusters {
        let password = config.password_file.as_deref().unwrap();
        text += &format!(
            "[[cluster]]\nname = {:?}\nuser = {:?}\ndatabase = {:?}\nschema = {:?}\n\
             password_file = {password:?}\ntls = \"off\"\nfollower_delay_ms = {}\n",
            config.name, config.user, config.database, config.schema, config.follower_delay_ms,
        );
        for host in &config.hosts {
            text += &format!("[[cluster.host]]\naddress = {:?}\n", host.address);
        }
    }
    text
}

/// Returns a schema name that no other test uses.
pub(crate) fn new_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test_{}_{next}", std::process::id())
}

/// Returns a new folder that the server's user owns.
pub(crate) fn server_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    give_to_server_user(folder.path());
    folder
}

fn give_to_server_user(folder: &Path) {
    if is_root() {
        let owned = Command::new("chown")
            .args(["-R", "postgres:"])
            .arg(folder)
            .status();
        assert!(owned.unwrap().success(), "there is no user postgres");
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns the newest directory with programs of PostgreSQL.
fn binaries() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .collect();
    versions.sort();
    let (_, newest) = versions
        .pop()
        .expect("install the Debian package postgresql");
    newest
}

/// Returns the command that runs a program of PostgreSQL, or of the system, as a user that may.
fn as_server_user(program: &str) -> Command {
    let own = binaries().join(program);
    let program = if own.exists() { own } else { program.into() };
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/");
    command
}

/// Opens a store, which must succeed.
pub(crate) fn open(config: &ClusterConfig) -> PostgresStore {
    PostgresStore::open(config.clone()).unwrap()
}
