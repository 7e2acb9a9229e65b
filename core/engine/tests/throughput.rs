//! Request-unit budgets: refused requests have no effect, recorded charges match the charges of the
//! clients, and buckets, priorities and burst capacity limit the requests that they name.

use crate::support::throughput::*;
use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, ThroughputOptions};
use orrery_model::partition_key::PartitionKey;

#[test]
fn requests_beyond_the_budget_of_a_second_are_refused() {
    let bench = new_bench(ENFORCED);
    let container = bench.container(BODY, 1);
    assert_eq!(
        spend_budget(&bench.engine, &container, "p", AdmissionOptions::default()),
        400
    );
    let refused = read_missing(&bench.engine, &container, "p", AdmissionOptions::default())
        .result
        .expect_err("nothing is left");
    assert_eq!(refused.retry_after_ms(), Some(1_000));
    bench.world.advance_ms(1_000);
    assert_eq!(
        spend_budget(&bench.engine, &container, "p", AdmissionOptions::default()),
        400
    );
}

/// Checks that each kind of write is refused.
fn check_writes_are_refused(engine: &Engine, container: &Container, pk: PartitionKey) {
    let options = WriteOptions {
        partition_key: Some(pk),
        ..WriteOptions::default()
    };
    let there = || "there".to_owned();
    let patch = r#"{"operations":[{"op":"add","path":"/a","value":1}]}"#;
    for (operation, body) in [
        (WriteOperation::Create, Some(item_text("p", "new"))),
        (WriteOperation::Upsert, Some(item_text("p", "there"))),
        (
            WriteOperation::Replace(there()),
            Some(item_text("p", "there")),
        ),
        (WriteOperation::Patch(there()), Some(patch.to_owned())),
        (WriteOperation::Delete(there()), None),
    ] {
        assert!(
            is_throttled(&write(
                engine,
                container,
                &operation,
                body.as_deref(),
                &options
            )),
            "{operation:?}"
        );
    }
}

/// Checks that a query, the read feed and both change feeds are refused.
fn check_reads_are_refused(engine: &Engine, container: &Container) {
    let all = Scope::Everything;
    assert!(is_throttled(&engine.query(
        container,
        &all,
        &query("SELECT * FROM c"),
        None
    )));
    assert!(is_throttled(&engine.read_feed(
        container,
        &all,
        &PageRequest::default(),
        None
    )));
    assert!(is_throttled(
        &engine
            .change_feed(container, &all, &FeedStart::Beginning, None, None)
            .wait()
    ));
    assert!(is_throttled(
        &engine
            .all_versions_feed(container, &all, &FeedStart::Now, None, None)
            .wait()
    ));
}

#[test]
fn every_kind_of_request_is_refused_without_any_effect() {
    let bench = new_bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    create(engine, &container, &item_text("p", "there"));
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
    spend_budget(engine, &container, "p", AdmissionOptions::default());

    let p = || key(r#"["p"]"#);
    check_writes_are_refused(engine, &container, p());
    check_reads_are_refused(engine, &container);
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
            Some(Body::Json(json(&item_text("p", "new")))),
        )]
    };
    let batch = engine.batch(&container, &BatchMode::Atomic(p()), create(), None);
    assert!(is_throttled(&batch.wait()));

    let throttled = only_partition(engine, &container).throttled;
    assert_eq!(
        throttled,
        5 + 5 + 2 + 1,
        "each refused request is counted, and the read that exceeded the budget"
    );
    bench.world.advance_ms(1_000);
    let after = engine
        .query(
            &container,
            &Scope::Everything,
            &query("SELECT * FROM c"),
            None,
        )
        .result
        .expect("a page")
        .page
        .rows;
    assert_eq!(before, after);
}

#[test]
fn bulk_operations_are_refused_one_by_one() {
    let bench = new_bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let charge = write(
        engine,
        &container,
        &WriteOperation::Create,
        Some(&item_text("p", "0")),
        &WriteOptions::default(),
    )
    .charge;
    let operation = |n: usize| {
        let body = Some(Body::Json(json(&item_text("p", &format!("i{n}")))));
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
    let results = answer
        .result
        .expect("bulk returns a result for each operation")
        .results;
    let succeeded = results
        .iter()
        .filter(|outcome| outcome.result.is_ok())
        .count() as u64;
    // The budget has paid for one create before, and the last admitted create may exceed the
    // budget.
    assert_eq!(succeeded, (40_000 - charge.0).div_ceil(charge.0));
    assert!(results.iter().skip(succeeded as usize).all(is_throttled));
    assert_eq!(only_partition(engine, &container).requests, succeeded + 1);
}

#[test]
fn without_enforcement_no_request_is_refused_and_would_be_refusals_are_counted() {
    let (off, on) = (new_bench(ThroughputOptions::default()), new_bench(ENFORCED));
    let mut found = Vec::new();
    for bench in [&off, &on] {
        let container = bench.container(BODY, 1);
        for _ in 0..3 {
            for _ in 0..1_000 {
                read_missing(&bench.engine, &container, "p", AdmissionOptions::default());
            }
            bench.world.advance_ms(1_000);
        }
        found.push(only_partition(&bench.engine, &container));
    }
    let [off, on] = &found[..] else {
        unreachable!()
    };
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
fn partitions_share_the_throughput_evenly_and_one_hot_key_gets_one_share() {
    let bench = new_bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 2));
    let [hot, other] = keys_of_two(&container);
    assert_eq!(
        spend_budget(engine, &container, &hot, AdmissionOptions::default()),
        6_000
    );
    assert!(!is_throttled(&read_missing(
        engine,
        &container,
        &other,
        AdmissionOptions::default()
    )));
    let found = engine.throughput_of(&container);
    assert_eq!(
        found
            .partitions
            .iter()
            .map(|p| p.ru_per_second)
            .collect::<Vec<_>>(),
        [Some(6_000.0); 2]
    );
    assert_eq!(found.distribution, Distribution::Equal);
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
fn a_query_needs_budget_in_every_partition_that_it_reads() {
    let bench = new_bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 2));
    let [hot, other] = keys_of_two(&container);
    spend_budget(engine, &container, &hot, AdmissionOptions::default());
    let query_key = |pk: &str| {
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
    assert!(is_throttled(&query_key(&hot)));
    assert!(!is_throttled(&query_key(&other)));
}

