//! The application of the reference blog: server-rendered pages over the three data models.

mod lesson;

use orrery_blog::Site;
use std::future::Future;
use tokio::net::TcpListener;

/// The parts of the application that differ from start to start.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// True if visitors may sign in as a seeded user without a password.
    pub demo: bool,
}

/// Serves the application on `listener` until `shutdown` completes.
///
/// # Errors
/// The error of the listener.
pub async fn serve(
    site: Site,
    listener: TcpListener,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let _ = (site, options);
    let application = axum::Router::new();
    axum::serve(listener, application)
        .with_graceful_shutdown(shutdown)
        .await
}
