//! The local engine when the descriptors of its process run out: nothing acknowledged is lost,
//! reads go on, and writes resume in the same process when there are descriptors again.
//!
//! The parent starts this test binary again under a limit of descriptors. The child takes all of
//! them while it commits so much that tables must be written, gives them back and goes on. A full
//! disk is tried by `program/cli/tests/full_disk.rs`, which needs a file system of its own.

#![allow(clippy::print_stdout)] // the child reports through its standard output

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::support::{P, commit, everything};
use orrery_storage::{Commit, CommitOutcome, Lease, LocalOptions, LocalStore, Lsn, Store};
use orrery_test_wait::wait_for;

const DIRECTORY: &str = "ORRERY_TEST_EXHAUSTION_DIRECTORY";
const NAME: &str =
    "exhaustion::a_store_that_ran_out_of_descriptors_writes_again_when_there_are_some";
/// Commits after which a memtable has been full several times.
const COMMITS_MAX: Lsn = 4_000;

fn change(lsn: Lsn) -> Commit {
    commit(lsn, &[(&lsn.to_be_bytes(), &vec![lsn as u8; 60_000])])
}

/// Commits until a commit is not acknowledged. Returns the last acknowledged number and the outcome
/// of the next commit.
fn commit_until_failure(store: &LocalStore, lease: &Lease) -> (Lsn, CommitOutcome) {
    let mut lsn = lease.head().lsn;
    while lsn < COMMITS_MAX {
        match store.submit(lease, change(lsn + 1)).wait() {
            CommitOutcome::Ok => lsn += 1,
            other => return (lsn, other),
        }
    }
    panic!("no commit failed");
}

fn run_out_of_descriptors(directory: &Path) {
    let store = LocalStore::open(directory, LocalOptions::default()).unwrap();
    let lease = store.open(P).unwrap();
    assert_eq!(store.submit(&lease, change(1)).wait(), CommitOutcome::Ok);
    let lease = store.open(P).unwrap();

    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    let (acknowledged, failure) = commit_until_failure(&store, &lease);
    let is_honest = matches!(
        failure,
        CommitOutcome::Unknown | CommitOutcome::Unavailable { .. }
    );
    assert!(is_honest, "{failure:?}");
    assert_eq!(
        store.snapshot(P).unwrap().head().lsn,
        acknowledged,
        "reads go on"
    );
    let refused = store.submit(&lease, change(acknowledged + 1)).wait();
    assert!(
        matches!(refused, CommitOutcome::Unavailable { .. }),
        "{refused:?}"
    );
    drop(taken);

    wait_for(
        "commits are accepted",
        || store.refusal(false),
        Option::is_none,
    );
    let lease = store.open(P).unwrap();
    let head = lease.head().lsn;
    let may_be_there = failure == CommitOutcome::Unknown && head == acknowledged + 1;
    assert!(
        head == acknowledged || may_be_there,
        "{head}, {acknowledged}, {failure:?}"
    );
    assert_eq!(
        store.submit(&lease, change(head + 1)).wait(),
        CommitOutcome::Ok
    );
    println!("\nresumed at {}", head + 1);
}

#[test]
fn a_store_that_ran_out_of_descriptors_writes_again_when_there_are_some() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return run_out_of_descriptors(directory.as_ref());
    }
    let dir = tempfile::tempdir().unwrap();
    let child = Command::new("sh")
        .args(["-c", "ulimit -n 128; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, dir.path())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{out}\n{errors}");
    let line = out
        .lines()
        .find_map(|line| line.strip_prefix("resumed at "));
    let head: Lsn = line.expect("a line").parse().unwrap();
    let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    assert_eq!(store.snapshot(P).unwrap().head().lsn, head);
    let mut expected: Vec<_> = (1..=head).flat_map(|lsn| change(lsn).puts).collect();
    expected.sort();
    assert!(
        everything(&store, P) == expected,
        "exactly the commits up to {head}"
    );
}