/// Creates 200 items, repeats each create, which fails, and returns the sum of the charges.
fn charge_of_creates(engine: &Engine, container: &Container) -> Charge {
    let mut charged = Charge::default();
    for n in 0..200 {
        let body = item_text(&format!("p{}", n % 17), &format!("i{n}"));
        let create = || {
            write(
                engine,
                container,
                &WriteOperation::Create,
                Some(&body),
                &WriteOptions::default(),
            )
        };
        let (created, repeated) = (create(), create());
        assert!(repeated.result.is_err());
        charged.0 += created.charge.0 + repeated.charge.0;
    }
    charged
}

#[test]
fn recorded_charges_of_the_partitions_add_up_to_the_charges_of_the_clients() {
    let bench = new_bench(ThroughputOptions::default());
    let (engine, container) = (&bench.engine, bench.container(BODY, 4));
    let mut charged = charge_of_creates(engine, &container);
    let mut add = |charge: Charge| charged.0 += charge.0;
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
    let found = engine.throughput_of(&container).partitions;
    assert_eq!(found.iter().map(|p| p.charged).sum::<Charge>(), charged);
    assert!(
        found.iter().all(|p| p.charged > Charge(10_000)),
        "{found:?}"
    );
    assert_eq!(
        found
            .iter()
            .flat_map(|p| &p.seconds)
            .map(|s| s.charged)
            .sum::<Charge>(),
        charged
    );
}

#[test]
fn a_throughput_bucket_limits_its_own_requests_only() {
    let bench = new_bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let in_bucket = |bucket| AdmissionOptions {
        bucket: Bucket::new(bucket),
        ..AdmissionOptions::default()
    };
    engine
        .set_throughput_buckets(&container, [Some(25), None, None, None, Some(100)])
        .expect("the buckets are set");
    assert_eq!(spend_budget(engine, &container, "p", in_bucket(1)), 100);
    assert_eq!(spend_budget(engine, &container, "p", in_bucket(2)), 300);
    bench.world.advance_ms(1_000);
    assert_eq!(
        spend_budget(engine, &container, "p", AdmissionOptions::default()),
        400
    );
    assert_eq!(spend_budget(engine, &container, "p", in_bucket(1)), 0);
    for wrong in [0, 101] {
        let refused =
            engine.set_throughput_buckets(&container, [Some(wrong), None, None, None, None]);
        assert_eq!(refused.expect_err("not a percentage").status(), 400);
    }
    assert_eq!(Bucket::new(0), None);
    assert_eq!(Bucket::new(6), None);
}

#[test]
fn low_priority_requests_are_refused_first_if_priorities_are_enabled() {
    let [low, high] = [Priority::Low, Priority::High].map(|priority| AdmissionOptions {
        priority,
        ..AdmissionOptions::default()
    });
    for priorities in [false, true] {
        let bench = new_bench(ThroughputOptions {
            priorities,
            ..ENFORCED
        });
        let (engine, container) = (&bench.engine, bench.container(BODY, 1));
        let mut served = [0, 0];
        // Requests of both priorities alternate; their number is twice the budget.
        for _ in 0..10 {
            for _ in 0..400 {
                served[0] += u32::from(!is_throttled(&read_missing(engine, &container, "p", low)));
                served[1] += u32::from(!is_throttled(&read_missing(engine, &container, "p", high)));
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
fn burst_capacity_spends_unused_throughput() {
    let bench = new_bench(ThroughputOptions {
        burst_capacity: true,
        ..ENFORCED
    });
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    read_missing(engine, &container, "p", AdmissionOptions::default());
    bench.world.advance_ms(60_000);
    assert_eq!(
        spend_budget(engine, &container, "p", AdmissionOptions::default()),
        3_000
    );
    let banked = only_partition(engine, &container).banked;
    assert_eq!(banked, 60.0 * 400.0 - 1.0 - 2_600.0);
}
