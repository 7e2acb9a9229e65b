//! The query plan that clients ask for which merge results themselves.

use super::scope::pinned_keys;
use super::{compile, environment};
use crate::catalog::Container;
use crate::errors::query_error;
use orrery_model::partition_key::{Epk, EpkRange, PartitionKey};
use orrery_model::{Json, Result, object};
use orrery_sql::PlanInfo;

/// The plan document (protocol: "partitionedQueryExecutionInfo").
///
/// # Errors
/// 400 for queries that do not compile or need what the client does not offer.
pub fn client_plan(
    container: &Container,
    text: &str,
    parameters: &[(String, Json)],
    features: &str,
    key: Option<&PartitionKey>,
) -> Result<String> {
    let environment = environment(container);
    let plan =
        orrery_sql::client_plan(text, parameters, &environment, features).map_err(query_error)?;
    let query = compile(text, parameters, &environment)?;
    let definition = container.partition_key();
    let keys = match key.filter(|key| !key.is_empty()) {
        Some(key) if key.components().len() < definition.paths().len() => {
            return Ok(document(
                plan.info,
                vec![open_range(&definition.epk_range(key))],
            ));
        }
        Some(key) => {
            definition.check(key)?;
            Some(vec![definition.epk(key)])
        }
        None => pinned_keys(container, &query),
    };
    let ranges = match keys {
        None => vec![open_range(&EpkRange::all())],
        // A contradiction: the least point, where no item lives.
        Some(keys) if keys.is_empty() => vec![point(&Epk::min())],
        Some(mut keys) => {
            keys.sort();
            keys.dedup();
            keys.iter().map(point).collect()
        }
    };
    Ok(document(plan.info, ranges))
}

fn document(info: PlanInfo, ranges: Vec<Json>) -> String {
    let (name, info) = match info {
        PlanInfo::Query(info) => ("queryInfo", info),
        PlanInfo::HybridSearch(info) => ("hybridSearchQueryInfo", info),
    };
    let document = object! { "partitionedQueryExecutionInfoVersion" => 2, name => info, "queryRanges" => ranges };
    Json::Object(document).to_text()
}

fn open_range(range: &EpkRange) -> Json {
    Json::Object(object! {
        "min" => range.min.to_string(), "max" => range.max.to_string(),
        "isMinInclusive" => true, "isMaxInclusive" => false,
    })
}

fn point(epk: &Epk) -> Json {
    Json::Object(object! {
        "min" => epk.to_string(), "max" => epk.to_string(), "isMinInclusive" => true, "isMaxInclusive" => true,
    })
}
