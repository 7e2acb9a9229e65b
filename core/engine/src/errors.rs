//! Translates failures of the store, the query language and scripts into errors of the protocol.
//!
//! Each family of failures has one function, so the status of a failure is decided in one place.

use orrery_model::memory::AnswerMemory;
use orrery_model::partition_key::PartitionKey;
use orrery_model::words::shortened;
use orrery_model::{Error, Kind, Result};
use orrery_script::ScriptError;
use orrery_sql::QueryError;
use orrery_storage::{CommitOutcome, StoreError};

/// Returns the error 404 for an item that no request found by this id and partition key.
pub(crate) fn item_not_found(id: &str, key: &PartitionKey) -> Error {
    Error::not_found().with_help(format!(
        "No item has the id '{}' in the logical partition {}. An item is found by both; upper and \
         lower case count, and 1 is not \"1\".",
        shortened(id),
        key.shown()
    ))
}

/// Returns the error 409 for an id that another item of the logical partition has.
pub(crate) fn item_id_taken(id: &str, key: &PartitionKey) -> Error {
    Error::conflict().with_help(format!(
        "The logical partition {} has an item with the id '{}'. Replace or upsert it, or take \
         another id.",
        key.shown(),
        shortened(id)
    ))
}

/// Returns the error 409 for an id that an item of another partition key with the same hash has.
pub(crate) fn hashed_key_conflict(id: &str) -> Error {
    Error::hashed_key_conflict().with_help(format!(
        "The container has hash version 1, which reads the first 100 characters of a partition \
         key. An item with the id '{}' has another key with the same first 100 characters. Take \
         another id or a shorter key, or move to a container with \"version\": 2 in its \
         \"partitionKey\".",
        shortened(id)
    ))
}

/// Returns the error 412 for an etag that is not the current one.
pub(crate) fn etag_differs(sent: &str, current: &str) -> Error {
    Error::precondition_failed().with_help(format!(
        "The request was to change the version with the etag {}, and the present one has \
         {current}: read it again, and repeat the change on what it is now.",
        shortened(sent)
    ))
}

/// Returns the error 410/1002 for a partition that successors have replaced, by its range id.
pub(crate) fn gone_error(id: u32) -> Error {
    Error::new(
        Kind::PartitionKeyRangeGone,
        format!("The partition key range {id} is gone: it does not exist or was split."),
    )
}

/// Returns the error for a failure of the store in which nothing was written: 507 and 503 while the
/// store takes no writes for a while, else 500. The cause goes to the log only.
pub(crate) fn storage_failure(error: StoreError) -> Error {
    match &error {
        StoreError::Unavailable {
            retry_after_ms,
            is_full,
            ..
        } => {
            let refusal = if *is_full {
                storage_full(*retry_after_ms)
            } else {
                unavailable(*retry_after_ms)
            };
            refusal.with_cause(error)
        }
        StoreError::Cluster {
            retry_after_ms: Some(retry_after_ms),
            ..
        } => Error::new(
            Kind::Unavailable,
            "The database cluster with the data of this request cannot be used now, and the \
             request had no effect. Retry later.",
        )
        .with_retry_after_ms(*retry_after_ms)
        .with_cause(error),
        StoreError::DamagedBlock { .. } => Error::new(
            Kind::DataDamaged,
            "A part of the data of this request is damaged on the disk of the server and cannot \
             be read. Other data is not affected. The operator of the server finds the damage in \
             its status.",
        )
        .with_cause(error),
        _ => Error::internal(error),
    }
}

