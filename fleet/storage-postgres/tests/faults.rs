//! Failures of servers, connections and data, and the answers of the store. Every fault is a real
//! one: a connection that is cut, a dump that is restored, a standby that is promoted.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::servers::proxy::{Fault, Proxy};
use crate::servers::{self, Server, open, server};
use crate::stores::{P, PartitionWriter, commit, everything, pairs};
use orrery_storage::{CommitOutcome, PartitionId, Store, StoreError};
use orrery_storage_postgres::{ClusterConfig, PostgresStore, StoreOptions};
use orrery_test_wait::{wait_for, wait_until};

/// Returns a proxy before the shared server, and a store that reaches the server through the proxy.
fn store_behind_proxy(commit_timeout_ms: u64) -> (Proxy, PostgresStore) {
    store_with_options(commit_timeout_ms, StoreOptions::default())
}

fn store_with_options(commit_timeout_ms: u64, options: StoreOptions) -> (Proxy, PostgresStore) {
    let proxy = Proxy::start(server().port);
    let mut config = server().config_at(&[proxy.port]);
    config.commit_timeout_ms = commit_timeout_ms;
    let store = PostgresStore::open_with(config, options).unwrap();
    (proxy, store)
}

/// Returns the message of the error with which a cluster is refused.
fn refusal(config: &ClusterConfig) -> String {
    match PostgresStore::open(config.clone()) {
        Ok(_) => panic!("the cluster was accepted"),
        Err(error @ StoreError::Cluster { .. }) => error.to_string(),
        Err(other) => panic!("{other}"),
    }
}

/// Promises 2 and 12, with owners in two stores, as in two processes.
#[test]
fn of_two_owners_the_earlier_is_fenced_by_the_server() {
    let config = server().config();
    let (first, second) = (open(&config), open(&config));
    let mut old = PartitionWriter::open(&first, P);
    old.put(&[(b"a", b"1")]);
    let mut new = PartitionWriter::open(&second, P);
    assert_eq!(new.lsn, 1);
    // The old owner knows nothing of the new one: only the server can tell.
    let late = old.commit(commit(1, &[(b"late", b"1")]));
    assert_eq!(late, CommitOutcome::Fenced);
    new.put(&[(b"b", b"2")]);
    assert_eq!(everything(&first, P), pairs(&[(b"a", b"1"), (b"b", b"2")]));
    let again = PartitionWriter::open(&first, P);
    assert_eq!(again.lsn, 2);
    assert!(again.lease.epoch() > new.lease.epoch());
}

/// Promise 3: each fault, and what the store finds under a newer epoch.
/// The next owner may read a partition long before it writes to it: a commit of the owner before
/// must not take place behind its back.
#[test]
fn the_only_writer_fences_the_owners_of_all_partitions_when_it_opens_the_store() {
    const SPARED: PartitionId = PartitionId(8);
    let config = server().config();
    let before = open(&config);
    let mut writer = PartitionWriter::open(&before, P);
    writer.put(&[(b"a", b"1")]);
    let mut spared = PartitionWriter::open(&before, SPARED);
    spared.put(&[(b"a", b"1")]);

    let options = StoreOptions {
        only_writer: true,
        owns_opened: false,
        spared: Some(SPARED),
        ..StoreOptions::default()
    };
    let next = PostgresStore::open_with(config.clone(), options).unwrap();
    let late = writer.commit(commit(1, &[(b"a", b"2")]));
    assert_eq!(late, CommitOutcome::Fenced);
    assert_eq!(everything(&next, P), pairs(&[(b"a", b"1")]));
    spared.put(&[(b"a", b"2")]);
    assert_eq!(everything(&next, SPARED), pairs(&[(b"a", b"2")]));

    let mut writer = PartitionWriter::open(&next, P);
    assert_eq!(writer.lsn, 1);
    writer.put(&[(b"a", b"3")]);
    assert_eq!(next.write_failure(), None);
}

