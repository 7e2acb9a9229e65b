//! The command line of an example, and the server of a run: a process of its own on a free port
//! with its data in memory, or a running server that `--endpoint` and `--key` name.

use crate::Result;
use crate::client::connect;
use crate::container::Database;
use clap::Parser;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Options of an example.
#[derive(Debug, Parser)]
pub struct Options {
    /// Endpoint of a running server, which must enforce throughput (orrery start
    /// --enforce-throughput on) [default: a server in memory for this run]
    #[arg(long, value_name = "URL", requires = "key")]
    pub endpoint: Option<String>,
    /// Master key of the running server
    #[arg(long, value_name = "KEY", env = "ORRERY_KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// Database to create for this run and to delete at the end [default: the example's name]
    #[arg(long, value_name = "NAME")]
    pub database: Option<String>,
}

/// The server and the database of a run.
pub struct Run {
    /// The database that the example created.
    pub database: Database,
    // The process ends with the value.
    _server: Option<LocalServer>,
}

impl Options {
    /// Starts or finds the server and creates the database, `name` unless the options have another.
    pub async fn begin(&self, name: &str) -> Result<Run> {
        let (client, server) = match (&self.endpoint, &self.key) {
            (Some(endpoint), Some(key)) => (connect(endpoint, key)?, None),
            _ => {
                let (server, endpoint, key) = LocalServer::start()?;
                (connect(&endpoint, &key)?, Some(server))
            }
        };
        let name = self.database.as_deref().unwrap_or(name);
        Ok(Run {
            database: Database::create(&client, name).await?,
            _server: server,
        })
    }
}

/// A server process; it ends with the value.
struct LocalServer(Child);

impl LocalServer {
    /// Starts a server and returns its endpoint and key.
    fn start() -> Result<(LocalServer, String, String)> {
        let program = server_program()?;
        let mut process = Command::new(&program)
            .args(["start", "--memory", "--listen", "127.0.0.1:0"])
            .args(["--admin-listen", "off", "--enforce-throughput", "on"])
            .args(["--log-level", "error", "--ready-json"])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
        let output = process.stdout.take();
        let server = LocalServer(process);

        // The server writes one line to its output when it is ready.
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line)?;
        }
        let ready = serde_json::from_str::<Value>(&line)
            .map_err(|_| format!("{} ended before it was ready", program.display()))?;
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
        Ok((server, text("endpoint_http"), text("key")))
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        // Both calls fail if the server has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the server program: the one that `ORRERY_BIN` names, or else `orrery` beside the
/// example, where cargo builds both.
fn server_program() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("ORRERY_BIN") {
        return Ok(named.into());
    }
    let name = format!("orrery{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe()?.with_file_name(name);
    if beside.exists() {
        return Ok(beside);
    }
    Err(format!(
        "there is no server program at {}; build it with `cargo build -p orrery-cli`, name one \
         in ORRERY_BIN, or name a running server with --endpoint and --key",
        beside.display()
    )
    .into())
}
