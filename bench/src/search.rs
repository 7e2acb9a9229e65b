//! Benchmark of searches: the nearest vectors of a container with a vector index beside the same
//! query on a container without one, on disk, in this process.
//!
//! The texts and vectors are those of `bench/search_data.py`: embeddings of real texts, since
//! generated vectors are easier to search. The last ones are held out as queries. Every answer of
//! the index is compared with the exact one, which is computed here.

use crate::Result;
use crate::engine::BenchEngine;
use crate::record::figure;
use crate::report::median;
use orrery_engine::request::{PageRequest, QueryRequest, Scope};
use orrery_model::Json;
use orrery_storage::{LocalOptions, LocalStore};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Components of a vector.
const DIMENSIONS: usize = 256;
/// Threads that load a container.
const LOADERS: usize = 4;
/// Items with the same partition key.
const ITEMS_PER_KEY: usize = 1_000;
/// Rows of a query.
const TOP: usize = 10;
/// Runs of the query that reads all items.
const SLOW_RUNS: usize = 5;
/// Throughput of a container: one physical partition.
const RU: u32 = 6_000;

/// The data of a run.
struct Data {
    texts: Vec<String>,
    vectors: Vec<[f32; DIMENSIONS]>,
    /// Number of the texts that are items; those behind are queries.
    items: usize,
}

impl Data {
    fn read(directory: &Path, items: usize, queries: usize) -> Result<Data> {
        let missing = |name: &str| {
            format!(
                "{} has no {name}: make it with bench/search_data.py",
                directory.display()
            )
        };
        let texts = std::fs::read_to_string(directory.join("texts.txt"))
            .map_err(|_| missing("texts.txt"))?;
        let texts: Vec<String> = texts.lines().map(str::to_owned).collect();
        let bytes =
            std::fs::read(directory.join("vectors.f32")).map_err(|_| missing("vectors.f32"))?;
        let mut vectors = Vec::with_capacity(texts.len());
        for vector in bytes.chunks_exact(DIMENSIONS * 4) {
            let mut components = [0.0; DIMENSIONS];
            for (component, bytes) in components.iter_mut().zip(vector.as_chunks().0) {
                *component = f32::from_le_bytes(*bytes);
            }
            vectors.push(components);
        }
        if vectors.len() != texts.len() || texts.len() < items + queries {
            return Err(format!(
                "{} texts and {} vectors are too few for {items} items and {queries} queries",
                texts.len(),
                vectors.len()
            )
            .into());
        }
        Ok(Data {
            texts,
            vectors,
            items,
        })
    }

    /// Returns the item of a text as JSON.
    fn item(&self, at: usize) -> Vec<u8> {
        let text = Json::from(self.texts[at].as_str()).to_text();
        format!(
            r#"{{"id":"{at}","pk":"k{}","text":{text},"v":{}}}"#,
            at / ITEMS_PER_KEY,
            vector_text(&self.vectors[at])
        )
        .into_bytes()
    }

    /// Returns the vector of a query.
    fn query(&self, at: usize) -> &[f32; DIMENSIONS] {
        &self.vectors[self.items + at]
    }

    /// Returns the ids of the nearest items by cosine, computed as the policy says.
    fn nearest(&self, query: &[f32; DIMENSIONS]) -> Vec<usize> {
        let mut scores: Vec<(f64, usize)> = Vec::with_capacity(self.items);
        for (at, vector) in self.vectors[..self.items].iter().enumerate() {
            let (mut product, mut square, mut own) = (0.0, 0.0, 0.0);
            for (x, y) in vector.iter().zip(query) {
                let (x, y) = (f64::from(*x), f64::from(*y));
                product += x * y;
                square += x * x;
                own += y * y;
            }
            scores.push((product / f64::sqrt(square * own), at));
        }
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        scores.truncate(TOP);
        scores.into_iter().map(|(_, at)| at).collect()
    }
}

fn vector_text(vector: &[f32; DIMENSIONS]) -> String {
    let mut text = String::from("[");
    for (at, component) in vector.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        _ = write!(text, "{comma}{component}");
    }
    text.push(']');
    text
}

/// A container with the items.
struct Filled {
    engine: BenchEngine,
}

