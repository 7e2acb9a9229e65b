//! Items: single operations and batches.

use crate::answer::Answer;
use crate::client::Client;
use crate::error::ClientError;
use crate::queries::Scope;
use crate::request::Request;
use crate::signature::ascii_json;
use bytes::Bytes;
use http::Method;
use serde_json::Value;

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

impl Client {
    /// Creates an item. A broken connection is an error: a repetition would be refused with 409 if
    /// the first attempt had arrived.
    ///
    /// # Errors
    /// Those of [`Client::request`], as for the other functions of this module.
    pub async fn create_item(
        &self,
        container: &str,
        key: &PartitionKey,
        item: impl Into<Bytes>,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::POST, format!("{container}/docs"));
        self.request(&request.header(KEY_HEADER, key.as_str()).body(item))
            .await
    }

    /// Creates or replaces an item.
    pub async fn upsert_item(
        &self,
        container: &str,
        key: &PartitionKey,
        item: impl Into<Bytes>,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::POST, format!("{container}/docs"))
            .header(KEY_HEADER, key.as_str())
            .header("x-ms-documentdb-is-upsert", "True")
            .body(item)
            .repeatable();
        self.request(&request).await
    }

    /// Reads an item.
    pub async fn read_item(
        &self,
        container: &str,
        key: &PartitionKey,
        id: &str,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::GET, format!("{container}/docs/{id}"));
        self.request(&request.header(KEY_HEADER, key.as_str()))
            .await
    }

    /// Replaces an item; with `etag`, only the version with this etag (412 otherwise).
    pub async fn replace_item(
        &self,
        container: &str,
        key: &PartitionKey,
        id: &str,
        item: impl Into<Bytes>,
        etag: Option<&str>,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::PUT, format!("{container}/docs/{id}"));
        let request = request.header(KEY_HEADER, key.as_str()).body(item);
        self.request(&with_etag(request, etag)).await
    }

    /// Changes an item by the operations of a patch: `{"operations":[…]}` or their array.
    pub async fn patch_item(
        &self,
        container: &str,
        key: &PartitionKey,
        id: &str,
        operations: impl Into<Bytes>,
        etag: Option<&str>,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::PATCH, format!("{container}/docs/{id}"))
            .header(KEY_HEADER, key.as_str())
            .header("content-type", "application/json_patch+json")
            .body(operations);
        self.request(&with_etag(request, etag)).await
    }

    /// Deletes an item; with `etag`, only the version with this etag (412 otherwise).
    pub async fn delete_item(
        &self,
        container: &str,
        key: &PartitionKey,
        id: &str,
        etag: Option<&str>,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::DELETE, format!("{container}/docs/{id}"));
        let request = request.header(KEY_HEADER, key.as_str());
        self.request(&with_etag(request, etag)).await
    }

    /// Sends a batch: the JSON array of at most 100 operations
    /// `{"operationType":"Create","partitionKey":"[…]","resourceBody":{…}}`. The answer is an array
    /// with the `statusCode` of each.
    ///
    /// [`Scope::Key`] is a transaction of one logical partition: all operations or none.
    /// [`Scope::Range`] is a bulk request of one physical partition, whose operations succeed and
    /// fail one by one. Each operation of a bulk request names its own partition key.
    pub async fn batch(
        &self,
        container: &str,
        scope: Scope<'_>,
        operations: impl Into<Bytes>,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::POST, format!("{container}/docs"))
            .header("x-ms-cosmos-is-batch-request", "True")
            .body(operations);
        let request = match scope {
            Scope::Key(_) => request.header("x-ms-cosmos-batch-atomic", "True"),
            _ => request
                .header("x-ms-cosmos-batch-atomic", "False")
                .header("x-ms-cosmos-batch-continue-on-error", "True"),
        };
        self.request(&scope.add_to(request)).await
    }
}

fn with_etag(request: Request, etag: Option<&str>) -> Request {
    match etag {
        Some(etag) => request.header("if-match", etag),
        None => request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_sent_in_ascii_with_the_digits_of_its_text() {
        assert_eq!(PartitionKey::text("a\"é").as_str(), r#"["a\"\u00e9"]"#);
        assert_eq!(PartitionKey::of(&json!(null)).as_str(), "[null]");
        let long = "[9007199254740993.0,{}]";
        assert_eq!(PartitionKey::from_json(long).as_str(), long);
    }
}
