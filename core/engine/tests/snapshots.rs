//! Snapshots: a restored snapshot equals the state that was taken, LSNs and item numbers continue
//! above their earlier values, and a crash leaves the state before or after an operation.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Feed, Profile};
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Json, Object};
use orrery_storage::testing::{Crashing, Failing, Fault};
use orrery_storage::{Direction, LocalOptions, LocalStore, MemoryStore, PartitionId, Store};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
const OTHER: &str = r#"{"id":"other","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;

fn items(engine: &Engine) -> Arc<Container> {
    engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("the container is there")
}

fn put(engine: &Engine, id: &str, n: u32) -> Outcome<Written> {
    let body = format!(r#"{{"id":"{id}","pk":"{id}","n":{n}}}"#);
    write(
        engine,
        &items(engine),
        &WriteOperation::Upsert,
        Some(&body),
        &WriteOptions::default(),
    )
}

/// Returns everything that clients can read, as text, and checks counters and index.
fn client_view(engine: &Engine) -> Vec<String> {
    let page = PageRequest::default();
    let list = |feed: Feed<'_>| -> Vec<String> {
        engine
            .list(feed, &page)
            .result
            .expect("a list")
            .rows
            .iter()
            .map(|row| text(row))
            .collect()
    };
    let mut all = list(Feed::Databases);
    for container in engine.every_container() {
        check_counters(engine, &container);
        all.extend(list(Feed::Containers(container.database())));
        all.extend(list(Feed::Scripts(&container, ScriptKind::Procedure)));
        let mut rows = rows(
            engine,
            &container,
            &Scope::Everything,
            &query("SELECT * FROM c"),
            &[100],
        )
        .expect("rows");
        rows.sort();
        all.extend(rows);
        let counted = rows_of(engine, &container, "SELECT VALUE COUNT(1) FROM c");
        let indexed = rows_of(
            engine,
            &container,
            "SELECT VALUE COUNT(1) FROM c WHERE c.n >= 0",
        );
        assert_eq!(counted, indexed);
        let (ranges, _) = engine.partition_key_ranges(&container).expect("ranges");
        for range in ranges {
            all.push(format!(
                "range {} {} {:?}",
                range.id, range.rid, range.range
            ));
            let scope = Scope::Range {
                id: range.id,
                within: None,
            };
            let changes = engine
                .change_feed(&container, &scope, &FeedStart::Beginning, None, None)
                .wait();
            all.extend(
                changes
                    .result
                    .expect("a feed")
                    .rows
                    .iter()
                    .map(|row| text(row)),
            );
        }
    }
    all.extend(list(Feed::Offers));
    all
}

fn rows_of(engine: &Engine, container: &Container, sql: &str) -> Vec<String> {
    rows(engine, container, &Scope::Everything, &query(sql), &[100]).expect("rows")
}

/// Creates a container of two partitions with six items and a procedure.
fn fill(bench: &Bench) {
    bench.container(BODY, 2);
    for id in ["a", "b", "c", "d", "e", "f"] {
        put(&bench.engine, id, 1).result.expect("it is written");
    }
    let script = object(r#"{"id":"s","body":"function () {}"}"#);
    let container = items(&bench.engine);
    bench
        .engine
        .create_script(&container, ScriptKind::Procedure, &script, false)
        .result
        .expect("it is created");
}

/// Changes everything a snapshot contains: items, containers, partitions, scripts and the indexing
/// policy.
fn change(bench: &Bench) {
    let engine = &bench.engine;
    put(engine, "a", 2).result.expect("it is written");
    put(engine, "new", 2).result.expect("it is written");
    let options = WriteOptions {
        partition_key: Some(key(r#"["b"]"#)),
        ..WriteOptions::default()
    };
    let deleted = write(
        engine,
        &items(engine),
        &WriteOperation::Delete("b".into()),
        None,
        &options,
    );
    deleted.result.expect("it is deleted");
    create_container(engine, OTHER, 1).expect("it is created");
    split(engine, false);
    engine
        .delete_script(&items(engine), ScriptKind::Procedure, Id::Name("s"), None)
        .result
        .expect("it is deleted");
    let policy = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
        "indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/n/?"}]}}"#;
    engine
        .replace_container(&items(engine), &object(policy), None)
        .result
        .expect("it is replaced");
    engine.finish_reindexing().expect("reindexing completes");
}

