//! What a query may tell about itself: its metrics, the indexes it used or could use, and EXPLAIN, all from the counters
//! and the planner's own choice.

use super::condition::{conjuncts, is_answerable, is_selective, steps};
use super::source::Asked;
use crate::index::paths::Step;
use crate::index::policy::{Policy, path_text};
use orrery_model::work::QueryWork;
use orrery_model::{Json, Object, object};
use orrery_sql::{Condition, Path, Query, Test, Work};

/// `x-ms-documentdb-query-metrics`. Times are those of the whole page; only the total is measured.
pub fn query_metrics(asked: &[Asked], work: &Work, total_ms: u64) -> String {
    let loaded: u64 = asked.iter().map(|a| a.work.loaded_items).sum();
    let loaded_bytes: u64 = asked.iter().map(|a| a.work.loaded_bytes).sum();
    let hits = if loaded == 0 {
        1.0
    } else {
        (work.rows_out as f64 / loaded as f64).min(1.0)
    };
    let times = [
        "queryCompileTimeInMs",
        "queryLogicalPlanBuildTimeInMs",
        "queryPhysicalPlanBuildTimeInMs",
        "queryOptimizationTimeInMs",
        "indexLookupTimeInMs",
        "documentLoadTimeInMs",
        "systemFunctionExecuteTimeInMs",
        "userFunctionExecuteTimeInMs",
        "writeOutputTimeInMs",
    ];
    let mut parts = vec![
        format!("totalExecutionTimeInMs={total_ms}.00"),
        format!("VMExecutionTimeInMs={total_ms}.00"),
    ];
    parts.extend(times.iter().map(|name| format!("{name}=0.00")));
    parts.push(format!("instructionCount={}", work.items_filtered));
    parts.push(format!("retrievedDocumentCount={loaded}"));
    parts.push(format!("retrievedDocumentSize={loaded_bytes}"));
    parts.push(format!("outputDocumentCount={}", work.rows_out));
    parts.push(format!("outputDocumentSize={}", work.bytes_out));
    parts.push(format!("indexUtilizationRatio={hits:.2}"));
    parts.join(";")
}

/// Paths that index metrics name, ranges that EXPLAIN lists, and characters of each text in it: both travel in headers.
const PATHS_NAMED: usize = 50;
const RANGES_LISTED: usize = 50;
const TEXT_SHOWN: usize = 500;

/// A path that the query filters or orders by.
struct Use<'q> {
    path: &'q Path,
    exact: bool,
    selective: bool,
}

/// The index metrics document: the indexes that the query used, and those that would serve it if the policy had them.
///
/// `keys`: the paths of the partition key, if the request names it; the filter on it is a use like any other.
pub fn index_metrics(query: &Query, policy: &Policy, asked: &[Asked], keys: &[Path]) -> String {
    let mut uses: Vec<Use<'_>> = keys
        .iter()
        .map(|path| Use {
            path,
            exact: true,
            selective: true,
        })
        .collect();
    terms(query.condition(), &mut uses);
    let ordered = query.order().iter().filter_map(|key| key.path.as_ref());
    uses.extend(ordered.map(|path| Use {
        path,
        exact: true,
        selective: true,
    }));
    let (mut used, mut potential): (Vec<Json>, Vec<Json>) = (Vec::new(), Vec::new());
    for one in &uses {
        let list = if policy.covers(&steps(one.path)) {
            &mut used
        } else {
            &mut potential
        };
        let spec = Json::Object(one.document());
        if list.len() < PATHS_NAMED && !list.contains(&spec) {
            list.push(spec);
        }
    }
    let mut composites: Vec<Json> = Vec::new();
    for composite in asked.iter().filter_map(|a| a.composite.as_ref()) {
        let spec = composite_document(&composite.paths);
        if !composites.contains(&spec) {
            composites.push(spec);
        }
    }
    let wanted = wanted_composite(query)
        .filter(|paths| composites.is_empty() && policy.orders_by(paths).is_none());
    let document = object! {
        "UtilizedSingleIndexes" => used,
        "PotentialSingleIndexes" => potential,
        "UtilizedCompositeIndexes" => composites,
        "PotentialCompositeIndexes" => wanted.iter().map(|paths| composite_document(paths)).collect::<Vec<_>>(),
    };
    Json::Object(document).to_text()
}

