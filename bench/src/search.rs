//! Benchmark of searches: queries by vectors and words on a container with a vector and a full-text
//! index beside the same queries on a container without them, on disk, in this process.
//!
//! The texts and vectors are those of `bench/search_data.py`: embeddings of real texts, since
//! generated vectors are easier to search. The last ones are held out as queries. The answers of
//! both containers are compared, and every answer for the nearest vectors with the exact one, which
//! is computed here.

use crate::engine::BenchEngine;
use crate::record::figure;
use crate::report::median;
use crate::{Result, temporary_directory};
use orrery_engine::request::{PageRequest, QueryRequest, Scope};
use orrery_model::Json;
use orrery_storage::{LocalOptions, LocalStore};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
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

/// The inputs of a run.
#[derive(clap::Args)]
pub(crate) struct SearchArguments {
    /// Directory with the texts and vectors
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Number of items
    #[arg(long, default_value_t = 100_000)]
    items: usize,
    /// Number of queries of each line
    #[arg(long, default_value_t = 200)]
    queries: usize,
    /// Directory for the data while measuring [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

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

    /// Returns words of the text of a query.
    fn words(&self, at: usize, count: usize) -> Vec<String> {
        words(&self.texts[self.items + at], count)
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

/// Returns `count` different words of a text, from its longest ones on.
fn words(text: &str, count: usize) -> Vec<String> {
    let mut words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .collect();
    words.sort_by_key(|word| (std::cmp::Reverse(word.len()), word.clone()));
    words.dedup();
    words.truncate(count);
    words
}

/// A container with the items.
struct Filled {
    engine: BenchEngine,
}

impl Filled {
    /// Creates a container, with a vector and a full-text index or without them, and loads it.
    fn fill(directory: &Path, name: &str, has_indexes: bool, data: &Data) -> Result<Filled> {
        let indexes = match has_indexes {
            true => concat!(
                r#","vectorIndexes":[{"path":"/v","type":"flat"}],"#,
                r#""fullTextIndexes":[{"path":"/text"}]"#
            ),
            false => "",
        };
        let container = format!(
            r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},
            "vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"float32",
                "dimensions":{DIMENSIONS},"distanceFunction":"cosine"}}]}},
            "fullTextPolicy":{{"fullTextPaths":[{{"path":"/text"}}]}},
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
        println!("{name:<46}{rate:>12.0} items/s loaded");
        figure(format!("search, load, {name}, items/s"), rate);
        Ok(Filled { engine })
    }

    /// Runs a query of one page. Returns its duration and its rows.
    fn rows(&self, text: &str) -> Result<(Duration, Vec<String>)> {
        let started = Instant::now();
        let request = QueryRequest {
            cross_partition: true,
            ..QueryRequest::of(text, Vec::new(), PageRequest::default())
        };
        let answer = self.engine.query(&Scope::Everything, &request)?;
        let took = started.elapsed();
        let mut rows = Vec::new();
        for row in &answer.page.rows {
            rows.push(std::str::from_utf8(row)?.trim_matches('"').to_owned());
        }
        Ok((took, rows))
    }
}

/// A line of the table.
struct Line {
    name: &'static str,
    text: fn(&Data, usize) -> String,
    check: Check,
}

/// The answer with which that of the index is compared.
#[derive(PartialEq)]
enum Check {
    /// The nearest of all items, computed here.
    Nearest,
    /// The rows of the container without indexes. Rows without an order are sorted: the containers
    /// were loaded by several threads, so their natural orders differ.
    Items,
    /// The rows of the same container with a filter that an index does not decide: texts with equal
    /// scores come in natural order.
    SameContainer,
}

