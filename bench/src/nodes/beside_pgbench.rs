//! One node on one cluster beside pgbench on the same server, in turn: point reads of items of 1 KB
//! and creates of 400 B, in a container of one partition and in one of many.
//!
//! The transaction of pgbench writes as many rows and bytes as a create of the node does, which is
//! counted first, and moves a head as well. Its read is one `SELECT` of an item row. It is prepared
//! and pipelined, and has one connection for each of the node's. Each connection has a head of its
//! own, so that no transaction of pgbench waits for another one.

use super::Fleet;
use crate::Result;
use crate::items::{READ_BYTES, READ_ITEMS};
use crate::postgres::{LogPosition, LogUse, pgbench_rate};
use crate::record::figure;
use crate::report::median;
use crate::servers::Server;
use orrery_storage_postgres::ClusterConfig;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

const CONNECTIONS: [usize; 3] = [1, 16, 64];
/// RU/s of containers of one partition and of 17.
const THROUGHPUTS: [u32; 2] = [400, 100_000];
/// The schema of pgbench, and the partition of the rows that pgbench reads.
const SCHEMA: &str = "pgbench";
const READ_PARTITION: u32 = 1_000;
/// The time in which the rows of creates are counted.
const COUNTING_TIME: Duration = Duration::from_secs(1);

/// The time in which a connection to PostgreSQL reports the rows that it has changed.
const REPORTING_TIME: Duration = Duration::from_millis(1_500);

/// The rows that a create writes, on the average.
struct RowsOfCreate {
    inserted: f64,
    updated: f64,
    /// Bytes of the key and the value of a row.
    key_bytes: f64,
    value_bytes: f64,
}

/// The results of a line in all rounds.
#[derive(Default)]
struct Results {
    node: Vec<f64>,
    p50_us: Vec<f64>,
    log: Vec<LogUse>,
    pgbench: Vec<f64>,
}

/// Measures every line `rounds` times for `time`, and prints medians.
pub(super) fn run(server: &Server, directory: &Path, rounds: usize, time: Duration) -> Result<()> {
    let mut fleets = Vec::new();
    for ru in THROUGHPUTS {
        let folder = directory.join(format!("beside-{ru}"));
        let config = server.config();
        let fleet = Fleet::start(std::slice::from_ref(&config), &folder, &["a"], "off", ru)?;
        fleets.push((fleet, config));
    }
    create_tables(server);
    let rows = RowsOfCreate::count(server, &fleets[0].0, &fleets[0].1)?;
    println!(
        "A create inserts {:.1} rows and updates {:.1}, with {:.0} bytes of keys and {:.0} of \
         values in a row.",
        rows.inserted, rows.updated, rows.key_bytes, rows.value_bytes
    );
    let ranges: Vec<usize> = fleets.iter().map(|(fleet, _)| fleet.ranges).collect();
    let lines = [
        ("point reads", true, 0),
        ("creates", false, 0),
        ("creates", false, 1),
    ];
    let mut results: Vec<Results> = Vec::new();
    results.resize_with(lines.len() * CONNECTIONS.len(), Results::default);
    for round in 0..rounds {
        eprintln!("round {} of {rounds}, beside pgbench", round + 1);
        let mut of_line = results.iter_mut();
        for (_, is_read, at) in lines {
            let fleet = &fleets[at].0;
            for (connections, results) in CONNECTIONS.iter().zip(&mut of_line) {
                measure(server, fleet, &rows, (is_read, *connections), time, results)?;
            }
        }
    }
    println!(
        "{:<14} {:>10} {:>5} {:>8} {:>8} {:>6} {:>7} {:>10} {:>6}",
        "operation",
        "partitions",
        "conn.",
        "node/s",
        "p50 us",
        "group",
        "WAL kB",
        "pgbench/s",
        "ratio"
    );
    let mut of_line = results.iter();
    for (name, is_read, at) in lines {
        for (connections, results) in CONNECTIONS.iter().zip(&mut of_line) {
            print_line(name, is_read, ranges[at], *connections, results);
        }
    }
    Ok(())
}

fn print_line(name: &str, is_read: bool, ranges: usize, connections: usize, results: &Results) {
    let (node, pgbench) = (
        median(results.node.clone()),
        median(results.pgbench.clone()),
    );
    let of_log = |value: fn(&LogUse) -> f64| match is_read {
        true => "-".to_owned(),
        false => format!("{:.1}", median(results.log.iter().map(value).collect())),
    };
    let title = format!("beside pgbench, {name}, {ranges} partitions, {connections} conn.");
    figure(format!("{title}, ops/s"), node);
    figure(format!("{title}, ratio"), node / pgbench);
    println!(
        "{name:<14} {ranges:>10} {connections:>5} {node:>8.0} {:>8.0} {:>6} {:>7} {pgbench:>10.0} \
         {:>6.2}",
        median(results.p50_us.clone()),
        of_log(|log| log.group),
        of_log(|log| log.wal_kb),
        node / pgbench,
    );
}

