//! The hashes of a query by which a continuation recognizes its query.
//!
//! A continuation is valid only for the query that made it, so it contains a hash of the query's
//! text and parameters. There is one exception. A client that merges the rows of several partitions
//! adds a condition on the sort keys to the text, to resume after the last row that it returned,
//! and sends the continuation that the text without this condition had made. Such a condition
//! removes rows but does not reorder them. A continuation that holds the sort values of a row is
//! therefore also valid for queries that differ only in conditions on the sort keys; for these
//! there is a second hash.

use crate::syntax::ast::{BinaryOp, Expr, Kind, Query, UnaryOp};
use crate::syntax::print;
use crate::value::digest;
use orrery_model::json::Json;

/// Returns the hash of a text with its parameters.
pub(crate) fn of_text(text: &str, parameters: &[(String, Json)]) -> u64 {
    let mut parts = vec![Json::from(text)];
    for (name, value) in parameters {
        parts.push(Json::from(name.as_str()));
        parts.push(value.clone());
    }
    digest(Some(&Json::Array(parts))) as u64
}

/// Returns the hash of an ordered query with its parameters, without its conditions on the sort
/// keys. `None` for a query without ORDER BY.
pub(crate) fn of_ordered_query(query: &Query, parameters: &[(String, Json)]) -> Option<u64> {
    let order = query.order_by.as_ref()?;
    let sort_keys: Vec<String> = order
        .keys
        .iter()
        .map(|key| print::expression(&key.expr))
        .collect();
    let mut reduced = query.clone();
    reduced.filter = match reduced.filter {
        Some(filter) => without_sort_key_conditions(filter, &sort_keys),
        None => None,
    };
    Some(of_text(&print::query(&reduced), parameters))
}

/// Removes from a filter the conjuncts that depend on the sort keys only. Returns `None` if nothing
/// is left.
fn without_sort_key_conditions(filter: Expr, sort_keys: &[String]) -> Option<Expr> {
    let span = filter.span;
    match filter.kind {
        Kind::Chain { first, rest } if rest.iter().all(|(op, _)| *op == BinaryOp::And) => {
            let conjuncts = std::iter::once(*first).chain(rest.into_iter().map(|(_, part)| part));
            let mut kept =
                conjuncts.filter_map(|part| without_sort_key_conditions(part, sort_keys));
            let first = kept.next()?;
            let rest: Vec<_> = kept.map(|part| (BinaryOp::And, part)).collect();
            if rest.is_empty() {
                return Some(first);
            }
            let first = Box::new(first);
            let kind = Kind::Chain { first, rest };
            Some(Expr { kind, span })
        }
        kind => {
            let filter = Expr { kind, span };
            (!depends_on_sort_keys_only(&filter, sort_keys)).then_some(filter)
        }
    }
}

/// Returns true if an expression consists of sort keys and constants only, combined by comparisons,
/// type tests (`IS_...`) and logical operators.
fn depends_on_sort_keys_only(expr: &Expr, sort_keys: &[String]) -> bool {
    match &expr.kind {
        Kind::Constant(_) | Kind::Undefined | Kind::FilterPlaceholder => true,
        Kind::Unary(UnaryOp::Not | UnaryOp::Minus, inner) => {
            depends_on_sort_keys_only(inner, sort_keys)
        }
        Kind::Chain { first, rest } => {
            depends_on_sort_keys_only(first, sort_keys)
                && rest
                    .iter()
                    .all(|(_, part)| depends_on_sort_keys_only(part, sort_keys))
        }
        Kind::Call {
            name,
            udf: false,
            arguments,
        } if name.to_ascii_uppercase().starts_with("IS_") => arguments
            .iter()
            .all(|argument| depends_on_sort_keys_only(argument, sort_keys)),
        _ => sort_keys.contains(&print::expression(expr)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    fn reduced_hash(filter: &str, order: &str) -> u64 {
        let text = format!(
            "SELECT c._rid, [{{\"item\": c.n}}] AS orderByItems FROM c {filter} ORDER BY {order}"
        );
        of_ordered_query(&parse(&text).expect(&text), &[]).expect("it is ordered")
    }

    #[test]
    fn conditions_on_the_sort_keys_alone_are_left_out() {
        for order in ["c.n", "c.n DESC, c.m"] {
            let unfiltered = reduced_hash("", order);
            for filter in [
                "WHERE (true)",
                "WHERE ({documentdb-formattableorderbyquery-filter})",
                "WHERE ((c.n >= -25))",
                "WHERE ((c.n > \"B\" OR IS_ARRAY(c.n) OR IS_OBJECT(c.n)))",
                "WHERE (NOT IS_DEFINED(c.n))",
            ] {
                assert_eq!(
                    reduced_hash(filter, order),
                    unfiltered,
                    "{filter} ORDER BY {order}"
                );
            }
            let own = reduced_hash("WHERE ((c.kind = 'a') AND (true))", order);
            assert_eq!(
                reduced_hash("WHERE ((c.kind = 'a') AND ((c.n >= 25)))", order),
                own
            );
            assert_ne!(own, unfiltered);
        }
        assert_eq!(
            reduced_hash("WHERE ((c.n <= 3 AND c.m >= null))", "c.n DESC, c.m"),
            reduced_hash("", "c.n DESC, c.m")
        );
    }

    #[test]
    fn any_other_difference_changes_the_hash() {
        let unfiltered = reduced_hash("", "c.n");
        for filter in [
            "WHERE c.m > 1",
            "WHERE c.n > c.m",
            "WHERE c.n > 1 OR c.m > 1",
            "WHERE udf.is_late(c.n)",
            "WHERE c.n.m = 1",
        ] {
            assert_ne!(reduced_hash(filter, "c.n"), unfiltered, "{filter}");
        }
        assert_ne!(reduced_hash("", "c.n DESC"), unfiltered);
        assert_ne!(reduced_hash("", "c.m"), unfiltered);
        assert_ne!(
            of_text("SELECT 1", &[]),
            of_text("SELECT 1", &[("@a".into(), Json::Null)])
        );
    }
}
