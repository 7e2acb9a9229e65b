//! Helpers of several tests: a commit in one line, a whole partition as a list, a partition with
//! one writer.

#![allow(dead_code)] // each crate that includes the module uses its own part

pub(crate) mod promises;

use std::ops::Bound;

use orrery_storage::{
    Commit, CommitOutcome, Direction, Lease, Lsn, PartitionId, Snapshot, Store, Token,
};

/// The partition of tests that need only one partition.
pub(crate) const P: PartitionId = PartitionId(7);

/// The range of all keys.
pub(crate) const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// Returns the token that holds a number.
pub(crate) fn token(n: u64) -> Token {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&n.to_le_bytes());
    token
}

/// Returns the commit from `lsn - 1` to `lsn` with these puts.
pub(crate) fn commit(lsn: Lsn, puts: &[(&[u8], &[u8])]) -> Commit {
    let puts = puts
        .iter()
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect();
    Commit {
        expect_lsn: lsn - 1,
        new_lsn: lsn,
        token: token(lsn),
        puts,
        ..Commit::default()
    }
}

/// Returns all keys and values of a range, and checks that a scan of keys gives the same keys.
pub(crate) fn rows(
    snapshot: &dyn Snapshot,
    range: (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
) -> Vec<Pair> {
    let mut rows = Vec::new();
    for row in snapshot.scan(range, direction) {
        let (key, value) = row.unwrap();
        rows.push((key.to_vec(), value.to_vec()));
    }
    let mut keys = snapshot.scan_keys(range, direction);
    for (key, _) in &rows {
        let found = keys.next_key().map(Result::unwrap);
        assert_eq!(found, Some(key.as_slice()));
    }
    assert!(keys.next_key().is_none());
    rows
}

/// Returns all keys and values of a partition.
pub(crate) fn everything(store: &dyn Store, partition: PartitionId) -> Vec<Pair> {
    rows(
        &*store.snapshot(partition).unwrap(),
        ALL,
        Direction::Forward,
    )
}

/// Returns a list of keys and values as `rows` returns it.
pub(crate) fn pairs(list: &[(&[u8], &[u8])]) -> Vec<Pair> {
    list.iter()
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// The writer of one partition, which numbers its commits.
pub(crate) struct PartitionWriter<'a> {
    pub store: &'a dyn Store,
    pub lease: Lease,
    pub lsn: Lsn,
}

impl<'a> PartitionWriter<'a> {
    pub(crate) fn open(store: &'a dyn Store, partition: PartitionId) -> PartitionWriter<'a> {
        let lease = store.open(partition).unwrap();
        PartitionWriter {
            store,
            lsn: lease.head().lsn,
            lease,
        }
    }

    /// Fills in LSNs and token, commits, and waits for the outcome.
    pub(crate) fn commit(&mut self, change: Commit) -> CommitOutcome {
        let (expect_lsn, new_lsn) = (self.lsn, self.lsn + 1);
        let outcome = self
            .store
            .submit(
                &self.lease,
                Commit {
                    expect_lsn,
                    new_lsn,
                    token: token(new_lsn),
                    ..change
                },
            )
            .wait();
        if outcome == CommitOutcome::Ok {
            self.lsn = new_lsn;
        }
        outcome
    }

    /// Commits these puts, which must succeed.
    pub(crate) fn put(&mut self, puts: &[(&[u8], &[u8])]) {
        assert_eq!(self.commit(commit(1, puts)), CommitOutcome::Ok);
    }
}
