//! Statistics of the requests to a container: a heat map of the hash space, the busiest partition
//! keys, the kinds of requests, and the forms of queries.

use super::Charge;
use orrery_model::Json;
use orrery_model::partition_key::Epk;

/// The number of buckets of a heat map. They divide the part of the hash space that the keys of the
/// container can have into equal parts.
pub const HEAT_BUCKETS: usize = 256;

/// The requests to one bucket in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    /// The sum of the charges.
    pub charge: Charge,
    /// The bytes of written and deleted items.
    pub bytes_written: u64,
    /// The number of requests, including throttled ones.
    pub requests: u32,
    /// The number of requests that were refused with 429.
    pub throttled: u32,
}

/// The load of a container since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerLoad {
    /// The sum of the charges.
    pub charge: Charge,
    /// The number of requests at physical partitions: one that asks several counts at each.
    pub requests: u64,
    /// The number of these requests that were refused with 429.
    pub throttled: u64,
}

impl ContainerLoad {
    /// Adds a request at a physical partition.
    pub(crate) fn add(&mut self, charge: Charge, throttled: bool) {
        self.charge.0 += charge.0;
        self.requests += 1;
        self.throttled += u64::from(throttled);
    }
}

/// One period of a heat map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatColumn {
    /// The begin in milliseconds since 1970, a multiple of the width.
    pub start_ms: u64,
    /// The width in milliseconds.
    pub width_ms: u64,
    /// The buckets that had requests, in ascending order of their numbers.
    pub buckets: Vec<(u8, Heat)>,
    /// Requests that were not for one logical partition: queries and feeds over many.
    pub scans: Heat,
}

/// The measure by which partition keys are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMeasure {
    /// Request charges.
    Charge,
    /// The bytes of written and deleted items.
    BytesWritten,
}

/// The time over which partition keys are ranked: from the begin of the last full period until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyWindow {
    /// Ten to twenty seconds.
    Now,
    /// One to two minutes.
    Minute,
    /// One to two hours.
    Hour,
    /// One to two days.
    Day,
}

/// The busiest partition keys.
#[derive(Clone, Debug)]
pub struct TopKeys {
    /// The begin of the time in milliseconds since 1970.
    pub since_ms: u64,
    /// The keys, in descending order of their amounts.
    pub keys: Vec<TopKey>,
    /// An upper bound of the amount of every key that is not listed.
    pub others_at_most: u64,
    /// The sum of the amounts of all keys.
    pub total: u64,
}

/// A busy partition key.
#[derive(Clone, Debug, PartialEq)]
pub struct TopKey {
    /// The values of the partition key as an array, read from one of its items; `None` if the key
    /// has no item now.
    pub key: Option<Json>,
    /// The effective partition key.
    pub epk: Epk,
    /// Hundredths of request units, or bytes; never less than the true sum.
    pub amount: u64,
    /// The largest possible excess of `amount` over the true sum.
    pub error: u64,
}

/// Statistics of the queries of one form: queries that differ only in their values.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryForm {
    /// The text of a query with `?` in place of values.
    pub text: String,
    /// The number of executed pages.
    pub count: u64,
    /// The sum of the charges.
    pub charge: Charge,
    /// The median charge of a page, exact for fewer than 100 pages and then within an eighth.
    pub charge_p50: Charge,
    /// The 95th percentile of the charge, as exact as the median.
    pub charge_p95: Charge,
    /// The median duration of a page in microseconds, as exact as the median charge.
    pub micros_p50: u64,
    /// The 99th percentile of the duration in microseconds, as exact as the median charge.
    pub micros_p99: u64,
    /// The number of physical partitions that pages read, summed over all pages.
    pub partitions: u64,
    /// The number of loaded items.
    pub retrieved: u64,
    /// The number of returned rows.
    pub output: u64,
    /// True if the last page was not for a single logical partition.
    pub crosses_partitions: bool,
    /// The document of `x-ms-cosmos-index-utilization` of a recent page: used and possible indexes.
    pub index_advice: Option<String>,
    /// The time of the last page in milliseconds since 1970.
    pub last_ms: u64,
}

/// The kinds of requests for items that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationKind {
    /// A read of one item by its id, found or not.
    PointRead,
    /// A create of an item.
    Create,
    /// An upsert of an item.
    Upsert,
    /// A replace of an item.
    Replace,
    /// A partial update of an item.
    Patch,
    /// A delete of an item.
    Delete,
    /// A transactional batch.
    Batch,
    /// A stored procedure.
    Script,
    /// A page of a read feed or change feed.
    Feed,
    /// A page of a query.
    Query,
}

impl OperationKind {
    /// Every kind, in the order of reports.
    pub const ALL: [OperationKind; 10] = [
        OperationKind::PointRead,
        OperationKind::Create,
        OperationKind::Upsert,
        OperationKind::Replace,
        OperationKind::Patch,
        OperationKind::Delete,
        OperationKind::Batch,
        OperationKind::Script,
        OperationKind::Feed,
        OperationKind::Query,
    ];

    /// Returns the name of the kind in reports.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::PointRead => "pointRead",
            OperationKind::Create => "create",
            OperationKind::Upsert => "upsert",
            OperationKind::Replace => "replace",
            OperationKind::Patch => "patch",
            OperationKind::Delete => "delete",
            OperationKind::Batch => "batch",
            OperationKind::Script => "script",
            OperationKind::Feed => "feed",
            OperationKind::Query => "query",
        }
    }
}

/// The requests of one kind, in the form from which they can be repeated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedOperations {
    /// The number of requests that were carried out.
    pub count: u64,
    /// The sum of the charges.
    pub charge: Charge,
    /// Of `count`: the requests that replaced an item.
    pub replaced: u64,
    /// The index entries that the replacements removed and added.
    pub changed_terms: u64,
    /// The operations of the patches.
    pub patch_operations: u64,
    /// A random sample of the requests that found an item: its number in the container. Recent
    /// requests are more likely than old ones.
    pub items: Vec<u64>,
}

/// The queries of one form, in the form from which they can be repeated. No value of a query is
/// kept: values come from the items that the samples name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedQuery {
    /// The text of a query with `?` in place of values.
    pub text: String,
    /// False if the text was too long to be kept as a whole.
    pub is_complete: bool,
    /// The numbers of TOP, OFFSET and LIMIT of the last query, in the order of the text.
    pub counts: Vec<u64>,
    /// The rows wanted on a page by the last query; `None` left the choice to the server.
    pub page_items: Option<usize>,
    /// The number of executed pages.
    pub pages: u64,
    /// Of `pages`: those without a continuation.
    pub first_pages: u64,
    /// Of `pages`: those whose request named the partition key.
    pub pages_of_key: u64,
    /// Of `pages`: those whose request named one physical partition, as clients do that merge by
    /// themselves.
    pub pages_of_range: u64,
    /// The sum of the charges.
    pub charge: Charge,
    /// The number of physical partitions that pages read, summed over all pages.
    pub partitions: u64,
    /// A random sample of the pages. Recent pages are more likely than old ones.
    pub samples: Vec<QuerySample>,
}

/// The subject of one page of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuerySample {
    /// The logical partition, if the page was for a single one.
    pub key: Option<Epk>,
    /// The number of the first item that the page loaded.
    pub item: Option<u64>,
}

/// The requests to a container since the process started, in the form from which they can be
/// repeated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedTraffic {
    /// The kinds of requests that occurred, in the order of [`OperationKind::ALL`].
    pub operations: Vec<(OperationKind, RecordedOperations)>,
    /// The forms of queries, the most expensive in total first.
    pub queries: Vec<RecordedQuery>,
}
