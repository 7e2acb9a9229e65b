//! Splits and merges while a container is written and read, against a model.
//!
//! A run takes random steps: writes, steps of splits and merges, pages of queries that began earlier, pages of change
//! feeds that follow ranges as the SDKs do. Whatever the steps, items, index and counters are what the model says; a
//! paged query gives each item that stayed as it was exactly once; a change feed ends with the newest version of each
//! item; the feed of all versions gives each change of each item, once and in order.

mod support;

use orrery_engine::request::*;
use orrery_engine::{Container, Engine, EngineOptions, Profile};
use orrery_model::partition_key::EpkRange;
use orrery_model::world::{SeededWorld, World};
use orrery_model::{Json, Kind};
use orrery_storage::MemoryStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use support::*;

const HASH: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},"defaultTtl":-1,"changeFeedPolicy":{"retentionDuration":60}}"#;
const OLD_HASH: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"]}}"#;
const LEVELS: &str =
    r#"{"id":"items","partitionKey":{"paths":["/pk","/sub"],"kind":"MultiHash","version":2}}"#;

/// Queries that are read page by page while everything moves.
const QUERIES: [&str; 4] = [
    "SELECT * FROM c",
    "SELECT * FROM c ORDER BY c.n",
    "SELECT * FROM c ORDER BY c.n DESC",
    "SELECT * FROM c WHERE c.n >= 0 AND c.parity = 'even'",
];

/// A query on its way.
struct Reading {
    request: QueryRequest,
    /// Items as they were when it began, by id, with what was changed since left out.
    unchanged: BTreeMap<String, u64>,
    seen: BTreeSet<String>,
}

/// A reader of changes: a stretch, and the LSN that it has read up to.
struct Follower {
    stretch: EpkRange,
    start: FeedStart,
}

struct Run {
    bench: Bench,
    container: Arc<Container>,
    levels: usize,
    /// What every item is, by id: its value.
    model: BTreeMap<String, u64>,
    value: u64,
    operation: Option<u64>,
    readings: Vec<Reading>,
    followers: Vec<Follower>,
    /// The newest version of each item in the change feed.
    followed: BTreeMap<String, u64>,
    /// Readers of all versions, where the container keeps them.
    version_followers: Vec<Follower>,
    /// Every change of each item: its value, or that it was deleted.
    changes: BTreeMap<String, Vec<Option<u64>>>,
    followed_changes: BTreeMap<String, Vec<Option<u64>>>,
    repartitions: usize,
}

impl Run {
    fn new(body: &str, seed: u64) -> Run {
        let bench = Bench::new(Profile::Modern, seed);
        let container = bench.container(body, 1);
        let levels = container.partition_key().paths().len();
        let followers = vec![Follower {
            stretch: EpkRange::all(),
            start: FeedStart::Beginning,
        }];
        let keeps_versions = body.contains("changeFeedPolicy");
        let versions = Follower {
            stretch: EpkRange::all(),
            start: FeedStart::Lsn(1),
        };
        Run {
            bench,
            container,
            levels,
            model: BTreeMap::new(),
            value: 0,
            operation: None,
            readings: Vec::new(),
            followers,
            followed: BTreeMap::new(),
            version_followers: keeps_versions.then_some(versions).into_iter().collect(),
            changes: BTreeMap::new(),
            followed_changes: BTreeMap::new(),
            repartitions: 0,
        }
    }

    fn engine(&self) -> &Engine {
        &self.bench.engine
    }

    fn random(&self, below: u64) -> u64 {
        self.bench.world.random() % below
    }

    fn key_of(&self, item: u64) -> String {
        match self.levels {
            1 => format!("[\"p{}\"]", item % 7),
            _ => format!("[\"p{}\",\"s{}\"]", item % 2, item % 11),
        }
    }

