//! Batches in the form that the .NET SDK sends (`hybrid_row.rs`): what the members of an operation mean, and what the
//! answer to it says. Everything else about batches is the same in every form, and in `batches.rs`.

use super::batches::{Entry, invalid, leaves_out_of_index, refuse_time_to_live};
use crate::hybrid_row::{Answer, Operation, read_operations, write_answers};
use bytes::Bytes;
use orrery_engine::request::{BatchAction, BatchOperation, Body, WriteOperation};
use orrery_model::partition_key::PartitionKey;
use orrery_model::{Error, Result};

/// `resourceType` of an item.
const ITEM: i32 = 2;

/// The operations of a body.
///
/// # Errors
/// 400 for anything that is no list of operations on items.
pub(super) fn read(body: &Bytes, minimal: bool) -> Result<Vec<BatchOperation>> {
    read_operations(body)?
        .into_iter()
        .zip(1..)
        .map(|(read, number)| operation(read, number, minimal))
        .collect()
}

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
        leave_out_of_index: leaves_out_of_index(read.indexing_directive.as_deref(), number)?,
        minimal: minimal | read.minimal.unwrap_or(false),
        if_match: read.if_match,
        if_none_match: read.if_none_match,
        ..BatchOperation::new(action, read.resource_body.map(Body::Text))
    })
}

/// The body of the answer.
pub(super) fn write(entries: &[Entry<'_>]) -> Bytes {
    write_answers(entries.iter().map(|entry| {
        Answer {
            status: entry.status,
            sub_status: entry
                .outcome
                .result
                .as_ref()
                .err()
                .map_or(0, Error::sub_status),
            etag: entry.etag,
            body: entry.body.map(|body| &body[..]),
            retry_after_ms: entry.retry_after_ms().and_then(|ms| u32::try_from(ms).ok()),
            charge: entry.outcome.charge.as_ru(),
        }
    }))
}
