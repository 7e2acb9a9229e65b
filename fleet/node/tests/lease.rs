//! The lease of two nodes on one store, with real threads and the clock of the machine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use orrery_model::world::World;
use orrery_node::{LeasedStore, Node, NodeLease, Progress, Terms};
use orrery_storage::{Commit, CommitOutcome, Head, MemoryStore, PartitionId, Store, StoreError};
use orrery_test_wait::wait_for;

const PARTITION: PartitionId = PartitionId(7);

/// The clock of the machine, and an offset that stands for a suspended machine.
struct Clock {
    started: Instant,
    ahead_ms: AtomicU64,
    numbers: AtomicU64,
}

impl Clock {
    fn new(seed: u64) -> Arc<Clock> {
        Arc::new(Clock {
            started: Instant::now(),
            ahead_ms: AtomicU64::new(0),
            numbers: AtomicU64::new(seed << 32),
        })
    }
}

impl World for Clock {
    fn now_ms(&self) -> u64 {
        self.monotonic_ms() + self.ahead_ms.load(Ordering::SeqCst)
    }

    fn monotonic_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn random(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }
}

fn node(name: &str) -> Node {
    Node {
        name: name.to_owned(),
        address: format!("http://{name}:8081"),
    }
}

fn acquire(
    store: &Arc<MemoryStore>,
    name: &str,
    ttl_ms: u64,
    world: Arc<Clock>,
    news: mpsc::Sender<Progress>,
) -> NodeLease {
    let report = Arc::new(move |progress| _ = news.send(progress));
    let terms = Terms { ttl_ms };
    let wait = |pause| {
        std::thread::park_timeout(pause);
        true
    };
    NodeLease::acquire(store.clone(), node(name), terms, world, report, wait)
        .expect("the store answers")
        .expect("not cancelled")
}

fn commit(lsn: u64) -> Commit {
    Commit {
        expect_lsn: lsn - 1,
        new_lsn: lsn,
        token: [lsn as u8; 16],
        puts: vec![(vec![1], vec![lsn as u8])],
        ..Commit::default()
    }
}

#[test]
fn the_second_node_waits_and_takes_a_released_lease() {
    let store = Arc::new(MemoryStore::new());
    let (news, told) = mpsc::channel();
    let first = acquire(&store, "a", 600_000, Clock::new(1), news.clone());
    let waiting = std::thread::spawn({
        let store = store.clone();
        move || acquire(&store, "b", 600_000, Clock::new(2), news)
    });
    match told.recv().expect("news") {
        Progress::Waiting(leaseholder, 600_000) => {
            assert_eq!(leaseholder.node, node("a"));
            assert_eq!(leaseholder.key.as_ref(), Some(first.key()));
        }
        other => panic!("{other:?}"),
    }
    assert!(first.validity().is_valid());
    let key = first.key().clone();
    drop(first);
    let second = waiting.join().expect("no panic");
    assert_eq!(*second.key(), key, "the key outlives its first leaseholder");
    assert!(second.validity().is_valid());
    assert_eq!(
        orrery_node::leaseholder(store.as_ref()).expect("a row"),
        Some(node("b"))
    );
}

#[test]
fn a_node_without_a_valid_lease_confirms_no_commit_and_shows_no_snapshot() {
    let store = Arc::new(MemoryStore::new());
    let world = Clock::new(1);
    let (news, _told) = mpsc::channel();
    let lease = acquire(&store, "a", 600_000, world.clone(), news);
    let leased = LeasedStore::new(store.clone(), lease.validity().clone());
    let writer = leased.open(PARTITION).expect("a valid lease");
    assert_eq!(leased.submit(&writer, commit(1)).wait(), CommitOutcome::Ok);

    // The machine is suspended between the commit and its answer.
    let receipt = leased.submit(&writer, commit(2));
    world.ahead_ms.store(700_000, Ordering::SeqCst);
    assert_eq!(receipt.wait(), CommitOutcome::Unknown);

    let refused = |error: StoreError| error.to_string().contains("lease of this node has expired");
    assert!(leased.snapshot(PARTITION).is_err_and(refused));
    assert!(leased.open(PARTITION).is_err_and(refused));
    assert!(leased.destroy(PARTITION).is_err_and(refused));
    assert!(leased.write_failure().is_some());
    let unavailable = leased.submit(&writer, commit(3)).wait();
    assert!(matches!(unavailable, CommitOutcome::Unavailable { .. }));
    assert_eq!(leased.refusal(true), Some(unavailable));

    // The commit is there, and a later leaseholder finds it.
    let head = store.snapshot(PARTITION).expect("a snapshot").head();
    assert_eq!(
        head,
        Head {
            lsn: 2,
            token: [2; 16]
        }
    );
}

#[test]
fn a_lease_that_is_renewed_outlives_its_ttl_and_a_lost_one_is_told() {
    let store = Arc::new(MemoryStore::new());
    let world = Clock::new(1);
    let (news, told) = mpsc::channel();
    let lease = acquire(&store, "a", 90, world.clone(), news);

    // Each renewal is a commit of the partition of the lease.
    let lsn = || {
        let snapshot = store.snapshot(orrery_node::LEASE_PARTITION);
        snapshot.expect("a snapshot").head().lsn
    };
    wait_for("the lease is renewed", lsn, |lsn| *lsn >= 5);

    // Another process takes the lease without waiting. A renewal in between fences its claim.
    let row = br#"{"name":"b","address":"http://b","process":"9","ttlMs":"90","released":false}"#;
    loop {
        let taken = store.open(orrery_node::LEASE_PARTITION);
        let taken = taken.expect("it opens");
        let claim = Commit {
            expect_lsn: taken.head().lsn,
            new_lsn: taken.head().lsn + 1,
            token: [9; 16],
            puts: vec![(b"holder".to_vec(), row.to_vec())],
            ..Commit::default()
        };
        if store.submit(&taken, claim).wait() == CommitOutcome::Ok {
            break;
        }
    }
    match told.recv().expect("news") {
        Progress::Lost(leaseholder) => assert_eq!(leaseholder.name, "b"),
        other => panic!("{other:?}"),
    }
    assert!(!lease.validity().is_valid());
    drop(lease);
    let leaseholder = orrery_node::leaseholder(store.as_ref()).expect("a row");
    assert_eq!(leaseholder.expect("the thief").name, "b");
}
