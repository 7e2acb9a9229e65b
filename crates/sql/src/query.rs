//! A compiled query: what an engine may ask of it before it runs.

use crate::bind::{self, Bound, BoundOrder, Mapping};
use crate::bound::{Block, Expr, Input, Output, Ranking};
use crate::condition::{Condition, Demand, OrderKey};
use crate::derive::derive;
use crate::error::QueryError;
use crate::fingerprint;
use crate::resume_filter::ResumeFilter;
use crate::run::item::NeededProperties;
use crate::seams::{Environment, ResumePoint};
use crate::syntax::parse;
use orrery_model::json::Json;

/// A query, ready to run any number of times, on any number of threads.
pub struct Query {
    pub(crate) block: Block,
    pub(crate) order: Vec<BoundOrder>,
    pub(crate) ranking: Option<Ranking>,
    /// What asks the statistics that the ranking needs.
    statistics: Option<String>,
    has_statistics: bool,
    pub(crate) is_planar: bool,
    keys: Vec<OrderKey>,
    top: Option<u64>,
    limit: Option<u64>,
    has_offset: bool,
    pub(crate) offset: u64,
    /// Rows after OFFSET at most.
    pub(crate) max_rows: Option<u64>,
    pub(crate) reads_container: bool,
    condition: Condition,
    pub(crate) condition_is_exact: bool,
    demand: Demand,
    /// What of an item is looked at, filters included.
    pub(crate) needed: NeededProperties,
    /// The same where the filters are known to hold.
    pub(crate) needed_if_satisfied: NeededProperties,
    /// A row is the item itself, and at most one an item.
    pub(crate) passes_through: bool,
    /// DISTINCT of exactly what the rows are ordered by.
    distinct_in_order: bool,
    /// Hash of text and parameters.
    pub(crate) fingerprint: u64,
    /// The same for all queries that differ in conditions on the sort keys alone.
    pub(crate) order_fingerprint: u64,
    /// A merging client's own place.
    pub(crate) filter: Option<ResumeFilter>,
    udfs: Vec<String>,
    selects_all: bool,
}

impl Query {
    /// Reads and binds a query.
    ///
    /// # Errors
    /// [`QueryError::Compile`] with codes and places, [`QueryError::Plan`], [`QueryError::OrderBy`],
    /// [`QueryError::Unsupported`].
    pub fn compile(
        text: &str,
        parameters: &[(String, Json)],
        environment: &Environment,
    ) -> Result<Self, QueryError> {
        let tree = parse(text)?;
        let bound = bind::bind(&tree, text, parameters, environment)?;
        let mut query = Self::new(bound, fingerprint::of_text(text, parameters));
        query.order_fingerprint =
            fingerprint::of_ordered_query(&tree, parameters).unwrap_or(query.fingerprint);
        query.is_planar = environment.is_planar;
        if query
            .ranking
            .as_ref()
            .is_some_and(|r| r.components.iter().any(|c| c.text_index.is_some()))
        {
            query.statistics = crate::plan::statistics_query(&tree);
        }
        Ok(query)
    }

    /// The query, with the same parameters, whose one row over the *whole container* the ranking of texts needs; `None`
    /// if nothing is needed. See [`Query::with_statistics`].
    pub fn statistics_query(&self) -> Option<&str> {
        self.statistics.as_deref()
    }

    /// Whether the statistics are still to be asked for.
    pub(crate) fn lacks_statistics(&self) -> bool {
        self.statistics.is_some() && !self.has_statistics
    }

    /// Completes a query that has a [`Query::statistics_query`] with the row that it gave. It does not run without.
    pub fn with_statistics(mut self, row: &Json) -> Self {
        self.has_statistics = true;
        let texts = row
            .get("fullTextStatistics")
            .and_then(Json::as_array)
            .unwrap_or_default();
        let member =
            |of: Option<&Json>, name: &str| Expr::Constant(of.and_then(|v| v.get(name)).cloned());
        for component in self.ranking.iter_mut().flat_map(|r| &mut r.components) {
            let (Some(text), Expr::Call { arguments, .. }) =
                (component.text_index, &mut component.score)
            else {
                continue;
            };
            let mut complete = std::mem::take(arguments).into_vec();
            complete.truncate(3);
            complete.push(member(Some(row), "documentCount"));
            complete.push(member(texts.get(text), "totalWordCount"));
            complete.push(member(texts.get(text), "hitCounts"));
            *arguments = complete.into();
        }
        self
    }

