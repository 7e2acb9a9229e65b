//! The interfaces between a query and its caller: the caller provides items ([`Source`]),
//! user-defined functions ([`Functions`]) and limits ([`Bounds`]), and receives a [`Page`] and the
//! counters of [`Work`].
//!
//! All calls are synchronous. A source may return more items than fulfil the condition, never
//! fewer; the query filters them. Time and randomness are inputs. Request charges are computed
//! elsewhere.

use crate::condition::Path;
use crate::error::QueryError;
use crate::run::stopwatch::Clock;
use crate::totals::Total;
use bytes::Bytes;
use orrery_model::json::Json;
use std::collections::HashSet;

/// The definitions of a container that affect the meaning of a query.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Names of the container's user-defined functions.
    pub user_functions: HashSet<String>,
    /// Computed properties: name and query text (`SELECT VALUE ... FROM c`).
    pub computed_properties: Vec<(String, String)>,
    /// The paths of the partition key, for client plans: a query that fixes all of them needs no
    /// merging. May be empty.
    pub partition_key: Vec<Path>,
    /// True if spatial functions compute in the plane (geospatial setting "Geometry"), false if on
    /// the ellipsoid ("Geography").
    pub is_planar: bool,
    /// The vector paths of the container's vector policy.
    pub vector_paths: Vec<VectorPath>,
    /// The paths of the container's full-text policy, each with its language, a code of
    /// [`crate::full_text_languages`].
    pub full_text_paths: Vec<(Path, String)>,
    /// The language of texts at all other paths; [`crate::DEFAULT_LANGUAGE`] if `None`.
    pub default_language: Option<String>,
}

/// A path at which items hold a vector, with its settings in the container's vector policy.
#[derive(Clone, Debug)]
pub struct VectorPath {
    /// The path of the vector.
    pub path: Path,
    /// `float32`, `float16`, `int8` or `uint8`.
    pub data_type: String,
    /// `cosine`, `dotproduct` or `euclidean`.
    pub distance_function: String,
}

/// An item that a source returns for evaluation.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The complete item as JSON text, system properties included. May be `None` only if
    /// [`crate::Query::demand`] is not `Items`.
    pub text: Option<Bytes>,
    /// The source has checked that the item fulfils the query's condition. Has no effect unless the
    /// condition is exact.
    pub condition_holds: bool,
    /// The number that identifies the item in its container; `None` if items have no number.
    /// Candidates that are not in the order of ORDER BY come by ascending number, or by descending
    /// number if the first key of ORDER BY descends.
    pub item_number: Option<u64>,
}

/// A sequence of candidates. It contains each item that fulfils the query's condition exactly once,
/// and may contain other items.
pub trait Source {
    /// Returns the next candidate, or `None` at the end.
    ///
    /// # Errors
    /// [`QueryError::Source`] with the error of the store.
    fn next(&mut self) -> Result<Option<Candidate>, QueryError>;

    /// Returns true if candidates come in the order of [`crate::Query::order`], with ties in
    /// ascending order of item numbers, or in descending order if the first key descends. May
    /// return true only if every key has a path, or for the order of [`crate::Query::order_score`].
    /// If false the query sorts, and keeps ties in the order of the source.
    fn is_ordered(&self) -> bool;

    /// Returns the position after the last candidate returned, or of the beginning if there was
    /// none, for [`ResumePoint::position`]. The bytes are opaque to the query and never empty; they
    /// should be short, because a continuation token contains them.
    fn position(&self) -> Vec<u8>;

    /// Returns the number of items that the last candidate stands for. More than one only for a
    /// query that needs counted values ([`crate::NeededValues::Counted`]).
    fn copies(&self) -> u64 {
        1
    }

    /// Returns each of some aggregates over all items, if the source knows all of them without the
    /// items. Called before the first candidate is taken, if at all.
    ///
    /// # Errors
    /// [`QueryError::Source`] with the error of the store.
    fn totals(&mut self, _totals: &[Total]) -> Result<Option<Vec<u64>>, QueryError> {
        Ok(None)
    }

    /// Returns true if finding candidates has cost as much as one page may cost. A query that
    /// streams then ends the page.
    fn is_page_budget_spent(&self) -> bool {
        false
    }
}

/// The user-defined functions that a query calls as `udf.name(...)`.
pub trait Functions {
    /// Announces the names of all functions that the query may call. Called once, before the first
    /// [`Functions::call`].
    fn prepare(&mut self, _names: &[String]) {}

