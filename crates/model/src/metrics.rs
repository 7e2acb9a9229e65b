//! Counting what happens, for the operator: numbers that many threads raise and one reads now and then.
//!
//! Nothing here decides anything, and nothing is lost or locked; a reader may see the count of an observation and not
//! yet its sum. An observation costs a few additions.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The sum.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds, or takes away.
    pub fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often values fell below bounds, and their sum.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Box<[AtomicU64]>,
    /// In millionths.
    sum: AtomicU64,
}

/// Millionths of one.
const SCALE: f64 = 1e6;

/// Bounds for how long something takes, in seconds: from a tenth of a millisecond to ten seconds.
pub const LATENCY_BOUNDS_SECONDS: &[f64] = &[
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

impl Histogram {
    /// An empty one; `bounds` rise.
    pub fn new(bounds: &'static [f64]) -> Self {
        Histogram {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Counts a value of at least 0.
    pub fn observe(&self, value: f64) {
        let at = self
            .bounds
            .iter()
            .position(|bound| value <= *bound)
            .unwrap_or(self.bounds.len());
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        self.sum
            .fetch_add((value * SCALE).round() as u64, Ordering::Relaxed);
    }

    /// Does `work` and counts the seconds that it took.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        self.observe(begun.elapsed().as_secs_f64());
        done
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut buckets = Vec::with_capacity(self.bounds.len());
        let mut count = 0;
        for (bound, counted) in self.bounds.iter().zip(&self.counts) {
            count += counted.load(Ordering::Relaxed);
            buckets.push((*bound, count));
        }
        count += self
            .counts
            .last()
            .map_or(0, |above| above.load(Ordering::Relaxed));
        HistogramSnapshot {
            buckets,
            count,
            sum: self.sum.load(Ordering::Relaxed) as f64 / SCALE,
        }
    }
}

/// What a histogram counted.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSnapshot {
    /// Each bound with the number of values up to it.
    pub buckets: Vec<(f64, u64)>,
    /// All values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_for_every_bound_that_it_does_not_exceed() {
        let histogram = Histogram::new(&[1.0, 5.0]);
        for value in [0.5, 1.0, 4.0, 9.25] {
            histogram.observe(value);
        }
        assert_eq!(
            histogram.snapshot(),
            HistogramSnapshot {
                buckets: vec![(1.0, 2), (5.0, 3)],
                count: 4,
                sum: 14.75
            }
        );
        assert_eq!(histogram.time(|| 7), 7);
        assert_eq!(histogram.snapshot().count, 5);
    }
}
