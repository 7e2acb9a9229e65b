//! A small signed client of the protocol: databases, containers, items, stored procedures and
//! partition key ranges.
//!
//! On the wire the client does what an official SDK does: it signs each request with the master
//! key, sends the partition key with every item operation, and repeats a throttled request after
//! the time that the server names. Queries are in `query`, the change feed in `feed`. Every data
//! operation adds its charge and partition to the caller's [`Meter`].
//!
//! Left out: resource tokens, regions, batches, and session tokens (the blog measures one server,
//! which reads its own writes).

use crate::BlogError;
use crate::meter::{Charge, Meter, Operation, RequestRecord};
use crate::sync::lock;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::Full;
use orrery_client::pool::Pool;
use orrery_client::signature::{authorization, escaped_path, http_date, key_header};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The value of `x-ms-version`.
const API_VERSION: &str = "2020-07-15";
/// Total time for which one request may wait because of throttling.
const THROTTLED_TIME_MAX: Duration = Duration::from_secs(60);
/// Time after a client's deadline within which an answer may come.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Wait before a retry if the server names no time.
const RETRY_AFTER_MS_DEFAULT: u64 = 20;
/// Query plans in the cache.
const PLANS_MAX: usize = 256;

/// A client of one endpoint. Clones share connections and cached metadata.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Inner>,
    /// Total time for which one request may wait because of throttling.
    patience: Duration,
    /// Time after which throttled requests are not repeated.
    deadline: Option<Instant>,
}

struct Inner {
    pool: Pool,
    /// The account's master key, decoded.
    key: Vec<u8>,
    /// The value of the `Host` header.
    authority: String,
    /// Partition key ranges by container link.
    ranges: Mutex<HashMap<String, Arc<Vec<PartitionKeyRange>>>>,
    /// Query plans by container link and query body.
    plans: Mutex<HashMap<String, Arc<Value>>>,
}

/// A partition key range: the effective partition keys of one physical partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionKeyRange {
    /// The service's id of the range, e.g. `0`.
    pub id: String,
    /// First effective partition key, hexadecimal, inclusive.
    pub min: String,
    /// Last effective partition key, hexadecimal, exclusive (`FF` at the end).
    pub max: String,
    /// Ids of the ranges from which the range was split.
    pub parents: Vec<String>,
}

/// A header as name and value.
pub(crate) type Header = (&'static str, String);

/// A request to the database: the signed parts, the path, the headers and the body.
pub(crate) struct ApiRequest<'a> {
    method: Method,
    /// Resource type in the signature, e.g. `docs`.
    resource_type: &'a str,
    /// Resource link in the signature: of the resource, or of its parent if a feed is addressed.
    link: &'a str,
    /// Path without its first slash, not yet escaped.
    path: String,
    headers: Vec<Header>,
    body: String,
    subject: Subject,
}

/// The description of a request for records of a meter.
#[derive(Clone)]
pub(crate) struct Subject {
    operation: Operation,
    /// See [`RequestRecord::text`].
    text: String,
    /// See [`RequestRecord::key`].
    key: Option<String>,
}

impl<'a> ApiRequest<'a> {
    /// Creates a request without headers and body.
    pub(crate) fn new(
        method: Method,
        resource_type: &'a str,
        link: &'a str,
        path: impl Into<String>,
    ) -> Self {
        Self {
            method,
            resource_type,
            link,
            path: path.into(),
            headers: Vec::new(),
            body: String::new(),
            subject: Subject {
                operation: Operation::Metadata,
                text: String::new(),
                key: None,
            },
        }
    }

    /// Describes the request for records of a meter.
    pub(crate) fn described(
        mut self,
        operation: Operation,
        text: impl Into<String>,
        key: Option<&str>,
    ) -> Self {
        self.subject = Subject {
            operation,
            text: text.into(),
            key: key.map(str::to_owned),
        };
        self
    }

    /// Sets the headers.
    pub(crate) fn with_headers(mut self, headers: Vec<Header>) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the body.
    pub(crate) fn with_body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }
}

/// A response of any status.
pub(crate) struct ApiResponse {
    /// Method and path of the request, for error messages.
    pub(crate) operation: String,
    pub(crate) status: u16,
    headers: HeaderMap,
    body: Bytes,
    /// Number of throttled attempts before this response.
    throttled: usize,
    subject: Subject,
    /// Time from the first attempt to the complete response.
    elapsed: Duration,
}

