//! Connections: one port for TLS and plain text, HTTP/1.1, HTTP/2 and frames of the direct mode.
//!
//! The first byte of a connection distinguishes TLS from plain text. Inside either, the first bytes
//! distinguish HTTP/1.1 from HTTP/2 (by ALPN or prior knowledge), and within TLS frames from both.
//! Everything that a client could delay has a limit: the first byte, the handshake, the head of a
//! request, the time between two requests, the reading of an answer (`activity.rs`), the number of
//! connections (`connections.rs`), and the wait at shutdown.

use crate::activity::{Activity, Check, CloseReason, HeldRequest, PacedStream, Patience, Stage};
use crate::connection::{Connection, NoMemoryForHead, Scheme};
use crate::connections::{ConnectionLimits, ConnectionSlot, Connections, NoPlace};
use crate::direct::{self, FrameConnection, FrameService};
use crate::faults::Unanswered;
use crate::gateway::Gateway;
use crate::handshakes::{Refusal, RefusedHandshakes};
use crate::held::BodyMemory;
use crate::log::{Field, Log, LogLevel};
use crate::metrics::ConnectionCounters;
use crate::prefixed::Prefixed;
use crate::request_body::RequestBody;
use crate::spin::{Socket, Spinners};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep_until;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The bytes of a request's head that are read at most. The limit is twice that of the gateway, so
/// that the gateway refuses all that an honest client may send, and refuses it in JSON.
const HEAD_BYTES: usize = 2 * crate::connection::HEAD_BYTES;
/// The headers of a request that are read at most; twice the limit of the gateway.
const HEADERS: usize = 2 * crate::connection::HEADERS;
/// The largest number of concurrent requests of one HTTP/2 connection.
const STREAMS: u32 = 128;
/// The bytes of a request body, and of all bodies of a connection, that HTTP/2 takes before the
/// server reads them.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// The largest number of requests of one HTTP/2 connection that were reset by the client and not
/// yet noticed, and of those that the server reset. More end the connection.
const RESET_STREAMS: usize = 128;
/// The bytes of one answer that HTTP/2 takes before the client has room for them.
const STREAM_BUFFER_BYTES: usize = 256 * 1024;
/// The bytes of answers that the system keeps for a client before they are sent. Without the bound
/// it keeps up to 4 MiB for a client that reads nothing, outside of the memory that is counted, and
/// such a client would be noticed late.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 128 * 1024;
/// The pause after an error of `accept`. Without it, a lack of file descriptors would become a busy
/// loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The interval at which a connection that waits for a place asks again.
const PLACE_PAUSE: Duration = Duration::from_millis(10);
/// The shortest time between two lines in the log about connections that were refused.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The time that a connection of the direct mode may be idle: longer than a server runs.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// The first byte of a TLS connection: the record type of a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// Answers the requests of a port.
pub trait Service: Send + Sync + 'static {
    /// Answers one request. Every request gets an answer, errors included.
    ///
    /// # Errors
    /// The connection is closed without an answer on purpose; in HTTP/2 the stream is reset.
    fn handle(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> impl Future<Output = Result<Response<Bytes>, Unanswered>> + Send;

    /// Returns the log for broken connections.
    fn log(&self) -> &Log;

    /// Returns the current time, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Returns the counters of the port's connections.
    fn connections(&self) -> Arc<ConnectionCounters> {
        Arc::default()
    }

    /// Returns the memory for heads and bodies. Slow readers are cut sooner while it is short.
    fn memory(&self) -> &BodyMemory;
}

impl Service for Gateway {
    async fn handle(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        Gateway::handle(self, request, connection).await
    }

    fn log(&self) -> &Log {
        Gateway::log(self)
    }

    fn now_ms(&self) -> u64 {
        Gateway::now_ms(self)
    }

    fn connections(&self) -> Arc<ConnectionCounters> {
        self.metrics().connections.clone()
    }

    fn memory(&self) -> &BodyMemory {
        self.body_memory()
    }
}

/// A [`Service`] without its type. The code of connections is large; it is compiled once, in this
/// crate, and not for each type of service in the crates that use it.
trait AnyService: Send + Sync {
    /// As [`Service::handle`].
    fn handle_boxed<'a>(
        &'a self,
        request: Request<RequestBody>,
        connection: &'a Connection,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, Unanswered>> + Send + 'a>>;

