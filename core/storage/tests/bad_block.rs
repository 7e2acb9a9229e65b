//! A damaged block of a table: it stops the writes of its partition and the reads of its keys, and
//! nothing else, also after restarts.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{self, ALL, PartitionWriter, everything};
use orrery_storage::{
    CommitOutcome, Damage, DamagedContents, Direction, LocalOptions, LocalStore, PartitionId,
    Store, StoreError,
};
use orrery_test_wait::wait_for;

/// The partitions of these tests: the damaged one is among them.
const PARTITIONS: std::ops::RangeInclusive<u64> = 1..=6;
const KEYS: u64 = 400;

/// Small memtables, so that a few hundred commits make many tables and compactions.
fn options() -> LocalOptions {
    LocalOptions {
        memtable_bytes: 128 << 10,
        scrub_bytes_per_second: 0,
        ..LocalOptions::default()
    }
}

fn value(seed: u64) -> Vec<u8> {
    let mut state = seed + 1;
    let step = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..400).map(step).collect()
}

/// Writes each key of a partition with a value of this round. Returns the outcomes that are not
/// `Ok`.
fn write_round(store: &LocalStore, partition: u64, round: u64) -> Vec<CommitOutcome> {
    let mut failures = Vec::new();
    let mut writer = PartitionWriter::open(store, PartitionId(partition));
    for first in (0..KEYS).step_by(10) {
        let mut puts = Vec::new();
        for key in first..first + 10 {
            puts.push((key.to_be_bytes().to_vec(), value(key + round * 1000)));
            puts.push(([&[0x80], &key.to_be_bytes()[..]].concat(), value(key)));
        }
        let puts: Vec<(&[u8], &[u8])> = puts.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        match writer.commit(support::commit(1, &puts)) {
            CommitOutcome::Ok => {}
            other => failures.push(other),
        }
    }
    failures
}

/// Creates a store with all partitions, closed.
fn filled() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), options()).unwrap();
    for partition in PARTITIONS {
        assert_eq!(write_round(&store, partition, 0), []);
    }
    drop(store);
    dir
}

/// Returns the largest table of a keyspace.
fn largest_table(dir: &Path, keyspace: u32) -> PathBuf {
    let tables = dir.join(format!("store/keyspaces/{keyspace}/tables"));
    let files = std::fs::read_dir(tables).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    files
        .max_by_key(|file| std::fs::metadata(file).unwrap().len())
        .unwrap()
}

/// Flips a bit in the data blocks of the largest table of a keyspace. Returns the file.
fn damage(dir: &Path, keyspace: u32) -> PathBuf {
    let file = largest_table(dir, keyspace);
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    file
}

/// Opens the store and returns it with a channel that receives each damage.
fn open(dir: &Path, options: LocalOptions) -> (LocalStore, mpsc::Receiver<Damage>) {
    let store = LocalStore::open(dir, options).unwrap();
    let (sender, receiver) = mpsc::channel();
    store.report_damage(Box::new(move |damage| {
        // The test may not wait for the report.
        let _ = sender.send(damage.clone());
    }));
    (store, receiver)
}

fn next_report(receiver: &mpsc::Receiver<Damage>) -> Damage {
    receiver.recv_timeout(Duration::from_secs(60)).unwrap()
}

/// Reads a partition: its rows in one direction, up to the first error.
fn read(store: &LocalStore, partition: u64, direction: Direction) -> Result<usize, StoreError> {
    let snapshot = store.snapshot(PartitionId(partition)).unwrap();
    let mut count = 0;
    for row in snapshot.scan(ALL, direction) {
        row?;
        count += 1;
    }
    Ok(count)
}

