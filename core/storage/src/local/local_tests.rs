//! The local store after planned failures: its answers, its readers, and the data that a restart
//! finds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::space::{Source, Space};
use super::*;
use crate::commit::Lsn;
use orrery_test_wait::wait_for;

const MB: u64 = 1 << 20;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EMFILE: i32 = 24;

fn change(lsn: Lsn) -> Commit {
    Commit {
        expect_lsn: lsn - 1,
        new_lsn: lsn,
        token: [lsn as u8; 16],
        puts: vec![
            (lsn.to_be_bytes().to_vec(), vec![7; 100]),
            ([b"\x80".as_slice(), &lsn.to_be_bytes()].concat(), vec![]),
        ],
        ..Commit::default()
    }
}

fn system_error(number: i32) -> fjall::Error {
    std::io::Error::from_raw_os_error(number).into()
}

/// Returns the number of keys and the head.
fn content(store: &LocalStore, partition: PartitionId) -> (usize, Lsn) {
    let snapshot = store.snapshot(partition).unwrap();
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let rows = snapshot.scan(everything, Direction::Forward);
    (rows.map(Result::unwrap).count(), snapshot.head().lsn)
}

fn fault(store: &LocalStore) -> &reopening::FaultPoint {
    &store.committer.sink().fault
}

fn restarted(dir: &Path) -> LocalStore {
    LocalStore::open(dir, LocalOptions::default()).unwrap()
}

#[test]
fn a_commit_that_failed_for_want_of_space_did_not_happen_and_writing_goes_on() {
    let (p, q) = (PartitionId(1), PartitionId(2));
    let dir = tempfile::tempdir().unwrap();
    let store = restarted(dir.path());
    let (lease, other) = (store.open(p).unwrap(), store.open(q).unwrap());
    for lsn in 1..=3 {
        assert_eq!(store.submit(&lease, change(lsn)).wait(), CommitOutcome::Ok);
        assert_eq!(store.submit(&other, change(lsn)).wait(), CommitOutcome::Ok);
    }
    fault(&store).plan(system_error(ENOSPC), false);
    let failed = store.submit(&lease, change(4)).wait();
    assert!(
        matches!(failed, CommitOutcome::StorageFull { .. }),
        "{failed:?}"
    );
    wait_for(
        "commits are accepted",
        || store.refusal(false),
        Option::is_none,
    );
    assert_eq!(content(&store, p), (6, 3));

    // The lease of the failed commit is fenced; that of the other partition has nothing in doubt.
    assert_eq!(
        store.submit(&lease, change(4)).wait(),
        CommitOutcome::Fenced
    );
    assert_eq!(store.submit(&other, change(4)).wait(), CommitOutcome::Ok);
    let renewed = store.open(p).unwrap();
    assert!(renewed.epoch() > lease.epoch());
    assert_eq!(renewed.head().lsn, 3);
    assert_eq!(store.submit(&renewed, change(4)).wait(), CommitOutcome::Ok);
    assert_eq!(content(&store, p), (8, 4));
    drop(store);
    let store = restarted(dir.path());
    assert_eq!((content(&store, p), content(&store, q)), ((8, 4), (8, 4)));
}

#[test]
fn a_reader_keeps_its_snapshot_and_the_database_is_reopened_when_the_reader_is_done() {
    let p = PartitionId(1);
    let dir = tempfile::tempdir().unwrap();
    let store = restarted(dir.path());
    let lease = store.open(p).unwrap();
    assert_eq!(store.submit(&lease, change(1)).wait(), CommitOutcome::Ok);
    let snapshot = store.snapshot(p).unwrap();
    fault(&store).plan(system_error(EMFILE), false);
    assert_eq!(
        store.submit(&lease, change(2)).wait(),
        CommitOutcome::Unknown
    );
    let refused = store.submit(&lease, change(2)).wait();
    assert!(
        matches!(refused, CommitOutcome::Unavailable { .. }),
        "{refused:?}"
    );
    // A thread that holds a snapshot gets another one without a wait.
    assert_eq!(content(&store, p), (2, 1));
    assert_eq!(snapshot.head().lsn, 1);
    drop(snapshot);
    wait_for(
        "commits are accepted",
        || store.refusal(false),
        Option::is_none,
    );
    assert_eq!(content(&store, p), (2, 1));
    let lease = store.open(p).unwrap();
    assert_eq!(store.submit(&lease, change(2)).wait(), CommitOutcome::Ok);
}

