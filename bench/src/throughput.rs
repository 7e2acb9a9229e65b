//! What metering and admission cost a request: the engine's point reads and creates beside the same metering alone, in
//! turns, by the real clock.

use crate::Result;
use crate::engine::Room;
use crate::items::{CREATE_BYTES, READ_BYTES, READ_ITEMS, id, item};
use crate::report::median;
use orrery_engine::ThroughputOptions;
use orrery_engine::request::{Bucket, Manner};
use orrery_storage::MemoryStore;
use std::sync::Arc;
use std::time::Instant;

const READS: u64 = 100_000;
const CREATES: u64 = 10_000;
const PASSES: u64 = 500_000;
/// So much that nothing is ever refused.
const PLENTY_RU: u32 = 1_000_000;

/// What is measured, and in what container.
struct Line {
    name: &'static str,
    options: ThroughputOptions,
    manner: Manner,
}

/// Measures and prints microseconds a request.
pub(crate) fn run(rounds: usize) -> Result<()> {
    let plain = ThroughputOptions { enforce: true, burst_capacity: false, priorities: false };
    let all = ThroughputOptions { burst_capacity: true, priorities: true, ..plain };
    let lines = [
        Line { name: "counted", options: ThroughputOptions::default(), manner: Manner::default() },
        Line { name: "enforced", options: plain, manner: Manner::default() },
        Line {
            name: "enforced, all options",
            options: all,
            manner: Manner { bucket: Bucket::new(1), ..Manner::default() },
        },
    ];
    println!(
        "{:<32} {:>8} {:>18} {:>16} {:>14}",
        "metering, in memory", "µs", "(best–worst round)", "of a point read", "of a create"
    );
    for line in lines {
        let room = Room::metered(Arc::new(MemoryStore::new()), line.options, PLENTY_RU)?;
        let mut keys = Vec::new();
        for n in 0..READ_ITEMS {
            let text = item('r', n, READ_BYTES);
            room.create(&text)?;
            keys.push((room.key(&text)?, id('r', n)));
        }
        let (mut alone, mut of_read, mut of_create) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds as u64 {
            let mut failed = None;
            let pass = micros(PASSES, |n| {
                let (key, _) = &keys[(n % READ_ITEMS) as usize];
                failed = room.pass(key, line.manner).err().or(failed.take());
            });
            let read = micros(READS, |n| {
                let (key, id) = &keys[(n % READ_ITEMS) as usize];
                failed = room.read(key, id).err().or(failed.take());
            });
            let texts: Vec<_> = (0..CREATES).map(|n| item('c', round * CREATES + n, CREATE_BYTES)).collect();
            let create = micros(CREATES, |n| failed = room.create(&texts[n as usize]).err().or(failed.take()));
            failed.map_or(Ok(()), Err)?;
            alone.push(pass);
            of_read.push(pass / read);
            of_create.push(pass / create);
        }
        let least = alone.iter().copied().fold(f64::INFINITY, f64::min);
        let most = alone.iter().copied().fold(0.0, f64::max);
        println!(
            "{:<32} {:>8.3} {:>18} {:>15.1}% {:>13.1}%",
            line.name,
            median(alone),
            format!("({least:.3}–{most:.3})"),
            median(of_read) * 100.0,
            median(of_create) * 100.0
        );
    }
    Ok(())
}

/// Microseconds of one of so many turns.
fn micros(turns: u64, mut turn: impl FnMut(u64)) -> f64 {
    let begun = Instant::now();
    (0..turns).for_each(&mut turn);
    begun.elapsed().as_secs_f64() * 1e6 / turns as f64
}
