//! Moves: leases and snapshots over a move, partitions of many pages and of few commits, the choice
//! of clusters, drains, balance, and other processes.

use crate::support::{Clusters, IMPATIENT, Owner, copies, rows};
use orrery_placement::{
    BalanceLimits, LEDGER, Load, Loads, NamedCluster, PlacedStore, PlacementState,
};
use orrery_storage::testing::{Crashing, Fault};
use orrery_storage::{Commit, CommitOutcome, Lease, MemoryStore, PartitionId, Store};
use orrery_test_wait::wait_for;
use std::sync::{Arc, mpsc};

const P: PartitionId = PartitionId(7);

fn named(name: &str, store: Arc<dyn Store>) -> NamedCluster {
    NamedCluster {
        name: name.to_owned(),
        store,
        drained: false,
    }
}

fn memories() -> [Arc<dyn Store>; 2] {
    [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())]
}

fn open(stores: &[Arc<dyn Store>]) -> PlacedStore {
    let names = ["a", "b", "c"].iter().zip(stores);
    let clusters = names.map(|(name, store)| named(name, store.clone()));
    PlacedStore::open_with(clusters.collect(), IMPATIENT).unwrap()
}

fn cluster_of(store: &PlacedStore, partition: PartitionId) -> String {
    let mut placements = store.placements().into_iter();
    let found = placements.find(|placement| placement.partition == partition);
    found.unwrap().cluster
}

fn other(store: &PlacedStore, partition: PartitionId) -> &'static str {
    if cluster_of(store, partition) == "a" {
        "b"
    } else {
        "a"
    }
}

fn put(store: &dyn Store, lease: &Lease, lsn: u64, key: &[u8], value: Vec<u8>) -> CommitOutcome {
    let commit = Commit {
        expect_lsn: lsn - 1,
        new_lsn: lsn,
        token: [lsn as u8; 16],
        puts: vec![(key.to_vec(), value)],
        ..Commit::default()
    };
    store.submit(lease, commit).wait()
}

#[test]
fn a_lease_stays_valid_over_a_move_and_a_held_snapshot_reads_on() {
    let store = open(&memories());
    let lease = store.open(P).unwrap();
    assert_eq!(put(&store, &lease, 1, b"k", vec![1]), CommitOutcome::Ok);
    let held = store.snapshot(P).unwrap();
    let to = other(&store, P);
    store.move_partition(P, to).unwrap();
    assert_eq!(cluster_of(&store, P), to);
    assert_eq!(put(&store, &lease, 2, b"k", vec![2]), CommitOutcome::Ok);
    assert_eq!(held.get(b"k").unwrap().unwrap(), vec![1]);
    assert_eq!(held.head().lsn, 1);
    let now = store.snapshot(P).unwrap();
    assert_eq!((now.head().lsn, now.head().token), (2, [2; 16]));

    let newer = store.open(P).unwrap();
    assert!(newer.epoch() > lease.epoch());
    assert_eq!(put(&store, &lease, 3, b"k", vec![3]), CommitOutcome::Fenced);
    store.move_partition(P, other(&store, P)).unwrap();
    assert_eq!(put(&store, &newer, 3, b"k", vec![3]), CommitOutcome::Ok);
    assert!(store.open(P).unwrap().epoch() > newer.epoch());
}

#[test]
fn a_partition_of_many_pages_moves_whole() {
    let store = open(&memories());
    let lease = store.open(P).unwrap();
    for lsn in 1..=200 {
        let value = vec![lsn as u8; 60_000];
        assert_eq!(
            put(&store, &lease, lsn, &lsn.to_be_bytes(), value),
            CommitOutcome::Ok
        );
    }
    let before = rows(&*store.snapshot(P).unwrap());
    store.move_partition(P, other(&store, P)).unwrap();
    let snapshot = store.snapshot(P).unwrap();
    assert_eq!(rows(&*snapshot), before);
    assert_eq!(snapshot.head().lsn, 200);
}

