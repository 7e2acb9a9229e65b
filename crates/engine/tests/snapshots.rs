//! Snapshots: what comes back is what was there, what goes on goes on above what was reached, and whatever dies when,
//! things are as they were before or as they are after.

mod support;

use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Feed, Profile};
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Json, Object};
use orrery_storage::testing::{Crashing, Failing, Fault};
use orrery_storage::{Direction, LocalOptions, LocalStore, MemoryStore, PartitionId, Store};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use support::*;

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

/// Everything that clients can read, as text.
fn everything(engine: &Engine) -> Vec<String> {
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

fn filled(bench: &Bench) {
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

/// Much happens: items come, change and go, a container comes, scripts and the policy change.
fn changed(bench: &Bench) {
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
    engine.finish_reindexing().expect("the index follows");
}

/// Splits the first partition, or begins to.
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
        engine.finish_range_change(begun.id).expect("it is there")
    }
}

fn take(engine: &Engine, name: &str) -> SnapshotInfo {
    engine
        .take_snapshot(name, &Object::new())
        .expect("it is taken")
}

#[test]
fn what_comes_back_is_what_was_there() {
    let bench = Bench::new(Profile::Modern, 1);
    filled(&bench);
    let before = everything(&bench.engine);
    let taken = take(&bench.engine, "base");
    assert_eq!((taken.containers, taken.partitions, taken.items), (1, 2, 6));
    assert_eq!(everything(&bench.engine), before);
    for _ in 0..2 {
        changed(&bench);
        assert_ne!(everything(&bench.engine), before);
        bench
            .engine
            .restore_snapshot("base")
            .expect("it is restored");
        assert_eq!(everything(&bench.engine), before);
        // Work beside requests finds nothing to do, and nothing to complain about.
        bench
            .engine
            .destroy_deleted()
            .expect("the space is given back");
        bench
            .engine
            .finish_reindexing()
            .expect("no index has to follow");
        assert_eq!(everything(&bench.engine), before);
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
    assert_eq!(everything(&bench.engine), before);
}

#[test]
fn what_goes_on_goes_on_above_what_was_reached() {
    let bench = Bench::new(Profile::Modern, 2);
    filled(&bench);
    let reached = put(&bench.engine, "a", 1).position.expect("a position");
    take(&bench.engine, "base");
    let lost = put(&bench.engine, "lost", 1)
        .result
        .expect("it is written")
        .item
        .expect("the item");
    let later = put(&bench.engine, "a", 2).position.expect("a position");
    assert!(later.lsn > reached.lsn);
    let old = items(&bench.engine);
    bench
        .engine
        .restore_snapshot("base")
        .expect("it is restored");
    let engine = &bench.engine;
    let fresh = items(engine);
    assert_eq!(fresh.rid(), old.rid());
    // A token from after the snapshot demands nothing; one of now does.
    let token = format!("{}:{}#{}", later.range_id, later.version, later.lsn + 100);
    engine
        .read_item(&fresh, &key(r#"["a"]"#), "a", None, Some(token.as_str()))
        .wait()
        .result
        .expect("it is read");
    let again = put(engine, "a", 3).position.expect("a position");
    assert!(again.lsn > later.lsn && again.version > later.version);
    let ahead = format!("{}:{}#{}", again.range_id, again.version, again.lsn + 1);
    let refused = engine
        .read_item(&fresh, &key(r#"["a"]"#), "a", None, Some(ahead.as_str()))
        .wait()
        .result;
    assert_eq!(refused.expect_err("ahead").sub_status(), 1002);
    // A position in the change feed from after the snapshot misses nothing that is new.
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
fn ranges_that_are_gone_with_a_restoration_are_not_used_again() {
    let bench = Bench::new(Profile::Modern, 11);
    let engine = &bench.engine;
    filled(&bench);
    take(engine, "base");
    let first = split(engine, false);
    assert_eq!(
        (first.stage, first.new_ranges.len()),
        (RangeChangeStage::Done, 2)
    );
    engine.restore_snapshot("base").expect("it is restored");
    // A client that still knows them is told to look again.
    let gone = Scope::Range {
        id: first.new_ranges[0],
        within: None,
    };
    let read = engine
        .change_feed(&items(engine), &gone, &FeedStart::Beginning, None, None)
        .wait()
        .result;
    assert_eq!(read.expect_err("it is gone").sub_status(), 1002);
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
fn a_split_that_is_under_way_does_not_touch_what_was_restored() {
    let bench = Bench::new(Profile::Modern, 12);
    let engine = &bench.engine;
    filled(&bench);
    let before = everything(engine);
    let under_way = split(engine, true);
    // Copied, and then closed to requests: a snapshot can be taken all the same.
    for _ in 0..2 {
        engine.step_range_change(under_way.id).expect("it is there");
    }
    take(engine, "base");
    let stale = items(engine);
    engine.restore_snapshot("base").expect("it is restored");
    assert_eq!(everything(engine), before);
    let over = engine
        .finish_range_change(under_way.id)
        .expect("it is there");
    assert_eq!(over.stage, RangeChangeStage::Failed);
    assert_eq!(everything(engine), before);
    // Nor does whoever still holds the container that was.
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
    assert_eq!(written.result.expect_err("it is gone").status(), 410);
    assert_eq!(
        engine
            .delete_container(&stale, None)
            .result
            .expect_err("it is gone")
            .status(),
        404
    );
    assert_eq!(everything(engine), before);
}

#[test]
fn a_snapshot_is_replaced_listed_and_deleted_and_a_reset_leaves_it() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    take(engine, "empty");
    filled(&bench);
    take(engine, "base");
    put(engine, "g", 1).result.expect("it is written");
    let before = everything(engine);
    take(engine, "base");
    let names: Vec<_> = engine
        .snapshots()
        .expect("a list")
        .into_iter()
        .map(|s| (s.name, s.items))
        .collect();
    assert_eq!(names, [("base".to_owned(), 7), ("empty".to_owned(), 0)]);
    engine.reset().expect("it is reset");
    assert_eq!(everything(engine), Vec::<String>::new());
    bench.container(BODY, 1);
    engine.restore_snapshot("base").expect("it is restored");
    assert_eq!(everything(engine), before);
    engine.restore_snapshot("empty").expect("it is restored");
    assert_eq!(everything(engine), Vec::<String>::new());
    engine.delete_snapshot("base").expect("it is deleted");
    assert_eq!(
        engine
            .restore_snapshot("base")
            .expect_err("it is gone")
            .status(),
        404
    );
    assert_eq!(
        engine
            .delete_snapshot("base")
            .expect_err("it is gone")
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
fn a_catalog_larger_than_a_commit_comes_back_and_goes() {
    let store = Arc::new(MemoryStore::new());
    let bench = Bench::on(store.clone(), Profile::Modern, 13);
    let engine = &bench.engine;
    filled(&bench);
    create_container(engine, OTHER, 1).expect("it is created");
    // 9 MB of scripts, and a commit holds 8.
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
    let before = everything(engine);
    changed_scripts(engine);
    for row_set in 1..3 {
        engine.restore_snapshot("large").expect("it is restored");
        assert_eq!(
            (everything(engine), row_sets_in(store.as_ref())),
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
    let after = everything(engine);
    let again = open(
        store.clone(),
        Profile::Modern,
        Arc::new(SeededWorld::new(START_MS + 60_000, 14)),
    )
    .expect("it opens");
    assert_eq!(everything(&again), after);
    again.reset().expect("everything goes");
    assert!(everything(&again).is_empty());
    again.delete_snapshot("large").expect("it is deleted");
    assert!(row_sets_in(store.as_ref()).is_empty());
    drop(again);
    let empty = open(
        store,
        Profile::Modern,
        Arc::new(SeededWorld::new(START_MS + 90_000, 15)),
    )
    .expect("it opens");
    assert!(everything(&empty).is_empty());
}

/// Returns the numbers of the row sets of which the catalog has rows.
fn row_sets_in(store: &dyn Store) -> BTreeSet<u64> {
    let catalog = store.snapshot(PartitionId(0)).expect("the catalog");
    let rows = catalog.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward);
    let row_set = |key: &[u8]| match key[0] {
        0x20 | 0x22 => Some(0),
        0x25 => Some(u64::from_be_bytes(
            key[1..9].try_into().expect("eight bytes"),
        )),
        _ => None,
    };
    rows.filter_map(|row| row_set(&row.expect("a row").0))
        .collect()
}

fn changed_scripts(engine: &Engine) {
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
fn snapshots_outlive_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let store =
        || Arc::new(LocalStore::open(directory.path(), LocalOptions::default()).expect("it opens"));
    let before = {
        let bench = Bench::on(store(), Profile::Modern, 4);
        filled(&bench);
        take(&bench.engine, "base");
        let before = everything(&bench.engine);
        changed(&bench);
        before
    };
    let after = {
        let bench = Bench::on(store(), Profile::Modern, 5);
        bench
            .engine
            .restore_snapshot("base")
            .expect("it is restored");
        assert_eq!(everything(&bench.engine), before);
        // A new container must not get the storage ids of the snapshot.
        create_container(&bench.engine, OTHER, 2).expect("it is created");
        everything(&bench.engine)
    };
    let bench = Bench::on(store(), Profile::Modern, 6);
    assert_eq!(everything(&bench.engine), after);
    bench
        .engine
        .restore_snapshot("base")
        .expect("it is restored");
    assert_eq!(everything(&bench.engine), before);
}

/// A snapshot under the name of an older one, a restoration of it, and a reset.
fn history(engine: &Engine) -> Result<(), Error> {
    engine.take_snapshot("base", &Object::new())?;
    put(engine, "a", 3).result?;
    engine.restore_snapshot("base")?;
    engine.reset()
}

/// The states that things can be in, on the way through the history.
fn states(world: impl Fn() -> Bench) -> Vec<Vec<String>> {
    let bench = world();
    let before = without_times(everything(&bench.engine));
    take(&bench.engine, "base");
    put(&bench.engine, "a", 3).result.expect("it is written");
    vec![before, without_times(everything(&bench.engine)), Vec::new()]
}

/// Etags are random, so that the write between has another one each time.
fn without_times(rows: Vec<String>) -> Vec<String> {
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
fn a_crash_at_any_step_leaves_what_was_before_or_what_is_after() {
    let world = |store: Arc<dyn Store>| {
        let bench = Bench::on(store, Profile::Modern, 7);
        filled(&bench);
        take(&bench.engine, "base");
        bench
    };
    let states = states(|| world(Arc::new(MemoryStore::new())));
    let steps = {
        let store = Arc::new(Crashing::new(None));
        let bench = world(store.clone());
        let before = store.steps();
        history(&bench.engine).expect("nothing fails");
        before..store.steps()
    };
    assert!(steps.end > steps.start + 20, "{steps:?}");
    let mut seen = [0; 3];
    for step in steps {
        let store = Arc::new(Crashing::new(Some(step)));
        {
            let bench = world(store.clone());
            // Whether it ended or not, what is there is looked at after the crash.
            let _ = history(&bench.engine);
            assert!(store.has_crashed(), "step {step}");
        }
        let again = Arc::new(store.reopen(None));
        let engine = open(
            again,
            Profile::Modern,
            Arc::new(SeededWorld::new(START_MS + 60_000, 8)),
        )
        .expect("it opens");
        let found = without_times(everything(&engine));
        let state = states.iter().position(|state| *state == found);
        let state =
            state.unwrap_or_else(|| panic!("step {step}: neither before nor after: {found:#?}"));
        seen[state] += 1;
        engine
            .destroy_deleted()
            .expect("what belongs to nobody is destroyed");
        assert_eq!(without_times(everything(&engine)), found);
        // The snapshot is there, the old one or the new one: of the same.
        engine.restore_snapshot("base").expect("it is restored");
        assert_eq!(without_times(everything(&engine)), states[0], "step {step}");
        put(&engine, "z", 1).result.expect("it can be written");
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn a_failure_at_any_step_leaves_a_store_that_goes_on() {
    for fault in [Fault::Refused, Fault::Busy, Fault::Lost, Fault::Applied] {
        for writes in 0.. {
            let store = Arc::new(Failing::after(u64::MAX, fault, MemoryStore::new()));
            let bench = Bench::on(store.clone(), Profile::Modern, 9);
            filled(&bench);
            take(&bench.engine, "base");
            let before = without_times(everything(&bench.engine));
            store.fail_after(writes);
            let done = history(&bench.engine);
            let failed = store.is_broken();
            store.repair();
            if done.is_ok() && !failed {
                break;
            }
            // A store that failed is opened again.
            let world = Arc::new(SeededWorld::new(START_MS + 60_000, 10));
            let engine = open(store, Profile::Modern, world).expect("it opens");
            engine
                .destroy_deleted()
                .expect("what belongs to nobody is destroyed");
            engine.restore_snapshot("base").expect("it is restored");
            assert_eq!(
                without_times(everything(&engine)),
                before,
                "{fault:?} after {writes}"
            );
            put(&engine, "z", 1).result.expect("it can be written");
        }
    }
}
