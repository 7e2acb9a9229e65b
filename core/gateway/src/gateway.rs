//! The gateway: one request from its head to its reply.
//!
//! ```text
//! handle      measures and logs; a panic in what follows becomes a 500
//! answer      the steps of one request, in order
//! check_head  path, credentials, method, headers, operation, rights: all that needs no body
//! read_body   the body within its bounds, as JSON text
//! start       the operation, on this thread or in a pool (`operations.rs`)
//! finish      the wait for durability, and the reply
//! ```

mod observe;
mod remote_store;

use crate::account::{self, Account, AccountRegions};
use crate::auth::{self, AccessRequest, Authenticator, Caller, Keys, SignedRequest};
use crate::binary_json;
use crate::body;
use crate::call::Call;
use crate::connection::{Connection, HEAD_BYTES, HEADERS, NoMemoryForHead, TrustedAccess};
use crate::cors::Cors;
use crate::direct::{self, DirectRequest, Transport};
use crate::faults::{FaultTime, Faults, InjectedFault, InjectedReply, Unanswered};
use crate::headers::RequestHeaders;
use crate::held::BodyMemory;
use crate::hosts::{self, Hosts, host, named_host};
use crate::live::{LiveSelection, LiveView, Sampler};
use crate::log::Log;
use crate::metrics::{ConnectionCounters, Metrics, RequestKind};
use crate::notices::Notices;
use crate::operations::{self, Lane, Operation};
use crate::options::Options;
use crate::ownership::{NotOwned, TakeBack};
use crate::pools::{Pool, QUERIES, catch_panics};
use crate::repeated_failures::RepeatedFailures;
use crate::reply::{Reply, guid};
use crate::request_log::{Finished, RequestLog};
use crate::route::{Path, Route, Target};
use crate::running::{RunningQueries, RunningQuery, Sender};
use crate::script_lane::{OnDrop, ScriptLane};
use crate::slow::SlowRequests;
use crate::spans::{SpanAccount, SpanRecorder};
use bytes::Bytes;
use http::header::{AUTHORIZATION, DATE, EXPECT};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use hyper::body::Body;
use orrery_engine::{Cancel, Engine};
use orrery_model::memory::Reservation;
use orrery_model::world::World;
use orrery_model::{Error, Result, limits};
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Answers requests of the protocol from an engine.
pub struct Gateway {
    engine: Arc<Engine>,
    authenticator: Authenticator,
    account: Arc<Account>,
    world: Arc<dyn World>,
    log: Arc<Log>,
    pool: Pool,
    query_pool: Pool,
    script_lane: ScriptLane,
    faults: Faults,
    metrics: Arc<Metrics>,
    request_log: RequestLog,
    running: RunningQueries,
    notices: Notices,
    slow_requests: Option<SlowRequests>,
    spans: Option<(SpanRecorder, SpanAccount)>,
    /// The store is on other machines, for which calls of the engine wait; the time for which a
    /// request waits while they are away.
    remote_store: Option<Duration>,
    /// True once requests wait no longer for such a store.
    is_impatient: AtomicBool,
    /// The failures of the store that the log has.
    store_failures: RepeatedFailures,
    pub(crate) take_back: OnceLock<TakeBack>,
    sampler: Sampler,
    body_memory: BodyMemory,
    hosts: Hosts,
    cors: Cors,
}

/// The parts of a request that became known before its end, for the metrics and the logs.
struct Trace {
    kind: RequestKind,
    call: Option<Arc<Call>>,
}

impl Trace {
    /// Returns the trace of a request of which nothing is known yet.
    fn of_unknown() -> Trace {
        Trace {
            kind: RequestKind::Unknown,
            call: None,
        }
    }
}

/// A request that was carried out or refused.
pub(crate) struct Handled {
    pub(crate) end: End,
    /// The call, if the request got so far: its credentials were accepted then.
    pub(crate) call: Option<Arc<Call>>,
}

