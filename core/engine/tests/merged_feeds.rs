//! Change feeds over a merge of partitions whose LSNs are far apart: a reader goes on where it was
//! in each of them, and versions are kept and removed by the history to which they belong.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::{Json, Kind};
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "changeFeedPolicy":{"retentionDuration":10}}"#;
const MINUTE_MS: u64 = 60_000;
const ALL: Scope = Scope::Everything;

/// A container of two partitions, of which the second has far more commits.
struct Case {
    bench: Bench,
    container: Arc<Container>,
    /// A partition key of each partition.
    keys: [String; 2],
    written: u64,
}

impl Case {
    /// Creates the container. Both partitions have removed their first versions.
    fn new() -> Case {
        let bench = Bench::new(Profile::Modern, 5);
        let container = bench.container(BODY, 2);
        let (ranges, _) = bench
            .engine
            .partition_key_ranges(&container)
            .expect("ranges");
        let key_in = |range: &RangeInfo| {
            let mut names = (0..).map(|n| format!("p{n}"));
            let is_in = |name: &String| {
                let epk = container
                    .partition_key()
                    .epk(&key(&format!("[\"{name}\"]")));
                range.range.contains(&epk)
            };
            names.find(is_in).expect("a key")
        };
        let keys = [key_in(&ranges[0]), key_in(&ranges[1])];
        let mut case = Case {
            bench,
            container,
            keys,
            written: 0,
        };
        case.write(0, 3);
        case.write(1, 60);
        case.bench.world.advance_ms(11 * MINUTE_MS);
        let removed = case.engine().remove_old_versions();
        assert_eq!(removed.expect("removed"), 63);
        case
    }

    fn engine(&self) -> &Engine {
        &self.bench.engine
    }

