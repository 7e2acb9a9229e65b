//! Partition keys of hash version 1 that share their first 100 characters, and with them their
//! effective partition key: each has its own items, and an id belongs to one of them at a time.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::world::{SeededWorld, World};
use orrery_model::{Json, Kind};
use orrery_storage::testing::Crashing;
use std::collections::BTreeMap;
use std::sync::Arc;

const BODY: &str =
    r#"{"id":"items","defaultTtl":-1,"partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
const VERSIONED: &str = r#"{"id":"items","changeFeedPolicy":{"retentionDuration":60},
    "partitionKey":{"paths":["/pk"],"kind":"Hash","version":1}}"#;
/// The sentence of the service.
const CONFLICT: &str = "Resource with id already exists with a conflicting hashed partition key, \
                        Please retry with a different partition key";

/// Returns one of the keys that share an EPK; the first is their common beginning.
fn long(end: &str) -> String {
    format!("{}{end}", "x".repeat(100))
}

fn header(end: &str) -> String {
    format!("[\"{}\"]", long(end))
}

fn of_key(end: &str) -> WriteOptions {
    WriteOptions {
        partition_key: Some(key(&header(end))),
        ..WriteOptions::default()
    }
}

fn item(id: &str, end: &str, n: u32) -> String {
    format!(r#"{{"id":"{id}","pk":"{}","n":{n}}}"#, long(end))
}

fn put(engine: &Engine, container: &Container, item: &str) -> Result<Written, orrery_model::Error> {
    let options = WriteOptions::default();
    write(
        engine,
        container,
        &WriteOperation::Upsert,
        Some(item),
        &options,
    )
    .result
}

/// Returns the values of `n` that a scope shows to a query, the read feed and the change feed.
#[track_caller]
fn numbers(engine: &Engine, container: &Container, scope: &Scope) -> Vec<i64> {
    let of = |rows: Vec<String>| -> Vec<i64> {
        let number = |row: &String| json(row).get("n").and_then(Json::as_i64).expect("n");
        let mut all: Vec<i64> = rows.iter().map(number).collect();
        all.sort_unstable();
        all
    };
    let queried = rows(engine, container, scope, &query("SELECT * FROM c"), &[2]);
    let queried = of(queried.expect("rows"));
    let page = PageRequest::default();
    let fed = engine.read_feed(container, scope, &page, None).result;
    let texts = |rows: &[bytes::Bytes]| rows.iter().map(|row| text(row)).collect();
    assert_eq!(of(texts(&fed.expect("a feed").rows)), queried);
    let start = FeedStart::Beginning;
    let changed = engine.change_feed(container, scope, &start, None, None);
    let changed = changed.wait().result.expect("changes");
    assert_eq!(of(texts(&changed.rows)), queried);
    queried
}

/// Checks that each key has the items of the model and no others, by every way of reading.
#[track_caller]
fn check(engine: &Engine, container: &Container, model: &BTreeMap<String, (String, u32)>) {
    for end in ["", "one", "two"] {
        let own = model.iter().filter(|(_, (key, _))| key == end);
        let own: Vec<_> = own.map(|(id, (_, n))| (id.clone(), *n)).collect();
        let mut wanted: Vec<i64> = own.iter().map(|(_, n)| i64::from(*n)).collect();
        wanted.sort_unstable();
        let scope = Scope::Key(key(&header(end)));
        assert_eq!(numbers(engine, container, &scope), wanted, "{end}");
        let text = format!("SELECT VALUE COUNT(1) FROM c WHERE c.pk = '{}'", long(end));
        for scope in [Scope::Everything, scope] {
            let counted = rows(engine, container, &scope, &query(&text), &[10]);
            assert_eq!(counted.expect("a count"), [wanted.len().to_string()]);
        }
        for id in ["a", "b", "c"] {
            let found = read(engine, container, &header(end), id);
            let is_own = own.iter().any(|(own, _)| own == id);
            assert_eq!(found.is_ok(), is_own, "{id} of {end}");
        }
    }
    assert_eq!(
        numbers(engine, container, &Scope::Everything).len(),
        model.len()
    );
    check_counters(engine, container);
}

#[test]
fn an_item_is_not_overwritten_by_one_of_another_key_with_its_hash() {
    let bench = Bench::new(Profile::Modern, 3);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    create(engine, &container, &item("a", "one", 1));
    let patch = r#"{"operations":[{"op":"set","path":"/n","value":9}]}"#;
    let replaced = item("a", "two", 2);
    for (operation, body) in [
        (WriteOperation::Create, Some(replaced.as_str())),
        (WriteOperation::Upsert, Some(replaced.as_str())),
        (WriteOperation::Replace("a".into()), Some(replaced.as_str())),
        (WriteOperation::Patch("a".into()), Some(patch)),
        (WriteOperation::Delete("a".into()), None),
    ] {
        let refused = write(engine, &container, &operation, body, &of_key("two"));
        let error = refused.result.expect_err("another key");
        match operation {
            WriteOperation::Delete(_) => assert_eq!(error.kind(), Kind::NotFound),
            _ => {
                assert_eq!(error.status(), 409, "{operation:?}");
                assert!(error.message().starts_with(CONFLICT), "{error}");
            }
        }
    }
    let model = BTreeMap::from([("a".to_owned(), ("one".to_owned(), 1))]);
    check(engine, &container, &model);
}

#[test]
fn a_key_of_the_header_or_of_a_patch_may_not_be_another_one_with_the_hash_of_the_item() {
    let bench = Bench::new(Profile::Modern, 3);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    create(engine, &container, &item("a", "one", 1));
    let moved = format!(
        r#"{{"operations":[{{"op":"set","path":"/pk","value":"{}"}}]}}"#,
        long("two")
    );
    let elsewhere = item("b", "two", 2);
    let same_id = item("a", "two", 2);
    for (operation, body) in [
        (WriteOperation::Create, &elsewhere),
        (WriteOperation::Upsert, &elsewhere),
        (WriteOperation::Replace("a".into()), &same_id),
        (WriteOperation::Patch("a".into()), &moved),
    ] {
        let refused = write(engine, &container, &operation, Some(body), &of_key("one"));
        let error = refused.result.expect_err("another key");
        assert_eq!(
            (error.status(), error.sub_status()),
            (400, 1001),
            "{operation:?}"
        );
    }
    // A replacement may not take the id of an item of another key either.
    create(engine, &container, &item("b", "two", 2));
    let renamed = item("b", "one", 3);
    let operation = WriteOperation::Replace("a".into());
    let refused = write(
        engine,
        &container,
        &operation,
        Some(&renamed),
        &of_key("one"),
    );
    let error = refused.result.expect_err("the id is taken");
    assert!(error.message().starts_with(CONFLICT), "{error}");
    let model = BTreeMap::from([
        ("a".to_owned(), ("one".to_owned(), 1)),
        ("b".to_owned(), ("two".to_owned(), 2)),
    ]);
    check(engine, &container, &model);
}

#[test]
fn an_item_that_has_expired_leaves_its_id_to_the_other_keys() {
    let bench = Bench::new(Profile::Modern, 3);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let short = format!(r#"{{"id":"a","pk":"{}","n":1,"ttl":5}}"#, long("one"));
    create(engine, &container, &short);
    put(engine, &container, &item("a", "two", 2)).expect_err("the item lives");
    bench.world.advance_ms(6_000);
    put(engine, &container, &item("a", "two", 2)).expect("the item has expired");
    engine.remove_expired().expect("expired items are removed");
    let model = BTreeMap::from([("a".to_owned(), ("two".to_owned(), 2))]);
    check(engine, &container, &model);
}

#[test]
fn deleting_a_key_leaves_the_other_keys_with_its_hash_alone() {
    let bench = Bench::new(Profile::Modern, 3);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let mut model = BTreeMap::new();
    for (id, end, n) in [("a", "one", 1), ("b", "two", 2), ("c", "", 3)] {
        create(engine, &container, &item(id, end, n));
        model.insert(id.to_owned(), (end.to_owned(), n));
    }
    let delete = |end: &str| {
        let deleted = engine.delete_logical_partition(
            &container,
            &key(&header(end)),
            AdmissionOptions::default(),
        );
        deleted.wait().result.expect("the key is deleted");
    };
    // Both deletions run at the same time.
    delete("one");
    model.remove("a");
    check(engine, &container, &model);
    delete("");
    model.remove("c");
    check(engine, &container, &model);
    // The id is free for every key, and a new item of a deleted key stays.
    put(engine, &container, &item("a", "two", 4)).expect("the id is free");
    put(engine, &container, &item("c", "one", 5)).expect("the id is free");
    model.insert("a".into(), ("two".into(), 4));
    model.insert("c".into(), ("one".into(), 5));
    check(engine, &container, &model);
    while engine.remove_some_deleted_by_key().expect("a step") {
        check(engine, &container, &model);
    }
    check(engine, &container, &model);
}

#[test]
fn a_crash_at_any_step_of_a_deletion_loses_no_item_of_another_key() {
    let world = || Arc::new(SeededWorld::new(START_MS, 5));
    let stable = Arc::new(Crashing::new(None));
    let engine = open(stable.clone(), Profile::Modern, world()).expect("an engine");
    let container = create_container(&engine, BODY, 1).expect("the container");
    for n in 0..300 {
        create(&engine, &container, &item(&format!("one{n}"), "one", n));
    }
    create(&engine, &container, &item("b", "two", 1_000));
    drop((engine, container));
    for step in 0..6 {
        let store = Arc::new(stable.reopen(Some(step)));
        if let Ok(engine) = open(store.clone(), Profile::Modern, world())
            && let Ok(container) = engine.container(Id::Name("db"), Id::Name("items"))
        {
            let of_one = key(&header("one"));
            let options = AdmissionOptions::default();
            let deleted = engine.delete_logical_partition(&container, &of_one, options);
            if deleted.wait().result.is_ok() {
                let _ = engine.finish_deletes_by_key();
            }
        }
        let store = Arc::new(store.reopen(None));
        let engine = open(store, Profile::Modern, world()).expect("an engine");
        let container = engine.container(Id::Name("db"), Id::Name("items"));
        let container = container.expect("the container");
        read(&engine, &container, &header("two"), "b").expect("the item of the other key");
        engine.finish_deletes_by_key().expect("rows are removed");
        let scope = Scope::Key(key(&header("two")));
        assert_eq!(numbers(&engine, &container, &scope), [1_000], "step {step}");
    }
}

#[test]
fn the_feed_of_all_versions_of_a_key_has_no_version_of_another_key() {
    let bench = Bench::new(Profile::Modern, 3);
    let (engine, container) = (&bench.engine, bench.container(VERSIONED, 1));
    for (id, end, n) in [("a", "one", 1), ("b", "two", 2), ("b", "two", 3)] {
        put(engine, &container, &item(id, end, n)).expect("it is written");
    }
    let delete = WriteOperation::Delete("b".into());
    let deleted = write(engine, &container, &delete, None, &of_key("two"));
    deleted.result.expect("it is deleted");
    for (end, count) in [("one", 1), ("two", 3), ("", 0)] {
        let scope = Scope::Key(key(&header(end)));
        let start = FeedStart::Lsn(1);
        let page = engine.all_versions_feed(&container, &scope, &start, None, None);
        assert_eq!(
            page.wait().result.expect("versions").rows.len(),
            count,
            "{end}"
        );
    }
}

/// Creates an item of each of two keys. Returns the model with both.
fn two_items(engine: &Engine, container: &Container) -> BTreeMap<String, (String, u32)> {
    create(engine, container, &item("a", "one", 1));
    create(engine, container, &item("b", "two", 2));
    BTreeMap::from([
        ("a".to_owned(), ("one".to_owned(), 1)),
        ("b".to_owned(), ("two".to_owned(), 2)),
    ])
}

#[test]
fn batches_and_bulk_see_the_items_of_their_key_alone() {
    let bench = Bench::new(Profile::Modern, 3);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let model = two_items(engine, &container);
    let operation = |action: WriteOperation, item: Option<String>| {
        let body = item.map(|item| Body::Text(item.into()));
        BatchOperation::new(BatchAction::Write(action), body)
    };
    let of_two = || key(&header("two"));
    let bulk = BatchMode::Each {
        range: None,
        key: Some(of_two()),
        continue_on_error: true,
    };
    for mode in [BatchMode::Atomic(of_two()), bulk] {
        for (operation, status) in [
            (
                operation(WriteOperation::Create, Some(item("a", "two", 9))),
                409,
            ),
            (
                operation(WriteOperation::Upsert, Some(item("a", "two", 9))),
                409,
            ),
            (
                operation(
                    WriteOperation::Replace("a".into()),
                    Some(item("a", "two", 9)),
                ),
                409,
            ),
            (operation(WriteOperation::Delete("a".into()), None), 404),
            // An item of another key does not belong into the batch.
            (
                operation(WriteOperation::Upsert, Some(item("c", "one", 9))),
                400,
            ),
            (
                BatchOperation::new(BatchAction::Read("a".into()), None),
                404,
            ),
        ] {
            let shown = format!("{operation:?}");
            let answer = engine
                .batch(&container, &mode, vec![operation], None)
                .wait();
            let results = answer.result.expect("a batch").results;
            let error = results[0].result.as_ref().expect_err("another key");
            assert_eq!(error.status(), status, "{shown}");
        }
    }
    check(engine, &container, &model);
}

#[test]
fn a_procedure_sees_the_items_of_its_key_alone() {
    let bench = Bench::new(Profile::Modern, 3);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let model = two_items(engine, &container);
    let source = r#"function (id, pk) {
        const coll = getContext().getCollection();
        const link = coll.getAltLink() + "/docs/" + id;
        const seen = [];
        coll.upsertDocument(coll.getSelfLink(), {id, pk, n: 9}, e => seen.push(e.number));
        coll.readDocument(link, e => seen.push(e.number));
        coll.deleteDocument(link, e => seen.push(e.number));
        coll.queryDocuments(coll.getSelfLink(), "SELECT VALUE c.n FROM c", (e, rows) => {
            seen.push(rows);
            getContext().getResponse().setBody(seen);
        });
    }"#;
    let body = format!(r#"{{"id":"proc","body":{}}}"#, Json::from(source));
    let created = engine.create_script(&container, ScriptKind::Procedure, &object(&body), false);
    created.result.expect("the procedure");
    let arguments = format!(r#"["a","{}"]"#, long("two"));
    let options = ExecuteOptions::default();
    let ran = engine.execute(
        &container,
        Id::Name("proc"),
        &key(&header("two")),
        arguments.as_bytes(),
        options,
    );
    let reply = ran.wait().result.expect("it runs");
    assert_eq!(reply.body, "[409,404,404,[2]]");
    check(engine, &container, &model);
}

#[test]
fn random_writes_of_keys_with_one_hash_agree_with_a_map() {
    for seed in 0..u64::from(setting("ORRERY_HASHED_KEYS", 8)) {
        let bench = Bench::new(Profile::Modern, seed);
        let (engine, container) = (&bench.engine, bench.container(BODY, 2));
        let below = |n: u64| usize::try_from(bench.world.random() % n).expect("small");
        let mut model: BTreeMap<String, (String, u32)> = BTreeMap::new();
        for n in 0..60 {
            let id = ["a", "b", "c"][below(3)];
            let end = ["", "one", "two"][below(3)];
            let holder = model.get(id).map(|(holder, _)| holder == end);
            let (operation, is_allowed) = match below(4) {
                0 => (WriteOperation::Create, holder.is_none()),
                1 => (WriteOperation::Upsert, holder != Some(false)),
                2 => (WriteOperation::Replace(id.into()), holder == Some(true)),
                _ => (WriteOperation::Delete(id.into()), holder == Some(true)),
            };
            let is_delete = matches!(operation, WriteOperation::Delete(_));
            let body = (!is_delete).then(|| item(id, end, n));
            let done = write(
                engine,
                &container,
                &operation,
                body.as_deref(),
                &of_key(end),
            );
            assert_eq!(
                done.result.is_ok(),
                is_allowed,
                "{operation:?} of {end} ({seed}, {n})"
            );
            match (is_allowed, is_delete) {
                (true, true) => drop(model.remove(id)),
                (true, false) => drop(model.insert(id.into(), (end.into(), n))),
                (false, _) => {}
            }
        }
        check(engine, &container, &model);
    }
}
