//! The main loop of the child process: it reads messages, runs scripts, answers, and ends when its
//! input closes.
//!
//! The next runtime is created after an answer, while the parent does not wait for it.

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use crate::channel::Channel;
use crate::error::ScriptError;
use crate::interpreter::InterpreterFactory;
use crate::wire::{FromHost, Limits, ToHost};

/// Bytes of the thread's stack beyond the bytes that scripts may use, for the natives they call.
const STACK_RESERVE_BYTES: u64 = 8 * 1024 * 1024;
/// The most bytes of script stack, whatever the parent requests.
const STACK_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Steps by which the priority of scripts is below that of the server.
#[cfg(unix)]
const PRIORITY_STEP: i32 = 5;

/// Serves scripts over standard input and output until the input closes. This is the body of the
/// hidden sub-command.
///
/// Both ends speak the pool's frames, so the function is of no use in a terminal.
#[must_use]
pub fn serve_script_host() -> ExitCode {
    // Scripts give way to the server. A system that refuses it runs them as before.
    #[cfg(unix)]
    let _ = rustix::process::nice(PRIORITY_STEP);
    let mut channel = Channel::open();
    let Some(ToHost::Hello(limits)) = channel.receive() else {
        return ExitCode::FAILURE;
    };
    let limits = Limits {
        stack_bytes: limits.stack_bytes.min(STACK_BYTES_MAX),
        ..limits
    };
    // The interpreter checks its stack against the limit; the thread's stack must be larger.
    let stack_bytes = limits.stack_bytes + STACK_RESERVE_BYTES;
    let thread = std::thread::Builder::new()
        .name("script".into())
        .stack_size(usize::try_from(stack_bytes).unwrap_or(usize::MAX))
        .spawn(move || serve(channel, limits));
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Answers messages until the parent is gone or sends a message out of turn.
fn serve(channel: Channel, limits: Limits) {
    let channel = Rc::new(RefCell::new(channel));
    let Ok(factory) = InterpreterFactory::new(limits, Rc::clone(&channel)) else {
        return;
    };
    let mut interpreter = factory.interpreter();
    // True while the interpreter holds the functions of a session.
    let mut in_session = false;
    loop {
        let Some(message) = channel.borrow_mut().receive() else {
            return;
        };
        // A session keeps its interpreter from batch to batch. Any other message ends the session,
        // and the next script must not see its state.
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
            ) => interpreter.define_functions(&sources, now_ms, seed),
            (Some(interpreter), ToHost::Batch { name, rows }) => {
                interpreter.call_function(&name, &rows)
            }
            (Some(_), ToHost::Hello(_) | ToHost::Reply(_) | ToHost::Refusal(_)) => return,
        };
        if channel.borrow_mut().send(&answer).is_none() {
            return;
        }
        // The old runtime is dropped before the new one is created, to keep one heap at a time.
        if !in_session {
            drop(interpreter.take());
            interpreter = factory.interpreter();
        }
    }
}
