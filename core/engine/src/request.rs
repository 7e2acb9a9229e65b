//! Types of requests to the engine and of their answers. They have no behaviour.
//!
//! Every operation returns an [`Outcome`]: the result, the request charge (errors are charged too)
//! and the position in the history of a partition that the answer reflects. The gateway makes
//! session tokens from the position.

mod batch;
mod etag;
pub(crate) mod ids;
mod indexing;
pub mod properties;
mod snapshot;
mod split;
mod throughput;
mod traffic;

pub use batch::*;
pub use etag::etag_matches;
pub use indexing::IndexingDirective;
pub use snapshot::SnapshotInfo;
pub use split::{RangeChange, RangeChangeStage, RangeChangeStatus, SplitAt};
pub(crate) use throughput::throughput_out_of_range;
pub use throughput::*;
pub use traffic::*;

use bytes::Bytes;
use orrery_model::memory::AnswerMemory;
use orrery_model::partition_key::{EpkRange, PartitionKey};
use orrery_model::work::Work;
use orrery_model::{Json, Result, Rid};
use std::sync::Arc;

/// The answer to a request, successful or not.
#[derive(Debug)]
pub struct Outcome<T> {
    /// The requested value, or the error that the client gets.
    pub result: Result<T>,
    /// The request charge, `x-ms-request-charge`, rounded as the service rounds it.
    pub charge: Charge,
    /// The counted work that the charge is made from, see [`crate::Engine::charge_parts`].
    pub work: Work,
    /// The position that the answer reflects. `None` for metadata and for requests that reached no
    /// single physical partition.
    pub position: Option<Position>,
}

impl<T> Outcome<T> {
    /// Returns the same outcome with another value.
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
    /// Returns the charge in request units.
    pub fn as_ru(self) -> f64 {
        self.0 as f64 / 100.0
    }
}

impl std::iter::Sum for Charge {
    /// Adds rounded charges, as a client adds them.
    fn sum<I: Iterator<Item = Charge>>(charges: I) -> Charge {
        Charge(charges.map(|charge| charge.0).sum())
    }
}

/// Prints request units as the service does: without trailing zeros (`1`, `3.1`, `10.67`).
impl std::fmt::Display for Charge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, tenths) if tenths % 10 == 0 => write!(f, "{whole}.{}", tenths / 10),
            (whole, hundredths) => write!(f, "{whole}.{hundredths:02}"),
        }
    }
}

/// A position in the history of one physical partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The partition key range id that clients see.
    pub range_id: u32,
    /// The version of the container: its creation time in milliseconds since 1970. A later
    /// container of the same name has a higher version, so session tokens of an earlier one are
    /// recognized.
    pub version: u64,
    /// The last committed LSN that the answer reflects.
    pub lsn: u64,
    /// The LSN of the addressed item's last write, where one item was addressed.
    pub item_lsn: Option<u64>,
}

impl Position {
    /// Returns true if the partition has no commit but the one that created it. A session token of
    /// this position demands nothing of any later read.
    pub fn is_of_unwritten_partition(&self) -> bool {
        self.lsn <= 1
    }
}

/// The name of a database, container, script or item in a path.
#[derive(Clone, Copy, Debug)]
pub enum Id<'a> {
    /// The id that the client chose.
    Name(&'a str),
    /// The resource id, `_rid`.
    Rid(Rid),
}

impl<'a> From<&'a str> for Id<'a> {
    fn from(name: &'a str) -> Self {
        Id::Name(name)
    }
}

/// A resource as clients read it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The JSON text with system properties.
    pub body: Bytes,
    /// `_etag`, with its quotes.
    pub etag: String,
    /// `_rid`.
    pub rid: Rid,
    /// True if this request created the resource.
    pub created: bool,
}

/// The part of a container that a feed or query covers.
#[derive(Clone, Debug)]
pub enum Scope {
    /// The whole container.
    Everything,
    /// One logical partition, `x-ms-documentdb-partitionkey`. With fewer components than the
    /// definition has, all logical partitions that begin with them.
    Key(PartitionKey),
    /// A physical partition by its range id, limited to an EPK range if one is given.
    Range {
        /// The range id, `x-ms-documentdb-partitionkeyrangeid`.
        id: u32,
        /// The EPK range, `x-ms-start-epk` and `x-ms-end-epk`.
        within: Option<EpkRange>,
    },
    /// An EPK range of the container.
    Epk(EpkRange),
}

