//! The measured processes: the server program and the bare HTTP server, or a server that runs
//! already.

use crate::Result;
use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A server that listens on a port. If this program started its process, the process is killed
/// when this value is dropped.
pub(crate) struct ServerProcess {
    process: Option<std::process::Child>,
    /// Address and port on which the process listens.
    pub(crate) address: String,
    /// The account's key in base64; empty for the bare HTTP server.
    pub(crate) key: String,
}

impl ServerProcess {
    /// Starts `command`, writes `input` to its standard input, and reads its address from the first
    /// line of its output, a JSON object.
    pub(crate) fn start(command: &mut Command, input: &[u8]) -> Result<ServerProcess> {
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
        // From here on an error drops the value, which kills the process.
        let mut server = ServerProcess {
            process: Some(process),
            address: String::new(),
            key: String::new(),
        };
        BufReader::new(stdout).read_line(&mut line)?;
        let ready =
            parse(line.as_bytes()).map_err(|_| format!("the process did not get ready: {line}"))?;
        let text = |name: &str| ready.get(name).and_then(Json::as_str).unwrap_or_default();
        server.address = text("endpoint_http")
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        server.key = text("key").to_owned();
        Ok(server)
    }

    /// Returns a server that runs already, with the key of the emulator.
    pub(crate) fn running(address: &str) -> ServerProcess {
        ServerProcess {
            process: None,
            address: address.to_owned(),
            key: orrery_gateway::WELL_KNOWN_KEY.to_owned(),
        }
    }

    /// Ends the process in order, with SIGTERM, and waits for its end.
    pub(crate) fn stop(mut self) -> Result<()> {
        let Some(process) = &mut self.process else {
            return Err("this program did not start the server".into());
        };
        let id = process.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        let ended = process.wait()?;
        match ended.success() {
            true => Ok(()),
            false => Err(format!("the server ended with {ended}").into()),
        }
    }

    /// Returns the memory of the process that is resident, in bytes; `None` on a system without
    /// `/proc`.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        let id = self.process.as_ref()?.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kibibytes * 1024)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // The process may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Builds the server program if cargo started this process.
pub(crate) fn cargo_build() -> Result<()> {
    let Some(cargo) = std::env::var_os("CARGO") else {
        return Ok(());
    };
    let built = Command::new(cargo)
        .args(["build", "--profile", "bench", "--package", "orrery-cli"])
        .status()?;
    if built.success() {
        Ok(())
    } else {
        Err("the server program could not be built".into())
    }
}

/// Starts the server program on a data directory, with further options.
pub(crate) fn ready_server(directory: &Path, options: &[&str]) -> Result<ServerProcess> {
    let mut command = server_command()?;
    command.args(options).arg("--data-dir").arg(directory);
    ServerProcess::start(&mut command, b"")
}

/// Starts the server program with its data in memory.
pub(crate) fn memory_server() -> Result<ServerProcess> {
    let mut command = server_command()?;
    command.arg("--memory");
    ServerProcess::start(&mut command, b"")
}

/// Returns the command of the server program, which must be in the directory of this program.
fn server_command() -> Result<Command> {
    let program = std::env::current_exe()?.with_file_name("orrery");
    if !program.exists() {
        return Err(format!(
            "{} does not exist: build it with the same profile",
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
    Ok(command)
}
