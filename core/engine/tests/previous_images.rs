//! Previous images: the item before a change, in the change feed with all versions and deletes of
//! containers that ask for them.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::Json;

const MINUTE_MS: u64 = 60_000;

fn body(mode: &str) -> String {
    format!(
        r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},
            "defaultTtl":-1,"changeFeedPolicy":{{"retentionDuration":60}}{mode}}}"#
    )
}

fn policy(mode: u8) -> String {
    format!(
        r#","previousImageRetentionPolicy":{{"supportedFeatures":
            {{"allVersionsAndDeletes":{{"mode":{mode}}}}}}}"#
    )
}

fn change(engine: &Engine, container: &Container, operation: &WriteOperation, body: Option<&str>) {
    let options = WriteOptions {
        partition_key: Some(key(r#"["p"]"#)),
        ..WriteOptions::default()
    };
    let written = write(engine, container, operation, body, &options);
    written.result.expect("the change");
}

/// Creates the item `a`, replaces it in three ways and deletes it.
fn change_in_all_ways(engine: &Engine, container: &Container) {
    create(engine, container, r#"{"id":"a","pk":"p","n":1}"#);
    let name = || "a".to_owned();
    let replaced = Some(r#"{"id":"a","pk":"p","n":2}"#);
    change(
        engine,
        container,
        &WriteOperation::Replace(name()),
        replaced,
    );
    let upserted = Some(r#"{"id":"a","pk":"p","n":3}"#);
    change(engine, container, &WriteOperation::Upsert, upserted);
    let patch = Some(r#"{"operations":[{"op":"set","path":"/n","value":4}]}"#);
    change(engine, container, &WriteOperation::Patch(name()), patch);
    change(engine, container, &WriteOperation::Delete(name()), None);
}

/// Returns all changes of a container with one partition after an LSN.
fn changes(engine: &Engine, container: &Container, after: u64) -> Vec<Json> {
    let (mut all, mut after) = (Vec::new(), after);
    let scope = Scope::Everything;
    loop {
        let start = FeedStart::Lsn(after);
        let page = engine.all_versions_feed(container, &scope, &start, Some(2), None);
        let page = page.wait().result.expect("a page");
        after = page.continue_after;
        if page.rows.is_empty() && !page.cut {
            return all;
        }
        all.extend(page.rows.iter().map(|row| json(&text(row))));
    }
}

fn now(engine: &Engine, container: &Container) -> u64 {
    let page = engine.all_versions_feed(container, &Scope::Everything, &FeedStart::Now, None, None);
    page.wait().result.expect("a page").continue_after
}

fn operation(change: &Json) -> &str {
    let metadata = change.get("metadata").expect("metadata");
    metadata
        .get("operationType")
        .and_then(Json::as_str)
        .expect("an operation")
}

/// Returns for each change whether it has the item before, which must equal the item after the
/// change before.
#[track_caller]
fn previous_images(changes: &[Json]) -> Vec<bool> {
    let mut shown = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        let previous = change.get("previous");
        if let Some(previous) = previous {
            assert_eq!(Some(previous), changes[at - 1].get("current"));
        }
        shown.push(previous.is_some());
    }
    shown
}

#[test]
fn a_container_has_the_previous_images_that_it_asks_for() {
    for (mode, of_replaces, of_deletions) in [
        (String::new(), false, true),
        (policy(0), false, false),
        (policy(1), true, false),
        (policy(2), false, true),
        (policy(3), true, true),
    ] {
        let bench = Bench::new(Profile::Modern, 1);
        let container = bench.container(&body(&mode), 1);
        let start = now(&bench.engine, &container);
        change_in_all_ways(&bench.engine, &container);
        let changes = changes(&bench.engine, &container, start);
        assert_eq!(
            changes.iter().map(operation).collect::<Vec<_>>(),
            ["create", "replace", "replace", "replace", "delete"]
        );
        assert_eq!(
            previous_images(&changes),
            [false, of_replaces, of_replaces, of_replaces, of_deletions],
            "{mode}"
        );
        // A deletion names its item with and without the item.
        let metadata = changes[4].get("metadata").expect("metadata");
        assert_eq!(metadata.get("id").and_then(Json::as_str), Some("a"));
        assert!(metadata.get("partitionKey").is_some());
    }
}

#[test]
fn the_end_of_an_items_time_is_a_deletion() {
    for (mode, is_shown) in [(1, false), (3, true)] {
        let bench = Bench::new(Profile::Modern, 1);
        let container = bench.container(&body(&policy(mode)), 1);
        let start = now(&bench.engine, &container);
        create(&bench.engine, &container, r#"{"id":"a","pk":"p","ttl":10}"#);
        bench.world.advance_ms(MINUTE_MS);
        bench.engine.remove_expired().expect("expired");
        let changes = changes(&bench.engine, &container, start);
        assert_eq!(previous_images(&changes), [false, is_shown]);
    }
}

#[test]
fn the_policy_at_the_time_of_a_change_decides() {
    let bench = Bench::new(Profile::Modern, 1);
    let engine = &bench.engine;
    let container = bench.container(&body(""), 1);
    let start = now(engine, &container);
    change_in_all_ways(engine, &container);
    let replace = |mode: &str| {
        let replaced = engine.replace_container(&container, &object(&body(mode)), None);
        text(&replaced.result.expect("replaced").body)
    };
    let shown = replace(&policy(1));
    let kept = r#"{"supportedFeatures":{"allVersionsAndDeletes":{"mode":1}}}"#;
    assert!(
        shown.contains(&format!(r#""previousImageRetentionPolicy":{kept}"#)),
        "{shown}"
    );
    change_in_all_ways(engine, &container);
    let shown = replace("");
    assert!(!shown.contains("previousImageRetentionPolicy"), "{shown}");
    change_in_all_ways(engine, &container);
    let changes = changes(engine, &container, start);
    let without = [false, false, false, false, true];
    let with = [false, true, true, true, false];
    assert_eq!(previous_images(&changes), [without, with, without].concat());
}

#[test]
fn both_images_of_a_large_item_are_read_from_its_chunks() {
    let bench = Bench::new(Profile::Modern, 1);
    let engine = &bench.engine;
    let container = bench.container(&body(&policy(3)), 1);
    let start = now(engine, &container);
    // Rows are cut at 60 KiB; the cuts lie in the first image, between both and in the second.
    for (id, sizes) in [
        ("a", [10, 200_000]),
        ("b", [200_000, 10]),
        ("c", [61_200, 61_200]),
        ("d", [30_000, 31_000]),
    ] {
        for size in sizes {
            let pad = "x".repeat(size);
            let item = format!(r#"{{"id":"{id}","pk":"p","pad":"{pad}"}}"#);
            change(engine, &container, &WriteOperation::Upsert, Some(&item));
        }
    }
    let shown = previous_images(&changes(engine, &container, start));
    assert_eq!(shown, [false, true].repeat(4));
}
