//! Failures of statements in words: the message of the server, the place in the query, the remedy.

use crate::query::QueryError;
use crate::transfer::TransferError;
use orrery_client::{ClientError, Refusal};
use serde::Deserialize;
use std::io;

/// The reason for which a statement failed.
#[derive(Debug)]
pub enum ShellError {
    /// The statement failed; the text is for the user and may have several lines.
    Failed(String),
    /// The reader of standard output has gone.
    Closed,
}

impl From<io::Error> for ShellError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(format!("cannot write to standard output: {error}")),
        }
    }
}

impl From<String> for ShellError {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<ClientError> for ShellError {
    fn from(error: ClientError) -> Self {
        Self::Failed(described(&error, None))
    }
}

impl From<TransferError> for ShellError {
    fn from(error: TransferError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Returns the failure of a query, with its place in the text.
pub(super) fn of_query(error: &QueryError, query: &str) -> ShellError {
    ShellError::Failed(match error {
        QueryError::Client(error) => described(error, Some(query)),
        error => error.to_string(),
    })
}

/// Returns a failure in words.
pub(super) fn described(error: &ClientError, query: Option<&str>) -> String {
    let ClientError::Refused(refusal) = error else {
        return match error {
            ClientError::Unreachable { .. } => format!(
                "{error}\nstart a server with `orrery start`, or name another account with \
                 --endpoint or .connect"
            ),
            error => error.to_string(),
        };
    };
    // A query that is refused for its text has a list of faults in place of a sentence.
    let diagnostics = diagnostics(&refusal.message);
    if diagnostics.is_empty() {
        return format!("{refusal}{}", remedy(refusal));
    }
    let mut text = String::new();
    for (at, diagnostic) in diagnostics.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        text.push_str(&diagnostic.message);
        if !diagnostic.code.is_empty() {
            text.push_str(&format!(" ({})", diagnostic.code));
        }
        if let (Some(query), Some(place)) = (query, &diagnostic.location) {
            text.push_str(&marked(query, place));
        }
    }
    text
}

/// A fault of a query, as the server tells it.
#[derive(Debug, Deserialize)]
struct Diagnostic {
    message: String,
    #[serde(default)]
    code: String,
    location: Option<Place>,
}

/// A place in a query, in units of UTF-16.
#[derive(Debug, Deserialize)]
struct Place {
    start: usize,
    end: usize,
}

/// Returns the faults in a message `Message: {"errors":[…]}`.
fn diagnostics(message: &str) -> Vec<Diagnostic> {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Diagnostic>,
    }
    let Some(begin) = message.find('{') else {
        return Vec::new();
    };
    let mut values = serde_json::Deserializer::from_str(&message[begin..]).into_iter::<Errors>();
    match values.next() {
        Some(Ok(errors)) => errors.errors,
        _ => Vec::new(),
    }
}

/// Returns the line of the query with the place, and a line with marks below the place.
fn marked(query: &str, place: &Place) -> String {
    let mut units = 0;
    for line in query.split('\n') {
        let length = line.encode_utf16().count();
        if place.start > units + length {
            units += length + 1;
            continue;
        }
        // Marks stand by the width of characters on the screen; a tab is kept.
        let (mut before, mut marks, mut at) = (String::new(), String::new(), units);
        for c in line.chars() {
            let width = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
            if at < place.start {
                match c {
                    '\t' => before.push('\t'),
                    _ => before.push_str(&" ".repeat(width)),
                }
            } else if at < place.end {
                marks.push_str(&"^".repeat(width.max(1)));
            }
            at += c.len_utf16();
        }
        if marks.is_empty() {
            marks.push('^');
        }
        return format!("\n  {line}\n  {before}{marks}");
    }
    String::new()
}

/// Returns the remedy for a refusal, in a line of its own.
fn remedy(refusal: &Refusal) -> &'static str {
    match refusal.status {
        401 => "\nname the file with the key of this account: --key-file FILE, or .connect",
        404 if refusal.operation.contains("/docs/") => {
            "\nan item is found by its id together with its partition key"
        }
        404 => "\n.databases and .containers list what exists",
        409 => "\n.put replaces an item that exists",
        429 => "\nthe container has too few RU/s for this statement; wait, or raise them",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, message: &str) -> ClientError {
        ClientError::Refused(Box::new(Refusal {
            operation: "POST /dbs/a/colls/b/docs".into(),
            status,
            sub_status: 0,
            code: "BadRequest".into(),
            message: message.into(),
            activity_id: String::new(),
            charge: 0.0,
            retry_after: None,
        }))
    }

    #[test]
    fn the_place_of_a_fault_is_marked() {
        let message = r#"Message: {"errors":[{"severity":"Error","location":{"start":17,
            "end":21},"code":"SC1001","message":"Syntax error."}]}"#;
        let query = "SELECT '日é'\nFROM FORM d";
        let told = described(&refused(400, message), Some(query));
        assert_eq!(
            told,
            "Syntax error. (SC1001)\n  FROM FORM d\n       ^^^^ ".trim_end()
        );
        let at_the_end = marked("SELECT 日", &Place { start: 8, end: 8 });
        assert_eq!(at_the_end, "\n  SELECT 日\n           ^");
        assert_eq!(marked("a", &Place { start: 9, end: 9 }), "");
    }

    #[test]
    fn a_failure_has_its_remedy() {
        let told = described(&refused(404, "gone"), None);
        assert!(told.contains("404/0: gone\n.databases"), "{told}");
        let unreachable = ClientError::Unreachable {
            operation: "GET /".into(),
            cause: "refused".into(),
            may_have_arrived: false,
        };
        assert!(described(&unreachable, None).contains("`orrery start`"));
        assert!(described(&refused(400, "Message: {\"Errors\":[\"x\"]}"), None).contains("\"x\""));
    }
}
