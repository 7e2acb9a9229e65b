//! The rewritten queries of client plans: queries whose rows carry what a client needs to merge
//! them.

use crate::bind::item_names;
use crate::functions::AggregateKind;
use crate::syntax::ast::{
    BinaryOp, Collection, Expr, Item, Kind, OffsetLimit, PathStep, Projection, Query, Source,
};
use crate::syntax::build;
use orrery_model::json::Json;

/// The alias for the item in a query whose FROM clause gives the item no name.
const ROOT: &str = "_root";

/// Makes an OFFSET LIMIT clause.
pub(super) fn offset_limit(offset: u64, limit: u64) -> OffsetLimit {
    OffsetLimit {
        offset: build::count(offset),
        limit: build::count(limit),
        span: (0, 0),
    }
}

/// Makes the object that a partition returns for an aggregate, so that a client can combine the
/// results of several partitions. `name` is the aggregate's name in the query. The first clients do
/// not know `item2`.
pub(super) fn partial_aggregate(
    kind: AggregateKind,
    name: &str,
    argument: &Expr,
    is_for_first_clients: bool,
) -> Expr {
    let call = |name: &str| build::call(name, vec![argument.clone()]);
    let own = call(&name.to_ascii_uppercase());
    match kind {
        // An average of averages would be wrong: clients divide the sums by the counts.
        AggregateKind::Average => {
            let parts = object([("sum", call("SUM")), ("count", call("COUNT"))]);
            object([("item", parts)])
        }
        _ if is_for_first_clients => object([("item", own)]),
        // A client ignores the result of a partition whose count is 0.
        AggregateKind::Min => {
            let counted = object([("min", own.clone()), ("count", call("COUNT"))]);
            object([("item", own), ("item2", counted)])
        }
        AggregateKind::Max => {
            let counted = object([("max", own.clone()), ("count", call("COUNT"))]);
            object([("item", own), ("item2", counted)])
        }
        _ => object([("item", own)]),
    }
}

/// Rewrites a query with aggregates or GROUP BY: its SELECT list is replaced by the keys and
/// `payload`.
pub(super) fn grouped(query: &Query, payload: Expr, is_value: bool) -> Query {
    let projection = if !query.group_by.is_empty() {
        Projection::List(vec![
            build::aliased(group_by_items(query), "groupByItems"),
            build::aliased(payload, "payload"),
        ])
    } else if is_value {
        Projection::Value(payload)
    } else {
        Projection::List(vec![build::aliased(payload, "payload")])
    };
    Query {
        projection,
        top: None,
        offset_limit: None,
        order_by: None,
        ..query.clone()
    }
}

/// Makes the array of the GROUP BY keys of a group.
fn group_by_items(query: &Query) -> Expr {
    build::array(query.group_by.iter().map(as_item).collect())
}

/// Wraps a rewritten aggregate so that a partition without a value returns no row. The first
/// clients would take the row `[{}]` of such a partition for the least value.
pub(super) fn without_undefined(query: Query) -> Query {
    const PART: &str = "part";
    let part = build::expr(Kind::Identifier(PART.to_owned()));
    let value = build::expr(Kind::Path {
        base: Box::new(part.clone()),
        steps: vec![
            PathStep::Bracket(build::constant(Json::from(0))),
            PathStep::Dot("item".to_owned()),
        ],
    });
    let source = Source {
        collection: Collection::Subquery(Box::new(query)),
        alias: Some(PART.to_owned()),
        name_span: (0, 0),
        iterate: false,
        collection_span: (0, 0),
        span: (0, 0),
    };
    Query {
        span: (0, 0),
        select_span: (0, 0),
        distinct: false,
        top: None,
        top_span: (0, 0),
        projection: Projection::Value(part),
        from: vec![source],
        filter: Some(build::call("IS_DEFINED", vec![value])),
        group_by: Vec::new(),
        group_by_span: (0, 0),
        order_by: None,
        offset_limit: None,
    }
}

/// The parts of a query's rows from which the rows of its rewritten form are made.
pub(super) struct RowParts {
    /// The query, changed so that the item has a name. The SELECT list is unchanged.
    query: Query,
    /// The resource id of the item.
    rid: Item,
    /// The row of the original query.
    pub payload: Expr,
    /// The condition that the original query has a row: SELECT VALUE omits undefined values.
    is_defined: Option<Expr>,
}

impl RowParts {
    /// Splits a query into the parts of its rows. Returns `None` if the rows of FROM do not tell
    /// the resource id of their item.
    pub(super) fn of(query: &Query) -> Option<Self> {
        let mut query = query.clone();
        let root = name_root(&mut query)?;
        // The payload is the row that the original query would return.
        let mut is_defined = None;
        let payload = match query.projection.clone() {
            Projection::All(_) => {
                let name = last_alias(&query.from).unwrap_or_else(|| root.clone());
                build::expr(Kind::Identifier(name))
            }
            Projection::Value(expr) => {
                is_defined = Some(build::call("IS_DEFINED", vec![expr.clone()]));
                expr
            }
            Projection::List(items) => {
                let names = item_names(&items);
                let values = items.into_iter().map(|item| item.expr);
                build::object(names.into_iter().zip(values).collect())
            }
        };
        let rid = build::expr(Kind::Path {
            base: Box::new(build::expr(Kind::Identifier(root))),
            steps: vec![PathStep::Dot("_rid".to_owned())],
        });
        Some(RowParts {
            query,
            rid: Item {
                expr: rid,
                alias: None,
                name_span: (0, 0),
            },
            payload,
            is_defined,
        })
    }

