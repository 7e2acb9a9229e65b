//! What one request of the blog cost, added up over all the requests to the database that it needed.
//!
//! Charges are kept as whole hundredths of an RU, the precision in which servers print them: sums are then exact, and
//! two runs can be compared for equality.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A request charge in hundredths of a request unit (RU).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Charge(pub u64);

impl Charge {
    /// Reads the text of `x-ms-request-charge`, e.g. `2.89`; none if it is not a number from 0 to 10^12.
    pub fn parse(text: &str) -> Option<Self> {
        let ru: f64 = text.trim().parse().ok()?;
        (0.0..=1e12)
            .contains(&ru)
            .then(|| Self((ru * 100.0).round() as u64))
    }

    /// The charge in RU.
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
pub struct Measured {
    /// Request units, summed over all pages and partitions.
    pub ru: Charge,
    /// Wall-clock time in milliseconds.
    pub ms: f64,
    /// Number of different physical partitions asked.
    pub partitions: usize,
    /// Number of requests to the database (throttled attempts not counted).
    pub requests: usize,
    /// Number of attempts that were throttled (429) and repeated.
    pub throttled: usize,
}

#[derive(Debug, Default)]
struct Sums {
    ru: Charge,
    partitions: BTreeSet<(String, String)>,
    requests: usize,
    throttled: usize,
}

/// Adds up the answers that make one request of the blog. Clones share the same sums.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Mutex<Sums>>);

impl Meter {
    /// A meter that stands at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one answer: its charge, and the physical partition of `container` that gave it.
    pub(crate) fn add(&self, charge: Charge, container: &str, range: &str, throttled: usize) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.ru.0 += charge.0;
        sums.requests += 1;
        sums.throttled += throttled;
        sums.partitions
            .insert((container.to_owned(), range.to_owned()));
    }

    /// The sums so far, with the given time.
    pub fn measured(&self, elapsed: Duration) -> Measured {
        let sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Measured {
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
    fn charges_add_up_exactly_and_partitions_count_once() {
        let meter = Meter::new();
        for _ in 0..10 {
            meter.add(Charge::parse("0.1").unwrap(), "posts", "3", 0);
        }
        meter.add(Charge::parse("1").unwrap(), "users", "3", 2);
        let sum = meter.measured(Duration::from_millis(4));
        assert_eq!(
            sum,
            Measured {
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
    fn a_charge_that_is_no_number_is_not_read_as_zero() {
        for text in ["", "two", "NaN", "-1", "inf"] {
            assert_eq!(Charge::parse(text), None, "{text}");
        }
        assert_eq!(Charge::parse(" 2063.54 "), Some(Charge(206_354)));
    }
}
