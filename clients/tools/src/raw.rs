//! JSON objects whose values keep their text, so that numbers keep their digits: a double holds 53
//! bits of an integer, and `1.50` has a digit that a number does not.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

/// The members of a JSON object, in their order, with the text of their values.
pub(crate) struct Members<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Collect).map(Members)
    }
}

impl<'a> Members<'a> {
    /// Returns the members of an object; `None` for any other text.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Returns the text of a value: a string without its quotation marks, all else as it stands.
pub(crate) fn plain(value: &str) -> String {
    if value.starts_with('"')
        && let Ok(text) = serde_json::from_str(value)
    {
        return text;
    }
    value.to_owned()
}

/// Returns a JSON text with indentation; the text of its numbers and strings stays.
pub(crate) fn indented(text: &str) -> String {
    let mut out = String::new();
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut rest = text.trim().chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    while let Some(c) = rest.next() {
        // Inside of a string every character stays.
        if in_string {
            out.push(c);
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        // Outside, the spaces of the text are replaced by those of the form.
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while rest.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                match rest.next_if(|c| matches!(c, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ if c.is_ascii_whitespace() => {}
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_text() {
        let Members(members) = Members::of(r#"{"n":9007199254740993.10}"#).unwrap();
        assert_eq!(members[0].1.get(), "9007199254740993.10");
        assert!(Members::of("[1]").is_none());
        assert_eq!(plain(r#""a\"b""#), "a\"b");
    }

    #[test]
    fn an_indented_text_has_the_same_digits() {
        let text = r#"{ "a":[1.50,{}],"b":"x, {y: \"z" ,"c":[ ]}"#;
        let expected = "{\n  \"a\": [\n    1.50,\n    {}\n  ],\n  \"b\": \"x, {y: \\\"z\",\n  \
                        \"c\": []\n}";
        assert_eq!(indented(text), expected);
    }
}
