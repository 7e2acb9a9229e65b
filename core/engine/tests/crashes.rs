//! Crashes and failures at every step of a history: acknowledged writes are kept, and no write is
//! applied in part.
//!
//! The history creates a database and a container of two physical partitions, writes items one by
//! one and several at a time, changes the indexing policy, deletes items, splits a partition and
//! merges two. The history runs once for each step at which the store can crash or fail. Afterwards
//! every item must have its acknowledged value, or the value of a write whose outcome the client
//! did not learn. The index must find the same items as a scan, the counters must match, and no LSN
//! or item number may occur twice.
//!
//! `ORRERY_CRASH_HISTORIES` adds histories whose writes follow from seeds, the first of which is
//! `ORRERY_CRASH_FIRST`. A crash image is the state of the store after a crash at one step of such
//! a history; the number of images that were checked is printed.

#![allow(clippy::print_stdout)] // the number of crash images is part of the result

use crate::support::{self, *};
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Feed, Profile};
use orrery_model::world::{SPLIT_MIX_STEP, SeededWorld, split_mix};
use orrery_model::{Error, Json, Kind};
use orrery_storage::testing::{Crashing, Failing, Fault};
use orrery_storage::{LocalOptions, LocalStore, MemoryStore};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
const OTHER_POLICY: &str = r#"{"id":"items",
    "partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "indexingPolicy":{"excludedPaths":[{"path":"/filler/?"}],"includedPaths":[{"path":"/*"}]}}"#;

#[derive(Clone, Copy, Debug)]
enum Write {
    Create(u32, u32),
    Upsert(u32, u32),
    Replace(u32, u32),
    Delete(u32),
}
use Write::{Create, Delete, Replace, Upsert};

/// Writes before the change of the indexing policy. The writes of one list are sent together: each
/// is submitted before the previous write is answered.
const BEFORE: &[&[Write]] = &[
    &[Create(1, 10)],
    &[Create(2, 20), Replace(2, 21), Create(3, 30)],
    &[Replace(1, 11)],
    &[Delete(2), Create(2, 22), Upsert(4, 40), Upsert(4, 41)],
    &[Create(5, 50), Delete(5)],
];
/// Writes between the steps of a split or merge.
const DURING_RANGE_CHANGE: &[&[Write]] = &[
    &[Upsert(1, 13), Upsert(6, 61)],
    &[Delete(6), Create(6, 62), Upsert(5, 51)],
];
/// Writes between the steps of the reindexing.
const AFTER: &[&[Write]] = &[
    &[Upsert(6, 60), Delete(1), Upsert(3, 31)],
    &[Create(1, 12)],
    &[Delete(4), Create(7, 70)],
];
/// Writes after a split or merge.
const AFTER_RANGE_CHANGE: &[Write] = &[
    Upsert(6, 63),
    Upsert(1, 14),
    Upsert(3, 32),
    Upsert(5, 52),
    Delete(5),
];

/// The writes of a history.
struct Script {
    before: Vec<Vec<Write>>,
    after: Vec<Vec<Write>>,
    /// The writes between the steps of the split and of the merge.
    during_range_change: [Vec<Vec<Write>>; 2],
    after_range_change: [Vec<Write>; 2],
}

impl Script {
    /// Returns the writes of the constants.
    fn written() -> Script {
        let lists = |lists: &[&[Write]]| lists.iter().map(|list| list.to_vec()).collect();
        Script {
            before: lists(BEFORE),
            after: lists(AFTER),
            during_range_change: [lists(DURING_RANGE_CHANGE), lists(DURING_RANGE_CHANGE)],
            after_range_change: [AFTER_RANGE_CHANGE.to_vec(), AFTER_RANGE_CHANGE.to_vec()],
        }
    }

    /// Returns writes that follow from a seed, in lists of the same shape.
    fn random(seed: u64) -> Script {
        let mut writes = RandomWrites {
            random: split_mix(seed),
            stored: BTreeSet::new(),
            value: 100,
        };
        let before = writes.lists(5);
        let mut after = writes.lists(2);
        // A split needs items with several partition keys.
        after.push((1..7).map(|id| writes.upsert(id)).collect());
        let split = (writes.lists(2), writes.list(5));
        let merge = (writes.lists(2), writes.list(5));
        Script {
            before,
            after,
            during_range_change: [split.0, merge.0],
            after_range_change: [split.1, merge.1],
        }
    }
}

/// A source of writes, each of which succeeds if all writes before it did.
struct RandomWrites {
    random: u64,
    /// The items that exist.
    stored: BTreeSet<u32>,
    /// The last value; each write has a value of its own.
    value: u32,
}

impl RandomWrites {
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(SPLIT_MIX_STEP);
        split_mix(self.random) % end
    }

    fn upsert(&mut self, id: u32) -> Write {
        self.value += 1;
        self.stored.insert(id);
        Upsert(id, self.value)
    }

    fn write(&mut self) -> Write {
        let id = 1 + self.below(7) as u32;
        self.value += 1;
        match (self.stored.contains(&id), self.below(3)) {
            (true, 0) => {
                self.stored.remove(&id);
                Delete(id)
            }
            (true, 1) => Replace(id, self.value),
            (false, 0 | 1) => {
                self.stored.insert(id);
                Create(id, self.value)
            }
            (_, _) => self.upsert(id),
        }
    }

    /// Returns 1 to `most` writes.
    fn list(&mut self, most: u64) -> Vec<Write> {
        let count = 1 + self.below(most);
        (0..count).map(|_| self.write()).collect()
    }

    fn lists(&mut self, count: usize) -> Vec<Vec<Write>> {
        (0..count).map(|_| self.list(4)).collect()
    }
}

impl Write {
    fn id(self) -> u32 {
        match self {
            Create(id, _) | Upsert(id, _) | Replace(id, _) | Delete(id) => id,
        }
    }

    /// Returns the value of `n` after this write; `None` after a delete.
    fn value(self) -> Option<u32> {
        match self {
            Create(_, n) | Upsert(_, n) | Replace(_, n) => Some(n),
            Delete(_) => None,
        }
    }

    fn operation(self) -> WriteOperation {
        match self {
            Create(..) => WriteOperation::Create,
            Upsert(..) => WriteOperation::Upsert,
            Replace(id, _) => WriteOperation::Replace(format!("i{id}")),
            Delete(id) => WriteOperation::Delete(format!("i{id}")),
        }
    }
}

fn pk(id: u32) -> String {
    format!("p{}", id % 3)
}

/// The client's knowledge of the items.
#[derive(Default)]
struct Ledger {
    /// Acknowledged value of `n` of each item; `None` is a deleted item.
    known: BTreeMap<u32, Option<u32>>,
    /// Other possible values of `n`, from writes whose outcome the client did not learn.
    possible: BTreeMap<u32, BTreeSet<Option<u32>>>,
    numbers: BTreeSet<u64>,
    lsns: BTreeMap<u32, u64>,
}

impl Ledger {
    /// Submits the writes together, waits for their outcomes and records them. Returns the last
    /// error.
    fn send(
        &mut self,
        engine: &Engine,
        container: &Container,
        writes: &[Write],
    ) -> Result<(), Error> {
        let mut failed = None;
        let mut sent = Vec::new();
        for write in writes {
            let body = write.value().map(|n| {
                let filler = if n % 10 == 1 {
                    "x".repeat(70_000)
                } else {
                    String::new()
                };
                format!(
                    r#"{{"id":"i{}","pk":"{}","n":{n},"tags":[{n},"t"],"filler":"{filler}"}}"#,
                    write.id(),
                    pk(write.id())
                )
            });
            let partition_key = Some(key(&format!("[\"{}\"]", pk(write.id()))));
            let options = WriteOptions {
                partition_key,
                ..WriteOptions::default()
            };
            let pending = engine.write_item(
                container,
                &write.operation(),
                body.as_deref().map(str::as_bytes),
                &options,
            );
            if pending.is_refused() {
                failed = pending.wait().result.err();
            } else {
                sent.push((*write, pending));
            }
        }
        for (write, pending) in sent {
            let outcome = pending.wait();
            match outcome.result {
                Ok(written) => {
                    self.known.insert(write.id(), write.value());
                    self.possible.remove(&write.id());
                    let position = outcome.position.expect("a write has a position");
                    let last = self.lsns.entry(position.range_id).or_default();
                    assert!(position.lsn > *last, "LSN {} follows {last}", position.lsn);
                    *last = position.lsn;
                    self.numbers
                        .extend(written.item.map(|item| number_of(&json(&text(&item)))));
                }
                Err(error) => {
                    self.possible
                        .entry(write.id())
                        .or_default()
                        .insert(write.value());
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Compares point reads, queries, counters and change feeds with the known values.
    #[expect(clippy::too_many_lines, reason = "all that is compared after a crash")]
    fn check(&mut self, engine: &Engine, container: &Container) {
        let mut stored = BTreeMap::new();
        for id in 1..8 {
            match read(
                engine,
                container,
                &format!("[\"{}\"]", pk(id)),
                &format!("i{id}"),
            ) {
                Ok(text) => _ = stored.insert(id, json(&text)),
                Err(error) => assert_eq!(error.kind(), Kind::NotFound),
            }
            let n = stored
                .get(&id)
                .map(|item| item.get("n").and_then(|n| n.as_i64()).expect("n") as u32);
            let is_known = n == self.known.get(&id).copied().flatten();
            let is_possible = self.possible.get(&id).is_some_and(|all| all.contains(&n));
            assert!(
                is_known || is_possible,
                "item {id} has {n:?}; known {:?}, possible {:?}",
                self.known,
                self.possible
            );
            self.known.insert(id, n);
            self.possible.remove(&id);
        }
        let mut expected: Vec<String> = stored.keys().map(|id| format!("\"i{id}\"")).collect();
        for query_text in [
            "SELECT VALUE c.id FROM c",
            "SELECT VALUE c.id FROM c WHERE c.n >= 0",
            "SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(c.tags, 't')",
            "SELECT VALUE c.id FROM c ORDER BY c.n",
        ] {
            let mut found = rows(
                engine,
                container,
                &Scope::Everything,
                &query(query_text),
                &[2],
            )
            .expect("rows");
            found.sort();
            assert_eq!(found, expected, "{query_text}");
        }
        for item in stored.values() {
            let text = format!(
                "SELECT VALUE c.id FROM c WHERE c.n = {}",
                item.get("n").expect("n")
            );
            let found =
                rows(engine, container, &Scope::Everything, &query(&text), &[10]).expect("rows");
            assert_eq!(found, [item.get("id").expect("an id").to_text()], "{text}");
        }
        let (_, usage) = engine.quota(container);
        assert!(
            usage.contains(&format!("documentsCount={};", stored.len())),
            "{usage}"
        );
        check_counters(engine, container);
        let (ranges, _) = engine.partition_key_ranges(container).expect("ranges");
        let mut changed = Vec::new();
        for range in &ranges {
            assert!(
                range.lsn >= self.lsns.get(&range.id).copied().unwrap_or(0),
                "an acknowledged LSN is lost"
            );
            let scope = Scope::Range {
                id: range.id,
                within: None,
            };
            let page = engine
                .change_feed(container, &scope, &FeedStart::Beginning, None, None)
                .wait()
                .result
                .expect("changes");
            changed.extend(
                page.rows
                    .iter()
                    .map(|row| json(&text(row)).get("id").expect("an id").to_text()),
            );
        }
        changed.sort();
        expected.sort();
        assert_eq!(changed, expected, "the change feed");
    }

    /// Checks that writes succeed and that no LSN or item number is used twice.
    fn check_further_writes(&mut self, engine: &Engine, container: &Container) {
        let fresh = number_of(&json(&create(
            engine,
            container,
            r#"{"id":"fresh","pk":"fresh"}"#,
        )));
        assert!(
            self.numbers.iter().all(|used| *used < fresh),
            "the number {fresh} is not new"
        );
        let options = WriteOptions {
            partition_key: Some(key("[\"fresh\"]")),
            ..WriteOptions::default()
        };
        write(
            engine,
            container,
            &WriteOperation::Delete("fresh".into()),
            None,
            &options,
        )
        .result
        .expect("deleted");
        self.send(
            engine,
            container,
            &[
                Upsert(1, 90),
                Upsert(2, 90),
                Delete(1),
                Create(1, 91),
                Upsert(2, 92),
            ],
        )
        .expect("written");
        self.check(engine, container);
    }
}

/// Returns the container, and creates it if it is missing.
fn set_up(engine: &Engine) -> Result<Arc<Container>, Error> {
    match engine.container(Id::Name("db"), Id::Name("items")) {
        Ok(container) => Ok(container),
        Err(_) => create_container(engine, BODY, 2),
    }
}

/// Runs the history described at the top of this file.
fn history(engine: &Engine, ledger: &mut Ledger, script: &Script) -> Result<(), Error> {
    let container = set_up(engine)?;
    script
        .before
        .iter()
        .try_for_each(|writes| ledger.send(engine, &container, writes))?;
    engine
        .replace_container(&container, &object(OTHER_POLICY), None)
        .result?;
    // Writes and steps of the reindexing alternate.
    for writes in &script.after {
        engine.reindex_some(1)?;
        ledger.send(engine, &container, writes)?;
    }
    engine.finish_reindexing()?;
    // A split at the median, then a merge of the resulting partitions, with writes before, between
    // and after the steps.
    let split = RangeChange::Split {
        range: largest_range(engine, &container)?,
        at: SplitAt::Median,
    };
    let merge = RangeChange::Merge { ranges: Vec::new() };
    for (place, change) in [split, merge].into_iter().enumerate() {
        let change = match change {
            RangeChange::Merge { .. } => {
                let (ranges, _) = engine.partition_key_ranges(&container)?;
                RangeChange::Merge {
                    ranges: ranges.iter().map(|range| range.id).collect(),
                }
            }
            split => split,
        };
        let mut status = engine.begin_range_change(&container, change, true)?;
        for writes in &script.during_range_change[place] {
            ledger.send(engine, &container, writes)?;
            status = engine.step_range_change(status.id)?;
        }
        status = engine.finish_range_change(status.id)?;
        if let Some(failure) = status.failure {
            return Err(Error::internal(failure));
        }
        engine.destroy_deleted()?;
        ledger.send(engine, &container, &script.after_range_change[place])?;
    }
    Ok(())
}

/// Returns the id of the range with the most items.
fn largest_range(engine: &Engine, container: &Arc<Container>) -> Result<u32, Error> {
    let statistics = engine.read_container_with_statistics(container).result?;
    let statistics = json(&text(&statistics.body));
    let partitions = statistics
        .get("statistics")
        .and_then(|s| s.as_array())
        .expect("a list");
    let count = |partition: &&Json| partition.get("documentCount").and_then(Json::as_i64);
    let id = partitions
        .iter()
        .max_by_key(count)
        .and_then(|p| p.get("id")?.as_str()?.parse().ok());
    Ok(id.expect("a range"))
}

fn world() -> Arc<SeededWorld> {
    Arc::new(SeededWorld::new(START_MS, 5))
}

#[test]
fn a_crash_at_any_step_loses_nothing_that_was_acknowledged() {
    crash_at_each_step("the written history", &Script::written());
    let mut images = 0;
    let first = u64::from(setting("ORRERY_CRASH_FIRST", 0));
    for seed in first..first + u64::from(setting("ORRERY_CRASH_HISTORIES", 1)) {
        images += crash_at_each_step(&format!("history {seed}"), &Script::random(seed));
    }
    println!("crash images: {images}");
}

/// Runs a history once for each step at which the store can crash. Returns the number of steps.
#[track_caller]
fn crash_at_each_step(name: &str, script: &Script) -> u64 {
    let store = Arc::new(Crashing::new(None));
    let engine = open(store.clone(), Profile::Modern, world()).expect("an engine");
    history(&engine, &mut Ledger::default(), script)
        .unwrap_or_else(|e| panic!("{name}: nothing fails: {e:?}"));
    drop(engine);
    let steps = store.steps();
    assert!(steps > 30, "{name}: only {steps} steps");
    for step in 0..steps {
        let place = format!("{name}, step {step}");
        let (mut ledger, world) = (Ledger::default(), world());
        let store = Arc::new(Crashing::new(Some(step)));
        if let Ok(engine) = open(store.clone(), Profile::Modern, world.clone()) {
            let ended = history(&engine, &mut ledger, script);
            assert!(
                ended.is_err() || step + 1 >= steps,
                "no crash occurred at {place}"
            );
        }
        let store = Arc::new(store.reopen(None));
        let engine =
            open(store, Profile::Modern, world).unwrap_or_else(|e| panic!("{place}: {e:?}"));
        let container = set_up(&engine).unwrap_or_else(|e| panic!("{place}: {e:?}"));
        let database = engine.database(Id::Name("db")).expect("the database");
        assert_eq!(
            engine
                .list(Feed::Containers(&database), &PageRequest::default())
                .result
                .expect("a list")
                .rows
                .len(),
            1,
            "{place}"
        );
        ledger.check(&engine, &container);
        engine.finish_reindexing().expect("reindexing completes");
        ledger.check(&engine, &container);
        ledger.check_further_writes(&engine, &container);
    }
    steps
}

#[test]
fn a_second_crash_after_reopening_loses_no_acknowledged_write() {
    for step in 0..12 {
        let (mut ledger, world) = (Ledger::default(), world());
        let store = Arc::new(Crashing::new(Some(40)));
        let engine = open(store.clone(), Profile::Modern, world.clone()).expect("an engine");
        history(&engine, &mut ledger, &Script::written()).expect_err("it crashes");
        let store = Arc::new(store.reopen(Some(step)));
        if let Ok(engine) = open(store.clone(), Profile::Modern, world.clone()) {
            let container = set_up(&engine);
            _ = container.and_then(|c| {
                ledger.send(&engine, &c, &[Upsert(1, 80), Upsert(2, 81), Upsert(3, 82)])
            });
        }
        let engine = open(Arc::new(store.reopen(None)), Profile::Modern, world).expect("an engine");
        let container = set_up(&engine).expect("the container");
        ledger.check(&engine, &container);
        ledger.check_further_writes(&engine, &container);
    }
}

#[test]
fn a_failed_write_is_resolved_when_the_store_recovers() {
    for fault in [Fault::Refused, Fault::Lost, Fault::Applied] {
        for writes in 0..30 {
            let (mut ledger, world) = (Ledger::default(), world());
            let memory = Arc::new(MemoryStore::new());
            set_up(&open(memory.clone(), Profile::Modern, world.clone()).expect("an engine"))
                .expect("the container");
            let store = Arc::new(Failing::after(writes, fault, memory.clone()));
            let engine = open(store.clone(), Profile::Modern, world.clone()).expect("an engine");
            let container = set_up(&engine).expect("the container");
            for batch in BEFORE.iter().chain(AFTER) {
                let sent = ledger.send(&engine, &container, batch);
                assert!(
                    sent.is_ok() || store.is_broken(),
                    "{fault:?} after {writes}: {sent:?}"
                );
                if store.is_broken() {
                    break;
                }
            }
            store.repair();
            ledger.check(&engine, &container);
            ledger.check_further_writes(&engine, &container);
            drop(engine);
            let engine = open(memory, Profile::Modern, world).expect("an engine");
            let container = set_up(&engine).expect("the container");
            ledger.check(&engine, &container);
            ledger.check_further_writes(&engine, &container);
        }
    }
}

#[test]
fn a_write_refused_by_a_busy_store_is_429_and_may_be_retried() {
    let (mut ledger, world) = (Ledger::default(), world());
    let store = Arc::new(Failing::after(u64::MAX, Fault::Busy, MemoryStore::new()));
    let engine = open(store.clone(), Profile::Modern, world).expect("an engine");
    let container = set_up(&engine).expect("the container");
    ledger
        .send(&engine, &container, &[Upsert(1, 80)])
        .expect("nothing fails");
    store.fail_next();
    let write = |body: &str| {
        support::write(
            &engine,
            &container,
            &WriteOperation::Upsert,
            Some(body),
            &WriteOptions::default(),
        )
        .result
    };
    let item = r#"{"id":"1","pk":"busy","n":1}"#;
    let refused = write(item).expect_err("the store is busy");
    assert_eq!(
        (
            refused.status(),
            refused.sub_status(),
            refused.retry_after_ms()
        ),
        (429, 3200, Some(1_000))
    );
    write(item).expect("the store is busy only once");
    ledger
        .send(&engine, &container, &[Upsert(1, 81)])
        .expect("other writes succeed");
}

#[test]
#[expect(clippy::too_many_lines, reason = "all that a directory keeps")]
fn a_reopened_directory_keeps_everything() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let open_store =
        || Arc::new(LocalStore::open(&path, LocalOptions::default()).expect("the store opens"));
    let (mut ledger, world) = (Ledger::default(), world());
    let contents = |engine: &Engine| {
        let container = set_up(engine).expect("the container");
        let database = engine.database(Id::Name("db")).expect("the database");
        let all = |feed: Feed<'_>| {
            let page = engine
                .list(feed, &PageRequest::default())
                .result
                .expect("a list");
            page.rows.iter().map(|row| text(row)).collect::<Vec<_>>()
        };
        let (ranges, etag) = engine.partition_key_ranges(&container).expect("ranges");
        let ranges: Vec<String> = ranges.iter().map(|range| format!("{range:?}")).collect();
        let items = rows(
            engine,
            &container,
            &Scope::Everything,
            &query("SELECT * FROM c"),
            &[100],
        )
        .expect("items");
        let lists = [
            all(Feed::Databases),
            all(Feed::Containers(&database)),
            all(Feed::Offers),
            all(Feed::Scripts(&container, ScriptKind::Function)),
            all(Feed::Scripts(&container, ScriptKind::Procedure)),
            all(Feed::Scripts(&container, ScriptKind::Trigger)),
        ];
        (lists, ranges, etag, items)
    };
    let store = open_store();
    let engine = open(store.clone(), Profile::Modern, world.clone()).expect("an engine");
    history(&engine, &mut ledger, &Script::written()).expect("nothing fails");
    let container = set_up(&engine).expect("the container");
    for (kind, extra) in [
        (ScriptKind::Function, ""),
        (ScriptKind::Procedure, ""),
        (
            ScriptKind::Trigger,
            r#","triggerType":"Pre","triggerOperation":"All""#,
        ),
    ] {
        let body = format!(r#"{{"id":"script","body":"function f(x) {{ return x; }}"{extra}}}"#);
        engine
            .create_script(&container, kind, &object(&body), false)
            .result
            .expect("the script is created");
    }
    let before = contents(&engine);
    assert!(before.0.iter().all(|list| !list.is_empty()) && !before.3.is_empty());
    let session: Vec<String> = ledger
        .lsns
        .iter()
        .map(|(range, lsn)| format!("{range}:-1#{lsn}"))
        .collect();
    engine.shut_down().expect("everything is durable");
    drop((container, engine, store));
    for _ in 0..2 {
        let engine = open(open_store(), Profile::Modern, world.clone()).expect("an engine");
        assert_eq!(contents(&engine), before);
        let container = set_up(&engine).expect("the container");
        ledger.check(&engine, &container);
        let read = engine.read_item(
            &container,
            &key("[\"p0\"]"),
            "i3",
            None,
            Some(session.join(",").as_str()),
        );
        assert!(
            matches!(read.wait().result, Ok(ReadReply::Item { .. })),
            "the session is reached"
        );
    }
    let engine = open(open_store(), Profile::Modern, world).expect("an engine");
    ledger.check_further_writes(&engine, &set_up(&engine).expect("the container"));
}

/// Rows that are accepted but not yet durable refuse a conflicting write, also if one commit
/// removes and writes the same key.
#[test]
fn an_expired_item_is_replaced_by_one_new_item_only() {
    let world = world();
    let store = Arc::new(Crashing::new(None));
    let engine = open(store, Profile::Modern, world.clone()).expect("an engine");
    let body = r#"{"id":"items","partitionKey":{"paths":["/pk"]},"defaultTtl":10}"#;
    let container = create_container(&engine, body, 1).expect("the container");
    let item = r#"{"id":"a","pk":"p"}"#;
    create(&engine, &container, item);
    world.advance_ms(20_000);
    let send = || {
        engine.write_item(
            &container,
            &WriteOperation::Create,
            Some(item.as_bytes()),
            &WriteOptions::default(),
        )
    };
    let first = send();
    assert!(!first.is_refused(), "the old item is expired");
    let second = send();
    assert!(
        second.is_refused(),
        "the first write holds the id before it is durable"
    );
    let refusal = second.wait().result.expect_err("refused");
    assert_eq!(refusal.kind(), Kind::Conflict);
    assert!(first.wait().result.is_ok());
}
