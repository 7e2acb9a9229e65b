//! The path of one request, from its head to its answer, catch_panics so that nothing it does can take the server down.

use crate::auth::{self, Authenticator, Caller, Keys, SignedRequest};
use crate::binary_json;
use crate::body;
use crate::call::Call;
use crate::faults::{FaultTime, Faults, Strike, StrikeEnd, Unanswered};
use crate::headers::RequestHeaders;
use crate::log::{Field, Log, LogLevel};
use crate::metrics::{self, Metrics, RequestKind};
use crate::operations::{self, Operation, Step};
use crate::options::{Account, Options};
use crate::placement::{Pool, catch_panics};
use crate::reply::Reply;
use crate::route::{Path, Route, Target};
use bytes::Bytes;
use http::header::{AUTHORIZATION, DATE, EXPECT, HOST};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Body;
use orrery_engine::Engine;
use orrery_model::world::World;
use orrery_model::{Error, Kind, Result};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a request's head. Directory identities and continuations are the largest headers, at 16 KB each.
pub(crate) const HEAD_BYTES: usize = 64 * 1024;
/// Headers of a request.
pub(crate) const HEADERS: usize = 128;
/// Bytes of a body above which even a cheap request goes to the pool.
const BIG_BODY_BYTES: usize = 64 * 1024;

/// Answers requests of the protocol from an engine.
pub struct Gateway {
    engine: Arc<Engine>,
    authority: Authenticator,
    account: Arc<Account>,
    world: Arc<dyn World>,
    log: Arc<Log>,
    pool: Pool,
    faults: Faults,
    metrics: Metrics,
}

/// The way a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// The scheme's name in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Whether TLS protects it.
    pub scheme: Scheme,
    /// The other end.
    pub peer: SocketAddr,
    /// Our end; stands in for the host where a request names none.
    pub local: SocketAddr,
}

/// What is known of a request before its body is read.
struct Accepted {
    caller: Caller,
    path: Path,
    route: &'static Route,
    operation: &'static Operation,
    headers: RequestHeaders,
}

impl Gateway {
    /// A gateway to `engine`.
    pub fn new(engine: Arc<Engine>, options: Options) -> Self {
        let Options {
            keys,
            directory,
            account,
            world,
            log,
        } = options;
        let authority = Authenticator::new(keys, directory);
        let faults = Faults::new(world.clone());
        let (account, pool, metrics) = (Arc::new(account), Pool::new(), Metrics::default());
        Gateway {
            engine,
            authority,
            account,
            world,
            log,
            pool,
            faults,
            metrics,
        }
    }

    /// Takes other keys from the next request on. What was signed with a key that is gone is refused, and so are resource
    /// tokens that were asked for with it.
    pub fn replace_keys(&self, keys: Keys) {
        self.authority.replace_keys(keys);
    }

    /// What is counted for the operator.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The rules by which requests fail on demand.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The name of the account.
    pub fn account_name(&self) -> &str {
        &self.account.name
    }