/// Splits the first partition. With `stepwise` the split begins only; the test runs its steps.
fn split(engine: &Engine, stepwise: bool) -> RangeChangeStatus {
    let container = items(engine);
    let range = engine.partition_key_ranges(&container).expect("ranges").0[0].id;
    let change = RangeChange::Split {
        range,
        at: SplitAt::Middle,
    };
    let begun = engine
        .begin_range_change(&container, change, stepwise)
        .expect("it begins");
    if stepwise {
        begun
    } else {
        engine
            .finish_range_change(begun.id)
            .expect("the change is known")
    }
}

fn take(engine: &Engine, name: &str) -> SnapshotInfo {
    engine
        .take_snapshot(name, &Object::new())
        .expect("it is taken")
}

#[test]
fn a_restored_snapshot_equals_the_state_that_was_taken() {
    let bench = Bench::new(Profile::Modern, 1);
    fill(&bench);
    let before = client_view(&bench.engine);
    let taken = take(&bench.engine, "base");
    assert_eq!((taken.containers, taken.partitions, taken.items), (1, 2, 6));
    assert_eq!(client_view(&bench.engine), before);
    for _ in 0..2 {
        change(&bench);
        assert_ne!(client_view(&bench.engine), before);
        bench
            .engine
            .restore_snapshot("base")
            .expect("it is restored");
        assert_eq!(client_view(&bench.engine), before);
        // Background tasks succeed and change nothing.
        bench
            .engine
            .destroy_deleted()
            .expect("the space is given back");
        bench
            .engine
            .finish_reindexing()
            .expect("no reindexing is left");
        assert_eq!(client_view(&bench.engine), before);
    }
    bench
        .engine
        .delete_database(&bench.engine.database(Id::Name("db")).expect("there"), None)
        .result
        .expect("deleted");
    bench
        .engine
        .restore_snapshot("base")
        .expect("it is restored");
    assert_eq!(client_view(&bench.engine), before);
}

