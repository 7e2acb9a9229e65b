//! A compiled query, and the properties of it that an engine asks for before the query runs.

use crate::bind::{self, BoundOrder, BoundQuery, Mapping};
use crate::bound::{Block, Expr, Input, Output, Ranking};
use crate::condition::{Condition, Demand, OrderKey};
use crate::derive::{conjunction, derive};
use crate::error::QueryError;
use crate::fingerprint;
use crate::hints;
use crate::indexed_score::IndexedScore;
use crate::rank_statistics::statistics_query;
use crate::resume_filter::ResumeFilter;
use crate::run::frame::{Context, Scope};
use crate::run::item::NeededProperties;
use crate::run::rank::pool_size;
use crate::run::write::ItemSlots;
use crate::seams::{Environment, ResumePoint};
use crate::syntax::{parse, print};
use crate::totals::{Total, totals_of};
use orrery_model::json::Json;

/// A compiled query. It can run any number of times, on any number of threads.
pub struct Query {
    pub(crate) block: Block,
    pub(crate) order: Vec<BoundOrder>,
    /// ORDER BY RANK.
    pub(crate) ranking: Option<Ranking>,
    /// The scores of `ranking`, if an index can compute all of them.
    ranked_scores: Vec<IndexedScore>,
    /// The mappings of the frames that a tuple consists of.
    frames: Vec<Mapping>,
    /// The aggregates, if the source may know all of them.
    pub(crate) totals: Vec<Total>,
    /// The text of the query for the statistics that the ranking needs.
    statistics_query: Option<String>,
    has_statistics: bool,
    /// Spatial functions compute in the plane; see [`Environment::is_planar`].
    pub(crate) is_planar: bool,
    /// The keys of `order`, for [`Query::order`].
    order_keys: Vec<OrderKey>,
    /// An aggregate is only a part of an expression of the outermost SELECT.
    composes_aggregates: bool,
    top: Option<u64>,
    limit: Option<u64>,
    has_offset: bool,
    /// The count of OFFSET; 0 if there is no OFFSET.
    pub(crate) offset: u64,
    /// The maximum number of rows after OFFSET, by TOP and LIMIT.
    pub(crate) max_rows: Option<u64>,
    pub(crate) reads_container: bool,
    condition: Condition,
    pub(crate) condition_is_exact: bool,
    demand: Demand,
    /// The properties of an item that the query reads.
    pub(crate) needed: NeededProperties,
    /// The properties of an item that the query reads if the item is known to pass the filters.
    pub(crate) needed_if_satisfied: NeededProperties,
    /// The frames of the output that hold the whole item.
    pub(crate) item_slots: ItemSlots,
    /// Every row is an item, and an item gives at most one row.
    pub(crate) passes_through: bool,
    /// The DISTINCT value is the only sort value, so equal rows are adjacent.
    is_distinct_in_order: bool,
    /// The hash of text and parameters.
    pub(crate) fingerprint: u64,
    /// The hash without the conditions on sort keys; see `fingerprint.rs`.
    pub(crate) order_fingerprint: u64,
    /// The filter of a client that resumes its own merge.
    resume_filter: Option<ResumeFilter>,
    udfs: Vec<String>,
}

impl Query {
    /// Parses and binds a query, and derives its index condition.
    ///
    /// # Errors
    /// [`QueryError::Compile`] with codes and character ranges, [`QueryError::Plan`],
    /// [`QueryError::OrderBy`], [`QueryError::Unsupported`], and [`QueryError::Memory`] if the
    /// query refers to large parameters too often.
    pub fn compile(
        text: &str,
        parameters: &[(String, Json)],
        environment: &Environment,
    ) -> Result<Self, QueryError> {
        Self::compile_unexplained(text, parameters, environment)
            .map_err(|error| hints::explained(error, text, parameters, environment))
    }

    /// Compiles a query; errors have no hints.
    fn compile_unexplained(
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
        if query.has_groups_of_only_path()
            && let Some(grouping) = &mut query.block.grouping
            && grouping.order.is_empty()
        {
            grouping
                .order
                .push((Expr::GroupKey { up: 0, index: 0 }, false));
        }
        query.composes_aggregates = bind::composes_aggregates(&tree.projection);
        if let Some(ranking) = &query.ranking {
            let scores_texts = ranking.components.iter().any(|c| c.text_index.is_some());
            if scores_texts {
                query.statistics_query = statistics_query(&tree).map(|tree| print::query(&tree));
            }
        }
        query.find_ranked_scores();
        Ok(query)
    }

