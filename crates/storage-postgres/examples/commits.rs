//! Commits a second through the store, and through pgbench with the same transaction, on one server
//! that the program starts. `docs/benchmarks.md` has figures.
//!
//! A commit moves the head, writes four rows of 500 bytes and one feed row. Each line has a number
//! of writers and a number of partitions. pgbench has one connection for each writer; the store has
//! at most eight, and sends commits that wait for the same partition together.

#![allow(clippy::print_stdout)] // the output is the result

#[path = "../tests/support/mod.rs"]
mod servers;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use orrery_storage::{Commit, CommitOutcome, Lease, PartitionId, Store};
use orrery_storage_postgres::{ClusterConfig, PostgresStore};
use servers::Server;

/// The duration of one measurement.
const SECONDS: u64 = 3;
const ROUNDS: usize = 3;
const LINES: [(usize, u64); 6] = [(1, 1), (16, 1), (64, 1), (1, 8), (16, 8), (64, 8)];

fn main() {
    let server = Server::start(&[]);
    println!("writers partitions  store/s  p50 ms  p99 ms  pgbench/s");
    for (writers, partitions) in LINES {
        let mut lines = Vec::new();
        for _ in 0..ROUNDS {
            let config = server.config();
            let store = PostgresStore::open(config.clone()).unwrap();
            let (rate, p50, p99) = through_store(&store, writers, partitions);
            drop(store);
            lines.push((
                rate,
                p50,
                p99,
                through_pgbench(&server, &config, writers, partitions),
            ));
        }
        // The round in the middle by the rate of the store.
        lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (rate, p50, p99, bare) = lines[ROUNDS / 2];
        println!("{writers:>7} {partitions:>10} {rate:>8.0} {p50:>7.2} {p99:>7.2} {bare:>10.0}");
    }
}

/// Returns commits a second, and the median and the 99th percentile of their milliseconds.
fn through_store(store: &PostgresStore, writers: usize, partitions: u64) -> (f64, f64, f64) {
    let open = |n| {
        let lease = store.open(PartitionId(n)).unwrap();
        Mutex::new((lease.head().lsn, lease))
    };
    let partitions: Vec<Mutex<(u64, Lease)>> = (1..=partitions).map(open).collect();
    let (is_over, times) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let next = AtomicU64::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (partition, is_over, times) =
                (&partitions[writer % partitions.len()], &is_over, &times);
            let next = &next;
            scope.spawn(move || {
                let mut mine = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let receipt = {
                        let mut head = partition.lock().unwrap();
                        head.0 += 1;
                        let commit = commit(head.0, next.fetch_add(1, Ordering::Relaxed));
                        store.submit(&head.1, commit)
                    };
                    assert_eq!(receipt.wait(), CommitOutcome::Ok);
                    mine.push(begun.elapsed());
                }
                times.lock().unwrap().extend(mine);
            });
        }
        std::thread::park_timeout(Duration::from_secs(SECONDS));
        is_over.store(true, Ordering::Relaxed);
    });
    let elapsed = started.elapsed().as_secs_f64();
    let mut times = times.into_inner().unwrap();
    times.sort_unstable();
    let ms = |part: f64| times[(times.len() as f64 * part) as usize].as_secs_f64() * 1e3;
    (times.len() as f64 / elapsed, ms(0.5), ms(0.99))
}

fn commit(lsn: u64, number: u64) -> Commit {
    let row = |part: u8| {
        let key = [
            &[1, part][..],
            &number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(),
        ];
        (key.concat(), vec![part; 500])
    };
    let mut puts: Vec<_> = (0..4).map(row).collect();
    puts.push(([&[3][..], &lsn.to_be_bytes()].concat(), vec![7; 24]));
    Commit {
        expect_lsn: lsn - 1,
        new_lsn: lsn,
        token: [lsn as u8; 16],
        puts,
        ..Commit::default()
    }
}

/// Returns transactions a second of pgbench with the same statements, prepared and pipelined.
fn through_pgbench(
    server: &Server,
    config: &ClusterConfig,
    writers: usize,
    partitions: u64,
) -> f64 {
    let script = format!(
        "\\set p 1 + :client_id % {partitions}\n\\set r random(1, 1000000000000)\n\
         \\startpipeline\nBEGIN;\n\
         UPDATE {s}.head SET lsn = lsn + 1, token = '\\x00112233445566778899aabbccddeeff' \
         WHERE p = :p AND epoch = 1 AND state = 0;\n\
         INSERT INTO {s}.kv (p, k, v) SELECT :p, decode(md5(concat(:r::text, n)), 'hex'), \
         decode(repeat('ab', CASE n WHEN 5 THEN 24 ELSE 500 END), 'hex') \
         FROM generate_series(1, 5) AS n \
         WHERE EXISTS (SELECT 1 FROM {s}.head WHERE p = :p AND epoch = 1) \
         ON CONFLICT (p, k) DO UPDATE SET v = excluded.v;\n\
         COMMIT;\n\\endpipeline\n",
        s = config.schema
    );
    let file = server.folder().join("script.sql");
    std::fs::write(&file, script).unwrap();
    let (clients, seconds) = (writers.to_string(), SECONDS.to_string());
    let file = file.to_str().unwrap();
    let arguments = [
        "-n", "-M", "prepared", "-c", &clients, "-j", "2", "-T", &seconds, "-f", file,
    ];
    let output = String::from_utf8(server.pgbench(&arguments)).unwrap();
    let line = output
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))
        .unwrap();
    line.split(' ').next().unwrap().parse().unwrap()
}
