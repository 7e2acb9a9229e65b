//! The failures of an execution, in terms of the script. After a failure the caller undoes what the
//! script wrote.
//!
//! The service answers each failure with a status, for the table that turns failures into status
//! codes:
//!
//! | failure | status |
//! |---|---|
//! | [`Compile`](ScriptError::Compile) | 400/65535 |
//! | [`Thrown`](ScriptError::Thrown) | 400/number |
//! | [`UnhandledHostFailure`](ScriptError::UnhandledHostFailure) | 400/number |
//! | [`BadArguments`](ScriptError::BadArguments) | 400 |
//! | [`TimedOut`](ScriptError::TimedOut) | 408 |
//! | [`OutOfMemory`](ScriptError::OutOfMemory), [`TooDeep`](ScriptError::TooDeep) | 400 |
//! | [`TooLarge`](ScriptError::TooLarge) | 413 |
//!
//! The other failures are faults of the server.

use std::fmt;

/// The failure of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptError {
    /// The source is not one function in JavaScript.
    Compile {
        /// The message of the parser, with the position.
        message: String,
    },
    /// The script threw an exception and did not catch it.
    Thrown {
        /// The property `number` of the thrown value, if it is a whole number.
        number: Option<i64>,
        /// The exception as text: `Error: the message`.
        message: String,
        /// One line per frame of the script, if there is a trace.
        stack: String,
    },
    /// A collection call without a callback failed.
    UnhandledHostFailure {
        /// The number of the host's refusal.
        number: u16,
        /// The message of the host's refusal.
        message: String,
    },
    /// The arguments are not an array, an array-like object, `null` or nothing.
    BadArguments(String),
    /// The called function is not in the session.
    UnknownFunction(String),
    /// The time budget ran out, in the script or in a builtin it called.
    TimedOut,
    /// The script needed more memory than it may use.
    OutOfMemory,
    /// The calls of the script were nested too deeply.
    TooDeep,
    /// A source, argument, reply or result does not fit into a message.
    TooLarge(String),
    /// The script-host process ended during an execution.
    HostDied(String),
    /// No script-host process could be started.
    HostNotStarted(String),
    /// Every script-host process was busy for the whole time budget.
    Busy,
    /// The script was ended for others: it was long, and too many long scripts were running.
    Evicted,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile { message } => {
                write!(
                    f,
                    "Encountered exception while compiling Javascript. Exception = {message}"
                )
            }
            Self::Thrown { message, stack, .. } => write!(
                f,
                "Encountered exception while executing Javascript. Exception = {message}\r\n\
                 Stack trace: {stack}"
            ),
            Self::UnhandledHostFailure { number, message } => write!(
                f,
                "Encountered exception while executing Javascript. Exception = Error: a collection \
                 call without a callback failed with {number}: {message}"
            ),
            Self::BadArguments(reason) => {
                write!(f, "the arguments of the script are not valid: {reason}")
            }
            Self::UnknownFunction(name) => {
                write!(
                    f,
                    "user-defined function '{name}' does not exist: create it on the container"
                )
            }
            Self::TimedOut => f.write_str(
                "the script exceeded its time budget: do less in one run, and call it again with \
                 where it stopped",
            ),
            Self::OutOfMemory => f.write_str("the script exceeded its memory limit"),
            Self::TooDeep => f.write_str("the script exceeded the maximum call depth"),
            Self::TooLarge(what) => write!(f, "too large for a script: {what}"),
            Self::HostDied(reason) => write!(
                f,
                "the script-host process ended during an execution: {reason}"
            ),
            Self::HostNotStarted(reason) => {
                write!(f, "no script-host process could be started: {reason}")
            }
            Self::Busy => f.write_str("every script-host process is busy"),
            Self::Evicted => {
                f.write_str("the script was ended, because too many long scripts were running")
            }
        }
    }
}

impl std::error::Error for ScriptError {}