    /// The log that the gateway writes to.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The time now, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.world.now_ms()
    }

    /// Answers one request. Whatever happens, there is an answer, and it has all the headers that clients read.
    ///
    /// # Errors
    /// A fault rule wants the connection to be closed without an answer; the log and the metrics show the status 0 then.
    pub async fn handle<B>(
        &self,
        request: Request<B>,
        connection: &Connection,
    ) -> std::result::Result<Response<Full<Bytes>>, Unanswered>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let started = Instant::now();
        let (head, body) = request.into_parts();
        let activity = self.activity(&head.headers);
        let head_only = head.method == http::Method::HEAD;
        let mut kind = metrics::UNKNOWN;
        let answered = catch_panics(self.answer(&head, body, connection, &mut kind)).await;
        let answered = answered.unwrap_or_else(|error| Ok(Reply::failed(error)));
        let (mut reply, unanswered) = match answered {
            Ok(reply) => (reply, None),
            Err(unanswered) => (Reply::empty(0), Some(unanswered)),
        };
        let milliseconds = started.elapsed().as_micros() as f64 / 1000.0;
        let sub_status = reply.error.as_ref().map_or(0, Error::sub_status);
        self.metrics.record(
            kind,
            reply.status,
            sub_status,
            milliseconds / 1000.0,
            reply.charge,
        );
        reply.set(
            "x-ms-number-of-read-regions",
            &self.account.regions.len().saturating_sub(1).to_string(),
        );
        reply.set("x-ms-request-duration-ms", &format!("{milliseconds:.3}"));
        self.log_request(
            kind.operation,
            &reply,
            &head,
            &activity,
            milliseconds,
            connection,
        );
        unanswered.map_or_else(|| Ok(reply.render(&activity, head_only)), Err)
    }

    async fn answer<B>(
        &self,
        head: &http::request::Parts,
        body: B,
        connection: &Connection,
        kind: &mut RequestKind,
    ) -> std::result::Result<Reply, Unanswered>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let accepted = match self.accept(head) {
            Ok(accepted) => accepted,
            Err(reply) => {
                // A client that waits for our word before it sends the body needs no reading.
                if !head.headers.contains_key(EXPECT) {
                    body::discard(body).await;
                }
                return Ok(*reply);
            }
        };
        let Accepted {
            caller,
            path,
            route,
            operation,
            headers,
        } = accepted;
        *kind = RequestKind {
            operation: operation.name,
            resource: route.resource(),
        };
        let body = match body::read(body).await.and_then(in_text) {
            Ok(body) => body,
            Err(error) => return Ok(Reply::failed(error)),
        };
        let host = host(head, connection);
        let (account, scheme) = (self.account.clone(), connection.scheme.name());
        let fault_target = self
            .faults
            .fault_target(operation.name, &path, &self.engine);
        if let Some(end) =
            suffered(self.faults.strike(FaultTime::Before, fault_target.as_ref())).await
        {
            return end;
        }
        let call = Call {
            caller,
            path,
            target: route.target,
            headers,
            body,
            account,
            scheme,
            host,
        };
        let reply = self.carry_out(operation, call).await;
        suffered(self.faults.strike(FaultTime::After, fault_target.as_ref()))
            .await
            .unwrap_or(Ok(reply))
    }

    /// Everything that can be said before the body is there.
    fn accept(&self, head: &http::request::Parts) -> std::result::Result<Accepted, Box<Reply>> {
        let refused = |error| Box::new(Reply::failed(error));
        check_size(head).map_err(refused)?;
        let path = Path::parse(head.uri.path()).map_err(refused)?;
        let route = path.route().map_err(refused)?;
        let caller = self.authenticate(head, &path, route).map_err(refused)?;
        let method = head.method.as_str();
        if !route.methods.contains(&method) {
            let message = format!("The method {method} is not allowed on this path.");
            let reply = Reply::failed(Error::new(Kind::MethodNotAllowed, message));
            return Err(Box::new(reply.allowing(route.methods)));
        }
        let headers =
            RequestHeaders::parse(&head.headers, self.account.consistency).map_err(refused)?;
        let operation = operations::choose(route.target, method, &headers).map_err(refused)?;
        let asked = auth::Asked {
            target: route.target,
            method,
            writes: operation.writes,
            path: &path,
            headers: &headers,
        };
        auth::check(&asked, &caller, &self.engine).map_err(refused)?;
        Ok(Accepted {
            caller,
            path,
            route,
            operation,
            headers,
        })
    }

    fn authenticate(
        &self,
        head: &http::request::Parts,
        path: &Path,
        route: &Route,
    ) -> Result<Caller> {
        let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        let resolved = (route.target == Target::Addresses)
            .then(|| Path::resolved(head.uri.query()))
            .flatten();
        let (path, route) = match &resolved {
            Some(resolved) => (resolved, resolved.route()?),
            None => (path, route),
        };
        let signed = SignedRequest {
            verb: head.method.as_str(),
            resource_type: route.signed_as,
            links: path.signed_links(route),
            authorization: text(AUTHORIZATION.as_str()),
            ms_date: text("x-ms-date"),
            date: text(DATE.as_str()),
        };
        let now = i64::try_from(self.world.now_seconds()).unwrap_or(i64::MAX);
        self.authority.authenticate(&signed, &self.engine, now)
    }

    async fn carry_out(&self, operation: &'static Operation, call: Call) -> Reply {
        let has_script = call.headers.pre_trigger.is_some() || call.headers.post_trigger.is_some();
        let slow =
            operation.slow || call.body.len() > BIG_BODY_BYTES || (operation.writes && has_script);
        let call = Arc::new(call);
        let begun = if slow {
            let (engine, call) = (self.engine.clone(), call.clone());
            match self
                .pool
                .run(move || operations::begin(operation, &engine, &call))
                .await
            {
                Ok(begun) => begun,
                Err(error) => return Reply::failed(error),
            }
        } else {
            operations::begin(operation, &self.engine, &call)
        };
        let mut reply = match begun.step {
            Step::Reply(reply) => reply,
            Step::Write(pending) => operations::finish_write(&call, pending.await),
            Step::Batch(pending) => operations::finish_batch(&call, pending.await),
            Step::Procedure(pending) => operations::finish_procedure(&call, pending.await),
        };
        if let Some(owner) = &begun.owner {
            reply.owned_by(owner);
        }
        if call.headers.explain_charge {
            reply.explain_charge(&self.engine);
        }
        reply
    }

    /// The client's activity id, or a new one.
    fn activity(&self, headers: &HeaderMap) -> HeaderValue {
        let sent = headers.get("x-ms-activity-id").filter(|value| {
            (1..=128).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
        });
        sent.cloned().unwrap_or_else(|| {
            let guid = guid(self.world.random(), self.world.random());
            HeaderValue::from_str(&guid).unwrap_or(HeaderValue::from_static("none"))
        })
    }

    /// One line: at debug for most, as a warning with its causes where the fault is ours.
    fn log_request(
        &self,
        operation: &str,
        reply: &Reply,
        head: &http::request::Parts,
        activity: &HeaderValue,
        milliseconds: f64,
        connection: &Connection,
    ) {
        let level = if reply.status >= 500 {
            LogLevel::Warn
        } else {
            LogLevel::Debug
        };
        if !self.log.is_enabled(level) {
            return;
        }
        let cause = reply
            .error
            .as_ref()
            .map(Error::cause_chain)
            .unwrap_or_default();
        let peer = connection.peer.to_string();
        let mut fields = vec![
            ("op", Field::Text(operation)),
            ("method", Field::Text(head.method.as_str())),
            ("path", Field::Text(head.uri.path())),
            ("status", Field::Number(f64::from(reply.status))),
            (
                "substatus",
                Field::Number(f64::from(reply.error.as_ref().map_or(0, Error::sub_status))),
            ),
            ("ru", Field::Number(reply.charge.as_ru())),
            ("ms", Field::Number(milliseconds)),
            (
                "activityId",
                Field::Text(activity.to_str().unwrap_or_default()),
            ),
            ("peer", Field::Text(&peer)),
        ];
        if let Some(position) = reply.position {
            fields.push(("pkrange", Field::Number(f64::from(position.range_id))));
        }
        if !cause.is_empty() {
            fields.push(("cause", Field::Text(&cause)));
        }
        self.log.write(self.now_ms(), level, "request", &fields);
    }
}

