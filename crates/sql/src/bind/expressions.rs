//! Expressions: names to frames, calls to functions, constants folded.

use super::projection::{canonical, contains, is_aggregate};
use super::search::display_name;
use super::{Binder, Mapping, Name};
use crate::bound::{Expr, LikePattern, Step};
use crate::error::QueryError;
use crate::functions::like::Pattern;
use crate::functions::{self, ANY, Function, Implementation};
use crate::run::eval::is_comparison;
use crate::run::frame::{Context, Scope};
use crate::seams::{Functions, Work};
use crate::syntax::ast::{self, BinaryOp, Kind, PathStep, Span, SubqueryKind, UnaryOp};
use crate::value::{digest, weight};
use orrery_model::json::Json;
use orrery_model::limits;
use std::collections::HashMap;

/// From this length on an IN list of constants is looked up rather than gone through.
const SET_FROM: usize = 8;

/// Bytes that the constant expressions of a query may make when they are folded; what is larger is computed for every
/// row, within the bounds of rows.
pub(super) const FOLDED_BYTES: usize = 1 << 22;

/// Bytes that parameters may take, put in everywhere they are named.
pub(super) const PARAMETER_BYTES: usize = 1 << 26;

type BoundExpr = Result<Expr, QueryError>;

impl Binder<'_> {
    pub(super) fn expression(&mut self, expr: &ast::Expr) -> BoundExpr {
        if let Some(key) = self.group_key(expr) {
            return Ok(key);
        }
        let bound = match &expr.kind {
            Kind::Undefined | Kind::Verbatim(_) => Expr::Constant(None),
            Kind::FilterPlaceholder => Expr::Constant(Some(Json::Bool(true))),
            Kind::Constant(value) => Expr::Constant(Some(value.clone())),
            Kind::Parameter(name) => match self.parameter(name) {
                Some(value) => {
                    let left = self.parameters_left.checked_sub(weight(value));
                    self.parameters_left = left.ok_or_else(|| {
                        let message = "The query names large parameters so often that they do not fit into its memory.";
                        QueryError::Memory(message.into())
                    })?;
                    Expr::Constant(Some(value.clone()))
                }
                None => {
                    let message = format!("Identifier '{name}' could not be resolved.");
                    self.report("SC2001", message, expr.span);
                    Expr::Constant(None)
                }
            },
            Kind::Identifier(name) => self.identifier(name, expr.span),
            Kind::Path { base, steps } => return self.path_expression(expr, base, steps),
            Kind::Call {
                name,
                udf: true,
                arguments,
            } => return self.udf(name, arguments, expr.span),
            Kind::Call {
                name, arguments, ..
            } => return self.call(name, arguments, expr.span),
            Kind::Unary(op, operand) => Expr::Unary(*op, Box::new(self.expression(operand)?)),
            Kind::Chain { first, rest } => self.chain(first, rest)?,
            Kind::Coalesce(parts) => Expr::Coalesce(self.expressions(parts)?),
            Kind::Conditional(parts) => self.conditional(parts.as_slice())?,
            Kind::Between {
                value,
                bounds,
                negated,
            } => {
                let low = self.compare(BinaryOp::GreaterOrEqual, value, &bounds[0])?;
                let high = self.compare(BinaryOp::LessOrEqual, value, &bounds[1])?;
                not(*negated, Expr::And(Box::new([low, high])))
            }
            Kind::In {
                value,
                list,
                negated,
            } => not(*negated, self.list(value, list)?),
            Kind::Like {
                value,
                pattern,
                escape,
                negated,
            } => {
                let value = Box::new(self.expression(value)?);
                let escape = escape.as_ref().and_then(|e| e.chars().next());
                let pattern = match self.expression(pattern)? {
                    Expr::Constant(Some(Json::String(text))) => {
                        LikePattern::Constant(Pattern::new(&text, escape))
                    }
                    other => LikePattern::Dynamic {
                        pattern: Box::new(other),
                        escape,
                    },
                };
                not(*negated, Expr::Like { value, pattern })
            }
            Kind::Array(elements) => Expr::Array(self.expressions(elements)?),
            Kind::Object(members) => {
                let bound = members
                    .iter()
                    .map(|(name, e)| Ok((name.clone(), self.expression(e)?)));
                Expr::Object(last_of_each_name(bound.collect::<Result<_, QueryError>>()?).into())
            }
            Kind::Subquery(kind, query) => return self.subquery(*kind, query),
            Kind::Let { name, value, body } => {
                let value = self.expression(value)?;
                let mapping = self.mapping(&value);
                self.names.push(Name {
                    name: name.clone(),
                    frame: self.frames.len(),
                });
                self.frames.push(mapping);
                let body = self.expression(body);
                self.frames.pop();
                self.names.pop();
                Expr::Let {
                    value: Box::new(value),
                    body: Box::new(body?),
                }
            }
        };
        Ok(folded(bound, &mut self.folding_left))
    }

    fn expressions(&mut self, list: &[ast::Expr]) -> Result<Box<[Expr]>, QueryError> {
        list.iter().map(|e| self.expression(e)).collect()
    }

    /// In the SELECT list of a grouped query: the key that the expression repeats.
    fn group_key(&self, expr: &ast::Expr) -> Option<Expr> {
        let group = self.groups.last().filter(|g| !g.keys.is_empty())?;
        if matches!(
            expr.kind,
            Kind::Constant(_) | Kind::Parameter(_) | Kind::Undefined
        ) {
            return None;
        }
        let text = canonical(expr);
        let index = group.keys.iter().position(|k| *k == text)?;
        Some(Expr::GroupKey {
            up: self.frames.len() - 1 - group.frame,
            index,
        })
    }

    fn identifier(&mut self, name: &str, span: Span) -> Expr {
        // Names of a grouped query's own sources hide outer ones, and may not be used bare.
        let frame = self.resolve(name);
        let grouped = self
            .groups
            .iter()
            .rev()
            .find(|g| g.own.iter().any(|n| n == name));
        if let Some(group) = grouped
            && frame.is_none_or(|f| f < group.frame)
        {
            let (start, end) = span;
            let reference = self.text.get(start..end).unwrap_or(name).to_owned();
            let message = format!(
                "Property reference '{reference}' is invalid in the select list because it is not contained in \
                     either an aggregate function or the GROUP BY clause."
            );
            self.report("SC2102", message, span);
            return Expr::Constant(None);
        }
        match (frame, name) {
            (Some(frame), _) => Expr::Slot(self.frames.len() - 1 - frame),
            (None, "NaN") => Expr::Constant(Some(Json::from(f64::NAN))),
            (None, "Infinity") => Expr::Constant(Some(Json::from(f64::INFINITY))),
            (None, _) => {
                let message = format!("Identifier '{name}' could not be resolved.");
                self.report("SC2001", message, span);
                Expr::Constant(None)
            }
        }
    }

    fn path_expression(
        &mut self,
        whole: &ast::Expr,
        base: &ast::Expr,
        steps: &[PathStep],
    ) -> BoundExpr {
        let constructed = matches!(
            base.kind,
            Kind::Array(_) | Kind::Object(_) | Kind::Call { .. } | Kind::Subquery(..)
        );
        let Kind::Identifier(name) = &base.kind else {
            let base = self.expression(base)?;
            let path = self.path(base, steps, constructed, whole.span)?;
            return Ok(folded(path, &mut self.folding_left));
        };
        // Where a name is wrong it is the name that is told; where it is out of place, the whole reference.
        let grouped = self.groups.iter().any(|g| g.own.contains(name));
        let bound = self.identifier(name, if grouped { whole.span } else { base.span });
        if let (Expr::Slot(up), Some(first)) = (&bound, steps.first()) {
            let frame = self.frames.len() - 1 - up;
            if let Some(computed) = self.computed(frame, first)? {
                return self.path(computed, &steps[1..], false, whole.span);
            }
        }
        let path = self.path(bound, steps, false, whole.span)?;
        Ok(folded(path, &mut self.folding_left))
    }

    /// Steps into a bound base. Where the base is a constructed value every index must be constant.
    pub(super) fn path(
        &mut self,
        base: Expr,
        steps: &[PathStep],
        constructed: bool,
        span: Span,
    ) -> BoundExpr {
        let mut bound = Vec::with_capacity(steps.len());
        for step in steps {
            bound.push(match step {
                PathStep::Dot(name) => Step::Name(name.clone()),
                PathStep::Bracket(e) => match self.expression(e)? {
                    Expr::Constant(Some(Json::String(name))) => Step::Name(name),
                    Expr::Constant(Some(Json::Number(n))) => {
                        let index = n.as_i64().and_then(|i| usize::try_from(i).ok());
                        index.map_or(Step::Nothing, Step::Index)
                    }
                    Expr::Constant(_) => Step::Nothing,
                    _ if constructed => {
                        let message = "The specified query includes 'member indexer' which is currently not supported.";
                        self.report("SC2990", message.into(), span);
                        Step::Nothing
                    }
                    other => Step::Dynamic(other),
                },
            });
        }
        if bound.is_empty() {
            return Ok(base);
        }
        Ok(Expr::Path {
            base: Box::new(base),
            steps: bound.into(),
        })
    }

    /// The computed property that a step into the item names.
    fn computed(&mut self, frame: usize, step: &PathStep) -> Result<Option<Expr>, QueryError> {
        let Some((_, text)) = self.computed_text(frame, step) else {
            return Ok(None);
        };
        let query = crate::syntax::parse(&text)?;
        let (ast::Projection::Value(expr), [source]) = (&query.projection, query.from.as_slice())
        else {
            return Err(QueryError::Plan(format!(
                "'{text}' is not a computed property."
            )));
        };
        let ast::Collection::Path { root, .. } = &source.collection else {
            return Err(QueryError::Plan(format!(
                "'{text}' is not a computed property."
            )));
        };
        let name = source.alias.clone().unwrap_or_else(|| root.clone());
        let names = std::mem::replace(&mut self.names, vec![Name { name, frame }]);
        self.in_computed = true;
        let bound = self.expression(expr);
        self.in_computed = false;
        self.names = names;
        bound.map(Some)
    }

    fn computed_text(&self, frame: usize, step: &PathStep) -> Option<(String, String)> {
        if self.in_computed || !self.frames.get(frame).is_some_and(Mapping::is_root) {
            return None;
        }
        let name = match step {
            PathStep::Dot(name) => name.as_str(),
            PathStep::Bracket(e) => match &e.kind {
                Kind::Constant(value) => value.as_str()?,
                Kind::Parameter(name) => self.parameter(name)?.as_str()?,
                _ => return None,
            },
        };
        self.environment
            .computed_properties
            .iter()
            .find(|(n, _)| n == name)
            .cloned()
    }

    /// Whether an expression is a computed property, for ORDER BY.
    pub(super) fn is_computed(&self, expr: &ast::Expr) -> bool {
        let Kind::Path { base, steps } = &expr.kind else {
            return false;
        };
        let Kind::Identifier(name) = &base.kind else {
            return false;
        };
        match (self.resolve(name), steps.as_slice()) {
            (Some(frame), [step]) => self.computed_text(frame, step).is_some(),
            _ => false,
        }
    }

    fn chain(&mut self, first: &ast::Expr, rest: &[(BinaryOp, ast::Expr)]) -> BoundExpr {
        if let [(op, right)] = rest
            && is_comparison(*op)
        {
            return self.compare(*op, first, right);
        }
        let mut parts = vec![self.expression(first)?];
        for (_, operand) in rest {
            parts.push(self.expression(operand)?);
        }
        match rest[0].0 {
            BinaryOp::And => Ok(Expr::And(parts.into())),
            BinaryOp::Or => Ok(Expr::Or(parts.into())),
            _ => {
                let mut parts = parts.into_iter();
                let first = Box::new(parts.next().unwrap_or(Expr::Constant(None)));
                Ok(Expr::Chain {
                    first,
                    rest: rest.iter().map(|(op, _)| *op).zip(parts).collect(),
                })
            }
        }
    }

    fn compare(&mut self, op: BinaryOp, left: &ast::Expr, right: &ast::Expr) -> BoundExpr {
        Ok(Expr::Compare(
            op,
            Box::new([self.expression(left)?, self.expression(right)?]),
        ))
    }

    fn conditional(&mut self, parts: &[ast::Expr]) -> BoundExpr {
        let [condition, yes, no] = parts else {
            return Ok(Expr::Constant(None));
        };
        Ok(Expr::Conditional(Box::new([
            self.expression(condition)?,
            self.expression(yes)?,
            self.expression(no)?,
        ])))
    }

    fn list(&mut self, value: &ast::Expr, list: &[ast::Expr]) -> BoundExpr {
        let value = Box::new(self.expression(value)?);
        let list = self.expressions(list)?;
        let defined = |e: &Expr| matches!(e, Expr::Constant(Some(_)));
        if list.len() < SET_FROM || !list.iter().all(defined) {
            return Ok(Expr::In { value, list });
        }
        let values = list
            .into_iter()
            .filter_map(|e| if let Expr::Constant(v) = e { v } else { None });
        let values: Box<[Json]> = values.collect();
        Ok(Expr::InSet {
            value,
            digests: values.iter().map(|v| digest(Some(v))).collect(),
            values,
        })
    }

    fn udf(&mut self, name: &str, arguments: &[ast::Expr], span: Span) -> BoundExpr {
        let arguments = self.expressions(arguments)?;
        if !self.environment.user_functions.contains(name) {
            let message = format!("'{name}' is not a recognized user-defined function name.");
            self.report("SC2006", message, span);
        }
        self.udf_calls += 1;
        if self.udf_calls == limits::UDF_CALLS_PER_QUERY + 1 {
            let message = format!(
                "The SQL query exceeded the maximum number of user-defined function calls. The allowed limit is {}.",
                limits::UDF_CALLS_PER_QUERY
            );
            self.report("SC3005", message, span);
        }
        // With more calls than are allowed the query is refused, whoever they call.
        if self.udf_calls <= limits::UDF_CALLS_PER_QUERY && !self.udfs.iter().any(|n| n == name) {
            self.udfs.push(name.to_owned());
        }
        Ok(Expr::Udf {
            name: name.to_owned(),
            arguments,
        })
    }

    fn call(&mut self, name: &str, arguments: &[ast::Expr], span: Span) -> BoundExpr {
        let Some(function) = functions::find(name) else {
            self.report(
                "SC2005",
                format!("'{name}' is not a recognized built-in function name."),
                span,
            );
            return Ok(Expr::Constant(None));
        };
        if let Implementation::Refused(family) = function.run {
            return Err(QueryError::Unsupported(format!(
                "The function {name} is not supported: no {family} yet."
            )));
        }
        let (fewest, most) = function.arity;
        if arguments.len() < fewest || arguments.len() > most {
            self.report("SC2050", wrong_arity(function), span);
            return Ok(Expr::Constant(None));
        }
        match function.run {
            Implementation::Aggregate(kind) => self.aggregate(kind, &arguments[0], span),
            Implementation::Conditional => {
                let conditional = self.conditional(arguments)?;
                Ok(folded(conditional, &mut self.folding_left))
            }
            Implementation::Choose => Ok(Expr::Choose(self.expressions(arguments)?)),
            Implementation::Vector(_) => {
                let (call, _) = self.vector(function, arguments, span)?;
                Ok(folded(call, &mut self.folding_left))
            }
            Implementation::FullText(_) => self.full_text(function, arguments),
            Implementation::Rank => {
                let name = display_name(function);
                let message =
                    format!("The {name} function is only allowed in the ORDER BY RANK clause.");
                self.report("SC2240", message, span);
                Ok(Expr::Constant(None))
            }
            _ => {
                let arguments = self.expressions(arguments)?;
                Ok(folded(
                    Expr::Call {
                        function,
                        arguments,
                    },
                    &mut self.folding_left,
                ))
            }
        }
    }

    fn aggregate(
        &mut self,
        kind: functions::AggregateKind,
        argument: &ast::Expr,
        span: Span,
    ) -> BoundExpr {
        let nested = |e: &ast::Expr| is_aggregate(e) || matches!(e.kind, Kind::Subquery(..));
        let misplaced = self.groups.last().is_none_or(|g| g.level != self.level);
        if misplaced || contains(argument, &nested) {
            let message = if misplaced {
                "Cannot perform an aggregate function outside of the SELECT list."
            } else {
                "Cannot perform an aggregate function on an expression containing an aggregate or a subquery."
            };
            self.report("SC2101", message.into(), span);
            return Ok(Expr::Constant(None));
        }
        let Some(mut group) = self.groups.pop() else {
            return Ok(Expr::Constant(None));
        };
        std::mem::swap(&mut self.names, &mut group.names);
        std::mem::swap(&mut self.frames, &mut group.frames);
        let argument = self.expression(argument);
        std::mem::swap(&mut self.names, &mut group.names);
        std::mem::swap(&mut self.frames, &mut group.frames);
        let argument = match argument {
            // An item is always there: to count items is to count rows.
            Ok(Expr::Slot(up))
                if kind == functions::AggregateKind::Count && group.frames.len() == up + 1 =>
            {
                Ok(Expr::Constant(Some(Json::Bool(true))))
            }
            other => other,
        };
        let up = self.frames.len() - 1 - group.frame;
        group.aggregates.push((kind, argument?));
        let index = group.aggregates.len() - 1;
        self.groups.push(group);
        Ok(Expr::Aggregate { up, index })
    }

    fn subquery(&mut self, kind: SubqueryKind, query: &ast::Query) -> BoundExpr {
        let block = self.query(query)?;
        if kind == SubqueryKind::Scalar && block.can_return_many_rows() {
            let message =
                "The cardinality of a scalar subquery result set cannot be greater than one.";
            return Err(QueryError::Plan(message.into()));
        }
        Ok(Expr::Subquery(kind, Box::new(block)))
    }
}

