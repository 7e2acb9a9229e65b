//! Connections of browsers: their number and the time of slow clients are limited.
//!
//! A client that sends the head of a request too slowly loses its connection; a request whose body
//! or answer takes too long is answered with 408. At the end, requests in progress are finished.
//!
//! Left out: TLS and HTTP/2. A proxy in front of the application has both.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at the same time. Further clients wait in the queue of the system.
const CONNECTIONS_MAX: usize = 1_024;
/// Time for the head of a request, also between two requests of a connection.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Time for the rest of a request and its answer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// Pause after an error of the listener, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` on `listener` until `shutdown` completes and all requests are finished.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let router = router.layer(middleware::from_fn(limit_time));
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let permit = tokio::select! {
            permit = permits.clone().acquire_owned() => permit,
            () = &mut shutdown => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Without it, a small answer may wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .serve_connection(
                TokioIo::new(stream),
                TowerToHyperService::new(router.clone()),
            );
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            // An error means that the client is gone or too slow.
            let _ = connection.await;
            drop(permit);
        });
    }
    drop(listener);
    connections.shutdown().await;
}

/// Answers a request that takes too long.
async fn limit_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let text = "The request took too long. Send it again.";
            (StatusCode::REQUEST_TIMEOUT, text).into_response()
        }
    }
}