    fn new(bound: BoundQuery, fingerprint: u64) -> Self {
        let BoundQuery {
            block,
            order,
            ranking,
            top,
            offset,
            limit,
            reads_container,
            frames,
            udfs,
        } = bound;
        let (condition, condition_is_exact) = if reads_container {
            condition_of(&block, &frames)
        } else {
            (Condition::All, true)
        };
        let passes_through = returns_whole_items(&block);
        let item_slots = ItemSlots::of(&block, &frames);
        // An item that is known to fulfil an exact condition has passed the filters: the properties
        // that only filters read need not be parsed.
        let mut sort_values: Vec<&Expr> = order.iter().map(|o| &o.expr).collect();
        if let Some(ranking) = &ranking {
            sort_values.extend(ranking.components.iter().map(|c| &c.score));
        }
        let needed = needed_properties(&block, &sort_values, true, passes_through);
        let needed_if_satisfied = needed_properties(&block, &sort_values, false, passes_through);
        let reads_nothing_of_items =
            needed_if_satisfied.is_empty() && !passes_through && sort_values.is_empty();
        let demand = if !reads_container {
            Demand::Nothing
        } else if condition_is_exact && reads_nothing_of_items {
            Demand::Count
        } else {
            Demand::Items
        };
        let totals = totals_of(&block, &frames);
        let max_rows = match (top, limit) {
            (Some(top), Some(limit)) => Some(top.min(limit)),
            (top, limit) => top.or(limit),
        };
        Query {
            is_distinct_in_order: is_distinct_in_order(&block, &order, &frames),
            order_keys: order.iter().map(|o| o.key.clone()).collect(),
            composes_aggregates: false,
            has_offset: offset.is_some(),
            offset: offset.unwrap_or(0),
            block,
            order,
            ranking,
            ranked_scores: Vec::new(),
            totals,
            frames,
            statistics_query: None,
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
            item_slots,
            passes_through,
            fingerprint,
            order_fingerprint: fingerprint,
            resume_filter: None,
            udfs,
        }
    }

    /// Returns the text of a query whose only row, computed over the *whole container* with the
    /// same parameters, [`Query::with_statistics`] needs. `None` if the query needs no statistics.
    pub fn statistics_query(&self) -> Option<&str> {
        self.statistics_query.as_deref()
    }

    /// Returns true if the query has a [`Query::statistics_query`] whose row it has not received.
    pub(crate) fn lacks_statistics(&self) -> bool {
        self.statistics_query.is_some() && !self.has_statistics
    }

    /// Adds the row of [`Query::statistics_query`] to the query. A query that has a statistics
    /// query does not run without this call.
    pub fn with_statistics(mut self, row: &Json) -> Self {
        self.has_statistics = true;
        let texts = row
            .get("fullTextStatistics")
            .and_then(Json::as_array)
            .unwrap_or_default();
        let Some(ranking) = &mut self.ranking else {
            return self;
        };
        for component in &mut ranking.components {
            let (Some(text_index), Expr::Call { arguments, .. }) =
                (component.text_index, &mut component.score)
            else {
                continue;
            };
            // The binder made the first three arguments: language, text and terms.
            let mut complete = std::mem::take(arguments).into_vec();
            complete.truncate(3);
            let text = texts.get(text_index);
            complete.push(member_constant(Some(row), "documentCount"));
            complete.push(member_constant(text, "totalWordCount"));
            complete.push(member_constant(text, "hitCounts"));
            *arguments = complete.into();
        }
        self.find_ranked_scores();
        self
    }

    /// Adds a client's resume filter: the query returns only the rows that the client still needs.
    ///
    /// # Errors
    /// [`QueryError::Resume`] if the number of values in the filter is not the number of ORDER BY
    /// keys, or if the query has GROUP BY.
    pub fn with_resume_filter(mut self, filter: ResumeFilter) -> Result<Self, QueryError> {
        if self.has_group_by() {
            let message = "A resume filter is not supported with GROUP BY.";
            return Err(QueryError::Resume(message.into()));
        }
        if filter.value_count() != self.order.len() || self.order.is_empty() {
            let message = "The resume filter does not have as many values as ORDER BY has keys.";
            return Err(QueryError::Resume(message.into()));
        }
        // The filter is evaluated on parsed items, also where rows are the items' own texts.
        if self.passes_through {
            self.passes_through = false;
            self.needed.require_all();
            self.needed_if_satisfied.require_all();
        }
        self.needed.add_property("_rid");
        self.needed_if_satisfied.add_property("_rid");
        self.resume_filter = Some(filter);
        Ok(self)
    }

