//! Why the program ends without having done what it was asked, and with which exit code.

use std::fmt;
use std::process::ExitCode;

/// A reason to end, in a sentence for the person at the terminal.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something went wrong on the way.
    Failed(String),
    /// The command line asks for what cannot be.
    Usage(String),
    /// The data directory cannot be opened.
    Data(String),
}

impl Failure {
    /// The program's exit code.
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
        let (Failure::Failed(text) | Failure::Usage(text) | Failure::Data(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Failure {}
