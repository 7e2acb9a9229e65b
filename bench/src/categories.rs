//! Benchmark of queries that filter and group by a category, on containers of one and of 167
//! physical partitions (1,000,000 RU/s): the same items, on disk, in this process and over HTTP.
//!
//! The container has the default indexing policy: no index orders the items of a category. The
//! engine has to choose between a walk along the index of `n` and a lookup of `cat`.

use crate::child::ready_server;
use crate::engine::BenchEngine;
use crate::load::{LoadSpec, load};
use crate::record::figure;
use crate::report::median;
use crate::{Result, items};
use orrery_engine::request::{PageRequest, QueryRequest, Scope};
use orrery_storage::{LocalOptions, LocalStore};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// The throughput in RU/s of a new container for each of its physical partitions, and the largest
/// throughput of a container: 167 physical partitions.
const PARTITION_RU: u32 = 6_000;
const RU_MAX: u32 = 1_000_000;
/// Number of categories.
const CATEGORIES: u64 = 100;
/// Items with the same partition key.
const ITEMS_PER_KEY: u64 = 10;
/// Requests of each connection before a measurement over HTTP.
const WARM_UP: usize = 2;

const CONTAINER: &str =
    r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;

/// A line of the table: its name, and the query text for a run number.
struct Line {
    name: &'static str,
    text: fn(u64) -> String,
    rows: usize,
}

const LINES: [Line; 4] = [
    Line {
        name: "TOP 10 of a category by n",
        text: |n| {
            let category = n % CATEGORIES;
            format!("SELECT TOP 10 * FROM c WHERE c.cat = 'cat-{category:02}' ORDER BY c.n DESC")
        },
        rows: 10,
    },
    Line {
        name: "TOP 10 of all by n",
        text: |_| "SELECT TOP 10 * FROM c ORDER BY c.n DESC".to_owned(),
        rows: 10,
    },
    Line {
        name: "COUNT by category",
        text: |_| "SELECT c.cat, COUNT(1) AS items FROM c GROUP BY c.cat".to_owned(),
        rows: CATEGORIES as usize,
    },
    Line {
        name: "DISTINCT categories",
        text: |_| "SELECT DISTINCT VALUE c.cat FROM c".to_owned(),
        rows: CATEGORIES as usize,
    },
];

/// Returns item `n` as JSON, about 350 bytes. Category and `n` are independent of each other.
fn item(n: u64) -> Vec<u8> {
    let spread = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
    let category = spread % CATEGORIES;
    let rank = (spread / CATEGORIES) % 1_000_000;
    format!(
        concat!(
            r#"{{"id":"i{n}","pk":"k{key}","cat":"cat-{category:02}","n":{rank},"#,
            r#""name":"item {n}","price":{price},"note":"{note}"}}"#,
        ),
        n = n,
        key = n / ITEMS_PER_KEY,
        category = category,
        rank = rank,
        price = n % 500,
        note = "and so the planets turn above the brass hills ".repeat(4),
    )
    .into_bytes()
}

/// Creates and loads a container.
fn fill(directory: &Path, items: u64, ru: u32) -> Result<BenchEngine> {
    let store = LocalStore::open(directory.join("store"), LocalOptions::default())?;
    let engine = BenchEngine::with(Arc::new(store), CONTAINER, ru)?;
    engine.create_all((0..items).map(item))?;
    Ok(engine)
}

fn request(text: &str) -> QueryRequest {
    let page = PageRequest {
        max_items: Some(1_000),
        ..PageRequest::default()
    };
    QueryRequest {
        cross_partition: true,
        ..QueryRequest::of(text, Vec::new(), page)
    }
}

impl Line {
    /// Runs the query in this process until the time is over. Returns queries per second.
    fn measure(&self, engine: &BenchEngine, time: Duration) -> Result<f64> {
        let started = Instant::now();
        let mut runs = 0;
        while started.elapsed() < time {
            let answer = engine.query(&Scope::Everything, &request(&(self.text)(runs)))?;
            let rows = answer.page.rows.len();
            if rows != self.rows || answer.page.continuation.is_some() {
                return Err(format!("{}: {rows} rows on the first page", self.name).into());
            }
            runs += 1;
        }
        Ok(runs as f64 / started.elapsed().as_secs_f64())
    }

    /// Sends the query over one connection until the time is over. Returns queries per second.
    fn measure_http(&self, queries: &items::Queries, address: &str, time: Duration) -> Result<f64> {
        let spec = LoadSpec {
            address,
            counter: &AtomicU64::new(0),
            request: &|n, out| queries.write(&(self.text)(n), out),
            connections: 1,
            warm_up: WARM_UP,
            time,
        };
        let measurement = load(&spec)?;
        Ok(measurement.latencies.len() as f64 / measurement.elapsed.as_secs_f64())
    }
}

/// Loads a container of each number of physical partitions, measures each line and prints the
/// table.
pub(crate) fn run(
    items: u64,
    partitions: &[u32],
    rounds: usize,
    time: Duration,
    directory: &Path,
) -> Result<()> {
    println!("queries per second, one at a time, {items} items in {CATEGORIES} categories\n");
    println!(
        "{:<28} {:>10} {:>12} {:>12}",
        "query", "partitions", "in process", "over HTTP"
    );
    for &partitions in partitions {
        let ru = (partitions * PARTITION_RU).min(RU_MAX);
        let directory = directory.join(format!("of-{partitions}"));
        let engine = fill(&directory, items, ru)?;
        let mut rates = Vec::new();
        for line in &LINES {
            let mut rounds_of_line = Vec::new();
            for _ in 0..rounds {
                rounds_of_line.push(line.measure(&engine, time)?);
            }
            rates.push(median(rounds_of_line));
        }
        drop(engine);

        let server = ready_server(&directory, &[])?;
        let queries = items::Queries::new(&server)?;
        for (line, rate) in LINES.iter().zip(rates) {
            let mut rounds_of_line = Vec::new();
            for _ in 0..rounds {
                rounds_of_line.push(line.measure_http(&queries, &server.address, time)?);
            }
            let http = median(rounds_of_line);
            println!(
                "{:<28} {partitions:>10} {rate:>12.1} {http:>12.1}",
                line.name
            );
            let name = format!("{}, {partitions} partitions", line.name);
            figure(format!("{name}, in process, queries/s"), rate);
            figure(format!("{name}, over HTTP, queries/s"), http);
        }
    }
    Ok(())
}
