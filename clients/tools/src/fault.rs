//! Failures in words for a person: the message of the server, the place in a query or a record, the
//! remedy.
//!
//! Promises: a message has the words of the server without the JSON around them. A place is marked
//! in the line that it stands on, which is cut to the width of a terminal.

use crate::query::QueryError;
use orrery_client::tls::is_loopback;
use orrery_client::{ClientError, Refusal};
use serde::Deserialize;
use std::fmt::Write;
use unicode_width::UnicodeWidthChar;

/// Columns of a line with a mark.
const LINE_WIDTH: usize = 96;
/// Columns that stay visible in front of a mark, if the line is cut.
const WIDTH_BEFORE: usize = 48;
/// Indentation of a line with a mark.
const INDENT: &str = "  ";

/// The part of the program that speaks, whose remedies differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// A command such as `orrery query`.
    Command,
    /// A statement of the shell.
    Shell,
}

/// Returns the failure of a query in words, with its place in the text.
pub fn of_query(error: &QueryError, query: &str, voice: Voice) -> String {
    match error {
        QueryError::Client(error) => of_request(error, Some(query), voice),
        error => error.to_string(),
    }
}

/// Returns the failure of a request in words; `query` is the text of the query that it carried.
pub fn of_request(error: &ClientError, query: Option<&str>, voice: Voice) -> String {
    let refusal = match error {
        ClientError::Refused(refusal) => refusal,
        ClientError::Unreachable {
            endpoint,
            cause,
            found_server,
            ..
        } => return unreachable(error, endpoint, cause, *found_server, voice),
        error => return error.to_string(),
    };
    // A query that is refused for its text has a list of faults in place of a sentence.
    let diagnostics = diagnostics(&refusal.message);
    if diagnostics.is_empty() {
        return format!("{}{}", sentence(refusal), remedy(refusal, voice));
    }
    let mut text = String::new();
    for (at, diagnostic) in diagnostics.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        text.push_str(&diagnostic.message);
        if !diagnostic.code.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, " ({})", diagnostic.code);
        }
        if let (Some(query), Some(place)) = (query, &diagnostic.location) {
            text.push_str(&marked(query, place));
        }
    }
    text
}

/// Returns the failure of a request without a complete answer.
fn unreachable(
    error: &ClientError,
    endpoint: &str,
    cause: &str,
    found_server: bool,
    voice: Voice,
) -> String {
    let other = match voice {
        Voice::Command => "--endpoint",
        Voice::Shell => "--endpoint or .connect",
    };
    if !found_server {
        return no_server(endpoint, cause, other);
    }
    if cause.contains("certificate") {
        return format!(
            "{error}\n--ca-file FILE names the root certificates to accept, and --insecure accepts \
             any certificate"
        );
    }
    error.to_string()
}

/// Returns the words for an endpoint at which no server answers; `option` names another one.
pub fn no_server(endpoint: &str, cause: &str, option: &str) -> String {
    let uri: Option<http::Uri> = endpoint.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let first = match is_loopback(host.trim_start_matches('[').trim_end_matches(']')) {
        true => "start one with `orrery start`",
        false => "check the address and the network",
    };
    format!("no server answers at {endpoint}; {first}, or name another with {option} ({cause})")
}

/// Returns a refusal as a sentence. A message that is a list in JSON is told without the JSON.
fn sentence(refusal: &Refusal) -> String {
    let told = in_plain_words(&refusal.message);
    let (operation, status, sub) = (&refusal.operation, refusal.status, refusal.sub_status);
    format!("{operation}: the server refused with {status}/{sub}: {told}")
}

/// A fault of a query, as the server tells it.
#[derive(Debug, Deserialize)]
struct Diagnostic {
    message: String,
    #[serde(default)]
    code: String,
    location: Option<TextRange>,
}

/// A place in a query, in units of UTF-16.
#[derive(Debug, Deserialize)]
struct TextRange {
    start: usize,
    end: usize,
}

/// Returns the faults in a message `Message: {"errors":[…]}`.
fn diagnostics(message: &str) -> Vec<Diagnostic> {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Diagnostic>,
    }
    match object_in::<Errors>(message) {
        Some(found) => found.errors,
        None => Vec::new(),
    }
}

