//! Binding of vector and full-text functions, and of ORDER BY with such a function as its key.
//!
//! A call in a query omits what the container's policies define: the distance function and data
//! type of a vector path, the language of a text path. A bound call has all of it as arguments.

use super::{Binder, BoundExpr, BoundOrder};
use crate::bound::Expr;
use crate::condition::OrderKey;
use crate::error::QueryError;
use crate::full_text::DEFAULT_LANGUAGE;
use crate::functions::vector::VECTOR_SCORE;
use crate::functions::{self, Function, Implementation};
use crate::indexed_score::{FULL_TEXT_SCORE, IndexedScore};
use crate::seams::VectorPath;
use crate::search_effort::SearchEffort;
use crate::syntax::ast::{self, Kind};
use crate::vectors::{DataType, DistanceFunction};
use orrery_model::Object;
use orrery_model::json::Json;

const INVALID_EXACT: &str = "The third argument provided in the VectorDistance function is \
                             invalid. This value must be a boolean value set to either \"true\" \
                             to execute an exact search or \"false\" to execute an efficient \
                             search leveraging the index.";

/// The largest score, as the service writes it. Replaces an undefined score where low scores are
/// best; its negative does so where high scores are best.
pub(super) const MAX_SCORE: f64 = 1.797_69e308;

/// Returns the built-in function that an expression calls, and the arguments.
pub(super) fn built_in_call(expr: &ast::Expr) -> Option<(&'static Function, &[ast::Expr])> {
    match &expr.kind {
        Kind::Call {
            name,
            udf: false,
            arguments,
        } => Some((functions::find(name)?, arguments)),
        _ => None,
    }
}

impl Binder<'_> {
    /// Binds a vector function with the arguments (vector, vector[, brute force[, options]]).
    /// Returns the call and its distance function; after an invalid argument, any other ones.
    pub(super) fn vector(
        &mut self,
        function: &'static Function,
        arguments: &[ast::Expr],
    ) -> Result<(Expr, DistanceFunction), QueryError> {
        let left = self.expression(&arguments[0])?;
        let right = self.expression(&arguments[1])?;
        // The first operand with a vector policy decides what the options leave open.
        let policy = self
            .vector_path(&left)
            .or_else(|| self.vector_path(&right))
            .cloned();
        let mut is_exact = false;
        if let Some(brute_force) = arguments.get(2) {
            let brute_force_span = brute_force.span;
            let Expr::Constant(Some(Json::Bool(value))) = self.expression(brute_force)? else {
                self.report("SC2212", INVALID_EXACT.into(), brute_force_span);
                return Ok((Expr::Constant(None), DistanceFunction::Cosine));
            };
            is_exact = value;
        }
        let options = match arguments.get(3) {
            None => None,
            Some(options) => self.vector_options(options)?,
        };
        let options = options.as_ref().and_then(Json::as_object);
        // An option takes precedence over the policy, and the policy over the default.
        let option = |name: &str| {
            let value = options?.get(name)?;
            value.as_str().map(str::to_lowercase)
        };
        let (policy_distance, policy_type) = match policy {
            Some(policy) => (Some(policy.distance_function), Some(policy.data_type)),
            None => (None, None),
        };
        let distance = option("distanceFunction").or(policy_distance);
        let distance = distance
            .and_then(|name| DistanceFunction::parse(&name))
            .unwrap_or(DistanceFunction::Cosine);
        let data_type = option("dataType").or(policy_type);
        let data_type = data_type.and_then(|name| DataType::parse(&name));
        let data_type = data_type.unwrap_or(DataType::Float32);
        let effort = SearchEffort::of(is_exact, options);
        let call = Expr::Call {
            function,
            arguments: Box::new([
                left,
                right,
                text_constant(distance.name()),
                text_constant(data_type.name()),
                Expr::Constant(Some(effort.to_json())),
            ]),
        };
        Ok((call, distance))
    }

    /// Returns the vector policy of the path that an expression stands for.
    fn vector_path(&self, expr: &Expr) -> Option<&VectorPath> {
        let path = self.exact_path(expr)?;
        self.environment
            .vector_paths
            .iter()
            .find(|vector| vector.path == path)
    }

    /// Binds the options of VectorDistance. Reports the first invalid one and returns `None`.
    fn vector_options(&mut self, options: &ast::Expr) -> Result<Option<Json>, QueryError> {
        let bound = match self.expression(options)? {
            Expr::Constant(Some(bound @ Json::Object(_))) => bound,
            _ => {
                let message = "Options argument of VectorDistance function must be an object \
                               literal expression.";
                self.report("SC2210", message.into(), options.span);
                return Ok(None);
            }
        };
        let members = bound.as_object().into_iter().flat_map(Object::iter);
        let invalid = members
            .filter_map(|(name, value)| invalid_vector_option(name, value))
            .next();
        if let Some((code, message)) = invalid {
            self.report(code, message, options.span);
            return Ok(None);
        }
        Ok(Some(bound))
    }

    /// Binds a full-text function. The language of the text becomes the first argument.
    pub(super) fn full_text(
        &mut self,
        function: &'static Function,
        arguments: &[ast::Expr],
    ) -> BoundExpr {
        let mut bound = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments {
            bound.push(self.expression(argument)?);
        }
        let language = self.language_of(&bound[0]);
        bound.insert(0, text_constant(&language));
        Ok(Expr::Call {
            function,
            arguments: bound.into(),
        })
    }

    /// Returns the language of the text that an expression stands for.
    pub(super) fn language_of(&self, text: &Expr) -> String {
        let path = self.exact_path(text);
        let policies = &self.environment.full_text_paths;
        let language = match policies.iter().find(|(p, _)| Some(p) == path.as_ref()) {
            Some((_, language)) => Some(language),
            None => self.environment.default_language.as_ref(),
        };
        language.map_or(DEFAULT_LANGUAGE, String::as_str).to_owned()
    }

    /// Binds an ORDER BY key that is a score: VectorDistance, or one of the internal score
    /// functions of client plans. The best score comes first unless the query says ASC. Returns
    /// `None` for any other key. `clause` is the span of ORDER BY, which ends with the key.
    pub(super) fn order_by_score(
        &mut self,
        item: &ast::OrderItem,
        clause: ast::Span,
    ) -> Result<Option<BoundOrder>, QueryError> {
        let Some((function, arguments)) = built_in_call(&item.expr) else {
            return Ok(None);
        };
        // A call with a wrong number of arguments is bound like any other expression, and that
        // reports the error.
        let (fewest, most) = function.arity;
        if !(fewest..=most).contains(&arguments.len()) {
            return Ok(None);
        }
        let (score, distance) = match function.run {
            Implementation::Vector(_) => {
                // Rows are sorted by the score of the vectors, which is larger for nearer ones.
                let score = functions::find(VECTOR_SCORE).unwrap_or(function);
                let (call, distance) = self.vector(score, arguments)?;
                let is_vector_distance = function.names[0] != VECTOR_SCORE;
                if is_vector_distance && item.descending.is_some() {
                    let message = "Specifying a sorting order (ASC or DESC) with VectorDistance \
                                   function is not supported. VectorDistance will always sort in \
                                   the order of most similar (first) to least similar (last).";
                    let (start, _) = item.expr.span;
                    self.report("SC2210", message.into(), (start, clause.1));
                }
                (call, Some(distance))
            }
            Implementation::FullText(_) if function.names[0] == FULL_TEXT_SCORE => {
                (self.expression(&item.expr)?, None)
            }
            _ => return Ok(None),
        };
        // Undefined sorts below all numbers, which is last if descending. If ascending it is
        // replaced by the largest score, to be last as well.
        let descending = item.descending != Some(false);
        let indexed = match descending {
            true => IndexedScore::of(&score, |expr| self.exact_path(expr)),
            false => None,
        };
        let expr = if descending {
            score
        } else {
            let last = Expr::Constant(Some(Json::from(MAX_SCORE)));
            Expr::Coalesce(Box::new([score, last]))
        };
        Ok(Some(BoundOrder {
            expr,
            key: OrderKey {
                path: None,
                computed: None,
                descending,
            },
            distance,
            score: indexed,
        }))
    }
}