#[test]
fn a_commit_that_was_not_answered_is_looked_up_under_a_newer_epoch() {
    for (fault, outcome, rows, only_writer) in [
        (Fault::BeforeCommit, CommitOutcome::Fenced, 1, false),
        (Fault::AfterCommit, CommitOutcome::Ok, 2, false),
        (Fault::NoAnswer, CommitOutcome::Ok, 2, false),
        (Fault::AfterCommit, CommitOutcome::Ok, 2, true),
    ] {
        let options = StoreOptions {
            only_writer,
            ..StoreOptions::default()
        };
        let (proxy, store) = store_with_options(1_500, options);
        let mut writer = PartitionWriter::open(&store, P);
        writer.put(&[(b"a", b"1")]);
        // Its transaction may stay open, and is not used after the fault.
        assert_eq!(everything(&store, P).len(), 1);
        proxy.fail_next(fault);
        assert_eq!(
            writer.commit(commit(2, &[(b"b", b"2")])),
            outcome,
            "{fault:?}"
        );
        assert!(proxy.has_failed());
        assert_eq!(everything(&store, P).len(), rows, "{fault:?}");
        // The lease is over, whatever the outcome was.
        let next = writer.commit(commit(3, &[(b"c", b"3")]));
        assert_eq!(next, CommitOutcome::Fenced, "{fault:?}");
        let mut newer = PartitionWriter::open(&store, P);
        assert!(newer.lease.epoch() > writer.lease.epoch() + 1, "{fault:?}");
        assert_eq!(newer.lsn as usize, rows);
        newer.put(&[(b"d", b"4")]);
    }
}

/// Promise 4, at its hardest: the transaction reaches the server after it was given up.
#[test]
fn a_transaction_that_arrives_late_changes_nothing() {
    let (proxy, store) = store_behind_proxy(3_000);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    let held = proxy.hold_next();
    let given_up = writer.commit(commit(2, &[(b"late", b"2")]));
    assert_eq!(given_up, CommitOutcome::Fenced);
    drop(held);
    proxy.wait_for_landing();
    assert_eq!(everything(&store, P), pairs(&[(b"a", b"1")]));
    assert_eq!(PartitionWriter::open(&store, P).lsn, 1);
}

/// The server answers success with a warning when the wait for its standbys is cancelled.
#[test]
fn a_commit_with_a_warning_does_not_count_as_durable() {
    let server = Server::start(&["-c", "fsync=off"]);
    let mut config = server.config();
    // The lookup waits for the standby below, and is not given up.
    config.commit_timeout_ms = 60_000;
    let store = open(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    wait_for_a_standby_that_never_comes(&server);
    let receipt = store.submit(&writer.lease, commit(2, &[(b"b", b"2")]));
    const CANCEL: &str =
        "SELECT pid, pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let cancelled = wait_until("a commit that waits", || {
        let cancelled = server.sql(CANCEL);
        cancelled.first().map(|row| row[0].clone()).ok_or(())
    });
    // Without the standby the lookup waits as well, so the commit is not answered yet. The lookup
    // has a connection of its own.
    const LOOKUP: &str = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> ";
    server.wait_for_sql(&format!("{LOOKUP}{cancelled}"), |rows| !rows.is_empty());
    // The server shows the row, which it may still lose; the store does not.
    let rows = server.sql(&format!("SELECT 1 FROM {}.kv", config.schema));
    assert_eq!(rows.len(), 2);
    let message = store.snapshot(P).err().expect("a refusal").to_string();
    assert!(
        message.contains("the outcome of its last commit"),
        "{message}"
    );
    server.sql("ALTER SYSTEM RESET synchronous_standby_names");
    server.sql("SELECT pg_reload_conf()");
    assert_eq!(receipt.wait(), CommitOutcome::Ok);
    let epoch = format!("SELECT epoch FROM {}.head", server_schema(&server));
    assert_ne!(server.sql(&epoch), [["1"]], "the outcome was looked up");
    let next = writer.commit(commit(3, &[]));
    assert_eq!(next, CommitOutcome::Fenced);
}

/// Makes every commit of a server wait for a standby.
fn wait_for_a_standby_that_never_comes(server: &Server) {
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nowhere'");
    server.sql("SELECT pg_reload_conf()");
    server.wait_for_sql("SHOW synchronous_standby_names", |rows| {
        rows == [["nowhere"]]
    });
}

