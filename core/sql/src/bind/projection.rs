//! Binding of the SELECT list and GROUP BY.

use super::{Binder, GroupContext, GroupedClause, Mapping};
use crate::bound::{Expr, Grouping, Output};
use crate::error::QueryError;
use crate::functions::{self, AggregateKind};
use crate::syntax::ast::{self, Item, Kind, PathStep, Projection};
use crate::syntax::{build, print};
use orrery_model::json::Json;
use std::collections::HashSet;

impl Binder<'_> {
    /// Binds the SELECT list of a query.
    pub(super) fn projection(
        &mut self,
        projection: &Projection,
        query: &ast::Query,
    ) -> Result<Output, QueryError> {
        match projection {
            Projection::All(span) => self.select_all(query, *span),
            Projection::Value(expr) => Ok(Output::Value(self.expression(expr)?)),
            Projection::List(items) => {
                let names = item_names(items);
                let mut seen = HashSet::with_capacity(items.len());
                let mut members = Vec::with_capacity(items.len());
                for (item, name) in items.iter().zip(names) {
                    let value = self.expression(&item.expr)?;
                    self.check_member_name(&name, item.name_span, &mut seen);
                    members.push((name, value));
                }
                Ok(Output::Members(members))
            }
        }
    }

    /// Reports the name of a member that an earlier member of the same object has.
    pub(super) fn check_member_name(
        &mut self,
        name: &str,
        span: ast::Span,
        seen: &mut HashSet<String>,
    ) {
        if !seen.insert(name.to_owned()) {
            let message =
                format!("Object creation error, property name '{name}' specified more than once.");
            self.report("SC2022", message, span);
        }
    }

    /// Binds `SELECT *`, which is valid with exactly one source.
    fn select_all(&mut self, query: &ast::Query, span: ast::Span) -> Result<Output, QueryError> {
        let [source] = query.from.as_slice() else {
            if query.from.is_empty() {
                let message = "'SELECT *' is not valid if FROM clause is omitted.";
                return Err(QueryError::Plan(message.into()));
            }
            let message = "'SELECT *' is only valid with a single input set.";
            self.report("SC2042", message.into(), span);
            return Ok(Output::Value(Expr::Constant(None)));
        };
        // A source that is a plain name has no frame of its own; any other source has the last
        // frame.
        let frame = match &source.collection {
            ast::Collection::Path { steps, .. } if steps.is_empty() && !source.iterate => {
                self.names.last().map_or(0, |name| name.frame)
            }
            _ => self.frames.len() - 1,
        };
        Ok(Output::Value(Expr::Slot(self.hops_to(frame))))
    }

    /// Binds the expressions of GROUP BY, which see the sources of the query.
    pub(super) fn group_keys(&mut self, query: &ast::Query) -> Result<Vec<Expr>, QueryError> {
        let mut keys = Vec::with_capacity(query.group_by.len());
        for key in &query.group_by {
            let errors_before = self.error_count;
            if contains(key, &|part| is_aggregate(part) || is_subquery(part)) {
                let message = "Cannot use an aggregate or a subquery in an expression used for the \
                               group by list of a GROUP BY clause.";
                self.report("SC2111", message.into(), span_of_key(key));
            }
            let has_reference = if self.error_count > errors_before {
                keys.push(Expr::Constant(None));
                contains(key, &|part| matches!(part.kind, Kind::Path { .. }))
            } else {
                let bound = self.expression(key)?;
                let is_constant = matches!(bound, Expr::Constant(_));
                keys.push(bound);
                !is_constant
            };
            if !has_reference {
                let message =
                    "Each GROUP BY expression must contain at least one property reference.";
                self.report("SC2110", message.into(), span_of_key(key));
            }
        }
        Ok(keys)
    }

    /// Binds the aggregates and the SELECT list of a grouped query with these keys. The first
    /// `outer_names` names and `outer_frames` frames lie outside the query.
    pub(super) fn grouped(
        &mut self,
        query: &ast::Query,
        keys: Vec<Expr>,
        outer_names: usize,
        outer_frames: usize,
    ) -> Result<(Grouping, Output), QueryError> {
        if let (Projection::All(span), false) = (&query.projection, query.group_by.is_empty()) {
            let message = "'SELECT *' is not allowed with GROUP BY.";
            self.report("SC2041", message.into(), *span);
            let grouping = Grouping {
                keys: Vec::new(),
                aggregates: Vec::new(),
                order: Vec::new(),
            };
            return Ok((grouping, Output::Value(Expr::Constant(None))));
        }
        // The SELECT list sees one frame with keys and aggregates instead of the sources. Arguments
        // of aggregates see the sources, so their names and frames are kept in the context.
        let own_names = &self.names[outer_names..];
        self.groups.push(GroupContext {
            level: self.level,
            frame: outer_frames,
            source_names: own_names.iter().map(|n| n.name.clone()).collect(),
            names: self.names.clone(),
            frames: self.frames.clone(),
            keys: query.group_by.iter().map(canonical_text).collect(),
            clause: GroupedClause::OrderBy,
            aggregates: Vec::new(),
        });
        self.names.truncate(outer_names);
        self.frames.truncate(outer_frames);
        self.frames.push(Mapping::Unknown);
        let order = self.group_order(query)?;
        if let Some(group) = self.groups.last_mut() {
            group.clause = GroupedClause::Select;
        }
        let output = if is_row_of_ordered_group(query) {
            self.ordered_group_row(&query.projection)
        } else {
            self.projection(&query.projection, query)
        };
        let aggregates = self.groups.pop().map(|g| g.aggregates).unwrap_or_default();
        let grouping = Grouping {
            keys,
            aggregates,
            order,
        };
        Ok((grouping, output?))
    }

    /// Binds ORDER BY of the outermost query if it has GROUP BY. Each key is a path that GROUP BY
    /// names, or a path below one.
    fn group_order(&mut self, query: &ast::Query) -> Result<Vec<(Expr, bool)>, QueryError> {
        let mut bound = Vec::new();
        let is_ordered = self.level == 1 && !query.group_by.is_empty() && !query.is_ranked();
        let Some(order) = query.order_by.as_ref().filter(|_| is_ordered) else {
            return Ok(bound);
        };
        for item in &order.keys {
            if contains(&item.expr, &is_aggregate) {
                self.is_order_unsupported = true;
                continue;
            }
            let key = self.expression(&item.expr)?;
            self.is_order_unsupported |= !is_path_of_group(&key);
            bound.push((key, item.descending == Some(true)));
        }
        Ok(bound)
    }

    /// Binds the SELECT list of a row of which [`is_row_of_ordered_group`] is true: the resource id
    /// of a group is the least one of its items.
    fn ordered_group_row(&mut self, projection: &Projection) -> Result<Output, QueryError> {
        let Projection::List(items) = projection else {
            return Ok(Output::Value(Expr::Constant(None)));
        };
        let names = item_names(items);
        let mut members = Vec::with_capacity(items.len());
        for (place, (item, name)) in items.iter().zip(names).enumerate() {
            let value = if place == 0 {
                self.aggregate(AggregateKind::Min, &item.expr, item.expr.span)?
            } else {
                self.expression(&item.expr)?
            };
            members.push((name, value));
        }
        Ok(Output::Members(members))
    }
}

