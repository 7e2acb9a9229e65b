//! Delivery times: from the commit of a change to the end of the reaction.
//!
//! The application sets the `creationDate` of a new post to the microsecond, just before the
//! commit. Of all other changes only `_ts` is known, which is in whole seconds; the time from the
//! begin of that second is up to a second too long. The two kinds are therefore kept apart.

use serde_json::{Value, json};
use std::fmt;

/// Upper bounds of the buckets in milliseconds. The last bucket has no bound.
const BOUNDS_MS: [f64; 30] = [
    1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0, 150.0, 200.0, 300.0, 500.0,
    700.0, 1e3, 1.5e3, 2e3, 3e3, 5e3, 7e3, 1e4, 1.5e4, 2e4, 3e4, 6e4, 3e5, 6e5,
];

/// The clock from which the time of a commit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// The creation date of a new post, in microseconds.
    Microseconds,
    /// `_ts`, in seconds: the delivery time is up to a second too long.
    Seconds,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Microseconds => "microseconds",
            Self::Seconds => "seconds",
        })
    }
}

/// The delivery times of a reaction. The percentiles are upper bounds: those of their buckets,
/// which are at most twice as wide as the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delivery {
    /// The clock of the commits.
    pub precision: Precision,
    /// Number of changes.
    pub count: u64,
    /// Median in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile in milliseconds.
    pub p99_ms: f64,
}

/// Counts of delivery times in buckets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Histogram {
    counts: [u64; BOUNDS_MS.len() + 1],
    sum_ms: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: [0; BOUNDS_MS.len() + 1],
            sum_ms: 0.0,
        }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, ms: f64) {
        let bucket = BOUNDS_MS.partition_point(|bound| *bound < ms);
        self.counts[bucket] += 1;
        self.sum_ms += ms;
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn sum_ms(&self) -> f64 {
        self.sum_ms
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_ms += other.sum_ms;
    }

    /// Returns each bound in milliseconds with the number of times up to the bound.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        BOUNDS_MS
            .into_iter()
            .zip(self.counts)
            .map(move |(bound, count)| {
                sum += count;
                (bound, sum)
            })
    }

    /// Returns the smallest bound below which `part` of the times are.
    fn percentile(&self, part: f64) -> f64 {
        let rank = (self.count() as f64 * part).ceil().max(1.0) as u64;
        for (bound, up_to) in self.cumulative() {
            if up_to >= rank {
                return bound;
            }
        }
        f64::INFINITY
    }

    /// Returns the summary, or `None` without any time.
    pub(super) fn summary(&self, precision: Precision) -> Option<Delivery> {
        (self.count() > 0).then(|| Delivery {
            precision,
            count: self.count(),
            p50_ms: self.percentile(0.5),
            p99_ms: self.percentile(0.99),
        })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({"counts": self.counts.as_slice(), "sumMs": self.sum_ms})
    }

    /// Restores a histogram. Buckets that are missing are empty.
    pub(super) fn from_json(stored: &Value) -> Self {
        let mut histogram = Self::default();
        let counts = stored["counts"].as_array().into_iter().flatten();
        for (count, value) in histogram.counts.iter_mut().zip(counts) {
            *count = value.as_u64().unwrap_or(0);
        }
        histogram.sum_ms = stored["sumMs"].as_f64().unwrap_or(0.0);
        histogram
    }
}

/// Returns the time of the commit of a changed item in milliseconds since 1970, and how exact it
/// is. `None` for an item without `_ts`.
pub(super) fn committed_ms(item: &Value) -> Option<(f64, Precision)> {
    let second = item["_ts"].as_i64()?;
    let created: Option<jiff::Timestamp> = item["creationDate"]
        .as_str()
        .and_then(|date| date.parse().ok());
    if let Some(created) = created {
        // A post that was created in the second of its last change, or just before, is new.
        let is_new = (second - 1..=second).contains(&created.as_second());
        if is_new && item["type"] == "post" {
            return Some((
                created.as_microsecond() as f64 / 1e3,
                Precision::Microseconds,
            ));
        }
    }
    Some((second as f64 * 1e3, Precision::Seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_bounds_of_their_buckets() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.summary(Precision::Seconds), None);
        (0..99).for_each(|_| histogram.add(4.0));
        histogram.add(900.0);
        let summary = histogram.summary(Precision::Seconds).unwrap();
        assert_eq!((summary.p50_ms, summary.p99_ms), (5.0, 5.0));
        histogram.add(1e9);
        histogram.add(950.0);
        let restored = Histogram::from_json(&histogram.to_json());
        assert_eq!(restored, histogram);
        let summary = restored.summary(Precision::Seconds).unwrap();
        assert_eq!((summary.count, summary.p99_ms), (102, 1e3));
        let mut both = restored.clone();
        both.merge(&histogram);
        assert_eq!((both.count(), both.percentile(1.0)), (204, f64::INFINITY));
    }

    #[test]
    fn only_new_posts_have_the_microsecond_of_their_commit() {
        let date = "2026-01-02T03:04:05.2500000Z";
        let second = 1_767_323_045;
        let item = |kind: &str, ts: i64| json!({"type": kind, "creationDate": date, "_ts": ts});
        let exact = Some((second as f64 * 1e3 + 250.0, Precision::Microseconds));
        assert_eq!(committed_ms(&item("post", second)), exact);
        assert_eq!(committed_ms(&item("post", second + 1)), exact);
        let edited = Some(((second + 60) as f64 * 1e3, Precision::Seconds));
        assert_eq!(committed_ms(&item("post", second + 60)), edited);
        let other = Some((second as f64 * 1e3, Precision::Seconds));
        assert_eq!(committed_ms(&item("user", second)), other);
        assert_eq!(committed_ms(&json!({})), None);
    }
}