/// An operator lowers the durability of commits while the store has connections.
#[test]
fn commits_wait_for_standbys_whatever_the_server_is_told_later() {
    let server = Server::start(&["-c", "fsync=off"]);
    let store = open(&server.config());
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    server.sql("ALTER SYSTEM SET synchronous_commit = off");
    wait_for_a_standby_that_never_comes(&server);
    assert_eq!(server.sql("SHOW synchronous_commit"), [["off"]]);
    let receipt = store.submit(&writer.lease, commit(2, &[(b"b", b"2")]));
    let is_answered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(receipt.wait(), CommitOutcome::Ok);
            is_answered.store(true, Ordering::SeqCst);
        });
        const WAITING: &str = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        server.wait_for_sql(WAITING, |rows| {
            assert!(!is_answered.load(Ordering::SeqCst), "no wait for a standby");
            !rows.is_empty()
        });
        server.sql("ALTER SYSTEM RESET synchronous_standby_names");
        server.sql("SELECT pg_reload_conf()");
    });
}

/// A server that lost commits and was written to by another owner since then has other commits
/// under the same numbers.
#[test]
fn an_owner_does_not_write_behind_a_commit_of_another_history() {
    let config = server().config();
    let store = open(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    let fork = "SET token = decode(repeat('ee', 16), 'hex') WHERE p = 7";
    server().sql(&format!("UPDATE {}.head {fork}", config.schema));
    let outcome = writer.commit(commit(2, &[(b"b", b"2")]));
    assert_eq!(outcome, CommitOutcome::Fenced);
    let lease = store.open(P).unwrap();
    let outcome = store.submit(&lease, commit(2, &[(b"b", b"2")])).wait();
    assert_eq!(outcome, CommitOutcome::Damaged);
}

/// `sync` answers for the commits that were on their way.
#[test]
fn a_sync_fails_with_the_commits_that_it_waits_for() {
    let (proxy, store) = store_behind_proxy(3_000);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    store.sync().unwrap();
    let held = proxy.hold_next();
    let receipt = store.submit(&writer.lease, commit(2, &[(b"late", b"2")]));
    let message = store.sync().expect_err("a failure").to_string();
    assert!(message.contains("commits failed"), "{message}");
    assert_eq!(receipt.wait(), CommitOutcome::Fenced);
    drop(held);
    proxy.wait_for_landing();
    PartitionWriter::open(&store, P).put(&[(b"b", b"2")]);
    store.sync().unwrap();
}

/// Returns the only schema of a server that one test uses.
fn server_schema(server: &Server) -> String {
    let names = "SELECT schemaname FROM pg_tables WHERE tablename = 'head'";
    server.sql(names)[0][0].clone()
}

/// The head goes back: an older dump is restored under a running store.
#[test]
fn lost_commits_make_the_partition_read_only_until_a_person_accepts_the_loss() {
    let server = Server::start(&["-c", "fsync=off"]);
    let config = server.config();
    let store = open(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    let dump = server.tool("pg_dump", &["-n", &config.schema, "--clean"]);
    writer.put(&[(b"b", b"2")]);
    let file = server.folder().join("dump.sql");
    std::fs::write(&file, dump).unwrap();
    let file = file.to_str().unwrap();
    server.tool("psql", &["-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", file]);

    assert_eq!(writer.commit(commit(3, &[])), CommitOutcome::Fenced);
    let lease = store.open(P).unwrap();
    assert!(lease.epoch() > writer.lease.epoch());
    let refused = store.submit(&lease, commit(2, &[(b"x", b"x")])).wait();
    assert_eq!(refused, CommitOutcome::Damaged);
    let message = store.write_failure().unwrap();
    assert!(
        message.contains("lost acknowledged commits of partition 7"),
        "{message}"
    );
    assert_eq!(everything(&store, P), pairs(&[(b"a", b"1")]));
    drop(store);

    // The mark outlives the process.
    let store = open(&config);
    let lease = store.open(P).unwrap();
    let refused = store.submit(&lease, commit(2, &[])).wait();
    assert_eq!(refused, CommitOutcome::Damaged);
    server.sql(&format!(
        "UPDATE {}.head SET state = 0 WHERE p = 7",
        config.schema
    ));
    PartitionWriter::open(&store, P).put(&[(b"c", b"3")]);
    assert_eq!(store.write_failure(), None);
}

/// A removal that a crash interrupts is completed, and its rows are not seen before.
#[test]
fn an_interrupted_removal_is_completed_by_the_next_open() {
    let config = server().config();
    let store = open(&config);
    PartitionWriter::open(&store, P).put(&[(b"a", b"1"), (b"b", b"2")]);
    let first_step = "SET state = 1, epoch = epoch + 1, incarnation = incarnation + 1, lsn = 0";
    server().sql(&format!("UPDATE {}.head {first_step}", config.schema));
    assert!(everything(&store, P).is_empty());
    let lease = store.open(P).unwrap();
    assert_eq!(lease.head().lsn, 0);
    let rows = server().sql(&format!("SELECT 1 FROM {}.kv", config.schema));
    assert!(rows.is_empty());
}

/// Two servers: the standby is promoted, and the old primary still answers.
#[test]
fn commits_go_on_after_a_standby_was_promoted() {
    let old = Server::start(&["-c", "fsync=off"]);
    let standby = old.start_standby();
    // The password file of the standby outlives the old server.
    let config = standby.config_at(&[old.port, standby.port]);
    let store = open(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    let count = format!("SELECT count(*) FROM {}.kv", config.schema);
    // The table reaches the standby with the rows.
    let arrived = format!("SELECT to_regclass('{}.kv') IS NOT NULL", config.schema);
    standby.wait_for_sql(&arrived, |rows| rows == [["t"]]);
    standby.wait_for_sql(&count, |rows| rows == [["1"]]);
    drop(old);
    standby.promote();
    // The commit goes to the new primary; if the old connection took it, it is looked up there.
    let outcome = writer.commit(commit(2, &[(b"b", b"2")]));
    let lsn = match outcome {
        CommitOutcome::Ok => 2,
        CommitOutcome::Fenced => 1,
        other => panic!("{other:?}"),
    };
    let mut writer = PartitionWriter::open(&store, P);
    assert_eq!(writer.lsn, lsn);
    writer.put(&[(b"c", b"3")]);
    assert_eq!(everything(&store, P).len() as u64, lsn + 1);
}

/// Without Patroni: the old primary comes first in the file and still takes writes.
#[test]
fn of_two_primaries_the_one_of_the_newer_timeline_is_used() {
    let old = Server::start(&["-c", "fsync=off"]);
    let new = old.start_standby();
    let config = old.config_at(&[old.port, new.port]);
    PartitionWriter::open(&open(&config), P).put(&[(b"a", b"1")]);
    let count = format!("SELECT count(*) FROM {}.kv", config.schema);
    let arrived = format!("SELECT to_regclass('{}.kv') IS NOT NULL", config.schema);
    new.wait_for_sql(&arrived, |rows| rows == [["t"]]);
    new.wait_for_sql(&count, |rows| rows == [["1"]]);
    new.promote();
    // A program that starts now.
    let store = open(&config);
    PartitionWriter::open(&store, P).put(&[(b"b", b"2")]);
    assert_eq!(new.sql(&count), [["2"]]);
    assert_eq!(old.sql(&count), [["1"]]);
    // The program that has seen the newer timeline does not go back to the older one.
    drop(new);
    let message = store.open(P).expect_err("the primary is gone").to_string();
    wait_for(
        "the old primary is refused",
        || store.write_failure().unwrap_or_default(),
        |failure| failure.contains("is of timeline 1, and the primary of the cluster was of"),
    );
    assert!(message.contains("no primary"), "{message}");
    assert_eq!(old.sql(&count), [["1"]]);

    // Two servers of one timeline that both take writes are no cluster.
    let other = Server::start(&["-c", "fsync=off"]);
    let message = refusal(&other.config_at(&[old.port, other.port]));
    assert!(
        message.contains(&format!(
            "127.0.0.1:{} and 127.0.0.1:{} both take writes, and both are of timeline 1",
            old.port, other.port
        )),
        "{message}"
    );
}

#[test]
fn mistakes_are_refused_with_the_reason_and_without_the_password() {
    let good = server().config();
    let folder = tempfile::tempdir().unwrap();

    let mut config = good.clone();
    let file = folder.path().join("password");
    std::fs::write(&file, "open sesame\n").unwrap();
    config.password_file = Some(file);
    let message = refusal(&config);
    assert!(
        message.contains("password authentication failed"),
        "{message}"
    );
    assert!(!message.contains("open sesame"), "{message}");
    let file = folder.path().join("password").display().to_string();
    assert!(message.contains(&file), "{message}");

    config.password_file = Some(folder.path().join("none"));
    assert!(refusal(&config).contains("cannot read the password file"));

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let message = refusal(&server().config_at(&[port]));
    assert!(
        message.contains(&format!("127.0.0.1:{port}: ")),
        "{message}"
    );
    assert!(
        message.contains("no primary of the cluster 'test'"),
        "{message}"
    );

    let mut config = good.clone();
    config.database = "none".to_owned();
    assert!(refusal(&config).contains("database \"none\" does not exist"));

    let mut config = good.clone();
    config.tls = orrery_storage_postgres::Tls::Verify;
    config.ca_file = Some(folder.path().join("none.pem"));
    assert!(refusal(&config).contains("cannot read root certificates"));
}

#[test]
fn tables_of_a_newer_format_are_refused() {
    let config = server().config();
    drop(open(&config));
    server().sql(&format!("UPDATE {}.format SET version = 3", config.schema));
    let message = refusal(&config);
    assert!(
        message.contains("has format 3, and this program knows format 2"),
        "{message}"
    );
}

/// Another program changes the tables while connections are open.
#[test]
fn a_format_that_has_changed_is_noticed_when_a_partition_is_opened() {
    let config = server().config();
    let store = open(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    let schema = &config.schema;
    let epoch = || server().sql(&format!("SELECT epoch FROM {schema}.head WHERE p = 7"));
    let before = epoch();
    server().sql(&format!("UPDATE {schema}.format SET version = 3"));
    let message = store.open(P).expect_err("a refusal").to_string();
    assert!(message.contains("has another format now"), "{message}");
    assert_eq!(epoch(), before, "nothing was changed");
}

/// A server without a primary answers "unavailable", and commits go on when there is one again.
#[test]
fn without_a_server_nothing_is_written_and_the_caller_is_told_to_retry() {
    let server = Server::start(&["-c", "fsync=off"]);
    let mut config = server.config();
    config.commit_timeout_ms = 300;
    config.connect_timeout_ms = 300;
    let store = open(&config);
    let writer = PartitionWriter::open(&store, P);
    drop(server);
    let first = store.submit(&writer.lease, commit(1, &[])).wait();
    assert!(
        matches!(
            first,
            CommitOutcome::Unknown | CommitOutcome::Unavailable { .. }
        ),
        "{first:?}"
    );
    match store.open(P) {
        Err(StoreError::Cluster { retry_after_ms, .. }) => assert!(retry_after_ms.is_some()),
        other => panic!("{other:?}"),
    }
    assert!(store.write_failure().unwrap().contains("no primary"));
    assert!(store.snapshot(P).is_err());
}

/// A warning of a statement before COMMIT says nothing about the wait for standbys; a warning at
/// COMMIT may.
#[test]
fn only_a_warning_at_commit_makes_the_outcome_unknown() {
    let server = Server::start(&["-c", "fsync=off"]);
    let config = server.config();
    let store = open(&config);
    let mut writer = PartitionWriter::open(&store, P);
    server.sql(
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE WARNING 'of a trigger'; RETURN NULL; END $$",
    );
    for table in ["head", "kv"] {
        let trigger =
            "AFTER INSERT OR UPDATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION warn()";
        let trigger = trigger.replace("{table}", &format!("{}.{table}", config.schema));
        server.sql(&format!("CREATE TRIGGER before_commit {trigger}"));
    }
    let change = |lsn| commit(lsn, &[(b"a", b"1")]);
    for lsn in 1..=20 {
        assert_eq!(writer.commit(change(lsn)), CommitOutcome::Ok);
    }
    // Deferred, so that the warning comes while COMMIT is carried out.
    server.sql(&format!(
        "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT OR UPDATE ON {}.kv \
         DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()",
        config.schema
    ));
    for table in ["head", "kv"] {
        let table = format!("{}.{table}", config.schema);
        server.sql(&format!("DROP TRIGGER before_commit ON {table}"));
    }
    assert_eq!(writer.commit(change(21)), CommitOutcome::Ok);
    // The outcome was looked up, so the lease is over.
    assert_eq!(writer.commit(change(22)), CommitOutcome::Fenced);
}

/// An owner that looks up its own commit does not fence the next owner.
#[test]
fn the_lookup_of_an_outcome_leaves_a_newer_owner_its_lease() {
    let proxy = Proxy::start(server().port);
    let mut config = server().config_at(&[proxy.port]);
    config.commit_timeout_ms = 1_000;
    let mut direct = server().config();
    direct.schema = config.schema.clone();
    let (first, second) = (open(&config), open(&direct));
    let mut old = PartitionWriter::open(&first, P);
    old.put(&[(b"a", b"1")]);
    let held = proxy.hold_next();
    let late = first.submit(&old.lease, commit(2, &[(b"late", b"2")]));
    let mut new = PartitionWriter::open(&second, P);
    assert_eq!(late.wait(), CommitOutcome::Fenced);
    drop(held);
    proxy.wait_for_landing();
    new.put(&[(b"b", b"2")]);
    assert_eq!(everything(&first, P), pairs(&[(b"a", b"1"), (b"b", b"2")]));
}

/// The loss is hidden by another owner, who went on from the older head before this store looked.
#[test]
fn lost_commits_are_noticed_after_another_owner_has_gone_on() {
    let server = Server::start(&["-c", "fsync=off"]);
    let config = server.config();
    for puts_before_the_dump in [0, 1] {
        let config = ClusterConfig {
            schema: servers::new_schema(),
            ..config.clone()
        };
        let store = open(&config);
        let mut writer = PartitionWriter::open(&store, P);
        for _ in 0..puts_before_the_dump {
            writer.put(&[(b"a", b"1")]);
        }
        let dump = server.tool("pg_dump", &["-n", &config.schema, "--clean"]);
        // With a commit before, the lost commits are of an epoch that is lost as well.
        if puts_before_the_dump > 0 {
            writer = PartitionWriter::open(&store, P);
        }
        writer.put(&[(b"b", b"2")]);
        let file = server.folder().join("dump.sql");
        std::fs::write(&file, dump).unwrap();
        let file = file.to_str().unwrap();
        server.tool("psql", &["-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", file]);

        let other = open(&config);
        let mut newer = PartitionWriter::open(&other, P);
        for _ in 0..3 {
            newer.put(&[(b"c", b"3")]);
        }
        assert!(newer.lsn > writer.lsn);
        let lease = store.open(P).unwrap();
        let change = commit(lease.head().lsn + 1, &[]);
        let outcome = store.submit(&lease, change).wait();
        assert_eq!(outcome, CommitOutcome::Damaged);
        let message = store.write_failure().unwrap();
        assert!(message.contains("lost acknowledged commits"), "{message}");
    }
}

/// Owners that take turns, none of whom has lost anything.
#[test]
fn owners_that_take_turns_find_no_loss() {
    let config = server().config();
    let stores = [open(&config), open(&config)];
    for round in 0..80 {
        let store = &stores[round % 3 / 2];
        let mut writer = PartitionWriter::open(store, P);
        writer.put(&[(b"a", &[round as u8])]);
        assert_eq!(writer.lsn, round as u64 + 1);
    }
    let kept = format!("SELECT count(*) FROM {}.history", config.schema);
    assert_eq!(server().sql(&kept), [["33"]]);
}

/// The creation of the tables waits for another program that creates them.
#[test]
fn tables_may_take_longer_than_a_connection() {
    let server = Server::start(&["-c", "fsync=off"]);
    let mut config = server.config();
    config.connect_timeout_ms = 1_500;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let slow = "BEGIN; CREATE SCHEMA {s}; SELECT pg_sleep(3); COMMIT";
            server.sql(&slow.replace("{s}", &config.schema));
        });
        const CREATING: &str = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        server.wait_for_sql(CREATING, |rows| !rows.is_empty());
        PartitionWriter::open(&open(&config), P).put(&[(b"a", b"1")]);
    });
}