/// Returns the error for the outcome of a commit, or `None` if the commit is durable.
pub(crate) fn outcome_error(outcome: &CommitOutcome) -> Option<Error> {
    match outcome {
        CommitOutcome::Ok => None,
        CommitOutcome::TooLarge => Some(Error::new(
            Kind::RequestEntityTooLarge,
            "The request changes more than one transaction may hold. Split it into smaller ones.",
        )),
        CommitOutcome::Damaged => Some(Error::new(
            Kind::DataDamaged,
            "Nothing was written: the server has lost or damaged a part of this physical \
             partition, so the partition can only be read. The operator of the server finds the \
             reason in its status.",
        )),
        CommitOutcome::Fenced => Some(did_not_happen()),
        CommitOutcome::Unknown => Some(unknown_outcome()),
        // After 429 a client retries at the same endpoint; an endpoint that answers 503 it avoids.
        CommitOutcome::Busy { retry_after_ms } => Some(
            Error::new(
                Kind::Throttled,
                "Too many writes wait to become durable. Retry later.",
            )
            .with_retry_after_ms(*retry_after_ms),
        ),
        CommitOutcome::Unavailable { retry_after_ms } => Some(unavailable(*retry_after_ms)),
        CommitOutcome::StorageFull { retry_after_ms } => Some(storage_full(*retry_after_ms)),
    }
}

/// Returns the error 449 for a commit that definitely did not take place.
pub(crate) fn did_not_happen() -> Error {
    Error::new(Kind::RetryWith, "The write did not take place. Retry it.")
}

/// Returns the error 408 for a commit of which neither the store nor the commit log tells whether
/// it took place.
pub(crate) fn unknown_outcome() -> Error {
    Error::new(
        Kind::UnknownOutcome,
        "The write may have taken place or not: the server failed before it could find out. Read \
         the resource before you repeat the write.",
    )
}

/// The milliseconds after which a request may come again whose answer could not be confirmed.
const UNCONFIRMED_RETRY_AFTER_MS: u64 = 1_000;

/// Returns the error 503 for a request that wrote nothing, whose answer follows from a commit of
/// which it is not known whether it took place.
pub(crate) fn unconfirmed() -> Error {
    unavailable(UNCONFIRMED_RETRY_AFTER_MS)
}

fn unavailable(retry_after_ms: u64) -> Error {
    Error::new(
        Kind::Unavailable,
        "The server cannot take writes now, and this one did not take place. Retry later.",
    )
    .with_retry_after_ms(retry_after_ms)
}

/// Returns the error 507. A client is told so at once: its retries after 503 and 429 would end in
/// the same answer, and after 503 it would avoid an endpoint that still answers reads.
fn storage_full(retry_after_ms: u64) -> Error {
    Error::new(
        Kind::StorageFull,
        "The disk of the server is full, and the write did not take place. Reads go on, and \
         deletions are accepted as long as possible. Writes resume when there is room.",
    )
    .with_retry_after_ms(retry_after_ms)
}

/// Returns true for a failure that no operation of a script or a transactional batch causes. The
/// whole request fails with it, because a client, or the node that forwards the request, repeats
/// such a request, and none with an exception or with operations that failed.
pub(crate) fn is_of_server(error: &Error) -> bool {
    matches!(
        error.kind(),
        Kind::NotOwned
            | Kind::Unavailable
            | Kind::StorageFull
            | Kind::Internal
            | Kind::DataDamaged
            | Kind::Throttled
            | Kind::RetryWith
    )
}

/// Returns the error 500 for a damaged stored row. `what` is the subject of the message.
pub(crate) fn damaged(what: &str) -> Error {
    Error::internal(format!("{what} is damaged"))
}

/// Returns the error 449 for a write that lost a race against another write of the same logical
/// partition.
pub(crate) fn conflicting_write() -> Error {
    Error::new(
        Kind::RetryWith,
        "Conflicting request to resource has been attempted. Retry to avoid conflicts.",
    )
}

/// The milliseconds after which a client may ask again for an answer for which there was no memory.
const ANSWER_RETRY_AFTER_MS: u64 = 500;
/// The bytes of an answer to a write that is not counted before its commit, so that small writes
/// cost nothing.
const UNCOUNTED_ANSWER_BYTES: usize = 4 * 1024;

