//! A session of user-defined functions: one new runtime for one query, called row by row or, at a
//! lower cost, in batches.

use crate::calls::Ambient;
use crate::error::ScriptError;
use crate::pool::{Lease, ProcessUse, ScriptPool};
use crate::wire::{FromHost, ToHost};

/// Bytes of arguments that go into one frame, approximately. A batch is cut into such chunks.
const CHUNK_BYTES: usize = 256 * 1024;

/// A JSON text, or `None` for `undefined`.
type JsonText = Option<String>;

/// The compiled functions of one query. Dropping the session gives the process back.
#[derive(Debug)]
pub struct FunctionSession<'a> {
    lease: Lease<'a>,
    steps: u64,
    /// The failure that ended the session. A script that ran out of time or memory is not called
    /// again.
    fatal_error: Option<ScriptError>,
}

impl ScriptPool {
    /// Compiles functions (name, source) in a new runtime.
    ///
    /// The functions share the runtime for the session. They have no `getContext` and no access to
    /// items.
    ///
    /// # Errors
    /// [`ScriptError::Compile`] if a source is not a function, and any failure to get a process.
    pub fn functions(
        &self,
        sources: &[(String, String)],
        ambient: Ambient,
    ) -> Result<FunctionSession<'_>, ScriptError> {
        let message = ToHost::Functions {
            sources: sources.to_vec(),
            now_ms: ambient.now_ms,
            seed: ambient.seed,
        };
        loop {
            let lease = self.lease(ProcessUse::Functions, self.hard_deadline())?;
            let mut session = FunctionSession {
                lease,
                steps: 0,
                fatal_error: None,
            };
            let has_served = session.lease.process()?.has_served;
            match session.exchange(&message) {
                Ok(FromHost::Ready) => return Ok(session),
                Ok(_) => return Err(session.unexpected_message()),
                // The idle process had died. Each round drops one such process; the last round
                // starts a new one, which has not served, so the loop ends.
                Err(ScriptError::HostDied(_)) if has_served => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl FunctionSession<'_> {
    /// Calls a function once. Arguments and result are JSON texts; `None` stands for `undefined`.
    ///
    /// # Errors
    /// The failure of the function, or the failure that ended the session.
    pub fn call(&mut self, name: &str, arguments: &[JsonText]) -> Result<JsonText, ScriptError> {
        let mut values = self.call_batch(name, vec![arguments.to_vec()])?;
        values.pop().ok_or_else(|| self.unexpected_message())
    }

    /// Calls a function once for each row, in order, and returns as many results.
    ///
    /// The time budget applies to each chunk of a quarter mebibyte of arguments.
    ///
    /// # Errors
    /// The first failure, which ends the batch.
    pub fn call_batch(
        &mut self,
        name: &str,
        rows: Vec<Vec<JsonText>>,
    ) -> Result<Vec<JsonText>, ScriptError> {
        let mut results = Vec::with_capacity(rows.len());
        let mut chunk = Vec::new();
        let mut chunk_bytes = 0;
        for row in rows {
            let bytes = row_bytes(&row);
            if chunk_bytes + bytes > CHUNK_BYTES && !chunk.is_empty() {
                self.call_chunk(name, std::mem::take(&mut chunk), &mut results)?;
                chunk_bytes = 0;
            }
            chunk_bytes += bytes;
            chunk.push(row);
        }
        if !chunk.is_empty() {
            self.call_chunk(name, chunk, &mut results)?;
        }
        Ok(results)
    }

    /// Returns the interrupt ticks so far: one per ten thousand polls of the interpreter.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Calls a function for the rows of one frame and appends its results.
    fn call_chunk(
        &mut self,
        name: &str,
        rows: Vec<Vec<JsonText>>,
        results: &mut Vec<JsonText>,
    ) -> Result<(), ScriptError> {
        let count = rows.len();
        let message = ToHost::Batch {
            name: name.into(),
            rows,
        };
        match self.exchange(&message)? {
            FromHost::Values { values, ticks } if values.len() == count => {
                self.steps = self.steps.saturating_add(ticks);
                results.extend(values);
                Ok(())
            }
            _ => Err(self.unexpected_message()),
        }
    }

    /// Sends a message and receives its answer, with the deadline armed.
    fn exchange(&mut self, message: &ToHost) -> Result<FromHost, ScriptError> {
        if let Some(error) = &self.fatal_error {
            return Err(error.clone());
        }
        // Until the answer has arrived, the process must not go back to the pool.
        self.lease.set_reusable(false);
        let pool = self.lease.pool;
        let process = self.lease.process()?;
        let deadline = pool
            .watchdog()
            .arm(process.child(), pool.hard_deadline())
            .map_err(|error| ScriptError::HostNotStarted(error.to_string()))?;
        let answer = process.send(message).and_then(|()| process.receive());
        drop(deadline);
        match answer {
            Ok(FromHost::Failed(error)) => {
                self.lease.set_reusable(true);
                if matches!(error, ScriptError::TimedOut | ScriptError::OutOfMemory) {
                    self.fatal_error = Some(error.clone());
                }
                Err(error)
            }
            Ok(message) => {
                self.lease.set_reusable(true);
                Ok(message)
            }
            // The message was not sent, so the process still waits for one.
            Err(error @ ScriptError::TooLarge(_)) => {
                self.lease.set_reusable(true);
                Err(error)
            }
            Err(error) => {
                self.fatal_error = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Ends the session because the process sent a message that does not answer the last one. The
    /// process is not used again.
    fn unexpected_message(&mut self) -> ScriptError {
        self.lease.set_reusable(false);
        let error = ScriptError::HostDied("it sent an unexpected message".into());
        self.fatal_error = Some(error.clone());
        error
    }
}

/// Returns the bytes of a row in a frame, approximately.
fn row_bytes(row: &[JsonText]) -> usize {
    const LENGTH_BYTES: usize = 8;
    let mut bytes = LENGTH_BYTES;
    for value in row {
        bytes += LENGTH_BYTES + value.as_ref().map_or(0, String::len);
    }
    bytes
}
