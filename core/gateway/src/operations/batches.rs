//! Several operations in one request: transactional batches and bulk, as JSON. `row_batches.rs`
//! contains the other form. The reply has the form of the request.

use super::{Progress, row_batches};
use crate::call::{Call, parse_body};
use crate::hybrid_row;
use crate::reply::{Reply, retry_after_ms};
use bytes::Bytes;
use orrery_engine::request::{
    BatchAction, BatchAnswer, BatchMode, BatchOperation, BatchReply, Body, IndexingDirective,
    Outcome, ReadReply, WriteOperation,
};
use orrery_engine::{Container, Engine};
use orrery_model::json::write_string;
use orrery_model::memory::AnswerMemory;
use orrery_model::partition_key::PartitionKey;
use orrery_model::{Error, Json, Object, Result};

pub(super) fn execute(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let mode = mode(call, container)?;
    let minimal = call.headers.wants_minimal;
    let operations = read_batch(&call.body, minimal, &call.answer)?;
    let pending = engine.batch(container, &mode, operations, call.read_options());
    Ok(Progress::Batch(pending))
}

/// Returns the reply to a batch whose writes are durable: 200 if every operation succeeded, else
/// 207.
pub(super) fn finish(call: &Call, outcome: Outcome<BatchAnswer>) -> Reply {
    Reply::of(outcome, |answer| {
        let entries: Vec<BatchResult<'_>> = answer.results.iter().map(BatchResult::of).collect();
        let is_success = entries
            .iter()
            .all(|entry| (200..300).contains(&entry.status));
        let status = if is_success { 200 } else { 207 };
        let mut reply = match is_hybrid_row(&call.body) {
            true => Reply::bytes(status, row_batches::write(&entries)),
            false => Reply::json(status, write(&entries)),
        };
        reply.is_failed_batch = call.headers.is_atomic_batch && !is_success;
        reply
    })
}

/// Returns true if a batch is in HybridRow form.
fn is_hybrid_row(body: &[u8]) -> bool {
    body.first() == Some(&hybrid_row::FIRST_BYTE)
}

/// Reads the operations of a body in either form. Texts of bodies in binary JSON have memory of
/// `answer`. `minimal` is true if no operation wants its item back.
///
/// # Errors
/// 400 for a body that is not a list of operations, and for a body in HybridRow form also 413 and
/// 429, see [`row_batches::read`].
pub(crate) fn read_batch(
    body: &Bytes,
    minimal: bool,
    answer: &AnswerMemory,
) -> Result<Vec<BatchOperation>> {
    if is_hybrid_row(body) {
        row_batches::read(body, minimal, answer)
    } else {
        read(body, minimal)
    }
}

/// Returns the entries as a JSON array.
fn write(entries: &[BatchResult<'_>]) -> Bytes {
    let mut body = vec![b'['];
    for (n, entry) in entries.iter().enumerate() {
        if n > 0 {
            body.push(b',');
        }
        entry.write(&mut body);
    }
    body.push(b']');
    body.into()
}

/// Returns the mode of a batch: transactional, or bulk, whose operations are independent.
fn mode(call: &Call, container: &Container) -> Result<BatchMode> {
    if call.headers.is_atomic_batch {
        return call.required_key(container).map(BatchMode::Atomic);
    }
    let key = call.optional_key(container).cloned();
    Ok(BatchMode::Each {
        range: call.range_id(container)?,
        key,
        continue_on_error: call.headers.continues_on_error,
    })
}

/// Reads the operations of a body.
///
/// # Errors
/// 400 for a body that is not a list of operations.
fn read(body: &Bytes, minimal: bool) -> Result<Vec<BatchOperation>> {
    let Json::Array(entries) = parse_body(body)? else {
        return Err(Error::bad(
            "The body of a batch must be an array of operations.",
        ));
    };
    let mut operations = Vec::with_capacity(entries.len());
    for (entry, number) in entries.into_iter().zip(1..) {
        let Json::Object(members) = entry else {
            return Err(Error::bad(format!(
                "Operation {number} of the batch is not an object."
            )));
        };
        operations.push(operation(Members { members, number }, minimal)?);
    }
    Ok(operations)
}

fn operation(mut members: Members, minimal: bool) -> Result<BatchOperation> {
    let operation_type = members
        .text("operationType")?
        .ok_or_else(|| members.invalid("operationType"))?;
    // A create may repeat the id of its item here; such an id is ignored.
    let id = members.text("id")?;
    let id = || id.clone().ok_or_else(|| members.invalid("id"));
    let action = match &operation_type[..] {
        "Create" => BatchAction::Write(WriteOperation::Create),
        "Upsert" => BatchAction::Write(WriteOperation::Upsert),
        "Read" => BatchAction::Read(id()?),
        "Replace" => BatchAction::Write(WriteOperation::Replace(id()?)),
        "Patch" => BatchAction::Write(WriteOperation::Patch(id()?)),
        "Delete" => BatchAction::Write(WriteOperation::Delete(id()?)),
        _ => return Err(members.invalid("operationType")),
    };
    refuse_time_to_live(members.take("timeToLiveInSeconds").is_some())?;
    let body = match members.take("resourceBody") {
        // Old clients send the item as JSON text in a JSON string.
        Some(Json::String(text)) => Some(Body::Text(Bytes::from(text))),
        other => other.map(Body::Json),
    };
    Ok(BatchOperation {
        partition_key: members.key()?,
        if_match: members.text("ifMatch")?,
        if_none_match: members.text("ifNoneMatch")?,
        indexing: indexing_directive(
            members.text("indexingDirective")?.as_deref(),
            members.number,
        )?,
        minimal: minimal | members.flag("minimalReturnPreference")?,
        ..BatchOperation::new(action, body)
    })
}

/// The members of one operation.
struct Members {
    members: Object,
    /// The place of the operation in the batch, counted from 1.
    number: usize,
}

impl Members {
    /// Removes and returns a member; null counts as absent.
    fn take(&mut self, name: &str) -> Option<Json> {
        self.members
            .remove(name)
            .filter(|value| !matches!(value, Json::Null))
    }

    fn text(&mut self, name: &'static str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.invalid(name)),
        }
    }

    fn flag(&mut self, name: &'static str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Json::Bool(flag)) => Ok(flag),
            Some(_) => Err(self.invalid(name)),
        }
    }

    /// Removes and returns the partition key, which is an array or the text of its header.
    fn key(&mut self) -> Result<Option<PartitionKey>> {
        match self.take("partitionKey") {
            None => Ok(None),
            Some(Json::String(text)) => PartitionKey::from_header(&text).map(Some),
            Some(array @ Json::Array(_)) => PartitionKey::from_header(&array.to_text()).map(Some),
            Some(_) => Err(self.invalid("partitionKey")),
        }
    }

    fn invalid(&self, name: &str) -> Error {
        invalid(name, self.number)
    }
}