    fn write(&mut self) {
        let item = self.random(60);
        let (id, partition_key) = (format!("i{item}"), Some(key(&self.key_of(item))));
        self.value += 1;
        let options = WriteOptions {
            partition_key,
            ..WriteOptions::default()
        };
        let exists = self.model.contains_key(&id);
        let operation = match (exists, self.random(4)) {
            (true, 0) => WriteOperation::Delete(id.clone()),
            (true, 1) => WriteOperation::Replace(id.clone()),
            _ => WriteOperation::Upsert,
        };
        let n = self.value;
        let parity = if n.is_multiple_of(2) { "even" } else { "odd" };
        let filler = if n.is_multiple_of(13) {
            "x".repeat(130_000)
        } else {
            "y".repeat((n % 50) as usize)
        };
        let ttl = if n.is_multiple_of(5) {
            r#","ttl":1000"#
        } else {
            ""
        };
        let body = format!(
            r#"{{"id":"{id}","pk":"p{}","sub":"s{}","n":{n},"u":{n},"parity":"{parity}","x{}":[{n},{{"y":1}}],"filler":"{filler}"{ttl}}}"#,
            if self.levels == 1 { item % 7 } else { item % 2 },
            item % 11,
            n % 9,
        );
        let body = (!matches!(operation, WriteOperation::Delete(_))).then_some(&body[..]);
        let done = write(self.engine(), &self.container, &operation, body, &options);
        match done.result {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), Kind::CompletingSplit, "{error:?}");
                return;
            }
        }
        for reading in &mut self.readings {
            reading.unchanged.remove(&id);
        }
        self.changes
            .entry(id.clone())
            .or_default()
            .push(body.map(|_| n));
        match body {
            Some(_) => _ = self.model.insert(id, n),
            None => _ = self.model.remove(&id),
        }
    }

    /// Begins a split or merge, or takes its next step.
    fn range_change(&mut self) {
        if let Some(id) = self.operation {
            let give_up = self.random(12) == 0;
            let engine = self.engine();
            let status = if give_up {
                engine.cancel_range_change(id)
            } else {
                engine.step_range_change(id)
            };
            let status = status.expect("it is known");
            assert_eq!(status.failure, None);
            if status.stage.is_over() {
                self.operation = None;
                self.repartitions += usize::from(status.stage == RangeChangeStage::Done);
                self.check();
            }
            return;
        }
        let (ranges, _) = self
            .engine()
            .partition_key_ranges(&self.container)
            .expect("ranges");
        let at = self.random(ranges.len() as u64) as usize;
        let change = match ranges.len() {
            many if many > 1 && self.random(2) == 0 => {
                let count = 2 + self.random(2) as usize;
                RangeChange::Merge {
                    ranges: ranges
                        .iter()
                        .skip(at)
                        .take(count)
                        .map(|range| range.id)
                        .collect(),
                }
            }
            _ => {
                let at_point = if self.random(2) == 0 {
                    SplitAt::Middle
                } else {
                    SplitAt::Median
                };
                RangeChange::Split {
                    range: ranges[at].id,
                    at: at_point,
                }
            }
        };
        match self
            .engine()
            .begin_range_change(&self.container, change, true)
        {
            Ok(begun) => self.operation = Some(begun.id),
            Err(error) => assert_eq!(error.kind(), Kind::BadRequest, "{error:?}"),
        }
    }

    fn read_on(&mut self) {
        if self.readings.is_empty() || self.readings.len() < 4 && self.random(4) == 0 {
            let text = QUERIES[self.random(QUERIES.len() as u64) as usize];
            let of_it = |n: &u64| !text.contains("even") || n.is_multiple_of(2);
            let unchanged = self
                .model
                .iter()
                .filter(|(_, n)| of_it(n))
                .map(|(id, n)| (id.clone(), *n))
                .collect();
            self.readings.push(Reading {
                request: query(text),
                unchanged,
                seen: BTreeSet::new(),
            });
        }
        let at = self.random(self.readings.len() as u64) as usize;
        let size = 1 + self.random(6) as usize;
        let mut reading = self.readings.swap_remove(at);
        reading.request.page.max_items = Some(size);
        let answer =
            self.engine()
                .query(&self.container, &Scope::Everything, &reading.request, None);
        let page = match answer.result {
            Ok(answer) => answer.page,
            Err(error) => {
                assert_eq!(error.kind(), Kind::CompletingSplit, "{error:?}");
                return self.readings.push(reading);
            }
        };
        for row in &page.rows {
            let id = id_of(&json(&text(row)));
            let is_new = reading.seen.insert(id.clone());
            assert!(
                is_new || !reading.unchanged.contains_key(&id),
                "{id} came twice: {}",
                reading.request.text
            );
        }
        reading.request.page.continuation = page.continuation;
        if reading.request.page.continuation.is_some() {
            return self.readings.push(reading);
        }
        let missing: Vec<_> = reading
            .unchanged
            .keys()
            .filter(|id| !reading.seen.contains(*id))
            .collect();
        assert!(
            missing.is_empty(),
            "{missing:?} never came: {}",
            reading.request.text
        );
    }

    /// Reads the changes of one stretch, as SDKs do: by the range that holds it, and where others took its place by
    /// those.
    fn follow(&mut self) {
        let at = self.random(self.followers.len() as u64) as usize;
        let follower = self.followers.swap_remove(at);
        let (rows, followers) = self.changes_of(follower, false);
        self.followers.extend(followers);
        for row in rows {
            let (id, n) = (id_of(&row), number(&row, "n"));
            let last = self.followed.insert(id.clone(), n).unwrap_or(0);
            assert!(n > last, "{id}: version {n} came after {last}");
        }
    }

    /// The same with all versions.
    fn follow_versions(&mut self) {
        if self.version_followers.is_empty() {
            return;
        }
        let at = self.random(self.version_followers.len() as u64) as usize;
        let follower = self.version_followers.swap_remove(at);
        let (rows, followers) = self.changes_of(follower, true);
        self.version_followers.extend(followers);
        for row in rows {
            let metadata = row.get("metadata").expect("metadata");
            let is_deleted = metadata.get("operationType").and_then(Json::as_str) == Some("delete");
            let current = row.get("current").expect("an image");
            let id = id_of(if is_deleted { metadata } else { current });
            let change = (!is_deleted).then(|| number(current, "n"));
            self.followed_changes.entry(id).or_default().push(change);
        }
    }

    /// A page of each range that has something of a follower's stretch; the followers that go on from there.
    fn changes_of(&self, follower: Follower, all_versions: bool) -> (Vec<Json>, Vec<Follower>) {
        let Follower { stretch, start } = follower;
        let (mut changes, mut followers) = (Vec::new(), Vec::new());
        let (ranges, _) = self
            .engine()
            .partition_key_ranges(&self.container)
            .expect("ranges");
        for range in ranges {
            let Some(both) = range.range.intersection(&stretch) else {
                continue;
            };
            let scope = Scope::Range {
                id: range.id,
                within: Some(both.clone()),
            };
            let most = Some(1 + self.random(8) as usize);
            let page = match all_versions {
                true => {
                    self.engine()
                        .all_versions_feed(&self.container, &scope, &start, most, None)
                        .wait()
                        .result
                }
                false => {
                    self.engine()
                        .change_feed(&self.container, &scope, &start, most, None)
                        .wait()
                        .result
                }
            };
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    assert_eq!(error.kind(), Kind::CompletingSplit, "{error:?}");
                    followers.push(Follower {
                        stretch: both,
                        start: start.clone(),
                    });
                    continue;
                }
            };
            changes.extend(page.rows.iter().map(|row| json(&text(row))));
            followers.push(Follower {
                stretch: both,
                start: FeedStart::Lsn(page.continue_after),
            });
        }
        (changes, followers)
    }

    /// What is there is what the model says.
    fn check(&mut self) {
        let (engine, container) = (self.engine(), &self.container);
        check_counters(engine, container);
        let all = rows(
            engine,
            container,
            &Scope::Everything,
            &query("SELECT * FROM c"),
            &[7],
        )
        .expect("rows");
        let found: BTreeMap<String, u64> = all
            .iter()
            .map(|row| json(row))
            .map(|item| (id_of(&item), number(&item, "n")))
            .collect();
        assert_eq!((all.len(), &found), (self.model.len(), &self.model));
        let ordered = query("SELECT VALUE c.n FROM c WHERE c.n > 0 ORDER BY c.n");
        let numbers = rows(engine, container, &Scope::Everything, &ordered, &[5]).expect("rows");
        let mut wanted: Vec<u64> = self.model.values().copied().collect();
        wanted.sort_unstable();
        assert_eq!(
            numbers,
            wanted.iter().map(u64::to_string).collect::<Vec<_>>()
        );
        let one = |text: &str| {
            rows(engine, container, &Scope::Everything, &query(text), &[1])
                .expect("a row")
                .concat()
        };
        assert_eq!(
            one("SELECT VALUE COUNT(1) FROM c"),
            self.model.len().to_string()
        );
        let (_, usage) = engine.quota(container);
        assert!(
            usage.contains(&format!("documentsCount={};", self.model.len())),
            "{usage}"
        );
        let bytes: u64 = all.iter().map(|row| row.len() as u64).sum();
        assert!(
            usage.contains(&format!("documentsSize={};", bytes.div_ceil(1024))),
            "{usage} for {bytes} bytes"
        );
        for item in 0..60 {
            let id = format!("i{item}");
            let there = read(engine, container, &self.key_of(item), &id)
                .ok()
                .map(|text| number(&json(&text), "n"));
            assert_eq!(there, self.model.get(&id).copied(), "{id}");
        }
    }

    fn finish(mut self) -> usize {
        if let Some(id) = self.operation.take() {
            self.engine().finish_range_change(id).expect("it is known");
        }
        self.engine()
            .destroy_deleted()
            .expect("old homes are given back");
        while !self.readings.is_empty() {
            self.read_on();
        }
        for _ in 0..self.followers.len() * 30 {
            self.follow();
        }
        for _ in 0..self.version_followers.len() * 60 {
            self.follow_versions();
        }
        assert!(
            self.version_followers.is_empty() || self.followed_changes == self.changes,
            "all versions"
        );
        for (id, n) in &self.model {
            assert_eq!(
                self.followed.get(id),
                Some(n),
                "the newest version of {id} never came"
            );
        }
        self.check();
        self.repartitions
    }
}

