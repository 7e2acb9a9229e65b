//! The cost of one request of the blog, summed over all its requests to the database, and, if
//! asked for, a record of each of these requests.
//!
//! Charges are integers in hundredths of an RU, which is the precision of `x-ms-request-charge`.
//! Sums are therefore exact, and two runs can be compared for equality.
//!
//! Left out: requests for metadata and query plans, whose work an official SDK hides as well.

use crate::sync::lock;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A request charge in hundredths of a request unit (RU).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Charge(pub u64);

impl Charge {
    /// Parses the text of `x-ms-request-charge`, e.g. `2.89`. `None` unless the text is a number
    /// from 0 to 10^12.
    pub fn parse(text: &str) -> Option<Self> {
        let ru: f64 = text.trim().parse().ok()?;
        if !(0.0..=1e12).contains(&ru) {
            return None;
        }
        Some(Self((ru * 100.0).round() as u64))
    }

    /// Returns the charge in RU.
    pub fn ru(self) -> f64 {
        self.0 as f64 / 100.0
    }
}

impl fmt::Display for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// The cost of one request of the blog.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measurement {
    /// Request units, summed over all pages and partitions.
    pub ru: Charge,
    /// Wall-clock time in milliseconds.
    pub ms: f64,
    /// Number of different physical partitions that handled the requests.
    pub partitions: usize,
    /// Number of requests to the database, without throttled attempts.
    pub requests: usize,
    /// Number of attempts that were throttled (429) and repeated.
    pub throttled: usize,
}

/// The kind of a request to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum Operation {
    Read,
    Create,
    Upsert,
    Replace,
    Delete,
    Query,
    Execute,
    ChangeFeed,
    Metadata,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Upsert => "upsert",
            Self::Replace => "replace",
            Self::Delete => "delete",
            Self::Query => "query",
            Self::Execute => "execute",
            Self::ChangeFeed => "change feed",
            Self::Metadata => "metadata",
        })
    }
}

/// An item in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadItem {
    /// Value of the partition key.
    pub key: String,
    /// Id of the item.
    pub id: String,
    /// Length of the item's JSON in bytes.
    pub bytes: usize,
}

/// One answered request to the database.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestRecord {
    /// The kind of the request.
    pub operation: Operation,
    /// Link of the container, e.g. `dbs/blog-v1/colls/posts`.
    pub container: String,
    /// The query with its parameters, the name of the stored procedure or trigger, or the id of
    /// the item. Empty if there is none.
    pub text: String,
    /// The partition key, if the request names one.
    pub key: Option<String>,
    /// Id of the partition key range that handled the request.
    pub range: String,
    /// HTTP status, e.g. 201.
    pub status: u16,
    /// The charge of this request.
    pub charge: Charge,
    /// Time in milliseconds until the answer was complete, including waits because of throttling.
    pub ms: f64,
    /// Number of items or rows in the answer, if it is a list.
    pub items: Option<usize>,
    /// The part of the loaded items that the index had found, 0 to 1; of queries only.
    pub index_use: Option<f64>,
    /// Number of throttled attempts before the answer.
    pub throttled: usize,
    /// The first items in the answer; empty unless the meter lists items
    /// ([`Meter::listing_items`]). Rows without an id, for example counts, are left out.
    pub read: Vec<ReadItem>,
}

/// Items that a meter lists at most, over all its records.
pub const LISTED_ITEMS_MAX: usize = 400;
/// Items of one answer that a meter lists at most.
pub const LISTED_ITEMS_OF_RECORD_MAX: usize = 20;

/// The sums of a meter.
#[derive(Debug, Default)]
struct Sums {
    ru: Charge,
    /// Container link and range id of each physical partition.
    partitions: BTreeSet<(String, String)>,
    requests: usize,
    throttled: usize,
    /// The records, if the meter keeps them.
    records: Option<Vec<RequestRecord>>,
    /// Number of items that records may still list.
    items_left: usize,
    /// The moment of each record.
    moments: Vec<Instant>,
}

