//! The seams through which time and randomness reach the core, so that a history can be replayed from a seed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where time and randomness come from.
pub trait World: Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> u64;

    /// A random number.
    fn random(&self) -> u64;

    /// Seconds since 1970, UTC: the scale of `_ts`.
    fn now_seconds(&self) -> u64 {
        self.now_ms() / 1000
    }
}

/// A world for tests: time moves when told, randomness comes from a seed.
#[derive(Debug)]
pub struct SeededWorld {
    now_ms: AtomicU64,
    state: AtomicU64,
}

impl SeededWorld {
    /// A world at `now_ms` whose random numbers follow from `seed`.
    pub fn new(now_ms: u64, seed: u64) -> Self {
        SeededWorld { now_ms: AtomicU64::new(now_ms), state: AtomicU64::new(seed) }
    }

    /// Moves time on.
    pub fn advance_ms(&self, milliseconds: u64) {
        self.now_ms.fetch_add(milliseconds, Ordering::SeqCst);
    }
}

impl World for SeededWorld {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        split_mix(self.state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::SeqCst))
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014): turns a counter into well-mixed bits.
pub fn split_mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