    /// Writes items to a partition. Returns the number of the first.
    fn write(&mut self, partition: usize, count: u64) -> u64 {
        let first = self.written;
        for _ in 0..count {
            let (n, pk) = (self.written, &self.keys[partition]);
            let body = format!(r#"{{"id":"i{}","pk":"{pk}","n":{n}}}"#, n % 7);
            let options = WriteOptions::default();
            let upsert = WriteOperation::Upsert;
            let written = write(
                &self.bench.engine,
                &self.container,
                &upsert,
                Some(&body),
                &options,
            );
            written.result.expect("it is written");
            self.written += 1;
        }
        first
    }

    fn merge(&self) {
        let merge = RangeChange::Merge { ranges: vec![0, 1] };
        let begun = self
            .engine()
            .begin_range_change(&self.container, merge, false);
        let ended = self
            .engine()
            .finish_range_change(begun.expect("it begins").id);
        assert_eq!(ended.expect("known").stage, RangeChangeStage::Done);
    }

    fn remove_old_versions(&self) {
        while self.engine().remove_old_versions().expect("removed") > 0 {}
    }

    fn page(&self, scope: &Scope, start: &FeedStart, most: usize) -> Outcome<FeedPage> {
        let (engine, container) = (self.engine(), &self.container);
        engine
            .all_versions_feed(container, scope, start, Some(most), None)
            .wait()
    }

    /// Returns the position at the end of the feed.
    fn end(&self, scope: &Scope) -> FeedStart {
        let page = self.page(scope, &FeedStart::Now, 100).result;
        next_start(&page.expect("a page"))
    }

    /// Reads the feed to its end. Returns the numbers of the writes, sorted.
    #[track_caller]
    fn read(&self, scope: &Scope, start: FeedStart, most: usize) -> Vec<u64> {
        let (mut start, mut seen) = (start, Vec::new());
        loop {
            let page = self.page(scope, &start, most).result.expect("a page");
            seen.extend(page.rows.iter().map(|row| number(&json(&text(row)))));
            start = next_start(&page);
            if !page.cut {
                seen.sort_unstable();
                return seen;
            }
        }
    }

    #[track_caller]
    fn is_refused(&self, scope: &Scope, start: &FeedStart) {
        let error = self.page(scope, start, 100).result.expect_err("too old");
        assert_eq!(error.kind(), Kind::BadRequest);
        assert!(error.message().contains("retention"), "{error}");
    }

    /// Returns the scope of the keys of a partition, as clients name it after the merge.
    fn part(&self, partition: usize) -> Scope {
        let key = key(&format!("[\"{}\"]", self.keys[partition]));
        Scope::Key(key)
    }
}

fn number(change: &Json) -> u64 {
    let current = change.get("current").expect("an item");
    let n = current.get("n").and_then(Json::as_i64).expect("n");
    n.unsigned_abs()
}

fn next_start(page: &FeedPage) -> FeedStart {
    match page.ranges.is_empty() {
        true => FeedStart::Lsn(page.continue_after),
        false => FeedStart::Ranges(page.ranges.clone()),
    }
}

#[test]
fn a_reader_at_the_end_of_both_goes_on_after_the_merge() {
    for most in [1, 3, 100] {
        let mut case = Case::new();
        let start = case.end(&ALL);
        case.merge();
        assert_eq!(case.read(&ALL, start.clone(), most), [0; 0]);
        let first = case.write(0, 4);
        case.write(1, 4);
        let expected: Vec<u64> = (first..first + 8).collect();
        assert_eq!(case.read(&ALL, start, most), expected, "pages of {most}");
    }
}

#[test]
fn changes_before_the_merge_come_once_each() {
    // The first page ends in the first partition, or in the second.
    for (first_page, most) in [(3, 1), (3, 100), (7, 2), (7, 100)] {
        let mut case = Case::new();
        let start = case.end(&ALL);
        let first = case.write(0, 5);
        case.write(1, 30);
        let page = case.page(&ALL, &start, first_page).result.expect("a page");
        let rows = page.rows.iter();
        let mut seen: Vec<u64> = rows.map(|row| number(&json(&text(row)))).collect();
        case.merge();
        case.write(0, 2);
        seen.extend(case.read(&ALL, next_start(&page), most));
        seen.sort_unstable();
        let expected: Vec<u64> = (first..first + 37).collect();
        assert_eq!(seen, expected, "pages of {first_page} and {most}");
    }
}

#[test]
fn a_position_in_a_part_counts_in_that_part() {
    let mut case = Case::new();
    let parts = [case.part(0), case.part(1)];
    let starts = [case.end(&parts[0]), case.end(&parts[1])];
    let first = case.write(0, 5);
    case.write(1, 30);
    case.merge();
    assert_eq!(case.read(&parts[0], starts[0].clone(), 2).len(), 5);
    assert_eq!(case.read(&parts[1], starts[1].clone(), 4).len(), 30);
    // Clients name the range of the predecessor within the merged one.
    let within = Scope::Range {
        id: 2,
        within: case.container.epk_range_of(0),
    };
    let seen = case.read(&within, starts[0].clone(), 2);
    assert_eq!(seen, (first..first + 5).collect::<Vec<_>>());
}

#[test]
fn what_is_removed_of_one_predecessor_is_missing_to_its_readers_only() {
    for (old, new) in [(0, 1), (1, 0)] {
        let mut case = Case::new();
        let parts = [case.part(0), case.part(1)];
        let before = case.end(&ALL);
        let starts = [case.end(&parts[0]), case.end(&parts[1])];
        case.write(old, 30);
        let start = case.end(&ALL);
        case.bench.world.advance_ms(6 * MINUTE_MS);
        let first = case.write(new, 5);
        case.merge();

        // The versions of one partition are too old now, and those of the other are not.
        case.bench.world.advance_ms(5 * MINUTE_MS);
        let expected: Vec<u64> = (first..first + 5).collect();
        let check = |case: &Case| {
            case.is_refused(&ALL, &before);
            case.is_refused(&parts[old], &starts[old]);
            assert_eq!(case.read(&parts[new], starts[new].clone(), 2), expected);
            assert_eq!(case.read(&ALL, start.clone(), 2), expected);
        };
        check(&case);
        case.remove_old_versions();
        check(&case);

        // Those of the other go as well.
        case.bench.world.advance_ms(6 * MINUTE_MS);
        case.remove_old_versions();
        case.is_refused(&ALL, &start);
        case.is_refused(&parts[new], &starts[new]);
        let end = case.end(&ALL);
        case.write(0, 1);
        assert_eq!(case.read(&ALL, end, 5).len(), 1);
        check_counters(case.engine(), &case.container);
    }
}

#[test]
fn the_feed_of_latest_versions_repeats_nothing() {
    let mut case = Case::new();
    let feed = |case: &Case, start: &FeedStart, most| {
        let (engine, container) = (case.engine(), &case.container);
        let page = engine
            .change_feed(container, &ALL, start, Some(most), None)
            .wait();
        page.result.expect("a page")
    };
    let mut start = next_start(&feed(&case, &FeedStart::Now, 100));
    case.write(0, 5);
    case.write(1, 5);
    let page = feed(&case, &start, 5);
    let mut seen = page.rows.len();
    start = next_start(&page);
    case.merge();
    loop {
        let page = feed(&case, &start, 2);
        seen += page.rows.len();
        start = next_start(&page);
        if !page.cut {
            break;
        }
    }
    assert_eq!(seen, 10);
}
