//! The client port of a node that does not hold the lease: requests go to the node that does.
//!
//! A request is sent unchanged over HTTP/1.1, with one header more: the client's scheme, the
//! address of this node, and a signature with the nodes' own key. The leaseholder checks the
//! client's own signature, and takes the scheme and the node from the header. A node that gets such
//! a request without holding the lease answers 503 and sends the request to no third node.
//!
//! Promises:
//! 1. While no node holds the lease, or the leaseholder cannot be reached, a request waits, for at
//!    most [`PATIENCE`]; then the answer is 503. Above [`REQUESTS`] the answer is 429.
//! 2. A request is sent again only if it did not reach a leaseholder, or changes nothing. A write
//!    whose answer is lost gets 408/1900: the outcome is unknown.
//! 3. When this node becomes the leaseholder, the same sockets go on, and the requests that still
//!    wait are served by this node.
//! 4. When this node gives the lease back, requests of clients wait for the next leaseholder, and
//!    requests of other nodes get the answer 503, which makes those nodes try the lease at once.
//!
//! Requests for partitions that this node owns are answered here, and those for partitions of other
//! nodes are sent to these (`forward/to_owner.rs`). Reads that a standby can answer are not
//! forwarded either (`standby.rs`).

pub(crate) mod to_owner;

use crate::grants::Tried;
use crate::role::Seat;
use crate::{Leaseholder, Node, NodeContext, NodesKey, is_query};
use bytes::Bytes;
use http::header::CONNECTION;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use orrery_gateway::{
    BodyMemory, Connection, ConnectionCounters, Log, RequestBody, Scheme, Service, Unanswered,
    body, error_response,
};
use orrery_model::world::World;
use orrery_model::{Error, Kind};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

/// The longest wait of a request for a leaseholder.
const PATIENCE: Duration = Duration::from_secs(15);
/// The wait before a leaseholder that cannot be reached is asked again.
const PAUSE: Duration = Duration::from_millis(25);
/// The time in which a leaseholder accepts a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Requests that are forwarded, or wait, at the same time.
const REQUESTS: usize = 1_024;
/// The time for the answer of a leaseholder that has been replaced. One that leaves in order
/// answers at once; one that has died or hangs never does.
const LAST_ANSWER: Duration = Duration::from_millis(300);
/// Idle connections to the leaseholder that are kept.
const IDLE_CONNECTIONS: usize = 64;
/// The time for which the machine of a leaseholder acknowledges no bytes, after which a connection
/// is given up, and the pauses after which a silent connection is tested. A paused process does not
/// count: its machine acknowledges.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);
const TEST_PAUSE: Duration = Duration::from_secs(1);
/// The header of a request that a node forwards: `SCHEME ADDRESS SIGNATURE`.
pub(crate) const FORWARDED: HeaderName = HeaderName::from_static("x-orrery-forwarded");
/// The header of an answer 503 of a node that does not hold the lease.
const NOT_LEASEHOLDER: HeaderName = HeaderName::from_static("x-orrery-not-holder");

/// The HTTP client for other nodes.
pub(crate) type NodesClient = Client<HttpConnector, Full<Bytes>>;

/// The service of the client port while another node holds the lease.
pub struct Forwarder {
    /// `None` until a leaseholder is known.
    leaseholder: watch::Receiver<Option<Leaseholder>>,
    seat: Arc<Seat>,
    client: NodesClient,
    log: Arc<Log>,
    world: Arc<dyn World>,
    memory: BodyMemory,
    connections: Arc<ConnectionCounters>,
    places: Semaphore,
}

/// The end of one attempt.
enum Attempt {
    /// The answer of the leaseholder.
    Answered(Response<Bytes>),
    /// The request has reached no leaseholder.
    NotSent,
    /// The request may have reached a leaseholder.
    Lost,
}

impl Forwarder {
    /// Creates the service of the node with a seat.
    pub(crate) fn new(context: &NodeContext, seat: Arc<Seat>, client: NodesClient) -> Self {
        Forwarder {
            leaseholder: seat.leaseholder.subscribe(),
            seat,
            client,
            log: context.log.clone(),
            world: context.world.clone(),
            memory: BodyMemory::new(context.bodies.clone()),
            connections: Arc::default(),
            places: Semaphore::new(REQUESTS),
        }
    }