/// A partition is given up when its own commits are answered, whatever other partitions wait for.
#[test]
fn a_partition_is_released_while_commits_of_another_wait() {
    let server = Server::start(&["-c", "fsync=off"]);
    let config = server.config();
    let store = open(&config);
    let other = PartitionId(8);
    let blocked = PartitionWriter::open(&store, P);
    let mut free = PartitionWriter::open(&store, other);
    const LOCKED: &str = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lock = "BEGIN; SELECT 1 FROM {s}.head WHERE p = 7 FOR UPDATE; SELECT pg_sleep(120)";
            // Ends when the test is over, which is no failure.
            let _ = server.try_sql(&lock.replace("{s}", &config.schema));
        });
        server.wait_for_sql(LOCKED, |rows| !rows.is_empty());
        let waiting = store.submit(&blocked.lease, commit(1, &[(b"a", b"1")]));
        free.put(&[(b"b", b"2")]);
        assert!(store.release(other).is_ok());
        // The commit of the locked partition is still on its way.
        let still_locked = server.sql(LOCKED).len();
        assert_eq!(still_locked, 1);
        server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
        );
        assert_eq!(waiting.wait(), CommitOutcome::Ok);
    });
    assert!(store.release(P).is_ok());
    let late = store.submit(&free.lease, commit(2, &[(b"late", b"1")]));
    assert_eq!(late.wait(), CommitOutcome::Fenced);
}

