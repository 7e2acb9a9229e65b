//! The system's clock and random numbers.

use orrery_model::world::{SPLIT_MIX_STEP, World, split_mix};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The clock of the operating system, and random numbers from a sequence with a random seed.
///
/// The random numbers serve as identifiers, never as secrets. One seed from the system is therefore
/// enough, and requests need no system call for a random number.
#[derive(Debug)]
pub struct SystemWorld {
    started: Instant,
    state: AtomicU64,
}

impl SystemWorld {
    /// Creates a world with a new random seed.
    #[expect(clippy::disallowed_methods, reason = "this is the World of the server")]
    pub fn new() -> Self {
        // Without randomness from the system the time and the process id make a seed.
        let seed =
            getrandom::u64().unwrap_or_else(|_| now_ms() ^ split_mix(std::process::id().into()));
        SystemWorld {
            started: Instant::now(),
            state: AtomicU64::new(seed),
        }
    }
}

impl Default for SystemWorld {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the system's time in milliseconds since 1970-01-01 UTC, or 0 if its clock is set to an
/// earlier time.
fn now_ms() -> u64 {
    now_ns() / 1_000_000
}

/// Returns the system's time in nanoseconds since 1970-01-01 UTC, or 0 if its clock is set to an
/// earlier time.
#[expect(clippy::disallowed_methods, reason = "this is the World of the server")]
pub(crate) fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

impl World for SystemWorld {
    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn monotonic_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn monotonic_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn random(&self) -> u64 {
        split_mix(self.state.fetch_add(SPLIT_MIX_STEP, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_plausible_and_random_numbers_differ() {
        let world = SystemWorld::new();
        assert!(world.now_ms() > 1_760_000_000_000);
        assert_ne!(world.random(), world.random());
    }
}