    /// Forwards a request until it is answered or its time is over.
    async fn forward(&self, head: &Parts, body: Bytes, scheme: Scheme) -> Response<Bytes> {
        let deadline = Instant::now() + PATIENCE;
        let mut leaseholder = self.leaseholder.clone();
        loop {
            let known = leaseholder.borrow_and_update().clone();
            let attempt = match known {
                // The row is that of an earlier process of this node, or this node holds the lease
                // and does not serve yet, or has stopped serving and knows no later leaseholder
                // yet.
                Some(known) if known.node == self.seat.node && !self.seat.is_serving() => {
                    Attempt::NotSent
                }
                Some(known) => {
                    self.send(&known, head, body.clone(), scheme, &mut leaseholder)
                        .await
                }
                None => Attempt::NotSent,
            };
            match attempt {
                Attempt::Answered(response) => return response,
                Attempt::Lost if !changes_nothing(head) => {
                    return self.refuse(lost_write(), head);
                }
                Attempt::Lost | Attempt::NotSent => {}
            }
            if Instant::now() >= deadline || self.seat.is_ending() {
                let reason = self.seat.lease_failure();
                let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
                let message = format!(
                    "No node holds the lease of the account now, or the node that does cannot be \
                     reached{reason}. The request was not carried out. Retry later."
                );
                return self.refuse(Error::new(Kind::Unavailable, message), head);
            }
            // A new leaseholder is tried at once.
            let pause = (Instant::now() + PAUSE).min(deadline);
            let _ = timeout_at(pause, leaseholder.changed()).await;
        }
    }

    /// Sends a request to a leaseholder once. A leaseholder that is replaced meanwhile confirms no
    /// write any more, so its answer is waited for shortly only.
    async fn send(
        &self,
        leaseholder: &Leaseholder,
        head: &Parts,
        body: Bytes,
        scheme: Scheme,
        changes: &mut watch::Receiver<Option<Leaseholder>>,
    ) -> Attempt {
        let via = &self.seat.node.address;
        let Some(request) = request_to(leaseholder, head, body, (scheme, via)) else {
            return Attempt::NotSent;
        };
        let answer = async {
            match exchange(&self.client, request).await {
                Attempt::Answered(response) if is_refusal_of_node(&response) => {
                    self.seat.claim.hurry();
                    Attempt::NotSent
                }
                attempt => attempt,
            }
        };
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            biased;
            attempt = &mut answer => attempt,
            Ok(()) = changes.changed() => {
                changes.mark_changed();
                timeout(LAST_ANSWER, answer).await.unwrap_or(Attempt::Lost)
            }
        }
    }

    /// Answers a request that another node has forwarded, if this node owns the partition that the
    /// request needs. A node that is not known to be one gets the refusal too.
    async fn answer_node(
        &self,
        key: Option<&NodesKey>,
        mut head: Parts,
        body: RequestBody,
        connection: &Connection,
    ) -> Response<Bytes> {
        let value = head.headers.remove(FORWARDED);
        let scheme = key.zip(value.as_ref()).and_then(|(key, value)| {
            let origin = origin_of(key, value, head.method.as_str(), &head.uri, &head.headers);
            origin.map(|(scheme, _)| scheme)
        });
        if let (Some(scheme), Some(owner)) = (scheme, self.seat.owner()) {
            let body = match body::read(body, &self.memory).await {
                Ok(body) => body,
                Err(error) => return self.refuse(error, &head),
            };
            let connection = Connection {
                scheme,
                ..*connection
            };
            if let Tried::Answered(response) = owner.answer(&head, &body, &connection).await {
                return response;
            }
        } else {
            body::discard(body).await;
        }
        let message = "This node does not hold the lease of the account.";
        let mut response = self.refuse(Error::new(Kind::Unavailable, message), &head);
        let mark = HeaderValue::from_static("1");
        response.headers_mut().insert(NOT_LEASEHOLDER, mark);
        response
    }

    fn refuse(&self, error: Error, head: &Parts) -> Response<Bytes> {
        error_response(error, self.world.as_ref(), head.method == Method::HEAD)
    }
}

