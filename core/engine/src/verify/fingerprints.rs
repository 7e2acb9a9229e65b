//! Sums of the digests of rows, by item.
//!
//! Items share buckets by their numbers. Each bucket has two sums: of the rows that follow from its
//! items, and of the rows that are there. A sum does not depend on the order of its rows, so rows
//! are added in the order in which they are read. Two sums that are equal mean, but for a chance of
//! about 2^-128, the same rows.

use crate::partition::keys::ItemNumber;
use orrery_model::partition_key::murmur3_128;
use std::collections::HashMap;
use std::collections::HashSet;

/// Buckets of items.
const BUCKETS: usize = 1 << 14;

/// The digest of a row.
type Digest = u128;

/// The side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Rows that follow from items.
    Expected,
    /// Rows that are there.
    Stored,
}

/// The sums of both sides.
pub(super) struct Fingerprints {
    expected: Vec<Digest>,
    stored: Vec<Digest>,
}

impl Fingerprints {
    pub(super) fn new() -> Self {
        Fingerprints {
            expected: vec![0; BUCKETS],
            stored: vec![0; BUCKETS],
        }
    }

    /// Adds a row of an item.
    pub(super) fn add(&mut self, side: Side, item: ItemNumber, key: &[u8], value: &[u8]) {
        let sums = match side {
            Side::Expected => &mut self.expected,
            Side::Stored => &mut self.stored,
        };
        let sum = &mut sums[bucket_of(item)];
        *sum = sum.wrapping_add(digest(key, value));
    }

    /// Returns the buckets whose sums differ, at most `max` of them, and the number of the others.
    pub(super) fn different(&self, max: usize) -> (Buckets, usize) {
        let pairs = self.expected.iter().zip(&self.stored);
        let different = pairs
            .enumerate()
            .filter(|(_, (expected, stored))| expected != stored);
        let all: Vec<usize> = different.map(|(bucket, _)| bucket).collect();
        let named = all.len().min(max);
        let buckets = all[..named].iter().copied().collect();
        (Buckets(buckets), all.len() - named)
    }
}

/// Some buckets.
pub(super) struct Buckets(HashSet<usize>);

impl Buckets {
    /// Returns true if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the item is in one of the buckets.
    pub(super) fn has(&self, item: ItemNumber) -> bool {
        self.0.contains(&bucket_of(item))
    }
}

/// Returns the number of buckets that may be compared row by row, so that about `rows_max` of
/// `rows` rows are in memory.
pub(super) fn buckets_for(rows: u64, rows_max: u64) -> usize {
    let rows_per_bucket = (rows / BUCKETS as u64).max(1);
    (rows_max / rows_per_bucket).max(1) as usize
}

fn bucket_of(item: ItemNumber) -> usize {
    (item % BUCKETS as u64) as usize
}

/// Returns the digest of a row. The digest of the key and that of the value are digested together:
/// the sum tells rows apart that have exchanged their values.
fn digest(key: &[u8], value: &[u8]) -> Digest {
    let of_key = murmur3_128(key);
    if value.is_empty() {
        return Digest::from_le_bytes(of_key);
    }
    let mut both = [0; 32];
    both[..16].copy_from_slice(&of_key);
    both[16..].copy_from_slice(&murmur3_128(value));
    Digest::from_le_bytes(murmur3_128(&both))
}

/// A row with one key on both sides.
#[derive(Default)]
struct Compared {
    /// The items from which the row follows with the digest of each value: usually one.
    expected: Vec<(ItemNumber, Digest)>,
    stored: Option<(ItemNumber, Digest)>,
}

/// The difference of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// The row is missing.
    Missing,
    /// The row follows from no item.
    Surplus,
    /// The row has another value.
    Value,
    /// Two items ask for the row, which only one can have.
    Claimed,
}

/// Rows of some buckets on both sides.
#[derive(Default)]
pub(super) struct Comparison(HashMap<Vec<u8>, Compared>);

impl Comparison {
    /// Adds a row of an item.
    pub(super) fn add(&mut self, side: Side, item: ItemNumber, key: &[u8], value: &[u8]) {
        let digest = digest(key, value);
        let row = self.0.entry(key.to_vec()).or_default();
        match side {
            Side::Expected => row.expected.push((item, digest)),
            Side::Stored => row.stored = Some((item, digest)),
        }
        // A row that is as it must be is forgotten at once. Another item that asks for the same
        // row finds it missing then.
        if let (&[expected], Some(stored)) = (&row.expected[..], row.stored)
            && expected == stored
        {
            self.0.remove(key);
        }
    }

    /// Returns the rows that differ, each with an item, in the order of their keys.
    pub(super) fn differences(self) -> Vec<(Vec<u8>, ItemNumber, Difference)> {
        let mut differences = Vec::new();
        for (key, row) in self.0 {
            let (item, difference) = match (&row.expected[..], row.stored) {
                ([], None) => continue,
                ([], Some((item, _))) => (item, Difference::Surplus),
                (&[(item, _)], None) => (item, Difference::Missing),
                (&[(item, _)], Some(_)) => (item, Difference::Value),
                (&[.., (item, _)], _) => (item, Difference::Claimed),
            };
            differences.push((key, item, difference));
        }
        differences.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_equal_for_the_same_rows_in_any_order_and_for_no_others() {
        let rows: [(u64, &[u8], &[u8]); 3] = [(7, b"a", b"1"), (7, b"b", b"2"), (8, b"c", b"")];
        let sums = |stored: &[(u64, &[u8], &[u8])]| {
            let mut sums = Fingerprints::new();
            for (item, key, value) in rows {
                sums.add(Side::Expected, item, key, value);
            }
            for (item, key, value) in stored {
                sums.add(Side::Stored, *item, key, value);
            }
            sums.different(10)
        };
        assert!(sums(&[rows[2], rows[1], rows[0]]).0.is_empty());
        let (missing, more) = sums(&rows[..2]);
        assert!(missing.has(8) && !missing.has(7) && more == 0);
        assert!(sums(&[(7, b"a", b"2"), (7, b"b", b"1"), rows[2]]).0.has(7));
        let (surplus, _) = sums(&[rows[0], rows[1], rows[2], (9, b"d", b"")]);
        assert!(surplus.has(9));
        assert!(surplus.has(9 + BUCKETS as u64), "items share buckets");
    }

    #[test]
    fn rows_are_compared_one_by_one() {
        use Difference::*;
        let mut rows = Comparison::default();
        for (side, item, key, value) in [
            (Side::Expected, 1, "same", "x"),
            (Side::Stored, 1, "same", "x"),
            (Side::Expected, 1, "missing", ""),
            (Side::Stored, 2, "surplus", ""),
            (Side::Expected, 3, "value", "x"),
            (Side::Stored, 3, "value", "y"),
            (Side::Expected, 4, "claimed", "4"),
            (Side::Expected, 5, "claimed", "5"),
            (Side::Stored, 4, "claimed", "4"),
        ] {
            rows.add(side, item, key.as_bytes(), value.as_bytes());
        }
        let found: Vec<_> = rows
            .differences()
            .into_iter()
            .map(|(key, item, difference)| (String::from_utf8(key).unwrap(), item, difference))
            .collect();
        let expected = [
            ("claimed", 5, Claimed),
            ("missing", 1, Missing),
            ("surplus", 2, Surplus),
            ("value", 3, Value),
        ];
        assert_eq!(
            found,
            expected.map(|(key, item, difference)| (key.to_owned(), item, difference))
        );
    }
}
