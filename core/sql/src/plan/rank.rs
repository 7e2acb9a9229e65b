//! The plan of ORDER BY RANK, for clients that fuse the ranks of several partitions themselves.
//!
//! The client executes the plan in four steps:
//!
//! 1. It sends the *global statistics query* to every partition and adds up the results.
//! 2. It replaces the placeholders in the *component queries*, one for each score, by the
//!    statistics.
//! 3. It sends every component query to every partition. A component query returns the best rows by
//!    its own score, each row with all scores.
//! 4. It ranks the rows by each score and sorts them by the sum of `weight / (60 + rank)`.
//!
//! The rows of a component query have one of two forms:
//!
//! ```text
//! {_rid, orderByItems: [{item}], payload: {payload, componentScores}}
//! {_rid, payload, componentScores}       several scores, with HybridSearchSkipOrderByRewrite
//! ```
//!
//! An undefined score is replaced by the worst score, because clients rank numbers.

use super::rewrite::RowParts;
use super::{MergeSupport, PlanBuilder, PlanScope, RequiredFeatures};
use crate::bind::{RankExpression, ScoreCall};
use crate::bound::{Component, Ranking};
use crate::error::QueryError;
use crate::query::Query;
use crate::rank_statistics::statistics_query;
use crate::run::rank::pool_size;
use crate::syntax::ast::{self, BinaryOp, Expr, Kind, OrderItem};
use crate::syntax::{build, print};
use orrery_model::json::{Json, Object};
use orrery_model::{limits, object};

/// The feature of clients that read the second form of rows.
const SKIP_ORDER_BY_REWRITE: &str = "HybridSearchSkipOrderByRewrite";

/// Makes the member `hybridSearchQueryInfo` of a plan.
pub(super) fn plan(
    tree: &ast::Query,
    query: &Query,
    ranking: &Ranking,
    support: MergeSupport<'_>,
) -> Result<Object, QueryError> {
    let key = tree.order_by.as_ref().and_then(|o| o.keys.first());
    let Some(ranked) = key.and_then(|key| RankExpression::of(&key.expr)) else {
        return Ok(Object::new());
    };
    let mut features = RequiredFeatures::default();
    features.require_if(true, "HybridSearch");
    features.require_if(ranked.weights.is_some(), "WeightedRankFusion");
    features.check(support)?;
    let calls = internal_calls(&ranked.scores);
    let row_form = RowForm::of(&calls, support);
    let mut components = Vec::with_capacity(calls.len());
    for (index, component) in ranking.components.iter().enumerate() {
        // A component query is the query with ORDER BY its own score and enough rows for the
        // fusion.
        let mut own = tree.clone();
        own.top = query
            .rows_needed()
            .map(|rows| build::count(pool_size(rows)));
        own.offset_limit = None;
        if let Some(order) = &mut own.order_by {
            order.rank = false;
            order.keys = vec![OrderItem {
                expr: calls[index].clone(),
                descending: printed_direction(component),
            }];
        }
        let parts = RowParts::of(&own).ok_or_else(|| {
            QueryError::Plan("ORDER BY RANK over such a FROM clause has no plan.".into())
        })?;
        let mut builder = PlanBuilder::new(&own, query, support, PlanScope::Container);
        if row_form == RowForm::Scored {
            let scores = component_scores(&calls, ranking, true);
            builder.rewritten = Some(parts.into_scored_query(scores));
        } else {
            builder.rewritten = Some(ordered_query(parts, row_form, &calls, ranking));
            builder.order_by_component(component, &calls[index]);
        }
        let info = builder.into_query_info();
        check_length(&info)?;
        components.push(Json::Object(info));
    }
    let mut weights = Vec::new();
    if ranked.weights.is_some() {
        weights = ranking
            .components
            .iter()
            .map(|component| Json::from(component.weight))
            .collect();
    }
    let statistics = statistics_query(tree).map(|statistics| print::query(&statistics));
    Ok(object! {
        "globalStatisticsQuery" => statistics.unwrap_or_default(),
        "componentQueryInfos" => components,
        "componentWithoutPayloadQueryInfos" => Vec::new(),
        "projectionQueryInfo" => Json::Null,
        "componentWeights" => weights,
        "skip" => query.offset().map_or(Json::Null, Json::from),
        "take" => query.max_rows.map_or(Json::Null, Json::from),
        "requiresGlobalStatistics" => query.statistics_query().is_some(),
    })
}

