//! JSON values with the service's rules of precision, equality and order.
//!
//! A [`Json`] survives a round trip unchanged: it keeps the order of an object's members, the text
//! of a number whose shortest form would differ, and the exact string. Queries, partition keys and
//! index terms use these values. Items are stored as compact text and parsed only when a member is
//! needed.
//!
//! sonic-rs parses the text. This module adds the service's rules: at most
//! [`NESTING_DEPTH`](crate::limits::NESTING_DEPTH) levels, the last of several members of one name
//! wins, errors carry an offset. [`compare`] and [`deep_equal`] define order and equality.
//!
//! Left out: streaming, comments and other extensions of the syntax.

mod number;
mod order;
mod parse;
mod write;

pub use number::Number;
pub use order::{TypeRank, compare, deep_equal};
pub use parse::{JsonError, parse};
pub use write::{write_json, write_shortest, write_string};

use std::fmt;

/// A JSON value. "Undefined" is not JSON; code that needs it uses `Option<Json>`.
#[derive(Clone, Debug)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number; [`Number`] describes its precision.
    Number(Number),
    /// A string, without quotes and escapes.
    String(String),
    /// The elements in order.
    Array(Vec<Json>),
    /// The members in order of first appearance; names are unique.
    Object(Object),
}

/// The members of an object in order. Names are unique.
#[derive(Clone, Debug, Default)]
pub struct Object {
    members: Vec<(String, Json)>,
}

impl Object {
    /// Creates an object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of `name`, if there is one.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// Returns the value of `name` for modification, if there is one.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        self.members
            .iter_mut()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v)
    }

    /// Sets `name`. An existing member keeps its position; a new one is appended.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Json>) {
        let (name, value) = (name.into(), value.into());
        match self.members.iter_mut().find(|(n, _)| *n == name) {
            Some((_, v)) => *v = value,
            None => self.members.push((name, value)),
        }
    }

    /// Appends a member. The caller must make sure that no member has this name yet.
    pub fn push_new(&mut self, name: impl Into<String>, value: impl Into<Json>) {
        self.members.push((name.into(), value.into()));
    }

    /// Removes `name` and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let at = self.members.iter().position(|(n, _)| n == name)?;
        Some(self.members.remove(at).1)
    }

    /// Returns the members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.members.iter().map(|(n, v)| (n.as_str(), v))
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl FromIterator<(String, Json)> for Object {
    /// Collects members. A repeated name keeps its first position and its last value.
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
    /// Returns the string; `None` for another type.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the number as a double; `None` for another type.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Number(n) => Some(n.as_f64()),
            _ => None,
        }
    }

    /// Returns the number as an integer; `None` for another type, a fraction, or a number outside
    /// the range of `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(n) => n.as_i64(),
            _ => None,
        }
    }

    /// Returns the boolean; `None` for another type.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Returns the elements of an array; `None` for another type.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(a) => Some(a),
            _ => None,
        }
    }

    /// Returns the members of an object; `None` for another type.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Json::Object(o) => Some(o),
            _ => None,
        }
    }

    /// Returns the members of an object for modification; `None` for another type.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        match self {
            Json::Object(o) => Some(o),
            _ => None,
        }
    }

    /// Returns the member `name` of an object; `None` for another type or a missing member.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.as_object()?.get(name)
    }

    /// Returns the value as compact JSON text.
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

/// Equality as the query language defines it: members in any order, `1` equals `1.0`.
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

/// Creates an object in one expression: `object! { "id" => "p1", "count" => 3 }`.
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
