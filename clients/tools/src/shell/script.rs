//! Statements from standard input or from arguments, without a prompt.

use super::fault::ShellError;
use super::session::{Session, note};
use super::split::{Splitter, Statement, statements};
use std::io::{BufRead, BufReader, Read};
use tokio::runtime::Runtime;

/// The options of a script.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScriptOptions {
    /// Goes on behind a statement that failed.
    pub continues: bool,
}

/// The failures of a script so far.
struct Tally {
    options: ScriptOptions,
    statements: usize,
    failed: usize,
}

impl Tally {
    /// Returns the tally before the first statement.
    fn of(options: ScriptOptions) -> Self {
        Self {
            options,
            statements: 0,
            failed: 0,
        }
    }

    /// Runs a statement. Returns false if the script is over.
    fn run(
        &mut self,
        runtime: &Runtime,
        session: &mut Session,
        statement: &Statement,
        place: &str,
    ) -> Result<bool, ShellError> {
        self.statements += 1;
        match runtime.block_on(session.run(statement)) {
            Ok(()) => Ok(!session.is_over()),
            Err(ShellError::Closed) => Err(ShellError::Closed),
            Err(ShellError::Failed(message)) if self.options.continues => {
                self.failed += 1;
                note(&format!("{place}: {message}"));
                Ok(true)
            }
            Err(ShellError::Failed(message)) => {
                Err(ShellError::Failed(format!("{place}: {message}")))
            }
        }
    }

    fn end(&self) -> Result<(), ShellError> {
        match self.failed {
            0 => Ok(()),
            failed => Err(ShellError::Failed(format!(
                "{failed} of {} statements failed",
                self.statements
            ))),
        }
    }
}

/// Runs the statements of `input` as they are read.
///
/// # Errors
/// The first statement that failed, with its line; after `--continue-on-error`, their number.
/// [`ShellError::Closed`] if the reader of standard output has gone.
pub fn run_input(
    runtime: &Runtime,
    session: &mut Session,
    input: impl Read,
    options: ScriptOptions,
) -> Result<(), ShellError> {
    let mut tally = Tally::of(options);
    let mut splitter = Splitter::default();
    let mut input = BufReader::new(input);
    let mut bytes = Vec::new();
    loop {
        // A line is run before the next one is read, so that a program can write statements and
        // read their rows in turn.
        bytes.clear();
        let length = input
            .read_until(b'\n', &mut bytes)
            .map_err(|error| format!("cannot read standard input: {error}"))?;
        let found: Vec<Statement> = match length {
            0 => splitter.end().into_iter().collect(),
            _ => {
                let line = String::from_utf8_lossy(&bytes);
                splitter.push(line.trim_end_matches(['\n', '\r']))
            }
        };
        for statement in &found {
            let place = format!("line {}", statement.line);
            if !tally.run(runtime, session, statement, &place)? {
                return tally.end();
            }
        }
        if length == 0 {
            return tally.end();
        }
    }
}

/// Runs statements of the command line, each of which may be several.
///
/// # Errors
/// Those of [`run_input`], with the number of the argument.
pub fn run_statements(
    runtime: &Runtime,
    session: &mut Session,
    texts: &[String],
    options: ScriptOptions,
) -> Result<(), ShellError> {
    let mut tally = Tally::of(options);
    for (at, text) in texts.iter().enumerate() {
        let place = format!("statement {}", at + 1);
        for statement in statements(text) {
            if !tally.run(runtime, session, &statement, &place)? {
                return tally.end();
            }
        }
    }
    tally.end()
}
