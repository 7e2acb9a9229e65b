//! The rewritten trees.

use crate::bind::item_names;
use crate::error::QueryError;
use crate::functions::AggregateKind;
use crate::syntax::ast::{
    BinaryOp, Collection, Count, CountValue, Expr, Item, Kind, OffsetLimit, PathStep, Projection,
    Query, Source,
};

/// The name for the item where the query has none for it.
const ROOT: &str = "_root";

pub(super) fn made(kind: Kind) -> Expr {
    Expr { kind, span: (0, 0) }
}

pub(super) fn array(elements: Vec<Expr>) -> Expr {
    made(Kind::Array(elements))
}

pub(super) fn object(members: Vec<(String, Expr)>) -> Expr {
    made(Kind::Object(members))
}

fn call(name: &str, argument: &Expr) -> Expr {
    calling(name, vec![argument.clone()])
}

pub(super) fn calling(name: &str, arguments: Vec<Expr>) -> Expr {
    made(Kind::Call {
        name: name.to_owned(),
        udf: false,
        arguments,
    })
}

fn item(expr: &Expr) -> Expr {
    object(vec![("item".to_owned(), expr.clone())])
}

pub(super) fn named(expr: Expr, alias: &str) -> Item {
    Item {
        expr,
        alias: Some(alias.to_owned()),
    }
}

/// The clause with these counts.
pub(super) fn offset_limit(offset: u64, limit: u64) -> OffsetLimit {
    let count = |n: u64| Count {
        value: CountValue::Number(n.to_string()),
        span: (0, 0),
    };
    OffsetLimit {
        offset: count(offset),
        limit: count(limit),
        span: (0, 0),
    }
}

/// What a range gives for an aggregate, so that the results of several ranges can be put together.
pub(super) fn aggregate(kind: AggregateKind, name: &str, argument: &Expr) -> Expr {
    let name = name.to_ascii_uppercase();
    let member = |name: &str, expr: Expr| (name.to_owned(), expr);
    let own = call(&name, argument);
    let bound = |word: &str| {
        let item2 = object(vec![
            member(word, own.clone()),
            member("count", call("COUNT", argument)),
        ]);
        object(vec![member("item", own.clone()), member("item2", item2)])
    };
    match kind {
        AggregateKind::Average => {
            let parts = object(vec![
                member("sum", call("SUM", argument)),
                member("count", call("COUNT", argument)),
            ]);
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
        (false, _) => {
            Projection::List(vec![named(keys, "groupByItems"), named(payload, "payload")])
        }
    };
    Query {
        projection,
        top: None,
        offset_limit: None,
        order_by: None,
        ..query.clone()
    }
}

/// What a row carries for a client that merges rows by their order.
pub(super) struct Carried {
    /// The query, its item named; what it selects is still as it was.
    pub query: Query,
    /// The resource id of the item.
    pub rid: Item,
    /// What the row is.
    pub payload: Expr,
    /// What must be defined for there to be a row.
    needed: Option<Expr>,
}

impl Carried {
    /// Takes a query apart.
    pub fn of(
        query: &Query,
        parameter: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, QueryError> {
        let mut query = query.clone();
        let root = name_root(&mut query)?;
        let mut needed = None;
        let payload = match query.projection.clone() {
            Projection::All(_) => made(Kind::Identifier(
                last_alias(&query.from).unwrap_or_else(|| root.clone()),
            )),
            Projection::Value(expr) => {
                needed = Some(call("IS_DEFINED", &expr));
                expr
            }
            Projection::List(items) => {
                let names = item_names(&items, parameter);
                object(
                    names
                        .into_iter()
                        .zip(items)
                        .map(|(name, item)| (name, item.expr))
                        .collect(),
                )
            }
        };
        let base = Box::new(made(Kind::Identifier(root)));
        let rid = made(Kind::Path {
            base,
            steps: vec![PathStep::Dot("_rid".to_owned())],
        });
        Ok(Carried {
            query,
            rid: Item {
                expr: rid,
                alias: None,
            },
            payload,
            needed,
        })
    }

    /// The query with rows of resource id, sort keys and payload, and with a place for the client's own filter.
    pub fn in_order(self) -> Query {
        let mut query = self.query;
        let keys = query
            .order_by
            .as_ref()
            .map(|o| o.keys.iter().map(|k| item(&k.expr)).collect())
            .unwrap_or_default();
        query.projection = Projection::List(vec![
            self.rid,
            named(array(keys), "orderByItems"),
            named(self.payload, "payload"),
        ]);
        query.filter = conjunction([
            query.filter.take(),
            Some(made(Kind::FilterPlaceholder)),
            self.needed,
        ]);
        query
    }

    /// The query with rows of resource id, payload and scores.
    pub fn with_scores(self, scores: Expr) -> Query {
        let mut query = self.query;
        query.projection = Projection::List(vec![
            self.rid,
            named(self.payload, "payload"),
            named(scores, "componentScores"),
        ]);
        query.filter = conjunction([query.filter.take(), None, self.needed]);
        query
    }
}

fn conjunction(parts: [Option<Expr>; 3]) -> Option<Expr> {
    let mut parts = parts.into_iter().flatten();
    let first = parts.next()?;
    let rest: Vec<(BinaryOp, Expr)> = parts.map(|part| (BinaryOp::And, part)).collect();
    Some(if rest.is_empty() {
        first
    } else {
        made(Kind::Chain {
            first: Box::new(first),
            rest,
        })
    })
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
    let refused = || {
        QueryError::Plan("ORDER BY over such a FROM clause is not served across partitions.".into())
    };
    let alias = last_alias(query.from.get(..1).unwrap_or_default());
    let first = query.from.first_mut().ok_or_else(refused)?;
    let Collection::Path { root, steps, .. } = &mut first.collection else {
        return Err(refused());
    };
    if steps.is_empty() && !first.iterate {
        return alias.ok_or_else(refused);
    }
    *root = ROOT.to_owned();
    first.alias = Some(alias.ok_or_else(refused)?);
    let collection = Collection::Path {
        root: ROOT.to_owned(),
        root_span: (0, 0),
        steps: Vec::new(),
    };
    query.from.insert(
        0,
        Source {
            collection,
            alias: None,
            iterate: false,
            span: (0, 0),
        },
    );
    Ok(ROOT.to_owned())
}
