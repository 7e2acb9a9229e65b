//! Promise 14 on a primary and a standby: a follower snapshot is a prefix of the history.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::servers::{Server, open};
use crate::stores::{P, PartitionWriter, everything, pairs};
use orrery_storage::{PartitionId, Snapshot, Store, StoreError};
use orrery_storage_postgres::{ClusterConfig, PostgresStore};
use orrery_test_wait::{wait_for, wait_until};

/// Starts a primary and its standby, and returns their description as one cluster.
fn cluster() -> (Server, Server, ClusterConfig) {
    let primary = Server::start(&["-c", "fsync=off"]);
    let standby = primary.start_standby();
    let config = primary.config_at(&[primary.port, standby.port]);
    (primary, standby, config)
}

/// Returns the partition as a standby has it.
fn follower_snapshot(store: &dyn Store, at_least: u64) -> Option<Box<dyn Snapshot>> {
    let found = store.follower_snapshots(&[(P, at_least)]).unwrap();
    found.and_then(|mut snapshots| snapshots.pop())
}

/// Waits until the standby has a commit, and returns its snapshot.
fn snapshot_with(store: &dyn Store, lsn: u64) -> Box<dyn Snapshot> {
    wait_until("a snapshot of the standby", || {
        follower_snapshot(store, lsn).ok_or(lsn)
    })
}

#[test]
fn a_follower_snapshot_is_the_state_after_one_commit() {
    let (_primary, _standby, config) = cluster();
    let store = open(&config);
    assert!(store.capabilities().followers);
    let mut writer = PartitionWriter::open(&store, P);
    let answered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let least = answered.load(Ordering::SeqCst);
                        let snapshot = snapshot_with(&store, least);
                        let lsn = snapshot.head().lsn;
                        assert!(lsn >= least);
                        let expected = (lsn > 0).then(|| lsn.to_be_bytes().to_vec());
                        for key in [&b"a"[..], b"b", b"\x90c"] {
                            let value = snapshot.get(key).unwrap();
                            assert_eq!(value.map(|value| value.to_vec()), expected);
                        }
                    }
                })
            })
            .collect();
        while readers.iter().any(|reader| !reader.is_finished()) {
            let lsn = (writer.lsn + 1).to_be_bytes();
            writer.put(&[(b"a", &lsn), (b"b", &lsn), (b"\x90c", &lsn)]);
            answered.store(writer.lsn, Ordering::SeqCst);
        }
    });
    let last = snapshot_with(&store, writer.lsn);
    assert_eq!(last.head().lsn, writer.lsn);
}

/// A commit of the second partition follows each one of the first, so no moment shows the second
/// one ahead of the first.
#[test]
fn partitions_that_are_read_together_show_one_moment() {
    const OTHER: PartitionId = PartitionId(8);
    const DELAY_MS: u64 = 20;
    let (_primary, standby, config) = cluster();
    standby.set_feedback("on");
    for delay in [0, DELAY_MS] {
        let mut config = config.clone();
        config.follower_delay_ms = delay;
        let store = open(&config);
        let mut first = PartitionWriter::open(&store, P);
        let mut second = PartitionWriter::open(&store, OTHER);
        let behind = first.lsn - second.lsn;
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while seen < 100 {
                    let found = store.follower_snapshots(&[(P, 1), (OTHER, 1)]).unwrap();
                    let Some([one, other]) = found.as_deref() else {
                        continue;
                    };
                    let (one, other) = (one.head().lsn - behind, other.head().lsn);
                    assert!(one == other || one == other + 1, "{one} {other}");
                    seen += 1;
                }
            });
            while !reader.is_finished() {
                first.put(&[(b"a", b"1")]);
                second.put(&[(b"a", b"1")]);
            }
        });
    }
}

