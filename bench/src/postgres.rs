//! Benchmark of the store in a PostgreSQL cluster: commits and point reads, beside pgbench with the
//! same transactions on the same server, which the program starts.
//!
//! A commit moves the head, writes four rows of 500 bytes and one feed row. pgbench sends a
//! transaction of the same form for each commit, prepared and pipelined, and one `SELECT` for each
//! read, with one connection for each caller. The store has its default number of connections.
//! pgbench makes its rows in the server, so it sends less.

use crate::Result;
use crate::record::figure;
use crate::report::percentile;
use crate::servers::Server;
use orrery_storage::{Commit, CommitOutcome, Lease, PartitionId, ReadAhead, Store};
use orrery_storage_postgres::{PostgresStore, StoreOptions};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rows that are read.
const READ_ROWS: u64 = 1_000;

/// The numbers of callers of each operation.
const CALLERS: [usize; 3] = [1, 16, 64];

/// An operation; one line of the output for each number of callers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// One partition: the commits of all callers go together.
    OnePartition,
    /// As many partitions as a container of 100,000 RU/s has.
    Partitions17,
    /// As many partitions as callers.
    PartitionEach,
    /// A transaction for each read.
    Transactions,
    /// A statement for each read: the store keeps no rows.
    Statements,
    /// The store owns the partition, and keeps rows in memory.
    Memory,
}

impl Line {
    const ALL: [Line; 6] = [
        Line::OnePartition,
        Line::Partitions17,
        Line::PartitionEach,
        Line::Transactions,
        Line::Statements,
        Line::Memory,
    ];

    fn name(self) -> &'static str {
        match self {
            Line::OnePartition => "commits, one partition",
            Line::Partitions17 => "commits, 17 partitions",
            Line::PartitionEach => "commits, a partition each",
            Line::Transactions => "point reads, a transaction each",
            Line::Statements => "point reads, a statement each",
            Line::Memory => "point reads, rows in memory",
        }
    }

    fn partitions(self, callers: usize) -> usize {
        match self {
            Line::Partitions17 => 17,
            Line::PartitionEach => callers,
            _ => 1,
        }
    }

    fn is_read(self) -> bool {
        matches!(self, Line::Transactions | Line::Statements | Line::Memory)
    }

    /// Returns the script of pgbench: the same transaction, or for a read of any kind a `SELECT`.
    fn script(self, schema: &str, callers: usize) -> String {
        match self.is_read() {
            false => commit_script(schema, self.partitions(callers)),
            true => format!(
                "\\set n random(0, {})\nSELECT k, v FROM {schema}.kv \
                 WHERE p = 1 AND k = ANY(ARRAY[decode(lpad(to_hex(:n::int), 16, '0'), 'hex')]);\n",
                READ_ROWS - 1
            ),
        }
    }
}

fn commit_script(schema: &str, partitions: usize) -> String {
    format!(
        "\\set p 1 + :client_id % {partitions}\n\\set r random(1, 1000000000000)\n\
         \\startpipeline\nBEGIN;\n\
         UPDATE {schema}.head SET lsn = lsn + 1, token = '\\x00112233445566778899aabbccddeeff' \
         WHERE p = :p AND epoch = 1 AND state = 0;\n\
         INSERT INTO {schema}.kv (p, k, v) SELECT :p, decode(md5(concat(:r::text, n)), 'hex'), \
         decode(repeat('ab', CASE n WHEN 5 THEN 24 ELSE 500 END), 'hex') \
         FROM generate_series(1, 5) AS n \
         WHERE EXISTS (SELECT 1 FROM {schema}.head WHERE p = :p AND epoch = 1) \
         ON CONFLICT (p, k) DO UPDATE SET v = excluded.v;\n\
         COMMIT;\n\\endpipeline\n"
    )
}

/// One measurement of a line.
struct Measurement {
    store: f64,
    p50_ms: f64,
    p99_ms: f64,
    log: LogUse,
    pgbench: f64,
}

