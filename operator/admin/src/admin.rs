//! The path of a request to the management API, from the HTTP request to the HTTP response.
//!
//! ```text
//! handle      guards against panics, logs the request, renders the response
//! answer      runs the steps below
//!   accept    host, route and admin key: everything that can be checked without the body
//!   arguments query parameters and body, checked against the schemas of the route
//!   handler   on the pool for blocking work, because handlers call the engine
//! ```

use crate::call::Answer;
use crate::key::AdminKeys;
use crate::problem::Problem;
use crate::route::Route;
use crate::routes::{self, RouteMatch};
use crate::schema::Schema;
use crate::stage::{self, Components, Fleet, ForwardedAnswer, ForwardedRequest, Stage};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use orrery_engine::Cancel;
use orrery_gateway::{
    BodyMemory, Connection, Field, Hosts, Log, LogLevel, Pool, RequestBody, Service, Unanswered,
    body, catch_panics,
};
use orrery_model::json::parse;
use orrery_model::memory::MemoryBudget;
use orrery_model::world::World;
use orrery_model::{Json, Object, sync};
use orrery_prediction::TIME_MS;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// The bytes that the bodies of requests may take together.
const MEMORY_BYTES: u64 = 16 * 1024 * 1024;

/// Options of the management API that are known before the data is open.
pub struct Options {
    /// Admin keys that requests may carry.
    pub keys: AdminKeys,
    /// Source of the time for log lines.
    pub world: Arc<dyn World>,
    /// Log of the server.
    pub log: Arc<Log>,
    /// Host names that are answered for on a loopback address.
    pub hosts: Hosts,
}

/// The mark of a request that needs no admin key.
#[derive(Clone, Copy)]
struct Trusted;

