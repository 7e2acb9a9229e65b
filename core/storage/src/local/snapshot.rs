//! Reads of one partition of the local engine at one moment.
//!
//! All rows of a partition sort before all its index entries, since the first byte of a key decides
//! between the two. So a range that spans both classes needs no merge: one keyspace is read after
//! the other.
//!
//! Nothing is copied on the way out: a key without its prefix is a slice of the same block.
//!
//! A read that could miss a key of a damaged block fails (`damage.rs`): a scan checks the gap
//! between each key and the one before, and behind the last key.

use std::ops::Bound;
use std::sync::Arc;

use fjall::Readable;

use super::access::View;
use super::blocks::SEAL;
use super::committer::Committer;
use super::damage::unreadable;
use super::database::{OpenDatabase, store_error};
use super::keys::{INDEX_TAG, PREFIX_BYTES, is_index_key, partition_range, prefixed_key};
use super::maintenance::is_damage;
use super::tables::Tables;
use crate::commit::{Head, PartitionId};
use crate::error::StoreError;
use crate::store::{Bytes, Direction, KeyRange, Rows, Snapshot, is_empty_range};

/// Bytes of the longest key that is looked up without allocating.
const SHORT_KEY_BYTES: usize = 120;

pub(super) struct LocalSnapshot {
    view: View,
    partition: PartitionId,
    // Declared last, so that the database is given up before the store can be closed.
    committer: Arc<Committer<Tables>>,
}

impl LocalSnapshot {
    /// Takes a snapshot of what is durable.
    ///
    /// # Errors
    /// When the database is being exchanged for too long.
    pub(super) fn take(
        committer: Arc<Committer<Tables>>,
        partition: PartitionId,
    ) -> Result<LocalSnapshot, StoreError> {
        Ok(LocalSnapshot {
            view: committer.sink().view(partition)?,
            partition,
            committer,
        })
    }

    fn tables(&self) -> &Tables {
        self.committer.sink()
    }

    fn database(&self) -> &OpenDatabase {
        &self.view.database
    }

    /// Returns the rows of the part of a range that lies in one of the two keyspaces; `None` if no
    /// key of the keyspace can lie in the range.
    fn scan_keyspace(
        &self,
        is_index: bool,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Option<KeyspaceRows<'_>> {
        let first_index_key: &[u8] = &[INDEX_TAG];
        let part = if is_index {
            (start_not_below(range.0, first_index_key), range.1)
        } else {
            (range.0, end_below(range.1, first_index_key))
        };
        if is_empty_range(&part) {
            return None;
        }
        let (partition_start, partition_end) = partition_range(self.partition);
        let start = match part.0 {
            Bound::Unbounded => partition_start.map(Vec::from),
            bound => bound.map(|key| prefixed_key(self.partition, key)),
        };
        let end = match part.1 {
            Bound::Unbounded => partition_end.map(Vec::from),
            bound => bound.map(|key| prefixed_key(self.partition, key)),
        };
        let keyspace = self.database().keyspace(is_index);
        Some(KeyspaceRows {
            snapshot: self,
            is_index,
            direction,
            entries: self.view.view.range(keyspace, (start.clone(), end.clone())),
            start,
            end,
            is_finished: false,
        })
    }

    /// Translates an error of fjall. Has a damaged block looked for, so that the error names the
    /// file.
    fn failed(&self, is_index: bool, error: fjall::Error) -> StoreError {
        if let fjall::Error::Storage(cause) = &error
            && is_damage(cause)
        {
            if self.tables().damage().auxiliary(is_index).is_none() {
                self.tables().signal().check_and_wait(is_index);
            }
            if let Some(auxiliary) = self.tables().damage().auxiliary(is_index) {
                return unreadable(&auxiliary);
            }
        }
        store_error(&self.database().path, &error)
    }

    /// Checks a value that was read for the key with its prefix.
    fn checked(
        &self,
        is_index: bool,
        key: &[u8],
        found: Result<Option<fjall::UserValue>, fjall::Error>,
    ) -> Result<Option<Bytes>, StoreError> {
        // The list of damage is asked even if the tables had an answer: the newest version may be
        // in the damaged block.
        let damage = self.tables().damage();
        damage.check_key(is_index, self.partition, key)?;
        match found {
            Ok(Some(value)) if value.starts_with(SEAL) => Err(self.unrecorded()),
            Ok(value) => Ok(value.map(Bytes::from)),
            Err(error) => {
                let error = self.failed(is_index, error);
                damage.check_key(is_index, self.partition, key)?;
                Err(error)
            }
        }
    }

    /// Creates the refusal of a sealed block whose record was removed by hand.
    fn unrecorded(&self) -> StoreError {
        let detail = "a damaged block was replaced, and the record of the damage is missing";
        StoreError::damaged(&self.database().path.join("keyspaces"), detail)
    }
}