impl Use<'_> {
    fn document(&self) -> Object {
        object! {
            "FilterExpression" => "",
            "IndexSpec" => format!("{}/?", self.path),
            "FilterPreciseSet" => self.exact,
            "IndexPreciseSet" => self.exact,
            "IndexImpactScore" => if self.selective { "High" } else { "Low" },
        }
    }
}

fn composite_document(paths: &[(Vec<Step>, bool)]) -> Json {
    let spec = |(path, ascending): &(Vec<Step>, bool)| {
        Json::from(format!(
            "{} {}",
            path_text(path),
            if *ascending { "ASC" } else { "DESC" }
        ))
    };
    Json::Object(object! {
        "IndexSpecs" => paths.iter().map(spec).collect::<Vec<_>>(),
        "IndexPreciseSet" => true,
        "IndexImpactScore" => "High",
    })
}

fn terms<'q>(condition: &'q Condition, uses: &mut Vec<Use<'q>>) {
    match condition {
        Condition::And(parts) | Condition::Or(parts) => {
            parts.iter().for_each(|part| terms(part, uses))
        }
        Condition::Term { path, test, exact } if is_answerable(test) => {
            uses.push(Use {
                path,
                exact: *exact,
                selective: is_selective(test),
            });
        }
        Condition::Term { .. } | Condition::All | Condition::Never => {}
    }
}

/// The composite index that would serve the query best: the paths of its equalities, then those of ORDER BY, or one that
/// it asks a range of.
fn wanted_composite(query: &Query) -> Option<Vec<(Vec<Step>, bool)>> {
    let mut paths: Vec<(Vec<Step>, bool)> = Vec::new();
    let mut add = |path: &Path, ascending: bool| {
        let path = steps(path);
        let is_access_resource = path.iter().all(|step| matches!(step, Step::Name(_)));
        if is_access_resource && !paths.iter().any(|(known, _)| *known == path) {
            paths.push((path, ascending));
        }
    };
    let terms = || {
        conjuncts(query.condition())
            .into_iter()
            .filter_map(|condition| match condition {
                Condition::Term { path, test, .. } => Some((path, test)),
                _ => None,
            })
    };
    terms()
        .filter(|(_, test)| matches!(test, Test::Equals(_)))
        .for_each(|(path, _)| add(path, true));
    if query.order().is_empty() {
        let range = terms().find(|(_, test)| matches!(test, Test::Range { .. } | Test::Prefix(_)));
        range.into_iter().for_each(|(path, _)| add(path, true));
    }
    query.order().iter().for_each(|key| {
        if let Some(path) = &key.path {
            add(path, !key.descending);
        }
    });
    (paths.len() > 1).then_some(paths)
}

/// EXPLAIN: what each partition was asked, how, and what it took.
pub fn explain(query: &Query, asked: &[Asked], work: &Work, charges: &[String]) -> String {
    let range = |(asked, charge): (&Asked, &String)| {
        Json::Object(object! {
            "range" => asked.range.to_string(),
            "access" => shown(&asked.explanation),
            "work" => counters(&asked.work),
            "charge" => charge.as_str(),
        })
    };
    let order: Vec<Json> = query
        .order()
        .iter()
        .map(|key| {
            let path = key
                .path
                .as_ref()
                .map_or_else(|| "(expression)".to_owned(), ToString::to_string);
            Json::from(format!(
                "{path} {}",
                if key.descending { "DESC" } else { "ASC" }
            ))
        })
        .collect();
    let document = object! {
        "condition" => shown(&query.condition().to_string()),
        "conditionIsExact" => query.condition_is_exact(),
        "order" => order,
        "ranges" => asked.iter().zip(charges).take(RANGES_LISTED).map(range).collect::<Vec<_>>(),
        "rangesAsked" => asked.len() as u64,
        "itemsParsed" => work.items_parsed,
        "rows" => work.rows_out,
    };
    Json::Object(document).to_text()
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(TEXT_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The counters that are not zero.
fn counters(work: &QueryWork) -> Object {
    let mut out = Object::new();
    let all = [
        ("seeks", work.seeks),
        ("scannedValues", work.scan_terms),
        ("walkedEntries", work.walked_entries),
        ("loadedItems", work.loaded_items),
        ("loadedBytes", work.loaded_bytes),
    ];
    all.into_iter()
        .filter(|(_, count)| *count > 0)
        .for_each(|(name, count)| out.push_new(name, count));
    out
}
