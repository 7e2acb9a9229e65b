//! The definitions of computed properties: `SELECT VALUE expression FROM c`, where the value of the
//! expression depends on one item and on nothing else.
//!
//! The binder evaluates such an expression in place of the property (`bind/expressions.rs`).

use crate::bind::{contains, is_aggregate};
use crate::error::QueryError;
use crate::functions::{self, Implementation};
use crate::query::Query;
use crate::seams::Environment;
use crate::syntax::ast::{self, Collection, Expr, Kind, Projection, SubqueryKind};
use crate::syntax::parse;

/// Checks the query that defines a computed property.
///
/// # Errors
/// [`QueryError::Compile`] for a text that does not compile, and [`QueryError::Plan`] for a query
/// of another form or with an expression that does not depend on one item alone.
pub fn check_computed_property(text: &str) -> Result<(), QueryError> {
    let tree = parse(text)?;
    let Some(expr) = value_of_item(&tree) else {
        let message =
            "It must have the form SELECT VALUE expression FROM c, without other clauses.";
        return Err(QueryError::Plan(message.into()));
    };
    if contains(expr, &is_refused) {
        let message = "It must not have aggregates, subqueries except ARRAY, user-defined \
                       functions, spatial functions, or functions of the time or of chance.";
        return Err(QueryError::Plan(message.into()));
    }
    Query::compile(text, &[], &Environment::default())?;
    Ok(())
}

/// Returns the expression of a query that computes one value of each item; `None` for a query of
/// another form.
fn value_of_item(query: &ast::Query) -> Option<&Expr> {
    let ast::Query {
        distinct: false,
        top: None,
        projection: Projection::Value(expr),
        filter: None,
        order_by: None,
        offset_limit: None,
        ..
    } = query
    else {
        return None;
    };
    let [source] = query.from.as_slice() else {
        return None;
    };
    let is_item = match &source.collection {
        Collection::Path { steps, .. } => steps.is_empty() && !source.iterate,
        Collection::Subquery(_) => false,
    };
    (is_item && query.group_by.is_empty()).then_some(expr)
}

/// Returns true for an expression that a computed property must not have.
fn is_refused(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Subquery(kind, _) => *kind != SubqueryKind::Array,
        Kind::Call { udf: true, .. } => true,
        Kind::Call { name, .. } => functions::find(name).is_some_and(|function| {
            let is_spatial = function.names[0].starts_with("ST_");
            let is_changing = matches!(function.run, Implementation::Context(_));
            is_spatial || is_changing || is_aggregate(expr)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_computes_one_value_of_an_item() {
        for text in [
            "SELECT VALUE LOWER(c.name) FROM c",
            "SELECT VALUE c.address.city FROM c",
            "SELECT VALUE r[\"a b\"][0] FROM root r",
            "SELECT VALUE {n: ARRAY_LENGTH(c.tags), at: DateTimeAdd(\"yyyy\", 1, c.at)} FROM c",
            "SELECT VALUE ARRAY(SELECT VALUE t.name FROM t IN c.tags) FROM c",
        ] {
            check_computed_property(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        for (text, words) in [
            ("LOWER(c.name)", "SC1001"),
            ("SELECT VALUE FOO(c.a) FROM c", "SC2005"),
            ("SELECT VALUE d.a FROM c", "SC2001"),
            ("SELECT VALUE c.a + @p FROM c", "SC2001"),
            ("SELECT VALUE c.tags[c.n] FROM c", "SC2990"),
            ("SELECT c.a FROM c", "form"),
            ("SELECT * FROM c", "form"),
            ("SELECT VALUE 1", "form"),
            ("SELECT VALUE a FROM c.a", "form"),
            ("SELECT VALUE t FROM t IN c.tags", "form"),
            ("SELECT VALUE x.a FROM (SELECT VALUE c FROM c) AS x", "form"),
            ("SELECT VALUE c.a FROM c JOIN t IN c.tags", "form"),
            ("SELECT VALUE c.a FROM c WHERE c.b = 1", "form"),
            ("SELECT VALUE c.a FROM c GROUP BY c.a", "form"),
            ("SELECT VALUE c.a FROM c ORDER BY c.a", "form"),
            ("SELECT VALUE c.a FROM c OFFSET 0 LIMIT 1", "form"),
            ("SELECT TOP 1 VALUE c.a FROM c", "form"),
            ("SELECT DISTINCT VALUE c.a FROM c", "form"),
            ("SELECT VALUE COUNT(1) FROM c", "must not have"),
            (
                "SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.tags) FROM c",
                "must not have",
            ),
            (
                "SELECT VALUE EXISTS(SELECT VALUE t FROM t IN c.tags) FROM c",
                "must not have",
            ),
            ("SELECT VALUE [udf.f(c.a)] FROM c", "must not have"),
            ("SELECT VALUE c.a + RAND() FROM c", "must not have"),
            ("SELECT VALUE GetCurrentDateTime() FROM c", "must not have"),
            ("SELECT VALUE ST_ISVALID(c.at) FROM c", "must not have"),
        ] {
            let error = check_computed_property(text).expect_err(text);
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }
}
