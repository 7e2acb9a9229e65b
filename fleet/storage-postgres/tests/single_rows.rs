//! Snapshots for single rows: what they show, which rows come from memory, and what ends that.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::servers::server;
use crate::stores::{ALL, P, PartitionWriter, commit, pairs, rows};
use orrery_storage::{
    CommitOutcome, Direction, Link, PartitionId, ReadAhead, Receipt, Snapshot, Store, StoreError,
};
use orrery_storage_postgres::{ClusterConfig, PostgresStore, StoreOptions};
use orrery_test_wait::wait_until;

fn owner(config: &ClusterConfig) -> PostgresStore {
    let options = StoreOptions {
        owns_opened: true,
        ..StoreOptions::default()
    };
    PostgresStore::open_with(config.clone(), options).unwrap()
}

fn ahead(keys: &[&[u8]]) -> ReadAhead {
    ReadAhead {
        keys: keys.iter().map(|key| key.to_vec()).collect(),
        ..ReadAhead::default()
    }
}

/// Returns the value of a key as a snapshot for this key shows it.
fn value(store: &PostgresStore, key: &[u8]) -> Option<Vec<u8>> {
    let snapshot = store.snapshot_ahead(P, &ahead(&[key])).unwrap();
    get(snapshot.as_ref(), key)
}

fn get(snapshot: &dyn Snapshot, key: &[u8]) -> Option<Vec<u8>> {
    snapshot.get(key).unwrap().map(|value| value.to_vec())
}

/// Changes the values of all rows without the store. A store that shows the old values has them in
/// memory.
fn falsify(config: &ClusterConfig) {
    server().sql(&format!("UPDATE {}.kv SET v = 'false'", config.schema));
}

#[test]
fn named_rows_linked_rows_and_others_are_shown() {
    let config = server().config();
    for store in [PostgresStore::open(config.clone()).unwrap(), owner(&config)] {
        let mut writer = PartitionWriter::open(&store, P);
        writer.put(&[(b"id", b"7"), (b"item-7", b"text"), (b"other", b"more")]);
        let link = |from: &[u8], prefix: &[u8]| Link {
            from: from.to_vec(),
            prefix: prefix.to_vec(),
        };
        let ahead = ReadAhead {
            links: vec![
                link(b"id", b"item-"),
                link(b"id", b"none-"),
                link(b"absent", b"item-"),
            ],
            ..ahead(&[b"id", b"absent"])
        };
        // The second time the rows of the owner come from memory.
        for _ in 0..2 {
            let snapshot = store.snapshot_ahead(P, &ahead).unwrap();
            assert_eq!(snapshot.head(), store.snapshot(P).unwrap().head());
            let snapshot = snapshot.as_ref();
            assert_eq!(get(snapshot, b"item-7"), Some(b"text".to_vec()));
            assert_eq!(get(snapshot, b"id"), Some(b"7".to_vec()));
            assert_eq!(get(snapshot, b"absent"), None);
            assert_eq!(get(snapshot, b"none-7"), None);
            assert_eq!(get(snapshot, b"other"), Some(b"more".to_vec()));
            let all = pairs(&[(b"id", b"7"), (b"item-7", b"text"), (b"other", b"more")]);
            assert_eq!(rows(snapshot, ALL, Direction::Forward), all);
        }
    }
}

#[test]
fn partitions_without_rows_show_none() {
    let store = PostgresStore::open(server().config()).unwrap();
    assert_eq!(value(&store, b"a"), None);
    PartitionWriter::open(&store, P).put(&[(b"a", b"1")]);
    store.destroy(P).unwrap();
    let snapshot = store.snapshot_ahead(P, &ahead(&[b"a"])).unwrap();
    assert_eq!(
        (snapshot.head().lsn, get(snapshot.as_ref(), b"a")),
        (0, None)
    );
    let reserved = store.snapshot_ahead(PartitionId(u64::MAX), &ReadAhead::default());
    assert!(matches!(reserved, Err(StoreError::ReservedPartition(_))));
}

