//! The rewritten trees.

use crate::bind::item_names;
use crate::error::QueryError;
use crate::functions::AggregateKind;
use crate::syntax::ast::{
    BinaryOp, Collection, Count, CountValue, Expr, Item, Kind, OffsetLimit, PathStep, Projection, Query, Source,
};

/// The name for the item where the query has none for it.
const ROOT: &str = "_root";

fn made(kind: Kind) -> Expr {
    Expr { kind, span: (0, 0) }
}

pub(super) fn array(elements: Vec<Expr>) -> Expr {
    made(Kind::Array(elements))
}

pub(super) fn object(members: Vec<(String, Expr)>) -> Expr {
    made(Kind::Object(members))
}

fn call(name: &str, argument: &Expr) -> Expr {
    made(Kind::Call { name: name.to_owned(), udf: false, arguments: vec![argument.clone()] })
}

fn item(expr: &Expr) -> Expr {
    object(vec![("item".to_owned(), expr.clone())])
}

fn named(expr: Expr, alias: &str) -> Item {
    Item { expr, alias: Some(alias.to_owned()) }
}

/// The clause with these counts.
pub(super) fn offset_limit(offset: u64, limit: u64) -> OffsetLimit {
    let count = |n: u64| Count { value: CountValue::Number(n.to_string()), span: (0, 0) };
    OffsetLimit { offset: count(offset), limit: count(limit), span: (0, 0) }
}

/// What a range gives for an aggregate, so that the results of several ranges can be put together.
pub(super) fn aggregate(kind: AggregateKind, name: &str, argument: &Expr) -> Expr {
    let name = name.to_ascii_uppercase();
    let member = |name: &str, expr: Expr| (name.to_owned(), expr);
    let own = call(&name, argument);
    let bound = |word: &str| {
        let item2 = object(vec![member(word, own.clone()), member("count", call("COUNT", argument))]);
        object(vec![member("item", own.clone()), member("item2", item2)])
    };
    match kind {
        AggregateKind::Average => {
            let parts = object(vec![member("sum", call("SUM", argument)), member("count", call("COUNT", argument))]);
            object(vec![member("item", parts)])
        }
        AggregateKind::Min => bound("min"),
        AggregateKind::Max => bound("max"),
        _ => object(vec![member("item", own)]),
    }
}

/// A query with aggregates or GROUP BY, its SELECT list replaced by the payload.
pub(super) fn grouped(query: &Query, payload: Expr, is_value: bool) -> Query {
    let keys = array(query.group_by.iter().map(item).collect());
    let projection = match (query.group_by.is_empty(), is_value) {
        (true, true) => Projection::Value(payload),
        (true, false) => Projection::List(vec![named(payload, "payload")]),
        (false, _) => Projection::List(vec![named(keys, "groupByItems"), named(payload, "payload")]),
    };
    Query { projection, top: None, offset_limit: None, order_by: None, ..query.clone() }
}

/// A query with ORDER BY: rows of resource id, sort keys and payload, with a place for the client's own filter.
pub(super) fn ordered(query: &Query, parameter: &dyn Fn(&str) -> Option<String>) -> Result<Query, QueryError> {
    let mut query = query.clone();
    let root = name_root(&mut query)?;
    let keys = query.order_by.as_ref().map(|o| o.keys.iter().map(|k| item(&k.expr)).collect()).unwrap_or_default();
    let mut filters = Vec::new();
    let payload = match query.projection {
        Projection::All(_) => made(Kind::Identifier(last_alias(&query.from).unwrap_or_else(|| root.clone()))),
        Projection::Value(expr) => {
            filters.push((BinaryOp::And, call("IS_DEFINED", &expr)));
            expr
        }
        Projection::List(items) => {
            let names = item_names(&items, parameter);
            object(names.into_iter().zip(items).map(|(name, item)| (name, item.expr)).collect())
        }
    };
    let rid = made(Kind::Path {
        base: Box::new(made(Kind::Identifier(root))),
        steps: vec![PathStep::Dot("_rid".to_owned())],
    });
    query.projection = Projection::List(vec![
        Item { expr: rid, alias: None },
        named(array(keys), "orderByItems"),
        named(payload, "payload"),
    ]);
    let placeholder = made(Kind::FilterPlaceholder);
    let first = match query.filter.take() {
        None => placeholder,
        Some(filter) => {
            filters.insert(0, (BinaryOp::And, placeholder));
            filter
        }
    };
    query.filter = Some(match filters.is_empty() {
        true => first,
        false => made(Kind::Chain { first: Box::new(first), rest: filters }),
    });
    Ok(query)
}

fn last_alias(from: &[Source]) -> Option<String> {
    let source = from.last()?;
    let own = match &source.collection {
        Collection::Path { root, steps, .. } if steps.is_empty() => Some(root.clone()),
        Collection::Path { steps, .. } => match steps.last() {
            Some(PathStep::Dot(name)) => Some(name.clone()),
            _ => None,
        },
        Collection::Subquery(_) => None,
    };
    source.alias.clone().or(own)
}

/// The name of the item, whose resource id every row carries. `FROM t IN c.tags` gives it none: it becomes
/// `FROM _root JOIN t IN _root.tags`.
fn name_root(query: &mut Query) -> Result<String, QueryError> {
    let refused = || QueryError::Plan("ORDER BY over such a FROM clause is not served across partitions.".into());
    let alias = last_alias(query.from.get(..1).unwrap_or_default());
    let first = query.from.first_mut().ok_or_else(refused)?;
    let Collection::Path { root, steps, .. } = &mut first.collection else { return Err(refused()) };
    if steps.is_empty() && !first.iterate {
        return alias.ok_or_else(refused);
    }
    *root = ROOT.to_owned();
    first.alias = Some(alias.ok_or_else(refused)?);
    let collection = Collection::Path { root: ROOT.to_owned(), root_span: (0, 0), steps: Vec::new() };
    query.from.insert(0, Source { collection, alias: None, iterate: false, span: (0, 0) });
    Ok(ROOT.to_owned())
}
