//! Budgets: who is refused, what that leaves undone, how throughput is shared, and the account that is kept of it.

mod support;

use orrery_engine::request::*;
use orrery_engine::{Container, Engine, EngineOptions, Feed, Profile, ThroughputOptions};
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Json, Kind, Rid};
use orrery_storage::{MemoryStore, Store};
use proptest::prelude::*;
use std::sync::Arc;
use support::*;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
const ENFORCED: ThroughputOptions = ThroughputOptions {
    enforce: true,
    burst_capacity: false,
    priorities: false,
};

/// An engine whose clock stands still unless it is moved.
fn bench(throughput: ThroughputOptions) -> Bench {
    on(Arc::new(MemoryStore::new()), throughput)
}

fn on(store: Arc<dyn Store>, throughput: ThroughputOptions) -> Bench {
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let options = EngineOptions {
        throughput,
        ..options(Profile::Modern)
    };
    let engine = Engine::open(store, options, world.clone()).expect("the engine opens");
    Bench { engine, world }
}

fn item(pk: &str, id: &str) -> String {
    format!(r#"{{"id":"{id}","pk":"{pk}"}}"#)
}

/// Reads what is not there, for 1 RU.
fn look(
    engine: &Engine,
    container: &Container,
    pk: &str,
    admission: AdmissionOptions,
) -> Outcome<ReadReply> {
    let options = ReadOptions {
        admission,
        ..ReadOptions::default()
    };
    engine
        .read_item(
            container,
            &key(&format!("[\"{pk}\"]")),
            "nothing",
            None,
            options,
        )
        .wait()
}

/// Reads for 1 RU each until one is refused; how many were not.
fn drain(engine: &Engine, container: &Container, pk: &str, admission: AdmissionOptions) -> u32 {
    (0..100_000)
        .take_while(|_| !is_throttled(&look(engine, container, pk, admission)))
        .count() as u32
}

fn is_throttled<T>(outcome: &Outcome<T>) -> bool {
    let throttled = outcome
        .result
        .as_ref()
        .is_err_and(|error| error.kind() == Kind::Throttled);
    if throttled {
        let error = outcome.result.as_ref().err().expect("it was refused");
        assert_eq!((error.status(), error.sub_status()), (429, 3200));
        assert!(
            error.retry_after_ms().is_some_and(|wait| wait >= 1),
            "{:?}",
            error.retry_after_ms()
        );
        assert!(
            error.message().starts_with("Request rate is large."),
            "{}",
            error.message()
        );
        assert_eq!(outcome.charge.to_string(), "0.38");
    }
    throttled
}

fn only(engine: &Engine, container: &Container) -> PartitionThroughput {
    engine.throughput_of(container).partitions.remove(0)
}

/// Two keys that lie in different partitions of two.
fn keys_of_two(container: &Container) -> [String; 2] {
    let range = |pk: &str| {
        container
            .partition_of(&container.partition_key().epk(&key(&format!("[\"{pk}\"]"))))
            .id
    };
    let names: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    [0, 1].map(|id| {
        names
            .iter()
            .find(|name| range(name) == id)
            .expect("a key in each")
            .clone()
    })
}

#[test]
fn a_second_gives_its_budget_and_the_rest_is_refused() {
    let bench = bench(ENFORCED);
    let container = bench.container(BODY, 1);
    assert_eq!(
        drain(&bench.engine, &container, "p", AdmissionOptions::default()),
        400
    );
    let refused = look(&bench.engine, &container, "p", AdmissionOptions::default())
        .result
        .expect_err("nothing is left");
    assert_eq!(refused.retry_after_ms(), Some(1_000));
    bench.world.advance_ms(1_000);
    assert_eq!(
        drain(&bench.engine, &container, "p", AdmissionOptions::default()),
        400
    );
}

#[test]
fn every_kind_of_request_is_refused_and_nothing_of_it_is_done() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    create(engine, &container, &item("p", "there"));
    let source = r#"{"id":"proc","body":"function () { getContext().getResponse().setBody(1); }"}"#;
    engine
        .create_script(&container, ScriptKind::Procedure, &object(source), false)
        .result
        .expect("a procedure");
    let before = engine.query(
        &container,
        &Scope::Everything,
        &query("SELECT * FROM c"),
        None,
    );
    let before = before.result.expect("a page").page.rows;
    drain(engine, &container, "p", AdmissionOptions::default());

    let p = || key(r#"["p"]"#);
    let options = WriteOptions {
        partition_key: Some(p()),
        ..WriteOptions::default()
    };
    let there = || "there".to_owned();
    let patch = r#"{"operations":[{"op":"add","path":"/a","value":1}]}"#;
    for (operation, body) in [
        (WriteOperation::Create, Some(item("p", "new"))),
        (WriteOperation::Upsert, Some(item("p", "there"))),
        (WriteOperation::Replace(there()), Some(item("p", "there"))),
        (WriteOperation::Patch(there()), Some(patch.to_owned())),
        (WriteOperation::Delete(there()), None),
    ] {
        assert!(
            is_throttled(&write(
                engine,
                &container,
                &operation,
                body.as_deref(),
                &options
            )),
            "{operation:?}"
        );
    }
    let all = Scope::Everything;
    assert!(is_throttled(&engine.query(
        &container,
        &all,
        &query("SELECT * FROM c"),
        None
    )));
    assert!(is_throttled(&engine.read_feed(
        &container,
        &all,
        &PageRequest::default(),
        None
    )));
    assert!(is_throttled(
        &engine
            .change_feed(&container, &all, &FeedStart::Beginning, None, None)
            .wait()
    ));
    assert!(is_throttled(
        &engine
            .all_versions_feed(&container, &all, &FeedStart::Now, None, None)
            .wait()
    ));
    assert!(is_throttled(
        &engine
            .delete_logical_partition(&container, &p(), AdmissionOptions::default())
            .wait()
    ));
    let run = engine.execute(
        &container,
        Id::Name("proc"),
        &p(),
        b"[]",
        ExecuteOptions::default(),
    );
    assert!(is_throttled(&run.wait()));
    let create = || {
        vec![BatchOperation::new(
            BatchAction::Write(WriteOperation::Create),
            Some(Body::Json(json(&item("p", "new")))),
        )]
    };
    let batch = engine.batch(&container, &BatchMode::Atomic(p()), create(), None);
    assert!(is_throttled(&batch.wait()));

    let throttled = only(engine, &container).throttled;
    assert_eq!(
        throttled,
        5 + 5 + 2 + 1,
        "each is counted, and the read that ended the budget"
    );
    bench.world.advance_ms(1_000);
    let after = engine
        .query(&container, &all, &query("SELECT * FROM c"), None)
        .result
        .expect("a page")
        .page
        .rows;
    assert_eq!(before, after);
}

#[test]
fn operations_of_bulk_are_refused_one_by_one() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let charge = write(
        engine,
        &container,
        &WriteOperation::Create,
        Some(&item("p", "0")),
        &WriteOptions::default(),
    )
    .charge;
    let operation = |n: usize| {
        let body = Some(Body::Json(json(&item("p", &format!("i{n}")))));
        BatchOperation::new(BatchAction::Write(WriteOperation::Create), body)
    };
    let mode = BatchMode::Each {
        range: None,
        key: None,
        continue_on_error: true,
    };
    let answer = engine
        .batch(&container, &mode, (0..100).map(operation).collect(), None)
        .wait();
    let results = answer.result.expect("bulk answers for each").results;
    let done = results
        .iter()
        .filter(|outcome| outcome.result.is_ok())
        .count() as u64;
    // The first was created before, and one more than fits is admitted.
    assert_eq!(done, (40_000 - charge.0).div_ceil(charge.0));
    assert!(results.iter().skip(done as usize).all(is_throttled));
    assert_eq!(only(engine, &container).requests, done + 1);
}

