//! Text to value: sonic-rs does the reading, the rules that the service adds are here.

use super::{Json, Number, Object};
use crate::limits;
use sonic_rs::{JsonContainerTrait, JsonType, JsonValueTrait};
use std::collections::HashMap;
use std::fmt;

/// Why a text is not acceptable JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Byte offset into the text.
    pub offset: usize,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.message, self.offset)
    }
}

impl std::error::Error for JsonError {}

/// Reads one JSON value and nothing after it.
///
/// # Errors
/// Broken syntax, bytes that are not UTF-8, a number beyond the range of a double, more than
/// [`limits::NESTING_DEPTH`] levels.
pub fn parse(text: &[u8]) -> Result<Json, JsonError> {
    check_depth(text)?;
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(JsonError {
            offset: text.len(),
            message: "the text is empty".into(),
        });
    }
    let value: sonic_rs::Value = sonic_rs::from_slice(text).map_err(|e| JsonError {
        offset: e.offset(),
        message: syntax_message(&e),
    })?;
    convert(&value)
}

/// sonic-rs adds a drawing of the text after the first line; clients get the sentence only.
fn syntax_message(error: &sonic_rs::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(" at line ").next().unwrap_or(line);
    let mut chars = line.trim_end_matches('.').chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

/// Nesting is counted before parsing, so that a bomb costs one pass over its bytes and no stack.
fn check_depth(text: &[u8]) -> Result<(), JsonError> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (offset, &byte) in text.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
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
    Ok(())
}

fn convert(value: &sonic_rs::Value) -> Result<Json, JsonError> {
    Ok(match value.get_type() {
        JsonType::Null => Json::Null,
        JsonType::Boolean => Json::Bool(value.as_bool().unwrap_or_default()),
        JsonType::String => Json::String(value.as_str().unwrap_or_default().to_owned()),
        JsonType::Number => {
            let raw = value
                .as_raw_number()
                .map(|n| n.as_str().to_owned())
                .unwrap_or_default();
            let number = Number::from_text(&raw).ok_or_else(|| JsonError {
                offset: 0,
                message: format!("the number {raw} is beyond the range of a double"),
            })?;
            Json::Number(number)
        }
        JsonType::Array => {
            let elements = value
                .as_array()
                .map(|a| a.iter().map(convert).collect::<Result<Vec<_>, _>>());
            Json::Array(elements.transpose()?.unwrap_or_default())
        }
        JsonType::Object => {
            let members = value.as_object().map(|o| {
                o.iter()
                    .map(|(name, v)| Ok((name.to_owned(), convert(v)?)))
                    .collect::<Result<Vec<_>, JsonError>>()
            });
            Json::Object(unique(members.transpose()?.unwrap_or_default()))
        }
    })
}

/// Of equal names the last value wins, in the place of the first.
pub(super) fn unique(members: Vec<(String, Json)>) -> Object {
    // Below this many members comparing names is cheaper than hashing them.
    const FEW: usize = 16;
    let repeated = if members.len() <= FEW {
        members
            .iter()
            .enumerate()
            .any(|(i, (name, _))| members[..i].iter().any(|(n, _)| n == name))
    } else {
        members
            .iter()
            .map(|(name, _)| name)
            .collect::<std::collections::HashSet<_>>()
            .len()
            < members.len()
    };
    if !repeated {
        return Object { members };
    }
    let mut place: HashMap<String, usize> = HashMap::new();
    let mut object = Object::new();
    for (name, value) in members {
        match place.get(&name) {
            Some(&at) => object.members[at].1 = value,
            None => {
                place.insert(name.clone(), object.members.len());
                object.members.push((name, value));
            }
        }
    }
    object
}