/// The rows of a range in one keyspace. Ends behind the first error.
struct KeyspaceRows<'a> {
    snapshot: &'a LocalSnapshot,
    is_index: bool,
    direction: Direction,
    entries: fjall::Iter,
    /// The bounds of the rest of the range, with prefixes.
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    is_finished: bool,
}

impl KeyspaceRows<'_> {
    /// Checks that no damaged block has a key between the last row and `key`, or behind the last
    /// row if there is no further row.
    fn check_gap(&mut self, key: Option<&[u8]>, is_sealed: bool) -> Result<(), StoreError> {
        let damage = self.snapshot.tables().damage();
        if !is_sealed && !damage.has_keys() {
            // The common case keeps no bounds, so damage that is found later in this scan is
            // compared with more than the gap.
            return Ok(());
        }
        let gap_key = key.map_or(Bound::Unbounded, Bound::Included);
        let gap = match (self.direction, key) {
            (_, None) => (borrow(&self.start), borrow(&self.end)),
            (Direction::Forward, Some(_)) => (borrow(&self.start), gap_key),
            (Direction::Reverse, Some(_)) => (gap_key, borrow(&self.end)),
        };
        damage.check_gap(self.is_index, self.snapshot.partition, gap)?;
        if let Some(key) = key {
            match self.direction {
                Direction::Forward => self.start = Bound::Excluded(key.to_vec()),
                Direction::Reverse => self.end = Bound::Excluded(key.to_vec()),
            }
        }
        Ok(())
    }
}

impl KeyspaceRows<'_> {
    /// Translates an error of fjall into one that names the damaged block, if the block is known or
    /// found.
    fn failure(&mut self, error: fjall::Error) -> StoreError {
        if let Err(known) = self.check_gap(None, false) {
            return known;
        }
        let error = self.snapshot.failed(self.is_index, error);
        match self.check_gap(None, false) {
            Ok(()) => error,
            Err(found) => found,
        }
    }
}

impl Iterator for KeyspaceRows<'_> {
    type Item = Result<(Bytes, Bytes), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_finished {
            return None;
        }
        let entry = match self.direction {
            Direction::Forward => self.entries.next(),
            Direction::Reverse => self.entries.next_back(),
        };
        let result = match entry.map(fjall::Guard::into_inner) {
            None => self.check_gap(None, false).map(|()| None),
            Some(Ok((key, value))) => {
                let (key, value) = (Bytes::from(key), Bytes::from(value));
                let is_sealed = value.starts_with(SEAL);
                match self.check_gap(Some(&key), is_sealed) {
                    Ok(()) if is_sealed => Err(self.snapshot.unrecorded()),
                    checked => checked.map(|()| Some((key.slice(PREFIX_BYTES..), value))),
                }
            }
            Some(Err(error)) => Err(self.failure(error)),
        };
        self.is_finished = !matches!(result, Ok(Some(_)));
        result.transpose()
    }
}

fn borrow(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Snapshot for LocalSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let is_index = is_index_key(key);
        let keyspace = self.database().keyspace(is_index);
        if key.len() <= SHORT_KEY_BYTES {
            let mut buffer = [0; PREFIX_BYTES + SHORT_KEY_BYTES];
            let end = PREFIX_BYTES + key.len();
            buffer[..PREFIX_BYTES].copy_from_slice(&self.partition.0.to_be_bytes());
            buffer[PREFIX_BYTES..end].copy_from_slice(key);
            let key = &buffer[..end];
            self.checked(is_index, key, self.view.view.get(keyspace, key))
        } else {
            let key = prefixed_key(self.partition, key);
            self.checked(is_index, &key, self.view.view.get(keyspace, &key))
        }
    }

    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> Rows<'_> {
        let rows = self.scan_keyspace(false, range, direction);
        let index = self.scan_keyspace(true, range, direction);
        let (rows, index) = (rows.into_iter().flatten(), index.into_iter().flatten());
        match direction {
            Direction::Forward => Box::new(rows.chain(index)),
            Direction::Reverse => Box::new(index.chain(rows)),
        }
    }

    fn head(&self) -> Head {
        self.view.head
    }
}

/// Returns the start of a range that is cut to keys from `lowest` on.
fn start_not_below<'a>(start: Bound<&'a [u8]>, lowest: &'a [u8]) -> Bound<&'a [u8]> {
    match start {
        Bound::Included(key) | Bound::Excluded(key) if key >= lowest => start,
        _ => Bound::Included(lowest),
    }
}

/// Returns the end of a range that is cut to keys below `limit`.
fn end_below<'a>(end: Bound<&'a [u8]>, limit: &'a [u8]) -> Bound<&'a [u8]> {
    match end {
        Bound::Included(key) if key < limit => end,
        Bound::Excluded(key) if key <= limit => end,
        _ => Bound::Excluded(limit),
    }
}
