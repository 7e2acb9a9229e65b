//! Words that several tests use: a commit in a line, a whole partition as a list, a partition under one owner.

#![allow(dead_code)] // each test binary uses its own part

use std::ops::Bound;

use orrery_storage::{
    Commit, CommitOutcome, Direction, Lease, Lsn, PartitionId, Snapshot, Store, Token,
};

/// The partition of tests that need only one.
pub const P: PartitionId = PartitionId(7);

pub const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

pub type Pair = (Vec<u8>, Vec<u8>);

/// A token that names a number.
pub fn token(n: u64) -> Token {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&n.to_le_bytes());
    token
}

/// The commit from `lsn - 1` to `lsn`, putting these.
pub fn commit(lsn: Lsn, puts: &[(&[u8], &[u8])]) -> Commit {
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

/// Everything in a range.
pub fn rows(
    snapshot: &dyn Snapshot,
    range: (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
) -> Vec<Pair> {
    snapshot
        .scan(range, direction)
        .map(|row| {
            row.map(|(key, value)| (key.to_vec(), value.to_vec()))
                .unwrap()
        })
        .collect()
}

/// Everything in a partition.
pub fn everything(store: &dyn Store, partition: PartitionId) -> Vec<Pair> {
    rows(
        &*store.snapshot(partition).unwrap(),
        ALL,
        Direction::Forward,
    )
}

pub fn pairs(list: &[(&[u8], &[u8])]) -> Vec<Pair> {
    list.iter()
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// A partition under one owner, counting up.
pub struct Owned<'a> {
    pub store: &'a dyn Store,
    pub lease: Lease,
    pub lsn: Lsn,
}

impl<'a> Owned<'a> {
    pub fn open(store: &'a dyn Store, partition: PartitionId) -> Owned<'a> {
        let lease = store.open(partition).unwrap();
        Owned {
            store,
            lsn: lease.head().lsn,
            lease,
        }
    }

    /// Fills in the numbers and commits.
    pub fn commit(&mut self, change: Commit) -> CommitOutcome {
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

    pub fn put(&mut self, puts: &[(&[u8], &[u8])]) {
        assert_eq!(self.commit(commit(1, puts)), CommitOutcome::Ok);
    }
}
