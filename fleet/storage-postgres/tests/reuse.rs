//! Snapshots whose transactions are used again: reads are never stale, transactions end, and no
//! caller waits for a connection that only an idle snapshot has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::servers::{Server, server};
use crate::stores::{ALL, P, PartitionWriter, everything, pairs, rows};
use orrery_storage::{Direction, PartitionId, ReadAhead, Store};
use orrery_storage_postgres::{ClusterConfig, PostgresStore, StoreOptions};
use orrery_test_wait::{wait_for, wait_until};

/// Age at which the store ends a transaction that no snapshot uses.
const AGE: Duration = Duration::from_secs(1);

fn only_writer(config: &ClusterConfig) -> PostgresStore {
    let options = StoreOptions {
        only_writer: true,
        ..StoreOptions::default()
    };
    PostgresStore::open_with(config.clone(), options).unwrap()
}

/// Returns the start of each open transaction of a snapshot on a server that one test uses.
fn open_transactions(server: &Server) -> Vec<Vec<String>> {
    server.sql(
        "SELECT xact_start FROM pg_stat_activity WHERE application_name = 'orrery' \
         AND state LIKE 'idle in transaction%' ORDER BY xact_start",
    )
}

/// Waits until the transactions of snapshots have ended. They do in the background.
fn wait_for_their_end(server: &Server) {
    wait_for(
        "the end of all transactions",
        || open_transactions(server),
        Vec::is_empty,
    );
}

/// Returns a number that looks random, different for each call with the same state.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}

/// The rows that each commit of the history writes.
const KEYS: [&[u8]; 2] = [b"a", b"\x90a"];

/// Returns the first rows of a commit, to be read ahead.
fn ahead(count: usize) -> ReadAhead {
    ReadAhead {
        keys: KEYS[..count].iter().map(|key| key.to_vec()).collect(),
        ..ReadAhead::default()
    }
}

/// Promise 9. Several readers look at each partition while its writer commits and opens it again:
/// a snapshot holds every commit that was answered, or that another snapshot has shown, before the
/// call, and its rows fit its head.
#[test]
fn reads_are_never_stale_in_a_random_history() {
    read_in_a_random_history(&server().config());
}

/// Promise 9 with transactions that go from caller to caller, because there are more callers than
/// connections.
#[test]
fn reads_are_never_stale_with_more_readers_than_connections() {
    let mut config = server().config();
    config.read_connections = 2;
    read_in_a_random_history(&config);
}

fn read_in_a_random_history(config: &ClusterConfig) {
    const PARTITIONS: u64 = 3;
    const ROUNDS: usize = 400;
    let store = only_writer(config);
    let zeros = || (0..PARTITIONS).map(|_| AtomicU64::new(0));
    let answered: Vec<AtomicU64> = zeros().collect();
    let shown: Vec<AtomicU64> = zeros().collect();
    // The readers stop when no writer is left, also if one fails.
    let left = Arc::new(());
    std::thread::scope(|scope| {
        for at in 0..PARTITIONS {
            let (store, answered, left) = (&store, &answered[at as usize], left.clone());
            scope.spawn(move || {
                let mut random = at;
                let mut writer = PartitionWriter::open(store, PartitionId(at));
                for _ in 0..ROUNDS {
                    match next_random(&mut random) % 8 {
                        0 => writer = PartitionWriter::open(store, PartitionId(at)),
                        1..4 => {
                            let lsn = (writer.lsn + 1).to_be_bytes();
                            writer.put(&[(b"a", &lsn), (b"\x90a", &lsn)]);
                            answered.store(writer.lsn, Ordering::SeqCst);
                        }
                        // The writer reads its own commits.
                        4 => {
                            let snapshot = store.snapshot_ahead(PartitionId(at), &ahead(2));
                            assert_eq!(snapshot.unwrap().head().lsn, writer.lsn);
                        }
                        _ => assert_eq!(
                            store.snapshot(PartitionId(at)).unwrap().head().lsn,
                            writer.lsn
                        ),
                    }
                }
                drop(left);
            });
        }
        let left_for_readers = Arc::downgrade(&left);
        drop(left);
        for reader in 0..4 {
            let (store, left) = (&store, left_for_readers.clone());
            let (answered, shown) = (&answered, &shown);
            scope.spawn(move || {
                let mut random = 1_000 + reader;
                while left.strong_count() > 0 {
                    let at = next_random(&mut random) % PARTITIONS;
                    let least = answered[at as usize].load(Ordering::SeqCst);
                    let shown_before = shown[at as usize].load(Ordering::SeqCst);
                    let named = next_random(&mut random) % 4;
                    let snapshot = match named {
                        3 => store.snapshot(PartitionId(at)),
                        named => store.snapshot_ahead(PartitionId(at), &ahead(named as usize)),
                    };
                    let snapshot = snapshot.unwrap();
                    let values = KEYS.map(|key| snapshot.get(key));
                    // A row that was not named may be read too late.
                    let Ok(values) = values.into_iter().collect::<Result<Vec<_>, _>>() else {
                        assert!(named < 2, "all rows were named");
                        continue;
                    };
                    let lsn = snapshot.head().lsn;
                    assert!(lsn >= least, "{lsn} after {least} was answered");
                    assert!(lsn >= shown_before, "{lsn} after {shown_before} was shown");
                    shown[at as usize].fetch_max(lsn, Ordering::SeqCst);
                    let expected = (lsn > 0).then(|| lsn.to_be_bytes().to_vec());
                    for value in values {
                        assert_eq!(value.map(|value| value.to_vec()), expected);
                    }
                }
            });
        }
    });
}

