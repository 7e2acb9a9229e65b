//! Paths into an object: JSON pointers (RFC 6901) such as `/a/b/0`, where `~1` stands for a slash
//! and `~0` for a tilde.

use crate::{Json, Object};
use std::fmt;

/// A pointer to a value below an object, never to the object itself.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    /// All segments but the last, unescaped.
    parents: Vec<String>,
    /// The last segment, unescaped.
    last: String,
}

/// A value that can have children.
pub(super) enum Node<'a> {
    Object(&'a mut Object),
    Array(&'a mut Vec<Json>),
}

impl Pointer {
    /// Parses a pointer. `None` if the text does not begin with a slash, or if a tilde is not
    /// followed by 0 or 1.
    pub(super) fn parse(text: &str) -> Option<Pointer> {
        let mut parents = text
            .strip_prefix('/')?
            .split('/')
            .map(unescape)
            .collect::<Option<Vec<_>>>()?;
        let last = parents.pop()?;
        Some(Pointer { parents, last })
    }

    /// Returns the last segment.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Returns the first segment.
    pub(super) fn first(&self) -> &str {
        self.parents.first().unwrap_or(&self.last)
    }

    /// Returns true if `other` points to a value below the value of this pointer.
    pub(super) fn is_ancestor_of(&self, other: &Pointer) -> bool {
        match other.parents.strip_prefix(&self.parents[..]) {
            Some(below) => below.first() == Some(&self.last),
            None => false,
        }
    }

    /// Returns the object or array that contains the last segment.
    ///
    /// # Errors
    /// The first segment that does not exist or is neither an object nor an array.
    pub(super) fn parent<'a>(&self, object: &'a mut Object) -> Result<Node<'a>, &str> {
        let mut node = Node::Object(object);
        for segment in &self.parents {
            let child = match node {
                Node::Object(members) => members.get_mut(segment),
                Node::Array(elements) => {
                    array_index(segment).and_then(|index| elements.get_mut(index))
                }
            };
            node = match child {
                Some(Json::Object(members)) => Node::Object(members),
                Some(Json::Array(elements)) => Node::Array(elements),
                _ => return Err(segment),
            };
        }
        Ok(node)
    }

    /// Returns the last segment as an array index: at most the length of `elements`, which `-`
    /// stands for. `None` for other segments.
    pub(super) fn index_in(&self, elements: &[Json]) -> Option<usize> {
        if self.last == "-" {
            return Some(elements.len());
        }
        let index = array_index(&self.last)?;
        (index <= elements.len()).then_some(index)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in self.parents.iter().chain([&self.last]) {
            write!(f, "/{}", segment.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

/// Parses an array index: digits without a leading zero (RFC 6901, section 4).
fn array_index(segment: &str) -> Option<usize> {
    let all_digits = segment.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = segment.len() > 1 && segment.starts_with('0');
    if !all_digits || leading_zero {
        return None;
    }
    segment.parse().ok()
}

/// Replaces `~0` and `~1`. `None` if another character, or none, follows a tilde.
fn unescape(segment: &str) -> Option<String> {
    let mut parts = segment.split('~');
    let mut unescaped = parts.next()?.to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(1)?;
        unescaped.push(match code {
            "0" => '~',
            "1" => '/',
            _ => return None,
        });
        unescaped.push_str(rest);
    }
    Some(unescaped)
}