/// Of several members with one name the last counts, in the place of the first.
pub(super) fn last_of_each_name(members: Vec<(String, Expr)>) -> Vec<(String, Expr)> {
    let mut places: HashMap<String, usize> = HashMap::with_capacity(members.len());
    let mut kept: Vec<(String, Expr)> = Vec::with_capacity(members.len());
    for (name, member) in members {
        match places.get(&name) {
            Some(&at) => kept[at].1 = member,
            None => {
                places.insert(name.clone(), kept.len());
                kept.push((name, member));
            }
        }
    }
    kept
}

fn not(negated: bool, expr: Expr) -> Expr {
    if negated {
        Expr::Unary(UnaryOp::Not, Box::new(expr))
    } else {
        expr
    }
}

fn wrong_arity(function: &Function) -> String {
    let (name, (fewest, most)) = (function.names[0], function.arity);
    match most {
        ANY => format!("The {name} function requires at least {fewest} argument(s)."),
        _ if fewest == most => format!("The {name} function requires {fewest} argument(s)."),
        _ => format!("The {name} function requires {fewest} to {most} argument(s)."),
    }
}

/// The constant that an expression of constants is. Takes the bytes it makes off those that are `left`.
fn folded(expr: Expr, left: &mut usize) -> Expr {
    if *left == 0 {
        return expr;
    }
    let constant = |list: &[Expr]| list.iter().all(Expr::is_constant);
    let foldable = match &expr {
        Expr::Path { base, steps } => {
            base.is_constant() && !steps.iter().any(|s| matches!(s, Step::Dynamic(_)))
        }
        Expr::Call {
            function,
            arguments,
        } => {
            matches!(
                function.run,
                Implementation::Strict(_)
                    | Implementation::NonStrict(_)
                    | Implementation::Vector(_)
            ) && constant(arguments)
        }
        Expr::Unary(_, operand) => operand.is_constant(),
        Expr::And(list) | Expr::Or(list) | Expr::Coalesce(list) | Expr::Array(list) => {
            constant(list)
        }
        Expr::Compare(_, both) => constant(both.as_slice()),
        Expr::Conditional(parts) => constant(parts.as_slice()),
        Expr::Chain { first, rest } => {
            first.is_constant() && rest.iter().all(|(_, e)| e.is_constant())
        }
        Expr::In { value, list } => value.is_constant() && constant(list),
        Expr::Object(members) => members.iter().all(|(_, e)| e.is_constant()),
        _ => false,
    };
    if !foldable {
        return expr;
    }
    let mut work = Work::default();
    let (mut functions, mut never) = (NoFunctions, || false);
    let mut context = Context::new(&mut functions, &mut work, &mut never, *left);
    let scope = Scope::root(None);
    let value = expr
        .eval(&mut context, &scope)
        .map(|v| v.map(std::borrow::Cow::into_owned));
    match value {
        Ok(value) if value.as_ref().map_or(0, weight) <= *left => {
            // Scalars are smaller than the expressions that they replace.
            if matches!(
                value,
                Some(Json::String(_) | Json::Array(_) | Json::Object(_))
            ) {
                *left -= value.as_ref().map_or(0, weight);
            }
            Expr::Constant(value)
        }
        // What is too large now stays too large.
        _ => {
            *left = 0;
            expr
        }
    }
}

/// Constants call no user-defined function.
struct NoFunctions;

impl Functions for NoFunctions {
    fn call(&mut self, name: &str, _: &[Option<Json>]) -> Result<Option<Json>, QueryError> {
        Err(QueryError::Udf {
            number: None,
            message: format!("udf.{name} is not available here"),
        })
    }
}