/// Reserves the memory of the answer to a write before its commit: a write that is committed must
/// be answered, whatever memory there is then. `copies` is the number of times that the answer is
/// in memory until its body is made.
///
/// # Errors
/// 429 if there is none left.
pub(crate) fn reserve_answer(
    answer: Option<&AnswerMemory>,
    bytes: usize,
    copies: u64,
) -> Result<()> {
    let Some(answer) = answer else {
        return Ok(());
    };
    if bytes <= UNCOUNTED_ANSWER_BYTES || answer.reserve(copies.saturating_mul(bytes as u64)) {
        return Ok(());
    }
    Err(no_memory_for_answer(bytes))
}

/// Returns the error for an answer for which there is no memory.
pub(crate) fn no_memory_for_answer(bytes: usize) -> Error {
    let message = format!(
        "Request rate is large: the server has no memory left for an answer of {bytes} bytes, \
         because other answers wait for their clients. Please retry later."
    );
    Error::new(Kind::Throttled, message).with_retry_after_ms(ANSWER_RETRY_AFTER_MS)
}

/// Returns the error for a failed query.
pub(crate) fn query_error(error: QueryError) -> Error {
    let message = || error.to_json().to_text();
    match error {
        QueryError::NonFinite => Error::new(Kind::NotRepresentable, error.to_string()),
        QueryError::Udf {
            number: Some(number),
            ..
        } => Error::bad(message()).with_sub_status(number),
        QueryError::Resume(_) => {
            Error::bad(format!("Invalid Continuation Token: {error}")).with_help(TOKEN_HELP)
        }
        QueryError::MemoryTaken => {
            Error::new(Kind::Throttled, error.to_string()).with_retry_after_ms(1_000)
        }
        QueryError::Timeout => Error::new(
            Kind::RequestTimeout,
            "The query did not finish within its time.",
        )
        .with_help(
            "Name the partition key, filter by indexed properties, or ask for smaller pages.",
        ),
        QueryError::Source(cause) => match cause.downcast::<Error>() {
            Ok(error) => *error,
            Err(other) => Error::internal(other),
        },
        _ => Error::bad(message()),
    }
}

/// The use of the continuation of a query.
pub(crate) const TOKEN_HELP: &str = "Send a continuation unchanged, with the same query text and \
                                 parameters, to the container that returned it; or start the query \
                                 again without one.";

/// Returns the query error for a user-defined function that failed.
///
/// An error that the script threw or that is in its source belongs to the query; every other
/// failure keeps the status that [`script_error`] gives to it.
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

/// Returns the error for a failed script.
pub(crate) fn script_error(error: ScriptError) -> Error {
    let message = error.to_string();
    match &error {
        ScriptError::Compile { .. } => Error::new(Kind::ScriptCompile, message),
        // A script may throw an error with a number, which clients read as the substatus.
        ScriptError::Thrown { number, .. } => {
            match number.and_then(|number| u32::try_from(number).ok()) {
                Some(number) => Error::bad(message).with_sub_status(number),
                None => Error::bad(message),
            }
        }
        ScriptError::UnhandledHostFailure { number, .. } => {
            Error::bad(message).with_sub_status(u32::from(*number))
        }
        ScriptError::BadArguments(_)
        | ScriptError::OutOfMemory
        | ScriptError::TooDeep
        | ScriptError::UnknownFunction(_) => Error::bad(message),
        ScriptError::TooLarge(_) => Error::new(Kind::RequestEntityTooLarge, message),
        ScriptError::TimedOut => Error::new(Kind::RequestTimeout, message),
        ScriptError::Busy => Error::new(
            Kind::Throttled,
            "Too many scripts are running. Retry later.",
        )
        .with_retry_after_ms(100),
        ScriptError::Evicted => Error::new(
            Kind::Throttled,
            "The script was ended and nothing of it took effect: it had run for long, and too many \
             long scripts were running. Retry later.",
        )
        .with_retry_after_ms(1_000),
        ScriptError::HostDied(_) | ScriptError::HostNotStarted(_) => Error::internal(error),
    }
}
