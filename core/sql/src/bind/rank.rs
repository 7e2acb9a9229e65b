//! Binding of ORDER BY RANK: one score, or several scores that RRF (reciprocal rank fusion)
//! combines.
//!
//! ```text
//! ORDER BY RANK FullTextScore(c.text, 'term', ..)
//! ORDER BY RANK RRF(FullTextScore(..), VectorDistance(..), .. [, [weight, ..]])
//! ```

use super::projection::first_aggregate;
use super::search::{MAX_SCORE, built_in_call, text_constant};
use super::{Binder, BoundExpr};
use crate::bound::{Component, Expr, Ranking};
use crate::error::QueryError;
use crate::full_text::{Analyzer, Term};
use crate::functions::vector::VECTOR_SCORE;
use crate::functions::{self, Implementation};
use crate::indexed_score::FULL_TEXT_SCORE;
use crate::syntax::ast::{self, Collection, Kind};
use crate::syntax::build;
use orrery_model::json::Json;

/// The score that replaces the undefined score of a text where high scores are best. Scores of
/// texts are not negative.
const UNDEFINED_TEXT_SCORE: f64 = -1.0;

const NOT_A_SCORE: &str = "The ORDER BY RANK clause must be followed by a VectorDistance and/or a \
                           FullTextScore function call.";
const INVALID_WEIGHTS: &str = "The last parameter of the RRF function is an optional array of \
                               weights. When present, it must be a literal array of numbers, one \
                               for each of the component scores used for the RRF function. The \
                               length of this array must be the same as the number of the \
                               component scores.";
const INVALID_TERM: &str = "The second through last arguments of the 'FullTextScore' function must \
                            be literals of type string or object specifying the fuzzy search \
                            argument containing a 'term' property which is a string and a \
                            'distance' property which is a number between 0 and 2 (inclusive).";
const TOO_FEW_SCORES: &str =
    "A score fusion function requires at least two component score functions.";

/// The function whose score ORDER BY RANK and RRF take.
pub(super) const FULL_TEXT_RANK: &str = "FULLTEXTSCORE";
/// The function that combines scores.
const FUSION: &str = "RRF";

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
                if function.names[0] == FULL_TEXT_RANK && !terms.is_empty() =>
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

/// Returns true for a call of RRF.
fn is_fusion(expr: &ast::Expr) -> bool {
    built_in_call(expr).is_some_and(|(function, _)| function.names[0] == FUSION)
}

