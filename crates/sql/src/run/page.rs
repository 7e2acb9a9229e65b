//! One page of a query.
//!
//! A query that streams takes candidates until the page is full and remembers the source's place. All others look at
//! everything and skip what earlier pages gave out. Which of the two it is depends on the query and, for ORDER BY, on
//! whether the source is in order.
//!
//! The clock is looked at between candidates and, for what takes long, amid them. A stream then stops before the
//! candidate, or before the row of it, that it could not finish; a lone aggregate finishes the candidate if that takes
//! not too long; all else ends with [`QueryError::Timeout`].

use super::block::{Collector, Flow, TupleSink};
use super::distinct::Given;
use super::frame::{Context, Scope};
use super::rank::Ranked;
use super::sort::{Place, Sorted, Sorter};
use super::{item, write};
use crate::bound::{Block, Output, Ranking};
use crate::error::QueryError;
use crate::query::Query;
use crate::seams::{Bounds, Candidate, Functions, Page, ResumePoint, Source, Work};
use crate::value::digest;
use bytes::Bytes;
use orrery_model::json::{Json, parse};
use orrery_model::limits;
use std::collections::HashSet;

/// Candidates between two looks at the clock.
const CLOCK_EVERY: u64 = 32;

/// Turns for which an aggregate's item may go on when the time is over: some tenths of a second.
const GRACE: u64 = 1 << 20;

impl Query {
    /// Runs the query from its beginning or from `resume`, for which the source must begin at `resume.position`.
    ///
    /// # Errors
    /// [`QueryError::Resume`] for another query's position, [`QueryError::NonFinite`], [`QueryError::Memory`],
    /// [`QueryError::Timeout`], [`QueryError::Unsupported`] where [`Query::with_statistics`] was forgotten, and what source and functions report.
    pub fn run(
        &self,
        source: &mut dyn Source,
        functions: &mut dyn Functions,
        resume: Option<&ResumePoint>,
        bounds: &mut Bounds<'_>,
        work: &mut Work,
    ) -> Result<Page, QueryError> {
        if resume.is_some_and(|r| !self.goes_on_from(r)) {
            return Err(QueryError::Resume(
                "The continuation belongs to another query.".into(),
            ));
        }
        if self.lacks_statistics() {
            let message = "ORDER BY RANK with FullTextScore is not supported here: it needs the whole container.";
            return Err(QueryError::Unsupported(message.into()));
        }
        functions.prepare(self.udfs());
        work.has_aggregate |= self.is_aggregate();
        let start = resume.cloned().unwrap_or_default();
        let mut page = Filling::new(self, &start, bounds);
        let mut context = Context::new(functions, work, &mut *bounds.is_expired, bounds.max_memory);
        context.now_ms = bounds.now_ms;
        context.started_ms = bounds.started_ms;
        context.random = bounds.random_seed ^ start.rows_returned;
        context.planar = self.is_planar;
        if page.is_done() {
            return Ok(page.finished(&mut context));
        }
        let in_order = source.is_ordered() && self.order.iter().all(|o| o.key.path.is_some());
        let sorts = !self.order.is_empty() && self.block.grouping.is_none() && !in_order;
        if let Some(ranking) = &self.ranking {
            self.run_ranked(ranking, source, &mut context, page)
        } else if sorts {
            self.run_sorted(source, &mut context, page, &start)
        } else if self.is_blocking() {
            self.run_collected(source, &mut context, page, &start)
        } else {
            self.run_streamed(source, &mut context, &mut page, &start)
        }
    }

    /// Whether a place is one of this query. Where it is more than a count of rows, conditions on the sort keys may have
    /// changed.
    fn goes_on_from(&self, resume: &ResumePoint) -> bool {
        let has_place = !resume.position.is_empty() || !resume.state.is_empty();
        resume.query_hash == self.fingerprint
            || (has_place && resume.query_hash == self.order_fingerprint)
    }

