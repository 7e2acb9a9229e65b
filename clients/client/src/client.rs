//! The client of one endpoint: it signs requests, sends them, and repeats them where that is safe.
//!
//! | answer | what the client does |
//! |---|---|
//! | 429, 449 | repeats after the time that the server names ([`Client::with_patience`]) |
//! | no connection | repeats up to five times within three seconds |
//! | broken connection | the same, if [`Request::repeatable`] allows it |
//!
//! [`Client::without_reconnection`] and [`Client::with_deadline`] repeat less.

use crate::answer::Answer;
use crate::error::ClientError;
use crate::merge::Plan;
use crate::options::Connection;
use crate::pool::{ExchangeError, Pool};
use crate::request::Request;
use crate::scope::PartitionKeyRange;
use crate::signature::{authorization, escaped_path, escaped_token, http_date};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::response::Parts;
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
/// Time after a client's deadline within which an answer may come.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// A client of one endpoint. Clones share connections, the known partition key ranges and the known
/// query plans.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    patience: Duration,
    /// Time after which no request is repeated.
    deadline: Option<Instant>,
    /// True if a request is repeated after a failed connection.
    reconnects: bool,
    user_agent: &'static str,
    /// A resource token, in place of the account's key.
    token: Option<Arc<str>>,
    observer: Option<Arc<dyn Observer>>,
}

/// Sees the answers to the requests of a client, see [`Client::with_observer`].
pub trait Observer: Send + Sync {
    /// Is called once for each request that has an answer, whatever its status.
    ///
    /// # Errors
    /// An error becomes the result of the request.
    fn answered(&self, request: &Request, answer: &Answer) -> Result<(), ClientError>;
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
    /// Query plans by container link and body of the query.
    pub(crate) plans: Mutex<HashMap<String, Arc<Plan>>>,
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
                plans: Mutex::default(),
            }),
            patience: PATIENCE_DEFAULT,
            deadline: None,
            reconnects: true,
            user_agent: "orrery-client",
            token: None,
            observer: None,
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

    /// Returns a client that shares connections with this one, and whose requests are not repeated
    /// after `deadline`. A request without an answer 10 seconds later is
    /// [`ClientError::Unreachable`].
    pub fn with_deadline(&self, deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            ..self.clone()
        }
    }

    /// Returns a client that shares connections with this one and does not repeat a request whose
    /// connection failed.
    pub fn without_reconnection(&self) -> Self {
        Self {
            reconnects: false,
            ..self.clone()
        }
    }

    /// Returns a client that shares connections with this one and has only the rights of a resource
    /// token, the `_token` of a permission.
    pub fn with_resource_token(&self, token: &str) -> Self {
        Self {
            token: Some(token.into()),
            ..self.clone()
        }
    }

    /// Returns a client that shares connections with this one and shows its answers to `observer`,
    /// except those with partition key ranges and query plans: they are no answers to a caller's
    /// request, and the client keeps them.
    pub fn with_observer(&self, observer: Arc<dyn Observer>) -> Self {
        Self {
            observer: Some(observer),
            ..self.clone()
        }
    }

    pub(crate) fn without_observer(&self) -> Self {
        Self {
            observer: None,
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
            let (parts, body) = match self.exchange(signed).await {
                Ok(response) => response,
                Err(failed) => {
                    // A request that may have arrived could be carried out twice.
                    let is_safe = request.is_repeatable || !failed.may_have_arrived;
                    let wait = reconnections.next().map(|ms| Duration::from_millis(*ms));
                    match wait.filter(|wait| self.reconnects && is_safe && self.is_in_time(*wait)) {
                        Some(wait) => tokio::time::sleep(wait).await,
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

            // A throttled request waits as long as the server says, while there is patience.
            let wait = answer.retry_after().unwrap_or(RETRY_AFTER_DEFAULT);
            let wait = wait.clamp(Duration::from_millis(1), RETRY_AFTER_MAX);
            let may_wait = waited + wait <= self.patience && self.is_in_time(wait);
            if !matches!(answer.status, 429 | 449) || !may_wait {
                if let Some(observer) = &self.observer {
                    observer.answered(request, &answer)?;
                }
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

    /// Sends one signed request. With a deadline, the wait for the answer is limited.
    async fn exchange(
        &self,
        signed: http::Request<Full<Bytes>>,
    ) -> Result<(Parts, Bytes), ExchangeError> {
        let exchange = self.shared.pool.exchange(signed);
        let Some(deadline) = self.deadline else {
            return exchange.await;
        };
        let limit = tokio::time::Instant::from_std(deadline + ANSWER_TIME_MAX);
        match tokio::time::timeout_at(limit, exchange).await {
            Ok(result) => result,
            Err(_) => Err(ExchangeError {
                cause: "no answer before the deadline".into(),
                may_have_arrived: true,
                found_server: true,
            }),
        }
    }

    /// Returns true if a request may be repeated after a wait.
    fn is_in_time(&self, wait: Duration) -> bool {
        self.deadline
            .is_none_or(|deadline| Instant::now() + wait < deadline)
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
        let token = match &self.token {
            Some(token) => escaped_token(token),
            None => authorization(&self.shared.key, method, &resource_type, &link, &date),
        };
        let mut uri = escaped_path(&request.path);
        if !request.query.is_empty() {
            uri = format!("{uri}?{}", request.query);
        }
        let mut builder = http::Request::builder()
            .method(request.method.clone())
            .uri(uri)
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