fn measure(
    server: &Server,
    fleet: &Fleet,
    rows: &RowsOfCreate,
    (is_read, connections): (bool, usize),
    time: Duration,
    results: &mut Results,
) -> Result<()> {
    let line = super::line("", is_read, &[0], connections);
    let before = LogPosition::of(server)?;
    let created = fleet.created.load(Ordering::Relaxed);
    let measured = fleet.measure(&line, time)?;
    let created = fleet.created.load(Ordering::Relaxed) - created;
    results.node.push(measured.rate);
    results.p50_us.push(measured.p50);
    results
        .log
        .push(LogPosition::of(server)?.since(before, created as usize));
    let script = match is_read {
        true => read_script(),
        false => rows.script(),
    };
    let seconds = time.as_secs().max(1);
    results
        .pgbench
        .push(pgbench_rate(server, &script, connections, seconds)?);
    Ok(())
}

/// Creates the tables of pgbench: heads of partitions, and rows to read.
fn create_tables(server: &Server) {
    server.sql(&format!(
        "CREATE SCHEMA {SCHEMA}; \
         CREATE TABLE {SCHEMA}.head (p bigint PRIMARY KEY, incarnation bigint NOT NULL, \
         epoch bigint NOT NULL, lsn bigint NOT NULL, token bytea NOT NULL, \
         state smallint NOT NULL); \
         CREATE TABLE {SCHEMA}.kv (p bigint NOT NULL, k bytea NOT NULL, v bytea NOT NULL, \
         PRIMARY KEY (p, k)); \
         INSERT INTO {SCHEMA}.head SELECT n, 1, 1, 0, decode(repeat('ab', 16), 'hex'), 0 \
         FROM generate_series(0, 99) AS n; \
         INSERT INTO {SCHEMA}.kv SELECT {READ_PARTITION}, decode(lpad(to_hex(n), 16, '0'), 'hex'), \
         decode(repeat('ab', {READ_BYTES}), 'hex') FROM generate_series(0, {READ_ITEMS} - 1) AS n"
    ));
}

/// Returns a script that reads a row of the size of an item.
fn read_script() -> String {
    let last = READ_ITEMS - 1;
    format!(
        "\\set n random(0, {last})\nSELECT k, v FROM {SCHEMA}.kv WHERE p = {READ_PARTITION} \
         AND k = ANY(ARRAY[decode(lpad(to_hex(:n::int), 16, '0'), 'hex')]);\n"
    )
}

impl RowsOfCreate {
    /// Counts the rows that one caller's creates write.
    fn count(server: &Server, fleet: &Fleet, config: &ClusterConfig) -> Result<RowsOfCreate> {
        let schema = &config.schema;
        let rows = |column: &str| -> Result<f64> {
            let sums = format!("SELECT count(*), sum(length({column})) FROM {schema}.kv");
            let sums = server.sql(&sums);
            Ok(sums[0][1].parse()?)
        };
        let count = || -> Result<f64> {
            Ok(server.sql(&format!("SELECT count(*) FROM {schema}.kv"))[0][0].parse()?)
        };
        let written = || -> Result<f64> {
            let written = format!(
                "SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables \
                 WHERE schemaname = '{schema}' AND relname = 'kv'"
            );
            Ok(server.sql(&written)[0][0].parse()?)
        };
        let (keys, values, all, changes) = (rows("k")?, rows("v")?, count()?, written()?);
        let created = fleet.created.load(Ordering::Relaxed);
        fleet.measure(&super::line("", false, &[0], 1), COUNTING_TIME)?;
        let created = (fleet.created.load(Ordering::Relaxed) - created) as f64;
        let inserted = count()? - all;
        // A connection reports its counts a second after its last transaction at the latest. The
        // lease is renewed meanwhile, which is a few rows.
        #[expect(
            clippy::disallowed_methods,
            reason = "the period of the server's reports"
        )]
        std::thread::sleep(REPORTING_TIME);
        let changed = written()? - changes;
        Ok(RowsOfCreate {
            inserted: inserted / created,
            updated: (changed - inserted) / created,
            key_bytes: (rows("k")? - keys) / inserted,
            value_bytes: (rows("v")? - values) / inserted,
        })
    }

    /// Returns a script that writes as much as a create.
    fn script(&self) -> String {
        let (inserted, updated) = (self.inserted.round(), self.updated.round().max(1.0));
        let pad = (self.key_bytes as usize).saturating_sub(16);
        let value = self.value_bytes as usize;
        format!(
            "\\set p :client_id\n\\set r random(1, 1000000000000)\n\\startpipeline\nBEGIN;\n\
             UPDATE {SCHEMA}.head SET lsn = lsn + 1, \
             token = '\\x00112233445566778899aabbccddeeff' WHERE p = :p AND epoch = 1 \
             AND state = 0;\n\
             INSERT INTO {SCHEMA}.kv (p, k, v) SELECT :p, CASE WHEN n <= {updated} \
             THEN decode(lpad(to_hex(n), 4, '0'), 'hex') \
             ELSE decode(md5(concat(:r::text, n)) || repeat('ab', {pad}), 'hex') END, \
             decode(repeat('ab', {value}), 'hex') \
             FROM generate_series(1, {all}) AS n \
             WHERE EXISTS (SELECT 1 FROM {SCHEMA}.head WHERE p = :p AND epoch = 1) \
             ON CONFLICT (p, k) DO UPDATE SET v = excluded.v;\nCOMMIT;\n\\endpipeline\n",
            all = inserted + updated,
        )
    }
}
