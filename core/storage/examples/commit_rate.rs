//! Measures durable commits per second of the local engine, with 1, 16 and 64 writers, each on its
//! own partition.
//!
//! A commit is what one item of about 400 bytes makes: a row and 20 index entries. Usage:
//! `commit_rate [seconds] [directory]`. Choose the directory with care, since the disk under it
//! decides the result. Build with `--profile bench`.

#![allow(clippy::print_stdout)] // a tool for a terminal

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use orrery_storage::{Commit, CommitOutcome, LocalOptions, LocalStore, PartitionId, Store};

const INDEX_ENTRIES: u32 = 20;
const ITEM_BYTES: usize = 400;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let parent = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    for writers in [1, 16, 64] {
        let path = parent.join(format!("commit-rate-{}", std::process::id()));
        let result = measure(&path, writers, Duration::from_secs(seconds));
        std::fs::remove_dir_all(&path)?;
        let mut latencies = result?;
        latencies.sort_unstable();
        let rate = latencies.len() as u64 / seconds.max(1);
        println!(
            "{writers:>2} writers: {rate:>6} commits/s, p50 {:?}, p99 {:?}",
            percentile(&latencies, 50),
            percentile(&latencies, 99)
        );
    }
    Ok(())
}

/// Returns the value at a percentage of a sorted list.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let index = sorted.len() * percent / 100;
    sorted.get(index).copied().unwrap_or_default()
}

/// Commits with `writers` threads for the given time. Returns the duration of each commit.
fn measure(
    path: &PathBuf,
    writers: u64,
    time: Duration,
) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let store = LocalStore::open(path, LocalOptions::default())?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, stop) = (&store, &stop);
        let threads: Vec<_> = (0..writers)
            .map(|id| scope.spawn(move || write(store, stop, id)))
            .collect();
        #[expect(clippy::disallowed_methods, reason = "the time of a measurement")]
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let mut latencies = Vec::new();
        for thread in threads {
            latencies.extend(thread.join().map_err(|_| "a writer panicked")??);
        }
        Ok(latencies)
    })
}

/// Commits to a partition until `stop` is set. Returns the duration of each commit.
fn write(store: &LocalStore, stop: &AtomicBool, id: u64) -> Result<Vec<Duration>, String> {
    let partition = PartitionId(id + 1);
    let lease = store.open(partition).map_err(|e| e.to_string())?;
    let (mut latencies, mut lsn) = (Vec::new(), lease.head().lsn);
    while !stop.load(Ordering::Relaxed) {
        let change = Commit {
            expect_lsn: lsn,
            new_lsn: lsn + 1,
            puts: item(lsn),
            ..Commit::default()
        };
        let begun = Instant::now();
        let outcome = store.submit(&lease, change).wait();
        if outcome != CommitOutcome::Ok {
            return Err(format!(
                "commit {lsn} of partition {partition} ended in {outcome:?}"
            ));
        }
        latencies.push(begun.elapsed());
        lsn += 1;
    }
    Ok(latencies)
}

/// Returns the keys and values of one item; index keys are spread as hashes would be.
fn item(lsn: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let spread = lsn.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let row = [b"\x10".as_slice(), &spread, &lsn.to_be_bytes()].concat();
    let body = spread.iter().copied().cycle().take(ITEM_BYTES).collect();
    let entries = (0..INDEX_ENTRIES).map(|path| {
        let value = lsn
            .wrapping_mul(u64::from(path) * 2 + 0x1234_5677)
            .to_be_bytes();
        (
            [
                b"\x90".as_slice(),
                &path.to_be_bytes(),
                b"\x05",
                &value,
                &spread,
                &lsn.to_be_bytes(),
            ]
            .concat(),
            Vec::new(),
        )
    });
    std::iter::once((row, body)).chain(entries).collect()
}
