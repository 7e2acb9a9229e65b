//! Benchmark of queries on a small and a large container of the same form, on disk: the cost of a
//! result of one size while the amount of other data grows a hundredfold.
//!
//! Each query runs on both containers in turn, so that a ratio compares measurements of the same
//! time. Every value occurs equally often in both containers; the number of different values grows,
//! the number of partitions does not. Each query is measured twice with the same values. In the
//! first pass the large container reads blocks that the small container has in its cache already;
//! in the second pass both have the blocks in their caches.

use crate::Result;
use crate::engine::BenchEngine;
use crate::record::figure;
use crate::report::median;
use orrery_engine::request::{PageRequest, QueryRequest, Scope, WriteOperation};
use orrery_storage::{LocalOptions, LocalStore};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Physical partitions of each container. A new container has one for each 6,000 RU/s.
const PARTITIONS: u32 = 4;
/// Items with the same `kind`.
const ITEMS_PER_KIND: u64 = 10;
/// Items with the same `shade`.
const ITEMS_PER_SHADE: u64 = 200;
/// Items with the same `batch`.
const ITEMS_PER_BATCH: u64 = 1_000;
/// Items with the same partition key.
const ITEMS_PER_KEY: u64 = 50;
/// Characters of `note`, which is not indexed.
const NOTE_CHARS: usize = 200;

/// Definition of the container. `note` is for full scans; `batch` and `at` have a composite index.
const CONTAINER: &str = r#"{
    "id": "items",
    "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
    "indexingPolicy": {
        "includedPaths": [{"path": "/*"}],
        "excludedPaths": [{"path": "/note/?"}],
        "compositeIndexes": [[
            {"path": "/batch", "order": "ascending"},
            {"path": "/at", "order": "descending"}
        ]]
    }
}"#;

/// A line of the table: its name, and the query text for a run number and a number of items.
struct Line {
    name: &'static str,
    text: fn(u64, u64) -> String,
}

const LINES: [Line; 7] = [
    Line {
        name: "equality, 10 rows",
        text: |n, items| {
            format!(
                "SELECT * FROM c WHERE c.kind = {}",
                n % (items / ITEMS_PER_KIND)
            )
        },
    },
    Line {
        name: "range, ORDER BY, top 10",
        text: |n, items| {
            format!(
                "SELECT TOP 10 * FROM c WHERE c.at >= {} ORDER BY c.at",
                spread(n, items - 10)
            )
        },
    },
    Line {
        name: "AND of two equalities",
        text: |n, items| {
            let item = n % items;
            format!(
                "SELECT * FROM c WHERE c.shade = {} AND c.batch = {}",
                shade(item, items),
                batch(item, items)
            )
        },
    },
    Line {
        name: "COUNT with a filter",
        text: |n, items| {
            format!(
                "SELECT VALUE COUNT(1) FROM c WHERE c.batch = {}",
                n % (items / ITEMS_PER_BATCH)
            )
        },
    },
    Line {
        name: "TOP 10 ORDER BY",
        text: |_, _| "SELECT TOP 10 * FROM c ORDER BY c.at DESC".to_owned(),
    },
    Line {
        name: "filter, composite ORDER BY",
        text: |n, items| {
            let batch = n % (items / ITEMS_PER_BATCH);
            format!("SELECT TOP 10 * FROM c WHERE c.batch = {batch} ORDER BY c.batch, c.at DESC")
        },
    },
    Line {
        name: "MAX",
        text: |_, _| "SELECT VALUE MAX(c.at) FROM c".to_owned(),
    },
];

impl Line {
    /// Runs the query `times` times on each container with different values, and states the median
    /// latencies; `values` tells if these values were met before. Returns the median latency for
    /// each container and the ratio of the last to the first.
    fn measure(&self, containers: &[FilledContainer], times: u64, values: &str) -> Result<String> {
        let mut latencies: Vec<Vec<f64>> = vec![Vec::new(); containers.len()];
        for n in 0..times {
            for (container, latencies) in containers.iter().zip(&mut latencies) {
                let (took, rows) = container.query(&(self.text)(n, container.items))?;
                if rows == 0 {
                    return Err(
                        format!("{}: no row among {} items", self.name, container.items).into(),
                    );
                }
                latencies.push(took.as_secs_f64() * 1e6);
            }
        }
        let medians: Vec<f64> = latencies.into_iter().map(median).collect();
        let ratio = match (medians.first(), medians.last()) {
            (Some(first), Some(last)) => last / first,
            _ => 1.0,
        };
        let mut columns = String::new();
        for (median, container) in medians.iter().zip(containers) {
            columns.push_str(&format!("{median:>12.0}"));
            let name = format!("{}, {} items, {values}, p50 µs", self.name, container.items);
            figure(name, *median);
        }
        Ok(format!("{columns}  {ratio:>5.2}"))
    }
}