#[test]
fn lsns_and_item_numbers_continue_above_their_values_before_a_restore() {
    let bench = Bench::new(Profile::Modern, 2);
    fill(&bench);
    let at_snapshot = put(&bench.engine, "a", 1).position.expect("a position");
    take(&bench.engine, "base");
    let lost = put(&bench.engine, "lost", 1)
        .result
        .expect("it is written")
        .item
        .expect("the item");
    let later = put(&bench.engine, "a", 2).position.expect("a position");
    assert!(later.lsn > at_snapshot.lsn);
    let old = items(&bench.engine);
    bench
        .engine
        .restore_snapshot("base")
        .expect("it is restored");
    let engine = &bench.engine;
    let fresh = items(engine);
    assert_eq!(fresh.rid(), old.rid());
    // A session token from before the restore is reached at once, a newer token is not.
    let token = format!("{}:{}#{}", later.range_id, later.version, later.lsn + 100);
    engine
        .read_item(&fresh, &key(r#"["a"]"#), "a", None, Some(token.as_str()))
        .wait()
        .result
        .expect("it is read");
    let after_restore = put(engine, "a", 3).position.expect("a position");
    assert!(after_restore.lsn > later.lsn && after_restore.version > later.version);
    let ahead = format!(
        "{}:{}#{}",
        after_restore.range_id,
        after_restore.version,
        after_restore.lsn + 1
    );
    let refused = engine
        .read_item(&fresh, &key(r#"["a"]"#), "a", None, Some(ahead.as_str()))
        .wait()
        .result;
    assert_eq!(refused.expect_err("ahead").sub_status(), 1002);
    // The change feed from a position before the restore contains all changes after the restore.
    let scope = Scope::Range {
        id: later.range_id,
        within: None,
    };
    let feed = engine
        .change_feed(&fresh, &scope, &FeedStart::Lsn(later.lsn), None, None)
        .wait()
        .result
        .expect("a feed");
    assert_eq!(feed.rows.len(), 1);
    let new = put(engine, "brand-new", 1)
        .result
        .expect("it is written")
        .item
        .expect("the item");
    assert!(number_of(&json(&text(&new))) > number_of(&json(&text(&lost))));
}

#[test]
fn range_ids_removed_by_a_restore_are_not_reused() {
    let bench = Bench::new(Profile::Modern, 11);
    let engine = &bench.engine;
    fill(&bench);
    take(engine, "base");
    let first = split(engine, false);
    assert_eq!(
        (first.stage, first.new_ranges.len()),
        (RangeChangeStage::Done, 2)
    );
    engine.restore_snapshot("base").expect("it is restored");
    // A request for a removed range tells the client to read the ranges again.
    let gone = Scope::Range {
        id: first.new_ranges[0],
        within: None,
    };
    let read = engine
        .change_feed(&items(engine), &gone, &FeedStart::Beginning, None, None)
        .wait()
        .result;
    assert_eq!(read.expect_err("the range is removed").sub_status(), 1002);
    let second = split(engine, false);
    assert!(
        second
            .new_ranges
            .iter()
            .all(|id| !first.new_ranges.contains(id)),
        "{first:?} {second:?}"
    );
}

#[test]
fn a_running_split_does_not_change_restored_data() {
    let bench = Bench::new(Profile::Modern, 12);
    let engine = &bench.engine;
    fill(&bench);
    let before = client_view(engine);
    let running = split(engine, true);
    // The steps copy the rows and close the partition; a snapshot can be taken nevertheless.
    for _ in 0..2 {
        engine
            .step_range_change(running.id)
            .expect("the change is known");
    }
    take(engine, "base");
    let stale = items(engine);
    engine.restore_snapshot("base").expect("it is restored");
    assert_eq!(client_view(engine), before);
    let ended = engine
        .finish_range_change(running.id)
        .expect("the change is known");
    assert_eq!(ended.stage, RangeChangeStage::Failed);
    assert_eq!(client_view(engine), before);
    // Requests through the container from before the restore change nothing.
    let written = write(
        engine,
        &stale,
        &WriteOperation::Delete("a".into()),
        None,
        &WriteOptions {
            partition_key: Some(key(r#"["a"]"#)),
            ..WriteOptions::default()
        },
    );
    assert_eq!(
        written
            .result
            .expect_err("the container was restored")
            .status(),
        410
    );
    assert_eq!(
        engine
            .delete_container(&stale, None)
            .result
            .expect_err("it does not exist")
            .status(),
        404
    );
    assert_eq!(client_view(engine), before);
}

#[test]
fn a_snapshot_is_replaced_listed_and_deleted_and_survives_a_reset() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    take(engine, "empty");
    fill(&bench);
    take(engine, "base");
    put(engine, "g", 1).result.expect("it is written");
    let before = client_view(engine);
    take(engine, "base");
    let names: Vec<_> = engine
        .snapshots()
        .expect("a list")
        .into_iter()
        .map(|s| (s.name, s.items))
        .collect();
    assert_eq!(names, [("base".to_owned(), 7), ("empty".to_owned(), 0)]);
    engine.reset().expect("it is reset");
    assert_eq!(client_view(engine), Vec::<String>::new());
    bench.container(BODY, 1);
    engine.restore_snapshot("base").expect("it is restored");
    assert_eq!(client_view(engine), before);
    engine.restore_snapshot("empty").expect("it is restored");
    assert_eq!(client_view(engine), Vec::<String>::new());
    engine.delete_snapshot("base").expect("it is deleted");
    assert_eq!(
        engine
            .restore_snapshot("base")
            .expect_err("it does not exist")
            .status(),
        404
    );
    assert_eq!(
        engine
            .delete_snapshot("base")
            .expect_err("it does not exist")
            .status(),
        404
    );
    for name in ["", "a/b", "a b", "ä?"] {
        assert_eq!(
            engine
                .take_snapshot(name, &Object::new())
                .expect_err(name)
                .status(),
            400
        );
    }
    engine.destroy_deleted().expect("the space is given back");
}

#[test]
fn a_catalog_larger_than_one_commit_is_restored_and_deleted() {
    let store = Arc::new(MemoryStore::new());
    let bench = Bench::on(store.clone(), Profile::Modern, 13);
    let engine = &bench.engine;
    fill(&bench);
    create_container(engine, OTHER, 1).expect("it is created");
    // The scripts have 9 MB; a commit holds 8 MB.
    for container in engine.every_container() {
        for n in 0..90 {
            let body = format!(r#"{{"id":"s{n}","body":"/*{}*/"}}"#, "x".repeat(50_000));
            engine
                .create_script(&container, ScriptKind::Procedure, &object(&body), false)
                .result
                .expect("a script");
        }
    }
    take(engine, "large");
    let before = client_view(engine);
    delete_scripts(engine);
    for row_set in 1..3 {
        engine.restore_snapshot("large").expect("it is restored");
        assert_eq!(
            (client_view(engine), row_sets_in(store.as_ref())),
            (before.clone(), BTreeSet::from([row_set]))
        );
    }
    put(engine, "z", 1).result.expect("it is written");
    create_container(
        engine,
        r#"{"id":"third","partitionKey":{"paths":["/pk"]}}"#,
        1,
    )
    .expect("it is created");
    let after = client_view(engine);
    let reopened = open(
        store.clone(),
        Profile::Modern,
        Arc::new(SeededWorld::new(START_MS + 60_000, 14)),
    )
    .expect("it opens");
    assert_eq!(client_view(&reopened), after);
    reopened.reset().expect("the reset succeeds");
    assert!(client_view(&reopened).is_empty());
    reopened.delete_snapshot("large").expect("it is deleted");
    assert!(row_sets_in(store.as_ref()).is_empty());
    drop(reopened);
    let empty = open(
        store,
        Profile::Modern,
        Arc::new(SeededWorld::new(START_MS + 90_000, 15)),
    )
    .expect("it opens");
    assert!(client_view(&empty).is_empty());
}

/// Returns the numbers of the row sets of which the catalog has rows.
fn row_sets_in(store: &dyn Store) -> BTreeSet<u64> {
    let catalog = store.snapshot(PartitionId(0)).expect("the catalog");
    let rows = catalog.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward);
    let row_set_of = |key: &[u8]| match key[0] {
        0x20 | 0x22 => Some(0),
        0x25 => Some(u64::from_be_bytes(
            key[1..9].try_into().expect("eight bytes"),
        )),
        _ => None,
    };
    rows.filter_map(|row| row_set_of(&row.expect("a row").0))
        .collect()
}

/// Deletes the scripts of one container.
fn delete_scripts(engine: &Engine) {
    let container = items(engine);
    for n in 0..90 {
        let id = format!("s{n}");
        engine
            .delete_script(&container, ScriptKind::Procedure, Id::Name(&id), None)
            .result
            .expect("it is deleted");
    }
}

#[test]
fn snapshots_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let store =
        || Arc::new(LocalStore::open(directory.path(), LocalOptions::default()).expect("it opens"));
    let before = {
        let bench = Bench::on(store(), Profile::Modern, 4);
        fill(&bench);
        take(&bench.engine, "base");
        let before = client_view(&bench.engine);
        change(&bench);
        before
    };
    let after = {
        let bench = Bench::on(store(), Profile::Modern, 5);
        bench
            .engine
            .restore_snapshot("base")
            .expect("it is restored");
        assert_eq!(client_view(&bench.engine), before);
        // A new container must not get the storage ids of the snapshot.
        create_container(&bench.engine, OTHER, 2).expect("it is created");
        client_view(&bench.engine)
    };
    let bench = Bench::on(store(), Profile::Modern, 6);
    assert_eq!(client_view(&bench.engine), after);
    bench
        .engine
        .restore_snapshot("base")
        .expect("it is restored");
    assert_eq!(client_view(&bench.engine), before);
}

/// Replaces a snapshot, restores the new snapshot, and resets the engine.
fn history(engine: &Engine) -> Result<(), Error> {
    engine.take_snapshot("base", &Object::new())?;
    put(engine, "a", 3).result?;
    engine.restore_snapshot("base")?;
    engine.reset()
}

/// Returns the states that occur during [`history`].
fn states(prepare: impl Fn() -> Bench) -> Vec<Vec<String>> {
    let bench = prepare();
    let before = without_etags(client_view(&bench.engine));
    take(&bench.engine, "base");
    put(&bench.engine, "a", 3).result.expect("it is written");
    vec![
        before,
        without_etags(client_view(&bench.engine)),
        Vec::new(),
    ]
}

/// Removes the etags, which are random and differ between two runs.
fn without_etags(rows: Vec<String>) -> Vec<String> {
    rows.into_iter()
        .map(|row| {
            if let Ok(Json::Object(mut row)) = orrery_model::json::parse(row.as_bytes()) {
                row.remove("_etag");
                Json::Object(row).to_text()
            } else {
                row
            }
        })
        .collect()
}

#[test]
fn a_crash_at_any_step_leaves_the_state_before_or_after_an_operation() {
    let prepare = |store: Arc<dyn Store>| {
        let bench = Bench::on(store, Profile::Modern, 7);
        fill(&bench);
        take(&bench.engine, "base");
        bench
    };
    let states = states(|| prepare(Arc::new(MemoryStore::new())));
    let steps = {
        let store = Arc::new(Crashing::new(None));
        let bench = prepare(store.clone());
        let before = store.steps();
        history(&bench.engine).expect("nothing fails");
        before..store.steps()
    };
    assert!(steps.end > steps.start + 20, "{steps:?}");
    let mut seen = [0; 3];
    for step in steps {
        let store = Arc::new(Crashing::new(Some(step)));
        {
            let bench = prepare(store.clone());
            // The result is not checked here: the state is compared after the crash.
            let _ = history(&bench.engine);
            assert!(store.has_crashed(), "step {step}");
        }
        let reopened = Arc::new(store.reopen(None));
        let engine = open(
            reopened,
            Profile::Modern,
            Arc::new(SeededWorld::new(START_MS + 60_000, 8)),
        )
        .expect("it opens");
        let found = without_etags(client_view(&engine));
        let state = states.iter().position(|state| *state == found);
        let state =
            state.unwrap_or_else(|| panic!("step {step}: neither before nor after: {found:#?}"));
        seen[state] += 1;
        engine
            .destroy_deleted()
            .expect("unused store partitions are destroyed");
        assert_eq!(without_etags(client_view(&engine)), found);
        // The old or the new snapshot exists; both hold the same state.
        engine.restore_snapshot("base").expect("it is restored");
        assert_eq!(
            without_etags(client_view(&engine)),
            states[0],
            "step {step}"
        );
        put(&engine, "z", 1).result.expect("it can be written");
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn the_store_stays_usable_after_a_failure_at_any_step() {
    for fault in [Fault::Refused, Fault::Busy, Fault::Lost, Fault::Applied] {
        for writes in 0.. {
            let store = Arc::new(Failing::after(u64::MAX, fault, MemoryStore::new()));
            let bench = Bench::on(store.clone(), Profile::Modern, 9);
            fill(&bench);
            take(&bench.engine, "base");
            let before = without_etags(client_view(&bench.engine));
            store.fail_after(writes);
            let result = history(&bench.engine);
            let failed = store.is_broken();
            store.repair();
            if result.is_ok() && !failed {
                break;
            }
            // The engine is opened again after a failure of its store.
            let world = Arc::new(SeededWorld::new(START_MS + 60_000, 10));
            let engine = open(store, Profile::Modern, world).expect("it opens");
            engine
                .destroy_deleted()
                .expect("unused store partitions are destroyed");
            engine.restore_snapshot("base").expect("it is restored");
            assert_eq!(
                without_etags(client_view(&engine)),
                before,
                "{fault:?} after {writes}"
            );
            put(&engine, "z", 1).result.expect("it can be written");
        }
    }
}
