//! Binding of ORDER BY RANK: one score, or several scores that RRF (reciprocal rank fusion)
//! combines.
//!
//! ```text
//! ORDER BY RANK FullTextScore(c.text, 'term', ..)
//! ORDER BY RANK RRF(FullTextScore(..), VectorDistance(..), .. [, [weight, ..]])
//! ```

use super::search::{FULL_TEXT_SCORE, MAX_SCORE, built_in_call, text_constant};
use super::{Binder, BoundExpr, has_aggregate};
use crate::bound::{Component, Expr, Ranking};
use crate::error::QueryError;
use crate::full_text::{Analyzer, Term};
use crate::functions::vector::VECTOR_SCORE;
use crate::functions::{self, Implementation};
use crate::syntax::ast::{self, Collection, Kind};
use crate::syntax::{build, print};
use orrery_model::json::Json;

/// The score that replaces the undefined score of a text where high scores are best. Scores of
/// texts are not negative.
const UNDEFINED_TEXT_SCORE: f64 = -1.0;

const NOT_A_SCORE: &str = "The ORDER BY RANK clause must be followed by a VectorDistance and/or a \
                           FullTextScore function call.";
const INVALID_WEIGHTS: &str =
    "The weights of the RRF function must be a literal array with a number for each of its scores.";

/// The expression that follows ORDER BY RANK.
pub(crate) struct RankExpression<'q> {
    /// One score, or at least two scores of RRF.
    pub scores: Vec<ScoreCall<'q>>,
    /// The weights of RRF.
    pub weights: Option<&'q ast::Expr>,
}

/// A score in an ORDER BY RANK clause.
#[derive(Clone, Debug)]
pub(crate) enum ScoreCall<'q> {
    /// FULLTEXTSCORE of a text for some terms.
    Text {
        text: &'q ast::Expr,
        terms: Vec<&'q ast::Expr>,
    },
    /// VECTORDISTANCE with its arguments.
    Vector(&'q [ast::Expr]),
}

impl<'q> RankExpression<'q> {
    /// Recognizes a score or an RRF call. Returns `None` for any other expression.
    pub(crate) fn of(expr: &'q ast::Expr) -> Option<Self> {
        if let Some(score) = ScoreCall::of(expr) {
            return Some(RankExpression {
                scores: vec![score],
                weights: None,
            });
        }
        let (function, arguments) = built_in_call(expr)?;
        if !matches!(function.run, Implementation::Rank) {
            return None;
        }
        // A last argument that is not a score must be the weights.
        let (last, others) = arguments.split_last()?;
        let (scores, weights) = match ScoreCall::of(last) {
            Some(_) => (arguments, None),
            None => (others, Some(last)),
        };
        let scores = scores
            .iter()
            .map(ScoreCall::of)
            .collect::<Option<Vec<_>>>()?;
        (scores.len() >= 2).then_some(RankExpression { scores, weights })
    }
}

impl<'q> ScoreCall<'q> {
    fn of(expr: &'q ast::Expr) -> Option<Self> {
        let (function, arguments) = built_in_call(expr)?;
        match (function.run, arguments) {
            (Implementation::Vector(_), _) if function.names[0] != VECTOR_SCORE => {
                let (fewest, most) = function.arity;
                let is_complete = (fewest..=most).contains(&arguments.len());
                is_complete.then_some(ScoreCall::Vector(arguments))
            }
            (Implementation::Rank, [text, terms @ ..])
                if function.names[0] == "FULLTEXTSCORE" && !terms.is_empty() =>
            {
                // Terms may come in an array.
                let terms = terms.iter().flat_map(|term| match &term.kind {
                    Kind::Array(inner) => inner.as_slice(),
                    _ => std::slice::from_ref(term),
                });
                Some(ScoreCall::Text {
                    text,
                    terms: terms.collect(),
                })
            }
            _ => None,
        }
    }

    /// Makes the call of an internal function that computes the score, as client plans contain it.
    /// `statistics` are the arguments that follow the terms of a text.
    pub(crate) fn to_internal_call(&self, statistics: Vec<ast::Expr>) -> ast::Expr {
        match self {
            ScoreCall::Vector(arguments) => build::call("_VectorScore", arguments.to_vec()),
            ScoreCall::Text { text, terms } => {
                let terms = terms.iter().map(|&term| term.clone()).collect();
                let mut arguments = vec![(*text).clone(), build::array(terms)];
                arguments.extend(statistics);
                build::call("_FullTextScore", arguments)
            }
        }
    }
}

/// Returns the first RRF call among the arguments of an RRF call.
fn inner_fusion(expr: &ast::Expr) -> Option<&ast::Expr> {
    let is_fusion = |expr: &ast::Expr| {
        let call = built_in_call(expr);
        call.is_some_and(|(function, _)| function.names[0] == "RRF")
    };
    let (_, arguments) = built_in_call(expr).filter(|_| is_fusion(expr))?;
    arguments.iter().find(|argument| is_fusion(argument))
}

