//! JSON parsing: sonic-rs checks the syntax, this module adds the rules of the service.

use super::{Json, Number, Object};
use crate::limits;
use sonic_rs::{JsonContainerTrait, JsonType, JsonValueTrait};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The reason and position of the first error in a JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Byte offset of the error in the text.
    pub offset: usize,
    /// Description of the error.
    pub message: String,
}

impl JsonError {
    /// Returns line and column of the error in the text, both counted from 1; a column is a
    /// character.
    pub fn place(&self, text: &[u8]) -> (usize, usize) {
        let before = &text[..self.offset.min(text.len())];
        let line_start = before
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let column = 1 + String::from_utf8_lossy(&before[line_start..])
            .chars()
            .count();
        (line, column)
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.message, self.offset)
    }
}

impl std::error::Error for JsonError {}

/// Parses one JSON value. Only white space may follow the value. Strings may contain control
/// characters that are not escaped, as in the service.
///
/// # Errors
/// Invalid syntax, bytes that are not UTF-8, a number beyond the range of a double, or more than
/// [`limits::NESTING_DEPTH`] levels. The offset of a number out of range is 0.
pub fn parse(text: &[u8]) -> Result<Json, JsonError> {
    let has_raw_controls = check_depth(text)?;
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(JsonError {
            offset: text.len(),
            message: "the text is empty".into(),
        });
    }
    let escaped = has_raw_controls.then(|| escape_raw_controls(text));
    let checked = escaped.as_deref().unwrap_or(text);
    let value: sonic_rs::Value = sonic_rs::from_slice(checked).map_err(|e| JsonError {
        offset: match has_raw_controls {
            true => offset_before_escaping(text, e.offset()),
            false => e.offset(),
        },
        message: syntax_message(&e),
    })?;
    convert(&value)
}

/// Bytes of the escape sequence of a control character, such as `\u0009`.
const ESCAPED_CONTROL_BYTES: usize = 6;

/// Returns the positions of the control characters in the strings of a text. A control character
/// after a backslash is not listed: the two form no escape sequence, and the text is invalid.
fn raw_controls(text: &[u8]) -> Vec<usize> {
    let mut positions = Vec::new();
    let (mut in_string, mut escaped) = (false, false);
    for (offset, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            0..=0x1F if in_string => positions.push(offset),
            _ => {}
        }
    }
    positions
}

/// Returns the text with the control characters in its strings as escape sequences.
fn escape_raw_controls(text: &[u8]) -> Vec<u8> {
    let positions = raw_controls(text);
    let mut out = Vec::with_capacity(text.len() + positions.len() * ESCAPED_CONTROL_BYTES);
    let mut copied = 0;
    for position in positions {
        out.extend_from_slice(&text[copied..position]);
        out.extend_from_slice(format!("\\u{:04x}", text[position]).as_bytes());
        copied = position + 1;
    }
    out.extend_from_slice(&text[copied..]);
    out
}

/// Returns the offset in `text` of the byte at `offset` of the text that [`escape_raw_controls`]
/// makes of `text`.
fn offset_before_escaping(text: &[u8], offset: usize) -> usize {
    let mut added = 0;
    for position in raw_controls(text) {
        if position + added >= offset {
            break;
        }
        added += ESCAPED_CONTROL_BYTES - 1;
    }
    offset.saturating_sub(added)
}

/// Returns the first line of a sonic-rs error without its position. The other lines quote the
/// input.
fn syntax_message(error: &sonic_rs::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(" at line ").next().unwrap_or(line);
    let line = line.trim_end_matches('.');
    let mut chars = line.chars();
    match (chars.next(), chars.clone().next()) {
        // An abbreviation such as EOF keeps its letters.
        (Some(first), Some(second)) if first.is_uppercase() && second.is_uppercase() => line.into(),
        (Some(first), _) => first.to_lowercase().chain(chars).collect(),
        (None, _) => String::new(),
    }
}

/// Checks the nesting depth before parsing, so that a deeply nested text costs one pass over its
/// bytes and no stack. Returns true if a string contains a control character.
fn check_depth(text: &[u8]) -> Result<bool, JsonError> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    let mut has_raw_controls = false;
    for (offset, &byte) in text.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                0..=0x1F => has_raw_controls = true,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > limits::NESTING_DEPTH {
                    let message = format!("nested deeper than {} levels", limits::NESTING_DEPTH);
                    return Err(JsonError { offset, message });
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(has_raw_controls)
}

/// Converts a parsed value. sonic-rs has checked the syntax; the range of numbers and repeated
/// names are checked here.
fn convert(value: &sonic_rs::Value) -> Result<Json, JsonError> {
    Ok(match value.get_type() {
        JsonType::Null => Json::Null,
        JsonType::Boolean => Json::Bool(value.as_bool().unwrap_or_default()),
        JsonType::String => Json::String(value.as_str().unwrap_or_default().to_owned()),
        JsonType::Number => Json::Number(convert_number(value)?),
        JsonType::Array => {
            let mut elements = Vec::new();
            for element in value.as_array().into_iter().flatten() {
                elements.push(convert(element)?);
            }
            Json::Array(elements)
        }
        JsonType::Object => {
            let mut members = Vec::new();
            for (name, member) in value.as_object().into_iter().flatten() {
                members.push((name.to_owned(), convert(member)?));
            }
            Json::Object(unique(members))
        }
    })
}

fn convert_number(value: &sonic_rs::Value) -> Result<Number, JsonError> {
    let raw = value
        .as_raw_number()
        .map(|number| number.as_str().to_owned())
        .unwrap_or_default();
    Number::from_text(&raw).ok_or_else(|| JsonError {
        offset: 0,
        message: format!("the number {raw} is beyond the range of a double"),
    })
}

/// Creates an object from members. A repeated name keeps its first position and its last value.
pub(super) fn unique(members: Vec<(String, Json)>) -> Object {
    if !has_repeated_name(&members) {
        return Object { members };
    }
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut object = Object::new();
    for (name, value) in members {
        match positions.get(&name) {
            Some(&position) => object.members[position].1 = value,
            None => {
                positions.insert(name.clone(), object.members.len());
                object.members.push((name, value));
            }
        }
    }
    object
}

fn has_repeated_name(members: &[(String, Json)]) -> bool {
    // Up to this number of members comparing names is cheaper than hashing them.
    const FEW_MEMBERS: usize = 16;
    if members.len() <= FEW_MEMBERS {
        return members
            .iter()
            .enumerate()
            .any(|(i, (name, _))| members[..i].iter().any(|(earlier, _)| earlier == name));
    }
    let names: HashSet<&String> = members.iter().map(|(name, _)| name).collect();
    names.len() < members.len()
}