impl Filled {
    /// Creates a container with vector indexes of a type, or none, and loads it. Returns it with
    /// the rate of the load.
    fn fill(directory: &Path, name: &str, index: Option<&str>, data: &Data) -> Result<Filled> {
        let indexes = match index {
            Some(kind) => format!(r#","vectorIndexes":[{{"path":"/v","type":"{kind}"}}]"#),
            None => String::new(),
        };
        let container = format!(
            r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},
            "vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"float32",
                "dimensions":{DIMENSIONS},"distanceFunction":"cosine"}}]}},
            "indexingPolicy":{{"includedPaths":[{{"path":"/*"}}],
                "excludedPaths":[{{"path":"/v/*"}},{{"path":"/text/?"}}]{indexes}}}}}"#
        );
        let store = LocalStore::open(directory.join(name), LocalOptions::default())?;
        let engine = BenchEngine::with(Arc::new(store), &container, RU)?;
        let started = Instant::now();
        std::thread::scope(|scope| -> Result<()> {
            let mut loaders = Vec::new();
            for first in 0..LOADERS {
                let engine = &engine;
                loaders.push(scope.spawn(move || {
                    let own = (first..data.items).step_by(LOADERS);
                    let items = own.map(|at| data.item(at));
                    engine.create_all(items).map_err(|error| error.to_string())
                }));
            }
            for loader in loaders {
                loader.join().map_err(|_| "a loader panicked")??;
            }
            Ok(())
        })?;
        let rate = data.items as f64 / started.elapsed().as_secs_f64();
        println!("{name:<44}{rate:>12.0} items/s loaded");
        figure(format!("search, load, {name}, items/s"), rate);
        Ok(Filled { engine })
    }

    /// Runs a query of one page. Returns its duration and the ids of the rows.
    fn ids(&self, text: &str) -> Result<(Duration, Vec<usize>)> {
        let started = Instant::now();
        let request = QueryRequest {
            cross_partition: true,
            ..QueryRequest::of(text, Vec::new(), PageRequest::default())
        };
        let answer = self.engine.query(&Scope::Everything, &request)?;
        let took = started.elapsed();
        let mut ids = Vec::new();
        for row in &answer.page.rows {
            let text = std::str::from_utf8(row)?.trim_matches('"');
            ids.push(text.parse()?);
        }
        Ok((took, ids))
    }
}

/// A line of the table.
struct Line {
    name: &'static str,
    /// The rest of the query in front of ORDER BY.
    filter: fn(usize) -> String,
    /// True if the answer is that of the whole container.
    is_whole: bool,
}

const LINES: [Line; 2] = [
    Line {
        name: "TOP 10 of all vectors",
        filter: |_| String::new(),
        is_whole: true,
    },
    Line {
        name: "TOP 10 of a key of 1,000 items",
        filter: |at| format!(r#" WHERE c.pk = "k{}""#, at % 10),
        is_whole: false,
    },
];

impl Line {
    fn text(&self, data: &Data, at: usize) -> String {
        format!(
            "SELECT TOP {TOP} VALUE c.id FROM c{} ORDER BY VectorDistance(c.v, {})",
            (self.filter)(at),
            vector_text(data.query(at))
        )
    }
}

/// Loads the containers, measures each line and prints the table.
pub(crate) fn run(data: &Path, items: usize, queries: usize, directory: &Path) -> Result<()> {
    let data = Data::read(data, items, queries)?;
    let plain = Filled::fill(directory, "without an index", None, &data)?;
    let flat = Filled::fill(directory, "index of type flat", Some("flat"), &data)?;
    println!(
        "\np50 in ms{:>49}{:>12}{:>8}",
        "items read", "flat", "ratio"
    );
    for line in &LINES {
        let slow_runs = if line.is_whole { SLOW_RUNS } else { queries };
        let (mut by_items, mut by_index) = (Vec::new(), Vec::new());
        for at in 0..queries {
            let text = line.text(&data, at);
            let (took, found) = flat.ids(&text)?;
            by_index.push(took.as_secs_f64() * 1e3);
            if line.is_whole && found != data.nearest(data.query(at)) {
                return Err(format!("query {at} has another answer than the exact one").into());
            }
            if at < slow_runs {
                let (took, exact) = plain.ids(&text)?;
                by_items.push(took.as_secs_f64() * 1e3);
                if exact != found {
                    return Err(format!("query {at} has another answer with the index").into());
                }
            }
        }
        let (by_items, by_index) = (median(by_items), median(by_index));
        println!(
            "{:<46}{by_items:>12.2}{by_index:>12.2}{:>8.1}",
            line.name,
            by_items / by_index
        );
        figure(
            format!("search, {}, items read, p50 ms", line.name),
            by_items,
        );
        figure(format!("search, {}, flat, p50 ms", line.name), by_index);
    }
    println!("\n{queries} queries of all vectors have the exact answer");
    Ok(())
}