/// The end of a request.
pub(crate) enum End {
    /// The reply goes to the client.
    Answered(Box<Reply>),
    /// Another process owns a partition that the request needs; no client sees the reply.
    NotOwned(NotOwned, Box<Reply>),
    /// A fault rule leaves the request without a reply.
    Unanswered,
}

impl Handled {
    fn new(end: End, call: Option<Arc<Call>>) -> Self {
        Handled { end, call }
    }
}

/// Cancels the query of a call when it is dropped before its work has ended. The call may be
/// carried out again afterwards.
struct CancelOnDrop(Option<Arc<Call>>);

impl CancelOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(call) = &self.0 {
            call.cancel.cancel();
        }
    }
}

/// A request whose head has been checked and whose body has not been read.
struct CheckedHead {
    caller: Caller,
    path: Path,
    target: Target,
    operation: &'static Operation,
    headers: Box<RequestHeaders>,
}

impl Gateway {
    /// Creates a gateway to `engine`.
    pub fn new(engine: Arc<Engine>, options: Options) -> Self {
        Gateway::behind(Arc::default(), engine, options)
    }

    /// Creates a gateway behind a port that is open already and counts its connections in
    /// `connections`.
    pub fn behind(
        connections: Arc<ConnectionCounters>,
        engine: Arc<Engine>,
        options: Options,
    ) -> Self {
        let metrics = Arc::new(Metrics::of_port(connections));
        let (sampled, world) = (metrics.clone(), options.world.clone());
        Gateway {
            sampler: Sampler::start(engine.clone(), sampled, world),
            request_log: RequestLog::default(),
            running: RunningQueries::default(),
            notices: Notices::default(),
            slow_requests: None,
            spans: None,
            remote_store: None,
            is_impatient: AtomicBool::new(false),
            store_failures: RepeatedFailures::default(),
            take_back: OnceLock::new(),
            script_lane: ScriptLane::new(&engine),
            engine,
            authenticator: Authenticator::new(options.keys, options.directory),
            account: Arc::new(options.account),
            faults: Faults::new(options.world.clone()),
            world: options.world,
            log: options.log,
            pool: Pool::new(),
            query_pool: Pool::for_queries(QUERIES),
            metrics,
            body_memory: BodyMemory::new(options.memory),
            hosts: options.hosts,
            cors: options.cors,
        }
    }

    /// Writes a line to the log for each slow request.
    pub fn reporting_slow(mut self, slow_requests: Option<SlowRequests>) -> Self {
        self.slow_requests = slow_requests;
        self
    }

    /// Records a span for each sampled request.
    pub fn recording_spans(mut self, recorder: Option<SpanRecorder>) -> Self {
        let region = self.account.regions.first().map_or("", String::as_str);
        let account = SpanAccount {
            consistency: self.account.consistency,
            region: region.into(),
        };
        self.spans = recorder.map(|recorder| (recorder, account));
        self
    }

    /// Runs every operation on a thread of its own, because the store of the engine is on other
    /// machines: each read waits for an answer of theirs. A request that the store does not take
    /// is repeated for the time of `patience` before it is answered with 503.
    pub fn with_remote_store(mut self, patience: Duration) -> Self {
        self.remote_store = Some(patience);
        self.pool = Pool::for_remote_store();
        self
    }

    /// Runs so many queries at once.
    pub fn with_query_threads(mut self, threads: usize) -> Self {
        self.query_pool = Pool::for_queries(threads);
        self
    }

    /// Replaces the keys of the account, from the next request on. Signatures made with a removed
    /// key are refused, and so are resource tokens that were issued with a removed key.
    pub fn replace_keys(&self, keys: Keys) {
        self.authenticator.replace_keys(keys);
    }

    /// Returns the engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the counters for the operator.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the samples of a selection, for charts of the running server.
    pub fn live_view(&self, selection: LiveSelection) -> LiveView {
        self.sampler.view(selection)
    }

