//! Random numbers that follow from a seed.

use orrery_model::world::{SPLIT_MIX_STEP, split_mix};

/// A sequence of random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(split_mix(seed))
    }

    /// Returns a sequence for a part of something, which is independent of the other parts.
    pub(crate) fn of_part(seed: u64, part: &[u8]) -> Random {
        let mix = |number: u64, byte: &u8| split_mix(number ^ u64::from(*byte));
        Random(part.iter().fold(split_mix(seed), mix))
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(SPLIT_MIX_STEP);
        split_mix(self.0) % end
    }
}