/// The end of an attempt to send a request to the owner of a partition.
pub(crate) enum Sent {
    /// The answer of the owner.
    Answered(Response<Bytes>),
    /// The request was not carried out there.
    Refused,
    /// The request may have been carried out.
    Lost,
}

/// Sends a request to the node with an address, which owns the partition that the request needs.
/// The client has sent the request by a scheme to the node `via`.
pub(crate) async fn send_to_owner(
    client: &NodesClient,
    (key, address): (&NodesKey, &str),
    head: &Parts,
    body: Bytes,
    origin: (Scheme, &str),
) -> Sent {
    let owner = Leaseholder {
        node: Node {
            name: String::new(),
            address: address.to_owned(),
        },
        key: Some(key.clone()),
    };
    let Some(request) = request_to(&owner, head, body, origin) else {
        return Sent::Refused;
    };
    match exchange(client, request).await {
        Attempt::Answered(response) if is_refusal_of_node(&response) => Sent::Refused,
        Attempt::Answered(response) => Sent::Answered(response),
        Attempt::NotSent => Sent::Refused,
        Attempt::Lost => Sent::Lost,
    }
}

/// Waits for the answer of an owner. An owner that owns the partition no longer, as `is_owner`
/// tells, is waited for shortly only: one that hangs never answers.
pub(crate) async fn while_owner(
    sent: impl Future<Output = Sent>,
    is_owner: impl Fn() -> bool,
) -> Sent {
    let mut sent = std::pin::pin!(sent);
    loop {
        if let Ok(sent) = timeout(LAST_ANSWER, &mut sent).await {
            return sent;
        }
        if !is_owner() {
            return timeout(LAST_ANSWER, sent).await.unwrap_or(Sent::Lost);
        }
    }
}

/// Sends a request to another node once, and reads the answer.
async fn exchange(client: &NodesClient, request: Request<Full<Bytes>>) -> Attempt {
    let response = match client.request(request).await {
        Ok(response) => response,
        Err(error) if error.is_connect() || was_not_written(&error) => {
            return Attempt::NotSent;
        }
        Err(_) => return Attempt::Lost,
    };
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONNECTION);
    head.version = Version::default();
    match body.collect().await {
        Ok(body) => Attempt::Answered(Response::from_parts(head, body.to_bytes())),
        Err(_) => Attempt::Lost,
    }
}

/// Returns the error of a write whose answer was lost between two nodes.
pub(crate) fn lost_write() -> Error {
    let message = "The node that carries out the request did not answer. The write may or may not \
                   have taken place.";
    Error::new(Kind::UnknownOutcome, message)
}

/// Returns the refusal of a node that is asked for what the leaseholder does.
pub(crate) fn not_leaseholder() -> Response<Bytes> {
    let mut refusal = Response::new(Bytes::new());
    *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let mark = HeaderValue::from_static("1");
    refusal.headers_mut().insert(NOT_LEASEHOLDER, mark);
    refusal
}

/// Returns true for the answer of a node that does not hold the lease to another node.
pub(crate) fn is_refusal_of_node(response: &Response<Bytes>) -> bool {
    response.headers().contains_key(NOT_LEASEHOLDER)
}

