//! Connections: one port for TLS and plain text, HTTP/1.1 and HTTP/2.
//!
//! The first byte of a connection distinguishes TLS from plain text. Inside either, the first bytes
//! distinguish HTTP/1.1 from HTTP/2 (by ALPN or prior knowledge). Everything that a client could
//! delay has a limit: the first byte, the handshake, the head of a request, the number of
//! connections, and the wait at shutdown.

use crate::faults::Unanswered;
use crate::gateway::{Connection, Gateway, Scheme};
use crate::log::{Field, Log, LogLevel};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use orrery_model::metrics::Gauge;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The largest number of open connections; more are not accepted until one closes.
const CONNECTIONS: usize = 4096;
/// The longest wait for the first byte of a connection, and for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for the head of a request. It also limits idle connections, so it is longer
/// than the time for which clients keep idle connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(300);
/// The bytes of a request's head that are read at most. The limit is twice that of the gateway, so
/// that the gateway refuses all that an honest client may send, and refuses it in JSON.
const HEAD_BYTES: usize = 2 * crate::gateway::HEAD_BYTES;
/// The headers of a request that are read at most; twice the limit of the gateway.
const HEADERS: usize = 2 * crate::gateway::HEADERS;
/// The largest number of concurrent requests of one HTTP/2 connection.
const STREAMS: u32 = 256;
/// The pause after an error of `accept`. Without it, a lack of file descriptors would become a busy
/// loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
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
        request: Request<Incoming>,
        connection: &Connection,
    ) -> impl Future<Output = Result<Response<Full<Bytes>>, Unanswered>> + Send;

    /// Returns the log for broken connections.
    fn log(&self) -> &Log;

    /// Returns the current time, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Returns the gauge of open connections, if they are counted.
    fn connections(&self) -> Option<&Gauge> {
        None
    }
}

impl Service for Gateway {
    async fn handle(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> Result<Response<Full<Bytes>>, Unanswered> {
        Gateway::handle(self, request, connection).await
    }

    fn log(&self) -> &Log {
        Gateway::log(self)
    }

    fn now_ms(&self) -> u64 {
        Gateway::now_ms(self)
    }

    fn connections(&self) -> Option<&Gauge> {
        Some(&self.metrics().connections)
    }
}

/// Serves `service` on `listener` until `shutdown` resolves, then waits at most `drain` for the
/// requests in progress.
///
/// Returns true if all of these requests ended in time. Without `tls`, connections that start a TLS
/// handshake are closed.
pub async fn serve<A: Service>(
    service: Arc<A>,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    shutdown: impl Future<Output = ()>,
    drain: Duration,
) -> bool {
    let tls = tls.map(TlsAcceptor::from);
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let (stop, stopping) = watch::channel(());
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &permits) => accepted,
            () = &mut shutdown => break,
        };
        let (stream, peer, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                let fields = [("cause", error.to_string())];
                log_event(
                    &*service,
                    LogLevel::Warn,
                    "cannot accept a connection",
                    &fields,
                );
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };

        // The task owns the permit, so that the number of open connections stays limited.
        let service = service.clone();
        let tls = tls.clone();
        let watcher = graceful.watcher();
        let stopping = stopping.clone();
        tokio::spawn(async move {
            if let Some(open) = service.connections() {
                open.add(1);
            }
            let served = serve_connection(service.clone(), stream, peer, tls, watcher, stopping);
            // A broken connection concerns only its client, so it is logged for debugging.
            if let Err(error) = served.await {
                let fields = [("peer", peer.to_string()), ("cause", error.to_string())];
                log_event(&*service, LogLevel::Debug, "connection ended", &fields);
            }
            if let Some(open) = service.connections() {
                open.add(-1);
            }
            drop(permit);
        });
    }

    // Closing the port first lets clients find another server; dropping `stop` closes connections
    // that have sent nothing.
    drop((listener, stop));
    let drained = tokio::time::timeout(drain, graceful.shutdown()).await;
    drained.is_ok()
}

fn log_event<A: Service>(
    service: &A,
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

/// Accepts a connection when a permit is free.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await;
    let permit = permit.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Serves one connection: detects TLS, does the handshake, and answers requests until either side
/// closes the connection.
async fn serve_connection<A: Service>(
    service: Arc<A>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    watcher: Watcher,
    mut stopping: watch::Receiver<()>,
) -> Result<(), BoxError> {
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?;

    // A shutdown does not wait for clients that have sent nothing.
    let mut first = [0; 1];
    let count = tokio::select! {
        count = tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.peek(&mut first)) => count??,
        _ = stopping.changed() => 0,
    };
    if count == 0 {
        return Ok(());
    }

    let mut connection = Connection {
        scheme: Scheme::Http,
        peer,
        local,
    };
    if first[0] != TLS_HANDSHAKE {
        return serve_http(service, stream, connection, watcher).await;
    }
    let tls = tls.ok_or("the client speaks TLS and the server has no certificate")?;
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await??;
    connection.scheme = Scheme::Https;
    serve_http(service, stream, connection, watcher).await
}

/// Answers the requests of a connection, as HTTP/1.1 or HTTP/2.
async fn serve_http<A, S>(
    service: Arc<A>,
    stream: S,
    connection: Connection,
    watcher: Watcher,
) -> Result<(), BoxError>
where
    A: Service,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES as u32)
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Duration::from_secs(60))
        .keep_alive_timeout(Duration::from_secs(20));
    let answer = service_fn(move |request: Request<Incoming>| {
        let service = service.clone();
        async move { service.handle(request, &connection).await }
    });
    // The watcher lets a shutdown end the connection after the request in progress.
    let serving = builder
        .serve_connection(TokioIo::new(stream), answer)
        .into_owned();
    watcher.watch(serving).await
}