#[test]
fn a_failed_commit_that_a_table_holds_already_is_kept_and_stays_in_doubt_until_a_restart() {
    let p = PartitionId(1);
    let dir = tempfile::tempdir().unwrap();
    let store = restarted(dir.path());
    let lease = store.open(p).unwrap();
    assert_eq!(store.submit(&lease, change(1)).wait(), CommitOutcome::Ok);
    fault(&store).plan(system_error(ENOSPC), true);
    assert_eq!(
        store.submit(&lease, change(2)).wait(),
        CommitOutcome::Unknown
    );
    let refusal = store.open(p).unwrap_err().to_string();
    assert!(refusal.contains("restart"), "{refusal}");
    assert_eq!(content(&store, p), (4, 2), "whole, in both keyspaces");
    drop(store);
    let store = restarted(dir.path());
    assert_eq!(content(&store, p), (4, 2));
    let lease = store.open(p).unwrap();
    assert_eq!(store.submit(&lease, change(3)).wait(), CommitOutcome::Ok);
}

#[test]
fn a_failure_of_a_thread_of_the_tables_is_followed_by_reopening() {
    let p = PartitionId(1);
    let dir = tempfile::tempdir().unwrap();
    let store = restarted(dir.path());
    let lease = store.open(p).unwrap();
    fault(&store).plan(fjall::Error::Poisoned, false);
    let failed = store.submit(&lease, change(1)).wait();
    assert!(
        matches!(failed, CommitOutcome::Unavailable { .. }),
        "{failed:?}"
    );
    wait_for(
        "commits are accepted",
        || store.refusal(false),
        Option::is_none,
    );
    let lease = store.open(p).unwrap();
    assert_eq!(store.submit(&lease, change(1)).wait(), CommitOutcome::Ok);
}

#[test]
fn a_failure_of_the_device_is_followed_by_nothing_but_a_restart() {
    let p = PartitionId(1);
    let dir = tempfile::tempdir().unwrap();
    let store = restarted(dir.path());
    let lease = store.open(p).unwrap();
    assert_eq!(store.submit(&lease, change(1)).wait(), CommitOutcome::Ok);
    fault(&store).plan(system_error(EIO), false);
    assert_eq!(
        store.submit(&lease, change(2)).wait(),
        CommitOutcome::Unknown
    );
    assert_eq!(content(&store, p), (2, 1), "readers go on");
    let refusal = store.open(p).unwrap_err().to_string();
    assert!(refusal.contains("restart"), "{refusal}");
    drop(store);
    let lsn = content(&restarted(dir.path()), p).1;
    assert!(lsn == 1 || lsn == 2);
}

#[test]
fn readers_and_writers_survive_failures_that_follow_one_another() {
    let p = PartitionId(1);
    let dir = tempfile::tempdir().unwrap();
    let store = restarted(dir.path());
    let acknowledged = AtomicU64::new(0);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::SeqCst) {
                    let before = acknowledged.load(Ordering::SeqCst);
                    let (rows, lsn) = content(&store, p);
                    assert_eq!(rows as u64, 2 * lsn);
                    assert!(lsn >= before);
                }
            });
        }
        for round in 0..4 {
            wait_for(
                "commits are accepted",
                || store.refusal(false),
                Option::is_none,
            );
            let lease = store.open(p).unwrap();
            let mut lsn = lease.head().lsn;
            assert_eq!(lsn, acknowledged.load(Ordering::SeqCst), "round {round}");
            for _ in 0..5 {
                lsn += 1;
                assert_eq!(store.submit(&lease, change(lsn)).wait(), CommitOutcome::Ok);
                acknowledged.store(lsn, Ordering::SeqCst);
            }
            fault(&store).plan(system_error(ENOSPC), false);
            let failed = store.submit(&lease, change(lsn + 1)).wait();
            assert!(!matches!(failed, CommitOutcome::Ok), "{failed:?}");
        }
        is_done.store(true, Ordering::SeqCst);
    });
    drop(store);
    assert_eq!(content(&restarted(dir.path()), p), (40, 20));
}