#[test]
fn a_damaged_block_stops_the_writes_of_its_partition_only_also_after_restarts() {
    for keyspace in [1, 2] {
        let dir = filled();
        let file = damage(dir.path(), keyspace);
        let (store, reports) = open(dir.path(), options());
        for round in 1..4 {
            for partition in PARTITIONS {
                write_round(&store, partition, round);
            }
        }
        let found = next_report(&reports);
        assert_eq!(found.file, file);
        let damaged = found.partitions().to_vec();
        assert!(!damaged.is_empty() && damaged.len() <= 2, "{damaged:?}");
        assert_eq!(store.damage(), std::slice::from_ref(&found));
        drop(store);

        for round in 4..6 {
            let (store, reports) = open(dir.path(), options());
            assert_eq!(next_report(&reports), found, "a restart knows the damage");
            for partition in PARTITIONS {
                let failures = write_round(&store, partition, round);
                if damaged.contains(&PartitionId(partition)) {
                    assert_eq!(failures.len() as u64, KEYS / 10);
                    assert!(failures.iter().all(|o| *o == CommitOutcome::Damaged));
                } else {
                    assert_eq!(failures, []);
                    let rows = everything(&store, PartitionId(partition));
                    assert_eq!(rows.len() as u64, 2 * KEYS);
                    let newest = value(17 + round * 1000);
                    assert!(rows.contains(&(17u64.to_be_bytes().to_vec(), newest)));
                }
            }
            drop(store);
        }
    }
}

#[test]
fn reads_of_a_damaged_block_fail_and_all_other_reads_are_as_before() {
    let dir = filled();
    let store = LocalStore::open(dir.path(), options()).unwrap();
    let mut before = BTreeMap::new();
    for partition in PARTITIONS {
        before.insert(partition, everything(&store, PartitionId(partition)));
    }
    drop(store);
    let file = damage(dir.path(), 1);
    let (store, reports) = open(dir.path(), options());
    // The first read that meets the block has it found.
    for partition in PARTITIONS {
        let _ = read(&store, partition, Direction::Forward);
    }
    let found = next_report(&reports);
    assert_eq!(found.file, file);
    let DamagedContents::Keys {
        is_index: false,
        first: Bound::Excluded(first) | Bound::Included(first),
        last,
        partitions,
    } = &found.contents
    else {
        panic!("{found:?}");
    };
    let mut refused = 0;
    for partition in PARTITIONS {
        let id = PartitionId(partition);
        let snapshot = store.snapshot(id).unwrap();
        for (key, value) in &before[&partition] {
            let full = [&partition.to_be_bytes()[..], key].concat();
            match snapshot.get(key) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
                Err(StoreError::DamagedBlock { file, offset, .. }) => {
                    assert_eq!((&file, offset), (&found.file, found.offset));
                    assert!(full >= *first && full <= *last);
                    refused += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            let result = read(&store, partition, direction);
            if partitions.contains(&id) {
                assert!(matches!(result, Err(StoreError::DamagedBlock { .. })));
            } else {
                assert_eq!(result.unwrap(), before[&partition].len());
            }
        }
        // A scan beside the block yields what was there.
        if partitions.contains(&id) && first.starts_with(&partition.to_be_bytes()) {
            let end = &first[8..];
            let rows = support::rows(
                &*snapshot,
                (Bound::Unbounded, Bound::Included(end)),
                Direction::Forward,
            );
            let expected = before[&partition].iter().filter(|(key, _)| &key[..] <= end);
            assert_eq!(rows, expected.cloned().collect::<Vec<_>>());
        }
    }
    assert!(refused > 0, "the block had keys");
}

/// Creates a store with a damaged block of rows, and reads all partitions until the damage is
/// found.
fn filled_and_damaged() -> (tempfile::TempDir, LocalStore, Damage) {
    let dir = filled();
    damage(dir.path(), 1);
    let (store, reports) = open(dir.path(), options());
    for partition in PARTITIONS {
        let _ = read(&store, partition, Direction::Forward);
    }
    let found = next_report(&reports);
    (dir, store, found)
}

#[test]
fn a_destroyed_partition_takes_its_damage_with_it() {
    let (dir, store, found) = filled_and_damaged();
    for partition in found.partitions() {
        store.destroy(*partition).unwrap();
    }
    assert_eq!(store.damage(), []);
    for partition in found.partitions() {
        assert_eq!(everything(&store, *partition), []);
        assert_eq!(write_round(&store, partition.0, 9), []);
        assert_eq!(everything(&store, *partition).len() as u64, 2 * KEYS);
    }
    drop(store);
    let (store, _) = open(dir.path(), options());
    assert_eq!(store.damage(), []);
}

#[test]
fn the_loss_of_a_damaged_block_can_be_accepted() {
    let (dir, store, found) = filled_and_damaged();
    drop(store);
    let accepting = LocalOptions {
        accept_damage: true,
        ..options()
    };
    let store = LocalStore::open(dir.path(), accepting).unwrap();
    assert_eq!(store.damage(), []);
    for partition in found.partitions() {
        let rows = everything(&store, *partition).len() as u64;
        assert!(rows < 2 * KEYS && rows > KEYS, "{rows} rows are left");
    }
    drop(store);
    let store = LocalStore::open(dir.path(), options()).unwrap();
    for partition in PARTITIONS {
        assert_eq!(write_round(&store, partition, 5), []);
        let rows = everything(&store, PartitionId(partition)).len() as u64;
        assert_eq!(rows, 2 * KEYS);
    }
}

#[test]
fn the_regular_check_finds_a_block_that_nothing_else_reads() {
    // One table of rows, which needs no compaction.
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), options()).unwrap();
    assert_eq!(write_round(&store, 1, 0), []);
    drop(store);
    let file = damage(dir.path(), 1);
    let scrubbing = LocalOptions {
        scrub_bytes_per_second: 1 << 30,
        ..options()
    };
    let (store, reports) = open(dir.path(), scrubbing);
    assert_eq!(next_report(&reports).file, file);
    let progress = || store.scrub_progress().unwrap();
    let progress = wait_for("a pass of the check", progress, |progress| {
        progress.passes > 0
    });
    assert!(progress.checked_bytes > 0 && progress.seconds_since_pass.is_some());
}