/// Returns a pseudo-random number below `items` for `n`.
fn spread(n: u64, items: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % items
}

/// Returns the `shade` of item `n`.
fn shade(n: u64, items: u64) -> u64 {
    n % (items / ITEMS_PER_SHADE)
}

/// Returns the `batch` of item `n`.
fn batch(n: u64, items: u64) -> u64 {
    (n / 7) % (items / ITEMS_PER_BATCH)
}

/// Returns item `n` as JSON, about 530 bytes.
fn item(n: u64, items: u64) -> Vec<u8> {
    let note: String = (0..NOTE_CHARS as u64)
        .map(|i| char::from(b'a' + (spread(n + i * i, 26) as u8)))
        .collect();
    let (shade, batch, at) = (shade(n, items), batch(n, items), spread(n, items));
    format!(
        concat!(
            r#"{{"id":"i{n}","pk":"k{pk}","kind":{kind},"shade":{shade},"batch":{batch},"#,
            r#""at":{at},"name":"item {n}","note":"{note}"}}"#,
        ),
        n = n,
        pk = n / ITEMS_PER_KEY,
        kind = n % (items / ITEMS_PER_KIND),
        shade = shade,
        batch = batch,
        at = at,
        note = note,
    )
    .into_bytes()
}

/// A container with its items.
struct FilledContainer {
    engine: BenchEngine,
    items: u64,
}

impl FilledContainer {
    /// Creates and loads a container of `items` items.
    fn fill(directory: &Path, items: u64) -> Result<FilledContainer> {
        let store = LocalStore::open(
            directory.join(format!("of-{items}")),
            LocalOptions::default(),
        )?;
        let engine = BenchEngine::with(Arc::new(store), CONTAINER, PARTITIONS * 6_000)?;
        let create = WriteOperation::Create;
        let took = engine.load(&create, items as usize, |n| item(n as u64, items))?;
        let rate = items as f64 / took.as_secs_f64();
        println!("{items} items loaded, {rate:.0} items/s");
        Ok(FilledContainer { engine, items })
    }

    /// Runs a query to its last page. Returns its duration and the number of rows.
    fn query(&self, text: &str) -> Result<(Duration, usize)> {
        let started = Instant::now();
        let mut page = PageRequest {
            max_items: Some(1_000),
            ..PageRequest::default()
        };
        let mut rows = 0;
        loop {
            let request = QueryRequest {
                cross_partition: true,
                ..QueryRequest::of(text, Vec::new(), page.clone())
            };
            let answer = self.engine.query(&Scope::Everything, &request)?;
            rows += answer.page.rows.len();
            match answer.page.continuation {
                Some(token) => page.continuation = Some(token),
                None => return Ok((started.elapsed(), rows)),
            }
        }
    }
}

/// Loads the containers, measures each line and prints the table.
pub(crate) fn run(sizes: &[u64], times: u64, directory: &Path) -> Result<()> {
    if sizes.iter().any(|items| *items < ITEMS_PER_BATCH) {
        return Err(format!("a container needs at best {ITEMS_PER_BATCH} items").into());
    }
    let containers = sizes
        .iter()
        .map(|items| FilledContainer::fill(directory, *items))
        .collect::<Result<Vec<_>>>()?;
    let sizes: String = containers
        .iter()
        .map(|container| format!("{:>12}", container.items))
        .collect();
    println!("\nat items:                   {sizes}  ratio  {sizes}  ratio");
    println!(
        "p50 in µs, values in turn   {:>width$}  {:>width$}",
        "met first",
        "met again",
        width = sizes.len() + 7
    );
    for line in &LINES {
        let first = line.measure(&containers, times, "met first")?;
        let again = line.measure(&containers, times, "met again")?;
        println!("{:<28}{first}  {again}", line.name);
    }
    // A query without an index: the speed at which items are read and filtered.
    for container in &containers {
        let text = r#"SELECT VALUE c.id FROM c WHERE CONTAINS(c.note, "no such word")"#;
        let (took, rows) = container.query(text)?;
        let megabytes = container.engine.bytes() as f64 / 1e6;
        if rows > 0 {
            return Err("a word was found that no item contains".into());
        }
        let rate = megabytes / took.as_secs_f64();
        println!(
            "full scan of {} items: {rate:.0} MB of item text a second, on one core",
            container.items
        );
        figure(
            format!("full scan of {} items, MB/s", container.items),
            rate,
        );
    }
    Ok(())
}