    /// Returns the result of a function. `None` stands for undefined, among the arguments as well.
    ///
    /// # Errors
    /// [`QueryError::Udf`] if the function throws or is stopped.
    fn call(&mut self, name: &str, arguments: &[Option<Json>]) -> Result<Option<Json>, QueryError>;
}

/// The limits of one page, with the time and the random seed of its evaluation.
pub struct Bounds<'a> {
    /// The maximum number of rows; 0 counts as 1.
    pub max_items: usize,
    /// The maximum size of all rows together, in bytes. A page of one row may be larger.
    pub max_bytes: usize,
    /// The maximum memory, in bytes, that a query may hold (sorted rows, groups, distinct values,
    /// lists).
    pub max_memory: usize,
    /// Reserves memory for the query, up to so many bytes in all. Returns false if there is none
    /// left: the page then ends early with the rows that it has, or fails with
    /// [`QueryError::MemoryTaken`]. `None` if only `max_memory` counts.
    pub reserve: Option<&'a mut dyn FnMut(usize) -> bool>,
    /// Reserves memory for the rows of the page, up to so many bytes in all; asked only by a page
    /// of more than a few rows. Returns false if there is none left: the page then ends before the
    /// row, or fails with [`QueryError::MemoryTaken`] if it has no row. `None` if only `max_bytes`
    /// counts.
    pub reserve_rows: Option<&'a mut dyn FnMut(usize) -> bool>,
    /// Returns true if the time for this page is over. Called every few candidates, and not before
    /// the first candidate was evaluated.
    pub is_expired: &'a mut dyn FnMut() -> bool,
    /// The clock that measures [`Work::write_us`]; `None` where the request asks for no metrics.
    pub clock: Option<Clock<'a>>,
    /// The current time in milliseconds since 1970.
    pub now_ms: u64,
    /// The time at which the query's first page began, in milliseconds since 1970; the functions
    /// whose names end in STATIC return it.
    pub started_ms: u64,
    /// The seed of RAND().
    pub random_seed: u64,
}

/// The rows of one page, and the point at which the next page begins.
#[derive(Clone, Debug)]
pub struct Page {
    /// Each row as JSON text.
    pub rows: Vec<Bytes>,
    /// `None` when the query is finished.
    pub resume: Option<ResumePoint>,
}

/// The point at which a page ended and the next page begins.
///
/// A query that streams stops at a position of the source; the next page runs on a source that
/// begins there. A query that must read all items first (GROUP BY, unordered DISTINCT, an ORDER BY
/// that the source does not serve) has an empty position: the next page runs on a source from the
/// beginning and skips the rows of earlier pages. A sorted query skips by the sort values of the
/// last row where these are short, otherwise by count. An aggregate without GROUP BY that runs out
/// of time keeps its partial state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumePoint {
    /// The position at which the next source must begin; empty for the beginning.
    pub position: Vec<u8>,
    /// The hash of the query; see `fingerprint.rs`.
    pub(crate) query_hash: u64,
    /// The number of rows already processed of the item within which the page ended.
    pub(crate) rows_done_in_item: u64,
    /// The number of that item, if items have numbers. It need not be the next candidate: the item
    /// may have been deleted, and a source with another access path may return items before it that
    /// do not fulfil the condition.
    pub(crate) item_number: Option<u64>,
    /// The number of rows skipped by OFFSET so far.
    pub(crate) rows_skipped: u64,
    /// The number of rows returned so far.
    pub(crate) rows_returned: u64,
    /// Digests of the last rows of an ordered DISTINCT.
    pub(crate) recent_row_digests: Vec<u128>,
    /// Partial aggregates, or the sort values of the last row of a sorted page.
    pub(crate) state: Vec<u8>,
}

/// Counters of the work done, for metrics and the request charge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Candidates taken from the source.
    pub candidates: u64,
    /// Candidates whose text was parsed, in whole or in part.
    pub items_parsed: u64,
    /// Tuples on which the WHERE clause was evaluated.
    pub items_filtered: u64,
    /// Array elements iterated by IN in FROM and JOIN, subqueries included.
    pub tuples: u64,
    /// Rows built by a SELECT list; rows that are the item itself do not count.
    pub projected: u64,
    /// Calls of user-defined functions.
    pub udf_calls: u64,
    /// Rows returned.
    pub rows_out: u64,
    /// Bytes of the rows returned.
    pub bytes_out: u64,
    /// Microseconds for the rows: their values by the SELECT list, their texts, and their place in
    /// the page. Measured by samples, if [`Bounds::clock`] is present.
    pub write_us: u64,
    /// True if an aggregate was computed.
    pub has_aggregate: bool,
}
