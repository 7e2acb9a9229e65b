//! One script-host process, seen from the parent: started with an empty environment, addressed in
//! frames, ended when dropped.

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use crate::error::ScriptError;
use crate::frame::{fits, read_frame, write_frame};
use crate::watchdog::WatchedChild;
use crate::wire::{FromHost, Limits, ToHost, Wire};

/// The command that starts a script host: a program whose `main` calls
/// [`serve_script_host`](crate::serve_script_host).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// Path of the program.
    pub program: OsString,
    /// Arguments of the program, such as a hidden sub-command.
    pub arguments: Vec<OsString>,
}

/// A child process and both ends of its pipe.
#[derive(Debug)]
pub(crate) struct HostProcess {
    child: Arc<WatchedChild>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The process has served before. Only such a process may have died unnoticed since.
    pub(crate) has_served: bool,
}

impl HostProcess {
    /// Starts a process and sends it its limits.
    pub(crate) fn start(command: &HostCommand, limits: Limits) -> Result<Self, ScriptError> {
        let mut host = Command::new(&command.program);
        // The process gets a group of its own, so that the priority of all its threads can be
        // changed at once, see `WatchedChild::lower`.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut host, 0);
        let mut child = host
            .args(&command.arguments)
            .env_clear()
            // Dates in scripts read UTC, as in the service.
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error: io::Error| {
                let program = command.program.to_string_lossy();
                ScriptError::HostNotStarted(format!("{program}: {error}"))
            })?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let child = Arc::new(WatchedChild::new(child));
        let (Some(input), Some(output)) = pipes else {
            child.end();
            return Err(ScriptError::HostNotStarted("it has no pipes".into()));
        };
        let mut process = Self {
            child,
            input,
            output: BufReader::new(output),
            has_served: false,
        };
        process.send(&ToHost::Hello(limits))?;
        Ok(process)
    }

    /// Returns the child, for the watchdog.
    pub(crate) fn child(&self) -> Arc<WatchedChild> {
        Arc::clone(&self.child)
    }

    /// Sends a message. A message too large for a frame is refused and leaves the process as it
    /// was.
    pub(crate) fn send(&mut self, message: &ToHost) -> Result<(), ScriptError> {
        let payload = message.to_bytes();
        if !fits(payload.len()) {
            let description = format!("a message of {} bytes", payload.len());
            return Err(ScriptError::TooLarge(description));
        }
        write_frame(&mut self.input, &payload).map_err(|error| self.pipe_error(&error.to_string()))
    }

    /// Waits for a message.
    pub(crate) fn receive(&mut self) -> Result<FromHost, ScriptError> {
        match read_frame(&mut self.output) {
            Ok(Some(payload)) => FromHost::from_bytes(&payload)
                .map_err(|_| self.pipe_error("it sent a malformed message")),
            Ok(None) => Err(self.pipe_error("it closed its pipe")),
            Err(error) => Err(self.pipe_error(&error.to_string())),
        }
    }

    /// Returns the error for a broken pipe or a wrong message: a timeout if the watchdog ended the
    /// process, an eviction if its ticket did, else the death of the process.
    pub(crate) fn pipe_error(&self, reason: &str) -> ScriptError {
        if self.child.is_evicted() {
            ScriptError::Evicted
        } else if self.child.is_overdue() {
            ScriptError::TimedOut
        } else {
            ScriptError::HostDied(reason.into())
        }
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        self.child.end();
    }
}
