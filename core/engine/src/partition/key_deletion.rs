//! The row of the deletions of logical partitions with one EPK: which items are deleted, and how
//! far their removal is.
//!
//! An EPK is usually that of one key, and the row then holds one deletion of all items of the EPK.
//! Keys that share an EPK (`orrery_model::partition_key::KeyAddress`) are deleted one by one: each
//! has a deletion of its own in the row, with the digest of the key. Such a row begins with a
//! deletion of nothing, which is what earlier versions of the program see: they must not delete the
//! items of other keys.

use crate::errors::damaged;
use crate::partition::keys::{self, ItemNumber};
use crate::partition::row::Row;
use crate::partition::scan;
use orrery_model::partition_key::{Definition, Epk, KeyDigest};
use orrery_model::{Error, Kind, Result};
use orrery_storage::{Direction, Snapshot};

/// The subject of the error for a damaged row.
pub(crate) const ROW: &str = "the row of a deletion";

/// Bytes of a deletion of all items of an EPK.
const WHOLE_BYTES: usize = 24;
/// Bytes of a deletion of one of several keys.
const EXACT_BYTES: usize = WHOLE_BYTES + size_of::<KeyDigest>();
/// Deletions that one row may hold. A value of the store has at most 64 KiB.
const PER_ROW_MAX: usize = 1_000;

/// The deletion of a logical partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyDeletion {
    /// Items last written up to this LSN are deleted.
    pub up_to: u64,
    /// Items below this number have been visited.
    pub from: ItemNumber,
    /// Items from this number on are newer than the deletion.
    pub until: ItemNumber,
    /// The digest of the key, if other keys have the same EPK.
    pub digest: Option<KeyDigest>,
}

impl KeyDeletion {
    /// Encodes the row: three numbers of eight bytes, and the digest if there is one, for each
    /// deletion.
    pub(crate) fn encode(deletions: &[KeyDeletion]) -> Vec<u8> {
        let mut row = Vec::with_capacity(WHOLE_BYTES + deletions.len() * EXACT_BYTES);
        if deletions.iter().any(|deletion| deletion.digest.is_some()) {
            row.extend([0; WHOLE_BYTES]);
        }
        for deletion in deletions {
            for number in [deletion.up_to, deletion.from, deletion.until] {
                row.extend(number.to_be_bytes());
            }
            row.extend(deletion.digest.iter().flatten());
        }
        row
    }

    /// Decodes the row. Returns `None` for bytes that are no such row.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Self>> {
        if bytes.len() == WHOLE_BYTES {
            return Some(vec![Self::read(bytes)?]);
        }
        let entries = bytes.strip_prefix(&[0; WHOLE_BYTES])?;
        if entries.len() % EXACT_BYTES != 0 {
            return None;
        }
        let mut deletions = Vec::with_capacity(entries.len() / EXACT_BYTES);
        for entry in entries.chunks_exact(EXACT_BYTES) {
            let (numbers, digest) = entry.split_at(WHOLE_BYTES);
            deletions.push(KeyDeletion {
                digest: Some(digest.try_into().ok()?),
                ..Self::read(numbers)?
            });
        }
        Some(deletions)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let at = |i: usize| keys::number(bytes.get(i * 8..i * 8 + 8)?);
        Some(KeyDeletion {
            up_to: at(0)?,
            from: at(1)?,
            until: at(2)?,
            digest: None,
        })
    }

    /// Returns the value of a row with one more deletion, which replaces an older one of the same
    /// key. `present` is the value of the row before.
    ///
    /// # Errors
    /// 429 if the row has no room for another key, or if an earlier version of the program has
    /// begun to delete all keys of the EPK; 500 for a damaged row.
    pub(crate) fn added_to(self, present: Option<&[u8]>) -> Result<Vec<u8>> {
        let mut deletions = match present {
            Some(row) => Self::decode(row).ok_or_else(|| damaged(ROW))?,
            None => Vec::new(),
        };
        deletions.retain(|other| other.digest != self.digest);
        let is_of_all = deletions.iter().any(|other| other.digest.is_none());
        if is_of_all || deletions.len() >= PER_ROW_MAX {
            return Err(too_many());
        }
        deletions.push(self);
        Ok(Self::encode(&deletions))
    }

    /// Returns the value of a row after a step of the removal of its first deletion: `next` is the
    /// number of the item at which the next step begins, or `None` if all items are removed.
    /// Returns `None` if no deletion is left.
    pub(crate) fn after_step(
        mut deletions: Vec<KeyDeletion>,
        next: Option<ItemNumber>,
    ) -> Option<Vec<u8>> {
        match (next, deletions.first_mut()) {
            (Some(from), Some(first)) => first.from = from,
            (None, Some(_)) => drop(deletions.remove(0)),
            (_, None) => {}
        }
        (!deletions.is_empty()).then(|| Self::encode(&deletions))
    }

    /// Returns the deletions of the first EPK with any in a partition.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub(crate) fn first(snapshot: &dyn Snapshot) -> Result<Option<(Epk, Vec<KeyDeletion>)>> {
        let Some(entry) = scan(snapshot, &keys::key_deletions(), Direction::Forward).next() else {
            return Ok(None);
        };
        let (key, value) = entry?;
        keys::read_key_deletion(&key)
            .zip(Self::decode(&value))
            .map(Some)
            .ok_or_else(|| damaged(ROW))
    }

    /// Returns true if an item with the EPK of the deletion is deleted, in a container with this
    /// partition key definition.
    pub(crate) fn has(&self, row: &Row, definition: &Definition) -> bool {
        if row.lsn > self.up_to {
            return false;
        }
        self.digest.is_none() || self.digest == definition.digest_of_item(&row.body)
    }
}