#[test]
fn a_transaction_serves_snapshots_until_its_partition_changes() {
    let server = Server::start(&["-c", "fsync=off"]);
    let store = only_writer(&server.config());
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    // Parking and taking are calls of this thread: no other state is in between.
    let held = wait_until("snapshots while no transaction ends by its age", || {
        wait_for_their_end(&server);
        let begun = Instant::now();
        drop(store.snapshot(P).unwrap());
        let first = open_transactions(&server);
        let held = store.snapshot(P).unwrap();
        let second = open_transactions(&server);
        // The machine may stand still for a second, after which a transaction ends.
        let took = begun.elapsed();
        if took > AGE / 2 {
            return Err(took);
        }
        assert_eq!(first.len(), 1);
        assert_eq!(first, second, "a snapshot of the same transaction");
        Ok(held)
    });
    // A second caller at the same time gets a transaction of its own.
    let second = store.snapshot(P).unwrap();
    assert_eq!(open_transactions(&server).len(), 2);
    drop((held, second));

    writer.put(&[(b"b", b"2")]);
    // The transactions end in the background; no age of a second is waited for here.
    wait_for_their_end(&server);
    assert_eq!(everything(&store, P), pairs(&[(b"a", b"1"), (b"b", b"2")]));
    store.destroy(P).unwrap();
    assert!(everything(&store, P).is_empty());
    drop(store.snapshot(P).unwrap());
    store.open(P).unwrap();
    wait_for_their_end(&server);
}

#[test]
fn idle_transactions_end_by_age_and_with_the_store() {
    let server = Server::start(&["-c", "fsync=off"]);
    let store = only_writer(&server.config());
    PartitionWriter::open(&store, P).put(&[(b"a", b"1")]);
    // Several at once, so that several stay idle.
    let held: Vec<_> = (0..3).map(|_| store.snapshot(P).unwrap()).collect();
    drop(held);
    let first = open_transactions(&server);
    assert!(!first.is_empty());
    let open = || open_transactions(&server);
    wait_for("the end of a transaction", open, |open| *open != first);
    wait_for_their_end(&server);
    let held = store.snapshot(P).unwrap();
    drop(store.snapshot(P).unwrap());
    drop(store);
    // A snapshot that outlives its store is not kept either.
    drop(held);
    wait_for_their_end(&server);
}

#[test]
fn idle_snapshots_give_their_connections_to_callers_that_need_them() {
    let mut config = server().config();
    config.read_connections = 2;
    let store = only_writer(&config);
    let take = |n| store.snapshot(PartitionId(n)).unwrap();
    for n in 1..=4 {
        PartitionWriter::open(&store, PartitionId(n)).put(&[(b"a", &[n as u8])]);
    }
    // Both connections have idle snapshots of partitions 1 and 2.
    drop((take(1), take(2)));
    let (third, fourth) = (take(3), take(4));
    for (snapshot, n) in [(&third, 3), (&fourth, 4)] {
        assert_eq!(snapshot.get(b"a").unwrap().unwrap().as_ref(), [n]);
    }
    // Callers that wait already get the connections of snapshots that become idle.
    std::thread::scope(|scope| {
        let first = scope.spawn(|| take(1).get(b"a").unwrap().unwrap());
        let second = scope.spawn(|| take(2).get(b"a").unwrap().unwrap());
        drop((third, fourth));
        assert_eq!(first.join().unwrap().as_ref(), [1]);
        assert_eq!(second.join().unwrap().as_ref(), [2]);
    });
    // Many callers on few connections: none is refused.
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let take = &take;
            scope.spawn(move || {
                for round in 0..50 {
                    let n = (caller + round) % 4 + 1;
                    assert_eq!(take(n).get(b"a").unwrap().unwrap().as_ref(), [n as u8]);
                }
            });
        }
    });
}