/// The form of the rows of component queries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowForm {
    /// With sort values and all scores.
    Ordered,
    /// With sort values and an empty list of scores.
    OrderedWithoutScores,
    /// With all scores and no sort values.
    Scored,
}

impl RowForm {
    fn of(calls: &[Expr], support: MergeSupport<'_>) -> Self {
        match (support.includes(SKIP_ORDER_BY_REWRITE), calls.len()) {
            (false, _) => RowForm::Ordered,
            // With one score such a client does not rank, but returns the rows in their order. The
            // service sends it no scores.
            (true, 1) => RowForm::OrderedWithoutScores,
            (true, _) => RowForm::Scored,
        }
    }
}

/// Makes a component query whose rows have sort values.
fn ordered_query(
    mut parts: RowParts,
    row_form: RowForm,
    calls: &[Expr],
    ranking: &Ranking,
) -> ast::Query {
    let scores = match row_form {
        RowForm::OrderedWithoutScores => build::array(Vec::new()),
        _ => component_scores(calls, ranking, false),
    };
    parts.payload = build::object(vec![
        ("payload".into(), parts.payload),
        ("componentScores".into(), scores),
    ]);
    parts.into_ordered_query()
}

/// Refuses a rewritten query that is too long to be sent back. Every component query contains the
/// calls of all scores, so the text grows fast.
fn check_length(info: &Object) -> Result<(), QueryError> {
    let rewritten = info.get("rewrittenQuery").and_then(Json::as_str);
    if rewritten.is_some_and(|text| text.len() > limits::QUERY_TEXT_BYTES) {
        let message = "The query is too long to be rewritten for several partitions.";
        return Err(QueryError::Plan(message.into()));
    }
    Ok(())
}

/// Returns the calls that compute the scores, with placeholders for the statistics of each text.
fn internal_calls(scores: &[ScoreCall<'_>]) -> Vec<Expr> {
    let placeholder = |name: &str| {
        build::verbatim(format!(
            "{{documentdb-formattablehybridsearchquery-{name}}}"
        ))
    };
    let mut texts = 0;
    let mut calls = Vec::with_capacity(scores.len());
    for score in scores {
        let mut statistics = Vec::new();
        if matches!(score, ScoreCall::Text { .. }) {
            statistics.push(placeholder("totaldocumentcount"));
            statistics.push(placeholder(&format!("totalwordcount-{texts}")));
            statistics.push(placeholder(&format!("hitcountsarray-{texts}")));
            texts += 1;
        }
        calls.push(score.to_internal_call(statistics));
    }
    calls
}

/// Returns DESC or ASC as the service prints it. A vector score without either returns the nearest
/// first.
fn printed_direction(component: &Component) -> Option<bool> {
    match (component.is_reversed, component.text_index) {
        (true, _) => Some(false),
        (false, Some(_)) => Some(true),
        (false, None) => None,
    }
}

/// Makes the array of all scores of a row. If `negates_reversed` is true the scores of which the
/// lowest is best are multiplied by -1.
fn component_scores(calls: &[Expr], ranking: &Ranking, negates_reversed: bool) -> Expr {
    let mut scores = Vec::with_capacity(calls.len());
    for (call, component) in calls.iter().zip(&ranking.components) {
        let worst = printed_worst_score(component.score_if_undefined);
        let mut score = build::expr(Kind::Coalesce(vec![call.clone(), worst]));
        if negates_reversed && component.is_reversed {
            score = build::expr(Kind::Chain {
                first: Box::new(build::verbatim("-1")),
                rest: vec![(BinaryOp::Multiply, score)],
            });
        }
        scores.push(score);
    }
    build::array(scores)
}

/// Returns the score that replaces an undefined one, with the digits that the service prints.
fn printed_worst_score(score: f64) -> Expr {
    let sign = if score < 0.0 { "-" } else { "" };
    let digits = if score.abs() > 1.0 {
        "1.79769e+308"
    } else {
        "1"
    };
    build::verbatim(format!("{sign}{digits}"))
}

impl PlanBuilder<'_> {
    /// Adds the order of a component query.
    fn order_by_component(&mut self, component: &Component, call: &Expr) {
        self.top = self.query.rows_needed().map(pool_size);
        let direction = if component.is_reversed {
            "Ascending"
        } else {
            "Descending"
        };
        self.order_by.push(Json::from(direction));
        self.order_by_expressions
            .push(Json::from(print::expression(call)));
        self.has_non_streaming_order = true;
    }
}