/// Returns the sentences of a message `Message: {"Errors":["…"]}`, and any other message as it is.
pub(crate) fn in_plain_words(message: &str) -> String {
    #[derive(Deserialize)]
    struct Errors {
        #[serde(alias = "errors", rename = "Errors")]
        errors: Vec<String>,
    }
    match object_in::<Errors>(message) {
        Some(found) if !found.errors.is_empty() => found.errors.join("\n"),
        _ => message.to_owned(),
    }
}

/// Returns the first object in a message.
fn object_in<'a, T: Deserialize<'a>>(message: &'a str) -> Option<T> {
    let begin = message.find('{')?;
    let mut values = serde_json::Deserializer::from_str(&message[begin..]).into_iter::<T>();
    values.next()?.ok()
}

/// Returns the line of the query with the place, and a line with marks below the place.
fn marked(query: &str, place: &TextRange) -> String {
    let mut units = 0;
    for line in query.split('\n') {
        let length = line.encode_utf16().count();
        if place.start > units + length {
            units += length + 1;
            continue;
        }
        let (mut begin, mut end, mut at) = (line.len(), line.len(), units);
        for (byte, c) in line.char_indices() {
            if at >= place.start {
                begin = begin.min(byte);
            }
            if at >= place.end {
                end = end.min(byte);
            }
            at += c.len_utf16();
        }
        return marked_line(line, begin, end.max(begin));
    }
    String::new()
}

/// Returns the line of a record with the byte at `offset`, and a line with a mark below that byte.
pub(crate) fn marked_byte(record: &[u8], offset: usize) -> String {
    let text = String::from_utf8_lossy(record);
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let begin = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = text[offset..]
        .find('\n')
        .map_or(text.len(), |at| offset + at);
    let line = text[begin..end].trim_end_matches('\r');
    let at = (offset - begin).min(line.len());
    marked_line(line, at, at)
}

/// Returns a line with marks below its bytes from `begin` to `end`; one mark, if there are none. A
/// line that is too long is cut around the place.
fn marked_line(line: &str, begin: usize, end: usize) -> String {
    let width_before: usize = line[..begin].chars().map(width).sum();
    let is_cut = width_before + line[begin..].chars().map(width).sum::<usize>() > LINE_WIDTH;
    let skipped = match is_cut && width_before > WIDTH_BEFORE {
        true => width_before - WIDTH_BEFORE,
        false => 0,
    };

    // Marks stand by the width of characters on the screen; a tab is kept.
    let (mut shown, mut marks) = (String::new(), String::new());
    let mut column = 0;
    for (byte, c) in line.char_indices() {
        let c = if c.is_control() && c != '\t' { ' ' } else { c };
        let from = column;
        column += width(c);
        if from < skipped {
            continue;
        }
        if column > skipped + LINE_WIDTH {
            shown.push('…');
            break;
        }
        if shown.is_empty() && skipped > 0 {
            shown.push('…');
            marks.push(' ');
        }
        shown.push(c);
        if byte >= begin && byte < end {
            marks.push_str(&"^".repeat(width(c).max(1)));
        } else if byte < begin {
            match c {
                '\t' => marks.push('\t'),
                c => marks.push_str(&" ".repeat(width(c))),
            }
        }
    }
    if !marks.ends_with('^') {
        marks.push('^');
    }
    format!("\n{INDENT}{shown}\n{INDENT}{marks}")
}

fn width(c: char) -> usize {
    match c {
        '\t' => 1,
        c if c.is_control() => 1,
        c => UnicodeWidthChar::width(c).unwrap_or(0),
    }
}

