//! Snapshots for single rows: what they show, which rows come from memory, and what ends that.

use crate::servers::server;
use crate::stores::{ALL, P, PartitionWriter, pairs, rows};
use orrery_storage::{
    CommitOutcome, Direction, Lease, Link, PartitionId, ReadAhead, Snapshot, Store, StoreError,
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
        links: Vec::new(),
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

/// What ends the knowledge of an owner: a commit that empties a range, a release, the opening by
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
    let fenced: Lease = next.lease.clone();
    drop((last, fenced));
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
