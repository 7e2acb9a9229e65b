//! Binding of the SELECT list and GROUP BY.

use super::{Binder, GroupContext, Mapping};
use crate::bound::{Expr, Grouping, Output};
use crate::error::QueryError;
use crate::functions;
use crate::syntax::ast::{self, Item, Kind, PathStep, Projection};
use crate::syntax::{build, print};
use orrery_model::json::Json;
use std::collections::HashMap;

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
                let mut members = Vec::with_capacity(items.len());
                for (item, name) in items.iter().zip(names) {
                    members.push((name, self.expression(&item.expr)?));
                }
                Ok(Output::Members(last_of_each_name(members)))
            }
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
            self.report("SC2040", message.into(), span);
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

    /// Binds the keys, aggregates and SELECT list of a grouped query. The first `outer_names` names
    /// and `outer_frames` frames lie outside the query.
    pub(super) fn grouped(
        &mut self,
        query: &ast::Query,
        outer_names: usize,
        outer_frames: usize,
    ) -> Result<(Grouping, Output), QueryError> {
        if let (Projection::All(span), false) = (&query.projection, query.group_by.is_empty()) {
            let message = "'SELECT *' is not allowed with GROUP BY.";
            self.report("SC2041", message.into(), *span);
            let grouping = Grouping {
                keys: Vec::new(),
                aggregates: Vec::new(),
            };
            return Ok((grouping, Output::Value(Expr::Constant(None))));
        }
        // The keys see the sources of the query.
        let mut keys = Vec::with_capacity(query.group_by.len());
        for key in &query.group_by {
            keys.push(self.expression(key)?);
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
            aggregates: Vec::new(),
        });
        self.names.truncate(outer_names);
        self.frames.truncate(outer_frames);
        self.frames.push(Mapping::Unknown);
        let output = self.projection(&query.projection, query);
        let aggregates = self.groups.pop().map(|g| g.aggregates).unwrap_or_default();
        Ok((Grouping { keys, aggregates }, output?))
    }
}

/// Removes duplicate member names: the last value of a name is kept, in the position of the first.
pub(super) fn last_of_each_name(members: Vec<(String, Expr)>) -> Vec<(String, Expr)> {
    let mut positions: HashMap<String, usize> = HashMap::with_capacity(members.len());
    let mut kept: Vec<(String, Expr)> = Vec::with_capacity(members.len());
    for (name, member) in members {
        match positions.get(&name) {
            Some(&position) => kept[position].1 = member,
            None => {
                positions.insert(name.clone(), kept.len());
                kept.push((name, member));
            }
        }
    }
    kept
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
        Kind::Object(members) => members.iter_mut().for_each(|(_, e)| normalise(e)),
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
