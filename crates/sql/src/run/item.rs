//! Reads as much of an item as a query looks at.
//!
//! Most queries look at a few top-level properties. For those the text is skimmed, and only the values of these
//! properties are parsed. Item texts come from the store and are valid JSON; a text that is not gives an error, not a
//! wrong answer, wherever the skimming notices it.

use crate::bound::{Block, Expr, Step};
use crate::error::QueryError;
use orrery_model::json::{Json, Number, Object, parse};

/// What a query looks at: some top-level properties, or everything.
#[derive(Clone, Debug)]
pub(crate) struct NeededProperties {
    /// `None` for everything.
    names: Option<Vec<String>>,
    pending: usize,
}

/// Beyond this many properties parsing everything is cheaper.
const FEW: usize = 12;

impl NeededProperties {
    pub fn of_names(names: Vec<String>) -> Self {
        NeededProperties {
            names: Some(names),
            pending: 0,
        }
    }

    /// Notes what an expression, `depth` frames deep, takes of the item.
    pub fn add_expression(&mut self, expr: &Expr, depth: usize) {
        expr.walk(0, &mut |e, added| self.add_node(e, depth + added));
    }

    /// The same for a whole block whose outermost frame is the item, with or without its own filters.
    pub fn add_block(&mut self, block: &Block, filters: bool) {
        block.walk_parts(1, filters, &mut |e, depth| self.add_node(e, depth));
    }

    /// Notes that a top-level property is needed.
    pub fn add_property(&mut self, name: &str) {
        self.add(name);
    }

    /// Notes that all of the item is needed.
    pub fn require_all(&mut self) {
        self.names = None;
    }

    /// Every path on the item is visited, and then the slot that it stands on. A slot without such a path before it is
    /// the item as a whole.
    fn add_node(&mut self, expr: &Expr, depth: usize) {
        match expr {
            Expr::Path { base, steps } if is_root(base, depth) => {
                if let Some(Step::Name(name)) = steps.first() {
                    self.add(name);
                    self.pending += 1;
                }
            }
            slot if is_root(slot, depth) => match self.pending.checked_sub(1) {
                Some(pending) => self.pending = pending,
                None => self.names = None,
            },
            _ => {}
        }
    }

    fn add(&mut self, name: &str) {
        let Some(names) = &mut self.names else { return };
        if !names.iter().any(|n| n == name) {
            names.push(name.to_owned());
        }
        if names.len() > FEW {
            self.names = None;
        }
    }

    /// Nothing at all.
    pub fn is_empty(&self) -> bool {
        self.names.as_ref().is_some_and(Vec::is_empty)
    }
}

fn is_root(expr: &Expr, depth: usize) -> bool {
    matches!(expr, Expr::Slot(up) if *up + 1 == depth)
}

/// The item, or as much of it as is looked at.
pub(crate) fn read(text: &[u8], needed: &NeededProperties) -> Result<Json, QueryError> {
    let broken =
        |what: String| QueryError::Source(format!("an item is not readable: {what}").into());
    match &needed.names {
        None => parse(text).map_err(|e| broken(e.to_string())),
        Some(names) => {
            let mut object = Object::new();
            skim(text, names, &mut object).ok_or_else(|| broken("broken text".into()))?;
            Ok(Json::Object(object))
        }
    }
}

/// The named top-level members of an item's text, without a look at the rest.
///
/// # Errors
/// [`QueryError::Source`] for a text that is no JSON object.
pub fn read_members(text: &[u8], names: &[String]) -> Result<Json, QueryError> {
    read(text, &NeededProperties::of_names(names.to_vec()))
}

/// Goes over the members of an object and parses those that are wanted.
fn skim(text: &[u8], wanted: &[String], object: &mut Object) -> Option<()> {
    let mut at = blank(text, 0);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    at = blank(text, at + 1);
    if text.get(at) == Some(&b'}') {
        return Some(());
    }
    loop {
        let name_end = string_end(text, at)?;
        let name = &text[at + 1..name_end - 1];
        let colon = blank(text, name_end);
        if text.get(colon) != Some(&b':') {
            return None;
        }
        let start = blank(text, colon + 1);
        let end = value_end(text, start)?;
        let found = if name.contains(&b'\\') {
            // An escaped name is rare enough to be read in full.
            let Json::String(name) = parse(&text[at..name_end]).ok()? else {
                return None;
            };
            wanted.iter().find(|w| **w == name)
        } else {
            wanted.iter().find(|w| w.as_bytes() == name)
        };
        if let Some(name) = found {
            object.set(name.as_str(), value(&text[start..end])?);
        }
        at = blank(text, end);
        match text.get(at)? {
            b',' => at = blank(text, at + 1),
            b'}' => return Some(()),
            _ => return None,
        }
    }
}

/// Parses a value; scalars, which are nearly all, without the way through a general parser.
fn value(text: &[u8]) -> Option<Json> {
    match text {
        b"true" => Some(Json::Bool(true)),
        b"false" => Some(Json::Bool(false)),
        b"null" => Some(Json::Null),
        [b'"', inner @ .., b'"'] if memchr::memchr(b'\\', inner).is_none() => {
            std::str::from_utf8(inner).ok().map(Json::from)
        }
        [b'-' | b'0'..=b'9', ..] => {
            Number::from_text(std::str::from_utf8(text).ok()?).map(Json::Number)
        }
        other => parse(other).ok(),
    }
}

fn blank(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// One past the closing quote of the string that begins at `at`.
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
        at += 2;
    }
}

/// One past the value that begins at `at`.
fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => {
            let mut depth = 0usize;
            let mut at = at;
            loop {
                match text.get(at)? {
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
        _ => {
            let rest = &text[at..];
            let length = rest
                .iter()
                .position(|b| matches!(b, b',' | b'}' | b']') || b.is_ascii_whitespace());
            Some(at + length.unwrap_or(rest.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skimming_finds_what_parsing_finds() {
        let text = br#"{"a":1,"b":{"x":"}]\"","y":[1,{"a":2}]},"c":"q\\","d" : [ ] , "e":null,"\u0061b":true,"a":5}"#;
        let whole = parse(text).expect("valid");
        for name in ["a", "b", "c", "d", "e", "ab", "nothing"] {
            let part =
                read(text, &NeededProperties::of_names(vec![name.to_owned()])).expect("skimmed");
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
