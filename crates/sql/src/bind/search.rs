//! Vector distances, full-text functions, and the two orders that they make: ORDER BY VectorDistance(...) and ORDER BY
//! RANK.
//!
//! A call as it is written leaves much to the container: the distance function of a vector's path, the language of a
//! text's path. Bound calls have it all as arguments.

use super::{Binder, BoundOrder, Mapping};
use crate::bound::{Component, Expr, Ranking};
use crate::condition::{OrderKey, Path};
use crate::error::QueryError;
use crate::full_text::{Analyzer, DEFAULT_LANGUAGE, Term};
use crate::functions::vector::{DATA_TYPES, DistanceFunction, VECTOR_SCORE};
use crate::functions::{self, Function, Implementation};
use crate::seams::VectorPath;
use crate::syntax::ast::{self, Collection, Kind};
use crate::syntax::print;
use orrery_model::json::Json;

/// The score of a text, for clients that merge themselves.
pub(crate) const FULL_TEXT_SCORE: &str = "_FULLTEXTSCORE";
/// What a missing score of a text counts as where high scores come first.
const NO_FIT: f64 = -1.0;
/// What any other missing score counts as; the sign is that of "worse".
const FAR: f64 = 1.797_69e308;

const NOT_A_SCORE: &str = "The ORDER BY RANK clause must be followed by a VectorDistance and/or a FullTextScore function call.";
const WEIGHTS: &str =
    "The weights of the RRF function must be a literal array with a number for each of its scores.";

type BoundExpr = Result<Expr, QueryError>;

/// A score as ORDER BY RANK names it.
#[derive(Clone, Debug)]
pub(crate) enum Scoring<'q> {
    /// FULLTEXTSCORE of a text for some terms.
    Text {
        text: &'q ast::Expr,
        terms: Vec<&'q ast::Expr>,
    },
    /// VECTORDISTANCE with its arguments.
    Vector(&'q [ast::Expr]),
}

/// The scores and weights behind ORDER BY RANK; `None` if it is followed by something else.
pub(crate) fn scorings(expr: &ast::Expr) -> Option<(Vec<Scoring<'_>>, Option<&ast::Expr>)> {
    if let Some(one) = scoring(expr) {
        return Some((vec![one], None));
    }
    let (function, arguments) = called(expr)?;
    if !matches!(function.run, Implementation::Rank) {
        return None;
    }
    let (last, others) = arguments.split_last()?;
    let (scores, weights) = match scoring(last) {
        Some(_) => (arguments, None),
        None => (others, Some(last)),
    };
    let scores = scores.iter().map(scoring).collect::<Option<Vec<_>>>()?;
    (scores.len() >= 2).then_some((scores, weights))
}

fn scoring(expr: &ast::Expr) -> Option<Scoring<'_>> {
    let (function, arguments) = called(expr)?;
    match (function.run, arguments) {
        (Implementation::Vector(_), [_, _, ..]) if function.names[0] != VECTOR_SCORE => {
            Some(Scoring::Vector(arguments))
        }
        (Implementation::Rank, [text, terms @ ..])
            if function.names[0] == "FULLTEXTSCORE" && !terms.is_empty() =>
        {
            let terms = terms.iter().flat_map(|term| match &term.kind {
                Kind::Array(inner) => inner.as_slice(),
                _ => std::slice::from_ref(term),
            });
            Some(Scoring::Text {
                text,
                terms: terms.collect(),
            })
        }
        _ => None,
    }
}

fn called(expr: &ast::Expr) -> Option<(&'static Function, &[ast::Expr])> {
    match &expr.kind {
        Kind::Call {
            name,
            udf: false,
            arguments,
        } => Some((functions::find(name)?, arguments)),
        _ => None,
    }
}

/// The name of a function as messages and plans have it.
pub(crate) fn display_name(function: &Function) -> &'static str {
    match function.names[0] {
        "FULLTEXTSCORE" => "FullTextScore",
        "VECTORDISTANCE" => "VectorDistance",
        name => name,
    }
}

/// The call that computes a score, as plans for clients print it. `statistics` follow the terms of a text.
pub(crate) fn score_call(scoring: &Scoring<'_>, statistics: Vec<ast::Expr>) -> ast::Expr {
    let made = |kind| ast::Expr { kind, span: (0, 0) };
    let (name, arguments) = match scoring {
        Scoring::Vector(arguments) => ("_VectorScore", arguments.to_vec()),
        Scoring::Text { text, terms } => {
            let terms = made(Kind::Array(terms.iter().map(|t| (*t).clone()).collect()));
            (
                "_FullTextScore",
                [vec![(*text).clone(), terms], statistics].concat(),
            )
        }
    };
    made(Kind::Call {
        name: name.to_owned(),
        udf: false,
        arguments,
    })
}

