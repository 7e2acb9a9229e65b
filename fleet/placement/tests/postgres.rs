//! Two PostgreSQL servers, and moves between them while several writers commit.

use crate::servers::{self, Server};
use crate::support::rows;
use orrery_placement::{NamedCluster, PlacedStore};
use orrery_storage::{Commit, CommitOutcome, PartitionId, Store};
use orrery_test_wait::wait_for;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

const WRITERS: u64 = 3;
const MOVES: usize = 6;
const COMMITS_PER_ROUND: u64 = 600;

/// The progress of the test and of its writers.
#[derive(Default)]
struct Progress {
    /// The commits that each writer may make; `None` when it is over.
    allowed: Mutex<Option<u64>>,
    changed: Condvar,
    /// Commits of all writers.
    written: AtomicU64,
}

impl Progress {
    fn allow(&self, commits: Option<u64>) {
        *self.allowed.lock().unwrap() = commits;
        self.changed.notify_all();
    }

    /// Waits until a writer of so many commits may go on. Returns false when it is over.
    fn may_go_on(&self, commits: u64) -> bool {
        let is_held = |allowed: &mut Option<u64>| allowed.is_some_and(|most| commits >= most);
        let allowed = self.allowed.lock().unwrap();
        self.changed.wait_while(allowed, is_held).unwrap().is_some()
    }
}

fn named(name: &str, store: impl Store + 'static) -> NamedCluster {
    NamedCluster {
        name: name.to_owned(),
        store: Arc::new(store),
        drained: false,
    }
}

/// Returns the commit of a number: a row of its own, a row that each commit writes, and a row that
/// is written and deleted in turn.
fn commit_of(lsn: u64) -> Commit {
    let mut commit = Commit {
        expect_lsn: lsn - 1,
        new_lsn: lsn,
        puts: vec![
            (b"last".to_vec(), lsn.to_be_bytes().to_vec()),
            (
                [b"row".as_slice(), &lsn.to_be_bytes()].concat(),
                vec![7; 3_000],
            ),
        ],
        ..Commit::default()
    };
    commit.token[..8].copy_from_slice(&lsn.to_be_bytes());
    match lsn % 2 {
        0 => commit.deletes.push(b"odd".to_vec()),
        _ => commit.puts.push((b"odd".to_vec(), Vec::new())),
    }
    commit
}

/// Ends the writers when it is dropped.
struct End<'a>(&'a Progress);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.allow(None);
    }
}

/// Commits until it is over, several at once and a bounded number in each round, so that a slow
/// machine copies no more than a fast one. Returns the last LSN.
fn write(store: &PlacedStore, id: u64, progress: &Progress) -> u64 {
    let lease = store.open(PartitionId(id)).unwrap();
    let mut lsn = 0;
    while progress.may_go_on(lsn) {
        // Leases stay valid over moves, so each commit is Ok.
        let receipts = [lsn + 1, lsn + 2, lsn + 3].map(|lsn| store.submit(&lease, commit_of(lsn)));
        for receipt in receipts {
            assert_eq!(receipt.wait(), CommitOutcome::Ok);
            lsn += 1;
        }
        progress.written.fetch_add(3, Ordering::SeqCst);
        let head = store.snapshot(PartitionId(id)).unwrap().head().lsn;
        assert_eq!(head, lsn, "a snapshot has every commit that was answered");
    }
    lsn
}

/// Checks that a partition has every row of its commits and no other.
fn check(store: &PlacedStore, partition: PartitionId, head: u64) {
    let snapshot = store.snapshot(partition).unwrap();
    assert_eq!(snapshot.head().lsn, head);
    let found = rows(&*snapshot);
    assert_eq!(found.len() as u64, head + 1 + head % 2);
    for lsn in 1..=head {
        let key = [b"row".as_slice(), &lsn.to_be_bytes()].concat();
        assert!(found.contains_key(&key), "commit {lsn} is there");
    }
}

#[test]
fn partitions_move_between_two_servers_under_writers() {
    let servers = [
        Server::start(&["-c", "fsync=off"]),
        Server::start(&["-c", "fsync=off"]),
    ];
    let configs = [servers[0].config(), servers[1].config()];
    let open = || {
        let names = ["first", "second"].iter().zip(&configs);
        let clusters = names.map(|(name, config)| named(name, servers::open(config)));
        PlacedStore::open(clusters.collect()).unwrap()
    };
    let store = &open();
    let progress = &Progress::default();
    progress.allow(Some(0));
    let written = &progress.written;
    let heads: Vec<u64> = std::thread::scope(|scope| {
        let writers = (1..=WRITERS).map(|id| scope.spawn(move || write(store, id, progress)));
        let writers: Vec<_> = writers.collect();
        // The writers end too if an assertion below fails.
        let end = End(progress);
        // Each move has commits before it and after it.
        for round in 0..MOVES {
            let before = written.load(Ordering::SeqCst);
            progress.allow(Some((round as u64 + 1) * COMMITS_PER_ROUND));
            let commits = || written.load(Ordering::SeqCst);
            wait_for("commits of the round", commits, |count| {
                *count >= before + 30
            });
            for id in 1..=WRITERS {
                let held = store.snapshot(PartitionId(id)).unwrap();
                let to = ["second", "first"][round % 2];
                store.move_partition(PartitionId(id), to).unwrap();
                let head = held.head().lsn;
                // A writer that was starved may have written nothing before the first move.
                let expected = (head > 0).then(|| head.to_be_bytes().to_vec());
                let last = held.get(b"last").unwrap().map(|last| last.to_vec());
                assert_eq!(last, expected, "a held snapshot");
            }
        }
        drop(end);
        writers.into_iter().map(|one| one.join().unwrap()).collect()
    });

    // Another process finds the same, and every partition where the last move left it.
    let again = open();
    for (id, head) in (1..=WRITERS).zip(heads) {
        check(&again, PartitionId(id), head);
        assert!(again.open(PartitionId(id)).unwrap().epoch() > 1 << 32);
    }
    assert!(again.placements().iter().all(|one| one.cluster == "first"));
    // The process before owns nothing any more.
    assert!(store.open(PartitionId(1)).is_err());
    assert!(store.move_partition(PartitionId(1), "second").is_err());
    let counted = servers[1].sql(&format!("SELECT count(*) FROM {}.kv", configs[1].schema));
    assert_eq!(counted, [["0"]], "no row is left in the second cluster");
}