impl Binder<'_> {
    /// Reports the sources that ORDER BY RANK does not allow: the clause is valid over the items of
    /// the container only.
    pub(super) fn check_ranked_sources(&mut self, query: &ast::Query) {
        let ([first, ..], [.., last], true) = (
            query.from.as_slice(),
            query.from.as_slice(),
            query.is_ranked(),
        ) else {
            return;
        };
        if query.from.len() > 1 {
            let message = "The JOIN operator is not allowed with the ORDER BY RANK clause.";
            self.report("SC2224", message.into(), (first.span.0, last.span.1));
        }
        for source in &query.from {
            if source.iterate {
                let message = "The FROM clause with the IN operator is not allowed with the ORDER \
                               BY RANK clause.";
                self.report("SC2223", message.into(), source.span);
            }
            if matches!(source.collection, Collection::Subquery(_)) {
                let message =
                    "Subqueries in the FROM clause are not allowed with the ORDER BY RANK clause.";
                self.report("SC2225", message.into(), source.collection_span);
            }
        }
        if !query.group_by.is_empty() {
            let message = "The GROUP BY clause is not allowed with the ORDER BY RANK clause.";
            self.report("SC2227", message.into(), query.group_by_span);
        }
    }

    /// Reports DISTINCT in a query with ORDER BY RANK.
    pub(super) fn check_ranked_distinct(&mut self, query: &ast::Query) {
        if query.distinct && query.is_ranked() {
            let message = "The DISTINCT keyword is not allowed with the ORDER BY RANK clause.";
            self.report("SC2220", message.into(), query.select_span);
        }
    }

    /// Reports an aggregate in the SELECT list of a query with ORDER BY RANK.
    pub(super) fn check_ranked_aggregates(&mut self, query: &ast::Query) {
        if !query.is_ranked() {
            return;
        }
        if let Some(span) = first_aggregate(&query.projection) {
            let message = "Aggregate functions are not allowed with the ORDER BY RANK clause.";
            self.report("SC2226", message.into(), span);
        }
    }

    /// Binds ORDER BY RANK.
    pub(super) fn order_by_rank(&mut self, order: &ast::OrderBy) -> Result<(), QueryError> {
        let [item] = order.keys.as_slice() else {
            return Ok(());
        };
        if item.descending.is_some() {
            let message = "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is \
                           not allowed.";
            self.report("SC2222", message.into(), order.span);
        }
        let Some(ranked) = RankExpression::of(&item.expr) else {
            return self.report_no_score(&item.expr, order.span);
        };
        let weights = self.weights(ranked.weights, ranked.scores.len(), order.span)?;
        let mut texts = 0;
        let mut components = Vec::with_capacity(ranked.scores.len());
        for (call, weight) in ranked.scores.iter().zip(weights) {
            let (score, text_index) = match call {
                ScoreCall::Vector(arguments) => {
                    let Some(function) = functions::find(VECTOR_SCORE) else {
                        continue;
                    };
                    (self.vector(function, arguments)?.0, None)
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

    /// Reports a call that items cannot be ranked by, and the errors of its arguments. `clause` is
    /// the span of ORDER BY RANK.
    fn report_no_score(&mut self, expr: &ast::Expr, clause: ast::Span) -> Result<(), QueryError> {
        let Some((_, arguments)) = built_in_call(expr).filter(|_| is_fusion(expr)) else {
            let errors_before = self.error_count;
            self.score(expr)?;
            if self.error_count == errors_before {
                self.report("SC2221", NOT_A_SCORE.into(), clause);
            }
            return Ok(());
        };
        // A literal array at the end has the weights.
        let (scores, weights) = match arguments.split_last() {
            Some((last, scores)) if matches!(last.kind, Kind::Array(_)) => (scores, Some(last)),
            _ => (arguments, None),
        };
        if scores.len() < 2 {
            self.weights(weights, scores.len(), clause)?;
            self.report("SC2233", TOO_FEW_SCORES.into(), clause);
        }
        for score in scores {
            self.score(score)?;
        }
        // The errors of scores are enough; any other argument is none.
        let is_score = |argument: &ast::Expr| {
            let call = built_in_call(argument);
            call.is_some_and(|(function, _)| {
                matches!(
                    function.run,
                    Implementation::Rank | Implementation::Vector(_)
                )
            })
        };
        if scores.len() >= 2 && !scores.iter().all(is_score) {
            self.report("SC2221", NOT_A_SCORE.into(), clause);
        }
        Ok(())
    }

    /// Reports the errors of an expression at a place where a score may stand. RRF is known as the
    /// whole expression of the clause only.
    fn score(&mut self, expr: &ast::Expr) -> Result<(), QueryError> {
        let Some((function, arguments)) = built_in_call(expr) else {
            self.expression(expr)?;
            return Ok(());
        };
        let Kind::Call { name, .. } = &expr.kind else {
            return Ok(());
        };
        match function.names[0] {
            FULL_TEXT_RANK => {
                self.check_arity(function, name, arguments.len(), expr.span);
            }
            FUSION => {
                for argument in arguments {
                    self.score(argument)?;
                }
                self.report_unknown_function(name, expr.span);
            }
            _ => drop(self.expression(expr)?),
        }
        Ok(())
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
                _ => self.report("SC2241", INVALID_TERM.into(), term.span),
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

    /// Returns the weights of RRF; 1 for each score if the call has no weights. `clause` is the
    /// span of ORDER BY RANK.
    fn weights(
        &mut self,
        weights: Option<&ast::Expr>,
        scores: usize,
        clause: ast::Span,
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
                self.report("SC2229", INVALID_WEIGHTS.into(), clause);
                Ok(vec![1.0; scores])
            }
        }
    }
}