    /// Returns true if the row of a tuple passes the client's resume filter, or if there is no
    /// filter.
    pub(crate) fn passes_resume_filter(
        &self,
        cx: &mut Context<'_>,
        tuple: &Scope<'_>,
    ) -> Result<bool, QueryError> {
        let Some(filter) = &self.resume_filter else {
            return Ok(true);
        };
        let item = tuple.value(self.block.sources.len());
        filter.admits(&self.order, cx, tuple, item)
    }

    /// Returns the index condition: a condition that every item that gives a row fulfils.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Returns true if every item that fulfils the condition also passes WHERE.
    pub fn condition_is_exact(&self) -> bool {
        self.condition_is_exact
    }

    /// Returns the keys of ORDER BY; empty if there is no ORDER BY.
    pub fn order(&self) -> &[OrderKey] {
        &self.order_keys
    }

    /// Returns the score by which ORDER BY orders, if an index can compute it.
    pub fn order_score(&self) -> Option<&IndexedScore> {
        match self.order.as_slice() {
            [key] => key.score.as_ref(),
            _ => None,
        }
    }

    /// Returns the scores of ORDER BY RANK, and the number of the best rows of each that decide the
    /// result. Returns `None` if all rows decide the result, if an index cannot compute a score, or
    /// if the scores need statistics that the query has not received.
    pub fn ranked_scores(&self) -> Option<(&[IndexedScore], u64)> {
        let rows = pool_size(self.rows_needed()?);
        let scores = self.ranked_scores.as_slice();
        (!scores.is_empty()).then_some((scores, rows))
    }

    /// Finds the scores for [`Query::ranked_scores`].
    fn find_ranked_scores(&mut self) {
        self.ranked_scores.clear();
        let Some(ranking) = &self.ranking else {
            return;
        };
        let is_item = self.block.sources.is_empty();
        for component in &ranking.components {
            let path_of = |expr: &Expr| match bind::mapping_of(expr, &self.frames) {
                Mapping::Path(path) => path.exact(),
                _ => None,
            };
            let score = IndexedScore::of(&component.score, path_of);
            match score.filter(|_| is_item && !component.is_reversed) {
                Some(score) => self.ranked_scores.push(score),
                None => return self.ranked_scores.clear(),
            }
        }
    }

    /// Returns the part of each item that the query reads.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Returns the count of TOP.
    pub fn top(&self) -> Option<u64> {
        self.top
    }

    /// Returns the count of OFFSET.
    pub fn offset(&self) -> Option<u64> {
        self.has_offset.then_some(self.offset)
    }

    /// Returns the count of LIMIT.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Returns the maximum number of rows, in order, that the query needs, those skipped by OFFSET
    /// included; `None` if there is no maximum.
    pub fn rows_needed(&self) -> Option<u64> {
        self.max_rows.map(|rows| rows.saturating_add(self.offset))
    }

    /// Returns true if the outermost SELECT has aggregates, with or without GROUP BY.
    pub fn is_aggregate(&self) -> bool {
        self.block
            .grouping
            .as_ref()
            .is_some_and(|g| !g.aggregates.is_empty())
    }

    /// Returns true if the outermost SELECT has DISTINCT.
    pub fn is_distinct(&self) -> bool {
        self.block.distinct
    }

    /// Returns true if the outermost SELECT has GROUP BY.
    pub fn has_group_by(&self) -> bool {
        self.block
            .grouping
            .as_ref()
            .is_some_and(|g| !g.keys.is_empty())
    }

    /// Returns true if FROM has a subquery that must read all items before its first row, as in
    /// `FROM (SELECT DISTINCT ...)`.
    pub fn has_blocking_subquery(&self) -> bool {
        self.reads_container && self.block.blocking_subquery().is_some()
    }