/// The head of a copy is that of its source, so a partition of one commit has room for one.
#[test]
fn a_partition_of_one_full_commit_moves_in_one_commit() {
    let store = open(&memories());
    let lease = store.open(P).unwrap();
    let rows_of = |count: u64| (0..count).map(|n| (n.to_be_bytes().to_vec(), vec![1; 65_528]));
    let commit = Commit {
        new_lsn: 1,
        puts: rows_of(128).collect(),
        ..Commit::default()
    };
    assert_eq!(commit.bytes(), store.limits().commit_bytes);
    assert_eq!(store.submit(&lease, commit).wait(), CommitOutcome::Ok);
    store.move_partition(P, other(&store, P)).unwrap();
    assert_eq!(rows(&*store.snapshot(P).unwrap()).len(), 128);
    // A partition without a commit moves as well.
    let empty = PartitionId(8);
    let lease = store.open(empty).unwrap();
    store.move_partition(empty, other(&store, empty)).unwrap();
    assert_eq!(put(&store, &lease, 1, b"k", vec![1]), CommitOutcome::Ok);
}

#[test]
fn a_writer_with_several_commits_under_way_does_not_notice_moves() {
    const MOVES: u64 = 100;
    const COMMITS_PER_MOVE: u64 = 300;
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(Crashing::new(None)), Arc::new(Crashing::new(None))];
    let store = &open(&stores);
    let lease = store.open(P).unwrap();
    let (tell, moves) = mpsc::channel();
    let head = std::thread::scope(move |scope| {
        let writer = scope.spawn(move || {
            let (mut lsn, mut done) = (0, 0);
            loop {
                done += moves.try_iter().count() as u64;
                if done == MOVES && lsn >= 100 {
                    break;
                }
                // A writer in memory could outrun a move for ever.
                if lsn >= (done + 1) * COMMITS_PER_MOVE {
                    moves.recv().expect("the moves go on");
                    done += 1;
                    continue;
                }
                let receipts = [1, 2, 3].map(|next| {
                    let lsn = lsn + next;
                    let mut commit = Commit {
                        expect_lsn: lsn - 1,
                        new_lsn: lsn,
                        puts: vec![(lsn.to_be_bytes().to_vec(), lsn.to_be_bytes().to_vec())],
                        ..Commit::default()
                    };
                    if lsn % 10 == 0 {
                        let first = (lsn - 5).to_be_bytes().to_vec();
                        commit.range_deletes.push(first..lsn.to_be_bytes().to_vec());
                    }
                    store.submit(&lease, commit)
                });
                for receipt in receipts {
                    assert_eq!(receipt.wait(), CommitOutcome::Ok);
                    lsn += 1;
                }
            }
            lsn
        });
        for _ in 0..MOVES {
            store.move_partition(P, other(store, P)).unwrap();
            tell.send(()).expect("the writer goes on");
        }
        writer.join().unwrap()
    });
    let snapshot = store.snapshot(P).unwrap();
    assert_eq!(snapshot.head().lsn, head);
    let expected = (1..=head)
        .filter(|lsn| (1..5).contains(&(lsn % 10)) || lsn % 10 == 0 || lsn / 10 == head / 10);
    let expected: Vec<_> = expected.map(|lsn| lsn.to_be_bytes().to_vec()).collect();
    assert_eq!(rows(&*snapshot).into_keys().collect::<Vec<_>>(), expected);
}

/// A move with a failure at each write of each cluster, with commits during the copy, and then
/// another attempt, with and without a new process.
#[test]
fn a_move_that_fails_at_any_write_leaves_the_partition_whole() {
    for fault in [Fault::Refused, Fault::Lost, Fault::Applied] {
        for (broken, is_restarted) in [(0, false), (0, true), (1, false), (1, true)] {
            let mut writes = 0;
            while fails_at(fault, broken, writes, is_restarted) {
                writes += 1;
            }
            assert!(writes >= 2, "a move has several writes: {writes}");
        }
    }
}

