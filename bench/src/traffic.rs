//! What it costs to keep what was asked: heat map and ranks of a container's keys, for each request at a partition; and
//! the metrics, for each request that is answered.

use crate::Result;
use crate::report::median;
use orrery_engine::request::Charge;
use orrery_engine::{Seen, Traffic};
use orrery_gateway::{Metrics, Operation, RequestKind};
use orrery_model::partition_key::{Component, Epk, Hashing};
use orrery_model::world::split_mix;
use std::hint::black_box;
use std::time::Instant;

const REQUESTS: u64 = 1_000_000;
/// 2026-01-01, in milliseconds since 1970.
const NOW_MS: u64 = 1_767_225_600_000;

/// A stream of requests: how many keys there are, and whether half of the requests are for one of them.
const STREAMS: [(&str, u64, bool); 4] = [
    ("one key", 1, false),
    ("16 keys alike", 16, false),
    ("100,000 keys alike", 100_000, false),
    ("100,000 keys, one hot", 100_000, true),
];

/// Operations on items, for requests of several kinds.
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

/// Prints the nanoseconds of a request of each stream, reads and writes, and those of its metrics: medians over rounds.
pub(crate) fn run(rounds: usize) -> Result<()> {
    println!(
        "{:<24} {:>10} {:>10}",
        "keeping a request, ns", "read", "write"
    );
    for (name, keys, hot) in STREAMS {
        let [read, write] =
            [0, 500].map(|bytes| median((0..rounds).map(|_| stream(keys, hot, bytes)).collect()));
        println!("{name:<24} {read:>10.0} {write:>10.0}");
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
    }
    Ok(())
}

/// Nanoseconds in which a thread has counted one request, while so many threads do nothing else.
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
    let began = Instant::now();
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(requests))));
    began.elapsed().as_nanos() as f64 / REQUESTS as f64
}

/// Nanoseconds of one request, less those of making it up. A millisecond goes by every ten requests, so columns are
/// closed on the way.
fn stream(keys: u64, hot: bool, bytes_written: u64) -> f64 {
    let traffic = Traffic::default();
    let noting = each(keys, hot, bytes_written, |now, seen| {
        traffic.note(now, Hashing::V2, seen)
    });
    let making = each(keys, hot, bytes_written, |now, seen| {
        black_box((now, seen.key.map(Epk::as_bytes).and_then(<[u8]>::first)));
    });
    noting - making
}

fn each(keys: u64, hot: bool, bytes_written: u64, mut note: impl FnMut(u64, Seen<'_>)) -> f64 {
    let places: Vec<Epk> = (0..keys)
        .map(|n| Epk::of(Hashing::V2, &[Component::Number(n as f64)]))
        .collect();
    let began = Instant::now();
    for n in 0..REQUESTS {
        let chance = split_mix(n);
        let key = if hot && chance.is_multiple_of(2) {
            0
        } else {
            (chance >> 8) % keys
        };
        let seen = Seen {
            key: places.get(key as usize),
            charge: Charge(100),
            bytes_written,
            throttled: false,
        };
        note(NOW_MS + n / 10, seen);
    }
    began.elapsed().as_nanos() as f64 / REQUESTS as f64
}