#[test]
fn a_standby_that_is_not_far_enough_is_not_read() {
    let (_primary, standby, config) = cluster();
    let store = open(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    drop(snapshot_with(&store, 1));
    standby.sql("SELECT pg_wal_replay_pause()");
    standby.wait_for_sql("SELECT pg_get_wal_replay_pause_state()", |rows| {
        rows == [["paused"]]
    });
    writer.put(&[(b"b", b"2")]);
    assert!(follower_snapshot(&store, 2).is_none());
    let old = follower_snapshot(&store, 1).unwrap();
    assert_eq!((old.head().lsn, old.get(b"b").unwrap()), (1, None));
    assert_eq!(everything(&store, P).len(), 2);
    let lag = store.follower_lag();
    let [lag] = lag.as_slice() else {
        panic!("{lag:?}")
    };
    assert_eq!(lag.host, format!("127.0.0.1:{}", standby.port));
    assert!(lag.bytes > 0, "{lag:?}");
    standby.sql("SELECT pg_wal_replay_resume()");
    assert_eq!(
        snapshot_with(&store, 2)
            .get(b"b")
            .unwrap()
            .unwrap()
            .as_ref(),
        b"2"
    );
    // The held snapshot has not changed.
    assert_eq!(old.get(b"b").unwrap(), None);
    let lag = || store.follower_lag();
    let lag = wait_for("no lag", lag, |lag| lag[0].bytes == 0);
    assert_eq!(lag[0].ms, 0);

    // A removed partition is not shown as it was before, once its owner knows.
    let known = writer.lsn;
    store.destroy(P).unwrap();
    PartitionWriter::open(&store, P);
    assert!(follower_snapshot(&store, known).is_none());
}

#[test]
fn a_read_that_the_standby_ends_may_be_tried_again() {
    let (primary, standby, config) = cluster();
    standby.sql("ALTER SYSTEM SET max_standby_streaming_delay = 0");
    standby.sql("SELECT pg_reload_conf()");
    standby.wait_for_sql("SHOW max_standby_streaming_delay", |rows| rows == [["0"]]);
    let store = open(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    let snapshot = snapshot_with(&store, 1);
    assert_eq!(snapshot.get(b"a").unwrap().unwrap().as_ref(), b"1");
    // The removal of the old row conflicts with the snapshot.
    writer.put(&[(b"a", b"2")]);
    primary.sql(&format!("VACUUM {}.kv", config.schema));
    let error = wait_until("the end of the read", || match snapshot.get(b"a") {
        Err(error) => Ok(error),
        Ok(value) => Err(value),
    });
    match &error {
        StoreError::Cluster { retry_after_ms, .. } => assert!(retry_after_ms.is_some()),
        other => panic!("{other}"),
    }
    // The standby ends the statement; between two statements it closes the connection.
    let text = error.to_string();
    let is_known = text.contains("recovery") || text.contains("connection closed");
    assert!(is_known, "{text}");
    drop(snapshot);
    let next = snapshot_with(&store, 2);
    assert_eq!(next.head().lsn, 2);
}

#[test]
fn without_a_standby_there_is_no_follower_snapshot() {
    let (primary, standby, config) = cluster();
    let store = open(&config);
    PartitionWriter::open(&store, P).put(&[(b"a", b"1")]);
    drop(snapshot_with(&store, 1));
    drop(standby);
    assert!(follower_snapshot(&store, 0).is_none());
    assert!(store.follower_lag().is_empty());
    assert_eq!(store.write_failure(), None);

    // A standby that becomes a primary is read no more.
    let standby = primary.start_standby();
    let store = open(&primary.config_at(&[primary.port, standby.port]));
    PartitionWriter::open(&store, P).put(&[(b"a", b"1")]);
    drop(snapshot_with(&store, 1));
    standby.promote();
    assert!(follower_snapshot(&store, 0).is_none());
}

/// The lab switch: states are old on purpose, and still whole.
#[test]
fn a_delay_shows_states_of_at_least_that_age() {
    const DELAY: Duration = Duration::from_millis(700);
    let (_primary, standby, mut config) = cluster();
    standby.set_feedback("on");
    config.follower_delay_ms = DELAY.as_millis() as u64;
    let store = open(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", &1u64.to_be_bytes())]);
    drop(snapshot_with(&store, 1));
    // A machine that stands still for the whole delay sees no old state: the next commit is tried.
    wait_until("an old state", || {
        let lsn = writer.lsn + 1;
        let before = Instant::now();
        writer.put(&[(b"a", &lsn.to_be_bytes())]);
        let mut old_states = 0;
        wait_until("the new state", || {
            let snapshot = snapshot_with(&store, 1);
            let shown = snapshot.head().lsn;
            let value = snapshot.get(b"a").unwrap().unwrap();
            assert_eq!(value.as_ref(), shown.to_be_bytes());
            old_states += u32::from(shown < lsn);
            if shown == lsn { Ok(()) } else { Err(shown) }
        });
        // The clock of this machine is that of the server.
        assert!(before.elapsed() >= DELAY, "{:?}", before.elapsed());
        if old_states > 0 { Ok(()) } else { Err(lsn) }
    });
    let newest = writer.lsn.to_be_bytes();
    assert_eq!(everything(&store, P), pairs(&[(b"a", &newest)]));
}

#[test]
fn a_delay_needs_standbys_that_tell_the_primary_what_they_read() {
    let (_primary, standby, mut config) = cluster();
    standby.set_feedback("on");
    config.follower_delay_ms = 100;
    let store = open(&config);
    PartitionWriter::open(&store, P).put(&[(b"a", b"1")]);
    let is_shown = |store: &PostgresStore| {
        let snapshots = store.follower_snapshots(&[(P, 1)]);
        snapshots.expect("an answer").is_some()
    };
    wait_for("a delayed state", || is_shown(&store), |is_shown| *is_shown);
    standby.set_feedback("off");
    // Connections from before are kept; a new store makes its own.
    assert!(!is_shown(&open(&config)));
    config.follower_delay_ms = 0;
    let store = open(&config);
    wait_for(
        "the newest state",
        || is_shown(&store),
        |is_shown| *is_shown,
    );
}
