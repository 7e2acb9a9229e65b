//! Signals of the operating system: a request to stop, and a request to read the key file again.

use crate::context::ServerContext;
use crate::keys;
#[cfg(unix)]
use crate::notify;
use orrery_gateway::{Gateway, LogLevel};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Returns a future that completes at SIGTERM or SIGINT (Ctrl-C). The signals are caught from the
/// return of this function on, not from the first poll of the future.
///
/// # Errors
/// The system refuses a signal handler.
#[cfg(unix)]
pub(crate) fn shutdown() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
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
pub(crate) fn shutdown() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            // The system cannot report Ctrl-C. The server then runs until its process is ended.
            std::future::pending::<()>().await;
        }
    })
}

/// Reads the account keys again on demand.
pub(crate) struct KeyReloader {
    /// Gateway that checks signatures with the keys.
    pub(crate) gateway: Arc<Gateway>,
    /// Key file; `None` if the server was started without one.
    pub(crate) key_file: Option<PathBuf>,
    /// Listen address, which decides whether the well-known key is allowed.
    pub(crate) listen: IpAddr,
    /// Context with the log.
    pub(crate) context: ServerContext,
}

impl KeyReloader {
    /// Starts a task that reads the key file again at each SIGHUP; `None` on systems without it.
    ///
    /// # Errors
    /// The system refuses a signal handler.
    #[cfg(unix)]
    pub(crate) fn start(self) -> io::Result<Option<JoinHandle<()>>> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut hangup = signal(SignalKind::hangup())?;
        Ok(Some(tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                notify::reloading();
                self.reload().await;
                notify::ready();
            }
        })))
    }

    /// Starts nothing: this system has no SIGHUP.
    ///
    /// # Errors
    /// None on these systems.
    #[cfg(not(unix))]
    pub(crate) fn start(self) -> io::Result<Option<JoinHandle<()>>> {
        Ok(None)
    }

    /// Reads the key file and replaces the keys of the gateway. A file that cannot be read or
    /// parsed changes nothing: a mistake in the file must not lock out all clients.
    #[cfg(unix)]
    async fn reload(&self) {
        let key_file = self.key_file.clone();
        let listen = self.listen;
        let reading = tokio::task::spawn_blocking(move || match key_file {
            Some(file) => keys::load(Some(&file), listen).map_err(|failure| failure.to_string()),
            None => Err("the server was started without --key-file".into()),
        });
        let result = match reading.await {
            Ok(result) => result,
            Err(error) => Err(error.to_string()),
        };
        match result {
            Ok(account_keys) => {
                self.gateway.replace_keys(account_keys.keys);
                self.context.log(LogLevel::Info, "account keys reloaded");
            }
            Err(cause) => self.context.log_with_cause(
                LogLevel::Error,
                "account keys not reloaded; the previous keys remain in effect",
                &cause,
            ),
        }
    }
}