#[test]
fn without_enforcement_nothing_is_refused_and_the_effect_is_counted() {
    let (off, on) = (bench(ThroughputOptions::default()), bench(ENFORCED));
    let mut seen = Vec::new();
    for bench in [&off, &on] {
        let container = bench.container(BODY, 1);
        for _ in 0..3 {
            for _ in 0..1_000 {
                look(&bench.engine, &container, "p", AdmissionOptions::default());
            }
            bench.world.advance_ms(1_000);
        }
        seen.push(only(&bench.engine, &container));
    }
    let [off, on] = &seen[..] else { unreachable!() };
    assert_eq!(
        (off.requests, off.throttled, off.would_throttle),
        (3_000, 0, 1_800)
    );
    assert_eq!(
        (on.requests, on.throttled, on.would_throttle),
        (1_200, 1_800, 0)
    );
    assert_eq!(
        (off.charged, on.charged),
        (Charge(300_000), Charge(120_000))
    );
}

#[test]
fn a_container_decides_for_itself_and_keeps_what_it_decided() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = on(Arc::clone(&store), ThroughputOptions::default());
    let container = first.container(BODY, 1);
    first
        .engine
        .enforce_throughput(&container, Some(true))
        .expect("it is decided");
    first
        .engine
        .set_throughput_buckets(&container, [None, Some(10), None, None, None])
        .expect("it is decided");
    assert_eq!(
        drain(&first.engine, &container, "p", AdmissionOptions::default()),
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

    let again = on(store, ThroughputOptions::default());
    let container = again
        .engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("the container");
    let seen = again.engine.throughput_of(&container);
    assert_eq!((seen.enforced, seen.decided), (true, Some(true)));
    assert_eq!(seen.buckets, [None, Some(10), None, None, None]);
    assert_eq!(seen.partitions[0].ru_per_second, Some(400.0));
    again
        .engine
        .enforce_throughput(&container, None)
        .expect("it is decided");
    assert_eq!(again.engine.throughput_of(&container).decided, None);
    for _ in 0..401 {
        assert!(!is_throttled(&look(
            &again.engine,
            &container,
            "p",
            AdmissionOptions::default()
        )));
    }
}

