//! A time in which no server of a cluster can be used.
//!
//! The first caller that finds no server begins a search: one task tries the servers until one of
//! them can be used. Other callers wait for the end of the search, and each call of the store gives
//! up after [`PATIENCE`] while the search goes on. So the callers of a cluster that is away hold
//! threads and places of pools for about a second, and do not stop the callers of other clusters.
//! A caller that wants to wait longer for a failover calls again.
//!
//! A cluster whose primary accepts connections may still not answer commits, as without the standby
//! that a commit waits for. Such a *stall* has a search of its own, which ends with a commit; reads
//! go on meanwhile.

use orrery_model::sync::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The time that a call gives to a cluster that is away, and the time for which the cluster must be
/// away before a call gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The search for a server that can be used.
pub(crate) struct Outage {
    patience: Duration,
    state: Mutex<Option<Search>>,
    ended: Notify,
}

impl Default for Outage {
    fn default() -> Self {
        Outage {
            patience: PATIENCE,
            state: Mutex::default(),
            ended: Notify::default(),
        }
    }
}

struct Search {
    began: Instant,
    /// The last reason for which no server could be used.
    reason: String,
}

impl Outage {
    /// Notes why no server could be used. Returns true if that begins an outage: the caller then
    /// searches until [`Outage::end`].
    pub(crate) fn note(&self, reason: String) -> bool {
        let mut state = lock(&self.state);
        let began = state.as_ref().map(|search| search.began);
        *state = Some(Search {
            began: began.unwrap_or_else(Instant::now),
            reason,
        });
        began.is_none()
    }

    /// Ends the outage, and wakes the callers that wait. Returns its length, if there was one.
    pub(crate) fn end(&self) -> Option<Duration> {
        let search = lock(&self.state).take()?;
        self.ended.notify_waiters();
        Some(search.began.elapsed())
    }

    /// Returns the reason while there is an outage.
    pub(crate) fn reason(&self) -> Option<String> {
        lock(&self.state)
            .as_ref()
            .map(|search| search.reason.clone())
    }

    /// Returns the reason of an outage that has lasted for so long.
    pub(crate) fn reason_since(&self, least: Duration) -> Option<String> {
        let state = lock(&self.state);
        let search = state.as_ref()?;
        (search.began.elapsed() >= least).then(|| search.reason.clone())
    }

    /// Returns true for a call that has waited for long enough, as has the search.
    pub(crate) fn is_over(&self, waited: Duration) -> bool {
        waited >= self.patience && self.reason_since(self.patience).is_some()
    }

    /// Waits for the end of the outage, for [`PATIENCE`] at most.
    ///
    /// # Errors
    /// The reason, if the outage goes on.
    pub(crate) async fn wait(&self) -> Result<(), String> {
        // Made before the look, so that an end between the look and the wait is not missed.
        let ended = self.ended.notified();
        if lock(&self.state).is_none() {
            return Ok(());
        }
        // A new outage may have begun after the end.
        let _ = timeout(self.patience, ended).await;
        self.reason().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn callers_wait_for_the_end_of_an_outage_for_a_while() {
        let waited = Duration::from_secs(5);
        let mut outage = Outage {
            patience: Duration::ZERO,
            ..Outage::default()
        };
        assert_eq!(outage.wait().await, Ok(()));
        assert!(!outage.is_over(waited), "there is none");
        assert!(outage.note("refused".to_owned()));
        assert!(!outage.note("no answer".to_owned()), "it has begun already");
        assert!(outage.is_over(waited));
        assert_eq!(outage.wait().await, Err("no answer".to_owned()));
        outage.patience = Duration::from_secs(60);
        assert!(!outage.is_over(waited), "the call has not waited for long");
        assert!(
            !outage.is_over(2 * outage.patience),
            "it has begun just now"
        );
        let (waited, length) = tokio::join!(outage.wait(), async { outage.end() });
        assert_eq!(waited, Ok(()));
        assert!(length.is_some());
        assert_eq!(outage.end(), None);
    }
}
