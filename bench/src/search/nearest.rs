//! Searches for the nearest vectors: each query by each kind of search, with the recall beside the
//! exact answer. The kinds have a random order, so that none always finds the caches as one other
//! kind left them.

use super::answer::{Answer, Costs};
use super::container::{Index, SearchContainer};
use super::data::{Data, SHARES, TOP, Truth};
use super::http::HttpPort;
use super::rivals::{Pgvector, Rivals};
use super::table::{Column, Table};
use crate::Result;
use crate::random::Random;
use crate::record::figure;

/// Queries of each kind that are not measured, so that caches are filled.
const WARM_UP: usize = 5;
/// Queries of an exact search, at most: they take long and vary little.
const EXACT_RUNS: usize = 100;

/// The options of VectorDistance for an index, as a curve of recall and time.
const QUANTIZED_CURVE: [&str; 4] = [
    "",
    r#"{"quantizedVectorListMultiplier":10}"#,
    r#"{"quantizedVectorListMultiplier":20}"#,
    r#"{"quantizedVectorListMultiplier":50}"#,
];
const GRAPH_CURVE: [&str; 5] = [
    "",
    r#"{"searchListSizeMultiplier":10}"#,
    r#"{"searchListSizeMultiplier":20}"#,
    r#"{"searchListSizeMultiplier":50}"#,
    r#"{"searchListSizeMultiplier":50,"quantizedVectorListMultiplier":50}"#,
];
/// The largest of the curve, for searches with a filter.
const GRAPH_FILTERED: [&str; 2] = [GRAPH_CURVE[0], GRAPH_CURVE[3]];

/// The searches of pgvector with the default and a larger list of candidates, and the exact one.
const PGVECTOR: [Pgvector; 3] = [pgvector(Some(40)), pgvector(Some(100)), pgvector(None)];
/// The same for searches with a filter. The default list holds few items that the filter keeps.
const PGVECTOR_FILTERED: [Pgvector; 3] = [
    pgvector(Some(100)),
    Pgvector {
        ef_search: Some(100),
        is_iterative: true,
    },
    pgvector(None),
];

const fn pgvector(ef_search: Option<u32>) -> Pgvector {
    Pgvector {
        ef_search,
        is_iterative: false,
    }
}

/// The searches of a table.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Searches {
    /// The nearest of all items, with the curves, over HTTP and by the rivals.
    All,
    /// The nearest of the items that a filter keeps.
    Filtered,
    /// The curves alone.
    AfterReplacement,
}

/// A way to the nearest vectors.
enum Way {
    /// The engine of a container, in this process.
    Engine(usize),
    /// The port of a container.
    Http(Box<HttpPort>),
    Pgvector(Pgvector),
}

/// A kind of search: a line of the table.
struct Kind {
    name: String,
    /// Number of the line.
    place: usize,
    way: Way,
    /// True if the answer must be the exact one.
    is_exact: bool,
    /// Further arguments of VectorDistance.
    arguments: String,
    costs: Costs,
    recalls: f64,
}

impl Kind {
    fn new(name: String, way: Way, is_exact: bool, arguments: String) -> Kind {
        Kind {
            name,
            place: 0,
            way,
            is_exact,
            arguments,
            costs: Costs::default(),
            recalls: 0.0,
        }
    }

    /// Returns true for a search that compares all vectors.
    fn is_slow(&self) -> bool {
        match self.way {
            Way::Pgvector(search) => search.ef_search.is_none(),
            _ => self.is_exact,
        }
    }
}

/// The subjects of the searches.
pub(crate) struct Subjects<'a> {
    pub(crate) containers: &'a [SearchContainer],
    pub(crate) rivals: Option<&'a mut Rivals>,
    pub(crate) data: &'a Data,
    pub(crate) truth: &'a Truth,
}