/// Returns true for a key of GROUP BY, and for a path below one.
fn is_path_of_group(expr: &Expr) -> bool {
    match expr {
        Expr::GroupKey { .. } => true,
        Expr::Path { base, .. } => matches!(**base, Expr::GroupKey { .. }),
        _ => false,
    }
}

/// Replaces the values of `orderByItems` in rows of which [`is_ordered_row`] is true by the values
/// by which ORDER BY sorts, so that clients merge and resume the rows in the server's order.
pub(super) fn to_sort_values(output: &mut Output) {
    let Output::Members(members) = output else {
        return;
    };
    let Some((_, Expr::Array(items))) = members.get_mut(1) else {
        return;
    };
    for item in items {
        let Expr::Object(members) = item else {
            continue;
        };
        for (_, value) in members {
            let sorted = std::mem::replace(value, Expr::Constant(None));
            *value = Expr::SortValue(Box::new(sorted));
        }
    }
}

/// Returns true for the rewritten form of a query with GROUP BY and ORDER BY.
fn is_row_of_ordered_group(query: &ast::Query) -> bool {
    !query.group_by.is_empty() && is_ordered_row(query)
}

/// Returns true for the rewritten form of a query with ORDER BY, also in a plan that a client makes
/// itself: its rows are `c._rid`, `orderByItems` and `payload`.
pub(super) fn is_ordered_row(query: &ast::Query) -> bool {
    let Projection::List(items) = &query.projection else {
        return false;
    };
    let [rid, order, payload] = items.as_slice() else {
        return false;
    };
    let is_rid = match &rid.expr.kind {
        Kind::Path { base, steps } => {
            let names_rid = matches!(steps.as_slice(), [PathStep::Dot(name)] if name == "_rid");
            names_rid && rid.alias.is_none() && matches!(base.kind, Kind::Identifier(_))
        }
        _ => false,
    };
    is_rid
        && query.order_by.is_some()
        && order.alias.as_deref() == Some("orderByItems")
        && payload.alias.as_deref() == Some("payload")
}

/// Returns true for a subquery.
fn is_subquery(expr: &ast::Expr) -> bool {
    matches!(expr.kind, Kind::Subquery(..))
}