#[test]
fn partitions_share_the_throughput_evenly_and_one_hot_key_gets_one_share() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 2));
    let [hot, other] = keys_of_two(&container);
    assert_eq!(
        drain(engine, &container, &hot, AdmissionOptions::default()),
        6_000
    );
    assert!(!is_throttled(&look(
        engine,
        &container,
        &other,
        AdmissionOptions::default()
    )));
    let seen = engine.throughput_of(&container);
    assert_eq!(
        seen.partitions
            .iter()
            .map(|p| p.ru_per_second)
            .collect::<Vec<_>>(),
        [Some(6_000.0); 2]
    );
    assert_eq!(seen.distribution, Distribution::Equal);
    bench.world.advance_ms(1_000);
    let normalized: Vec<f64> = engine
        .throughput_of(&container)
        .partitions
        .iter()
        .map(|p| p.normalized)
        .collect();
    assert_eq!(normalized, [1.0, 1.0 / 6_000.0]);
    let listed = engine
        .partition_inventory(&container)
        .expect("the partitions");
    assert_eq!(
        listed
            .iter()
            .map(|p| p.throughput.last_second)
            .collect::<Vec<_>>(),
        [6_000.0, 1.0]
    );
}

#[test]
fn a_query_needs_budget_wherever_it_asks() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 2));
    let [hot, other] = keys_of_two(&container);
    drain(engine, &container, &hot, AdmissionOptions::default());
    let of = |pk: &str| {
        engine.query(
            &container,
            &Scope::Everything,
            &query(&format!("SELECT * FROM c WHERE c.pk = '{pk}'")),
            None,
        )
    };
    assert!(is_throttled(&engine.query(
        &container,
        &Scope::Everything,
        &query("SELECT * FROM c"),
        None
    )));
    assert!(is_throttled(&of(&hot)));
    assert!(!is_throttled(&of(&other)));
}

#[test]
fn an_offer_that_changes_is_felt_at_once() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    assert_eq!(
        drain(engine, &container, "p", AdmissionOptions::default()),
        400
    );
    replace_offer(engine, 1_000)
        .result
        .expect("the offer is replaced");
    assert_eq!(
        drain(engine, &container, "p", AdmissionOptions::default()),
        600
    );
    bench.world.advance_ms(1_000);
    assert_eq!(
        drain(engine, &container, "p", AdmissionOptions::default()),
        1_000
    );
}