    fn run_streamed(
        &self,
        source: &mut dyn Source,
        cx: &mut Context<'_>,
        page: &mut Filling<'_>,
        start: &ResumePoint,
    ) -> Result<Page, QueryError> {
        if !self.reads_container {
            let scope = Scope::root(None);
            let mut rows = Inside::new(start.rows_done_in_item);
            match self.block.tuples(true, cx, &scope, &mut |cx, tuple| {
                rows.take(self, page, cx, tuple, true)
            }) {
                Err(QueryError::Timeout) if rows.seen > rows.skip => rows.stopped = true,
                result => drop(result?),
            }
            let stopped = rows.stopped.then(|| page.resume(vec![0], rows.seen));
            return Ok(page.close(cx, stopped));
        }
        let mut taken = 0u64;
        loop {
            if page.is_done() {
                return Ok(page.close(cx, None));
            }
            let full = page.is_full();
            let mut late = || {
                taken > 0
                    && (taken.is_multiple_of(CLOCK_EVERY) || cx.is_clock_check_due())
                    && cx.is_expired()
            };
            let spent =
                || taken > 0 && taken.is_multiple_of(CLOCK_EVERY) && source.is_page_budget_spent();
            if full || late() || spent() {
                // One look ahead, so that the last page says that it is the last.
                let position = source.position();
                let more = !full || source.next()?.is_some();
                return Ok(page.close(cx, more.then(|| page.resume(position, 0))));
            }
            // Whatever is computed may take longer than there is time for.
            let computes = !self.passes_through || !self.block.filters.is_empty();
            let mark = (computes || page.nearly_full()).then(|| source.position());
            let Some(candidate) = source.next()? else {
                return Ok(page.close(cx, None));
            };
            taken += 1;
            let mut rows = Inside::of(&candidate, start, taken);
            match self.candidate(&candidate, page, &mut rows, cx, mark.is_some()) {
                // An item too long for what was left of the time gets the whole of the next page's.
                Err(QueryError::Timeout) if taken > 1 || rows.seen > rows.skip => {
                    rows.stopped = true
                }
                result => result?,
            }
            if let (true, Some(mark)) = (rows.stopped, mark) {
                let within = candidate.item_number.filter(|_| rows.seen > 0);
                let resume = ResumePoint {
                    item_number: within,
                    ..page.resume(mark, rows.seen)
                };
                return Ok(page.close(cx, Some(resume)));
            }
        }
    }

    fn candidate(
        &self,
        candidate: &Candidate,
        page: &mut Filling<'_>,
        rows: &mut Inside,
        cx: &mut Context<'_>,
        may_stop: bool,
    ) -> Result<(), QueryError> {
        let satisfied = self.condition_is_exact && candidate.condition_holds;
        if self.passes_through && (satisfied || self.block.filters.is_empty()) {
            cx.work.candidates += 1;
            let text = candidate.text.clone().ok_or_else(no_text)?;
            rows.give(page, text, may_stop);
            return Ok(());
        }
        self.open(candidate, cx, &mut |cx, check, scope| {
            self.block.tuples(check, cx, scope, &mut |cx, tuple| {
                if self.passes_through {
                    rows.give(page, candidate.text.clone().ok_or_else(no_text)?, may_stop);
                    return Ok(false);
                }
                if !self.passes_resume_filter(cx, tuple)? {
                    return Ok(true);
                }
                rows.take(self, page, cx, tuple, may_stop)
            })
        })?;
        Ok(())
    }

    /// Makes the root frame of a candidate. The inner call gets whether the filters must be checked.
    fn open(
        &self,
        candidate: &Candidate,
        cx: &mut Context<'_>,
        inner: &mut dyn FnMut(&mut Context<'_>, bool, &Scope<'_>) -> Flow,
    ) -> Flow {
        cx.work.candidates += 1;
        cx.held_bytes = 0;
        cx.item = candidate.item_number;
        let check = !(self.condition_is_exact && candidate.condition_holds);
        let needed = if check {
            &self.needed
        } else {
            &self.needed_if_satisfied
        };
        cx.work.items_filtered += u64::from(check && !self.block.filters.is_empty());
        if needed.is_empty() {
            return inner(cx, check, &Scope::root(None));
        }
        let text = candidate.text.as_ref().ok_or_else(no_text)?;
        cx.work.items_parsed += 1;
        let item = item::read(text, needed)?;
        inner(cx, check, &Scope::root(Some(&item)))
    }

