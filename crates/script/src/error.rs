//! How an execution fails, in terms of the script. Whoever called has to undo what the script wrote.
//!
//! The service's answers, for the table that turns these into status codes:
//! [`Compile`](ScriptError::Compile) 400/65535, [`Thrown`](ScriptError::Thrown) 400/number,
//! [`UnhandledHostFailure`](ScriptError::UnhandledHostFailure) 400/number, [`BadArguments`](ScriptError::BadArguments)
//! 400, [`TimedOut`](ScriptError::TimedOut) 408, [`OutOfMemory`](ScriptError::OutOfMemory) and
//! [`TooDeep`](ScriptError::TooDeep) 400, [`TooLarge`](ScriptError::TooLarge) 413; the rest is the server's own fault.

use std::fmt;

/// Why an execution failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptError {
    /// The source is not one function in JavaScript.
    Compile {
        /// What the parser said, with the place.
        message: String,
    },
    /// The script threw and did not catch.
    Thrown {
        /// The property `number` of what was thrown, if it is a whole number.
        number: Option<i64>,
        /// The exception as text: `Error: the message`.
        message: String,
        /// One line per frame of the script, if there is a trace.
        stack: String,
    },
    /// A collection call without a callback failed.
    UnhandledHostFailure {
        /// The host's number.
        number: u16,
        /// The host's words.
        message: String,
    },
    /// The arguments are not an array, an array-like object, `null` or nothing.
    BadArguments(String),
    /// A function was called that the session does not have.
    UnknownFunction(String),
    /// The time budget ran out, in the script or in a builtin it called.
    TimedOut,
    /// The script wanted more memory than it may have.
    OutOfMemory,
    /// The script called itself too deep.
    TooDeep,
    /// A source, argument, reply or result does not fit into a message.
    TooLarge(String),
    /// The script-host process went away in the middle of an execution.
    HostDied(String),
    /// No script-host process could be started.
    HostNotStarted(String),
    /// Every script-host process stayed occupied for the whole time budget.
    Busy,
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
                "Encountered exception while executing Javascript. Exception = {message}\r\nStack trace: {stack}"
            ),
            Self::UnhandledHostFailure { number, message } => write!(
                f,
                "Encountered exception while executing Javascript. Exception = Error: a collection call without a \
                 callback failed with {number}: {message}"
            ),
            Self::BadArguments(reason) => {
                write!(f, "the arguments of the script are not valid: {reason}")
            }
            Self::UnknownFunction(name) => {
                write!(f, "user-defined function '{name}' does not exist")
            }
            Self::TimedOut => f.write_str("the script ran longer than its time budget"),
            Self::OutOfMemory => f.write_str("the script used more memory than it may have"),
            Self::TooDeep => f.write_str("the script called itself too deep"),
            Self::TooLarge(what) => write!(f, "too large for a script: {what}"),
            Self::HostDied(reason) => write!(
                f,
                "the script-host process ended during an execution: {reason}"
            ),
            Self::HostNotStarted(reason) => {
                write!(f, "no script-host process could be started: {reason}")
            }
            Self::Busy => f.write_str("every script-host process stayed occupied"),
        }
    }
}

impl std::error::Error for ScriptError {}
