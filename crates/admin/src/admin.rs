//! The path of a request to the management API.

use crate::call::Answer;
use crate::key::AdminKeys;
use crate::problem::Problem;
use crate::routes::{self, Found, Route};
use bytes::Bytes;
use http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use orrery_engine::Engine;
use orrery_gateway::{
    Connection, Field, Gateway, Log, LogLevel, Pool, Service, Unanswered, body, catch_panics,
};
use orrery_model::json::parse;
use orrery_model::world::{ShiftedWorld, World};
use orrery_model::{Json, Object};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

/// Everything that the management API needs from the beginning.
pub struct Options {
    /// What requests must bear.
    pub keys: AdminKeys,
    /// Time, for the log.
    pub world: Arc<dyn World>,
    /// Where log lines go.
    pub log: Arc<Log>,
}

/// What a server that serves is made of.
pub struct Parts {
    /// What holds the data.
    pub engine: Arc<Engine>,
    /// What clients speak to.
    pub gateway: Arc<Gateway>,
    /// The time of the data.
    pub clock: Arc<ShiftedWorld>,
    /// Where the data are; `None` for memory.
    pub data_dir: Option<PathBuf>,
    /// When the process began.
    pub started: Instant,
}

/// How far the server's life has come.
#[derive(Clone)]
pub(crate) enum Stage {
    /// The data are being opened.
    Recovering,
    /// Requests succeed.
    Serving(Arc<Parts>),
    /// No new connections are taken.
    Draining(Arc<Parts>),
}

/// Answers the requests of the management API.
pub struct Admin {
    keys: AdminKeys,
    world: Arc<dyn World>,
    log: Arc<Log>,
    pool: Pool,
    stage: RwLock<Stage>,
}

impl Admin {
    /// The management API of a server whose data are still to be opened.
    pub fn new(options: Options) -> Self {
        let Options { keys, world, log } = options;
        Admin {
            keys,
            world,
            log,
            pool: Pool::new(),
            stage: RwLock::new(Stage::Recovering),
        }
    }

    /// The server serves now.
    pub fn serves(&self, parts: Parts) {
        *self.stage.write().unwrap_or_else(PoisonError::into_inner) =
            Stage::Serving(Arc::new(parts));
    }

    /// The server takes no new connections any more.
    pub fn drains(&self) {
        let mut stage = self.stage.write().unwrap_or_else(PoisonError::into_inner);
        if let Stage::Serving(parts) = &*stage {
            *stage = Stage::Draining(parts.clone());
        }
    }

    fn stage(&self) -> Stage {
        self.stage
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> Result<Answer, Problem> {
        let (head, body) = request.into_parts();
        let accepted = self.accept(&head, connection);
        let (route, ids) = match accepted {
            Ok(accepted) => accepted,
            Err(problem) => {
                body::discard(body).await;
                return Err(problem);
            }
        };
        let body = body::read(body).await?;
        let asked = asked(route, head.uri.query(), &body)?;
        let stage = self.stage();
        let run = route.run;
        self.pool
            .run(move || run.carry_out(stage, ids, asked))
            .await?
    }

    /// Everything that can be said before the body is there.
    fn accept(
        &self,
        head: &http::request::Parts,
        connection: &Connection,
    ) -> Result<(&'static Route, Vec<String>), Problem> {
        check_host(head, connection.local.ip())?;
        let found = routes::find(head.method.as_str(), head.uri.path());
        let is_open = matches!(&found, Ok(Found { route, .. }) if route.open);
        let authorization = head
            .headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        if !is_open && !self.keys.open(authorization) {
            let told = match authorization {
                None => "the header 'authorization: Bearer <admin key>' is missing",
                Some(_) => "the header 'authorization' bears no admin key of this server",
            };
            return Err(Problem::new(401, "Unauthorized", told)
                .with_header(WWW_AUTHENTICATE.as_str(), "Bearer"));
        }
        let Found { route, ids } = found?;
        Ok((route, ids))
    }

    fn note(
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
        request: Request<Incoming>,
        connection: &Connection,
    ) -> Result<Response<Full<Bytes>>, Unanswered> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let outcome = catch_panics(self.answer(request, connection))
            .await
            .unwrap_or_else(|error| Err(error.into()));
        self.note(method.as_str(), &path, &outcome, connection);
        Ok(render(outcome, method == http::Method::HEAD))
    }

