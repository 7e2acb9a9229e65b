//! Benchmark of the store in memory: creates over HTTP beside the same server on disk, and the
//! memory that an item takes.

use crate::child::{ServerProcess, memory_server, ready_server};
use crate::engine::BenchEngine;
use crate::items::{CREATE_BYTES, Creates, READ_BYTES, create_container, id, item, key};
use crate::load::{LoadSpec, load};
use crate::record::figure;
use crate::report::median;
use crate::{Result, WARM_UP};
use orrery_storage::{MemoryStore, Store as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Numbers of connections to measure.
const CONNECTIONS: [usize; 3] = [1, 16, 64];
/// Connections that create the items whose memory is measured.
const FILLING_CONNECTIONS: usize = 16;
/// Duration of one piece of the filling.
const FILLING_TIME: Duration = Duration::from_millis(200);

/// Measures and prints both tables. `beside` is the address of another server to measure.
pub(crate) fn run(
    rounds: usize,
    time: Duration,
    directory: &Path,
    items: u64,
    beside: Option<&str>,
) -> Result<()> {
    print!("{}", creates(rounds, time, directory, beside)?);
    println!();
    print!("{}", memory_of_items(items)?);
    Ok(())
}

/// A server to which items are written, and its rates.
struct Subject {
    name: &'static str,
    server: ServerProcess,
    creates: Creates,
    /// Number of the next item.
    created: AtomicU64,
    /// Items per second, for each number of connections and each round.
    rates: [Vec<f64>; CONNECTIONS.len()],
}

impl Subject {
    fn new(name: &'static str, server: ServerProcess) -> Result<Subject> {
        create_container(&server)?;
        Ok(Subject {
            name,
            creates: Creates::new(&server)?,
            server,
            created: AtomicU64::new(0),
            rates: Default::default(),
        })
    }
}

/// Measures the creates of all servers in every round. Returns the table.
fn creates(
    rounds: usize,
    time: Duration,
    directory: &Path,
    beside: Option<&str>,
) -> Result<String> {
    let mut subjects = vec![
        Subject::new("on disk", ready_server(directory, &[])?)?,
        Subject::new("in memory", memory_server()?)?,
    ];
    if let Some(address) = beside {
        subjects.push(Subject::new("beside", ServerProcess::running(address))?);
    }
    for _ in 0..rounds {
        for (at, connections) in CONNECTIONS.into_iter().enumerate() {
            for subject in &mut subjects {
                let spec = LoadSpec {
                    address: &subject.server.address,
                    counter: &subject.created,
                    request: &|n, out| subject.creates.write(n, out),
                    connections,
                    warm_up: WARM_UP,
                    time,
                };
                let measured = load(&spec)?;
                let rate = measured.latencies.len() as f64 / measured.elapsed.as_secs_f64();
                subject.rates[at].push(rate);
            }
        }
    }
    for (at, connections) in CONNECTIONS.into_iter().enumerate() {
        for subject in &subjects {
            let name = format!("{}, {connections} conn., items/s", subject.name);
            figure(name, median(subject.rates[at].clone()));
        }
    }
    Ok(table_of_creates(&subjects))
}

/// Returns the table of rates. Rates are medians over the rounds; a ratio is the median of the
/// ratios of each round.
fn table_of_creates(subjects: &[Subject]) -> String {
    let mut text = format!(
        "{:<22} {:>5} {:>10} {:>19}  {}\n",
        "create, 400 B", "conn.", "items/s", "(slowest–fastest)", "ratio"
    );
    let on_disk = &subjects[0];
    for (at, connections) in CONNECTIONS.into_iter().enumerate() {
        for subject in subjects {
            let rates = &subject.rates[at];
            let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let fastest = rates.iter().copied().fold(0.0, f64::max);
            let ratios = rates.iter().zip(&on_disk.rates[at]).map(|(a, b)| a / b);
            let line = format!(
                "{:<22} {connections:>5} {:>10.0} {:>19}  {:.2} of on disk\n",
                subject.name,
                median(rates.clone()),
                format!("({slowest:.0}–{fastest:.0})"),
                median(ratios.collect()),
            );
            text.push_str(&line);
        }
    }
    text
}

/// A kind of item whose memory is measured.
struct Size {
    name: &'static str,
    item: fn(u64) -> Item,
}

struct Item {
    id: String,
    partition_key: String,
    text: Vec<u8>,
}

const SIZES: [Size; 3] = [
    Size {
        name: "id and key only",
        item: |n| Item {
            id: n.to_string(),
            partition_key: n.to_string(),
            text: format!(r#"{{"id":"{n}","key":"{n}"}}"#).into_bytes(),
        },
    },
    Size {
        name: "400 B",
        item: |n| Item {
            id: id('c', n),
            partition_key: key(n),
            text: item('c', n, CREATE_BYTES),
        },
    },
    Size {
        name: "1 KB",
        item: |n| Item {
            id: id('c', n),
            partition_key: key(n),
            text: item('c', n, READ_BYTES),
        },
    },
];

/// Measures the memory of items of each size. Returns the table.
///
/// The text that a client reads has the system properties. *Rows* is the size that the store tells,
/// with an engine in this process; *resident* is the growth of a server.
fn memory_of_items(items: u64) -> Result<String> {
    let mut text = format!(
        "{:<22} {:>6} {:>6} {:>6} {:>9}  {}\n",
        "bytes of an item", "sent", "read", "rows", "resident", "resident/read"
    );
    for size in SIZES {
        let store = Arc::new(MemoryStore::new());
        let engine = BenchEngine::open(store.clone())?;
        let empty = store.approximate_bytes();
        let mut sent = 0;
        for n in 0..items {
            let item = (size.item)(n);
            engine.create(&item.text)?;
            sent += item.text.len() as u64;
        }
        let rows = store.approximate_bytes() - empty;
        let middle = (size.item)(items / 2);
        let read = engine.read(&engine.key(&middle.text)?, &middle.id)? as u64;
        let resident = resident_growth(&size, items)?;
        figure(format!("{}, rows, bytes", size.name), (rows / items) as f64);
        if let Some(bytes) = resident {
            figure(
                format!("{}, resident, bytes", size.name),
                (bytes / items) as f64,
            );
        }
        text.push_str(&format!(
            "{:<22} {:>6} {read:>6} {:>6} {:>9}  {}\n",
            size.name,
            sent / items,
            rows / items,
            resident.map_or("unknown".to_owned(), |bytes| (bytes / items).to_string()),
            resident.map_or("unknown".to_owned(), |bytes| {
                format!("{:.1}", bytes as f64 / (items * read) as f64)
            }),
        ));
    }
    Ok(text)
}

/// Returns the bytes by which the resident memory of a server grows when items are created in it;
/// `None` if the system does not tell.
fn resident_growth(size: &Size, items: u64) -> Result<Option<u64>> {
    let server = memory_server()?;
    create_container(&server)?;
    let creates = Creates::new(&server)?;
    let created = AtomicU64::new(0);
    let fill = |until: u64| -> Result<()> {
        while created.load(Ordering::Relaxed) < until {
            load(&LoadSpec {
                address: &server.address,
                counter: &created,
                request: &|n, out| {
                    let item = (size.item)(n);
                    creates.write_item(&item.partition_key, &item.text, out);
                },
                connections: FILLING_CONNECTIONS,
                warm_up: WARM_UP,
                time: FILLING_TIME,
            })?;
        }
        Ok(())
    };
    // The first requests fill the tables of the server itself.
    fill(1)?;
    let (before, first) = (server.resident_bytes(), created.load(Ordering::Relaxed));
    fill(first + items)?;
    let (Some(before), Some(after)) = (before, server.resident_bytes()) else {
        return Ok(None);
    };
    let added = created.load(Ordering::Relaxed) - first;
    Ok(Some(after.saturating_sub(before) * items / added))
}
