//! The reasons for the charge of a query, in words, each with its request units and a remedy.
//!
//! The reasons are the parts of the charge, as the engine counts them, so their request units add
//! up to the charge except for rounding. A part is joined with what the plan says about its cause.

use crate::query_prediction::{MeasuredQuery, QueryToMeasure, query_works};
use orrery_engine::request::{Charge, ChargePart};
use orrery_engine::{Container, Engine};
use orrery_model::work::{QueryWork, Work};
use orrery_model::{Json, Object, object};

/// Units of a part of a charge in a request unit.
const FINE: f64 = 10_000.0;
/// The part of a charge for asking partitions.
const ASKING: &str = "requests of queries";
/// Bytes of a returned row from which on its size is worth a word.
const LARGE_ROW: u64 = 1_024;

/// A reason for the charge of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The reason as a short name for programs.
    pub code: &'static str,
    /// The reason in words.
    pub text: String,
    /// The request units.
    pub ru: f64,
    /// Change that would make the query cheaper.
    pub remedy: Option<Remedy>,
}

/// Change that would make a query cheaper.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// The remedy in words.
    pub text: String,
    /// Composite indexes to add to the indexing policy, in the form of the policy.
    pub composite_indexes: Vec<Json>,
    /// Paths to include in the indexing policy.
    pub included_paths: Vec<String>,
}

impl Remedy {
    fn of_text(text: impl Into<String>) -> Remedy {
        Remedy {
            text: text.into(),
            composite_indexes: Vec::new(),
            included_paths: Vec::new(),
        }
    }
}

/// Facts about a query when its reasons are written.
struct ChargeFacts<'a> {
    parts: Vec<ChargePart>,
    work: QueryWork,
    asked: u64,
    side: &'a MeasuredQuery,
    index: Option<Remedy>,
    key_paths: String,
    names_key: bool,
}

/// Returns the reasons for the charge of a query, the most expensive first.
pub(crate) fn reasons(
    engine: &Engine,
    container: &Container,
    query: &QueryToMeasure,
    side: &MeasuredQuery,
    work: &Work,
) -> Vec<Reason> {
    let mut sum = QueryWork::default();
    for work in query_works(work) {
        sum.loaded_items += work.loaded_items;
        sum.loaded_bytes += work.loaded_bytes;
        sum.returned_rows += work.returned_rows;
        sum.returned_bytes += work.returned_bytes;
        sum.seeks += work.seeks;
        sum.scan_terms += work.scan_terms;
        sum.walked_entries += work.walked_entries;
        sum.compared_vectors += work.compared_vectors;
        sum.compared_vector_bytes += work.compared_vector_bytes;
        sum.array_elements += work.array_elements;
        sum.udf_calls += work.udf_calls;
    }
    let mut paths = Vec::new();
    for path in container.partition_key().paths() {
        paths.push(format!("/{}", path.join("/")));
    }
    let case = ChargeFacts {
        parts: engine.charge_parts(work, side.charge),
        work: sum,
        asked: side.partitions,
        side,
        index: side.index_metrics.as_ref().and_then(index_remedy),
        key_paths: paths.join(" and "),
        names_key: query.partition_key.is_some(),
    };
    let mut reasons = vec![case.requests(), case.loads(), case.index_reads()];
    reasons.extend([case.rows(), case.arrays(), case.functions()]);
    reasons.retain(|reason| reason.ru >= 0.005);
    reasons.sort_by(|a, b| b.ru.total_cmp(&a.ru));
    reasons
}

