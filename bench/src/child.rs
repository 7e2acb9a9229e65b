//! Processes that are measured: the server program, and the bare HTTP server.

use crate::Result;
use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A process that listens; it ends with this value.
pub(crate) struct Child {
    process: std::process::Child,
    /// Address and port.
    pub(crate) address: String,
    /// The account's key in base64, if it is a database server.
    pub(crate) key: String,
}

impl Child {
    /// Starts `command`, gives it `input`, and waits for the line in which it says where it listens.
    pub(crate) fn start(command: &mut Command, input: &[u8]) -> Result<Child> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = process.stdin.take() {
            std::io::Write::write_all(&mut stdin, input)?;
        }
        let mut line = String::new();
        let stdout = process
            .stdout
            .take()
            .ok_or("the process has no standard output")?;
        // In the guard before anything can fail, so that it does not stay behind.
        let mut child = Child {
            process,
            address: String::new(),
            key: String::new(),
        };
        BufReader::new(stdout).read_line(&mut line)?;
        let ready =
            parse(line.as_bytes()).map_err(|_| format!("the process did not get ready: {line}"))?;
        let text = |name: &str| ready.get(name).and_then(Json::as_str).unwrap_or_default();
        child.address = text("endpoint_http")
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        child.key = text("key").to_owned();
        Ok(child)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Brings the server program up to date, if cargo started us.
pub(crate) fn cargo_build() -> Result<()> {
    let Some(cargo) = std::env::var_os("CARGO") else {
        return Ok(());
    };
    let built = Command::new(cargo)
        .args(["build", "--release", "--package", "orrery-server"])
        .status()?;
    if built.success() {
        Ok(())
    } else {
        Err("the server program could not be built".into())
    }
}

/// Starts the server program, which lies beside this one, on a data directory.
pub(crate) fn ready_server(directory: &Path) -> Result<Child> {
    let program = std::env::current_exe()?.with_file_name("orrery");
    if !program.exists() {
        return Err(format!(
            "there is no {}: build it with the same profile",
            program.display()
        )
        .into());
    }
    let mut command = Command::new(program);
    command.args([
        "start",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "off",
        "--ready-json",
    ]);
    command.arg("--data-dir").arg(directory);
    Child::start(&mut command, b"")
}
