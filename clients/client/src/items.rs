//! Items: single operations and batches.

use crate::answer::Answer;
use crate::client::Client;
use crate::error::ClientError;
use crate::request::Request;
use crate::scope::{KEY_HEADER, PartitionKey, Scope};
use bytes::Bytes;
use http::Method;

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
