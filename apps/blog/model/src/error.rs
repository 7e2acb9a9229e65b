//! The errors of the blog and its measurement, in one enum.
//!
//! Each variant names the failed operation, so that the message alone is enough to find the cause.

use crate::meter::Charge;
use crate::models::{Model, Request};
use orrery_client::ClientError;
use std::fmt;

/// The reason for which a request of the blog, or its measurement, failed.
#[derive(Debug, Clone, PartialEq)]
pub enum BlogError {
    /// The server answered with an error.
    Refused {
        /// Method and path of the request.
        operation: String,
        /// HTTP status, e.g. 409.
        status: u16,
        /// `x-ms-substatus`; 0 if the server sent none.
        sub_status: u32,
        /// The server's message.
        message: String,
    },
    /// There was no response: the connection failed, broke or timed out.
    Unreachable {
        /// The failed operation.
        operation: String,
        /// The error of the transport.
        cause: String,
    },
    /// The response violates the protocol, or is wrong for the loaded data.
    Unexpected {
        /// The failed operation.
        operation: String,
        /// The difference from the expected response.
        reason: String,
    },
    /// Two runs of one request on equal items had different charges. An average would hide the
    /// fault.
    UnequalCharges {
        /// The request.
        request: Request,
        /// The model.
        model: Model,
        /// The charge of the first run.
        first: Charge,
        /// The first charge that differs.
        other: Charge,
    },
    /// Copies differ from their source. The text is the report of the comparison.
    Drift(String),
    /// An option has an invalid value. The text describes the fault.
    InvalidOption(String),
    /// The position of a page is not one that an earlier page returned.
    InvalidPage,
}

impl BlogError {
    /// Returns true if the server reported that the addressed resource does not exist (404).
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Returns true if an item does not exist, in a container that does.
    pub fn is_item_missing(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 404,
                sub_status: 0,
                ..
            }
        )
    }

    /// Returns true for a fault of the environment, which ends without a change of the request: no
    /// response, throttling, a server that is busy, starts or stops, a container that does not
    /// exist (yet), a wrong key.
    pub fn is_environmental(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused {
                status, sub_status, ..
            } => match status {
                401 | 410 | 429 | 449 | 502 | 503 | 504 => true,
                404 => *sub_status != 0,
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns true if the addressed physical partition no longer exists because of a split (410
    /// with sub-status 1002 or 1007).
    pub fn is_range_gone(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 410,
                sub_status: 1002 | 1007,
                ..
            }
        )
    }

    /// Returns true for a conflict with another writer: the item exists already (409), has changed
    /// since it was read (412), or was changed at the same time (449).
    pub fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 409 | 412 | 449,
                ..
            }
        )
    }

    /// Returns true if the request found no request units left, and the client's patience ended
    /// (429; 449 if other writers kept the item busy).
    pub fn is_throttled(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 429 | 449,
                ..
            }
        ) || self.script_error() == Some(429)
    }

    /// Returns true if the logical partition has reached its size limit (403 with sub-status 1014).
    pub fn is_partition_full(&self) -> bool {
        let is_refused = matches!(
            self,
            Self::Refused {
                status: 403,
                sub_status: 1014,
                ..
            }
        );
        is_refused || self.script_error() == Some(403)
    }

    /// Returns the number of the error that ended a stored procedure (400 with the number as
    /// sub-status).
    pub(crate) fn script_error(&self) -> Option<u32> {
        match self {
            Self::Refused {
                operation,
                status: 400,
                sub_status,
                ..
            } if operation.contains("/sprocs/") => Some(*sub_status),
            _ => None,
        }
    }

    /// Returns the error of a request for a post that was deleted.
    pub(crate) fn deleted_post(post_id: &str) -> Self {
        Self::Refused {
            operation: format!("reading post {post_id}"),
            status: 404,
            sub_status: 0,
            message: "the post was deleted".into(),
        }
    }

    pub(crate) fn unexpected(operation: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Unexpected {
            operation: operation.into(),
            reason: reason.into(),
        }
    }
}

impl From<ClientError> for BlogError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(refusal) => Self::Refused {
                operation: refusal.operation,
                status: refusal.status,
                sub_status: refusal.sub_status,
                message: match refusal.activity_id.as_str() {
                    "" => refusal.message,
                    // The activity id finds the request in the server's log.
                    activity => format!("{}\r\nActivityId: {activity}", refusal.message),
                },
            },
            ClientError::Unreachable {
                operation, cause, ..
            } => Self::Unreachable { operation, cause },
            ClientError::Unexpected { operation, reason } => Self::Unexpected { operation, reason },
            ClientError::InvalidOption(text) => Self::InvalidOption(text),
        }
    }
}

impl fmt::Display for BlogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused {
                operation,
                status,
                sub_status,
                message,
            } => {
                write!(
                    f,
                    "{operation}: the server refused with {status}/{sub_status}: {message}"
                )
            }
            Self::Unreachable { operation, cause } => {
                write!(f, "{operation}: no response: {cause}")
            }
            Self::Unexpected { operation, reason } => {
                write!(f, "{operation}: unexpected response: {reason}")
            }
            Self::UnequalCharges {
                request,
                model,
                first,
                other,
            } => write!(
                f,
                "{request} of {model} was charged {first} RU on one run and {other} RU on another, \
                 for equal items"
            ),
            Self::Drift(report) => f.write_str(report),
            Self::InvalidOption(text) => f.write_str(text),
            Self::InvalidPage => f.write_str("the position of the page is not valid"),
        }
    }
}

impl std::error::Error for BlogError {}
