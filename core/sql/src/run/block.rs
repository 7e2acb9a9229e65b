//! Execution of one block, that is of one SELECT, for one chain of outer frames.
//!
//! ```text
//! sources ─▶ filters ─▶ tuples ─▶ groups, in order ─▶ output ─▶ distinct ─▶ values
//! ```
//!
//! Rows are pushed: each stage passes one row at a time to the next stage, and stops when the next
//! stage returns false. A *tuple* is one combination of the sources of FROM and JOIN, as a chain of
//! frames.

use super::eval::eval_object;
use super::frame::{Context, Scope};
use super::group_order::{self, GroupPosition};
use super::groups::{Group, Groups};
use crate::bound::{Block, Expr, Input, Output, Source};
use crate::error::QueryError;
use crate::value::{Value, digest, weight};
use orrery_model::json::Json;
use std::borrow::Cow;
use std::collections::HashSet;

/// The result of a push: true to go on with the next row, false to stop.
pub(crate) type Flow = Result<bool, QueryError>;

/// Takes one value of a subquery.
pub(crate) type ValueSink<'f> = dyn FnMut(&mut Context<'_>, Cow<'_, Json>) -> Flow + 'f;

/// Takes one tuple.
pub(crate) type TupleSink<'f> = dyn FnMut(&mut Context<'_>, &Scope<'_>) -> Flow + 'f;

/// Bytes of one digest in a set, with the overhead of the set.
const DIGEST_BYTES: usize = 24;

impl Block {
    /// Passes every value of the block to `sink` until it returns false.
    pub(crate) fn for_each_value(
        &self,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut ValueSink<'_>,
    ) -> Flow {
        let mut collector = Collector::new(self);
        let goes_on = self.for_each_tuple(true, cx, scope, &mut |cx, tuple| {
            collector.add_tuple(cx, tuple, sink)
        })?;
        if !goes_on {
            return Ok(false);
        }
        collector.finish(cx, scope, sink)
    }

    /// Passes every tuple that fulfils the filters to `sink`. With `checks_filters` false the
    /// filters are known to hold and are not evaluated.
    pub(crate) fn for_each_tuple(
        &self,
        checks_filters: bool,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        let filters = if checks_filters {
            &self.filters[..]
        } else {
            &[]
        };
        let sources = SourceLoops {
            block: self,
            filters,
        };
        sources.run(0, cx, scope, sink)
    }

    /// Passes every tuple to `sink` whose first source is `first`.
    pub(crate) fn for_each_tuple_of(
        &self,
        first: &Json,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        let Some(source) = self.sources.first() else {
            return Ok(true);
        };
        let sources = SourceLoops {
            block: self,
            filters: &self.filters,
        };
        sources.bind(0, source, first, cx, scope, sink)
    }
}

/// The nested loops over the sources of a block.
#[derive(Clone, Copy)]
struct SourceLoops<'q> {
    block: &'q Block,
    /// Conjuncts of WHERE, each with the number of sources that must be bound before it can be
    /// evaluated.
    filters: &'q [(usize, Expr)],
}

impl SourceLoops<'_> {
    /// Runs the loops over the sources that are not bound yet. `scope` holds the first `bound`.
    fn run(
        &self,
        bound: usize,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        // A filter runs as soon as its sources are bound, before the loops further in.
        for (_, filter) in self.filters.iter().filter(|(needed, _)| *needed == bound) {
            if !filter.is_true(cx, scope)? {
                return Ok(true);
            }
        }
        let Some(source) = self.block.sources.get(bound) else {
            return sink(cx, scope);
        };
        match &source.input {
            // The value is held while the loops further in run.
            Input::Expr(expr) => {
                let held_before = cx.held_bytes;
                let Some(value) = expr.eval(cx, scope)? else {
                    return Ok(true);
                };
                let value_bytes = cx.held_bytes.saturating_sub(held_before);
                let flow = self.bind(bound, source, &value, cx, scope, sink)?;
                cx.held_bytes = cx.held_bytes.saturating_sub(value_bytes);
                Ok(flow)
            }
            // One value of the subquery is held at a time.
            Input::Subquery(block) => block.for_each_value(cx, scope, &mut |cx, value| {
                let value_bytes = match &value {
                    Cow::Owned(value) => weight(value),
                    Cow::Borrowed(_) => 0,
                };
                cx.held_bytes = cx.held_bytes.saturating_add(value_bytes);
                cx.check_memory(cx.held_bytes)?;
                let flow = self.bind(bound, source, &value, cx, scope, sink)?;
                cx.held_bytes = cx.held_bytes.saturating_sub(value_bytes);
                Ok(flow)
            }),
        }
    }

    /// Binds a source to a value, or with IN to each element of an array, and runs the loops
    /// further in. A value that is no array has no elements.
    fn bind(
        &self,
        bound: usize,
        source: &Source,
        value: &Json,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        if !source.iterate {
            return self.run(bound + 1, cx, &scope.with_value(Some(value)), sink);
        }
        for element in value.as_array().unwrap_or_default() {
            cx.work.tuples += 1;
            cx.count_iteration()?;
            if !self.run(bound + 1, cx, &scope.with_value(Some(element)), sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Output {
    /// Evaluates the row as a value.
    pub(crate) fn eval<'s>(
        &'s self,
        cx: &mut Context<'_>,
        scope: &'s Scope<'s>,
    ) -> Result<Value<'s>, QueryError> {
        match self {
            Output::Value(expr) => expr.eval(cx, scope),
            Output::Members(members) => eval_object(members, cx, scope),
        }
    }
}

/// The stages between the tuples of a block and its values: groups, output and DISTINCT.
pub(crate) struct Collector<'q> {
    block: &'q Block,
    groups: Option<Groups>,
    /// Digests of the values so far, for DISTINCT.
    seen: Option<HashSet<u128>>,
    /// The position of an ordered group behind which the rows begin.
    after: Option<GroupPosition>,
    /// The position of the last ordered group whose row `sink` took.
    last: Option<GroupPosition>,
}

