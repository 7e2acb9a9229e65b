//! Binding of expressions: names become frames, calls become functions, constant expressions are
//! folded.

use super::folding::folded;
use super::projection::{canonical_text, contains, is_aggregate};
use super::rank::FULL_TEXT_RANK;
use super::{Binder, BoundExpr, GroupedClause, Mapping, Name, diagnostic};
use crate::bound::{Expr, LikePattern, Step, UdfCall};
use crate::error::{Diagnostic, QueryError};
use crate::functions::like::Pattern;
use crate::functions::{self, ANY, AggregateKind, Function, Implementation};
use crate::hints;
use crate::syntax::ast::{self, BinaryOp, Kind, PathStep, Span, SubqueryKind, UnaryOp};
use crate::syntax::build;
use crate::value::{digest, weight};
use orrery_model::json::Json;
use orrery_model::limits;
use std::collections::HashSet;

/// The length from which an IN list of constants is evaluated by digest instead of one by one.
const IN_SET_MIN_LENGTH: usize = 8;

/// The maximum memory, in bytes, of all folded constants of a query.
pub(super) const MAX_FOLDED_BYTES: usize = 1 << 22;

/// The maximum memory, in bytes, of the parameter values in a query. Every use of a parameter
/// counts, because each use copies the value.
pub(super) const MAX_PARAMETER_BYTES: usize = 1 << 26;

/// The expression that stands for one with a reported error, so that binding can go on.
const UNDEFINED: Expr = Expr::Constant(None);

impl<'a> Binder<'a> {
    /// Binds an expression.
    pub(super) fn expression(&mut self, expr: &ast::Expr) -> BoundExpr {
        if let Some(key) = self.group_key(expr) {
            return Ok(key);
        }
        let bound = match &expr.kind {
            // Arms that return fold their results themselves, or cannot be folded.
            Kind::Path { base, steps } => return self.path_expression(expr, base, steps),
            Kind::Call {
                name,
                udf: true,
                arguments,
            } => return self.udf(name, arguments, expr.span),
            Kind::Call {
                name, arguments, ..
            } => return self.call(name, arguments, expr.span),
            Kind::Subquery(kind, query) => return self.subquery(*kind, query),

            Kind::Undefined | Kind::Verbatim(_) => UNDEFINED,
            Kind::FilterPlaceholder => Expr::Constant(Some(Json::Bool(true))),
            Kind::Constant(value) => Expr::Constant(Some(value.clone())),
            Kind::Parameter(name) => self.parameter_value(name, expr.span)?,
            Kind::Identifier(name) => self.identifier(name, expr.span),
            Kind::Unary(op, operand) => Expr::Unary(*op, Box::new(self.expression(operand)?)),
            Kind::Chain { first, rest } => self.chain(first, rest)?,
            Kind::Coalesce(parts) => Expr::Coalesce(self.expressions(parts)?),
            Kind::Conditional(parts) => self.conditional(parts.as_slice())?,
            // `a BETWEEN b AND c` is `a >= b AND a <= c`.
            Kind::Between {
                value,
                bounds,
                negated,
            } => {
                let low = self.compare(BinaryOp::GreaterOrEqual, value, &bounds[0])?;
                let high = self.compare(BinaryOp::LessOrEqual, value, &bounds[1])?;
                negate_if(*negated, Expr::And(Box::new([low, high])))
            }
            Kind::In {
                value,
                list,
                negated,
            } => negate_if(*negated, self.in_list(value, list)?),
            Kind::Like {
                value,
                pattern,
                escape,
                negated,
            } => negate_if(*negated, self.like(value, pattern, escape.as_deref())?),
            Kind::Array(elements) => Expr::Array(self.expressions(elements)?),
            Kind::Object(members) => {
                let mut seen = HashSet::with_capacity(members.len());
                let mut bound = Vec::with_capacity(members.len());
                for member in members {
                    self.check_member_name(&member.name, member.name_span, &mut seen);
                    bound.push((member.name.clone(), self.expression(&member.value)?));
                }
                Expr::Object(bound.into())
            }
            Kind::Let { name, value, body } => self.let_expression(name, value, body)?,
        };
        Ok(folded(bound, &mut self.folding_bytes_left))
    }