#[test]
fn on_a_full_disk_only_commits_that_may_use_the_reserve_are_accepted() {
    let p = PartitionId(1);
    let dir = tempfile::tempdir().unwrap();
    let free = Arc::new(AtomicU64::new(1000 * MB));
    let shared = free.clone();
    let source: Source = Box::new(move |_: &Path| {
        Some(Space {
            free: shared.load(Ordering::SeqCst),
            total: 4096 * MB,
        })
    });
    let options = LocalOptions {
        reserve_bytes: MB,
        ..LocalOptions::default()
    };
    let watch = |root: &Path, bytes: u64| SpaceWatch::with_source(root, bytes, source);
    let store = LocalStore::open_watched(dir.path(), options, watch).unwrap();
    let lease = store.open(p).unwrap();
    assert_eq!(store.submit(&lease, change(1)).wait(), CommitOutcome::Ok);

    free.store(20 * MB, Ordering::SeqCst);
    let mut lsn = 1;
    // The free space is looked at now and then, so a few commits may still be accepted.
    while store.submit(&lease, change(lsn + 1)).wait() == CommitOutcome::Ok {
        lsn += 1;
    }
    let deletion = Commit {
        puts: vec![],
        deletes: vec![1u64.to_be_bytes().to_vec()],
        may_use_reserve: true,
        ..change(lsn + 1)
    };
    assert_eq!(store.submit(&lease, deletion).wait(), CommitOutcome::Ok);
    assert_eq!(content(&store, p).1, lsn + 1);
    assert!(store.refusal(false).is_some());

    free.store(10 * MB, Ordering::SeqCst);
    wait_for(
        "commits are refused",
        || store.refusal(true),
        Option::is_some,
    );
    assert!(!dir.path().join("reserve").exists());
    free.store(1000 * MB, Ordering::SeqCst);
    wait_for(
        "commits are accepted",
        || store.refusal(false),
        Option::is_none,
    );
    assert!(dir.path().join("reserve").exists());
    assert_eq!(
        store.submit(&lease, change(lsn + 2)).wait(),
        CommitOutcome::Ok
    );
}

#[test]
fn a_checkpoint_copies_the_files_that_the_file_system_cannot_link() {
    let dir = tempfile::tempdir().unwrap();
    let options = LocalOptions {
        memtable_bytes: 4 << 10,
        ..LocalOptions::default()
    };
    let store = LocalStore::open(dir.path(), options).unwrap();
    let lease = store.open(PartitionId(1)).unwrap();
    for lsn in 1..=100 {
        let commit = Commit {
            expect_lsn: lsn - 1,
            new_lsn: lsn,
            puts: vec![(lsn.to_be_bytes().to_vec(), vec![7; 500])],
            ..Commit::default()
        };
        assert_eq!(store.submit(&lease, commit).wait(), CommitOutcome::Ok);
    }
    let no_links = |_: &Path, _: &Path| Err(std::io::ErrorKind::Unsupported.into());
    let checkpoint = checkpoint::take(&store.committer, no_links).unwrap();
    let copy = tempfile::tempdir().unwrap();
    for file in &checkpoint.files {
        let path = copy.path().join(&file.name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let bytes = std::fs::read(&file.path).unwrap();
        std::fs::write(path, &bytes[..file.bytes as usize]).unwrap();
    }
    let copy = LocalStore::open(copy.path(), options).unwrap();
    assert_eq!(copy.snapshot(PartitionId(1)).unwrap().head().lsn, 100);
}

#[test]
fn a_store_with_batches_in_doubt_has_no_checkpoint_and_a_reopened_one_has_the_answered_commits() {
    let p = PartitionId(1);
    let dir = tempfile::tempdir().unwrap();
    let store = restarted(dir.path());
    let lease = store.open(p).unwrap();
    assert_eq!(store.submit(&lease, change(1)).wait(), CommitOutcome::Ok);
    // A reader keeps the database from being opened again.
    let snapshot = store.snapshot(p).unwrap();
    fault(&store).plan(system_error(EMFILE), false);
    let failed = store.submit(&lease, change(2)).wait();
    assert_eq!(failed, CommitOutcome::Unknown);
    let refused = store.checkpoint().unwrap_err();
    assert!(
        matches!(refused, StoreError::Unavailable { .. }),
        "{refused}"
    );
    drop(snapshot);
    wait_for(
        "commits are accepted",
        || store.refusal(false),
        Option::is_none,
    );
    let checkpoint = store.checkpoint().unwrap().unwrap();
    assert_eq!(checkpoint.heads.get(&p).map(|head| head.lsn), Some(1));
    drop(checkpoint);

    let lease = store.open(p).unwrap();
    fault(&store).plan(system_error(EIO), false);
    let failed = store.submit(&lease, change(2)).wait();
    assert_eq!(failed, CommitOutcome::Unknown);
    let refused = store.checkpoint().unwrap_err();
    assert!(matches!(refused, StoreError::Poisoned { .. }), "{refused}");
    assert!(!dir.path().join("checkpoints").exists());
}