#[test]
fn the_records_of_the_store_survive_damage_of_their_own_block() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), options()).unwrap();
    // Commits without rows: the tables of rows consist of head records.
    let heads = 3000..5000;
    for partition in heads.clone() {
        let mut writer = PartitionWriter::open(&store, PartitionId(partition));
        writer.put(&[(b"\x80k", b"v")]);
    }
    drop(store);
    let (store, reports) = open(dir.path(), options());
    damage(dir.path(), 1);
    for round in 1..12 {
        assert_eq!(write_round(&store, 1, round), []);
    }
    let found = next_report(&reports);
    assert_eq!(found.contents, DamagedContents::Restored, "{found:?}");
    drop(store);
    for _ in 0..2 {
        let store = LocalStore::open(dir.path(), options()).unwrap();
        assert_eq!(store.damage(), []);
        for partition in heads.clone().step_by(7) {
            let snapshot = store.snapshot(PartitionId(partition)).unwrap();
            assert_eq!(snapshot.head().lsn, 1, "{partition}");
        }
    }
}

#[test]
fn damage_of_the_records_of_the_store_that_is_met_at_open_stops_nothing() {
    // The tables of one keyspace consist of records of the store: the keys are in the other.
    for (keyspace, key) in [(1, &b"\x80k"[..]), (2, b"k")] {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::open(dir.path(), options()).unwrap();
        let heads = 3000..5000;
        for partition in heads.clone() {
            let mut writer = PartitionWriter::open(&store, PartitionId(partition));
            writer.put(&[(key, b"v")]);
        }
        drop(store);
        damage(dir.path(), keyspace);
        for epoch in 2..4 {
            let store = LocalStore::open(dir.path(), options()).unwrap();
            for partition in heads.clone() {
                let partition = PartitionId(partition);
                assert_eq!(store.snapshot(partition).unwrap().head().lsn, 1);
                assert_eq!(everything(&store, partition).len(), 1);
            }
            let writer = PartitionWriter::open(&store, PartitionId(4000));
            assert_eq!((writer.lsn, writer.lease.epoch()), (1, epoch));
            assert_eq!(write_round(&store, 1, epoch), []);
        }
    }
}
