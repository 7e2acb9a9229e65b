//! One script-host process, seen from the parent: started with nothing of our environment, spoken to in frames,
//! ended when dropped.

use std::io::{self, BufReader};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use crate::error::ScriptError;
use crate::frame::{fits, read_frame, write_frame};
use crate::pool::HostCommand;
use crate::watchdog::Mortal;
use crate::wire::{FromHost, Limits, ToHost, Wire};

/// A child and both ends of its pipe.
#[derive(Debug)]
pub(crate) struct HostProcess {
    mortal: Arc<Mortal>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Whether it has served before: only such a one may have died unnoticed since.
    pub(crate) served: bool,
}

impl HostProcess {
    /// Starts one and tells it its limits.
    pub(crate) fn start(command: &HostCommand, limits: Limits) -> Result<Self, ScriptError> {
        let not_started = |error: io::Error| {
            ScriptError::HostNotStarted(format!("{}: {error}", command.program.to_string_lossy()))
        };
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .env_clear()
            // Dates in scripts read UTC, as in the service.
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(not_started)?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let mortal = Arc::new(Mortal::new(child));
        let (Some(input), Some(output)) = pipes else {
            mortal.end();
            return Err(ScriptError::HostNotStarted("it has no pipes".into()));
        };
        let mut process = Self {
            mortal,
            input,
            output: BufReader::new(output),
            served: false,
        };
        process.send(&ToHost::Hello(limits))?;
        Ok(process)
    }

    /// What the watchdog needs.
    pub(crate) fn mortal(&self) -> Arc<Mortal> {
        Arc::clone(&self.mortal)
    }

    /// Sends a message; too large a one is refused and leaves the process as it was.
    pub(crate) fn send(&mut self, message: &ToHost) -> Result<(), ScriptError> {
        let payload = message.to_bytes();
        if !fits(payload.len()) {
            return Err(ScriptError::TooLarge(format!(
                "a message of {} bytes",
                payload.len()
            )));
        }
        write_frame(&mut self.input, &payload).map_err(|error| self.broken(&error.to_string()))
    }

    /// Waits for a message.
    pub(crate) fn receive(&mut self) -> Result<FromHost, ScriptError> {
        match read_frame(&mut self.output) {
            Ok(Some(payload)) => FromHost::from_bytes(&payload)
                .map_err(|_| self.broken("it sent a malformed message")),
            Ok(None) => Err(self.broken("it closed its pipe")),
            Err(error) => Err(self.broken(&error.to_string())),
        }
    }

    /// Why the pipe broke: the deadline, or the process itself.
    pub(crate) fn broken(&self, reason: &str) -> ScriptError {
        if self.mortal.is_overdue() {
            ScriptError::TimedOut
        } else {
            ScriptError::HostDied(reason.into())
        }
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        self.mortal.end();
    }
}
