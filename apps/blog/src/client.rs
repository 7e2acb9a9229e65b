//! A small signed client of the protocol: databases, containers, items, stored procedures, physical partitions.
//!
//! It does what an official SDK does on the wire: it signs with the master key, sends the partition key with every item
//! operation, and repeats a throttled request after the time the server names. Queries are in `query`, the change feed
//! in `feed`. Every data operation adds its charge and partition to the caller's [`Meter`].
//!
//! Left out: resource tokens, regions, batches, and session tokens (the blog measures one server that reads its own writes).

use crate::BlogError;
use crate::connection::Pool;
use crate::meter::{Charge, Meter};
use crate::signature::{authorization, escaped_path, http_date, key_header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::Full;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const API_VERSION: &str = "2020-07-15";
/// How long one request may be put off by throttling, in all.
const MAX_THROTTLED: Duration = Duration::from_secs(60);

const MAX_PLANS: usize = 256;

/// A client of one endpoint. Clones share connections and what is known of physical partitions.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    pool: Pool,
    key: Vec<u8>,
    authority: String,
    ranges: Mutex<HashMap<String, Arc<Vec<Range>>>>,
    plans: Mutex<HashMap<String, Arc<Value>>>,
}

/// A physical partition: a range of effective partition keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The service's id of the range, e.g. `0`.
    pub id: String,
    /// First effective partition key, hexadecimal, inclusive.
    pub min: String,
    /// Last effective partition key, hexadecimal, exclusive (`FF` at the end).
    pub max: String,
    /// Ids of the ranges it was split from.
    pub parents: Vec<String>,
}

/// A request: what is signed, where it goes, and what it says.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    /// Resource type as it is signed, e.g. `docs`.
    pub(crate) kind: &'a str,
    /// Resource link as it is signed: of the resource, or of the parent where a feed is addressed.
    pub(crate) link: &'a str,
    /// Path without its first slash, not yet escaped.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

/// An answer, whatever its status.
pub(crate) struct Answer {
    pub(crate) doing: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) throttled: usize,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Itself, or the server's refusal as an error.
    pub(crate) fn accepted(self) -> Result<Self, BlogError> {
        if self.status < 400 {
            return Ok(self);
        }
        let sub_status = self
            .header("x-ms-substatus")
            .and_then(|s| s.parse().ok())
            .unwrap_or(0);
        let message = match serde_json::from_slice::<Value>(&self.body) {
            Ok(body) => body["message"].as_str().unwrap_or_default().to_owned(),
            Err(_) => String::from_utf8_lossy(&self.body).into_owned(),
        };
        Err(BlogError::Refused {
            doing: self.doing,
            status: self.status,
            sub_status,
            message,
        })
    }

    pub(crate) fn json(&self) -> Result<Value, BlogError> {
        serde_json::from_slice(&self.body)
            .map_err(|e| BlogError::unexpected(&self.doing, format!("no JSON: {e}")))
    }

    fn charge(&self) -> Result<Charge, BlogError> {
        let text = self.header("x-ms-request-charge").unwrap_or_default();
        Charge::parse(text).ok_or_else(|| {
            BlogError::unexpected(
                &self.doing,
                format!("the request charge '{text}' is no number"),
            )
        })
    }

    /// Adds its cost to the meter; an answer that is a refusal becomes an error, metered too.
    pub(crate) fn metered(self, meter: &Meter, container: &str) -> Result<Self, BlogError> {
        if self.status < 400 {
            let range = self
                .header("x-ms-documentdb-partitionkeyrangeid")
                .unwrap_or_default();
            meter.add(self.charge()?, container, range, self.throttled);
        }
        self.accepted()
    }
}

