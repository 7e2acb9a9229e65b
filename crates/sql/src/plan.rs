//! The plan for clients that run a query on every partition themselves and merge.
//!
//! A client asks for the plan, sends the *rewritten query* to each range and merges what comes back; the other fields
//! tell it how. What is pinned to one logical partition and needs no merging is sent as it is.
//!
//! ```text
//! ORDER BY       rows {_rid, orderByItems: [{item}, ..], payload}
//! aggregates     rows [{item: ..}], AVG as {sum, count}, MIN and MAX with item2 {min | max, count}
//! GROUP BY       rows {groupByItems: [{item}, ..], payload}
//! OFFSET LIMIT   OFFSET 0 LIMIT offset + limit
//! DISTINCT       as it is: the client drops what it has seen, in order or with a set
//! VectorDistance as ORDER BY, but the client gathers everything before it sorts
//! RANK           several queries, see `rank`
//! ```
//!
//! Left out: the ranges to ask. The engine adds them, since it knows the partition key's place.

mod features;
mod rank;
mod rewrite;

pub(crate) use rank::statistics_query;

use crate::bind::{contains, is_aggregate, item_names};
use crate::condition::{Condition, Path, Test};
use crate::error::QueryError;
use crate::functions::{self, AggregateKind};
use crate::query::Query;
use crate::seams::Environment;
use crate::syntax::ast::{self, Collection, Kind, Projection};
use crate::syntax::{parse, print};
use features::Features;
use orrery_model::json::{Json, Object};
use orrery_model::object;
use rewrite::Carried;
use std::collections::HashMap;

/// What a client needs to run a query on all partitions.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// What it is told.
    pub info: PlanInfo,
    /// The query as it was compiled; its condition gives the ranges.
    pub condition: Condition,
}

/// A member of a plan's answer, all its own members present.
#[derive(Clone, Debug)]
pub enum PlanInfo {
    /// `queryInfo`
    Query(Object),
    /// `hybridSearchQueryInfo`, for ORDER BY RANK.
    HybridSearch(Object),
}

/// Plans a query for a client that understands `supported_features`, a list with commas; an empty list is not checked.
///
/// # Errors
/// Those of [`Query::compile`], and [`QueryError::Plan`] for a query that cannot be split over partitions or needs what
/// the client does not support.
pub fn client_plan(
    text: &str,
    parameters: &[(String, Json)],
    environment: &Environment,
    supported_features: &str,
) -> Result<ClientPlan, QueryError> {
    let query = Query::compile(text, parameters, environment)?;
    let tree = parse(text)?;
    let named: HashMap<&str, &Json> = parameters
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let string = |name: &str| {
        let value = named
            .get(name)
            .or_else(|| named.get(name.trim_start_matches('@')));
        value.and_then(|value| value.as_str()).map(str::to_owned)
    };
    if let Some(ranking) = &query.ranking {
        let info = PlanInfo::HybridSearch(rank::plan(
            &tree,
            &query,
            ranking,
            &string,
            supported_features,
        )?);
        return Ok(ClientPlan {
            info,
            condition: query.condition().clone(),
        });
    }
    let mut plan = Plan::new(&tree, &query);
    let pinned = is_pinned(query.condition(), &environment.partition_key);
    let merges =
        query.block.grouping.is_some() || query.block.distinct || query.has_blocking_subquery();
    if !pinned || merges {
        plan.merge(&string)?;
    }
    plan.features.check(supported_features)?;
    plan.check_rewritten()?;
    Ok(ClientPlan {
        info: PlanInfo::Query(plan.into_query_info()),
        condition: query.condition().clone(),
    })
}

/// The query in the form in which plans print it: clauses on lines of their own, every operator in parentheses.
///
/// # Errors
/// [`QueryError::Compile`] if it is no query; names and functions are not looked at.
pub fn formatted(text: &str) -> Result<String, QueryError> {
    parse(text).map(|tree| print::query(&tree))
}

/// Whether the condition fixes every part of the partition key.
fn is_pinned(condition: &Condition, partition_key: &[Path]) -> bool {
    let fixes = |c: &Condition, wanted: &Path| matches!(c, Condition::Term { path, test: Test::Equals(_), .. } if path == wanted);
    let fixed = |wanted: &Path| match condition {
        Condition::And(parts) => parts.iter().any(|c| fixes(c, wanted)),
        one => fixes(one, wanted),
    };
    !partition_key.is_empty() && partition_key.iter().all(fixed)
}

/// Names of aggregates as plans have them.
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

struct Plan<'q> {
    tree: &'q ast::Query,
    query: &'q Query,
    features: Features,
    distinct: &'static str,
    top: Option<u64>,
    offset: Option<u64>,
    limit: Option<u64>,
    order_by: Vec<Json>,
    order_by_expressions: Vec<Json>,
    group_by: Vec<Json>,
    aliases: Vec<Json>,
    aggregates: Vec<Json>,
    aggregate_of: Object,
    dcount: Option<String>,
    non_streaming: bool,
    rewritten: Option<ast::Query>,
}

