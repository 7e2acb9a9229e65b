//! Output of compact JSON text.

use super::Json;

/// Appends `value` as compact JSON.
pub fn write_json(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        Json::Number(n) => out.extend_from_slice(n.text().as_bytes()),
        Json::String(s) => write_string(s, out),
        Json::Array(elements) => {
            out.push(b'[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_json(element, out);
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
                write_json(member, out);
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
