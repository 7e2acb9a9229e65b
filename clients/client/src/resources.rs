//! The account, databases, containers, partition key ranges, and scripts.

use crate::answer::Answer;
use crate::client::Client;
use crate::error::ClientError;
use crate::request::Request;
use crate::scope::{KEY_HEADER, PartitionKey, PartitionKeyRange};
use crate::sync::lock;
use crate::throughput::Throughput;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the link of a database.
pub fn database_link(database: &str) -> String {
    format!("dbs/{database}")
}

/// Returns the link of a container.
pub fn container_link(database: &str, container: &str) -> String {
    format!("dbs/{database}/colls/{container}")
}

/// The kinds of scripts of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptKind {
    /// Stored procedures.
    Procedure,
    /// Triggers.
    Trigger,
    /// User-defined functions.
    Function,
}

impl ScriptKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Procedure, Self::Trigger, Self::Function];

    /// Returns the resource type, for example `sprocs`.
    pub fn resource_type(self) -> &'static str {
        match self {
            Self::Procedure => "sprocs",
            Self::Trigger => "triggers",
            Self::Function => "udfs",
        }
    }

    /// Returns the property of a feed that lists the scripts.
    fn feed_property(self) -> &'static str {
        match self {
            Self::Procedure => "StoredProcedures",
            Self::Trigger => "Triggers",
            Self::Function => "UserDefinedFunctions",
        }
    }
}

impl Client {
    /// Reads the properties of the account.
    ///
    /// # Errors
    /// Those of [`Client::request`], as for the other functions of this module.
    pub async fn account(&self) -> Result<Answer, ClientError> {
        self.request(&Request::new(Method::GET, "")).await
    }

    /// Lists the databases.
    pub async fn databases(&self) -> Result<Vec<Value>, ClientError> {
        self.feed("dbs", "Databases").await
    }

