//! Paths into an object: JSON pointers (`/a/b/0`, `~1` for a slash, `~0` for a tilde).

use crate::{Json, Object};
use std::fmt;

/// A pointer to something below an object; never to the object itself.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    parents: Vec<String>,
    last: String,
}

/// What can have children.
pub(super) enum Node<'a> {
    Object(&'a mut Object),
    Array(&'a mut Vec<Json>),
}

impl Pointer {
    /// `None` for what does not begin with a slash or has a tilde that escapes nothing.
    pub(super) fn read(text: &str) -> Option<Pointer> {
        let mut parents = text
            .strip_prefix('/')?
            .split('/')
            .map(unescape)
            .collect::<Option<Vec<_>>>()?;
        let last = parents.pop()?;
        Some(Pointer { parents, last })
    }

    /// The last step.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// The first step.
    pub(super) fn root(&self) -> &str {
        self.parents.first().unwrap_or(&self.last)
    }

    /// Whether `other` leads to something below this.
    pub(super) fn holds(&self, other: &Pointer) -> bool {
        other
            .parents
            .strip_prefix(&self.parents[..])
            .is_some_and(|below| below.first() == Some(&self.last))
    }

    /// What the last step starts from.
    ///
    /// # Errors
    /// The first step that leads to nothing, or to what has no children.
    pub(super) fn parent<'a>(&self, object: &'a mut Object) -> Result<Node<'a>, &str> {
        let mut node = Node::Object(object);
        for step in &self.parents {
            let child = match node {
                Node::Object(members) => members.get_mut(step),
                Node::Array(elements) => index(step).and_then(|at| elements.get_mut(at)),
            };
            node = match child {
                Some(Json::Object(members)) => Node::Object(members),
                Some(Json::Array(elements)) => Node::Array(elements),
                _ => return Err(step),
            };
        }
        Ok(node)
    }

    /// The last step as a place in an array: an index up to its length, or `-` for its end.
    pub(super) fn place_in(&self, elements: &[Json]) -> Option<usize> {
        if self.last == "-" {
            return Some(elements.len());
        }
        index(&self.last).filter(|at| *at <= elements.len())
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in self.parents.iter().chain([&self.last]) {
            write!(f, "/{}", step.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

/// Digits without a leading zero.
fn index(step: &str) -> Option<usize> {
    let plain = step.bytes().all(|b| b.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
    if plain { step.parse().ok() } else { None }
}

fn unescape(step: &str) -> Option<String> {
    let mut parts = step.split('~');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (escaped, rest) = part.split_at_checked(1)?;
        plain.push(match escaped {
            "0" => '~',
            "1" => '/',
            _ => return None,
        });
        plain.push_str(rest);
    }
    Some(plain)
}