    fn new(bound: Bound, fingerprint: u64) -> Self {
        let Bound {
            block,
            order,
            ranking,
            top,
            offset,
            limit,
            reads_container,
            frames,
            udfs,
            selects_all,
        } = bound;
        let (condition, condition_is_exact) = if reads_container {
            condition_of(&block, &frames)
        } else {
            (Condition::All, true)
        };
        let many_rows = !block.sources.is_empty();
        let selects_item = matches!(&block.output, Output::Value(Expr::Slot(0)));
        let passes_through = reads_container
            && selects_item
            && !many_rows
            && block.grouping.is_none()
            && !block.distinct;
        let sorts: Vec<&Expr> = order
            .iter()
            .map(|o| &o.expr)
            .chain(scores(&ranking))
            .collect();
        let needed_if_satisfied = needed_properties(&block, &sorts, false, passes_through);
        let needed = needed_properties(&block, &sorts, true, passes_through);
        let counts = condition_is_exact
            && needed_if_satisfied.is_empty()
            && !passes_through
            && sorts.is_empty();
        let demand = match (reads_container, counts) {
            (false, _) => Demand::Nothing,
            (true, true) => Demand::Count,
            (true, false) => Demand::Items,
        };
        let max_rows = match (top, limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Query {
            distinct_in_order: is_distinct_in_order(&block, &order, &frames),
            keys: order.iter().map(|o| o.key.clone()).collect(),
            has_offset: offset.is_some(),
            offset: offset.unwrap_or(0),
            block,
            order,
            ranking,
            statistics: None,
            has_statistics: false,
            is_planar: false,
            top,
            limit,
            max_rows,
            reads_container,
            condition,
            condition_is_exact,
            demand,
            needed,
            needed_if_satisfied,
            passes_through,
            fingerprint,
            order_fingerprint: fingerprint,
            filter: None,
            udfs,
            selects_all,
        }
    }

    /// What every item that gives a row fulfils.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Whether the condition is all that WHERE asks: an item that fulfils it passes.
    pub fn condition_is_exact(&self) -> bool {
        self.condition_is_exact
    }

    /// The keys of ORDER BY; empty if there is none.
    pub fn order(&self) -> &[OrderKey] {
        &self.keys
    }

    /// How much of each item is looked at.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// The count of TOP.
    pub fn top(&self) -> Option<u64> {
        self.top
    }

    /// The count of OFFSET.
    pub fn offset(&self) -> Option<u64> {
        self.has_offset.then_some(self.offset)
    }

    /// The count of LIMIT.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// How many rows in order the query can need at most, the skipped ones included.
    pub fn rows_needed(&self) -> Option<u64> {
        self.max_rows.map(|rows| rows.saturating_add(self.offset))
    }

    /// Whether it aggregates, with or without GROUP BY, at its top level.
    pub fn is_aggregate(&self) -> bool {
        self.block
            .grouping
            .as_ref()
            .is_some_and(|g| !g.aggregates.is_empty())
    }

    /// Whether it has DISTINCT at its top level.
    pub fn is_distinct(&self) -> bool {
        self.block.distinct
    }

    /// Whether it has GROUP BY at its top level.
    pub fn has_group_by(&self) -> bool {
        self.block
            .grouping
            .as_ref()
            .is_some_and(|g| !g.keys.is_empty())
    }

    /// Whether it builds rows, rather than handing items through.
    pub fn has_projection(&self) -> bool {
        !self.selects_all
    }

    /// Whether it reads a FROM subquery that must see all items first (`FROM (SELECT DISTINCT ...)`).
    pub fn has_blocking_subquery(&self) -> bool {
        self.reads_container && self.block.blocking_subquery().is_some()
    }

    /// Whether a page can only be had by seeing all candidates, whatever order they come in. Unordered ORDER BY does
    /// so too.
    pub fn is_blocking(&self) -> bool {
        self.block.grouping.is_some()
            || self.ranking.is_some()
            || self.has_blocking_subquery()
            || (self.block.distinct && !self.distinct_in_order)
    }

    /// Whether its answer over several partitions is more than theirs one after the other.
    pub fn needs_merging(&self) -> bool {
        !self.order.is_empty()
            || self.max_rows.is_some()
            || self.has_offset
            || self.block.distinct
            || self.is_blocking()
    }

    /// The place at a position of the source, for a query that does not merge: it has nothing else to remember.
    pub fn resume_at(&self, position: Vec<u8>) -> ResumePoint {
        ResumePoint {
            position,
            query_hash: self.fingerprint,
            ..ResumePoint::default()
        }
    }

    /// The user-defined functions that it calls.
    pub fn udfs(&self) -> &[String] {
        &self.udfs
    }
}

/// The condition over a chain of FROM subqueries down to the one that reads the container.
fn condition_of(block: &Block, frames: &[Mapping]) -> (Condition, bool) {
    let own = derive(&block.filters, frames, 1);
    let Some(Input::Subquery(inner)) = block.sources.first().map(|s| &s.input) else {
        return own;
    };
    let mut inner_frames = vec![Mapping::root()];
    for source in &inner.sources {
        inner_frames.push(bind::of_source(source, &inner_frames));
    }
    if !inner.reads_container {
        return own;
    }
    let (below, _) = condition_of(inner, &inner_frames);
    // Beyond a barrier the outer filters speak of groups, not of items.
    if block.blocking_subquery().is_some() {
        return (below, false);
    }
    (crate::derive::both(below, own.0), false)
}

fn scores(ranking: &Option<Ranking>) -> impl Iterator<Item = &Expr> {
    ranking
        .iter()
        .flat_map(|r| r.components.iter().map(|c| &c.score))
}

fn needed_properties(
    block: &Block,
    sorts: &[&Expr],
    filters: bool,
    passes_through: bool,
) -> NeededProperties {
    let mut needed = NeededProperties::of_names(Vec::new());
    if passes_through {
        if filters {
            block
                .filters
                .iter()
                .for_each(|(bound, e)| needed.add_expression(e, 1 + bound));
        }
    } else {
        needed.add_block(block, filters);
    }
    sorts
        .iter()
        .for_each(|e| needed.add_expression(e, 1 + block.sources.len()));
    // Sorting a row that is the item needs the item.
    if passes_through && !sorts.is_empty() {
        needed.require_all();
    }
    needed
}

/// Whether equal rows come side by side because they are ordered by just what they are.
fn is_distinct_in_order(block: &Block, order: &[BoundOrder], frames: &[Mapping]) -> bool {
    let [key] = order else { return false };
    let output = match &block.output {
        Output::Value(e) => e,
        Output::Members(members) if members.len() == 1 => &members[0].1,
        Output::Members(_) => return false,
    };
    match (bind::mapping_of(output, frames), &key.key.path) {
        (Mapping::Path(rooted), Some(path)) => rooted.exact_path().as_ref() == Some(path),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_may_run_on_any_thread() {
        fn shared<T: Send + Sync>(_: &T) {}
        shared(&Query::compile("SELECT * FROM c", &[], &Environment::default()).expect("compiles"));
    }
}
