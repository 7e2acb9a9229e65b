//! Names in a script: `${name}` in a request stands for a text or for a part of an earlier answer.
//!
//! `${offer}` is the whole value, `${offer.content.offerThroughput}` a member of it, `${rows.0}` an
//! element, and `${rid:percent}` the value with percent signs in place of what a path must encode.
//! A string stands without its quotes, another value as JSON text.

use crate::program::Answer;
use orrery_model::Json;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::BTreeMap;

/// The part of an answer that a name keeps.
#[derive(Debug, PartialEq)]
pub(super) enum Source {
    /// A member of the body, or the whole body if the path is empty.
    Body(Vec<String>),
    Header(String),
}

impl Source {
    /// Parses `body`, `body.MEMBER.MEMBER` and `header.NAME`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("header.") {
            return Ok(Source::Header(name.to_owned()));
        }
        match text.strip_prefix("body") {
            Some("") => Ok(Source::Body(Vec::new())),
            Some(path) if path.starts_with('.') => {
                let members = path[1..].split('.').map(str::to_owned);
                Ok(Source::Body(members.collect()))
            }
            _ => Err(format!(
                "`{text}` is none of `body`, `body.MEMBER` and `header.NAME`"
            )),
        }
    }

    /// Returns the part of an answer.
    pub(super) fn value_in(&self, answer: &Answer) -> Result<Json, String> {
        match self {
            Source::Header(name) => answer
                .header(name)
                .map(Json::from)
                .ok_or_else(|| format!("the answer has no header `{name}`")),
            Source::Body(path) => {
                let body = answer.json();
                member(&body, path.iter().map(String::as_str)).cloned()
            }
        }
    }
}

/// The values of names.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    values: BTreeMap<String, Json>,
}

impl Names {
    pub(super) fn set(&mut self, name: &str, value: impl Into<Json>) {
        self.values.insert(name.to_owned(), value.into());
    }

    /// Returns a text with values in place of names.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut end = 0;
        for reference in references(text)? {
            out.push_str(&text[end..reference.start]);
            out.push_str(&self.text_of(&reference)?);
            end = reference.end;
        }
        out.push_str(&text[end..]);
        Ok(out)
    }

    fn text_of(&self, reference: &Reference<'_>) -> Result<String, String> {
        let name = reference.name;
        let value = self.values.get(name);
        let value = value.ok_or_else(|| format!("the name `{name}` has no value"))?;
        let value = member(value, reference.path.iter().copied())?;
        let text = match value {
            Json::String(text) => text.clone(),
            other => other.to_text(),
        };
        Ok(if reference.is_encoded {
            utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string()
        } else {
            text
        })
    }
}

/// Returns the value at a path of members and elements.
fn member<'a, 'b>(
    value: &'a Json,
    path: impl Iterator<Item = &'b str>,
) -> Result<&'a Json, String> {
    let mut at = value;
    for name in path {
        let found = match at {
            Json::Array(elements) => name.parse().ok().and_then(|n: usize| elements.get(n)),
            other => other.get(name),
        };
        at = found.ok_or_else(|| format!("there is no `{name}` in {}", value.to_text()))?;
    }
    Ok(at)
}

/// A use of a name in a text.
#[derive(Debug)]
pub(super) struct Reference<'a> {
    pub(super) name: &'a str,
    path: Vec<&'a str>,
    is_encoded: bool,
    /// First byte of the use in the text.
    start: usize,
    /// End of the use in the text.
    end: usize,
}

/// Returns the uses of names in a text.
pub(super) fn references(text: &str) -> Result<Vec<Reference<'_>>, String> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find("${").map(|n| at + n) {
        let rest = &text[start + 2..];
        let length = rest
            .find('}')
            .ok_or_else(|| format!("`{}` is not closed", &text[start..]))?;
        let inner = &rest[..length];
        let (dotted, is_encoded) = match inner.strip_suffix(":percent") {
            Some(dotted) => (dotted, true),
            None => (inner, false),
        };
        let mut parts = dotted.split('.');
        let name = parts.next().unwrap_or_default();
        if !is_name(name) {
            return Err(format!(
                "`${{{inner}}}` has no name of small letters and `_`"
            ));
        }
        let end = start + 2 + length + 1;
        found.push(Reference {
            name,
            path: parts.collect(),
            is_encoded,
            start,
            end,
        });
        at = end;
    }
    Ok(found)
}

/// Returns true for a name: small letters, digits and `_`, and a letter first.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