impl ChargeFacts<'_> {
    /// Returns the request units of parts of the charge.
    fn ru(&self, names: &[&str]) -> f64 {
        let mut fine = 0;
        for part in &self.parts {
            if names.contains(&part.what) {
                fine += part.fine;
            }
        }
        fine as f64 / FINE
    }

    /// Says what asking the partitions costs.
    fn requests(&self) -> Reason {
        let ru = self.ru(&[ASKING]);
        let pages = self.side.pages.max(1) as f64;
        let each = ru / (self.asked.max(1) as f64 * pages);
        let all = self.side.partitions_of_container;
        let of_pages = match self.side.pages {
            0 | 1 => String::new(),
            pages => format!(" and reads {pages} pages"),
        };
        if self.asked <= 1 {
            let text = format!(
                "The query asks {} of {all} physical partitions{of_pages}. Each request costs \
                 {each:.2} RU before it reads an item.",
                self.asked
            );
            return Reason {
                code: "request",
                text,
                ru,
                remedy: None,
            };
        }
        let key = &self.key_paths;
        let text = format!(
            "The query asks {} of {all} physical partitions{of_pages}, because its filter does not \
             name one value of {key}. Each partition costs {each:.2} RU before it reads an item.",
            self.asked
        );
        let remedy = match self.names_key {
            true => None,
            false => Some(Remedy::of_text(format!(
                "Add a condition on {key}, or send the partition key with the request; if most \
                 queries filter by another property, try that property as the partition key in \
                 a prediction."
            ))),
        };
        Reason {
            code: "fanOut",
            text,
            ru,
            remedy,
        }
    }

    /// Says what loading items costs, and how many of them are not returned.
    fn loads(&self) -> Reason {
        let ru = self.ru(&["items loaded", "bytes loaded"]);
        let (loaded, rows) = (self.work.loaded_items, self.side.rows);
        let bytes = self.work.loaded_bytes / loaded.max(1);
        if loaded > rows.saturating_mul(2).max(1) {
            let text = format!(
                "{loaded} items are loaded to return {rows} rows: the index alone does not decide \
                 which items match, or does not bring them in the wanted order."
            );
            let remedy = self.index.clone();
            return Reason {
                code: "discarded",
                text,
                ru,
                remedy,
            };
        }
        let text = format!("{loaded} items of {bytes} bytes on average are loaded.");
        let remedy = (bytes > LARGE_ROW).then(|| {
            Remedy::of_text(
                "The size of the items counts, whichever properties are selected. Store large \
                 properties that this query does not need in items of their own.",
            )
        });
        Reason {
            code: "loaded",
            text,
            ru,
            remedy,
        }
    }

    /// Says what reading the index costs.
    fn index_reads(&self) -> Reason {
        let names = [
            "equality values looked up",
            "index values scanned",
            "index entries passed",
            "vectors compared",
            "bytes of vectors compared",
        ];
        let ru = self.ru(&names);
        let QueryWork {
            seeks,
            scan_terms,
            walked_entries,
            compared_vectors,
            ..
        } = self.work;
        let mut said = Vec::new();
        if seeks > 0 {
            said.push(format!("looks up {seeks} values"));
        }
        if scan_terms > 0 {
            said.push(format!("passes {scan_terms} distinct values of a range"));
        }
        if walked_entries > 0 {
            said.push(format!("passes {walked_entries} entries one by one"));
        }
        if compared_vectors > 0 {
            said.push(format!("compares {compared_vectors} vectors"));
        }
        let text = format!("The query {} in the index.", joined(&said));
        let is_long = scan_terms + walked_entries > self.side.rows.saturating_mul(2).max(10);
        let remedy = self.index.clone().filter(|_| is_long);
        Reason {
            code: "index",
            text,
            ru,
            remedy,
        }
    }

    /// Says what the rows cost.
    fn rows(&self) -> Reason {
        let names = ["rows returned", "bytes returned", "rows projected"];
        let (rows, bytes) = (self.work.returned_rows, self.work.returned_bytes);
        let each = bytes / rows.max(1);
        let text = format!("{rows} rows of {each} bytes on average are returned.");
        let remedy = (each > LARGE_ROW)
            .then(|| Remedy::of_text("Name the properties that are needed in place of SELECT *."));
        Reason {
            code: "rows",
            text,
            ru: self.ru(&names),
            remedy,
        }
    }

    /// Says what iterating arrays costs.
    fn arrays(&self) -> Reason {
        let count = self.work.array_elements;
        let text = format!("JOIN and subqueries iterate {count} array elements.");
        let remedy = Some(Remedy::of_text(
            "Filter inside the subquery, or use EXISTS or ARRAY_CONTAINS in WHERE in place of a \
             JOIN.",
        ));
        Reason {
            code: "arrays",
            text,
            ru: self.ru(&["array elements iterated"]),
            remedy,
        }
    }

    /// Says what user-defined functions and aggregates cost.
    fn functions(&self) -> Reason {
        let calls = self.work.udf_calls;
        let ru = self.ru(&["calls of functions", "aggregates"]);
        let text = match calls {
            0 => "The query computes aggregates.".to_owned(),
            calls => format!("User-defined functions are called {calls} times."),
        };
        let remedy = (calls > 0).then(|| {
            Remedy::of_text(
                "No index answers a user-defined function. Use a system function, or a computed \
                 property.",
            )
        });
        Reason {
            code: "functions",
            text,
            ru,
            remedy,
        }
    }
}

/// Returns the part of a charge that a query pays for asking partitions, in RU.
pub(crate) fn asking_ru(engine: &Engine, work: &Work, charge: Charge) -> f64 {
    let parts = engine.charge_parts(work, charge);
    let asking = parts.iter().filter(|part| part.what == ASKING);
    asking.map(|part| part.fine).sum::<i64>() as f64 / FINE
}

/// Returns the indexes that the index metrics of a query propose.
fn index_remedy(metrics: &Json) -> Option<Remedy> {
    let list = |name: &str| {
        metrics
            .get(name)
            .and_then(Json::as_array)
            .unwrap_or_default()
    };
    let mut remedy = Remedy::of_text("");
    for composite in list("PotentialCompositeIndexes") {
        let specs = composite.get("IndexSpecs").and_then(Json::as_array)?;
        let paths: Vec<Json> = specs.iter().filter_map(composite_path).collect();
        remedy.composite_indexes.push(Json::Array(paths));
    }
    for single in list("PotentialSingleIndexes") {
        if let Some(path) = single.get("IndexSpec").and_then(Json::as_str) {
            remedy.included_paths.push(path.to_owned());
        }
    }
    let mut said = Vec::new();
    for composite in &remedy.composite_indexes {
        said.push(format!("add the composite index {composite}"));
    }
    for path in &remedy.included_paths {
        said.push(format!("include the path {path}"));
    }
    if said.is_empty() {
        return None;
    }
    remedy.text = format!("In the indexing policy, {}.", joined(&said));
    Some(remedy)
}

/// Reads `/path ASC` as a path of a composite index in a policy.
fn composite_path(spec: &Json) -> Option<Json> {
    let (path, order) = spec.as_str()?.rsplit_once(' ')?;
    let order = if order == "DESC" {
        "descending"
    } else {
        "ascending"
    };
    let path: Object = object! { "path" => path, "order" => order };
    Some(path.into())
}

/// Joins parts of a sentence.
fn joined(parts: &[String]) -> String {
    match parts {
        [] => "reads nothing".to_owned(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
