//! Failures that end a server, with a message for its operator.

use orrery_node::NodeError;
use std::fmt::{self, Write as _};

/// A failure, with a message for the operator.
#[derive(Debug)]
pub enum Failure {
    /// The work failed.
    Failed(String),
    /// The configuration asks for an impossible combination.
    Usage(String),
    /// The data directory cannot be opened.
    Data(String),
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