impl ApiResponse {
    /// Returns the text of a header, if it is present and ASCII.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the response if its status is below 400.
    ///
    /// # Errors
    /// [`BlogError::Refused`] with the server's message.
    pub(crate) fn into_success(self) -> Result<Self, BlogError> {
        if self.status < 400 {
            return Ok(self);
        }
        let sub_status = self
            .header("x-ms-substatus")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let message = match serde_json::from_slice::<Value>(&self.body) {
            Ok(body) => body["message"].as_str().unwrap_or_default().to_owned(),
            Err(_) => String::from_utf8_lossy(&self.body).into_owned(),
        };
        Err(BlogError::Refused {
            operation: self.operation,
            status: self.status,
            sub_status,
            message,
        })
    }

    /// Parses the body.
    ///
    /// # Errors
    /// [`BlogError::Unexpected`] if the body is not JSON.
    pub(crate) fn json(&self) -> Result<Value, BlogError> {
        serde_json::from_slice(&self.body)
            .map_err(|e| BlogError::unexpected(&self.operation, format!("no JSON: {e}")))
    }

    fn charge(&self) -> Result<Charge, BlogError> {
        let text = self.header("x-ms-request-charge").unwrap_or_default();
        Charge::parse(text).ok_or_else(|| {
            BlogError::unexpected(
                &self.operation,
                format!("the request charge '{text}' is not a number"),
            )
        })
    }

    /// Adds the charge of the response to `meter`, then returns the response as
    /// [`ApiResponse::into_success`] does. A refused request is charged as well.
    pub(crate) fn metered(self, meter: &Meter, container: &str) -> Result<Self, BlogError> {
        let charge = match self.charge() {
            Ok(charge) => charge,
            // An error of a proxy, for example, has no charge.
            Err(_) if self.status >= 400 => Charge::default(),
            Err(e) => return Err(e),
        };
        let item_count = self.header("x-ms-item-count").and_then(|n| n.parse().ok());
        meter.add(RequestRecord {
            operation: self.subject.operation,
            container: container.to_owned(),
            text: self.subject.text.clone(),
            key: self.subject.key.clone(),
            range: self
                .header("x-ms-documentdb-partitionkeyrangeid")
                .unwrap_or_default()
                .to_owned(),
            status: self.status,
            charge,
            ms: self.elapsed.as_secs_f64() * 1000.0,
            items: item_count,
            index_use: self.index_use(),
            throttled: self.throttled,
        });
        self.into_success()
    }

    /// Returns the part of the loaded items that the index had found, if the response states it.
    fn index_use(&self) -> Option<f64> {
        let metrics = self.header("x-ms-documentdb-query-metrics")?;
        for metric in metrics.split(';') {
            if let Some(ratio) = metric.strip_prefix("indexUtilizationRatio=") {
                return ratio.parse().ok();
            }
        }
        None
    }
}

impl Client {
    /// Creates a client of `endpoint` (e.g. `http://127.0.0.1:8081`) with the account's master key
    /// in base64 and at most `connections` connections.
    ///
    /// # Errors
    /// [`BlogError::InvalidOption`] for an invalid endpoint or key.
    pub fn new(endpoint: &str, key: &str, connections: usize) -> Result<Self, BlogError> {
        let pool = Pool::new(endpoint, connections).map_err(BlogError::InvalidOption)?;
        let key = BASE64
            .decode(key)
            .map_err(|e| BlogError::InvalidOption(format!("the account key is not base64: {e}")))?;
        let authority = pool.authority();
        Ok(Self {
            shared: Arc::new(Inner {
                pool,
                key,
                authority,
                ranges: Mutex::default(),
                plans: Mutex::default(),
            }),
            patience: THROTTLED_TIME_MAX,
            deadline: None,
        })
    }

    /// Returns a client that shares connections and caches with this one, and whose requests wait
    /// for at most `patience` in total if they are throttled.
    pub fn with_patience(&self, patience: Duration) -> Self {
        Self {
            patience,
            ..self.clone()
        }
    }

