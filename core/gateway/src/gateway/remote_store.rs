//! Requests over a store on other machines.
//!
//! A request begins on a thread, because calls of the store wait for other machines, and waits for
//! its commit without one. While a part of the store is away, a request for that part is repeated
//! until its patience is over, and keeps no thread between two attempts.

use super::Gateway;
use crate::call::Call;
use crate::operations::{self, Operation};
use crate::reply::Reply;
use orrery_model::{Error, Kind, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The pause between two attempts of a request that a store on other machines does not take.
const STORE_PAUSE: Duration = Duration::from_millis(100);
/// The longest time until which a store asks for patience with which such a request is repeated.
const SOON_MS: u64 = 1_000;

/// Returns true for the error of a request that had no effect, because a store on other machines is
/// away, and that may succeed soon.
fn may_pass_soon(error: &Error) -> bool {
    let wait = error.retry_after_ms().unwrap_or(u64::MAX);
    error.kind() == Kind::Unavailable && wait <= SOON_MS
}

impl Gateway {
    /// Ends the waits of requests for a store that is away: the process is about to end.
    pub fn end_waits(&self) {
        self.is_impatient.store(true, Ordering::Relaxed);
    }

    /// Returns true after [`Gateway::end_waits`].
    pub fn has_ended_waits(&self) -> bool {
        self.is_impatient.load(Ordering::Relaxed)
    }

    /// Returns true if another gateway answers the requests that the store of this one does not
    /// take.
    pub(super) fn leaves_to_others(&self) -> bool {
        self.remote_store == Some(Duration::ZERO)
    }

    /// Runs an operation over a store on other machines, and again while the store is away for a
    /// moment. The wait keeps no thread, so that the requests for another part of the store go on.
    ///
    /// # Errors
    /// As [`Gateway::run_in_lane`].
    pub(super) async fn run_over_remote_store(
        &self,
        operation: &'static Operation,
        call: &Arc<Call>,
        patience: Duration,
    ) -> Result<Reply> {
        let began = Instant::now();
        loop {
            let reply = self.run_on_thread(operation, call).await?;
            let is_away = reply.error.as_ref().is_some_and(may_pass_soon);
            // A client of the direct mode waits for a shorter time.
            let is_over =
                began.elapsed() >= patience || call.cancel.is_time_over() || self.has_ended_waits();
            if !is_away || is_over {
                return Ok(reply);
            }
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }

    /// Runs an operation on a thread that may wait for other machines, and waits for its commit
    /// without the thread: an engine that takes long for its commits does not keep the threads of
    /// requests for another one.
    ///
    /// # Errors
    /// As [`Gateway::run_in_lane`].
    async fn run_on_thread(
        &self,
        operation: &'static Operation,
        call: &Arc<Call>,
    ) -> Result<Reply> {
        let (engine, own_call) = (self.engine.clone(), call.clone());
        let start = move || operation.start(&engine, &own_call);
        let lane = operation.lane(call);
        let started = self.run_in_lane(lane, operation, call, start).await?;
        Ok(operations::finish(started, &self.engine, call).await)
    }
}
