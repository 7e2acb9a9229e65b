//! What was asked of a container where and when, as pictures of partitioning show it.

use super::Charge;
use orrery_model::Json;
use orrery_model::partition_key::Epk;

/// Parts of the hash space that a heat map tells apart, of equal width in the space that the container's keys fill.
pub const HEAT_BUCKETS: usize = 256;

/// What was asked of a part of the hash space in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    /// What the requests were charged.
    pub charge: Charge,
    /// Bytes of the items that were written or deleted.
    pub bytes_written: u64,
    /// Requests, those that were throttled among them.
    pub requests: u32,
    /// Requests that were refused with 429.
    pub throttled: u32,
}

/// A stretch of time in a heat map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatColumn {
    /// Milliseconds since 1970 at which it begins, a multiple of its width.
    pub start_ms: u64,
    /// Milliseconds that it spans.
    pub width_ms: u64,
    /// The parts of the hash space that were asked, by number, ascending.
    pub buckets: Vec<(u8, Heat)>,
    /// What requests asked that were not for one logical partition: queries and feeds over many.
    pub scans: Heat,
}

/// By what logical keys are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMeasure {
    /// Request units.
    Charge,
    /// Bytes of the items that were written or deleted.
    BytesWritten,
}

/// Over which time logical keys are ranked: from the beginning of the last full one of these until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyWindow {
    /// One to two minutes.
    Minute,
    /// One to two hours.
    Hour,
    /// One to two days.
    Day,
}

/// The logical keys of which most was asked.
#[derive(Clone, Debug)]
pub struct TopKeys {
    /// Milliseconds since 1970 from which on requests count.
    pub since_ms: u64,
    /// The keys, the greatest first.
    pub keys: Vec<TopKey>,
    /// No key that is not listed has more than this.
    pub others_at_most: u64,
    /// The sum over all keys.
    pub total: u64,
}

/// A logical key of which much was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct TopKey {
    /// The values of the partition key, as an array, taken from one of its items; `None` if it has none now.
    pub key: Option<Json>,
    /// Its place in the hash space.
    pub epk: Epk,
    /// Hundredths of request units, or bytes: at least the true sum.
    pub amount: u64,
    /// By how much `amount` may be too great.
    pub error: u64,
}

/// Queries of one form, whatever values they ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryForm {
    /// A text of it, with `?` where values stood.
    pub text: String,
    /// Pages that were run.
    pub count: u64,
    /// What they were charged in total.
    pub charge: Charge,
    /// The charge that half of them do not exceed, within an eighth.
    pub charge_p50: Charge,
    /// The charge that 95 of 100 do not exceed.
    pub charge_p95: Charge,
    /// Microseconds that half of them did not exceed, within an eighth.
    pub micros_p50: u64,
    /// Microseconds that 99 of 100 did not exceed.
    pub micros_p99: u64,
    /// Physical partitions that they asked, over all pages.
    pub partitions: u64,
    /// Items that were loaded.
    pub retrieved: u64,
    /// Rows that were returned.
    pub output: u64,
    /// Whether the last one was not for a single logical partition.
    pub crosses_partitions: bool,
    /// Which indexes a late one used and could use: the document of `x-ms-cosmos-index-utilization`.
    pub index_advice: Option<String>,
    /// Milliseconds since 1970 of the last one.
    pub last_ms: u64,
}
