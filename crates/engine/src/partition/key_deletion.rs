//! The row of a deletion of a logical partition: which items are deleted, and how far their removal
//! is.

use crate::errors::damaged;
use crate::partition::keys::{self, ItemNumber};
use crate::partition::scan;
use orrery_model::Result;
use orrery_model::partition_key::Epk;
use orrery_storage::{Direction, Snapshot};

/// The subject of the error for a damaged row.
pub(crate) const ROW: &str = "the row of a deletion";

/// The deletion of a logical partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyDeletion {
    /// Items last written up to this LSN are deleted.
    pub up_to: u64,
    /// Items below this number have been visited.
    pub from: ItemNumber,
    /// Items from this number on are newer than the deletion.
    pub until: ItemNumber,
}

impl KeyDeletion {
    /// Encodes the row: three numbers of eight bytes.
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.up_to, self.from, self.until]
            .iter()
            .flat_map(|n| n.to_be_bytes())
            .collect()
    }

    /// Decodes the row. Returns `None` for bytes that are no such row.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let at = |i: usize| keys::number(bytes.get(i * 8..i * 8 + 8)?);
        Some(KeyDeletion {
            up_to: at(0)?,
            from: at(1)?,
            until: at(2)?,
        })
    }

    /// Returns the first deletion that is running in a partition.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub(crate) fn first(snapshot: &dyn Snapshot) -> Result<Option<(Epk, KeyDeletion)>> {
        let Some(entry) = scan(snapshot, &keys::key_deletions(), Direction::Forward).next() else {
            return Ok(None);
        };
        let (key, value) = entry?;
        keys::read_key_deletion(&key)
            .zip(Self::decode(&value))
            .map(Some)
            .ok_or_else(|| damaged(ROW))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_and_cut_ones_do_not() {
        let deletion = KeyDeletion {
            up_to: 7,
            from: 0,
            until: u64::MAX,
        };
        let bytes = deletion.encode();
        assert_eq!(KeyDeletion::decode(&bytes), Some(deletion));
        assert!((0..bytes.len()).all(|end| KeyDeletion::decode(&bytes[..end]).is_none()));
    }
}