impl Service for Forwarder {
    async fn handle(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        let (head, body) = request.into_parts();
        let key = self
            .leaseholder
            .borrow()
            .as_ref()
            .and_then(|leaseholder| leaseholder.key.clone());
        if is_from_node(key.as_ref(), &head) {
            return Ok(self.answer_node(key.as_ref(), head, body, connection).await);
        }
        let Ok(_place) = self.places.try_acquire() else {
            body::discard(body).await;
            let message =
                "Too many requests wait for the node that holds the lease of the account.";
            return Ok(self.refuse(Error::new(Kind::Throttled, message), &head));
        };
        let body = match body::read(body, &self.memory).await {
            Ok(body) => body,
            Err(error) => return Ok(self.refuse(error, &head)),
        };
        let mut tried = Tried::NotHere;
        if let Some(owner) = self.seat.owner() {
            tried = owner.answer(&head, &body, connection).await;
        }
        if let Tried::Answered(response) = tried {
            return Ok(response);
        }
        if let Some(reader) = self.seat.reader()
            && let Some(response) = reader.answer(&head, &body, connection).await
        {
            return Ok(response);
        }
        if let (Tried::Elsewhere(partition, address), Some(key)) = (tried, &key) {
            let origin = (connection.scheme, self.seat.node.address.as_str());
            let way = (key, &*address);
            // A node that serves by now has no list of owners.
            let is_owner = || {
                let own = self.seat.owner();
                let known = own.and_then(|own| own.owner_of(partition));
                known.is_some_and(|known| known == address)
            };
            let sent = send_to_owner(&self.client, way, &head, body.clone(), origin);
            match while_owner(sent, is_owner).await {
                Sent::Answered(response) => return Ok(response),
                Sent::Lost if !changes_nothing(&head) => {
                    return Ok(self.refuse(lost_write(), &head));
                }
                // The leaseholder knows the owner, or becomes it.
                Sent::Lost | Sent::Refused => {}
            }
        }
        Ok(self.forward(&head, body, connection.scheme).await)
    }

    fn log(&self) -> &Log {
        &self.log
    }

    fn now_ms(&self) -> u64 {
        self.world.now_ms()
    }

    fn connections(&self) -> Arc<ConnectionCounters> {
        self.connections.clone()
    }

    fn memory(&self) -> &BodyMemory {
        &self.memory
    }
}

/// Creates the HTTP client for other nodes.
pub(crate) fn nodes_client() -> NodesClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    // Without these, a request waits for minutes after the network between two nodes was cut.
    connector.set_keepalive(Some(SILENCE_TIMEOUT));
    connector.set_keepalive_interval(Some(TEST_PAUSE));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(SILENCE_TIMEOUT));
    Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        // Only a request that was not written is repeated by the client itself: one for an idle
        // connection that the leaseholder had closed.
        .retry_canceled_requests(true)
        .build(connector)
}

/// Returns true if another node has forwarded the request, or may have: a node that has just
/// started knows no key, and a request that it would forward could be carried out after the first
/// node has given it up. The header of a client means nothing.
fn is_from_node(key: Option<&NodesKey>, head: &Parts) -> bool {
    match (key, head.headers.get(FORWARDED)) {
        (Some(key), Some(value)) => {
            origin_of(key, value, head.method.as_str(), &head.uri, &head.headers).is_some()
        }
        (None, Some(_)) => true,
        (_, None) => false,
    }
}

/// Returns true for a request that may be sent a second time: a read, or a query.
pub(crate) fn changes_nothing(head: &Parts) -> bool {
    is_read(&head.method, &head.headers)
}

/// Returns true for the method and the headers of a read, or of a query.
pub(crate) fn is_read(method: &Method, headers: &HeaderMap) -> bool {
    is_query(headers) || matches!(*method, Method::GET | Method::HEAD)
}

/// Returns true for the status of a write that may have been carried out.
pub(crate) fn may_have_changed(status: StatusCode) -> bool {
    status.is_success()
        || status == StatusCode::INTERNAL_SERVER_ERROR
        || status == StatusCode::REQUEST_TIMEOUT
}

