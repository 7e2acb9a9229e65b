//! The containers of a run, one store and one engine for each kind of index, and their loads.
//!
//! Parts of the items go to each container in turn, so that a busy period of the machine affects
//! all of them alike. The background work that a part leaves behind is done before the next
//! container has its turn, and is timed apart. The last items are created one at a time by each
//! thread, every item in each container in turn: they give the latencies of a create.

use super::answer::{Answer, measured};
use super::data::{DIMENSIONS, Data};
use super::table::{Column, Table, mega, milliseconds};
use crate::Result;
use crate::engine::{BenchEngine, LOADERS, on_threads};
use crate::record::figure;
use crate::report::percentile;
use orrery_engine::request::{PageRequest, QueryRequest, Scope, WriteOperation};
use orrery_storage::{LocalOptions, LocalStore, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Throughput of a container: one physical partition.
const RU: u32 = 6_000;
/// Items of a part, after which the background work has its turn.
const PART: usize = 5_000;
/// Items that are created one at a time, at most a tenth of all.
const SINGLE_CREATES: usize = 2_000;
/// Background work that no item needs takes less than this.
const UNRELATED: Duration = Duration::from_millis(20);
/// Ticks of a second in the times of a process.
const TICKS: f64 = 100.0;

/// A kind of container: the type of its vector index, or its other indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Index {
    /// No vector index and no full-text index
    #[value(name = "none")]
    None,
    /// A vector index of type flat
    #[value(name = "flat")]
    Flat,
    /// A vector index of type quantizedFlat
    #[value(name = "quantizedFlat")]
    QuantizedFlat,
    /// A vector index of type diskANN
    #[value(name = "diskANN")]
    DiskAnn,
    /// A vector index of type diskANN with a shard for each tenth of the items
    #[value(name = "shards")]
    Shards,
    /// A full-text index, and a vector index of type flat
    #[value(name = "fullText")]
    FullText,
}

impl Index {
    /// All kinds in the order of the tables.
    pub(crate) const ALL: [Index; 6] = [
        Index::None,
        Index::Flat,
        Index::QuantizedFlat,
        Index::DiskAnn,
        Index::Shards,
        Index::FullText,
    ];

    /// Returns the name in the output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Index::None => "none",
            Index::Flat => "flat",
            Index::QuantizedFlat => "quantizedFlat",
            Index::DiskAnn => "diskANN",
            Index::Shards => "diskANN in shards",
            Index::FullText => "fullText and flat",
        }
    }

    /// Returns the indexes as a part of the indexing policy.
    fn policy(self) -> String {
        let kind = match self {
            Index::None => return String::new(),
            Index::Flat | Index::FullText => "flat",
            Index::QuantizedFlat => "quantizedFlat",
            Index::DiskAnn | Index::Shards => "diskANN",
        };
        let shards = match self {
            Index::Shards => r#","vectorIndexShardKey":["/tenth"]"#,
            _ => "",
        };
        let texts = match self {
            Index::FullText => r#","fullTextIndexes":[{"path":"/text"}]"#,
            _ => "",
        };
        format!(r#","vectorIndexes":[{{"path":"/v","type":"{kind}"{shards}}}]{texts}"#)
    }
}

/// A container.
pub(crate) struct SearchContainer {
    pub(crate) index: Index,
    pub(crate) engine: BenchEngine,
    store: Arc<LocalStore>,
    directory: PathBuf,
    load: Load,
}

/// The costs of a load.
#[derive(Default)]
struct Load {
    items: usize,
    took: Duration,
    processor_seconds: f64,
    background: Duration,
    background_processor_seconds: f64,
    /// Milliseconds of single creates.
    creates: Vec<f64>,
}

