//! Failures of statements.

use crate::fault::{self, Voice};
use crate::query::QueryError;
use crate::transfer::TransferError;
use orrery_client::ClientError;
use std::io;

/// The reason for which a statement failed.
#[derive(Debug)]
pub enum ShellError {
    /// The statement failed; the text is for the user and may have several lines.
    Failed(String),
    /// The reader of standard output has gone.
    Closed,
}

impl From<io::Error> for ShellError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(format!("cannot write to standard output: {error}")),
        }
    }
}

impl From<String> for ShellError {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<ClientError> for ShellError {
    fn from(error: ClientError) -> Self {
        Self::Failed(fault::of_request(&error, None, Voice::Shell))
    }
}

impl From<TransferError> for ShellError {
    fn from(error: TransferError) -> Self {
        Self::Failed(error.words(Voice::Shell))
    }
}

/// Returns the failure of a query, with its place in the text.
pub(super) fn of_query(error: &QueryError, query: &str) -> ShellError {
    ShellError::Failed(fault::of_query(error, query, Voice::Shell))
}
