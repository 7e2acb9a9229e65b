//! The text of a query, and the part of a container that a request addresses: a partition key, a
//! partition key range, or the whole container.

use crate::request::Request;
use crate::signature::ascii_json;
use serde_json::{Value, json};

/// The header with a partition key.
pub(crate) const KEY_HEADER: &str = "x-ms-documentdb-partitionkey";

/// The value of a partition key as the protocol sends it: a JSON array in ASCII with one component
/// for each path; `{}` stands for a property that the item does not have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionKey(String);

impl PartitionKey {
    /// Creates the key of a container with one path.
    pub fn of(value: &Value) -> Self {
        Self::from_json(&format!("[{value}]"))
    }

    /// Creates a key of one string.
    pub fn text(value: &str) -> Self {
        Self::of(&Value::from(value))
    }

    /// Creates a key from the text of its JSON array, for example `["a",7]`.
    pub fn from_json(array: &str) -> Self {
        Self(ascii_json(array))
    }

    /// Returns the text of the array, in ASCII.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A partition key range: the effective partition keys of one physical partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionKeyRange {
    /// The service's id of the range, for example `0`.
    pub id: String,
    /// First effective partition key, hexadecimal, inclusive.
    pub min: String,
    /// Last effective partition key, hexadecimal, exclusive; `FF` at the end.
    pub max: String,
    /// Ids of the ranges from which this one was split, the oldest first.
    pub parents: Vec<String>,
}

/// A query text with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryText {
    /// The query.
    pub text: String,
    /// Names with `@`, and values.
    pub parameters: Vec<(String, Value)>,
}

impl QueryText {
    /// Creates a query without parameters.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            parameters: Vec::new(),
        }
    }

    /// Adds a parameter, whose name begins with `@`.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.parameters.push((name.to_owned(), value.into()));
        self
    }

    /// Returns the body of a request.
    pub fn body(&self) -> String {
        let parameters: Vec<Value> = self
            .parameters
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        json!({"query": self.text, "parameters": parameters}).to_string()
    }
}

/// The part of a container that a query or a batch addresses.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// The logical partition of a key.
    Key(&'a PartitionKey),
    /// The physical partition of a partition key range, by its id.
    Range(&'a str),
    /// The whole container: the server merges, or ends a page with its physical partition.
    Container,
}

impl Scope<'_> {
    pub(crate) fn add_to(self, request: Request) -> Request {
        match self {
            Scope::Key(key) => request.header(KEY_HEADER, key.as_str()),
            Scope::Range(id) => request.header("x-ms-documentdb-partitionkeyrangeid", id),
            Scope::Container => request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sent_in_ascii_with_the_digits_of_its_text() {
        assert_eq!(PartitionKey::text("a\"é").as_str(), r#"["a\"\u00e9"]"#);
        assert_eq!(PartitionKey::of(&json!(null)).as_str(), "[null]");
        let long = "[9007199254740993.0,{}]";
        assert_eq!(PartitionKey::from_json(long).as_str(), long);
    }
}
