//! Connections that are kept for the next use, with a bound on how many there are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use orrery_model::sync::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connector::{Connector, Purpose, Session};

/// Connections of one purpose.
pub(crate) struct Pool {
    connector: Arc<Connector>,
    purpose: Purpose,
    idle: Mutex<Vec<Session>>,
    permits: Arc<Semaphore>,
    /// Callers that wait for a place.
    waiting: AtomicUsize,
}

/// The right to one connection of a pool. Dropping the place gives the right back.
pub(crate) struct Place {
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(connector: Arc<Connector>, purpose: Purpose, most: usize) -> Arc<Pool> {
        Arc::new(Pool {
            connector,
            purpose,
            idle: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(most)),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Waits until there are fewer connections in use than the pool may have.
    pub(crate) async fn place(self: &Arc<Self>) -> Result<Place, String> {
        let permit = self.permits.clone().acquire_owned().await;
        Ok(Place {
            pool: self.clone(),
            _permit: permit.map_err(|_| "the store was closed".to_owned())?,
        })
    }

    /// Returns a place if there are fewer connections in use than the pool may have.
    pub(crate) fn free_place(self: &Arc<Self>) -> Option<Place> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        Some(Place {
            pool: self.clone(),
            _permit: permit,
        })
    }

    /// Counts a caller as waiting until the result is dropped.
    pub(crate) fn wait_for_place(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(self.clone())
    }

    /// Returns true if a caller waits for a place.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }
}

/// A caller that waits for a place.
pub(crate) struct Waiting(Arc<Pool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Place {
    /// Returns a connection that was used before, or a new one.
    ///
    /// # Errors
    /// A sentence with the reason of each server.
    pub(crate) async fn session(&self) -> Result<Session, String> {
        while let Some(session) = lock(&self.pool.idle).pop() {
            if self.pool.connector.is_trusted(&session) {
                return Ok(session);
            }
        }
        self.pool.connector.connect(self.pool.purpose).await
    }

    /// Keeps a connection for the next use. The connection is in no transaction.
    pub(crate) fn give_back(&self, session: Session) {
        if self.pool.connector.is_trusted(&session) {
            lock(&self.pool.idle).push(session);
        }
    }
}