/// Returns the request of a client as it is sent to a leaseholder; `None` if the leaseholder's
/// address or key cannot be used.
fn request_to(
    leaseholder: &Leaseholder,
    head: &Parts,
    body: Bytes,
    (scheme, via): (Scheme, &str),
) -> Option<Request<Full<Bytes>>> {
    let key = leaseholder.key.as_ref()?;
    let address: Uri = leaseholder.node.address.parse().ok()?;
    let mut parts = address.into_parts();
    parts.path_and_query = Some(path_of(&head.uri));
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = Uri::from_parts(parts).ok()?;
    *request.headers_mut() = head.headers.clone();
    let headers = request.headers_mut();
    // HTTP/2 has the host in another place.
    if let (None, Some(authority)) = (headers.get(http::header::HOST), head.uri.authority()) {
        let host = HeaderValue::from_str(authority.as_str()).ok()?;
        headers.insert(http::header::HOST, host);
    }
    for name in [
        CONNECTION,
        // The body may have been read in another encoding.
        http::header::CONTENT_LENGTH,
        http::header::TRANSFER_ENCODING,
        http::header::EXPECT,
    ] {
        headers.remove(name);
    }
    let signature = key.sign(&signed(
        head.method.as_str(),
        &head.uri,
        headers,
        (scheme.name(), via),
    ));
    let value = format!("{} {via} {signature}", scheme.name());
    headers.insert(FORWARDED, HeaderValue::from_str(&value).ok()?);
    Some(request)
}

/// Returns true if a request failed before any byte of it was written.
fn was_not_written(error: &hyper_util::client::legacy::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return error.is_canceled();
        }
        cause = error.source();
    }
    false
}

fn path_of(uri: &Uri) -> PathAndQuery {
    let path = uri.path_and_query().cloned();
    path.unwrap_or_else(|| PathAndQuery::from_static("/"))
}

/// Returns the texts that the signature of a forwarded request covers.
fn signed<'a>(
    method: &'a str,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    (scheme, via): (&'a str, &'a str),
) -> [&'a str; 5] {
    let date = headers.get("x-ms-date").and_then(|date| date.to_str().ok());
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    [method, path, date.unwrap_or_default(), scheme, via]
}

/// Returns the scheme and the node's address that a node has signed; `None` if no node has signed
/// the header.
pub(crate) fn origin_of<'a>(
    key: &NodesKey,
    value: &'a HeaderValue,
    method: &str,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<(Scheme, &'a str)> {
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    let (via, signature) = rest.split_once(' ')?;
    if !key.verify(&signed(method, uri, headers, (scheme, via)), signature) {
        return None;
    }
    match scheme {
        "http" => Some((Scheme::Http, via)),
        "https" => Some((Scheme::Https, via)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the head of a client's request, and that of the request that is forwarded for it.
    fn heads(key: &NodesKey) -> (Parts, Parts) {
        let request = Request::get("/dbs").header("x-ms-date", "today").body(());
        let (client, ()) = request.expect("a request").into_parts();
        let leaseholder = Leaseholder {
            node: Node {
                name: "a".to_owned(),
                address: "http://127.0.0.1:1".to_owned(),
            },
            key: Some(key.clone()),
        };
        let via = (Scheme::Https, "http://127.0.0.1:2");
        let sent = request_to(&leaseholder, &client, Bytes::new(), via).expect("a request");
        (client, sent.into_parts().0)
    }

    #[test]
    fn a_request_of_a_node_is_known_by_its_signature() {
        let key = NodesKey::random().expect("a key");
        let other = NodesKey::random().expect("a key");
        let (client, sent) = heads(&key);
        assert!(is_from_node(Some(&key), &sent));
        assert!(!is_from_node(Some(&key), &client));
        assert!(!is_from_node(Some(&other), &sent));
        let value = sent.headers.get(FORWARDED).expect("the header");
        let origin = origin_of(&key, value, "GET", &sent.uri, &sent.headers);
        assert_eq!(origin, Some((Scheme::Https, "http://127.0.0.1:2")));
        for (method, uri) in [("POST", "/dbs"), ("GET", "/dbs/other")] {
            let uri: Uri = uri.parse().expect("a path");
            assert_eq!(origin_of(&key, value, method, &uri, &sent.headers), None);
        }
    }

    /// Such a node would forward the request, and the write could take place after the node before
    /// has answered that its outcome is unknown.
    #[test]
    fn a_node_that_knows_no_key_takes_no_request_with_the_header() {
        let (client, sent) = heads(&NodesKey::random().expect("a key"));
        assert!(is_from_node(None, &sent));
        assert!(!is_from_node(None, &client));
    }
}
