//! What callers ask of the engine and what they get back: plain types, no behaviour.
//!
//! Every operation answers with an [`Outcome`]: the result, the request charge (errors are charged too) and the place
//! in a partition's history that the answer reflects, from which the gateway makes session tokens.

mod batch;
mod etag;
pub mod properties;
mod snapshot;
mod split;
mod throughput;
mod traffic;

pub use batch::*;
pub use etag::etag_matches;
pub use snapshot::SnapshotInfo;
pub use split::{RangeChange, RangeChangeStage, RangeChangeStatus, SplitAt};
pub(crate) use throughput::outside;
pub use throughput::*;
pub use traffic::*;

use bytes::Bytes;
use orrery_model::partition_key::{EpkRange, PartitionKey};
use orrery_model::work::Work;
use orrery_model::{Json, Result, Rid};

/// The answer to a request, good or bad.
#[derive(Debug)]
pub struct Outcome<T> {
    /// What was asked for, or why it could not be done.
    pub result: Result<T>,
    /// Request units, in hundredths, as the service rounds them.
    pub charge: Charge,
    /// The work that is charged, see [`crate::Engine::charge_parts`].
    pub work: Work,
    /// Where in which partition's history the answer stands. `None` for metadata and for requests that reached no
    /// single partition.
    pub position: Option<Position>,
}

impl<T> Outcome<T> {
    /// The same outcome with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Outcome<U> {
        Outcome {
            result: self.result.map(f),
            charge: self.charge,
            work: self.work,
            position: self.position,
        }
    }
}

/// A request charge in hundredths of a request unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Charge(pub u64);

impl Charge {
    /// Request units.
    pub fn as_ru(self) -> f64 {
        self.0 as f64 / 100.0
    }
}

impl std::iter::Sum for Charge {
    /// What clients add up: charges that are rounded already.
    fn sum<I: Iterator<Item = Charge>>(charges: I) -> Charge {
        Charge(charges.map(|charge| charge.0).sum())
    }
}

/// Prints as the service does: no trailing zeros (`1`, `3.1`, `10.67`).
impl std::fmt::Display for Charge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, tenths) if tenths % 10 == 0 => write!(f, "{whole}.{}", tenths / 10),
            (whole, hundredths) => write!(f, "{whole}.{hundredths:02}"),
        }
    }
}

/// A place in the history of one physical partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The partition key range id that clients see.
    pub range_id: u32,
    /// Which life of the container this is: later containers of the same name have higher ones, so that a client's
    /// token for an earlier one is told apart.
    pub version: u64,
    /// The last committed LSN that the answer reflects.
    pub lsn: u64,
    /// The LSN of the addressed item's last write, where one item was addressed.
    pub item_lsn: Option<u64>,
}

/// How a database, container, script or item is named in a path: by its id or by its resource id.
#[derive(Clone, Copy, Debug)]
pub enum Id<'a> {
    /// By name.
    Name(&'a str),
    /// By resource id.
    Rid(Rid),
}

impl<'a> From<&'a str> for Id<'a> {
    fn from(name: &'a str) -> Self {
        Id::Name(name)
    }
}

/// A single resource as a client reads it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The whole JSON text, system properties included.
    pub body: Bytes,
    /// `_etag`, with its quotes.
    pub etag: String,
    /// `_rid`.
    pub rid: Rid,
    /// Whether it was created by this request.
    pub created: bool,
}

/// Which part of a container a feed or query covers.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All of it.
    Everything,
    /// One logical partition, or, with fewer components than the definition has, all that begin so.
    Key(PartitionKey),
    /// A physical partition by its range id, narrowed to a stretch of the hash space if one is given.
    Range {
        /// The number in `x-ms-documentdb-partitionkeyrangeid`.
        id: u32,
        /// `x-ms-start-epk` and `x-ms-end-epk`.
        within: Option<EpkRange>,
    },
    /// A stretch of the hash space.
    Epk(EpkRange),
}

/// How much of a feed one page holds.
#[derive(Clone, Debug, Default)]
pub struct PageRequest {
    /// Rows at most; `None` lets the server choose.
    pub max_items: Option<usize>,
    /// Where the page before ended, as the server said then.
    pub continuation: Option<String>,
    /// Kilobytes that a continuation may take.
    pub continuation_limit_kb: Option<usize>,
}

/// A page of a feed or query.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// JSON texts.
    pub rows: Vec<Bytes>,
    /// Where to go on; `None` at the end.
    pub continuation: Option<String>,
}

/// A query.
#[derive(Clone, Debug)]
pub struct QueryRequest {
    /// SQL.
    pub text: String,
    /// Names (with `@`) and values.
    pub parameters: Vec<(String, Json)>,
    /// The page wanted.
    pub page: PageRequest,
    /// Whether a query that names no partition key may ask every partition.
    pub cross_partition: bool,
    /// Whether to report [`QueryPage::metrics`].
    pub metrics: bool,
    /// Whether to report [`QueryPage::explanation`].
    pub explain: bool,
    /// Whether to report [`QueryPage::advice`].
    pub advice: bool,
    /// Where a client that merges resumes an ORDER BY, as it sent it. Of items only.
    pub resume_filter: Option<Json>,
}

