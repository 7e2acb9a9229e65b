//! Reports of a query: query metrics, index metrics and EXPLAIN. All are made from the counted work
//! and the access paths that were chosen.

use super::condition::{conjuncts, is_answerable, is_selective, steps};
use super::source::PartitionWork;
use crate::index::paths::{Step, steps_of};
use crate::index::policy::{OrderedPath, Policy, path_text};
use orrery_model::{Json, Object, object};
use orrery_sql::{Condition, Path, Query, Search, Test, Work};

/// Maximum number of paths in each list of index metrics, which are sent in a header.
const PATHS_NAMED: usize = 50;
/// Maximum size of the entries of both versions of index metrics, in bytes of the encoded header.
/// Clients refuse a header of 64 KiB.
const HEADER_BYTES_MAX: usize = 60_000;
/// Maximum number of partition key ranges that EXPLAIN lists, also in a header.
const RANGES_LISTED: usize = 50;
/// Maximum length of each text in EXPLAIN, in characters.
const TEXT_SHOWN: usize = 500;

/// The times of the query metrics that are not measured: the compilation has no parts of its own,
/// and functions are calls within expressions.
const UNMEASURED_TIMES: [&str; 5] = [
    "queryLogicalPlanBuildTimeInMs",
    "queryPhysicalPlanBuildTimeInMs",
    "queryOptimizationTimeInMs",
    "systemFunctionExecuteTimeInMs",
    "userFunctionExecuteTimeInMs",
];

/// The measured times of a page, in microseconds.
pub(crate) struct Times {
    /// The compilation of the text.
    pub(crate) compile_us: u64,
    /// The execution, index lookups included.
    pub(crate) execute_us: u64,
    /// The choice of access paths and the index lookups.
    pub(crate) lookup_us: u64,
    /// The reads of items, with the reads of the index between two items.
    pub(crate) load_us: u64,
    /// The rows: their values by the SELECT list and their texts.
    pub(crate) write_us: u64,
}

/// Returns the value of the header `x-ms-documentdb-query-metrics`. The total time is that of the
/// compilation and the execution.
pub(crate) fn query_metrics(partitions: &[PartitionWork], work: &Work, times: &Times) -> String {
    let mut loaded = 0;
    let mut loaded_bytes = 0;
    for partition in partitions {
        loaded += partition.work.loaded_items;
        loaded_bytes += partition.work.loaded_bytes;
    }
    let index_utilization = if loaded == 0 {
        1.0
    } else {
        (work.rows_out as f64 / loaded as f64).min(1.0)
    };
    // Partitions are read side by side, and clients expect the parts to fit into the whole.
    let parts_us = times.lookup_us + times.load_us + times.write_us;
    let execute_us = times.execute_us.max(parts_us);
    let total_us = times.compile_us.saturating_add(execute_us);
    let measured = [
        ("totalExecutionTimeInMs", total_us),
        ("queryCompileTimeInMs", times.compile_us),
        ("VMExecutionTimeInMs", execute_us),
        ("indexLookupTimeInMs", times.lookup_us),
        ("documentLoadTimeInMs", times.load_us),
        ("writeOutputTimeInMs", times.write_us),
    ];
    let mut parts = Vec::with_capacity(20);
    for (name, us) in measured {
        parts.push(format!("{name}={:.2}", us as f64 / 1000.0));
    }
    for name in UNMEASURED_TIMES {
        parts.push(format!("{name}=0.00"));
    }
    parts.push(format!("instructionCount={}", work.items_filtered));
    parts.push(format!("retrievedDocumentCount={loaded}"));
    parts.push(format!("retrievedDocumentSize={loaded_bytes}"));
    parts.push(format!("outputDocumentCount={}", work.rows_out));
    parts.push(format!("outputDocumentSize={}", work.bytes_out));
    parts.push(format!("indexUtilizationRatio={index_utilization:.2}"));
    parts.join(";")
}

/// The room for entries in a header.
pub(crate) struct HeaderRoom {
    left: usize,
    /// Returns the size of a text in the encoding of the header.
    encoded_size: fn(&str) -> usize,
}

impl HeaderRoom {
    pub(crate) fn new(encoded_size: fn(&str) -> usize) -> Self {
        HeaderRoom {
            left: HEADER_BYTES_MAX,
            encoded_size,
        }
    }

    /// Adds an entry to a list that does not have it, if the list and the header have room.
    pub(crate) fn add(&mut self, list: &mut Vec<Json>, entry: Json) {
        if list.len() >= PATHS_NAMED || list.contains(&entry) {
            return;
        }
        let size = (self.encoded_size)(&entry.to_text());
        if size <= self.left {
            self.left -= size;
            list.push(entry);
        }
    }
}