impl Subjects<'_> {
    /// Measures the searches with the filter of one of [`SHARES`] and prints their table.
    pub(crate) fn measure(&mut self, title: &str, searches: Searches, share: usize) -> Result<()> {
        let mut kinds = self.kinds(searches)?;
        for (place, kind) in kinds.iter_mut().enumerate() {
            kind.place = place;
        }
        let count = self.data.query_count();
        for at in 0..WARM_UP.min(count) {
            for kind in &mut kinds {
                self.ask(kind, at, share)?;
            }
        }
        let every = count.div_ceil(EXACT_RUNS);
        let mut random = Random::new(share as u64);
        for at in 0..count {
            for place in (1..kinds.len()).rev() {
                kinds.swap(place, random.below(place + 1));
            }
            for kind in &mut kinds {
                if kind.is_slow() && at % every != 0 {
                    continue;
                }
                let answer = self.ask(kind, at, share)?;
                kind.costs.add(&answer);
                kind.recalls += self.judged(kind, at, share, &answer)?;
            }
            if (at + 1) % 100 == 0 {
                eprintln!("{title}: {} of {count} queries", at + 1);
            }
        }
        kinds.sort_by_key(|kind| kind.place);
        print(title, &mut kinds);
        Ok(())
    }

    /// Returns the kinds of a table. The first one is the exact search with which the others are
    /// compared.
    fn kinds(&self, searches: Searches) -> Result<Vec<Kind>> {
        let vectors = |index: Index| {
            let found = self.containers.iter().position(|own| own.index == index);
            found.map(|at| (at, index.name()))
        };
        let mut kinds = Vec::new();
        // Searches of type flat are exact; an argument makes those of another type so.
        let exact = |(at, name): (usize, &str)| {
            let name = format!("{name}, exact");
            Kind::new(name, Way::Engine(at), true, ", true".to_owned())
        };
        let others = [Index::DiskAnn, Index::QuantizedFlat];
        if vectors(Index::Flat).is_none() {
            kinds.extend(others.into_iter().find_map(vectors).map(exact));
        }
        for index in [
            Index::Flat,
            Index::QuantizedFlat,
            Index::DiskAnn,
            Index::Shards,
        ] {
            let Some((at, name)) = vectors(index) else {
                continue;
            };
            let curve: &[&str] = match (index, searches) {
                (Index::QuantizedFlat, Searches::Filtered) => &QUANTIZED_CURVE[..1],
                (Index::QuantizedFlat, _) => &QUANTIZED_CURVE,
                (Index::DiskAnn, Searches::Filtered) => &GRAPH_FILTERED,
                (Index::DiskAnn, _) => &GRAPH_CURVE,
                _ => &[""],
            };
            for options in curve {
                let is_exact = index == Index::Flat;
                kinds.push(kind_of(name, at, is_exact, options));
            }
            let has_port = matches!(index, Index::Flat | Index::DiskAnn);
            if searches == Searches::All && has_port {
                let way = Way::Http(Box::new(HttpPort::open(&self.containers[at].engine)?));
                let name = format!("{name}, over HTTP");
                kinds.push(Kind::new(name, way, index == Index::Flat, String::new()));
            }
        }
        if searches == Searches::All && vectors(Index::Flat).is_some() {
            kinds.extend(others.into_iter().filter_map(vectors).map(exact));
        }
        let rivals = match searches {
            Searches::All => &PGVECTOR,
            Searches::Filtered => &PGVECTOR_FILTERED,
            Searches::AfterReplacement => return Ok(kinds),
        };
        if self.rivals.is_some() {
            kinds.extend(rivals.iter().copied().map(kind_of_rival));
        }
        Ok(kinds)
    }

    /// Runs a query.
    fn ask(&mut self, kind: &mut Kind, at: usize, share: usize) -> Result<Answer> {
        let vector = self.data.query_text(at);
        let index = match &kind.way {
            Way::Engine(container) => self.containers[*container].index,
            Way::Http(_) | Way::Pgvector(_) => Index::None,
        };
        let text = || query(&filter(share, index), &vector, &kind.arguments);
        match &mut kind.way {
            Way::Engine(container) => self.containers[*container].ask(&text()),
            Way::Http(port) => port.ask(&text()),
            Way::Pgvector(search) => {
                let rivals = self.rivals.as_mut().ok_or("the rivals do not run")?;
                rivals.nearest(*search, &vector, share)
            }
        }
    }

    /// Checks an answer and returns its recall.
    fn judged(&self, kind: &Kind, at: usize, share: usize, answer: &Answer) -> Result<f64> {
        let mut ids = Vec::with_capacity(answer.rows.len());
        for row in &answer.rows {
            ids.push(row.parse()?);
        }
        if !matches!(kind.way, Way::Pgvector(_)) {
            let checked = self.truth.check(self.data, at, share, &ids);
            checked.map_err(|error| format!("{}: {error}", kind.name))?;
        }
        let recall = self.truth.recall(self.data, at, share, &ids);
        if kind.is_exact && recall < 1.0 {
            let name = &kind.name;
            return Err(format!("{name}: query {at} has another answer than the exact one").into());
        }
        Ok(recall)
    }
}