fn id_of(item: &Json) -> String {
    item.get("id")
        .and_then(Json::as_str)
        .expect("an id")
        .to_owned()
}

fn number(item: &Json, name: &str) -> u64 {
    item.get(name).and_then(Json::as_i64).expect("a number") as u64
}

fn seeds() -> u64 {
    std::env::var("ORRERY_SPLIT_RUNS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(3)
}

#[test]
fn whatever_is_split_and_merged_nothing_is_lost_doubled_or_out_of_order() {
    let mut repartitions = 0;
    for seed in 0..seeds() {
        for body in [HASH, OLD_HASH, LEVELS] {
            let mut run = Run::new(body, seed);
            for _ in 0..500 {
                match run.random(10) {
                    0..4 => run.write(),
                    4..6 => run.range_change(),
                    6..8 => run.read_on(),
                    8 => {
                        run.follow();
                        run.follow_versions();
                    }
                    _ => run
                        .engine()
                        .destroy_deleted()
                        .expect("old homes are given back"),
                }
            }
            repartitions += run.finish();
        }
    }
    assert!(
        repartitions as u64 > seeds() * 30,
        "only {repartitions} splits and merges"
    );
}

#[test]
fn a_partition_that_holds_too_much_is_split() {
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let options = EngineOptions {
        partition_bytes: 20_000,
        ..options(Profile::Modern)
    };
    let engine = Engine::open(Arc::new(MemoryStore::new()), options, world).expect("an engine");
    let container = create_container(&engine, LEVELS, 1).expect("the container");
    for item in 0..100 {
        create(
            &engine,
            &container,
            &format!(
                r#"{{"id":"i{item}","pk":"one","sub":"s{item}","x":"{}"}}"#,
                "x".repeat(300)
            ),
        );
    }
    engine.split_where_needed().expect("partitions are split");
    let held = engine
        .read_container_with_statistics(&container)
        .result
        .expect("statistics")
        .body;
    let held = json(&text(&held))
        .get("statistics")
        .and_then(Json::as_array)
        .expect("a list")
        .to_vec();
    // Below one first level of the key, too; what has one key only stays in one piece.
    assert!((4..8).contains(&held.len()), "{held:?}");
    assert!(
        held.iter()
            .all(|partition| number(partition, "sizeInKB") <= 20),
        "{held:?}"
    );
    for item in 0..100 {
        read(
            &engine,
            &container,
            &format!("[\"one\",\"s{item}\"]"),
            &format!("i{item}"),
        )
        .expect("it is there");
    }
    let prefix = Scope::Key(key("[\"one\"]"));
    assert_eq!(
        rows(
            &engine,
            &container,
            &prefix,
            &query("SELECT c.id FROM c"),
            &[7]
        )
        .expect("rows")
        .len(),
        100
    );
    let large = format!(
        r#"{{"id":"large","pk":"two","sub":"s","x":"{}"}}"#,
        "x".repeat(50_000)
    );
    create(&engine, &container, &large);
    engine
        .split_where_needed()
        .expect("there is nothing more to part");
    read(&engine, &container, "[\"two\",\"s\"]", "large").expect("it is there");
}

#[test]
fn what_is_no_split_or_merge_is_refused_and_changes_nothing() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(OLD_HASH, 4);
    let refused = |change: RangeChange| {
        let error = bench
            .engine
            .begin_range_change(&container, change, true)
            .expect_err("it is refused");
        (error.status(), error.sub_status())
    };
    let merge = |ranges: &[u32]| RangeChange::Merge {
        ranges: ranges.to_vec(),
    };
    let split = |range: u32, at: SplitAt| RangeChange::Split { range, at };
    assert_eq!(refused(merge(&[])), (400, 0));
    assert_eq!(refused(merge(&[1])), (400, 0));
    assert_eq!(refused(merge(&[0, 2])), (400, 0));
    assert_eq!(refused(merge(&[1, 1])), (400, 0));
    assert_eq!(refused(merge(&[1, 9])), (410, 1002));
    assert_eq!(refused(split(9, SplitAt::Middle)), (410, 1002));
    assert_eq!(refused(split(0, SplitAt::Median)), (400, 0));
    let elsewhere = container.partitions()[2].range.min.clone();
    assert_eq!(refused(split(0, SplitAt::Border(elsewhere))), (400, 0));
    let begun = bench
        .engine
        .begin_range_change(&container, merge(&[0, 1]), true)
        .expect("it begins");
    assert_eq!(refused(split(1, SplitAt::Middle)), (409, 0));
    assert_eq!(
        bench
            .engine
            .cancel_range_change(begun.id)
            .expect("known")
            .stage,
        RangeChangeStage::Cancelled
    );
    assert_eq!(
        bench
            .engine
            .finish_range_change(begun.id)
            .expect("known")
            .stage,
        RangeChangeStage::Cancelled
    );
    let begun = bench
        .engine
        .begin_range_change(&container, split(1, SplitAt::Middle), false)
        .expect("it begins");
    assert_eq!(
        bench
            .engine
            .finish_range_change(begun.id)
            .expect("known")
            .new_ranges,
        [4, 5]
    );
    assert_eq!(
        bench.engine.range_change(99).expect_err("unknown").status(),
        404
    );
    assert_eq!(bench.engine.range_changes().len(), 2);
}

