//! Signals of the operating system that ask the program to stop.

use orrery_server::Failure;

/// Returns a future that completes at SIGTERM or SIGINT (Ctrl-C). The signals are caught from the
/// return of this function on, not from the first poll of the future.
///
/// # Errors
/// [`Failure::Failed`] if the system refuses a signal handler.
#[cfg(unix)]
pub(crate) fn shutdown() -> Result<impl Future<Output = ()>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot_catch)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot_catch)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Returns a future that completes at Ctrl-C.
///
/// # Errors
/// None on these systems.
#[cfg(not(unix))]
pub(crate) fn shutdown() -> Result<impl Future<Output = ()>, Failure> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            // The system cannot report Ctrl-C. The server then runs until its process is ended.
            std::future::pending::<()>().await;
        }
    })
}

/// Returns a future that completes at SIGTERM, SIGINT (Ctrl-C) or SIGHUP (the end of the terminal),
/// for a command that has something to tidy up. A server reads its keys anew at SIGHUP.
///
/// # Errors
/// [`Failure::Failed`] if the system refuses a signal handler.
#[cfg(unix)]
pub(crate) fn ending() -> Result<impl Future<Output = ()>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangup = signal(SignalKind::hangup()).map_err(cannot_catch)?;
    let shutdown = shutdown()?;
    Ok(async move {
        tokio::select! {
            () = shutdown => {}
            _ = hangup.recv() => {}
        }
    })
}

/// Returns a future that completes at Ctrl-C.
///
/// # Errors
/// None on these systems.
#[cfg(not(unix))]
pub(crate) fn ending() -> Result<impl Future<Output = ()>, Failure> {
    shutdown()
}

#[cfg(unix)]
fn cannot_catch(error: std::io::Error) -> Failure {
    Failure::Failed(format!("cannot install a signal handler: {error}"))
}
