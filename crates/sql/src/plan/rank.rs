//! The plan of ORDER BY RANK, for clients that fuse the ranks themselves.
//!
//! The client asks every range for the *global statistics* and adds them up, puts them in place of the placeholders, sends
//! a *component query* for each score to each range, ranks what comes back by each score and adds up
//! `weight / (60 + rank)`. A component query gives the best rows by its own score, each with all scores:
//!
//! ```text
//! rows {_rid, orderByItems: [{item}], payload: {payload, componentScores}}
//! rows {_rid, payload, componentScores}   for clients that say HybridSearchSkipOrderByRewrite, of several scores
//! ```
//!
//! Scores without a value are given as the worst there is, since clients rank numbers.

use super::rewrite::{Carried, array, calling, made, named, object};
use super::{Features, Plan};
use crate::bind::{Scoring, score_call, scorings};
use crate::bound::{Component, Ranking};
use crate::error::QueryError;
use crate::query::Query;
use crate::run::rank::pool_size;
use crate::syntax::ast::{self, BinaryOp, Count, CountValue, Expr, Kind, OrderItem, Projection};
use crate::syntax::print;
use orrery_model::json::{Json, Object};
use orrery_model::{limits, object};

const SKIP_REWRITE: &str = "HybridSearchSkipOrderByRewrite";

/// The query for the statistics of all texts that a ranking scores; `None` if the query ranks by nothing known.
pub(crate) fn statistics_query(query: &ast::Query) -> Option<String> {
    let (scores, _) = scorings(&query.order_by.as_ref()?.keys.first()?.expr)?;
    Some(print::query(&statistics(query, &scores)))
}