    /// Makes the payload that of a row of GROUP BY. A client drops a row without value itself.
    pub(super) fn of_groups(self) -> Self {
        let payload = object([
            ("groupByItems", group_by_items(&self.query)),
            ("payload", self.payload),
        ]);
        RowParts {
            payload,
            is_defined: None,
            ..self
        }
    }

    /// Makes the query whose rows have resource id, sort values and payload. Its filter contains
    /// the placeholder for the filter with which a client resumes.
    pub(super) fn into_ordered_query(self) -> Query {
        let mut query = self.query;
        let keys = match &query.order_by {
            Some(order) => order.keys.iter().map(|key| as_item(&key.expr)).collect(),
            None => Vec::new(),
        };
        query.projection = Projection::List(vec![
            self.rid,
            build::aliased(build::array(keys), "orderByItems"),
            build::aliased(self.payload, "payload"),
        ]);
        let placeholder = build::expr(Kind::FilterPlaceholder);
        query.filter = conjunction([query.filter.take(), Some(placeholder), self.is_defined]);
        query
    }

    /// Makes the query whose rows have resource id, payload and scores.
    pub(super) fn into_scored_query(self, scores: Expr) -> Query {
        let mut query = self.query;
        query.projection = Projection::List(vec![
            self.rid,
            build::aliased(self.payload, "payload"),
            build::aliased(scores, "componentScores"),
        ]);
        query.filter = conjunction([query.filter.take(), None, self.is_defined]);
        query
    }
}

/// Makes `{item: expr}`. Clients read an object without `item` as undefined.
fn as_item(expr: &Expr) -> Expr {
    object([("item", expr.clone())])
}

fn object<const N: usize>(members: [(&str, Expr); N]) -> Expr {
    let members = members.map(|(name, expr)| (name.to_owned(), expr));
    build::object(members.into())
}

pub(super) fn conjunction(parts: [Option<Expr>; 3]) -> Option<Expr> {
    let mut parts = parts.into_iter().flatten();
    let first = parts.next()?;
    let rest: Vec<(BinaryOp, Expr)> = parts.map(|part| (BinaryOp::And, part)).collect();
    if rest.is_empty() {
        return Some(first);
    }
    let first = Box::new(first);
    Some(build::expr(Kind::Chain { first, rest }))
}

/// Returns the name that the last source introduces.
fn last_alias(from: &[Source]) -> Option<String> {
    let source = from.last()?;
    let implicit = match &source.collection {
        Collection::Path { root, steps, .. } if steps.is_empty() => Some(root.clone()),
        Collection::Path { steps, .. } => match steps.last() {
            Some(PathStep::Dot(name)) => Some(name.clone()),
            _ => None,
        },
        Collection::Subquery(_) => None,
    };
    source.alias.clone().or(implicit)
}

/// Returns the name of the item, whose resource id every rewritten row contains. In
/// `FROM t IN c.tags` the item has no name; the clause becomes `FROM _root JOIN t IN _root.tags`.
/// Returns `None` for a subquery that gives anything but whole items.
fn name_root(query: &mut Query) -> Option<String> {
    let alias = last_alias(query.from.get(..1)?)?;
    let first = query.from.first_mut()?;
    let (root, steps) = match &mut first.collection {
        Collection::Path { root, steps, .. } => (root, steps),
        Collection::Subquery(inner) if !first.iterate && returns_items(inner) => {
            return Some(alias);
        }
        Collection::Subquery(_) => return None,
    };
    if steps.is_empty() && !first.iterate {
        return Some(alias);
    }
    *root = ROOT.to_owned();
    first.alias = Some(alias);
    let container = Source {
        collection: Collection::Path {
            root: ROOT.to_owned(),
            root_span: (0, 0),
            steps: Vec::new(),
        },
        alias: None,
        name_span: (0, 0),
        iterate: false,
        collection_span: (0, 0),
        span: (0, 0),
    };
    query.from.insert(0, container);
    Some(ROOT.to_owned())
}

/// Returns true if each row of a query is a whole item of the container.
pub(super) fn returns_items(query: &Query) -> bool {
    let [source] = query.from.as_slice() else {
        return false;
    };
    let name = last_alias(&query.from);
    let selects_source = match &query.projection {
        Projection::All(_) => true,
        Projection::Value(expr) => {
            matches!(&expr.kind, Kind::Identifier(selected) if Some(selected) == name.as_ref())
        }
        Projection::List(_) => false,
    };
    let is_source_of_items = match &source.collection {
        Collection::Path { steps, .. } => steps.is_empty(),
        Collection::Subquery(inner) => returns_items(inner),
    };
    query.group_by.is_empty() && !source.iterate && selects_source && is_source_of_items
}
