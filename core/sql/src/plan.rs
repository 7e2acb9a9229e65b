//! The plan for clients that run a query on every partition and merge the results themselves.
//!
//! A client asks for the plan, sends the *rewritten query* to each partition, and merges the rows
//! as the other members of the plan say. A query that is restricted to one logical partition and
//! needs no merging is not rewritten.
//!
//! ```text
//! ORDER BY       rows {_rid, orderByItems: [{item}, ..], payload}
//! aggregates     rows [{item: ..}], AVG as {sum, count}, MIN and MAX with item2 {min | max, count}
//! GROUP BY       rows {groupByItems: [{item}, ..], payload}
//!   with ORDER BY  the rows of ORDER BY, with such a row as payload
//! OFFSET LIMIT   OFFSET 0 LIMIT offset + limit
//! DISTINCT       unchanged: the client removes duplicates, adjacent ones or with a set
//! VectorDistance as ORDER BY, but the client reads all rows before it sorts
//! RANK           several queries, see `rank.rs`
//! ```
//!
//! Over a subquery in FROM, a client can sort whole items and count distinct rows. Any other merge
//! over a subquery is left to the server: the rewritten query is the original one with a mark, and
//! the client sends it to one partition only.
//!
//! Left out: the EPK ranges that the query must visit. The engine adds them, because it knows the
//! hash of the partition key.

mod features;
mod rank;
mod rewrite;

pub use features::MergeSupport;

use crate::bind::{contains, has_aggregate, is_aggregate, item_names};
use crate::condition::{Condition, Path, Test};
use crate::error::QueryError;
use crate::functions::{self, AggregateKind};
use crate::query::Query;
use crate::seams::Environment;
use crate::syntax::ast::{self, Collection, Expr, Kind, Projection};
use crate::syntax::{build, parse, print};
use features::RequiredFeatures;
use orrery_model::json::{Json, Object};
use orrery_model::object;
use rewrite::RowParts;

/// The plan of a query for a client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// The content of the response.
    pub info: PlanInfo,
    /// The condition of the original query, from which the engine computes the EPK ranges.
    pub condition: Condition,
    /// The client has to send the query to the first partition of the container only: no client can
    /// merge the rows, so the server answers the rewritten query as a whole (see
    /// [`is_merged_by_server`]), or the query has no FROM, and so one row.
    pub asks_first_partition_only: bool,
}

/// The member of the response that describes the merge, with all of its own members present.
#[derive(Clone, Debug)]
pub enum PlanInfo {
    /// `queryInfo`
    Query(Object),
    /// `hybridSearchQueryInfo`, for ORDER BY RANK.
    HybridSearch(Object),
}

/// A request for the plan of a query.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    /// The merges that the client can do.
    pub support: MergeSupport<'a>,
    /// The part of the container that the client asks.
    pub scope: PlanScope,
}

/// The part of the container that a client asks by a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanScope {
    /// The whole container, as far as the condition of the query reaches.
    Container,
    /// One logical partition.
    Key,
    /// The logical partitions of the first levels of a hierarchical partition key.
    KeyPrefix,
}

/// The internal function that marks a query whose merge is left to the server. It is true.
const SERVER_MERGES: &str = "_AllPartitions";

/// Makes the plan of a query.
///
/// # Errors
/// The errors of [`Query::compile`], [`QueryError::MissingFeatures`] if the client does not support
/// the merge, and [`QueryError::Plan`] for a query that cannot be split over partitions.
pub fn client_plan(
    text: &str,
    parameters: &[(String, Json)],
    environment: &Environment,
    request: &PlanRequest<'_>,
) -> Result<ClientPlan, QueryError> {
    let query = Query::compile(text, parameters, environment)?;
    let tree = parse(text)?;
    if let Some(ranking) = &query.ranking {
        let info = rank::plan(&tree, &query, ranking, request.support)?;
        return Ok(ClientPlan {
            info: PlanInfo::HybridSearch(info),
            condition: query.condition().clone(),
            asks_first_partition_only: false,
        });
    }
    // Within one logical partition the server sorts and counts the rows itself. Groups, aggregates
    // and distinct rows are merged by the client even there.
    let is_pinned = fixes_partition_key(query.condition(), &environment.partition_key);
    let merges_pages =
        query.block.grouping.is_some() || query.block.distinct || query.has_blocking_subquery();
    let scope = if is_pinned {
        PlanScope::Key
    } else {
        request.scope
    };
    let mut builder = PlanBuilder::new(&tree, &query, request.support, scope);
    if tree.from.is_empty() {
        // Without FROM there is one row, whichever partition is asked.
        builder.asks_first_partition_only = scope == PlanScope::Container;
    } else if !is_pinned || merges_pages {
        builder.add_merge()?;
    }
    builder.features.check(request.support)?;
    builder.check_rewritten()?;
    Ok(ClientPlan {
        asks_first_partition_only: builder.asks_first_partition_only,
        info: PlanInfo::Query(builder.into_query_info()),
        condition: query.condition().clone(),
    })
}

