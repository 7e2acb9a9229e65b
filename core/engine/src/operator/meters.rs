//! Counters of the engine for the operator.

use orrery_model::metrics::{Counter, Histogram, LATENCY_BOUNDS_SECONDS};
use orrery_model::work::Step;

/// Counters since the engine was opened.
#[derive(Debug)]
pub struct Meters {
    /// Physical partitions asked by each page of a query.
    pub query_partitions: Histogram,
    /// Seconds that each page of a query took for planning and index lookups.
    pub index_lookup_seconds: Histogram,
    /// Changes that change feeds of either mode returned.
    pub change_feed_items: Counter,
    /// Expired items that were removed.
    pub expired_items: Counter,
    /// Pages of queries that ended early because their clients no longer waited.
    pub cancelled_queries: Counter,
    /// Seconds that each stored procedure and trigger ran, with the wait for a process.
    pub script_seconds: Histogram,
}

impl Meters {
    pub(crate) fn new() -> Self {
        Meters {
            query_partitions: Histogram::new(&[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0]),
            index_lookup_seconds: Histogram::new(LATENCY_BOUNDS_SECONDS),
            change_feed_items: Counter::default(),
            expired_items: Counter::default(),
            cancelled_queries: Counter::default(),
            script_seconds: Histogram::new(LATENCY_BOUNDS_SECONDS),
        }
    }

    /// Counts the steps of a page of a query.
    pub(crate) fn queried(&self, steps: &[Step]) {
        let asked = steps
            .iter()
            .filter(|step| matches!(step, Step::Query(_)))
            .count();
        self.query_partitions.observe(asked as f64);
    }
}