    fn expressions(&mut self, list: &[ast::Expr]) -> Result<Box<[Expr]>, QueryError> {
        list.iter().map(|e| self.expression(e)).collect()
    }

    /// Returns the GROUP BY key that an expression repeats, inside SELECT or ORDER BY of a grouped
    /// query.
    fn group_key(&self, expr: &ast::Expr) -> Option<Expr> {
        let group = self.groups.last().filter(|g| !g.keys.is_empty())?;
        // ORDER BY takes only paths.
        let is_path = matches!(expr.kind, Kind::Identifier(_) | Kind::Path { .. });
        if group.clause == GroupedClause::OrderBy && !is_path {
            return None;
        }
        // Constants are not looked up, although GROUP BY may contain them.
        if matches!(
            expr.kind,
            Kind::Constant(_) | Kind::Parameter(_) | Kind::Undefined
        ) {
            return None;
        }
        let text = canonical_text(expr);
        let index = group.keys.iter().position(|key| *key == text)?;
        Some(Expr::GroupKey {
            up: self.hops_to(group.frame),
            index,
        })
    }

    fn parameter_value(&mut self, name: &str, span: Span) -> BoundExpr {
        let Some(value) = self.parameter(name) else {
            self.report_unresolved(name, span);
            return Ok(UNDEFINED);
        };
        match self.parameter_bytes_left.checked_sub(weight(value)) {
            Some(left) => self.parameter_bytes_left = left,
            None => {
                let message = "The query names large parameters so often that they do not fit into \
                               its memory.";
                return Err(QueryError::Memory(message.into()));
            }
        }
        Ok(Expr::Constant(Some(value.clone())))
    }

    fn identifier(&mut self, name: &str, span: Span) -> Expr {
        let frame = self.resolve(name);
        // In the SELECT list of a grouped query the names of its own sources hide outer names, and
        // may be used only in aggregates.
        let group = self
            .groups
            .iter()
            .rev()
            .find(|g| g.source_names.iter().any(|n| n == name));
        if let Some(group) = group
            && frame.is_none_or(|f| f < group.frame)
        {
            let (start, end) = span;
            let reference = self.text.get(start..end).unwrap_or(name).to_owned();
            let (code, clause) = match group.clause {
                GroupedClause::Select => ("SC2102", "select list"),
                GroupedClause::OrderBy => ("SC2103", "ORDER BY clause"),
            };
            let message = format!(
                "Property reference '{reference}' is invalid in the {clause} because it is not \
                 contained in either an aggregate function or the GROUP BY clause."
            );
            self.report_grouping(code, message, span);
            return UNDEFINED;
        }
        match (frame, name) {
            (Some(frame), _) => Expr::Slot(self.hops_to(frame)),
            (None, "NaN") => Expr::Constant(Some(Json::from(f64::NAN))),
            (None, "Infinity") => Expr::Constant(Some(Json::from(f64::INFINITY))),
            (None, _) => {
                self.report_unresolved(name, span);
                UNDEFINED
            }
        }
    }

    fn report_unresolved(&mut self, name: &str, span: Span) {
        let message = format!("Identifier '{name}' could not be resolved.");
        self.report("SC2001", message, span);
    }