/// A path that the query filters or orders by.
struct PathUse<'q> {
    path: &'q Path,
    is_exact: bool,
    is_selective: bool,
}

impl<'q> PathUse<'q> {
    /// Returns the use of a path by the partition key or by ORDER BY.
    fn whole(path: &'q Path) -> Self {
        PathUse {
            path,
            is_exact: true,
            is_selective: true,
        }
    }

    /// Returns the use as index metrics show it.
    fn document(&self) -> Object {
        object! {
            "FilterExpression" => "",
            "IndexSpec" => format!("{}/?", self.path),
            "FilterPreciseSet" => self.is_exact,
            "IndexPreciseSet" => self.is_exact,
            "IndexImpactScore" => if self.is_selective { "High" } else { "Low" },
        }
    }
}

/// A search that a vector or full-text index serves, or would serve.
pub(crate) struct SearchUse {
    /// The path as the policy writes it.
    pub path: String,
    /// The kind of the index.
    pub kind: &'static str,
    /// True if the policy has the index.
    pub has_index: bool,
}

impl SearchUse {
    /// Returns the use of an index by a search.
    pub(crate) fn of(search: &Search, policy: &Policy) -> Self {
        let (path, kind, indexes) = match search {
            Search::Vectors(path) => (path, "Vector", policy.vector_indexes()),
            Search::Texts(path) => (path, "FullText", policy.full_text_indexes()),
        };
        let path = steps(path);
        let has_index = indexes.iter().any(|index| steps_of(&index.names) == path);
        SearchUse {
            path: path_text(&path),
            kind,
            has_index,
        }
    }

    /// Returns the use as index metrics of the first version show it.
    fn document(&self) -> Object {
        object! {
            "FilterExpression" => "",
            "IndexSpec" => self.path.as_str(),
            "IndexType" => self.kind,
            "FilterPreciseSet" => true,
            "IndexPreciseSet" => true,
            "IndexImpactScore" => "High",
        }
    }
}

/// Returns the index metrics document of the first version: the indexes that the query used, and
/// the indexes that would serve the query if the policy had them.
///
/// `key_paths`: the paths of the partition key, if the request names it. The filter on it uses its
/// index as any other filter does.
pub(crate) fn index_metrics(
    query: &Query,
    policy: &Policy,
    partitions: &[PartitionWork],
    key_paths: &[Path],
) -> String {
    let mut uses: Vec<PathUse<'_>> = key_paths.iter().map(PathUse::whole).collect();
    add_uses(query.condition(), &mut uses);
    for key in query.order() {
        uses.extend(key.path.as_ref().map(PathUse::whole));
    }

    let mut room = HeaderRoom::new(|text| text.len().div_ceil(3) * 4);

    // Indexes of single paths, those of searches at the end.
    let mut used: Vec<Json> = Vec::new();
    let mut potential: Vec<Json> = Vec::new();
    for path_use in &uses {
        let list = if policy.covers(&steps(path_use.path)) {
            &mut used
        } else {
            &mut potential
        };
        room.add(list, Json::Object(path_use.document()));
    }
    // The readers of potential single indexes include their paths in the policy, which is no remedy
    // for a search, so these have a list of their own.
    let mut potential_searches: Vec<Json> = Vec::new();
    for search in query.searches() {
        let search = SearchUse::of(&search, policy);
        let list = if search.has_index {
            &mut used
        } else {
            &mut potential_searches
        };
        room.add(list, Json::Object(search.document()));
    }

    // Composite indexes. One is suggested only if none was used.
    let mut used_composites: Vec<Json> = Vec::new();
    for partition in partitions {
        if let Some(composite) = &partition.composite {
            room.add(&mut used_composites, composite_document(&composite.paths));
        }
    }
    let mut potential_composites: Vec<Json> = Vec::new();
    if used_composites.is_empty()
        && let Some(paths) = wanted_composite(query)
        && policy.orders_by(&paths).is_none()
    {
        room.add(&mut potential_composites, composite_document(&paths));
    }
    let mut document = object! {
        "UtilizedSingleIndexes" => used,
        "PotentialSingleIndexes" => potential,
        "UtilizedCompositeIndexes" => used_composites,
        "PotentialCompositeIndexes" => potential_composites,
    };
    // Most queries have none.
    if !potential_searches.is_empty() {
        document.push_new("PotentialSearchIndexes", Json::Array(potential_searches));
    }
    Json::Object(document).to_text()
}

/// Returns a composite index as index metrics show it.
fn composite_document(paths: &[OrderedPath]) -> Json {
    let mut specs: Vec<Json> = Vec::with_capacity(paths.len());
    for (path, ascending) in paths {
        let order = if *ascending { "ASC" } else { "DESC" };
        specs.push(Json::from(format!("{} {order}", path_text(path))));
    }
    Json::Object(object! {
        "IndexSpecs" => specs,
        "IndexPreciseSet" => true,
        "IndexImpactScore" => "High",
    })
}

