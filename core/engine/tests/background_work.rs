//! Background work is found where it arises: running what is on the agenda leaves nothing for a
//! walk over all containers, and a jump of the clock removes nothing.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{BackgroundTask, Container, Engine, ITEMS_PER_STEP, Profile};
use orrery_model::world::{SeededWorld, split_mix};
use orrery_storage::{MemoryStore, Store};
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;
const MINUTE_MS: u64 = 60_000;

/// Runs all background work that is due.
fn run_due_work(engine: &Engine) {
    loop {
        let mut is_idle = true;
        for task in BackgroundTask::ALL {
            is_idle &= !engine.run_background_work(task).expect("the work is done");
        }
        if is_idle {
            return;
        }
    }
}

/// Runs all background work, and that which follows from it in the next second.
fn settle(bench: &Bench) {
    for _ in 0..20 {
        run_due_work(&bench.engine);
        bench.world.advance_ms(100);
    }
    run_due_work(&bench.engine);
}

/// Checks that a walk over all containers finds nothing to do.
#[track_caller]
fn check_nothing_is_left(engine: &Engine) {
    assert_eq!(engine.remove_expired().expect("a walk"), 0);
    assert_eq!(engine.remove_old_versions().expect("a walk"), 0);
    assert!(!engine.remove_some_deleted_by_key().expect("a walk"));
    assert!(!engine.reindex_some(ITEMS_PER_STEP).expect("a walk"));
}

/// Returns the number of stored items, visible or not.
fn stored_items(engine: &Engine, container: &Container) -> u64 {
    let partitions = engine.partition_inventory(container);
    let partitions = partitions.expect("the counters");
    partitions.iter().map(|partition| partition.items).sum()
}

fn definition(rest: &str) -> String {
    format!(
        r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}{rest}}}"#
    )
}

fn no_admission() -> AdmissionOptions {
    AdmissionOptions::default()
}