/// Cancels the work of a request when it is dropped, so that a measurement ends with its client.
struct CancelOnDrop(Arc<Cancel>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The management API of a server.
pub struct Admin {
    keys: AdminKeys,
    world: Arc<dyn World>,
    log: Arc<Log>,
    hosts: Hosts,
    pool: Pool,
    /// The pool for measurements, which may keep cores busy: probes never wait for them.
    measurements: Pool,
    /// The memory for the bodies of requests: a part of its own, so that an operator is answered
    /// while clients have used up theirs.
    memory: BodyMemory,
    stage: RwLock<Stage>,
}

impl Admin {
    /// Creates the management API of a server whose data is not yet open.
    pub fn new(options: Options) -> Self {
        let Options {
            keys,
            world,
            log,
            hosts,
        } = options;
        Admin {
            keys,
            world,
            log,
            hosts,
            pool: Pool::new(),
            measurements: Pool::for_measurements(),
            memory: BodyMemory::new(MemoryBudget::with_part_for_small(MEMORY_BYTES)),
            stage: RwLock::new(Stage::Recovering),
        }
    }

    /// Announces that another node has the data open; the routes that need no data answer.
    pub fn begin_forwarding(&self, fleet: Arc<dyn Fleet>) {
        *sync::write(&self.stage) = Stage::Forwarding(fleet, None);
    }

    /// Announces that a node that forwards requests may own partitions, with these components.
    pub fn begin_owning(&self, components: Components) {
        let mut stage = sync::write(&self.stage);
        if let Stage::Forwarding(_, owned) = &mut *stage {
            *owned = Some(Arc::new(components));
        }
    }

    /// Announces that the data is open; from now on all routes answer.
    pub fn begin_serving(&self, components: Components) {
        *sync::write(&self.stage) = Stage::Serving(Arc::new(components));
    }

    /// Announces that the server is stopping; `/ready` answers 503 from now on.
    pub fn begin_draining(&self) {
        let mut stage = sync::write(&self.stage);
        if let Stage::Serving(components) | Stage::Forwarding(_, Some(components)) = &*stage {
            components.jobs.cancel();
        }
        if let Stage::Serving(components) = &*stage {
            *stage = Stage::Draining(components.clone());
        }
    }

    /// Returns true if `key` is an admin key of the server.
    pub fn accepts_key(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Returns true if a request with this method and path changes nothing; false for paths that do
    /// not exist.
    pub fn only_reads(&self, method: &str, path: &str) -> bool {
        routes::find(method, path).is_ok_and(|found| found.route.only_reads)
    }

    /// Answers a request of this server's own console, which needs no admin key: the console has
    /// already identified the person.
    pub async fn handle_trusted(
        &self,
        mut request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        // No byte from the network becomes an extension, so clients cannot claim this access.
        request.extensions_mut().insert(Trusted);
        self.handle(request, connection).await
    }

    /// Returns the lifecycle stage of the server.
    fn stage(&self) -> Stage {
        sync::read(&self.stage).clone()
    }

    /// Checks a request and carries it out.
    async fn answer(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Answer, Problem> {
        let (head, body) = request.into_parts();
        let found = match self.accept(&head, connection) {
            Ok(found) => found,
            Err(problem) => {
                // A client that is still sending would see a broken connection instead of the
                // response if the body were not read.
                body::discard(body).await;
                return Err(problem);
            }
        };
        let body = body::read(body, &self.memory).await?;
        match self.stage() {
            Stage::Forwarding(fleet, _) if found.route.handler.is_of_leaseholder() => {
                // What is wrong in itself is refused here.
                arguments(found.route, head.uri.query(), &body)?;
                forward(fleet.as_ref(), &head, &body).await
            }
            stage => self.carry_out(found, head.uri.query(), &body, stage).await,
        }
    }

    /// Carries out a request that another node has accepted and forwarded. Returns status and body.
    pub async fn handle_forwarded(&self, request: ForwardedRequest) -> ForwardedAnswer {
        let (path, query) = match request.path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (request.path.as_str(), None),
        };
        let outcome = match routes::find(&request.method, path) {
            Ok(found) => {
                let body = request.body.as_bytes();
                self.carry_out(found, query, body, self.stage()).await
            }
            Err(problem) => Err(problem),
        };
        let response = render(outcome, false);
        ForwardedAnswer {
            status: response.status().as_u16(),
            body: String::from_utf8_lossy(response.body()).into_owned(),
        }
    }

    /// Checks the arguments of an accepted request, and runs its handler.
    async fn carry_out(
        &self,
        found: RouteMatch,
        query: Option<&str>,
        body: &[u8],
        stage: Stage,
    ) -> Result<Answer, Problem> {
        let RouteMatch {
            route,
            path_parameters,
        } = found;
        let arguments = arguments(route, query, body)?;
        let handler = route.handler;
        let cancel = CancelOnDrop(Arc::default());
        let of_handler = cancel.0.clone();
        let work = move || handler.run(stage, path_parameters, arguments, of_handler);
        if !route.is_measurement {
            return self.pool.run(work).await?;
        }

        // A measurement ends soon after its time, also within a query.
        let mut measuring = pin!(self.measurements.run(work));
        let time = Duration::from_millis(TIME_MS);
        match tokio::time::timeout(time, measuring.as_mut()).await {
            Ok(answer) => answer?,
            Err(_) => {
                cancel.0.cancel();
                measuring.await?
            }
        }
    }

    /// Checks everything that can be checked before the body is read.
    ///
    /// # Errors
    /// 403 for a foreign host name, 401 without a valid admin key, otherwise the errors of
    /// [`routes::find`].
    fn accept(
        &self,
        head: &http::request::Parts,
        connection: &Connection,
    ) -> Result<RouteMatch, Problem> {
        // The console has checked the host and the person.
        let is_trusted = head.extensions.get::<Trusted>().is_some();
        if !is_trusted {
            check_host(head, &self.hosts, connection.local.ip())?;
        }

        // Unknown paths need a key too, so that the table of routes cannot be explored without one.
        let found = routes::find(head.method.as_str(), head.uri.path());
        let is_public = found.as_ref().is_ok_and(|found| found.route.is_public);
        let authorization = head
            .headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        if is_public || is_trusted || self.keys.accepts(authorization) {
            return found;
        }

        let message = match authorization {
            None => "the header 'authorization: Bearer <admin key>' is missing",
            Some(_) => "the header 'authorization' contains no admin key of this server",
        };
        let problem = Problem::new(401, "Unauthorized", message);
        Err(problem.with_header(WWW_AUTHENTICATE.as_str(), "Bearer"))
    }

    /// Writes a log line about a request: a warning if it failed with a cause, otherwise a debug
    /// line.
    fn log_request(
        &self,
        method: &str,
        path: &str,
        outcome: &Result<Answer, Problem>,
        connection: &Connection,
    ) {
        let (status, cause) = match outcome {
            Ok(answer) => (answer.status, ""),
            Err(problem) => (problem.status, problem.cause.as_str()),
        };
        let level = if status >= 500 && !cause.is_empty() {
            LogLevel::Warn
        } else {
            LogLevel::Debug
        };
        if !self.log.is_enabled(level) {
            return;
        }
        let peer = connection.peer.to_string();
        let mut fields = vec![
            ("method", Field::Text(method)),
            ("path", Field::Text(path)),
            ("status", Field::Number(f64::from(status))),
            ("peer", Field::Text(&peer)),
        ];
        if !cause.is_empty() {
            fields.push(("cause", Field::Text(cause)));
        }
        self.log
            .write(self.world.now_ms(), level, "management request", &fields);
    }
}

impl Service for Admin {
    async fn handle(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let answer = pin!(self.answer(request, connection));
        let outcome = match catch_panics(answer).await {
            Ok(outcome) => outcome,
            // The request panicked.
            Err(error) => Err(error.into()),
        };
        self.log_request(method.as_str(), &path, &outcome, connection);
        Ok(render(outcome, method == http::Method::HEAD))
    }

    fn log(&self) -> &Log {
        &self.log
    }

    fn now_ms(&self) -> u64 {
        self.world.now_ms()
    }

    fn memory(&self) -> &BodyMemory {
        &self.memory
    }
}

/// Forwards an accepted request to the leaseholder.
///
/// # Errors
/// 503 if there is no leaseholder, or it does not answer; 400 for a body that is not UTF-8.
async fn forward(
    fleet: &dyn Fleet,
    head: &http::request::Parts,
    body: &[u8],
) -> Result<Answer, Problem> {
    let path = head.uri.path_and_query();
    let body = std::str::from_utf8(body);
    let body = body.map_err(|_| Problem::bad_request("the body is not valid UTF-8"))?;
    let request = ForwardedRequest {
        method: head.method.as_str().to_owned(),
        path: path.map_or("/", |path| path.as_str()).to_owned(),
        body: body.to_owned(),
    };
    let answer = fleet.forward(request).await;
    let answer = answer.ok_or_else(|| stage::forwarding(fleet))?;
    Ok(Answer {
        status: answer.status,
        content_type: match answer.body.is_empty() {
            true => "",
            false => "application/json",
        },
        body: answer.body,
    })
}

/// Checks the host of a request on a loopback address, against DNS rebinding. Other addresses are
/// behind names that the server does not know, and the admin key protects them.
fn check_host(head: &http::request::Parts, hosts: &Hosts, local: IpAddr) -> Result<(), Problem> {
    if !local.to_canonical().is_loopback() {
        return Ok(());
    }
    let refused = |message: String| Problem::new(403, "WrongHost", message);
    match hosts.check(head) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(refused("the request has no header 'host'".to_owned())),
        Err(wrong) => Err(refused(wrong.to_string())),
    }
}

/// Returns the query parameters and the members of the body in one object, checked against the
/// schemas of the route.
///
/// # Errors
/// 400 that names the parameter or member at fault, or for a body that is not a JSON object.
fn arguments(route: &Route, query: Option<&str>, body: &[u8]) -> Result<Object, Problem> {
    let mut arguments = query_parameters(query.unwrap_or_default(), route.query)?;
    route.query.check(&arguments, "the query")?;
    let Some(schema) = route.body else {
        if body.is_empty() {
            return Ok(arguments);
        }
        return Err(Problem::bad_request("this request takes no body"));
    };

    // An absent body is an empty object, which suffices if all members are optional.
    let text = if body.is_empty() { b"{}" } else { body };
    let json = parse(text)
        .map_err(|error| Problem::bad_request(format!("the body is not valid JSON: {error}")))?;
    let Json::Object(members) = json else {
        return Err(Problem::bad_request("the body is not a JSON object"));
    };
    schema.check(&members, "the body")?;
    for (name, value) in members {
        arguments.set(name, value);
    }
    Ok(arguments)
}

/// Parses a query string. Integers and booleans become JSON numbers and booleans, every other value
/// becomes a JSON string, and so does every value of a parameter that is a string by its schema.
fn query_parameters(query: &str, schema: &Schema) -> Result<Object, Problem> {
    let mut parameters = Object::new();
    for pair in query.split('&') {
        if pair.is_empty() {
            continue;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = routes::percent_decode(name)?;
        let value = routes::percent_decode(value)?;
        let scalar = match schema.has_text(&name) {
            true => None,
            false => parse(value.as_bytes()).ok(),
        };
        let scalar = scalar.filter(|json| json.as_i64().is_some() || json.as_bool().is_some());
        parameters.set(name, scalar.unwrap_or(Json::String(value)));
    }
    Ok(parameters)
}

/// Renders the HTTP response. The response to a HEAD request has the headers of the response to GET
/// and no body.
fn render(outcome: Result<Answer, Problem>, is_head: bool) -> Response<Bytes> {
    let (answer, extra_header) = match outcome {
        Ok(answer) => (answer, None),
        Err(problem) => {
            let answer = Answer {
                status: problem.status,
                content_type: "application/json",
                body: problem.to_body(),
            };
            (answer, problem.header)
        }
    };

    let length = answer.body.len();
    let body = if is_head {
        Bytes::new()
    } else {
        Bytes::from(answer.body)
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);

    // A 204 response must not have a content length.
    let headers = response.headers_mut();
    if !answer.content_type.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        HeaderName::from_static("x-content-type-options"),
        HeaderValue::from_static("nosniff"),
    );
    if let Some((name, value)) = extra_header
        && let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
    {
        headers.insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(host: Option<&str>, local: &str) -> bool {
        let mut request = Request::builder().uri("/status");
        if let Some(host) = host {
            request = request.header(http::header::HOST, host);
        }
        let head = request.body(()).expect("a request").into_parts().0;
        let local = local.parse().expect("an address");
        check_host(&head, &Hosts::default(), local).is_err()
    }

    #[test]
    fn a_loopback_address_is_not_reached_by_the_name_of_a_page() {
        for host in [
            "localhost",
            "LOCALHOST:8082",
            "127.0.0.1:1",
            "[::1]:8082",
            "db",
        ] {
            assert!(!is_refused(Some(host), "127.0.0.1"), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "", "::"] {
            assert!(is_refused(Some(host), "127.0.0.1"), "{host}");
            assert!(is_refused(Some(host), "::1"), "{host}");
            assert!(!is_refused(Some(host), "10.0.0.1"), "{host}");
        }
        assert!(is_refused(None, "127.0.0.1"));
        assert!(is_refused(Some("evil.example"), "::ffff:127.0.0.1"));
    }
}