    /// Binds a path. `whole` is the path expression with this base and these steps.
    fn path_expression(
        &mut self,
        whole: &ast::Expr,
        base: &ast::Expr,
        steps: &[PathStep],
    ) -> BoundExpr {
        if let Some((key, rest)) = self.group_key_above(base, steps) {
            return self.path(key, rest, whole.span);
        }
        let Kind::Identifier(name) = &base.kind else {
            let base = self.expression(base)?;
            let path = self.path(base, steps, whole.span)?;
            return Ok(folded(path, &mut self.folding_bytes_left));
        };
        // The error for an unknown name covers the name; the error for the name of a grouped source
        // covers the whole path.
        let is_grouped = self.groups.iter().any(|g| g.source_names.contains(name));
        let error_span = if is_grouped { whole.span } else { base.span };
        let bound = self.identifier(name, error_span);
        // The first step may name a computed property of the item.
        if let (Expr::Slot(up), Some(first)) = (&bound, steps.first()) {
            let frame = self.frames.len() - 1 - up;
            if let Some(computed) = self.computed_property(frame, first)? {
                return self.path(computed, &steps[1..], whole.span);
            }
        }
        let path = self.path(bound, steps, whole.span)?;
        Ok(folded(path, &mut self.folding_bytes_left))
    }

