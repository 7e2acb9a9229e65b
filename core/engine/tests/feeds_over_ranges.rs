//! Change feeds over several physical partitions in one request, while partitions are split and
//! merged.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::Json;
use orrery_model::world::World;
use std::collections::BTreeMap;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
const LEVELS: &str =
    r#"{"id":"items","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}}"#;

/// A reader of the change feed of a whole container.
struct Follower {
    start: FeedStart,
    /// The last value of `n` that was seen of each item.
    seen: BTreeMap<String, i64>,
}

impl Follower {
    fn from(start: FeedStart) -> Follower {
        Follower {
            start,
            seen: BTreeMap::new(),
        }
    }

    /// Reads a page of at most `most` rows. Returns true at the end of the feed.
    #[track_caller]
    fn read(&mut self, engine: &Engine, container: &Container, most: usize) -> bool {
        let scope = Scope::Everything;
        let read = engine.change_feed(container, &scope, &self.start, Some(most), None);
        let page = read.wait().result.expect("a page");
        // Changes with one LSN are on one page: after a merge they may be of two histories.
        let lsn = |row: &bytes::Bytes| json(&text(row)).get("_lsn").and_then(Json::as_i64);
        let last = page.rows.last().and_then(lsn);
        let before_last = page.rows.iter().filter(|row| lsn(row) != last);
        assert!(before_last.count() < most);
        for row in &page.rows {
            let row = json(&text(row));
            let id = row
                .get("id")
                .and_then(Json::as_str)
                .expect("an id")
                .to_owned();
            let n = row.get("n").and_then(Json::as_i64).expect("n");
            // The changes of an item are in their order, and none comes twice.
            let before = self.seen.insert(id, n);
            assert!(
                before.is_none_or(|before| before < n),
                "{before:?} before {n}"
            );
        }
        self.start = match page.ranges.is_empty() {
            true => FeedStart::Lsn(page.continue_after),
            false => FeedStart::Ranges(page.ranges),
        };
        page.rows.is_empty() && !page.cut
    }

    #[track_caller]
    fn read_to_the_end(&mut self, engine: &Engine, container: &Container) {
        for _ in 0..1_000 {
            if self.read(engine, container, 3) {
                return;
            }
        }
        panic!("the feed never ends");
    }
}

fn put(engine: &Engine, container: &Container, id: u64, n: i64) {
    let body = format!(r#"{{"id":"i{id}","pk":"p{id}","n":{n}}}"#);
    let options = WriteOptions::default();
    let written = write(
        engine,
        container,
        &WriteOperation::Upsert,
        Some(&body),
        &options,
    );
    written.result.expect("it is written");
}

#[test]
fn a_feed_over_all_ranges_misses_no_change_through_splits_and_merges() {
    for seed in 0..u64::from(setting("ORRERY_FEEDS", 6)) {
        let bench = Bench::new(Profile::Modern, seed);
        let (engine, container) = (&bench.engine, bench.container(BODY, 3));
        let random = |n: u64| bench.world.random() % n;
        let mut model = BTreeMap::new();
        let mut followers = vec![
            Follower::from(FeedStart::Beginning),
            // A second before everything, for ranges that no page has read.
            Follower::from(FeedStart::After {
                seconds: START_MS / 1000 - 1,
            }),
        ];
        for n in 0..120 {
            let id = random(12);
            put(engine, &container, id, n);
            model.insert(format!("i{id}"), n);
            let reader = random(followers.len() as u64) as usize;
            followers[reader].read(engine, &container, 1 + random(4) as usize);
            if n % 20 == 10 {
                let (ranges, _) = engine.partition_key_ranges(&container).expect("ranges");
                let ids: Vec<u32> = ranges.iter().map(|range| range.id).collect();
                let at = random(ids.len() as u64) as usize;
                let change = match at > 0 && random(2) == 0 {
                    true => RangeChange::Merge {
                        ranges: ids[at - 1..=at].to_vec(),
                    },
                    false => RangeChange::Split {
                        range: ids[at],
                        at: SplitAt::Middle,
                    },
                };
                let begun = engine.begin_range_change(&container, change, false);
                let ended = engine.finish_range_change(begun.expect("it begins").id);
                assert_eq!(ended.expect("known").stage, RangeChangeStage::Done);
            }
        }
        for follower in &mut followers {
            follower.read_to_the_end(engine, &container);
            assert_eq!(follower.seen, model, "seed {seed}");
        }
        // One range alone goes on from the position in all, too.
        let (ranges, _) = engine.partition_key_ranges(&container).expect("ranges");
        for range in ranges {
            let scope = Scope::Range {
                id: range.id,
                within: None,
            };
            let start = &followers[0].start;
            let page = engine
                .change_feed(&container, &scope, start, None, None)
                .wait();
            assert!(page.result.expect("a page").rows.is_empty());
        }
    }
}

#[test]
fn a_range_with_many_changes_does_not_keep_the_others_waiting() {
    let bench = Bench::new(Profile::Modern, 3);
    let (engine, container) = (&bench.engine, bench.container(BODY, 3));
    let mut follower = Follower::from(FeedStart::Beginning);
    for id in 0..12 {
        put(engine, &container, id, 0);
    }
    // The first item is written more often than a page has rows.
    for n in 1..40 {
        put(engine, &container, 0, n);
        follower.read(engine, &container, 1);
    }
    assert_eq!(follower.seen.len(), 12);
}

#[test]
fn a_prefix_of_a_hierarchical_key_is_followed_over_its_ranges() {
    let bench = Bench::new(Profile::Modern, 3);
    let (engine, container) = (&bench.engine, bench.container(LEVELS, 1));
    for n in 0..20 {
        let body = format!(r#"{{"id":"{n}","t":"t{}","u":"u{n}","n":{n}}}"#, n % 2);
        create(engine, &container, &body);
    }
    // The keys of one tenant lie side by side: a split at the median may divide them.
    let split = RangeChange::Split {
        range: 0,
        at: SplitAt::Median,
    };
    let begun = engine
        .begin_range_change(&container, split, false)
        .expect("it begins");
    engine.finish_range_change(begun.id).expect("known");
    for tenant in ["t0", "t1"] {
        let scope = Scope::Key(key(&format!(r#"["{tenant}"]"#)));
        let start = FeedStart::Beginning;
        let page = engine
            .change_feed(&container, &scope, &start, None, None)
            .wait();
        assert_eq!(page.result.expect("a page").rows.len(), 10, "{tenant}");
    }
}
