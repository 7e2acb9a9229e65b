//! The settings that decide which requests are recorded. They are read for every request, so they
//! are atomics.

use super::RecordReason;
use orrery_engine::request::Charge;
use std::sync::atomic::{AtomicU64, Ordering};

/// The charge from which a request is recorded, in hundredths of a request unit.
const MIN_CHARGE: u64 = 5_000;
/// The duration from which a request is recorded, in microseconds.
const MIN_MICROSECONDS: u64 = 100_000;
/// The time for which a reader who follows is followed, in milliseconds.
const FOLLOW_MS: u64 = 30_000;

/// The settings, as atomics.
#[derive(Debug)]
pub(super) struct Thresholds {
    min_charge: AtomicU64,
    min_microseconds: AtomicU64,
    /// The time until which all requests are recorded, in milliseconds since 1970; 0 for none.
    all_until_ms: AtomicU64,
}

/// The settings of the request log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The charge from which a request is recorded.
    pub min_charge: Charge,
    /// The duration from which a request is recorded, in microseconds.
    pub min_microseconds: u64,
    /// The time until which all requests are recorded, in milliseconds since 1970; 0 for none.
    pub all_until_ms: u64,
}

/// A change of the settings. A member that is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct SettingsChange {
    /// The charge from which a request is recorded.
    pub min_charge: Option<Charge>,
    /// The duration from which a request is recorded, in microseconds.
    pub min_microseconds: Option<u64>,
    /// The milliseconds from now on for which all requests are recorded; 0 ends it.
    pub all_for_ms: Option<u64>,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            min_charge: AtomicU64::new(MIN_CHARGE),
            min_microseconds: AtomicU64::new(MIN_MICROSECONDS),
            all_until_ms: AtomicU64::new(0),
        }
    }
}

impl Thresholds {
    /// Returns the reason for which a request is recorded; `None` if it is not.
    pub(super) fn reason(
        &self,
        status: u16,
        charge: Charge,
        microseconds: u64,
        now_ms: impl FnOnce() -> u64,
    ) -> Option<RecordReason> {
        if status == 429 {
            return Some(RecordReason::Throttled);
        }
        // Status 0 is a request that a fault rule left without an answer.
        if status >= 400 || status == 0 {
            return Some(RecordReason::Failed);
        }
        if charge.0 >= self.min_charge.load(Ordering::Relaxed) {
            return Some(RecordReason::Expensive);
        }
        if microseconds >= self.min_microseconds.load(Ordering::Relaxed) {
            return Some(RecordReason::Slow);
        }
        let until_ms = self.all_until_ms.load(Ordering::Relaxed);
        if until_ms == 0 {
            return None;
        }
        if until_ms > now_ms() {
            return Some(RecordReason::Followed);
        }
        // The clock need not be read for the next request. A reader who has come in between wins.
        let _ =
            self.all_until_ms
                .compare_exchange(until_ms, 0, Ordering::Relaxed, Ordering::Relaxed);
        None
    }

    pub(super) fn read(&self) -> RecordSettings {
        RecordSettings {
            min_charge: Charge(self.min_charge.load(Ordering::Relaxed)),
            min_microseconds: self.min_microseconds.load(Ordering::Relaxed),
            all_until_ms: self.all_until_ms.load(Ordering::Relaxed),
        }
    }

    pub(super) fn change(&self, change: SettingsChange, now_ms: u64) {
        if let Some(charge) = change.min_charge {
            self.min_charge.store(charge.0, Ordering::Relaxed);
        }
        if let Some(microseconds) = change.min_microseconds {
            self.min_microseconds.store(microseconds, Ordering::Relaxed);
        }
        match change.all_for_ms {
            None => {}
            Some(0) => self.all_until_ms.store(0, Ordering::Relaxed),
            Some(time) => {
                let until_ms = now_ms.saturating_add(time);
                self.all_until_ms.store(until_ms, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn follow(&self, now_ms: u64) {
        let until_ms = now_ms.saturating_add(FOLLOW_MS);
        self.all_until_ms.fetch_max(until_ms, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(thresholds: &Thresholds, charge: u64, now_ms: u64) -> Option<RecordReason> {
        thresholds.reason(200, Charge(charge), 10, || now_ms)
    }

    #[test]
    fn failed_throttled_expensive_and_slow_requests_are_recorded() {
        let thresholds = Thresholds::default();
        let never = || panic!("the clock is not needed");
        let of = |status, charge, microseconds| {
            thresholds.reason(status, Charge(charge), microseconds, never)
        };
        assert_eq!(of(200, 100, 500), None);
        assert_eq!(of(304, 100, 500), None);
        assert_eq!(of(200, MIN_CHARGE, 500), Some(RecordReason::Expensive));
        assert_eq!(of(200, 100, MIN_MICROSECONDS), Some(RecordReason::Slow));
        assert_eq!(of(429, MIN_CHARGE, 0), Some(RecordReason::Throttled));
        assert_eq!(of(404, 100, 0), Some(RecordReason::Failed));
        assert_eq!(of(0, 100, 0), Some(RecordReason::Failed));
    }

    #[test]
    fn all_requests_are_recorded_for_a_limited_time() {
        let thresholds = Thresholds::default();
        let all = SettingsChange {
            all_for_ms: Some(1_000),
            ..SettingsChange::default()
        };
        thresholds.change(all, 5_000);
        assert_eq!(reason(&thresholds, 1, 5_999), Some(RecordReason::Followed));
        assert_eq!(reason(&thresholds, 1, 6_000), None);
        assert_eq!(thresholds.read().all_until_ms, 0);

        thresholds.follow(7_000);
        thresholds.change(SettingsChange::default(), 7_000);
        assert_eq!(reason(&thresholds, 1, 36_999), Some(RecordReason::Followed));
        let none = SettingsChange {
            all_for_ms: Some(0),
            ..SettingsChange::default()
        };
        thresholds.change(none, 8_000);
        assert_eq!(reason(&thresholds, 1, 8_000), None);
    }

    #[test]
    fn a_change_leaves_the_other_settings() {
        let thresholds = Thresholds::default();
        let change = SettingsChange {
            min_charge: Some(Charge(700)),
            ..SettingsChange::default()
        };
        thresholds.change(change, 0);
        let settings = thresholds.read();
        assert_eq!(settings.min_charge, Charge(700));
        assert_eq!(settings.min_microseconds, MIN_MICROSECONDS);
        assert_eq!(reason(&thresholds, 700, 0), Some(RecordReason::Expensive));
    }
}
