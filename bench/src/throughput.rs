//! Benchmark of metering and admission: a request that does nothing, compared with the engine's
//! point reads and creates in the same round, by the real clock.

use crate::Result;
use crate::engine::BenchEngine;
use crate::items::{CREATE_BYTES, READ_BYTES, READ_ITEMS, id, item};
use crate::record::figure;
use crate::report::median;
use orrery_engine::ThroughputOptions;
use orrery_engine::request::{AdmissionOptions, Bucket};
use orrery_storage::MemoryStore;
use std::sync::Arc;
use std::time::Instant;

/// Operations of one round.
const READS: u64 = 100_000;
const CREATES: u64 = 10_000;
const PASSES: u64 = 500_000;
/// Provisioned RU/s of the container, enough to admit every request.
const CONTAINER_RU: u32 = 1_000_000;

/// A configuration of throughput control and its measurements.
struct Line {
    name: &'static str,
    engine: BenchEngine,
    admission: AdmissionOptions,
    /// For each round: microseconds per request, and the ratios to a read and a create in that
    /// round.
    rounds: Vec<[f64; 3]>,
}

/// Runs the benchmark and prints microseconds per request.
pub(crate) fn run(rounds: usize) -> Result<()> {
    let line = |name, throughput, bucket| -> Result<Line> {
        let engine = BenchEngine::metered(Arc::new(MemoryStore::new()), throughput, CONTAINER_RU)?;
        Ok(Line {
            name,
            engine,
            admission: AdmissionOptions {
                bucket,
                ..AdmissionOptions::default()
            },
            rounds: Vec::new(),
        })
    };
    let enforced = ThroughputOptions {
        enforce: true,
        burst_capacity: false,
        priorities: false,
    };
    let all = ThroughputOptions {
        burst_capacity: true,
        priorities: true,
        ..enforced
    };
    let mut lines = [
        line("counted", ThroughputOptions::default(), None)?,
        line("enforced", enforced, None)?,
        line("enforced, all options", all, Bucket::new(1))?,
    ];
    let plain = BenchEngine::metered(
        Arc::new(MemoryStore::new()),
        ThroughputOptions::default(),
        CONTAINER_RU,
    )?;
    // The base: an engine without enforced budgets, and items to read.
    let mut keys = Vec::new();
    for n in 0..READ_ITEMS {
        let text = item('r', n, READ_BYTES);
        plain.create(&text)?;
        keys.push((plain.key(&text)?, id('r', n)));
    }
    for round in 0..rounds as u64 {
        // Reads, creates and all configurations run in each round, so that the ratios compare
        // measurements of the same time.
        let read = micros(READS, |n| {
            let (key, id) = &keys[(n % READ_ITEMS) as usize];
            plain.read(key, id).map(|_| ())
        })?;
        let texts: Vec<_> = (0..CREATES)
            .map(|n| item('c', round * CREATES + n, CREATE_BYTES))
            .collect();
        let create = micros(CREATES, |n| plain.create(&texts[n as usize]))?;
        for line in &mut lines {
            let pass = micros(PASSES, |n| {
                line.engine
                    .pass(&keys[(n % READ_ITEMS) as usize].0, line.admission)
            })?;
            line.rounds.push([pass, pass / read, pass / create]);
        }
    }
    print_table(&lines);
    Ok(())
}

/// Prints medians over the rounds.
fn print_table(lines: &[Line]) {
    println!(
        "{:<24} {:>8} {:>18} {:>16} {:>14}",
        "metering, in memory", "µs", "(best–worst round)", "of a point read", "of a create"
    );
    for line in lines {
        let column = |index: usize| {
            line.rounds
                .iter()
                .map(|round| round[index])
                .collect::<Vec<f64>>()
        };
        let best = column(0).into_iter().fold(f64::INFINITY, f64::min);
        let worst = column(0).into_iter().fold(0.0, f64::max);
        figure(format!("{}, µs", line.name), median(column(0)));
        println!(
            "{:<24} {:>8.3} {:>18} {:>15.1}% {:>13.1}%",
            line.name,
            median(column(0)),
            format!("({best:.3}–{worst:.3})"),
            median(column(1)) * 100.0,
            median(column(2)) * 100.0
        );
    }
}

/// Runs `turn` `turns` times and returns the microseconds of one turn.
fn micros(turns: u64, turn: impl FnMut(u64) -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    (0..turns).try_for_each(turn)?;
    Ok(started.elapsed().as_secs_f64() * 1e6 / turns as f64)
}