/// Sums the responses that belong to one request of the blog. Clones share the same sums.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Mutex<Sums>>);

impl Meter {
    /// Creates a meter with all sums 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a meter with all sums 0 that keeps a [`RequestRecord`] of each request.
    pub fn recording() -> Self {
        let meter = Self::default();
        lock(&meter.0).records = Some(Vec::new());
        meter
    }

    /// Does the same as [`Meter::recording`]; the records also list the items in the answers, at
    /// most [`LISTED_ITEMS_OF_RECORD_MAX`] of each answer and [`LISTED_ITEMS_MAX`] in total.
    pub fn listing_items() -> Self {
        let meter = Self::recording();
        lock(&meter.0).items_left = LISTED_ITEMS_MAX;
        meter
    }

    /// Returns the number of items that the next record may list.
    pub(crate) fn items_wanted(&self) -> usize {
        lock(&self.0).items_left.min(LISTED_ITEMS_OF_RECORD_MAX)
    }

    /// Returns true if the meter keeps records.
    pub fn is_recording(&self) -> bool {
        lock(&self.0).records.is_some()
    }

    /// Returns the records so far, in the order of the answers. Empty unless the meter was created
    /// by [`Meter::recording`].
    pub fn records(&self) -> Vec<RequestRecord> {
        lock(&self.0).records.clone().unwrap_or_default()
    }

    /// Returns the records so far, each with the moment of its answer.
    pub(crate) fn records_with_moments(&self) -> Vec<(RequestRecord, Instant)> {
        let sums = lock(&self.0);
        let records = sums.records.clone().unwrap_or_default();
        records.into_iter().zip(sums.moments.clone()).collect()
    }

    /// Adds one response.
    pub(crate) fn add(&self, record: RequestRecord) {
        let mut sums = lock(&self.0);
        sums.ru.0 += record.charge.0;
        sums.requests += 1;
        sums.throttled += record.throttled;
        sums.items_left = sums.items_left.saturating_sub(record.read.len());
        sums.partitions
            .insert((record.container.clone(), record.range.clone()));
        let Some(records) = &mut sums.records else {
            return;
        };
        records.push(record);
        sums.moments.push(Instant::now());
    }

    /// Returns the sums so far together with the given time.
    pub fn measurement(&self, elapsed: Duration) -> Measurement {
        let sums = lock(&self.0);
        Measurement {
            ru: sums.ru,
            ms: elapsed.as_secs_f64() * 1000.0,
            partitions: sums.partitions.len(),
            requests: sums.requests,
            throttled: sums.throttled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_summed_exactly_and_each_partition_counts_once() {
        let meter = Meter::recording();
        let record = |charge: &str, container: &str, throttled: usize| RequestRecord {
            operation: Operation::Read,
            container: container.into(),
            text: String::new(),
            key: None,
            range: "3".into(),
            status: 200,
            charge: Charge::parse(charge).unwrap(),
            ms: 1.0,
            items: None,
            index_use: None,
            throttled,
            read: Vec::new(),
        };
        for _ in 0..10 {
            meter.add(record("0.1", "posts", 0));
        }
        meter.add(record("1", "users", 2));
        assert_eq!(meter.records().len(), 11);
        let sum = meter.measurement(Duration::from_millis(4));
        assert_eq!(
            sum,
            Measurement {
                ru: Charge(200),
                ms: 4.0,
                partitions: 2,
                requests: 11,
                throttled: 2
            }
        );
        assert_eq!(sum.ru.to_string(), "2.00");
    }

    #[test]
    fn a_charge_that_is_not_a_number_is_not_parsed_as_zero() {
        for text in ["", "two", "NaN", "-1", "inf"] {
            assert_eq!(Charge::parse(text), None, "{text}");
        }
        assert_eq!(Charge::parse(" 2063.54 "), Some(Charge(206_354)));
    }
}
