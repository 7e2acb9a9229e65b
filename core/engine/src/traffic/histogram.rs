//! Quantiles of many numbers in little memory: counts by class, with eight classes in each power of
//! two.
//!
//! Promises: a quantile is never less than the number that it stands for, and at most an eighth
//! greater, for numbers below 2^34. A greater number counts as that bound.

/// Classes in each octave.
const PARTS: usize = 8;
const PART_BITS: u32 = 3;
const BITS_MOST: u32 = 34;
const CLASSES: usize = (BITS_MOST - PART_BITS + 1) as usize * PARTS;

/// The count of each class of numbers; 1 KiB once a number was added.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Histogram {
    /// Adds a number.
    pub(crate) fn add(&mut self, number: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; CLASSES];
        }
        let count = &mut self.counts[class_of(number)];
        *count = count.saturating_add(1);
        self.total += 1;
    }

    /// Returns the lowest class bound that `percent` of a hundred numbers do not exceed; 0 without
    /// numbers.
    pub(crate) fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.total * percent).div_ceil(100).max(1);
        let mut sum = 0;
        for (class, count) in self.counts.iter().enumerate() {
            sum += u64::from(*count);
            if sum >= wanted {
                return greatest_of(class);
            }
        }
        0
    }
}

/// Returns the class of a number. Numbers below eight have classes of their own; the class of every
/// other number follows from its leading four bits.
fn class_of(number: u64) -> usize {
    let number = number.min((1 << BITS_MOST) - 1);
    let octave = (u64::BITS - number.leading_zeros()).saturating_sub(PART_BITS + 1);
    octave as usize * PARTS + (number >> octave) as usize
}

fn greatest_of(class: usize) -> u64 {
    let octave = (class / PARTS).saturating_sub(1);
    let leading = class - octave * PARTS;
    ((leading as u64 + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_an_eighth(mut numbers in prop::collection::vec(0u64..1 << BITS_MOST, 1..200)) {
            let mut histogram = Histogram::default();
            numbers.iter().for_each(|number| histogram.add(*number));
            numbers.sort_unstable();
            for percent in [1, 50, 95, 99, 100] {
                let truth = numbers[(numbers.len() * percent).div_ceil(100) - 1];
                let found = histogram.percentile(percent as u64);
                prop_assert!(found >= truth && found <= truth + truth / 8, "{} of 100: {} for {}", percent, found, truth);
            }
        }
    }

    #[test]
    fn every_number_lies_in_a_class_and_the_greatest_in_the_last() {
        for number in (0..100).chain([1 << 20, (1 << 34) - 1, u64::MAX]) {
            assert!(class_of(number) < CLASSES, "{number}");
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
        assert_eq!(Histogram::default().percentile(50), 0);
    }
}
