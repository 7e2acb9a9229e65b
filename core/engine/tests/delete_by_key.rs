//! Deletion of all items of a logical partition: clients do not see the items after the answer,
//! even while their rows are still stored, and the removal of the rows completes after a crash.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::Kind;
use orrery_model::world::SeededWorld;
use orrery_storage::testing::Crashing;
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
/// Number of items of the deleted partition, more than one commit removes.
const ITEMS: u32 = 450;

fn fill(engine: &Engine, container: &Container, pk: &str, count: u32) {
    let item = |n: u32| {
        format!(
            r#"{{"id":"i{n}","pk":"{pk}","n":{n},"even":{}}}"#,
            n.is_multiple_of(2)
        )
        .into_bytes()
    };
    let create = |n: u32| {
        let written = engine.write_item(
            container,
            &WriteOperation::Create,
            Some(&item(n)),
            &WriteOptions::default(),
        );
        assert!(!written.is_refused());
        written
    };
    let pending: Vec<_> = (0..count).map(create).collect();
    for write in pending {
        write.wait().result.expect("it is written");
    }
}

fn delete_by_key(engine: &Engine, container: &Container, pk: &str) -> Outcome<()> {
    engine
        .delete_logical_partition(container, &key(pk), AdmissionOptions::default())
        .wait()
}

/// Queries that an index could answer alone, with their rows once three items of `b` and one item
/// of `a` are left.
const QUERIES: [(&str, &[&str]); 8] = [
    ("SELECT VALUE COUNT(1) FROM c", &["4"]),
    ("SELECT VALUE COUNT(1) FROM c WHERE c.n < 100", &["3"]),
    ("SELECT VALUE MAX(c.n) FROM c", &["900"]),
    ("SELECT VALUE MIN(c.n) FROM c WHERE c.n > 1", &["2"]),
    ("SELECT VALUE SUM(c.n) FROM c", &["903"]),
    ("SELECT DISTINCT VALUE c.even FROM c", &["false", "true"]),
    (
        "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
        &["900", "2", "1", "0"],
    ),
    ("SELECT VALUE c.n FROM c WHERE c.pk = 'a'", &["900"]),
];

