//! Request-unit budgets through splits and merges: spending, debt and savings pass to the
//! successors, and the container serves no more than its provisioned throughput.

use crate::support::throughput::*;
use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, ThroughputOptions};
use orrery_model::Kind;
use proptest::prelude::*;
use std::sync::Arc;

/// Splits or merges partitions and waits for the end of the change.
fn change_ranges(engine: &Engine, container: &Arc<Container>, change: RangeChange) {
    let begun = engine
        .begin_range_change(container, change, false)
        .expect("it begins");
    let ended = engine.finish_range_change(begun.id).expect("it ends");
    assert_eq!(ended.stage, RangeChangeStage::Done);
}

#[test]
fn throughput_is_redistributed_after_a_split_or_merge() {
    let bench = new_bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 2));
    let provisioned = || {
        let partitions = engine.throughput_of(&container).partitions;
        partitions
            .iter()
            .map(|p| p.ru_per_second.expect("each is limited"))
            .collect::<Vec<f64>>()
    };
    engine
        .distribute_throughput(&container, Some(&[(0, 8_000), (1, 4_000)]))
        .expect("it is distributed");
    split(engine, &container, 0);
    assert_eq!(
        provisioned(),
        [4_000.0, 4_000.0, 4_000.0],
        "the throughput of a split partition goes to its successors"
    );
    engine
        .distribute_throughput(&container, None)
        .expect("the throughput is distributed equally");
    // Partition 1 is the third partition after the split of partition 0.
    split(engine, &container, 2);
    assert_eq!(provisioned(), [3_000.0; 4]);
    merge(engine, &container, 0);
    assert_eq!(provisioned(), [4_000.0; 3]);
    let merged = engine.throughput_of(&container).partitions.remove(0);
    assert_eq!((merged.requests, merged.charged), (0, Charge(0)));
    let hot = (0..1_000).map(|n| format!("k{n}")).find(|pk| {
        container
            .partition_of(&container.partition_key().epk(&key(&format!("[\"{pk}\"]"))))
            .id
            == merged.id
    });
    assert_eq!(
        spend_budget(
            engine,
            &container,
            &hot.expect("a key in each"),
            AdmissionOptions::default()
        ),
        4_000
    );
}

/// Returns a key in each of the container's partitions.
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

/// Splits the partition at index `at` in the middle.
fn split(engine: &Engine, container: &Arc<Container>, at: usize) {
    let range = container.partitions()[at].id;
    change_ranges(
        engine,
        container,
        RangeChange::Split {
            range,
            at: SplitAt::Middle,
        },
    );
}

/// Merges the partition at index `at` with the next partition.
fn merge(engine: &Engine, container: &Arc<Container>, at: usize) {
    let ranges = container.partitions()[at..at + 2]
        .iter()
        .map(|p| p.id)
        .collect();
    change_ranges(engine, container, RangeChange::Merge { ranges });
}

/// Spends the remaining budget of each partition. Returns the request units spent.
fn spend_all_budgets(engine: &Engine, container: &Container) -> Vec<u32> {
    keys_of_all(container)
        .iter()
        .map(|pk| spend_budget(engine, container, pk, AdmissionOptions::default()))
        .collect()
}

#[test]
fn a_split_or_merge_does_not_renew_the_budget_of_the_second() {
    let bench = new_bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    for _ in 0..300 {
        assert!(!is_throttled(&read_missing(
            engine,
            &container,
            "p",
            AdmissionOptions::default()
        )));
    }
    split(engine, &container, 0);
    assert_eq!(spend_all_budgets(engine, &container), [50, 50]);
    bench.world.advance_ms(1_000);
    let one = keys_of_all(&container).remove(0);
    assert_eq!(
        spend_budget(engine, &container, &one, AdmissionOptions::default()),
        200
    );
    merge(engine, &container, 0);
    assert_eq!(spend_all_budgets(engine, &container), [200]);
    bench.world.advance_ms(1_000);
    assert_eq!(spend_all_budgets(engine, &container), [400]);
}

#[test]
fn partitions_that_were_not_split_lose_throughput_and_keep_their_spending() {
    let bench = new_bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 2));
    let [_, other] = keys_of_two(&container);
    assert_eq!(
        spend_budget(engine, &container, &other, AdmissionOptions::default()),
        6_000
    );
    // Each of the three partitions now has 4,000 RU/s. The partition that was not split has spent
    // 2,000 RU more than that.
    split(engine, &container, 0);
    assert_eq!(spend_all_budgets(engine, &container), [4_000, 4_000, 0]);
    bench.world.advance_ms(1_000);
    assert_eq!(spend_all_budgets(engine, &container), [4_000, 4_000, 2_000]);
    bench.world.advance_ms(1_000);
    assert_eq!(spend_all_budgets(engine, &container), [4_000, 4_000, 4_000]);
}

