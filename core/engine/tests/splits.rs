//! Splits and merges while a container is written and read, compared with a model.
//!
//! A run takes random steps: writes, steps of splits and merges, pages of queries that began
//! earlier, and pages of change feeds that follow ranges as the SDKs do. After any steps, items,
//! index and counters equal the model; a paged query returns each unchanged item exactly once; a
//! change feed ends with the newest version of each item; the feed of all versions contains each
//! change of each item, once and in order.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, EngineOptions, Profile};
use orrery_model::partition_key::EpkRange;
use orrery_model::world::{SeededWorld, World};
use orrery_model::{Json, Kind};
use orrery_storage::MemoryStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const HASH: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},"defaultTtl":-1,
    "changeFeedPolicy":{"retentionDuration":60}}"#;
const OLD_HASH: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"]}}"#;
const LEVELS: &str = r#"{"id":"items",
    "partitionKey":{"paths":["/pk","/sub"],"kind":"MultiHash","version":2},
    "vectorEmbeddingPolicy":{"vectorEmbeddings":[
        {"path":"/v","dataType":"float32","dimensions":2,"distanceFunction":"euclidean"}]},
    "fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/t"}]},
    "indexingPolicy":{"vectorIndexes":[{"path":"/v","type":"flat"}],
        "fullTextIndexes":[{"path":"/t"}]}}"#;

/// Queries that are read page by page during splits and merges.
const QUERIES: [&str; 4] = [
    "SELECT * FROM c",
    "SELECT * FROM c ORDER BY c.n",
    "SELECT * FROM c ORDER BY c.n DESC",
    "SELECT * FROM c WHERE c.n >= 0 AND c.parity = 'even'",
];

/// A query with pages left to read.
struct PagedQuery {
    request: QueryRequest,
    /// Values by id of the items that did not change since the first page.
    unchanged: BTreeMap<String, u64>,
    seen: BTreeSet<String>,
}

/// A reader of a change feed: its EPK range, and the position of its next page.
struct Follower {
    epk_range: EpkRange,
    start: FeedStart,
}

struct Run {
    bench: Bench,
    container: Arc<Container>,
    levels: usize,
    /// The value of every item, by id.
    model: BTreeMap<String, u64>,
    value: u64,
    operation: Option<u64>,
    paged_queries: Vec<PagedQuery>,
    followers: Vec<Follower>,
    /// The newest version of each item in the change feed.
    followed: BTreeMap<String, u64>,
    /// Readers of the feed of all versions, if the container keeps versions.
    version_followers: Vec<Follower>,
    /// All changes of each item in order: its value, or `None` for a delete.
    changes: BTreeMap<String, Vec<Option<u64>>>,
    followed_changes: BTreeMap<String, Vec<Option<u64>>>,
    range_changes: usize,
}

