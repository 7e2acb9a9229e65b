//! Several operations in one request: transactional batches and bulk, as JSON. The other form is in `row_batches.rs`;
//! a batch is answered in the form in which it came.

use super::{Step, row_batches};
use crate::call::{Call, parse_body};
use crate::hybrid_row;
use crate::reply::{Reply, retry_after_ms};
use bytes::Bytes;
use orrery_engine::request::{
    BatchAction, BatchAnswer, BatchMode, BatchOperation, BatchReply, Body, Outcome, ReadReply,
    WriteOperation,
};
use orrery_engine::{Container, Engine};
use orrery_model::json::write_string;
use orrery_model::partition_key::PartitionKey;
use orrery_model::{Error, Json, Object, Result};

pub(super) fn run(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let mode = mode(call, container)?;
    let read = if is_in_rows(call) {
        row_batches::read
    } else {
        read
    };
    let operations = read(&call.body, call.headers.minimal)?;
    let pending = engine.batch(container, &mode, operations, call.headers.reading());
    Ok(Step::Batch(pending))
}

/// The answer to a batch whose writes are durable: 200 if every operation succeeded, else 207.
pub(crate) fn finish(call: &Call, outcome: Outcome<BatchAnswer>) -> Reply {
    Reply::of(outcome, |answer| {
        let entries: Vec<Entry<'_>> = answer.results.iter().map(Entry::of).collect();
        let good = entries
            .iter()
            .all(|entry| (200..300).contains(&entry.status));
        let status = if good { 200 } else { 207 };
        if is_in_rows(call) {
            Reply::bytes(status, row_batches::write(&entries))
        } else {
            Reply::json(status, write(&entries))
        }
    })
}

/// Whether a batch is in HybridRow form.
fn is_in_rows(call: &Call) -> bool {
    call.body.first() == Some(&hybrid_row::FIRST_BYTE)
}

/// The entries as an array.
fn write(entries: &[Entry<'_>]) -> Bytes {
    let mut body = vec![b'['];
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        entry.write(&mut body);
    }
    body.push(b']');
    body.into()
}

fn mode(call: &Call, container: &Container) -> Result<BatchMode> {
    if call.headers.batch_atomic {
        return call.required_key(container).map(BatchMode::Atomic);
    }
    let key = call.optional_key(container).cloned();
    Ok(BatchMode::Each {
        range: call.range_id(container)?,
        key,
        continue_on_error: call.headers.batch_continue_on_error,
    })
}

/// The operations of a body.
///
/// # Errors
/// 400 for anything that is no list of operations.
fn read(body: &Bytes, minimal: bool) -> Result<Vec<BatchOperation>> {
    let Json::Array(operations) = parse_body(body)? else {
        return Err(Error::bad(
            "The body of a batch must be an array of operations.",
        ));
    };
    let operation = |(json, number): (Json, usize)| match json {
        Json::Object(members) => operation(Members { members, number }, minimal),
        _ => Err(Error::bad(format!(
            "Operation {number} of the batch is not an object."
        ))),
    };
    operations.into_iter().zip(1..).map(operation).collect()
}

fn operation(mut members: Members, minimal: bool) -> Result<BatchOperation> {
    let named = members
        .text("operationType")?
        .ok_or_else(|| members.invalid("operationType"))?;
    // A create may name the id that stands in its item too.
    let id = members.text("id")?;
    let id = || id.clone().ok_or_else(|| members.invalid("id"));
    let action = match &named[..] {
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
        // Old clients send the item as text in text.
        Some(Json::String(text)) => Some(Body::Text(Bytes::from(text))),
        other => other.map(Body::Json),
    };
    Ok(BatchOperation {
        partition_key: members.key()?,
        if_match: members.text("ifMatch")?,
        if_none_match: members.text("ifNoneMatch")?,
        leave_out_of_index: leaves_out_of_index(
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
    /// Counted from 1.
    number: usize,
}

impl Members {
    /// A member; null is none.
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

    /// The partition key: as in its header, in text, or as the bare array.
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

/// The error for a member of the operation with this number, counted from 1.
pub(super) fn invalid(name: &str, number: usize) -> Error {
    Error::bad(format!(
        "The member '{name}' of operation {number} of the batch is missing or invalid."
    ))
}

/// What the `indexingDirective` of an operation says.
///
/// # Errors
/// 400 for a word that is none.
pub(super) fn leaves_out_of_index(directive: Option<&str>, number: usize) -> Result<bool> {
    match directive {
        None | Some("Default" | "Include") => Ok(false),
        Some("Exclude") => Ok(true),
        Some(_) => Err(invalid("indexingDirective", number)),
    }
}

/// # Errors
/// 400 by name if an operation has a time to live beside its item.
pub(super) fn refuse_time_to_live(has_one: bool) -> Result<()> {
    let refusal = || {
        Error::unsupported("A time to live beside the item of an operation (timeToLiveInSeconds)")
    };
    if has_one { Err(refusal()) } else { Ok(()) }
}

/// What a client reads of one operation.
pub(super) struct Entry<'a> {
    pub(super) status: u16,
    pub(super) outcome: &'a Outcome<BatchReply>,
    pub(super) etag: Option<&'a str>,
    pub(super) body: Option<&'a Bytes>,
}

impl<'a> Entry<'a> {
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
        Entry {
            status,
            outcome,
            etag: etag.map(String::as_str),
            body,
        }
    }

    /// Milliseconds after which a retry may succeed, if waiting helps.
    pub(super) fn retry_after_ms(&self) -> Option<u64> {
        self.outcome.result.as_ref().err().and_then(retry_after_ms)
    }

    /// As a JSON object; what there is not is left out.
    fn write(&self, out: &mut Vec<u8>) {
        let mut name = |text: String| out.extend_from_slice(text.as_bytes());
        name(format!(
            r#"{{"statusCode":{},"requestCharge":{}"#,
            self.status, self.outcome.charge
        ));
        if let Err(error) = &self.outcome.result {
            if error.sub_status() != 0 {
                name(format!(r#","subStatusCode":{}"#, error.sub_status()));
            }
            if let Some(milliseconds) = self.retry_after_ms() {
                name(format!(r#","retryAfterMilliseconds":{milliseconds}"#));
            }
            name(r#","message":"#.to_owned());
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