impl Binder<'_> {
    /// A vector function with its arguments complete, and the distance that it measures.
    pub(super) fn vector(
        &mut self,
        function: &'static Function,
        arguments: &[ast::Expr],
        span: ast::Span,
    ) -> Result<(Expr, DistanceFunction), QueryError> {
        let (left, right) = (
            self.expression(&arguments[0])?,
            self.expression(&arguments[1])?,
        );
        let policy = [&left, &right]
            .into_iter()
            .find_map(|side| self.vector_path(side))
            .cloned();
        if let Some(brute_force) = arguments.get(2) {
            let brute_force = self.expression(brute_force)?;
            if !matches!(brute_force, Expr::Constant(Some(Json::Bool(_)))) {
                return Err(QueryError::Plan(
                    "The third argument of VectorDistance must be true or false.".into(),
                ));
            }
        }
        let options = match arguments.get(3) {
            None => None,
            Some(options) => match self.expression(options)? {
                Expr::Constant(Some(options @ Json::Object(_))) => Some(options),
                _ => {
                    return Err(QueryError::Plan(
                        "The options of VectorDistance must be a literal object.".into(),
                    ));
                }
            },
        };
        let options = options.as_ref().and_then(Json::as_object);
        self.check_options(options, span)?;
        let choose = |name: &str, by_policy: Option<String>, default: &str| {
            let chosen = options
                .and_then(|o| o.get(name))
                .and_then(Json::as_str)
                .map(str::to_lowercase);
            chosen.or(by_policy).unwrap_or_else(|| default.to_owned())
        };
        let (by_policy, held) = policy.map(|p| (p.distance_function, p.data_type)).unzip();
        let distance = choose(
            "distanceFunction",
            by_policy,
            DistanceFunction::Cosine.name(),
        );
        let distance = DistanceFunction::parse(&distance).unwrap_or(DistanceFunction::Cosine);
        let data_type = choose("dataType", held, DATA_TYPES[0]);
        let constant = |text: &str| Expr::Constant(Some(Json::from(text)));
        let arguments = Box::new([left, right, constant(distance.name()), constant(&data_type)]);
        Ok((
            Expr::Call {
                function,
                arguments,
            },
            distance,
        ))
    }

    fn vector_path(&self, side: &Expr) -> Option<&VectorPath> {
        let path = self.exact_path(side)?;
        self.environment
            .vector_paths
            .iter()
            .find(|vector| vector.path == path)
    }

    fn exact_path(&self, expr: &Expr) -> Option<Path> {
        match self.mapping(expr) {
            Mapping::Path(rooted) => rooted.exact_path(),
            _ => None,
        }
    }

    /// The options that only steer a search of the index are checked, too: an exact evaluation needs none of them.
    fn check_options(
        &mut self,
        options: Option<&orrery_model::Object>,
        span: ast::Span,
    ) -> Result<(), QueryError> {
        for (name, value) in options.into_iter().flat_map(orrery_model::Object::iter) {
            let text = value.as_str();
            let number = value.as_f64();
            let fits = match name {
                "distanceFunction" => text.is_some_and(|t| DistanceFunction::parse(t).is_some()),
                "dataType" => {
                    text.is_some_and(|t| DATA_TYPES.iter().any(|d| d.eq_ignore_ascii_case(t)))
                }
                "searchListSizeMultiplier" | "quantizedVectorListMultiplier" => {
                    if !value.as_i64().is_some_and(|n| (1..=100).contains(&n)) {
                        let message = format!(
                            "The '{name}' value {value} specified in the VectorDistance function is outside the \
                             supported range. The value must be between 1 and 100."
                        );
                        self.report("SC2213", message, span);
                    }
                    true
                }
                "filterPriority" => number.is_some_and(|n| (0.0..=1.0).contains(&n)),
                _ => {
                    return Err(QueryError::Plan(format!(
                        "The VectorDistance function has no option '{name}'."
                    )));
                }
            };
            if !fits {
                let message = format!(
                    "The '{name}' value {value} specified in the VectorDistance function is invalid."
                );
                return Err(QueryError::Plan(message));
            }
        }
        Ok(())
    }

    /// A full-text function with the language of its text in front.
    pub(super) fn full_text(
        &mut self,
        function: &'static Function,
        arguments: &[ast::Expr],
    ) -> BoundExpr {
        let mut bound = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments {
            bound.push(self.expression(argument)?);
        }
        let language = self.language(&bound[0]);
        bound.insert(0, Expr::Constant(Some(Json::from(language))));
        Ok(Expr::Call {
            function,
            arguments: bound.into(),
        })
    }

    fn language(&self, text: &Expr) -> String {
        let path = self.exact_path(text);
        let named = self
            .environment
            .full_text_paths
            .iter()
            .find(|(p, _)| Some(p) == path.as_ref())
            .map(|(_, l)| l);
        named
            .or(self.environment.default_language.as_ref())
            .map_or(DEFAULT_LANGUAGE, |l| l)
            .to_owned()
    }

    /// ORDER BY by a function that says how near or fitting an item is: the best come first.
    pub(super) fn order_by_score(
        &mut self,
        item: &ast::OrderItem,
    ) -> Result<Option<BoundOrder>, QueryError> {
        let Some((function, arguments)) = called(&item.expr) else {
            return Ok(None);
        };
        let (expr, distance, written) = match function.run {
            Implementation::Vector(_) => {
                let score = functions::find(VECTOR_SCORE).unwrap_or(function);
                let (expr, distance) = self.vector(score, arguments, item.expr.span)?;
                (expr, Some(distance), function.names[0] != VECTOR_SCORE)
            }
            Implementation::FullText(_) if function.names[0] == FULL_TEXT_SCORE => {
                (self.expression(&item.expr)?, None, false)
            }
            _ => return Ok(None),
        };
        if written && item.descending.is_some() {
            let message = "Specifying a sorting order (ASC or DESC) with VectorDistance function is not supported.";
            self.report("SC2210", message.into(), item.expr.span);
        }
        let descending = item.descending != Some(false);
        // Undefined scores come last, whichever way.
        let last = Expr::Constant(Some(Json::from(FAR)));
        let expr = if descending {
            expr
        } else {
            Expr::Coalesce(Box::new([expr, last]))
        };
        Ok(Some(BoundOrder {
            expr,
            key: OrderKey {
                path: None,
                descending,
            },
            distance,
        }))
    }

    pub(super) fn order_by_rank(
        &mut self,
        query: &ast::Query,
        order: &ast::OrderBy,
    ) -> Result<(), QueryError> {
        if query.from.len() > 1 {
            self.report(
                "SC2224",
                "The ORDER BY RANK clause is not supported with JOIN.".into(),
                order.span,
            );
        }
        if matches!(
            query.from.first(),
            Some(ast::Source {
                collection: Collection::Subquery(_),
                ..
            })
        ) {
            let message =
                "The ORDER BY RANK clause is not supported with a subquery in the FROM clause.";
            self.report("SC2225", message.into(), order.span);
        }
        let [item] = order.keys.as_slice() else {
            self.report("SC2221", NOT_A_SCORE.into(), order.span);
            return Ok(());
        };
        if item.descending.is_some() {
            let message =
                "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is not allowed.";
            return Err(QueryError::Plan(message.into()));
        }
        if !query.group_by.is_empty() || super::has_aggregate(&query.projection) {
            return Err(QueryError::Plan(
                "'ORDER BY RANK' is not supported with groups and aggregates.".into(),
            ));
        }
        let Some((scores, weights)) = scorings(&item.expr) else {
            self.report("SC2221", NOT_A_SCORE.into(), item.expr.span);
            return Ok(());
        };
        let weights = self.weights(weights, scores.len())?;
        let mut texts = 0;
        let mut components = Vec::with_capacity(scores.len());
        for (score, weight) in scores.iter().zip(weights) {
            let reversed = weight < 0.0;
            let (score, text) = match score {
                Scoring::Vector(arguments) => {
                    let Some(function) = functions::find(VECTOR_SCORE) else {
                        continue;
                    };
                    (self.vector(function, arguments, item.expr.span)?.0, None)
                }
                Scoring::Text { text, terms } => {
                    texts += 1;
                    (self.text_score(text, terms)?, Some(texts - 1))
                }
            };
            let missing = if reversed {
                FAR
            } else if text.is_some() {
                NO_FIT
            } else {
                -FAR
            };
            components.push(Component {
                score,
                is_reversed: reversed,
                weight: weight.abs(),
                score_if_undefined: missing,
                text_index: text,
            });
        }
        self.ranking = Some(Ranking { components });
        Ok(())
    }

    /// The call for a text, still without the statistics of the container.
    fn text_score(&mut self, text: &ast::Expr, terms: &[&ast::Expr]) -> BoundExpr {
        let text = self.expression(text)?;
        let language = self.language(&text);
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
                        "The FullTextScore function takes strings or {{term, distance}} as terms, not {written}."
                    );
                    return Err(QueryError::Plan(message));
                }
            }
        }
        let Some(function) = functions::find(FULL_TEXT_SCORE) else {
            return Ok(Expr::Constant(None));
        };
        let constant = |value: Json| Expr::Constant(Some(value));
        let arguments = Box::new([
            constant(Json::from(language)),
            text,
            constant(Json::Array(values)),
        ]);
        Ok(Expr::Call {
            function,
            arguments,
        })
    }

    /// The weights of RRF, 1 for each score if there are none.
    fn weights(
        &mut self,
        weights: Option<&ast::Expr>,
        scores: usize,
    ) -> Result<Vec<f64>, QueryError> {
        let Some(weights) = weights else {
            return Ok(vec![1.0; scores]);
        };
        let value = self.expression(weights)?;
        let numbers = match &value {
            Expr::Constant(Some(Json::Array(list))) => {
                list.iter().map(Json::as_f64).collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        match numbers {
            Some(numbers) if numbers.len() == scores => Ok(numbers),
            _ => {
                self.report("SC2229", WEIGHTS.into(), weights.span);
                Ok(vec![1.0; scores])
            }
        }
    }
}
