//! The client of the blog: the client of `orrery-client`, with every data operation added to the
//! caller's [`Meter`].
//!
//! On the wire the client does what an official SDK does: it signs each request with the master
//! key, sends the partition key with every item operation, and repeats a throttled request after
//! the time that the server names. A request whose connection failed is not repeated: a page shows
//! every request that it caused. Queries are in `query`, the change feed in `feed`.
//!
//! Left out: resource tokens, regions, batches, and session tokens (the blog measures one server,
//! which reads its own writes).

use crate::BlogError;
use crate::meter::{Charge, Meter, Operation, ReadItem, RequestRecord};
use http::Method;
pub use orrery_client::PartitionKeyRange;
use orrery_client::{
    Answer, ClientError, Connection, Observer, PartitionKey, Request, ScriptKind, Secret,
    Throughput, Trust, database_link,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client of one endpoint. Clones share connections and cached metadata.
#[derive(Clone)]
pub struct Client(orrery_client::Client);

/// Adds the answers to one operation to a meter.
struct Metering {
    meter: Meter,
    /// Link of the container.
    container: String,
    operation: Operation,
    /// See [`RequestRecord::text`]; `None` for the body of the request.
    text: Option<String>,
    /// See [`RequestRecord::key`].
    key: Option<String>,
}

impl Observer for Metering {
    /// Adds the charge of an answer. A refused request is charged as well.
    fn answered(&self, request: &Request, answer: &Answer) -> Result<(), ClientError> {
        let charge = answer.header("x-ms-request-charge").unwrap_or_default();
        let charge = match Charge::parse(charge) {
            Some(charge) => charge,
            // An error of a proxy, for example, has no charge.
            None if answer.status >= 400 => Charge::default(),
            None => {
                return Err(ClientError::Unexpected {
                    operation: answer.operation.clone(),
                    reason: format!("the request charge '{charge}' is not a number"),
                });
            }
        };
        let range = answer.header("x-ms-documentdb-partitionkeyrangeid");
        let item_count = answer.header("x-ms-item-count");
        self.meter.add(RequestRecord {
            operation: self.operation,
            container: self.container.clone(),
            text: self.text.clone().unwrap_or_else(|| request.text()),
            key: self.key.clone(),
            range: range.unwrap_or_default().to_owned(),
            status: answer.status,
            charge,
            ms: answer.elapsed.as_secs_f64() * 1000.0,
            items: item_count.and_then(|count| count.parse().ok()),
            index_use: index_use(answer),
            throttled: answer.throttled,
            read: self.read_items(answer),
        });
        Ok(())
    }
}

impl Metering {
    /// Returns the first items of an answer, as many as the meter lists.
    fn read_items(&self, answer: &Answer) -> Vec<ReadItem> {
        let wanted = self.meter.items_wanted();
        if wanted == 0 || answer.status >= 300 {
            return Vec::new();
        }
        match self.operation {
            Operation::Read => self.read_item(&answer.body).into_iter().collect(),
            Operation::Query => {
                let page: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                let rows = page["Documents"].as_array().into_iter().flatten();
                // A row of a merged query is the item beside the values that order it.
                let items = rows.map(|row| row.get("payload").unwrap_or(row));
                let items = items.filter_map(|item| self.read_item(item.to_string().as_bytes()));
                items.take(wanted).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the item with this JSON; `None` for a row without an id, for example a count.
    fn read_item(&self, json: &[u8]) -> Option<ReadItem> {
        let item: Value = serde_json::from_slice(json).ok()?;
        let key = self
            .key
            .as_deref()
            .or_else(|| key_of(&item, &self.container))?;
        Some(ReadItem {
            key: key.to_owned(),
            id: item["id"].as_str()?.to_owned(),
            bytes: json.len(),
        })
    }
}

/// Returns the partition key of an item of a container of the blog. Users of V1 and V2 have their
/// id as the key, those of V3 have `userId`.
fn key_of<'a>(item: &'a Value, container: &str) -> Option<&'a str> {
    let property = match container.rsplit('/').next() {
        Some("posts") => "postId",
        Some("feed") => "type",
        _ if item["userId"].is_string() => "userId",
        _ => "id",
    };
    item[property].as_str()
}

/// Returns the part of the loaded items that the index had found, if the answer states it.
fn index_use(answer: &Answer) -> Option<f64> {
    let metrics = answer.header("x-ms-documentdb-query-metrics")?;
    for metric in metrics.split(';') {
        if let Some(ratio) = metric.strip_prefix("indexUtilizationRatio=") {
            return ratio.parse().ok();
        }
    }
    None
}

impl Client {
    /// Creates a client of `endpoint` (e.g. `http://127.0.0.1:8081`) with the account's master key
    /// in base64 and at most `connections` connections.
    ///
    /// # Errors
    /// [`BlogError::InvalidOption`] for an invalid endpoint or key.
    pub fn new(endpoint: &str, key: &str, connections: usize) -> Result<Self, BlogError> {
        let client = orrery_client::Client::new(&Connection {
            endpoint: endpoint.to_owned(),
            key: Secret::new(key),
            key_source: "the blog's database".into(),
            trust: Trust::System,
            connections,
            database: None,
            container: None,
        })?;
        Ok(Self(
            client.with_user_agent("orrery-blog").without_reconnection(),
        ))
    }

    /// Returns a client that shares connections and caches with this one, and whose requests wait
    /// for at most `patience` in total if they are throttled.
    pub fn with_patience(&self, patience: Duration) -> Self {
        Self(self.0.with_patience(patience))
    }

    /// Returns a client that shares connections and caches with this one, and whose requests are
    /// not repeated after `deadline` if they are throttled. A request without an answer 10 seconds
    /// later is [`BlogError::Unreachable`].
    pub fn with_deadline(&self, deadline: Instant) -> Self {
        Self(self.0.with_deadline(deadline))
    }

    /// Returns the client for requests that are not metered.
    pub(crate) fn unmetered(&self) -> &orrery_client::Client {
        &self.0
    }

    /// Returns a client whose requests are added to `meter`. Without `text` the records contain the
    /// bodies of the requests.
    pub(crate) fn metered(
        &self,
        meter: &Meter,
        container: &str,
        operation: Operation,
        text: Option<&str>,
        key: Option<&str>,
    ) -> orrery_client::Client {
        self.0.with_observer(Arc::new(Metering {
            meter: meter.clone(),
            container: container.to_owned(),
            operation,
            text: text.map(str::to_owned),
            key: key.map(str::to_owned),
        }))
    }

    /// Creates the database `name`.
    pub async fn create_database(&self, name: &str) -> Result<(), BlogError> {
        self.0.create_database(name, None).await?;
        Ok(())
    }

    /// Returns true if there is a database `name`.
    pub async fn has_database(&self, name: &str) -> Result<bool, BlogError> {
        match self.0.read(&database_link(name)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes the database `name`. A database that does not exist is not an error.
    pub async fn delete_database(&self, name: &str) -> Result<(), BlogError> {
        self.delete_resource(&database_link(name)).await
    }

    /// Deletes a container. A container that does not exist is not an error.
    pub async fn delete_container(&self, container: &str) -> Result<(), BlogError> {
        self.delete_resource(container).await
    }

    async fn delete_resource(&self, link: &str) -> Result<(), BlogError> {
        match self.0.delete(link).await {
            Err(e) if !e.is_not_found() => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Creates a container in `database` (a link, `dbs/…`) with one partition key path and a
    /// throughput in RU/s. Items may have a time to live of their own; other items do not expire.
    pub async fn create_container(
        &self,
        database: &str,
        name: &str,
        key_path: &str,
        throughput: u32,
    ) -> Result<(), BlogError> {
        let definition = json!({
            "id": name,
            "partitionKey": {"paths": [key_path], "kind": "Hash", "version": 2},
            "defaultTtl": -1,
        });
        let throughput = Some(Throughput::Manual(throughput));
        self.0
            .create_container(database, &definition, throughput)
            .await?;
        Ok(())
    }

    /// Creates a stored procedure in `container` (a link, `dbs/…/colls/…`).
    pub async fn create_procedure(
        &self,
        container: &str,
        id: &str,
        source: &str,
    ) -> Result<(), BlogError> {
        let definition = json!({"id": id, "body": source});
        self.0
            .create_script(container, ScriptKind::Procedure, &definition)
            .await?;
        Ok(())
    }

    /// Creates a post-trigger for all operations in `container`.
    pub async fn create_post_trigger(
        &self,
        container: &str,
        id: &str,
        source: &str,
    ) -> Result<(), BlogError> {
        let definition = json!({
            "id": id,
            "body": source,
            "triggerType": "Post",
            "triggerOperation": "All",
        });
        self.0
            .create_script(container, ScriptKind::Trigger, &definition)
            .await?;
        Ok(())
    }

    /// Runs a stored procedure in one logical partition and returns the response body. `arguments`
    /// is a JSON array.
    pub async fn execute(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        procedure: &str,
        arguments: &Value,
    ) -> Result<Value, BlogError> {
        let operation = Operation::Execute;
        let client = self.metered(meter, container, operation, Some(procedure), Some(key));
        let arguments = arguments.to_string();
        let answer = client
            .execute_procedure(container, procedure, &PartitionKey::text(key), arguments)
            .await?;
        match answer.body.is_empty() {
            true => Ok(Value::Null),
            false => Ok(answer.json()?),
        }
    }

    /// Creates an item; `key` is the value of its partition key.
    pub async fn create(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        item: &Value,
    ) -> Result<(), BlogError> {
        let client = self.metered(meter, container, Operation::Create, id_of(item), Some(key));
        client
            .create_item(container, &PartitionKey::text(key), item.to_string())
            .await?;
        Ok(())
    }

    /// Creates or replaces an item. If `post_trigger` is given, the trigger runs in the same
    /// transaction.
    pub async fn upsert(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        item: &Value,
        post_trigger: Option<&str>,
    ) -> Result<(), BlogError> {
        // The trigger is the most expensive part of such a write, so the record names the trigger.
        let text = post_trigger.or(id_of(item));
        let client = self.metered(meter, container, Operation::Upsert, text, Some(key));
        let mut request =
            post_request(container, key, item).header("x-ms-documentdb-is-upsert", "True");
        if let Some(name) = post_trigger {
            request = request.header(POST_TRIGGER, name);
        }
        client.request(&request).await?;
        Ok(())
    }

    /// Creates an item with a post-trigger, which runs in the same transaction.
    pub async fn create_with_trigger(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        item: &Value,
        post_trigger: &str,
    ) -> Result<(), BlogError> {
        let operation = Operation::Create;
        let client = self.metered(meter, container, operation, Some(post_trigger), Some(key));
        let request = post_request(container, key, item).header(POST_TRIGGER, post_trigger);
        client.request(&request).await?;
        Ok(())
    }

    /// Reads an item by partition key and id: the cheapest request of the protocol.
    pub async fn read(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        id: &str,
    ) -> Result<Value, BlogError> {
        let client = self.metered(meter, container, Operation::Read, Some(id), Some(key));
        let answer = client
            .read_item(container, &PartitionKey::text(key), id)
            .await?;
        Ok(answer.json()?)
    }

    /// Deletes an item by partition key and id. If `etag` is given, the server refuses with 412 if
    /// the item has another etag.
    pub async fn delete(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        id: &str,
        etag: Option<&str>,
    ) -> Result<(), BlogError> {
        let client = self.metered(meter, container, Operation::Delete, Some(id), Some(key));
        client
            .delete_item(container, &PartitionKey::text(key), id, etag)
            .await?;
        Ok(())
    }

    /// Replaces an item that was read before. The server refuses with 412 if the item has changed
    /// since the read.
    pub async fn replace(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        item: &Value,
    ) -> Result<(), BlogError> {
        self.replace_returning(meter, container, key, item)
            .await
            .map(drop)
    }

    /// Does the same as [`Client::replace`] and returns the stored item.
    pub async fn replace_returning(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        item: &Value,
    ) -> Result<Value, BlogError> {
        let id = item["id"].as_str().unwrap_or_default();
        let etag = item["_etag"].as_str();
        let client = self.metered(meter, container, Operation::Replace, Some(id), Some(key));
        let key = PartitionKey::text(key);
        let answer = client
            .replace_item(container, &key, id, item.to_string(), etag)
            .await?;
        Ok(answer.json()?)
    }

    /// Returns the partition key ranges of a container in key order. The ranges are read once and
    /// cached until [`Client::clear_cached_metadata`].
    pub async fn ranges(&self, container: &str) -> Result<Arc<Vec<PartitionKeyRange>>, BlogError> {
        Ok(self.0.ranges(container).await?)
    }

    /// Returns the number of items of a container, as the server states it.
    pub(crate) async fn item_count(&self, container: &str) -> Result<u64, BlogError> {
        let count = self.0.item_count(container).await?;
        count.ok_or_else(|| {
            let problem = "the usage of the container has no documentsCount";
            BlogError::unexpected(format!("GET {container}"), problem)
        })
    }

    /// Returns the indexing policy of a container as JSON, its number of items, and its number of
    /// physical partitions, as the server states them now.
    pub(crate) async fn condition(
        &self,
        container: &str,
    ) -> Result<(String, u64, usize), BlogError> {
        let definition: Value = self.0.read(container).await?.json()?;
        let ranges: Value = self
            .0
            .read(&format!("{container}/pkranges"))
            .await?
            .json()?;
        let partitions = ranges["PartitionKeyRanges"].as_array().map_or(0, Vec::len);
        let items = self.item_count(container).await?;
        Ok((definition["indexingPolicy"].to_string(), items, partitions))
    }

    /// Removes cached ranges and query plans of every container whose link begins with `link`. To
    /// be called after a split and after a deletion.
    pub fn clear_cached_metadata(&self, link: &str) {
        self.0.forget(link);
    }
}

/// The header with the name of a post-trigger.
const POST_TRIGGER: &str = "x-ms-documentdb-post-trigger-include";

/// Returns the request that creates or upserts an item.
fn post_request(container: &str, key: &str, item: &Value) -> Request {
    let key = PartitionKey::text(key);
    Request::new(Method::POST, format!("{container}/docs"))
        .header("x-ms-documentdb-partitionkey", key.as_str())
        .body(item.to_string())
}

/// Returns the id of an item, for records.
fn id_of(item: &Value) -> Option<&str> {
    Some(item["id"].as_str().unwrap_or_default())
}
