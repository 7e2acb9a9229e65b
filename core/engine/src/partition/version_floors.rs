//! The LSNs after which a partition keeps every version.
//!
//! Most partitions have one such LSN, the *floor*: a reader at or above it misses nothing. A merged
//! partition has the versions of several histories, whose LSNs are not comparable:
//!
//! ```text
//! keys of A: 40 … 60   kept after 40     keys of B: 900 … 950   kept after 900
//! merged:    both, and from 951 on one history
//! ```
//!
//! A reader that has read A up to 60 misses nothing, although 60 is below 900. So a merged
//! partition has a floor for the range of each history, until the last version of these histories
//! is removed.
//!
//! ```text
//! row: after·8 (after·8 last LSN·8 length·1 min length·1 max)*
//! ```
//!
//! The first number is the highest floor, and all that a partition with one history has.
//!
//! Promises: floors only rise; the ranges of the histories do not overlap.

use super::keys;
use orrery_model::partition_key::{Epk, EpkRange};

/// Histories with a floor of their own. Beyond them, two that lie side by side have the higher
/// floor of both.
const HISTORIES_MAX: usize = 64;

/// The floors of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VersionFloors {
    /// The LSN after which every version of the partition is kept.
    after: u64,
    /// The merged histories in the order of their ranges; empty if there is one history.
    histories: Vec<History>,
}

/// The floor of a history that was merged with others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct History {
    range: EpkRange,
    /// The LSN after which every version of the range is kept.
    after: u64,
    /// The last LSN before the merge.
    last_lsn: u64,
}

/// A source of a partition: its range, its floors and its last LSN.
pub(crate) type FloorSource = (EpkRange, VersionFloors, u64);

impl VersionFloors {
    /// Creates the floor of one history.
    pub(crate) fn of_one(after: u64) -> VersionFloors {
        VersionFloors {
            after,
            histories: Vec::new(),
        }
    }

    /// Creates the floors of the partition that is made of others, in the order of their ranges.
    pub(crate) fn merged(sources: &[FloorSource]) -> VersionFloors {
        let mut histories = Vec::new();
        for (source, floors, last_lsn) in sources {
            for (range, after) in floors.by_range() {
                if let Some(range) = range.intersection(source) {
                    histories.push(History {
                        range,
                        after,
                        last_lsn: *last_lsn,
                    });
                }
            }
        }
        while histories.len() > HISTORIES_MAX {
            histories = joined(&histories);
        }
        VersionFloors {
            after: highest(&histories).unwrap_or(0),
            histories,
        }
    }

    /// Returns the floors of a part of the partition.
    pub(crate) fn within(&self, part: &EpkRange) -> VersionFloors {
        let mut within = self.clone();
        within.histories.retain_mut(|history| {
            let common = history.range.intersection(part);
            let is_kept = common.is_some();
            history.range = common.unwrap_or_else(EpkRange::empty);
            is_kept
        });
        within.after = highest(&within.histories).unwrap_or(within.after);
        within
    }

    /// Returns the LSN after which every version of the partition is kept.
    pub(crate) fn highest(&self) -> u64 {
        self.after
    }

    /// Returns the floor of each range.
    pub(crate) fn by_range(&self) -> Vec<(EpkRange, u64)> {
        if self.histories.is_empty() {
            return vec![(EpkRange::all(), self.after)];
        }
        let floors = self.histories.iter();
        floors
            .map(|history| (history.range.clone(), history.after))
            .collect()
    }

    /// Raises all floors to an LSN up to which all versions are removed. `mixed_until` is the last
    /// LSN of the merged histories.
    pub(crate) fn raise(&mut self, lsn: u64, mixed_until: u64) {
        if lsn > mixed_until {
            self.histories.clear();
        }
        for history in &mut self.histories {
            // Nothing of a history comes after its last LSN, so its readers miss nothing there.
            history.after = history.after.max(lsn.min(history.last_lsn));
        }
        self.after = highest(&self.histories).unwrap_or(self.after.max(lsn));
    }

    /// Raises the floors of a range to the LSN of a version in it that is removed.
    pub(crate) fn raise_within(&mut self, range: &EpkRange, lsn: u64) {
        for history in &mut self.histories {
            if history.range.intersection(range).is_some() {
                history.after = history.after.max(lsn);
            }
        }
        self.after = self.after.max(lsn);
    }