/// Rows that a caller has asked for are of one moment: if they change before the caller asks for a
/// row that was not named, this read fails. Rows that were named only may change.
#[test]
fn a_further_row_is_shown_if_the_rows_before_are_unchanged() {
    let store = owner(&server().config());
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]);
    let snapshot = store.snapshot_ahead(P, &ahead(&[b"a", b"b"])).unwrap();
    assert_eq!(get(snapshot.as_ref(), b"a"), Some(b"1".to_vec()));
    writer.put(&[(b"b", b"2"), (b"c", b"2")]);
    assert_eq!(get(snapshot.as_ref(), b"c"), Some(b"2".to_vec()));
    assert_eq!(get(snapshot.as_ref(), b"a"), Some(b"1".to_vec()));
    assert_eq!(snapshot.head().lsn, writer.lsn);
    writer.put(&[(b"a", b"2"), (b"d", b"2")]);
    let failed = snapshot.get(b"d");
    assert!(matches!(
        failed,
        Err(StoreError::Cluster {
            retry_after_ms: Some(_),
            ..
        })
    ));
    let failed = snapshot.scan(ALL, Direction::Forward).next().unwrap();
    assert!(failed.is_err(), "a scan of another moment");
}

#[test]
fn rows_of_an_owner_come_from_memory_and_follow_its_commits() {
    let config = server().config();
    let (store, other) = (owner(&config), PostgresStore::open(config.clone()).unwrap());
    let mut writer = PartitionWriter::open(&store, P);
    // Each round confirms the head by its commit. A slow round is repeated.
    wait_until("rows in memory, while the head is known", || {
        writer.put(&[(b"a", b"1"), (b"b", b"1"), (b"gone", b"1")]);
        for key in [&b"a"[..], b"b", b"gone", b"new"] {
            value(&store, key);
        }
        let change = orrery_storage::Commit {
            puts: vec![
                (b"a".to_vec(), b"2".to_vec()),
                (b"new".to_vec(), b"2".to_vec()),
            ],
            deletes: vec![b"gone".to_vec()],
            ..Default::default()
        };
        assert_eq!(writer.commit(change), CommitOutcome::Ok);
        falsify(&config);
        assert_eq!(value(&other, b"b"), Some(b"false".to_vec()));
        let found = [&b"a"[..], b"b", b"gone", b"new"].map(|key| value(&store, key));
        let [two, one] = [b"2", b"1"].map(|text| Some(text.to_vec()));
        let delete = orrery_storage::Commit {
            deletes: vec![b"new".to_vec()],
            ..Default::default()
        };
        assert_eq!(writer.commit(delete), CommitOutcome::Ok);
        match found == [two.clone(), one, None, two] {
            true => Ok(()),
            false => Err(found),
        }
    });
}

