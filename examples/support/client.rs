//! One request to the database with a body and an answer in JSON, sent by the client of this
//! repository (`orrery-client`).
//!
//! ```text
//! request(&client, Method::POST, "dbs/db/colls/c/docs")
//!     .key("XMS-0001")
//!     .body(&item)
//!     .send().await?
//!     .expect(201)?
//! ```
//!
//! The server refuses a request beyond the throughput of its physical partition with 429 and the
//! time to wait. A client repeats such a request, as an SDK does, unless it was made with
//! [`without_retries`].

use crate::{Error, Result};
pub use hyper::Method;
pub use orrery_client::Client;
use orrery_client::{Answer, Connection, PartitionKey, Secret, Trust};
use serde_json::Value;
use std::time::Duration;

/// Time for which one request is repeated before its 429 is the result. An SDK gives up after 9
/// retries or 30 seconds; the examples put far more load on a container than it can take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Connections to the endpoint. More requests wait for a connection.
const CONNECTIONS_MAX: usize = 64;

/// Returns a client of `endpoint`, e.g. `http://127.0.0.1:8081/`, with a master key in base64.
pub fn connect(endpoint: &str, key: &str) -> Result<Client> {
    let client = Client::new(&Connection {
        endpoint: endpoint.to_owned(),
        key: Secret::new(key),
        key_source: "the example".into(),
        trust: Trust::System,
        connections: CONNECTIONS_MAX,
        database: None,
        container: None,
    })?;
    Ok(client.with_patience(PATIENCE))
}

/// Returns a client with the same credential that does not repeat throttled requests.
pub fn without_retries(client: &Client) -> Client {
    client.with_patience(Duration::ZERO)
}

/// Begins a request to `path`.
pub fn request(client: &Client, method: Method, path: impl Into<String>) -> Request {
    Request {
        client: client.clone(),
        request: orrery_client::Request::new(method, path),
    }
}

/// A request that is not sent yet.
#[must_use]
pub struct Request {
    client: Client,
    request: orrery_client::Request,
}

impl Request {
    /// Adds a header.
    pub fn header(self, name: &'static str, value: &str) -> Request {
        Request {
            request: self.request.header(name, value),
            ..self
        }
    }

    /// Names the logical partition: the header holds a JSON array with the key's value.
    pub fn key(self, key: &str) -> Request {
        let key = PartitionKey::text(key);
        self.header("x-ms-documentdb-partitionkey", key.as_str())
    }

    /// Speaks another version of the protocol.
    pub fn version(self, version: &str) -> Request {
        self.header("x-ms-version", version)
    }

    /// Sets the body.
    pub fn body(self, body: &Value) -> Request {
        Request {
            request: self.request.body(body.to_string()),
            ..self
        }
    }

    /// Sends the request, again and again while the server answers 429 or 449 and the client has
    /// patience.
    pub async fn send(&self) -> Result<Response> {
        Response::of(self.client.send(&self.request).await?)
    }
}

/// A response of any status.
pub struct Response {
    /// Status of the response.
    pub status: u16,
    /// The body; `Null` if there is none.
    pub body: Value,
    /// The answer with its headers, the time that it took and the throttled attempts before it.
    pub answer: Answer,
}

impl Response {
    /// Parses the body of an answer.
    pub fn of(answer: Answer) -> Result<Response> {
        let body = if answer.body.is_empty() {
            Value::Null
        } else {
            answer.json()?
        };
        Ok(Response {
            status: answer.status,
            body,
            answer,
        })
    }

    /// Returns the request charge in RU; 0 if the response names none.
    pub fn charge(&self) -> f64 {
        self.answer.charge()
    }

    /// Returns the server's message for an error.
    pub fn message(&self) -> String {
        let message = self.body["message"].as_str().unwrap_or_default();
        // The service packs the message into JSON and appends the id of the request.
        let message = message.split("\r\n").next().unwrap_or_default();
        let packed = message.strip_prefix("Message: ").unwrap_or(message);
        let parsed = serde_json::from_str::<Value>(packed).unwrap_or_default();
        match parsed["Errors"][0].as_str() {
            Some(text) => text.to_owned(),
            None => message.to_owned(),
        }
    }

    /// Returns the response if it has this status, or else the server's message as an error.
    pub fn expect(self, status: u16) -> Result<Response> {
        if self.status == status {
            return Ok(self);
        }
        let (request, got, message) = (&self.answer.operation, self.status, self.message());
        Err(Error::from(format!(
            "{request}: {got}, not {status}: {message}"
        )))
    }
}
