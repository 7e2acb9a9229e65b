//! Failures that end the program, with their exit codes.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | the command failed |
//! | 2 | the command line is wrong; the parser of the command line uses this code too |
//! | 4 | the data directory cannot be opened |

use orrery_node::NodeError;
use std::fmt::{self, Write as _};
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
        write_printable(message, f)
    }
}

impl std::error::Error for Failure {}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Failure {
        match error {
            NodeError::Usage(message) => Failure::Usage(message),
            NodeError::Data(message) => Failure::Data(message),
        }
    }
}

/// Writes a message. Control characters are escaped, except for line ends and tabs: a message may
/// repeat the text of another server, and the terminal would obey such characters.
fn write_printable(message: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for character in message.chars() {
        match character {
            '\n' | '\t' => f.write_char(character)?,
            _ if character.is_control() => write!(f, "{}", character.escape_debug())?,
            _ => f.write_char(character)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_obeys_no_message() {
        let failure = Failure::Failed("line\n\u{1b}[2Jcleared\u{9b}".into());
        assert_eq!(failure.to_string(), "line\n\\u{1b}[2Jcleared\\u{9b}");
    }
}
