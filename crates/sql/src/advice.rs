//! What the service's query advisor would say to a query: the numbers of its published rules.
//!
//! ```text
//! QA1000  ARRAY_CONTAINS of a part of an object       QA1005  GROUP BY an expression that is no path
//! QA1001  DISTINCT together with JOIN                 QA1006  UPPER or LOWER compared
//! QA1002  CONTAINS                                    QA1007  GETCURRENTDATETIME
//! QA1003  STARTSWITH, STRINGEQUALS in any case        QA1008  GETCURRENTTICKS
//! QA1004  ENDSWITH in any case                        QA1009  GETCURRENTTIMESTAMP
//! ```
//! All but QA1001 and QA1005 are about filters. The texts that belong to the numbers are the clients' own (the Python
//! SDK carries them in `query_advice_rules.json`).

use crate::error::QueryError;
use crate::functions;
use crate::syntax::ast::{BinaryOp, Collection, Expr, Kind, PathStep, Projection, Query};
use crate::syntax::parse;
use orrery_model::json::Json;
use std::collections::BTreeSet;

/// The rules that the query runs into, in order, each once.
///
/// # Errors
/// [`QueryError::Compile`] if it is no query; names and functions are not looked at.
pub fn query_advice(
    text: &str,
    parameters: &[(String, Json)],
) -> Result<Vec<&'static str>, QueryError> {
    let mut advisor = Advisor {
        parameters,
        found: BTreeSet::new(),
    };
    advisor.query(&parse(text)?);
    Ok(advisor.found.into_iter().collect())
}

struct Advisor<'a> {
    parameters: &'a [(String, Json)],
    found: BTreeSet<&'static str>,
}

/// Functions that give another value at another time.
const CHANGING: &[&str] = &[
    "RAND",
    "GETCURRENTDATETIME",
    "GETCURRENTTICKS",
    "GETCURRENTTIMESTAMP",
];

impl Advisor<'_> {
    fn query(&mut self, query: &Query) {
        if query.distinct && query.from.iter().skip(1).any(|source| source.iterate) {
            self.found.insert("QA1001");
        }
        if query.group_by.iter().any(is_computed) {
            self.found.insert("QA1005");
        }
        for source in &query.from {
            if let Collection::Subquery(inner) = &source.collection {
                self.query(inner);
            }
        }
        if let Some(filter) = &query.filter {
            self.expression(filter, true);
        }
        match &query.projection {
            Projection::All(_) => {}
            Projection::Value(expr) => self.expression(expr, false),
            Projection::List(items) => items
                .iter()
                .for_each(|item| self.expression(&item.expr, false)),
        }
    }

    /// Looks through an expression, `filters` of a WHERE clause or not; subqueries have clauses of their own.
    fn expression(&mut self, expr: &Expr, filters: bool) {
        if filters {
            self.filter(expr);
        }
        match &expr.kind {
            Kind::Subquery(_, query) => self.query(query),
            other => each_part(other, &mut |part| self.expression(part, filters)),
        }
    }

    fn filter(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Call {
                name,
                udf: false,
                arguments,
            } => {
                let in_any_case = arguments.get(2).is_some_and(|flag| self.is_true(flag));
                let rule = match (built_in(name), in_any_case) {
                    (Some("ARRAY_CONTAINS"), true) => "QA1000",
                    (Some("CONTAINS"), _) => "QA1002",
                    (Some("STARTSWITH" | "STRINGEQUALS"), true) => "QA1003",
                    (Some("ENDSWITH"), true) => "QA1004",
                    (Some("GETCURRENTDATETIME"), _) => "QA1007",
                    (Some("GETCURRENTTICKS"), _) => "QA1008",
                    (Some("GETCURRENTTIMESTAMP"), _) => "QA1009",
                    _ => return,
                };
                self.found.insert(rule);
            }
            Kind::Chain { first, rest } => {
                let compares = |op: &BinaryOp| crate::run::eval::is_comparison(*op);
                if rest.iter().any(|(op, _)| compares(op))
                    && (is_folded(first) || rest.iter().any(|(_, e)| is_folded(e)))
                {
                    self.found.insert("QA1006");
                }
            }
            Kind::Between { value, .. } | Kind::In { value, .. } | Kind::Like { value, .. }
                if is_folded(value) =>
            {
                self.found.insert("QA1006");
            }
            _ => {}
        }
    }

    fn is_true(&self, expr: &Expr) -> bool {
        match &expr.kind {
            Kind::Constant(value) => value.as_bool() == Some(true),
            Kind::Parameter(name) => {
                let bare = name.trim_start_matches('@');
                let named = self.parameters.iter().find(|(n, _)| n == name || n == bare);
                named.is_some_and(|(_, value)| value.as_bool() == Some(true))
            }
            _ => false,
        }
    }
}

/// The first name of the built-in function that has this one.
fn built_in(name: &str) -> Option<&'static str> {
    functions::find(name).map(|function| function.names[0])
}

/// UPPER(...) or LOWER(...)
fn is_folded(expr: &Expr) -> bool {
    matches!(&expr.kind, Kind::Call { name, udf: false, .. } if matches!(built_in(name), Some("UPPER" | "LOWER")))
}

/// Whether a GROUP BY key is an expression that a computed property could stand for.
fn is_computed(expr: &Expr) -> bool {
    !matches!(
        expr.kind,
        Kind::Path { .. } | Kind::Identifier(_) | Kind::Constant(_) | Kind::Parameter(_)
    ) && !changes(expr)
}