    fn log(&self) -> &Log {
        &self.log
    }

    fn now_ms(&self) -> u64 {
        self.world.now_ms()
    }
}

/// On the loopback a request must name the loopback as its host: a web page that lets its own name lead here (DNS
/// rebinding) names itself.
fn check_host(head: &http::request::Parts, local: IpAddr) -> Result<(), Problem> {
    if !local.to_canonical().is_loopback() {
        return Ok(());
    }
    let named = head.uri.authority().map(|authority| authority.as_str());
    let named = named
        .or_else(|| head.headers.get(HOST).and_then(|value| value.to_str().ok()))
        .unwrap_or_default();
    let host = named
        .parse::<http::uri::Authority>()
        .map(|authority| authority.host().to_owned())
        .unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    if host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    {
        return Ok(());
    }
    let told = format!(
        "the header 'host' names '{named}', and this address answers to localhost and 127.0.0.1 only"
    );
    Err(Problem::new(403, "WrongHost", told))
}

/// Query parameters and members of the body, checked against what the route takes.
fn asked(route: &Route, query: Option<&str>, body: &[u8]) -> Result<Object, Problem> {
    let mut asked = Object::new();
    for pair in query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (routes::decoded(name)?, routes::decoded(value)?);
        // Numbers and flags stand bare in a query, texts need no quotes.
        let read = parse(value.as_bytes())
            .ok()
            .filter(|json| json.as_i64().is_some() || json.as_bool().is_some());
        asked.set(name, read.unwrap_or(Json::String(value)));
    }
    route.query.check(&asked, "the query")?;
    let Some(shape) = route.body else {
        return if body.is_empty() {
            Ok(asked)
        } else {
            Err(Problem::bad("this request takes no body"))
        };
    };
    // A body whose members may all be left out may be left out itself.
    let text = if body.is_empty() { b"{}" } else { body };
    let json =
        parse(text).map_err(|error| Problem::bad(format!("the body is no JSON: {error}")))?;
    let Json::Object(members) = json else {
        return Err(Problem::bad("the body is no JSON object"));
    };
    shape.check(&members, "the body")?;
    members
        .into_iter()
        .for_each(|(name, value)| asked.set(name, value));
    Ok(asked)
}

fn render(outcome: Result<Answer, Problem>, head: bool) -> Response<Full<Bytes>> {
    let (answer, header) = match outcome {
        Ok(answer) => (answer, None),
        Err(problem) => {
            let body = problem.text();
            (
                Answer {
                    status: problem.status,
                    content: "application/json",
                    body,
                },
                problem.header,
            )
        }
    };
    let length = answer.body.len();
    let body = if head {
        Bytes::new()
    } else {
        Bytes::from(answer.body)
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if !answer.content.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        HeaderName::from_static("x-content-type-options"),
        HeaderValue::from_static("nosniff"),
    );
    if let Some((name, value)) = header
        && let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
    {
        headers.insert(name, value);
    }
    response
}

/// The header of a 405.
pub(crate) fn allowing(methods: &[&str]) -> (&'static str, String) {
    (ALLOW.as_str(), methods.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(host: Option<&str>, local: &str) -> bool {
        let mut request = Request::builder().uri("/status");
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let head = request.body(()).expect("a request").into_parts().0;
        check_host(&head, local.parse().expect("an address")).is_err()
    }

    #[test]
    fn on_the_loopback_only_names_of_the_loopback_are_answered() {
        for host in [
            "localhost",
            "LOCALHOST:8082",
            "127.0.0.1",
            "127.0.0.1:1",
            "[::1]:8082",
        ] {
            assert!(!refused(Some(host), "127.0.0.1"), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8082",
            "localhost.evil.example",
            "10.0.0.1",
            "[::2]",
            "",
            "::",
        ] {
            assert!(refused(Some(host), "127.0.0.1"), "{host}");
            assert!(refused(Some(host), "::1"), "{host}");
            assert!(!refused(Some(host), "10.0.0.1"), "{host}");
        }
        assert!(refused(None, "127.0.0.1"));
        assert!(refused(Some("evil.example"), "::ffff:127.0.0.1"));
    }
}
