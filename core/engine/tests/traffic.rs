//! Traffic statistics of a container: the heat map of the hash space, the most requested keys and
//! the forms of queries.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Engine, EngineOptions, Profile, ThroughputOptions};
use orrery_model::world::SeededWorld;
use orrery_storage::MemoryStore;
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
/// The end of a time span without end, in milliseconds.
const END_OF_TIME_MS: u64 = u64::MAX;

fn item(pk: &str, id: &str, n: u64) -> String {
    format!(r#"{{"id":"{id}","pk":"{pk}","n":{n}}}"#)
}

#[test]
fn requests_for_one_key_are_counted_in_the_heat_map_bucket_of_its_epk() {
    for (hashing, bench) in [
        (1, Bench::new(Profile::Modern, 1)),
        (2, Bench::new(Profile::Modern, 1)),
    ] {
        let container = bench.container(
            &BODY.replace("\"version\":2", &format!("\"version\":{hashing}")),
            3,
        );
        let body = item("a", "1", 1);
        let created = write(
            &bench.engine,
            &container,
            &WriteOperation::Create,
            Some(&body),
            &WriteOptions {
                partition_key: Some(key("[\"a\"]")),
                ..WriteOptions::default()
            },
        );
        let found = bench
            .engine
            .read_item(&container, &key("[\"a\"]"), "1", None, None)
            .wait();
        let missing = bench
            .engine
            .read_item(&container, &key("[\"a\"]"), "2", None, None)
            .wait();
        let scope = Scope::Key(key("[\"a\"]"));
        let queried = bench
            .engine
            .query(&container, &scope, &query("SELECT * FROM c"), None);
        let columns = bench.engine.heat_map(&container, 0, END_OF_TIME_MS);
        assert_eq!(columns.len(), 1);
        assert_eq!(
            (columns[0].start_ms, columns[0].width_ms),
            (START_MS, 5_000)
        );
        let [(bucket, heat)] = columns[0].buckets[..] else {
            panic!("{columns:?}")
        };
        let epk = container.partition_key().epk(&key("[\"a\"]"));
        let ranges = orrery_model::partition_key::EpkRange::divide_evenly(
            container.partition_key().hashing(),
            HEAT_BUCKETS,
        );
        assert!(ranges[usize::from(bucket)].contains(&epk));
        let charge = [created.charge, found.charge, missing.charge, queried.charge]
            .into_iter()
            .sum();
        assert_eq!((heat.charge, heat.requests, heat.throttled), (charge, 4, 0));
        let stored = read(&bench.engine, &container, "[\"a\"]", "1").expect("the item exists");
        assert_eq!(heat.bytes_written, stored.len() as u64);
        assert_eq!(columns[0].scans, Heat::default());
    }
}

#[test]
fn requests_over_many_keys_are_counted_apart_from_requests_for_one_key() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 3);
    let queried = bench.engine.query(
        &container,
        &Scope::Everything,
        &query("SELECT * FROM c"),
        None,
    );
    let columns = bench.engine.heat_map(&container, 0, END_OF_TIME_MS);
    assert_eq!(
        (columns[0].buckets.len(), columns[0].scans.charge),
        (0, queried.charge)
    );
    // The query is one request to each physical partition.
    assert_eq!(columns[0].scans.requests, 3);
    // A query whose condition fixes the key is a request for one key.
    bench.engine.query(
        &container,
        &Scope::Everything,
        &query("SELECT * FROM c WHERE c.pk = 'a'"),
        None,
    );
    assert_eq!(
        bench.engine.heat_map(&container, 0, END_OF_TIME_MS)[0]
            .buckets
            .len(),
        1
    );
}

#[test]
fn throttled_requests_are_counted_and_cost_nothing() {
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let throughput = ThroughputOptions {
        enforce: true,
        ..ThroughputOptions::default()
    };
    let options = EngineOptions {
        throughput,
        ..options(Profile::Modern)
    };
    let engine = Engine::open(Arc::new(MemoryStore::new()), options, world.clone())
        .expect("the engine opens");
    let container = create_container(&engine, BODY, 1).expect("the container is created");
    let reads = 1_000;
    let read = |_| {
        engine
            .read_item(&container, &key("[\"a\"]"), "1", None, None)
            .wait()
    };
    let throttled = (0..reads)
        .map(read)
        .filter(|o| o.result.as_ref().is_err_and(|e| e.status() == 429))
        .count();
    assert!(throttled > 0 && throttled < reads);
    let heat = engine.heat_map(&container, 0, END_OF_TIME_MS)[0].buckets[0].1;
    assert_eq!(
        (heat.requests as usize, heat.throttled as usize),
        (reads, throttled)
    );
    assert_eq!(heat.charge.as_ru(), (reads - throttled) as f64);
}

