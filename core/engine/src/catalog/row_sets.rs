//! Row sets of the catalog: how all of its rows are replaced at once, however many there are.
//!
//! ```text
//! 24                           number·8: the current row set; 0 while this row is missing
//! 25 number·8 (key of a row)   a row of that set; rows of set 0 have their own keys
//! ```
//! Records and ranges belong to a row set. Orphans and snapshots belong to none and survive a
//! replacement.
//!
//! A restoration writes the rows of a new set beside the current ones, in as many commits as
//! needed, and then makes the set current in one commit. Rows of other sets, which include those of
//! an interrupted restoration, are deleted after that commit, before the next restoration, and when
//! the catalog is opened.

use super::ranges::RANGE;
use super::records::Record;
use super::{Catalog, RECORD, Row, RowChanges, StoredRow, chunks};
use crate::errors::storage_failure;
use crate::partition::keys;
use crate::partition::scan;
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};
use std::sync::atomic::Ordering;

/// The first byte of the row that holds the number of the current row set.
const CURRENT_SET: u8 = 0x24;
/// The first byte of the rows of all sets but set 0.
const NUMBERED_SET: u8 = 0x25;

/// Bytes of keys and values from which on [`Catalog::commit_in_chunks`] ends a commit.
const COMMIT_BYTES: usize = 1 << 20;

/// A key with its new value, or with `None` if the row is deleted.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

/// Returns the prefix of the keys of a row set.
pub(super) fn key_prefix(row_set: u64) -> Vec<u8> {
    if row_set == 0 {
        return Vec::new();
    }
    [&[NUMBERED_SET][..], &row_set.to_be_bytes()].concat()
}

/// Reads the number of the current row set.
///
/// # Errors
/// 500 if the store cannot be read or the row is damaged.
pub(super) fn current_set(catalog: &dyn Snapshot) -> Result<u64> {
    match catalog.get(&[CURRENT_SET]).map_err(storage_failure)? {
        None => Ok(0),
        Some(value) => keys::number(&value).ok_or_else(Record::damaged),
    }
}

/// Returns true if rows with this key belong to a row set.
fn belongs_to_row_set(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(RECORD | RANGE)))
}

/// Returns the two key ranges of a row set: its records, then its ranges.
fn key_ranges(row_set: u64) -> [(Vec<u8>, Vec<u8>); 2] {
    [RECORD, RANGE].map(|tag| {
        let first = [key_prefix(row_set), vec![tag]].concat();
        let end = keys::after(&first);
        (first, end)
    })
}

impl RowChanges {
    /// Returns the same changes with the keys that the rows have in `row_set`.
    pub(super) fn in_row_set(mut self, row_set: u64) -> Self {
        let prefix = key_prefix(row_set);
        let put_keys = self.puts.iter_mut().map(|(key, _)| key);
        for key in put_keys.chain(&mut self.deletes) {
            if belongs_to_row_set(key) {
                *key = [&prefix[..], key].concat();
            }
        }
        self
    }

    /// Makes `row_set` the current one when the changes are committed.
    pub(super) fn make_current(&mut self, row_set: u64) {
        let value = row_set.to_be_bytes().to_vec();
        self.puts.push((vec![CURRENT_SET], value));
    }
}

impl Catalog {
    /// Returns the number of the current row set.
    pub(super) fn row_set(&self) -> u64 {
        self.row_set.load(Ordering::Acquire)
    }

    /// Uses `row_set` from now on. Call it after the commit that made the set current.
    pub(super) fn use_row_set(&self, row_set: u64) {
        self.row_set.store(row_set, Ordering::Release);
    }