impl SearchContainer {
    /// Creates a container in its own directory, with a cache of some bytes.
    fn create(directory: &Path, index: Index, cache_bytes: u64) -> Result<SearchContainer> {
        let indexes = index.policy();
        let container = format!(
            r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},
            "vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"float32",
                "dimensions":{DIMENSIONS},"distanceFunction":"cosine"}}]}},
            "fullTextPolicy":{{"fullTextPaths":[{{"path":"/text"}}]}},
            "indexingPolicy":{{"includedPaths":[{{"path":"/*"}}],
                "excludedPaths":[{{"path":"/v/*"}},{{"path":"/text/?"}}]{indexes}}}}}"#
        );
        let directory = directory.join(index.name().replace(' ', "-"));
        let options = LocalOptions {
            cache_bytes,
            ..LocalOptions::default()
        };
        let store = Arc::new(LocalStore::open(&directory, options)?);
        let engine = BenchEngine::with_clock(store.clone(), &container, RU)?;
        // The work of a new engine is none of the items.
        engine.settle()?;
        Ok(SearchContainer {
            index,
            engine,
            store,
            directory,
            load: Load::default(),
        })
    }

    /// Writes a part of the items and does the background work that follows from it.
    fn write(&mut self, operation: &WriteOperation, items: &[Vec<u8>]) -> Result<()> {
        let before = processor_seconds();
        self.load.took += self
            .engine
            .load(operation, items.len(), |at| items[at].clone())?;
        self.load.processor_seconds += processor_seconds() - before;
        self.load.items += items.len();
        self.settle()
    }

    fn settle(&mut self) -> Result<()> {
        let before = processor_seconds();
        self.load.background += self.engine.settle()?;
        self.load.background_processor_seconds += processor_seconds() - before;
        Ok(())
    }

    /// Runs a query of one page.
    pub(crate) fn ask(&self, text: &str) -> Result<Answer> {
        let (result, mut answer) = measured(|| {
            let request = QueryRequest {
                cross_partition: true,
                ..QueryRequest::of(text, Vec::new(), PageRequest::default())
            };
            self.engine.query(&Scope::Everything, &request)
        });
        for row in &result?.page.rows {
            let text = std::str::from_utf8(row)?.trim_matches('"');
            answer.rows.push(text.to_owned());
        }
        Ok(answer)
    }

    /// Returns the bytes of the files of the container.
    fn disk_bytes(&self) -> Result<u64> {
        self.store.wait_for_compaction();
        bytes_below(&self.directory)
    }
}

/// Creates the containers, loads them and prints what that cost.
pub(crate) fn load(
    directory: &Path,
    indexes: &[Index],
    cache_bytes: u64,
    data: &Data,
) -> Result<Vec<SearchContainer>> {
    let mut containers = Vec::new();
    for index in indexes {
        containers.push(SearchContainer::create(directory, *index, cache_bytes)?);
    }
    let single = SINGLE_CREATES.min(data.items() / 10);
    let bulk: Vec<usize> = (0..data.items() - single).collect();
    write_in_parts(&mut containers, &WriteOperation::Create, &bulk, data)?;
    let latencies = on_threads(LOADERS, |first| {
        let own = (data.items() - single + first..data.items()).step_by(LOADERS);
        create_in_turn(&containers, data, own)
    })?;
    for thread in latencies {
        for (container, creates) in containers.iter_mut().zip(thread) {
            container.load.creates.extend(creates);
        }
    }
    for container in &mut containers {
        // Single creates are no part of the rate, but their vectors are linked with all others.
        container.settle()?;
    }
    print_loads(&mut containers, data.items())?;
    Ok(containers)
}

/// Writes items to all containers, a part to each in turn.
fn write_in_parts(
    containers: &mut [SearchContainer],
    operation: &WriteOperation,
    items: &[usize],
    data: &Data,
) -> Result<()> {
    for (part, numbers) in items.chunks(PART).enumerate() {
        let texts: Vec<Vec<u8>> = numbers.iter().map(|at| data.item(*at)).collect();
        for container in &mut *containers {
            container.write(operation, &texts)?;
        }
        if (part + 1) % 10 == 0 {
            let written = part * PART + numbers.len();
            eprintln!("{written} of {} items written", items.len());
        }
    }
    Ok(())
}

/// Creates items one at a time, each in all containers in turn. Returns the milliseconds of each
/// create for each container.
fn create_in_turn(
    containers: &[SearchContainer],
    data: &Data,
    items: impl Iterator<Item = usize>,
) -> Result<Vec<Vec<f64>>> {
    let mut latencies = vec![Vec::new(); containers.len()];
    for at in items {
        let text = data.item(at);
        for (container, latencies) in containers.iter().zip(&mut latencies) {
            let started = Instant::now();
            container.engine.create(&text)?;
            latencies.push(milliseconds(started.elapsed()));
        }
    }
    Ok(latencies)
}

