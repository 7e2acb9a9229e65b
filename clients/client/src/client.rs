//! The client of one endpoint: it signs requests, sends them, and repeats them where that is safe.
//!
//! | answer | what the client does |
//! |---|---|
//! | 429, 449 | repeats after the time that the server names ([`Client::with_patience`]) |
//! | no connection | repeats up to five times within three seconds |
//! | broken connection | the same, if [`Request::repeatable`] allows it |

use crate::answer::Answer;
use crate::error::ClientError;
use crate::options::Connection;
use crate::pool::{ExchangeError, Pool};
use crate::request::Request;
use crate::resources::PartitionKeyRange;
use crate::signature::{authorization, escaped_path, http_date};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::Full;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The value of `x-ms-version`: with partition key ranges, hierarchical keys and bulk requests.
const API_VERSION: &str = "2020-07-15";
/// Time for which one request may wait in total because of throttling, unless it is set.
const PATIENCE_DEFAULT: Duration = Duration::from_secs(60);
/// Wait before a throttled request is repeated, if the server names no time.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_millis(20);
/// Longest wait before one repetition, so that a wrong header cannot stop the client for long.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);
/// Waits before repetitions after a failed connection.
const RECONNECT_WAITS_MS: [u64; 5] = [50, 150, 400, 900, 1500];

/// A client of one endpoint. Clones share connections and the known partition key ranges.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    patience: Duration,
    user_agent: &'static str,
}

pub(crate) struct Shared {
    pool: Pool,
    /// The account's master key, decoded.
    key: Vec<u8>,
    /// The value of the `Host` header.
    authority: String,
    endpoint: String,
    /// Partition key ranges by container link.
    pub(crate) ranges: Mutex<HashMap<String, Arc<Vec<PartitionKeyRange>>>>,
}

/// Refuses parts of an endpoint that would not be used. A user before the host may come with a
/// password, so that the message does not repeat such an endpoint.
fn check_endpoint(endpoint: &str) -> Result<(), ClientError> {
    let Ok(uri) = endpoint.parse::<http::Uri>() else {
        // The pool says what is wrong.
        return Ok(());
    };
    let invalid = |reason: String| Err(ClientError::InvalidOption(reason));
    if uri
        .authority()
        .is_some_and(|all| all.as_str().contains('@'))
    {
        return invalid(
            "the endpoint has a user before its host: the account key signs requests".into(),
        );
    }
    // An address without a scheme is refused by the pool.
    let has_path = uri.path_and_query().is_some_and(|rest| rest != "/");
    if uri.scheme().is_some() && has_path {
        return invalid(format!(
            "endpoint '{endpoint}' has a path: an endpoint is scheme, host and port only"
        ));
    }
    Ok(())
}

impl Client {
    /// Creates a client. No request is sent.
    ///
    /// # Errors
    /// [`ClientError::InvalidOption`] for an endpoint, key or file of certificates that cannot be
    /// used. The message does not contain the key.
    pub fn new(connection: &Connection) -> Result<Self, ClientError> {
        check_endpoint(&connection.endpoint)?;
        let pool = Pool::with_trust(
            &connection.endpoint,
            connection.connections,
            &connection.trust,
        )
        .map_err(ClientError::InvalidOption)?;
        let key = BASE64.decode(connection.key.reveal()).map_err(|_| {
            ClientError::InvalidOption(format!(
                "the account key of {} is not base64: copy the whole key, with the '=' at its end",
                connection.key_source
            ))
        })?;
        let authority = pool.authority();
        Ok(Self {
            shared: Arc::new(Shared {
                pool,
                key,
                authority,
                endpoint: connection.endpoint.clone(),
                ranges: Mutex::default(),
            }),
            patience: PATIENCE_DEFAULT,
            user_agent: "orrery-client",
        })
    }

    /// Returns a client that shares connections with this one, and whose requests wait for at most
    /// `patience` in total if they are throttled. Without patience, 429 is an answer as any other.
    pub fn with_patience(&self, patience: Duration) -> Self {
        Self {
            patience,
            ..self.clone()
        }
    }

