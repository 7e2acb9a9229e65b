//! The memory engine: random histories with snapshots that are held, against a plain map for each
//! snapshot; and the memory that rows take, and give back.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use crate::support::{ALL, P, Pair, PartitionWriter, rows};
use orrery_storage::{Commit, CommitOutcome, Direction, MemoryStore, Snapshot, Store};
use proptest::prelude::*;
use proptest::sample::Index;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Commit(Commit),
    TakeSnapshot,
    DropSnapshot(Index),
    /// Reads a held snapshot in both directions.
    Read {
        snapshot: Index,
        start: Bound<Vec<u8>>,
        end: Bound<Vec<u8>>,
    },
    Destroy,
}

/// Some hundred keys with common beginnings, some of them the beginning of others.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0x7f), Just(0x80), Just(0xff)];
    (
        prop_oneof![Just(vec![]), Just(vec![0x10, 0, 0]), Just(vec![0x90; 200])],
        proptest::collection::vec(byte, 0..4),
    )
        .prop_map(|(start, rest)| [start, rest].concat())
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        2 => key().prop_map(Bound::Included),
        2 => key().prop_map(Bound::Excluded),
    ]
}

/// Values of all sizes: many fit into a block, a few fill it, and some are longer than a block.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![8 => 0usize..20, 4 => 100usize..900, 1 => 2000usize..9000];
    (any::<u8>(), length).prop_map(|(byte, length)| vec![byte; length])
}

fn step() -> impl Strategy<Value = Step> {
    let puts = proptest::collection::vec((key(), value()), 0..30);
    let deletes = proptest::collection::vec(key(), 0..30);
    let ranges = prop_oneof![
        6 => Just(Vec::new()),
        1 => (key(), key()).prop_map(|(start, end)| vec![start..end]),
    ];
    let change = (puts, deletes, ranges).prop_map(|(puts, deletes, range_deletes)| Commit {
        puts,
        deletes,
        range_deletes,
        ..Commit::default()
    });
    prop_oneof![
        20 => change.prop_map(Step::Commit),
        6 => Just(Step::TakeSnapshot),
        5 => any::<Index>().prop_map(Step::DropSnapshot),
        10 => (any::<Index>(), bound(), bound())
            .prop_map(|(snapshot, start, end)| Step::Read { snapshot, start, end }),
        1 => Just(Step::Destroy),
    ]
}

fn apply(model: &mut Model, change: &Commit) {
    for range in &change.range_deletes {
        model.retain(|key, _| !range.contains(key));
    }
    for key in &change.deletes {
        model.remove(key);
    }
    model.extend(change.puts.iter().cloned());
}

/// Checks a range of a snapshot in both directions, and the value of every key.
fn check(snapshot: &dyn Snapshot, model: &Model, range: (Bound<&[u8]>, Bound<&[u8]>)) {
    let mut expected: Vec<Pair> = Vec::new();
    for (key, value) in model {
        if RangeBounds::<[u8]>::contains(&range, key.as_slice()) {
            expected.push((key.clone(), value.clone()));
        }
    }
    assert_eq!(rows(snapshot, range, Direction::Forward), expected);
    expected.reverse();
    assert_eq!(rows(snapshot, range, Direction::Reverse), expected);
    for (key, value) in model {
        assert_eq!(
            snapshot.get(key).unwrap().as_deref(),
            Some(value.as_slice())
        );
        let missing = [key.as_slice(), b"\x01none"].concat();
        assert_eq!(snapshot.get(&missing).unwrap(), None);
    }
}

/// Runs a history. At its end, drops all snapshots and removes all rows.
fn run(steps: Vec<Step>) {
    let store = MemoryStore::new();
    let mut writer = PartitionWriter::open(&store, P);
    let empty_bytes = store.approximate_bytes();
    let mut model = Model::new();
    let mut held: Vec<(Box<dyn Snapshot>, Model)> = Vec::new();
    for step in steps {
        match step {
            Step::Commit(change) => {
                apply(&mut model, &change);
                assert_eq!(writer.commit(change), CommitOutcome::Ok);
            }
            Step::TakeSnapshot => held.push((store.snapshot(P).unwrap(), model.clone())),
            Step::DropSnapshot(index) if !held.is_empty() => {
                held.swap_remove(index.index(held.len()));
            }
            Step::Read {
                snapshot,
                start,
                end,
            } if !held.is_empty() => {
                let (snapshot, model) = &held[snapshot.index(held.len())];
                let range = (
                    start.as_ref().map(Vec::as_slice),
                    end.as_ref().map(Vec::as_slice),
                );
                check(&**snapshot, model, range);
            }
            Step::DropSnapshot(_) | Step::Read { .. } => {}
            Step::Destroy => {
                store.destroy(P).unwrap();
                model.clear();
                writer = PartitionWriter::open(&store, P);
            }
        }
    }
    check(&*store.snapshot(P).unwrap(), &model, ALL);
    for (snapshot, model) in &held {
        check(&**snapshot, model, ALL);
    }

    drop(held);
    let deletes = model.into_keys().collect();
    let outcome = writer.commit(Commit {
        deletes,
        ..Commit::default()
    });
    assert_eq!(outcome, CommitOutcome::Ok);
    assert_eq!(store.approximate_bytes(), empty_bytes);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_snapshot_reads_as_a_copy_would_and_nothing_is_left_of_removed_rows(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        run(steps);
    }
}

