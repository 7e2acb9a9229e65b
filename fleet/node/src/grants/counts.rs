//! The numbers of grants that a leaseholder has begun and ended.
//!
//! The log has each grant at level debug, and a sum at level info, because a change of the catalog
//! takes all partitions back.

use orrery_model::sync::lock;
use std::sync::Mutex;

/// Milliseconds between two sums in the log.
const PERIOD_MS: u64 = 10_000;

/// The numbers since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrantCounts {
    /// Partitions that were given to other nodes.
    pub granted: u64,
    /// Partitions that their owners gave back.
    pub returned: u64,
    /// Partitions that were taken back from owners that did not give them back.
    pub expired: u64,
}

/// The counters of a leaseholder.
#[derive(Default)]
pub(super) struct Counters {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: GrantCounts,
    /// The last sum in the log, and its time.
    told: GrantCounts,
    told_ms: Option<u64>,
}

impl Counters {
    pub(super) fn counts(&self) -> GrantCounts {
        lock(&self.state).now
    }

    pub(super) fn note(&self, change: impl FnOnce(&mut GrantCounts)) {
        change(&mut lock(&self.state).now);
    }

    /// Returns the line for the log, if something has changed and the last line is old enough.
    /// Other nodes own `owned` partitions now.
    pub(super) fn news(&self, owned: usize, now_ms: u64) -> Option<String> {
        let mut state = lock(&self.state);
        let State { now, told, told_ms } = *state;
        let is_due = told_ms.is_none_or(|told_ms| now_ms >= told_ms + PERIOD_MS);
        if now == told || !is_due {
            return None;
        }
        (state.told, state.told_ms) = (now, Some(now_ms));
        Some(format!(
            "other nodes own {owned} partitions: {} were given to them since the last such line, \
             {} were given back, and {} were taken back from nodes that did not answer",
            now.granted - told.granted,
            now.returned - told.returned,
            now.expired - told.expired
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_told_in_sums() {
        let counters = Counters::default();
        assert_eq!(counters.news(0, 0), None);
        counters.note(|counts| counts.granted += 2);
        let line = counters.news(2, 100).expect("news");
        assert!(
            line.starts_with("other nodes own 2 partitions: 2 were given"),
            "{line}"
        );
        counters.note(|counts| counts.expired += 1);
        assert_eq!(counters.news(1, 100 + PERIOD_MS - 1), None);
        let line = counters.news(1, 100 + PERIOD_MS).expect("news");
        assert!(
            line.contains("0 were given back, and 1 were taken back"),
            "{line}"
        );
        assert_eq!(counters.news(1, 100 + 3 * PERIOD_MS), None);
    }
}
