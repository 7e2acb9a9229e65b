//! The query advice of the service: the numbers of its published rules that a query matches.
//!
//! ```text
//! QA1000  ARRAY_CONTAINS with a partial object        QA1005  GROUP BY an expression, not a path
//! QA1001  DISTINCT with JOIN                          QA1006  comparison of UPPER or LOWER
//! QA1002  CONTAINS                                    QA1007  GETCURRENTDATETIME
//! QA1003  case-insensitive STARTSWITH, STRINGEQUALS   QA1008  GETCURRENTTICKS
//! QA1004  case-insensitive ENDSWITH                   QA1009  GETCURRENTTIMESTAMP
//! ```
//!
//! All rules except QA1001 and QA1005 apply to filters. Clients carry the texts of the rules
//! themselves (the Python SDK in `query_advice_rules.json`).

use crate::error::QueryError;
use crate::functions;
use crate::syntax::ast::{Collection, Expr, Kind, Projection, Query};
use crate::syntax::parse;
use orrery_model::json::Json;
use std::collections::BTreeSet;

/// Returns the rules that a query matches, in ascending order, each once.
///
/// # Errors
/// [`QueryError::Compile`] if the text cannot be parsed. Names and functions are not checked.
pub fn query_advice(
    text: &str,
    parameters: &[(String, Json)],
) -> Result<Vec<&'static str>, QueryError> {
    let mut advisor = Advisor {
        parameters,
        rules: BTreeSet::new(),
    };
    advisor.check_query(&parse(text)?);
    Ok(advisor.rules.into_iter().collect())
}

struct Advisor<'a> {
    parameters: &'a [(String, Json)],
    rules: BTreeSet<&'static str>,
}

/// Functions whose result depends on the time of the call or on chance.
const NONDETERMINISTIC: &[&str] = &[
    "RAND",
    "GETCURRENTDATETIME",
    "GETCURRENTTICKS",
    "GETCURRENTTIMESTAMP",
];

impl Advisor<'_> {
    fn check_query(&mut self, query: &Query) {
        if query.distinct && query.from.iter().skip(1).any(|source| source.iterate) {
            self.rules.insert("QA1001");
        }
        if query.group_by.iter().any(could_be_computed_property) {
            self.rules.insert("QA1005");
        }
        for source in &query.from {
            if let Collection::Subquery(inner) = &source.collection {
                self.check_query(inner);
            }
        }
        if let Some(filter) = &query.filter {
            self.check_expression(filter, true);
        }
        match &query.projection {
            Projection::All(_) => {}
            Projection::Value(expr) => self.check_expression(expr, false),
            Projection::List(items) => {
                for item in items {
                    self.check_expression(&item.expr, false);
                }
            }
        }
    }

    /// Checks an expression, which belongs to a WHERE clause if `is_filter` is true. A subquery is
    /// checked by its own clauses.
    fn check_expression(&mut self, expr: &Expr, is_filter: bool) {
        if is_filter {
            self.check_filter(expr);
        }
        match &expr.kind {
            Kind::Subquery(_, query) => self.check_query(query),
            _ => expr.for_each_operand(&mut |part| self.check_expression(part, is_filter)),
        }
    }

    /// Checks one expression of a WHERE clause, without its operands.
    fn check_filter(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Call {
                name,
                udf: false,
                arguments,
            } => {
                // The third argument is "partial object" of ARRAY_CONTAINS and "ignore case" of the
                // others.
                let has_true_flag = arguments.get(2).is_some_and(|flag| self.is_true(flag));
                let rule = match (built_in(name), has_true_flag) {
                    (Some("ARRAY_CONTAINS"), true) => "QA1000",
                    (Some("CONTAINS"), _) => "QA1002",
                    (Some("STARTSWITH" | "STRINGEQUALS"), true) => "QA1003",
                    (Some("ENDSWITH"), true) => "QA1004",
                    (Some("GETCURRENTDATETIME"), _) => "QA1007",
                    (Some("GETCURRENTTICKS"), _) => "QA1008",
                    (Some("GETCURRENTTIMESTAMP"), _) => "QA1009",
                    _ => return,
                };
                self.rules.insert(rule);
            }
            Kind::Chain { first, rest } => {
                let compares = rest.iter().any(|(op, _)| op.is_comparison());
                let changes_case =
                    is_upper_or_lower(first) || rest.iter().any(|(_, e)| is_upper_or_lower(e));
                if compares && changes_case {
                    self.rules.insert("QA1006");
                }
            }
            Kind::Between { value, .. } | Kind::In { value, .. } | Kind::Like { value, .. }
                if is_upper_or_lower(value) =>
            {
                self.rules.insert("QA1006");
            }
            _ => {}
        }
    }

    /// Returns true if an expression is the constant true or a parameter with this value.
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

/// Returns the canonical name of a built-in function.
fn built_in(name: &str) -> Option<&'static str> {
    functions::find(name).map(|function| function.names[0])
}

/// Returns true if an expression is `UPPER(...)` or `LOWER(...)`.
fn is_upper_or_lower(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Call {
            name, udf: false, ..
        } => matches!(built_in(name), Some("UPPER" | "LOWER")),
        _ => false,
    }
}

/// Returns true if a GROUP BY key is an expression that a computed property could replace.
fn could_be_computed_property(expr: &Expr) -> bool {
    let is_path_or_constant = matches!(
        expr.kind,
        Kind::Path { .. } | Kind::Identifier(_) | Kind::Constant(_) | Kind::Parameter(_)
    );
    !is_path_or_constant && !may_be_nondeterministic(expr)
}

/// Returns true if an expression may have another value at another time. User-defined functions and
/// subqueries count as such.
fn may_be_nondeterministic(expr: &Expr) -> bool {
    let mut found = match &expr.kind {
        Kind::Call { udf: true, .. } | Kind::Subquery(..) => true,
        Kind::Call { name, .. } => {
            built_in(name).is_some_and(|name| NONDETERMINISTIC.contains(&name))
        }
        _ => false,
    };
    expr.for_each_operand(&mut |part| found |= may_be_nondeterministic(part));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queries, each with the rules that it matches.
    const CASES: &[(&str, &[&str])] = &[
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
            "SELECT * FROM c \
             WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE CONTAINS(t, 'x'))",
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
            "SELECT GetCurrentTimestamp() AS now FROM c \
             WHERE c.t > GetCurrentTimestampStatic()",
            &[],
        ),
        (
            "SELECT * FROM c \
             WHERE LOWER(c.a) = 'x' AND CONTAINS(c.a, 'x') AND CONTAINS(c.b, 'x')",
            &["QA1002", "QA1006"],
        ),
    ];

    #[test]
    fn each_rule_is_found_where_it_applies_and_nowhere_else() {
        let parameters = [
            ("@yes".to_owned(), Json::Bool(true)),
            ("@no".to_owned(), Json::Bool(false)),
        ];
        for (text, expected) in CASES {
            assert_eq!(
                query_advice(text, &parameters).expect(text),
                *expected,
                "{text}"
            );
        }
        assert!(query_advice("SELECT", &parameters).is_err());
    }
}
