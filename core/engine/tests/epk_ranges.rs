//! Requests for EPK ranges that are not a whole physical partition, and change feeds that start at
//! a time.

use crate::support::{Bench, create, query, rows};
use orrery_engine::request::*;
use orrery_engine::{Container, Profile};
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_model::world::World;
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;

/// Creates a container of two physical partitions with some items in each.
fn two_partitions() -> (Bench, Arc<Container>) {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 2);
    for n in 0..40 {
        create(
            &bench.engine,
            &container,
            &format!(r#"{{"id":"{n}","pk":"key {n}"}}"#),
        );
    }
    (bench, container)
}

fn epk(hex: &str) -> Epk {
    Epk::from_hex(hex).expect("a key in hexadecimal")
}

/// Returns a page of the change feed of `scope` from `start`.
fn changes(bench: &Bench, container: &Container, scope: &Scope, start: &FeedStart) -> FeedPage {
    bench
        .engine
        .change_feed(container, scope, start, None, None)
        .wait()
        .result
        .expect("a page of changes")
}

#[test]
fn an_empty_epk_range_or_one_outside_its_partition_returns_nothing() {
    let (bench, container) = two_partitions();
    let (ranges, _) = bench
        .engine
        .partition_key_ranges(&container)
        .expect("ranges");
    let inside = epk("1000");
    assert!(ranges[0].range.contains(&inside));
    for within in [
        ranges[1].range.clone(),
        EpkRange::new(inside.clone(), inside),
        EpkRange::new(Epk::max(), Epk::max()),
    ] {
        let scope = Scope::Range {
            id: ranges[0].id,
            within: Some(within.clone()),
        };
        let all = query("SELECT * FROM c");
        assert_eq!(
            rows(&bench.engine, &container, &scope, &all, &[10]).expect("no rows"),
            [""; 0],
            "{within:?}"
        );
        let count = query("SELECT VALUE COUNT(1) FROM c");
        assert_eq!(
            rows(&bench.engine, &container, &scope, &count, &[10]).expect("a count"),
            ["0"],
            "{within:?}"
        );
        let feed = bench
            .engine
            .read_feed(&container, &scope, &PageRequest::default(), None);
        assert!(
            feed.position.is_some(),
            "an answer for one range has the position of the range"
        );
        assert!(feed.result.expect("a page").rows.is_empty(), "{within:?}");
        let page = changes(&bench, &container, &scope, &FeedStart::Beginning);
        assert!(
            page.rows.is_empty() && page.continue_after > 0,
            "{within:?}: {page:?}"
        );
    }
    let whole = Scope::Range {
        id: ranges[0].id,
        within: Some(EpkRange::all()),
    };
    let all = rows(
        &bench.engine,
        &container,
        &whole,
        &query("SELECT * FROM c"),
        &[100],
    )
    .expect("rows");
    assert_eq!(
        all.len(),
        changes(&bench, &container, &whole, &FeedStart::Beginning)
            .rows
            .len()
    );
    assert!(!all.is_empty() && all.len() < 40);
}

#[test]
fn changes_after_a_time_are_found_regardless_of_earlier_changes() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 1);
    let mut seconds = Vec::new();
    for n in 0..50 {
        create(
            &bench.engine,
            &container,
            &format!(r#"{{"id":"{n}","pk":"p"}}"#),
        );
        seconds.push(bench.world.now_ms() / 1000);
        bench.world.advance_ms(7_000 * (n % 4));
    }
    for start in seconds[0] - 1..=seconds[49] {
        let page = changes(
            &bench,
            &container,
            &Scope::Everything,
            &FeedStart::After { seconds: start },
        );
        assert_eq!(
            page.rows.len(),
            seconds.iter().filter(|second| **second > start).count(),
            "after {start}"
        );
        assert!(!page.cut);
    }
}
