//! Counters, gauges and histograms for the operator: raised by many threads, read now and then.
//!
//! Values are atomics, so no thread waits and no observation is lost; an observation costs a few
//! additions. A reader may see an observation in the counts and not yet in the sum. The server's
//! behaviour never depends on these numbers.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds `change`, which may be negative.
    pub fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    /// Returns the current value.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A histogram: for each bound the number of values up to this bound, and the sum of all values.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds (inclusive), ascending.
    bounds: &'static [f64],
    /// Values in each bucket; the last bucket holds the values above all bounds.
    counts: Box<[AtomicU64]>,
    /// Sum of all values, in millionths.
    sum: AtomicU64,
}

/// Units of [`Histogram::sum`] in a value of one.
const SCALE: f64 = 1e6;

/// Histogram bounds for durations in seconds: 0.1 milliseconds to 10 seconds.
pub const LATENCY_BOUNDS_SECONDS: &[f64] = &[
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

impl Histogram {
    /// Creates an empty histogram. `bounds` must be in ascending order.
    pub fn new(bounds: &'static [f64]) -> Self {
        Histogram {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Counts one value, which must not be negative.
    pub fn observe(&self, value: f64) {
        let bucket = self
            .bounds
            .iter()
            .position(|bound| value <= *bound)
            .unwrap_or(self.bounds.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum
            .fetch_add((value * SCALE).round() as u64, Ordering::Relaxed);
    }

    /// Runs `work` and counts its duration in seconds.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.observe(started.elapsed().as_secs_f64());
        result
    }

    /// Returns the counts and the sum so far.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut buckets = Vec::with_capacity(self.bounds.len());
        let mut count = 0;
        for (bound, in_bucket) in self.bounds.iter().zip(&self.counts) {
            count += in_bucket.load(Ordering::Relaxed);
            buckets.push((*bound, count));
        }
        if let Some(above_all_bounds) = self.counts.last() {
            count += above_all_bounds.load(Ordering::Relaxed);
        }
        HistogramSnapshot {
            buckets,
            count,
            sum: self.sum.load(Ordering::Relaxed) as f64 / SCALE,
        }
    }
}

/// The values of a histogram at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSnapshot {
    /// Each bound with the number of values up to this bound (cumulative, as Prometheus wants).
    pub buckets: Vec<(f64, u64)>,
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_in_every_bucket_whose_bound_it_does_not_exceed() {
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
