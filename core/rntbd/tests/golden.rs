//! The golden frames, `tests/golden/*.txt`: bytes of invented requests, with what they mean.
//!
//! ```text
//! # a comment, before the first frame
//!
//! > request            or `< answer`, or `< context` for the answer to the context
//! 3d 01 00 00   # length 317
//! 03 00 0f 00   # resource 3, operation 15
//! 04 00 02 ff ff ff ff   # PageSize = 4294967295
//! 05 00 08 04 00 31   # SessionToken = "1:2"    a value may go on in lines without meaning
//! 3a 32
//! 05 00 00 00   # payload of 5 bytes
//! 68 65 6c 6c 6f
//! ```
//!
//! The bytes are read and must mean what stands beside them; what was read is written, and must be
//! the same bytes. A blank line ends a frame.

use crate::support::bytes;
use orrery_rntbd::tokens::{answer, context_answer, context_request, request};
use orrery_rntbd::{
    AnswerHead, FrameWriter, HEAD_BYTES_MIN, RequestHead, Token, Type, Value, guid_text,
    head_length,
};
use std::fmt::Write as _;
use std::path::Path;

const HEAD_BYTES_MAX: usize = 64 * 1024;

#[test]
fn frames_mean_what_they_say_and_are_written_as_they_were_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files = 0;
    let mut frames = 0;
    for entry in std::fs::read_dir(folder).expect("the golden frames") {
        let path = entry.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("text");
        for block in text.split("\n\n").filter(|block| !block.starts_with('#')) {
            check(block, &path.display().to_string());
            frames += 1;
        }
        files += 1;
    }
    assert_eq!((files, frames), (7, 14));
}

/// Checks one frame of a file.
fn check(block: &str, file: &str) {
    let (kind, lines) = block.split_once('\n').expect("a kind and bytes");
    let mut frame = Vec::new();
    let mut meanings = String::new();
    for line in lines.lines() {
        let (digits, meaning) = line.split_once('#').unwrap_or((line, ""));
        frame.extend(bytes(digits));
        if !meaning.is_empty() {
            let _ = writeln!(meanings, "{}", meaning.trim());
        }
    }
    let (read, written) = match kind {
        "> request" => request_of(&frame),
        "< answer" => answer_of(&frame, answer::TABLE),
        "< context" => answer_of(&frame, context_answer::TABLE),
        kind => panic!("{file}: {kind}"),
    };
    assert_eq!(read, meanings, "{file}: {kind}");
    assert_eq!(written, frame, "{file}: {kind}");
}

/// Splits a frame into the head and the payload behind its length.
fn parts(frame: &[u8]) -> (&[u8], Option<&[u8]>) {
    let first = *frame.first_chunk().expect("a length");
    let length = head_length(first, HEAD_BYTES_MAX).expect("a length");
    let (head, rest) = frame.split_at(length);
    let Some((length, payload)) = rest.split_first_chunk() else {
        return (head, None);
    };
    assert_eq!(u32::from_le_bytes(*length) as usize, payload.len());
    (head, Some(payload))
}

fn request_of(frame: &[u8]) -> (String, Vec<u8>) {
    let (head, payload) = parts(frame);
    let read = RequestHead::parse(head).expect("a request");
    assert_eq!(read.has_payload(), payload.is_some());
    let first = format!("resource {}, operation {}", read.resource, read.operation);
    let table = match read.is_context() {
        true => context_request::TABLE,
        false => request::TABLE,
    };
    let writer = FrameWriter::request(read.resource, read.operation, read.activity_id);
    let tokens = read.tokens().collect();
    shown(
        head.len(),
        &first,
        read.activity_id,
        tokens,
        (table, writer, payload),
    )
}

fn answer_of(frame: &[u8], table: &'static [Token]) -> (String, Vec<u8>) {
    let (head, payload) = parts(frame);
    let read = AnswerHead::parse(head, table).expect("an answer");
    let first = format!("status {}", read.status);
    let writer = FrameWriter::answer(read.status, read.activity_id);
    let tokens = read.tokens().collect();
    shown(
        head.len(),
        &first,
        read.activity_id,
        tokens,
        (table, writer, payload),
    )
}

/// Returns what a frame means, a line each, and its bytes as the writer writes them.
fn shown(
    length: usize,
    first: &str,
    activity_id: [u8; 16],
    tokens: Vec<(u16, Value<'_>)>,
    (table, mut writer, payload): (&[Token], FrameWriter, Option<&[u8]>),
) -> (String, Vec<u8>) {
    assert!(length >= HEAD_BYTES_MIN);
    let activity = guid_text(activity_id);
    let mut text = format!("length {length}\n{first}\nactivity {activity}\n");
    for (id, value) in tokens {
        let unknown = Token {
            id,
            name: "",
            kind: Type::Byte,
            header: None,
        };
        let row = table.iter().find(|token| token.id == id);
        let name = row.map_or(format!("0x{id:04x}"), |token| token.name.to_owned());
        let _ = writeln!(text, "{name} = {}", value_text(value));
        assert!(writer.value(row.unwrap_or(&unknown), value));
    }
    if let Some(payload) = payload {
        let _ = writeln!(text, "payload of {} bytes", payload.len());
    }
    (text, writer.finish(payload.unwrap_or_default()))
}

fn value_text(value: Value<'_>) -> String {
    match value {
        Value::Byte(number) => number.to_string(),
        Value::UShort(number) => number.to_string(),
        Value::ULong(number) => number.to_string(),
        Value::Long(number) => number.to_string(),
        Value::ULongLong(number) => number.to_string(),
        Value::LongLong(number) => number.to_string(),
        Value::Guid(bytes) => guid_text(bytes),
        Value::Text(text) => format!("\"{text}\""),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::Float(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
    }
}