const LINES: [Line; 7] = [
    Line {
        name: "nearest 10 of all",
        text: |data, at| {
            let vector = vector_text(data.query(at));
            format!("SELECT TOP {TOP} VALUE c.id FROM c ORDER BY VectorDistance(c.v, {vector})")
        },
        check: Check::Nearest,
    },
    Line {
        name: "nearest 10 of a key of 1,000 items",
        text: |data, at| {
            let vector = vector_text(data.query(at));
            format!(
                "SELECT TOP {TOP} VALUE c.id FROM c WHERE c.pk = 'k{}' \
                 ORDER BY VectorDistance(c.v, {vector})",
                at % (data.items / ITEMS_PER_KEY).max(1)
            )
        },
        check: Check::Items,
    },
    Line {
        name: "nearest 10 with a word",
        text: |data, at| {
            let vector = vector_text(data.query(at));
            format!(
                "SELECT TOP {TOP} VALUE c.id FROM c WHERE FullTextContains(c.text, '{}') \
                 ORDER BY VectorDistance(c.v, {vector})",
                data.words(at, 1)[0]
            )
        },
        check: Check::Items,
    },
    Line {
        name: "all items with a word",
        text: |data, at| {
            format!(
                "SELECT VALUE c.id FROM c WHERE FullTextContains(c.text, '{}')",
                data.words(at, 1)[0]
            )
        },
        check: Check::Items,
    },
    Line {
        name: "items with two words, counted",
        text: |data, at| {
            format!(
                "SELECT VALUE COUNT(1) FROM c WHERE FullTextContainsAll(c.text, '{}')",
                data.words(at, 2).join("', '")
            )
        },
        check: Check::Items,
    },
    Line {
        name: "rank of three words, 10",
        text: |data, at| {
            format!(
                "SELECT TOP {TOP} VALUE c.id FROM c ORDER BY RANK FullTextScore(c.text, '{}')",
                data.words(at, 3).join("', '")
            )
        },
        check: Check::SameContainer,
    },
    Line {
        name: "words and vector fused, 10",
        text: |data, at| {
            let vector = vector_text(data.query(at));
            format!(
                "SELECT TOP {TOP} VALUE c.id FROM c ORDER BY RANK \
                 RRF(FullTextScore(c.text, '{}'), VectorDistance(c.v, {vector}))",
                data.words(at, 3).join("', '")
            )
        },
        check: Check::SameContainer,
    },
];

/// Loads the containers, measures each line and prints the table.
pub(crate) fn run(arguments: SearchArguments) -> Result<()> {
    let SearchArguments { items, queries, .. } = arguments;
    let data = Data::read(&arguments.data, items, queries)?;
    let directory = temporary_directory(arguments.directory)?;
    let directory = directory.path();
    let plain = Filled::fill(directory, "without indexes", false, &data)?;
    let indexed = Filled::fill(directory, "vector and full-text index", true, &data)?;
    println!(
        "\n{:<46}{:>12}{:>12}{:>12}{:>8}",
        "p50 and p95 in ms", "items read", "index p50", "p95", "ratio"
    );
    for line in &LINES {
        let (mut by_items, mut by_index) = (Vec::new(), Vec::new());
        for at in 0..queries {
            let text = (line.text)(&data, at);
            let (took, mut found) = indexed.rows(&text)?;
            by_index.push(took.as_secs_f64() * 1e3);
            if line.check == Check::Nearest {
                let nearest = data.nearest(data.query(at));
                if found != nearest.iter().map(usize::to_string).collect::<Vec<_>>() {
                    return Err(format!("query {at} has another answer than the exact one").into());
                }
            }
            if at < SLOW_RUNS {
                let (took, mut wanted) = plain.rows(&text)?;
                by_items.push(took.as_secs_f64() * 1e3);
                if line.check == Check::SameContainer {
                    let filtered = text.replace("FROM c", "FROM c WHERE LENGTH(c.id) > 0");
                    wanted = indexed.rows(&filtered)?.1;
                }
                if !text.contains("ORDER BY") {
                    wanted.sort();
                    found.sort();
                }
                if wanted != found {
                    return Err(format!("{text} has another answer with the index").into());
                }
            }
        }
        by_index.sort_by(f64::total_cmp);
        let p95 = by_index[by_index.len() * 95 / 100];
        let (by_items, by_index) = (median(by_items), median(by_index));
        println!(
            "{:<46}{by_items:>12.2}{by_index:>12.2}{p95:>12.2}{:>8.1}",
            line.name,
            by_items / by_index
        );
        figure(
            format!("search, {}, items read, p50 ms", line.name),
            by_items,
        );
        figure(format!("search, {}, index, p50 ms", line.name), by_index);
        figure(format!("search, {}, index, p95 ms", line.name), p95);
    }
    println!("\n{queries} answers for the nearest of all are the exact ones");
    Ok(())
}
