//! Random histories against a simple model: a `BTreeMap` for each partition. Memory and local
//! engine run mirrored, so all three must agree at every step.
//!
//! `ORRERY_STORE_CASES` is the number of histories.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use crate::support::{ALL, Pair, rows};
use orrery_storage::testing::Mirrored;
use orrery_storage::{
    Commit, CommitOutcome, Direction, Lease, LocalOptions, LocalStore, Lsn, MemoryStore,
    PartitionId, Store,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Commit {
        partition: u64,
        change: Commit,
    },
    /// Another writer opens the partition; the next commit of the earlier writer is fenced.
    Open {
        partition: u64,
    },
    Destroy {
        partition: u64,
    },
    Scan {
        partition: u64,
        start: Bound<Vec<u8>>,
        end: Bound<Vec<u8>>,
        reverse: bool,
    },
    Reopen,
}

/// Few and short keys of both classes, so that the steps of a history hit the same keys.
fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(
        prop_oneof![Just(0u8), Just(1), Just(0x7f), Just(0x80), Just(0xff)],
        0..4,
    )
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded)
    ]
}

fn change() -> impl Strategy<Value = Commit> {
    let value = proptest::collection::vec(any::<u8>(), 0..6);
    let puts = proptest::collection::vec((key(), value), 0..8);
    let deletes = proptest::collection::vec(key(), 0..4);
    let ranges =
        proptest::collection::vec((key(), key()).prop_map(|(start, end)| start..end), 0..2);
    (puts, deletes, ranges).prop_map(|(puts, deletes, range_deletes)| Commit {
        puts,
        deletes,
        range_deletes,
        ..Commit::default()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let partition = 0u64..3;
    prop_oneof![
        8 => (partition.clone(), change())
            .prop_map(|(partition, change)| Step::Commit { partition, change }),
        1 => partition.clone().prop_map(|partition| Step::Open { partition }),
        1 => partition.clone().prop_map(|partition| Step::Destroy { partition }),
        4 => (partition, bound(), bound(), any::<bool>())
            .prop_map(|(partition, start, end, reverse)| Step::Scan {
                partition,
                start,
                end,
                reverse,
            }),
        1 => Just(Step::Reopen),
    ]
}

/// One partition of the store and the rows that it must hold.
struct ModelPartition {
    id: PartitionId,
    lease: Lease,
    head: Lsn,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl ModelPartition {
    fn open(store: &dyn Store, id: PartitionId) -> Self {
        ModelPartition {
            id,
            lease: store.open(id).unwrap(),
            head: 0,
            rows: BTreeMap::new(),
        }
    }

    /// Gives a change the numbers of the next commit.
    fn next_commit(&self, change: Commit) -> Commit {
        Commit {
            expect_lsn: self.head,
            new_lsn: self.head + 1,
            ..change
        }
    }

    /// Commits a change to the store and to the model.
    fn commit(&mut self, store: &dyn Store, change: Commit) {
        for range in &change.range_deletes {
            self.rows.retain(|key, _| !range.contains(key));
        }
        for key in &change.deletes {
            self.rows.remove(key);
        }
        self.rows.extend(change.puts.iter().cloned());
        let commit = self.next_commit(change);
        assert_eq!(store.submit(&self.lease, commit).wait(), CommitOutcome::Ok);
        self.head += 1;
    }

    /// Opens the partition again and checks that the earlier lease is fenced.
    fn reopen(&mut self, store: &dyn Store) {
        let newer = store.open(self.id).unwrap();
        let stale = self.next_commit(Commit::default());
        assert_eq!(
            store.submit(&self.lease, stale).wait(),
            CommitOutcome::Fenced
        );
        self.lease = newer;
    }

    fn destroy(&mut self, store: &dyn Store) {
        store.destroy(self.id).unwrap();
        *self = ModelPartition::open(store, self.id);
    }

    /// Checks a scan of a range, and the value of every key.
    fn check_scan(
        &self,
        store: &dyn Store,
        range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        reverse: bool,
    ) {
        let mut expected: Vec<Pair> = Vec::new();
        for (key, value) in &self.rows {
            if range.contains(key) {
                expected.push((key.clone(), value.clone()));
            }
        }
        let direction = if reverse {
            expected.reverse();
            Direction::Reverse
        } else {
            Direction::Forward
        };
        let snapshot = store.snapshot(self.id).unwrap();
        let (start, end) = &range;
        let bounds = (
            start.as_ref().map(Vec::as_slice),
            end.as_ref().map(Vec::as_slice),
        );
        assert_eq!(rows(&*snapshot, bounds, direction), expected);
        for (key, value) in &self.rows {
            let found = snapshot.get(key).unwrap();
            assert_eq!(found.as_deref(), Some(value.as_slice()));
        }
    }

    /// Checks the head and all rows.
    fn check(&self, store: &dyn Store) {
        let snapshot = store.snapshot(self.id).unwrap();
        assert_eq!(snapshot.head().lsn, self.head);
        let expected: Vec<Pair> = self.rows.clone().into_iter().collect();
        assert_eq!(rows(&*snapshot, ALL, Direction::Forward), expected);
    }
}

/// Runs a history on both engines and on the model.
fn run(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let memory = std::sync::Arc::new(MemoryStore::new());
    let open = || {
        let path = dir.path().join("data");
        // Small memtables: the history passes through flushes and compactions.
        let options = LocalOptions {
            memtable_bytes: 4 << 10,
            ..LocalOptions::default()
        };
        let local = LocalStore::open(path, options).unwrap();
        Mirrored::new(memory.clone(), local)
    };
    let mut store = open();
    let mut partitions = [0, 1, 2].map(|id| ModelPartition::open(&store, PartitionId(id)));
    for step in steps {
        match step {
            Step::Commit { partition, change } => {
                partitions[partition as usize].commit(&store, change);
            }
            Step::Open { partition } => partitions[partition as usize].reopen(&store),
            Step::Destroy { partition } => partitions[partition as usize].destroy(&store),
            Step::Scan {
                partition,
                start,
                end,
                reverse,
            } => partitions[partition as usize].check_scan(&store, (start, end), reverse),
            Step::Reopen => {
                drop(store);
                store = open();
            }
        }
    }
    for partition in partitions {
        partition.check(&store);
    }
}

fn cases() -> u32 {
    let text = std::env::var("ORRERY_STORE_CASES").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(40)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_engines_agree_with_the_model(steps in proptest::collection::vec(step(), 1..60)) {
        run(steps);
    }
}
