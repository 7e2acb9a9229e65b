//! The metrics that a query may ask for, from the counters and the planner's own choice.

use super::condition::{conjuncts, is_answerable, is_indexed, is_selective};
use crate::index::policy::Policy;
use orrery_model::work::QueryWork;
use orrery_model::{Json, object};
use orrery_sql::{Condition, Query, Work};

/// `x-ms-documentdb-query-metrics`. Times are those of the whole page; only the total is measured.
pub fn query_metrics(asked: &[(u32, QueryWork, String)], work: &Work, total_ms: u64) -> String {
    let loaded: u64 = asked.iter().map(|(_, w, _)| w.loaded).sum();
    let loaded_bytes: u64 = asked.iter().map(|(_, w, _)| w.loaded_bytes).sum();
    let hits = if loaded == 0 { 1.0 } else { (work.rows_out as f64 / loaded as f64).min(1.0) };
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
    let mut parts = vec![format!("totalExecutionTimeInMs={total_ms}.00"), format!("VMExecutionTimeInMs={total_ms}.00")];
    parts.extend(times.iter().map(|name| format!("{name}=0.00")));
    parts.push(format!("instructionCount={}", work.items_filtered));
    parts.push(format!("retrievedDocumentCount={loaded}"));
    parts.push(format!("retrievedDocumentSize={loaded_bytes}"));
    parts.push(format!("outputDocumentCount={}", work.rows_out));
    parts.push(format!("outputDocumentSize={}", work.bytes_out));
    parts.push(format!("indexUtilizationRatio={hits:.2}"));
    parts.join(";")
}

/// The index metrics document: which paths of the query the index answers, and which it would if they were indexed.
pub fn index_metrics(query: &Query, policy: &Policy) -> String {
    let (mut used, mut potential) = (Vec::new(), Vec::new());
    for condition in conjuncts(query.condition()) {
        let Condition::Term { path, test, exact } = condition else { continue };
        if !is_answerable(test) {
            continue;
        }
        let spec = Json::Object(object! {
            "FilterExpression" => "", "IndexSpec" => format!("{path}/?"), "FilterPreciseSet" => *exact,
            "IndexPreciseSet" => *exact, "IndexImpactScore" => if is_selective(test) { "High" } else { "Low" },
        });
        if is_indexed(policy, path) { used.push(spec) } else { potential.push(spec) }
    }
    let order = query.order().iter().filter_map(|key| key.path.as_ref()).filter(|path| is_indexed(policy, path));
    used.extend(order.map(|path| {
        Json::Object(object! {
            "FilterExpression" => "", "IndexSpec" => format!("{path}/?"), "FilterPreciseSet" => true,
            "IndexPreciseSet" => true, "IndexImpactScore" => "High",
        })
    }));
    let document = object! {
        "UtilizedSingleIndexes" => used, "PotentialSingleIndexes" => potential,
        "UtilizedCompositeIndexes" => Vec::new(), "PotentialCompositeIndexes" => Vec::new(),
    };
    Json::Object(document).to_text()
}
