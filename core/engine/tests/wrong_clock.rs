//! A clock that was years ahead at one start spoils the times of what was written then, and nothing
//! else: later items have the right time and expire in time, and the repair mends the others.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{BackgroundTask, ClockJump, Container, Engine, Profile};
use orrery_model::world::SeededWorld;
use orrery_model::{Json, Object};
use orrery_storage::{MemoryStore, Store};
use std::sync::{Arc, Mutex};

const DAY_MS: u64 = 86_400_000;
const YEARS_MS: u64 = 20 * 365 * DAY_MS;

fn definition(rest: &str) -> String {
    format!(
        r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}{rest}}}"#
    )
}

/// Opens an engine on a store, as a start at this time does.
fn start(store: &Arc<dyn Store>, now_ms: u64) -> Bench {
    let world = Arc::new(SeededWorld::new(now_ms, now_ms));
    let engine = open(Arc::clone(store), Profile::Modern, Arc::clone(&world));
    let engine = engine.expect("the engine opens");
    Bench { engine, world }
}

fn container_of(bench: &Bench) -> Arc<Container> {
    let container = bench.engine.container(Id::Name("db"), Id::Name("items"));
    container.expect("the container")
}

/// Creates a container, and the items `bodies` by a clock that is 20 years ahead.
fn written_ahead(definition: &str, bodies: &[&str]) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let bench = start(&store, START_MS);
    bench.container(definition, 1);
    bench.engine.shut_down().expect("it ends");
    drop(bench);
    let ahead = start(&store, START_MS + YEARS_MS);
    for body in bodies {
        create(&ahead.engine, &container_of(&ahead), body);
    }
    ahead.engine.shut_down().expect("it ends");
    store
}

/// Creates a user-defined function by a clock that is 20 years ahead.
fn create_function_ahead(store: &Arc<dyn Store>, function: &Object) {
    let ahead = start(store, START_MS + YEARS_MS);
    let container = container_of(&ahead);
    let created = ahead
        .engine
        .create_script(&container, ScriptKind::Function, function, false);
    created.result.expect("the script");
}

fn ts_of(text: &str) -> u64 {
    let ts = json(text).get("_ts").and_then(Json::as_i64);
    ts.and_then(|ts| u64::try_from(ts).ok()).expect("a number")
}

/// Runs the work that is due, and returns the jumps of the clock that the operator is told of.
fn jumps_told(bench: &Bench) -> Vec<ClockJump> {
    let jumps = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&jumps);
    let listen = move |jump| heard.lock().expect("no panic").push(jump);
    bench.engine.on_clock_jump(listen);
    run_due_work(bench);
    jumps.lock().expect("no panic").clone()
}

fn run_due_work(bench: &Bench) {
    for _ in 0..50 {
        for task in BackgroundTask::ALL {
            while bench.engine.run_background_work(task).expect("it is done") {}
        }
        bench.world.advance_ms(100);
    }
}

/// Returns the number of stored items, visible or not.
fn stored_items(engine: &Engine, container: &Container) -> u64 {
    let partitions = engine.partition_inventory(container);
    let partitions = partitions.expect("the counters");
    partitions.iter().map(|partition| partition.items).sum()
}

