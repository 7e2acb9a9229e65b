//! Constructors for syntax trees that are not parsed from text: rewritten queries and their calls.
//!
//! All nodes have the span `(0, 0)`.

use super::ast::{Count, CountValue, Expr, Item, Kind, Member};
use orrery_model::json::Json;

/// Makes an expression.
pub(crate) fn expr(kind: Kind) -> Expr {
    Expr { kind, span: (0, 0) }
}

/// Makes a constant.
pub(crate) fn constant(value: Json) -> Expr {
    expr(Kind::Constant(value))
}

/// Makes a piece of text that is printed without change and cannot be parsed.
pub(crate) fn verbatim(text: impl Into<String>) -> Expr {
    expr(Kind::Verbatim(text.into()))
}

/// Makes an array constructor.
pub(crate) fn array(elements: Vec<Expr>) -> Expr {
    expr(Kind::Array(elements))
}

/// Makes an object constructor.
pub(crate) fn object(members: Vec<(String, Expr)>) -> Expr {
    let member = |(name, value)| Member {
        name,
        name_span: (0, 0),
        value,
    };
    expr(Kind::Object(members.into_iter().map(member).collect()))
}

/// Makes a call of a built-in function.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    expr(Kind::Call {
        name: name.to_owned(),
        udf: false,
        arguments,
    })
}

/// Makes an item of a SELECT list with an alias.
pub(crate) fn aliased(expr: Expr, alias: &str) -> Item {
    Item {
        expr,
        alias: Some(alias.to_owned()),
        name_span: (0, 0),
    }
}

/// Makes the count of a TOP, OFFSET or LIMIT clause.
pub(crate) fn count(rows: u64) -> Count {
    Count {
        value: CountValue::Number(rows.to_string()),
        span: (0, 0),
    }
}
