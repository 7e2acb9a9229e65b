//! Waits of calls that another attempt may pass, and the end of all waits when moves are stopped.

use orrery_model::sync::{lock, wait_timeout};
use orrery_storage::StoreError;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::cluster::retry_after;

/// The longest pause before another attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The request that all moves end.
#[derive(Default)]
pub(crate) struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Ends all waits, the present ones and later ones.
    pub(crate) fn set(&self) {
        *lock(&self.is_set) = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_set(&self) -> bool {
        *lock(&self.is_set)
    }

    fn pause(&self, time: Duration) {
        let guard = lock(&self.is_set);
        if !*guard {
            drop(wait_timeout(&self.changed, guard, time));
        }
    }
}

/// The time within which attempts are repeated, counted from its creation.
pub(crate) struct Patience<'a> {
    stop: Option<&'a Stop>,
    until: Instant,
}

impl<'a> Patience<'a> {
    /// Creates a patience of this length that ends early when `stop` is set.
    pub(crate) fn of(time: Duration, stop: &'a Stop) -> Patience<'a> {
        Patience {
            stop: Some(stop),
            until: Instant::now() + time,
        }
    }

    /// Creates a patience that ends with its time only.
    pub(crate) fn alone(time: Duration) -> Patience<'static> {
        Patience {
            stop: None,
            until: Instant::now() + time,
        }
    }

    /// Waits before another attempt. Returns false if there is to be none.
    pub(crate) fn wait(&self, retry_ms: u64) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() || self.stop.is_some_and(Stop::is_set) {
            return false;
        }
        let pause = Duration::from_millis(retry_ms.max(1)).min(LONGEST_PAUSE);
        match self.stop {
            Some(stop) => stop.pause(pause.min(left)),
            None => Stop::default().pause(pause.min(left)),
        }
        true
    }

    /// Repeats a call while its error says that another attempt may pass.
    ///
    /// # Errors
    /// The last error of the call.
    pub(crate) fn repeat<T>(
        &self,
        mut call: impl FnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            let error = match call() {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match retry_after(&error) {
                Some(ms) if self.wait(ms) => {}
                _ => return Err(error),
            }
        }
    }
}
