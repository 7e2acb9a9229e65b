//! The contract: a list of tests that every engine passes, one or more for each promise of
//! `store.rs`.
//!
//! `support/promises.rs` has the tests. The macro `contract!` runs all of them on the memory
//! engine, on a local directory, on both mirrored, on the store of the examples, and on the
//! crashing engine while it does not crash. A store in a crate of its own runs them there.

// The store that the examples show keeps the contract as well.
#[path = "../../../examples/tree_store.rs"]
mod tree_store;

use crate::support::promises::{self, NewStore, for_every_promise};
use crate::support::{P, PartitionWriter, commit, everything};
use orrery_storage::testing::{Crashing, Mirrored};
use orrery_storage::{
    Commit, CommitOutcome, LocalOptions, LocalStore, MemoryStore, PartitionId, Store, StoreError,
};
use tree_store::TreeStore;

macro_rules! contract {
    ($($name:ident),+ $(,)?) => {
        mod memory { $(#[test] fn $name() { super::on_memory(super::promises::$name) })+ }
        mod local { $(#[test] fn $name() { super::on_local(super::promises::$name) })+ }
        mod mirrored { $(#[test] fn $name() { super::on_mirrored(super::promises::$name) })+ }
        mod example { $(#[test] fn $name() { super::on_example(super::promises::$name) })+ }
        mod crashing { $(#[test] fn $name() { super::on_crashing(super::promises::$name) })+ }
    };
}

for_every_promise!(contract);

/// Returns a function that creates local stores, each in a directory of its own.
fn local_stores() -> impl Fn() -> LocalStore {
    let dir = tempfile::tempdir().unwrap();
    let next = std::cell::Cell::new(0);
    move || {
        next.set(next.get() + 1);
        LocalStore::open(
            dir.path().join(next.get().to_string()),
            LocalOptions::default(),
        )
        .unwrap()
    }
}

fn on_memory(test: fn(NewStore<'_>)) {
    test(&|| Box::new(MemoryStore::new()));
}

fn on_example(test: fn(NewStore<'_>)) {
    test(&|| Box::new(TreeStore::new()));
}

fn on_crashing(test: fn(NewStore<'_>)) {
    test(&|| Box::new(Crashing::new(None)));
}

fn on_local(test: fn(NewStore<'_>)) {
    let open = local_stores();
    test(&|| Box::new(open()));
}

fn on_mirrored(test: fn(NewStore<'_>)) {
    let open = local_stores();
    test(&|| Box::new(Mirrored::new(MemoryStore::new(), open())));
}

/// Promise 1 with a crash at every step: the reopened store holds a prefix of the commits, and
/// every acknowledged commit is in it.
#[test]
fn a_crash_at_any_step_leaves_a_prefix_with_every_acknowledged_commit() {
    let run = |store: &Crashing| -> Result<u64, StoreError> {
        let lease = store.open(P)?;
        let mut acknowledged = 0;
        for lsn in (1..=9).step_by(3) {
            let receipts = [lsn, lsn + 1, lsn + 2].map(|lsn| {
                (
                    lsn,
                    store.submit(
                        &lease,
                        commit(lsn, &[(&[lsn as u8], b"r"), (&[0x80, lsn as u8], b"i")]),
                    ),
                )
            });
            for (lsn, receipt) in receipts {
                if receipt.wait() == CommitOutcome::Ok {
                    acknowledged = lsn;
                }
            }
        }
        Ok(acknowledged)
    };
    let uncrashed = Crashing::new(None);
    assert_eq!(run(&uncrashed).unwrap(), 9);
    assert_eq!(uncrashed.steps(), 18);
    for step in 0..uncrashed.steps() {
        let store = Crashing::new(Some(step));
        let acknowledged = run(&store).unwrap();
        assert!(store.has_crashed() && store.snapshot(P).is_err());
        let reopened = store.reopen(None);
        let lease = reopened.open(P).unwrap();
        let head = lease.head().lsn;
        assert!(
            head == acknowledged || head == acknowledged + 1,
            "step {step}: {acknowledged} acknowledged, head {head}"
        );
        assert_eq!(everything(&reopened, P).len() as u64, head * 2);
        assert_eq!(
            reopened.submit(&lease, commit(head + 1, &[])).wait(),
            CommitOutcome::Ok
        );
    }
}

#[test]
fn a_reopened_local_store_holds_what_it_held_when_closed() {
    let dir = tempfile::tempdir().unwrap();
    let open = || LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    let mut epochs = Vec::new();
    for round in 1..=4u64 {
        let store = open();
        let mut writer = PartitionWriter::open(&store, P);
        assert_eq!(writer.lease.head().lsn, round - 1);
        writer.put(&[(&[round as u8], b"row"), (&[0x80, round as u8], b"entry")]);
        epochs.push(writer.lease.epoch());
        let mut destroyed = PartitionWriter::open(&store, PartitionId(100));
        epochs.push(destroyed.lease.epoch());
        destroyed.put(&[(b"x", b"x")]);
        store.destroy(PartitionId(100)).unwrap();
        // Dropped without waiting: closing the store makes the commit durable.
        drop(store.submit(
            &writer.lease,
            Commit {
                expect_lsn: round,
                new_lsn: round,
                ..Commit::default()
            },
        ));
    }
    assert!(
        epochs
            .chunks(2)
            .is_sorted_by(|a, b| a[0] < b[0] && a[1] < b[1]),
        "epochs rise over restarts: {epochs:?}"
    );
    let store = open();
    assert_eq!(everything(&store, P).len(), 8);
    assert!(everything(&store, PartitionId(100)).is_empty());
}