    /// Returns true if the query must read all candidates before its first row, whatever the order
    /// of the candidates. An ORDER BY over a source that is not in order must do so as well, but is
    /// not counted here.
    pub fn is_blocking(&self) -> bool {
        self.block.grouping.is_some()
            || self.ranking.is_some()
            || self.has_blocking_subquery()
            || (self.block.distinct && !self.is_distinct_in_order)
    }

    /// Returns true if the result over several partitions is not the concatenation of the results
    /// of each partition.
    pub fn needs_merging(&self) -> bool {
        !self.order.is_empty()
            || self.max_rows.is_some()
            || self.has_offset
            || self.block.distinct
            || self.is_blocking()
    }

    /// Checks that the query can run over several partitions: each aggregate must be a whole item
    /// of the outermost SELECT.
    ///
    /// # Errors
    /// [`QueryError::Plan`] in the service's words.
    pub fn check_mergeable(&self) -> Result<(), QueryError> {
        if self.composes_aggregates {
            return Err(QueryError::composed_aggregates());
        }
        Ok(())
    }

    /// Returns the resume point at a position of the source. Valid only for a query that needs no
    /// merging, because such a query has no other state.
    pub fn resume_at(&self, position: Vec<u8>) -> ResumePoint {
        ResumePoint {
            position,
            query_hash: self.fingerprint,
            ..ResumePoint::default()
        }
    }

    /// Returns the names of the user-defined functions that the query calls, each once.
    pub fn udfs(&self) -> &[String] {
        &self.udfs
    }
}

/// Makes a constant of a member of an object; undefined if there is no such member.
fn member_constant(object: Option<&Json>, name: &str) -> Expr {
    Expr::Constant(object.and_then(|object| object.get(name)).cloned())
}

/// Returns true for `SELECT * FROM c` and equivalent blocks, whose rows are the texts of items.
fn returns_whole_items(block: &Block) -> bool {
    let selects_item = matches!(&block.output, Output::Value(Expr::Slot(0)));
    block.reads_container
        && selects_item
        && block.sources.is_empty()
        && block.grouping.is_none()
        && !block.distinct
}

/// Derives the condition of a block and of the chain of FROM subqueries down to the one that reads
/// the container. Returns the condition and whether it is exact.
fn condition_of(block: &Block, frames: &[Mapping]) -> (Condition, bool) {
    let own = derive(&block.filters, frames, 1);
    let Some(Input::Subquery(inner)) = block.sources.first().map(|s| &s.input) else {
        return own;
    };
    if !inner.reads_container {
        return own;
    }
    let (inner_condition, _) = condition_of(inner, &bind::frames_of(inner, &[Mapping::root()]));
    // The outer filters of a blocking subquery apply to groups or distinct values, not to items.
    if block.blocking_subquery().is_some() {
        return (inner_condition, false);
    }
    (conjunction(inner_condition, own.0), false)
}

/// Collects the properties of an item that a query reads, with or without those of its filters.
fn needed_properties(
    block: &Block,
    sort_values: &[&Expr],
    with_filters: bool,
    passes_through: bool,
) -> NeededProperties {
    let mut needed = NeededProperties::of_names(Vec::new());
    if !passes_through {
        needed.add_block(block, with_filters);
    } else if with_filters {
        // The output of such a query is the item's text: it needs no parsed property.
        for (sources, filter) in &block.filters {
            needed.add_expression(filter, 1 + sources);
        }
    }
    for expr in sort_values {
        needed.add_expression(expr, 1 + block.sources.len());
    }
    // A query that sorts builds its rows from parsed items, so a row that is the item needs all of
    // it.
    if passes_through && !sort_values.is_empty() {
        needed.require_all();
    }
    needed
}

/// Returns true if the only sort value is the value that DISTINCT compares, so that equal rows are
/// adjacent in the sorted result.
fn is_distinct_in_order(block: &Block, order: &[BoundOrder], frames: &[Mapping]) -> bool {
    let [key] = order else { return false };
    let output = match &block.output {
        Output::Value(value) => value,
        Output::Members(members) if members.len() == 1 => &members[0].1,
        Output::Members(_) => return false,
    };
    match (bind::mapping_of(output, frames), &key.key.path) {
        (Mapping::Path(path), Some(sorted)) => path.exact().as_ref() == Some(sorted),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_may_run_on_any_thread() {
        fn is_shareable<T: Send + Sync>(_: &T) {}
        let query = Query::compile("SELECT * FROM c", &[], &Environment::default());
        is_shareable(&query.expect("compiles"));
    }
}
