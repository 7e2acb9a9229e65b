//! Benchmark of splits and merges of a physical partition on disk: their speed, and the latencies
//! of one reader and one writer while splits and merges run, compared with those while none runs.

use crate::Result;
use crate::engine::BenchEngine;
use crate::items::{CREATE_BYTES, READ_BYTES, READ_ITEMS, id, item};
use crate::record::figure;
use crate::report::{median, percentile};
use orrery_engine::ThroughputOptions;
use orrery_engine::request::{RangeChange, RangeChangeStatus, SplitAt};
use orrery_model::partition_key::PartitionKey;
use orrery_storage::{LocalOptions, LocalStore};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MEGABYTE: f64 = (1 << 20) as f64;

/// The measurement of one split or merge.
struct ChangeMeasurement {
    is_split: bool,
    seconds: f64,
    /// Bytes of all copied rows, including index entries.
    copied_bytes: u64,
    /// Bytes of the items' JSON texts.
    item_bytes: u64,
}

/// Latencies of reads and creates in microseconds.
#[derive(Default)]
struct Latencies {
    reads: Vec<f64>,
    creates: Vec<f64>,
}

/// Loads `items` items into a container of one physical partition and measures `rounds` times, each
/// time for `seconds` without and with splits.
pub(crate) fn run(items: u64, rounds: usize, seconds: f64, directory: &Path) -> Result<()> {
    let store = Arc::new(LocalStore::open(
        directory.join("data"),
        LocalOptions::default(),
    )?);
    let engine = BenchEngine::metered(store, ThroughputOptions::default(), 400)?;
    eprintln!("writing {items} items of {READ_BYTES} bytes");
    engine.create_all((0..items).map(|n| item('r', n, READ_BYTES)))?;
    let keys = (0..READ_ITEMS.min(items))
        .map(|n| Ok((engine.key(&item('r', n, READ_BYTES))?, id('r', n))))
        .collect::<Result<Vec<_>>>()?;
    let (mut quiet, mut during_changes, mut changes) =
        (Latencies::default(), Latencies::default(), Vec::new());
    let created = AtomicU64::new(0);
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        let window = Duration::from_secs_f64(seconds);
        // First without changes, then with changes, so that both have the same amount of data.
        under_load(&engine, &keys, &created, &mut quiet, || {
            #[expect(clippy::disallowed_methods, reason = "the window of a measurement")]
            std::thread::sleep(window);
            Ok(())
        })?;
        under_load(&engine, &keys, &created, &mut during_changes, || {
            let started = Instant::now();
            // At least one split and one merge in each round, however long they take.
            while started.elapsed() < window || changes.len() < 2 * (round + 1) {
                changes.push(split_or_merge(&engine)?);
            }
            Ok(())
        })?;
    }
    print_changes(&changes);
    print_latencies(quiet, during_changes);
    Ok(())
}

/// Splits the partition if there is one, or merges the two partitions, and measures the change.
fn split_or_merge(engine: &BenchEngine) -> Result<ChangeMeasurement> {
    let ranges = engine.ranges()?;
    let is_split = ranges.len() == 1;
    let change = match ranges[..] {
        [range] => RangeChange::Split {
            range,
            at: SplitAt::Middle,
        },
        _ => RangeChange::Merge { ranges },
    };
    let started = Instant::now();
    let RangeChangeStatus {
        copied_bytes,
        failure,
        ..
    } = engine.change_ranges(change)?;
    let seconds = started.elapsed().as_secs_f64();
    // The server deletes the data of old partitions within a second; here the caller must do so.
    engine.destroy_deleted()?;
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    Ok(ChangeMeasurement {
        is_split,
        seconds,
        copied_bytes,
        item_bytes: engine.bytes(),
    })
}

/// Runs `work` while one thread reads and one creates items, and adds their latencies to
/// `latencies`.
fn under_load(
    engine: &BenchEngine,
    keys: &[(PartitionKey, String)],
    created: &AtomicU64,
    latencies: &mut Latencies,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let is_over = AtomicBool::new(false);
    let repeat = |one: &dyn Fn(u64) -> Result<()>| -> std::result::Result<Vec<f64>, String> {
        let mut taken = Vec::new();
        for n in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let started = Instant::now();
            one(n).map_err(|error| error.to_string())?;
            taken.push(started.elapsed().as_secs_f64() * 1e6);
        }
        Ok(taken)
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            repeat(&|n| {
                let (key, id) = &keys[n as usize % keys.len()];
                engine.read(key, id).map(drop)
            })
        });
        let writer = scope.spawn(|| {
            repeat(&|_| {
                engine.create(&item(
                    'c',
                    created.fetch_add(1, Ordering::Relaxed),
                    CREATE_BYTES,
                ))
            })
        });
        // The threads are stopped even if the work failed; its error is returned last.
        let worked = work();
        is_over.store(true, Ordering::Relaxed);
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

/// Prints the speed of splits and merges: medians over all changes.
fn print_changes(changes: &[ChangeMeasurement]) {
    println!(
        "{:<10} {:>6} {:>12} {:>12} {:>16} {:>16}",
        "on disk", "times", "MB of rows", "seconds", "rows, MB/s", "item text, MB/s"
    );
    for (name, is_split) in [("split", true), ("merge", false)] {
        let of_kind: Vec<&ChangeMeasurement> = changes
            .iter()
            .filter(|one| one.is_split == is_split)
            .collect();
        let middle = |figure: &dyn Fn(&ChangeMeasurement) -> f64| {
            median(of_kind.iter().map(|one| figure(one)).collect())
        };
        if of_kind.is_empty() {
            continue;
        }
        let rate = middle(&|one| one.copied_bytes as f64 / MEGABYTE / one.seconds);
        figure(format!("{name}, rows, MB/s"), rate);
        println!(
            "{name:<10} {:>6} {:>12.1} {:>12.3} {rate:>16.1} {:>16.1}",
            of_kind.len(),
            middle(&|one| one.copied_bytes as f64 / MEGABYTE),
            middle(&|one| one.seconds),
            middle(&|one| one.item_bytes as f64 / MEGABYTE / one.seconds),
        );
    }
}

/// Prints percentiles of latencies, and operations per second.
fn print_latencies(quiet: Latencies, during_changes: Latencies) {
    println!(
        "\n{:<24} {:>10} {:>10} {:>10} {:>12} {:>10}",
        "one client each, µs", "p50", "p99", "p99.9", "longest", "a second"
    );
    let lines = [
        ("reads, quiet", quiet.reads),
        ("reads, splitting", during_changes.reads),
        ("creates, quiet", quiet.creates),
        ("creates, splitting", during_changes.creates),
    ];
    for (name, mut taken) in lines {
        let rate = taken.len() as f64 / (taken.iter().sum::<f64>() / 1e6);
        let mut figure_at = |percent: f64| percentile(&mut taken, percent);
        figure(format!("{name}, p50 µs"), figure_at(50.0));
        figure(format!("{name}, p99 µs"), figure_at(99.0));
        println!(
            "{name:<24} {:>10.1} {:>10.1} {:>10.1} {:>12.1} {rate:>10.0}",
            figure_at(50.0),
            figure_at(99.0),
            figure_at(99.9),
            figure_at(100.0),
        );
    }
}
