//! Random choices. Equal seeds give equal choices.

/// A generator (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator. The first number of the seed becomes the state: seeds that are close to
    /// each other would otherwise give parts of one sequence.
    pub(crate) fn new(seed: u64) -> Self {
        let state = Self(!seed).next();
        Self(state)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to 1, exclusive.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.fraction() * end as f64) as usize
    }

    /// Returns an element of a list that is not empty.
    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        let index = self.below(list.len());
        &list[index]
    }

    /// Returns a name with a probability in proportion to its weight.
    pub(crate) fn pick_weighted(&mut self, list: &[(&'static str, u32)]) -> &'static str {
        let sum: u32 = list.iter().map(|(_, weight)| weight).sum();
        let mut rest = self.below(sum as usize) as u32;
        for (name, weight) in list {
            if rest < *weight {
                return name;
            }
            rest -= weight;
        }
        list[0].0
    }
}