/// Returns true for the rewritten query of a plan that the server answers as a whole, see
/// [`ClientPlan::asks_first_partition_only`].
pub fn is_merged_by_server(text: &str) -> bool {
    // A text without the mark, which is nearly every text, is not parsed.
    if !text.contains(SERVER_MERGES) {
        return false;
    }
    let Ok(tree) = parse(text) else {
        return false;
    };
    let is_mark = |expr: &Expr| match &expr.kind {
        Kind::Call {
            name, udf: false, ..
        } => name == SERVER_MERGES,
        _ => false,
    };
    tree.filter
        .is_some_and(|filter| contains(&filter, &is_mark))
}

/// Prints a query as plans do: every clause on a line, every operator expression in parentheses.
///
/// # Errors
/// [`QueryError::Compile`] if the text cannot be parsed. Names and functions are not checked.
pub fn formatted(text: &str) -> Result<String, QueryError> {
    parse(text).map(|tree| print::query(&tree))
}

/// Returns true if the condition fixes the value at every path of the partition key.
fn fixes_partition_key(condition: &Condition, partition_key: &[Path]) -> bool {
    let conjuncts = match condition {
        Condition::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let is_fixed = |key_path: &Path| {
        conjuncts.iter().any(|conjunct| match conjunct {
            Condition::Term {
                path,
                test: Test::Equals(_),
                ..
            } => path == key_path,
            _ => false,
        })
    };
    !partition_key.is_empty() && partition_key.iter().all(is_fixed)
}

/// The names of aggregates in plans.
const AGGREGATES: &[(AggregateKind, &str)] = &[
    (AggregateKind::Count, "Count"),
    (AggregateKind::CountIf, "CountIf"),
    (AggregateKind::Sum, "Sum"),
    (AggregateKind::Average, "Average"),
    (AggregateKind::Min, "Min"),
    (AggregateKind::Max, "Max"),
    (AggregateKind::MakeList, "MakeList"),
    (AggregateKind::MakeSet, "MakeSet"),
];

/// The members of a `queryInfo` while they are collected.
struct PlanBuilder<'q> {
    tree: &'q ast::Query,
    query: &'q Query,
    support: MergeSupport<'q>,
    scope: PlanScope,
    features: RequiredFeatures,
    distinct_type: &'static str,
    top: Option<u64>,
    offset: Option<u64>,
    limit: Option<u64>,
    order_by: Vec<Json>,
    order_by_expressions: Vec<Json>,
    group_by_expressions: Vec<Json>,
    group_by_aliases: Vec<Json>,
    aggregates: Vec<Json>,
    alias_to_aggregate_type: Object,
    distinct_count_alias: Option<String>,
    has_non_streaming_order: bool,
    /// The rewritten query; `None` while it is the original query.
    rewritten: Option<ast::Query>,
    asks_first_partition_only: bool,
}

impl<'q> PlanBuilder<'q> {
    fn new(
        tree: &'q ast::Query,
        query: &'q Query,
        support: MergeSupport<'q>,
        scope: PlanScope,
    ) -> Self {
        PlanBuilder {
            tree,
            query,
            support,
            scope,
            features: RequiredFeatures::default(),
            distinct_type: "None",
            top: None,
            offset: None,
            limit: None,
            order_by: Vec::new(),
            order_by_expressions: Vec::new(),
            group_by_expressions: Vec::new(),
            group_by_aliases: Vec::new(),
            aggregates: Vec::new(),
            alias_to_aggregate_type: Object::new(),
            distinct_count_alias: None,
            has_non_streaming_order: false,
            rewritten: None,
            asks_first_partition_only: false,
        }
    }

