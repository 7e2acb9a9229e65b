//! Quantiles of many numbers in little memory: the numbers themselves while they are few, then
//! counts by class, with eight classes in each power of two.
//!
//! Promises: a quantile of fewer than [`EXACT`] numbers is one of them. A quantile of more is never
//! less than the number that it stands for, at most an eighth greater, and never greater than the
//! greatest number, for numbers below 2^34. A greater number counts as that bound.

/// So many numbers are kept as they are.
const EXACT: usize = 100;

/// Classes in each octave.
const PARTS: usize = 8;
const PART_BITS: u32 = 3;
const BITS_MOST: u32 = 34;
const CLASSES: usize = (BITS_MOST - PART_BITS + 1) as usize * PARTS;

/// Numbers: a sorted list while there are fewer than [`EXACT`], then the count of each class, which
/// takes 1 KiB.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    exact: Vec<u64>,
    counts: Vec<u32>,
    total: u64,
    greatest: u64,
}

impl Histogram {
    /// Adds a number.
    pub(crate) fn add(&mut self, number: u64) {
        self.total += 1;
        self.greatest = self.greatest.max(number);
        if self.counts.is_empty() {
            let at = self.exact.partition_point(|known| *known <= number);
            self.exact.insert(at, number);
            if self.exact.len() < EXACT {
                return;
            }
            self.counts = vec![0; CLASSES];
            for number in std::mem::take(&mut self.exact) {
                self.count(number);
            }
            return;
        }
        self.count(number);
    }

    fn count(&mut self, number: u64) {
        let count = &mut self.counts[class_of(number)];
        *count = count.saturating_add(1);
    }

    /// Returns the number that `percent` of a hundred numbers do not exceed, or the lowest class
    /// bound above; 0 without numbers.
    pub(crate) fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.total * percent).div_ceil(100).max(1);
        if self.counts.is_empty() {
            let at = usize::try_from(wanted - 1).unwrap_or(usize::MAX);
            return self.exact.get(at).copied().unwrap_or(0);
        }
        let mut sum = 0;
        for (class, count) in self.counts.iter().enumerate() {
            sum += u64::from(*count);
            if sum >= wanted {
                return greatest_of(class).min(self.greatest);
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
    fn quantiles_of_few_numbers_are_exact() {
        let mut histogram = Histogram::default();
        // A request of 1.3 ms has a median of 1.3 ms.
        histogram.add(1_300);
        assert_eq!(histogram.percentile(50), 1_300);
        for number in 1..EXACT as u64 - 1 {
            histogram.add(10_000 + number);
        }
        assert_eq!(histogram.percentile(50), 10_049);
        assert_eq!(histogram.percentile(99), 10_098);
        // From here on numbers are counted by class, and no quantile is above the greatest.
        histogram.add(20_000);
        assert!((10_049..=11_304).contains(&histogram.percentile(50)));
        assert_eq!(histogram.percentile(100), 20_000);
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
