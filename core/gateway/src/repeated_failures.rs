//! Failures of work that is tried again and again: the log has each new one, and those that go on
//! once a minute.

use orrery_model::sync::lock;
use std::sync::Mutex;

/// The milliseconds after which a failure that goes on is told again.
const AGAIN_MS: u64 = 60_000;

/// The last failure that the log has.
#[derive(Debug, Default)]
pub struct RepeatedFailures(Mutex<Option<(String, u64)>>);

impl RepeatedFailures {
    /// Returns true if a failure belongs into the log: its cause is another one than that of the
    /// last line, or a minute has passed since. `now_ms` is of a monotonic clock.
    pub fn is_news(&self, cause: &str, now_ms: u64) -> bool {
        let mut last = lock(&self.0);
        if let Some((told, at_ms)) = &*last
            && told == cause
            && now_ms.saturating_sub(*at_ms) < AGAIN_MS
        {
            return false;
        }
        *last = Some((cause.to_owned(), now_ms));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_when_it_begins_and_once_a_minute() {
        let failures = RepeatedFailures::default();
        let told = |cause: &str, seconds: u64| failures.is_news(cause, seconds * 1000);
        assert!(told("no answer", 0));
        assert!(!told("no answer", 59));
        assert!(told("no answer", 60));
        assert!(!told("no answer", 61));
        assert!(told("refused", 62));
        assert!(told("no answer", 63));
    }
}