    /// Returns the longest GROUP BY key that a path begins with, and the steps below it.
    fn group_key_above<'s>(
        &self,
        base: &ast::Expr,
        steps: &'s [PathStep],
    ) -> Option<(Expr, &'s [PathStep])> {
        self.groups.last().filter(|g| !g.keys.is_empty())?;
        for count in (0..steps.len()).rev() {
            let (above, below) = steps.split_at(count);
            let key = if above.is_empty() {
                self.group_key(base)
            } else {
                self.group_key(&build::expr(Kind::Path {
                    base: Box::new(base.clone()),
                    steps: above.to_vec(),
                }))
            };
            if let Some(key) = key {
                return Some((key, below));
            }
        }
        None
    }

    /// Binds the steps of a path. Names and indexes in brackets must be constants or parameters.
    pub(super) fn path(&mut self, base: Expr, steps: &[PathStep], span: Span) -> BoundExpr {
        let mut bound = Vec::with_capacity(steps.len());
        for step in steps {
            let bracketed = match step {
                PathStep::Dot(name) => {
                    bound.push(Step::Name(name.clone()));
                    continue;
                }
                PathStep::Bracket(expr) => self.expression(expr)?,
            };
            bound.push(match bracketed {
                Expr::Constant(Some(Json::String(name))) => Step::Name(name),
                Expr::Constant(Some(Json::Number(n))) => {
                    let index = n.as_i64().and_then(|i| usize::try_from(i).ok());
                    index.map_or(Step::Nothing, Step::Index)
                }
                Expr::Constant(_) => Step::Nothing,
                _ => {
                    let message = "The specified query includes 'member indexer' which is \
                                   currently not supported.";
                    self.report("SC2990", message.into(), span);
                    Step::Nothing
                }
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

    /// Binds the computed property that a step names, if `frame` is the item and has such a
    /// property.
    fn computed_property(
        &mut self,
        frame: usize,
        step: &PathStep,
    ) -> Result<Option<Expr>, QueryError> {
        let Some((_, text)) = self.find_computed_property(frame, step) else {
            return Ok(None);
        };
        let query = crate::syntax::parse(text)?;
        let (ast::Projection::Value(expr), [source]) = (&query.projection, query.from.as_slice())
        else {
            return Err(not_a_computed_property(text));
        };
        let ast::Collection::Path { root, .. } = &source.collection else {
            return Err(not_a_computed_property(text));
        };
        // The expression of the property sees the item only, under the name in its own FROM clause.
        let name = source.alias.clone().unwrap_or_else(|| root.clone());
        let outer_names = std::mem::replace(&mut self.names, vec![Name { name, frame }]);
        self.is_in_computed_property = true;
        let bound = self.expression(expr);
        self.is_in_computed_property = false;
        self.names = outer_names;
        bound.map(Some)
    }

    /// Returns the name and the text of the computed property that a step names, if `frame` is the
    /// item and has such a property.
    fn find_computed_property(
        &self,
        frame: usize,
        step: &PathStep,
    ) -> Option<&'a (String, String)> {
        // Computed properties do not refer to each other.
        if self.is_in_computed_property || !self.frames.get(frame).is_some_and(Mapping::is_root) {
            return None;
        }
        let name = match step {
            PathStep::Dot(name) => name.as_str(),
            PathStep::Bracket(expr) => match &expr.kind {
                Kind::Constant(value) => value.as_str()?,
                Kind::Parameter(name) => self.parameter(name)?.as_str()?,
                _ => return None,
            },
        };
        let properties = &self.environment.computed_properties;
        properties.iter().find(|(known, _)| known == name)
    }

    /// Returns the name of the computed property of the item that an expression is, if it is one.
    pub(super) fn computed_property_name(&self, expr: &ast::Expr) -> Option<String> {
        let Kind::Path { base, steps } = &expr.kind else {
            return None;
        };
        let (Kind::Identifier(name), [step]) = (&base.kind, steps.as_slice()) else {
            return None;
        };
        let (name, _) = self.find_computed_property(self.resolve(name)?, step)?;
        Some(name.clone())
    }

    fn chain(&mut self, first: &ast::Expr, rest: &[(BinaryOp, ast::Expr)]) -> BoundExpr {
        if let [(op, right)] = rest
            && op.is_comparison()
        {
            return self.compare(*op, first, right);
        }
        let first = self.expression(first)?;
        let mut operands = Vec::with_capacity(rest.len());
        for (op, operand) in rest {
            operands.push((*op, self.expression(operand)?));
        }
        // AND and OR have a precedence level of their own, so they do not mix with other operators.
        match rest[0].0 {
            BinaryOp::And => Ok(Expr::And(all_operands(first, operands))),
            BinaryOp::Or => Ok(Expr::Or(all_operands(first, operands))),
            _ => Ok(Expr::Chain {
                first: Box::new(first),
                rest: operands.into(),
            }),
        }
    }

    fn compare(&mut self, op: BinaryOp, left: &ast::Expr, right: &ast::Expr) -> BoundExpr {
        let both = [self.expression(left)?, self.expression(right)?];
        Ok(Expr::Compare(op, Box::new(both)))
    }

    fn conditional(&mut self, parts: &[ast::Expr]) -> BoundExpr {
        let [condition, yes, no] = parts else {
            return Ok(UNDEFINED);
        };
        Ok(Expr::Conditional(Box::new([
            self.expression(condition)?,
            self.expression(yes)?,
            self.expression(no)?,
        ])))
    }

    fn in_list(&mut self, value: &ast::Expr, list: &[ast::Expr]) -> BoundExpr {
        let value = Box::new(self.expression(value)?);
        let list = self.expressions(list)?;
        let is_defined_constant = |e: &Expr| matches!(e, Expr::Constant(Some(_)));
        if list.len() < IN_SET_MIN_LENGTH || !list.iter().all(is_defined_constant) {
            return Ok(Expr::In { value, list });
        }
        let mut values = Vec::with_capacity(list.len());
        for element in list {
            if let Expr::Constant(Some(constant)) = element {
                values.push(constant);
            }
        }
        Ok(Expr::InSet {
            value,
            digests: values.iter().map(|v| digest(Some(v))).collect(),
            values: values.into(),
        })
    }

    fn like(&mut self, value: &ast::Expr, pattern: &ast::Expr, escape: Option<&str>) -> BoundExpr {
        let value = Box::new(self.expression(value)?);
        let escape = escape.and_then(|e| e.chars().next());
        let pattern = match self.expression(pattern)? {
            Expr::Constant(Some(Json::String(text))) => {
                LikePattern::Constant(Pattern::new(&text, escape))
            }
            other => LikePattern::Dynamic {
                pattern: Box::new(other),
                escape,
            },
        };
        Ok(Expr::Like { value, pattern })
    }

    fn let_expression(&mut self, name: &str, value: &ast::Expr, body: &ast::Expr) -> BoundExpr {
        let value = self.expression(value)?;
        let mapping = self.mapping(&value);
        // The body sees the value in a frame of its own.
        self.names.push(Name {
            name: name.to_owned(),
            frame: self.frames.len(),
        });
        self.frames.push(mapping);
        let body = self.expression(body);
        self.frames.pop();
        self.names.pop();
        Ok(Expr::Let {
            value: Box::new(value),
            body: Box::new(body?),
        })
    }

    fn udf(&mut self, name: &str, arguments: &[ast::Expr], span: Span) -> BoundExpr {
        let arguments = self.expressions(arguments)?;
        let is_known = self.environment.user_functions.contains(name);
        // The first call above the limit is reported; further ones would add nothing.
        let limit = limits::UDF_CALLS_PER_QUERY;
        self.udf_calls += 1;
        if self.udf_calls == limit + 1 {
            let message = format!(
                "The SQL query exceeded the maximum number of user-defined function calls. \
                 The allowed limit is {limit}."
            );
            self.report("SC3005", message, span);
        }
        // A query above the limit is refused, so the names of further functions are not needed.
        if is_known && self.udf_calls <= limit && !self.udfs.iter().any(|n| n == name) {
            self.udfs.push(name.to_owned());
        }
        Ok(Expr::Udf(Box::new(UdfCall {
            name: name.to_owned(),
            arguments,
            missing: (!is_known).then(|| self.missing_function(name, span)),
        })))
    }

    /// Returns the error of a call, with this span, of a user-defined function that the container
    /// does not have.
    fn missing_function(&self, name: &str, span: Span) -> Diagnostic {
        let message = format!("'{name}' is not a recognized user-defined function name.");
        let mut error = diagnostic(self.text, "SC2006", message, span);
        error.hint = Some(hints::of_unknown_user_function(name, self.environment));
        error
    }

    /// Reports a call, with this span, of a function that does not exist. The error covers the
    /// name.
    pub(super) fn report_unknown_function(&mut self, name: &str, span: Span) {
        let message = format!("'{name}' is not a recognized built-in function name.");
        let (start, _) = span;
        self.report("SC2005", message, (start, start + name.len()));
    }

    /// Reports a call, with this span, that has too few or too many arguments. `name` is the name
    /// as written. Returns true for a right number.
    pub(super) fn check_arity(
        &mut self,
        function: &Function,
        name: &str,
        arguments: usize,
        span: Span,
    ) -> bool {
        let (fewest, most) = function.arity;
        let is_right = (fewest..=most).contains(&arguments);
        if !is_right {
            self.report("SC2050", wrong_arity(function, name), span);
        }
        is_right
    }

    /// Binds a call of a built-in function.
    fn call(&mut self, name: &str, arguments: &[ast::Expr], span: Span) -> BoundExpr {
        let Some(function) = functions::find(name) else {
            self.report_unknown_function(name, span);
            return Ok(UNDEFINED);
        };
        if let Implementation::Refused(family) = function.run {
            let message = format!("The function {name} is not supported: no {family} yet.");
            return Err(QueryError::Unsupported(message));
        }
        if !self.check_arity(function, name, arguments.len(), span) {
            return Ok(UNDEFINED);
        }
        // Functions that need more than their arguments are bound in their own ways.
        let bound = match function.run {
            Implementation::Aggregate(kind) => return self.aggregate(kind, &arguments[0], span),
            Implementation::FullText(_) => return self.full_text(function, arguments),
            Implementation::Choose => return Ok(Expr::Choose(self.expressions(arguments)?)),
            Implementation::Rank if function.names[0] == FULL_TEXT_RANK => {
                let message =
                    "The FullTextScore function is only allowed in the ORDER BY RANK clause.";
                self.report("SC2240", message.into(), span);
                return Ok(UNDEFINED);
            }
            // Other functions of ORDER BY RANK are unknown everywhere else.
            Implementation::Rank => {
                self.expressions(arguments)?;
                self.report_unknown_function(name, span);
                return Ok(UNDEFINED);
            }
            Implementation::Conditional => self.conditional(arguments)?,
            Implementation::Vector(_) => self.vector(function, arguments)?.0,
            _ => Expr::Call {
                function,
                arguments: self.expressions(arguments)?,
            },
        };
        Ok(folded(bound, &mut self.folding_bytes_left))
    }

    /// Binds an aggregate, which is allowed only in the SELECT list of the current query.
    pub(super) fn aggregate(
        &mut self,
        kind: AggregateKind,
        argument: &ast::Expr,
        span: Span,
    ) -> BoundExpr {
        let is_misplaced = self.groups.last().is_none_or(|g| g.level != self.level);
        // A subquery in the argument has aggregates of its own, which are no nesting.
        if is_misplaced || contains(argument, &is_aggregate) {
            let (code, message) = match (is_misplaced, self.is_in_filter) {
                (true, true) => ("SC2104", "Aggregates are not allowed in the WHERE clause."),
                (true, false) => (
                    "SC2101",
                    "Cannot perform an aggregate function outside of the SELECT list.",
                ),
                (false, _) => (
                    "SC2101",
                    "Cannot perform an aggregate function on an expression containing an \
                     aggregate or a subquery.",
                ),
            };
            self.report(code, message.into(), span);
            return Ok(UNDEFINED);
        }
        let Some(mut group) = self.groups.pop() else {
            return Ok(UNDEFINED);
        };
        // The argument sees the sources of the query instead of the frame of the grouping.
        std::mem::swap(&mut self.names, &mut group.names);
        std::mem::swap(&mut self.frames, &mut group.frames);
        let argument = self.expression(argument);
        std::mem::swap(&mut self.names, &mut group.names);
        std::mem::swap(&mut self.frames, &mut group.frames);
        let argument = match argument? {
            // The item is always defined, so COUNT(c) is COUNT(true) and need not read the item.
            Expr::Slot(up) if kind == AggregateKind::Count && group.frames.len() == up + 1 => {
                Expr::Constant(Some(Json::Bool(true)))
            }
            other => other,
        };
        let up = self.hops_to(group.frame);
        let index = group.aggregates.len();
        group.aggregates.push((kind, argument));
        self.groups.push(group);
        Ok(Expr::Aggregate { up, index })
    }

    fn subquery(&mut self, kind: SubqueryKind, query: &ast::Query) -> BoundExpr {
        let block = self.query(query)?;
        if kind == SubqueryKind::Scalar && block.can_return_many_rows() {
            let message =
                "The cardinality of a scalar subquery result set cannot be greater than one.";
            self.report("SC2201", message.into(), query.span);
        }
        Ok(Expr::Subquery(kind, Box::new(block)))
    }
}

fn all_operands(first: Expr, rest: Vec<(BinaryOp, Expr)>) -> Box<[Expr]> {
    let rest = rest.into_iter().map(|(_, operand)| operand);
    std::iter::once(first).chain(rest).collect()
}

fn negate_if(negated: bool, expr: Expr) -> Expr {
    if negated {
        Expr::Unary(UnaryOp::Not, Box::new(expr))
    } else {
        expr
    }
}

fn not_a_computed_property(text: &str) -> QueryError {
    QueryError::Plan(format!("'{text}' is not a computed property."))
}

/// Returns the message for a wrong number of arguments of a function, whose name is written so.
fn wrong_arity(function: &Function, name: &str) -> String {
    let (fewest, most) = function.arity;
    match most {
        ANY => format!("The {name} function requires at least {fewest} argument(s)."),
        _ if fewest == most => format!("The {name} function requires {fewest} argument(s)."),
        _ => format!("The {name} function requires {fewest} to {most} argument(s)."),
    }
}