    /// Adds all members that describe the merge of rows.
    fn add_merge(&mut self) -> Result<(), QueryError> {
        self.add_counts();
        // Each partition has the rows of a subquery of constants.
        let is_repeated = !self.query.reads_container || self.query.has_blocking_subquery();
        if is_repeated && merges_in_subquery(self.tree) {
            let counts = self.support.includes("DCount") && self.support.includes("Distinct");
            return match distinct_count(self.tree).filter(|_| counts) {
                Some((alias, inner)) => {
                    self.add_distinct_count(alias, inner);
                    Ok(())
                }
                None => self.leave_merge_to_server(),
            };
        }
        let is_ordered = self.tree.order_by.is_some();
        if is_ordered && !self.tree.group_by.is_empty() {
            // Clients keep groups with aggregates in the order in which they find them.
            let parts = RowParts::of(self.tree).filter(|_| !self.query.is_aggregate());
            let Some(parts) = parts else {
                return self.leave_merge_to_server();
            };
            self.add_grouping()?;
            self.add_order(parts.of_groups());
        } else if self.query.block.grouping.is_some() {
            self.add_grouping()?;
        } else if !self.query.order.is_empty() {
            let Some(parts) = RowParts::of(self.tree) else {
                return self.leave_merge_to_server();
            };
            self.add_order(parts);
        }
        self.add_distinct();
        self.rewrite_counts();
        Ok(())
    }

    /// Makes a plan without a merge for a query that no client can merge: the server answers the
    /// query as a whole.
    fn leave_merge_to_server(&mut self) -> Result<(), QueryError> {
        self.query.check_mergeable()?;
        // Nothing of the merge stays in the plan.
        *self = PlanBuilder::new(self.tree, self.query, self.support, self.scope);
        match self.scope {
            // The partition of the key has all rows.
            PlanScope::Key => {}
            PlanScope::Container => {
                let mark = build::call(SERVER_MERGES, Vec::new());
                let rewritten = self.rewritten();
                let filter = rewritten.filter.take();
                rewritten.filter = rewrite::conjunction([Some(mark), filter, None]);
                self.asks_first_partition_only = true;
            }
            PlanScope::KeyPrefix => {
                let message = "A query over such a subquery in FROM has no plan for a part of the \
                               partition key. Name the whole key, or none.";
                return Err(QueryError::Plan(message.into()));
            }
        }
        Ok(())
    }

    /// Adds the counts of TOP, OFFSET and LIMIT.
    fn add_counts(&mut self) {
        self.top = self.query.top();
        self.offset = self.query.offset();
        self.limit = self.query.limit();
        self.features.require_if(self.top.is_some(), "Top");
        self.features
            .require_if(self.offset.is_some(), "OffsetAndLimit");
    }

    /// Changes TOP and OFFSET LIMIT of the rewritten query to the number of rows that the client
    /// needs of each partition.
    fn rewrite_counts(&mut self) {
        // A merge of groups or distinct rows can reduce their number, so each partition must return
        // all.
        let merge_reduces_rows = self.query.block.grouping.is_some() || self.tree.distinct;
        // A count has 32 bits. No partition has more rows.
        let row_limit = match (self.offset, self.limit) {
            (Some(offset), Some(limit)) => Some((offset + limit).min(u64::from(u32::MAX))),
            _ => None,
        };
        if merge_reduces_rows && (self.top.is_some() || row_limit.is_some()) {
            let rewritten = self.rewritten();
            rewritten.top = None;
            rewritten.offset_limit = None;
        } else if let Some(row_limit) = row_limit {
            let rewritten = self.rewritten();
            rewritten.top = None;
            rewritten.offset_limit = Some(rewrite::offset_limit(0, row_limit));
        }
    }

    /// Checks that the rewritten query can be parsed: clients send it back as it is.
    fn check_rewritten(&self) -> Result<(), QueryError> {
        let Some(rewritten) = &self.rewritten else {
            return Ok(());
        };
        if parse(&print::query(rewritten)).is_err() {
            let message = "The query is too long or nested too deeply to be rewritten for several \
                           partitions.";
            return Err(QueryError::Plan(message.into()));
        }
        Ok(())
    }

    /// Returns the rewritten query, which begins as a copy of the original query.
    fn rewritten(&mut self) -> &mut ast::Query {
        self.rewritten.get_or_insert_with(|| self.tree.clone())
    }

    /// Adds DISTINCT.
    fn add_distinct(&mut self) {
        if !self.tree.distinct {
            return;
        }
        self.features.require_if(true, "Distinct");
        self.distinct_type = if self.query.is_blocking() || self.query.order.is_empty() {
            "Unordered"
        } else {
            "Ordered"
        };
        // Rows with a resource id or group keys all differ. The client compares their payloads.
        if !self.query.order.is_empty() || self.query.block.grouping.is_some() {
            self.rewritten().distinct = false;
        }
    }

