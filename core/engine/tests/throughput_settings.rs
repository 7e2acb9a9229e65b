//! Settings of throughput: enforcement, offers, autoscale, throughput shared by a database, and the
//! distribution over physical partitions.

use crate::support::throughput::*;
use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, EngineOptions, Feed, Profile, ThroughputOptions};
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Json};
use orrery_storage::{MemoryStore, Store};
use std::sync::Arc;

#[test]
fn enforcement_and_buckets_are_set_for_a_container_and_survive_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = open_on(Arc::clone(&store), ThroughputOptions::default());
    let container = first.container(BODY, 1);
    first
        .engine
        .enforce_throughput(&container, Some(true))
        .expect("the setting is stored");
    first
        .engine
        .set_throughput_buckets(&container, [None, Some(10), None, None, None])
        .expect("the setting is stored");
    assert_eq!(
        spend_budget(&first.engine, &container, "p", AdmissionOptions::default()),
        400
    );
    let body = object(&BODY.replace("\"id\"", "\"defaultTtl\":-1,\"id\""));
    first
        .engine
        .replace_container(&container, &body, None)
        .result
        .expect("the container is replaced");
    first.engine.shut_down().expect("it is durable");
    drop(first);

    let reopened = open_on(store, ThroughputOptions::default());
    let container = reopened
        .engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("the container");
    let found = reopened.engine.throughput_of(&container);
    assert_eq!((found.enforced, found.decided), (true, Some(true)));
    assert_eq!(found.buckets, [None, Some(10), None, None, None]);
    assert_eq!(found.partitions[0].ru_per_second, Some(400.0));
    reopened
        .engine
        .enforce_throughput(&container, None)
        .expect("the setting is stored");
    assert_eq!(reopened.engine.throughput_of(&container).decided, None);
    for _ in 0..401 {
        assert!(!is_throttled(&read_missing(
            &reopened.engine,
            &container,
            "p",
            AdmissionOptions::default()
        )));
    }
}

#[test]
fn a_replaced_offer_applies_at_once() {
    let bench = new_bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    assert_eq!(
        spend_budget(engine, &container, "p", AdmissionOptions::default()),
        400
    );
    replace_offer(engine, 1_000)
        .result
        .expect("the offer is replaced");
    assert_eq!(
        spend_budget(engine, &container, "p", AdmissionOptions::default()),
        600
    );
    bench.world.advance_ms(1_000);
    assert_eq!(
        spend_budget(engine, &container, "p", AdmissionOptions::default()),
        1_000
    );
}

/// Opens an engine that counts 1,000 bytes as a gigabyte where throughput depends on the stored
/// bytes.
fn open_with_small_gigabyte(store: Arc<dyn Store>) -> Bench {
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let options = EngineOptions {
        throughput: ENFORCED,
        gigabyte: 1_000,
        ..options(Profile::Modern)
    };
    let engine = Engine::open(store, options, world.clone()).expect("the engine opens");
    Bench { engine, world }
}

/// Creates a container in `db` with an autoscale maximum, or without throughput of its own.
fn create_autoscale(engine: &Engine, id: &str, max: Option<u32>) -> Arc<Container> {
    let database = engine.database(Id::Name("db")).expect("the database");
    let throughput = max.map(|max| Throughput::Autoscale {
        max,
        increment_percent: Some(0),
    });
    engine
        .create_container(&database, &object(&BODY.replace("items", id)), throughput)
        .result
        .expect("a container");
    engine
        .container(Id::Name("db"), Id::Name(id))
        .expect("the container")
}

/// Writes `items` items of about 10,000 bytes each.
fn store_items(bench: &Bench, container: &Container, items: usize) {
    for n in 0..items {
        bench.world.advance_ms(1_000);
        let body = format!(
            r#"{{"id":"i{n}","pk":"p{n}","text":"{}"}}"#,
            "x".repeat(9_900)
        );
        write(
            &bench.engine,
            container,
            &WriteOperation::Upsert,
            Some(&body),
            &WriteOptions::default(),
        )
        .result
        .expect("stored");
    }
}

/// Returns the only offer as a client reads it.
fn only_offer(engine: &Engine) -> Json {
    json(&text(
        &engine
            .list(Feed::Offers, &PageRequest::default())
            .result
            .expect("offers")
            .rows[0],
    ))
}

