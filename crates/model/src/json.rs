//! JSON values as the service sees them.
//!
//! A [`Json`] keeps what a round trip must keep: the order of an object's members, the text of a number whose
//! shortest form would differ, and the exact string. It is the value that queries, partition keys and index terms
//! speak of; items themselves are stored as compact text and parsed only when something looks inside.
//!
//! Parsing is sonic-rs's; what is ours are the rules on top: at most [`NESTING_DEPTH`](crate::limits::NESTING_DEPTH) levels, of equal names
//! the last one wins, errors with an offset. Equality and order: [`compare`], [`deep_equal`].
//!
//! Left out: streaming, comments, any leniency of syntax.

mod number;
mod order;
mod parse;
mod write;

pub use number::Number;
pub use order::{TypeRank, compare, deep_equal};
pub use parse::{JsonError, parse};
pub use write::{write_json, write_string};

use std::fmt;

/// A JSON value. "Undefined" is not JSON: places that need it use `Option<Json>`.
#[derive(Clone, Debug)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number; see [`Number`] for what survives.
    Number(Number),
    /// A string, without its quotes and escapes.
    String(String),
    /// Elements in order.
    Array(Vec<Json>),
    /// Members in order of first appearance; names are unique.
    Object(Object),
}

/// The members of an object, in order, each name once.
#[derive(Clone, Debug, Default)]
pub struct Object {
    members: Vec<(String, Json)>,
}

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `name`, if there is one.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The value of `name` to change, if there is one.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        self.members
            .iter_mut()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v)
    }

    /// Sets `name`, in its old place if it is there already.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Json>) {
        let (name, value) = (name.into(), value.into());
        match self.members.iter_mut().find(|(n, _)| *n == name) {
            Some((_, v)) => *v = value,
            None => self.members.push((name, value)),
        }
    }

    /// Appends a member whose name is known to be new. The caller promises that it is.
    pub fn push_new(&mut self, name: impl Into<String>, value: impl Into<Json>) {
        self.members.push((name.into(), value.into()));
    }

    /// Takes `name` out.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let at = self.members.iter().position(|(n, _)| n == name)?;
        Some(self.members.remove(at).1)
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.members.iter().map(|(n, v)| (n.as_str(), v))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl FromIterator<(String, Json)> for Object {
    /// Of equal names the last value wins, in the place of the first.
    fn from_iter<T: IntoIterator<Item = (String, Json)>>(members: T) -> Self {
        parse::unique(members.into_iter().collect())
    }
}

impl IntoIterator for Object {
    type Item = (String, Json);
    type IntoIter = std::vec::IntoIter<(String, Json)>;
    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}

impl Json {
    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(s) => Some(s),
            _ => None,
        }
    }

    /// The number as a double, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Number(n) => Some(n.as_f64()),
            _ => None,
        }
    }

    /// The number as an integer, if it is a whole one in the range of `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(n) => n.as_i64(),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Json::Object(o) => Some(o),
            _ => None,
        }
    }

    /// The members to change, if it is an object.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        match self {
            Json::Object(o) => Some(o),
            _ => None,
        }
    }

    /// The member `name`, if this is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.as_object()?.get(name)
    }

    /// Compact JSON text.
    pub fn to_text(&self) -> String {
        let mut out = Vec::new();
        write_json(self, &mut out);
        String::from_utf8(out).expect("written JSON is UTF-8")
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// Deep equality as the query language has it: members in any order, `1` equals `1.0`.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        deep_equal(self, other)
    }
}

impl From<bool> for Json {
    fn from(v: bool) -> Self {
        Json::Bool(v)
    }
}
impl From<i64> for Json {
    fn from(v: i64) -> Self {
        Json::Number(Number::from(v))
    }
}
impl From<i32> for Json {
    fn from(v: i32) -> Self {
        Json::from(i64::from(v))
    }
}
impl From<u32> for Json {
    fn from(v: u32) -> Self {
        Json::from(i64::from(v))
    }
}
impl From<u64> for Json {
    fn from(v: u64) -> Self {
        Json::Number(Number::from(v))
    }
}
impl From<usize> for Json {
    fn from(v: usize) -> Self {
        Json::from(v as u64)
    }
}
impl From<f64> for Json {
    fn from(v: f64) -> Self {
        Json::Number(Number::from(v))
    }
}
impl From<&str> for Json {
    fn from(v: &str) -> Self {
        Json::String(v.to_owned())
    }
}
impl From<String> for Json {
    fn from(v: String) -> Self {
        Json::String(v)
    }
}
impl From<Vec<Json>> for Json {
    fn from(v: Vec<Json>) -> Self {
        Json::Array(v)
    }
}
impl From<Object> for Json {
    fn from(v: Object) -> Self {
        Json::Object(v)
    }
}

/// Builds an object in one expression: `object! { "id" => "p1", "count" => 3 }`.
#[macro_export]
macro_rules! object {
    ($($name:expr => $value:expr),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut object = $crate::json::Object::new();
        $(object.push_new($name, $value);)*
        object
    }};
}

#[cfg(test)]
mod tests;