impl Binder<'_> {
    /// Binds ORDER BY RANK.
    pub(super) fn order_by_rank(
        &mut self,
        query: &ast::Query,
        order: &ast::OrderBy,
    ) -> Result<(), QueryError> {
        // The clause is valid over the items of the container only.
        if query.from.len() > 1 {
            let message = "The ORDER BY RANK clause is not supported with JOIN.";
            self.report("SC2224", message.into(), order.span);
        }
        let first_source = query.from.first().map(|source| &source.collection);
        if matches!(first_source, Some(Collection::Subquery(_))) {
            let message =
                "The ORDER BY RANK clause is not supported with a subquery in the FROM clause.";
            self.report("SC2225", message.into(), order.span);
        }
        let [item] = order.keys.as_slice() else {
            self.report("SC2221", NOT_A_SCORE.into(), order.span);
            return Ok(());
        };
        if item.descending.is_some() {
            let message = "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is \
                           not allowed.";
            return Err(QueryError::Plan(message.into()));
        }
        if !query.group_by.is_empty() || has_aggregate(&query.projection) {
            let message = "'ORDER BY RANK' is not supported with groups and aggregates.";
            return Err(QueryError::Plan(message.into()));
        }
        let Some(ranked) = RankExpression::of(&item.expr) else {
            self.report_no_score(&item.expr);
            return Ok(());
        };
        let weights = self.weights(ranked.weights, ranked.scores.len())?;
        let mut texts = 0;
        let mut components = Vec::with_capacity(ranked.scores.len());
        for (call, weight) in ranked.scores.iter().zip(weights) {
            let (score, text_index) = match call {
                ScoreCall::Vector(arguments) => {
                    let Some(function) = functions::find(VECTOR_SCORE) else {
                        continue;
                    };
                    (self.vector(function, arguments, item.expr.span)?.0, None)
                }
                ScoreCall::Text { text, terms } => {
                    let index = texts;
                    texts += 1;
                    (self.text_score(text, terms)?, Some(index))
                }
            };
            let is_reversed = weight < 0.0;
            let score_if_undefined = match (is_reversed, text_index) {
                (true, _) => MAX_SCORE,
                (false, Some(_)) => UNDEFINED_TEXT_SCORE,
                (false, None) => -MAX_SCORE,
            };
            components.push(Component {
                score,
                is_reversed,
                weight: weight.abs(),
                score_if_undefined,
                text_index,
            });
        }
        self.ranking = Some(Ranking { components });
        Ok(())
    }

    /// Reports an expression that items cannot be ranked by.
    fn report_no_score(&mut self, expr: &ast::Expr) {
        // RRF is known as the whole expression only.
        match inner_fusion(expr) {
            Some(inner) => {
                let message = "'RRF' is not a recognized built-in function name.";
                self.report("SC2005", message.into(), inner.span);
            }
            None => self.report("SC2221", NOT_A_SCORE.into(), expr.span),
        }
    }

    /// Makes the call that computes the score of a text. The statistics of the container are added
    /// later, by [`crate::Query::with_statistics`].
    fn text_score(&mut self, text: &ast::Expr, terms: &[&ast::Expr]) -> BoundExpr {
        let text = self.expression(text)?;
        let language = self.language_of(&text);
        let analyzer = Analyzer::of(&language);
        let mut values = Vec::with_capacity(terms.len());
        for term in terms {
            match self.expression(term)? {
                Expr::Constant(Some(value)) if Term::parse(&value, &analyzer).is_some() => {
                    values.push(value)
                }
                _ => {
                    let written = print::expression(term);
                    let message = format!(
                        "The FullTextScore function takes strings or {{term, distance}} as terms, \
                         not {written}."
                    );
                    return Err(QueryError::Plan(message));
                }
            }
        }
        let Some(function) = functions::find(FULL_TEXT_SCORE) else {
            return Ok(Expr::Constant(None));
        };
        let terms = Expr::Constant(Some(Json::Array(values)));
        Ok(Expr::Call {
            function,
            arguments: Box::new([text_constant(&language), text, terms]),
        })
    }

    /// Returns the weights of RRF; 1 for each score if the call has no weights.
    fn weights(
        &mut self,
        weights: Option<&ast::Expr>,
        scores: usize,
    ) -> Result<Vec<f64>, QueryError> {
        let Some(weights) = weights else {
            return Ok(vec![1.0; scores]);
        };
        let numbers = match self.expression(weights)? {
            Expr::Constant(Some(Json::Array(list))) => {
                list.iter().map(Json::as_f64).collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        match numbers {
            Some(numbers) if numbers.len() == scores => Ok(numbers),
            _ => {
                self.report("SC2229", INVALID_WEIGHTS.into(), weights.span);
                Ok(vec![1.0; scores])
            }
        }
    }
}