/// The begin and the size limits of one page of a feed.
#[derive(Clone, Debug, Default)]
pub struct PageRequest {
    /// The maximum number of rows, `x-ms-max-item-count`; `None` for as many as the bytes and the
    /// time of a page allow.
    pub max_items: Option<usize>,
    /// The continuation of the page before, `x-ms-continuation`; `None` for the first page.
    pub continuation: Option<String>,
    /// The maximum size of the returned continuation in KiB.
    pub continuation_limit_kb: Option<usize>,
}

/// A page of a feed or query.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The JSON text of each row.
    pub rows: Vec<Bytes>,
    /// The continuation for the next page; `None` at the end.
    pub continuation: Option<String>,
}

/// A request for a page of a query.
#[derive(Clone, Debug)]
pub struct QueryRequest {
    /// The SQL text.
    pub text: String,
    /// The name (with `@`) and the value of each parameter.
    pub parameters: Vec<(String, Json)>,
    /// The requested page.
    pub page: PageRequest,
    /// True if a query without a partition key may read every partition.
    pub cross_partition: bool,
    /// True if the client asks the partitions itself, several at a time, once it has the plan.
    /// Matters only where clients merge, [`crate::CrossPartitionQueries::Refuse`].
    pub fans_out: bool,
    /// The way in which the client comes to a plan. Matters only where clients merge.
    pub plan_source: PlanSource,
    /// True if [`QueryPage::metrics`] is requested.
    pub metrics: bool,
    /// True if [`QueryPage::index_use`] is requested, `x-ms-cosmos-populateindexmetrics-V2`.
    pub index_use: bool,
    /// True if [`QueryPage::explanation`] is requested, `x-orrery-explain`.
    pub explain: bool,
    /// True if [`QueryPage::advice`] is requested, `x-ms-cosmos-populatequeryadvice`.
    pub advice: bool,
    /// The member `resumeFilter` of the body, with which a client that merges partitions resumes an
    /// ORDER BY. Only for queries of items.
    pub resume_filter: Option<Json>,
    /// True for a read feed, which has the items that are not indexed too.
    pub is_read_feed: bool,
}

/// The way in which a client comes to the plan of a query that it has to merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanSource {
    /// The client asks for the plan in a request of its own, which names what it can merge.
    OwnRequest,
    /// The client takes the plan from the refusal of the query, and names what it can merge.
    RefusalFor(String),
    /// The client takes the plan from the refusal of the query, and can do the merges of the first
    /// clients.
    Refusal,
}

impl QueryRequest {
    /// Creates a query without reports that needs a partition key.
    pub fn of(text: impl Into<String>, parameters: Vec<(String, Json)>, page: PageRequest) -> Self {
        let text = text.into();
        QueryRequest {
            text,
            parameters,
            page,
            cross_partition: false,
            fans_out: false,
            plan_source: PlanSource::OwnRequest,
            metrics: false,
            index_use: false,
            explain: false,
            advice: false,
            resume_filter: None,
            is_read_feed: false,
        }
    }

    /// Creates the query that reads all rows of all partitions in their natural order.
    pub fn everything(page: &PageRequest) -> Self {
        QueryRequest {
            cross_partition: true,
            is_read_feed: true,
            ..QueryRequest::of("SELECT * FROM c", Vec::new(), page.clone())
        }
    }
}

/// A page of a query with the requested reports.
#[derive(Clone, Debug, Default)]
pub struct QueryPage {
    /// The rows and the continuation.
    pub page: Page,
    /// The value of `x-ms-documentdb-query-metrics`, if requested.
    pub metrics: Option<String>,
    /// The index metrics document (JSON text) of the access path that the planner chose.
    pub index_metrics: Option<String>,
    /// The index metrics document of the second version (JSON text), if requested. Only the first
    /// page of a query has the document, which is the same for all pages.
    pub index_use: Option<String>,
    /// The access path and the charge of each partition (JSON text).
    pub explanation: Option<String>,
    /// The numbers of the query advisor's rules that apply to the query, if requested.
    pub advice: Vec<&'static str>,
    /// True if rows that are equal in ORDER BY are in descending order of their resource ids.
    pub descends: bool,
}

/// The start of a change feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedStart {
    /// The oldest change.
    Beginning,
    /// Changes from now on.
    Now,
    /// Changes after a second, `If-Modified-Since`.
    After {
        /// Seconds since 1970.
        seconds: u64,
    },
    /// Changes after this LSN, the etag of an earlier page.
    Lsn(u64),
    /// Changes after a position in each of several physical partitions, the etag of an earlier page
    /// over all of them.
    Ranges(Vec<RangePosition>),
}

