//! What the gateway counts of requests, for the operator.
//!
//! Requests are told apart by operation, type of resource and outcome, and never by what they are about: no id and no
//! key becomes a label. A request costs one look into a small map and some additions.

use orrery_engine::request::Charge;
use orrery_model::metrics::{Gauge, Histogram, HistogramSnapshot, LATENCY_BOUNDS_SECONDS};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Bounds of request charges, in request units: what OpenTelemetry advises for this database.
const REQUEST_UNITS: &[f64] = &[1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];

/// What a request is, as far as it was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKind {
    /// The operation's name, as in the log.
    pub operation: &'static str,
    /// The type of the resource, as in a signature; `account` where that is empty.
    pub resource: &'static str,
}

/// A request that was refused before its operation was known.
pub(crate) const UNKNOWN: RequestKind = RequestKind {
    operation: "unknown",
    resource: "unknown",
};

/// Requests of one kind.
#[derive(Debug)]
struct Series {
    seconds: Histogram,
    charge: Histogram,
    /// Status, sub-status and how often.
    outcomes: RwLock<Vec<(u16, u32, AtomicU64)>>,
}

/// Counts since the gateway was made.
#[derive(Debug, Default)]
pub struct Metrics {
    series: RwLock<HashMap<RequestKind, Arc<Series>>>,
    /// Open connections.
    pub connections: Gauge,
}

/// What was counted of one kind of request.
#[derive(Clone, Debug)]
pub struct RequestCounts {
    /// The kind.
    pub kind: RequestKind,
    /// How long requests took, in seconds.
    pub seconds: HistogramSnapshot,
    /// What they were charged, in request units.
    pub charge: HistogramSnapshot,
    /// Status, sub-status (0 for none) and how often.
    pub outcomes: Vec<(u16, u32, u64)>,
}

impl Metrics {
    /// Counts a request that is answered, or left without an answer: status 0.
    pub fn record(
        &self,
        kind: RequestKind,
        status: u16,
        sub_status: u32,
        seconds: f64,
        charge: Charge,
    ) {
        let series = self.series_of(kind);
        series.seconds.observe(seconds);
        series.charge.observe(charge.as_ru());
        let same = |(s, sub, _): &&(u16, u32, AtomicU64)| (*s, *sub) == (status, sub_status);
        {
            let outcomes = series
                .outcomes
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some((_, _, count)) = outcomes.iter().find(same) {
                count.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        let mut outcomes = series
            .outcomes
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match outcomes.iter().find(same) {
            Some((_, _, count)) => _ = count.fetch_add(1, Ordering::Relaxed),
            None => outcomes.push((status, sub_status, AtomicU64::new(1))),
        }
    }

    fn series_of(&self, kind: RequestKind) -> Arc<Series> {
        if let Some(series) = self
            .series
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&kind)
        {
            return series.clone();
        }
        let mut all = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let (seconds, charge) = (
            Histogram::new(LATENCY_BOUNDS_SECONDS),
            Histogram::new(REQUEST_UNITS),
        );
        all.entry(kind)
            .or_insert_with(|| {
                Arc::new(Series {
                    seconds,
                    charge,
                    outcomes: RwLock::default(),
                })
            })
            .clone()
    }

    /// What was counted so far, by kind.
    pub fn requests(&self) -> Vec<RequestCounts> {
        let all: Vec<(RequestKind, Arc<Series>)> = {
            let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
            series
                .iter()
                .map(|(kind, series)| (*kind, series.clone()))
                .collect()
        };
        let mut counts: Vec<_> = all
            .into_iter()
            .map(|(kind, series)| series.read(kind))
            .collect();
        counts.sort_by_key(|counts| counts.kind);
        counts
    }
}

impl Series {
    fn read(&self, kind: RequestKind) -> RequestCounts {
        let outcomes = self.outcomes.read().unwrap_or_else(PoisonError::into_inner);
        let mut outcomes: Vec<_> = outcomes
            .iter()
            .map(|(status, sub, count)| (*status, *sub, count.load(Ordering::Relaxed)))
            .collect();
        outcomes.sort_unstable();
        RequestCounts {
            kind,
            seconds: self.seconds.snapshot(),
            charge: self.charge.snapshot(),
            outcomes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind_and_outcome() {
        let metrics = Metrics::default();
        let read = RequestKind {
            operation: "read_item",
            resource: "docs",
        };
        metrics.record(read, 200, 0, 0.001, Charge(100));
        metrics.record(read, 429, 3200, 0.002, Charge(0));
        metrics.record(read, 200, 0, 0.003, Charge(250));
        metrics.record(UNKNOWN, 401, 0, 0.0, Charge(0));
        let counts = metrics.requests();
        assert_eq!(counts.len(), 2);
        assert_eq!(
            (counts[0].kind, counts[0].outcomes.clone()),
            (read, vec![(200, 0, 2), (429, 3200, 1)])
        );
        assert_eq!(
            (
                counts[0].charge.count,
                counts[0].charge.sum,
                counts[0].seconds.count
            ),
            (3, 3.5, 3)
        );
    }
}