/// Returns the error for a member of operation `number`, counted from 1.
pub(super) fn invalid(name: &str, number: usize) -> Error {
    Error::bad(format!(
        "The member '{name}' of operation {number} of the batch is missing or invalid."
    ))
}

/// Returns the `indexingDirective` of an operation.
///
/// # Errors
/// 400 for an unknown directive.
pub(super) fn indexing_directive(name: Option<&str>, number: usize) -> Result<IndexingDirective> {
    match name {
        None | Some("Default") => Ok(IndexingDirective::Default),
        Some("Include") => Ok(IndexingDirective::Include),
        Some("Exclude") => Ok(IndexingDirective::Exclude),
        Some(_) => Err(invalid("indexingDirective", number)),
    }
}

/// Refuses an operation that has a time to live outside of its item.
///
/// # Errors
/// 400 if `is_present`.
pub(super) fn refuse_time_to_live(is_present: bool) -> Result<()> {
    if is_present {
        return Err(Error::unsupported(
            "A time to live beside the item of an operation (timeToLiveInSeconds)",
        ));
    }
    Ok(())
}

/// The result of one operation, as the client reads it.
pub(super) struct BatchResult<'a> {
    pub(super) status: u16,
    pub(super) outcome: &'a Outcome<BatchReply>,
    pub(super) etag: Option<&'a str>,
    pub(super) body: Option<&'a Bytes>,
}

impl<'a> BatchResult<'a> {
    fn of(outcome: &'a Outcome<BatchReply>) -> Self {
        let (status, etag, body) = match &outcome.result {
            Err(error) => (error.status(), None, None),
            Ok(BatchReply::Read(ReadReply::Item { body, etag })) => (200, Some(etag), Some(body)),
            Ok(BatchReply::Read(ReadReply::NotModified { etag })) => (304, Some(etag), None),
            Ok(BatchReply::Written(written)) => match &written.etag {
                None => (204, None, None),
                etag => (
                    if written.created { 201 } else { 200 },
                    etag.as_ref(),
                    written.item.as_ref(),
                ),
            },
        };
        BatchResult {
            status,
            outcome,
            etag: etag.map(String::as_str),
            body,
        }
    }

    /// Returns the milliseconds after which a retry may succeed, for errors that pass with time.
    pub(super) fn retry_after_ms(&self) -> Option<u64> {
        self.outcome.result.as_ref().err().and_then(retry_after_ms)
    }

    /// Writes the result as a JSON object without the members that have no value.
    fn write(&self, out: &mut Vec<u8>) {
        let head = format!(
            r#"{{"statusCode":{},"requestCharge":{}"#,
            self.status, self.outcome.charge
        );
        out.extend_from_slice(head.as_bytes());
        if let Err(error) = &self.outcome.result {
            if error.sub_status() != 0 {
                let member = format!(r#","subStatusCode":{}"#, error.sub_status());
                out.extend_from_slice(member.as_bytes());
            }
            if let Some(milliseconds) = self.retry_after_ms() {
                let member = format!(r#","retryAfterMilliseconds":{milliseconds}"#);
                out.extend_from_slice(member.as_bytes());
            }
            out.extend_from_slice(br#","message":"#);
            write_string(error.message(), out);
        }
        if let Some(etag) = self.etag {
            out.extend_from_slice(br#","eTag":"#);
            write_string(etag, out);
        }
        if let Some(body) = self.body {
            out.extend_from_slice(br#","resourceBody":"#);
            out.extend_from_slice(body);
        }
        out.push(b'}');
    }
}