/// Snapshots that time out leave no connections behind, and the bound of their number holds.
#[test]
fn connections_of_snapshots_that_timed_out_are_closed() {
    let server = Server::start(&["-c", "fsync=off"]);
    let mut config = server.config();
    (config.read_connections, config.read_timeout_ms) = (2, 1_500);
    let store = open(&config);
    PartitionWriter::open(&store, P).put(&[(b"a", b"1")]);
    drop(store.snapshot(P).unwrap());
    let count = || {
        let count = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'orrery'";
        server.sql(count).len()
    };
    let of_writers = 1;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lock = "BEGIN; LOCK TABLE {s}.head IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(120)";
            let lock = lock.replace("{s}", &config.schema);
            // Ends when the test is over, which is no failure.
            let _ = server.try_sql(&lock);
        });
        const LOCKED: &str = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        server.wait_for_sql(LOCKED, |rows| !rows.is_empty());
        for _ in 0..2 {
            std::thread::scope(|callers| {
                for _ in 0..4 {
                    callers.spawn(|| assert!(store.snapshot(P).is_err()));
                }
            });
        }
        // The server notices that the clients have gone, although the table is still locked.
        wait_for("the end of connections", count, |count| {
            *count <= of_writers + 2
        });
        assert!(!server.sql(LOCKED).is_empty());
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE wait_event = 'PgSleep'";
        server.sql(end);
    });
    let held: Vec<_> = (0..2).map(|_| store.snapshot(P).unwrap()).collect();
    // The server may notice the end of a connection after the next one is there.
    wait_for("the bound of connections", count, |count| {
        *count <= of_writers + 2
    });
    assert!(held.iter().all(|snapshot| snapshot.head().lsn == 1));
}

