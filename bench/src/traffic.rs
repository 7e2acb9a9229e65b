//! Benchmark of statistics: the heat map and key ranks of a container for each request at a
//! partition, and the metrics for each response.

use crate::Result;
use crate::record::figure;
use crate::report::median;
use orrery_engine::request::{Charge, OperationKind};
use orrery_engine::{Seen, Traffic};
use orrery_gateway::{Metrics, Operation, RequestKind};
use orrery_model::partition_key::{Component, Epk, Hashing};
use orrery_model::world::split_mix;
use std::hint::black_box;
use std::time::Instant;

/// Requests of one measurement.
const REQUESTS: u64 = 1_000_000;
/// 2026-01-01, in milliseconds since 1970.
const NOW_MS: u64 = 1_767_225_600_000;

/// Streams of requests: name, number of keys, and true if half of the requests are for one key.
const STREAMS: [(&str, u64, bool); 4] = [
    ("one key", 1, false),
    ("16 keys alike", 16, false),
    ("100,000 keys alike", 100_000, false),
    ("100,000 keys, one hot", 100_000, true),
];

/// Operations on items, for metrics of several kinds of requests.
const OPERATIONS: [&str; 8] = [
    "read_item",
    "create_item",
    "upsert_item",
    "replace_item",
    "patch_item",
    "delete_item",
    "query_items",
    "read_items",
];

/// Prints nanoseconds per request: the statistics of reads and writes for each stream, and the
/// metrics. All figures are medians over the rounds.
pub(crate) fn run(rounds: usize) -> Result<()> {
    println!(
        "{:<24} {:>10} {:>10}",
        "keeping a request, ns", "read", "write"
    );
    for (name, keys, hot) in STREAMS {
        let [read, write] =
            [0, 500].map(|bytes| median((0..rounds).map(|_| stream(keys, hot, bytes)).collect()));
        println!("{name:<24} {read:>10.0} {write:>10.0}");
        figure(format!("{name}, read, ns"), read);
        figure(format!("{name}, write, ns"), write);
    }
    println!(
        "{:<24} {:>10} {:>10}",
        "metrics of a request, ns", "1 thread", "2 threads"
    );
    for (name, kinds) in [
        ("of one kind", 1),
        ("of eight kinds in turn", OPERATIONS.len()),
    ] {
        let [one, two] =
            [1, 2].map(|threads| median((0..rounds).map(|_| metrics(kinds, threads)).collect()));
        println!("{name:<24} {one:>10.0} {two:>10.0}");
        figure(format!("{name}, 1 thread, ns"), one);
        figure(format!("{name}, 2 threads, ns"), two);
    }
    Ok(())
}

/// Returns the nanoseconds for recording one request in a thread, while `threads` threads record
/// requests.
fn metrics(kinds: usize, threads: usize) -> f64 {
    let metrics = Metrics::default();
    let request_kinds = OPERATIONS.map(|name| {
        let operation = Operation::from_name(name).expect("the name of an operation");
        RequestKind::Operation(operation)
    });
    let requests = || {
        for n in 0..REQUESTS as usize {
            metrics.record(
                black_box(request_kinds[n % kinds]),
                200,
                0,
                0.000_2,
                Charge(100),
            );
        }
    };
    let started = Instant::now();
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(requests))));
    started.elapsed().as_nanos() as f64 / REQUESTS as f64
}

/// Returns the nanoseconds for the statistics of one request, without those for generating the
/// request. The time advances by a millisecond every ten requests, so that columns of the heat map
/// are completed.
fn stream(keys: u64, hot: bool, bytes_written: u64) -> f64 {
    let traffic = Traffic::default();
    let with_statistics = time_per_request(keys, hot, bytes_written, |now, seen| {
        traffic.note(now, Hashing::V2, seen)
    });
    let generation = time_per_request(keys, hot, bytes_written, |now, seen| {
        black_box((now, seen.key.map(Epk::as_bytes).and_then(<[u8]>::first)));
    });
    with_statistics - generation
}

/// Generates the requests of a stream, calls `note` for each, and returns the nanoseconds per
/// request.
fn time_per_request(
    keys: u64,
    hot: bool,
    bytes_written: u64,
    mut note: impl FnMut(u64, Seen<'_>),
) -> f64 {
    let keys_as_epk: Vec<Epk> = (0..keys)
        .map(|n| Epk::of(Hashing::V2, &[Component::Number(n as f64)]))
        .collect();
    let started = Instant::now();
    for n in 0..REQUESTS {
        let chance = split_mix(n);
        let key = if hot && chance.is_multiple_of(2) {
            0
        } else {
            (chance >> 8) % keys
        };
        let seen = Seen {
            key: keys_as_epk.get(key as usize),
            charge: Charge(100),
            bytes_written,
            throttled: false,
            kind: OperationKind::Create,
            item: Some(n),
            replacement: None,
        };
        note(NOW_MS + n / 10, seen);
    }
    started.elapsed().as_nanos() as f64 / REQUESTS as f64
}
