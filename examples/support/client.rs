//! One request to the database: signed with the master key or carrying a resource token, sent over
//! a connection that is kept, and repeated if the server asks for a retry.
//!
//! ```text
//! client.request(Method::POST, "docs", "dbs/db/colls/c", "dbs/db/colls/c/docs")
//!     .key("XMS-0001")
//!     .body(&item)
//!     .send().await?
//!     .expect(201)?
//! ```
//!
//! The server refuses a request beyond the throughput of its physical partition with 429 and the
//! time to wait. A client repeats such a request, as an SDK does, unless it was made with
//! [`Client::without_retries`].

use crate::{Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
pub use hyper::Method;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HeaderMap;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use sha2::Sha256;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Version of the protocol, unless a request names another.
pub const API_VERSION: &str = "2018-12-31";
/// Retries of one request before its 429 is the result. An SDK has 9; the examples put far more
/// load on a container than it can take.
const RETRIES_MAX: usize = 1_000;
/// Time to wait before a retry if the server names none.
const RETRY_AFTER_MS: u64 = 10;
/// Connections to the endpoint. More requests wait for a connection.
const CONNECTIONS_MAX: usize = 64;
/// Time for one exchange, with a margin for slow machines.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Characters of a path or token that are sent as they are.
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

type Connection = SendRequest<Full<Bytes>>;

/// A client of one endpoint with one credential. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    endpoint: Arc<Endpoint>,
    credential: Arc<Credential>,
    retries_max: usize,
}

/// An address, and open connections to the address that no request uses.
struct Endpoint {
    authority: String,
    idle: Mutex<Vec<Connection>>,
    /// One permit for each connection that may be in use.
    permits: Semaphore,
}

enum Credential {
    /// The account's master key, decoded.
    MasterKey(Vec<u8>),
    /// The `_token` of a permission.
    ResourceToken(String),
}

impl Client {
    /// Creates a client of `endpoint`, e.g. `http://127.0.0.1:8081/`, with a master key in base64.
    pub fn new(endpoint: &str, key: &str) -> Result<Client> {
        let Some(authority) = endpoint.strip_prefix("http://") else {
            return Err(format!("the endpoint '{endpoint}' does not begin with http://").into());
        };
        let key = BASE64
            .decode(key)
            .map_err(|e| format!("the key is not base64: {e}"))?;
        Ok(Client {
            endpoint: Arc::new(Endpoint {
                authority: authority.trim_end_matches('/').to_owned(),
                idle: Mutex::default(),
                permits: Semaphore::new(CONNECTIONS_MAX),
            }),
            credential: Arc::new(Credential::MasterKey(key)),
            retries_max: RETRIES_MAX,
        })
    }

    /// Returns a client of the same endpoint that has only the rights of a resource token.
    pub fn with_token(&self, token: &str) -> Client {
        Client {
            credential: Arc::new(Credential::ResourceToken(token.to_owned())),
            ..self.clone()
        }
    }

    /// Returns a client with the same credential that does not repeat throttled requests.
    pub fn without_retries(&self) -> Client {
        Client {
            retries_max: 0,
            ..self.clone()
        }
    }

