//! Connections that are kept for the next use, with a bound on how many there are.

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
