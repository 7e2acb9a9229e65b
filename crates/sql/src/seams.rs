//! What a query asks of the world: items, user-defined functions, bounds; and what it gives back.
//!
//! All of it is plain calls. A source may hand out more items than the condition asks for, never fewer; the query
//! filters. Time and randomness come in through [`Bounds`], work is counted in [`Work`] and never priced here.

use crate::condition::Path;
use crate::error::QueryError;
use bytes::Bytes;
use orrery_model::json::Json;
use std::collections::HashSet;

/// What a query may name besides the items.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Names of the container's user-defined functions.
    pub user_functions: HashSet<String>,
    /// Computed properties: name and text (`SELECT VALUE ... FROM c`).
    pub computed_properties: Vec<(String, String)>,
    /// The partition key's paths, for plans: a query that fixes them all needs no merging. May be left empty.
    pub partition_key: Vec<Path>,
    /// Spatial functions compute in the plane (the container's geospatial setting is "Geometry"), not on the ellipsoid.
    pub is_planar: bool,
    /// What the container says of its vectors.
    pub vector_paths: Vec<VectorPath>,
    /// The language of texts at some paths, by the codes of [`crate::full_text_languages`].
    pub full_text_paths: Vec<(Path, String)>,
    /// The language of all other texts; the service's default one if there is none.
    pub default_language: Option<String>,
}

/// A path at which items hold a vector.
#[derive(Clone, Debug)]
pub struct VectorPath {
    /// Where.
    pub path: Path,
    /// `float32`, `float16`, `int8` or `uint8`.
    pub data_type: String,
    /// `cosine`, `dotproduct` or `euclidean`.
    pub distance_function: String,
}

/// An item that may give rows.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The complete item as JSON text, system properties included. `None` only where
    /// [`crate::Query::demand`] is not `Items`.
    pub text: Option<Bytes>,
    /// The condition is known to hold for it. Used only if the query's condition is exact.
    pub condition_holds: bool,
    /// What tells the item apart from all others. Candidates come by it, upwards or, if the first key of ORDER BY
    /// descends, downwards, unless they come in the order of ORDER BY. `None` where there is no such number.
    pub item_number: Option<u64>,
}

/// Where candidates come from. Every item that fulfils the query's condition comes once; others may come too.
pub trait Source {
    /// The next candidate, `None` at the end.
    ///
    /// # Errors
    /// Whatever the store reports, as [`QueryError::Source`].
    fn next(&mut self) -> Result<Option<Candidate>, QueryError>;

    /// Whether candidates come in the order that [`crate::Query::order`] asks for, ties in natural order, or in its
    /// reverse if the first key descends. May say so only if every key has a path. If false the query sorts, and keeps
    /// ties as they come.
    fn is_ordered(&self) -> bool;

    /// The place after the last candidate handed out (the beginning if none was), for [`ResumePoint::position`]. Opaque to
    /// the query, never empty, and short: it travels in a continuation token.
    fn position(&self) -> Vec<u8>;

    /// Whether finding candidates has cost as much as one page may cost. A query that can stop at a place does so.
    fn is_page_budget_spent(&self) -> bool {
        false
    }
}

/// Calls `udf.name(...)`.
pub trait Functions {
    /// Tells the names of all functions that the query to be run may call.
    fn prepare(&mut self, _names: &[String]) {}

    /// The result of the function; `None` stands for undefined, in the arguments as well.
    ///
    /// # Errors
    /// [`QueryError::Udf`] if it throws or is stopped.
    fn call(&mut self, name: &str, arguments: &[Option<Json>]) -> Result<Option<Json>, QueryError>;
}

/// How far one page may go, and the outside world at its time.
pub struct Bounds<'a> {
    /// Rows of the page, at least 1.
    pub max_items: usize,
    /// Bytes of the rows together. One row alone may be larger.
    pub max_bytes: usize,
    /// Bytes that a plan which must collect (sort, groups, distinct values, lists) may hold.
    pub max_memory: usize,
    /// Whether the time for this page is over. Asked every few candidates, never before the first row was possible.
    pub is_expired: &'a mut dyn FnMut() -> bool,
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// The time at which the query's first page began, for the ...STATIC functions.
    pub started_ms: u64,
    /// Seed of RAND().
    pub random_seed: u64,
}

/// Some rows, and where to go on.
#[derive(Clone, Debug)]
pub struct Page {
    /// Each row as JSON text.
    pub rows: Vec<Bytes>,
    /// `None` when the query is finished.
    pub resume: Option<ResumePoint>,
}

/// Where a query stopped.
///
/// Plans that stream stop at a place of the source; the next page is run on a source that begins there. Plans that
/// must see everything first (GROUP BY, unordered DISTINCT, ORDER BY that the source does not serve) have none: their
/// position is empty, the next page is run on a source from the beginning, and the rows that are out already are
/// skipped, by the sort values of the last one where these are short. An aggregate without GROUP BY that runs out of time keeps its partial state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumePoint {
    /// Where the next source must begin; empty for the beginning.
    pub position: Vec<u8>,
    /// Hash of the query, see [`crate::fingerprint`].
    pub(crate) query_hash: u64,
    /// Rows of the item within which the page ended that are dealt with already.
    pub(crate) rows_done_in_item: u64,
    /// The number of that item, where it has one. It need not be the next candidate: it may be gone by then, and a source
    /// that looks for items in another way than before may give some in front of it that fulfil no condition.
    pub(crate) item_number: Option<u64>,
    /// Rows taken off by OFFSET so far.
    pub(crate) rows_skipped: u64,
    /// Rows given out so far.
    pub(crate) rows_returned: u64,
    /// Hashes of the last rows of an ordered DISTINCT.
    pub(crate) recent_row_digests: Vec<u128>,
    /// Partial aggregates, or the place of the last row of a sorted page.
    pub(crate) state: Vec<u8>,
}

/// What was done, for metrics and the request charge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Candidates taken from the source.
    pub candidates: u64,
    /// Candidates whose text was looked into.
    pub items_parsed: u64,
    /// Tuples on which the WHERE clause was evaluated.
    pub items_filtered: u64,
    /// Array elements iterated by IN, in FROM, JOIN and subqueries.
    pub tuples: u64,
    /// Rows built by a SELECT list, rather than handed through.
    pub projected: u64,
    /// Calls of user-defined functions.
    pub udf_calls: u64,
    /// Rows of the page.
    pub rows_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Whether an aggregate was computed.
    pub has_aggregate: bool,
}