    /// Returns a client that shares connections with this one and names itself `user_agent`.
    pub fn with_user_agent(&self, user_agent: &'static str) -> Self {
        Self {
            user_agent,
            ..self.clone()
        }
    }

    /// Returns the endpoint, for example `http://127.0.0.1:8081/`.
    pub fn endpoint(&self) -> &str {
        &self.shared.endpoint
    }

    /// Sends a request and returns the answer, whatever its status.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] without an answer, [`ClientError::InvalidOption`] for a header
    /// that HTTP does not allow.
    pub async fn send(&self, request: &Request) -> Result<Answer, ClientError> {
        let started = Instant::now();
        let mut waited = Duration::ZERO;
        let mut throttled = 0;
        let mut reconnections = RECONNECT_WAITS_MS.iter();
        loop {
            // Every attempt is signed anew: the signature covers the date.
            let signed = self
                .signed(request)
                .map_err(|e| ClientError::InvalidOption(format!("{}: {e}", request.operation())))?;
            let (parts, body) = match self.shared.pool.exchange(signed).await {
                Ok(response) => response,
                Err(failed) => {
                    let is_safe = request.is_repeatable || !failed.may_have_arrived;
                    match reconnections.next().filter(|_| is_safe) {
                        Some(wait) => tokio::time::sleep(Duration::from_millis(*wait)).await,
                        None => return Err(self.unreachable(request, failed)),
                    }
                    continue;
                }
            };
            let answer = Answer {
                operation: request.operation(),
                status: parts.status.as_u16(),
                headers: parts.headers,
                body,
                throttled,
                elapsed: started.elapsed(),
            };
            let wait = answer.retry_after().unwrap_or(RETRY_AFTER_DEFAULT);
            let wait = wait.clamp(Duration::from_millis(1), RETRY_AFTER_MAX);
            if !matches!(answer.status, 429 | 449) || waited + wait > self.patience {
                return Ok(answer);
            }
            tokio::time::sleep(wait).await;
            waited += wait;
            throttled += 1;
        }
    }

    /// Sends a request and returns the answer if its status is below 400.
    ///
    /// # Errors
    /// Those of [`Client::send`], and [`ClientError::Refused`].
    pub async fn request(&self, request: &Request) -> Result<Answer, ClientError> {
        self.send(request).await?.into_success()
    }

    /// Returns the error of a request without a complete response.
    fn unreachable(&self, request: &Request, failed: ExchangeError) -> ClientError {
        ClientError::Unreachable {
            operation: request.operation(),
            endpoint: self.shared.endpoint.clone(),
            cause: failed.cause,
            may_have_arrived: failed.may_have_arrived,
            found_server: failed.found_server,
        }
    }

    /// Returns the HTTP request with the current date and its signature.
    fn signed(&self, request: &Request) -> Result<http::Request<Full<Bytes>>, http::Error> {
        let date = http_date(jiff::Timestamp::now());
        let (resource_type, link) = request.signed_parts();
        let method = request.method.as_str();
        let token = authorization(&self.shared.key, method, &resource_type, &link, &date);
        let mut builder = http::Request::builder()
            .method(request.method.clone())
            .uri(escaped_path(&request.path))
            .header("host", &self.shared.authority)
            .header("x-ms-date", date)
            .header("authorization", token);
        let has = |name: &str| request.headers.iter().any(|(given, _)| *given == name);
        for (name, value) in [
            ("accept", "application/json"),
            ("user-agent", self.user_agent),
            ("x-ms-version", API_VERSION),
        ] {
            if !has(name) {
                builder = builder.header(name, value);
            }
        }
        if !request.body.is_empty() && !has("content-type") {
            builder = builder.header("content-type", "application/json");
        }
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        builder.body(Full::new(request.body.clone()))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.shared.endpoint)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_no_path_and_no_user() {
        for good in ["http://localhost:8081", "https://[::1]:8081/"] {
            assert!(check_endpoint(good).is_ok(), "{good}");
        }
        for bad in [
            "http://localhost:8081/dbs/shop",
            "http://localhost/?db=shop",
            "http://ada:secret@localhost/",
        ] {
            let refusal = check_endpoint(bad).expect_err(bad).to_string();
            assert!(!refusal.contains("secret"), "{refusal}");
        }
    }
}
