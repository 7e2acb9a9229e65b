//! Output of compact JSON text.

use super::{Json, Number};

/// Appends `value` as compact JSON.
pub fn write_json(value: &Json, out: &mut Vec<u8>) {
    write(value, Number::write, out);
}

/// Appends a value as compact JSON text, with each number in its shortest form instead of its
/// original text: `1.0` is written as `1`.
pub fn write_shortest(value: &Json, out: &mut Vec<u8>) {
    write(value, Number::write_shortest, out);
}

/// Appends a value, with its numbers as `write_number` writes them.
fn write(value: &Json, write_number: fn(&Number, &mut Vec<u8>), out: &mut Vec<u8>) {
    match value {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        Json::Number(n) => write_number(n, out),
        Json::String(s) => write_string(s, out),
        Json::Array(elements) => {
            out.push(b'[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(element, write_number, out);
            }
            out.push(b']');
        }
        Json::Object(members) => {
            out.push(b'{');
            for (i, (name, member)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                write(member, write_number, out);
            }
            out.push(b'}');
        }
    }
}

/// Appends `text` as a quoted JSON string. Only quotes, backslashes and control characters are
/// escaped, as RFC 8259 requires.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    // Start of the bytes that are not written yet; they are copied in one piece.
    let mut unwritten_from = 0;
    for (i, &byte) in bytes.iter().enumerate() {
        let escape_letter = match byte {
            b'"' => Some(b'"'),
            b'\\' => Some(b'\\'),
            b'\n' => Some(b'n'),
            b'\r' => Some(b'r'),
            b'\t' => Some(b't'),
            0x08 => Some(b'b'),
            0x0C => Some(b'f'),
            0..=0x1F => None,
            _ => continue,
        };
        out.extend_from_slice(&bytes[unwritten_from..i]);
        match escape_letter {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        unwritten_from = i + 1;
    }
    out.extend_from_slice(&bytes[unwritten_from..]);
    out.push(b'"');
}
