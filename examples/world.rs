//! The `World` of the examples: the machine's clock and a seeded source of random numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use orrery_model::world::{SPLIT_MIX_STEP, World, split_mix};

/// Time of the machine, and random numbers that follow from the time at the start.
///
/// The engine takes time and randomness from its [`World`] alone, so that a test can replay a
/// history. The random numbers make resource ids unique; they are no secrets.
pub(crate) struct MachineWorld {
    counter: AtomicU64,
}

impl MachineWorld {
    /// Creates a world whose random numbers differ from run to run.
    pub(crate) fn new() -> MachineWorld {
        MachineWorld {
            counter: AtomicU64::new(now_ms()),
        }
    }
}

impl World for MachineWorld {
    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn random(&self) -> u64 {
        split_mix(self.counter.fetch_add(SPLIT_MIX_STEP, Ordering::Relaxed))
    }
}

/// Returns milliseconds since 1970, UTC; 0 if the clock of the machine stands before 1970.
#[expect(clippy::disallowed_methods, reason = "this is a World")]
fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}
