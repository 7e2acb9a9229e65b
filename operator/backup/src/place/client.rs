//! The connection to an S3 service: the library of object stores speaks HTTP with the client that
//! the program has already.
//!
//! Left out: proxies, and certificates other than those of the system (`SSL_CERT_FILE`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{OnceLock, mpsc};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use orrery_model::error::with_causes;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, Sleep, sleep, timeout};

/// The time for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The time from the beginning of a request, with its body, to the head of the answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The time for the next piece of the body of an answer.
const PIECE_MAX: Duration = Duration::from_secs(30);

/// Makes clients for the library.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |error: io::Error| object_store::Error::Generic {
            store: "S3",
            source: error.into(),
        };
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_MAX));
        tcp.set_nodelay(true);
        let tls = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(failed)?;
        // An address without TLS is one that a person has named, or that of the credentials of a
        // machine.
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let tls = match allows_http.as_deref() {
            Some("true") => tls.https_or_http(),
            _ => tls.https_only(),
        };
        let connector = tls.enable_http1().wrap_connector(tcp);
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(HttpClient::new(Client(client)))
    }
}

#[derive(Debug)]
struct Client(legacy::Client<HttpsConnector<TcpConnector>, HttpRequestBody>);

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Ok(answer) = timeout(ANSWER_MAX, self.0.request(request)).await else {
            let late = io::Error::from(io::ErrorKind::TimedOut);
            return Err(HttpError::new(HttpErrorKind::Timeout, late));
        };
        let (head, body) = answer.map_err(failed)?.into_parts();
        let body = TimedBody {
            body,
            limit: Box::pin(sleep(PIECE_MAX)),
        };
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

/// The body of an answer, which fails if its next piece takes long.
struct TimedBody {
    body: Incoming,
    /// Ends when the next piece is late.
    limit: Pin<Box<Sleep>>,
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                self.limit.as_mut().reset(Instant::now() + PIECE_MAX);
                let failed = |error| HttpError::new(HttpErrorKind::Interrupted, error);
                Poll::Ready(frame.map(|frame| frame.map_err(failed)))
            }
            Poll::Pending => {
                ready!(self.limit.as_mut().poll(context));
                let late = io::Error::from(io::ErrorKind::TimedOut);
                let late = HttpError::new(HttpErrorKind::Timeout, late);
                Poll::Ready(Some(Err(late)))
            }
        }
    }
}

/// Returns the error of a request, which tells whether the request was sent.
fn failed(error: legacy::Error) -> HttpError {
    let kind = match error.is_connect() {
        true => HttpErrorKind::Connect,
        false => HttpErrorKind::Interrupted,
    };
    // The text of the outer error names no cause.
    HttpError::new(kind, io::Error::other(with_causes(&error)))
}

/// Runs a request on the threads of the requests, and waits for its end. The calling thread may
/// belong to another runtime.
///
/// # Errors
/// When no thread can be started.
pub(super) fn run<T: Send + 'static>(
    request: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    runtime()?.spawn(async move {
        // The receiver waits below.
        let _ = sender.send(request.await);
    });
    let ended = |_| io::Error::other("the request ended without an answer");
    receiver.recv().map_err(ended)
}

/// Returns the runtime of all requests, which is started by the first one.
pub(super) fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("bucket")
        .enable_all()
        .build()?;
    // Another thread may have been first; its runtime is kept, and this one ends.
    if let Err(second) = RUNTIME.set(runtime) {
        second.shutdown_background();
    }
    RUNTIME
        .get()
        .ok_or_else(|| io::Error::other("no thread for requests"))
}
