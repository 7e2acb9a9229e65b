//! The cost of one request of the blog, summed over all its requests to the database.
//!
//! Charges are integers in hundredths of an RU, which is the precision of `x-ms-request-charge`.
//! Sums are therefore exact, and two runs can be compared for equality.

use crate::sync::lock;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// The sums of a meter.
#[derive(Debug, Default)]
struct Sums {
    ru: Charge,
    /// Container link and range id of each physical partition.
    partitions: BTreeSet<(String, String)>,
    requests: usize,
    throttled: usize,
}

/// Sums the responses that belong to one request of the blog. Clones share the same sums.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Mutex<Sums>>);

impl Meter {
    /// Creates a meter with all sums 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one response: its charge, the id of the partition key range of `container` that handled
    /// the request, and the number of throttled attempts before.
    pub(crate) fn add(&self, charge: Charge, container: &str, range: &str, throttled: usize) {
        let mut sums = lock(&self.0);
        sums.ru.0 += charge.0;
        sums.requests += 1;
        sums.throttled += throttled;
        sums.partitions
            .insert((container.to_owned(), range.to_owned()));
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
        let meter = Meter::new();
        for _ in 0..10 {
            meter.add(Charge::parse("0.1").unwrap(), "posts", "3", 0);
        }
        meter.add(Charge::parse("1").unwrap(), "users", "3", 2);
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
