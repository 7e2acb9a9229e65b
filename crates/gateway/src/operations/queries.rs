//! Queries of every feed, and query plans.

use super::Step;
use crate::call::Call;
use crate::feed::{FeedKind, envelope};
use crate::headers::IndexMetrics;
use crate::reply::{Reply, base64, percent_encode};
use crate::route::Target;
use orrery_engine::request::{Outcome, QueryPage, QueryRequest};
use orrery_engine::{Container, Database, Engine, Feed};
use orrery_model::{Error, Json, Result, Rid, object};
use std::sync::Arc;

pub(super) fn query_databases(engine: &Engine, call: &Call) -> Result<Step> {
    Ok(Step::Reply(page(
        call,
        None,
        FeedKind::Databases,
        engine.query_feed(Feed::Databases, &request(call)?),
    )))
}

pub(super) fn query_offers(engine: &Engine, call: &Call) -> Result<Step> {
    Ok(Step::Reply(page(
        call,
        None,
        FeedKind::Offers,
        engine.query_feed(Feed::Offers, &request(call)?),
    )))
}

pub(super) fn query_containers(
    engine: &Engine,
    call: &Call,
    database: &Arc<Database>,
) -> Result<Step> {
    let outcome = engine.query_feed(Feed::Containers(database), &request(call)?);
    Ok(Step::Reply(page(
        call,
        Some(database.rid()),
        FeedKind::Containers,
        outcome,
    )))
}

pub(super) fn query_scripts(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let Target::Scripts(kind) = call.target else {
        return Err(Error::not_found());
    };
    let outcome = engine.query_feed(Feed::Scripts(container, kind), &request(call)?);
    Ok(Step::Reply(page(
        call,
        Some(container.rid()),
        FeedKind::Scripts(kind),
        outcome,
    )))
}

pub(super) fn query_conflicts(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let outcome = engine.query_feed(Feed::Conflicts(container), &request(call)?);
    Ok(Step::Reply(page(
        call,
        Some(container.rid()),
        FeedKind::Conflicts,
        outcome,
    )))
}

pub(super) fn query_items(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let scope = call.scope(container)?;
    let outcome = engine.query(container, &scope, &request(call)?, call.headers.reading());
    let mut reply = page(call, Some(container.rid()), FeedKind::Items, outcome);
    if call.headers.single_range {
        reply.set("x-ms-cosmos-query-requiresdistribution", "False");
    }
    Ok(Step::Reply(reply))
}

pub(super) fn plan(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let query = call.query_text()?;
    let key = call.optional_key(container);
    let outcome = engine.query_plan(
        container,
        &query.text,
        &query.parameters,
        &call.headers.query_features,
        key,
    );
    Ok(Step::Reply(Reply::of(outcome, |plan| {
        Reply::json(200, plan)
    })))
}

pub(super) fn request(call: &Call) -> Result<QueryRequest> {
    let query = call.query_text()?;
    if query.resume_filter.is_some() && call.target != Target::Items {
        return Err(Error::unsupported(
            "The member 'resumeFilter' of a query of anything but items",
        ));
    }
    Ok(QueryRequest {
        cross_partition: call.headers.cross_partition,
        metrics: call.headers.query_metrics || call.headers.index_metrics.is_some(),
        explain: call.headers.explain,
        advice: call.headers.query_advice,
        resume_filter: query.resume_filter,
        ..QueryRequest::of(query.text, query.parameters, call.page())
    })
}

/// The rules as the service writes them: `[{"Id":"QA1002","Params":[]}]`.
fn advice_text(rules: &[&'static str]) -> String {
    let entry =
        |rule: &&'static str| Json::Object(object! { "Id" => *rule, "Params" => Vec::new() });
    Json::Array(rules.iter().map(entry).collect()).to_text()
}

/// Tells clients that merge how ties of ORDER BY come: upwards by resource id, downwards in a reverse scan.
fn execution_info(reverse: bool) -> String {
    Json::Object(object! { "reverseRidEnabled" => false, "reverseIndexScan" => reverse }).to_text()
}

pub(super) fn page(
    call: &Call,
    owner: Option<Rid>,
    rows: FeedKind,
    outcome: Outcome<QueryPage>,
) -> Reply {
    Reply::of(
        outcome,
        |QueryPage {
             page,
             metrics,
             index_metrics,
             explanation,
             advice,
             descends,
         }| {
            let body = envelope(owner, rows, &page.rows);
            let mut reply =
                Reply::json(200, body).with_rows(page.rows.len(), page.continuation.as_deref());
            if let Some(metrics) = metrics.filter(|_| call.headers.query_metrics) {
                reply.set(
                    "x-ms-documentdb-query-metrics",
                    metrics.trim_end_matches(';'),
                );
            }
            if let (Some(encoding), Some(metrics)) = (call.headers.index_metrics, index_metrics) {
                let text = match encoding {
                    IndexMetrics::Base64 => base64(&metrics),
                    IndexMetrics::PercentEncoded => percent_encode(&metrics),
                };
                reply.set("x-ms-cosmos-index-utilization", &text);
            }
            if let Some(explanation) = explanation {
                reply.set("x-orrery-explanation", &percent_encode(&explanation));
            }
            if !advice.is_empty() {
                reply.set(
                    "x-ms-cosmos-query-advice",
                    &percent_encode(&advice_text(&advice)),
                );
            }
            if rows == FeedKind::Items {
                reply.set(
                    "x-ms-cosmos-query-execution-info",
                    &execution_info(descends),
                );
            }
            reply
        },
    )
}
