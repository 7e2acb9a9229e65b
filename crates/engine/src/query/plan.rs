//! The query plan for clients that merge results by themselves.

use super::scope::pinned_keys;
use super::{compile, environment};
use crate::catalog::Container;
use crate::errors::query_error;
use orrery_model::partition_key::{Epk, EpkRange, PartitionKey};
use orrery_model::{Json, Result, object};
use orrery_sql::PlanInfo;

/// Returns the plan document (protocol: "partitionedQueryExecutionInfo"). `features` are the query
/// features that the client supports, `key` is the partition key of the request.
///
/// # Errors
/// 400 for queries that do not compile or need a feature that the client does not support.
pub(crate) fn client_plan(
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

    // A key of the request decides; without one the condition of the query may name keys.
    let definition = container.partition_key();
    let keys = match key {
        Some(key) if !key.is_empty() => {
            // The first levels of a hierarchical key cover a range.
            if key.components().len() < definition.paths().len() {
                let range = range_document(&definition.epk_range(key));
                return Ok(plan_document(plan.info, vec![range]));
            }
            definition.check(key)?;
            Some(vec![definition.epk(key)])
        }
        _ => pinned_keys(container, &query)
            .map(|keys| keys.iter().map(|key| key.epk().clone()).collect()),
    };
    let ranges = match keys {
        None => vec![range_document(&EpkRange::all())],
        // No key satisfies the condition. The smallest EPK holds no item.
        Some(keys) if keys.is_empty() => vec![point_document(&Epk::min())],
        Some(mut keys) => {
            keys.sort();
            keys.dedup();
            keys.iter().map(point_document).collect()
        }
    };
    Ok(plan_document(plan.info, ranges))
}

fn plan_document(info: PlanInfo, ranges: Vec<Json>) -> String {
    let (name, info) = match info {
        PlanInfo::Query(info) => ("queryInfo", info),
        PlanInfo::HybridSearch(info) => ("hybridSearchQueryInfo", info),
    };
    let document = object! {
        "partitionedQueryExecutionInfoVersion" => 2,
        name => info,
        "queryRanges" => ranges,
    };
    Json::Object(document).to_text()
}

fn range_document(range: &EpkRange) -> Json {
    Json::Object(object! {
        "min" => range.min.to_string(),
        "max" => range.max.to_string(),
        "isMinInclusive" => true,
        "isMaxInclusive" => false,
    })
}

fn point_document(epk: &Epk) -> Json {
    Json::Object(object! {
        "min" => epk.to_string(),
        "max" => epk.to_string(),
        "isMinInclusive" => true,
        "isMaxInclusive" => true,
    })
}
