//! The time between the submission of a commit and its answer.

use orrery_model::metrics::{Histogram, LATENCY_BOUNDS_SECONDS};
use orrery_storage::{CommitOutcome, Pending, Receipt};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// The time of one commit, which counts if the commit is durable.
pub(crate) struct Timer {
    started: Instant,
    seconds: Arc<Histogram>,
}

impl Timer {
    /// Returns a histogram for times of commits.
    pub(crate) fn histogram() -> Arc<Histogram> {
        Arc::new(Histogram::new(LATENCY_BOUNDS_SECONDS))
    }

    pub(crate) fn start(seconds: &Arc<Histogram>) -> Timer {
        Timer {
            started: Instant::now(),
            seconds: seconds.clone(),
        }
    }

    /// Returns a receipt that observes the time when its answer is there.
    pub(crate) fn measure(self, receipt: Receipt) -> Receipt {
        // A refusal stays one that the caller sees at once.
        if receipt.refusal().is_some() {
            return receipt;
        }
        Receipt::pending(Timed {
            receipt,
            timer: self,
        })
    }

    fn observe(&self, outcome: &CommitOutcome) {
        if *outcome == CommitOutcome::Ok {
            self.seconds.observe(self.started.elapsed().as_secs_f64());
        }
    }
}

struct Timed {
    receipt: Receipt,
    timer: Timer,
}

impl Pending for Timed {
    fn wait(self: Box<Self>) -> CommitOutcome {
        let outcome = self.receipt.wait();
        self.timer.observe(&outcome);
        outcome
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<CommitOutcome> {
        let answered = Pin::new(&mut self.receipt).poll(context);
        answered.map(|outcome| {
            self.timer.observe(&outcome);
            outcome
        })
    }
}
