//! A server of this program for the time of another command, in a process of its own.
//!
//! Promises: variables and configuration files of the user, which are for another server, change
//! nothing here.

use orrery_model::Json;
use orrery_model::json::parse;
use orrery_server::Failure;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The beginnings of the names of variables that set options, and the exporter of telemetry.
const VARIABLES: [&str; 2] = ["ORRERY_", "OTEL_"];

/// A server on a data directory. Dropping it ends the process; the directory stays.
pub(crate) struct TemporaryServer {
    process: Child,
    /// URL of the port for clients.
    pub(crate) endpoint: String,
    /// Primary key of the account.
    pub(crate) key: String,
}

impl TemporaryServer {
    /// Starts a server with further options of `orrery start`, and waits until it is ready.
    ///
    /// # Errors
    /// [`Failure::Failed`] if the server does not start.
    pub(crate) fn start(directory: &Path, options: &[&OsStr]) -> Result<Self, Failure> {
        let failed =
            |action: &str, error: io::Error| Failure::Failed(format!("cannot {action}: {error}"));
        let program = std::env::current_exe()
            .map_err(|error| failed("determine the path of this program", error))?;

        let directory = std::path::absolute(directory)
            .map_err(|error| failed("determine the path of the data directory", error))?;

        // A configuration file would be in this directory, and a data directory has none.
        let mut command = Command::new(program);
        command.env("XDG_CONFIG_HOME", &directory);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if VARIABLES.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }

        // Port 0 selects a free port, so that a running server is not disturbed.
        // Standard error is inherited, so that the user sees why a server does not start.
        let mut process = command
            .args(["start", "--listen", "127.0.0.1:0", "--admin-listen", "off"])
            .args(["--ready-json", "--log-level", "error"])
            .args(options)
            .arg("--data-dir")
            .arg(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("start a server", error))?;
        let stdout = process.stdout.take();

        // From here on an early return drops the server, which ends the process.
        let mut server = TemporaryServer {
            process,
            endpoint: String::new(),
            key: String::new(),
        };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout)
                .read_line(&mut line)
                .map_err(|error| failed("read the output of the server", error))?;
        }

        // A server that does not start prints no line; its message stands on standard error.
        let ready = parse(line.as_bytes()).unwrap_or(Json::Null);
        let endpoint = ready.get("endpoint_http").and_then(Json::as_str);
        let key = ready.get("key").and_then(Json::as_str);
        let (Some(endpoint), Some(key)) = (endpoint, key) else {
            return Err(Failure::Failed(
                "the server did not start; its message stands above".into(),
            ));
        };
        server.endpoint = endpoint.to_owned();
        server.key = key.to_owned();
        Ok(server)
    }
}

impl Drop for TemporaryServer {
    fn drop(&mut self) {
        // The process may have ended already. Acknowledged writes are durable, so an orderly
        // shutdown is not needed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