impl QueryRequest {
    /// A page of a query that names its partition key, without reports.
    pub fn of(text: impl Into<String>, parameters: Vec<(String, Json)>, page: PageRequest) -> Self {
        let text = text.into();
        QueryRequest {
            text,
            parameters,
            page,
            cross_partition: false,
            metrics: false,
            explain: false,
            advice: false,
            resume_filter: None,
        }
    }

    /// A page of everything there is, in natural order.
    pub fn everything(page: &PageRequest) -> Self {
        QueryRequest {
            cross_partition: true,
            ..QueryRequest::of("SELECT * FROM c", Vec::new(), page.clone())
        }
    }
}

/// A page of a query.
#[derive(Clone, Debug, Default)]
pub struct QueryPage {
    /// Rows and continuation.
    pub page: Page,
    /// `x-ms-documentdb-query-metrics`, if it was asked for.
    pub metrics: Option<String>,
    /// The index metrics document (JSON), from the planner's own choice.
    pub index_metrics: Option<String>,
    /// How each partition was searched and what it was charged (JSON).
    pub explanation: Option<String>,
    /// Numbers of the query advisor's rules that the query runs into, if they were asked for.
    pub advice: Vec<&'static str>,
    /// Whether rows that ORDER BY holds equal come downwards, by resource id.
    pub descends: bool,
}

/// Where a change feed starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedStart {
    /// With the oldest item.
    Beginning,
    /// With what happens from now on.
    Now,
    /// With what was written after this second (since 1970).
    After {
        /// Seconds since 1970.
        seconds: u64,
    },
    /// After this LSN: the etag of an earlier page.
    Lsn(u64),
}

/// A page of a change feed.
#[derive(Clone, Debug)]
pub struct FeedPage {
    /// Items with `_lsn`, or versions, in LSN order.
    pub rows: Vec<Bytes>,
    /// LSN to continue after: the etag.
    pub continue_after: u64,
    /// Whether the page ended for its size or its work and not at the head of the history: more may follow at once. A
    /// page without rows that reached the head means "not modified".
    pub cut: bool,
}

/// A write of one item.
#[derive(Clone, Debug)]
pub enum WriteOperation {
    /// Fails if the id is taken.
    Create,
    /// Creates or replaces.
    Upsert,
    /// Replaces the item of this id; see [`WriteOptions::by_rid`].
    Replace(String),
    /// Changes the item of this id in part; the body is a patch. See [`WriteOptions::by_rid`].
    Patch(String),
    /// Deletes the item of this id; see [`WriteOptions::by_rid`].
    Delete(String),
}

/// Conditions and options of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The partition key header. Writes with an item may leave it out; patches and deletes may not.
    pub partition_key: Option<PartitionKey>,
    /// Whether the operation names its item by resource id (a `_self` link) and not by id.
    pub by_rid: bool,
    /// `If-Match`.
    pub if_match: Option<String>,
    /// `x-ms-indexing-directive: Exclude`.
    pub leave_out_of_index: bool,
    /// The pre-trigger to run.
    pub pre_trigger: Option<String>,
    /// The post-trigger to run.
    pub post_trigger: Option<String>,
    /// How it is admitted.
    pub admission: AdmissionOptions,
}

/// A write that was carried out.
#[derive(Clone, Debug)]
pub struct Written {
    /// The item as stored (or as a post-trigger rewrote the answer); `None` after a delete.
    pub item: Option<Bytes>,
    /// `_etag` with quotes; `None` after a delete.
    pub etag: Option<String>,
    /// Whether the item is new.
    pub created: bool,
}

/// An item that was read.
#[derive(Clone, Debug)]
pub enum ReadReply {
    /// The item.
    Item {
        /// Its text with system properties.
        body: Bytes,
        /// Its `_etag`.
        etag: String,
    },
    /// `If-None-Match` named the current etag.
    NotModified {
        /// The etag.
        etag: String,
    },
}

/// A stored procedure's answer.
#[derive(Clone, Debug)]
pub struct ProcedureReply {
    /// JSON text of the response body.
    pub body: String,
    /// What the script logged, if logging was asked for.
    pub log: Option<String>,
}

/// The kinds of script that a container holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptKind {
    /// Stored procedures.
    Procedure,
    /// Triggers.
    Trigger,
    /// User-defined functions.
    Function,
}

/// Resources that are nothing but their checked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessResourceKind {
    /// A user of a database.
    User,
    /// A permission of a user.
    Permission,
    /// A client encryption key of a database.
    EncryptionKey,
}

/// One live physical partition as clients see it.
#[derive(Clone, Debug)]
pub struct RangeInfo {
    /// The range id.
    pub id: u32,
    /// Its `_rid`.
    pub rid: Rid,
    /// Its stretch of the hash space.
    pub range: EpkRange,
    /// Ids of the ranges that it came from.
    pub parents: Vec<u32>,
    /// Its last LSN.
    pub lsn: u64,
    /// Whether it is being split, or will be for the container's throughput.
    pub is_splitting: bool,
}