fn statistics(query: &ast::Query, scores: &[Scoring<'_>]) -> ast::Query {
    let texts = scores.iter().filter_map(|scoring| {
        let Scoring::Text { text, terms } = scoring else {
            return None;
        };
        let words = calling(
            "SUM",
            vec![calling("_FullTextWordCount", vec![(*text).clone()])],
        );
        let hit =
            |term: &&Expr| calling("FullTextContains", vec![(*text).clone(), (*term).clone()]);
        let hits = terms
            .iter()
            .map(|term| calling("COUNTIF", vec![hit(term)]))
            .collect();
        Some(object(vec![
            ("totalWordCount".into(), words),
            ("hitCounts".into(), array(hits)),
        ]))
    });
    let count = calling("COUNT", vec![made(Kind::Constant(Json::from(1)))]);
    ast::Query {
        distinct: false,
        top: None,
        projection: Projection::List(vec![
            named(count, "documentCount"),
            named(array(texts.collect()), "fullTextStatistics"),
        ]),
        filter: None,
        order_by: None,
        offset_limit: None,
        ..query.clone()
    }
}

/// The member `hybridSearchQueryInfo`.
pub(super) fn plan(
    tree: &ast::Query,
    query: &Query,
    ranking: &Ranking,
    parameter: &dyn Fn(&str) -> Option<String>,
    supported: &str,
) -> Result<Object, QueryError> {
    let Some(key) = tree.order_by.as_ref().and_then(|o| o.keys.first()) else {
        return Ok(Object::new());
    };
    let Some((scores, weights)) = scorings(&key.expr) else {
        return Ok(Object::new());
    };
    let mut features = Features::default();
    features.need("HybridSearch", true);
    features.need("WeightedRankFusion", weights.is_some());
    features.check(supported)?;
    let skips_rewrite = scores.len() > 1 && supported.split(',').any(|f| f.trim() == SKIP_REWRITE);
    let calls = calls(&scores);
    let mut components = Vec::with_capacity(calls.len());
    for (at, component) in ranking.components.iter().enumerate() {
        let mut own = tree.clone();
        own.top = query.rows_needed().map(|rows| count(pool_size(rows)));
        own.offset_limit = None;
        if let Some(order) = &mut own.order_by {
            order.rank = false;
            order.keys = vec![OrderItem {
                expr: calls[at].clone(),
                descending: direction(component),
            }];
        }
        let info = if skips_rewrite {
            let scores = component_scores(&calls, ranking, true);
            let rewritten = Carried::of(&own, parameter)?.with_scores(scores);
            component_info(&own, query, None, rewritten)
        } else {
            // Such a client does not rank by an only score, but takes the rows as they come: it is sent none.
            let alone = scores.len() == 1 && supported.split(',').any(|f| f.trim() == SKIP_REWRITE);
            let scores = if alone {
                array(Vec::new())
            } else {
                component_scores(&calls, ranking, false)
            };
            let mut carried = Carried::of(&own, parameter)?;
            carried.payload = object(vec![
                ("payload".into(), carried.payload),
                ("componentScores".into(), scores),
            ]);
            component_info(
                &own,
                query,
                Some((component, &calls[at])),
                carried.in_order(),
            )
        };
        // Every component repeats the scores of all.
        let rewritten = info
            .get("rewrittenQuery")
            .and_then(Json::as_str)
            .unwrap_or_default();
        if rewritten.len() > limits::QUERY_TEXT_BYTES {
            let message = "The query is too long to be rewritten for several partitions.";
            return Err(QueryError::Plan(message.into()));
        }
        components.push(Json::Object(info));
    }
    let weights = weights.map(|_| {
        ranking
            .components
            .iter()
            .map(|c| Json::from(c.weight))
            .collect::<Vec<_>>()
    });
    let offset = query.offset();
    Ok(object! {
        "globalStatisticsQuery" => print::query(&statistics(tree, &scores)),
        "componentQueryInfos" => components,
        "componentWithoutPayloadQueryInfos" => Vec::new(),
        "projectionQueryInfo" => Json::Null,
        "componentWeights" => weights.unwrap_or_default(),
        "skip" => offset.map_or(Json::Null, Json::from),
        "take" => query.max_rows.map_or(Json::Null, Json::from),
        "requiresGlobalStatistics" => query.statistics_query().is_some(),
    })
}

/// The call of each score, with placeholders for the statistics of each text.
fn calls(scores: &[Scoring<'_>]) -> Vec<Expr> {
    let mut texts = 0;
    let mut call = |scoring: &Scoring<'_>| {
        let mut places = Vec::new();
        if matches!(scoring, Scoring::Text { .. }) {
            let place = |name: &str| {
                made(Kind::Verbatim(format!(
                    "{{documentdb-formattablehybridsearchquery-{name}}}"
                )))
            };
            places.push(place("totaldocumentcount"));
            places.push(place(&format!("totalwordcount-{texts}")));
            places.push(place(&format!("hitcountsarray-{texts}")));
            texts += 1;
        }
        score_call(scoring, places)
    };
    scores.iter().map(&mut call).collect()
}

/// DESC or ASC as the service prints it: a vector score without either gives the nearest first.
fn direction(component: &Component) -> Option<bool> {
    if component.is_reversed {
        Some(false)
    } else {
        component.text_index.map(|_| true)
    }
}

/// All scores of a row; `turned` changes the sign of those of which the lowest are best.
fn component_scores(calls: &[Expr], ranking: &Ranking, turned: bool) -> Expr {
    let each = calls
        .iter()
        .zip(&ranking.components)
        .map(|(call, component)| {
            let missing = missing(component.score_if_undefined);
            let score = made(Kind::Coalesce(vec![call.clone(), missing]));
            if !(turned && component.is_reversed) {
                return score;
            }
            let minus = made(Kind::Verbatim("-1".into()));
            made(Kind::Chain {
                first: Box::new(minus),
                rest: vec![(BinaryOp::Multiply, score)],
            })
        });
    array(each.collect())
}

/// The number as the service prints it.
fn missing(value: f64) -> Expr {
    let digits = if value.abs() > 1.0 {
        "1.79769e+308"
    } else {
        "1"
    };
    made(Kind::Verbatim(format!(
        "{}{digits}",
        if value < 0.0 { "-" } else { "" }
    )))
}

fn component_info(
    own: &ast::Query,
    query: &Query,
    ordered: Option<(&Component, &Expr)>,
    rewritten: ast::Query,
) -> Object {
    let mut plan = Plan::new(own, query);
    plan.rewritten = Some(rewritten);
    if let Some((component, call)) = ordered {
        plan.top = query.rows_needed().map(pool_size);
        plan.order_by.push(Json::from(if component.is_reversed {
            "Ascending"
        } else {
            "Descending"
        }));
        plan.order_by_expressions
            .push(Json::from(print::expression(call)));
        plan.non_streaming = true;
    }
    plan.into_query_info()
}

fn count(rows: u64) -> Count {
    Count {
        value: CountValue::Number(rows.to_string()),
        span: (0, 0),
    }
}
