//! Reading one partition of the local engine at one moment.
//!
//! All rows of a partition sort before all its index entries, since the first byte of a key decides. So a range that spans
//! both needs no merge: one keyspace is read after the other.
//!
//! Nothing is copied on the way out: a key without its prefix is a slice of the same block.

use std::ops::Bound;
use std::sync::Arc;

use fjall::Readable;

use super::committer::Committer;
use super::tables::{INDEX_TAG, PREFIX_BYTES, Tables, explain, is_index, prefixed};
use crate::error::StoreError;
use crate::store::{Bytes, Direction, Head, KeyRange, PartitionId, Rows, Snapshot, is_empty_range};

/// Keys up to this length are looked up without allocating.
const SHORT_KEY: usize = 120;

pub(super) struct LocalSnapshot {
    committer: Arc<Committer<Tables>>,
    view: Arc<fjall::Snapshot>,
    partition: PartitionId,
    head: Head,
}

impl LocalSnapshot {
    pub(super) fn new(committer: Arc<Committer<Tables>>, partition: PartitionId) -> LocalSnapshot {
        let (view, head) = committer.sink().view(partition);
        LocalSnapshot {
            committer,
            view,
            partition,
            head,
        }
    }

    fn tables(&self) -> &Tables {
        self.committer.sink()
    }

    /// The part of the range that lies in one keyspace; none if no key of it can.
    fn rows_in(&self, index: bool, range: KeyRange<'_>) -> Option<fjall::Iter> {
        let middle: &[u8] = &[INDEX_TAG];
        let part = if index {
            (highest_start(range.0, Bound::Included(middle)), range.1)
        } else {
            (range.0, lowest_end(range.1, Bound::Excluded(middle)))
        };
        if is_empty_range(&part) {
            return None;
        }
        let start = match part.0 {
            Bound::Unbounded => Bound::Included(prefixed(self.partition, &[])),
            bound => bound.map(|key| prefixed(self.partition, key)),
        };
        let end = match part.1 {
            // No overflow: the highest number is reserved.
            Bound::Unbounded => Bound::Excluded(prefixed(PartitionId(self.partition.0 + 1), &[])),
            bound => bound.map(|key| prefixed(self.partition, key)),
        };
        Some(self.view.range(self.tables().keyspace(index), (start, end)))
    }

    fn strip(&self, row: fjall::Guard) -> Result<(Bytes, Bytes), StoreError> {
        let (key, value) = row
            .into_inner()
            .map_err(|e| explain(self.tables().path(), &e))?;
        Ok((Bytes::from(key).slice(PREFIX_BYTES..), Bytes::from(value)))
    }
}

impl Snapshot for LocalSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let keyspace = self.tables().keyspace(is_index(key));
        let found = if key.len() <= SHORT_KEY {
            let mut whole = [0; PREFIX_BYTES + SHORT_KEY];
            whole[..PREFIX_BYTES].copy_from_slice(&self.partition.0.to_be_bytes());
            whole[PREFIX_BYTES..PREFIX_BYTES + key.len()].copy_from_slice(key);
            self.view.get(keyspace, &whole[..PREFIX_BYTES + key.len()])
        } else {
            self.view.get(keyspace, prefixed(self.partition, key))
        };
        Ok(found
            .map_err(|e| explain(self.tables().path(), &e))?
            .map(Bytes::from))
    }

    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> Rows<'_> {
        let rows = self.rows_in(false, range).into_iter().flatten();
        let index = self.rows_in(true, range).into_iter().flatten();
        match direction {
            Direction::Forward => Box::new(rows.chain(index).map(|row| self.strip(row))),
            Direction::Reverse => {
                Box::new(index.rev().chain(rows.rev()).map(|row| self.strip(row)))
            }
        }
    }

    fn head(&self) -> Head {
        self.head
    }
}

/// The bound that leaves less, both being starts and the second of them included.
fn highest_start<'a>(start: Bound<&'a [u8]>, least: Bound<&'a [u8]>) -> Bound<&'a [u8]> {
    match (start, least) {
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b)) if a >= b => start,
        _ => least,
    }
}

/// The bound that leaves less, both being ends and the second of them excluded.
fn lowest_end<'a>(end: Bound<&'a [u8]>, most: Bound<&'a [u8]>) -> Bound<&'a [u8]> {
    match (end, most) {
        (Bound::Included(a), Bound::Excluded(b)) if a < b => end,
        (Bound::Excluded(a), Bound::Excluded(b)) if a <= b => end,
        _ => most,
    }
}