fn kind_of(name: &str, container: usize, is_exact: bool, options: &str) -> Kind {
    let (label, arguments) = match options {
        "" => (String::new(), String::new()),
        options => {
            let short = options
                .replace("searchListSizeMultiplier", "search")
                .replace("quantizedVectorListMultiplier", "quantized");
            let label = short.replace(['{', '}', '"'], "").replace(':', " x");
            (
                format!(", {}", label.replace(',', ", ")),
                format!(", false, {options}"),
            )
        }
    };
    let name = format!("{name}{label}");
    Kind::new(name, Way::Engine(container), is_exact, arguments)
}

fn kind_of_rival(search: Pgvector) -> Kind {
    let name = match search.ef_search {
        None => "pgvector, exact".to_owned(),
        Some(ef) if search.is_iterative => format!("pgvector, HNSW, ef_search {ef}, iterative"),
        Some(ef) => format!("pgvector, HNSW, ef_search {ef}"),
    };
    // 32 bits decide the order of its exact search, so its last row may be another one.
    Kind::new(name, Way::Pgvector(search), false, String::new())
}

/// Returns the condition of one of [`SHARES`]. A tenth is a shard.
fn filter(share: usize, index: Index) -> String {
    match SHARES[share] {
        100 => String::new(),
        10 if index == Index::Shards => "WHERE c.tenth = 0 ".to_owned(),
        percent => format!("WHERE c.share < {percent} "),
    }
}

/// Returns the query for the nearest items of a vector, with a condition and further arguments of
/// VectorDistance.
pub(crate) fn query(condition: &str, vector: &str, arguments: &str) -> String {
    format!(
        "SELECT TOP {TOP} VALUE c.id FROM c {condition}\
         ORDER BY VectorDistance(c.v, {vector}{arguments})"
    )
}

fn print(title: &str, kinds: &mut [Kind]) {
    let columns = [
        Column("p50 ms", 2),
        Column("p95 ms", 2),
        Column("of exact", 3),
        Column("CPU ms", 2),
        Column("recall@10", 4),
    ];
    let table = Table::begin(title, &columns);
    let mut base = None;
    for kind in kinds {
        let (p50, p95) = kind.costs.p50_and_p95();
        let base = *base.get_or_insert(p50);
        let recall = kind.recalls / kind.costs.count() as f64;
        let processor = kind.costs.processor();
        let figures = [
            Some(p50),
            Some(p95),
            Some(p50 / base),
            processor,
            Some(recall),
        ];
        table.row(&kind.name, &figures);
        let name = format!("search, {title}, {}", kind.name);
        figure(format!("{name}, p50 ms"), p50);
        figure(format!("{name}, p95 ms"), p95);
        if let Some(processor) = processor {
            figure(format!("{name}, CPU ms"), processor);
        }
        figure(format!("{name}, recall"), recall);
    }
}