/// The writes of a server so far.
pub(crate) struct LogPosition {
    transactions: f64,
    bytes: f64,
}

/// The writes of a server for one operation.
pub(crate) struct LogUse {
    /// Operations in a transaction.
    pub(crate) group: f64,
    /// Kilobytes of the write-ahead log for an operation.
    pub(crate) wal_kb: f64,
}

impl LogPosition {
    pub(crate) fn of(server: &Server) -> Result<LogPosition> {
        let rows = server.sql(
            "SELECT pg_snapshot_xmax(pg_current_snapshot()), \
             pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')",
        );
        let number = |column: usize| -> Result<f64> { Ok(rows[0][column].parse()?) };
        Ok(LogPosition {
            transactions: number(0)?,
            bytes: number(1)?,
        })
    }

    pub(crate) fn since(&self, before: LogPosition, operations: usize) -> LogUse {
        let operations = operations as f64;
        LogUse {
            group: operations / (self.transactions - before.transactions).max(1.0),
            wal_kb: (self.bytes - before.bytes) / 1_000.0 / operations.max(1.0),
        }
    }
}

/// Measures every line `rounds` times, each time for `seconds` through the store and then through
/// pgbench.
pub(crate) fn run(rounds: usize, seconds: u64) -> Result<()> {
    let server = Server::start(&[]);
    let of_line = |line| CALLERS.map(|callers| (line, callers));
    let lines: Vec<(Line, usize)> = Line::ALL.into_iter().flat_map(of_line).collect();
    let mut results: Vec<Vec<Measurement>> = lines.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for ((line, callers), results) in lines.iter().zip(&mut results) {
            results.push(measure(&server, *line, *callers, seconds)?);
        }
    }
    println!(
        "{:<32} {:>7} {:>9} {:>7} {:>7} {:>6} {:>7} {:>10} {:>6}",
        "operation",
        "callers",
        "store/s",
        "p50 ms",
        "p99 ms",
        "group",
        "WAL kB",
        "pgbench/s",
        "ratio"
    );
    for ((line, callers), results) in lines.into_iter().zip(&results) {
        let median = |value: fn(&Measurement) -> f64| {
            let mut values: Vec<f64> = results.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        let name = format!("{}, {callers} callers", line.name());
        figure(format!("{name}, store/s"), median(|m| m.store));
        figure(format!("{name}, ratio"), median(|m| m.store / m.pgbench));
        let (group, wal) = match line.is_read() {
            true => ("-".to_owned(), "-".to_owned()),
            false => (
                format!("{:.1}", median(|m| m.log.group)),
                format!("{:.1}", median(|m| m.log.wal_kb)),
            ),
        };
        println!(
            "{:<32} {callers:>7} {:>9.0} {:>7.2} {:>7.2} {group:>6} {wal:>7} {:>10.0} {:>6.2}",
            line.name(),
            median(|m| m.store),
            median(|m| m.p50_ms),
            median(|m| m.p99_ms),
            median(|m| m.pgbench),
            median(|m| m.store / m.pgbench),
        );
    }
    Ok(())
}

fn measure(server: &Server, line: Line, callers: usize, seconds: u64) -> Result<Measurement> {
    // A schema of its own, so that both start with empty tables of the same form.
    let mut config = server.config();
    if line == Line::Statements {
        config.cache_mb = 0;
    }
    let options = StoreOptions {
        only_writer: line == Line::Memory,
        ..StoreOptions::default()
    };
    let store = PostgresStore::open_with(config.clone(), options)?;
    let mut partitions = Vec::new();
    for n in 1..=line.partitions(callers) as u64 {
        let lease = store.open(PartitionId(n))?;
        partitions.push(Mutex::new((lease.head().lsn, lease)));
    }
    if line.is_read() {
        write_rows(&store, &partitions[0])?;
    }
    let next = AtomicU64::new(0);
    let call = |_| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        match line {
            Line::Transactions => read_row(&store, number, false),
            Line::Statements | Line::Memory => read_row(&store, number, true),
            _ => write(
                &store,
                &partitions[number as usize % partitions.len()],
                number,
            ),
        }
    };
    let before = LogPosition::of(server)?;
    let (rate, mut times) = repeat(callers, Duration::from_secs(seconds), call);
    let log = LogPosition::of(server)?.since(before, times.len());
    drop(store);
    let script = line.script(&config.schema, callers);
    Ok(Measurement {
        store: rate,
        p50_ms: percentile(&mut times, 50.0),
        p99_ms: percentile(&mut times, 99.0),
        log,
        pgbench: pgbench_rate(server, &script, callers, seconds)?,
    })
}