#[test]
fn heat_map_columns_follow_the_clock_of_the_engine() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 1);
    for n in 0..3 {
        create(&bench.engine, &container, &item("a", &n.to_string(), n));
        bench.world.advance_ms(5_000);
    }
    let starts = |from: u64, to: u64| -> Vec<u64> {
        let columns = bench
            .engine
            .heat_map(&container, START_MS + from, START_MS + to);
        columns
            .iter()
            .map(|column| column.start_ms - START_MS)
            .collect()
    };
    assert_eq!(starts(0, 60_000), [0, 5_000, 10_000]);
    assert_eq!(starts(5_000, 6_000), [5_000]);
    bench.world.advance_ms(3_600_000);
    assert_eq!(
        starts(0, 60_000),
        [0],
        "the columns are merged into a column of one minute"
    );
}

#[test]
fn the_most_requested_keys_are_named_by_their_items() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 2);
    for n in 0..50 {
        create(&bench.engine, &container, &item(&format!("k{n}"), "1", n));
    }
    for _ in 0..100 {
        read(&bench.engine, &container, "[\"k7\"]", "1").expect("the item exists");
    }
    let top = bench
        .engine
        .top_keys(&container, KeyMeasure::Charge, KeyWindow::Minute)
        .expect("ranks");
    assert_eq!(top.keys[0].key, Some(json("[\"k7\"]")));
    assert_eq!(
        top.keys[0].epk,
        container.partition_key().epk(&key("[\"k7\"]"))
    );
    assert!(
        top.keys[0].amount - top.keys[0].error >= 10_000
            && top.keys[0].amount > 5 * top.keys[1].amount
    );
    let bytes = bench
        .engine
        .top_keys(&container, KeyMeasure::BytesWritten, KeyWindow::Minute)
        .expect("ranks");
    let stored = read(&bench.engine, &container, "[\"k7\"]", "1")
        .expect("the item exists")
        .len() as u64;
    // Names and numbers of 40 other items have one digit more each.
    assert_eq!(bytes.total, 10 * stored + 40 * (stored + 2));
    // The name of a key is read from its items, so a key without items has no name.
    let delete = WriteOptions {
        partition_key: Some(key("[\"k7\"]")),
        ..WriteOptions::default()
    };
    let removed = write(
        &bench.engine,
        &container,
        &WriteOperation::Delete("1".into()),
        None,
        &delete,
    );
    assert!(removed.result.is_ok());
    let top = bench
        .engine
        .top_keys(&container, KeyMeasure::Charge, KeyWindow::Minute)
        .expect("ranks");
    assert_eq!(top.keys[0].key, None);
}

#[test]
fn queries_are_counted_by_their_form_without_their_values() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 3);
    for n in 0..12 {
        create(&bench.engine, &container, &item(&format!("k{n}"), "1", n));
    }
    let mut charges = Vec::new();
    for n in 0..5 {
        let text = format!("select * from c where c.n = {n} and c.pk != 'secret{n}'");
        charges.push(
            bench
                .engine
                .query(&container, &Scope::Everything, &query(&text), None)
                .charge,
        );
    }
    let one = Scope::Key(key("[\"k1\"]"));
    bench
        .engine
        .query(&container, &one, &query("SELECT VALUE c.n FROM c"), None)
        .result
        .expect("rows");
    assert!(
        bench
            .engine
            .query(&container, &one, &query("SELECT nonsense("), None)
            .result
            .is_err()
    );
    let forms = bench.engine.query_forms(&container);
    assert_eq!(forms.len(), 2);
    let many = &forms[0];
    assert_eq!(many.text, "SELECT * FROM c WHERE c.n = ? AND c.pk != ?");
    assert_eq!((many.count, many.partitions, many.output), (5, 15, 5));
    assert_eq!(many.charge, charges.iter().copied().sum());
    assert!(
        many.charge_p50 >= charges[0]
            && many.charge_p95 >= many.charge_p50
            && many.micros_p99 >= many.micros_p50
    );
    assert!(many.crosses_partitions && many.last_ms == START_MS);
    let advice = json(
        many.index_advice
            .as_deref()
            .expect("the query has index advice"),
    );
    assert!(advice.to_text().contains("/n/?"), "{advice}");
    assert_eq!(
        (
            forms[1].count,
            forms[1].partitions,
            forms[1].crosses_partitions
        ),
        (1, 1, false)
    );
}

#[test]
fn metrics_are_absent_from_answers_unless_requested() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 1);
    let page = bench
        .engine
        .query(
            &container,
            &Scope::Everything,
            &query("SELECT * FROM c"),
            None,
        )
        .result
        .expect("a page");
    assert_eq!((page.metrics, page.index_metrics), (None::<String>, None));
    assert!(
        bench.engine.query_forms(&container)[0]
            .index_advice
            .as_deref()
            .is_some_and(|a| json(a).as_object().is_some())
    );
}
