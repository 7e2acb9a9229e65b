//! Bodies in the service's binary encoding of JSON. The input is the body; its first byte is set.

use crate::fixture::check_refusal;
use orrery_gateway::fuzzing::text_of_binary_json;
use orrery_model::json::parse;
use orrery_model::{Json, limits};

const FIRST_BYTE: u8 = 0x80;

/// Checks an input: it is refused with the offset, or its text is JSON, has a bounded length, and
/// is the same value after it was encoded and read again.
pub(crate) fn check(input: &[u8]) {
    let mut body = vec![FIRST_BYTE];
    body.extend(input.iter().skip(1));
    let text = match text_of_binary_json(&body) {
        Ok(text) => text,
        Err(error) => {
            check_refusal(&error, body.len());
            assert!(error.message().contains("at byte "), "{error}");
            return;
        }
    };
    // The limit is checked before each value, and a value is at most six times as long as its
    // bytes, as an escape of a control character is.
    let longest = 2 * limits::ITEM_BYTES + 64 + 8 * body.len();
    assert!(text.len() <= longest, "{} bytes", text.len());
    let value = match parse(text.as_bytes()) {
        Ok(value) => value,
        Err(error) => panic!("{error}: {text}"),
    };
    if text.len() > limits::ITEM_BYTES {
        return;
    }
    let mut again = vec![FIRST_BYTE];
    write(&value, &mut again);
    let text_again = match text_of_binary_json(&again) {
        Ok(text) => text,
        Err(error) => panic!("{error}: {text}"),
    };
    let value_again = parse(text_again.as_bytes()).expect("JSON");
    assert_eq!(value_again, value);
    assert_eq!(value_again.to_text(), value.to_text());
}

/// Appends a value in binary JSON, each type in the form without a limit.
fn write(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.push(0xD0),
        Json::Bool(false) => out.push(0xD1),
        Json::Bool(true) => out.push(0xD2),
        Json::Number(number) => {
            let text = number.text();
            // The integer 0 has no sign.
            if text != "-0"
                && let Ok(integer) = text.parse::<i64>()
            {
                out.push(0xCB);
                out.extend(integer.to_le_bytes());
            } else if let Ok(large) = text.parse::<u64>() {
                out.push(0xC7);
                out.extend(large.to_le_bytes());
            } else {
                out.push(0xCC);
                out.extend(number.as_f64().to_le_bytes());
            }
        }
        Json::String(text) => write_text(text, out),
        Json::Array(elements) => write_container(0xE7, elements.len(), out, |out| {
            for element in elements {
                write(element, out);
            }
        }),
        Json::Object(members) => write_container(0xEF, members.len(), out, |out| {
            for (name, value) in members.iter() {
                write_text(name, out);
                write(value, out);
            }
        }),
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(0xC2);
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Appends an array or object with its length and the number of its elements.
fn write_container(
    marker: u8,
    count: usize,
    out: &mut Vec<u8>,
    write_elements: impl FnOnce(&mut Vec<u8>),
) {
    out.push(marker);
    let length_at = out.len();
    out.extend([0; 4]);
    out.extend((count as u32).to_le_bytes());
    let start = out.len();
    write_elements(out);
    let length = (out.len() - start) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
}
