//! A session of user-defined functions: one fresh runtime for one query, called row by row or, cheaper, in batches.

use crate::calls::Ambient;
use crate::error::ScriptError;
use crate::pool::{Lease, ScriptPool, Stock};
use crate::wire::{FromHost, ToHost};

/// Bytes of arguments that go into one frame, about; a batch is cut into such pieces.
const PIECE_BYTES: usize = 256 * 1024;

/// A JSON text, or `None` for `undefined`.
type Value = Option<String>;

/// Functions made ready for one query. Dropping it gives the process back.
#[derive(Debug)]
pub struct FunctionSession<'a> {
    lease: Lease<'a>,
    steps: u64,
    /// The failure that ended the session; a script that ran out of time or memory is not called again.
    ended: Option<ScriptError>,
}

impl ScriptPool {
    /// Compiles functions (name, source) into a fresh runtime.
    ///
    /// The functions share it for the session; they have no `getContext` and call nothing outside.
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
            let lease = self.lease(Stock::Functions, self.hard_deadline())?;
            let mut session = FunctionSession {
                lease,
                steps: 0,
                ended: None,
            };
            let served = session.lease.process()?.served;
            match session.exchange(&message) {
                Ok(FromHost::Ready) => return Ok(session),
                Ok(_) => return Err(session.out_of_turn()),
                // Found dead before it did anything: the next one, in the end a fresh one.
                Err(ScriptError::HostDied(_)) if served => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl FunctionSession<'_> {
    /// Calls a function once. Arguments and result are JSON texts, `None` stands for `undefined`.
    pub fn call(&mut self, name: &str, arguments: &[Value]) -> Result<Value, ScriptError> {
        let mut values = self.call_batch(name, vec![arguments.to_vec()])?;
        values.pop().ok_or_else(|| self.out_of_turn())
    }

    /// Calls a function once per row, in order, and answers as many results; the first failure ends the batch.
    ///
    /// The time budget counts for each piece of a quarter mebibyte of arguments.
    pub fn call_batch(
        &mut self,
        name: &str,
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Value>, ScriptError> {
        let mut results = Vec::with_capacity(rows.len());
        let mut piece = Vec::new();
        let mut bytes = 0;
        for row in rows {
            let size = 8 + row
                .iter()
                .map(|value| 8 + value.as_ref().map_or(0, String::len))
                .sum::<usize>();
            if bytes + size > PIECE_BYTES && !piece.is_empty() {
                self.call_piece(name, std::mem::take(&mut piece), &mut results)?;
                bytes = 0;
            }
            bytes += size;
            piece.push(row);
        }
        if !piece.is_empty() {
            self.call_piece(name, piece, &mut results)?;
        }
        Ok(results)
    }

    /// Interrupt ticks so far: one per ten thousand polls of the interpreter.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    fn call_piece(
        &mut self,
        name: &str,
        rows: Vec<Vec<Value>>,
        results: &mut Vec<Value>,
    ) -> Result<(), ScriptError> {
        let count = rows.len();
        match self.exchange(&ToHost::Batch {
            name: name.into(),
            rows,
        })? {
            FromHost::Values { values, ticks } if values.len() == count => {
                self.steps = self.steps.saturating_add(ticks);
                results.extend(values);
                Ok(())
            }
            _ => Err(self.out_of_turn()),
        }
    }

    /// One message there and one back, with the deadline set.
    fn exchange(&mut self, message: &ToHost) -> Result<FromHost, ScriptError> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        self.lease.set_healthy(false);
        let pool = self.lease.pool;
        let process = self.lease.process()?;
        let deadline = pool
            .watchdog()
            .arm(process.mortal(), pool.hard_deadline())
            .map_err(|error| ScriptError::HostNotStarted(error.to_string()))?;
        let answer = process.send(message).and_then(|()| process.receive());
        drop(deadline);
        match answer {
            Ok(FromHost::Failed(error)) => {
                self.lease.set_healthy(true);
                if matches!(error, ScriptError::TimedOut | ScriptError::OutOfMemory) {
                    self.ended = Some(error.clone());
                }
                Err(error)
            }
            Ok(message) => {
                self.lease.set_healthy(true);
                Ok(message)
            }
            Err(error @ ScriptError::TooLarge(_)) => {
                self.lease.set_healthy(true);
                Err(error)
            }
            Err(error) => {
                self.ended = Some(error.clone());
                Err(error)
            }
        }
    }

    /// The process answered something else than asked: it is not used again.
    fn out_of_turn(&mut self) -> ScriptError {
        self.lease.set_healthy(false);
        let error = ScriptError::HostDied("it spoke out of turn".into());
        self.ended = Some(error.clone());
        error
    }
}
