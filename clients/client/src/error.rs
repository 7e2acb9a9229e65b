//! The errors of the client. A message names the operation, so that it alone shows the cause.

use std::fmt;
use std::time::Duration;

/// The reason for which a request failed.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientError {
    /// The server answered with an error.
    Refused(Box<Refusal>),
    /// There was no complete response: the connection failed, broke or timed out.
    Unreachable {
        /// Method and path of the request.
        operation: String,
        /// Address of the account.
        endpoint: String,
        /// The error of the transport.
        cause: String,
        /// True if the server may have carried out the request.
        may_have_arrived: bool,
        /// True if a program accepted the connection.
        found_server: bool,
    },
    /// The response violates the protocol.
    Unexpected {
        /// Method and path of the request.
        operation: String,
        /// The difference from the expected response.
        reason: String,
    },
    /// An option, a file or an environment variable has a value that cannot be used.
    InvalidOption(String),
}

/// An error that the server answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Method and path of the request.
    pub operation: String,
    /// HTTP status, for example 409.
    pub status: u16,
    /// `x-ms-substatus`; 0 if the server sent none.
    pub sub_status: u32,
    /// The server's code, for example `Conflict`; empty if the server sent none.
    pub code: String,
    /// The server's message without the activity id that ends it.
    pub message: String,
    /// `x-ms-activity-id`; empty if the server sent none.
    pub activity_id: String,
    /// Request units of the refused request.
    pub charge: f64,
    /// Time after which the request may be repeated, with 429.
    pub retry_after: Option<Duration>,
}

impl ClientError {
    /// Returns the status of the server's answer, or `None` without an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            _ => None,
        }
    }

    /// Returns the server's answer, if there was one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Returns true if the addressed resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Returns true if a resource with the same id exists.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// Returns true if the addressed partition key range was split or merged: the ranges are to be
    /// read again with [`crate::Client::fresh_ranges`].
    pub fn is_range_gone(&self) -> bool {
        matches!(self.refusal(), Some(r) if r.status == 410 && matches!(r.sub_status, 1002 | 1007))
    }

    pub(crate) fn unexpected(operation: &str, reason: impl Into<String>) -> Self {
        Self::Unexpected {
            operation: operation.to_owned(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Unreachable {
                endpoint,
                cause,
                found_server: false,
                ..
            } => write!(f, "no server answers at {endpoint} ({cause})"),
            Self::Unreachable {
                operation,
                endpoint,
                cause,
                ..
            } => write!(
                f,
                "{operation}: no complete response from {endpoint}: {cause}"
            ),
            Self::Unexpected { operation, reason } => {
                write!(f, "{operation}: unexpected response: {reason}")
            }
            Self::InvalidOption(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: the server refused with {}/{}: {}",
            self.operation, self.status, self.sub_status, self.message
        )
    }
}

impl std::error::Error for ClientError {}
