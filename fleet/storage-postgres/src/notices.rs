//! The warnings of a server on one connection, and the statement that each belongs to.
//!
//! A server whose wait for its standbys is cancelled answers `COMMIT` with success and a warning,
//! so a warning at `COMMIT` is a doubt, and a warning before is none. A warning has no mark of its
//! statement. The connection therefore stops at a warning until the transaction has taken all
//! answers that came before the warning.

use std::sync::{Arc, Mutex};

use orrery_model::sync::lock;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::error::{DbError, Severity};

/// The most warnings that are kept.
const MOST_KEPT: usize = 10;

/// A warning, and the right to read on: the connection goes on when the warning is dropped.
pub(crate) struct Warning {
    pub(crate) text: String,
    _read_on: oneshot::Sender<()>,
}

/// The warnings of one connection.
#[derive(Default)]
pub(crate) struct Warnings {
    /// Warnings to which no transaction listened.
    kept: Mutex<Vec<String>>,
    listener: Mutex<Option<mpsc::UnboundedSender<Warning>>>,
}

impl Warnings {
    /// Takes a notice of the server. Waits for the transaction that listens.
    pub(crate) async fn take(&self, notice: &DbError) {
        // Other engines send notices of no importance. A severity that is not known is taken
        // for a warning.
        if matches!(
            notice.parsed_severity(),
            Some(Severity::Notice | Severity::Info | Severity::Log | Severity::Debug)
        ) {
            return;
        }
        let text = format!("{}: {}", notice.severity(), notice.message());
        let listener = lock(&self.listener).clone();
        let Some(listener) = listener else {
            let mut kept = lock(&self.kept);
            // Connections that read have no use for warnings.
            kept.truncate(MOST_KEPT - 1);
            return kept.push(text);
        };
        let (sender, receiver) = oneshot::channel();
        let warning = Warning {
            text,
            _read_on: sender,
        };
        if listener.send(warning).is_ok() {
            // Ends with an error in every case: the sender is dropped.
            let _ = receiver.await;
        }
    }

    /// Returns the warnings that were kept since the last call.
    pub(crate) fn kept(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.kept))
    }

    /// Hands the warnings that come from now on to the caller, until the result is dropped.
    pub(crate) fn listen(self: &Arc<Self>) -> Listener {
        let (sender, receiver) = mpsc::unbounded_channel();
        *lock(&self.listener) = Some(sender);
        Listener {
            warnings: self.clone(),
            receiver,
        }
    }
}

/// The receiver of the warnings of a connection.
pub(crate) struct Listener {
    warnings: Arc<Warnings>,
    receiver: mpsc::UnboundedReceiver<Warning>,
}

impl Listener {
    /// Waits for the next warning.
    pub(crate) async fn next(&mut self) -> Warning {
        match self.receiver.recv().await {
            Some(warning) => warning,
            // The sender lives as long as the listener, so this never comes.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        *lock(&self.warnings.listener) = None;
    }
}
