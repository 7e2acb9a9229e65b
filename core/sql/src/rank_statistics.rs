//! The query for the statistics of a container that ORDER BY RANK needs to score texts.
//!
//! The BM25 score of a text depends on the whole container: the number of items, the number of
//! words, and the number of items in which each search term occurs. The query returns one row with
//! these numbers and has the form in which the service prints it in client plans
//! (`globalStatisticsQuery`):
//!
//! ```text
//! SELECT COUNT(1) AS documentCount,
//!        [{totalWordCount: SUM(_FullTextWordCount(text)),
//!          hitCounts: [COUNTIF(FullTextContains(text, term)), ..]}, ..] AS fullTextStatistics
//! ```
//!
//! FROM is that of the ranked query; WHERE is left out.

use crate::bind::{RankExpression, ScoreCall};
use crate::syntax::ast::{self, Expr, Projection};
use crate::syntax::build;
use orrery_model::json::Json;

/// Makes the statistics query for the texts that a ranked query scores. Returns `None` if the query
/// has no ORDER BY RANK with known scores.
pub(crate) fn statistics_query(query: &ast::Query) -> Option<ast::Query> {
    let key = query.order_by.as_ref()?.keys.first()?;
    let ranked = RankExpression::of(&key.expr)?;
    let mut texts = Vec::new();
    for score in &ranked.scores {
        if let ScoreCall::Text { text, terms } = score {
            texts.push(text_statistics(text, terms));
        }
    }
    let count = build::call("COUNT", vec![build::constant(Json::from(1))]);
    Some(ast::Query {
        distinct: false,
        top: None,
        projection: Projection::List(vec![
            build::aliased(count, "documentCount"),
            build::aliased(build::array(texts), "fullTextStatistics"),
        ]),
        filter: None,
        order_by: None,
        offset_limit: None,
        ..query.clone()
    })
}

/// Makes the object with the number of words of a text and the number of items with each term.
fn text_statistics(text: &Expr, terms: &[&Expr]) -> Expr {
    let words = build::call("_FullTextWordCount", vec![text.clone()]);
    let total_words = build::call("SUM", vec![words]);
    let mut hit_counts = Vec::with_capacity(terms.len());
    for &term in terms {
        let is_hit = build::call("FullTextContains", vec![text.clone(), term.clone()]);
        hit_counts.push(build::call("COUNTIF", vec![is_hit]));
    }
    build::object(vec![
        ("totalWordCount".into(), total_words),
        ("hitCounts".into(), build::array(hit_counts)),
    ])
}