/// A position in the changes of one physical partition: all changes up to it are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangePosition {
    /// The id of the partition key range.
    pub range: u32,
    /// The position.
    pub start: RangeStart,
}

/// The start of the changes of one physical partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeStart {
    /// Changes after this LSN.
    Lsn(u64),
    /// Changes after a second since 1970. No page has read the partition yet.
    After(u64),
}

/// A page of a change feed.
#[derive(Clone, Debug)]
pub struct FeedPage {
    /// The JSON texts of items with `_lsn`, or of versions, in LSN order.
    pub rows: Vec<Bytes>,
    /// The LSN after which the next page starts; the etag of a page of one physical partition.
    pub continue_after: u64,
    /// The positions after which the next page starts; the etag of a page over several physical
    /// partitions, and of one in which a reader of several was further in some parts. Else empty.
    pub ranges: Vec<RangePosition>,
    /// True if the page ended because of its size or its work, not at the head of the history. If
    /// false, a page without rows means 304.
    pub cut: bool,
}

/// The kind of a write, with the item that it names.
#[derive(Clone, Debug)]
pub enum WriteOperation {
    /// Creates an item; 409 if the id is taken.
    Create,
    /// Creates or replaces an item.
    Upsert,
    /// Replaces the item of this id, see [`WriteOptions::by_rid`].
    Replace(String),
    /// Changes parts of the item of this id; the body is a patch. See [`WriteOptions::by_rid`].
    Patch(String),
    /// Deletes the item of this id, see [`WriteOptions::by_rid`].
    Delete(String),
}

/// Conditions and options of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The partition key, `x-ms-documentdb-partitionkey`. Writes with an item may leave it out;
    /// patches and deletes may not.
    pub partition_key: Option<PartitionKey>,
    /// True if the operation names its item by resource id (a `_self` link), false for the id.
    pub by_rid: bool,
    /// The etag in `If-Match`.
    pub if_match: Option<String>,
    /// `x-ms-indexing-directive`.
    pub indexing: IndexingDirective,
    /// `x-ms-exclude-system-properties`: true if the item is stored, and answered, without `_self`
    /// and `_attachments`.
    pub leaves_out_links: bool,
    /// The id of the pre-trigger, `x-ms-documentdb-pre-trigger-include`.
    pub pre_trigger: Option<String>,
    /// The id of the post-trigger, `x-ms-documentdb-post-trigger-include`.
    pub post_trigger: Option<String>,
    /// The priority and the budget of the request.
    pub admission: AdmissionOptions,
    /// The memory of the answer; `None` if the answer has no item, or if nothing counts it.
    pub answer: Option<Arc<AnswerMemory>>,
}

/// The answer to a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The stored item, or the text that a post-trigger set; `None` after a delete.
    pub item: Option<Bytes>,
    /// `_etag` with its quotes; `None` after a delete.
    pub etag: Option<String>,
    /// True if the item is new.
    pub created: bool,
}

/// The answer to a read of an item.
#[derive(Clone, Debug)]
pub enum ReadReply {
    /// The item.
    Item {
        /// The JSON text with system properties.
        body: Bytes,
        /// The `_etag` with its quotes.
        etag: String,
    },
    /// `If-None-Match` named the current etag.
    NotModified {
        /// The current etag.
        etag: String,
    },
}

/// The answer of a stored procedure.
#[derive(Clone, Debug)]
pub struct ProcedureReply {
    /// The JSON text of the response body.
    pub body: String,
    /// The log of the script, if requested.
    pub log: Option<String>,
}

/// The kinds of scripts in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptKind {
    /// Stored procedures.
    Procedure,
    /// Triggers.
    Trigger,
    /// User-defined functions.
    Function,
}

/// The kinds of access resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessResourceKind {
    /// A user of a database.
    User,
    /// A permission of a user.
    Permission,
    /// A client encryption key of a database.
    EncryptionKey,
}

/// A live physical partition as clients see it.
#[derive(Clone, Debug)]
pub struct RangeInfo {
    /// The partition key range id.
    pub id: u32,
    /// The resource id of the range.
    pub rid: Rid,
    /// The EPK range.
    pub range: EpkRange,
    /// The range ids of all ancestors, the oldest first.
    pub parents: Vec<u32>,
    /// The last durable LSN.
    pub lsn: u64,
    /// True if the partition is being split, or will be because the throughput needs more
    /// partitions.
    pub is_splitting: bool,
}
