//! Failures of the store, the query language and scripts as the errors that clients read.
//!
//! Each family of failures is translated in one function, so that a status is decided in one place.

use orrery_model::{Error, Kind};
use orrery_script::ScriptError;
use orrery_sql::QueryError;
use orrery_storage::{CommitOutcome, StoreError};

/// The error for a partition whose place others have taken.
pub fn gone_error(id: u32) -> Error {
    Error::new(
        Kind::PartitionKeyRangeGone,
        format!("The partition key range {id} is gone: it does not exist or was split."),
    )
}

/// A store's failure as a client's error: 503 where waiting may help, else 500.
pub fn storage_failure(error: StoreError) -> Error {
    Error::internal(error)
}

/// What a commit's outcome means for the client that waits for it. `None`: it is durable.
pub fn outcome_error(outcome: &CommitOutcome) -> Option<Error> {
    match outcome {
        CommitOutcome::Ok => None,
        CommitOutcome::TooLarge => Some(Error::new(
            Kind::RequestEntityTooLarge,
            "The request changes more than one transaction may hold. Split it into smaller ones.",
        )),
        CommitOutcome::Fenced | CommitOutcome::Unknown => {
            Some(Error::internal("the outcome of a commit is not known"))
        }
        // Clients come back to a server that is busy, and keep away from one that is unavailable.
        CommitOutcome::Busy { retry_after_ms } => Some(
            Error::new(
                Kind::Throttled,
                "Too many writes wait to become durable. Retry later.",
            )
            .with_retry_after_ms(*retry_after_ms),
        ),
        CommitOutcome::Unavailable { retry_after_ms } => Some(
            Error::new(Kind::Unavailable, "The store cannot take writes now.")
                .with_retry_after_ms(*retry_after_ms),
        ),
    }
}

/// Returns the error for a stored row that does not make sense. `what` is the subject of the message.
pub fn damaged(what: &str) -> Error {
    Error::internal(format!("{what} is damaged"))
}

/// Returns the error for a write that another write of the same logical partition came before.
pub fn conflicting_write() -> Error {
    Error::new(
        Kind::RetryWith,
        "Conflicting request to resource has been attempted. Retry to avoid conflicts.",
    )
}

/// A query's failure as the client's error.
pub fn query_error(error: QueryError) -> Error {
    let told = || error.to_json().to_text();
    match error {
        QueryError::NonFinite => Error::new(Kind::NotRepresentable, error.to_string()),
        QueryError::Udf {
            number: Some(number),
            ..
        } => Error::bad(told()).with_sub_status(number),
        QueryError::Resume(_) => Error::bad(format!("The continuation token is invalid: {error}")),
        QueryError::Timeout => Error::new(
            Kind::RequestTimeout,
            "The query did not finish within its time.",
        ),
        QueryError::Source(cause) => match cause.downcast::<Error>() {
            Ok(error) => *error,
            Err(other) => Error::internal(other),
        },
        _ => Error::bad(told()),
    }
}

pub(crate) fn udf_error(error: ScriptError) -> QueryError {
    let number = match &error {
        ScriptError::Thrown { number, .. } => number.and_then(|n| u32::try_from(n).ok()),
        ScriptError::Compile { .. } => Some(Kind::ScriptCompile.sub_status()),
        _ => return QueryError::Source(Box::new(script_error(error))),
    };
    QueryError::Udf {
        number,
        message: error.to_string(),
    }
}

/// A script's failure as the client's error.
pub(crate) fn script_error(error: ScriptError) -> Error {
    let told = error.to_string();
    let sub_status = |number: Option<u32>| match number {
        Some(number) => Error::bad(told.clone()).with_sub_status(number),
        None => Error::bad(told.clone()),
    };
    match &error {
        ScriptError::Compile { .. } => Error::new(Kind::ScriptCompile, told),
        ScriptError::Thrown { number, .. } => {
            sub_status(number.and_then(|n| u32::try_from(n).ok()))
        }
        ScriptError::UnhandledHostFailure { number, .. } => sub_status(Some(u32::from(*number))),
        ScriptError::BadArguments(_)
        | ScriptError::OutOfMemory
        | ScriptError::TooDeep
        | ScriptError::UnknownFunction(_) => Error::bad(told),
        ScriptError::TooLarge(_) => Error::new(Kind::RequestEntityTooLarge, told),
        ScriptError::TimedOut => Error::new(Kind::RequestTimeout, told),
        ScriptError::Busy => Error::new(
            Kind::Throttled,
            "Too many scripts are running. Retry later.",
        )
        .with_retry_after_ms(100),
        ScriptError::HostDied(_) | ScriptError::HostNotStarted(_) => Error::internal(error),
    }
}
