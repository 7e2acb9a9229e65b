//! The real world: the system's clock and its source of randomness.

use orrery_model::world::{World, split_mix};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Time and randomness of the operating system.
#[derive(Debug, Default)]
pub(crate) struct SystemWorld {
    calls: AtomicU64,
}

impl World for SystemWorld {
    fn now_ms(&self) -> u64 {
        // A clock before 1970 is no clock; time then stands still at its beginning.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    fn random(&self) -> u64 {
        // Random numbers name things and guard nothing, so that the clock may stand in where the system has none.
        getrandom::u64().unwrap_or_else(|_| {
            let calls = self.calls.fetch_add(1, Ordering::Relaxed);
            split_mix(self.now_ms() ^ split_mix(calls ^ u64::from(std::process::id())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_after_this_was_written_and_numbers_differ() {
        let world = SystemWorld::default();
        assert!(world.now_ms() > 1_760_000_000_000);
        assert_ne!(world.random(), world.random());
    }
}
