//! The early end of an import or export: its reason, and for an import the words about what was
//! written and how to go on.

use super::options::{ImportOptions, Mode};
use crate::fault::{self, Voice};
use orrery_client::ClientError;
use std::fmt::{self, Write};
use std::path::PathBuf;

/// The reason for which an import or export ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TransferError {
    /// The options ask for something impossible.
    Usage(String),
    /// Files or the server failed.
    Failed(String),
    /// A request failed.
    Request {
        /// The failure.
        error: Box<ClientError>,
        /// Text of the query that the request carried.
        query: Option<String>,
    },
    /// An import ended before its last record.
    Ended(Box<Ended>),
}

impl TransferError {
    /// Returns the failure in words.
    pub fn words(&self, voice: Voice) -> String {
        match self {
            Self::Usage(message) | Self::Failed(message) => message.clone(),
            Self::Request { error, query } => fault::of_request(error, query.as_deref(), voice),
            Self::Ended(ended) => ended.words(voice),
        }
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(Voice::Command))
    }
}

impl std::error::Error for TransferError {}

impl From<ClientError> for TransferError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::InvalidOption(message) => Self::Usage(message),
            error => Self::Request {
                error: Box::new(error),
                query: None,
            },
        }
    }
}

/// The reason for which an import ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A record was refused, and no file collects such records.
    Refusal,
    /// An item exists whose id and partition key, or whose unique key, a record has.
    Conflict,
    /// The source cannot be read any further.
    Source,
    /// The server or a file failed.
    Failure,
}

/// The early end of an import.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    reason: TransferError,
    cause: Cause,
    written: Written,
    mode: Mode,
    checkpoint: Option<PathBuf>,
    has_dead_letter: bool,
}

/// The items of a run that ended early.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Items that were created or replaced.
    pub(super) items: u64,
    /// Those of them whose records stand behind the one that ended the import.
    pub(super) behind: u64,
    /// Items that were sent and may have been written.
    pub(super) unknown: u64,
}

impl Ended {
    pub(super) fn new(
        reason: TransferError,
        cause: Cause,
        written: Written,
        options: &ImportOptions,
    ) -> Self {
        Self {
            reason,
            cause,
            written,
            mode: options.mode,
            checkpoint: options.checkpoint.clone(),
            has_dead_letter: options.dead_letter.is_some(),
        }
    }

    /// Returns the reason alone, for a caller with counts and advice of its own.
    pub fn into_reason(self) -> TransferError {
        self.reason
    }

    /// Returns the reason, the counts, and how to go on.
    pub(super) fn words(&self, voice: Voice) -> String {
        let reason = self.reason.words(voice);
        format!("{reason}\n{}\n{}", self.counts(), self.way_on(voice))
    }

    fn counts(&self) -> String {
        let Written {
            items,
            behind,
            unknown,
        } = self.written;
        let mut text = format!("the import ends here: {} written", items_were(items));
        if behind > 0 {
            let were = if behind == 1 { "was" } else { "were" };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                ", {behind} of them from later records that {were} on the way already"
            );
        } else if matches!(self.cause, Cause::Refusal | Cause::Conflict) {
            text.push_str(", and none of a later record");
        }
        if unknown > 0 {
            let _ = write!(text, "; {unknown} more may have been written");
        }
        text
    }

    fn way_on(&self, voice: Voice) -> String {
        let mode = match voice {
            Voice::Command => "--mode ",
            Voice::Shell => "",
        };
        let keeps = format!("{mode}skip-existing keeps the items that exist");
        if self.cause == Cause::Conflict {
            return format!("to go on: {keeps}, {mode}upsert replaces them");
        }
        let mends = match self.cause {
            Cause::Failure => "end the cause",
            Cause::Source => "mend the source",
            _ => "correct the record",
        };
        // A corrected file is another import for a checkpoint.
        let again = match (&self.checkpoint, self.cause, self.mode) {
            (Some(_), Cause::Failure, _) => {
                return format!("to go on: {mends} and repeat the command, which continues");
            }
            (Some(file), _, _) => format!(
                "delete the checkpoint {} and repeat the command with {mode}upsert or \
                 {mode}skip-existing",
                file.display()
            ),
            (None, _, Mode::Create) => format!("repeat the command; {keeps}"),
            (None, _, _) => "repeat the command".to_owned(),
        };
        let mut text = format!("to go on: {mends} and {again}");
        if self.cause == Cause::Refusal && !self.has_dead_letter {
            let _ = match (voice, &self.checkpoint) {
                (Voice::Shell, _) => write!(
                    text,
                    "; `orrery import` with --dead-letter FILE collects such records and goes on"
                ),
                (Voice::Command, None) => write!(
                    text,
                    "; --dead-letter FILE collects such records and goes on"
                ),
                (Voice::Command, Some(_)) => write!(
                    text,
                    "; or add --dead-letter FILE to the same command, which continues and collects \
                     such records"
                ),
            };
        }
        text
    }
}

fn items_were(count: u64) -> String {
    match count {
        0 => "no item was".to_owned(),
        1 => "1 item was".to_owned(),
        count => format!("{count} items were"),
    }
}