/// Whether an expression gives another value at another time, as far as one can tell.
fn changes(expr: &Expr) -> bool {
    let mut found = match &expr.kind {
        Kind::Call { udf: true, .. } | Kind::Subquery(..) => true,
        Kind::Call { name, .. } => built_in(name).is_some_and(|name| CHANGING.contains(&name)),
        _ => false,
    };
    each_part(&expr.kind, &mut |part| found |= changes(part));
    found
}

/// The expressions just inside one, those of subqueries apart.
fn each_part(kind: &Kind, visit: &mut dyn FnMut(&Expr)) {
    match kind {
        Kind::Undefined
        | Kind::Constant(_)
        | Kind::Parameter(_)
        | Kind::Identifier(_)
        | Kind::Subquery(..)
        | Kind::FilterPlaceholder
        | Kind::Verbatim(_) => {}
        Kind::Path { base, steps } => {
            visit(base);
            for step in steps {
                if let PathStep::Bracket(expr) = step {
                    visit(expr);
                }
            }
        }
        Kind::Call {
            arguments: list, ..
        }
        | Kind::Coalesce(list)
        | Kind::Array(list) => list.iter().for_each(visit),
        Kind::Unary(_, operand) => visit(operand),
        Kind::Chain { first, rest } => {
            visit(first);
            rest.iter().for_each(|(_, expr)| visit(expr));
        }
        Kind::Conditional(parts) => parts.iter().for_each(visit),
        Kind::Between { value, bounds, .. } => {
            visit(value);
            bounds.iter().for_each(visit);
        }
        Kind::In { value, list, .. } => {
            visit(value);
            list.iter().for_each(visit);
        }
        Kind::Like { value, pattern, .. } => {
            visit(value);
            visit(pattern);
        }
        Kind::Object(members) => members.iter().for_each(|(_, expr)| visit(expr)),
        Kind::Let { value, body, .. } => {
            visit(value);
            visit(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_found_where_it_applies_and_nowhere_else() {
        let parameters = [
            ("@yes".to_owned(), Json::Bool(true)),
            ("@no".to_owned(), Json::Bool(false)),
        ];
        let cases: &[(&str, &[&str])] = &[
            ("SELECT * FROM c WHERE c.a = 1", &[]),
            (
                "SELECT * FROM c WHERE ARRAY_CONTAINS(c.a, {b: 1}, true)",
                &["QA1000"],
            ),
            (
                "SELECT * FROM c WHERE array_contains(c.a, {b: 1}, @yes)",
                &["QA1000"],
            ),
            (
                "SELECT * FROM c WHERE ARRAY_CONTAINS(c.a, {b: 1}, @no)",
                &[],
            ),
            ("SELECT * FROM c WHERE ARRAY_CONTAINS(c.a, 1)", &[]),
            ("SELECT DISTINCT c.id FROM c JOIN t IN c.tags", &["QA1001"]),
            ("SELECT DISTINCT c.id FROM c", &[]),
            ("SELECT * FROM c WHERE CONTAINS(c.a, 'x')", &["QA1002"]),
            ("SELECT CONTAINS(c.a, 'x') FROM c", &[]),
            (
                "SELECT * FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE CONTAINS(t, 'x'))",
                &["QA1002"],
            ),
            (
                "SELECT ARRAY(SELECT VALUE t FROM t IN c.tags WHERE CONTAINS(t, 'x')) AS a FROM c",
                &["QA1002"],
            ),
            (
                "SELECT * FROM c WHERE STARTSWITH(c.a, 'x', true) OR STRINGEQUALS(c.a, 'y', true)",
                &["QA1003"],
            ),
            (
                "SELECT * FROM c WHERE STARTSWITH(c.a, 'x') AND STARTSWITH(c.b, 'x', false)",
                &[],
            ),
            (
                "SELECT * FROM c WHERE ENDSWITH(c.a, 'x', true)",
                &["QA1004"],
            ),
            ("SELECT * FROM c WHERE ENDSWITH(c.a, 'x')", &[]),
            (
                "SELECT COUNT(1) AS n FROM c GROUP BY LOWER(c.a)",
                &["QA1005"],
            ),
            ("SELECT COUNT(1) AS n FROM c GROUP BY c.a, c['b']", &[]),
            ("SELECT COUNT(1) AS n FROM c GROUP BY udf.f(c.a)", &[]),
            ("SELECT * FROM c WHERE LOWER(c.a) = 'x'", &["QA1006"]),
            (
                "SELECT * FROM c WHERE 'X' = UPPER(c.a) AND UPPER(c.b) IN ('A', 'B')",
                &["QA1006"],
            ),
            ("SELECT * FROM c WHERE IS_STRING(LOWER(c.a))", &[]),
            (
                "SELECT * FROM c WHERE c.t > GetCurrentDateTime()",
                &["QA1007"],
            ),
            ("SELECT * FROM c WHERE c.t > GetCurrentTicks()", &["QA1008"]),
            (
                "SELECT * FROM c WHERE c.t > GetCurrentTimestamp()",
                &["QA1009"],
            ),
            (
                "SELECT GetCurrentTimestamp() AS now FROM c WHERE c.t > GetCurrentTimestampStatic()",
                &[],
            ),
            (
                "SELECT * FROM c WHERE LOWER(c.a) = 'x' AND CONTAINS(c.a, 'x') AND CONTAINS(c.b, 'x')",
                &["QA1002", "QA1006"],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(
                query_advice(text, &parameters).expect(text),
                *expected,
                "{text}"
            );
        }
        assert!(query_advice("SELECT", &parameters).is_err());
    }
}
