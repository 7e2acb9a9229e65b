//! Reads and writes of single items, and the deletion of all items of a partition key.

use super::Progress;
use crate::call::Call;
use crate::reply::Reply;
use orrery_engine::request::{Outcome, ReadReply, WriteOperation, WriteOptions, Written};
use orrery_engine::{Container, Engine};
use orrery_model::Result;

pub(super) fn read(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let key = call.required_key(container)?;
    let id = call.child_id(engine)?;
    let if_none_match = call.headers.if_none_match.as_deref();
    let pending = engine.read_item(
        container,
        &key,
        id,
        if_none_match,
        call.headers.read_options(),
    );
    // A read waits for no commit, so this does not block.
    let reply = Reply::of(pending.wait(), |found| match found {
        ReadReply::Item { body, etag } => Reply::json(200, body).with_etag(&etag),
        ReadReply::NotModified { etag } => Reply::empty(304).with_etag(&etag),
    });
    Ok(Progress::Complete(reply))
}

pub(super) fn create(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    write(engine, call, container, &WriteOperation::Create)
}

pub(super) fn upsert(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    write(engine, call, container, &WriteOperation::Upsert)
}

pub(super) fn replace(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let operation = WriteOperation::Replace(item_id(call));
    write(engine, call, container, &operation)
}

pub(super) fn patch(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let operation = WriteOperation::Patch(item_id(call));
    write(engine, call, container, &operation)
}

pub(super) fn delete(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let operation = WriteOperation::Delete(item_id(call));
    write(engine, call, container, &operation)
}

fn item_id(call: &Call) -> String {
    call.path.id(2).to_owned()
}

/// Deletes all items of the partition key that the header names.
pub(super) fn delete_by_partition_key(
    engine: &Engine,
    call: &Call,
    container: &Container,
) -> Result<Progress> {
    let key = call.required_key(container)?;
    let pending = engine.delete_logical_partition(container, &key, call.headers.admission);
    let reply = Reply::of(pending.wait(), |()| Reply::empty(200));
    Ok(Progress::Complete(reply))
}

/// Writes one item.
fn write(
    engine: &Engine,
    call: &Call,
    container: &Container,
    operation: &WriteOperation,
) -> Result<Progress> {
    // Every SDK sends the partition key of an item that it writes, and the service refuses a write
    // without it. In a container that was created without a partition key, an item brings its own.
    let headers = &call.headers;
    let brings_own_key = container.partition_key().is_system_key();
    let partition_key = match operation {
        WriteOperation::Delete(_) | WriteOperation::Patch(_) => Some(call.required_key(container)?),
        _ if brings_own_key => headers.partition_key.clone(),
        WriteOperation::Replace(_) => Some(call.required_key(container)?),
        WriteOperation::Create | WriteOperation::Upsert => Some(call.key_of_new_item(container)?),
    };
    let options = WriteOptions {
        partition_key,
        by_rid: call.by_rid(engine),
        if_match: headers.if_match.clone(),
        indexing: headers.indexing,
        leaves_out_links: headers.leaves_out_links,
        pre_trigger: headers.pre_trigger.clone(),
        post_trigger: headers.post_trigger.clone(),
        admission: headers.admission,
        answer: call.answer_of_write(),
    };
    // The service ignores the body of a DELETE.
    let body = match operation {
        WriteOperation::Delete(_) => None,
        _ => Some(&call.body[..]),
    };
    let pending = engine.write_item(container, operation, body, &options);
    Ok(Progress::ItemWrite(pending))
}

/// Returns the reply to a write: the item, or only the headers if the client wants no body.
pub(super) fn finish(call: &Call, outcome: Outcome<Written>) -> Reply {
    Reply::of(outcome, |written| {
        // A deletion has no etag.
        let Some(etag) = written.etag else {
            return Reply::empty(204);
        };
        let status = if written.created { 201 } else { 200 };
        let body = if call.headers.wants_minimal {
            None
        } else {
            written.item
        };
        Reply::json(status, body.unwrap_or_default()).with_etag(&etag)
    })
}
