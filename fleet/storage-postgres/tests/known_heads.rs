//! A process that takes a partition over notices lost commits of the process before, because it was
//! told of the head.

use crate::servers::server;
use crate::stores::{P, PartitionWriter};
use orrery_storage::{Commit, CommitOutcome, Store};
use orrery_storage_postgres::{ClusterConfig, PostgresStore, StoreOptions};

const TABLES: [&str; 3] = ["head", "history", "kv"];

fn owner(config: &ClusterConfig) -> PostgresStore {
    let options = StoreOptions {
        owns_opened: true,
        ..StoreOptions::default()
    };
    PostgresStore::open_with(config.clone(), options).unwrap()
}

/// Keeps a copy of the tables on the server.
fn save(config: &ClusterConfig) {
    let schema = &config.schema;
    for table in TABLES {
        server().sql(&format!(
            "CREATE TABLE {schema}.saved_{table} AS SELECT * FROM {schema}.{table}"
        ));
    }
}

/// Makes the tables as old as the copy.
fn restore(config: &ClusterConfig) {
    let schema = &config.schema;
    for table in TABLES {
        server().sql(&format!(
            "DELETE FROM {schema}.{table}; \
             INSERT INTO {schema}.{table} SELECT * FROM {schema}.saved_{table}"
        ));
    }
}

/// Tells a process what another one knows.
fn tell(from: &PostgresStore, to: &PostgresStore) {
    let known = from.known_head(P).expect("the partition was opened");
    to.note_known_head(P, &known);
}

#[test]
fn a_loss_is_found_when_the_next_owner_opens_the_partition() {
    let config = server().config();
    let (first, next) = (owner(&config), owner(&config));
    let mut writer = PartitionWriter::open(&first, P);
    writer.put(&[(b"a", b"1")]);
    save(&config);
    writer.put(&[(b"a", b"2")]);
    restore(&config);
    tell(&first, &next);
    let mut writer = PartitionWriter::open(&next, P);
    assert_eq!(writer.commit(Commit::default()), CommitOutcome::Damaged);
    let failure = next.write_failure().expect("the loss");
    assert!(
        failure.contains("has lost acknowledged commits"),
        "{failure}"
    );
}

/// An opening that fails, because the tables are away, does not use up what was told; nor does a
/// process keep to itself what it was told.
#[test]
fn a_loss_is_found_after_an_opening_that_failed() {
    let config = server().config();
    let (first, next) = (owner(&config), owner(&config));
    let mut writer = PartitionWriter::open(&first, P);
    save(&config);
    writer.put(&[(b"a", b"1")]);
    tell(&first, &next);
    let last = owner(&config);
    tell(&next, &last);
    assert_eq!(last.known_head(P), first.known_head(P));
    server().sql(&format!(
        "ALTER TABLE {}.head RENAME TO away",
        config.schema
    ));
    assert!(next.open(P).is_err());
    server().sql(&format!(
        "ALTER TABLE {}.away RENAME TO head",
        config.schema
    ));
    restore(&config);
    let mut writer = PartitionWriter::open(&next, P);
    assert_eq!(writer.commit(Commit::default()), CommitOutcome::Damaged);
}

#[test]
fn a_loss_is_found_after_the_next_owner_has_opened_the_partition() {
    let config = server().config();
    let (first, next) = (owner(&config), owner(&config));
    let mut writer = PartitionWriter::open(&first, P);
    save(&config);
    writer.put(&[(b"a", b"1")]);
    writer.put(&[(b"a", b"2")]);
    restore(&config);
    let mut writer = PartitionWriter::open(&next, P);
    writer.put(&[(b"a", b"other")]);
    tell(&first, &next);
    assert_eq!(writer.commit(Commit::default()), CommitOutcome::Fenced);
    let mut writer = PartitionWriter::open(&next, P);
    assert_eq!(writer.commit(Commit::default()), CommitOutcome::Damaged);
}

#[test]
fn owners_that_tell_each_other_go_on() {
    let config = server().config();
    let owners = [owner(&config), owner(&config)];
    assert_eq!(owners[0].known_head(P), None);
    for round in 0..6 {
        let (own, other) = (&owners[round % 2], &owners[(round + 1) % 2]);
        let mut writer = PartitionWriter::open(own, P);
        for _ in 0..3 {
            // What the other process knows is older, whenever it is told.
            if round > 0 {
                tell(other, own);
            }
            writer.put(&[(b"a", &[round as u8])]);
            assert_eq!(
                own.known_head(P).map(|known| known.head.lsn),
                Some(writer.lsn)
            );
        }
        own.release(P).unwrap();
        tell(own, other);
    }
    assert_eq!(owners[0].write_failure(), None);
}
