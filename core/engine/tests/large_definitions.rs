//! Definitions that are larger than a value of the store: containers with many paths, and long
//! scripts.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::{Json, Object};
use orrery_storage::{Direction, Limits, MemoryStore, PartitionId, Store};
use std::ops::Bound;
use std::sync::Arc;

/// The paths that a policy of the service may have.
const PATHS: usize = 1_500;

/// Returns the definition of a container that excludes `count` paths of a name.
fn definition(name: &str, count: usize) -> String {
    let path = |n: usize| format!(r#"{{"path":"/{name}_a_rather_long_name_{n:04}/*"}}"#);
    let paths: Vec<String> = (0..count).map(path).collect();
    format!(
        r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},
            "indexingPolicy":{{"includedPaths":[{{"path":"/*"}}],"excludedPaths":[{}]}}}}"#,
        paths.join(",")
    )
}

/// Returns the body of a procedure of about `bytes` bytes that answers with a number.
fn procedure(bytes: usize, answer: u32) -> Object {
    let source = format!(
        "function () {{ /* {} */ getContext().getResponse().setBody({answer}); }}",
        "x".repeat(bytes)
    );
    object(&format!(r#"{{"id":"long","body":{}}}"#, Json::from(source)))
}

fn items(engine: &Engine) -> Arc<Container> {
    let found = engine.container(Id::Name("db"), Id::Name("items"));
    found.expect("the container")
}

/// Returns the number of excluded paths that a read shows, without that of `_etag`.
#[track_caller]
fn excluded_paths(engine: &Engine) -> usize {
    let shown = engine
        .read_container(&items(engine))
        .result
        .expect("a read")
        .body;
    let shown = json(&text(&shown));
    let paths = shown
        .get("indexingPolicy")
        .and_then(|policy| policy.get("excludedPaths"));
    paths.and_then(Json::as_array).expect("paths").len() - 1
}

#[track_caller]
fn answer(engine: &Engine) -> String {
    let options = ExecuteOptions::default();
    let ran = engine.execute(
        &items(engine),
        Id::Name("long"),
        &key(r#"["p"]"#),
        b"[]",
        options,
    );
    ran.wait().result.expect("it runs").body
}

/// Returns the number of rows of the catalog that hold records, and checks their size.
fn record_rows(store: &dyn Store) -> usize {
    let catalog = store.snapshot(PartitionId(0)).expect("the catalog");
    let rows = catalog.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward);
    let mut count = 0;
    for row in rows {
        let (key, value) = row.expect("a row");
        assert!(value.len() <= Limits::ENVELOPE.value_bytes);
        count += usize::from(key[0] == 0x20);
    }
    count
}

#[test]
fn a_container_with_all_the_paths_of_the_service_is_created_replaced_and_read_back() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let bench = Bench::on(Arc::clone(&store), Profile::Modern, 3);
    let engine = &bench.engine;
    bench.container(&definition("first", PATHS), 1);
    let large = record_rows(store.as_ref());
    create(engine, &items(engine), r#"{"id":"a","pk":"p","n":1}"#);
    for name in ["second", "third"] {
        let body = object(&definition(name, PATHS - 1));
        let replaced = engine.replace_container(&items(engine), &body, None);
        replaced.result.expect("the policy is replaced");
        assert_eq!(excluded_paths(engine), PATHS - 1);
    }
    drop(bench);

    // The definition is read back after a restart, with the policies that items still follow.
    let bench = Bench::on(Arc::clone(&store), Profile::Modern, 4);
    let engine = &bench.engine;
    assert_eq!(excluded_paths(engine), PATHS - 1);
    while engine.reindex_some(100).expect("a step") {}
    check_counters(engine, &items(engine));

    // A short definition leaves no rows of the long one behind.
    let body = object(&definition("fourth", 1));
    let replaced = engine.replace_container(&items(engine), &body, None);
    replaced.result.expect("the policy is replaced");
    while engine.reindex_some(100).expect("a step") {}
    let small = record_rows(store.as_ref());
    assert!(small < large, "{small} rows of {large}");
    drop(bench);
    let bench = Bench::on(Arc::clone(&store), Profile::Modern, 5);
    assert_eq!(excluded_paths(&bench.engine), 1);
    let deleted = bench.engine.delete_container(&items(&bench.engine), None);
    deleted.result.expect("it is deleted");
    let database = 1;
    assert_eq!(record_rows(store.as_ref()), database);
}

#[test]
fn a_script_of_a_megabyte_is_created_replaced_executed_and_deleted() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let bench = Bench::on(Arc::clone(&store), Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(&definition("a", 1), 1);
    let without_scripts = record_rows(store.as_ref());
    let kind = ScriptKind::Procedure;
    let created = engine.create_script(&container, kind, &procedure(64 << 10, 1), false);
    created.result.expect("it is created");
    assert_eq!(answer(engine), "1");
    let body = procedure(1 << 20, 2);
    let replaced = engine.replace_script(&container, kind, Id::Name("long"), &body, None);
    replaced.result.expect("it is replaced");
    assert_eq!(answer(engine), "2");
    drop((container, bench));

    let bench = Bench::on(Arc::clone(&store), Profile::Modern, 4);
    let engine = &bench.engine;
    assert_eq!(answer(engine), "2");
    let deleted = engine.delete_script(&items(engine), kind, Id::Name("long"), None);
    deleted.result.expect("it is deleted");
    assert_eq!(record_rows(store.as_ref()), without_scripts);
}

#[test]
fn a_snapshot_keeps_and_restores_large_definitions() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let bench = Bench::on(Arc::clone(&store), Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(&definition("first", PATHS), 1);
    let kind = ScriptKind::Procedure;
    let created = engine.create_script(&container, kind, &procedure(300_000, 1), false);
    created.result.expect("it is created");
    engine
        .take_snapshot("base", &Object::new())
        .expect("it is taken");
    let body = object(&definition("second", 1));
    let replaced = engine.replace_container(&container, &body, None);
    replaced.result.expect("it is replaced");
    let body = procedure(100_000, 2);
    let replaced = engine.replace_script(&container, kind, Id::Name("long"), &body, None);
    replaced.result.expect("it is replaced");

    engine.restore_snapshot("base").expect("it is restored");
    assert_eq!(
        (excluded_paths(engine), answer(engine)),
        (PATHS, "1".to_owned())
    );
    drop((container, bench));
    let bench = Bench::on(store, Profile::Modern, 4);
    let engine = &bench.engine;
    assert_eq!(
        (excluded_paths(engine), answer(engine)),
        (PATHS, "1".to_owned())
    );
    // A change of the restored records finds their rows in the current row set.
    let body = procedure(10, 3);
    let replaced = engine.replace_script(&items(engine), kind, Id::Name("long"), &body, None);
    replaced.result.expect("it is replaced");
    assert_eq!(answer(engine), "3");
}