    /// Adds ORDER BY.
    fn add_order(&mut self, parts: RowParts) {
        let Some(order) = &self.tree.order_by else {
            return;
        };
        let distance = self.query.order.first().and_then(|o| o.distance);
        self.has_non_streaming_order = distance.is_some();
        self.features.require_if(true, "OrderBy");
        self.features
            .require_if(order.keys.len() > 1, "MultipleOrderBy");
        self.features
            .require_if(self.has_non_streaming_order, "NonStreamingOrderBy");
        for key in &order.keys {
            // The nearest vectors come first: the largest similarity, or the smallest distance.
            let is_descending = match distance {
                Some(distance) => distance.is_similarity(),
                None => key.descending == Some(true),
            };
            let direction = if is_descending {
                "Descending"
            } else {
                "Ascending"
            };
            self.order_by.push(Json::from(direction));
            self.order_by_expressions
                .push(Json::from(print::expression(&key.expr)));
        }
        self.rewritten = Some(parts.into_ordered_query());
    }

    /// Adds GROUP BY and aggregates.
    fn add_grouping(&mut self) -> Result<(), QueryError> {
        let has_keys = !self.tree.group_by.is_empty();
        self.features.require_if(has_keys, "GroupBy");
        for key in &self.tree.group_by {
            let text = print::expression(key);
            self.group_by_expressions.push(Json::from(text));
        }
        let (payload, is_value) = match &self.tree.projection {
            Projection::All(_) => return Ok(()),
            Projection::Value(expr) => (self.value_payload(expr)?, true),
            Projection::List(items) => {
                let payload = self.list_payload(items)?;
                self.features.require_if(!has_keys, "NonValueAggregate");
                self.features
                    .require_if(!has_keys && items.len() > 1, "MultipleAggregates");
                (payload, false)
            }
        };
        let mut rewritten = rewrite::grouped(self.tree, payload, is_value);
        let finds_extreme = matches!(
            self.aggregates.first().and_then(Json::as_str),
            Some("Min" | "Max")
        );
        if self.support == MergeSupport::FirstClients && !has_keys && finds_extreme {
            rewritten = rewrite::without_undefined(rewritten);
        }
        self.rewritten = Some(rewritten);
        Ok(())
    }

    /// Makes the payload for SELECT VALUE in a grouped query.
    fn value_payload(&mut self, expr: &Expr) -> Result<Expr, QueryError> {
        match self.partial_aggregate(expr)? {
            Some((name, partial)) => {
                self.features.require_if(true, "Aggregate");
                self.aggregates.push(Json::from(name));
                Ok(build::array(vec![partial]))
            }
            None => Ok(expr.clone()),
        }
    }

    /// Makes the payload for a SELECT list in a grouped query.
    fn list_payload(&mut self, items: &[ast::Item]) -> Result<Expr, QueryError> {
        let mut members = Vec::with_capacity(items.len());
        let mut aggregate_types = Vec::with_capacity(items.len());
        for (item, name) in items.iter().zip(item_names(items)) {
            let (aggregate_type, expr) = match self.partial_aggregate(&item.expr)? {
                Some((aggregate_type, partial)) => (Json::from(aggregate_type), partial),
                None => (Json::Null, item.expr.clone()),
            };
            self.group_by_aliases.push(Json::from(name.as_str()));
            aggregate_types.push((name.clone(), aggregate_type));
            members.push((name, expr));
        }
        self.alias_to_aggregate_type = aggregate_types.into_iter().collect();
        Ok(build::object(members))
    }

    /// Returns the name of an aggregate and the expression that a partition computes for it; `None`
    /// if the expression contains no aggregate.
    ///
    /// # Errors
    /// [`QueryError::Plan`] if an aggregate is only a part of the expression.
    fn partial_aggregate(
        &mut self,
        expr: &Expr,
    ) -> Result<Option<(&'static str, Expr)>, QueryError> {
        if let Kind::Call {
            name,
            udf: false,
            arguments,
        } = &expr.kind
            && let (Some(kind), [argument]) = (functions::aggregate(name), arguments.as_slice())
        {
            let makes_list = matches!(kind, AggregateKind::MakeList | AggregateKind::MakeSet);
            self.features
                .require_if(kind == AggregateKind::CountIf, "CountIf");
            self.features.require_if(makes_list, "ListAndSetAggregate");
            let entry = AGGREGATES.iter().find(|(k, _)| *k == kind);
            let plan_name = entry.map_or("Count", |(_, plan_name)| plan_name);
            let is_for_first_clients = self.support == MergeSupport::FirstClients;
            let partial = rewrite::partial_aggregate(kind, name, argument, is_for_first_clients);
            return Ok(Some((plan_name, partial)));
        }
        if contains(expr, &is_aggregate) {
            return Err(QueryError::composed_aggregates());
        }
        Ok(None)
    }