    /// As [`Service::log`].
    fn log(&self) -> &Log;

    /// As [`Service::now_ms`].
    fn now_ms(&self) -> u64;

    /// As [`Service::connections`].
    fn connections(&self) -> Arc<ConnectionCounters>;

    /// As [`Service::memory`].
    fn memory(&self) -> &BodyMemory;
}

impl<A: Service> AnyService for A {
    fn handle_boxed<'a>(
        &'a self,
        request: Request<RequestBody>,
        connection: &'a Connection,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, Unanswered>> + Send + 'a>> {
        Box::pin(self.handle(request, connection))
    }

    fn log(&self) -> &Log {
        Service::log(self)
    }

    fn now_ms(&self) -> u64 {
        Service::now_ms(self)
    }

    fn connections(&self) -> Arc<ConnectionCounters> {
        Service::connections(self)
    }

    fn memory(&self) -> &BodyMemory {
        Service::memory(self)
    }
}

/// A port and its bounds.
pub struct Port<A> {
    /// The service that answers requests.
    pub service: Arc<A>,
    /// The TLS configuration; without one, connections that start a TLS handshake are closed.
    pub tls: Option<Arc<ServerConfig>>,
    /// The largest numbers of connections.
    pub limits: ConnectionLimits,
    /// The times that slow clients are given.
    pub patience: Patience,
    /// The longest time for which a worker looks for the next request of a connection before it
    /// sleeps; zero for none.
    pub spin: Duration,
    /// The longest wait at shutdown for requests in progress.
    pub drain: Duration,
    /// Answers frames of the direct mode within TLS; `None` if the port has HTTP only.
    pub direct: Option<Arc<dyn FrameService>>,
}

/// The parts of a port that its connections share.
struct Shared {
    service: Arc<dyn AnyService>,
    tls: Option<TlsAcceptor>,
    patience: Patience,
    spinners: Arc<Spinners>,
    direct: Option<Arc<dyn FrameService>>,
    refused: RefusedHandshakes,
}

/// Serves a port on `listeners` until `shutdown` resolves, then waits for the requests in progress.
/// A port may listen on several addresses; its limits hold for all of them together.
///
/// Returns true if all of these requests ended in time.
pub async fn serve<A: Service>(
    port: Port<A>,
    listeners: Vec<TcpListener>,
    shutdown: impl Future<Output = ()>,
) -> bool {
    let shared = Arc::new(Shared {
        service: port.service,
        tls: port.tls.map(TlsAcceptor::from),
        patience: port.patience,
        spinners: Spinners::new(port.spin),
        direct: port.direct,
        refused: RefusedHandshakes::default(),
    });
    let (open_direct, mut all_direct_ended) = mpsc::channel(1);
    let graceful = GracefulShutdown::new();
    let mut door = Door::new(listeners, port.limits, &*shared.service);
    let (stop, stopping) = watch::channel(());
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let (stream, peer, place) = tokio::select! {
            accepted = door.accept(&*shared.service) => accepted,
            () = &mut shutdown => break,
        };
        let ends = Ends {
            watcher: graceful.watcher(),
            stopping: stopping.clone(),
            open_direct: open_direct.clone(),
        };
        spawn_connection(shared.clone(), stream, peer, place, ends);
    }

    // Closing the port first lets clients find another server; dropping `stop` closes connections
    // that have sent nothing, and tells those of the direct mode to end.
    drop((door, stop, open_direct));
    let all_ended = async {
        graceful.shutdown().await;
        // Nothing is sent: the channel ends with the last connection.
        let _: Option<()> = all_direct_ended.recv().await;
    };
    tokio::time::timeout(port.drain, all_ended).await.is_ok()
}

/// The parts by which the end of a port and the end of a connection know of each other.
struct Ends {
    /// Ends a connection of HTTP after the request in progress.
    watcher: Watcher,
    /// Changes when the port ends.
    stopping: watch::Receiver<()>,
    /// Held by a connection of the direct mode for as long as it is open.
    open_direct: mpsc::Sender<()>,
}