/// A caller that waits for a connection uses the transaction of the caller before, if both read the
/// same partition.
#[test]
fn callers_that_wait_use_the_transactions_of_the_callers_before() {
    const CALLERS: u64 = 8;
    const ROUNDS: u64 = 200;
    let server = Server::start(&["-c", "fsync=off"]);
    let mut config = server.config();
    config.read_connections = 2;
    let store = only_writer(&config);
    PartitionWriter::open(&store, P).put(&[(b"a", b"1")]);
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let value = store.snapshot(P).unwrap().get(b"a").unwrap();
                    assert_eq!(value.unwrap().as_ref(), b"1");
                }
            });
        }
    });
    drop(store);
    // The server counts the transactions of a connection when it ends, at the latest.
    let connections = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'orrery'";
    server.wait_for_sql(connections, |rows| rows.is_empty());
    let count =
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'";
    let transactions: u64 = server.sql(count)[0][0].parse().unwrap();
    // Connections, tables and the test itself need some too.
    assert!(transactions < CALLERS * ROUNDS / 2, "{transactions}");
}

/// Callers that need more snapshots than there are connections take them together, and none waits
/// for a connection of another caller that waits.
#[test]
fn many_callers_take_snapshots_of_more_partitions_than_connections() {
    const PARTITIONS: u64 = 6;
    let mut config = server().config();
    config.read_connections = 2;
    let store = only_writer(&config);
    let ids: Vec<PartitionId> = (0..PARTITIONS).map(PartitionId).collect();
    for &id in &ids {
        PartitionWriter::open(&store, id).put(&[(b"a", &[id.0 as u8])]);
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let snapshots = store.snapshots(&ids).unwrap();
                    // The rows of one partition are not those of another in the transaction.
                    for (id, snapshot) in ids.iter().zip(&snapshots) {
                        assert_eq!(snapshot.get(b"a").unwrap().unwrap().as_ref(), [id.0 as u8]);
                    }
                }
            });
        }
    });
    // A transaction goes on until its last snapshot is dropped.
    let mut snapshots = store.snapshots(&ids).unwrap();
    let last = snapshots.pop().unwrap();
    drop(snapshots);
    assert_eq!(
        rows(last.as_ref(), ALL, Direction::Forward),
        pairs(&[(b"a", &[5])])
    );
}

/// A transaction that began before a commit of another process is not used by a store that is not
/// the only writer.
#[test]
fn without_the_option_commits_of_other_processes_are_seen_at_once() {
    let config = server().config();
    let (writes, reads) = (
        only_writer(&config),
        PostgresStore::open(config.clone()).unwrap(),
    );
    let mut writer = PartitionWriter::open(&writes, P);
    for round in 1..=20 {
        writer.put(&[(b"a", &[round])]);
        assert_eq!(reads.snapshot(P).unwrap().head().lsn, u64::from(round));
    }
}

/// A store of the owner of some partitions uses a transaction again from the opening of a partition
/// to its release. In between no other process writes the partition; before and after, each
/// snapshot shows the commits of other processes.
#[test]
fn an_owner_uses_transactions_again_between_opening_and_release() {
    let server = Server::start(&["-c", "fsync=off"]);
    let config = server.config();
    let options = StoreOptions {
        owns_opened: true,
        ..StoreOptions::default()
    };
    let owner = PostgresStore::open_with(config.clone(), options).unwrap();
    let holder = only_writer(&config);
    let mut before = PartitionWriter::open(&holder, P);
    for round in 1..=5u8 {
        before.put(&[(b"a", &[round])]);
        assert_eq!(owner.snapshot(P).unwrap().head().lsn, u64::from(round));
    }
    holder.release(P).unwrap();

    let mut own = PartitionWriter::open(&owner, P);
    own.put(&[(b"a", &[6])]);
    wait_until("snapshots while no transaction ends by its age", || {
        wait_for_their_end(&server);
        let begun = Instant::now();
        drop(owner.snapshot(P).unwrap());
        let first = open_transactions(&server);
        drop(owner.snapshot(P).unwrap());
        let second = open_transactions(&server);
        let took = begun.elapsed();
        if took > AGE / 2 {
            return Err(took);
        }
        assert_eq!(first, second, "a snapshot of the same transaction");
        Ok(())
    });
    own.put(&[(b"a", &[7])]);
    assert_eq!(
        holder.snapshot(P).unwrap().head().lsn,
        7,
        "the holder looks anew"
    );
    own.put(&[(b"a", &[8])]);
    assert_eq!(
        holder.snapshot(P).unwrap().head().lsn,
        8,
        "the holder looks anew"
    );
    owner.release(P).unwrap();

    let mut after = PartitionWriter::open(&holder, P);
    for round in 9..=12u8 {
        after.put(&[(b"a", &[round])]);
        assert_eq!(owner.snapshot(P).unwrap().head().lsn, u64::from(round));
    }
}