/// Replaces the only offer there is.
fn replace_offer(engine: &Engine, ru: u32) -> Outcome<Offered> {
    let offers = engine
        .list(Feed::Offers, &PageRequest::default())
        .result
        .expect("offers")
        .rows;
    let mut offer = object(&text(&offers[0]));
    let rid = offer
        .get("_rid")
        .and_then(Json::as_str)
        .and_then(Rid::parse)
        .expect("a resource id");
    offer.set("content", object(&format!(r#"{{"offerThroughput":{ru}}}"#)));
    engine.replace_offer(rid, &OfferChange::To(offer), None)
}

/// An engine for which a thousand bytes are a gigabyte, as far as throughput follows what is stored.
fn small(store: Arc<dyn Store>) -> Bench {
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let options = EngineOptions {
        throughput: ENFORCED,
        gigabyte: 1_000,
        ..options(Profile::Modern)
    };
    let engine = Engine::open(store, options, world.clone()).expect("the engine opens");
    Bench { engine, world }
}

/// A container of this database with throughput that scales, or without its own.
fn scaling(engine: &Engine, id: &str, max: Option<u32>) -> Arc<Container> {
    let database = engine.database(Id::Name("db")).expect("the database");
    let throughput = max.map(|max| Throughput::Autoscale {
        max,
        increment_percent: 0,
    });
    engine
        .create_container(&database, &object(&BODY.replace("items", id)), throughput)
        .result
        .expect("a container");
    engine
        .container(Id::Name("db"), Id::Name(id))
        .expect("the container")
}

/// Has so many items of some ten thousand bytes each stored.
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

/// The only offer, as a client reads it.
fn only_offer(engine: &Engine) -> Json {
    json(&text(
        &engine
            .list(Feed::Offers, &PageRequest::default())
            .result
            .expect("offers")
            .rows[0],
    ))
}

fn maximum(offer: &Json) -> Option<i64> {
    offer
        .get("content")?
        .get("offerAutopilotSettings")?
        .get("maxThroughput")?
        .as_i64()
}

#[test]
fn throughput_that_scales_rises_with_what_is_stored_and_is_felt() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let bench = small(Arc::clone(&store));
    let engine = &bench.engine;
    engine
        .create_database(&object(r#"{"id":"db"}"#), None)
        .result
        .expect("a database");
    let container = scaling(engine, "items", Some(1_000));
    let given = || {
        engine
            .throughput_of(&container)
            .partitions
            .iter()
            .map(|p| p.ru_per_second)
            .collect::<Vec<_>>()
    };
    store_items(&bench, &container, 9);
    let before = only_offer(engine);
    engine.split_where_needed().expect("a round");
    assert_eq!(
        only_offer(engine),
        before,
        "100 gigabytes may be stored under it"
    );
    store_items(&bench, &container, 14);
    assert_eq!(given(), [Some(1_000.0)]);

    engine.split_where_needed().expect("a round");
    assert_eq!(
        given(),
        [Some(2_000.0)],
        "ten for each gigabyte, in thousands"
    );
    let risen = only_offer(engine);
    assert_eq!(maximum(&risen), Some(2_000));
    assert_ne!(risen.get("_etag"), before.get("_etag"));
    bench.world.advance_ms(1_000);
    assert_eq!(
        drain(engine, &container, "p", AdmissionOptions::default()),
        2_000
    );
    engine.split_where_needed().expect("a round");
    assert_eq!(only_offer(engine), risen, "nothing is written without need");

    // More than one partition can carry: it is split.
    store_items(&bench, &container, 120);
    engine.split_where_needed().expect("a round");
    assert_eq!(given(), [Some(6_500.0); 2]);
    engine.shut_down().expect("it is durable");
    let again = on(store, ENFORCED);
    assert_eq!(
        maximum(&only_offer(&again.engine)),
        Some(13_000),
        "what has risen stays"
    );
}

#[test]
fn shared_throughput_that_scales_rises_with_all_that_shares_it() {
    let bench = small(Arc::new(MemoryStore::new()));
    let engine = &bench.engine;
    let shared = Throughput::Autoscale {
        max: 1_000,
        increment_percent: 0,
    };
    engine
        .create_database(&object(r#"{"id":"db"}"#), Some(shared))
        .result
        .expect("a database");
    let (one, two) = (scaling(engine, "one", None), scaling(engine, "two", None));
    store_items(&bench, &one, 8);
    store_items(&bench, &two, 8);
    engine.split_where_needed().expect("a round");
    bench.world.advance_ms(1_000);
    assert_eq!(drain(engine, &one, "p", AdmissionOptions::default()), 2_000);
    assert_eq!(drain(engine, &two, "p", AdmissionOptions::default()), 0);
}

#[test]
fn throughput_that_is_distributed_by_hand_does_not_rise() {
    let bench = small(Arc::new(MemoryStore::new()));
    let engine = &bench.engine;
    engine
        .create_database(&object(r#"{"id":"db"}"#), None)
        .result
        .expect("a database");
    let container = scaling(engine, "items", Some(1_000));
    engine
        .distribute_throughput(&container, Some(&[(0, 1_000)]))
        .expect("it is distributed");
    store_items(&bench, &container, 14);
    engine.split_where_needed().expect("a round");
    assert_eq!(
        (
            only(engine, &container).ru_per_second,
            maximum(&only_offer(engine))
        ),
        (Some(1_000.0), Some(1_000))
    );
    engine
        .distribute_throughput(&container, None)
        .expect("it is equal again");
    engine.split_where_needed().expect("a round");
    assert_eq!(
        (
            only(engine, &container).ru_per_second,
            maximum(&only_offer(engine))
        ),
        (Some(2_000.0), Some(2_000))
    );
}

#[test]
fn containers_of_a_database_share_its_budget_unless_they_have_their_own() {
    let bench = bench(ENFORCED);
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
        assert!(!is_throttled(&look(
            engine,
            &one,
            "p",
            AdmissionOptions::default()
        )));
    }
    assert_eq!(drain(engine, &two, "p", AdmissionOptions::default()), 100);
    assert_eq!(drain(engine, &one, "p", AdmissionOptions::default()), 0);
    assert_eq!(drain(engine, &own, "p", AdmissionOptions::default()), 500);
    assert_eq!(only(engine, &one).charged, Charge(30_000));
    assert_eq!(
        engine.throughput_of(&two).provisioned,
        Some(Provisioned {
            throughput: Throughput::Manual(400),
            shared: true
        })
    );
    let refused = engine
        .distribute_throughput(&one, Some(&[(0, 400)]))
        .expect_err("there is nothing to distribute");
    assert_eq!(refused.status(), 400);
}

#[test]
fn the_account_of_the_partitions_is_what_clients_were_charged() {
    let bench = bench(ThroughputOptions::default());
    let (engine, container) = (&bench.engine, bench.container(BODY, 4));
    let mut charged = Charge::default();
    let mut add = |charge: Charge| charged.0 += charge.0;
    for n in 0..200 {
        let body = item(&format!("p{}", n % 17), &format!("i{n}"));
        add(write(
            engine,
            &container,
            &WriteOperation::Create,
            Some(&body),
            &WriteOptions::default(),
        )
        .charge);
        let again = write(
            engine,
            &container,
            &WriteOperation::Create,
            Some(&body),
            &WriteOptions::default(),
        );
        assert!(again.result.is_err());
        add(again.charge);
    }
    for text in [
        "SELECT * FROM c",
        "SELECT * FROM c ORDER BY c.id",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT TOP 3 * FROM c WHERE c.pk = 'p1'",
    ] {
        let page = engine.query(&container, &Scope::Everything, &query(text), None);
        assert!(page.result.is_ok());
        add(page.charge);
    }
    let page = engine.read_feed(
        &container,
        &Scope::Everything,
        &PageRequest {
            max_items: Some(150),
            ..PageRequest::default()
        },
        None,
    );
    add(page.charge);
    for id in 0..4 {
        let scope = Scope::Range { id, within: None };
        add(engine
            .change_feed(&container, &scope, &FeedStart::Beginning, None, None)
            .wait()
            .charge);
    }
    let key = key(r#"["p1"]"#);
    let reads = vec![
        BatchOperation::new(BatchAction::Read("i1".into()), None),
        BatchOperation::new(BatchAction::Read("no".into()), None),
    ];
    let batch = engine.batch(&container, &BatchMode::Atomic(key), reads, None);
    add(batch.wait().charge);
    let seen = engine.throughput_of(&container).partitions;
    assert_eq!(seen.iter().map(|p| p.charged).sum::<Charge>(), charged);
    assert!(seen.iter().all(|p| p.charged > Charge(10_000)), "{seen:?}");
    assert_eq!(
        seen.iter()
            .flat_map(|p| &p.seconds)
            .map(|s| s.charged)
            .sum::<Charge>(),
        charged
    );
}

#[test]
fn a_bucket_has_a_ceiling_and_the_others_have_none() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let of = |bucket| AdmissionOptions {
        bucket: Bucket::new(bucket),
        ..AdmissionOptions::default()
    };
    engine
        .set_throughput_buckets(&container, [Some(25), None, None, None, Some(100)])
        .expect("it is decided");
    assert_eq!(drain(engine, &container, "p", of(1)), 100);
    assert_eq!(drain(engine, &container, "p", of(2)), 300);
    bench.world.advance_ms(1_000);
    assert_eq!(
        drain(engine, &container, "p", AdmissionOptions::default()),
        400
    );
    assert_eq!(drain(engine, &container, "p", of(1)), 0);
    for wrong in [0, 101] {
        let refused =
            engine.set_throughput_buckets(&container, [Some(wrong), None, None, None, None]);
        assert_eq!(refused.expect_err("no percentage").status(), 400);
    }
    assert_eq!(Bucket::new(0), None);
    assert_eq!(Bucket::new(6), None);
}

#[test]
fn low_priority_is_refused_first_where_priorities_count() {
    let [low, high] = [Priority::Low, Priority::High].map(|priority| AdmissionOptions {
        priority,
        ..AdmissionOptions::default()
    });
    for priorities in [false, true] {
        let bench = bench(ThroughputOptions {
            priorities,
            ..ENFORCED
        });
        let (engine, container) = (&bench.engine, bench.container(BODY, 1));
        let mut served = [0, 0];
        // In turns, twice as many as there is budget for.
        for _ in 0..10 {
            for _ in 0..400 {
                served[0] += u32::from(!is_throttled(&look(engine, &container, "p", low)));
                served[1] += u32::from(!is_throttled(&look(engine, &container, "p", high)));
            }
            bench.world.advance_ms(1_000);
        }
        let expected = if priorities {
            [200, 3_800]
        } else {
            [2_000, 2_000]
        };
        assert_eq!(served, expected);
    }
}

#[test]
fn burst_capacity_spends_what_was_not_used() {
    let bench = bench(ThroughputOptions {
        burst_capacity: true,
        ..ENFORCED
    });
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    look(engine, &container, "p", AdmissionOptions::default());
    bench.world.advance_ms(60_000);
    assert_eq!(
        drain(engine, &container, "p", AdmissionOptions::default()),
        3_000
    );
    let banked = only(engine, &container).banked;
    assert_eq!(banked, 60.0 * 400.0 - 1.0 - 2_600.0);
}

#[test]
fn throughput_is_distributed_over_partitions_and_their_sum_stays() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = on(Arc::clone(&store), ENFORCED);
    let container = first.container(BODY, 2);
    let engine = &first.engine;
    let [hot, other] = keys_of_two(&container);
    for (wrong, why) in [
        (&[(0, 6_000)][..], "one is missing"),
        (&[(0, 6_000), (0, 6_000)], "one is named twice"),
        (&[(0, 6_000), (7, 6_000)], "there is no seventh"),
        (&[(0, 1_000), (1, 11_000)], "more than one can serve"),
        (&[(0, 0), (1, 12_000)], "one gets nothing"),
        (&[(0, 6_000), (1, 6_001)], "more than there is"),
    ] {
        assert_eq!(
            engine
                .distribute_throughput(&container, Some(wrong))
                .expect_err(why)
                .status(),
            400,
            "{why}"
        );
    }
    engine
        .distribute_throughput(&container, Some(&[(0, 9_000), (1, 3_000)]))
        .expect("it is distributed");
    assert_eq!(
        drain(engine, &container, &hot, AdmissionOptions::default()),
        9_000
    );
    assert_eq!(
        drain(engine, &container, &other, AdmissionOptions::default()),
        3_000
    );
    let refused: Error = replace_offer(engine, 10_000)
        .result
        .expect_err("it is distributed by hand");
    assert_eq!(refused.status(), 400);
    first.engine.shut_down().expect("it is durable");
    drop(first);

    let again = on(store, ENFORCED);
    let container = again
        .engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("the container");
    let seen = again.engine.throughput_of(&container);
    assert_eq!(seen.distribution, Distribution::Custom);
    assert_eq!(
        seen.partitions
            .iter()
            .map(|p| p.ru_per_second)
            .collect::<Vec<_>>(),
        [Some(9_000.0), Some(3_000.0)]
    );
    again
        .engine
        .distribute_throughput(&container, None)
        .expect("it is equal again");
    assert_eq!(
        again.engine.throughput_of(&container).partitions[0].ru_per_second,
        Some(6_000.0)
    );
    replace_offer(&again.engine, 10_000)
        .result
        .expect("the offer is replaced");
}

/// Splits or merges, and waits for it.
fn repartition(engine: &Engine, container: &Arc<Container>, change: RangeChange) {
    let begun = engine
        .begin_range_change(container, change, false)
        .expect("it begins");
    let ended = engine.finish_range_change(begun.id).expect("it ends");
    assert_eq!(ended.stage, RangeChangeStage::Done);
}

#[test]
fn partitions_that_split_and_merge_share_the_throughput_anew() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 2));
    let given = || {
        let partitions = engine.throughput_of(&container).partitions;
        partitions
            .iter()
            .map(|p| p.ru_per_second.expect("each is limited"))
            .collect::<Vec<f64>>()
    };
    let ids = || {
        engine
            .throughput_of(&container)
            .partitions
            .iter()
            .map(|p| p.id)
            .collect::<Vec<u32>>()
    };
    engine
        .distribute_throughput(&container, Some(&[(0, 8_000), (1, 4_000)]))
        .expect("it is distributed");
    repartition(
        engine,
        &container,
        RangeChange::Split {
            range: 0,
            at: SplitAt::Middle,
        },
    );
    assert_eq!(
        given(),
        [4_000.0, 4_000.0, 4_000.0],
        "a split partition's own throughput goes to its children"
    );
    engine
        .distribute_throughput(&container, None)
        .expect("it is equal again");
    repartition(
        engine,
        &container,
        RangeChange::Split {
            range: 1,
            at: SplitAt::Middle,
        },
    );
    assert_eq!(given(), [3_000.0; 4]);
    let first = ids();
    repartition(
        engine,
        &container,
        RangeChange::Merge {
            ranges: first[..2].to_vec(),
        },
    );
    assert_eq!(given(), [4_000.0; 3]);
    let fresh = engine.throughput_of(&container).partitions.remove(0);
    assert_eq!((fresh.requests, fresh.charged), (0, Charge(0)));
    let hot = (0..1_000).map(|n| format!("k{n}")).find(|pk| {
        container
            .partition_of(&container.partition_key().epk(&key(&format!("[\"{pk}\"]"))))
            .id
            == fresh.id
    });
    assert_eq!(
        drain(
            engine,
            &container,
            &hot.expect("a key in each"),
            AdmissionOptions::default()
        ),
        4_000
    );
}

/// A key in each of the container's partitions.
fn keys_of_all(container: &Container) -> Vec<String> {
    let epk = |pk: &str| container.partition_key().epk(&key(&format!("[\"{pk}\"]")));
    let names: Vec<String> = (0..1_000).map(|n| format!("k{n}")).collect();
    let of = |id: u32| {
        names
            .iter()
            .find(|name| container.partition_of(&epk(name)).id == id)
    };
    container
        .partitions()
        .iter()
        .map(|p| of(p.id).expect("a key in each").clone())
        .collect()
}

/// Splits the partition at this place in the middle.
fn split(engine: &Engine, container: &Arc<Container>, at: usize) {
    let range = container.partitions()[at].id;
    repartition(
        engine,
        container,
        RangeChange::Split {
            range,
            at: SplitAt::Middle,
        },
    );
}

/// Merges this partition and the next.
fn merge(engine: &Engine, container: &Arc<Container>, at: usize) {
    let ranges = container.partitions()[at..at + 2]
        .iter()
        .map(|p| p.id)
        .collect();
    repartition(engine, container, RangeChange::Merge { ranges });
}

/// What may be spent in each partition now.
fn drain_all(engine: &Engine, container: &Container) -> Vec<u32> {
    keys_of_all(container)
        .iter()
        .map(|pk| drain(engine, container, pk, AdmissionOptions::default()))
        .collect()
}

#[test]
fn a_split_or_merge_gives_nobody_a_fresh_second() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    for _ in 0..300 {
        assert!(!is_throttled(&look(
            engine,
            &container,
            "p",
            AdmissionOptions::default()
        )));
    }
    split(engine, &container, 0);
    assert_eq!(drain_all(engine, &container), [50, 50]);
    bench.world.advance_ms(1_000);
    let one = keys_of_all(&container).remove(0);
    assert_eq!(
        drain(engine, &container, &one, AdmissionOptions::default()),
        200
    );
    merge(engine, &container, 0);
    assert_eq!(drain_all(engine, &container), [200]);
    bench.world.advance_ms(1_000);
    assert_eq!(drain_all(engine, &container), [400]);
}

#[test]
fn those_that_were_not_split_give_what_they_lose_and_keep_what_they_spent() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 2));
    let [_, other] = keys_of_two(&container);
    assert_eq!(
        drain(engine, &container, &other, AdmissionOptions::default()),
        6_000
    );
    // Three parts of 4,000: the one that was not split has spent 2,000 more than it has.
    split(engine, &container, 0);
    assert_eq!(drain_all(engine, &container), [4_000, 4_000, 0]);
    bench.world.advance_ms(1_000);
    assert_eq!(drain_all(engine, &container), [4_000, 4_000, 2_000]);
    bench.world.advance_ms(1_000);
    assert_eq!(drain_all(engine, &container), [4_000, 4_000, 4_000]);
}

