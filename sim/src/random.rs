//! The random choices of a world: numbers that follow from its seed and from nothing else.
//!
//! Leaves out: the random numbers of the engine, which come from its own `SeededWorld`.

use orrery_model::world::SeededNumbers;

/// A sequence of random numbers.
pub(crate) struct Random(SeededNumbers);

impl Random {
    /// Creates the sequence of a seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(SeededNumbers::new(seed))
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// Returns an index of a list of `len` elements.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns true in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the choices.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }
}
