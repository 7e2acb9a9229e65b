//! Reads of one partition of the local engine at one moment.
//!
//! All rows of a partition sort before all its index entries, since the first byte of a key decides
//! between the two. So a range that spans both classes needs no merge: one keyspace is read after
//! the other.
//!
//! Nothing is copied on the way out: a key without its prefix is a slice of the same block.

use std::ops::Bound;
use std::sync::Arc;

use fjall::Readable;

use super::access::View;
use super::committer::Committer;
use super::database::{OpenDatabase, store_error};
use super::keys::{INDEX_TAG, PREFIX_BYTES, is_index_key, partition_range, prefixed_key};
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
    _committer: Arc<Committer<Tables>>,
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
            _committer: committer,
        })
    }

    fn database(&self) -> &OpenDatabase {
        &self.view.database
    }

    /// Returns the part of a range that lies in one of the two keyspaces; `None` if no key of the
    /// keyspace can lie in the range.
    fn scan_keyspace(&self, is_index: bool, range: KeyRange<'_>) -> Option<fjall::Iter> {
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
        Some(self.view.view.range(keyspace, (start, end)))
    }

    /// Returns key and value of an entry, the key without the partition's prefix.
    fn without_prefix(&self, row: fjall::Guard) -> Result<(Bytes, Bytes), StoreError> {
        let (key, value) = row
            .into_inner()
            .map_err(|e| store_error(&self.database().path, &e))?;
        Ok((Bytes::from(key).slice(PREFIX_BYTES..), Bytes::from(value)))
    }
}

impl Snapshot for LocalSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let keyspace = self.database().keyspace(is_index_key(key));
        let found = if key.len() <= SHORT_KEY_BYTES {
            let mut buffer = [0; PREFIX_BYTES + SHORT_KEY_BYTES];
            let end = PREFIX_BYTES + key.len();
            buffer[..PREFIX_BYTES].copy_from_slice(&self.partition.0.to_be_bytes());
            buffer[PREFIX_BYTES..end].copy_from_slice(key);
            self.view.view.get(keyspace, &buffer[..end])
        } else {
            self.view
                .view
                .get(keyspace, prefixed_key(self.partition, key))
        };
        match found {
            Ok(value) => Ok(value.map(Bytes::from)),
            Err(error) => Err(store_error(&self.database().path, &error)),
        }
    }

    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> Rows<'_> {
        let rows = self.scan_keyspace(false, range).into_iter().flatten();
        let index = self.scan_keyspace(true, range).into_iter().flatten();
        match direction {
            Direction::Forward => {
                let entries = rows.chain(index);
                Box::new(entries.map(|entry| self.without_prefix(entry)))
            }
            Direction::Reverse => {
                let entries = index.rev().chain(rows.rev());
                Box::new(entries.map(|entry| self.without_prefix(entry)))
            }
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
