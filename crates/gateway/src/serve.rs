//! Connections: one port for everything.
//!
//! The first byte of a connection tells TLS from plain text; inside either, HTTP/1.1 and HTTP/2 (by ALPN or by prior
//! knowledge) are told apart by how they begin. Everything that a client could drag out has an end: the first byte,
//! the handshake, the head of a request, the number of connections, the time that a shutdown waits.

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
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// Connections at a time; more wait to be accepted.
const CONNECTIONS: usize = 4096;
/// How long a client may take to begin, and to shake hands.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// How long the head of a request may take. It bounds an idle connection too, so it is longer than clients keep theirs.
const HEAD_TIME: Duration = Duration::from_secs(300);
/// Bytes and headers of a request's head that are read at all: twice what the gateway takes, so that it is the gateway
/// that refuses, in JSON, whatever an honest client may send.
const HEAD_BYTES: usize = 2 * crate::gateway::HEAD_BYTES;
const HEADERS: usize = 2 * crate::gateway::HEADERS;
/// Requests at a time on one HTTP/2 connection.
const STREAMS: u32 = 256;
/// The pause after the system refused to accept, so that a lack of file descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The first byte of a TLS connection: the record type of a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// What answers the requests of a port.
pub trait Service: Send + Sync + 'static {
    /// Answers one request, whatever happens.
    ///
    /// # Errors
    /// The connection is to be closed without an answer, on purpose; of HTTP/2 the stream is reset.
    fn handle(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> impl Future<Output = Result<Response<Full<Bytes>>, Unanswered>> + Send;

    /// Where connections that break are noted.
    fn log(&self) -> &Log;

    /// The time now, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Where open connections are counted, if they are.
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

/// Serves `service` on `listener` until `shutdown`, then lets the requests under way finish for at most `drain`.
///
/// Returns whether all of them did. Without `tls`, connections that begin a TLS handshake are closed.
pub async fn serve<A: Service>(
    service: Arc<A>,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    shutdown: impl Future<Output = ()>,
    drain: Duration,
) -> bool {
    let tls = tls.map(TlsAcceptor::from);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let (stop, stopping) = watch::channel(());
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut shutdown => break,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                let text = error.to_string();
                let fields = [("cause", Field::Text(&text))];
                service.log().write(
                    service.now_ms(),
                    LogLevel::Warn,
                    "cannot accept a connection",
                    &fields,
                );
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (service, tls, watcher, stopping) = (
            service.clone(),
            tls.clone(),
            graceful.watcher(),
            stopping.clone(),
        );
        tokio::spawn(async move {
            let count = |change: i64| {
                service
                    .connections()
                    .into_iter()
                    .for_each(|open| open.add(change))
            };
            count(1);
            // A connection that breaks is the client's affair.
            if let Err(error) =
                connected(service.clone(), stream, peer, tls, watcher, stopping).await
            {
                let (text, peer) = (error.to_string(), peer.to_string());
                let fields = [("peer", Field::Text(&peer)), ("cause", Field::Text(&text))];
                service.log().write(
                    service.now_ms(),
                    LogLevel::Debug,
                    "connection ended",
                    &fields,
                );
            }
            count(-1);
            drop(place);
        });
    }
    drop((listener, stop));
    tokio::time::timeout(drain, graceful.shutdown())
        .await
        .is_ok()
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = places
        .clone()
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, place))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn connected<A: Service>(
    service: Arc<A>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    watcher: Watcher,
    mut stopping: watch::Receiver<()>,
) -> Result<(), BoxError> {
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?;
    let mut first = [0; 1];
    // Who has said nothing yet is owed nothing when the server stops.
    let begun = tokio::select! {
        begun = tokio::time::timeout(HELLO_TIME, stream.peek(&mut first)) => begun??,
        _ = stopping.changed() => 0,
    };
    if begun == 0 {
        return Ok(());
    }
    if first[0] != TLS_HANDSHAKE {
        return speak(
            service,
            stream,
            Connection {
                scheme: Scheme::Http,
                peer,
                local,
            },
            watcher,
        )
        .await;
    }
    let tls = tls.ok_or("the client speaks TLS and the server has no certificate")?;
    let stream = tokio::time::timeout(HELLO_TIME, tls.accept(stream)).await??;
    speak(
        service,
        stream,
        Connection {
            scheme: Scheme::Https,
            peer,
            local,
        },
        watcher,
    )
    .await
}

async fn speak<A, S>(
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
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES as u32)
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Duration::from_secs(60))
        .keep_alive_timeout(Duration::from_secs(20));
    let answering = service_fn(move |request: Request<Incoming>| {
        let service = service.clone();
        async move { service.handle(request, &connection).await }
    });
    let serving = builder
        .serve_connection(TokioIo::new(stream), answering)
        .into_owned();
    watcher.watch(serving).await
}
