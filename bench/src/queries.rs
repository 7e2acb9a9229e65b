//! Queries on a small and a large container of the same shape, on disk: what an answer of the same size costs when
//! there is a hundred times as much around it.
//!
//! Both containers are asked in turns in one run, so a ratio compares neighbours. Every value occurs as often in the
//! large one as in the small one; what grows is the number of values, partitions stay as they are. Each line is measured
//! twice with the same values: when they are met first, the large container reads blocks that the small one has in memory
//! already; when they are met again, both have them.

use crate::Result;
use crate::engine::Room;
use crate::report::median;
use orrery_engine::request::{PageRequest, QueryRequest, Scope};
use orrery_storage::{LocalOptions, LocalStore};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Physical partitions of each container: 6,000 RU/s make one.
const PARTITIONS: u32 = 4;
/// Threads that load.
const LOADERS: u64 = 4;
/// Items of one `kind`, of one `shade`, of one `batch`, and of both a `kind` and its `shade`.
const OF_A_KIND: u64 = 10;
const OF_A_SHADE: u64 = 200;
const OF_A_BATCH: u64 = 1_000;
/// Items of one partition key value.
const OF_A_KEY: u64 = 50;
/// Characters of the text that no index has.
const NOTE: usize = 200;

/// The container: `note` is for scans, `batch` and `at` have a composite index.
const CONTAINER: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/note/?"}],
    "compositeIndexes":[[{"path":"/batch","order":"ascending"},{"path":"/at","order":"descending"}]]}}"#;

/// What is measured: a name, and the text for the n-th time in a container of so many items.
struct Line {
    name: &'static str,
    text: fn(u64, u64) -> String,
}

const LINES: [Line; 7] = [
    Line {
        name: "equality, 10 rows",
        text: |n, items| format!("SELECT * FROM c WHERE c.kind = {}", n % (items / OF_A_KIND)),
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
                n % (items / OF_A_BATCH)
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
            let batch = n % (items / OF_A_BATCH);
            format!("SELECT TOP 10 * FROM c WHERE c.batch = {batch} ORDER BY c.batch, c.at DESC")
        },
    },
    Line {
        name: "MAX",
        text: |_, _| "SELECT VALUE MAX(c.at) FROM c".to_owned(),
    },
];

impl Line {
    /// The middle latency in each container and what the last is to the first; each value is asked for once in each.
    fn measure(&self, halls: &[Hall], times: u64) -> Result<String> {
        let mut latencies: Vec<Vec<f64>> = vec![Vec::new(); halls.len()];
        for n in 0..times {
            for (hall, latencies) in halls.iter().zip(&mut latencies) {
                let (took, rows) = hall.ask(&(self.text)(n, hall.items))?;
                if rows == 0 {
                    return Err(
                        format!("{}: no row was found among {}", self.name, hall.items).into(),
                    );
                }
                latencies.push(took.as_secs_f64() * 1e6);
            }
        }
        let medians: Vec<f64> = latencies.into_iter().map(median).collect();
        let ratio = medians
            .last()
            .zip(medians.first())
            .map_or(1.0, |(last, first)| last / first);
        Ok(format!(
            "{}  {ratio:>5.2}",
            medians
                .iter()
                .map(|m| format!("{m:>12.0}"))
                .collect::<String>()
        ))
    }
}

/// A number below `items` that differs for each `n`, out of order.
fn spread(n: u64, items: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % items
}

fn shade(n: u64, items: u64) -> u64 {
    n % (items / OF_A_SHADE)
}

fn batch(n: u64, items: u64) -> u64 {
    (n / 7) % (items / OF_A_BATCH)
}

fn item(n: u64, items: u64) -> Vec<u8> {
    let note: String = (0..NOTE as u64)
        .map(|i| char::from(b'a' + (spread(n + i * i, 26) as u8)))
        .collect();
    let (shade, batch, at) = (shade(n, items), batch(n, items), spread(n, items));
    format!(
        r#"{{"id":"i{n}","pk":"k{}","kind":{},"shade":{shade},"batch":{batch},"at":{at},"name":"item {n}","note":"{note}"}}"#,
        n / OF_A_KEY,
        n % (items / OF_A_KIND)
    )
    .into_bytes()
}

/// One container, filled.
struct Hall {
    room: Room,
    items: u64,
}

impl Hall {
    fn fill(directory: &Path, items: u64) -> Result<Hall> {
        let store = LocalStore::open(
            directory.join(format!("of-{items}")),
            LocalOptions::default(),
        )?;
        let room = Room::with(Arc::new(store), CONTAINER, PARTITIONS * 6_000)?;
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let loader = |which: u64| {
                let room = &room;
                move || -> std::result::Result<(), String> {
                    room.create_all(
                        (0..items)
                            .filter(|n| n % LOADERS == which)
                            .map(|n| item(n, items)),
                    )
                    .map_err(|error| error.to_string())
                }
            };
            let loaders: Vec<_> = (0..LOADERS)
                .map(|which| scope.spawn(loader(which)))
                .collect();
            loaders
                .into_iter()
                .try_for_each(|l| l.join().unwrap_or_else(|_| Err("a loader panicked".into())))
        })?;
        let rate = items as f64 / begun.elapsed().as_secs_f64();
        println!("{items} items loaded, {rate:.0} items/s");
        Ok(Hall { room, items })
    }

    /// Runs a query to its end; how long it took, and how many rows there were.
    fn ask(&self, text: &str) -> Result<(Duration, usize)> {
        let begun = Instant::now();
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
            let answer = self.room.query(&Scope::Everything, &request)?;
            rows += answer.page.rows.len();
            match answer.page.continuation {
                Some(token) => page.continuation = Some(token),
                None => return Ok((begun.elapsed(), rows)),
            }
        }
    }
}

/// Fills the containers, measures each line `times` times in turns, and prints the table.
pub(crate) fn run(sizes: &[u64], times: u64, directory: &Path) -> Result<()> {
    if sizes.iter().any(|items| *items < OF_A_BATCH) {
        return Err(format!("a container needs at least {OF_A_BATCH} items").into());
    }
    let halls = sizes
        .iter()
        .map(|items| Hall::fill(directory, *items))
        .collect::<Result<Vec<_>>>()?;
    let sizes: String = halls
        .iter()
        .map(|hall| format!("{:>12}", hall.items))
        .collect();
    println!("\nat items:                   {sizes}  ratio  {sizes}  ratio");
    println!(
        "p50 in µs, values in turn   {:>width$}  {:>width$}",
        "met first",
        "met again",
        width = sizes.len() + 7
    );
    for line in &LINES {
        let first = line.measure(&halls, times)?;
        let again = line.measure(&halls, times)?;
        println!("{:<28}{first}  {again}", line.name);
    }
    for hall in &halls {
        let text = r#"SELECT VALUE c.id FROM c WHERE CONTAINS(c.note, "no such word")"#;
        let (took, rows) = hall.ask(text)?;
        let megabytes = hall.room.bytes() as f64 / 1e6;
        if rows > 0 {
            return Err("a word was found that is nowhere".into());
        }
        println!(
            "full scan of {} items: {:.0} MB of item text a second, on one core",
            hall.items,
            megabytes / took.as_secs_f64()
        );
    }
    Ok(())
}
