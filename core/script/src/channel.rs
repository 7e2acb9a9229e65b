//! The child's end of the pipe to its parent.

use std::io::{BufReader, Stdin, Stdout};

use crate::error::ScriptError;
use crate::frame::{fits, read_frame, write_frame};
use crate::wire::{FromHost, ToHost, Wire};

/// Standard input and output, as messages.
#[derive(Debug)]
pub(crate) struct Channel {
    input: BufReader<Stdin>,
    output: Stdout,
}

impl Channel {
    /// Opens the channel over standard input and output.
    pub(crate) fn open() -> Self {
        Self {
            input: BufReader::new(std::io::stdin()),
            output: std::io::stdout(),
        }
    }

    /// Waits for a message. Returns `None` if the parent is gone or its bytes are no message.
    pub(crate) fn receive(&mut self) -> Option<ToHost> {
        let payload = read_frame(&mut self.input).ok()??;
        ToHost::from_bytes(&payload).ok()
    }

    /// Sends a message. Returns `None` if the parent is gone. A message too large for a frame is
    /// replaced by the failure that says so.
    pub(crate) fn send(&mut self, message: &FromHost) -> Option<()> {
        let mut payload = message.to_bytes();
        if !fits(payload.len()) {
            let description = format!("a result of {} bytes", payload.len());
            payload = FromHost::Failed(ScriptError::TooLarge(description)).to_bytes();
        }
        self.send_payload(&payload)
    }

    /// Sends the bytes of a message that fits into a frame. Returns `None` if the parent is gone.
    pub(crate) fn send_payload(&mut self, payload: &[u8]) -> Option<()> {
        write_frame(&mut self.output, payload).ok()
    }
}