#[test]
fn a_deleted_container_ends_its_splits() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(HASH, 1);
    let split = RangeChange::Split {
        range: 0,
        at: SplitAt::Middle,
    };
    let begun = bench
        .engine
        .begin_range_change(&container, split, true)
        .expect("it begins");
    bench
        .engine
        .delete_container(&container, None)
        .result
        .expect("deleted");
    let status = bench.engine.finish_range_change(begun.id).expect("known");
    assert_eq!(status.stage, RangeChangeStage::Failed);
    assert!(status.failure.is_some());
    bench
        .engine
        .destroy_deleted()
        .expect("all homes are given back");
}

#[test]
fn a_range_that_is_being_split_says_so() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(HASH, 2);
    let shown = || {
        let (ranges, etag) = bench
            .engine
            .partition_key_ranges(&container)
            .expect("ranges");
        let splitting: Vec<u32> = ranges
            .iter()
            .filter(|range| range.is_splitting)
            .map(|range| range.id)
            .collect();
        (splitting, etag)
    };
    let before = shown();
    assert!(before.0.is_empty());
    let split = RangeChange::Split {
        range: 1,
        at: SplitAt::Middle,
    };
    let begun = bench
        .engine
        .begin_range_change(&container, split, true)
        .expect("it begins");
    let meanwhile = shown();
    assert_eq!(meanwhile.0, [1]);
    assert_ne!(
        meanwhile.1, before.1,
        "clients that ask for changes are told"
    );
    bench.engine.finish_range_change(begun.id).expect("known");
    let after = shown();
    assert!(after.0.is_empty() && after.1 != meanwhile.1);
}