#[test]
fn the_debt_of_a_partition_passes_to_its_successors() {
    let bench = new_bench(ENFORCED);
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
        let refused = read_missing(engine, &container, pk, AdmissionOptions::default())
            .result
            .expect_err("the debt is not paid off");
        assert_eq!(refused.kind(), Kind::Throttled, "{refused}");
        refused.retry_after_ms().expect("a wait")
    };
    let wait_before_split = wait("p");
    assert_eq!(wait_before_split, charge.0 / 40_000 * 1_000);
    bench.world.advance_ms(700);
    split(engine, &container, 0);
    for pk in keys_of_all(&container) {
        assert_eq!(wait(&pk), wait_before_split - 700);
    }
    bench.world.advance_ms(600);
    merge(engine, &container, 0);
    assert_eq!(wait("p"), wait_before_split - 1_300);
    bench.world.advance_ms(wait_before_split - 1_301);
    assert_eq!(spend_all_budgets(engine, &container), [0]);
    bench.world.advance_ms(1);
    let left = 40_000 - charge.0 % 40_000;
    assert_eq!(
        spend_all_budgets(engine, &container),
        [left.div_ceil(100) as u32]
    );
}

#[test]
fn saved_budget_and_recorded_charges_survive_splits_and_merges() {
    let bench = new_bench(ThroughputOptions {
        burst_capacity: true,
        ..ENFORCED
    });
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    read_missing(engine, &container, "p", AdmissionOptions::default());
    bench.world.advance_ms(20_000);
    let spent = spend_budget(engine, &container, "p", AdmissionOptions::default());
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
        spend_all_budgets(engine, &container),
        [0],
        "the burst capacity of this second is spent"
    );
}

/// A random step of a container with an enforced budget.
#[derive(Clone, Debug)]
enum Event {
    /// Waits for a number of milliseconds, then reads the key with a number a number of times.
    Reads(u64, usize, u32),
    /// Splits the partition at an index, if the container has fewer than four.
    Split(usize),
    /// Merges the partition at an index with the next partition, if there are two.
    Merge(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let gap = prop_oneof![3 => 0..30u64, 2 => 0..400u64, 1 => 900..1_100u64];
    prop_oneof![
        12 => (gap, 0..12usize, 1..300u32)
            .prop_map(|(gap, key, reads)| Event::Reads(gap, key, reads)),
        1 => (0..4usize).prop_map(Event::Split),
        1 => (0..4usize).prop_map(Event::Merge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_ten_seconds_serve_more_than_provisioned_through_splits_and_merges(
        events in prop::collection::vec(event(), 60..160),
    ) {
        let bench = new_bench(ENFORCED);
        let (engine, container) = (&bench.engine, bench.container(BODY, 1));
        let (mut now, mut served) = (0, Vec::new());
        for event in events {
            let live = container.partitions().len();
            match event {
                Event::Reads(gap, pk, reads) => {
                    bench.world.advance_ms(gap);
                    now += gap;
                    let key = format!("k{pk}");
                    let is_served = |_: &u32| {
                        let admission = AdmissionOptions::default();
                        !is_throttled(&read_missing(engine, &container, &key, admission))
                    };
                    served.push((now, (0..reads).take_while(is_served).count() as u64));
                }
                Event::Split(at) if live < 4 => split(engine, &container, at % live),
                Event::Merge(at) if live > 1 => merge(engine, &container, at % (live - 1)),
                _ => {}
            }
        }
        for (at, (begin, _)) in served.iter().enumerate() {
            let sum: u64 = served[at..]
                .iter()
                .take_while(|(now, _)| *now < begin + 10_000)
                .map(|(_, reads)| reads)
                .sum();
            // One part in a hundred is allowed for the resolution in time, and one request beyond
            // the budget in each partition.
            prop_assert!(sum <= 4_040 + 4, "{sum} request units in ten seconds from {begin} ms");
        }
    }
}

#[test]
fn a_sustained_load_gets_all_provisioned_throughput_through_splits_and_merges() {
    let bench = new_bench(ENFORCED);
    let (engine, container) = (&bench.engine, bench.container(BODY, 1));
    let mut served = 0;
    for tick in 0..600 {
        bench.world.advance_ms(50);
        match tick % 60 {
            10 | 20 => split(engine, &container, 0),
            40 | 50 => merge(engine, &container, 0),
            _ => {}
        }
        served += spend_all_budgets(engine, &container).iter().sum::<u32>();
    }
    assert!(
        (11_700..=12_120).contains(&served),
        "{served} of 12,000 request units in 30 s"
    );
}