/// The delay of a fault, and what takes the place of the operation's own answer.
async fn suffered(strike: Option<Strike>) -> Option<std::result::Result<Reply, Unanswered>> {
    let Strike { delay, end } = strike?;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    match end {
        StrikeEnd::Own => None,
        StrikeEnd::Instead(error) => Some(Ok(Reply::failed(error))),
        StrikeEnd::Nothing => Some(Err(Unanswered)),
    }
}

/// Checks the bounds of a request's head.
fn check_size(head: &http::request::Parts) -> Result<()> {
    let each = head
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4);
    let bytes = each.sum::<usize>() + head.uri.path().len() + head.uri.query().map_or(0, str::len);
    if bytes <= HEAD_BYTES && head.headers.len() <= HEADERS {
        return Ok(());
    }
    Err(Error::bad(format!(
        "The request has {} headers of {bytes} bytes together; at most {HEADERS} of {HEAD_BYTES} bytes are taken.",
        head.headers.len()
    )))
}

/// The host by which the client came: of the target (HTTP/2, or a whole URL), of the header, or our own address.
/// A body in binary JSON as the text that it stands for; any other as it is.
fn in_text(body: Bytes) -> Result<Bytes> {
    match body.first() {
        Some(&binary_json::FIRST_BYTE) => binary_json::to_text(&body).map(Bytes::from),
        _ => Ok(body),
    }
}

fn host(head: &http::request::Parts, connection: &Connection) -> Option<String> {
    let target = head.uri.authority().map(|authority| authority.as_str());
    let header = || head.headers.get(HOST).and_then(|value| value.to_str().ok());
    target
        .or_else(header)
        .map(str::to_owned)
        .or_else(|| Some(connection.local.to_string()))
}

/// A random GUID (version 4).
fn guid(high: u64, low: u64) -> String {
    let high = (high & !0xF000) | 0x4000;
    let low = (low & !(3 << 62)) | (1 << 63);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        let local = SocketAddr::from(([127, 0, 0, 1], 8081));
        Connection {
            scheme: Scheme::Http,
            peer: local,
            local,
        }
    }

    fn host_of(uri: &str, header: Option<&str>) -> Option<String> {
        let mut request = Request::builder().uri(uri);
        if let Some(header) = header {
            request = request.header(HOST, header);
        }
        host(
            &request.body(()).expect("a request").into_parts().0,
            &connection(),
        )
    }

    #[test]
    fn the_host_is_the_one_that_the_client_used() {
        assert_eq!(host_of("/", Some("db:1")).as_deref(), Some("db:1"));
        assert_eq!(
            host_of("http://db:2/", Some("db:1")).as_deref(),
            Some("db:2")
        );
        assert_eq!(host_of("/", None).as_deref(), Some("127.0.0.1:8081"));
    }

    #[test]
    fn a_new_activity_id_is_a_random_guid() {
        assert_eq!(guid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(
            guid(u64::MAX, u64::MAX),
            "ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
    }
}