    /// Returns the log of slow, expensive and failed requests.
    pub fn request_log(&self) -> &RequestLog {
        &self.request_log
    }

    /// Returns the queries that run, the longest first.
    pub fn running_queries(&self) -> Vec<RunningQuery> {
        self.running.list(&self.engine)
    }

    /// Cancels a query that runs: its work ends at the next check point, and its client gets
    /// 403/5901. Returns the query; `None` if no such query runs.
    pub fn cancel_query(&self, number: u64) -> Option<RunningQuery> {
        self.running.cancel(number, &self.engine)
    }

    /// Returns the memory for bodies.
    pub fn body_memory(&self) -> &BodyMemory {
        &self.body_memory
    }

    /// Returns the fault rules.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns the name of the account.
    pub fn account_name(&self) -> &str {
        &self.account.name
    }

    /// Returns the log that the gateway writes to.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the current time, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.world.now_ms()
    }

    /// Answers one request. A request always gets a reply, even if its code panics, and the reply
    /// has all the headers that clients read.
    ///
    /// # Errors
    /// A fault rule demands that the connection is closed without a reply; the log and the metrics
    /// show the status 0 then.
    pub async fn handle<B>(
        &self,
        request: Request<B>,
        connection: &Connection,
    ) -> std::result::Result<Response<Bytes>, Unanswered>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (head, body) = request.into_parts();
        let activity = self.activity_id(&head.headers);
        let is_head_request = head.method == http::Method::HEAD;
        let handled = self
            .handle_head(&head, Ok(body), connection, &activity)
            .await;
        match handled.end {
            End::Answered(reply) => {
                let mut response = reply.render(&activity, is_head_request);
                self.cors.expose(&head, &mut response);
                Ok(response)
            }
            End::NotOwned(not_owned, reply) => {
                Ok(not_owned.mark(reply.render(&activity, is_head_request)))
            }
            End::Unanswered => Err(Unanswered),
        }
    }

    /// Carries out a request of any transport, and measures, counts and logs it. An error in the
    /// place of the body is the answer to the request.
    pub(crate) async fn handle_head<B>(
        &self,
        head: &Parts,
        body: Result<B>,
        connection: &Connection,
        activity: &HeaderValue,
    ) -> Handled
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let started = Instant::now();
        // A panic must cost this request only.
        let mut trace = Trace::of_unknown();
        let answered = match body {
            Ok(body) => {
                let answer = pin!(self.answer(head, body, connection, activity, &mut trace));
                catch_panics(answer).await
            }
            Err(refusal) => Ok(Ok(Reply::failed(refusal))),
        };
        let (mut reply, is_answered) = match answered {
            Ok(Ok(reply)) => (reply, true),
            Ok(Err(Unanswered)) => (Reply::empty(0), false),
            Err(panic) => (Reply::failed(panic), true),
        };

        // The node that owns the partition measures the request.
        if let Some(not_owned) = NotOwned::of(&reply, trace.call.as_deref()) {
            let end = End::NotOwned(not_owned, Box::new(reply));
            return Handled::new(end, trace.call);
        }

        // The same figures go to the metrics, to the client and to the log.
        let microseconds = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let milliseconds = microseconds as f64 / 1000.0;
        let kind = trace.kind;
        let sub_status = reply.error.as_ref().map_or(0, Error::sub_status);
        self.metrics.record(
            kind,
            reply.status,
            sub_status,
            milliseconds / 1000.0,
            reply.charge,
        );
        // The live samples are about the clients: they leave the console's own requests out.
        if is_from_console(head) {
            self.metrics
                .record_own(reply.status, milliseconds / 1000.0, reply.charge);
        } else {
            self.metrics.record_latency(microseconds);
        }
        self.set_measured(&mut reply, head, microseconds);
        // A POST asks for no resource that has this address, and a frame has no address at all.
        let transport = Transport::of(head);
        let has_location = head.method != http::Method::POST && transport == Transport::Http;
        if has_location && (200..400).contains(&reply.status) {
            reply.set_shared("content-location", self.location(head, connection).into());
        }
        self.log_request(kind, &reply, head, activity, milliseconds, connection);
        self.tell_refusal(&reply, head, connection);
        let finished = Finished {
            kind,
            head,
            call: trace.call.as_deref(),
            reply: &reply,
            microseconds,
            activity_id: activity.to_str().unwrap_or_default(),
            client: connection.peer,
            server: connection.local,
            is_from_console: is_from_console(head),
        };
        self.observe(&finished);
        let end = match is_answered {
            true => End::Answered(Box::new(reply)),
            false => End::Unanswered,
        };
        Handled::new(end, trace.call)
    }

    /// Answers one request: checks the head, reads the body, runs the operation and injects faults.
    /// Fills `trace` as soon as its parts are known.
    async fn answer<B>(
        &self,
        head: &Parts,
        body: B,
        connection: &Connection,
        activity: &HeaderValue,
        trace: &mut Trace,
    ) -> std::result::Result<Reply, Unanswered>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        // Many requests of HTTP/2 may be in progress on one connection, each with its head.
        let _head_memory = match self.hold_head(head) {
            Ok(reservation) => reservation,
            Err(error) => return Ok(Reply::failed(error)),
        };
        let checked = match self.check_head(head) {
            Ok(checked) => checked,
            Err(reply) => {
                // Without reading the body a client of HTTP/1.1 would see a broken connection
                // instead of the reply. A client that expects 100 Continue has not sent its body.
                let is_body_sent = !head.headers.contains_key(EXPECT);
                if is_body_sent && head.version != Version::HTTP_2 {
                    body::discard(body).await;
                }
                return Ok(*reply);
            }
        };
        let operation = checked.operation;
        trace.kind = RequestKind::Operation(operation);
        let body = match self.read_body(head, body).await {
            Ok(body) => body,
            Err(error) => return Ok(Reply::failed(error)),
        };

        // A fault before the operation ends the request without any effect.
        let fault_target = self
            .faults
            .fault_target(operation, &checked.path, &self.engine);
        let fault = self
            .faults
            .injected_fault(FaultTime::Before, fault_target.as_ref());
        if let Some(end) = end_by(fault).await {
            return end;
        }

        let is_from_console = is_from_console(head);
        let mut headers = checked.headers;
        headers.admission.is_unobserved = is_from_console && !headers.counts_as_client;
        let call = Arc::new(Call {
            caller: checked.caller,
            path: checked.path,
            target: checked.target,
            headers,
            body,
            account: self.account.clone(),
            regions: head.extensions.get::<AccountRegions>().cloned(),
            scheme: connection.scheme.name(),
            host: Some(host(head, connection)),
            query: address_query(checked.target, head),
            places: head.extensions.get().cloned(),
            cancel: Cancel::default(),
            answer: Arc::new(self.body_memory.answer()),
        });
        trace.call = Some(call.clone());
        let sender = Sender {
            head,
            activity,
            client: connection.peer,
            is_from_console,
        };
        let work = self.run_listed(operation, &call, sender);
        let reply = match Transport::of(head) {
            Transport::Http => work.await,
            Transport::Direct => direct::in_page_time(work, &call, operation).await,
        };
        let reply = reply.unwrap_or_else(Reply::failed);
        let reply = reply.with_short_token(call.headers.has_short_tokens);
        let reply = self.hold_reply(reply, &call, operation);

        // A fault after the operation replaces the reply only; the effect of the operation stays.
        let fault = self
            .faults
            .injected_fault(FaultTime::After, fault_target.as_ref());
        end_by(fault).await.unwrap_or(Ok(reply))
    }

    /// Runs an operation. A query is listed while it runs, and may be cancelled.
    ///
    /// # Errors
    /// As [`Gateway::run_in_lane`], and 403/5901 for a cancelled query.
    async fn run_listed(
        &self,
        operation: &'static Operation,
        call: &Arc<Call>,
        sender: Sender<'_>,
    ) -> Result<Reply> {
        let work = self.run(operation, call);
        match operation.is_query() {
            true => self.running.run(call, sender, work).await,
            false => work.await,
        }
    }

    /// Runs an operation: starts it on the thread or in the pool that its lane names, and waits for
    /// its commit without a thread, unless the store is on other machines.
    ///
    /// # Errors
    /// As [`Gateway::run_in_lane`].
    async fn run(&self, operation: &'static Operation, call: &Arc<Call>) -> Result<Reply> {
        if let Some(patience) = self.remote_store {
            return self.run_over_remote_store(operation, call, patience).await;
        }
        let lane = operation.lane(call);
        let started = if lane == Lane::Worker {
            operation.start(&self.engine, call)
        } else {
            let (engine, own_call) = (self.engine.clone(), call.clone());
            let work = move || operation.start(&engine, &own_call);
            self.run_in_lane(lane, operation, call, work).await?
        };
        Ok(operations::finish(started, &self.engine, call).await)
    }

    /// Runs the work of a call in the pool of a lane.
    ///
    /// # Errors
    /// 429 if the pool is full; 500 if the work panics; 404/1003 if the container of a script does
    /// not exist.
    async fn run_in_lane<T: Send + 'static>(
        &self,
        lane: Lane,
        operation: &'static Operation,
        call: &Arc<Call>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        // A client that closes the connection makes the server drop this future.
        let cancel = CancelOnDrop(Some(call.clone()));
        let done = match lane {
            Lane::Worker | Lane::Pool => self.pool.run(work).await,
            Lane::Query => self.query_pool.run(work).await,
            Lane::Script => {
                let place = operation.script_place(&self.engine, call)?;
                // A query writes nothing, so its scripts may end with it.
                let on_drop = match operation.is_query() {
                    true => OnDrop::EndScripts,
                    false => OnDrop::Continue,
                };
                self.script_lane.run(place, on_drop, work).await
            }
        };
        cancel.disarm();
        done
    }

    /// Returns the numbers of requests with scripts that run and that wait.
    pub fn script_requests(&self) -> (usize, usize) {
        self.script_lane.lengths()
    }

    /// Reads the body of a request. A body in binary JSON is returned as JSON text, any other as
    /// sent.
    async fn read_body<B: Body<Data = Bytes> + Unpin>(
        &self,
        head: &Parts,
        body: B,
    ) -> Result<Bytes> {
        // A client that asks before it sends its body need not send one that is refused.
        if head.headers.contains_key(EXPECT) {
            body::check_announced(limits::REQUEST_BODY_BYTES, &body)?;
        }
        let body = body::read(body, &self.body_memory).await?;
        if body.first() == Some(&binary_json::FIRST_BYTE) {
            let text = Bytes::from(binary_json::to_text(&body)?);
            return self.body_memory.hold(text);
        }
        Ok(body)
    }

    /// Counts the body of a reply as held until its last byte is written. The reply to a read
    /// becomes a 429 if there is no memory for its body. The effect of a write stands, so its
    /// client must get the reply in any case: the engine has reserved what a large one needs, and
    /// a small one is then not counted.
    fn hold_reply(&self, mut reply: Reply, call: &Call, operation: &Operation) -> Reply {
        if call.answer.was_refused() && reply.error.is_some() {
            self.body_memory.count_refused();
        }
        match self
            .body_memory
            .hold_answer(reply.body.clone(), &call.answer)
        {
            Ok(held) => reply.body = held,
            Err(error) if !operation.rights().includes_writes() => {
                let charge = reply.charge;
                reply = Reply::failed(error);
                reply.charge = charge;
            }
            Err(_) => {}
        }
        reply
    }

    /// Takes memory for a large head.
    ///
    /// # Errors
    /// 429 if there is none, or if the connection got none for the request.
    fn hold_head(&self, head: &Parts) -> Result<Option<Reservation>> {
        match head.extensions.get::<NoMemoryForHead>() {
            Some(_) => Err(self.body_memory.no_memory_for_head()),
            None => self.body_memory.hold_head(head_bytes(head)),
        }
    }

    /// Checks everything that does not need the body: sizes, host, path, credentials, method,
    /// headers, operation and rights, in the order in which the service reports errors. Answers
    /// preflights, which have no credentials.
    ///
    /// # Errors
    /// The reply that ends the request.
    fn check_head(&self, head: &Parts) -> std::result::Result<CheckedHead, Box<Reply>> {
        let refused = |error| Box::new(Reply::failed(error));
        check_size(head).map_err(refused)?;
        hosts::check(head, &self.hosts, &self.authenticator).map_err(refused)?;
        if let Some(preflight) = self.cors.preflight(head) {
            return Err(Box::new(preflight));
        }
        let path = Path::parse(head.uri.path()).map_err(refused)?;
        let route = path.route().map_err(refused)?;
        let (caller, path) = self.identify(head, path, route).map_err(refused)?;

        // The 405 lists the methods of the path, so it cannot be a plain error.
        let (target, method) = (route.target, head.method.as_str());
        if !operations::is_allowed(target, method) {
            let reply = Reply::failed(operations::method_not_allowed(method));
            return Err(Box::new(
                reply.allowing(&operations::allowed_methods(target)),
            ));
        }

        let mut headers =
            RequestHeaders::parse(&head.headers, self.account.consistency).map_err(refused)?;
        if let Some(direct) = head.extensions.get::<DirectRequest>() {
            headers.cached_container = direct.cached_container.clone();
        }
        let operation = operations::choose(target, method, &headers).map_err(refused)?;
        let request = AccessRequest {
            rights: operation.rights(),
            target,
            path: &path,
            headers: &headers,
        };
        auth::check(&request, &caller, &self.engine).map_err(refused)?;
        Ok(CheckedHead {
            caller,
            path,
            target,
            operation,
            headers,
        })
    }

    /// Checks the credentials of a request.
    ///
    /// # Errors
    /// Those with which the request is answered, if its credentials are not accepted.
    pub(crate) fn check_sender(&self, head: &Parts) -> Result<()> {
        let path = Path::parse(head.uri.path())?;
        let route = path.route()?;
        self.identify(head, path, route).map(|_| ())
    }

    /// Returns the sender of a request and the path that the sender means.
    ///
    /// Some clients leave the `?` of an item id as it is, so the rest of the id arrives as a query
    /// string. Requests for items have no other query string, so one belongs to the id, unless the
    /// signature of the request covers the path alone.
    ///
    /// # Errors
    /// As [`Gateway::authenticate`].
    fn identify(&self, head: &Parts, path: Path, route: &Route) -> Result<(Caller, Path)> {
        let of_path = self.authenticate(head, &path, route);
        let whole = match (route.target, head.uri.query()) {
            (Target::Item, Some(query)) => path.with_query(query),
            _ => None,
        };
        let Some(whole) = whole else {
            return Ok((of_path?, path));
        };
        match of_path {
            Ok(caller) if caller.has_signed_path() => Ok((caller, path)),
            Ok(caller) => Ok((caller, whole)),
            // A signature at a wrong time is 403, and 401 if it covers something else.
            Err(refused) if refused.status() != 401 => Err(refused),
            Err(refused) => match self.authenticate(head, &whole, route) {
                Ok(caller) => Ok((caller, whole)),
                Err(error) if error.status() != 401 => Err(error),
                Err(_) => Err(refused),
            },
        }
    }

    /// Returns the sender of a request.
    ///
    /// # Errors
    /// 401 or 403 for credentials that are not accepted; 404 if a request for addresses names no
    /// resource.
    fn authenticate(&self, head: &Parts, path: &Path, route: &Route) -> Result<Caller> {
        let now = i64::try_from(self.world.now_seconds()).unwrap_or(i64::MAX);
        if let Some(access) = head.extensions.get::<TrustedAccess>() {
            return self.authenticator.trusted_caller(*access, now);
        }

        // The signature of a request for addresses covers the resource whose addresses it asks for.
        let resolve_for = match route.target {
            Target::Addresses => Path::from_resolve_for(head.uri.query()),
            _ => None,
        };
        let (path, route) = match &resolve_for {
            Some(path) => (path, path.route()?),
            None => (path, route),
        };

        let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        let request = SignedRequest {
            verb: head.method.as_str(),
            resource_type: route.signed_as,
            links: path.signed_links(route),
            authorization: text(AUTHORIZATION.as_str()),
            ms_date: text("x-ms-date"),
            date: text(DATE.as_str()),
        };
        self.authenticator.authenticate(&request, &self.engine, now)
    }

    /// Returns the address of the requested resource, as the client can use it; an empty text if
    /// the request names no valid host.
    fn location(&self, head: &Parts, connection: &Connection) -> String {
        let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let scheme = connection.scheme.name();
        let host = named_host(head);
        let address = match host {
            Some(host) => account::address(&self.account, scheme, Some(host), path),
            None => {
                let host = connection.local.to_string();
                account::address(&self.account, scheme, Some(&host), path)
            }
        };
        address.unwrap_or_default()
    }

    /// Returns the activity id of the client, or a new one if the request has none that can be
    /// echoed in a header.
    fn activity_id(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(sent) = headers.get("x-ms-activity-id")
            && (1..=128).contains(&sent.len())
            && sent.as_bytes().iter().all(u8::is_ascii_graphic)
        {
            return sent.clone();
        }
        let guid = guid(self.world.random(), self.world.random());
        HeaderValue::from_str(&guid).unwrap_or(HeaderValue::from_static("none"))
    }
}

