//! The printer: from a tree to text, in the form in which the service prints rewritten queries.
//! Every clause is on a line of its own, strings have double quotes, and every operator expression
//! has parentheses.
//!
//! The printed text parses to the same tree.

use super::ast::{
    BINARY_OPERATORS, BinaryOp, Collection, Count, CountValue, Expr, Item, Kind, Member, OrderItem,
    PathStep, Projection, Query, Source, SubqueryKind, UnaryOp,
};
use super::lexer::is_reserved;
use orrery_model::json::{Json, write_string};
use std::fmt::Write as _;

/// The maximum number of operators in a chain that is printed with parentheses around every pair of
/// operands, as the service does. The text of a longer chain would exceed the parser's nesting
/// limit.
const MAX_NESTED_CHAIN: usize = 16;

/// Returns the text of a query.
pub(crate) fn query(query: &Query) -> String {
    // The clauses in the order of the grammar, each on a line of its own.
    let mut out = String::from("SELECT ");
    if query.distinct {
        out.push_str("DISTINCT ");
    }
    if let Some(top) = &query.top {
        add(&mut out, format_args!("TOP {} ", count(top)));
    }
    projection(&query.projection, &mut out);
    for (i, s) in query.from.iter().enumerate() {
        out.push_str(if i == 0 { "\nFROM " } else { "\nJOIN " });
        source(s, &mut out);
    }
    if let Some(filter) = &query.filter {
        add(&mut out, format_args!("\nWHERE {}", expression(filter)));
    }
    if !query.group_by.is_empty() {
        let keys = expressions(&query.group_by);
        add(&mut out, format_args!("\nGROUP BY {keys}"));
    }
    if let Some(order) = &query.order_by {
        let keys: Vec<String> = order.keys.iter().map(order_item).collect();
        let keys = keys.join(", ");
        let rank = if order.rank { "RANK " } else { "" };
        add(&mut out, format_args!("\nORDER BY {rank}{keys}"));
    }
    if let Some(clause) = &query.offset_limit {
        let (offset, limit) = (count(&clause.offset), count(&clause.limit));
        add(&mut out, format_args!("\nOFFSET {offset} LIMIT {limit}"));
    }
    out
}

/// Returns the text of an expression.
pub(crate) fn expression(expr: &Expr) -> String {
    let mut out = String::new();
    write_expression(expr, &mut out);
    out
}

/// Returns the text of a string literal.
pub(crate) fn string(text: &str) -> String {
    let mut out = Vec::new();
    write_string(text, &mut out);
    String::from_utf8(out).expect("written JSON is UTF-8")
}

/// Appends formatted text.
fn add(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a string");
}

fn count(count: &Count) -> &str {
    match &count.value {
        CountValue::Number(text) | CountValue::Parameter(text) => text,
    }
}

fn projection(projection: &Projection, out: &mut String) {
    match projection {
        Projection::All(_) => out.push('*'),
        Projection::Value(e) => add(out, format_args!("VALUE {}", expression(e))),
        Projection::List(items) => {
            let texts: Vec<String> = items.iter().map(item).collect();
            out.push_str(&texts.join(", "));
        }
    }
}

fn item(item: &Item) -> String {
    let expr = expression(&item.expr);
    match &item.alias {
        None => expr,
        Some(alias) if is_identifier(alias) => format!("{expr} AS {alias}"),
        Some(alias) => format!("{expr} AS {}", string(alias)),
    }
}

fn order_item(item: &OrderItem) -> String {
    let direction = match item.descending {
        None => "",
        Some(true) => " DESC",
        Some(false) => " ASC",
    };
    format!("{}{direction}", expression(&item.expr))
}

fn source(source: &Source, out: &mut String) {
    if let (Some(alias), true) = (&source.alias, source.iterate) {
        add(out, format_args!("{alias} IN "));
    }
    match &source.collection {
        Collection::Path {
            root, steps: path, ..
        } => {
            out.push_str(root);
            steps(path, out);
        }
        Collection::Subquery(q) => add(out, format_args!("({})", query(q))),
    }
    if let (Some(alias), false) = (&source.alias, source.iterate) {
        add(out, format_args!(" AS {alias}"));
    }
}

fn steps(path: &[PathStep], out: &mut String) {
    for step in path {
        match step {
            PathStep::Dot(name) => add(out, format_args!(".{name}")),
            PathStep::Bracket(e) => add(out, format_args!("[{}]", expression(e))),
        }
    }
}

fn expressions(list: &[Expr]) -> String {
    list.iter().map(expression).collect::<Vec<_>>().join(", ")
}