    /// Reads the number of the current row set from the store.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub(super) fn stored_row_set(&self) -> Result<u64> {
        current_set(self.partition.snapshot()?.as_ref())
    }

    /// Returns the prefix of the keys of the current row set.
    pub(super) fn key_prefix(&self) -> Vec<u8> {
        key_prefix(self.row_set())
    }

    /// Returns the records or the ranges of the current row set in the order of their keys, which
    /// are without the prefix of the set.
    pub(super) fn stored_rows<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        tag: u8,
    ) -> impl Iterator<Item = Result<StoredRow>> + use<'a> {
        let prefix = key_prefix(self.row_set());
        let first = [&prefix[..], &[tag]].concat();
        let range = (first.clone(), keys::after(&first));
        let rows = chunks::joined(scan(snapshot, &range, Direction::Forward));
        rows.map(move |row| row.map(|(key, value)| (key.slice(prefix.len()..), value)))
    }

    /// Reads every record and range of the current row set, without the prefix of the set.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(super) fn rows(&self) -> Result<Vec<Row>> {
        let snapshot = self.partition.snapshot()?;
        let row_set = self.row_set();
        let prefix_length = key_prefix(row_set).len();
        let mut rows = Vec::new();
        for range in key_ranges(row_set) {
            for row in chunks::joined(scan(snapshot.as_ref(), &range, Direction::Forward)) {
                let (key, value) = row?;
                rows.push((key[prefix_length..].to_vec(), value.to_vec()));
            }
        }
        Ok(rows)
    }

    /// Writes the rows of a set that is not current yet.
    ///
    /// # Errors
    /// The store's error if a commit fails.
    pub(super) fn write_row_set(&self, row_set: u64, rows: &[Row]) -> Result<()> {
        let prefix = key_prefix(row_set);
        self.commit_in_chunks(rows.iter().map(|(key, value)| {
            let key = [&prefix[..], key].concat();
            Ok((key, Some(value.clone())))
        }))
    }

    /// Deletes the rows of all sets but the current one.
    ///
    /// # Errors
    /// The store's error if a commit fails. The next call deletes the remaining rows.
    pub(super) fn delete_other_row_sets(&self) -> Result<()> {
        let snapshot = self.partition.snapshot()?;
        let snapshot: &dyn Snapshot = snapshot.as_ref();
        let row_set = self.row_set();
        let current_prefix = key_prefix(row_set);

        // The rows of set 0 have no prefix: they go only when another set is current.
        let tags: &[u8] = match row_set {
            0 => &[NUMBERED_SET],
            _ => &[RECORD, RANGE, NUMBERED_SET],
        };
        let ranges: Vec<_> = tags.iter().map(|tag| keys::tagged(*tag)).collect();
        let is_current = |key: &[u8]| row_set > 0 && key.starts_with(&current_prefix);

        let rows = ranges
            .iter()
            .flat_map(|range| scan(snapshot, range, Direction::Forward));
        let deletions = rows.filter_map(|row| match row {
            Ok((key, _)) if is_current(&key) => None,
            Ok((key, _)) => Some(Ok((key.to_vec(), None))),
            Err(error) => Some(Err(error)),
        });
        self.commit_in_chunks(deletions)
    }

    /// Commits changes in several commits of bounded size. The keys are used as they are.
    ///
    /// # Errors
    /// The first error of `changes`, or the store's error if a commit fails. Earlier chunks are
    /// durable then.
    pub(super) fn commit_in_chunks(
        &self,
        changes: impl Iterator<Item = Result<Change>>,
    ) -> Result<()> {
        let mut chunk = RowChanges::default();
        let mut chunk_bytes = 0;
        for change in changes {
            let (key, value) = change?;
            chunk_bytes += key.len() + value.as_ref().map_or(0, Vec::len);
            match value {
                Some(value) => chunk.puts.extend(chunks::split(key, value)),
                None => chunk.deletes.push(key),
            }
            if chunk_bytes > COMMIT_BYTES {
                self.commit_with_given_keys(std::mem::take(&mut chunk))?;
                chunk_bytes = 0;
            }
        }
        if chunk_bytes == 0 {
            return Ok(());
        }
        self.commit_with_given_keys(chunk)
    }
}