/// Returns true if the failure happened.
fn fails_at(fault: Fault, broken: usize, writes: u64, is_restarted: bool) -> bool {
    let mut clusters = Clusters::new(2, fault);
    let mut store = clusters.open().unwrap();
    let owner = Arc::new(std::sync::Mutex::new(Owner::new(7)));
    let change = |n: u8| Commit {
        puts: vec![(vec![n], vec![n]), (vec![0], vec![n])],
        ..Commit::default()
    };
    for n in 1..5 {
        owner.lock().unwrap().commit(&*store, change(n));
    }
    for n in 5..7 {
        let (store, owner) = (store.clone(), owner.clone());
        clusters.after_snapshot(P, move || owner.lock().unwrap().commit(&*store, change(n)));
    }
    let to = clusters.name(usize::from(cluster_of(&store, P) == clusters.name(0)));
    clusters.fail_after(broken, writes);
    let _ = store.move_partition(P, &to);
    clusters.forget_hooks();
    let has_failed = clusters.repair_broken().is_some();
    clusters.repair_all();
    if is_restarted {
        drop(store);
        store = clusters.open().unwrap();
    }
    let mut owner = owner.lock().unwrap();
    assert!(owner.open(&*store));
    owner.check(&*store);
    owner.commit(&*store, change(9));
    store.move_partition(P, &to).unwrap();
    assert_eq!(cluster_of(&store, P), to);
    owner.check(&*store);
    owner.commit(&*store, change(10));
    owner.check(&*store);
    assert_eq!(copies(&clusters), 1, "no copy is left over");
    has_failed
}

#[test]
fn a_new_process_fences_the_one_before() {
    let stores = memories();
    let before = open(&stores);
    let lease = before.open(P).unwrap();
    assert_eq!(put(&before, &lease, 1, b"k", vec![1]), CommitOutcome::Ok);
    let now = open(&stores);
    // The old process goes on with what it has open, as with every store.
    assert_eq!(put(&before, &lease, 2, b"k", vec![2]), CommitOutcome::Ok);
    now.move_partition(P, other(&now, P)).unwrap();
    assert_eq!(
        put(&before, &lease, 3, b"k", vec![3]),
        CommitOutcome::Fenced
    );
    let refused = before.open(P).unwrap_err().to_string();
    assert!(refused.contains("another process"), "{refused}");
    assert!(before.move_partition(P, "a").is_err() && before.destroy(P).is_err());
    // It does not show the removed source as an empty partition.
    assert!(before.snapshot(P).is_err());
    let lease = now.open(P).unwrap();
    assert_eq!(put(&now, &lease, 3, b"k", vec![3]), CommitOutcome::Ok);
}

#[test]
fn a_store_from_before_the_ledger_keeps_its_partitions_and_its_epochs_rise() {
    let stores = memories();
    let lease = stores[0].open(P).unwrap();
    assert_eq!(
        put(&*stores[0], &lease, 1, b"k", vec![1]),
        CommitOutcome::Ok
    );
    let one = open(&stores[..1]);
    assert_eq!(one.snapshot(P).unwrap().head().lsn, 1);
    let first = one.open(P).unwrap();
    assert!(first.epoch() > lease.epoch());
    let moved = PartitionId(8);
    let lease = one.open(moved).unwrap();
    assert_eq!(put(&one, &lease, 1, b"k", vec![1]), CommitOutcome::Ok);

    // A second cluster is added, used, drained and taken away.
    let two = open(&stores);
    assert_eq!(two.snapshot(P).unwrap().head().lsn, 1);
    two.move_partition(moved, "b").unwrap();
    let missing = PlacedStore::open(vec![named("a", stores[0].clone())])
        .err()
        .unwrap();
    assert!(missing.to_string().contains("'b'"), "{missing}");
    let two = open(&stores);
    let second = two.open(moved).unwrap();
    assert!(second.epoch() > lease.epoch());
    assert_eq!(two.drain("b").unwrap(), 1);
    let one = open(&stores[..1]);
    let third = one.open(moved).unwrap();
    assert!(third.epoch() > second.epoch());
    assert_eq!(put(&one, &third, 2, b"k", vec![2]), CommitOutcome::Ok);
    assert!(one.open(LEDGER).is_err() && one.destroy(LEDGER).is_err());
}

