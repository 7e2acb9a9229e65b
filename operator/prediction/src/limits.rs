//! The bounds of a prediction: one at a time, so many items and bytes, so much memory and time.

use orrery_engine::{Cancel, Engine, PredictionTurn};
use orrery_model::Error;
use orrery_model::memory::Reservation;
use std::fmt;

/// Items of a sample if the caller does not say how many.
pub const SAMPLE_ITEMS_DEFAULT: u64 = 20_000;
/// The most items of a sample.
pub const SAMPLE_ITEMS_MAX: u64 = 200_000;
/// Bytes of the texts of a sample.
pub(crate) const SAMPLE_BYTES: u64 = 64 << 20;
/// Milliseconds that a prediction may take.
pub const TIME_MS: u64 = 30_000;

/// The reason for which there is no prediction.
#[derive(Debug)]
pub enum Failure {
    /// Another prediction runs.
    Busy,
    /// The time was over; the text says in which step.
    Time(&'static str),
    /// The memory of queries does not suffice.
    Memory,
    /// The proposal is wrong, or the engine failed.
    Engine(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Busy => f.write_str(
                "another prediction runs on this server. Wait until it ends, and try again",
            ),
            Failure::Time(step) => write!(
                f,
                "the prediction was still {step} after {} seconds. Try again with fewer \
                 'sampleItems'",
                TIME_MS / 1_000
            ),
            Failure::Memory => f.write_str(
                "the memory for queries has no room for the copy of the items. Try again with \
                 fewer 'sampleItems', or start the server with a higher --memory-limit",
            ),
            Failure::Engine(error) => f.write_str(error.message()),
        }
    }
}

impl std::error::Error for Failure {}

/// A prediction that runs, and its bounds.
pub(crate) struct Run<'a> {
    /// The engine of the container.
    pub engine: &'a Engine,
    /// Ends the prediction, also within a query.
    pub cancel: &'a Cancel,
    ends_ms: u64,
    memory: Reservation,
    _turn: PredictionTurn<'a>,
}

impl<'a> Run<'a> {
    /// Begins a prediction.
    ///
    /// # Errors
    /// [`Failure::Busy`] while another prediction runs.
    pub(crate) fn begin(engine: &'a Engine, cancel: &'a Cancel) -> Result<Run<'a>, Failure> {
        let turn = engine.begin_prediction().ok_or(Failure::Busy)?;
        let memory = engine.query_memory().reserve(0).ok_or(Failure::Memory)?;
        Ok(Run {
            engine,
            cancel,
            ends_ms: engine.monotonic_ms() + TIME_MS,
            memory,
            _turn: turn,
        })
    }

    /// Returns true while there is time and the caller waits.
    pub(crate) fn has_time(&self) -> bool {
        !self.cancel.is_set() && self.engine.monotonic_ms() < self.ends_ms
    }

    /// Checks that there is time. `step` says what the prediction is doing.
    ///
    /// # Errors
    /// [`Failure::Time`] if there is none.
    pub(crate) fn check_time(&self, step: &'static str) -> Result<(), Failure> {
        match self.has_time() {
            true => Ok(()),
            false => Err(Failure::Time(step)),
        }
    }

    /// Reserves memory, so that at least `bytes` are reserved in all.
    ///
    /// # Errors
    /// [`Failure::Memory`] if the memory of queries does not suffice.
    pub(crate) fn hold(&mut self, bytes: u64) -> Result<(), Failure> {
        match self.memory.grow_to(bytes) {
            true => Ok(()),
            false => Err(Failure::Memory),
        }
    }

    /// Returns the bytes that are reserved.
    pub(crate) fn held(&self) -> u64 {
        self.memory.bytes()
    }
}