/// The knowledge of an owner ends by a commit that empties a range, a release, the opening by
/// another process, and time without a sign of the cluster.
#[test]
fn rows_are_forgotten_with_the_ownership() {
    let config = server().config();
    let store = owner(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1"), (b"b", b"1")]);
    value(&store, b"a");
    let emptied = orrery_storage::Commit {
        range_deletes: vec![b"a".to_vec()..b"b".to_vec()],
        ..Default::default()
    };
    assert_eq!(writer.commit(emptied), CommitOutcome::Ok);
    assert_eq!(value(&store, b"a"), None);

    value(&store, b"b");
    falsify(&config);
    wait_until(
        "the end of what is known without a sign of the cluster",
        || match value(&store, b"b") {
            Some(text) if text == b"false" => Ok(()),
            other => Err(other),
        },
    );

    // Another process writes after the release, and each read shows it.
    store.release(P).unwrap();
    let other = owner(&config);
    let mut next = PartitionWriter::open(&other, P);
    for round in 2..10u8 {
        next.put(&[(b"b", &[round])]);
        assert_eq!(value(&store, b"b"), Some(vec![round]));
    }

    // An owner that is fenced by another process learns it from its next commit.
    let mut last = PartitionWriter::open(&store, P);
    last.put(&[(b"b", b"x")]);
    assert_eq!(value(&store, b"b"), Some(b"x".to_vec()));
    assert_eq!(next.commit(Default::default()), CommitOutcome::Fenced);
    assert_eq!(value(&other, b"b"), Some(b"x".to_vec()));
}

#[test]
fn without_memory_for_rows_each_read_asks_the_cluster() {
    let mut config = server().config();
    config.cache_mb = 0;
    let store = owner(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    assert_eq!(value(&store, b"a"), Some(b"1".to_vec()));
    falsify(&config);
    assert_eq!(value(&store, b"a"), Some(b"false".to_vec()));
}

const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
/// The values of the keys after a commit.
type Values = [Option<u64>; 4];

/// Returns a number that looks random for each number.
fn random_of(n: u64) -> u64 {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// Returns the commits of a history, and the values after each: one key is written by each commit,
/// and one is deleted by some.
fn history(count: u64) -> (Vec<orrery_storage::Commit>, Vec<Values>) {
    let (mut commits, mut all) = (Vec::new(), vec![Values::default()]);
    for lsn in 1..=count {
        let mut values = all[all.len() - 1];
        let (written, deleted) = (random_of(lsn) % 4, random_of(lsn + count) % 8);
        let mut change = commit(lsn, &[(KEYS[written as usize], &lsn.to_be_bytes())]);
        if deleted < 4 && deleted != written {
            values[deleted as usize] = None;
            change.deletes.push(KEYS[deleted as usize].to_vec());
        }
        values[written as usize] = Some(lsn);
        commits.push(change);
        all.push(values);
    }
    (commits, all)
}

/// Checks that the rows of a snapshot are those after the commit of its head.
fn check(snapshot: &dyn Snapshot, all: &[Values], keys: &[usize]) {
    let got: Vec<Option<u64>> = keys
        .iter()
        .map(|key| {
            let value = snapshot.get(KEYS[*key]).unwrap();
            value.map(|value| u64::from_be_bytes(value[..].try_into().unwrap()))
        })
        .collect();
    let lsn = snapshot.head().lsn;
    let expected: Vec<Option<u64>> = keys.iter().map(|key| all[lsn as usize][*key]).collect();
    assert_eq!(got, expected, "the keys {keys:?} after commit {lsn}");
}

/// A writer that does not wait for its commits, and readers. Rows that are read while commits are
/// on their way are kept only if these commits leave them as they are.
#[test]
fn rows_in_memory_are_those_of_the_head_while_commits_are_on_their_way() {
    const COUNT: u64 = 1_500;
    let store = owner(&server().config());
    let (commits, all) = history(COUNT);
    let lease = store.open(P).unwrap();
    let (submitted, shown) = (AtomicU64::new(0), AtomicU64::new(0));
    let named = |random: u64| {
        let keys = [random as usize % 4, (random >> 2) as usize % 4];
        let mut ahead = ahead(&keys.map(|key| KEYS[key]));
        ahead.is_for_writer = false;
        (keys, ahead)
    };
    std::thread::scope(|scope| {
        for reader in 1..4 {
            let (store, all, submitted, shown) = (&store, &all, &submitted, &shown);
            scope.spawn(move || {
                let mut n = reader << 32;
                while submitted.load(Ordering::SeqCst) < COUNT {
                    n += 1;
                    let (keys, ahead) = named(random_of(n));
                    if n % 3 == 0 {
                        store.read_ahead(P, &ahead).unwrap();
                        continue;
                    }
                    let before = shown.load(Ordering::SeqCst);
                    let snapshot = store.snapshot_ahead(P, &ahead).unwrap();
                    let lsn = snapshot.head().lsn;
                    assert!(lsn >= before, "{lsn} after {before} was shown");
                    shown.fetch_max(lsn, Ordering::SeqCst);
                    check(snapshot.as_ref(), all, &keys);
                }
            });
        }
        let mut receipts = VecDeque::new();
        for (change, lsn) in commits.into_iter().zip(1..) {
            receipts.push_back(store.submit(&lease, change));
            submitted.store(lsn, Ordering::SeqCst);
            let (keys, mut ahead) = named(random_of(lsn));
            ahead.is_for_writer = true;
            store.read_ahead(P, &ahead).unwrap();
            let snapshot = store.snapshot_ahead(P, &ahead).unwrap();
            check(snapshot.as_ref(), &all, &keys);
            if receipts.len() > 8 {
                let outcome = receipts.pop_front().map(Receipt::wait);
                assert_eq!(outcome, Some(CommitOutcome::Ok));
                // The commits that were answered are there.
                let snapshot = store.snapshot_ahead(P, &ahead).unwrap();
                assert!(snapshot.head().lsn >= lsn - 8);
            }
        }
    });
}