impl Client {
    /// A client of `endpoint` (e.g. `http://127.0.0.1:8081`) with the account's master key, over at most `connections`.
    pub fn new(endpoint: &str, key: &str, connections: usize) -> Result<Self, BlogError> {
        let pool = Pool::new(endpoint, connections).map_err(BlogError::Option)?;
        let key = BASE64
            .decode(key)
            .map_err(|e| BlogError::Option(format!("the account key is not base64: {e}")))?;
        let authority = pool.authority();
        let inner = Inner {
            pool,
            key,
            authority,
            ranges: Mutex::default(),
            plans: Mutex::default(),
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Sends a call, repeating it while it is throttled (429) or asked to retry (449), for a minute at most.
    pub(crate) async fn send(&self, call: &Call<'_>) -> Result<Answer, BlogError> {
        let doing = format!("{} /{}", call.method, call.path);
        let mut waited = Duration::ZERO;
        let mut throttled = 0;
        loop {
            let request = self
                .request(call)
                .map_err(|e| BlogError::Option(format!("{doing}: {e}")))?;
            let exchange = self.0.pool.exchange(request).await;
            let (parts, body) = exchange.map_err(|cause| BlogError::Unreachable {
                doing: doing.clone(),
                cause,
            })?;
            let status = parts.status.as_u16();
            let answer = Answer {
                doing: doing.clone(),
                status,
                headers: parts.headers,
                body,
                throttled,
            };
            if !matches!(status, 429 | 449) || waited >= MAX_THROTTLED {
                return Ok(answer);
            }
            let pause = answer
                .header("x-ms-retry-after-ms")
                .and_then(|ms| ms.parse().ok())
                .unwrap_or(20);
            let pause = Duration::from_millis(u64::clamp(pause, 1, 5_000));
            tokio::time::sleep(pause).await;
            waited += pause;
            throttled += 1;
        }
    }

    fn request(&self, call: &Call<'_>) -> Result<http::Request<Full<Bytes>>, http::Error> {
        let date = http_date(jiff::Timestamp::now());
        let token = authorization(
            &self.0.key,
            call.method.as_str(),
            call.kind,
            call.link,
            &date,
        );
        let mut request = http::Request::builder()
            .method(call.method.clone())
            .uri(escaped_path(&call.path))
            .header("host", &self.0.authority)
            .header("accept", "application/json")
            .header("user-agent", "orrery-blog")
            .header("x-ms-version", API_VERSION)
            .header("x-ms-date", date)
            .header("authorization", token);
        if call.headers.iter().all(|(name, _)| *name != "content-type") && !call.body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        request.body(Full::new(Bytes::from(call.body.clone())))
    }

    /// Creates the database `name`.
    pub async fn create_database(&self, name: &str) -> Result<(), BlogError> {
        let body = json!({"id": name}).to_string();
        let (kind, link) = ("dbs", "");
        let call = Call {
            method: Method::POST,
            kind,
            link,
            path: "dbs".into(),
            headers: vec![],
            body,
        };
        self.send(&call).await?.accepted().map(drop)
    }

    /// Deletes the database `name`, if there is one.
    pub async fn delete_database(&self, name: &str) -> Result<(), BlogError> {
        let path = format!("dbs/{name}");
        let call = Call {
            method: Method::DELETE,
            kind: "dbs",
            link: &path,
            path: path.clone(),
            headers: vec![],
            body: String::new(),
        };
        self.forget(&path);
        match self.send(&call).await?.accepted() {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    /// Creates a container in `database` (a link, `dbs/…`) with one partition key path and a throughput in RU/s.
    pub async fn create_container(
        &self,
        database: &str,
        name: &str,
        key: &str,
        throughput: u32,
    ) -> Result<(), BlogError> {
        let headers = vec![("x-ms-offer-throughput", throughput.to_string())];
        let body =
            json!({"id": name, "partitionKey": {"paths": [key], "kind": "Hash", "version": 2}})
                .to_string();
        let path = format!("{database}/colls");
        let call = Call {
            method: Method::POST,
            kind: "colls",
            link: database,
            path,
            headers,
            body,
        };
        self.send(&call).await?.accepted().map(drop)
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
        let body =
            json!({"id": id, "body": source, "triggerType": "Post", "triggerOperation": "All"});
        self.create_script(container, "triggers", &body).await
    }

    async fn create_script(
        &self,
        container: &str,
        kind: &str,
        body: &Value,
    ) -> Result<(), BlogError> {
        let path = format!("{container}/{kind}");
        let call = Call {
            method: Method::POST,
            kind,
            link: container,
            path,
            headers: vec![],
            body: body.to_string(),
        };
        self.send(&call).await?.accepted().map(drop)
    }

    /// Runs a stored procedure in one logical partition; `arguments` is an array. Answers the response body.
    pub async fn execute(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        procedure: &str,
        arguments: &Value,
    ) -> Result<Value, BlogError> {
        let path = format!("{container}/sprocs/{procedure}");
        let headers = vec![key_header(key)];
        let body = arguments.to_string();
        let call = Call {
            method: Method::POST,
            kind: "sprocs",
            link: &path,
            path: path.clone(),
            headers,
            body,
        };
        let answer = self.send(&call).await?.metered(meter, container)?;
        if answer.body.is_empty() {
            Ok(Value::Null)
        } else {
            answer.json()
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
        self.post_item(meter, container, item, vec![key_header(key)])
            .await
    }

    /// Creates or replaces an item, then runs the post-trigger in the same transaction, if one is named.
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
        headers.extend(
            post_trigger.map(|name| ("x-ms-documentdb-post-trigger-include", name.to_owned())),
        );
        self.post_item(meter, container, item, headers).await
    }

    async fn post_item(
        &self,
        meter: &Meter,
        container: &str,
        item: &Value,
        headers: Vec<(&'static str, String)>,
    ) -> Result<(), BlogError> {
        let path = format!("{container}/docs");
        let call = Call {
            method: Method::POST,
            kind: "docs",
            link: container,
            path,
            headers,
            body: item.to_string(),
        };
        self.send(&call).await?.metered(meter, container).map(drop)
    }

    /// Reads an item by its key: the cheapest request there is.
    pub async fn read(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        id: &str,
    ) -> Result<Value, BlogError> {
        let path = format!("{container}/docs/{id}");
        let headers = vec![key_header(key)];
        let call = Call {
            method: Method::GET,
            kind: "docs",
            link: &path,
            path: path.clone(),
            headers,
            body: String::new(),
        };
        self.send(&call).await?.metered(meter, container)?.json()
    }

    /// Replaces an item that was read before; refused with 412 if it has been changed since.
    pub async fn replace(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        item: &Value,
    ) -> Result<(), BlogError> {
        let id = item["id"].as_str().unwrap_or_default();
        let path = format!("{container}/docs/{id}");
        let mut headers = vec![key_header(key)];
        headers.extend(
            item["_etag"]
                .as_str()
                .map(|etag| ("if-match", etag.to_owned())),
        );
        let call = Call {
            method: Method::PUT,
            kind: "docs",
            link: &path,
            path: path.clone(),
            headers,
            body: item.to_string(),
        };
        self.send(&call).await?.metered(meter, container).map(drop)
    }

    /// The physical partitions of a container, in order; asked once and remembered until [`Client::forget`].
    pub async fn ranges(&self, container: &str) -> Result<Arc<Vec<Range>>, BlogError> {
        let known = self
            .0
            .ranges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(container)
            .cloned();
        if let Some(ranges) = known {
            return Ok(ranges);
        }
        let path = format!("{container}/pkranges");
        let call = Call {
            method: Method::GET,
            kind: "pkranges",
            link: container,
            path,
            headers: vec![],
            body: String::new(),
        };
        let answer = self.send(&call).await?.accepted()?;
        let ranges = Arc::new(
            parse_ranges(&answer.json()?).map_err(|e| BlogError::unexpected(&answer.doing, e))?,
        );
        self.0
            .ranges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(container.to_owned(), ranges.clone());
        Ok(ranges)
    }

    /// Forgets what is known of every container whose link begins with `link`: it was split, or deleted.
    pub fn forget(&self, link: &str) {
        self.0
            .ranges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|known, _| !known.starts_with(link));
        self.0
            .plans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|known, _| !known.starts_with(link));
    }

    pub(crate) fn known_plan(&self, key: &str) -> Option<Arc<Value>> {
        self.0
            .plans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    pub(crate) fn remember_plan(&self, key: String, plan: Arc<Value>) {
        let mut plans = self.0.plans.lock().unwrap_or_else(PoisonError::into_inner);
        // Parameters are part of a plan's name, so an endless stream of them must not fill the memory.
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.insert(key, plan);
    }
}

fn parse_ranges(body: &Value) -> Result<Vec<Range>, String> {
    let listed = body["PartitionKeyRanges"]
        .as_array()
        .ok_or("no PartitionKeyRanges")?;
    let text = |v: &Value| {
        v.as_str()
            .map(str::to_owned)
            .ok_or_else(|| format!("'{v}' is no text"))
    };
    let mut ranges = Vec::with_capacity(listed.len());
    for range in listed {
        let parents = range["parents"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        ranges.push(Range {
            id: text(&range["id"])?,
            min: text(&range["minInclusive"])?,
            max: text(&range["maxExclusive"])?,
            parents: parents.iter().map(text).collect::<Result<_, _>>()?,
        });
    }
    ranges.sort_by(|a, b| a.min.cmp(&b.min));
    if ranges.is_empty() {
        Err("a container without physical partitions".into())
    } else {
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_in_key_order_with_their_parents() {
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