    /// Returns the value of the row.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = self.after.to_be_bytes().to_vec();
        for history in &self.histories {
            row.extend(history.after.to_be_bytes());
            row.extend(history.last_lsn.to_be_bytes());
            for epk in [&history.range.min, &history.range.max] {
                row.push(epk.as_bytes().len() as u8);
                row.extend(epk.as_bytes());
            }
        }
        row
    }

    /// Reads the value of a row. Returns `None` for bytes that are no such row.
    pub(crate) fn decode(row: &[u8]) -> Option<VersionFloors> {
        let (after, mut rest) = read_number(row)?;
        let mut histories = Vec::new();
        while !rest.is_empty() {
            let (after, last_lsn, min, max);
            (after, rest) = read_number(rest)?;
            (last_lsn, rest) = read_number(rest)?;
            (min, rest) = read_epk(rest)?;
            (max, rest) = read_epk(rest)?;
            histories.push(History {
                range: EpkRange::new(min, max),
                after,
                last_lsn,
            });
        }
        Some(VersionFloors { after, histories })
    }
}

fn highest(histories: &[History]) -> Option<u64> {
    histories.iter().map(|history| history.after).max()
}

/// Returns half as many histories: each is joined with the next one.
fn joined(histories: &[History]) -> Vec<History> {
    let mut all: Vec<History> = Vec::with_capacity(histories.len() / 2 + 1);
    for pair in histories.chunks(2) {
        all.push(match pair {
            [first, second] => History {
                range: EpkRange::new(first.range.min.clone(), second.range.max.clone()),
                after: first.after.max(second.after),
                last_lsn: first.last_lsn.max(second.last_lsn),
            },
            rest => rest[0].clone(),
        });
    }
    all
}

fn read_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_at_checked(8)?;
    Some((keys::number(number)?, rest))
}

fn read_epk(bytes: &[u8]) -> Option<(Epk, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (epk, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((Epk::from_bytes(epk), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl VersionFloors {
        /// Returns the floor of an effective partition key.
        fn of(&self, epk: &Epk) -> u64 {
            let floors = self.by_range();
            let found = floors.iter().find(|(range, _)| range.contains(epk));
            found.expect("a range").1
        }
    }

    fn epk(byte: u8) -> Epk {
        Epk::from_bytes(&[byte])
    }

    fn range(min: u8, max: u8) -> EpkRange {
        EpkRange::new(epk(min), epk(max))
    }

    /// Returns the floors of a partition of a history at 40 … 60 and one at 900 … 950.
    fn merged() -> VersionFloors {
        VersionFloors::merged(&[
            (range(0, 0x20), VersionFloors::of_one(40), 60),
            (range(0x20, 0x40), VersionFloors::of_one(900), 950),
        ])
    }

    #[test]
    fn rows_read_back_and_cut_ones_do_not() {
        for floors in [VersionFloors::of_one(7), merged()] {
            let row = floors.encode();
            assert_eq!(VersionFloors::decode(&row), Some(floors));
            for end in (0..row.len()).filter(|end| ![8, 28].contains(end)) {
                assert_eq!(VersionFloors::decode(&row[..end]), None, "{end}");
            }
        }
    }

    #[test]
    fn each_history_keeps_its_floor_through_merges_and_splits() {
        let mut floors = merged();
        assert_eq!(floors.highest(), 900);
        assert_eq!((floors.of(&epk(0x10)), floors.of(&epk(0x30))), (40, 900));
        let whole = VersionFloors::merged(&[
            (range(0, 0x40), floors.clone(), 1_000),
            (range(0x40, 0x60), VersionFloors::of_one(5), 8),
        ]);
        let of = |byte| whole.of(&epk(byte));
        assert_eq!([of(0x10), of(0x30), of(0x50)], [40, 900, 5]);
        let part = whole.within(&range(0x18, 0x28));
        assert_eq!(part.by_range().len(), 2);
        assert_eq!((part.of(&epk(0x1C)), part.of(&epk(0x24))), (40, 900));
        assert_eq!(whole.within(&range(0, 0x20)).highest(), 40);

        // A removed version of one history says nothing of the other.
        floors.raise_within(&range(0x20, 0x40), 920);
        assert_eq!((floors.of(&epk(0x10)), floors.of(&epk(0x30))), (40, 920));
        floors.raise(930, 960);
        assert_eq!((floors.of(&epk(0x10)), floors.of(&epk(0x30))), (60, 930));
        floors.raise(961, 960);
        assert_eq!(floors, VersionFloors::of_one(961));
    }

    #[test]
    fn the_number_of_histories_is_bounded() {
        let source = |at: u8| (range(at, at + 1), VersionFloors::of_one(u64::from(at)), 300);
        let sources: Vec<FloorSource> = (0..200).map(source).collect();
        let floors = VersionFloors::merged(&sources);
        assert!(floors.by_range().len() <= HISTORIES_MAX);
        assert!((0..200).all(|at| floors.of(&epk(at)) >= u64::from(at)));
        assert_eq!(floors.highest(), 199);
    }
}