/// Returns the query string of a request for addresses, which names what they are asked for.
fn address_query(target: Target, head: &Parts) -> Option<String> {
    match target {
        Target::Addresses => head.uri.query().map(str::to_owned),
        _ => None,
    }
}

/// Returns true if this server's own console sent a request.
fn is_from_console(head: &Parts) -> bool {
    head.extensions.get::<TrustedAccess>().is_some()
}

/// Waits for the delay of an injected fault. Returns the end of the request if the fault replaces
/// the reply of the operation.
async fn end_by(fault: Option<InjectedFault>) -> Option<std::result::Result<Reply, Unanswered>> {
    // Boxed, so that a request without a fault has a small future.
    Box::pin(wait_for_fault(fault?)).await
}

/// As [`end_by`], for a fault.
async fn wait_for_fault(fault: InjectedFault) -> Option<std::result::Result<Reply, Unanswered>> {
    let InjectedFault { delay, reply } = fault;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    match reply {
        InjectedReply::OperationReply => None,
        InjectedReply::Error(error) => Some(Ok(Reply::failed(error))),
        InjectedReply::None => Some(Err(Unanswered)),
    }
}

/// Checks the bounds of the head of a request.
fn check_size(head: &Parts) -> Result<()> {
    // Each header counts with its separators, `: ` and CR LF.
    let mut bytes = head.uri.path().len() + head.uri.query().map_or(0, str::len);
    for (name, value) in &head.headers {
        bytes += name.as_str().len() + value.len() + 4;
    }
    let count = head.headers.len();
    if bytes <= HEAD_BYTES && count <= HEADERS {
        return Ok(());
    }
    Err(Error::bad(format!(
        "The request has {count} headers of {bytes} bytes together; at most {HEADERS} of \
         {HEAD_BYTES} bytes are taken."
    )))
}

/// Returns the bytes of the head of a request, approximately.
fn head_bytes(head: &Parts) -> u64 {
    let mut bytes = head
        .uri
        .path_and_query()
        .map_or(0, |path| path.as_str().len());
    for (name, value) in &head.headers {
        bytes += name.as_str().len() + value.len();
    }
    bytes as u64
}
