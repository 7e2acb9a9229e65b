//! Queries see the same items at every step of a change between policies that index automatically,
//! policies that do not, and no index at all.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_storage::{MemoryStore, Store};
use std::sync::Arc;

fn body(policy: &str) -> String {
    format!(r#"{{"id":"items","partitionKey":{{"paths":["/pk"]}},"indexingPolicy":{{{policy}}}}}"#)
}

fn create_with(engine: &Engine, container: &Container, id: &str, indexing: IndexingDirective) {
    let item = format!(r#"{{"id":"{id}","pk":"p","n":1,"s":"x"}}"#);
    let options = WriteOptions {
        indexing,
        ..WriteOptions::default()
    };
    let created = write(
        engine,
        container,
        &WriteOperation::Create,
        Some(&item),
        &options,
    );
    created.result.expect("created");
}

/// Checks the items that queries see through indexes, by a scan, and as counts, groups and values.
#[track_caller]
fn check_seen(engine: &Engine, container: &Container, ids: &[&str]) {
    let of_query = |text: &str| {
        let rows = rows(engine, container, &Scope::Everything, &query(text), &[100]);
        rows.unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    let mut expected = Vec::new();
    for id in ids {
        expected.push(format!("{id:?}"));
    }
    for text in [
        "SELECT VALUE c.id FROM c WHERE c.n = 1",
        "SELECT VALUE c.id FROM c WHERE c.n > 0",
        "SELECT VALUE c.id FROM c WHERE c.n = 1 AND c.s = 'x'",
        "SELECT VALUE c.id FROM c WHERE ABS(c.n) = 1",
        "SELECT VALUE c.id FROM c",
    ] {
        let mut seen = of_query(text);
        seen.sort();
        assert_eq!(seen, expected, "{text}");
    }
    for text in [
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT VALUE COUNT(1) FROM c WHERE c.n = 1",
        "SELECT VALUE SUM(c.n) FROM c",
    ] {
        assert_eq!(of_query(text), [ids.len().to_string()], "{text}");
    }
    check_groups(&of_query, ids.len());
}

/// Checks groups and distinct values, of a path that all items have and of one that none has.
#[track_caller]
fn check_groups(of_query: &impl Fn(&str) -> Vec<String>, seen: usize) {
    for (text, row) in [
        (
            "SELECT c.n, COUNT(1) AS seen FROM c GROUP BY c.n",
            format!(r#"{{"n":1,"seen":{seen}}}"#),
        ),
        (
            "SELECT c.z, COUNT(1) AS seen FROM c GROUP BY c.z",
            format!(r#"{{"seen":{seen}}}"#),
        ),
        ("SELECT DISTINCT VALUE c.n FROM c", "1".to_owned()),
    ] {
        assert_eq!(of_query(text), [row], "{text}");
    }
}

#[test]
fn queries_see_the_same_items_at_every_step_of_a_change_of_the_policy() {
    const AUTOMATIC: &str = r#""indexingMode":"consistent""#;
    const MANUAL: &str = r#""indexingMode":"consistent","automatic":false"#;
    const NONE: &str = r#""indexingMode":"none""#;
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(&body(MANUAL), 1);
    create_with(engine, &container, "a", IndexingDirective::Include);
    create_with(engine, &container, "b", IndexingDirective::Exclude);
    create_with(engine, &container, "c", IndexingDirective::Default);
    create_with(engine, &container, "d", IndexingDirective::Include);
    check_seen(engine, &container, &["a", "d"]);
    for (policy, seen) in [
        (AUTOMATIC, &["a", "b", "c", "d"][..]),
        (MANUAL, &["a", "d"]),
        (NONE, &["a", "b", "c", "d"]),
        (MANUAL, &["a", "d"]),
        (AUTOMATIC, &["a", "b", "c", "d"]),
        (NONE, &["a", "b", "c", "d"]),
        (AUTOMATIC, &["a", "b", "c", "d"]),
    ] {
        let replaced = engine.replace_container(&container, &object(&body(policy)), None);
        replaced.result.expect("replaced");
        check_seen(engine, &container, seen);
        while engine.reindex_some(1).expect("a step") {
            check_seen(engine, &container, seen);
        }
        check_seen(engine, &container, seen);
        check_counters(engine, &container);
    }
}

/// Returns the record of the container as an earlier version of the program had it under an
/// automatic policy. In the container, whose policy is not automatic, that version had the same
/// index entries: none for items with the directive Exclude.
fn record_of_earlier_version(text: &str) -> Option<String> {
    let text = text
        .contains(r#""automatic":false"#)
        .then(|| text.replace(r#""automatic":false"#, r#""automatic":true"#))?;
    let old = text.replace(r#","excludedSince":0"#, "");
    assert_ne!(
        old, text,
        "the record names no generation for excluded items"
    );
    Some(old)
}

#[test]
fn items_that_an_earlier_version_left_out_are_found_at_every_step_of_the_reindex() {
    const MANUAL: &str = r#""indexingMode":"consistent","automatic":false"#;
    let store = Arc::new(MemoryStore::new());
    let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, Profile::Modern, 3);
    let container = bench.container(&body(MANUAL), 1);
    create_with(&bench.engine, &container, "a", IndexingDirective::Include);
    create_with(&bench.engine, &container, "b", IndexingDirective::Exclude);
    create_with(&bench.engine, &container, "c", IndexingDirective::Include);
    create_with(&bench.engine, &container, "d", IndexingDirective::Exclude);
    check_seen(&bench.engine, &container, &["a", "c"]);
    drop((container, bench));

    rewrite_record(&*store, record_of_earlier_version);
    let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, Profile::Modern, 4);
    let find = |engine: &Engine| engine.container(Id::Name("db"), Id::Name("items"));
    let container = find(&bench.engine).expect("a container");
    check_seen(&bench.engine, &container, &["a", "b", "c", "d"]);

    // A write to an item that has no entries yet leaves none behind.
    let delete = WriteOptions {
        partition_key: Some(key(r#"["p"]"#)),
        ..WriteOptions::default()
    };
    let operation = WriteOperation::Delete("d".to_owned());
    let deleted = write(&bench.engine, &container, &operation, None, &delete);
    deleted.result.expect("deleted");
    check_seen(&bench.engine, &container, &["a", "b", "c"]);
    while bench.engine.reindex_some(1).expect("a step") {
        check_seen(&bench.engine, &container, &["a", "b", "c"]);
        check_counters(&bench.engine, &container);
    }
    check_seen(&bench.engine, &container, &["a", "b", "c"]);
    check_counters(&bench.engine, &container);
    assert_eq!(
        bench.engine.index_progress(&container).expect("progress"),
        100
    );

    // The record is that of this version now: no reindex follows the next start.
    drop((container, bench));
    let bench = Bench::on(store, Profile::Modern, 5);
    let container = find(&bench.engine).expect("a container");
    assert_eq!(
        bench.engine.index_progress(&container).expect("progress"),
        100
    );
    check_seen(&bench.engine, &container, &["a", "b", "c"]);
}
