//! The answer of a query with its costs, and the costs of many.

use super::table::milliseconds;
use crate::report::{median, percentile};
use std::time::{Duration, Instant};

/// An answer.
pub(crate) struct Answer {
    pub(crate) took: Duration,
    /// Milliseconds of the processor, where they are known.
    pub(crate) processor: Option<f64>,
    /// The ids of the items, or other values without quotes.
    pub(crate) rows: Vec<String>,
}

/// Runs a query in this thread. Returns its result and its costs, as an answer without rows.
pub(crate) fn measured<T>(run: impl FnOnce() -> T) -> (T, Answer) {
    let before = thread_milliseconds();
    let started = Instant::now();
    let result = run();
    let took = started.elapsed();
    let spent = before.and_then(|before| Some(thread_milliseconds()? - before));
    let answer = Answer {
        took,
        processor: spent,
        rows: Vec::new(),
    };
    (result, answer)
}

/// Returns the milliseconds of the processor that this thread used; `None` on a system that does
/// not tell.
fn thread_milliseconds() -> Option<f64> {
    // The time of a thread that runs is some milliseconds old, that of one that yields is not.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e6)
}

/// The costs of many answers, in milliseconds.
#[derive(Default)]
pub(crate) struct Costs {
    latencies: Vec<f64>,
    processor: Vec<f64>,
}

impl Costs {
    /// Adds the costs of an answer.
    pub(crate) fn add(&mut self, answer: &Answer) {
        self.latencies.push(milliseconds(answer.took));
        self.processor.extend(answer.processor);
    }

    /// Returns the number of answers.
    pub(crate) fn count(&self) -> usize {
        self.latencies.len()
    }

    /// Returns the 50th and the 95th percentile of the durations.
    pub(crate) fn p50_and_p95(&mut self) -> (f64, f64) {
        let latencies = &mut self.latencies;
        (percentile(latencies, 50.0), percentile(latencies, 95.0))
    }

    /// Returns the median time of the processor, if it is known.
    pub(crate) fn processor(&self) -> Option<f64> {
        (!self.processor.is_empty()).then(|| median(self.processor.clone()))
    }
}
