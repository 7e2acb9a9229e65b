//! Failures that end the program, with their exit codes.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | the command failed |
//! | 2 | the command line is wrong; the parser of the command line uses this code too |
//! | 4 | the data directory cannot be opened |

use std::fmt;
use std::process::ExitCode;

/// A failure, with a message for the user at the terminal.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command failed.
    Failed(String),
    /// The command line asks for an impossible combination.
    Usage(String),
    /// The data directory cannot be opened.
    Data(String),
}

impl Failure {
    /// Returns the exit code of the program.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Data(_) => 4,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Failed(message) | Failure::Usage(message) | Failure::Data(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Failure {}