#[test]
fn new_partitions_spread_and_a_drained_cluster_gets_none() {
    let stores: Vec<Arc<dyn Store>> = (0..3)
        .map(|_| Arc::new(MemoryStore::new()) as Arc<dyn Store>)
        .collect();
    let store = open(&stores);
    for id in 0..9 {
        let lease = store.open(PartitionId(id)).unwrap();
        assert_eq!(put(&store, &lease, 1, b"k", vec![1]), CommitOutcome::Ok);
    }
    assert_eq!(cluster_of(&store, PartitionId(0)), "a", "the catalog");
    let counts = |store: &PlacedStore| -> Vec<usize> {
        store.clusters().iter().map(|one| one.partitions).collect()
    };
    assert_eq!(counts(&store), [3, 3, 3]);
    assert_eq!(store.drain("b").unwrap(), 3);
    assert_eq!(counts(&store).iter().sum::<usize>(), 9);
    assert_eq!(counts(&store)[1], 0);
    // The drain outlives the process.
    let store = open(&stores);
    assert!(store.clusters()[1].is_drained);
    for id in 9..12 {
        store.open(PartitionId(id)).unwrap();
    }
    assert_eq!(counts(&store)[1], 0);
    store.set_drained("b", false).unwrap();
    store.open(PartitionId(12)).unwrap();
    assert_eq!(counts(&store)[1], 1);

    let refused = |result: Result<(), orrery_storage::StoreError>| result.unwrap_err().to_string();
    assert!(refused(store.drain("a").map(|_| ())).contains("catalog"));
    assert!(refused(store.drain("z").map(|_| ())).contains("'z'"));
    assert!(refused(store.move_partition(PartitionId(0), "b")).contains("catalog"));
    assert!(refused(store.move_partition(PartitionId(99), "b")).contains("no partition 99"));
    let settled = |one: &orrery_placement::Placement| one.state == PlacementState::Settled;
    assert!(store.placements().iter().all(settled));
}

#[test]
fn balance_moves_one_partition_from_the_fullest_to_the_emptiest() {
    let stores = memories();
    let store = open(&stores[..1]);
    for id in 1..5 {
        let lease = store.open(PartitionId(id)).unwrap();
        for lsn in 1..5 {
            let value = vec![7; 50_000];
            assert_eq!(
                put(&store, &lease, lsn, &[lsn as u8], value),
                CommitOutcome::Ok
            );
        }
    }
    let store = Arc::new(open(&stores));
    let load = Load {
        bytes: 200_000,
        request_units: 0.0,
    };
    let loads: Loads = (1..5).map(|id| (PartitionId(id), load)).collect();
    let far = BalanceLimits::default();
    assert_eq!(
        store.start_balance(&loads, &far).unwrap(),
        None,
        "they differ by less"
    );
    let near = BalanceLimits {
        bytes: 1_000,
        ..far
    };
    for _ in 0..2 {
        let one = store.start_balance(&loads, &near).unwrap().unwrap();
        assert_eq!((one.from.as_str(), one.to.as_str()), ("a", "b"));
        wait_for("the end of the move", || store.is_balancing(), |is| !is);
    }
    assert_eq!(store.start_balance(&loads, &near).unwrap(), None);
    let counts: Vec<_> = store.clusters().iter().map(|one| one.partitions).collect();
    assert_eq!(counts, [2, 2]);
}

#[test]
fn work_in_the_background_shows_its_failure_and_ends_when_it_is_stopped() {
    let clusters = Clusters::new(2, Fault::Refused);
    let store = clusters.open().unwrap();
    let mut owner = Owner::new(7);
    owner.commit(&*store, Commit::default());
    let to = clusters.name(usize::from(cluster_of(&store, P) == clusters.name(0)));
    let placement = || {
        store
            .placements()
            .into_iter()
            .find(|one| one.partition == P)
            .unwrap()
    };
    clusters.fail_after(1, 0);
    store.start_move(P, &to).unwrap();
    wait_for("the failure", placement, |one| one.failure.is_some());
    clusters.repair_all();
    store.start_move(P, &to).unwrap();
    wait_for("the move", placement, |one| {
        one.cluster == to && one.state == PlacementState::Settled
    });
    assert_eq!(placement().failure, None);
    assert!(store.start_move(PartitionId(99), &to).is_err());

    store.start_drain(&clusters.name(1)).unwrap();
    let is_draining = || store.clusters()[1].is_draining;
    wait_for("the end of the drain", is_draining, |is| !is);
    assert_eq!(placement().cluster, clusters.name(0));
    store.stop_moves();
    let stopped = store.move_partition(P, &clusters.name(1)).unwrap_err();
    assert!(stopped.to_string().contains("stopped"), "{stopped}");
    owner.check(&*store);
}