impl<'q> Collector<'q> {
    pub(crate) fn new(block: &'q Block) -> Self {
        Collector {
            block,
            groups: block.grouping.as_ref().map(Groups::new),
            seen: block.distinct.then(HashSet::new),
            after: None,
            last: None,
        }
    }

    /// Adds a tuple to its group. Without groups the tuple is a row and goes to `sink`.
    pub(crate) fn add_tuple(
        &mut self,
        cx: &mut Context<'_>,
        tuple: &Scope<'_>,
        sink: &mut ValueSink<'_>,
    ) -> Flow {
        let (Some(groups), Some(grouping)) = (&mut self.groups, &self.block.grouping) else {
            return self.emit(cx, tuple, sink);
        };
        let held_before = cx.held_bytes;
        groups.add(grouping, cx, tuple)?;
        cx.held_bytes = held_before;
        cx.check_collected(groups.memory())?;
        Ok(true)
    }

    /// Adds what each aggregate of a query without GROUP BY counts or sums over all tuples.
    pub(crate) fn add_totals(&mut self, totals: &[u64]) {
        if let Some(groups) = &mut self.groups {
            groups.add_totals(totals);
        }
    }

    /// Passes the rows of the groups to `sink`, after the last tuple.
    pub(crate) fn finish(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut ValueSink<'_>,
    ) -> Flow {
        let (Some(groups), Some(grouping)) = (self.groups.take(), &self.block.grouping) else {
            return Ok(true);
        };
        if grouping.order.is_empty() {
            for group in groups.finish() {
                if !self.emit_group(&group, cx, scope, sink)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let memory = groups.memory();
        let directions = group_order::directions(grouping);
        for (position, group) in
            group_order::in_order(grouping, groups.finish(), memory, cx, scope)?
        {
            let is_before = |after| position.compare(after, &directions).is_le();
            if self.after.as_ref().is_some_and(is_before) {
                continue;
            }
            if !self.emit_group(&group, cx, scope, sink)? {
                return Ok(false);
            }
            self.last = Some(position);
        }
        Ok(true)
    }

    /// Passes the row of a group to `sink`.
    fn emit_group(
        &mut self,
        group: &Group,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut ValueSink<'_>,
    ) -> Flow {
        self.emit(cx, &scope.with_group(&group.keys, &group.results), sink)
    }

    /// Returns true if the collector can begin behind a group: its groups are ordered, and DISTINCT
    /// does not need the rows before.
    pub(crate) fn has_positions(&self) -> bool {
        let grouping = self.block.grouping.as_ref();
        self.seen.is_none() && grouping.is_some_and(|grouping| !grouping.order.is_empty())
    }

    /// Returns the position behind the rows so far, for a continuation. Returns `None` where the
    /// next page must skip rows by their number.
    pub(crate) fn position(&self) -> Option<Vec<u8>> {
        self.last
            .as_ref()
            .filter(|_| self.has_positions())?
            .encode()
    }

    /// Returns true if rows begin behind a group of an earlier page.
    pub(crate) fn begins_behind_group(&self) -> bool {
        self.after.is_some()
    }

    /// Returns the partial aggregates of a query without GROUP BY, for a continuation. Returns
    /// `None` for other queries and for aggregates that have no short form.
    pub(crate) fn save(&self) -> Option<Vec<u8>> {
        let has_one_group = self.block.grouping.as_ref()?.keys.is_empty() && self.seen.is_none();
        if has_one_group {
            self.groups.as_ref()?.save()
        } else {
            None
        }
    }

    /// Continues from the position or from the partial aggregates of an earlier page. Returns
    /// `None` if the bytes belong to another query.
    pub(crate) fn restore(&mut self, saved: &[u8]) -> Option<()> {
        if self.has_positions() {
            let grouping = self.block.grouping.as_ref()?;
            self.after = Some(GroupPosition::decode(saved, grouping)?);
            return Some(());
        }
        self.groups.as_mut()?.restore(saved)
    }

    /// Evaluates the row of a scope and passes it to `sink`, unless DISTINCT drops it.
    fn emit(&mut self, cx: &mut Context<'_>, scope: &Scope<'_>, sink: &mut ValueSink<'_>) -> Flow {
        let held_before = cx.held_bytes;
        let Some(value) = self.block.output.eval(cx, scope)? else {
            return Ok(true);
        };
        // From here on the sink counts the value, if it keeps it.
        cx.held_bytes = held_before;
        if let Some(seen) = &mut self.seen {
            cx.count_value_read(&value)?;
            if !seen.insert(digest(Some(&value))) {
                return Ok(true);
            }
            cx.check_collected(seen.len() * DIGEST_BYTES)?;
        }
        sink(cx, value)
    }
}
