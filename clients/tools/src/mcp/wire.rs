//! JSON-RPC 2.0 in lines: one message is one line in UTF-8.
//!
//! A line over [`LINE_BYTES_MAX`] is read to its end and not kept. Batches, which one version of
//! the protocol had and the later ones dropped, are refused.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::BufRead;

/// Bytes of one line. An item has 2 MB at most, and its text is escaped nowhere in a message.
pub(super) const LINE_BYTES_MAX: usize = 8 << 20;

pub(super) const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const OVERLOADED: i64 = -32000;
pub(super) const RESOURCE_NOT_FOUND: i64 = -32002;
pub(super) const UNSUPPORTED_VERSION: i64 = -32022;

/// The members of an object, each as the text that the client sent.
pub(super) type Members = HashMap<String, Box<RawValue>>;

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its end.
    Text(Vec<u8>),
    /// A line over the bound.
    TooLong,
}

/// Reads one line; `None` at the end of the input.
pub(super) fn read_line(input: &mut impl BufRead) -> std::io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut has_begun = false;
    let mut is_too_long = false;
    loop {
        let available = match input.fill_buf() {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        has_begun |= !available.is_empty();
        is_too_long |= line.len() + part.len() > LINE_BYTES_MAX;
        if is_too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(part);
        }
        let is_end = available.is_empty();
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if is_end && !has_begun {
            return Ok(None);
        }
        if is_end || end.is_some() {
            return Ok(Some(match is_too_long {
                true => Line::TooLong,
                false => Line::Text(line),
            }));
        }
    }
}

/// A message from the client.
#[derive(Debug)]
pub(super) enum Message {
    /// A request, which is answered.
    Request {
        /// The text of the id, a string or a number.
        id: Box<RawValue>,
        method: String,
        params: Members,
    },
    /// A notification.
    Notification { method: String, params: Members },
    /// An answer to a request. This server sends no requests, so the message has no meaning.
    Answer,
}

/// A refusal by JSON-RPC.
#[derive(Debug, Clone)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl RpcError {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }
}

/// Parses a line.
///
/// # Errors
/// The refusal, with the id of the request if the line has one.
pub(super) fn parse(line: &[u8]) -> Result<Message, (Option<Box<RawValue>>, RpcError)> {
    let text = std::str::from_utf8(line)
        .map_err(|e| (None, RpcError::new(PARSE_ERROR, format!("not UTF-8: {e}"))))?;
    let raw: &RawValue = serde_json::from_str(text)
        .map_err(|e| (None, RpcError::new(PARSE_ERROR, format!("not JSON: {e}"))))?;
    let refuse =
        |id: Option<Box<RawValue>>, reason: &str| Err((id, RpcError::new(INVALID_REQUEST, reason)));
    if raw.get().starts_with('[') {
        return refuse(None, "batches of messages are not supported");
    }
    let Ok(mut members) = serde_json::from_str::<Members>(text) else {
        return refuse(None, "a message is a JSON object");
    };
    let id = members.remove("id");
    let is_id = |id: &RawValue| id.get().starts_with(['"', '-']) || starts_with_digit(id.get());
    if id.as_deref().is_some_and(|id| !is_id(id)) {
        return refuse(None, "the id of a request is a string or a number");
    }
    let text_of = |raw: &RawValue| String::deserialize(raw).ok();
    if members.get("jsonrpc").and_then(|v| text_of(v)).as_deref() != Some("2.0") {
        return refuse(id, "the member jsonrpc is not \"2.0\"");
    }
    let Some(method) = members.get("method") else {
        if members.contains_key("result") || members.contains_key("error") {
            return Ok(Message::Answer);
        }
        return refuse(id, "the member method is missing");
    };
    let Some(method) = text_of(method) else {
        return refuse(id, "the member method is not a string");
    };
    let params = match members.get("params").map(|raw| raw.get()) {
        None | Some("null") => Members::new(),
        Some(text) => match serde_json::from_str(text) {
            Ok(params) => params,
            Err(_) => {
                let error = RpcError::new(INVALID_PARAMS, "the member params is not an object");
                return Err((id, error));
            }
        },
    };
    Ok(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { method, params },
    })
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the line of an answer.
pub(super) fn answer(id: Option<&RawValue>, result: Result<String, RpcError>) -> String {
    let id = id.map_or("null", RawValue::get);
    match result {
        Ok(result) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
        Err(error) => {
            let mut body = json!({"code": error.code, "message": error.message});
            if let Some(data) = error.data {
                body["data"] = data;
            }
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{body}}}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> (Option<String>, i64) {
        let (id, error) = parse(line.as_bytes()).unwrap_err();
        (id.map(|id| id.get().to_owned()), error.code)
    }

    #[test]
    fn a_wrong_line_is_refused_with_its_code_and_id() {
        for (line, id, code) in [
            ("", None, PARSE_ERROR),
            ("{", None, PARSE_ERROR),
            ("[]", None, INVALID_REQUEST),
            ("7", None, INVALID_REQUEST),
            (r#"{"id":1,"method":"ping"}"#, Some("1"), INVALID_REQUEST),
            (
                r#"{"jsonrpc":"2.0","id":"a"}"#,
                Some("\"a\""),
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
                None,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
                Some("1"),
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#,
                Some("1"),
                INVALID_PARAMS,
            ),
        ] {
            assert_eq!(refusal(line), (id.map(str::to_owned), code), "{line}");
        }
        assert_eq!(parse(b"\xff").unwrap_err().1.code, PARSE_ERROR);
        let answer = parse(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert!(matches!(answer, Ok(Message::Answer)));
    }

    #[test]
    fn a_long_line_is_dropped_and_the_next_one_is_read() {
        let mut input = vec![b'x'; LINE_BYTES_MAX + 1];
        input.extend_from_slice(b"\nnext\nlast");
        let mut input = std::io::Cursor::new(input);
        let mut next = || read_line(&mut input).unwrap();
        assert_eq!(next(), Some(Line::TooLong));
        assert_eq!(next(), Some(Line::Text(b"next".to_vec())));
        assert_eq!(next(), Some(Line::Text(b"last".to_vec())));
        assert_eq!(next(), None);
    }
}
