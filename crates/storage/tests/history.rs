//! Random histories against a simple model: a `BTreeMap` for each partition. Memory and local
//! engine run mirrored, so all three must agree at every step.

mod support;

use std::collections::BTreeMap;
use std::ops::Bound;

use orrery_storage::testing::Mirrored;
use orrery_storage::{
    Commit, CommitOutcome, Direction, LocalOptions, LocalStore, MemoryStore, PartitionId, Store,
};
use proptest::prelude::*;
use support::{ALL, Pair, rows};

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

/// Applies a commit to the model.
fn apply(model: &mut BTreeMap<Vec<u8>, Vec<u8>>, change: &Commit) {
    for range in &change.range_deletes {
        model.retain(|key, _| !range.contains(key));
    }
    for key in &change.deletes {
        model.remove(key);
    }
    model.extend(change.puts.iter().cloned());
}

/// Returns the rows that a scan must find.
fn expected(
    model: &BTreeMap<Vec<u8>, Vec<u8>>,
    start: &Bound<Vec<u8>>,
    end: &Bound<Vec<u8>>,
    reverse: bool,
) -> Vec<Pair> {
    let range = (start.clone(), end.clone());
    let inside = model
        .iter()
        .filter(|(key, _)| std::ops::RangeBounds::contains(&range, *key));
    let mut found: Vec<Pair> = inside
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if reverse {
        found.reverse();
    }
    found
}

fn run(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let memory = std::sync::Arc::new(MemoryStore::new());
    let open = || {
        Mirrored::new(
            memory.clone(),
            LocalStore::open(dir.path().join("data"), LocalOptions::default()).unwrap(),
        )
    };
    let mut store = open();
    let ids = [0, 1, 2].map(PartitionId);
    let mut leases = ids.map(|id| store.open(id).unwrap());
    let mut heads = [0u64; 3];
    let mut models = [const { BTreeMap::new() }; 3];
    for step in steps {
        match step {
            Step::Commit { partition, change } => {
                let i = partition as usize;
                let numbered = Commit {
                    expect_lsn: heads[i],
                    new_lsn: heads[i] + 1,
                    ..change
                };
                apply(&mut models[i], &numbered);
                assert_eq!(store.submit(&leases[i], numbered).wait(), CommitOutcome::Ok);
                heads[i] += 1;
            }
            Step::Open { partition } => {
                let i = partition as usize;
                let newer = store.open(ids[i]).unwrap();
                let stale = Commit {
                    expect_lsn: heads[i],
                    new_lsn: heads[i] + 1,
                    ..Commit::default()
                };
                assert_eq!(
                    store.submit(&leases[i], stale).wait(),
                    CommitOutcome::Fenced
                );
                leases[i] = newer;
            }
            Step::Destroy { partition } => {
                let i = partition as usize;
                store.destroy(ids[i]).unwrap();
                leases[i] = store.open(ids[i]).unwrap();
                heads[i] = 0;
                models[i].clear();
            }
            Step::Scan {
                partition,
                start,
                end,
                reverse,
            } => {
                let i = partition as usize;
                let snapshot = store.snapshot(ids[i]).unwrap();
                let direction = if reverse {
                    Direction::Reverse
                } else {
                    Direction::Forward
                };
                let range = (
                    start.as_ref().map(Vec::as_slice),
                    end.as_ref().map(Vec::as_slice),
                );
                assert_eq!(
                    rows(&*snapshot, range, direction),
                    expected(&models[i], &start, &end, reverse)
                );
                for (key, value) in &models[i] {
                    assert_eq!(
                        snapshot.get(key).unwrap().as_deref(),
                        Some(value.as_slice())
                    );
                }
            }
            Step::Reopen => {
                drop(store);
                store = open();
            }
        }
    }
    for i in 0..3 {
        let snapshot = store.snapshot(ids[i]).unwrap();
        assert_eq!(snapshot.head().lsn, heads[i]);
        assert_eq!(
            rows(&*snapshot, ALL, Direction::Forward),
            models[i].clone().into_iter().collect::<Vec<_>>()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_engines_agree_with_the_model(steps in proptest::collection::vec(step(), 1..60)) {
        run(steps);
    }
}