#[test]
fn what_a_request_overdrew_is_paid_off_by_those_that_take_its_place() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let numbers = (0..9_000)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(",");
    let large = format!(r#"{{"id":"large","pk":"p","numbers":[{numbers}]}}"#);
    let charge = write(
        engine,
        &container,
        &WriteOperation::Create,
        Some(&large),
        &WriteOptions::default(),
    )
    .charge;
    assert!(
        charge > Charge(100_000),
        "{charge} is more than two seconds"
    );
    let wait = |pk: &str| {
        let refused = look(engine, &container, pk, AdmissionOptions::default())
            .result
            .expect_err("it is paid off first");
        assert_eq!(refused.kind(), Kind::Throttled, "{refused}");
        refused.retry_after_ms().expect("a wait")
    };
    let alone = wait("p");
    assert_eq!(alone, charge.0 / 40_000 * 1_000);
    bench.world.advance_ms(700);
    split(engine, &container, 0);
    for pk in keys_of_all(&container) {
        assert_eq!(wait(&pk), alone - 700);
    }
    bench.world.advance_ms(600);
    merge(engine, &container, 0);
    assert_eq!(wait("p"), alone - 1_300);
    bench.world.advance_ms(alone - 1_301);
    assert_eq!(drain_all(engine, &container), [0]);
    bench.world.advance_ms(1);
    let left = 40_000 - charge.0 % 40_000;
    assert_eq!(drain_all(engine, &container), [left.div_ceil(100) as u32]);
}

