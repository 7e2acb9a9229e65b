//! Single items, and all of one partition key.

use super::Step;
use crate::call::Call;
use crate::reply::Reply;
use orrery_engine::request::{Outcome, ReadReply, WriteOperation, WriteOptions, Written};
use orrery_engine::{Container, Engine};
use orrery_model::Result;

pub(super) fn read(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let key = call.required_key(container)?;
    let id = call.child_id(engine)?;
    let pending = engine.read_item(
        container,
        &key,
        id,
        call.headers.if_none_match.as_deref(),
        call.headers.reading(),
    );
    // A read waits for no commit, so this does not block.
    Ok(Step::Reply(Reply::of(
        pending.wait(),
        |reply| match reply {
            ReadReply::Item { body, etag } => Reply::json(200, body).with_etag(&etag),
            ReadReply::NotModified { etag } => Reply::empty(304).with_etag(&etag),
        },
    )))
}

pub(super) fn create(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    write(engine, call, container, &WriteOperation::Create)
}

pub(super) fn upsert(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    write(engine, call, container, &WriteOperation::Upsert)
}

pub(super) fn replace(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    write(
        engine,
        call,
        container,
        &WriteOperation::Replace(call.path.id(2).to_owned()),
    )
}

pub(super) fn patch(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    write(
        engine,
        call,
        container,
        &WriteOperation::Patch(call.path.id(2).to_owned()),
    )
}

pub(super) fn delete(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    write(
        engine,
        call,
        container,
        &WriteOperation::Delete(call.path.id(2).to_owned()),
    )
}

/// Deletes all items of the partition key that the header names.
pub(super) fn delete_logical_partition(
    engine: &Engine,
    call: &Call,
    container: &Container,
) -> Result<Step> {
    let key = call.required_key(container)?;
    let pending = engine.delete_logical_partition(container, &key, call.headers.admission);
    let outcome = pending.wait();
    Ok(Step::Reply(Reply::of(outcome, |()| Reply::empty(200))))
}

fn write(
    engine: &Engine,
    call: &Call,
    container: &Container,
    operation: &WriteOperation,
) -> Result<Step> {
    let deletes = matches!(operation, WriteOperation::Delete(_));
    // What is there already is found by its key; what is new brings it along.
    let system_key = container.partition_key().is_system_key();
    let needs_key = match operation {
        WriteOperation::Delete(_) | WriteOperation::Patch(_) => true,
        WriteOperation::Replace(_) => !system_key,
        WriteOperation::Create | WriteOperation::Upsert => false,
    };
    let headers = &call.headers;
    let options = WriteOptions {
        partition_key: if needs_key {
            Some(call.required_key(container)?)
        } else {
            headers.partition_key.clone()
        },
        by_rid: call.by_rid(engine),
        if_match: headers.if_match.clone(),
        leave_out_of_index: headers.leave_out_of_index,
        pre_trigger: headers.pre_trigger.clone(),
        post_trigger: headers.post_trigger.clone(),
        admission: headers.admission,
    };
    let body = (!deletes).then_some(&call.body[..]);
    let pending = engine.write_item(container, operation, body, &options);
    Ok(Step::Write(pending))
}

/// The answer to a write: the item, unless the client wants only the headers.
pub(crate) fn finish(call: &Call, outcome: Outcome<Written>) -> Reply {
    Reply::of(outcome, |written| {
        let Some(etag) = written.etag else {
            return Reply::empty(204);
        };
        let body = if call.headers.minimal {
            None
        } else {
            written.item
        };
        Reply::json(
            if written.created { 201 } else { 200 },
            body.unwrap_or_default(),
        )
        .with_etag(&etag)
    })
}