/// Returns true if one of the deletions of an item's EPK deletes the item.
pub(crate) fn hides(deletions: &[KeyDeletion], row: &Row, definition: &Definition) -> bool {
    let mut deletions = deletions.iter();
    deletions.any(|deletion| deletion.has(row, definition))
}

fn too_many() -> Error {
    Error::new(
        Kind::Throttled,
        "Too many partition keys with the same hash are being deleted. Retry later.",
    )
    .with_retry_after_ms(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: KeyDeletion = KeyDeletion {
        up_to: 7,
        from: 0,
        until: u64::MAX,
        digest: None,
    };

    fn exact(digest: u8) -> KeyDeletion {
        KeyDeletion {
            digest: Some([digest; 16]),
            ..WHOLE
        }
    }

    #[test]
    fn rows_read_back_and_cut_ones_do_not() {
        for deletions in [vec![WHOLE], vec![exact(1)], vec![exact(1), exact(2)]] {
            let bytes = KeyDeletion::encode(&deletions);
            assert_eq!(KeyDeletion::decode(&bytes), Some(deletions));
        }
        for row in [
            KeyDeletion::encode(&[WHOLE]),
            KeyDeletion::encode(&[exact(1)]),
        ] {
            for end in 0..row.len() {
                let is_other_row = end == WHOLE_BYTES;
                assert_eq!(KeyDeletion::decode(&row[..end]).is_some(), is_other_row);
            }
        }
    }

    #[test]
    fn the_deletions_of_keys_with_one_hash_come_and_go_one_by_one() {
        let first = exact(1).added_to(None).expect("a row");
        let newer = KeyDeletion {
            up_to: 9,
            ..exact(1)
        };
        let both = exact(2).added_to(Some(&first)).expect("a row");
        let renewed = newer.added_to(Some(&both)).expect("a row");
        let deletions = KeyDeletion::decode(&renewed).expect("deletions");
        assert_eq!(deletions, [exact(2), newer]);

        let moved = KeyDeletion::after_step(deletions, Some(5)).expect("a row");
        let deletions = KeyDeletion::decode(&moved).expect("deletions");
        assert_eq!(deletions[0].from, 5);
        let rest = KeyDeletion::after_step(deletions, None).expect("a row");
        assert_eq!(rest, KeyDeletion::encode(&[newer]));
        assert_eq!(KeyDeletion::after_step(vec![newer], None), None);
    }

    #[test]
    fn a_full_row_refuses_another_key_and_keeps_its_own() {
        let with = |n: usize| {
            let mut digest = [0; 16];
            digest[..8].copy_from_slice(&n.to_be_bytes());
            KeyDeletion {
                digest: Some(digest),
                ..WHOLE
            }
        };
        let full: Vec<KeyDeletion> = (0..PER_ROW_MAX).map(with).collect();
        let row = KeyDeletion::encode(&full);
        let refused = with(PER_ROW_MAX).added_to(Some(&row));
        assert_eq!(refused.expect_err("it is full").kind(), Kind::Throttled);
        with(0).added_to(Some(&row)).expect("it is there already");
        let of_all = KeyDeletion::encode(&[WHOLE]);
        exact(1).added_to(Some(&of_all)).expect_err("it is of all");
    }
}
