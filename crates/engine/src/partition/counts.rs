//! Counters that a partition updates with every commit: items, bytes, and index entries by path.

use super::Partition;
use crate::errors::{damaged, storage_failure};
use crate::partition::keys::{self, ItemNumber, PathNumber};
use orrery_model::Result;
use orrery_storage::Snapshot;

/// Paths whose counts share a row.
pub(super) const COUNT_BLOCK: u32 = 64;

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

/// Returns the row of a block of entry counts: 64 paths, eight bytes each.
pub(super) fn count_row(counts: &[u64], block: u32) -> (Vec<u8>, Vec<u8>) {
    let from = (block * COUNT_BLOCK) as usize;
    let row =
        (from..from + COUNT_BLOCK as usize).map(|path| counts.get(path).copied().unwrap_or(0));
    (
        keys::path_counts(block),
        row.flat_map(u64::to_be_bytes).collect(),
    )
}

/// Returns the rows with the counters of a partition and the number of index entries of each path.
pub(crate) fn summary_rows(counters: Counters, counts: &[u64]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let blocks = 0..(counts.len() as u32).div_ceil(COUNT_BLOCK);
    blocks
        .map(|block| count_row(counts, block))
        .chain([(keys::counters(), counters.encode())])
        .collect()
}
