//! Requests by their kind: count and charge, what replacements changed, and a sample of the items.
//!
//! Promises: memory is bounded by [`SAMPLED`] item numbers for each kind. An item is kept by its
//! number in the container; no value of a request is kept.

use crate::request::{Charge, OperationKind, RecordedOperations};
use orrery_model::world::split_mix;

/// Item numbers that are kept of each kind.
const SAMPLED: usize = 512;

/// A random sample of a stream, in which recent elements are more likely than old ones.
///
/// The first elements are all kept. Later ones replace a random one with a probability that falls
/// to one in [`Sample::FADING`], so that a change of the traffic shows after a while.
#[derive(Debug)]
pub(crate) struct Sample<T> {
    seen: u64,
    kept: Vec<T>,
}

impl<T> Default for Sample<T> {
    fn default() -> Self {
        Sample {
            seen: 0,
            kept: Vec::new(),
        }
    }
}

impl<T> Sample<T> {
    /// The lowest probability of an element is one in so many.
    const FADING: u64 = 16;

    /// Adds the element that `make` returns, or passes it over.
    pub(crate) fn add(&mut self, size: usize, make: impl FnOnce() -> T) {
        self.seen += 1;
        if self.kept.len() < size {
            self.kept.push(make());
            return;
        }
        let among = self.seen.min(size as u64 * Self::FADING);
        let drawn = split_mix(self.seen) % among;
        if let Some(slot) = self.kept.get_mut(drawn as usize) {
            *slot = make();
        }
    }

    /// Returns the kept elements.
    pub(crate) fn kept(&self) -> &[T] {
        &self.kept
    }
}

/// A request that was carried out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OperationRun {
    /// The charge.
    pub charge: Charge,
    /// The number of the item, if the request found or wrote one.
    pub item: Option<u64>,
    /// The changes of a replacement.
    pub replacement: Option<Replacement>,
}

/// The changes of a replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replacement {
    /// Index entries removed and added.
    pub changed_terms: u32,
    /// Operations of the patch; 0 for a plain replacement.
    pub patch_operations: u32,
}

/// The requests of a container by their kind.
#[derive(Debug, Default)]
pub(crate) struct Operations([Sums; OperationKind::ALL.len()]);

#[derive(Debug, Default)]
struct Sums {
    count: u64,
    charge: u64,
    replaced: u64,
    changed_terms: u64,
    patch_operations: u64,
    items: Sample<u64>,
}

impl Operations {
    /// Adds a request.
    pub(crate) fn add(&mut self, kind: OperationKind, run: OperationRun) {
        let sums = &mut self.0[kind as usize];
        sums.count += 1;
        sums.charge += run.charge.0;
        if let Some(replacement) = run.replacement {
            sums.replaced += 1;
            sums.changed_terms += u64::from(replacement.changed_terms);
            sums.patch_operations += u64::from(replacement.patch_operations);
        }
        if let Some(item) = run.item {
            sums.items.add(SAMPLED, || item);
        }
    }

    /// Returns the kinds that occurred.
    pub(crate) fn recorded(&self) -> Vec<(OperationKind, RecordedOperations)> {
        let mut recorded = Vec::new();
        for (kind, sums) in OperationKind::ALL.into_iter().zip(&self.0) {
            if sums.count > 0 {
                let operations = RecordedOperations {
                    count: sums.count,
                    charge: Charge(sums.charge),
                    replaced: sums.replaced,
                    changed_terms: sums.changed_terms,
                    patch_operations: sums.patch_operations,
                    items: sums.items.kept().to_vec(),
                };
                recorded.push((kind, operations));
            }
        }
        recorded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_bounded_and_prefers_recent_elements() {
        let mut sample = Sample::default();
        (0..200_000u64).for_each(|n| sample.add(100, || n));
        assert_eq!(sample.kept().len(), 100);
        let recent = sample.kept().iter().filter(|n| **n >= 190_000).count();
        assert!(recent > 90, "{recent}");
    }

    #[test]
    fn a_short_stream_is_sampled_evenly() {
        let mut sample = Sample::default();
        (0..1_000u64).for_each(|n| sample.add(100, || n));
        let early = sample.kept().iter().filter(|n| **n < 500).count();
        assert!((30..70).contains(&early), "{early}");
    }

    #[test]
    fn requests_are_summed_by_kind() {
        let mut operations = Operations::default();
        let run = OperationRun {
            charge: Charge(100),
            item: Some(7),
            replacement: None,
        };
        operations.add(OperationKind::PointRead, run);
        operations.add(OperationKind::PointRead, OperationRun { item: None, ..run });
        let replacement = Some(Replacement {
            changed_terms: 4,
            patch_operations: 2,
        });
        operations.add(OperationKind::Patch, OperationRun { replacement, ..run });
        let recorded = operations.recorded();
        let [(first, reads), (second, patches)] = &recorded[..] else {
            panic!("{recorded:?}");
        };
        assert_eq!(
            (*first, *second),
            (OperationKind::PointRead, OperationKind::Patch)
        );
        assert_eq!(
            (reads.count, reads.charge, &reads.items[..]),
            (2, Charge(200), &[7][..])
        );
        assert_eq!(
            (
                patches.replaced,
                patches.changed_terms,
                patches.patch_operations
            ),
            (1, 4, 2)
        );
    }
}