impl<'q> Plan<'q> {
    fn new(tree: &'q ast::Query, query: &'q Query) -> Self {
        Plan {
            tree,
            query,
            features: Features::default(),
            distinct: "None",
            top: None,
            offset: None,
            limit: None,
            order_by: Vec::new(),
            order_by_expressions: Vec::new(),
            group_by: Vec::new(),
            aliases: Vec::new(),
            aggregates: Vec::new(),
            aggregate_of: Object::new(),
            dcount: None,
            non_streaming: false,
            rewritten: None,
        }
    }

    /// Fills in everything for a query whose rows must be merged.
    fn merge(&mut self, parameter: &dyn Fn(&str) -> Option<String>) -> Result<(), QueryError> {
        self.cuts();
        if self.query.has_blocking_subquery() {
            return self.count_distinct(parameter);
        }
        if self.query.block.grouping.is_some() {
            self.grouped(parameter)?;
        } else if !self.query.order.is_empty() {
            self.ordered(parameter)?;
        }
        self.distinct();
        self.keep_or_drop_cuts();
        Ok(())
    }

    fn cuts(&mut self) {
        self.top = self.query.top();
        self.offset = self.query.offset();
        self.limit = self.query.limit();
        self.features.need("Top", self.top.is_some());
        self.features.need("OffsetAndLimit", self.offset.is_some());
    }

    /// TOP and OFFSET LIMIT of the rewritten query: what each range must give at most.
    fn keep_or_drop_cuts(&mut self) {
        // After merging there may be fewer rows than before: such cuts are the client's alone.
        let shrinks = self.query.block.grouping.is_some() || self.tree.distinct;
        // A count has 32 bits; no range has more rows.
        let sum = self
            .offset
            .zip(self.limit)
            .map(|(offset, limit)| (offset + limit).min(u64::from(u32::MAX)));
        if shrinks && (self.top.is_some() || sum.is_some()) {
            let rewritten = self.rewritten();
            rewritten.top = None;
            rewritten.offset_limit = None;
        } else if let Some(sum) = sum {
            let rewritten = self.rewritten();
            rewritten.top = None;
            rewritten.offset_limit = Some(rewrite::offset_limit(0, sum));
        }
    }

    /// Clients send back what they are given: it must be within the limits of a query.
    fn check_rewritten(&self) -> Result<(), QueryError> {
        let Some(rewritten) = &self.rewritten else {
            return Ok(());
        };
        parse(&print::query(rewritten)).map(|_| ()).map_err(|_| {
            let message = "The query is too long or nested too deeply to be rewritten for several partitions.";
            QueryError::Plan(message.into())
        })
    }

    /// The query to rewrite; a copy from the first change on.
    fn rewritten(&mut self) -> &mut ast::Query {
        self.rewritten.get_or_insert_with(|| self.tree.clone())
    }

    fn distinct(&mut self) {
        if !self.tree.distinct {
            return;
        }
        self.features.need("Distinct", true);
        self.distinct = if self.query.is_blocking() || self.query.order.is_empty() {
            "Unordered"
        } else {
            "Ordered"
        };
        // Rows wrapped for merging are all different: it is their payload that the client compares.
        if !self.query.order.is_empty() || self.query.block.grouping.is_some() {
            self.rewritten().distinct = false;
        }
    }

    fn ordered(&mut self, parameter: &dyn Fn(&str) -> Option<String>) -> Result<(), QueryError> {
        let Some(order) = &self.tree.order_by else {
            return Ok(());
        };
        self.features.need("OrderBy", true);
        self.features.need("MultipleOrderBy", order.keys.len() > 1);
        let distance = self.query.order.first().and_then(|o| o.distance);
        self.non_streaming = distance.is_some();
        self.features
            .need("NonStreamingOrderBy", self.non_streaming);
        for key in &order.keys {
            // Nearest first, whatever the measure makes of that.
            let descending = distance.map_or(key.descending == Some(true), |d| d.is_similarity());
            self.order_by.push(Json::from(if descending {
                "Descending"
            } else {
                "Ascending"
            }));
            self.order_by_expressions
                .push(Json::from(print::expression(&key.expr)));
        }
        self.rewritten = Some(Carried::of(self.tree, parameter)?.in_order());
        Ok(())
    }

