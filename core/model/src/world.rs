//! The interface through which time and randomness reach the engine, so that tests can replay a
//! history from a seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of time and random numbers.
pub trait World: Send + Sync {
    /// Returns the milliseconds since 1970-01-01, UTC.
    fn now_ms(&self) -> u64;

    /// Returns the milliseconds since a moment of the world's choice by a clock that cannot be
    /// set, so that a jump of [`World::now_ms`] can be told from the passing of time. A world
    /// whose clock does not jump has no other clock.
    fn monotonic_ms(&self) -> u64 {
        self.now_ms()
    }

    /// Returns the microseconds of the clock of [`World::monotonic_ms`], to measure what takes less
    /// than a millisecond. A world without a finer clock counts milliseconds.
    fn monotonic_us(&self) -> u64 {
        self.monotonic_ms().saturating_mul(1000)
    }

    /// Returns a random number.
    fn random(&self) -> u64;

    /// Returns the seconds since 1970-01-01, UTC: the unit of `_ts`.
    fn now_seconds(&self) -> u64 {
        self.now_ms() / 1000
    }
}

/// A world whose time is ahead of another world's by an adjustable offset, so that tests can reach
/// events that are days away, such as the expiry of items.
pub struct ShiftedWorld {
    inner: Arc<dyn World>,
    ahead_seconds: AtomicU64,
}

impl ShiftedWorld {
    /// Creates a world with the offset 0.
    pub fn new(inner: Arc<dyn World>) -> Self {
        ShiftedWorld {
            inner,
            ahead_seconds: AtomicU64::new(0),
        }
    }

    /// Returns the offset in seconds.
    pub fn ahead_seconds(&self) -> u64 {
        self.ahead_seconds.load(Ordering::SeqCst)
    }

    /// Raises the offset to `ahead_seconds`. Returns false, and changes nothing, if the offset is
    /// larger already.
    pub fn advance_to(&self, ahead_seconds: u64) -> bool {
        let previous = self
            .ahead_seconds
            .fetch_max(ahead_seconds, Ordering::SeqCst);
        previous <= ahead_seconds
    }

    /// Sets the offset, which may move time back. The caller must make sure that nothing stored
    /// carries a later time.
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

    // The offset is set on purpose, so both clocks move: the move is no jump.
    fn monotonic_ms(&self) -> u64 {
        self.inner
            .monotonic_ms()
            .saturating_add(self.ahead_seconds().saturating_mul(1000))
    }

    fn monotonic_us(&self) -> u64 {
        self.inner
            .monotonic_us()
            .saturating_add(self.ahead_seconds().saturating_mul(1_000_000))
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

/// A world for tests: time moves by [`SeededWorld::advance_ms`] and [`SeededWorld::jump_to_ms`]
/// only, random numbers follow from a seed.
#[derive(Debug)]
pub struct SeededWorld {
    now_ms: AtomicU64,
    monotonic_ms: AtomicU64,
    state: AtomicU64,
}

impl SeededWorld {
    /// Creates a world at `now_ms` whose random numbers follow from `seed`.
    pub fn new(now_ms: u64, seed: u64) -> Self {
        SeededWorld {
            now_ms: AtomicU64::new(now_ms),
            monotonic_ms: AtomicU64::new(0),
            state: AtomicU64::new(seed),
        }
    }

    /// Lets time pass: both clocks move forward.
    pub fn advance_ms(&self, milliseconds: u64) {
        self.monotonic_ms.fetch_add(milliseconds, Ordering::SeqCst);
        self.now_ms.fetch_add(milliseconds, Ordering::SeqCst);
    }

    /// Sets the clock to another time, as a person or a faulty time server may. No time passes.
    pub fn jump_to_ms(&self, now_ms: u64) {
        self.now_ms.store(now_ms, Ordering::SeqCst);
    }
}

impl World for SeededWorld {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        split_mix(self.state.fetch_add(SPLIT_MIX_STEP, Ordering::SeqCst))
    }
}

/// The increment of the SplitMix64 counter for each number.
pub const SPLIT_MIX_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the SplitMix64 output for `counter`: well-mixed bits (Steele, Lea, Flood 2014).
pub fn split_mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(SPLIT_MIX_STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A sequence of random numbers that follow from a seed, for tests and simulations.
pub struct SeededNumbers(u64);

impl SeededNumbers {
    /// Creates the sequence of a seed.
    pub fn new(seed: u64) -> SeededNumbers {
        SeededNumbers(split_mix(seed))
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(SPLIT_MIX_STEP);
        split_mix(self.0) % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifted_time_moves_back_only_by_set() {
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

    #[test]
    fn a_jump_of_the_clock_moves_no_other_clock() {
        let inner = Arc::new(SeededWorld::new(1_000, 1));
        let world = ShiftedWorld::new(inner.clone());
        inner.advance_ms(10);
        inner.jump_to_ms(5_000_000);
        assert_eq!((world.now_ms(), world.monotonic_ms()), (5_000_000, 10));
        assert!(world.advance_to(60));
        assert_eq!((world.now_ms(), world.monotonic_ms()), (5_060_000, 60_010));
    }
}
