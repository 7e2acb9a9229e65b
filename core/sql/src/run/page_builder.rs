//! The rows of one page while it fills, and the rows of one candidate.
//!
//! [`PageBuilder`] applies DISTINCT, OFFSET, TOP and LIMIT and the limits of the page to rows, and
//! makes the [`ResumePoint`]. [`CandidateRows`] counts the rows of the candidate within which a
//! page may end.

use super::block::Flow;
use super::distinct::ReturnedRows;
use super::frame::{Context, Scope};
use super::write;
use crate::bound::Output;
use crate::error::QueryError;
use crate::query::Query;
use crate::seams::{Bounds, Candidate, Page, ResumePoint};
use crate::value::digest;
use bytes::Bytes;
use orrery_model::json::{Json, parse};
use orrery_model::limits;
use orrery_model::memory::RowsMemory;

/// A page ends if its rows take this many times the memory of its largest text: they are tiny.
const MEMORY_FACTOR: usize = 4;

/// The rows of one page while it fills.
pub(super) struct PageBuilder<'q> {
    query: &'q Query,
    rows: Vec<Bytes>,
    /// Bytes of the texts of the rows.
    bytes: usize,
    memory: RowsMemory,
    /// Reserves memory for the rows, see [`Bounds::reserve_rows`].
    pub reserve: Option<&'q mut dyn FnMut(usize) -> bool>,
    /// True if there was no memory for a row, which ends the page.
    is_short: bool,
    pub max_items: usize,
    max_bytes: usize,
    /// Rows skipped by OFFSET on all pages so far.
    rows_skipped: u64,
    /// Rows returned on all pages so far.
    pub rows_returned: u64,
    /// The rows that DISTINCT compares a streamed row with.
    distinct_rows: ReturnedRows,
}

impl<'q> PageBuilder<'q> {
    pub(super) fn new(query: &'q Query, start: &ResumePoint, bounds: &Bounds<'_>) -> Self {
        PageBuilder {
            query,
            rows: Vec::new(),
            bytes: 0,
            memory: RowsMemory::holding(0),
            reserve: None,
            is_short: false,
            max_items: bounds.max_items.max(1),
            max_bytes: bounds.max_bytes,
            rows_skipped: start.rows_skipped,
            rows_returned: start.rows_returned,
            distinct_rows: ReturnedRows::restore(&start.recent_row_digests),
        }
    }

    /// Resets the count of rows skipped by OFFSET, for a query that reads all candidates on each
    /// page.
    pub(super) fn reset_rows_skipped(&mut self) {
        self.rows_skipped = 0;
    }

    /// Returns true if TOP or LIMIT allows no further row.
    pub(super) fn is_query_complete(&self) -> bool {
        self.query
            .max_rows
            .is_some_and(|max_rows| self.rows_returned >= max_rows)
    }

    /// Returns true if the page takes no further row.
    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= self.max_items
            || self.bytes >= self.max_bytes
            || self.memory.bytes() >= self.max_bytes.saturating_mul(MEMORY_FACTOR)
            || self.is_short
    }

    /// Returns true if the next row, with the size of an item at most, may exceed the page, or if
    /// memory has to be reserved for the row.
    pub(super) fn may_stop_soon(&self) -> bool {
        self.bytes + limits::ITEM_BYTES >= self.max_bytes
            || self.memory.bytes() > RowsMemory::UNRESERVED_BYTES
    }

    /// Takes a row of a streaming query, unless DISTINCT or OFFSET drops it. Returns false if the
    /// row belongs to the next page. With `can_stop` false, a row is taken even if it exceeds the
    /// limit of bytes.
    ///
    /// # Errors
    /// As [`PageBuilder::push`].
    pub(super) fn accept(&mut self, row: Bytes, can_stop: bool) -> Result<bool, QueryError> {
        if self.query.block.distinct {
            let digest = row_digest(&row);
            if self.distinct_rows.contains(digest) {
                return Ok(true);
            }
            // A row for the next page must not be recorded, or the next page would drop it.
            let is_skipped = self.rows_skipped < self.query.offset;
            if !is_skipped && (self.is_query_complete() || !self.fits(&row, can_stop)?) {
                return Ok(false);
            }
            let is_structured = self.is_structured(&row);
            self.distinct_rows.record(digest, is_structured);
        }
        if self.rows_skipped < self.query.offset {
            self.rows_skipped += 1;
            return Ok(true);
        }
        if self.is_query_complete() {
            return Ok(false);
        }
        self.push(row, can_stop)
    }

    /// Returns true if the only value of a row is an array or an object.
    fn is_structured(&self, row: &[u8]) -> bool {
        let value = match &self.query.block.output {
            Output::Value(_) => row,
            // A row of one member reads `{"name":value}`.
            Output::Members(members) => {
                let Some((name, _)) = members.first() else {
                    return false;
                };
                let value_start = Json::from(name.as_str()).to_text().len() + 2;
                row.get(value_start..).unwrap_or_default()
            }
        };
        matches!(value.first(), Some(b'[' | b'{'))
    }

    /// Returns true if the page takes the row. The first row of a page is taken at any size for
    /// which there is memory.
    ///
    /// # Errors
    /// As [`PageBuilder::push`].
    fn fits(&mut self, row: &Bytes, can_stop: bool) -> Result<bool, QueryError> {
        if self.is_full() {
            return Ok(false);
        }
        let is_too_long = self.bytes + row.len() > self.max_bytes;
        if is_too_long && can_stop && !self.rows.is_empty() {
            return Ok(false);
        }
        if self.reserve_row(row) {
            return Ok(true);
        }
        // A page ends early where the next one can begin with this row.
        if can_stop && !self.rows.is_empty() {
            self.is_short = true;
            return Ok(false);
        }
        Err(QueryError::MemoryTaken)
    }

    /// Reserves the memory for one more row. Returns false if there is none left.
    fn reserve_row(&mut self, row: &Bytes) -> bool {
        match &mut self.reserve {
            Some(reserve) => self.memory.has_room(row.len(), reserve),
            None => true,
        }
    }

    /// Adds a row if the page takes it. Returns false if the row belongs to the next page.
    ///
    /// # Errors
    /// [`QueryError::MemoryTaken`] if there is no memory for a row before which the page cannot
    /// end.
    pub(super) fn push(&mut self, row: Bytes, can_stop: bool) -> Result<bool, QueryError> {
        if !self.fits(&row, can_stop)? {
            return Ok(false);
        }
        self.bytes += row.len();
        self.memory.add(row.len());
        self.rows.push(row);
        self.rows_returned += 1;
        Ok(true)
    }

    /// Returns the resume point at a position of the source, after `rows_done` rows of the
    /// candidate there.
    pub(super) fn resume_point(&self, position: Vec<u8>, rows_done: u64) -> ResumePoint {
        // A count of rows holds for this text and these parameters only. A position in the order of
        // the keys also holds for a query with other conditions on these keys.
        let query_hash = if position.is_empty() {
            self.query.fingerprint
        } else {
            self.query.order_fingerprint
        };
        ResumePoint {
            position,
            query_hash,
            rows_done_in_item: rows_done,
            item_number: None,
            rows_skipped: self.rows_skipped,
            rows_returned: self.rows_returned,
            recent_row_digests: self.distinct_rows.save(),
            state: Vec::new(),
        }
    }

    /// Finishes the page. A query that has returned all its rows drops the resume point.
    pub(super) fn finish(&mut self, cx: &mut Context<'_>, resume: Option<ResumePoint>) -> Page {
        cx.work.rows_out += self.rows.len() as u64;
        cx.work.bytes_out += self.bytes as u64;
        cx.work.write_us += cx.writes.total_us();
        Page {
            rows: std::mem::take(&mut self.rows),
            resume: resume.filter(|_| !self.is_query_complete()),
        }
    }
}