#[test]
fn what_was_saved_and_the_account_outlive_splits_and_merges() {
    let bench = bench(ThroughputOptions {
        burst_capacity: true,
        ..ENFORCED
    });
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    look(engine, &container, "p", AdmissionOptions::default());
    bench.world.advance_ms(20_000);
    let spent = drain(engine, &container, "p", AdmissionOptions::default());
    assert_eq!(spent, 3_000);
    let sums = || {
        let all = engine.throughput_of(&container).partitions;
        let of = |each: fn(&PartitionThroughput) -> u64| all.iter().map(each).sum::<u64>();
        let seconds = |each: fn(&PartitionSecond) -> u64| {
            all.iter().flat_map(|p| &p.seconds).map(each).sum::<u64>()
        };
        (
            all.iter().map(|p| p.banked).sum::<f64>(),
            [
                of(|p| p.charged.0),
                of(|p| p.requests),
                of(|p| p.throttled),
                of(|p| p.would_throttle),
            ],
            [
                seconds(|s| s.charged.0),
                seconds(|s| s.requests),
                seconds(|s| s.throttled),
            ],
        )
    };
    let before = sums();
    assert_eq!(
        before,
        (
            20.0 * 400.0 - 1.0 - 2_600.0,
            [300_100, 3_001, 1, 0],
            [300_100, 3_001, 1]
        )
    );
    split(engine, &container, 0);
    assert_eq!(sums(), before);
    split(engine, &container, 1);
    assert_eq!(sums(), before);
    merge(engine, &container, 0);
    merge(engine, &container, 0);
    assert_eq!(sums(), before);
    assert_eq!(
        drain_all(engine, &container),
        [0],
        "this second has spent what burst capacity gives"
    );
}

