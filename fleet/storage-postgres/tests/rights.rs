//! A role that may read and not write: its cluster has the reason and the remedy, and is used as
//! soon as the role gets the right.

use crate::servers::{open, server};
use crate::stores::{P, PartitionWriter, commit};
use orrery_storage::{CommitOutcome, Store};
use orrery_storage_postgres::{ClusterConfig, PostgresStore, StoreOptions};
use orrery_test_wait::wait_for;

/// Returns the description of a cluster with tables for a role of this name, which may only read.
fn readable_by(role: &str) -> ClusterConfig {
    let mut config = server().config();
    drop(open(&config));
    let schema = &config.schema;
    server().sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'correct horse'; \
         GRANT USAGE ON SCHEMA {schema} TO {role}; \
         GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"
    ));
    role.clone_into(&mut config.user);
    config
}

/// Returns the statement of the message, which must name the role, the cluster and the cause.
fn remedy(message: &str, role: &str) -> String {
    let start = format!(
        "the role '{role}' may not write in the cluster 'test': permission denied for table head \
         (SQLSTATE 42501); "
    );
    let at = message.find(&start).unwrap_or_else(|| panic!("{message}"));
    message[at + start.len()..].to_owned()
}

fn failure(store: &PostgresStore) -> String {
    wait_for(
        "the reason",
        || store.write_failure().unwrap_or_default(),
        |failure| failure.contains("may not write"),
    )
}

#[test]
fn a_cluster_that_may_not_be_written_is_opened_when_the_right_is_there() {
    let config = readable_by("weak_at_start");
    let options = StoreOptions {
        only_writer: true,
        ..StoreOptions::default()
    };
    // A partition to be fenced.
    let mut owner = config.clone();
    owner.user = "orrery".to_owned();
    PartitionWriter::open(&open(&owner), P).put(&[(b"a", b"1")]);

    let store = PostgresStore::open_or_later(config, options).unwrap();
    let grant = remedy(&failure(&store), "weak_at_start");
    let refused = store.open(P).expect_err("a refusal").to_string();
    assert_eq!(remedy(&refused, "weak_at_start"), grant);
    server().sql(&grant);
    let failure = || store.write_failure();
    wait_for("the store is open", failure, Option::is_none);
    PartitionWriter::open(&store, P).put(&[(b"b", b"2")]);
}

#[test]
fn a_right_that_is_taken_away_is_named_until_it_is_back() {
    let config = readable_by("weak_later");
    let schema = &config.schema;
    let store = open(&config);
    let refused = store.check_rights().expect_err("a refusal").to_string();
    let grant = remedy(&refused, "weak_later");
    server().sql(&grant);
    store.check_rights().unwrap();
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);

    server().sql(&format!("REVOKE UPDATE ON {schema}.head FROM weak_later"));
    let outcome = writer.commit(commit(2, &[(b"b", b"2")]));
    assert!(
        matches!(outcome, CommitOutcome::Unavailable { .. }),
        "{outcome:?}"
    );
    assert_eq!(remedy(&failure(&store), "weak_later"), grant);
    server().sql(&grant);
    let failure = || store.write_failure();
    wait_for("commits are accepted", failure, Option::is_none);
    PartitionWriter::open(&store, P).put(&[(b"b", b"2")]);
}

/// The timelines of servers, which a store without Patroni asks for.
#[test]
fn every_role_may_ask_for_the_timeline() {
    let config = readable_by("weak_reader");
    let role = &config.user;
    let asked = server().sql(&format!(
        "SET ROLE {role}; SELECT pg_walfile_name(pg_current_wal_lsn())"
    ));
    assert!(asked[0][0].starts_with("00000001"), "{asked:?}");
}