/// Adds the paths that a condition tests and an index can answer.
fn add_uses<'q>(condition: &'q Condition, uses: &mut Vec<PathUse<'q>>) {
    match condition {
        Condition::And(parts) | Condition::Or(parts) => {
            for part in parts {
                add_uses(part, uses);
            }
        }
        Condition::Term { path, test, exact } if is_answerable(test) => {
            uses.push(PathUse {
                path,
                is_exact: *exact,
                is_selective: is_selective(test),
            });
        }
        Condition::Term { .. } | Condition::All | Condition::Never => {}
    }
}

/// Returns the paths of the composite index that would serve the query best: those of its
/// equalities, then those of ORDER BY, or without ORDER BY the path of a range. Returns `None` for
/// fewer than two paths.
fn wanted_composite(query: &Query) -> Option<Vec<OrderedPath>> {
    let mut tests: Vec<(&Path, &Test)> = Vec::new();
    for condition in conjuncts(query.condition()) {
        if let Condition::Term { path, test, .. } = condition {
            tests.push((path, test));
        }
    }

    let mut paths: Vec<OrderedPath> = Vec::new();
    for (path, test) in &tests {
        if matches!(test, Test::Equals(_)) {
            add_path(&mut paths, path, true);
        }
    }
    if query.order().is_empty() {
        let mut tests = tests.iter();
        let range = tests.find(|(_, test)| matches!(test, Test::Range { .. } | Test::Prefix(_)));
        if let Some((path, _)) = range {
            add_path(&mut paths, path, true);
        }
    }
    for key in query.order() {
        if let Some(path) = &key.path {
            add_path(&mut paths, path, !key.descending);
        }
    }
    (paths.len() > 1).then_some(paths)
}

/// Adds a path to those of a composite index, unless it is there already or leads through an array.
pub(crate) fn add_path(paths: &mut Vec<OrderedPath>, path: &Path, ascending: bool) {
    let path = steps(path);
    let has_only_names = path.iter().all(|step| matches!(step, Step::Name(_)));
    if has_only_names && !paths.iter().any(|(known, _)| *known == path) {
        paths.push((path, ascending));
    }
}

/// Returns the EXPLAIN document: condition and order of the query, and the access path, work and
/// charge of each partition. `charges` are the charges of `partitions` as text.
pub(crate) fn explain(
    query: &Query,
    partitions: &[PartitionWork],
    work: &Work,
    charges: &[String],
    hints: Vec<String>,
) -> String {
    let mut order: Vec<Json> = Vec::new();
    for key in query.order() {
        let path = match &key.path {
            Some(path) => path.to_string(),
            None => "(expression)".to_owned(),
        };
        let direction = if key.descending { "DESC" } else { "ASC" };
        order.push(Json::from(format!("{path} {direction}")));
    }
    // The document is sent in a header, so the list of ranges is limited.
    let mut ranges: Vec<Json> = Vec::new();
    for (partition, charge) in partitions.iter().zip(charges).take(RANGES_LISTED) {
        ranges.push(Json::Object(object! {
            "range" => partition.range.to_string(),
            "access" => shortened(&partition.explanation),
            "work" => counters(partition),
            "charge" => charge.as_str(),
        }));
    }
    let mut document = object! {
        "condition" => shortened(&query.condition().to_string()),
        "conditionIsExact" => query.condition_is_exact(),
        "order" => order,
        "ranges" => ranges,
        "rangesAsked" => partitions.len() as u64,
        "itemsParsed" => work.items_parsed,
        "rows" => work.rows_out,
    };
    // Most queries have none.
    if !hints.is_empty() {
        let hints: Vec<Json> = hints.into_iter().map(Json::from).collect();
        document.push_new("hints", Json::Array(hints));
    }
    Json::Object(document).to_text()
}

/// Returns the first characters of a text, with an ellipsis if there are more.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the counters that are not zero.
fn counters(partition: &PartitionWork) -> Object {
    let PartitionWork { work, compared, .. } = partition;
    let all = [
        ("seeks", work.seeks),
        ("scannedValues", work.scan_terms),
        ("walkedEntries", work.walked_entries),
        ("comparedVectors", work.compared_vectors),
        ("loadedItems", work.loaded_items),
        ("loadedBytes", work.loaded_bytes),
        ("countedEntries", compared.counted),
        ("comparedEntries", compared.passed),
        ("comparedItems", compared.items),
    ];
    let mut counters = Object::new();
    for (name, count) in all {
        if count > 0 {
            counters.push_new(name, count);
        }
    }
    counters
}