    /// Creates a database with the name `id`; 409 if it exists.
    pub async fn create_database(
        &self,
        id: &str,
        throughput: Option<Throughput>,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::POST, "dbs").body(json!({"id": id}).to_string());
        self.request(&Throughput::add_to(throughput, request)).await
    }

    /// Lists the client encryption keys of a database, given by its link.
    pub async fn encryption_keys(&self, database: &str) -> Result<Vec<Value>, ClientError> {
        let path = format!("{database}/clientencryptionkeys");
        self.feed(&path, "ClientEncryptionKeys").await
    }

    /// Lists the containers of a database, given by its link.
    pub async fn containers(&self, database: &str) -> Result<Vec<Value>, ClientError> {
        self.feed(&format!("{database}/colls"), "DocumentCollections")
            .await
    }

    /// Creates a container from its definition, for example
    /// `{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash","version":2}}`;
    /// 409 if it exists.
    pub async fn create_container(
        &self,
        database: &str,
        definition: &Value,
        throughput: Option<Throughput>,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::POST, format!("{database}/colls"));
        let request = request.body(definition.to_string());
        self.request(&Throughput::add_to(throughput, request)).await
    }

    /// Reads a container; with `with_usage`, its sizes too: the header `x-ms-resource-usage`, and
    /// `statistics` of its physical partitions in the body, for which a server may read all keys of
    /// a large partition.
    pub async fn read_container(
        &self,
        container: &str,
        with_usage: bool,
    ) -> Result<Answer, ClientError> {
        let mut request = Request::new(Method::GET, container);
        if with_usage {
            request = request
                .header("x-ms-documentdb-populatequotainfo", "True")
                .header("x-ms-documentdb-populatepartitionstatistics", "True");
        }
        self.request(&request).await
    }

    /// Returns the number of items of a container, as the server states it from its counters;
    /// `None` for a server that does not.
    pub async fn item_count(&self, container: &str) -> Result<Option<u64>, ClientError> {
        let request = Request::new(Method::GET, container);
        let request = request.header("x-ms-documentdb-populatequotainfo", "True");
        let answer = self.request(&request).await?;
        let usage = answer.header("x-ms-resource-usage").unwrap_or_default();
        let mut parts = usage.split(';');
        let count = parts.find_map(|part| part.strip_prefix("documentsCount="));
        Ok(count.and_then(|text| text.parse().ok()))
    }

    /// Reads any resource by its link.
    pub async fn read(&self, link: &str) -> Result<Answer, ClientError> {
        self.request(&Request::new(Method::GET, link)).await
    }

    /// Creates a resource that has no headers of its own in a feed: a client encryption key in
    /// `dbs/shop/clientencryptionkeys`, a script in `dbs/shop/colls/orders/udfs`; 409 if it exists.
    pub async fn create(&self, feed: &str, definition: &Value) -> Result<Answer, ClientError> {
        let request = Request::new(Method::POST, feed).body(definition.to_string());
        self.request(&request).await
    }

    /// Replaces the definition of any resource but an item by its link.
    pub async fn replace(&self, link: &str, definition: &Value) -> Result<Answer, ClientError> {
        let request = Request::new(Method::PUT, link).body(definition.to_string());
        self.request(&request.repeatable()).await
    }

    /// Deletes any resource but an item by its link; 404 if it does not exist.
    pub async fn delete(&self, link: &str) -> Result<Answer, ClientError> {
        self.forget(link);
        self.request(&Request::new(Method::DELETE, link)).await
    }

    /// Lists the scripts of one kind.
    pub async fn scripts(
        &self,
        container: &str,
        kind: ScriptKind,
    ) -> Result<Vec<Value>, ClientError> {
        let path = format!("{container}/{}", kind.resource_type());
        self.feed(&path, kind.feed_property()).await
    }

    /// Creates a script from its definition, for example `{"id":"tax","body":"function …"}`; 409 if
    /// it exists.
    pub async fn create_script(
        &self,
        container: &str,
        kind: ScriptKind,
        definition: &Value,
    ) -> Result<Answer, ClientError> {
        let feed = format!("{container}/{}", kind.resource_type());
        self.create(&feed, definition).await
    }

    /// Runs a stored procedure in one logical partition. `arguments` is a JSON array.
    pub async fn execute_procedure(
        &self,
        container: &str,
        id: &str,
        key: &PartitionKey,
        arguments: impl Into<Bytes>,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::POST, format!("{container}/sprocs/{id}"))
            .header(KEY_HEADER, key.as_str())
            .body(arguments);
        self.request(&request).await
    }

    /// Returns the partition key ranges of a container in key order. They are read once and kept
    /// until [`Client::fresh_ranges`] or [`Client::forget`].
    pub async fn ranges(
        &self,
        container: &str,
    ) -> Result<Arc<Vec<PartitionKeyRange>>, ClientError> {
        let known = lock(&self.shared.ranges).get(container).cloned();
        match known {
            Some(ranges) => Ok(ranges),
            None => self.fresh_ranges(container).await,
        }
    }

    /// Reads the partition key ranges of a container again, after a split.
    pub async fn fresh_ranges(
        &self,
        container: &str,
    ) -> Result<Arc<Vec<PartitionKeyRange>>, ClientError> {
        let path = format!("{container}/pkranges");
        let client = self.without_observer();
        let listed = client.feed(&path, "PartitionKeyRanges").await?;
        let ranges = parse_ranges(&listed).map_err(|e| ClientError::unexpected(&path, e))?;
        let ranges = Arc::new(ranges);
        lock(&self.shared.ranges).insert(container.to_owned(), ranges.clone());
        Ok(ranges)
    }

    /// Removes the known partition key ranges and query plans of every container whose link begins
    /// with `link`. To be called after a split.
    pub fn forget(&self, link: &str) {
        lock(&self.shared.ranges).retain(|container, _| !container.starts_with(link));
        lock(&self.shared.plans).retain(|key, _| !key.starts_with(link));
    }

    /// Reads all pages of a feed and returns the resources in `property`.
    pub async fn feed(&self, path: &str, property: &str) -> Result<Vec<Value>, ClientError> {
        let mut resources = Vec::new();
        let mut continuation: Option<String> = None;
        loop {
            let mut request = Request::new(Method::GET, path).header("x-ms-max-item-count", "-1");
            if let Some(token) = continuation {
                request = request.header("x-ms-continuation", token);
            }
            let answer = self.request(&request).await?;
            match answer.json::<Value>()?.get_mut(property).map(Value::take) {
                Some(Value::Array(page)) => resources.extend(page),
                _ => {
                    let reason = format!("a feed without {property}");
                    return Err(ClientError::unexpected(&answer.operation, reason));
                }
            }
            continuation = answer.continuation().map(str::to_owned);
            if continuation.is_none() {
                return Ok(resources);
            }
        }
    }
}

/// Parses partition key ranges and sorts them by key.
fn parse_ranges(listed: &[Value]) -> Result<Vec<PartitionKeyRange>, String> {
    let text = |value: &Value| match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("'{value}' is not a string")),
    };
    let mut ranges = Vec::with_capacity(listed.len());
    for range in listed {
        let parents = range["parents"].as_array().into_iter().flatten();
        ranges.push(PartitionKeyRange {
            id: text(&range["id"])?,
            min: text(&range["minInclusive"])?,
            max: text(&range["maxExclusive"])?,
            parents: parents.map(text).collect::<Result<_, _>>()?,
        });
    }
    if ranges.is_empty() {
        return Err("a container without physical partitions".into());
    }
    ranges.sort_by(|a, b| a.min.cmp(&b.min));
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_sorted_by_key_and_keep_their_parents() {
        let listed = [
            json!({"id": "2", "minInclusive": "1F", "maxExclusive": "FF", "parents": ["0"]}),
            json!({"id": "1", "minInclusive": "", "maxExclusive": "1F", "parents": ["0"]}),
        ];
        let ranges = parse_ranges(&listed).unwrap();
        assert_eq!((ranges[0].id.as_str(), ranges[1].id.as_str()), ("1", "2"));
        assert_eq!(ranges[0].parents, ["0"]);
        assert!(parse_ranges(&[]).is_err());
        assert!(parse_ranges(&[json!({"id": 7})]).is_err());
    }
}