    /// All tuples of the query's outermost block, over all candidates. Gives false if the sink stopped it.
    fn tuples(
        &self,
        input: &mut Everything<'_>,
        cx: &mut Context<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        if !self.reads_container {
            return self.block.tuples(true, cx, &Scope::root(None), sink);
        }
        self.tuples_of(&self.block, input, cx, sink)
    }

    fn tuples_of(
        &self,
        block: &Block,
        input: &mut Everything<'_>,
        cx: &mut Context<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        if let Some(inner) = block.blocking_subquery() {
            let root = Scope::root(None);
            let mut collector = Collector::new(inner);
            let mut give = |cx: &mut Context<'_>, value: std::borrow::Cow<'_, _>| {
                block.tuples_of(&value, cx, &root, sink)
            };
            let all = self.tuples_of(inner, input, cx, &mut |cx, tuple| {
                collector.tuple(cx, tuple, &mut give)
            })?;
            return if all && !input.stopped {
                collector.finish(cx, &root, &mut give)
            } else {
                Ok(all)
            };
        }
        while let Some(candidate) = input.next(cx)? {
            let flow = self.open(&candidate, cx, &mut |cx, check, scope| {
                block.tuples(check, cx, scope, sink)
            })?;
            if !flow {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Groups, aggregates and distinct values.
    fn run_collected(
        &self,
        source: &mut dyn Source,
        cx: &mut Context<'_>,
        mut page: Filling<'_>,
        start: &ResumePoint,
    ) -> Result<Page, QueryError> {
        page.rewind();
        let mut input = Everything::new(source);
        let mut collector = Collector::new(&self.block);
        if !start.state.is_empty() {
            let restored = collector.restore(&start.state);
            restored.ok_or_else(|| {
                QueryError::Resume("The continuation is not one of this query.".into())
            })?;
        }
        // What can be taken along is worth finishing an item for.
        cx.grace = if self.block.blocking_subquery().is_none() && collector.save().is_some() {
            GRACE
        } else {
            0
        };
        let already = start.rows_returned;
        let (mut index, mut stopped) = (0u64, false);
        let query = self;
        let mut sink = |cx: &mut Context<'_>, value: std::borrow::Cow<'_, Json>| {
            index += 1;
            if index <= query.offset.saturating_add(already) {
                return Ok(true);
            }
            if page.is_done() || page.is_full() {
                stopped = !page.is_done();
                return Ok(false);
            }
            let mut row = Vec::new();
            write::value(&value, &mut row)?;
            cx.work.projected += 1;
            stopped = !page.push(Bytes::from(row), true);
            Ok(!stopped)
        };
        let all = self.tuples(&mut input, cx, &mut |cx, tuple| {
            collector.tuple(cx, tuple, &mut sink)
        })?;
        if input.stopped {
            // Out of time: a lone aggregate takes what it has along.
            let state = if self.block.blocking_subquery().is_none() {
                collector.save()
            } else {
                None
            };
            let state = state.ok_or(QueryError::Timeout)?;
            let position = input.source.position();
            let resume = ResumePoint {
                position,
                state,
                ..page.resume(Vec::new(), 0)
            };
            return Ok(page.close(cx, Some(resume)));
        }
        if all {
            collector.finish(cx, &Scope::root(None), &mut sink)?;
        }
        let resume = stopped.then(|| page.resume(Vec::new(), 0));
        Ok(page.close(cx, resume))
    }

    fn run_sorted(
        &self,
        source: &mut dyn Source,
        cx: &mut Context<'_>,
        mut page: Filling<'_>,
        start: &ResumePoint,
    ) -> Result<Page, QueryError> {
        page.rewind();
        let place = self.sorted_place(start)?;
        let descending: Vec<bool> = self.order.iter().map(|o| o.key.descending).collect();
        let before = if place.is_some() {
            0
        } else {
            self.offset.saturating_add(page.emitted)
        };
        let page_end = before
            .saturating_add(page.max_items as u64)
            .saturating_add(1);
        let keep = if self.block.distinct {
            u64::MAX
        } else {
            page_end.min(self.rows_needed().unwrap_or(u64::MAX))
        };
        let mut sorter = Sorter::new(
            &descending,
            usize::try_from(keep).unwrap_or(usize::MAX),
            cx.max_memory,
        );
        let mut input = Everything::new(source);
        let (mut unwanted, mut beside) = (0u64, 0);
        self.tuples(&mut input, cx, &mut |cx, tuple| {
            cx.count_iteration()?;
            let made = cx.held_bytes;
            let wanted = self.passes_resume_filter(cx, tuple)?;
            if !wanted && place.is_none() {
                unwanted += 1;
                return Ok(true);
            }
            let mut keys = Vec::with_capacity(self.order.len());
            for order in &self.order {
                keys.push(
                    order
                        .expr
                        .eval(cx, tuple)?
                        .map(std::borrow::Cow::into_owned),
                );
            }
            let is_next = place
                .as_ref()
                .is_none_or(|p| p.is_before(&keys, cx.item, &descending, &mut beside));
            if wanted && is_next && sorter.wants(&keys) {
                let mut row = Vec::new();
                if write::row(&self.block.output, cx, tuple, &mut row)? {
                    cx.work.projected += 1;
                    sorter.add(Sorted {
                        keys,
                        item: cx.item,
                        row: Bytes::from(row),
                    })?;
                }
            }
            // What is kept the sorter counts.
            cx.held_bytes = made;
            Ok(true)
        })?;
        if input.stopped {
            return Err(QueryError::Timeout);
        }
        // Rows that the client's filter takes off are the first of the order: of them and of those that earlier pages
        // gave, with or without the filter, whichever reach further.
        let unwanted = if self.block.distinct { 0 } else { unwanted };
        let passed = before.max(unwanted);
        if place.is_none() {
            page.emitted = passed - self.offset.min(passed);
        }
        let (rows, skip) = (sorter.finish(), passed - unwanted);
        let mut given =
            self.give_sorted(rows.iter().map(|sorted| sorted.row.clone()), skip, cx, page);
        if let Some(resume) = given
            .resume
            .as_mut()
            .filter(|_| !self.block.distinct && self.block.blocking_subquery().is_none())
        {
            let last = usize::try_from(skip)
                .unwrap_or(usize::MAX)
                .saturating_add(given.rows.len())
                .saturating_sub(1);
            if let Some(place) = Place::behind(&rows, last, place.as_ref(), self.fingerprint) {
                (resume.query_hash, resume.state) = (self.order_fingerprint, place.write());
            }
        }
        Ok(given)
    }

    /// Where the page before ended, if that is told by more than a count.
    fn sorted_place(&self, start: &ResumePoint) -> Result<Option<Place>, QueryError> {
        if start.state.is_empty() {
            return Ok(None);
        }
        let place = Place::read(&start.state).filter(|place| place.keys() == self.order.len());
        place
            .map(Some)
            .ok_or_else(|| QueryError::Resume("The continuation is not one of this query.".into()))
    }

    /// Scores all candidates, and gives the rows in the order of their fused ranks.
    fn run_ranked(
        &self,
        ranking: &Ranking,
        source: &mut dyn Source,
        cx: &mut Context<'_>,
        mut page: Filling<'_>,
    ) -> Result<Page, QueryError> {
        page.rewind();
        let mut ranked = Ranked::new(ranking, self.rows_needed());
        let mut input = Everything::new(source);
        self.tuples(&mut input, cx, &mut |cx, tuple| {
            cx.count_iteration()?;
            let made = cx.held_bytes;
            let scores = ranked.scores(cx, tuple)?;
            if ranked.wants(&scores) {
                let mut row = Vec::new();
                if write::row(&self.block.output, cx, tuple, &mut row)? {
                    cx.work.projected += 1;
                    cx.check_memory(ranked.add(scores, Bytes::from(row)))?;
                }
            }
            // What is kept the ranking counts.
            cx.held_bytes = made;
            Ok(true)
        })?;
        if input.stopped {
            return Err(QueryError::Timeout);
        }
        let before = self.offset.saturating_add(page.emitted);
        Ok(self.give_sorted(ranked.finish(), before, cx, page))
    }

    /// The page out of all rows in order, behind the first `passed`.
    fn give_sorted(
        &self,
        rows: impl Iterator<Item = Bytes>,
        passed: u64,
        cx: &mut Context<'_>,
        mut page: Filling<'_>,
    ) -> Page {
        let mut seen = HashSet::new();
        let rows = rows.filter(|row| !self.block.distinct || seen.insert(row_digest(row)));
        let mut more = false;
        for row in rows.skip(usize::try_from(passed).unwrap_or(usize::MAX)) {
            if page.is_done() {
                break;
            }
            if page.is_full() || !page.push(row, true) {
                more = true;
                break;
            }
        }
        let resume = more.then(|| page.resume(Vec::new(), 0));
        page.close(cx, resume)
    }
}

fn row_digest(row: &[u8]) -> u128 {
    // A row around a deep item may be too deep to be read again.
    digest(Some(&parse(row).unwrap_or_else(|_| {
        Json::String(String::from_utf8_lossy(row).into_owned())
    })))
}

fn no_text() -> QueryError {
    QueryError::Source("the source gave no text for an item that the query looks at".into())
}

/// All candidates of a source, until time is up.
struct Everything<'s> {
    source: &'s mut dyn Source,
    taken: u64,
    stopped: bool,
}

impl<'s> Everything<'s> {
    fn new(source: &'s mut dyn Source) -> Self {
        Everything {
            source,
            taken: 0,
            stopped: false,
        }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Result<Option<Candidate>, QueryError> {
        if self.taken > 0
            && (self.taken.is_multiple_of(CLOCK_EVERY) || cx.is_clock_check_due())
            && cx.is_expired()
        {
            self.stopped = true;
            return Ok(None);
        }
        self.taken += 1;
        self.source.next()
    }
}

/// The rows of one candidate.
struct Inside {
    skip: u64,
    /// Rows dealt with, those that an earlier page gave included.
    seen: u64,
    /// The page took no more.
    stopped: bool,
}

impl Inside {
    fn new(skip: u64) -> Self {
        Inside {
            skip,
            seen: 0,
            stopped: false,
        }
    }

    /// The rows of a candidate, the `taken`-th of a page that goes on from `start`.
    fn of(candidate: &Candidate, start: &ResumePoint, taken: u64) -> Self {
        let goes_on = match start.item_number {
            Some(number) => candidate.item_number == Some(number),
            None => taken == 1,
        };
        Inside::new(if goes_on { start.rows_done_in_item } else { 0 })
    }

    /// Builds the row of a tuple and gives it to the page.
    fn take(
        &mut self,
        query: &Query,
        page: &mut Filling<'_>,
        cx: &mut Context<'_>,
        tuple: &Scope<'_>,
        may_stop: bool,
    ) -> Flow {
        if self.seen < self.skip {
            // An undefined value is no row, and was not counted as one.
            let made = cx.held_bytes;
            let defined = query.block.output.eval(cx, tuple)?.is_some();
            cx.held_bytes = made;
            self.seen += u64::from(defined);
            return Ok(true);
        }
        let mut row = Vec::with_capacity(128);
        let made = cx.held_bytes;
        let defined = write::row(&query.block.output, cx, tuple, &mut row)?;
        cx.held_bytes = made;
        if !defined {
            return Ok(true);
        }
        cx.work.projected += 1;
        self.give(page, Bytes::from(row), may_stop);
        Ok(!self.stopped)
    }

    fn give(&mut self, page: &mut Filling<'_>, row: Bytes, may_stop: bool) {
        if self.seen < self.skip {
            self.seen += 1;
            return;
        }
        if page.accept(row, may_stop) {
            self.seen += 1;
        } else {
            self.stopped = true;
        }
    }
}

/// The page while it fills.
struct Filling<'q> {
    query: &'q Query,
    rows: Vec<Bytes>,
    bytes: usize,
    max_items: usize,
    max_bytes: usize,
    skipped: u64,
    emitted: u64,
    given: Given,
}

impl<'q> Filling<'q> {
    fn new(query: &'q Query, start: &ResumePoint, bounds: &Bounds<'_>) -> Self {
        Filling {
            query,
            rows: Vec::new(),
            bytes: 0,
            max_items: bounds.max_items.max(1),
            max_bytes: bounds.max_bytes,
            skipped: start.rows_skipped,
            emitted: start.rows_returned,
            given: Given::restore(&start.recent_row_digests),
        }
    }

    /// The rows skipped by OFFSET are counted anew by those who see everything again.
    fn rewind(&mut self) {
        self.skipped = 0;
    }

    /// TOP or LIMIT is reached.
    fn is_done(&self) -> bool {
        self.query.max_rows.is_some_and(|take| self.emitted >= take)
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.max_items || self.bytes >= self.max_bytes
    }

    /// Whether the next row might be too much.
    fn nearly_full(&self) -> bool {
        self.bytes + limits::ITEM_BYTES >= self.max_bytes
    }

    /// Takes a row of a stream; false if there is no room for it. DISTINCT and OFFSET take theirs off.
    fn accept(&mut self, row: Bytes, may_stop: bool) -> bool {
        if self.query.block.distinct {
            let (digest, is_structured) = (row_digest(&row), self.is_structured(&row));
            if self.given.has(digest) {
                return true;
            }
            if self.skipped >= self.query.offset
                && (self.is_done() || !self.has_room(&row, may_stop))
            {
                return false;
            }
            self.given.note(digest, is_structured);
        }
        if self.skipped < self.query.offset {
            self.skipped += 1;
            return true;
        }
        !self.is_done() && self.push(row, may_stop)
    }

    /// Whether the one value that the row is, or has, is an array or an object.
    fn is_structured(&self, row: &[u8]) -> bool {
        let value = match &self.query.block.output {
            Output::Value(_) => Some(row),
            // A row of one member: `{"name":value}`.
            Output::Members(members) => members
                .first()
                .and_then(|(name, _)| row.get(Json::from(name.as_str()).to_text().len() + 2..)),
        };
        value
            .and_then(|value| value.first())
            .is_some_and(|first| matches!(first, b'[' | b'{'))
    }

    fn has_room(&self, row: &Bytes, may_stop: bool) -> bool {
        if self.is_full() {
            return false;
        }
        !may_stop || self.rows.is_empty() || self.bytes + row.len() <= self.max_bytes
    }

    /// Takes a row if there is room.
    fn push(&mut self, row: Bytes, may_stop: bool) -> bool {
        if !self.has_room(&row, may_stop) {
            return false;
        }
        self.bytes += row.len();
        self.rows.push(row);
        self.emitted += 1;
        true
    }

    fn resume(&self, position: Vec<u8>, inside: u64) -> ResumePoint {
        let query = if position.is_empty() {
            self.query.fingerprint
        } else {
            self.query.order_fingerprint
        };
        ResumePoint {
            position,
            query_hash: query,
            rows_done_in_item: inside,
            item_number: None,
            rows_skipped: self.skipped,
            rows_returned: self.emitted,
            recent_row_digests: self.given.save(),
            state: Vec::new(),
        }
    }

    /// The page as it is; a query that has given all its rows has nothing to resume.
    fn close(&mut self, cx: &mut Context<'_>, resume: Option<ResumePoint>) -> Page {
        cx.work.rows_out += self.rows.len() as u64;
        cx.work.bytes_out += self.bytes as u64;
        let resume = resume.filter(|_| !self.is_done());
        Page {
            rows: std::mem::take(&mut self.rows),
            resume,
        }
    }

    fn finished(mut self, cx: &mut Context<'_>) -> Page {
        self.close(cx, None)
    }
}