/// What happens to a container while its throughput is watched.
#[derive(Clone, Debug)]
enum Event {
    /// So many reads of this key, after so many milliseconds.
    Reads(u64, usize, u32),
    /// Splits one of the partitions, if there are few.
    Split(usize),
    /// Merges one with its neighbour, if it has one.
    Merge(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let gap = prop_oneof![3 => 0..30u64, 2 => 0..400u64, 1 => 900..1_100u64];
    prop_oneof![
        12 => (gap, 0..12usize, 1..300u32).prop_map(|(gap, key, reads)| Event::Reads(gap, key, reads)),
        1 => (0..4usize).prop_map(Event::Split),
        1 => (0..4usize).prop_map(Event::Merge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_split_and_merged_no_ten_seconds_serve_more_than_they_bring(
        events in prop::collection::vec(event(), 60..160),
    ) {
        let bench = bench(ENFORCED);
        let (engine, container) = (&bench.engine, bench.container(BODY, 1));
        let (mut now, mut served) = (0, Vec::new());
        for event in events {
            let live = container.partitions().len();
            match event {
                Event::Reads(gap, pk, reads) => {
                    bench.world.advance_ms(gap);
                    now += gap;
                    let is_served = |_: &u32| !is_throttled(&look(engine, &container, &format!("k{pk}"), AdmissionOptions::default()));
                    served.push((now, (0..reads).take_while(is_served).count() as u64));
                }
                Event::Split(at) if live < 4 => split(engine, &container, at % live),
                Event::Merge(at) if live > 1 => merge(engine, &container, at % (live - 1)),
                _ => {}
            }
        }
        for (at, (begin, _)) in served.iter().enumerate() {
            let sum: u64 = served[at..].iter().take_while(|(now, _)| *now < begin + 10_000).map(|(_, n)| n).sum();
            // A hundredth more for the slots in which it is remembered, and the last request of each partition.
            prop_assert!(sum <= 4_040 + 4, "{sum} request units in ten seconds from {begin} ms");
        }
    }
}

#[test]
fn a_load_that_lasts_gets_all_that_is_provisioned_through_splits_and_merges() {
    let bench = bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let mut served = 0;
    for tick in 0..600 {
        bench.world.advance_ms(50);
        match tick % 60 {
            10 | 20 => split(engine, &container, 0),
            40 | 50 => merge(engine, &container, 0),
            _ => {}
        }
        served += drain_all(engine, &container).iter().sum::<u32>();
    }
    assert!(
        (11_700..=12_120).contains(&served),
        "{served} of 12,000 request units in 30 s"
    );
}
