//! What metering and admission cost a request: the engine's point reads and creates beside the same metering alone, in
//! turns, by the real clock.

use crate::Result;
use crate::engine::Room;
use crate::items::{CREATE_BYTES, READ_BYTES, READ_ITEMS, id, item};
use crate::report::median;
use orrery_engine::ThroughputOptions;
use orrery_engine::request::{AdmissionOptions, Bucket};
use orrery_storage::MemoryStore;
use std::sync::Arc;
use std::time::Instant;

const READS: u64 = 100_000;
const CREATES: u64 = 10_000;
const PASSES: u64 = 500_000;
/// Of the container; requests that cost nothing are refused by no budget.
const PLENTY_RU: u32 = 1_000_000;

/// A way to be metered, and what it took.
struct Line {
    name: &'static str,
    room: Room,
    admission: AdmissionOptions,
    /// Microseconds of a round, and shares of the read and the create of the same round.
    rounds: Vec<[f64; 3]>,
}

/// Measures and prints microseconds a request.
pub(crate) fn run(rounds: usize) -> Result<()> {
    let line = |name, throughput, bucket| -> Result<Line> {
        let room = Room::metered(Arc::new(MemoryStore::new()), throughput, PLENTY_RU)?;
        Ok(Line {
            name,
            room,
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
    let plain = Room::metered(
        Arc::new(MemoryStore::new()),
        ThroughputOptions::default(),
        PLENTY_RU,
    )?;
    let mut keys = Vec::new();
    for n in 0..READ_ITEMS {
        let text = item('r', n, READ_BYTES);
        plain.create(&text)?;
        keys.push((plain.key(&text)?, id('r', n)));
    }
    for round in 0..rounds as u64 {
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
                line.room
                    .pass(&keys[(n % READ_ITEMS) as usize].0, line.admission)
            })?;
            line.rounds.push([pass, pass / read, pass / create]);
        }
    }
    println!(
        "{:<24} {:>8} {:>18} {:>16} {:>14}",
        "metering, in memory", "µs", "(best–worst round)", "of a point read", "of a create"
    );
    for line in lines {
        let column = |at: usize| {
            line.rounds
                .iter()
                .map(|round| round[at])
                .collect::<Vec<f64>>()
        };
        let least = column(0).into_iter().fold(f64::INFINITY, f64::min);
        let most = column(0).into_iter().fold(0.0, f64::max);
        println!(
            "{:<24} {:>8.3} {:>18} {:>15.1}% {:>13.1}%",
            line.name,
            median(column(0)),
            format!("({least:.3}–{most:.3})"),
            median(column(1)) * 100.0,
            median(column(2)) * 100.0
        );
    }
    Ok(())
}

/// Microseconds of one of so many turns.
fn micros(turns: u64, turn: impl FnMut(u64) -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    (0..turns).try_for_each(turn)?;
    Ok(begun.elapsed().as_secs_f64() * 1e6 / turns as f64)
}