/// A commit is visible on the server before this process has its answer. A reader that saw the
/// commit is followed by no reader that does not, although a transaction from before is idle.
#[test]
fn a_snapshot_never_shows_less_than_an_earlier_one_did() {
    let options = StoreOptions {
        only_writer: true,
        ..StoreOptions::default()
    };
    let proxy = Proxy::start(server().port);
    let mut config = server().config_at(&[proxy.port]);
    config.commit_timeout_ms = 3_000;
    let newest = format!("SELECT max(lsn) FROM {}.head", config.schema);
    let store = PostgresStore::open_with(config, options).unwrap();
    let mut writer = PartitionWriter::open(&store, P);
    // The connections for the snapshots below: making one takes longer than a transaction is used.
    let held: Vec<_> = (0..3).map(|_| store.snapshot(P).unwrap()).collect();
    drop(held);
    writer.put(&[(b"a", b"1")]);
    let before = store.snapshot(P).unwrap();
    proxy.fail_next(Fault::NoAnswer);
    let _receipt = store.submit(&writer.lease, commit(2, &[(b"b", b"2")]));
    server().wait_for_sql(&newest, |rows| rows == [["2"]]);
    let newer = store.snapshot(P).unwrap();
    assert_eq!(newer.head().lsn, 2);
    // The older transaction becomes idle, and the next reader may not get it.
    assert_eq!(before.head().lsn, 1);
    drop(before);
    assert_eq!(store.snapshot(P).unwrap().head().lsn, 2);
}

/// The store is dropped while a commit hangs: the drop ends, and the commit has an answer.
#[test]
fn a_store_that_is_closed_while_a_commit_hangs_answers_the_commit() {
    for fault in [Fault::Late, Fault::NoAnswer] {
        let (proxy, store) = store_behind_proxy(3_000);
        let mut writer = PartitionWriter::open(&store, P);
        writer.put(&[(b"a", b"1")]);
        let lease = writer.lease.clone();
        let held = (fault == Fault::Late).then(|| proxy.hold_next());
        if held.is_none() {
            proxy.fail_next(fault);
        }
        let receipt = store.submit(&lease, commit(2, &[(b"b", b"2")]));
        drop(store);
        assert!(proxy.has_failed());
        let expected = match fault {
            Fault::Late => CommitOutcome::Fenced,
            _ => CommitOutcome::Ok,
        };
        assert_eq!(receipt.wait(), expected, "{fault:?}");
    }
}