    /// Begins a request. `kind` and `link` are signed: the resource's type, and the resource or the
    /// parent of a feed. `path` is the address of the request.
    pub fn request(&self, method: Method, kind: &str, link: &str, path: &str) -> Request {
        Request {
            client: self.clone(),
            method,
            kind: kind.to_owned(),
            link: link.to_owned(),
            path: path.to_owned(),
            version: API_VERSION.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }
}

/// A request that is not sent yet.
#[must_use]
pub struct Request {
    client: Client,
    method: Method,
    kind: String,
    link: String,
    path: String,
    version: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Request {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a header.
    pub fn without(mut self, name: &str) -> Request {
        self.headers.retain(|(present, _)| present != name);
        self
    }

    /// Names the logical partition: the header holds a JSON array with the key's value.
    pub fn key(self, key: &str) -> Request {
        let key = json!([key]).to_string();
        self.header("x-ms-documentdb-partitionkey", &key)
    }

    /// Speaks another version of the protocol.
    pub fn version(mut self, version: &str) -> Request {
        version.clone_into(&mut self.version);
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: &Value) -> Request {
        self.body = Bytes::from(body.to_string());
        self
    }

    /// Sends the request, again and again while the server answers 429 or 449 and retries are left.
    pub async fn send(&self) -> Result<Response> {
        let started = Instant::now();
        let mut throttled = 0;
        let mut retries = 0;
        loop {
            let exchange = tokio::time::timeout(TIMEOUT, self.exchange());
            let exchange = exchange.await.map_err(|_| "no response within a minute")?;
            let (status, headers, body) =
                exchange.map_err(|e| format!("{} /{}: {e}", self.method, self.path))?;
            if status == 429 {
                throttled += 1;
            }
            let response = Response {
                request: format!("{} /{}", self.method, self.path),
                status,
                headers,
                body,
                throttled,
                elapsed: started.elapsed(),
            };
            if !matches!(status, 429 | 449) || retries == self.client.retries_max {
                return Ok(response);
            }
            retries += 1;
            let wait = response.header("x-ms-retry-after-ms");
            let wait = wait.and_then(|text| text.parse().ok());
            tokio::time::sleep(Duration::from_millis(wait.unwrap_or(RETRY_AFTER_MS))).await;
        }
    }

    /// Sends the request once and reads the response.
    async fn exchange(&self) -> Result<(u16, HeaderMap, Value)> {
        let endpoint = &self.client.endpoint;
        let _permit = endpoint.permits.acquire().await?;
        let request = self.signed()?;
        let mut connection = endpoint.connection().await?;
        let response = connection.send_request(request).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        endpoint.keep(connection);
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body)?
        };
        Ok((parts.status.as_u16(), parts.headers, body))
    }

    /// Returns the HTTP request with date and authorization.
    fn signed(&self) -> Result<hyper::Request<Full<Bytes>>> {
        let now = jiff::Timestamp::now();
        let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let token = match &*self.client.credential {
            Credential::MasterKey(key) => self.signature(key, &date)?,
            Credential::ResourceToken(token) => token.clone(),
        };
        let mut path = String::new();
        for segment in self.path.split('/') {
            path.push('/');
            path.extend(utf8_percent_encode(segment, UNESCAPED));
        }
        let mut request = hyper::Request::builder()
            .method(self.method.clone())
            .uri(path)
            .header("host", &self.client.endpoint.authority)
            .header("x-ms-version", &self.version)
            .header("x-ms-date", date)
            .header(
                "authorization",
                utf8_percent_encode(&token, UNESCAPED).to_string(),
            );
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(self.body.clone()))?)
    }

    /// Returns the token of the master key: an HMAC-SHA256 of method, type, link and date.
    fn signature(&self, key: &[u8], date: &str) -> Result<String> {
        let text = format!(
            "{}\n{}\n{}\n{}\n\n",
            self.method.as_str().to_lowercase(),
            self.kind,
            self.link,
            date.to_lowercase()
        );
        let mut mac = Hmac::<Sha256>::new_from_slice(key)?;
        mac.update(text.as_bytes());
        let signature = BASE64.encode(mac.finalize().into_bytes());
        Ok(format!("type=master&ver=1.0&sig={signature}"))
    }
}

impl Endpoint {
    /// Returns an idle connection that is still open, or else a new one.
    async fn connection(&self) -> Result<Connection> {
        loop {
            let idle = self
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            let Some(mut connection) = idle else { break };
            if connection.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (mut connection, driver) = handshake(TokioIo::new(stream)).await?;
        // The driver moves bytes between the socket and the requests.
        tokio::spawn(driver);
        connection.ready().await?;
        Ok(connection)
    }

    /// Keeps a connection whose response was read to its end.
    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}

/// A response of any status.
pub struct Response {
    /// Method and path of the request.
    pub request: String,
    /// Status of the response.
    pub status: u16,
    /// The body; `Null` if there is none.
    pub body: Value,
    /// Attempts that the server refused with 429, this response included.
    pub throttled: usize,
    /// Time from the first attempt to this response.
    pub elapsed: Duration,
    headers: HeaderMap,
}

impl Response {
    /// Returns the text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the request charge in RU; 0 if the response names none.
    pub fn charge(&self) -> f64 {
        let charge = self.header("x-ms-request-charge");
        charge.and_then(|text| text.parse().ok()).unwrap_or(0.0)
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
        let (request, got, message) = (&self.request, self.status, self.message());
        Err(Error::from(format!(
            "{request}: {got}, not {status}: {message}"
        )))
    }
}
