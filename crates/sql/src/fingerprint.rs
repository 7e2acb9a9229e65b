//! What of a query a continuation must find again.
//!
//! A continuation goes on with the query that made it, so it carries a hash of that query. Where it holds a *place*, the
//! sort values of the last row, it may also go on with a query that differs only in conditions on the sort keys: a
//! client that merges the rows of several partitions puts its own place into the text, and sends it along with the
//! continuation that the text without it had made. Such a condition takes rows off, and moves none.

use crate::syntax::ast::{BinaryOp, Expr, Kind, Query, UnaryOp};
use crate::syntax::print;
use crate::value::digest;
use orrery_model::json::Json;

/// The hash of a text with its parameters.
pub(crate) fn of_text(text: &str, parameters: &[(String, Json)]) -> u64 {
    let parts = parameters
        .iter()
        .flat_map(|(name, value)| [Json::from(name.as_str()), value.clone()]);
    let all = Json::Array([Json::from(text)].into_iter().chain(parts).collect());
    digest(Some(&all)) as u64
}

/// The hash of an ordered query with its parameters, but without its conditions on the sort keys alone; `None` for a
/// query without ORDER BY.
pub(crate) fn of_ordered_query(query: &Query, parameters: &[(String, Json)]) -> Option<u64> {
    let keys: Vec<String> = query
        .order_by
        .as_ref()?
        .keys
        .iter()
        .map(|key| print::expression(&key.expr))
        .collect();
    let mut family = query.clone();
    family.filter = family
        .filter
        .and_then(|filter| without_places(filter, &keys));
    Some(of_text(&print::query(&family), parameters))
}

/// A condition without those parts of it that must all hold and speak of the sort keys alone.
fn without_places(filter: Expr, keys: &[String]) -> Option<Expr> {
    let span = filter.span;
    match filter.kind {
        Kind::Chain { first, rest } if rest.iter().all(|(op, _)| *op == BinaryOp::And) => {
            let parts = std::iter::once(*first).chain(rest.into_iter().map(|(_, part)| part));
            let mut left = parts.filter_map(|part| without_places(part, keys));
            let first = left.next()?;
            let rest: Vec<_> = left.map(|part| (BinaryOp::And, part)).collect();
            if rest.is_empty() {
                return Some(first);
            }
            Some(Expr {
                kind: Kind::Chain {
                    first: Box::new(first),
                    rest,
                },
                span,
            })
        }
        kind => {
            let filter = Expr { kind, span };
            (!speaks_of(&filter, keys)).then_some(filter)
        }
    }
}

/// Whether an expression is made of sort keys and constants only, by comparisons, questions for types and logic.
fn speaks_of(expr: &Expr, keys: &[String]) -> bool {
    let each = |parts: &[Expr]| parts.iter().all(|part| speaks_of(part, keys));
    match &expr.kind {
        Kind::Constant(_) | Kind::Undefined | Kind::FilterPlaceholder => true,
        Kind::Unary(UnaryOp::Not | UnaryOp::Minus, inner) => speaks_of(inner, keys),
        Kind::Chain { first, rest } => {
            speaks_of(first, keys) && rest.iter().all(|(_, part)| speaks_of(part, keys))
        }
        Kind::Call {
            name,
            udf: false,
            arguments,
        } if name.to_ascii_uppercase().starts_with("IS_") => each(arguments),
        _ => keys.contains(&print::expression(expr)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    fn family(filter: &str, order: &str) -> u64 {
        let text = format!(
            "SELECT c._rid, [{{\"item\": c.n}}] AS orderByItems FROM c {filter} ORDER BY {order}"
        );
        of_ordered_query(&parse(&text).expect(&text), &[]).expect("it is ordered")
    }

    #[test]
    fn conditions_on_the_sort_keys_alone_are_left_out() {
        for order in ["c.n", "c.n DESC, c.m"] {
            let plain = family("", order);
            for filter in [
                "WHERE (true)",
                "WHERE ({documentdb-formattableorderbyquery-filter})",
                "WHERE ((c.n >= -25))",
                "WHERE ((c.n > \"B\" OR IS_ARRAY(c.n) OR IS_OBJECT(c.n)))",
                "WHERE (NOT IS_DEFINED(c.n))",
            ] {
                assert_eq!(family(filter, order), plain, "{filter} ORDER BY {order}");
            }
            let own = family("WHERE ((c.kind = 'a') AND (true))", order);
            assert_eq!(
                family("WHERE ((c.kind = 'a') AND ((c.n >= 25)))", order),
                own
            );
            assert_ne!(own, plain);
        }
        assert_eq!(
            family("WHERE ((c.n <= 3 AND c.m >= null))", "c.n DESC, c.m"),
            family("", "c.n DESC, c.m")
        );
    }

    #[test]
    fn all_else_tells_queries_apart() {
        let plain = family("", "c.n");
        for filter in [
            "WHERE c.m > 1",
            "WHERE c.n > c.m",
            "WHERE c.n > 1 OR c.m > 1",
            "WHERE udf.is_late(c.n)",
            "WHERE c.n.m = 1",
        ] {
            assert_ne!(family(filter, "c.n"), plain, "{filter}");
        }
        assert_ne!(family("", "c.n DESC"), plain);
        assert_ne!(family("", "c.m"), plain);
        assert_ne!(
            of_text("SELECT 1", &[]),
            of_text("SELECT 1", &[("@a".into(), Json::Null)])
        );
    }
}