/// Calls `call` from several threads for a time. Returns calls a second, and the milliseconds of
/// each.
fn repeat(callers: usize, time: Duration, call: impl Fn(usize) + Sync) -> (f64, Vec<f64>) {
    let (is_over, times) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for caller in 0..callers {
            let (is_over, times, call) = (&is_over, &times, &call);
            scope.spawn(move || {
                let mut mine = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    call(caller);
                    mine.push(begun.elapsed().as_secs_f64() * 1e3);
                }
                times.lock().expect("no caller panics").extend(mine);
            });
        }
        #[expect(clippy::disallowed_methods, reason = "the window of a measurement")]
        std::thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
    });
    let elapsed = started.elapsed().as_secs_f64();
    let times = times.into_inner().expect("no caller panics");
    (times.len() as f64 / elapsed, times)
}

/// Writes the rows that are read.
fn write_rows(store: &PostgresStore, partition: &Mutex<(u64, Lease)>) -> Result<()> {
    let mut head = partition.lock().map_err(|_| "a caller failed")?;
    let rows = (0..READ_ROWS).map(|n| (n.to_be_bytes().to_vec(), vec![7; 500]));
    let commit = Commit {
        expect_lsn: head.0,
        new_lsn: head.0 + 1,
        token: [1; 16],
        puts: rows.collect(),
        ..Commit::default()
    };
    head.0 += 1;
    match store.submit(&head.1, commit).wait() {
        CommitOutcome::Ok => Ok(()),
        other => Err(format!("the rows could not be written: {other:?}").into()),
    }
}

fn read_row(store: &PostgresStore, number: u64, is_ahead: bool) {
    let key = (number.wrapping_mul(0x9e37_79b9) % READ_ROWS).to_be_bytes();
    let snapshot = match is_ahead {
        true => {
            let ahead = ReadAhead {
                keys: vec![key.to_vec()],
                ..ReadAhead::default()
            };
            store.snapshot_ahead(PartitionId(1), &ahead)
        }
        false => store.snapshot(PartitionId(1)),
    };
    let snapshot = snapshot.expect("a snapshot");
    let value = snapshot.get(&key).expect("a value");
    assert_eq!(value.map(|value| value.len()), Some(500));
}

fn write(store: &PostgresStore, partition: &Mutex<(u64, Lease)>, number: u64) {
    let receipt = {
        let mut head = partition.lock().expect("no caller panics");
        head.0 += 1;
        store.submit(&head.1, commit(head.0, number))
    };
    assert_eq!(receipt.wait(), CommitOutcome::Ok);
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

/// Returns the transactions a second of pgbench, with prepared statements.
pub(crate) fn pgbench_rate(
    server: &Server,
    script: &str,
    connections: usize,
    seconds: u64,
) -> Result<f64> {
    let file = server.folder().join("script.sql");
    std::fs::write(&file, script)?;
    let (clients, seconds) = (connections.to_string(), seconds.to_string());
    let threads = if connections == 1 { "1" } else { "2" };
    let file = file.to_str().ok_or("the folder has no name in UTF-8")?;
    let arguments = [
        "-n", "-M", "prepared", "-c", &clients, "-j", threads, "-T", &seconds, "-f", file,
    ];
    let output = String::from_utf8(server.pgbench(&arguments))?;
    let rate = output
        .lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next());
    let rate = rate.ok_or_else(|| format!("pgbench gave no rate: {output}"))?;
    Ok(rate.parse()?)
}
