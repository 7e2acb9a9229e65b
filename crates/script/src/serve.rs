//! The child's side: reads messages, runs scripts, answers; ends when its input closes.
//!
//! The next runtime is made ready after an answer, while nobody waits for it.

use std::cell::RefCell;
use std::io::{BufReader, Stdin, Stdout};
use std::process::ExitCode;
use std::rc::Rc;

use crate::error::ScriptError;
use crate::frame::{fits, read_frame, write_frame};
use crate::interpreter::InterpreterFactory;
use crate::wire::{FromHost, Limits, ToHost, Wire};

/// Bytes of the thread's stack beyond what scripts may use, for the natives they call.
const STACK_RESERVE_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes of script stack at most, whatever the parent asks for.
const STACK_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The child's end of the pipe.
#[derive(Debug)]
pub(crate) struct Channel {
    input: BufReader<Stdin>,
    output: Stdout,
}

impl Channel {
    /// Waits for a message; `None` if the parent is gone or speaks another language.
    pub(crate) fn receive(&mut self) -> Option<ToHost> {
        let payload = read_frame(&mut self.input).ok()??;
        ToHost::from_bytes(&payload).ok()
    }

    /// Sends a message; `None` if the parent is gone. What is too large for a frame becomes a failure that says so.
    pub(crate) fn send(&mut self, message: &FromHost) -> Option<()> {
        let mut payload = message.to_bytes();
        if !fits(payload.len()) {
            let what = format!("a result of {} bytes", payload.len());
            payload = FromHost::Failed(ScriptError::TooLarge(what)).to_bytes();
        }
        self.send_payload(&payload)
    }

    /// Sends bytes that are a message and fit.
    pub(crate) fn send_payload(&mut self, payload: &[u8]) -> Option<()> {
        write_frame(&mut self.output, payload).ok()
    }
}

/// The body of the hidden sub-command: serves scripts over standard input and output until the input closes.
///
/// Not for terminals: both ends speak the pool's frames.
#[must_use]
pub fn serve_script_host() -> ExitCode {
    let mut channel = Channel {
        input: BufReader::new(std::io::stdin()),
        output: std::io::stdout(),
    };
    let Some(ToHost::Hello(limits)) = channel.receive() else {
        return ExitCode::FAILURE;
    };
    let stack = limits.stack_bytes.min(STACK_BYTES_MAX) + STACK_RESERVE_BYTES;
    let served = std::thread::Builder::new()
        .name("script".into())
        .stack_size(usize::try_from(stack).unwrap_or(usize::MAX))
        .spawn(move || serve(channel, limits))
        .map(std::thread::JoinHandle::join);
    match served {
        Ok(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn serve(channel: Channel, limits: Limits) {
    let channel = Rc::new(RefCell::new(channel));
    let limits = Limits {
        stack_bytes: limits.stack_bytes.min(STACK_BYTES_MAX),
        ..limits
    };
    let Ok(factory) = InterpreterFactory::new(limits, Rc::clone(&channel)) else {
        return;
    };
    let mut interpreter = factory.interpreter();
    // Whether the interpreter holds the functions of a session.
    let mut in_session = false;
    loop {
        let Some(message) = channel.borrow_mut().receive() else {
            return;
        };
        let is_batch = matches!(message, ToHost::Batch { .. });
        if in_session && !is_batch {
            drop(interpreter.take());
            interpreter = factory.interpreter();
        }
        in_session = is_batch || matches!(message, ToHost::Functions { .. });
        let answer = match (&interpreter, message) {
            (None, _) => FromHost::Failed(ScriptError::OutOfMemory),
            (Some(interpreter), ToHost::Run(job)) => interpreter.run(&job),
            (
                Some(interpreter),
                ToHost::Functions {
                    sources,
                    now_ms,
                    seed,
                },
            ) => interpreter.define(&sources, now_ms, seed),
            (Some(interpreter), ToHost::Batch { name, rows }) => interpreter.call(&name, &rows),
            (Some(_), ToHost::Hello(_) | ToHost::Reply(_) | ToHost::Refusal(_)) => return,
        };
        if channel.borrow_mut().send(&answer).is_none() {
            return;
        }
        if !in_session {
            drop(interpreter.take());
            interpreter = factory.interpreter();
        }
    }
}