    /// Returns a client that shares connections and caches with this one, and whose requests are
    /// not repeated after `deadline` if they are throttled. A request without an answer 10 seconds
    /// later is [`BlogError::Unreachable`].
    pub fn with_deadline(&self, deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            ..self.clone()
        }
    }

    /// Sends a request. A throttled request (429) and one to be retried (449) are repeated as long
    /// as the client's patience allows, a minute by default.
    pub(crate) async fn send(&self, request: &ApiRequest<'_>) -> Result<ApiResponse, BlogError> {
        let operation = format!("{} /{}", request.method, request.path);
        let started = Instant::now();
        let mut waited = Duration::ZERO;
        let mut throttled = 0;
        loop {
            // Every attempt is signed anew: the signature covers the date.
            let signed = self
                .signed(request)
                .map_err(|e| BlogError::InvalidOption(format!("{operation}: {e}")))?;
            let exchange = self.exchange(signed).await;
            let (parts, body) = exchange.map_err(|cause| BlogError::Unreachable {
                operation: operation.clone(),
                cause,
            })?;
            let status = parts.status.as_u16();
            let response = ApiResponse {
                operation: operation.clone(),
                status,
                headers: parts.headers,
                body,
                throttled,
                subject: request.subject.clone(),
                elapsed: started.elapsed(),
            };
            // The wait is bounded, so that a wrong header cannot stop the client for long.
            let retry_after_ms: u64 = response
                .header("x-ms-retry-after-ms")
                .and_then(|text| text.parse().ok())
                .unwrap_or(RETRY_AFTER_MS_DEFAULT);
            let wait = Duration::from_millis(retry_after_ms.clamp(1, 5_000));
            let is_in_time = match self.deadline {
                Some(deadline) => Instant::now() + wait < deadline,
                None => true,
            };
            let is_retried = matches!(status, 429 | 449) && waited < self.patience && is_in_time;
            if !is_retried {
                return Ok(response);
            }
            tokio::time::sleep(wait).await;
            waited += wait;
            throttled += 1;
        }
    }

    /// Sends one signed request. With a deadline, the wait for the answer is limited.
    async fn exchange(
        &self,
        signed: http::Request<Full<Bytes>>,
    ) -> Result<(http::response::Parts, Bytes), String> {
        let exchange = self.shared.pool.exchange(signed);
        let Some(deadline) = self.deadline else {
            return exchange.await.map_err(|e| e.cause);
        };
        let limit = tokio::time::Instant::from_std(deadline + ANSWER_TIME_MAX);
        match tokio::time::timeout_at(limit, exchange).await {
            Ok(result) => result.map_err(|e| e.cause),
            Err(_) => Err("no answer before the deadline".into()),
        }
    }

    /// Returns the HTTP request with the current date and its signature.
    fn signed(&self, request: &ApiRequest<'_>) -> Result<http::Request<Full<Bytes>>, http::Error> {
        let date = http_date(jiff::Timestamp::now());
        let token = authorization(
            &self.shared.key,
            request.method.as_str(),
            request.resource_type,
            request.link,
            &date,
        );
        let mut builder = http::Request::builder()
            .method(request.method.clone())
            .uri(escaped_path(&request.path))
            .header("host", &self.shared.authority)
            .header("accept", "application/json")
            .header("user-agent", "orrery-blog")
            .header("x-ms-version", API_VERSION)
            .header("x-ms-date", date)
            .header("authorization", token);
        let names_content_type = request
            .headers
            .iter()
            .any(|(name, _)| *name == "content-type");
        if !names_content_type && !request.body.is_empty() {
            builder = builder.header("content-type", "application/json");
        }
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        builder.body(Full::new(Bytes::from(request.body.clone())))
    }

    /// Creates the database `name`.
    pub async fn create_database(&self, name: &str) -> Result<(), BlogError> {
        let request = ApiRequest::new(Method::POST, "dbs", "", "dbs")
            .with_body(json!({"id": name}).to_string());
        self.send(&request).await?.into_success().map(drop)
    }

    /// Returns true if there is a database `name`.
    pub async fn has_database(&self, name: &str) -> Result<bool, BlogError> {
        let link = format!("dbs/{name}");
        let request = ApiRequest::new(Method::GET, "dbs", &link, link.as_str());
        match self.send(&request).await?.into_success() {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes the database `name`. A database that does not exist is not an error.
    pub async fn delete_database(&self, name: &str) -> Result<(), BlogError> {
        let link = format!("dbs/{name}");
        let request = ApiRequest::new(Method::DELETE, "dbs", &link, link.as_str());
        self.clear_cached_metadata(&link);
        match self.send(&request).await?.into_success() {
            Err(e) if !e.is_not_found() => Err(e),
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
        let body = json!({
            "id": name,
            "partitionKey": {"paths": [key_path], "kind": "Hash", "version": 2},
            "defaultTtl": -1,
        });
        let path = format!("{database}/colls");
        let request = ApiRequest::new(Method::POST, "colls", database, path)
            .with_headers(vec![("x-ms-offer-throughput", throughput.to_string())])
            .with_body(body.to_string());
        self.send(&request).await?.into_success().map(drop)
    }

    /// Creates a stored procedure in `container` (a link, `dbs/…/colls/…`).
    pub async fn create_procedure(
        &self,
        container: &str,
        id: &str,
        source: &str,
    ) -> Result<(), BlogError> {
        let body = json!({"id": id, "body": source});
        self.create_script(container, "sprocs", &body).await
    }

    /// Creates a post-trigger for all operations in `container`.
    pub async fn create_post_trigger(
        &self,
        container: &str,
        id: &str,
        source: &str,
    ) -> Result<(), BlogError> {
        let body = json!({
            "id": id,
            "body": source,
            "triggerType": "Post",
            "triggerOperation": "All",
        });
        self.create_script(container, "triggers", &body).await
    }

    async fn create_script(
        &self,
        container: &str,
        resource_type: &str,
        body: &Value,
    ) -> Result<(), BlogError> {
        let path = format!("{container}/{resource_type}");
        let request = ApiRequest::new(Method::POST, resource_type, container, path)
            .with_body(body.to_string());
        self.send(&request).await?.into_success().map(drop)
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
        let link = format!("{container}/sprocs/{procedure}");
        let request = ApiRequest::new(Method::POST, "sprocs", &link, link.as_str())
            .with_headers(vec![key_header(key)])
            .with_body(arguments.to_string())
            .described(Operation::Execute, procedure, Some(key));
        let response = self.send(&request).await?.metered(meter, container)?;
        if response.body.is_empty() {
            Ok(Value::Null)
        } else {
            response.json()
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
        let headers = vec![key_header(key)];
        let id = item["id"].as_str().unwrap_or_default();
        let request =
            post_request(container, item, headers).described(Operation::Create, id, Some(key));
        let response = self.send(&request).await?;
        response.metered(meter, container).map(drop)
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
        let mut headers = vec![
            key_header(key),
            ("x-ms-documentdb-is-upsert", "True".into()),
        ];
        if let Some(name) = post_trigger {
            headers.push(("x-ms-documentdb-post-trigger-include", name.to_owned()));
        }
        // The trigger is the most expensive part of such a write, so the record names the trigger.
        let text = match post_trigger {
            Some(name) => name,
            None => item["id"].as_str().unwrap_or_default(),
        };
        let request =
            post_request(container, item, headers).described(Operation::Upsert, text, Some(key));
        let response = self.send(&request).await?;
        response.metered(meter, container).map(drop)
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
        let headers = vec![
            key_header(key),
            (
                "x-ms-documentdb-post-trigger-include",
                post_trigger.to_owned(),
            ),
        ];
        let request = post_request(container, item, headers).described(
            Operation::Create,
            post_trigger,
            Some(key),
        );
        let response = self.send(&request).await?;
        response.metered(meter, container).map(drop)
    }

    /// Reads an item by partition key and id: the cheapest request of the protocol.
    pub async fn read(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        id: &str,
    ) -> Result<Value, BlogError> {
        let link = format!("{container}/docs/{id}");
        let request = ApiRequest::new(Method::GET, "docs", &link, link.as_str())
            .with_headers(vec![key_header(key)])
            .described(Operation::Read, id, Some(key));
        self.send(&request).await?.metered(meter, container)?.json()
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
        let link = format!("{container}/docs/{id}");
        let mut headers = vec![key_header(key)];
        if let Some(etag) = etag {
            headers.push(("if-match", etag.to_owned()));
        }
        let request = ApiRequest::new(Method::DELETE, "docs", &link, link.as_str())
            .with_headers(headers)
            .described(Operation::Delete, id, Some(key));
        let response = self.send(&request).await?;
        response.metered(meter, container).map(drop)
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
        let link = format!("{container}/docs/{id}");
        let mut headers = vec![key_header(key)];
        if let Some(etag) = item["_etag"].as_str() {
            headers.push(("if-match", etag.to_owned()));
        }
        let request = ApiRequest::new(Method::PUT, "docs", &link, link.as_str())
            .with_headers(headers)
            .with_body(item.to_string())
            .described(Operation::Replace, id, Some(key));
        self.send(&request).await?.metered(meter, container)?.json()
    }

    /// Returns the partition key ranges of a container in key order. The ranges are read once and
    /// cached until [`Client::clear_cached_metadata`].
    pub async fn ranges(&self, container: &str) -> Result<Arc<Vec<PartitionKeyRange>>, BlogError> {
        let cached = lock(&self.shared.ranges).get(container).cloned();
        if let Some(ranges) = cached {
            return Ok(ranges);
        }
        let path = format!("{container}/pkranges");
        let request = ApiRequest::new(Method::GET, "pkranges", container, path);
        let response = self.send(&request).await?.into_success()?;
        let ranges = parse_ranges(&response.json()?)
            .map_err(|e| BlogError::unexpected(&response.operation, e))?;
        let ranges = Arc::new(ranges);
        lock(&self.shared.ranges).insert(container.to_owned(), ranges.clone());
        Ok(ranges)
    }

    /// Returns the number of items of a container, as the server states it.
    pub(crate) async fn item_count(&self, container: &str) -> Result<u64, BlogError> {
        let request = ApiRequest::new(Method::GET, "colls", container, container)
            .with_headers(vec![("x-ms-documentdb-populatequotainfo", "True".into())]);
        let response = self.send(&request).await?.into_success()?;
        let usage = response.header("x-ms-resource-usage").unwrap_or_default();
        let mut parts = usage.split(';');
        let count = parts.find_map(|part| part.strip_prefix("documentsCount="));
        count.and_then(|text| text.parse().ok()).ok_or_else(|| {
            BlogError::unexpected(
                &response.operation,
                format!("the usage '{usage}' has no documentsCount"),
            )
        })
    }

    /// Removes cached ranges and query plans of every container whose link begins with `link`. To
    /// be called after a split and after a deletion.
    pub fn clear_cached_metadata(&self, link: &str) {
        lock(&self.shared.ranges).retain(|container, _| !container.starts_with(link));
        lock(&self.shared.plans).retain(|key, _| !key.starts_with(link));
    }

    /// Returns a cached query plan. `key` begins with the container's link.
    pub(crate) fn cached_plan(&self, key: &str) -> Option<Arc<Value>> {
        lock(&self.shared.plans).get(key).cloned()
    }

    /// Adds a query plan to the cache. `key` begins with the container's link.
    pub(crate) fn cache_plan(&self, key: String, plan: Arc<Value>) {
        let mut plans = lock(&self.shared.plans);
        // The key contains the query's parameters, so the number of keys has no natural limit.
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.insert(key, plan);
    }
}

/// Returns the request that creates or upserts an item.
fn post_request<'a>(container: &'a str, item: &Value, headers: Vec<Header>) -> ApiRequest<'a> {
    ApiRequest::new(Method::POST, "docs", container, format!("{container}/docs"))
        .with_headers(headers)
        .with_body(item.to_string())
}

/// Parses the body of a partition key range feed and sorts the ranges by key.
fn parse_ranges(body: &Value) -> Result<Vec<PartitionKeyRange>, String> {
    let listed = body["PartitionKeyRanges"]
        .as_array()
        .ok_or("no PartitionKeyRanges")?;
    let text = |value: &Value| {
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| format!("'{value}' is not a string"))
    };
    let mut ranges = Vec::with_capacity(listed.len());
    for range in listed {
        let mut parents = Vec::new();
        for parent in range["parents"].as_array().into_iter().flatten() {
            parents.push(text(parent)?);
        }
        ranges.push(PartitionKeyRange {
            id: text(&range["id"])?,
            min: text(&range["minInclusive"])?,
            max: text(&range["maxExclusive"])?,
            parents,
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
        let body = json!({"PartitionKeyRanges": [
            {"id": "2", "minInclusive": "1F", "maxExclusive": "FF", "parents": ["0"]},
            {"id": "1", "minInclusive": "", "maxExclusive": "1F", "parents": ["0"]},
        ]});
        let ranges = parse_ranges(&body).unwrap();
        assert_eq!(
            ranges.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(),
            ["1", "2"]
        );
        assert_eq!(ranges[0].parents, ["0"]);
        assert!(parse_ranges(&json!({"PartitionKeyRanges": []})).is_err());
        assert!(parse_ranges(&json!({"PartitionKeyRanges": [{"id": 7}]})).is_err());
    }
}
