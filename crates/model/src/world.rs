//! The seams through which time and randomness reach the core, so that a history can be replayed from a seed.

use std::sync::Arc;
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

/// A world whose time is ahead of another's by an offset that can be raised, so that what takes days can be tried now.
pub struct ShiftedWorld {
    inner: Arc<dyn World>,
    ahead_seconds: AtomicU64,
}

impl ShiftedWorld {
    /// A world that is not ahead yet.
    pub fn new(inner: Arc<dyn World>) -> Self {
        ShiftedWorld {
            inner,
            ahead_seconds: AtomicU64::new(0),
        }
    }

    /// Seconds by which it is ahead.
    pub fn ahead_seconds(&self) -> u64 {
        self.ahead_seconds.load(Ordering::SeqCst)
    }

    /// Moves time on until it is ahead by so much; whether that is on and not back. Nothing changes if it is back.
    pub fn advance_to(&self, ahead_seconds: u64) -> bool {
        self.ahead_seconds
            .fetch_max(ahead_seconds, Ordering::SeqCst)
            <= ahead_seconds
    }

    /// Sets time, back too. The caller promises that nothing is left that was told a later time.
    pub fn set(&self, ahead_seconds: u64) {
        self.ahead_seconds.store(ahead_seconds, Ordering::SeqCst);
    }
}

impl World for ShiftedWorld {
    fn now_ms(&self) -> u64 {
        self.inner
            .now_ms()
            .saturating_add(self.ahead_seconds().saturating_mul(1000))
    }

    fn random(&self) -> u64 {
        self.inner.random()
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
        SeededWorld {
            now_ms: AtomicU64::new(now_ms),
            state: AtomicU64::new(seed),
        }
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
        split_mix(self.state.fetch_add(SPLIT_MIX_STEP, Ordering::SeqCst))
    }
}

/// By how much the counter of SplitMix64 goes on for each number.
pub const SPLIT_MIX_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of SplitMix64 (Steele, Lea, Flood 2014): turns a counter into well-mixed bits.
pub fn split_mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(SPLIT_MIX_STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifted_time_goes_on_and_never_back_unless_set() {
        let inner = Arc::new(SeededWorld::new(1_000, 1));
        let world = ShiftedWorld::new(inner.clone());
        assert_eq!(world.now_ms(), 1_000);
        assert!(world.advance_to(5) && world.advance_to(5));
        assert!(!world.advance_to(4));
        inner.advance_ms(500);
        assert_eq!((world.ahead_seconds(), world.now_ms()), (5, 6_500));
        world.set(0);
        assert_eq!(world.now_ms(), 1_500);
    }
}
