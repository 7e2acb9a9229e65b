//! The account keys are read again at SIGHUP.
//!
//! Promises: a key file that cannot be read or parsed changes nothing.

use crate::address::Listen;
use crate::context::ServerContext;
use crate::failure::Failure;
use crate::keys;
#[cfg(unix)]
use crate::notify;
use orrery_gateway::LogLevel;
use std::path::PathBuf;

/// Reads the account keys again on demand.
pub(crate) struct KeyReloader {
    /// Key file; `None` if the server was started without one.
    pub(crate) key_file: Option<PathBuf>,
    /// Address at which other machines reach the server: there the well-known key is not allowed.
    pub(crate) reachable_by_others: Option<Listen>,
    /// Context with the log and the users of the keys.
    pub(crate) context: ServerContext,
}

impl KeyReloader {
    /// Starts a task that reads the key file again at each SIGHUP. A signal that comes before the
    /// server is announced is served after that.
    ///
    /// # Errors
    /// [`Failure::Failed`] if the system refuses a signal handler.
    #[cfg(unix)]
    pub(crate) fn start(self) -> Result<(), Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut hangup = signal(SignalKind::hangup()).map_err(|error| {
            Failure::Failed(format!("cannot install a signal handler: {error}"))
        })?;
        tokio::spawn(async move {
            self.context.wait_until_announced().await;
            while hangup.recv().await.is_some() {
                notify::reloading();
                self.reload().await;
                notify::ready();
            }
        });
        Ok(())
    }

    /// Starts nothing: this system has no SIGHUP.
    ///
    /// # Errors
    /// None on these systems.
    #[cfg(not(unix))]
    pub(crate) fn start(self) -> Result<(), Failure> {
        Ok(())
    }

    /// Reads the key file and replaces the keys of all gateways. A file that cannot be read or
    /// parsed changes nothing: a mistake in the file must not lock out all clients.
    #[cfg(unix)]
    async fn reload(&self) {
        let key_file = self.key_file.clone();
        let reachable = self.reachable_by_others;
        let reading = tokio::task::spawn_blocking(move || match key_file {
            Some(file) => keys::load(Some(&file), reachable).map_err(|failure| failure.to_string()),
            None => Err("the server was started without --key-file".into()),
        });
        let result = match reading.await {
            Ok(result) => result,
            Err(error) => Err(error.to_string()),
        };
        match result {
            Ok(account_keys) => {
                self.context.key_users.replace(account_keys);
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