/// Returns the key of a row with a number, similar to that of an index entry.
fn numbered(number: u64) -> Vec<u8> {
    // Neighbouring numbers are far from each other in the order of the keys.
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [&[0x90, 0, 0, 0, 7], &spread.to_be_bytes()[..]].concat()
}

/// Writes rows with the numbers below `count`, a hundred in a commit.
fn write_numbered(writer: &mut PartitionWriter<'_>, count: u64, value: &[u8]) {
    for first in (0..count).step_by(100) {
        let puts = (first..count.min(first + 100))
            .map(|number| (numbered(number), value.to_vec()))
            .collect();
        let change = Commit {
            puts,
            ..Commit::default()
        };
        assert_eq!(writer.commit(change), CommitOutcome::Ok);
    }
}

#[test]
fn a_short_row_takes_little_more_than_its_own_bytes() {
    const ROWS: u64 = 20_000;
    let store = MemoryStore::new();
    let mut writer = PartitionWriter::open(&store, P);
    write_numbered(&mut writer, ROWS, b"12345678");
    // Five of the thirteen bytes of a key are those of every key. An entry adds three.
    let row_bytes = numbered(0).len() as u64 + 8;
    let stored = store.approximate_bytes();
    assert!(
        stored < ROWS * row_bytes * 5 / 4,
        "{} bytes for a row of {row_bytes}",
        stored / ROWS
    );
}

#[test]
fn rows_written_again_and_again_take_the_memory_of_their_newest_values() {
    let store = MemoryStore::new();
    let mut writer = PartitionWriter::open(&store, P);
    write_numbered(&mut writer, 2_000, &[0; 50]);
    let once = store.approximate_bytes();
    for round in 1..=10 {
        // A snapshot lives through every round, as that of a request does.
        let _snapshot = store.snapshot(P).unwrap();
        write_numbered(&mut writer, 2_000, &[round; 50]);
    }
    assert!(store.approximate_bytes() <= once);
}

#[test]
fn a_snapshot_keeps_one_copy_of_what_it_sees_however_much_is_written_after_it() {
    let store = MemoryStore::new();
    let mut writer = PartitionWriter::open(&store, P);
    write_numbered(&mut writer, 2_000, b"before");
    let once = store.approximate_bytes();
    let held = store.snapshot(P).unwrap();
    for round in 0..10u8 {
        let _short = store.snapshot(P).unwrap();
        write_numbered(&mut writer, 2_000, &[round; 6]);
    }
    let bytes = store.approximate_bytes();
    assert!(
        bytes <= once * 3,
        "{bytes} bytes, {once} without the snapshot"
    );

    for (_, value) in rows(&*held, ALL, Direction::Forward) {
        assert_eq!(value, b"before");
    }
    drop(held);
    assert_eq!(store.approximate_bytes(), once);
}

#[test]
fn deleted_rows_give_their_memory_back_when_the_last_snapshot_that_sees_them_ends() {
    let store = MemoryStore::new();
    let mut writer = PartitionWriter::open(&store, P);
    let empty = store.approximate_bytes();
    write_numbered(&mut writer, 5_000, &[1; 100]);
    let full = store.approximate_bytes();
    let held = store.snapshot(P).unwrap();
    let delete_all = Commit {
        range_deletes: vec![vec![]..vec![0xff]],
        ..Commit::default()
    };
    assert_eq!(writer.commit(delete_all), CommitOutcome::Ok);
    assert!(store.approximate_bytes() >= full * 9 / 10);
    assert_eq!(rows(&*held, ALL, Direction::Forward).len(), 5_000);
    drop(held);
    assert_eq!(store.approximate_bytes(), empty);

    write_numbered(&mut writer, 5_000, &[1; 100]);
    store.destroy(P).unwrap();
    assert_eq!(store.approximate_bytes(), 0);
}

#[test]
fn a_snapshot_taken_between_commits_of_another_thread_holds_whole_commits() {
    const KEYS: u64 = 300;
    let store = &MemoryStore::new();
    let mut writer = PartitionWriter::open(store, P);
    let commit_of = |round: u64| Commit {
        puts: (0..KEYS)
            .map(|number| (numbered(number), [round; 10].map(u64::to_be_bytes).concat()))
            .collect(),
        ..Commit::default()
    };
    assert_eq!(writer.commit(commit_of(1)), CommitOutcome::Ok);
    std::thread::scope(|scope| {
        for direction in [Direction::Forward, Direction::Reverse] {
            scope.spawn(move || {
                for _ in 0..50 {
                    let snapshot = store.snapshot(P).unwrap();
                    let expected = snapshot.head().lsn.to_be_bytes();
                    let found = rows(&*snapshot, ALL, direction);
                    assert_eq!(found.len() as u64, KEYS);
                    assert!(found.iter().all(|(_, value)| value.starts_with(&expected)));
                }
            });
        }
        for round in 2..100 {
            assert_eq!(writer.commit(commit_of(round)), CommitOutcome::Ok);
        }
    });
}