fn is_there(bench: &Bench, container: &Container, id: &str) -> bool {
    read(&bench.engine, container, r#"["p"]"#, id).is_ok()
}

#[test]
fn items_have_the_right_time_and_expire_in_time_after_a_start_with_a_clock_ahead() {
    let ahead = r#"{"id":"ahead","pk":"p","ttl":600}"#;
    let kept = r#"{"id":"kept","pk":"p","ttl":-1}"#;
    let store = written_ahead(&definition(r#","defaultTtl":-1"#), &[ahead, kept]);
    let bench = start(&store, START_MS + 30_000);
    let container = container_of(&bench);
    let told = jumps_told(&bench);
    let misdated =
        |jump: &&ClockJump| matches!(jump, ClockJump::Misdated(ms) if *ms > YEARS_MS / 2);
    assert_eq!(told.iter().filter(misdated).count(), 1, "{told:?}");

    let text = create(
        &bench.engine,
        &container,
        r#"{"id":"new","pk":"p","ttl":60}"#,
    );
    assert!(ts_of(&text) - START_MS / 1000 < 60, "{text}");
    bench.world.advance_ms(61_000);
    assert!(!is_there(&bench, &container, "new"));
    assert!(is_there(&bench, &container, "ahead") && is_there(&bench, &container, "kept"));
    run_due_work(&bench);
    assert_eq!(stored_items(&bench.engine, &container), 2);
    // The item that was written by the wrong clock lives as long, counted from the start.
    bench.world.advance_ms(600_000);
    assert!(!is_there(&bench, &container, "ahead") && is_there(&bench, &container, "kept"));
}

/// A writer once judged by the last stamp which items have expired, and replaced living ones.
#[test]
fn a_writer_takes_no_item_for_expired_because_another_is_dated_ahead() {
    let store = written_ahead(&definition(r#","defaultTtl":3600"#), &[]);
    let bench = start(&store, START_MS + DAY_MS);
    let container = container_of(&bench);
    create(&bench.engine, &container, r#"{"id":"living","pk":"p"}"#);
    bench.world.jump_to_ms(START_MS + YEARS_MS);
    create(&bench.engine, &container, r#"{"id":"ahead","pk":"q"}"#);
    bench.world.jump_to_ms(START_MS + DAY_MS + 60_000);
    let options = WriteOptions::default();
    let again = write(
        &bench.engine,
        &container,
        &WriteOperation::Create,
        Some(r#"{"id":"living","pk":"p"}"#),
        &options,
    );
    assert_eq!(again.result.expect_err("it lives").status(), 409);
    // The clock was ahead for a moment while the process ran: the item lives for its hour.
    bench.world.advance_ms(3_000_000);
    read(&bench.engine, &container, r#"["q"]"#, "ahead").expect("it lives");
    bench.world.advance_ms(900_000);
    read(&bench.engine, &container, r#"["q"]"#, "ahead").expect_err("it has expired");
}

#[test]
fn items_that_are_dated_ahead_do_not_hide_expired_ones_from_the_removal() {
    let store = written_ahead(&definition(r#","defaultTtl":864000"#), &[]);
    let ahead = start(&store, START_MS + YEARS_MS);
    for n in 0..1_300 {
        let body = format!(r#"{{"id":"a{n}","pk":"p"}}"#);
        create(&ahead.engine, &container_of(&ahead), &body);
    }
    drop(ahead);
    let bench = start(&store, START_MS + DAY_MS);
    let container = container_of(&bench);
    run_due_work(&bench);
    for _ in 0..9 {
        bench.world.advance_ms(DAY_MS);
        run_due_work(&bench);
    }
    create(&bench.engine, &container, r#"{"id":"new","pk":"p"}"#);
    // Ten days after the start the misdated items have expired, and are removed.
    bench.world.advance_ms(DAY_MS);
    for _ in 0..20 {
        run_due_work(&bench);
        bench.world.advance_ms(60_000);
    }
    assert_eq!(stored_items(&bench.engine, &container), 1);
    for _ in 0..9 {
        bench.world.advance_ms(DAY_MS);
        run_due_work(&bench);
    }
    run_due_work(&bench);
    assert_eq!(stored_items(&bench.engine, &container), 0);
}

#[test]
fn versions_that_are_dated_ahead_do_not_keep_those_after_them() {
    let policy = r#","changeFeedPolicy":{"retentionDuration":10}"#;
    let store = written_ahead(&definition(policy), &[r#"{"id":"ahead","pk":"p"}"#]);
    let bench = start(&store, START_MS + DAY_MS);
    let container = container_of(&bench);
    create(&bench.engine, &container, r#"{"id":"new","pk":"p"}"#);
    let remove = || bench.engine.remove_old_versions().expect("a walk");
    assert_eq!(remove(), 0);
    bench.world.advance_ms(660_000);
    assert_eq!(remove(), 2);
}

#[test]
fn the_repair_dates_anew_what_is_dated_ahead() {
    let rest = r#","defaultTtl":3600,"changeFeedPolicy":{"retentionDuration":10}"#;
    let items = [
        r#"{"id":"a","pk":"p","ttl":60}"#,
        r#"{"id":"b","pk":"p","n":1}"#,
    ];
    let store = written_ahead(&definition(rest), &items);
    let script = object(r#"{"id":"udf","body":"function f() {}"}"#);
    create_function_ahead(&store, &script);

    let now_ms = START_MS + DAY_MS;
    let bench = start(&store, now_ms);
    let repaired = bench.engine.repair_clock().expect("it is repaired");
    assert_eq!(
        (repaired.items, repaired.versions, repaired.resources),
        (2, 2, 1)
    );
    let again = bench.engine.repair_clock().expect("it is repaired");
    assert_eq!((again.items, again.versions, again.resources), (0, 0, 0));
    check_counters(&bench.engine, &container_of(&bench));
    bench.engine.shut_down().expect("it ends");
    drop(bench);

    let bench = start(&store, now_ms + 1_000);
    let container = container_of(&bench);
    let told = jumps_told(&bench);
    assert!(
        !told
            .iter()
            .any(|jump| matches!(jump, ClockJump::Misdated(_))),
        "{told:?}"
    );
    let text = read(&bench.engine, &container, r#"["p"]"#, "b").expect("the item");
    assert_eq!(ts_of(&text), now_ms / 1000);
    let query = query(&format!(
        "SELECT VALUE c.id FROM c WHERE c._ts <= {}",
        now_ms / 1000
    ));
    let mut found =
        rows(&bench.engine, &container, &Scope::Everything, &query, &[10]).expect("rows");
    found.sort();
    assert_eq!(found, [r#""a""#, r#""b""#]);
    bench.world.advance_ms(61_000);
    assert!(!is_there(&bench, &container, "a") && is_there(&bench, &container, "b"));
    run_due_work(&bench);
    assert_eq!(stored_items(&bench.engine, &container), 1);
}

#[test]
fn the_repair_dates_a_script_anew_that_is_larger_than_a_value_of_the_store() {
    let store = written_ahead(&definition(""), &[]);
    let source = format!("function f() {{ /* {} */ }}", "x".repeat(200_000));
    let script = object(&format!(r#"{{"id":"udf","body":{}}}"#, Json::from(source)));
    create_function_ahead(&store, &script);

    let now_ms = START_MS + DAY_MS;
    let bench = start(&store, now_ms);
    let repaired = bench.engine.repair_clock().expect("it is repaired");
    assert_eq!(repaired.resources, 1);
    drop(bench);

    let bench = start(&store, now_ms + 1_000);
    let read =
        bench
            .engine
            .read_script(&container_of(&bench), ScriptKind::Function, Id::Name("udf"));
    let read = json(&text(&read.result.expect("the script").body));
    assert_eq!(read.get("body"), script.get("body"));
    let dated = read.get("_ts").and_then(Json::as_i64);
    assert_eq!(dated, i64::try_from(now_ms / 1000).ok());
}

#[test]
fn a_clock_that_was_never_set_does_not_date_items_back() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let bench = start(&store, START_MS);
    let container = bench.container(&definition(r#","defaultTtl":3600"#), 1);
    create(&bench.engine, &container, r#"{"id":"a","pk":"p"}"#);
    drop(bench);
    let unset = start(&store, 40_000);
    let text = create(
        &unset.engine,
        &container_of(&unset),
        r#"{"id":"b","pk":"p"}"#,
    );
    assert_eq!(ts_of(&text), START_MS / 1000);
    unset.world.advance_ms(7_200_000);
    assert!(is_there(&unset, &container_of(&unset), "a"));
    let refused = unset.engine.repair_clock().expect_err("a clock of 1970");
    assert!(refused.message().contains("never set"), "{refused:?}");
    assert!(unset.engine.has_unset_clock());
    drop(unset);
    // The clock is set at the next start: the item has its time to live.
    let bench = start(&store, START_MS + 60_000);
    assert!(is_there(&bench, &container_of(&bench), "b"));
}
