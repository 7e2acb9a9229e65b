//! Parsing of as much of an item as a query needs.
//!
//! Most queries need a few top-level properties. For these the text is scanned, and only the values
//! of these properties are parsed. Item texts come from the store and are valid JSON. A text that
//! is not gives an error as far as the scan notices it, never a wrong value.

use crate::bound::{Block, Expr, Step};
use crate::error::QueryError;
use orrery_model::json::{Json, Number, Object, parse};

/// The top-level properties that a query needs, or all of the item.
#[derive(Clone, Debug)]
pub(crate) struct NeededProperties {
    /// `None` stands for all of the item.
    names: Option<Vec<String>>,
    /// Paths that were visited and whose base was not visited yet.
    open_paths: usize,
}

/// Largest number of properties that are read one by one; with more a full parse is cheaper.
const MAX_NAMES: usize = 12;

impl NeededProperties {
    pub(crate) fn of_names(names: Vec<String>) -> Self {
        NeededProperties {
            names: Some(names),
            open_paths: 0,
        }
    }

    /// Adds the properties that an expression reads. `depth` is the number of frames up to and
    /// including that of the item.
    pub(crate) fn add_expression(&mut self, expr: &Expr, depth: usize) {
        expr.walk(0, &mut |node, added| self.add_node(node, depth + added));
    }

    /// Adds the properties that a block reads whose outermost frame is the item, with or without
    /// the filters of the block itself.
    pub(crate) fn add_block(&mut self, block: &Block, with_filters: bool) {
        block.walk_parts(1, with_filters, &mut |node, depth| {
            self.add_node(node, depth)
        });
    }

    /// Adds a property.
    pub(crate) fn add_property(&mut self, name: &str) {
        let Some(names) = &mut self.names else { return };
        if !names.iter().any(|n| n == name) {
            names.push(name.to_owned());
        }
        if names.len() > MAX_NAMES {
            self.names = None;
        }
    }

    /// Adds all of the item.
    pub(crate) fn require_all(&mut self) {
        self.names = None;
    }

    /// Adds one node of an expression. A walk visits a path on the item before the slot that is its
    /// base. A slot without such a path is the item as a whole.
    fn add_node(&mut self, expr: &Expr, depth: usize) {
        match expr {
            Expr::Path { base, steps } if is_item(base, depth) => {
                if let Some(Step::Name(name)) = steps.first() {
                    self.add_property(name);
                    self.open_paths += 1;
                }
            }
            slot if is_item(slot, depth) => {
                if self.open_paths > 0 {
                    self.open_paths -= 1;
                } else {
                    self.require_all();
                }
            }
            _ => {}
        }
    }

    /// Returns true if the query needs nothing of the item.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.as_ref().is_some_and(Vec::is_empty)
    }
}

/// Returns true if an expression `depth` frames deep is the item itself.
fn is_item(expr: &Expr, depth: usize) -> bool {
    matches!(expr, Expr::Slot(up) if *up + 1 == depth)
}

/// Parses the needed properties of an item.
///
/// # Errors
/// [`QueryError::Source`] if the text is not readable.
pub(crate) fn read(text: &[u8], needed: &NeededProperties) -> Result<Json, QueryError> {
    let unreadable =
        |reason: String| QueryError::Source(format!("an item is not readable: {reason}").into());
    let Some(names) = &needed.names else {
        return parse(text).map_err(|e| unreadable(e.to_string()));
    };
    match read_object(text, names) {
        Some(object) => Ok(Json::Object(object)),
        None => Err(unreadable("broken text".into())),
    }
}

/// Parses the named top-level members of an item's text, without the rest.
///
/// # Errors
/// [`QueryError::Source`] for a text that is no JSON object.
pub fn read_members(text: &[u8], names: &[String]) -> Result<Json, QueryError> {
    read(text, &NeededProperties::of_names(names.to_vec()))
}

/// Scans the members of an object and parses the wanted ones. Returns `None` for a broken text.
fn read_object(text: &[u8], wanted: &[String]) -> Option<Object> {
    let mut object = Object::new();
    let mut at = skip_whitespace(text, 0);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    at = skip_whitespace(text, at + 1);
    if text.get(at) == Some(&b'}') {
        return Some(object);
    }
    loop {
        // The name, a colon, and the value.
        let name_end = string_end(text, at)?;
        let name = &text[at + 1..name_end - 1];
        let colon = skip_whitespace(text, name_end);
        if text.get(colon) != Some(&b':') {
            return None;
        }
        let value_start = skip_whitespace(text, colon + 1);
        let value_end = value_end(text, value_start)?;

        // An escaped name is rare enough to be parsed.
        let found = if name.contains(&b'\\') {
            let Json::String(name) = parse(&text[at..name_end]).ok()? else {
                return None;
            };
            wanted.iter().find(|w| **w == name)
        } else {
            wanted.iter().find(|w| w.as_bytes() == name)
        };
        if let Some(name) = found {
            object.set(name.as_str(), parse_value(&text[value_start..value_end])?);
        }

        at = skip_whitespace(text, value_end);
        match text.get(at)? {
            b',' => at = skip_whitespace(text, at + 1),
            b'}' => return Some(object),
            _ => return None,
        }
    }
}

/// Parses a value. Scalars, which nearly all values are, do not take the way through the parser.
fn parse_value(text: &[u8]) -> Option<Json> {
    match text {
        b"true" => Some(Json::Bool(true)),
        b"false" => Some(Json::Bool(false)),
        b"null" => Some(Json::Null),
        [b'"', inner @ .., b'"'] if memchr::memchr(b'\\', inner).is_none() => {
            std::str::from_utf8(inner).ok().map(Json::from)
        }
        [b'-' | b'0'..=b'9', ..] => {
            let number = Number::from_text(std::str::from_utf8(text).ok()?)?;
            Some(Json::Number(number))
        }
        other => parse(other).ok(),
    }
}

/// Returns the first place from `at` on that is no white space.
fn skip_whitespace(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Returns the place after the closing quote of the string that begins at `at`.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        // A backslash and the character that it escapes.
        at += 2;
    }
}

/// Returns the place after the value that begins at `at`.
fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => container_end(text, at),
        _ => {
            let rest = &text[at..];
            let length = rest
                .iter()
                .position(|b| matches!(b, b',' | b'}' | b']') || b.is_ascii_whitespace());
            Some(at + length.unwrap_or(rest.len()))
        }
    }
}

/// Returns the place after the array or object that begins at `at`.
fn container_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match text.get(at)? {
            // Brackets within strings do not count.
            b'"' => {
                at = string_end(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_read_finds_the_same_members_as_a_full_parse() {
        let text = concat!(
            r#"{"a":1,"b":{"x":"}]\"","y":[1,{"a":2}]},"c":"q\\","d" : [ ] , "#,
            r#""e":null,"\u0061b":true,"a":5}"#,
        )
        .as_bytes();
        let whole = parse(text).expect("valid");
        for name in ["a", "b", "c", "d", "e", "ab", "nothing"] {
            let needed = NeededProperties::of_names(vec![name.to_owned()]);
            let part = read(text, &needed).expect("a partial read");
            assert_eq!(part.get(name), whole.get(name), "{name}");
        }
    }

    #[test]
    fn broken_texts_are_errors() {
        for text in [
            "",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":[1",
            "[1]",
            "{\"a\":1",
            "{\"a\" 1}",
        ] {
            assert!(
                read(
                    text.as_bytes(),
                    &NeededProperties::of_names(vec!["a".into()])
                )
                .is_err(),
                "{text}"
            );
        }
    }
}