impl Run {
    fn new(body: &str, seed: u64) -> Run {
        let bench = Bench::new(Profile::Modern, seed);
        let container = bench.container(body, 1);
        let levels = container.partition_key().paths().len();
        let followers = vec![Follower {
            epk_range: EpkRange::all(),
            start: FeedStart::Beginning,
        }];
        let keeps_versions = body.contains("changeFeedPolicy");
        let versions = Follower {
            epk_range: EpkRange::all(),
            start: FeedStart::Lsn(1),
        };
        Run {
            bench,
            container,
            levels,
            model: BTreeMap::new(),
            value: 0,
            operation: None,
            paged_queries: Vec::new(),
            followers,
            followed: BTreeMap::new(),
            version_followers: keeps_versions.then_some(versions).into_iter().collect(),
            changes: BTreeMap::new(),
            followed_changes: BTreeMap::new(),
            range_changes: 0,
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

    /// Writes or deletes a random item.
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
            concat!(
                r#"{{"id":"{id}","pk":"p{}","sub":"s{}","n":{n},"u":{n},"parity":"{parity}","#,
                r#""x{}":[{n},{{"y":1}}],"v":[{},{}],"t":"w{} w{} {parity}","#,
                r#""filler":"{filler}"{ttl}}}"#,
            ),
            if self.levels == 1 { item % 7 } else { item % 2 },
            item % 11,
            n % 9,
            n % 50,
            n % 7,
            n % 3,
            n % 5,
            id = id,
            n = n,
            parity = parity,
            filler = filler,
            ttl = ttl,
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
        for paged_query in &mut self.paged_queries {
            paged_query.unchanged.remove(&id);
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

    /// Begins a split or merge, or runs or cancels the current one.
    fn range_change(&mut self) {
        if let Some(id) = self.operation {
            let should_cancel = self.random(12) == 0;
            let engine = self.engine();
            let status = if should_cancel {
                engine.cancel_range_change(id)
            } else {
                engine.step_range_change(id)
            };
            let status = status.expect("the change is known");
            assert_eq!(status.failure, None);
            if status.stage.is_over() {
                self.operation = None;
                self.range_changes += usize::from(status.stage == RangeChangeStage::Done);
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
        // A merge of one range and a split of a range of one key are refused.
        match self
            .engine()
            .begin_range_change(&self.container, change, true)
        {
            Ok(begun) => self.operation = Some(begun.id),
            Err(error) => assert_eq!(error.kind(), Kind::BadRequest, "{error:?}"),
        }
    }

    /// Begins a query, or reads the next page of one, and checks its rows.
    fn read_page(&mut self) {
        if self.paged_queries.is_empty() || self.paged_queries.len() < 4 && self.random(4) == 0 {
            let text = QUERIES[self.random(QUERIES.len() as u64) as usize];
            let matches_query = |n: &u64| !text.contains("even") || n.is_multiple_of(2);
            let unchanged = self
                .model
                .iter()
                .filter(|(_, n)| matches_query(n))
                .map(|(id, n)| (id.clone(), *n))
                .collect();
            self.paged_queries.push(PagedQuery {
                request: query(text),
                unchanged,
                seen: BTreeSet::new(),
            });
        }
        let at = self.random(self.paged_queries.len() as u64) as usize;
        let size = 1 + self.random(6) as usize;
        let mut paged_query = self.paged_queries.swap_remove(at);
        paged_query.request.page.max_items = Some(size);
        let answer = self.engine().query(
            &self.container,
            &Scope::Everything,
            &paged_query.request,
            None,
        );
        let page = match answer.result {
            Ok(answer) => answer.page,
            Err(error) => {
                assert_eq!(error.kind(), Kind::CompletingSplit, "{error:?}");
                return self.paged_queries.push(paged_query);
            }
        };
        for row in &page.rows {
            let id = id_of(&json(&text(row)));
            let is_new = paged_query.seen.insert(id.clone());
            assert!(
                is_new || !paged_query.unchanged.contains_key(&id),
                "{id} is on two pages: {}",
                paged_query.request.text
            );
        }
        paged_query.request.page.continuation = page.continuation;
        if paged_query.request.page.continuation.is_some() {
            return self.paged_queries.push(paged_query);
        }
        let missing: Vec<_> = paged_query
            .unchanged
            .keys()
            .filter(|id| !paged_query.seen.contains(*id))
            .collect();
        assert!(
            missing.is_empty(),
            "{missing:?} are missing: {}",
            paged_query.request.text
        );
    }

    /// Reads the changes of one EPK range as SDKs do: from the partition key range that contains
    /// the EPK range, or from the successors of that partition key range.
    fn follow(&mut self) {
        let at = self.random(self.followers.len() as u64) as usize;
        let follower = self.followers.swap_remove(at);
        let (rows, followers) = self.changes_of(follower, false);
        self.followers.extend(followers);
        for row in rows {
            let (id, n) = (id_of(&row), number(&row, "n"));
            let last = self.followed.insert(id.clone(), n).unwrap_or(0);
            assert!(n > last, "{id}: version {n} follows {last}");
        }
    }

    /// Reads the changes of one EPK range from the feed of all versions.
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

    /// Reads a page from each partition that overlaps the follower's EPK range. Returns the
    /// changes, and the followers that continue after the pages.
    fn changes_of(&self, follower: Follower, all_versions: bool) -> (Vec<Json>, Vec<Follower>) {
        let Follower { epk_range, start } = follower;
        let (mut changes, mut followers) = (Vec::new(), Vec::new());
        let (ranges, _) = self
            .engine()
            .partition_key_ranges(&self.container)
            .expect("ranges");
        for range in ranges {
            let Some(overlap) = range.range.intersection(&epk_range) else {
                continue;
            };
            let scope = Scope::Range {
                id: range.id,
                within: Some(overlap.clone()),
            };
            let max_items = Some(1 + self.random(8) as usize);
            let page = match all_versions {
                true => {
                    self.engine()
                        .all_versions_feed(&self.container, &scope, &start, max_items, None)
                        .wait()
                        .result
                }
                false => {
                    self.engine()
                        .change_feed(&self.container, &scope, &start, max_items, None)
                        .wait()
                        .result
                }
            };
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    assert_eq!(error.kind(), Kind::CompletingSplit, "{error:?}");
                    followers.push(Follower {
                        epk_range: overlap,
                        start: start.clone(),
                    });
                    continue;
                }
            };
            changes.extend(page.rows.iter().map(|row| json(&text(row))));
            followers.push(Follower {
                epk_range: overlap,
                start: FeedStart::Lsn(page.continue_after),
            });
        }
        (changes, followers)
    }

    /// Compares items, index and counters with the model.
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
        let mut expected: Vec<u64> = self.model.values().copied().collect();
        expected.sort_unstable();
        assert_eq!(
            numbers,
            expected.iter().map(u64::to_string).collect::<Vec<_>>()
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
        if self.levels > 1 {
            self.check_search();
        }
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
            let stored = read(engine, container, &self.key_of(item), &id)
                .ok()
                .map(|text| number(&json(&text), "n"));
            assert_eq!(stored, self.model.get(&id).copied(), "{id}");
        }
    }

    /// Compares searches by the vector and full-text indexes with those by the items.
    fn check_search(&self) {
        let run = |scope: &Scope, text: &str| {
            rows(self.engine(), &self.container, scope, &query(text), &[100]).expect("rows")
        };
        // Another data type needs the items.
        let nearest = |options: &str| {
            let order = format!("VectorDistance(c.v, [3,3], false, {{{options}}})");
            let text = format!("SELECT TOP 20 VALUE c.id FROM c ORDER BY {order}");
            run(&Scope::Everything, &text)
        };
        assert_eq!(nearest(""), nearest("'dataType':'float16'"));

        let with_word = self.model.values().filter(|n| **n % 3 == 1 || **n % 5 == 1);
        let text = "SELECT VALUE COUNT(1) FROM c WHERE FullTextContains(c.t, 'w1')";
        assert_eq!(
            run(&Scope::Everything, text),
            [with_word.count().to_string()]
        );

        // Each text has three words.
        let (ranges, _) = self
            .engine()
            .partition_key_ranges(&self.container)
            .expect("ranges");
        let mut words = 0;
        for range in ranges {
            let scope = Scope::Range {
                id: range.id,
                within: None,
            };
            let sum = run(&scope, "SELECT VALUE SUM(_FullTextWordCount(c.t)) FROM c");
            words += sum[0].parse::<usize>().expect("a number");
        }
        assert_eq!(words, self.model.len() * 3);
    }

    /// Completes the current split or merge and all readers, and compares everything with the
    /// model. Returns the number of completed splits and merges.
    fn finish(mut self) -> usize {
        if let Some(id) = self.operation.take() {
            self.engine()
                .finish_range_change(id)
                .expect("the change is known");
        }
        self.engine()
            .destroy_deleted()
            .expect("the data of old partitions is deleted");
        while !self.paged_queries.is_empty() {
            self.read_page();
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
                "the newest version of {id} is missing"
            );
        }
        self.check();
        self.range_changes
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

/// Returns the seeds: `ORRERY_SPLIT_RUNS` of them, the first of which is `ORRERY_SPLIT_FIRST`.
fn seeds() -> std::ops::Range<u64> {
    let first = u64::from(setting("ORRERY_SPLIT_FIRST", 0));
    first..first + u64::from(setting("ORRERY_SPLIT_RUNS", 3))
}

#[test]
fn splits_and_merges_lose_duplicate_and_reorder_nothing() {
    let mut range_changes = 0;
    for seed in seeds() {
        for body in [HASH, OLD_HASH, LEVELS] {
            let mut run = Run::new(body, seed);
            for _ in 0..500 {
                match run.random(10) {
                    0..4 => run.write(),
                    4..6 => run.range_change(),
                    6..8 => run.read_page(),
                    8 => {
                        run.follow();
                        run.follow_versions();
                    }
                    _ => run
                        .engine()
                        .destroy_deleted()
                        .expect("the data of old partitions is deleted"),
                }
            }
            range_changes += run.finish();
        }
    }
    assert!(
        range_changes as u64 > seeds().count() as u64 * 30,
        "only {range_changes} splits and merges"
    );
}

#[test]
fn a_partition_over_its_storage_limit_is_split() {
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
    let statistics = engine
        .read_container_with_statistics(&container)
        .result
        .expect("statistics")
        .body;
    let partitions = json(&text(&statistics))
        .get("statistics")
        .and_then(Json::as_array)
        .expect("a list")
        .to_vec();
    // Items with the same first level of the key are split as well; items with one key are not.
    assert!((4..8).contains(&partitions.len()), "{partitions:?}");
    assert!(
        partitions
            .iter()
            .all(|partition| number(partition, "sizeInKB") <= 20),
        "{partitions:?}"
    );
    for item in 0..100 {
        read(
            &engine,
            &container,
            &format!("[\"one\",\"s{item}\"]"),
            &format!("i{item}"),
        )
        .expect("the item exists");
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
        .expect("a partition of one key is not split");
    read(&engine, &container, "[\"two\",\"s\"]", "large").expect("the item exists");
}

#[test]
fn an_invalid_split_or_merge_is_refused_and_changes_nothing() {
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
    let outside = container.partitions()[2].range.min.clone();
    assert_eq!(refused(split(0, SplitAt::Border(outside))), (400, 0));
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
fn deleting_a_container_ends_its_splits() {
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
        .expect("the data of all partitions is deleted");
}

#[test]
fn the_list_of_ranges_marks_a_range_that_is_being_split() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(HASH, 2);
    let splitting_ranges = || {
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
    let before = splitting_ranges();
    assert!(before.0.is_empty());
    let split = RangeChange::Split {
        range: 1,
        at: SplitAt::Middle,
    };
    let begun = bench
        .engine
        .begin_range_change(&container, split, true)
        .expect("it begins");
    let meanwhile = splitting_ranges();
    assert_eq!(meanwhile.0, [1]);
    assert_ne!(
        meanwhile.1, before.1,
        "the etag changes, so clients read the list again"
    );
    bench.engine.finish_range_change(begun.id).expect("known");
    let after = splitting_ranges();
    assert!(after.0.is_empty() && after.1 != meanwhile.1);
}