/// Returns the code and the message of the error for an invalid option of VectorDistance. Options
/// of an approximate search are checked and have no effect, since searches are exact.
fn invalid_vector_option(name: &str, value: &Json) -> Option<(&'static str, String)> {
    let is_known_text = |text: &str| match name {
        "distanceFunction" => DistanceFunction::parse(text).is_some(),
        _ => DataType::parse(text).is_some(),
    };
    match name {
        "distanceFunction" | "dataType" => match value.as_str() {
            Some(text) if is_known_text(text) => None,
            Some(text) => Some((
                "SC2210",
                format!(
                    "VectorDistance function options argument property value '{text}' is not a \
                     valid value for option '{name}'."
                ),
            )),
            None => Some((
                "SC2210",
                format!(
                    "VectorDistance function options argument property value of option '{name}' \
                     must be a string literal."
                ),
            )),
        },
        "searchListSizeMultiplier" | "quantizedVectorListMultiplier" => {
            let is_in_range = value.as_i64().is_some_and(|n| (1..=100).contains(&n));
            let message = format!(
                "The '{name}' value {value} specified in the VectorDistance function is outside \
                 the supported range. The value must be between 1 and 100."
            );
            (!is_in_range).then_some(("SC2213", message))
        }
        "filterPriority" => {
            let is_in_range = value.as_f64().is_some_and(|n| (0.0..=1.0).contains(&n));
            let message = format!(
                "The '{name}' value specified in the VectorDistance function must be a value \
                 between 0 and 1."
            );
            (!is_in_range).then_some(("SC2215", message))
        }
        _ => Some((
            "SC2210",
            format!(
                "'{name}' is not a valid option name for VectorDistance function options argument."
            ),
        )),
    }
}

pub(super) fn text_constant(text: &str) -> Expr {
    Expr::Constant(Some(Json::from(text)))
}