/// Returns the remedy for a refusal, in a line of its own.
fn remedy(refusal: &Refusal, voice: Voice) -> &'static str {
    let is_of_item = refusal.operation.contains("/docs/");
    match (refusal.status, voice) {
        (401, Voice::Shell) => {
            "\nname the file with the key of this account: --key-file FILE, or .connect"
        }
        (401, Voice::Command) => {
            "\nname the key of this account: --key-file FILE, --key KEY, or the variable ORRERY_KEY"
        }
        (404, _) if is_of_item => "\nan item is found by its id together with its partition key",
        (404, Voice::Shell) => "\n.databases and .containers list what exists",
        (404, Voice::Command) => {
            "\n`orrery shell -c .databases` lists the databases, and `orrery shell -c '.containers \
             DATABASE'` the containers of one"
        }
        (409, Voice::Shell) => "\n.put replaces an item that exists",
        (429, Voice::Shell) => {
            "\nthe container has too few RU/s for this statement; wait, or raise them"
        }
        (429, Voice::Command) => {
            "\nthe container has too few RU/s for this request; wait, or raise them"
        }
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

    fn without_server(endpoint: &str) -> ClientError {
        ClientError::Unreachable {
            operation: "GET /".into(),
            endpoint: endpoint.into(),
            cause: "refused".into(),
            may_have_arrived: false,
            found_server: false,
        }
    }

    #[test]
    fn the_place_of_a_fault_is_marked() {
        let message = r#"Message: {"errors":[{"severity":"Error","location":{"start":17,
            "end":21},"code":"SC1001","message":"Syntax error."}]}"#;
        let query = "SELECT '日é'\nFROM FORM d";
        for voice in [Voice::Shell, Voice::Command] {
            assert_eq!(
                of_request(&refused(400, message), Some(query), voice),
                "Syntax error. (SC1001)\n  FROM FORM d\n       ^^^^"
            );
        }
        let at_the_end = marked("SELECT 日", &TextRange { start: 8, end: 8 });
        assert_eq!(at_the_end, "\n  SELECT 日\n           ^");
        assert_eq!(marked("a", &TextRange { start: 9, end: 9 }), "");
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let query = format!("SELECT {} FORM {}", "x".repeat(300), "y".repeat(300));
        let shown = marked(
            &query,
            &TextRange {
                start: 308,
                end: 312,
            },
        );
        let lines: Vec<&str> = shown.lines().collect();
        let [_, line, marks] = lines[..] else {
            panic!("{shown}")
        };
        assert!(line.chars().count() <= LINE_WIDTH + 4, "{line}");
        let at = marks.find("^^^^").expect("marks");
        let marked: String = line.chars().skip(at).take(4).collect();
        assert_eq!(marked, "FORM", "{shown}");
    }

    #[test]
    fn the_place_in_a_record_is_marked_also_behind_bytes_that_are_no_text() {
        let record = b"{\"id\":\"1\",\n\t\"pk\" \"x\"}\r\n";
        assert_eq!(marked_byte(record, 17), "\n  \t\"pk\" \"x\"}\n  \t     ^");
        assert_eq!(marked_byte(b"", 0), "\n  \n  ^");
        assert_eq!(marked_byte(b"ab", 99), "\n  ab\n    ^");
        assert!(marked_byte(b"\xff\xff{", 2).contains('^'));
    }

    #[test]
    fn a_failure_has_its_remedy() {
        let told = of_request(&refused(404, "gone"), None, Voice::Shell);
        assert!(told.contains("404/0: gone\n.databases"), "{told}");
        let told = of_request(&refused(404, "gone"), None, Voice::Command);
        assert!(told.contains("orrery shell -c .databases"), "{told}");
        let told = of_request(&refused(401, "no"), None, Voice::Command);
        assert!(told.contains("--key-file FILE, --key KEY"), "{told}");
    }

    #[test]
    fn a_server_that_is_not_there_is_started_or_named() {
        let error = without_server("http://127.0.0.1:8081/");
        assert_eq!(
            of_request(&error, None, Voice::Command),
            "no server answers at http://127.0.0.1:8081/; start one with `orrery start`, or name \
             another with --endpoint (refused)"
        );
        assert!(of_request(&error, None, Voice::Shell).contains(".connect"));
        let remote = without_server("https://db.example/");
        let told = of_request(&remote, None, Voice::Command);
        assert!(told.contains("check the address"), "{told}");
    }

    #[test]
    fn the_words_of_the_server_stand_without_the_json_around_them() {
        for message in [
            r#"Message: {"Errors":["One.","Two."]}"#,
            r#"Message: {"errors":["One.","Two."]}"#,
        ] {
            assert_eq!(in_plain_words(message), "One.\nTwo.");
            let told = of_request(&refused(400, message), None, Voice::Command);
            assert!(told.ends_with("400/0: One.\nTwo."), "{told}");
        }
        assert_eq!(in_plain_words("a {\"b\":1}"), "a {\"b\":1}");
    }
}