fn print_loads(containers: &mut [SearchContainer], items: usize) -> Result<()> {
    let table = Table::begin(
        &format!("load of {items} items by {LOADERS} threads"),
        &[
            Column("items/s", 0),
            Column("CPU µs", 0),
            Column("create p50", 2),
            Column("p95", 2),
            Column("of none", 2),
            Column("linked/s", 0),
            Column("for s", 1),
            Column("CPU µs", 0),
            Column("disk MB", 0),
            Column("B/item", 0),
        ],
    );
    let mut base = None;
    for container in containers {
        let bytes = container.disk_bytes()? as f64;
        let Load {
            took,
            items: bulk,
            processor_seconds,
            background,
            background_processor_seconds,
            creates,
            ..
        } = &mut container.load;
        let bulk = *bulk as f64;
        let rate = bulk / took.as_secs_f64();
        let (p50, p95) = (percentile(creates, 50.0), percentile(creates, 95.0));
        if container.index == Index::None {
            base = Some(p50);
        }
        let linked = linked(items, *background);
        let name = container.index.name();
        table.row(
            name,
            &[
                Some(rate),
                (*processor_seconds > 0.0).then_some(*processor_seconds * 1e6 / bulk),
                Some(p50),
                Some(p95),
                base.map(|base| p50 / base),
                linked,
                Some(background.as_secs_f64()),
                linked.map(|_| *background_processor_seconds * 1e6 / items as f64),
                Some(mega(bytes)),
                Some(bytes / items as f64),
            ],
        );
        figure(format!("search, load, {name}, items/s"), rate);
        figure(format!("search, create, {name}, p50 ms"), p50);
        figure(format!("search, create, {name}, p95 ms"), p95);
        figure(format!("search, disk, {name}, MB"), mega(bytes));
        if let Some(linked) = linked {
            figure(format!("search, linked, {name}, vectors/s"), linked);
        }
    }
    Ok(())
}

/// Replaces items of all containers by those of `data` and prints what that cost.
pub(crate) fn replace(
    containers: &mut [SearchContainer],
    items: &[usize],
    data: &Data,
) -> Result<()> {
    for container in &mut *containers {
        container.load = Load::default();
    }
    write_in_parts(containers, &WriteOperation::Upsert, items, data)?;
    let table = Table::begin(
        &format!("replacement of {} items by {LOADERS} threads", items.len()),
        &[
            Column("items/s", 0),
            Column("CPU µs", 0),
            Column("linked/s", 0),
            Column("for s", 1),
            Column("CPU µs", 0),
            Column("disk MB", 0),
        ],
    );
    for container in containers {
        let bytes = container.disk_bytes()? as f64;
        let load = &container.load;
        let (count, name) = (items.len() as f64, container.index.name());
        let rate = count / load.took.as_secs_f64();
        let processor = load.processor_seconds;
        let linked = linked(items.len(), load.background);
        table.row(
            name,
            &[
                Some(rate),
                (processor > 0.0).then_some(processor * 1e6 / count),
                linked,
                Some(load.background.as_secs_f64()),
                linked.map(|_| load.background_processor_seconds * 1e6 / count),
                Some(mega(bytes)),
            ],
        );
        figure(format!("search, replace, {name}, items/s"), rate);
    }
    Ok(())
}

/// Returns the items a second of the background work; `None` if the items left none behind.
fn linked(items: usize, took: Duration) -> Option<f64> {
    let seconds = took.as_secs_f64();
    (took > UNRELATED).then_some(items as f64 / seconds)
}

/// Returns the seconds of the processor that this process used; 0 on a system without `/proc`.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may have spaces; it ends at the last parenthesis.
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .filter_map(|field| field.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}

/// Returns the bytes of the files in a directory and in those below it. A file that is removed
/// meanwhile counts as none.
fn bytes_below(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(data) if data.is_dir() => bytes += bytes_below(&entry.path())?,
            Ok(data) => bytes += allocated(&data),
            Err(_) => {}
        }
    }
    Ok(bytes)
}

/// Returns the bytes of the blocks of a file.
#[cfg(unix)]
fn allocated(data: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(data) * 512
}

/// Returns the length of a file.
#[cfg(not(unix))]
fn allocated(data: &std::fs::Metadata) -> u64 {
    data.len()
}
