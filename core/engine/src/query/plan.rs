//! The query plan for clients that merge results by themselves.

use super::scope::pinned_keys;
use super::{compile, environment};
use crate::catalog::Container;
use crate::errors::query_error;
use orrery_model::partition_key::{Epk, EpkRange, PartitionKey};
use orrery_model::{Json, Result, object};
use orrery_sql::{ClientPlan, MergeSupport, PlanInfo, PlanRequest, PlanScope, QueryError};

/// Returns the plan document (protocol: "partitionedQueryExecutionInfo"). `support` is what the
/// client can merge, `key` is the partition key of the request.
///
/// # Errors
/// 400 for queries that do not compile or need a merge that the client cannot do.
pub(crate) fn client_plan(
    container: &Container,
    text: &str,
    parameters: &[(String, Json)],
    support: MergeSupport<'_>,
    key: Option<&PartitionKey>,
) -> Result<String> {
    let plan = merge_plan(container, text, parameters, support, key).map_err(query_error)?;
    document(container, text, parameters, plan, key)
}

/// Makes the plan of a query, without the ranges that the client has to ask.
///
/// # Errors
/// Those of [`orrery_sql::client_plan`].
pub(super) fn merge_plan(
    container: &Container,
    text: &str,
    parameters: &[(String, Json)],
    support: MergeSupport<'_>,
    key: Option<&PartitionKey>,
) -> std::result::Result<ClientPlan, QueryError> {
    let levels = container.partition_key().paths().len();
    let scope = match key {
        Some(key) if key.is_empty() => PlanScope::Container,
        Some(key) if key.components().len() < levels => PlanScope::KeyPrefix,
        Some(_) => PlanScope::Key,
        None => PlanScope::Container,
    };
    let request = PlanRequest { support, scope };
    orrery_sql::client_plan(text, parameters, &environment(container), &request)
}

/// Returns the document of a plan, with the ranges that the client has to ask.
///
/// # Errors
/// 400 for a partition key of the wrong shape.
pub(super) fn document(
    container: &Container,
    text: &str,
    parameters: &[(String, Json)],
    plan: ClientPlan,
    key: Option<&PartitionKey>,
) -> Result<String> {
    // The partition with the smallest EPK, which is the first one, answers for all.
    if plan.asks_first_partition_only {
        return Ok(plan_document(plan.info, vec![point_document(&Epk::min())]));
    }
    let query = compile(text, parameters, &environment(container))?;

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
