//! Queries of feeds, and query plans.

use super::{Progress, old_versions};
use crate::call::Call;
use crate::feed::{FeedKind, envelope};
use crate::headers::{IndexMetrics, RequestHeaders};
use crate::reply::{Reply, base64, percent_encode};
use crate::route::Target;
use orrery_engine::request::{Outcome, PlanSource, QueryPage, QueryRequest, Scope};
use orrery_engine::{Container, Database, Engine, Feed};
use orrery_model::{Error, Json, Result, Rid, object};
use std::sync::Arc;

pub(super) fn query_databases(engine: &Engine, call: &Call) -> Result<Progress> {
    let _text = engine.hold_query_text(call.body.len())?;
    let outcome = engine.query_feed(Feed::Databases, &request(call)?);
    Ok(Progress::Complete(page(
        call,
        None,
        FeedKind::Databases,
        outcome,
    )))
}

pub(super) fn query_offers(engine: &Engine, call: &Call) -> Result<Progress> {
    let _text = engine.hold_query_text(call.body.len())?;
    let outcome = engine.query_feed(Feed::Offers, &request(call)?);
    Ok(Progress::Complete(page(
        call,
        None,
        FeedKind::Offers,
        outcome,
    )))
}

pub(super) fn query_containers(
    engine: &Engine,
    call: &Call,
    database: &Arc<Database>,
) -> Result<Progress> {
    let _text = engine.hold_query_text(call.body.len())?;
    let outcome = engine.query_feed(Feed::Containers(database), &request(call)?);
    let outcome = outcome.map(|mut result| {
        old_versions::show_rows(call, &mut result.page.rows);
        result
    });
    let reply = page(call, Some(database.rid()), FeedKind::Containers, outcome);
    Ok(Progress::Complete(reply))
}

pub(super) fn query_conflicts(
    engine: &Engine,
    call: &Call,
    container: &Container,
) -> Result<Progress> {
    // Conflicts lie in the logical partitions of their items, so the rules are those of items.
    let is_everywhere = matches!(call.scope(container)?, Scope::Everything);
    let is_divided = !container.has_one_partition();
    if is_everywhere && is_divided && !call.headers.allows_cross_partition {
        return Err(Error::cross_partition_disabled());
    }
    let _text = engine.hold_query_text(call.body.len())?;
    let outcome = engine.query_feed(Feed::Conflicts(container), &request(call)?);
    let reply = page(call, Some(container.rid()), FeedKind::Conflicts, outcome);
    Ok(Progress::Complete(reply))
}

pub(super) fn query_items(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let scope = call.scope(container)?;
    let _text = engine.hold_query_text(call.body.len())?;
    let request = request(call)?;
    let outcome = engine.query(container, &scope, &request, call.cancellable_read());
    let mut reply = page(call, Some(container.rid()), FeedKind::Items, outcome);
    if call.headers.is_single_range {
        reply.set("x-ms-cosmos-query-requiresdistribution", "False");
    }
    Ok(Progress::Complete(reply))
}

/// Answers the plan of a query, for clients that merge the results of partitions.
pub(super) fn query_plan(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let _text = engine.hold_query_text(call.body.len())?;
    let query = call.query_text()?;
    let outcome = engine.query_plan(
        container,
        &query.text,
        &query.parameters,
        call.headers.query_features.as_deref().unwrap_or_default(),
        call.optional_key(container),
    );
    let reply = Reply::of(outcome, |plan| Reply::json(200, plan));
    Ok(Progress::Complete(reply))
}

/// Returns the engine's request for the query in a call.
pub(super) fn request(call: &Call) -> Result<QueryRequest> {
    let query = call.query_text()?;
    if query.resume_filter.is_some() && call.target != Target::Items {
        return Err(Error::unsupported(
            "The member 'resumeFilter' of a query of anything but items",
        ));
    }
    let headers = &call.headers;
    Ok(QueryRequest {
        cross_partition: headers.allows_cross_partition,
        fans_out: headers.fans_out,
        plan_source: plan_source(headers),
        metrics: headers.wants_query_metrics || headers.index_metrics == Some(IndexMetrics::V1),
        index_use: headers.index_metrics == Some(IndexMetrics::V2),
        explain: headers.wants_explanation,
        advice: headers.wants_query_advice,
        resume_filter: query.resume_filter,
        ..QueryRequest::of(query.text, query.parameters, call.page())
    })
}

/// Returns the way in which the client comes to the plan of a query that it has to merge.
fn plan_source(headers: &RequestHeaders) -> PlanSource {
    match &headers.query_features {
        Some(features) => PlanSource::RefusalFor(features.clone()),
        None if headers.takes_plan_from_refusal => PlanSource::Refusal,
        None => PlanSource::OwnRequest,
    }
}

/// Returns the ids of query advice in the service's form: `[{"Id":"QA1002","Params":[]}]`.
fn advice_text(rules: &[&'static str]) -> String {
    let entry =
        |rule: &&'static str| Json::Object(object! { "Id" => *rule, "Params" => Vec::new() });
    Json::Array(rules.iter().map(entry).collect()).to_text()
}

/// Returns the header by which clients that merge know the order of rows with equal ORDER BY
/// values: ascending by resource id, and descending in a reverse index scan.
fn execution_info(is_reverse: bool) -> String {
    let info = object! { "reverseRidEnabled" => false, "reverseIndexScan" => is_reverse };
    Json::Object(info).to_text()
}

/// Returns the reply with one page of query results and the reports that the client asked for.
pub(super) fn page(
    call: &Call,
    owner: Option<Rid>,
    kind: FeedKind,
    outcome: Outcome<QueryPage>,
) -> Reply {
    Reply::of(outcome, |result| {
        let page = result.page;
        let body = envelope(owner, kind, &page.rows);
        let mut reply =
            Reply::json(200, body).with_rows(page.rows.len(), page.continuation.as_deref());
        // The engine makes query metrics and the first version of index metrics if either is
        // asked for.
        if let Some(metrics) = result.metrics
            && call.headers.wants_query_metrics
        {
            reply.set(
                "x-ms-documentdb-query-metrics",
                metrics.trim_end_matches(';'),
            );
        }
        let index_metrics = match call.headers.index_metrics {
            None => None,
            Some(IndexMetrics::V1) => result.index_metrics.as_deref().map(base64),
            Some(IndexMetrics::V2) => result.index_use.as_deref().map(percent_encode),
        };
        if let Some(text) = index_metrics {
            reply.set("x-ms-cosmos-index-utilization", &text);
        }
        if let Some(explanation) = result.explanation {
            reply.set("x-orrery-explanation", &percent_encode(&explanation));
        }
        if !result.advice.is_empty() {
            let advice = advice_text(&result.advice);
            reply.set("x-ms-cosmos-query-advice", &percent_encode(&advice));
        }
        if kind == FeedKind::Items {
            let info = execution_info(result.descends);
            reply.set("x-ms-cosmos-query-execution-info", &info);
        }
        reply
    })
}
