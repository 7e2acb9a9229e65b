//! Statistics of the requests to a container: a heat map of the hash space, the busiest partition
//! keys, and the forms of queries.

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
    /// The median charge of a page, within an eighth.
    pub charge_p50: Charge,
    /// The 95th percentile of the charge, within an eighth.
    pub charge_p95: Charge,
    /// The median duration of a page in microseconds, within an eighth.
    pub micros_p50: u64,
    /// The 99th percentile of the duration in microseconds, within an eighth.
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