/// Returns the span by which errors about a key of GROUP BY refer to the key: a scalar subquery
/// without the parentheses.
fn span_of_key(key: &ast::Expr) -> ast::Span {
    match &key.kind {
        Kind::Subquery(ast::SubqueryKind::Scalar, query) => query.span,
        _ => key.span,
    }
}

/// Returns the member names of a SELECT list: the alias, the last name of a path, or `$1`, `$2`,
/// ... for all other expressions, a path that ends with a parameter included.
pub(crate) fn item_names(items: &[Item]) -> Vec<String> {
    let mut unnamed = 0;
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        let name = match &item.alias {
            Some(alias) => Some(alias.clone()),
            None => implicit_name(&item.expr),
        };
        names.push(name.unwrap_or_else(|| {
            unnamed += 1;
            format!("${unnamed}")
        }));
    }
    names
}

fn implicit_name(expr: &ast::Expr) -> Option<String> {
    match &expr.kind {
        Kind::Identifier(name) => Some(name.clone()),
        Kind::Path { steps, .. } => match steps.last()? {
            PathStep::Dot(name) => Some(name.clone()),
            PathStep::Bracket(step) => match &step.kind {
                Kind::Constant(value) => value.as_str().map(str::to_owned),
                _ => None,
            },
        },
        _ => None,
    }
}

/// Returns the text by which GROUP BY expressions are compared; it is the same for `c.a` and
/// `c["a"]`.
pub(super) fn canonical_text(expr: &ast::Expr) -> String {
    let mut expr = expr.clone();
    normalise(&mut expr);
    print::expression(&expr)
}

fn normalise(expr: &mut ast::Expr) {
    match &mut expr.kind {
        Kind::Path { base, steps } => {
            normalise(base);
            for step in steps {
                if let PathStep::Dot(name) = step {
                    let name = Json::String(std::mem::take(name));
                    *step = PathStep::Bracket(build::constant(name));
                }
            }
        }
        Kind::Call {
            name,
            udf,
            arguments,
        } => {
            if !*udf {
                name.make_ascii_uppercase();
            }
            arguments.iter_mut().for_each(normalise);
        }
        Kind::Chain { first, rest } => {
            normalise(first);
            rest.iter_mut().for_each(|(_, e)| normalise(e));
        }
        Kind::Unary(_, operand) => normalise(operand),
        Kind::Array(elements) => elements.iter_mut().for_each(normalise),
        Kind::Object(members) => members.iter_mut().for_each(|m| normalise(&mut m.value)),
        _ => {}
    }
}

/// Returns true if a SELECT list has an aggregate. Subqueries are not entered.
pub(crate) fn has_aggregate(projection: &Projection) -> bool {
    match projection {
        Projection::All(_) => false,
        Projection::Value(expr) => contains(expr, &is_aggregate),
        Projection::List(items) => items.iter().any(|i| contains(&i.expr, &is_aggregate)),
    }
}

/// Returns the span of the first aggregate of a SELECT list. Subqueries are not entered.
pub(super) fn first_aggregate(projection: &Projection) -> Option<ast::Span> {
    let mut first = None;
    match projection {
        Projection::All(_) => {}
        Projection::Value(expr) => aggregate_in(expr, &mut first),
        Projection::List(items) => {
            for item in items {
                aggregate_in(&item.expr, &mut first);
            }
        }
    }
    first
}

/// Sets `first`, unless it is set, to the span of the first aggregate of an expression.
fn aggregate_in(expr: &ast::Expr, first: &mut Option<ast::Span>) {
    if first.is_none() && is_aggregate(expr) {
        *first = Some(expr.span);
    }
    expr.for_each_operand(&mut |operand| aggregate_in(operand, first));
}

/// Returns true if a SELECT list has an aggregate that is only a part of an expression. Subqueries
/// are not entered.
pub(crate) fn composes_aggregates(projection: &Projection) -> bool {
    let composes = |expr: &ast::Expr| !is_aggregate(expr) && contains(expr, &is_aggregate);
    match projection {
        Projection::All(_) => false,
        Projection::Value(expr) => composes(expr),
        Projection::List(items) => items.iter().any(|item| composes(&item.expr)),
    }
}

/// Returns true if an expression is a call of an aggregate function.
pub(crate) fn is_aggregate(expr: &ast::Expr) -> bool {
    match &expr.kind {
        Kind::Call {
            name, udf: false, ..
        } => functions::aggregate(name).is_some(),
        _ => false,
    }
}

/// Returns true if the expression or an expression inside it passes the test. Subqueries are not
/// entered.
pub(crate) fn contains(expr: &ast::Expr, test: &dyn Fn(&ast::Expr) -> bool) -> bool {
    let mut found = test(expr);
    expr.for_each_operand(&mut |operand| found = found || contains(operand, test));
    found
}