#[test]
fn an_engine_without_work_asks_for_no_visit() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(&definition(""), 2);
    create(&bench.engine, &container, r#"{"id":"a","pk":"a"}"#);
    settle(&bench);
    for task in BackgroundTask::ALL {
        assert_eq!(bench.engine.background_work_in(task), None, "{task:?}");
    }
    create(&bench.engine, &container, r#"{"id":"b","pk":"a"}"#);
    for task in BackgroundTask::ALL {
        assert_eq!(bench.engine.background_work_in(task), None, "{task:?}");
    }
}

#[test]
fn the_next_visit_is_due_when_the_next_item_expires() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(&definition(r#","defaultTtl":1000"#), 1);
    create(&bench.engine, &container, r#"{"id":"a","pk":"a"}"#);
    create(&bench.engine, &container, r#"{"id":"b","pk":"a","ttl":10}"#);
    create(&bench.engine, &container, r#"{"id":"c","pk":"a","ttl":-1}"#);
    run_due_work(&bench.engine);
    let in_ms = || bench.engine.background_work_in(BackgroundTask::Removal);
    assert_eq!(in_ms(), Some(10_000));
    bench.world.advance_ms(10_000);
    settle(&bench);
    assert_eq!(stored_items(&bench.engine, &container), 2);
    assert_eq!(in_ms(), Some(1_000_000 - 10_000 - 2_000));
    bench.world.advance_ms(1_000_000);
    settle(&bench);
    assert_eq!(stored_items(&bench.engine, &container), 1);
    assert_eq!(in_ms(), None);
}

#[test]
fn items_that_never_expire_do_not_hide_expired_ones_from_the_removal() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(&definition(r#","defaultTtl":10"#), 1);
    for n in 0..1_200 {
        create(
            &bench.engine,
            &container,
            &format!(r#"{{"id":"k{n}","pk":"a","ttl":-1}}"#),
        );
    }
    create(&bench.engine, &container, r#"{"id":"a","pk":"a"}"#);
    bench.world.advance_ms(11_000);
    settle(&bench);
    assert_eq!(stored_items(&bench.engine, &container), 1_200);
}

#[test]
fn an_item_that_is_not_expired_yet_ends_the_search_until_its_time() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(&definition(r#","defaultTtl":1000"#), 1);
    create(&bench.engine, &container, r#"{"id":"a","pk":"a"}"#);
    for n in 0..1_200 {
        create(
            &bench.engine,
            &container,
            &format!(r#"{{"id":"k{n}","pk":"a","ttl":-1}}"#),
        );
    }
    bench.world.advance_ms(1_000);
    assert_eq!(bench.engine.remove_expired().expect("a walk"), 0);
    settle(&bench);
    let in_ms = bench
        .engine
        .background_work_in(BackgroundTask::Removal)
        .expect("the item expires");
    assert!(in_ms > 900_000, "{in_ms}");
    bench
        .engine
        .replace_container(
            &container,
            &object(&definition(r#","defaultTtl":2000"#)),
            None,
        )
        .result
        .expect("replaced");
    settle(&bench);
    let in_ms = bench
        .engine
        .background_work_in(BackgroundTask::Removal)
        .expect("the item expires");
    assert!(in_ms > 1_900_000, "{in_ms}");
}

#[test]
fn work_that_was_left_at_the_end_of_a_process_is_found_after_the_next_start() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = Bench::on(Arc::clone(&store), Profile::Modern, 1);
    let container = first.container(&definition(r#","defaultTtl":10"#), 2);
    for n in 0..20 {
        create(
            &first.engine,
            &container,
            &format!(r#"{{"id":"i{n}","pk":"{n}"}}"#),
        );
    }
    let deleted =
        first
            .engine
            .delete_logical_partition(&container, &key(r#"["3"]"#), no_admission());
    deleted.wait().result.expect("deleted");
    first.world.advance_ms(11_000);
    first.engine.shut_down().expect("the store syncs");
    let world = first.world;
    drop(first.engine);

    let engine = open(store, Profile::Modern, Arc::clone(&world)).expect("the engine opens");
    let second = Bench { engine, world };
    settle(&second);
    let container = second.engine.container(Id::Name("db"), Id::Name("items"));
    let container = container.expect("the container");
    assert_eq!(stored_items(&second.engine, &container), 0);
    check_nothing_is_left(&second.engine);
}

/// An indexing policy that is not the default.
const POLICY: &str = r#"{"includedPaths":[{"path":"/pk/?"}],"excludedPaths":[{"path":"/*"}]}"#;

/// A random operation on a container.
fn operate(bench: &Bench, container: &Container, random: u64) {
    let (pk, id) = (random >> 8 & 7, random >> 16 & 31);
    let options = WriteOptions::default();
    match random % 10 {
        0..=5 => {
            let ttl = match random >> 24 & 3 {
                0 => r#","ttl":-1"#.to_owned(),
                1 => format!(r#","ttl":{}"#, 1 + (random >> 32 & 63)),
                _ => String::new(),
            };
            let body = format!(r#"{{"id":"i{id}","pk":"{pk}"{ttl}}}"#);
            let upsert = WriteOperation::Upsert;
            let written = write(&bench.engine, container, &upsert, Some(&body), &options);
            written.result.expect("written");
        }
        6 => {
            let key = key(&format!(r#"["{pk}"]"#));
            let deletion = bench
                .engine
                .delete_logical_partition(container, &key, no_admission());
            deletion.wait().result.expect("deleted");
        }
        7 => {
            let rest = match random >> 24 & 7 {
                0 | 4 => String::new(),
                5 | 6 => r#","changeFeedPolicy":{"retentionDuration":1}"#.to_owned(),
                1 => r#","defaultTtl":-1"#.to_owned(),
                2 => format!(r#","defaultTtl":{}"#, 1 + (random >> 32 & 31)),
                _ => format!(r#","defaultTtl":20,"indexingPolicy":{POLICY}"#),
            };
            let body = object(&definition(&rest));
            let replaced = bench.engine.replace_container(container, &body, None);
            replaced.result.expect("replaced");
        }
        8 => bench.world.advance_ms(random >> 24 & 0x3FFF),
        _ => run_due_work(&bench.engine),
    }
}

#[test]
fn running_the_agenda_leaves_nothing_for_a_walk_over_all_containers() {
    for seed in 0..30 {
        let bench = Bench::new(Profile::Modern, seed);
        let container = bench.container(&definition(""), 1 + seed as usize % 3);
        for step in 0..60 {
            operate(&bench, &container, split_mix(seed * 1_000 + step));
        }
        settle(&bench);
        check_nothing_is_left(&bench.engine);

        // From here on only the writes themselves can enter work.
        for step in 100..120 {
            let random = split_mix(seed * 1_000 + step);
            operate(&bench, &container, random - random % 10);
        }
        bench.world.advance_ms(200_000);
        settle(&bench);
        check_nothing_is_left(&bench.engine);
    }
}

#[test]
fn a_clock_that_jumps_ahead_removes_nothing_until_it_is_confirmed() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(&definition(r#","defaultTtl":3600"#), 1);
    create(&bench.engine, &container, r#"{"id":"a","pk":"a"}"#);
    settle(&bench);
    let now = START_MS + 2_000;
    bench.world.jump_to_ms(now + DAY_MS);
    settle(&bench);
    read(&bench.engine, &container, r#"["a"]"#, "a").expect_err("reads hide the item");
    assert_eq!(stored_items(&bench.engine, &container), 1);

    // The clock is set right: the item is there again.
    bench.world.jump_to_ms(now + 4_000);
    settle(&bench);
    read(&bench.engine, &container, r#"["a"]"#, "a").expect("the item is read");

    // The clock stays ahead: the item goes after the confirmation.
    bench.world.jump_to_ms(now + DAY_MS);
    settle(&bench);
    bench.world.advance_ms(9 * MINUTE_MS);
    settle(&bench);
    assert_eq!(stored_items(&bench.engine, &container), 1);
    bench.world.advance_ms(2 * MINUTE_MS);
    settle(&bench);
    assert_eq!(stored_items(&bench.engine, &container), 0);
}

#[test]
fn a_clock_that_is_ahead_at_a_start_removes_nothing_until_it_is_confirmed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = Bench::on(Arc::clone(&store), Profile::Modern, 1);
    let container = first.container(&definition(r#","defaultTtl":3600"#), 1);
    create(&first.engine, &container, r#"{"id":"a","pk":"a"}"#);
    first.engine.shut_down().expect("the store syncs");
    drop(first.engine);

    let world = Arc::new(SeededWorld::new(START_MS + DAY_MS, 2));
    let engine = open(store, Profile::Modern, Arc::clone(&world)).expect("the engine opens");
    let second = Bench { engine, world };
    let container = second.engine.container(Id::Name("db"), Id::Name("items"));
    let container = container.expect("the container");
    settle(&second);
    assert_eq!(stored_items(&second.engine, &container), 1);
    second.world.advance_ms(11 * MINUTE_MS);
    settle(&second);
    assert_eq!(stored_items(&second.engine, &container), 0);
}

/// Returns the `_ts` of an item's text.
fn ts_of(text: &str) -> i64 {
    let ts = json(text).get("_ts").and_then(orrery_model::Json::as_i64);
    ts.expect("a number")
}

#[test]
fn a_clock_that_jumps_back_does_not_move_ts_back() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = Bench::on(Arc::clone(&store), Profile::Modern, 1);
    let container = first.container(&definition(""), 1);
    let before = ts_of(&create(&first.engine, &container, r#"{"id":"a","pk":"a"}"#));
    first.world.jump_to_ms(START_MS - DAY_MS);
    let after = ts_of(&create(&first.engine, &container, r#"{"id":"b","pk":"b"}"#));
    assert_eq!(before, after);
    drop(first.engine);

    // The next process finds the time of the last commit in the partition.
    let world = Arc::new(SeededWorld::new(START_MS - DAY_MS, 2));
    let engine = open(store, Profile::Modern, world).expect("the engine opens");
    let container = engine.container(Id::Name("db"), Id::Name("items"));
    let container = container.expect("the container");
    assert_eq!(
        ts_of(&create(&engine, &container, r#"{"id":"c","pk":"c"}"#)),
        after
    );
}
