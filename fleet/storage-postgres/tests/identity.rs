//! The identity of clusters: a store uses the cluster that it expects, and no other one.

use crate::servers::{Server, open, server};
use crate::stores::{P, PartitionWriter, everything, pairs};
use orrery_storage::{CommitOutcome, Store};
use orrery_storage_postgres::{
    ClusterConfig, ClusterId, Expected, Found, Identity, Member, Membership, PostgresStore,
    StoreOptions,
};
use orrery_test_wait::wait_for;

const OTHER: ClusterId = ClusterId([7; 16]);

fn open_as(config: &ClusterConfig, expected: Expected) -> Result<PostgresStore, String> {
    let options = StoreOptions {
        expected,
        ..StoreOptions::default()
    };
    PostgresStore::open_with(config.clone(), options).map_err(|error| error.to_string())
}

/// Opens the cluster as the first one of a fleet, and returns its id.
fn first(config: &ClusterConfig) -> ClusterId {
    let store = open_as(config, Expected::First { may_create: true });
    store.unwrap().id().unwrap()
}

fn refusal(config: &ClusterConfig, expected: Expected) -> String {
    open_as(config, expected).err().expect("it is refused")
}

/// Returns the membership in a fleet that knows nothing of the cluster.
fn new_in(fleet: ClusterId) -> Membership {
    Membership {
        fleet,
        known: None,
        partitions: 0,
        may_join: true,
    }
}

fn named(name: &str) -> ClusterConfig {
    let mut config = server().config();
    name.clone_into(&mut config.name);
    config
}

fn identity(config: &ClusterConfig) -> Option<Identity> {
    match PostgresStore::look(config.clone()).unwrap() {
        Found::Nothing => panic!("there are no tables"),
        Found::Tables { identity, .. } => identity,
    }
}

/// Returns everything that the tables hold, as text.
fn contents(config: &ClusterConfig) -> Vec<Vec<String>> {
    let schema = &config.schema;
    server().sql(&format!(
        "SELECT 'identity', t::text FROM {schema}.identity t UNION ALL \
         SELECT 'head', t::text FROM {schema}.head t UNION ALL \
         SELECT 'kv', t::text FROM {schema}.kv t ORDER BY 1, 2"
    ))
}

#[test]
fn tables_get_an_id_which_stays_and_older_tables_get_one_too() {
    let config = server().config();
    let id = open(&config).id().unwrap();
    assert_eq!(open(&config).id(), Some(id));
    assert_ne!(open(&server().config()).id(), Some(id));
    assert_eq!(identity(&config), Some(Identity { id, member: None }));

    let schema = &config.schema;
    server().sql(&format!("DROP TABLE {schema}.identity"));
    assert_eq!(identity(&config), None);
    let later = open(&config).id().unwrap();
    assert_ne!(later, id);
    assert_eq!(open(&config).id(), Some(later));
    let format = server().sql(&format!("SELECT version FROM {schema}.format"));
    assert_eq!(format, [["2"]]);
}

#[test]
fn a_store_creates_no_tables_a_second_time_and_serves_those_that_are_restored() {
    let server = Server::start(&["-c", "fsync=off"]);
    let config = server.config();
    let schema = &config.schema;
    let store = open(&config);
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    server.sql(&format!("ALTER SCHEMA {schema} RENAME TO away"));
    let failure = || {
        let lease = store.open(P);
        assert!(lease.is_err(), "a partition without tables was opened");
        store.write_failure()
    };
    let gone = format!("the tables in the schema '{schema}' are gone: restore the cluster 'test'");
    wait_for("the failure", failure, |failure| {
        failure.as_ref().is_some_and(|text| text.contains(&gone))
    });
    assert!(store.snapshot(P).is_err());
    let found = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'");
    assert_eq!(server.sql(&found), [["0"]]);

    server.sql(&format!("ALTER SCHEMA away RENAME TO {schema}"));
    wait_for("the tables", || store.open(P).is_ok(), |is_open| *is_open);
    assert_eq!(everything(&store, P), pairs(&[(b"a", b"1")]));
}

#[test]
fn a_store_does_not_go_on_in_another_cluster_at_the_same_place() {
    let server = Server::start(&["-c", "fsync=off"]);
    let config = server.config();
    let schema = &config.schema;
    let store = open(&config);
    PartitionWriter::open(&store, P).put(&[(b"a", b"1")]);
    server.sql(&format!("ALTER SCHEMA {schema} RENAME TO away"));
    let other = open(&config).id().unwrap();
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE application_name = 'orrery'",
    );
    let failure = || {
        assert!(store.open(P).is_err(), "a partition of another cluster");
        store.write_failure()
    };
    let expected = format!("the schema '{schema}' is the cluster with the id {other}");
    wait_for("the failure", failure, |failure| {
        failure
            .as_ref()
            .is_some_and(|text| text.contains(&expected))
    });
    let heads = server.sql(&format!("SELECT count(*) FROM {schema}.head"));
    assert_eq!(heads, [["0"]]);
}

