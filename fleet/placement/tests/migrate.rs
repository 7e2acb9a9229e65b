//! Migrations between stores in memory: complete, interrupted, refused, and different afterwards.

use orrery_placement::{
    Migration, MigrationProgress, NamedCluster, PlacedStore, is_incomplete_copy, migrate_store,
};
use orrery_storage::testing::{Failing, Fault};
use orrery_storage::{Commit, CommitOutcome, MemoryStore, PartitionId, Store, StoreError};
use std::sync::Arc;

const PARTITIONS: [PartitionId; 3] = [PartitionId(0), PartitionId(3), PartitionId(8)];

/// Commits a row to a partition, with a token that begins with `mark`.
fn write(store: &dyn Store, partition: PartitionId, key: &[u8], value: &[u8], mark: u8) {
    let lease = store.open(partition).unwrap();
    let mut commit = Commit {
        expect_lsn: lease.head().lsn,
        new_lsn: lease.head().lsn + 1,
        puts: vec![(key.to_vec(), value.to_vec())],
        ..Commit::default()
    };
    commit.token = [mark; 16];
    commit.token[8..].copy_from_slice(&commit.new_lsn.to_be_bytes());
    let outcome = store.submit(&lease, commit).wait();
    assert_eq!(outcome, CommitOutcome::Ok);
}

/// Returns a store with three partitions of several commits each.
fn source(mark: u8) -> MemoryStore {
    let store = MemoryStore::new();
    for partition in PARTITIONS {
        for number in 0..5_u8 {
            write(&store, partition, &[number], &[mark; 100], mark);
        }
    }
    store
}

fn two_clusters() -> PlacedStore {
    let clusters = ["a", "b"].map(|name| NamedCluster {
        name: name.to_owned(),
        store: Arc::new(MemoryStore::new()),
        drained: false,
    });
    PlacedStore::open(clusters.into()).unwrap()
}

fn migrate(from: &dyn Store, to: &dyn Store) -> Result<Migration, StoreError> {
    migrate_store(from, to, &PARTITIONS, |_| {})
}

#[track_caller]
fn refused(result: Result<Migration, StoreError>, word: &str) {
    let error = result.expect_err("it is refused").to_string();
    assert!(error.contains(word), "{error}");
}

#[test]
fn a_store_goes_to_clusters_and_back_and_is_compared() {
    let (first, placed, last) = (source(1), two_clusters(), MemoryStore::new());
    let mut compared = Vec::new();
    let done = migrate_store(&first, &placed, &PARTITIONS, |step| {
        if let MigrationProgress::Compared {
            partition,
            rows,
            is_complete: true,
        } = step
        {
            compared.push((partition, rows));
        }
    });
    let done = done.unwrap();
    assert_eq!((done.partitions, done.copied, done.rows), (3, 3, 15));
    assert_eq!(done.bytes, 15 * 101);
    assert_eq!(compared, PARTITIONS.map(|partition| (partition, 5)));
    // The record is gone from the list of partitions too.
    let ids: Vec<PartitionId> = placed.placements().iter().map(|p| p.partition).collect();
    assert_eq!(ids, PARTITIONS);
    assert!(!is_incomplete_copy(&placed).unwrap());

    assert_eq!(migrate(&placed, &last).unwrap().copied, 3);
    for partition in PARTITIONS {
        let head = first.snapshot(partition).unwrap().head();
        assert_eq!(last.snapshot(partition).unwrap().head(), head);
    }
    // A complete copy is compared again, and nothing is copied.
    assert_eq!(migrate(&first, &placed).unwrap().copied, 0);
}

#[test]
fn an_interrupted_migration_goes_on_from_the_same_source_only() {
    let first = source(1);
    let mut interruptions = 0;
    // The first two writes make the record.
    for writes in 2.. {
        let target = Arc::new(MemoryStore::new());
        let failing = Failing::after(writes, Fault::Lost, target.clone());
        if migrate(&first, &failing).is_ok() {
            break;
        }
        if is_incomplete_copy(&*target).unwrap() {
            interruptions += 1;
            refused(migrate(&source(2), &*target), "another source");
            refused(migrate(&*target, &MemoryStore::new()), "copy");
            migrate(&first, &*target).unwrap();
        }
        // Without the record everything is there.
        assert!(!is_incomplete_copy(&*target).unwrap());
        assert_eq!(migrate(&first, &*target).unwrap().copied, 0);
    }
    assert!(interruptions >= 6, "{interruptions}");
}

#[test]
fn a_source_that_changed_and_a_target_with_data_are_refused() {
    let (first, target) = (source(1), source(2));
    refused(migrate(&first, &target), "a database already");
    refused(migrate(&MemoryStore::new(), &target), "nothing to copy");

    // The target has more commits in a partition than the source, which the catalog does not tell.
    let copy = MemoryStore::new();
    migrate(&first, &copy).unwrap();
    write(&copy, PartitionId(3), b"new", b"", 1);
    refused(migrate(&first, &copy), "has data already");
}

#[test]
fn the_comparison_finds_a_row_that_differs_under_the_same_head() {
    let (first, other) = (source(1), MemoryStore::new());
    for partition in PARTITIONS {
        for number in 0..5_u8 {
            let value = if (partition.0, number) == (8, 4) {
                9
            } else {
                1
            };
            write(&other, partition, &[number], &[value; 100], 1);
        }
    }
    refused(migrate(&first, &other), "partition 8 differs");
}
