//! What the engine counts for the operator, beside what requests are charged for.

use orrery_model::metrics::{Counter, Histogram, LATENCY_BOUNDS_SECONDS};
use orrery_model::work::Step;

/// Counts since the engine was opened.
#[derive(Debug)]
pub struct Meters {
    /// Physical partitions that each page of a query asked.
    pub query_partitions: Histogram,
    /// How long each page of a query took to plan its search and look into the indexes for it.
    pub index_lookup_seconds: Histogram,
    /// Changes that change feeds gave, of either mode.
    pub change_feed_items: Counter,
    /// Expired items that were removed.
    pub expired_items: Counter,
    /// How long each stored procedure and trigger ran, the wait for a process included.
    pub script_seconds: Histogram,
}

impl Meters {
    pub(crate) fn new() -> Self {
        Meters {
            query_partitions: Histogram::new(&[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0]),
            index_lookup_seconds: Histogram::new(LATENCY_BOUNDS_SECONDS),
            change_feed_items: Counter::default(),
            expired_items: Counter::default(),
            script_seconds: Histogram::new(LATENCY_BOUNDS_SECONDS),
        }
    }

    /// A page of a query did these steps.
    pub(crate) fn queried(&self, steps: &[Step]) {
        let asked = steps
            .iter()
            .filter(|step| matches!(step, Step::Query(_)))
            .count();
        self.query_partitions.observe(asked as f64);
    }
}
