//! How fast a physical partition is split and merged on disk, and what clients notice: the latencies of one reader and
//! one writer while everything is quiet and while splits and merges follow each other, in turns, in this process.

use crate::Result;
use crate::engine::Room;
use crate::items::{CREATE_BYTES, READ_BYTES, READ_ITEMS, id, item};
use crate::report::median;
use orrery_engine::ThroughputOptions;
use orrery_engine::request::{RangeChange, RangeChangeStatus, SplitAt};
use orrery_model::partition_key::PartitionKey;
use orrery_storage::{LocalOptions, LocalStore};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MEGABYTE: f64 = (1 << 20) as f64;

/// One split or merge.
struct Move {
    is_split: bool,
    seconds: f64,
    /// Bytes of rows, index entries among them.
    copied: u64,
    /// Bytes of the items' texts.
    texts: u64,
}

/// Latencies in microseconds.
#[derive(Default)]
struct Latencies {
    reads: Vec<f64>,
    creates: Vec<f64>,
}

/// Fills a container of one physical partition with so many items and measures `rounds` times.
pub(crate) fn run(items: u64, rounds: usize, seconds: f64, directory: &Path) -> Result<()> {
    let store = Arc::new(LocalStore::open(
        directory.join("data"),
        LocalOptions::default(),
    )?);
    let room = Room::metered(store, ThroughputOptions::default(), 400)?;
    eprintln!("writing {items} items of {READ_BYTES} bytes");
    room.create_all((0..items).map(|n| item('r', n, READ_BYTES)))?;
    let keys = (0..READ_ITEMS.min(items))
        .map(|n| Ok((room.key(&item('r', n, READ_BYTES))?, id('r', n))))
        .collect::<Result<Vec<_>>>()?;
    let (mut quiet, mut moving, mut moves) =
        (Latencies::default(), Latencies::default(), Vec::new());
    let created = AtomicU64::new(0);
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        let window = Duration::from_secs_f64(seconds);
        under_load(&room, &keys, &created, &mut quiet, || {
            #[expect(clippy::disallowed_methods, reason = "the window of a measurement")]
            std::thread::sleep(window);
            Ok(())
        })?;
        under_load(&room, &keys, &created, &mut moving, || {
            let begun = Instant::now();
            while begun.elapsed() < window || moves.len() < 2 * (round + 1) {
                moves.push(split_or_merge(&room)?);
            }
            Ok(())
        })?;
    }
    print_moves(&moves);
    print_latencies(quiet, moving);
    Ok(())
}

/// Splits the one partition, or merges the two.
fn split_or_merge(room: &Room) -> Result<Move> {
    let ranges = room.ranges()?;
    let is_split = ranges.len() == 1;
    let change = match ranges[..] {
        [range] => RangeChange::Split {
            range,
            at: SplitAt::Middle,
        },
        _ => RangeChange::Merge { ranges },
    };
    let begun = Instant::now();
    let RangeChangeStatus {
        copied_bytes,
        failure,
        ..
    } = room.repartition(change)?;
    let seconds = begun.elapsed().as_secs_f64();
    // What was left behind is taken away at once, as the program does it.
    room.destroy_deleted()?;
    failure.map_or(
        Ok(Move {
            is_split,
            seconds,
            copied: copied_bytes,
            texts: room.bytes(),
        }),
        |why| Err(why.into()),
    )
}

/// Reads and writes from a thread each while `work` goes on.
fn under_load(
    room: &Room,
    keys: &[(PartitionKey, String)],
    created: &AtomicU64,
    latencies: &mut Latencies,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let over = AtomicBool::new(false);
    let repeat = |one: &dyn Fn(u64) -> Result<()>| -> std::result::Result<Vec<f64>, String> {
        let mut taken = Vec::new();
        for n in 0.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            let begun = Instant::now();
            one(n).map_err(|error| error.to_string())?;
            taken.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        Ok(taken)
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            repeat(&|n| {
                let (key, id) = &keys[n as usize % keys.len()];
                room.read(key, id).map(drop)
            })
        });
        let writer = scope.spawn(|| {
            repeat(&|_| {
                room.create(&item(
                    'c',
                    created.fetch_add(1, Ordering::Relaxed),
                    CREATE_BYTES,
                ))
            })
        });
        let worked = work();
        over.store(true, Ordering::Relaxed);
        let (reads, creates) = (reader.join(), writer.join());
        latencies
            .reads
            .extend(reads.map_err(|_| "the reader panicked")??);
        latencies
            .creates
            .extend(creates.map_err(|_| "the writer panicked")??);
        worked
    })
}

fn print_moves(moves: &[Move]) {
    println!(
        "{:<10} {:>6} {:>12} {:>12} {:>16} {:>16}",
        "on disk", "times", "MB of rows", "seconds", "rows, MB/s", "item text, MB/s"
    );
    for (name, is_split) in [("split", true), ("merge", false)] {
        let of_kind: Vec<&Move> = moves
            .iter()
            .filter(|one| one.is_split == is_split)
            .collect();
        let middle =
            |figure: &dyn Fn(&Move) -> f64| median(of_kind.iter().map(|one| figure(one)).collect());
        if of_kind.is_empty() {
            continue;
        }
        println!(
            "{name:<10} {:>6} {:>12.1} {:>12.3} {:>16.1} {:>16.1}",
            of_kind.len(),
            middle(&|one| one.copied as f64 / MEGABYTE),
            middle(&|one| one.seconds),
            middle(&|one| one.copied as f64 / MEGABYTE / one.seconds),
            middle(&|one| one.texts as f64 / MEGABYTE / one.seconds),
        );
    }
}

fn print_latencies(quiet: Latencies, moving: Latencies) {
    println!(
        "\n{:<24} {:>10} {:>10} {:>10} {:>12} {:>10}",
        "one client each, µs", "p50", "p99", "p99.9", "longest", "a second"
    );
    let lines = [
        ("reads, quiet", quiet.reads),
        ("reads, splitting", moving.reads),
        ("creates, quiet", quiet.creates),
        ("creates, splitting", moving.creates),
    ];
    for (name, mut taken) in lines {
        taken.sort_by(f64::total_cmp);
        let at = |share: f64| {
            taken.get(((taken.len() as f64 * share) as usize).min(taken.len().saturating_sub(1)))
        };
        let figure = |share: f64| at(share).copied().unwrap_or(0.0);
        let rate = taken.len() as f64 / (taken.iter().sum::<f64>() / 1e6);
        println!(
            "{name:<24} {:>10.1} {:>10.1} {:>10.1} {:>12.1} {rate:>10.0}",
            figure(0.5),
            figure(0.99),
            figure(0.999),
            figure(1.0),
        );
    }
}