    fn grouped(&mut self, parameter: &dyn Fn(&str) -> Option<String>) -> Result<(), QueryError> {
        let has_keys = !self.tree.group_by.is_empty();
        self.features.need("GroupBy", has_keys);
        self.group_by = self
            .tree
            .group_by
            .iter()
            .map(|e| Json::from(print::expression(e)))
            .collect();
        let payload = match &self.tree.projection {
            Projection::All(_) => return Ok(()),
            Projection::Value(expr) => match self.aggregate(expr)? {
                Some((name, wrapper)) => {
                    self.features.need("Aggregate", true);
                    self.aggregates.push(Json::from(name));
                    rewrite::array(vec![wrapper])
                }
                None => expr.clone(),
            },
            Projection::List(items) => {
                let names = item_names(items, parameter);
                let mut members = Vec::with_capacity(items.len());
                let mut kinds = Vec::with_capacity(items.len());
                for (item, name) in items.iter().zip(names) {
                    let (kind, expr) = match self.aggregate(&item.expr)? {
                        Some((kind, wrapper)) => (Json::from(kind), wrapper),
                        None => (Json::Null, item.expr.clone()),
                    };
                    self.aliases.push(Json::from(name.as_str()));
                    kinds.push((name.clone(), kind));
                    members.push((name, expr));
                }
                self.aggregate_of = kinds.into_iter().collect();
                self.features.need("NonValueAggregate", !has_keys);
                self.features
                    .need("MultipleAggregates", !has_keys && items.len() > 1);
                rewrite::object(members)
            }
        };
        let is_value = matches!(self.tree.projection, Projection::Value(_));
        self.rewritten = Some(rewrite::grouped(self.tree, payload, is_value));
        Ok(())
    }

    /// The name and the wrapper of an expression that is an aggregate; `None` if it has none in it.
    fn aggregate(
        &mut self,
        expr: &ast::Expr,
    ) -> Result<Option<(&'static str, ast::Expr)>, QueryError> {
        if let Kind::Call {
            name,
            udf: false,
            arguments,
        } = &expr.kind
            && let (Some(kind), [argument]) = (functions::aggregate(name), arguments.as_slice())
        {
            self.features
                .need("CountIf", kind == AggregateKind::CountIf);
            let collects = matches!(kind, AggregateKind::MakeList | AggregateKind::MakeSet);
            self.features.need("ListAndSetAggregate", collects);
            let known = AGGREGATES
                .iter()
                .find(|(k, _)| *k == kind)
                .map_or("Count", |(_, name)| name);
            return Ok(Some((known, rewrite::aggregate(kind, name, argument))));
        }
        if contains(expr, &is_aggregate) {
            let message = "Compositions of aggregates and other expressions are not allowed.";
            return Err(QueryError::Plan(message.into()));
        }
        Ok(None)
    }

    /// `SELECT [VALUE] COUNT(1) FROM (SELECT DISTINCT ...)`: the client counts what is distinct.
    fn count_distinct(
        &mut self,
        parameter: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), QueryError> {
        let refused =
            || QueryError::Plan("Such a subquery in FROM is not served across partitions.".into());
        let (alias, expr) = match &self.tree.projection {
            Projection::Value(expr) => (String::new(), expr),
            Projection::List(items) => match items.as_slice() {
                [item] => (item_names(items, parameter).swap_remove(0), &item.expr),
                _ => return Err(refused()),
            },
            Projection::All(_) => return Err(refused()),
        };
        let counts = matches!(&expr.kind, Kind::Call { name, udf: false, arguments }
            if functions::aggregate(name) == Some(AggregateKind::Count)
                && matches!(arguments[0].kind, Kind::Constant(_)));
        let plain = self.tree.filter.is_none()
            && self.tree.group_by.is_empty()
            && self.tree.order_by.is_none();
        let inner = match self.tree.from.as_slice() {
            [
                ast::Source {
                    collection: Collection::Subquery(inner),
                    iterate: false,
                    ..
                },
            ] => inner,
            _ => return Err(refused()),
        };
        let inner_is_plain = inner.distinct
            && inner.group_by.is_empty()
            && !crate::bind::has_aggregate(&inner.projection)
            && !matches!(
                inner.from.first(),
                Some(ast::Source {
                    collection: Collection::Subquery(_),
                    ..
                })
            );
        if !counts || !plain || !inner_is_plain {
            return Err(refused());
        }
        self.features.need("DCount", true);
        self.features.need("Distinct", true);
        self.distinct = "Unordered";
        self.dcount = Some(alias);
        self.rewritten = Some(inner.as_ref().clone());
        Ok(())
    }

    fn into_query_info(self) -> Object {
        let count = |n: Option<u64>| n.map_or(Json::Null, Json::from);
        let dcount = self
            .dcount
            .map(|alias| Json::Object(object! { "dCountAlias" => alias }));
        object! {
            "distinctType" => self.distinct,
            "top" => count(self.top),
            "offset" => count(self.offset),
            "limit" => count(self.limit),
            "orderBy" => self.order_by,
            "orderByExpressions" => self.order_by_expressions,
            "groupByExpressions" => self.group_by,
            "groupByAliases" => self.aliases,
            "aggregates" => self.aggregates,
            "groupByAliasToAggregateType" => self.aggregate_of,
            "rewrittenQuery" => self.rewritten.map(|q| print::query(&q)).unwrap_or_default(),
            "hasSelectValue" => matches!(self.tree.projection, Projection::Value(_)),
            "dCountInfo" => dcount.unwrap_or(Json::Null),
            "hasNonStreamingOrderBy" => self.non_streaming,
        }
    }
}