/// Returns the autoscale maximum of an offer in RU/s.
fn autoscale_maximum(offer: &Json) -> Option<i64> {
    offer
        .get("content")?
        .get("offerAutopilotSettings")?
        .get("maxThroughput")?
        .as_i64()
}

#[test]
fn an_autoscale_maximum_rises_with_the_stored_bytes_and_applies_at_once() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let bench = open_with_small_gigabyte(Arc::clone(&store));
    let engine = &bench.engine;
    engine
        .create_database(&object(r#"{"id":"db"}"#), None)
        .result
        .expect("a database");
    let container = create_autoscale(engine, "items", Some(1_000));
    let provisioned = || {
        engine
            .throughput_of(&container)
            .partitions
            .iter()
            .map(|p| p.ru_per_second)
            .collect::<Vec<_>>()
    };
    store_items(&bench, &container, 9);
    let before = only_offer(engine);
    engine
        .split_where_needed()
        .expect("the background task succeeds");
    assert_eq!(
        only_offer(engine),
        before,
        "a maximum of 1,000 RU/s allows 100 gigabytes"
    );
    store_items(&bench, &container, 14);
    assert_eq!(provisioned(), [Some(1_000.0)]);

    engine
        .split_where_needed()
        .expect("the background task succeeds");
    assert_eq!(
        provisioned(),
        [Some(2_000.0)],
        "10 RU/s for each gigabyte, in steps of 1,000 RU/s"
    );
    let raised = only_offer(engine);
    assert_eq!(autoscale_maximum(&raised), Some(2_000));
    assert_ne!(raised.get("_etag"), before.get("_etag"));
    bench.world.advance_ms(1_000);
    assert_eq!(
        spend_budget(engine, &container, "p", AdmissionOptions::default()),
        2_000
    );
    engine
        .split_where_needed()
        .expect("the background task succeeds");
    assert_eq!(
        only_offer(engine),
        raised,
        "an offer with a sufficient maximum is not written"
    );

    // The maximum exceeds the throughput of one partition, so the partition is split.
    store_items(&bench, &container, 120);
    engine
        .split_where_needed()
        .expect("the background task succeeds");
    assert_eq!(provisioned(), [Some(6_500.0); 2]);
    engine.shut_down().expect("it is durable");
    let reopened = open_on(store, ENFORCED);
    assert_eq!(
        autoscale_maximum(&only_offer(&reopened.engine)),
        Some(13_000),
        "the raised maximum is stored"
    );
}

#[test]
fn a_shared_autoscale_maximum_rises_with_the_bytes_of_all_its_containers() {
    let bench = open_with_small_gigabyte(Arc::new(MemoryStore::new()));
    let engine = &bench.engine;
    let shared = Throughput::Autoscale {
        max: 1_000,
        increment_percent: Some(0),
    };
    engine
        .create_database(&object(r#"{"id":"db"}"#), Some(shared))
        .result
        .expect("a database");
    let (one, two) = (
        create_autoscale(engine, "one", None),
        create_autoscale(engine, "two", None),
    );
    store_items(&bench, &one, 8);
    store_items(&bench, &two, 8);
    engine
        .split_where_needed()
        .expect("the background task succeeds");
    bench.world.advance_ms(1_000);
    assert_eq!(
        spend_budget(engine, &one, "p", AdmissionOptions::default()),
        2_000
    );
    assert_eq!(
        spend_budget(engine, &two, "p", AdmissionOptions::default()),
        0
    );
}

#[test]
fn an_autoscale_maximum_does_not_rise_under_a_custom_distribution() {
    let bench = open_with_small_gigabyte(Arc::new(MemoryStore::new()));
    let engine = &bench.engine;
    engine
        .create_database(&object(r#"{"id":"db"}"#), None)
        .result
        .expect("a database");
    let container = create_autoscale(engine, "items", Some(1_000));
    engine
        .distribute_throughput(&container, Some(&[(0, 1_000)]))
        .expect("it is distributed");
    store_items(&bench, &container, 14);
    engine
        .split_where_needed()
        .expect("the background task succeeds");
    assert_eq!(
        (
            only_partition(engine, &container).ru_per_second,
            autoscale_maximum(&only_offer(engine))
        ),
        (Some(1_000.0), Some(1_000))
    );
    engine
        .distribute_throughput(&container, None)
        .expect("the throughput is distributed equally");
    engine
        .split_where_needed()
        .expect("the background task succeeds");
    assert_eq!(
        (
            only_partition(engine, &container).ru_per_second,
            autoscale_maximum(&only_offer(engine))
        ),
        (Some(2_000.0), Some(2_000))
    );
}

#[test]
fn containers_of_a_database_share_its_budget_unless_they_have_their_own() {
    let bench = new_bench(ENFORCED);
    let engine = &bench.engine;
    let shared = Some(Throughput::Manual(400));
    engine
        .create_database(&object(r#"{"id":"db"}"#), shared)
        .result
        .expect("a database");
    let database = engine.database(Id::Name("db")).expect("the database");
    let container = |id: &str, throughput| {
        let body = object(&BODY.replace("items", id));
        engine
            .create_container(&database, &body, throughput)
            .result
            .expect("a container");
        engine
            .container(Id::Name("db"), Id::Name(id))
            .expect("the container")
    };
    let (one, two) = (container("one", None), container("two", None));
    let own = container("own", Some(Throughput::Manual(500)));
    for _ in 0..300 {
        assert!(!is_throttled(&read_missing(
            engine,
            &one,
            "p",
            AdmissionOptions::default()
        )));
    }
    assert_eq!(
        spend_budget(engine, &two, "p", AdmissionOptions::default()),
        100
    );
    assert_eq!(
        spend_budget(engine, &one, "p", AdmissionOptions::default()),
        0
    );
    assert_eq!(
        spend_budget(engine, &own, "p", AdmissionOptions::default()),
        500
    );
    assert_eq!(only_partition(engine, &one).charged, Charge(30_000));
    assert_eq!(
        engine.throughput_of(&two).provisioned,
        Some(Provisioned {
            throughput: Throughput::Manual(400),
            shared: true
        })
    );
    let refused = engine
        .distribute_throughput(&one, Some(&[(0, 400)]))
        .expect_err("shared throughput cannot be distributed");
    assert_eq!(refused.status(), 400);
}

/// Checks that invalid distributions of 12,000 RU/s over the partitions 0 and 1 are refused.
fn check_invalid_distributions(engine: &Engine, container: &Container) {
    for (distribution, reason) in [
        (&[(0, 6_000)][..], "a partition is missing"),
        (&[(0, 6_000), (0, 6_000)], "a partition is named twice"),
        (&[(0, 6_000), (7, 6_000)], "partition 7 does not exist"),
        (
            &[(0, 1_000), (1, 11_000)],
            "one partition can serve 10,000 RU/s at most",
        ),
        (&[(0, 0), (1, 12_000)], "a partition gets no throughput"),
        (
            &[(0, 6_000), (1, 6_001)],
            "the sum exceeds the provisioned throughput",
        ),
    ] {
        assert_eq!(
            engine
                .distribute_throughput(container, Some(distribution))
                .expect_err(reason)
                .status(),
            400,
            "{reason}"
        );
    }
}

#[test]
fn a_custom_distribution_keeps_the_total_throughput() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = open_on(Arc::clone(&store), ENFORCED);
    let container = first.container(BODY, 2);
    let engine = &first.engine;
    let [hot, other] = keys_of_two(&container);
    check_invalid_distributions(engine, &container);
    engine
        .distribute_throughput(&container, Some(&[(0, 9_000), (1, 3_000)]))
        .expect("it is distributed");
    assert_eq!(
        spend_budget(engine, &container, &hot, AdmissionOptions::default()),
        9_000
    );
    assert_eq!(
        spend_budget(engine, &container, &other, AdmissionOptions::default()),
        3_000
    );
    let refused: Error = replace_offer(engine, 10_000)
        .result
        .expect_err("a custom distribution is set");
    assert_eq!(refused.status(), 400);
    first.engine.shut_down().expect("it is durable");
    drop(first);

    let reopened = open_on(store, ENFORCED);
    let container = reopened
        .engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("the container");
    let found = reopened.engine.throughput_of(&container);
    assert_eq!(found.distribution, Distribution::Custom);
    assert_eq!(
        found
            .partitions
            .iter()
            .map(|p| p.ru_per_second)
            .collect::<Vec<_>>(),
        [Some(9_000.0), Some(3_000.0)]
    );
    reopened
        .engine
        .distribute_throughput(&container, None)
        .expect("the throughput is distributed equally");
    assert_eq!(
        reopened.engine.throughput_of(&container).partitions[0].ru_per_second,
        Some(6_000.0)
    );
    replace_offer(&reopened.engine, 10_000)
        .result
        .expect("the offer is replaced");
}
