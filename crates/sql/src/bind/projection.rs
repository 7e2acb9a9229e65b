//! The SELECT list, GROUP BY and aggregates.

use super::expressions::last_of_each_name;
use super::{Binder, GroupContext, Mapping};
use crate::bound::{Expr, Grouping, Output};
use crate::error::QueryError;
use crate::functions;
use crate::syntax::ast::{self, Item, Kind, PathStep, Projection};
use crate::syntax::print;
use orrery_model::json::Json;

impl Binder<'_> {
    pub(super) fn projection(
        &mut self,
        projection: &Projection,
        query: &ast::Query,
    ) -> Result<Output, QueryError> {
        match projection {
            Projection::All(span) => match query.from.len() {
                0 => Err(QueryError::Plan(
                    "'SELECT *' is not valid if FROM clause is omitted.".into(),
                )),
                1 => {
                    // The only source is the last frame, or the one that its name stands for.
                    let frame = match &query.from[0].collection {
                        ast::Collection::Path { steps, .. }
                            if steps.is_empty() && !query.from[0].iterate =>
                        {
                            self.names.last().map_or(0, |n| n.frame)
                        }
                        _ => self.frames.len() - 1,
                    };
                    Ok(Output::Value(Expr::Slot(self.frames.len() - 1 - frame)))
                }
                _ => {
                    self.report(
                        "SC2040",
                        "'SELECT *' is only valid with a single input set.".into(),
                        *span,
                    );
                    Ok(Output::Value(Expr::Constant(None)))
                }
            },
            Projection::Value(expr) => Ok(Output::Value(self.expression(expr)?)),
            Projection::List(items) => {
                let names = self.item_names(items);
                let members = items
                    .iter()
                    .zip(names)
                    .map(|(item, name)| Ok((name, self.expression(&item.expr)?)));
                Ok(Output::Members(last_of_each_name(
                    members.collect::<Result<_, QueryError>>()?,
                )))
            }
        }
    }

    /// The member names of a SELECT list.
    fn item_names(&self, items: &[Item]) -> Vec<String> {
        item_names(items, &|name| {
            self.parameter(name)
                .and_then(Json::as_str)
                .map(str::to_owned)
        })
    }

    /// A grouped query's keys, aggregates and SELECT list. `names` and `frames` count those outside the query.
    pub(super) fn grouped(
        &mut self,
        query: &ast::Query,
        names: usize,
        frames: usize,
    ) -> Result<(Grouping, Output), QueryError> {
        if let (Projection::All(span), false) = (&query.projection, query.group_by.is_empty()) {
            self.report(
                "SC2041",
                "'SELECT *' is not allowed with GROUP BY.".into(),
                *span,
            );
            return Ok((
                Grouping {
                    keys: Vec::new(),
                    aggregates: Vec::new(),
                },
                Output::Value(Expr::Constant(None)),
            ));
        }
        let mut keys = Vec::with_capacity(query.group_by.len());
        for key in &query.group_by {
            keys.push(self.expression(key)?);
        }
        let own = self.names[names..].iter().map(|n| n.name.clone()).collect();
        self.groups.push(GroupContext {
            level: self.level,
            frame: frames,
            names: self.names.clone(),
            frames: self.frames.clone(),
            own,
            keys: query.group_by.iter().map(canonical).collect(),
            aggregates: Vec::new(),
        });
        self.names.truncate(names);
        self.frames.truncate(frames);
        self.frames.push(Mapping::Unknown);
        let output = self.projection(&query.projection, query);
        let aggregates = self.groups.pop().map(|g| g.aggregates).unwrap_or_default();
        Ok((Grouping { keys, aggregates }, output?))
    }
}

/// The member names of a SELECT list: the alias, the last name of a path, or `$1`, `$2`, ... over the rest.
pub(crate) fn item_names(
    items: &[Item],
    parameter: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut unnamed = 0;
    let mut name = |item: &Item| {
        item.alias
            .clone()
            .or_else(|| own_name(&item.expr, parameter))
            .unwrap_or_else(|| {
                unnamed += 1;
                format!("${unnamed}")
            })
    };
    items.iter().map(&mut name).collect()
}

fn own_name(expr: &ast::Expr, parameter: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    match &expr.kind {
        Kind::Identifier(name) => Some(name.clone()),
        Kind::Path { steps, .. } => match steps.last()? {
            PathStep::Dot(name) => Some(name.clone()),
            PathStep::Bracket(e) => match &e.kind {
                Kind::Constant(value) => value.as_str().map(str::to_owned),
                Kind::Parameter(name) => parameter(name),
                _ => None,
            },
        },
        _ => None,
    }
}

/// A GROUP BY expression as text in which `c.a` and `c["a"]` are the same.
pub(super) fn canonical(expr: &ast::Expr) -> String {
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
                    let kind = Kind::Constant(Json::String(std::mem::take(name)));
                    *step = PathStep::Bracket(ast::Expr { kind, span: (0, 0) });
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

/// Whether a SELECT list aggregates, subqueries apart.
pub(crate) fn has_aggregate(projection: &Projection) -> bool {
    match projection {
        Projection::All(_) => false,
        Projection::Value(expr) => contains(expr, &is_aggregate),
        Projection::List(items) => items.iter().any(|i| contains(&i.expr, &is_aggregate)),
    }
}

pub(crate) fn is_aggregate(expr: &ast::Expr) -> bool {
    matches!(&expr.kind, Kind::Call { name, udf: false, .. } if functions::aggregate(name).is_some())
}

/// Whether the expression or one inside it passes the test; subqueries are not entered.
pub(crate) fn contains(expr: &ast::Expr, test: &dyn Fn(&ast::Expr) -> bool) -> bool {
    let any = |list: &[ast::Expr]| list.iter().any(|e| contains(e, test));
    test(expr)
        || match &expr.kind {
            Kind::Path { base, steps } => {
                let bracket = |s: &PathStep| matches!(s, PathStep::Bracket(e) if contains(e, test));
                contains(base, test) || steps.iter().any(bracket)
            }
            Kind::Call { arguments, .. } => any(arguments),
            Kind::Unary(_, operand) => contains(operand, test),
            Kind::Chain { first, rest } => {
                contains(first, test) || rest.iter().any(|(_, e)| contains(e, test))
            }
            Kind::Coalesce(list) | Kind::Array(list) => any(list),
            Kind::Conditional(parts) => any(parts.as_slice()),
            Kind::Between { value, bounds, .. } => contains(value, test) || any(bounds.as_slice()),
            Kind::In { value, list, .. } => contains(value, test) || any(list),
            Kind::Like { value, pattern, .. } => contains(value, test) || contains(pattern, test),
            Kind::Object(members) => members.iter().any(|(_, e)| contains(e, test)),
            Kind::Let { value, body, .. } => contains(value, test) || contains(body, test),
            _ => false,
        }
}
