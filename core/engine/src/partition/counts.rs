//! Counters that a partition updates with every commit: items, bytes, and index entries by path.

use super::Partition;
use crate::errors::{damaged, storage_failure};
use crate::partition::keys::{self, ItemNumber, PathNumber};
use orrery_model::Result;
use orrery_storage::Snapshot;
use std::collections::{BTreeMap, HashMap};

/// Paths whose counts share a row.
const COUNT_BLOCK: u32 = 64;

/// The counters of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Items.
    pub items: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// Bytes of the index entries' rows.
    pub index_bytes: u64,
    /// A number above every item number used so far.
    pub next_number: ItemNumber,
}

impl Counters {
    /// Encodes the row.
    pub fn encode(self) -> Vec<u8> {
        [self.items, self.bytes, self.index_bytes, self.next_number]
            .iter()
            .flat_map(|n| n.to_be_bytes())
            .collect()
    }

    fn decode(row: &[u8]) -> Option<Self> {
        let at = |i: usize| keys::number(row.get(i * 8..i * 8 + 8)?);
        Some(Counters {
            items: at(0)?,
            bytes: at(1)?,
            index_bytes: at(2)?,
            next_number: at(3)?,
        })
    }
}

impl Partition {
    /// Reads the counters of a snapshot.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub fn counters(snapshot: &dyn Snapshot) -> Result<Counters> {
        let Some(row) = snapshot.get(&keys::counters()).map_err(storage_failure)? else {
            return Ok(Counters::default());
        };
        Counters::decode(&row).ok_or_else(|| damaged("the row of counters"))
    }

    /// Returns the number of index entries of a path in a snapshot.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn entries_of(snapshot: &dyn Snapshot, path: PathNumber) -> Result<u64> {
        let row = snapshot
            .get(&keys::path_counts(path / COUNT_BLOCK))
            .map_err(storage_failure)?;
        let at = (path % COUNT_BLOCK) as usize * 8;
        Ok(row
            .and_then(|row| keys::number(row.get(at..at + 8)?))
            .unwrap_or(0))
    }
}

/// The number of index entries of each path, as a writer knows them.
#[derive(Debug, Default)]
pub(super) struct EntryCounts(Vec<u64>);

/// Blocks of counts after a commit.
pub(super) struct ChangedCounts(BTreeMap<u32, Vec<u64>>);

impl EntryCounts {
    /// Reads the counts of a snapshot. Blocks are stored without gaps.
    ///
    /// # Errors
    /// 500 if the store cannot be read, or a block is not as written.
    pub(super) fn load(snapshot: &dyn Snapshot) -> Result<Self> {
        let mut counts = Vec::new();
        for block in 0.. {
            let row = snapshot.get(&keys::path_counts(block));
            let Some(row) = row.map_err(storage_failure)? else {
                break;
            };
            // A short block would move the counts of the blocks behind it to other paths.
            if row.len() != COUNT_BLOCK as usize * 8 {
                return Err(damaged("a row of entries per path"));
            }
            counts.extend(row.chunks_exact(8).filter_map(keys::number));
        }
        Ok(EntryCounts(counts))
    }

    /// Returns the blocks that change if the counts of paths change by `entries`, without changing
    /// the counts. The cost follows from the number of `entries`.
    pub(super) fn changed(&self, entries: &HashMap<PathNumber, i64>) -> ChangedCounts {
        let mut blocks: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (path, change) in entries {
            if *change == 0 {
                continue;
            }
            let block = path / COUNT_BLOCK;
            let counts = blocks.entry(block).or_insert_with(|| self.block(block));
            let count = &mut counts[(path % COUNT_BLOCK) as usize];
            *count = count.saturating_add_signed(*change);
        }
        // Blocks are read back until one is missing, so those between the stored ones and the
        // last one are written too.
        let stored = self.0.len() as u32 / COUNT_BLOCK;
        if let Some((&last, _)) = blocks.last_key_value() {
            for block in stored..last {
                blocks.entry(block).or_insert_with(|| self.block(block));
            }
        }
        ChangedCounts(blocks)
    }

    /// Takes changed blocks in.
    pub(super) fn apply(&mut self, changed: ChangedCounts) {
        for (block, counts) in changed.0 {
            let from = (block * COUNT_BLOCK) as usize;
            let to = from + COUNT_BLOCK as usize;
            if self.0.len() < to {
                self.0.resize(to, 0);
            }
            self.0[from..to].copy_from_slice(&counts);
        }
    }

    /// Returns the counts that are not 0, by path.
    pub(super) fn by_path(&self) -> BTreeMap<usize, u64> {
        let counts = self.0.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0).collect()
    }

    fn block(&self, block: u32) -> Vec<u64> {
        let from = (block * COUNT_BLOCK) as usize;
        let paths = from..from + COUNT_BLOCK as usize;
        paths
            .map(|path| self.0.get(path).copied().unwrap_or(0))
            .collect()
    }
}

impl ChangedCounts {
    /// Returns the rows of the blocks.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        let blocks = self.0.iter();
        blocks.map(|(block, counts)| count_row(counts, *block, 0))
    }
}

/// Returns the number of index entries of each path in a snapshot.
///
/// # Errors
/// 500 if the store cannot be read.
pub(crate) fn entry_counts(snapshot: &dyn Snapshot) -> Result<Vec<u64>> {
    EntryCounts::load(snapshot).map(|counts| counts.0)
}

/// Returns the row of a block of entry counts: 64 paths, eight bytes each. The counts of the block
/// begin at `from`.
fn count_row(counts: &[u64], block: u32, from: usize) -> (Vec<u8>, Vec<u8>) {
    let paths = from..from + COUNT_BLOCK as usize;
    let row = paths.map(|path| counts.get(path).copied().unwrap_or(0));
    (
        keys::path_counts(block),
        row.flat_map(u64::to_be_bytes).collect(),
    )
}

/// Returns the rows with the counters of a partition and the number of index entries of each path.
pub(crate) fn summary_rows(counters: Counters, counts: &[u64]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let blocks = 0..(counts.len() as u32).div_ceil(COUNT_BLOCK);
    blocks
        .map(|block| count_row(counts, block, (block * COUNT_BLOCK) as usize))
        .chain([(keys::counters(), counters.encode())])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A commit with a new path once wrote the counts of all paths anew.
    #[test]
    fn a_new_path_changes_its_own_block_and_those_without_a_row() {
        let mut counts = EntryCounts(vec![7; 64 * 10_000]);
        let changed = counts.changed(&HashMap::from([(3, 2), (640_001, 1), (70, 0)]));
        assert_eq!(changed.0.keys().copied().collect::<Vec<_>>(), [0, 10_000]);
        counts.apply(changed);
        assert_eq!((counts.0[3], counts.0[640_001], counts.0[70]), (9, 1, 7));

        let far = counts.changed(&HashMap::from([(640_200, 1)]));
        assert_eq!(
            far.0.keys().copied().collect::<Vec<_>>(),
            [10_001, 10_002, 10_003]
        );
        assert_eq!(far.rows().count(), 3);
    }
}
