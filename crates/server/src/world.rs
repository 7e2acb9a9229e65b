//! The real world: the system's clock, and numbers that do not come again.

use orrery_model::world::{SPLIT_MIX_STEP, World, split_mix};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Time of the operating system, and random numbers from a sequence that begins anywhere.
#[derive(Debug)]
pub(crate) struct SystemWorld {
    state: AtomicU64,
}

impl SystemWorld {
    /// Numbers of another sequence than all before.
    pub(crate) fn new() -> Self {
        // Random numbers name things and guard nothing: one seed is enough, which costs requests no system call, and the
        // clock may stand in where the system has no randomness.
        let seed =
            getrandom::u64().unwrap_or_else(|_| now_ms() ^ split_mix(std::process::id().into()));
        SystemWorld {
            state: AtomicU64::new(seed),
        }
    }
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    // A clock before 1970 is no clock; time then stands still at its beginning.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

impl World for SystemWorld {
    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn random(&self) -> u64 {
        split_mix(self.state.fetch_add(SPLIT_MIX_STEP, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_after_this_was_written_and_numbers_differ() {
        let world = SystemWorld::new();
        assert!(world.now_ms() > 1_760_000_000_000);
        assert_ne!(world.random(), world.random());
    }
}
