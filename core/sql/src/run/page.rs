//! One page of a query.
//!
//! A query runs in one of four ways:
//!
//! | way | for | a page ends |
//! |---|---|---|
//! | streamed | all other queries | at a position of the source, within or between items |
//! | blocking | groups, aggregates, unordered DISTINCT | after a number of rows |
//! | sorted | ORDER BY that the source does not serve | after sort values, or after some rows |
//! | ranked | ORDER BY RANK | after a number of rows |
//!
//! The last three ways read every candidate on each page and skip the rows of earlier pages.
//!
//! The clock is read between candidates and, where one candidate takes long, within it. A streamed
//! query then stops before the candidate, or before the row of it, that did not finish. An
//! aggregate without GROUP BY finishes the candidate if that is soon done, and keeps its partial
//! state. Every other query fails with [`QueryError::Timeout`].

use super::block::{Collector, Flow, TupleSink};
use super::frame::{Context, Scope};
use super::item;
use super::page_builder::{CandidateRows, PageBuilder, missing_text, row_digest};
use super::rank::RankPool;
use super::sort::{Keys, SortPosition, SortedRow, Sorter};
use super::stopwatch::Stopwatch;
use super::write;
use crate::bound::{Block, Ranking};
use crate::error::QueryError;
use crate::query::Query;
use crate::seams::{Bounds, Candidate, Functions, Page, ResumePoint, Source, Work};
use crate::value::{sort_value, weight};
use bytes::Bytes;
use orrery_model::json::Json;
use std::borrow::Cow;
use std::collections::HashSet;

/// Candidates between two readings of the clock.
const CLOCK_INTERVAL: u64 = 32;

/// Bytes of an item whose memory is not counted.
const SMALL_ITEM_BYTES: usize = 32 * 1024;

/// Iterations that the current item of an aggregate may still take after the time is over: some
/// tenths of a second.
const GRACE_ITERATIONS: u64 = 1 << 20;

impl Query {
    /// Runs one page of the query, from the beginning or from a resume point. The source must begin
    /// at the position of that resume point.
    ///
    /// # Errors
    /// - [`QueryError::Resume`] for the resume point of another query.
    /// - [`QueryError::NonFinite`], [`QueryError::Memory`], [`QueryError::Timeout`].
    /// - [`QueryError::Unsupported`] if the query needs [`Query::with_statistics`] and has none.
    /// - Every error of the source and of user-defined functions.
    pub fn run(
        &self,
        source: &mut dyn Source,
        functions: &mut dyn Functions,
        resume: Option<&ResumePoint>,
        bounds: &mut Bounds<'_>,
        work: &mut Work,
    ) -> Result<Page, QueryError> {
        if resume.is_some_and(|point| !self.accepts(point)) {
            return Err(QueryError::Resume(
                "The continuation belongs to another query.".into(),
            ));
        }
        if self.lacks_statistics() {
            let message = "ORDER BY RANK with FullTextScore is not supported here: it needs the \
                           whole container.";
            return Err(QueryError::Unsupported(message.into()));
        }
        functions.prepare(self.udfs());
        work.has_aggregate |= self.is_aggregate();

        let start = resume.cloned().unwrap_or_default();
        let mut page = PageBuilder::new(self, &start, bounds);
        let mut cx = Context::new(functions, work, &mut *bounds.is_expired, bounds.max_memory);
        if let Some(reserve) = &mut bounds.reserve {
            cx.reserve = Some(&mut **reserve);
        }
        if let Some(reserve) = &mut bounds.reserve_rows {
            page.reserve = Some(&mut **reserve);
        }
        cx.writes = Stopwatch::new(bounds.clock);
        cx.now_ms = bounds.now_ms;
        cx.started_ms = bounds.started_ms;
        // Each page has random numbers of its own.
        cx.random = bounds.random_seed ^ start.rows_returned;
        cx.is_planar = self.is_planar;
        if page.is_query_complete() {
            return Ok(page.finish(&mut cx, None));
        }

        // A source serves an order of paths, or of a score. An aggregate has one row, which needs
        // no order, and groups are sorted after their last tuple.
        let is_servable =
            self.order_score().is_some() || self.order.iter().all(|o| o.key.path.is_some());
        let is_served = source.is_ordered() && is_servable;
        let needs_sort = !self.order.is_empty() && self.block.grouping.is_none() && !is_served;
        if let Some(ranking) = &self.ranking {
            self.run_ranked(ranking, source, &mut cx, page)
        } else if needs_sort {
            self.run_sorted(source, &mut cx, page, &start)
        } else if self.is_blocking() {
            self.run_blocking(source, &mut cx, page, &start)
        } else if self.reads_container {
            self.run_streamed(source, &mut cx, page, &start)
        } else {
            self.run_without_container(&mut cx, page, &start)
        }
    }