/// The rows of one candidate of a streaming query, or of a query without a container.
pub(super) struct CandidateRows {
    /// Rows that an earlier page has returned or dropped.
    skip: u64,
    /// Rows returned or dropped so far, on this page and on earlier ones.
    pub done: u64,
    /// The page ends before the next row.
    pub is_stopped: bool,
}

impl CandidateRows {
    pub(super) fn new(skip: u64) -> Self {
        CandidateRows {
            skip,
            done: 0,
            is_stopped: false,
        }
    }

    /// Starts the rows of a candidate, which is the `taken`th of a page that begins at `start`. If
    /// the page before ended within this candidate, the rows returned there are skipped.
    pub(super) fn of_candidate(candidate: &Candidate, start: &ResumePoint, taken: u64) -> Self {
        let is_resumed = match start.item_number {
            Some(number) => candidate.item_number == Some(number),
            None => taken == 1,
        };
        CandidateRows::new(if is_resumed {
            start.rows_done_in_item
        } else {
            0
        })
    }

    /// Returns true if this page has dealt with a row of the candidate.
    pub(super) fn has_progress(&self) -> bool {
        self.done > self.skip
    }

    /// Makes the row of a tuple and adds it to the page.
    pub(super) fn add_tuple(
        &mut self,
        query: &Query,
        page: &mut PageBuilder<'_>,
        cx: &mut Context<'_>,
        tuple: &Scope<'_>,
        can_stop: bool,
    ) -> Flow {
        // A skipped row is evaluated only to learn if it is a row: an undefined value is none, and
        // earlier pages did not count it.
        if self.done < self.skip {
            let output = &query.block.output;
            let is_defined = cx.releasing(|cx| Ok(output.eval(cx, tuple)?.is_some()))?;
            self.done += u64::from(is_defined);
            return Ok(true);
        }
        let mut row = Vec::with_capacity(128);
        let (output, items) = (&query.block.output, &query.item_slots);
        let is_defined = cx.releasing(|cx| write::row(output, items, cx, tuple, &mut row))?;
        if !is_defined {
            return Ok(true);
        }
        cx.work.projected += 1;
        self.add_row(page, Bytes::from(row), can_stop)?;
        Ok(!self.is_stopped)
    }

    /// Adds a row to the page, or stops before it.
    ///
    /// # Errors
    /// As [`PageBuilder::push`].
    pub(super) fn add_row(
        &mut self,
        page: &mut PageBuilder<'_>,
        row: Bytes,
        can_stop: bool,
    ) -> Result<(), QueryError> {
        if self.done < self.skip {
            self.done += 1;
            return Ok(());
        }
        if page.accept(row, can_stop)? {
            self.done += 1;
        } else {
            self.is_stopped = true;
        }
        Ok(())
    }
}

/// Returns the digest of a row, equal for deeply equal rows.
pub(super) fn row_digest(row: &[u8]) -> u128 {
    // A row around a deep item can exceed the depth that the parser reads; its text stands for it.
    let value = match parse(row) {
        Ok(value) => value,
        Err(_) => Json::String(String::from_utf8_lossy(row).into_owned()),
    };
    digest(Some(&value))
}

/// Returns the error for a source that broke its promise to give the text of an item.
pub(super) fn missing_text() -> QueryError {
    QueryError::Source("the source gave no text for an item that the query reads".into())
}
