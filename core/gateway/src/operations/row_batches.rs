//! Batches in HybridRow form, which the .NET SDK sends (see `hybrid_row.rs`): the meaning of the
//! members of an operation, and the members of its result. `batches.rs` contains what is the same
//! in every form.

use super::batches::{BatchResult, indexing_directive, invalid, refuse_time_to_live};
use crate::binary_json;
use crate::held::no_memory_for_texts;
use crate::hybrid_row::{Operation, OperationResult, read_operations, write_answers};
use bytes::Bytes;
use orrery_engine::request::{BatchAction, BatchOperation, Body, WriteOperation};
use orrery_model::memory::AnswerMemory;
use orrery_model::partition_key::PartitionKey;
use orrery_model::{Error, Kind, Result};

/// The `resourceType` of items.
const ITEM: i32 = 2;

/// Reads the operations of a body. Texts of bodies that are in binary JSON have memory of `answer`,
/// which needs no memory yet.
///
/// # Errors
/// 400 for a body that is not a list of operations on items, 413 for operations whose texts are
/// too long together, 429 if there is no memory for the texts.
pub(super) fn read(
    body: &Bytes,
    minimal: bool,
    answer: &AnswerMemory,
) -> Result<Vec<BatchOperation>> {
    let mut operations = Vec::new();
    let mut text_bytes = 0;
    for (mut read, number) in read_operations(body)?.into_iter().zip(1..) {
        if let Some(sent) = read.resource_body.as_mut() {
            translate(sent, &mut text_bytes, answer)?;
        }
        operations.push(operation(read, number, minimal)?);
    }
    Ok(operations)
}

/// Translates a body in binary JSON into text; any other body stays. `text_bytes` is the length of
/// the texts of the batch so far: a text may be longer than its binary form, so the length of the
/// batch does not limit them.
///
/// # Errors
/// 400 for malformed binary JSON, 413 and 429 as [`read`].
fn translate(body: &mut Bytes, text_bytes: &mut usize, answer: &AnswerMemory) -> Result<()> {
    if body.first() != Some(&binary_json::FIRST_BYTE) {
        return Ok(());
    }
    let text = binary_json::to_text(body)?;
    *text_bytes += text.len();
    if *text_bytes > binary_json::TEXT_BYTES_MAX {
        let message = "The texts of the operations of the batch are too long together.";
        return Err(Error::new(Kind::RequestEntityTooLarge, message)
            .with_help("Split the batch into several requests."));
    }
    if !answer.reserve(*text_bytes as u64) {
        return Err(no_memory_for_texts(*text_bytes));
    }
    *body = text.into();
    Ok(())
}

/// Returns one operation. `number` is its place in the batch, counted from 1.
fn operation(read: Operation, number: usize, minimal: bool) -> Result<BatchOperation> {
    if read.resource_type != Some(ITEM) {
        return Err(invalid("resourceType", number));
    }
    if read.effective_partition_key.is_some() {
        return Err(Error::unsupported(
            "An effective partition key in an operation (effectivePartitionKey)",
        ));
    }
    if read.binary_id.is_some() {
        return Err(Error::unsupported("A binary id in an operation (binaryId)"));
    }
    refuse_time_to_live(read.time_to_live.is_some())?;
    // The numbers of operations are those of the .NET SDK; see `Operation::operation_type`.
    let id = || read.id.clone().ok_or_else(|| invalid("id", number));
    let action = match read.operation_type {
        Some(0) => BatchAction::Write(WriteOperation::Create),
        Some(1) => BatchAction::Write(WriteOperation::Patch(id()?)),
        Some(2) => BatchAction::Read(id()?),
        Some(4) => BatchAction::Write(WriteOperation::Delete(id()?)),
        Some(5) => BatchAction::Write(WriteOperation::Replace(id()?)),
        Some(20) => BatchAction::Write(WriteOperation::Upsert),
        _ => return Err(invalid("operationType", number)),
    };
    Ok(BatchOperation {
        partition_key: read
            .partition_key
            .as_deref()
            .map(PartitionKey::from_header)
            .transpose()?,
        indexing: indexing_directive(read.indexing_directive.as_deref(), number)?,
        minimal: minimal | read.minimal.unwrap_or(false),
        if_match: read.if_match,
        if_none_match: read.if_none_match,
        ..BatchOperation::new(action, read.resource_body.map(Body::Text))
    })
}

/// Returns the body of the reply.
pub(super) fn write(entries: &[BatchResult<'_>]) -> Bytes {
    write_answers(entries.iter().map(|entry| {
        let sub_status = match &entry.outcome.result {
            Ok(_) => 0,
            Err(error) => error.sub_status(),
        };
        OperationResult {
            status: entry.status,
            sub_status,
            etag: entry.etag,
            body: entry.body.map(|body| &body[..]),
            retry_after_ms: entry.retry_after_ms().and_then(|ms| u32::try_from(ms).ok()),
            charge: entry.outcome.charge.as_ru(),
        }
    }))
}