#[test]
fn a_new_cluster_joins_a_fleet_and_is_refused_by_every_other_one() {
    let (one, two) = (named("first"), named("second"));
    let fleet = first(&one);
    let member = |fleet| Expected::Member(new_in(fleet));
    let id = open_as(&two, member(fleet)).unwrap().id().unwrap();
    let joined = Member {
        fleet,
        name: "second".to_owned(),
    };
    let found = identity(&two);
    assert_eq!(
        found,
        Some(Identity {
            id,
            member: Some(joined)
        })
    );
    assert_eq!(open_as(&two, member(fleet)).unwrap().id(), Some(id));
    PartitionWriter::open(&open(&two), P).put(&[(b"a", b"1")]);

    let before = (contents(&one), contents(&two));
    let renamed = ClusterConfig {
        name: "third".to_owned(),
        ..two.clone()
    };
    let known = Membership {
        known: Some(OTHER),
        ..new_in(fleet)
    };
    let only_first = Expected::First { may_create: true };
    for (config, expected, part) in [
        (&two, member(OTHER), "'second' of another fleet"),
        (&two, only_first, "is the cluster 'second' of the fleet"),
        (
            &one,
            member(OTHER),
            "the first cluster 'first' of another fleet",
        ),
        (&one, member(fleet), "the first one of this fleet"),
        (
            &renamed,
            member(fleet),
            "is the cluster 'second' of this fleet",
        ),
        (
            &two,
            Expected::Member(known),
            "of this fleet has the id 0707",
        ),
        (&two, Expected::Id(OTHER), "of this fleet has the id 0707"),
    ] {
        let refused = refusal(config, expected);
        assert!(refused.contains(part), "{refused}");
        assert!(refused.contains(&config.schema), "{refused}");
    }
    assert_eq!(
        (contents(&one), contents(&two)),
        before,
        "nothing was written"
    );
}

#[test]
fn tables_are_created_for_a_cluster_of_which_a_fleet_knows_nothing() {
    let fleet = first(&named("first"));
    let two = named("second");
    let new = new_in(fleet);
    let with_partitions = Membership {
        partitions: 2,
        ..new
    };
    let known = Membership {
        known: Some(OTHER),
        ..new
    };
    let waiting = Membership {
        may_join: false,
        ..new
    };
    let only_first = Expected::First { may_create: false };
    for (expected, part) in [
        (
            Expected::Member(with_partitions),
            "the fleet has 2 partitions there: restore",
        ),
        (Expected::Member(known), "there were before: restore"),
        (Expected::Member(waiting), "the leaseholder creates them"),
        (Expected::Id(OTHER), "are gone: restore"),
        (only_first, "are gone: restore"),
    ] {
        let refused = refusal(&two, expected);
        assert!(refused.contains(part), "{refused}");
    }
    let looked = PostgresStore::look(two.clone()).unwrap();
    assert_eq!(looked, Found::Nothing);
    assert!(open_as(&two, Expected::Member(new)).is_ok());
}

#[test]
fn a_cluster_without_rows_is_freed_by_the_statement_of_the_message() {
    let (one, other) = (first(&named("first")), first(&named("first")));
    let two = named("second");
    let store = open_as(&two, Expected::Member(new_in(one))).unwrap();
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    let expected = Expected::Member(new_in(other));
    let refused = refusal(&two, expected);
    let (_, statement) = refused.split_once("free it with: ").unwrap();
    // With rows the statement does nothing.
    server().sql(statement);
    assert_eq!(refusal(&two, expected), refused);
    store.destroy(P).unwrap();
    server().sql(statement);
    let joined = open_as(&two, expected).unwrap();
    let outcome = PartitionWriter::open(&joined, P).commit(crate::stores::commit(1, &[]));
    assert_eq!(outcome, CommitOutcome::Ok);
}

#[test]
fn clusters_of_older_programs_are_told_apart_by_their_contents() {
    let fleet = first(&named("first"));
    let two = named("second");
    PartitionWriter::open(&open(&two), P).put(&[(b"a", b"1")]);
    server().sql(&format!("DROP TABLE {}.identity", two.schema));
    let new = new_in(fleet);
    let only_first = Expected::First { may_create: true };
    for (expected, part) in [
        (only_first, "it is not the first cluster of a fleet"),
        (
            Expected::Member(new),
            "has data, and no partition of this fleet is there",
        ),
    ] {
        let refused = refusal(&two, expected);
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(identity(&two), None);
    let with_partitions = Membership {
        partitions: 1,
        ..new
    };
    let joined = open_as(&two, Expected::Member(with_partitions)).unwrap();
    assert_eq!(everything(&joined, P), pairs(&[(b"a", b"1")]));
}
