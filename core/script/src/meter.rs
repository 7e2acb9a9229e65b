//! Time and work of the job that an interpreter runs.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::wire::Limits;

/// Counts the ticks of a job and compares its time with the limits.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    started: Cell<Instant>,
    ticks: Cell<u64>,
    is_interrupted: Cell<bool>,
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            started: Cell::new(Instant::now()),
            ticks: Cell::new(0),
            is_interrupted: Cell::new(false),
        }
    }

    /// Starts the time of a job and sets its ticks to 0.
    pub(crate) fn start(&self) {
        self.started.set(Instant::now());
        self.ticks.set(0);
    }

    /// Counts a tick. Returns true once the time of the job is over.
    pub(crate) fn tick(&self) -> bool {
        self.ticks.set(self.ticks.get() + 1);
        let is_over = self.started.get().elapsed() >= Duration::from_millis(self.limits.time_ms);
        if is_over {
            self.is_interrupted.set(true);
        }
        is_over
    }

    /// Returns the ticks since the job started.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.get()
    }

    /// Returns true if a job ran out of time.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted.get()
    }

    /// Returns true if there is time for a new operation of the collection.
    pub(crate) fn accepts_calls(&self) -> bool {
        self.started.get().elapsed() < Duration::from_millis(self.limits.accept_ms)
    }

    /// Returns the number of promise reactions that a job may run.
    pub(crate) fn job_limit(&self) -> u64 {
        self.limits.jobs
    }
}