/// Starts the task of a connection.
fn spawn_connection(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    place: ConnectionSlot,
    ends: Ends,
) {
    tokio::spawn(async move {
        let served = shared.serve_connection(stream, peer, place, ends);
        // A broken connection concerns only its client, so it is logged for debugging.
        if let Err(error) = served.await {
            let fields = [("peer", peer.to_string()), ("cause", error.to_string())];
            let level = LogLevel::Debug;
            log_event(&*shared.service, level, "connection ended", &fields);
        }
    });
}

fn log_event(
    service: &dyn AnyService,
    level: LogLevel,
    message: &str,
    fields: &[(&'static str, String)],
) {
    let fields: Vec<(&str, Field<'_>)> = fields
        .iter()
        .map(|(name, value)| (*name, Field::Text(value)))
        .collect();
    service
        .log()
        .write(service.now_ms(), level, message, &fields);
}

/// The listening sockets of a port and the places of its connections.
struct Door {
    listeners: Vec<TcpListener>,
    /// The socket that is asked first, which changes so that no socket waits for the others.
    first: usize,
    connections: Arc<Connections>,
    counters: Arc<ConnectionCounters>,
    /// The time of the last line in the log about refused connections.
    last_refusal_logged: Option<Instant>,
}

impl Door {
    fn new(
        listeners: Vec<TcpListener>,
        limits: ConnectionLimits,
        service: &dyn AnyService,
    ) -> Self {
        let counters = service.connections();
        Door {
            listeners,
            first: 0,
            connections: Connections::new(limits, counters.clone()),
            counters,
            last_refusal_logged: None,
        }
    }

    /// Accepts the next connection of any socket.
    async fn accept_any(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let count = self.listeners.len();
        poll_fn(|context| {
            for index in 0..count {
                let index = (self.first + index) % count;
                if let Poll::Ready(accepted) = self.listeners[index].poll_accept(context) {
                    self.first = index + 1;
                    return Poll::Ready(accepted);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Accepts the next connection that gets a place.
    async fn accept(
        &mut self,
        service: &dyn AnyService,
    ) -> (TcpStream, SocketAddr, ConnectionSlot) {
        loop {
            let (stream, peer) = match self.accept_any().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    let fields = [("cause", error.to_string())];
                    let message = "cannot accept a connection";
                    log_event(service, LogLevel::Warn, message, &fields);
                    // The error may be a lack of descriptors, which an idle connection can give.
                    self.connections.make_room(Instant::now());
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if let Some(place) = self.place(peer, service).await {
                return (stream, peer, place);
            }
        }
    }

    /// Returns a place for a connection of `peer`; `None` if the connection is refused. Waits while
    /// no connection waits for its client, because one of the requests in progress will end.
    async fn place(
        &mut self,
        peer: SocketAddr,
        service: &dyn AnyService,
    ) -> Option<ConnectionSlot> {
        loop {
            match self.connections.admit(peer.ip(), Instant::now()) {
                Ok(place) => return Some(place),
                Err(NoPlace::Full) => tokio::time::sleep(PLACE_PAUSE).await,
                Err(NoPlace::AddressFull) => {
                    self.counters.count(CloseReason::AddressLimit);
                    self.log_refusal(peer, service);
                    return None;
                }
            }
        }
    }

    fn log_refusal(&mut self, peer: SocketAddr, service: &dyn AnyService) {
        let now = Instant::now();
        let is_due = |last: Instant| now.duration_since(last) >= REFUSAL_LOG_INTERVAL;
        if self.last_refusal_logged.is_none_or(is_due) {
            self.last_refusal_logged = Some(now);
            let limit = self.connections.per_address().to_string();
            let fields = [("peer", peer.to_string()), ("connections", limit)];
            let message = "a client was refused a connection: its address has as many as one \
                           address may have, all in use";
            log_event(service, LogLevel::Warn, message, &fields);
        }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Shared {
    /// Serves one connection until either side closes it, or until it loses its place.
    async fn serve_connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        mut place: ConnectionSlot,
        ends: Ends,
    ) -> Result<(), BoxError> {
        let activity = place.activity.clone();
        let served = self.detect_and_serve(stream, peer, &activity, ends);
        let mut served = std::pin::pin!(served);
        let mut displaced = false;
        poll_fn(|context| {
            displaced = displaced || is_displaced(&mut place.displaced, context);
            // A request that began at the last moment is still answered.
            let is_in_use =
                activity.stage().0 == Stage::Busy && activity.waits_for_client_since().is_none();
            if displaced && !is_in_use {
                return Poll::Ready(Err(CloseReason::Displaced.name().into()));
            }
            served.as_mut().poll(context)
        })
        .await
    }

    /// Detects TLS, does the handshake and answers requests.
    async fn detect_and_serve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        activity: &Arc<Activity>,
        mut ends: Ends,
    ) -> Result<(), BoxError> {
        stream.set_nodelay(true)?;
        limit_unsent(&stream);
        let local = stream.local_addr()?;

        // A shutdown does not wait for clients that have sent nothing.
        let mut first = [0; 1];
        let count = tokio::select! {
            count = self.in_time(stream.peek(&mut first)) => count?,
            _ = ends.stopping.changed() => 0,
        };
        if count == 0 {
            return Ok(());
        }
        activity.step(Instant::now());

        let mut connection = Connection {
            scheme: Scheme::Http,
            peer,
            local,
        };
        if first[0] != TLS_HANDSHAKE {
            let watcher = ends.watcher;
            return self.serve_http(stream, connection, activity, watcher).await;
        }
        let tls = self
            .tls
            .as_ref()
            .ok_or("the client speaks TLS and the server has no certificate")?;
        let stream = match self.in_time(tls.accept(stream)).await {
            Ok(stream) => stream,
            Err(error) => {
                if let Some(refusal) = error.downcast_ref().and_then(Refusal::of) {
                    self.note_refusal(refusal, peer);
                }
                return Err(error);
            }
        };
        activity.step(Instant::now());
        connection.scheme = Scheme::Https;
        let Some(direct) = self.direct.clone() else {
            let watcher = ends.watcher;
            return self.serve_http(stream, connection, activity, watcher).await;
        };

        // The first bytes tell a frame from HTTP.
        let stream = tokio::select! {
            stream = self.in_time(Prefixed::read(stream)) => stream?,
            _ = ends.stopping.changed() => return Ok(()),
        };
        if stream.is_empty() {
            self.note_refusal(Refusal::Silent, peer);
            return Ok(());
        }
        if !stream.begins_with_frame() {
            let watcher = ends.watcher;
            return self.serve_http(stream, connection, activity, watcher).await;
        }
        let Ends {
            watcher,
            stopping,
            open_direct: _open,
        } = ends;
        // The watcher would keep the port from ending: `stopping` ends this connection.
        drop(watcher);
        self.serve_frames(stream, direct, connection, activity, stopping)
            .await
    }

    /// Counts a handshake that the client refused, and tells the operator.
    fn note_refusal(&self, refusal: Refusal, peer: SocketAddr) {
        self.service.connections().refused_handshakes.add(1);
        let (log, now_ms) = (self.service.log(), self.service.now_ms());
        self.refused.tell(refusal, peer.ip(), log, now_ms);
    }

    /// Answers the frames of a connection of the direct mode.
    async fn serve_frames<S>(
        &self,
        stream: S,
        service: Arc<dyn FrameService>,
        connection: Connection,
        activity: &Arc<Activity>,
        mut stopping: watch::Receiver<()>,
    ) -> Result<(), BoxError>
    where
        S: AsyncRead + AsyncWrite + Socket + Send + Unpin + 'static,
    {
        let memory = self.service.memory().clone();
        let spin = self.spinners.connection();
        let stream = PacedStream::new(stream, activity.clone(), memory.clone(), spin);
        let parts = direct::Parts {
            service,
            connection,
            activity: activity.clone(),
            counters: self.service.connections(),
            memory,
            limits: direct::Limits::default(),
        };
        let stopped = async move {
            let _ = stopping.changed().await;
        };
        let frames = FrameConnection::new(stream, parts, stopped);
        let _open = OpenDirect::new(self.service.connections());
        // A write that meets the end of its connection fails at the caller, so that only a client
        // which has not authenticated has a time to be idle, and `FrameConnection` knows that.
        let patience = Patience {
            head: direct::Limits::default().authentication,
            idle: FOREVER,
            ..self.patience
        };
        let served = async { Ok(frames.run().await?) };
        self.while_patient(served, activity, &patience).await
    }

    /// Waits for a step of the opening of a connection.
    async fn in_time<T>(&self, step: impl Future<Output = io::Result<T>>) -> Result<T, BoxError> {
        match tokio::time::timeout(self.patience.head, step).await {
            Ok(done) => Ok(done?),
            Err(_) => {
                self.service.connections().count(CloseReason::SlowHead);
                Err(CloseReason::SlowHead.name().into())
            }
        }
    }

    /// Answers the requests of a connection, as HTTP/1.1 or HTTP/2.
    async fn serve_http<S>(
        &self,
        stream: S,
        connection: Connection,
        activity: &Arc<Activity>,
        watcher: Watcher,
    ) -> Result<(), BoxError>
    where
        S: AsyncRead + AsyncWrite + Socket + Send + Unpin + 'static,
    {
        let (service, of_requests) = (self.service.clone(), activity.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let (service, activity) = (service.clone(), of_requests.clone());
            let mut request = request.map(|body| RequestBody::new(body, activity.clone()));
            let in_progress = activity.begin_request();
            let held = activity.hold_request(service.memory());
            if held == HeldRequest::Refused {
                request.extensions_mut().insert(NoMemoryForHead);
            }
            async move {
                if held == HeldRequest::Overloaded {
                    return Err(Unanswered);
                }
                let response = service.handle_boxed(request, &connection).await?;
                let track = |body| Full::new(activity.track_answer(body, Instant::now()));
                let response = response.map(track);
                drop(in_progress);
                Ok::<_, Unanswered>(response)
            }
        });
        let memory = self.service.memory().clone();
        let spin = self.spinners.connection();
        let stream = PacedStream::new(stream, activity.clone(), memory, spin);
        // The watcher lets a shutdown end the connection after the request in progress.
        let serving = http_builder()
            .serve_connection(TokioIo::new(stream), answer)
            .into_owned();
        let served = watcher.watch(serving);
        self.while_patient(served, activity, &self.patience).await
    }

    /// Runs a connection until its client has been too slow for too long.
    async fn while_patient(
        &self,
        served: impl Future<Output = Result<(), BoxError>>,
        activity: &Activity,
        patience: &Patience,
    ) -> Result<(), BoxError> {
        let mut served = std::pin::pin!(served);
        let first = Instant::now() + patience.head;
        let mut timer = std::pin::pin!(sleep_until(first.into()));
        poll_fn(|context| {
            if let Poll::Ready(result) = served.as_mut().poll(context) {
                return Poll::Ready(result);
            }
            // Every change of the activity happens in the call above, so the time of the next look
            // is known here. A timer that fires too early only looks again.
            loop {
                let is_short = self.service.memory().is_short();
                let next = match activity.next_check(patience, is_short, Instant::now()) {
                    Check::At(next) => next,
                    Check::Close(reason) => {
                        self.service.connections().count(reason);
                        return Poll::Ready(Err(reason.name().into()));
                    }
                };
                if timer.is_elapsed() || timer.deadline().into_std() > next {
                    timer.as_mut().reset(next.into());
                }
                if timer.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}

/// Counts an open connection of the direct mode.
struct OpenDirect(Arc<ConnectionCounters>);

impl OpenDirect {
    fn new(counters: Arc<ConnectionCounters>) -> Self {
        counters.direct.add(1);
        OpenDirect(counters)
    }
}

impl Drop for OpenDirect {
    fn drop(&mut self) {
        self.0.direct.add(-1);
    }
}

/// Bounds the bytes that the system keeps for a client, where the system can.
#[cfg(target_os = "linux")]
fn limit_unsent(stream: &TcpStream) {
    // Without the bound the connection works all the same.
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES);
}

/// Does nothing: this system has no such bound.
#[cfg(not(target_os = "linux"))]
fn limit_unsent(_: &TcpStream) {}

/// Returns true if a connection must end for another one.
fn is_displaced(
    displaced: &mut oneshot::Receiver<()>,
    context: &mut std::task::Context<'_>,
) -> bool {
    Pin::new(displaced).poll(context).is_ready()
}

/// Returns the settings of HTTP.
fn http_builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        // `while_patient` limits this time, with one timer for all requests of a connection.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES as u32)
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_pending_accept_reset_streams(RESET_STREAMS)
        .max_local_error_reset_streams(RESET_STREAMS)
        .max_send_buf_size(STREAM_BUFFER_BYTES)
        .keep_alive_interval(Duration::from_secs(60))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}