    /// Adds `SELECT [VALUE] COUNT(1) FROM (SELECT DISTINCT ...)`: the client counts the distinct
    /// rows of the subquery.
    fn add_distinct_count(&mut self, alias: String, inner: &ast::Query) {
        self.features.require_if(true, "DCount");
        self.features.require_if(true, "Distinct");
        self.distinct_type = "Unordered";
        self.distinct_count_alias = Some(alias);
        self.rewritten = Some(inner.clone());
    }

    /// Makes the `queryInfo` of the plan.
    fn into_query_info(self) -> Object {
        let count = |n: Option<u64>| n.map_or(Json::Null, Json::from);
        let distinct_count = match self.distinct_count_alias {
            Some(alias) => Json::Object(object! { "dCountAlias" => alias }),
            None => Json::Null,
        };
        let rewritten = match &self.rewritten {
            Some(rewritten) => print::query(rewritten),
            None => String::new(),
        };
        object! {
            "distinctType" => self.distinct_type,
            "top" => count(self.top),
            "offset" => count(self.offset),
            "limit" => count(self.limit),
            "orderBy" => self.order_by,
            "orderByExpressions" => self.order_by_expressions,
            "groupByExpressions" => self.group_by_expressions,
            "groupByAliases" => self.group_by_aliases,
            "aggregates" => self.aggregates,
            "groupByAliasToAggregateType" => self.alias_to_aggregate_type,
            "rewrittenQuery" => rewritten,
            "hasSelectValue" => matches!(self.tree.projection, Projection::Value(_)),
            "dCountInfo" => distinct_count,
            "hasNonStreamingOrderBy" => self.has_non_streaming_order,
        }
    }
}

/// Recognizes `SELECT [VALUE] COUNT(1) FROM (SELECT DISTINCT ...)`. Returns the member name of the
/// count, which is empty for SELECT VALUE, and the subquery.
fn distinct_count(tree: &ast::Query) -> Option<(String, &ast::Query)> {
    let (alias, expr) = match &tree.projection {
        Projection::Value(expr) => (String::new(), expr),
        Projection::List(items) => match items.as_slice() {
            [item] => (item_names(items).swap_remove(0), &item.expr),
            _ => return None,
        },
        Projection::All(_) => return None,
    };
    // FROM must be one subquery that partitions can execute independently.
    let [
        ast::Source {
            collection: Collection::Subquery(inner),
            iterate: false,
            ..
        },
    ] = tree.from.as_slice()
    else {
        return None;
    };
    let has_no_other_clause =
        tree.filter.is_none() && tree.group_by.is_empty() && tree.order_by.is_none();
    let is_count = is_count_of_constant(expr) && has_no_other_clause && is_plain_distinct(inner);
    is_count.then_some((alias, inner.as_ref()))
}

/// Returns true if the rows of the first source of FROM, a subquery, are groups, or distinct rows
/// that two partitions may both have. Distinct whole items are in one partition each.
fn merges_in_subquery(query: &ast::Query) -> bool {
    let first_source = query.from.first().map(|source| &source.collection);
    let Some(Collection::Subquery(inner)) = first_source else {
        return false;
    };
    let is_grouped = !inner.group_by.is_empty() || has_aggregate(&inner.projection);
    let has_common_rows = inner.distinct && !rewrite::returns_items(inner);
    is_grouped || has_common_rows || merges_in_subquery(inner)
}

/// Returns true if an expression is COUNT of a constant, which counts rows.
fn is_count_of_constant(expr: &Expr) -> bool {
    let Kind::Call {
        name,
        udf: false,
        arguments,
    } = &expr.kind
    else {
        return false;
    };
    functions::aggregate(name) == Some(AggregateKind::Count)
        && matches!(arguments[0].kind, Kind::Constant(_))
}

/// Returns true for a SELECT DISTINCT without groups, aggregates and a subquery in FROM.
fn is_plain_distinct(query: &ast::Query) -> bool {
    let first_source = query.from.first().map(|source| &source.collection);
    query.distinct
        && query.group_by.is_empty()
        && !has_aggregate(&query.projection)
        && !matches!(first_source, Some(Collection::Subquery(_)))
}
