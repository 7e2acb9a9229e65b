//! Everything that can go wrong between the blog and its database, in one enum.
//!
//! Each variant says what was being done, so that a message alone tells a reader where to look.

use crate::meter::Charge;
use crate::models::{Model, Request};
use std::fmt;

/// Why a request of the blog, or the measurement of one, failed.
#[derive(Debug, Clone, PartialEq)]
pub enum BlogError {
    /// The server answered with an error.
    Refused {
        /// Method and path of the request.
        doing: String,
        /// HTTP status, e.g. 409.
        status: u16,
        /// `x-ms-substatus`, 0 where none was sent.
        sub_status: u32,
        /// The server's own words.
        message: String,
    },
    /// No answer came: no connection, a broken one, or one that took too long.
    Unreachable {
        /// What was being done.
        doing: String,
        /// What the transport reported.
        cause: String,
    },
    /// An answer came that the protocol does not allow, or that is not right for the data loaded.
    Unexpected {
        /// What was being done.
        doing: String,
        /// What was found instead.
        found: String,
    },
    /// Two runs of one request on equal items had different charges; averaging them would hide a fault.
    Unsteady {
        /// The request.
        request: Request,
        /// The model.
        model: Model,
        /// The charge of the first run.
        first: Charge,
        /// The charge that differs.
        other: Charge,
    },
    /// An option that cannot be used.
    Option(String),
}

impl BlogError {
    /// Whether the server answered that the addressed resource does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether the physical partition asked no longer exists, because it was split (410 with sub-status 1002 or 1007).
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

    /// Whether another writer was faster (412) or the item exists already (409).
    pub fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 409 | 412 | 449,
                ..
            }
        )
    }

    pub(crate) fn unexpected(doing: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Unexpected {
            doing: doing.into(),
            found: found.into(),
        }
    }
}

impl fmt::Display for BlogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused {
                doing,
                status,
                sub_status,
                message,
            } => {
                write!(
                    f,
                    "{doing}: the server refused with {status}/{sub_status}: {message}"
                )
            }
            Self::Unreachable { doing, cause } => write!(f, "{doing}: no answer: {cause}"),
            Self::Unexpected { doing, found } => write!(f, "{doing}: unexpected answer: {found}"),
            Self::Unsteady {
                request,
                model,
                first,
                other,
            } => write!(
                f,
                "{request} of {model} was charged {first} RU on one run and {other} RU on another, for equal items"
            ),
            Self::Option(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for BlogError {}