/// Checks queries, the change feed and a point read while rows of deleted items are stored.
fn check(engine: &Engine, container: &Container) {
    for (text, expected) in QUERIES {
        for size in [1, 100] {
            let mut found =
                rows(engine, container, &Scope::Everything, &query(text), &[size]).expect(text);
            if !text.contains("ORDER BY") {
                found.sort();
            }
            assert_eq!(found, expected, "{text}");
        }
    }
    let scope = Scope::Range {
        id: 0,
        within: None,
    };
    let feed = engine
        .change_feed(container, &scope, &FeedStart::Beginning, None, None)
        .wait()
        .result
        .expect("changes");
    assert_eq!(feed.rows.len(), 4);
    assert_eq!(
        read(engine, container, r#"["a"]"#, "i7")
            .expect_err("it is deleted")
            .kind(),
        Kind::NotFound
    );
}

#[test]
fn a_deleted_logical_partition_is_invisible_at_once_and_its_rows_are_removed_in_steps() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(BODY, 1);
    fill(engine, &container, "a", ITEMS);
    fill(engine, &container, "b", 3);
    let session = engine
        .read_item(&container, &key(r#"["a"]"#), "i1", None, None)
        .wait()
        .position
        .expect("a position");
    let deleted = delete_by_key(engine, &container, r#"["a"]"#);
    deleted.result.expect("all is deleted");
    assert!(deleted.position.expect("a position").lsn > session.lsn);
    assert_eq!(
        deleted.charge.to_string(),
        "4.95",
        "the charge is that of one small row for any number of items"
    );
    // The ids of deleted items can be used again, and new items are not removed.
    create(
        engine,
        &container,
        r#"{"id":"i1","pk":"a","n":900,"even":true}"#,
    );
    check(engine, &container);
    let mut commits = 0;
    while engine
        .remove_some_deleted_by_key()
        .expect("rows are removed")
    {
        commits += 1;
        check(engine, &container);
        assert!(commits < 20, "the removal does not end");
    }
    assert!(
        commits > 2,
        "{ITEMS} items were removed in {commits} commits"
    );
    let (_, usage) = engine.quota(&container);
    assert!(usage.contains("documentsCount=4;"), "{usage}");
}

#[test]
fn a_second_delete_removes_items_written_after_the_first() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(BODY, 2);
    fill(engine, &container, "a", ITEMS);
    delete_by_key(engine, &container, r#"["a"]"#)
        .result
        .expect("all is deleted");
    engine
        .remove_some_deleted_by_key()
        .expect("rows are removed");
    fill(engine, &container, "a", 5);
    delete_by_key(engine, &container, r#"["a"]"#)
        .result
        .expect("all is deleted");
    let ids = || {
        rows(
            engine,
            &container,
            &Scope::Everything,
            &query("SELECT VALUE c.id FROM c"),
            &[100],
        )
    };
    assert!(ids().expect("rows").is_empty());
    fill(engine, &container, "a", 2);
    engine.finish_deletes_by_key().expect("rows are removed");
    assert_eq!(ids().expect("rows").len(), 2);
    let (_, usage) = engine.quota(&container);
    assert!(usage.contains("documentsCount=2;"), "{usage}");
}

#[test]
fn a_prefix_of_a_hierarchical_key_is_refused_and_a_full_key_is_accepted() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let body =
        r#"{"id":"items","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}}"#;
    let container = bench.container(body, 1);
    create(engine, &container, r#"{"id":"a","t":"1","u":"1"}"#);
    create(engine, &container, r#"{"id":"b","t":"1","u":"2"}"#);
    let refused = delete_by_key(engine, &container, r#"["1"]"#)
        .result
        .expect_err("a prefix");
    assert_eq!(refused.kind(), Kind::PartitionKeyMismatch);
    delete_by_key(engine, &container, r#"["1","1"]"#)
        .result
        .expect("all is deleted");
    let left = rows(
        engine,
        &container,
        &Scope::Everything,
        &query("SELECT VALUE c.id FROM c"),
        &[100],
    );
    assert_eq!(left.expect("rows"), ["\"b\""]);
}

#[test]
fn a_crash_at_any_step_neither_loses_a_delete_nor_deletes_other_items() {
    let world = || Arc::new(SeededWorld::new(START_MS, 5));
    let prepare = |store: Arc<Crashing>| {
        let engine = open(store, Profile::Modern, world()).expect("an engine");
        let container = create_container(&engine, BODY, 1).expect("the container");
        fill(&engine, &container, "a", ITEMS);
        fill(&engine, &container, "b", 3);
    };
    for step in 0..8 {
        let stable_store = Arc::new(Crashing::new(None));
        prepare(stable_store.clone());
        let store = Arc::new(stable_store.reopen(Some(step)));
        let mut acknowledged = false;
        if let Ok(engine) = open(store.clone(), Profile::Modern, world())
            && let Ok(container) = engine.container(Id::Name("db"), Id::Name("items"))
        {
            acknowledged = delete_by_key(&engine, &container, r#"["a"]"#)
                .result
                .is_ok();
            let removed = acknowledged.then(|| engine.finish_deletes_by_key());
            assert!(
                step > 4 || removed.is_none_or(|r| r.is_err()),
                "no crash occurred at step {step}"
            );
        }
        let engine =
            open(Arc::new(store.reopen(None)), Profile::Modern, world()).expect("an engine");
        let container = engine
            .container(Id::Name("db"), Id::Name("items"))
            .expect("the container");
        let count = |pk: &str| {
            let text = format!("SELECT VALUE COUNT(1) FROM c WHERE c.pk = '{pk}'");
            rows(
                &engine,
                &container,
                &Scope::Everything,
                &query(&text),
                &[10],
            )
            .expect("a count")
            .concat()
        };
        assert!(
            !acknowledged || count("a") == "0",
            "step {step}: deleted items are visible"
        );
        delete_by_key(&engine, &container, r#"["a"]"#)
            .result
            .expect("all is deleted");
        engine.finish_deletes_by_key().expect("rows are removed");
        assert_eq!(
            (count("a"), count("b")),
            ("0".into(), "3".into()),
            "step {step}"
        );
        let (_, usage) = engine.quota(&container);
        assert!(usage.contains("documentsCount=3;"), "{usage}");
    }
}