fn write_expression(expr: &Expr, out: &mut String) {
    match &expr.kind {
        Kind::Undefined => out.push_str("undefined"),
        Kind::FilterPlaceholder => out.push_str("({documentdb-formattableorderbyquery-filter})"),
        Kind::Constant(value) => out.push_str(&constant(value)),
        Kind::Verbatim(text) => out.push_str(text),
        Kind::Parameter(name) | Kind::Identifier(name) => out.push_str(name),
        Kind::Path { base, steps: path } => {
            write_path_base(base, out);
            steps(path, out);
        }
        Kind::Call {
            name,
            udf,
            arguments,
        } => {
            let prefix = if *udf { "udf." } else { "" };
            let arguments = expressions(arguments);
            add(out, format_args!("{prefix}{name}({arguments})"));
        }
        Kind::Unary(_, operand) if is_negative_number(expr) => {
            out.push('-');
            write_expression(operand, out);
        }
        Kind::Unary(op, operand) => write_unary(*op, operand, out),
        Kind::Chain { first, rest } => write_chain(first, rest, out),
        Kind::Coalesce(parts) => {
            let texts: Vec<String> = parts.iter().map(expression).collect();
            add(out, format_args!("({})", texts.join(" ?? ")));
        }
        Kind::Conditional(parts) => write_conditional(parts, out),
        // The predicates: `(value [NOT] ...)`.
        Kind::Between {
            value,
            bounds,
            negated,
        } => {
            let [low, high] = bounds.as_ref();
            let test = format!("BETWEEN {} AND {}", expression(low), expression(high));
            write_predicate(value, *negated, &test, out);
        }
        Kind::In {
            value,
            list,
            negated,
        } => write_predicate(value, *negated, &format!("IN ({})", expressions(list)), out),
        Kind::Like {
            value,
            pattern,
            escape,
            negated,
        } => {
            let test = like_test(pattern, escape.as_deref());
            write_predicate(value, *negated, &test, out);
        }
        Kind::Array(elements) => add(out, format_args!("[{}]", expressions(elements))),
        Kind::Object(members) => write_object(members, out),
        Kind::Subquery(kind, inner) => {
            add(
                out,
                format_args!("{}({})", subquery_word(*kind), query(inner)),
            );
        }
        Kind::Let { name, value, body } => {
            let (value, body) = (expression(value), expression(body));
            add(out, format_args!("(LET {name} = {value} IN {body})"));
        }
    }
}

fn write_path_base(base: &Expr, out: &mut String) {
    let is_number =
        matches!(base.kind, Kind::Constant(Json::Number(_))) || is_negative_number(base);
    if is_number {
        // Without parentheses a dot after the number would be read as its decimal point.
        add(out, format_args!("({})", expression(base)));
    } else {
        write_expression(base, out);
    }
}

fn write_predicate(value: &Expr, negated: bool, test: &str, out: &mut String) {
    let not = if negated { "NOT " } else { "" };
    add(out, format_args!("({} {not}{test})", expression(value)));
}

fn like_test(pattern: &Expr, escape: Option<&str>) -> String {
    let mut test = format!("LIKE {}", expression(pattern));
    if let Some(escape) = escape {
        add(&mut test, format_args!(" ESCAPE {}", string(escape)));
    }
    test
}

fn write_conditional([condition, yes, no]: &[Expr; 3], out: &mut String) {
    let (condition, yes, no) = (expression(condition), expression(yes), expression(no));
    add(out, format_args!("({condition} ? {yes} : {no})"));
}

fn write_object(members: &[Member], out: &mut String) {
    let texts: Vec<String> = members
        .iter()
        .map(|member| format!("{}: {}", string(&member.name), expression(&member.value)))
        .collect();
    add(out, format_args!("{{{}}}", texts.join(", ")));
}

fn subquery_word(kind: SubqueryKind) -> &'static str {
    match kind {
        SubqueryKind::Scalar => "",
        SubqueryKind::Exists => "EXISTS",
        SubqueryKind::Array => "ARRAY",
        SubqueryKind::All => "ALL",
        SubqueryKind::First => "FIRST",
        SubqueryKind::Last => "LAST",
    }
}

fn write_unary(op: UnaryOp, operand: &Expr, out: &mut String) {
    let operator = match op {
        UnaryOp::Minus => "-",
        UnaryOp::Plus => "+",
        UnaryOp::BitNot => "~",
        UnaryOp::Not => "NOT",
    };
    // Without a space `-` before another `-` would begin a comment.
    let needs_space = op == UnaryOp::Not || !matches!(operand.kind, Kind::Constant(_));
    let space = if needs_space { " " } else { "" };
    add(out, format_args!("({operator}{space}"));
    write_expression(operand, out);
    out.push(')');
}

fn write_chain(first: &Expr, rest: &[(BinaryOp, Expr)], out: &mut String) {
    // Chains are left-associative, so the parentheses around each pair can be left out.
    let is_nested = rest.len() <= MAX_NESTED_CHAIN;
    let parentheses = if is_nested { rest.len() } else { 1 };
    out.push_str(&"(".repeat(parentheses));
    write_expression(first, out);
    for (op, operand) in rest {
        add(out, format_args!(" {} ", operator(*op)));
        write_expression(operand, out);
        if is_nested {
            out.push(')');
        }
    }
    if !is_nested {
        out.push(')');
    }
}

/// Returns true for the minus sign of a number literal, which is printed without parentheses.
fn is_negative_number(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Unary(UnaryOp::Minus, operand) => {
            matches!(operand.kind, Kind::Constant(Json::Number(_)))
        }
        _ => false,
    }
}

fn constant(value: &Json) -> String {
    // A literal that is not finite was too large for a double; there are no other such literals.
    match value {
        Json::Number(n) if !n.is_finite() => "1e999".to_owned(),
        other => other.to_text(),
    }
}

fn operator(op: BinaryOp) -> &'static str {
    BINARY_OPERATORS
        .iter()
        .find(|(_, o, _)| *o == op)
        .map_or("", |(text, _, _)| text)
}

fn is_identifier(text: &str) -> bool {
    let has_valid_start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    has_valid_start
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !is_reserved(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::{golden_queries, parse};

    #[test]
    fn a_printed_query_parses_to_the_same_tree() {
        let mut count = 0;
        for tree in golden_queries().iter().filter_map(|text| parse(text).ok()) {
            let printed = query(&tree);
            let parsed = parse(&printed).unwrap_or_else(|e| panic!("{printed}: {e}"));
            assert_eq!(query(&parsed), printed);
            count += 1;
        }
        assert!(count > 1000);
    }
}
