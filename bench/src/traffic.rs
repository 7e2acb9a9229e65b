//! What it costs to keep what was asked of a container: heat map and ranks of keys, for each request at a partition.

use crate::Result;
use crate::report::median;
use orrery_engine::request::Charge;
use orrery_engine::{Seen, Traffic};
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

/// Prints the nanoseconds of a request of each stream, reads and writes: medians over rounds.
pub(crate) fn run(rounds: usize) -> Result<()> {
    println!("{:<24} {:>10} {:>10}", "keeping a request, ns", "read", "write");
    for (name, keys, hot) in STREAMS {
        let [read, write] = [0, 500].map(|bytes| median((0..rounds).map(|_| stream(keys, hot, bytes)).collect()));
        println!("{name:<24} {read:>10.0} {write:>10.0}");
    }
    Ok(())
}

/// Nanoseconds of one request, less those of making it up. A millisecond goes by every ten requests, so columns are
/// closed on the way.
fn stream(keys: u64, hot: bool, bytes_written: u64) -> f64 {
    let traffic = Traffic::default();
    let noting = each(keys, hot, bytes_written, |now, seen| traffic.note(now, Hashing::V2, seen));
    let making = each(keys, hot, bytes_written, |now, seen| {
        black_box((now, seen.key.map(Epk::as_bytes).and_then(<[u8]>::first)));
    });
    noting - making
}

fn each(keys: u64, hot: bool, bytes_written: u64, mut note: impl FnMut(u64, Seen<'_>)) -> f64 {
    let places: Vec<Epk> = (0..keys).map(|n| Epk::of(Hashing::V2, &[Component::Number(n as f64)])).collect();
    let began = Instant::now();
    for n in 0..REQUESTS {
        let chance = split_mix(n);
        let key = if hot && chance.is_multiple_of(2) { 0 } else { (chance >> 8) % keys };
        let seen = Seen { key: places.get(key as usize), charge: Charge(100), bytes_written, throttled: false };
        note(NOW_MS + n / 10, seen);
    }
    began.elapsed().as_nanos() as f64 / REQUESTS as f64
}
