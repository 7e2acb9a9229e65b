//! The keys that commits changed while a partition is copied.
//!
//! Keys are kept, not values: a later snapshot has the value, whatever became of the commit. Each
//! key is kept with the LSN of its commit. A commit whose LSN is not above the head of a snapshot
//! has happened in that snapshot or never will, because the head only rises. So these keys can be
//! read from the snapshot once and for all; later ones wait for a later snapshot.

use orrery_storage::{Commit, Lsn};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of keys from which on commits are refused until the copy has caught up.
const MOST_BYTES: usize = 64 << 20;
/// The memory of an entry beside its key.
const ENTRY_BYTES: usize = 64;

/// Changed keys and ranges, each with the highest LSN of a commit that changed it.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    keys: BTreeMap<Vec<u8>, Lsn>,
    ranges: Vec<(Range<Vec<u8>>, Lsn)>,
    bytes: usize,
    /// The partition was removed, so the move ends.
    pub(crate) is_cancelled: bool,
}

/// Keys and ranges to be copied again.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) ranges: Vec<Range<Vec<u8>>>,
}

impl Changes {
    /// Returns true if no further commit is to be noted for now.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES
    }

    /// Notes the keys of a commit. Must be called before the commit is submitted.
    pub(crate) fn note(&mut self, commit: &Commit) {
        let lsn = commit.new_lsn;
        let keys = commit.puts.iter().map(|(key, _)| key);
        for key in keys.chain(&commit.deletes) {
            match self.keys.get_mut(key) {
                Some(newest) => *newest = lsn.max(*newest),
                None => {
                    self.bytes += key.len() + ENTRY_BYTES;
                    self.keys.insert(key.clone(), lsn);
                }
            }
        }
        for range in &commit.range_deletes {
            self.bytes += range.start.len() + range.end.len() + ENTRY_BYTES;
            self.ranges.push((range.clone(), lsn));
        }
    }

    /// Takes out what a snapshot with this head decides.
    pub(crate) fn take_until(&mut self, head: Lsn) -> Settled {
        let mut settled = Settled::default();
        let (later, keys): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.keys)
            .into_iter()
            .partition(|(_, lsn)| *lsn > head);
        self.keys = later;
        settled.keys = keys.into_keys().collect();
        let (later, ranges): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ranges)
            .into_iter()
            .partition(|(_, lsn)| *lsn > head);
        self.ranges = later;
        settled.ranges = ranges.into_iter().map(|(range, _)| range).collect();
        self.count_bytes();
        settled
    }

    fn count_bytes(&mut self) {
        let keys = self.keys.keys().map(|key| key.len() + ENTRY_BYTES);
        let ranges = self.ranges.iter();
        let ranges = ranges.map(|(range, _)| range.start.len() + range.end.len() + ENTRY_BYTES);
        self.bytes = keys.sum::<usize>() + ranges.sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_wait_for_a_snapshot_that_decides_their_last_commit() {
        let commit = |lsn: Lsn, key: &[u8]| Commit {
            new_lsn: lsn,
            puts: vec![(key.to_vec(), Vec::new())],
            deletes: vec![b"all".to_vec()],
            range_deletes: vec![vec![lsn as u8]..vec![9]],
            ..Commit::default()
        };
        let mut changes = Changes::default();
        changes.note(&commit(4, b"a"));
        changes.note(&commit(5, b"b"));
        let settled = changes.take_until(4);
        assert_eq!(settled.keys, [b"a"]);
        assert_eq!(settled.ranges, [vec![4]..vec![9]]);
        let settled = changes.take_until(5);
        assert_eq!(settled.keys, [b"all".to_vec(), b"b".to_vec()]);
        assert_eq!((changes.bytes, changes.is_full()), (0, false));
        changes.note(&commit(6, &vec![0; MOST_BYTES]));
        assert!(changes.is_full());
    }
}