    /// Returns true if a resume point is one of this query. If the point holds more than a count of
    /// rows, the conditions on the sort keys may have changed.
    fn accepts(&self, resume: &ResumePoint) -> bool {
        let has_position = !resume.position.is_empty() || !resume.state.is_empty();
        resume.query_hash == self.fingerprint
            || (has_position && resume.query_hash == self.order_fingerprint)
    }

    /// Returns a resume point that needs less room in a token: where the point names the last row
    /// by its sort values, the next page skips rows by their number instead.
    pub fn shortened(&self, resume: &ResumePoint) -> ResumePoint {
        let mut short = resume.clone();
        if self.block.grouping.is_some() {
            if Collector::new(&self.block).has_positions() {
                short.state.clear();
            }
        } else if let Some(fingerprint) = SortPosition::query_of(&resume.state) {
            short.query_hash = fingerprint;
            short.state.clear();
        }
        short
    }

    /// Runs a query whose rows come from constants and arrays only.
    fn run_without_container(
        &self,
        cx: &mut Context<'_>,
        mut page: PageBuilder<'_>,
        start: &ResumePoint,
    ) -> Result<Page, QueryError> {
        let mut rows = CandidateRows::new(start.rows_done_in_item);
        let root = Scope::root(None);
        let result = self
            .block
            .for_each_tuple(true, cx, &root, &mut |cx, tuple| {
                rows.add_tuple(self, &mut page, cx, tuple, true)
            });
        match result {
            Err(QueryError::Timeout | QueryError::MemoryTaken) if rows.has_progress() => {
                rows.is_stopped = true;
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        // Any position that is not empty marks the point as one within a stream.
        let resume = rows
            .is_stopped
            .then(|| page.resume_point(vec![0], rows.done));
        Ok(page.finish(cx, resume))
    }

    fn run_streamed(
        &self,
        source: &mut dyn Source,
        cx: &mut Context<'_>,
        mut page: PageBuilder<'_>,
        start: &ResumePoint,
    ) -> Result<Page, QueryError> {
        let mut taken = 0u64;
        loop {
            if page.is_query_complete() {
                return Ok(page.finish(cx, None));
            }

            // The page ends between two candidates if it is full or has cost enough. A full page
            // looks for one more candidate, so that the last page of a query has no resume point.
            let is_full = page.is_full();
            let checks_budget = taken > 0 && taken.is_multiple_of(CLOCK_INTERVAL);
            if is_full
                || is_time_over(taken, cx)
                || (checks_budget && source.is_page_budget_spent())
            {
                let position = source.position();
                let has_more = !is_full || source.next()?.is_some();
                let resume = has_more.then(|| page.resume_point(position, 0));
                return Ok(page.finish(cx, resume));
            }

            // The page can also end within a candidate, which needs the position before it. Handing
            // an item through takes no time, so it only does so near the limit of bytes, or where
            // there may be no memory for the item.
            let computes = !self.passes_through || !self.block.filters.is_empty();
            let position_before = (computes || page.may_stop_soon()).then(|| source.position());

            let Some(candidate) = source.next()? else {
                return Ok(page.finish(cx, None));
            };
            taken += 1;
            let mut rows = CandidateRows::of_candidate(&candidate, start, taken);
            let can_stop = position_before.is_some();
            match self.stream_candidate(&candidate, &mut page, &mut rows, cx, can_stop) {
                // A candidate that did not finish within the rest of the time has the whole time of
                // the next page. The first candidate of a page has had it, so it must make
                // progress.
                Err(QueryError::Timeout | QueryError::MemoryTaken)
                    if can_stop && (taken > 1 || rows.has_progress()) =>
                {
                    rows.is_stopped = true;
                }
                Err(error) => return Err(error),
                Ok(()) => {}
            }
            if rows.is_stopped
                && let Some(position) = position_before
            {
                let resume = ResumePoint {
                    item_number: candidate.item_number.filter(|_| rows.done > 0),
                    ..page.resume_point(position, rows.done)
                };
                return Ok(page.finish(cx, Some(resume)));
            }
        }
    }

    /// Adds the rows of one candidate to the page.
    fn stream_candidate(
        &self,
        candidate: &Candidate,
        page: &mut PageBuilder<'_>,
        rows: &mut CandidateRows,
        cx: &mut Context<'_>,
        can_stop: bool,
    ) -> Result<(), QueryError> {
        // An item that is known to be a row is handed through without being parsed.
        let is_satisfied = self.condition_is_exact && candidate.condition_holds;
        if self.passes_through && (is_satisfied || self.block.filters.is_empty()) {
            cx.work.candidates += 1;
            let text = candidate.text.clone().ok_or_else(missing_text)?;
            let lap = cx.writes.begin();
            let added = rows.add_row(page, text, can_stop);
            cx.writes.end(lap, 0);
            return added;
        }
        self.with_root_frame(candidate, cx, &mut |cx, checks_filters, root| {
            self.block
                .for_each_tuple(checks_filters, cx, root, &mut |cx, tuple| {
                    if self.passes_through {
                        let text = candidate.text.clone().ok_or_else(missing_text)?;
                        rows.add_row(page, text, can_stop)?;
                        return Ok(false);
                    }
                    if !self.passes_resume_filter(cx, tuple)? {
                        return Ok(true);
                    }
                    rows.add_tuple(self, page, cx, tuple, can_stop)
                })
        })?;
        Ok(())
    }

    /// Parses as much of a candidate as the query needs and calls `inner` with the root frame. The
    /// boolean passed to `inner` is false if the filters are known to hold.
    fn with_root_frame(
        &self,
        candidate: &Candidate,
        cx: &mut Context<'_>,
        inner: &mut dyn FnMut(&mut Context<'_>, bool, &Scope<'_>) -> Flow,
    ) -> Flow {
        cx.work.candidates += 1;
        cx.held_bytes = 0;
        cx.item_number = candidate.item_number;
        let checks_filters = !(self.condition_is_exact && candidate.condition_holds);
        if checks_filters && !self.block.filters.is_empty() {
            cx.work.items_filtered += 1;
        }

        // A query such as SELECT VALUE COUNT(1) needs nothing of the item.
        let needed = if checks_filters {
            &self.needed
        } else {
            &self.needed_if_satisfied
        };
        if needed.is_empty() {
            return inner(cx, checks_filters, &Scope::root(None));
        }
        let text = candidate.text.as_ref().ok_or_else(missing_text)?;
        cx.work.items_parsed += 1;
        cx.count_bytes(text.len())?;
        let item = item::read(text, needed)?;
        // A page that waits for a slot holds the item that it is at.
        if text.len() > SMALL_ITEM_BYTES {
            cx.held_bytes = text.len() + weight(&item);
            cx.check_memory(cx.held_bytes)?;
        }
        inner(cx, checks_filters, &Scope::root(Some(&item)))
    }

    /// Passes all tuples of the outermost block over all candidates to `sink`. Returns false if the
    /// sink stopped.
    fn for_each_tuple(
        &self,
        candidates: &mut AllCandidates<'_>,
        cx: &mut Context<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        if !self.reads_container {
            let root = Scope::root(None);
            return self.block.for_each_tuple(true, cx, &root, sink);
        }
        self.for_each_tuple_of(&self.block, candidates, cx, sink)
    }

    /// Passes all tuples of a block that reads the container to `sink`, directly or through
    /// blocking subqueries. Returns false if the sink stopped.
    fn for_each_tuple_of(
        &self,
        block: &Block,
        candidates: &mut AllCandidates<'_>,
        cx: &mut Context<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        // The rows of a blocking subquery take the place of items in the outer block.
        if let Some(inner) = block.blocking_subquery() {
            let root = Scope::root(None);
            let mut collector = Collector::new(inner);
            let mut run_outer = |cx: &mut Context<'_>, value: Cow<'_, Json>| {
                block.for_each_tuple_of(&value, cx, &root, sink)
            };
            let goes_on = self.for_each_tuple_of(inner, candidates, cx, &mut |cx, tuple| {
                collector.add_tuple(cx, tuple, &mut run_outer)
            })?;
            if !goes_on || candidates.is_stopped {
                return Ok(goes_on);
            }
            return collector.finish(cx, &root, &mut run_outer);
        }
        while let Some(candidate) = candidates.next(cx)? {
            cx.copies = candidates.source.copies();
            let goes_on =
                self.with_root_frame(&candidate, cx, &mut |cx, checks_filters, root| {
                    block.for_each_tuple(checks_filters, cx, root, sink)
                })?;
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs groups, aggregates and distinct values.
    fn run_blocking(
        &self,
        source: &mut dyn Source,
        cx: &mut Context<'_>,
        mut page: PageBuilder<'_>,
        start: &ResumePoint,
    ) -> Result<Page, QueryError> {
        page.reset_rows_skipped();
        let mut candidates = AllCandidates::new(source);
        let mut collector = Collector::new(&self.block);
        if !start.state.is_empty() {
            collector
                .restore(&start.state)
                .ok_or_else(foreign_resume_point)?;
        }
        // An aggregate whose state fits into a continuation is worth finishing an item for.
        let keeps_state = self.block.blocking_subquery().is_none() && collector.save().is_some();
        cx.grace_iterations = if keeps_state { GRACE_ITERATIONS } else { 0 };

        // The rows of earlier pages are computed again, and skipped by their number or, if groups
        // are ordered, by the last group.
        let rows_before = if collector.begins_behind_group() {
            0
        } else {
            self.offset.saturating_add(start.rows_returned)
        };
        let mut rows_seen = 0u64;
        let mut has_more = false;
        let mut sink = |cx: &mut Context<'_>, value: Cow<'_, Json>| {
            rows_seen += 1;
            if rows_seen <= rows_before {
                return Ok(true);
            }
            if page.is_query_complete() || page.is_full() {
                has_more = !page.is_query_complete();
                return Ok(false);
            }
            let mut row = Vec::new();
            write::value(&self.block.output, &self.item_slots, &value, &mut row)?;
            cx.work.projected += 1;
            has_more = !page.push(Bytes::from(row), true)?;
            Ok(!has_more)
        };
        let totals = match self.totals.is_empty() || !start.state.is_empty() {
            true => None,
            false => candidates.source.totals(&self.totals)?,
        };
        let goes_on = match totals {
            Some(totals) => {
                collector.add_totals(&totals);
                true
            }
            None => self.for_each_tuple(&mut candidates, cx, &mut |cx, tuple| {
                collector.add_tuple(cx, tuple, &mut sink)
            })?,
        };

        // Out of time: only an aggregate without GROUP BY can continue from its partial state.
        if candidates.is_stopped {
            let state = if self.block.blocking_subquery().is_none() {
                collector.save()
            } else {
                None
            };
            let resume = ResumePoint {
                state: state.ok_or(QueryError::Timeout)?,
                position: candidates.source.position(),
                ..page.resume_point(Vec::new(), 0)
            };
            return Ok(page.finish(cx, Some(resume)));
        }
        if goes_on {
            collector.finish(cx, &Scope::root(None), &mut sink)?;
        }
        let resume = has_more.then(|| ResumePoint {
            state: collector.position().unwrap_or_default(),
            ..page.resume_point(Vec::new(), 0)
        });
        Ok(page.finish(cx, resume))
    }

    /// Sorts the rows of all candidates and returns the rows of the page.
    fn run_sorted(
        &self,
        source: &mut dyn Source,
        cx: &mut Context<'_>,
        mut page: PageBuilder<'_>,
        start: &ResumePoint,
    ) -> Result<Page, QueryError> {
        page.reset_rows_skipped();
        let start_position = self.start_position(start)?;
        let descending: Vec<bool> = self.order.iter().map(|o| o.key.descending).collect();

        // A start position leaves out the rows of earlier pages. Without a start position they are
        // sorted again and skipped. One row more than the page shows if there is another page.
        let rows_before = match &start_position {
            Some(_) => 0,
            None => self.offset.saturating_add(page.rows_returned),
        };
        let rows_to_keep = if self.block.distinct {
            u64::MAX
        } else {
            rows_before
                .saturating_add(page.max_items as u64)
                .saturating_add(1)
                .min(self.rows_needed().unwrap_or(u64::MAX))
        };
        let rows_to_keep = usize::try_from(rows_to_keep).unwrap_or(usize::MAX);
        let mut sorter = Sorter::new(&descending, rows_to_keep, cx.max_memory);
        let mut candidates = AllCandidates::new(source);
        let filtered_out =
            self.sort_candidates(&mut candidates, &mut sorter, start_position.as_ref(), cx)?;
        if candidates.is_stopped {
            return Err(QueryError::Timeout);
        }

        // The rows that the client's resume filter drops are the first of the order. They may also
        // have been returned by earlier pages, with or without the filter, so the larger number of
        // both is skipped.
        let filtered_out = if self.block.distinct { 0 } else { filtered_out };
        let rows_passed = rows_before.max(filtered_out);
        if start_position.is_none() {
            page.rows_returned = rows_passed - self.offset.min(rows_passed);
        }
        let skip = rows_passed - filtered_out;
        let rows = sorter.finish();
        let mut result = self.add_rows(rows.iter().map(|row| row.row.clone()), skip, cx, page)?;

        // The next page begins behind the sort values of the last row, if these are short.
        if let Some(resume) = &mut result.resume
            && !self.block.distinct
            && self.block.blocking_subquery().is_none()
        {
            let last = usize::try_from(skip)
                .unwrap_or(usize::MAX)
                .saturating_add(result.rows.len())
                .saturating_sub(1);
            let position =
                SortPosition::after_row(&rows, last, start_position.as_ref(), self.fingerprint);
            if let Some(position) = position {
                resume.query_hash = self.order_fingerprint;
                resume.state = position.encode();
            }
        }
        Ok(result)
    }

    /// Adds the rows of all candidates behind the start position to the sorter. Returns the number
    /// of rows that the client's resume filter drops.
    fn sort_candidates(
        &self,
        candidates: &mut AllCandidates<'_>,
        sorter: &mut Sorter<'_>,
        start_position: Option<&SortPosition>,
        cx: &mut Context<'_>,
    ) -> Result<u64, QueryError> {
        let mut filtered_out = 0u64;
        let mut rows_at_position = 0;
        self.for_each_tuple(candidates, cx, &mut |cx, tuple| {
            cx.count_iteration()?;
            let held_before = cx.held_bytes;
            let is_wanted = self.passes_resume_filter(cx, tuple)?;
            if !is_wanted && start_position.is_none() {
                filtered_out += 1;
                return Ok(true);
            }
            let mut keys: Keys = Vec::with_capacity(self.order.len());
            for order in &self.order {
                let value = order.expr.eval(cx, tuple)?.map(sort_value);
                keys.push(value.map(Cow::into_owned));
            }
            // The position counts every row, wanted or not.
            let is_behind_start = match start_position {
                Some(position) => position.precedes(
                    &keys,
                    cx.item_number,
                    sorter.descending,
                    &mut rows_at_position,
                ),
                None => true,
            };
            if is_wanted && is_behind_start && sorter.would_keep(&keys) {
                let mut row = Vec::new();
                if write::row(&self.block.output, &self.item_slots, cx, tuple, &mut row)? {
                    cx.work.projected += 1;
                    sorter.add(SortedRow {
                        keys,
                        item_number: cx.item_number,
                        row: Bytes::from(row),
                    })?;
                    cx.check_collected(sorter.memory())?;
                }
            }
            // The sorter counts the rows that it keeps.
            cx.held_bytes = held_before;
            Ok(true)
        })?;
        Ok(filtered_out)
    }

    /// Returns the sort position at which the page begins. Returns `None` for the first page, and
    /// for pages that begin after a number of rows.
    fn start_position(&self, start: &ResumePoint) -> Result<Option<SortPosition>, QueryError> {
        if start.state.is_empty() {
            return Ok(None);
        }
        match SortPosition::decode(&start.state) {
            Some(position) if position.key_count() == self.order.len() => Ok(Some(position)),
            _ => Err(foreign_resume_point()),
        }
    }

    /// Scores all candidates and returns the rows of the page in the order of their fused ranks.
    fn run_ranked(
        &self,
        ranking: &Ranking,
        source: &mut dyn Source,
        cx: &mut Context<'_>,
        mut page: PageBuilder<'_>,
    ) -> Result<Page, QueryError> {
        page.reset_rows_skipped();
        let mut pool = RankPool::new(ranking, self.rows_needed());
        let mut candidates = AllCandidates::new(source);
        self.for_each_tuple(&mut candidates, cx, &mut |cx, tuple| {
            cx.count_iteration()?;
            let held_before = cx.held_bytes;
            let scores = pool.scores(cx, tuple)?;
            if pool.would_keep(&scores) {
                let mut row = Vec::new();
                if write::row(&self.block.output, &self.item_slots, cx, tuple, &mut row)? {
                    cx.work.projected += 1;
                    cx.check_collected(pool.add(scores, Bytes::from(row)))?;
                }
            }
            // The pool counts the rows that it keeps.
            cx.held_bytes = held_before;
            Ok(true)
        })?;
        if candidates.is_stopped {
            return Err(QueryError::Timeout);
        }
        let skip = self.offset.saturating_add(page.rows_returned);
        self.add_rows(pool.finish(), skip, cx, page)
    }

    /// Fills the page from all rows in order, after the first `skip` of them. Rows that DISTINCT
    /// drops are not counted.
    ///
    /// # Errors
    /// [`QueryError::MemoryTaken`] if there is no memory for the first row.
    fn add_rows(
        &self,
        rows: impl Iterator<Item = Bytes>,
        skip: u64,
        cx: &mut Context<'_>,
        mut page: PageBuilder<'_>,
    ) -> Result<Page, QueryError> {
        let mut seen = HashSet::new();
        let rows = rows.filter(|row| !self.block.distinct || seen.insert(row_digest(row)));
        let mut has_more = false;
        for row in rows.skip(usize::try_from(skip).unwrap_or(usize::MAX)) {
            if page.is_query_complete() {
                break;
            }
            if page.is_full() || !page.push(row, true)? {
                has_more = true;
                break;
            }
        }
        let resume = has_more.then(|| page.resume_point(Vec::new(), 0));
        Ok(page.finish(cx, resume))
    }
}

fn foreign_resume_point() -> QueryError {
    QueryError::Resume("The continuation is not one of this query.".into())
}

/// Reads the clock before a candidate, if it is due. Returns true if the page has taken a candidate
/// and the time is over; so each page makes progress.
fn is_time_over(taken: u64, cx: &mut Context<'_>) -> bool {
    taken > 0
        && (taken.is_multiple_of(CLOCK_INTERVAL) || cx.is_clock_check_due())
        && cx.is_time_over()
}

/// All candidates of a source until the time is over.
struct AllCandidates<'s> {
    source: &'s mut dyn Source,
    taken: u64,
    /// The time was over before the source ended.
    is_stopped: bool,
}

impl<'s> AllCandidates<'s> {
    fn new(source: &'s mut dyn Source) -> Self {
        AllCandidates {
            source,
            taken: 0,
            is_stopped: false,
        }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Result<Option<Candidate>, QueryError> {
        if is_time_over(self.taken, cx) {
            self.is_stopped = true;
            return Ok(None);
        }
        self.taken += 1;
        self.source.next()
    }
}
