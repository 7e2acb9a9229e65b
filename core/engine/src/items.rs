//! Reading and writing single items.
//!
//! A write is checked in two steps: [`check`] looks at everything that needs no store and returns a
//! [`CheckedWrite`], which cannot hold a write without its body; [`apply`] carries it out in a
//! transaction.

pub(crate) mod batch;
mod denied_scripts;
mod fired_write;
pub(crate) mod patch;
mod script_host;
mod script_places;
pub(crate) mod scripts;
mod user_functions;

pub(crate) use denied_scripts::DeniedScripts;
pub use denied_scripts::ScriptDenial;
pub(crate) use script_places::ScriptLocks;
pub use script_places::ScriptPlace;
pub(crate) use user_functions::UserFunctions;

use crate::Engine;
use crate::catalog::Container;
use crate::errors::{item_not_found, reserve_answer};
use crate::items::patch::CheckedPatch;
use crate::partition::item::{StoredItem, item_id};
use crate::partition::row_reader::{ItemReader, rows_of_item};
use crate::partition::session::check_session;
use crate::partition::transaction::{ItemOptions, ReadView, Transaction};
use crate::partition_request::{
    PartitionRequest, PositionOfFailure, RequestAttempt, RequestResult, TargetPartition,
};
use crate::pending::Pending;
use crate::request::{
    Id, OperationKind, ReadOptions, ReadReply, WriteOperation, WriteOptions, Written, etag_matches,
};
use orrery_model::json::parse;
use orrery_model::partition_key::{KeyAddress, PartitionKey};
use orrery_model::work::Step;
use orrery_model::{Error, Json, Kind, Object, Result, Rid, limits};
use orrery_storage::ReadAhead;

/// A write that has passed every check that needs no store.
pub(crate) struct CheckedWrite<'a> {
    /// The operation with all that it needs.
    pub operation: CheckedOperation<'a>,
    /// The partition key of the item.
    pub key: PartitionKey,
    /// Options of the request.
    pub options: &'a WriteOptions,
}

/// An operation with its item or patch. `id` is the id or the resource id that the request names.
pub(crate) enum CheckedOperation<'a> {
    /// Creates an item; fails if the id is taken.
    Create(Object),
    /// Creates an item, or replaces the item of its id.
    Upsert(Object),
    /// Replaces an item.
    Replace { id: &'a str, item: Object },
    /// Patches an item.
    Patch { id: &'a str, patch: CheckedPatch },
    /// Deletes an item.
    Delete { id: &'a str },
}

impl CheckedOperation<'_> {
    /// Returns the item that the request brings, if it brings one.
    fn item(&self) -> Option<&Object> {
        match self {
            CheckedOperation::Create(item)
            | CheckedOperation::Upsert(item)
            | CheckedOperation::Replace { item, .. } => Some(item),
            CheckedOperation::Patch { .. } | CheckedOperation::Delete { .. } => None,
        }
    }
}

impl<'a> CheckedWrite<'a> {
    /// Returns the rows that the write is about to read.
    pub(crate) fn rows(&self, container: &Container) -> ReadAhead {
        let id = match &self.operation {
            CheckedOperation::Create(item) | CheckedOperation::Upsert(item) => {
                item_id(item).ok().map(Id::Name)
            }
            CheckedOperation::Replace { id, .. }
            | CheckedOperation::Patch { id, .. }
            | CheckedOperation::Delete { id } => match self.options.by_rid {
                true => Rid::parse(id).map(Id::Rid),
                false => Some(Id::Name(id)),
            },
        };
        let address = container.partition_key().address(&self.key);
        let rows = id.map(|id| rows_of_item(container.rid(), &address, id));
        rows.unwrap_or_default()
    }

    /// Returns the item that the request brings, if it brings one.
    pub(crate) fn item(&self) -> Option<&Object> {
        self.operation.item()
    }

    /// Returns the same write with another item, or `None` if the write brings no item.
    pub(crate) fn with_item(&self, item: Object) -> Option<CheckedWrite<'a>> {
        let operation = match &self.operation {
            CheckedOperation::Create(_) => CheckedOperation::Create(item),
            CheckedOperation::Upsert(_) => CheckedOperation::Upsert(item),
            CheckedOperation::Replace { id, .. } => CheckedOperation::Replace { id, item },
            CheckedOperation::Patch { .. } | CheckedOperation::Delete { .. } => return None,
        };
        Some(CheckedWrite {
            operation,
            key: self.key.clone(),
            options: self.options,
        })
    }

    /// Returns the stored item that `id` names: an id, or a resource id if the request says so.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn find(
        &self,
        transaction: &Transaction<'_>,
        view: ReadView<'_>,
        id: &str,
    ) -> Result<Option<StoredItem>> {
        let address = transaction.address(&self.key);
        if !self.options.by_rid {
            return transaction.find(view, &address, Id::Name(id));
        }
        match Rid::parse(id) {
            Some(rid) => transaction.find(view, &address, Id::Rid(rid)),
            None => Ok(None),
        }
    }
}

impl Engine {
    /// Reads an item by its id or its resource id. `if_none_match` is the etag that the client has.
    ///
    /// The outcome has 404 for a missing item, 404/1002 if the partition has not reached the
    /// session token, 400/1001 for a partition key of the wrong shape, 429 if the budget is spent.
    pub fn read_item<'a, 'b>(
        &self,
        container: &Container,
        key: &PartitionKey,
        id: impl Into<Id<'a>>,
        if_none_match: Option<&str>,
        options: impl Into<ReadOptions<'b>>,
    ) -> Pending<ReadReply> {
        let (id, options) = (id.into(), options.into());
        if let Err(error) = container.partition_key().check(key) {
            return self.refuse(error, Step::ReadNothing);
        }
        let address = container.partition_key().address(key);
        let request = PartitionRequest {
            container,
            kind: OperationKind::PointRead,
            admission: options.admission,
            refusal: Step::ReadNothing,
            position_of_failure: PositionOfFailure::None,
        };
        self.at_partition(
            &request,
            || Ok(TargetPartition::by_key(container, address.epk())),
            |attempt| {
                let found = self.read_stored(container, &address, id, options.session, attempt);
                let stored = found.map_err(|error| explain_missing(error, id, key))?;
                let leaves_out_links = options.leaves_out_links;
                let (reply, step) =
                    read_reply(container.rid(), &stored, if_none_match, leaves_out_links);
                attempt.steps.push(step);
                Ok(RequestResult::read(reply))
            },
        )
    }

    fn read_stored(
        &self,
        container: &Container,
        address: &KeyAddress,
        id: Id<'_>,
        session: Option<&str>,
        attempt: &mut RequestAttempt<'_>,
    ) -> Result<StoredItem> {
        let partition = attempt.partition;
        let rows = || rows_of_item(container.rid(), address, id);
        let snapshot = partition.snapshot_ahead(rows)?;
        let lsn = snapshot.head().lsn;
        // A client learns how far the partition is even if the item is missing.
        attempt.position = Some(partition.position(lsn, None));
        check_session(session, partition, lsn)?;
        let settings = container.settings();
        let reader = ItemReader {
            snapshot: snapshot.as_ref(),
            container: container.rid(),
            moment: partition.moment(self.world().now_seconds()),
            settings: &settings,
        };
        let stored = reader.find(address, id)?.ok_or_else(Error::not_found)?;
        // The reads may have seen a later moment than the first look at the head.
        let lsn = snapshot.head().lsn;
        attempt.position = Some(partition.position(lsn, Some(stored.row.lsn)));
        attempt.item = Some(stored.number);
        Ok(stored)
    }

    /// Writes an item. The write is submitted when this returns, unless it was refused and changed
    /// nothing; wait for the answer before passing it on.
    ///
    /// The outcome has 400 for a body, key or option that is wrong, 404, 409, 412, 413, 429 if the
    /// budget is spent, and what a trigger throws.
    pub fn write_item(
        &self,
        container: &Container,
        operation: &WriteOperation,
        body: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Pending<Written> {
        // A refused write is charged for the part of its body that was looked at.
        let refusal = Step::Refused {
            bytes: body.map_or(0, <[u8]>::len).min(1024),
            terms: 0,
        };
        let checked =
            read_body(operation, body).and_then(|body| check(container, operation, body, options));
        let write = match checked {
            Ok(write) => write,
            Err(error) => {
                let error = self.refusal_of_replace(error, container, operation, body, options);
                return self.refuse(error, refusal);
            }
        };
        let epk = container.partition_key().epk(&write.key);
        let request = PartitionRequest {
            container,
            kind: kind_of(operation),
            admission: options.admission,
            refusal,
            position_of_failure: PositionOfFailure::Durable,
        };
        let has_triggers = options.pre_trigger.is_some() || options.post_trigger.is_some();
        self.at_partition(
            &request,
            || Ok(TargetPartition::by_key(container, &epk)),
            |attempt| match has_triggers {
                true => self.write_with_triggers(container, &write, attempt),
                false => self.write_alone(container, &write, attempt),
            },
        )
    }

    /// Returns the error for a replace that cannot be carried out: 404 if the item under the named
    /// partition key is missing and the body is empty or has another key, else `error`.
    fn refusal_of_replace(
        &self,
        error: Error,
        container: &Container,
        operation: &WriteOperation,
        body: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Error {
        let (WriteOperation::Replace(id), Some(key)) = (operation, &options.partition_key) else {
            return error;
        };
        let is_empty = body.is_none_or(<[u8]>::is_empty);
        if !is_empty && error.kind() != Kind::PartitionKeyMismatch {
            return error;
        }
        let read = self.read_item(container, key, Id::Name(id), None, None);
        match read.wait().result {
            Err(missing) if missing.kind() == Kind::NotFound => missing,
            _ => error,
        }
    }

    /// Carries out a write under the writer's lock, as a transaction of its own.
    fn write_alone(
        &self,
        container: &Container,
        write: &CheckedWrite<'_>,
        attempt: &mut RequestAttempt<'_>,
    ) -> Result<RequestResult<Written>> {
        let partition = attempt.partition;
        partition.read_ahead(|| write.rows(container))?;
        // The lock comes before the snapshot, so that no commit falls between the two.
        let mut writer = partition.lock()?;
        let snapshot = partition.snapshot_for_writer(&writer, || write.rows(container))?;
        let mut transaction =
            Transaction::begin(container, partition, snapshot.as_ref(), self.world());
        let applied = apply(&mut transaction, ReadView::Writer(&writer), write);
        // Refused work is charged too.
        attempt.steps.append(&mut transaction.work);
        let applied = applied.inspect_err(|_| attempt.rest_on(&writer, &transaction))?;
        reserve_answer(write.options.answer.as_deref(), applied.item_bytes(), 1)?;
        let durable_lsn = transaction.base_lsn();
        let commit = transaction.commit(&mut writer, None).inspect_err(|error| {
            attempt.rest_on_all(&writer, durable_lsn);
            charge_as_refused(error, attempt.steps);
        })?;
        let lsn = writer.lsn;
        // The text of the answer is made after the lock is free.
        drop(writer);
        attempt.position = Some(partition.position(lsn, Some(lsn)));
        attempt.item = applied.stored.as_ref().map(|stored| stored.number);
        Ok(RequestResult {
            value: applied.answer(container.rid(), write.options),
            commit,
        })
    }
}

/// Returns the kind of a write.
pub(crate) fn kind_of(operation: &WriteOperation) -> OperationKind {
    match operation {
        WriteOperation::Create => OperationKind::Create,
        WriteOperation::Upsert => OperationKind::Upsert,
        WriteOperation::Replace(_) => OperationKind::Replace,
        WriteOperation::Patch(_) => OperationKind::Patch,
        WriteOperation::Delete(_) => OperationKind::Delete,
    }
}

/// Turns the work of a write into that of a refused one, if its logical partition is full.
pub(crate) fn charge_as_refused(error: &Error, steps: &mut [Step]) {
    if error.kind() == Kind::PartitionKeyFull {
        for step in steps {
            *step = step.clone().into_refused();
        }
    }
}

/// Returns the answer to a read of `stored` and the step that it is charged as: 304 if the client
/// has the item already.
pub(crate) fn read_reply(
    container: Rid,
    stored: &StoredItem,
    if_none_match: Option<&str>,
    leaves_out_links: bool,
) -> (ReadReply, Step) {
    let etag = stored.row.etag_text();
    if if_none_match.is_some_and(|known| etag_matches(known, &etag)) {
        return (ReadReply::NotModified { etag }, Step::ReadNothing);
    }
    let body = stored
        .row
        .text_for(container, stored.number, leaves_out_links);
    let bytes = stored.row.size();
    (ReadReply::Item { body, etag }, Step::Read { bytes })
}

/// The item that a write leaves behind.
pub(crate) struct Applied {
    /// The item; `None` after a deletion.
    pub stored: Option<StoredItem>,
    /// True if the item is new.
    pub created: bool,
}

impl Applied {
    /// Returns the bytes of the item in the answer, without its system properties.
    pub(crate) fn item_bytes(&self) -> usize {
        self.stored
            .as_ref()
            .map_or(0, |stored| stored.row.body.len())
    }

    /// Returns the answer to the write.
    pub(crate) fn answer(self, container: Rid, options: &WriteOptions) -> Written {
        let leaves_out_links = options.leaves_out_links;
        Written {
            etag: self.stored.as_ref().map(|stored| stored.row.etag_text()),
            item: self.stored.map(|stored| {
                stored
                    .row
                    .text_for(container, stored.number, leaves_out_links)
            }),
            created: self.created,
        }
    }
}

/// Carries out a checked write in a transaction.
///
/// # Errors
/// 404 if the item to change is missing; those of [`Transaction::create`],
/// [`Transaction::replace`], [`Transaction::delete`] and [`Transaction::patch`].
pub(crate) fn apply(
    transaction: &mut Transaction<'_>,
    view: ReadView<'_>,
    write: &CheckedWrite<'_>,
) -> Result<Applied> {
    let options = ItemOptions {
        if_match: write.options.if_match.as_deref(),
        indexing: write.options.indexing,
        leaves_out_links: write.options.leaves_out_links,
    };
    let key = &write.key;
    let (stored, created) = match &write.operation {
        CheckedOperation::Create(item) => {
            (Some(transaction.create(view, key, item, options)?), true)
        }
        CheckedOperation::Upsert(item) => {
            let (stored, created) = upsert(transaction, view, key, item, options)?;
            (Some(stored), created)
        }
        CheckedOperation::Replace { id, item } => {
            let old = find_to_change(transaction, view, write, id)?;
            let new = transaction.replace(view, &old, key, item, options)?;
            (Some(new), false)
        }
        CheckedOperation::Patch { id, patch } => {
            let old = find_to_change(transaction, view, write, id)?;
            let new = transaction.patch(view, &old, patch, options)?;
            (Some(new), false)
        }
        CheckedOperation::Delete { id } => {
            let old = find_existing(transaction, view, write, id)?;
            transaction.delete(view, &old, options.if_match)?;
            (None, false)
        }
    };
    Ok(Applied { stored, created })
}

/// Creates an item, or replaces the item that has its id. Returns the item and true if it is new.
pub(crate) fn upsert(
    transaction: &mut Transaction<'_>,
    view: ReadView<'_>,
    key: &PartitionKey,
    item: &Object,
    options: ItemOptions<'_>,
) -> Result<(StoredItem, bool)> {
    let address = transaction.address(key);
    let old = transaction.find(view, &address, Id::Name(item_id(item)?))?;
    let created = old.is_none();
    let stored = match old {
        Some(old) => transaction.replace(view, &old, key, item, options)?,
        None => transaction.create(view, key, item, options)?,
    };
    Ok((stored, created))
}

/// Returns the item that a write is to change, as [`find_existing`] does.
///
/// # Errors
/// 409 if an item of another partition key with the same hash has the id; 404 if none has it.
fn find_to_change(
    transaction: &mut Transaction<'_>,
    view: ReadView<'_>,
    write: &CheckedWrite<'_>,
    id: &str,
) -> Result<StoredItem> {
    find_existing(transaction, view, write, id).map_err(|missing| {
        if missing.kind() != Kind::NotFound || write.options.by_rid {
            return missing;
        }
        let address = transaction.address(&write.key);
        let held = transaction.check_id_in_other_keys(view, &address, id);
        held.err().unwrap_or(missing)
    })
}

/// Returns the item that a write names; a missing item is charged as a read of nothing.
fn find_existing(
    transaction: &mut Transaction<'_>,
    view: ReadView<'_>,
    write: &CheckedWrite<'_>,
    id: &str,
) -> Result<StoredItem> {
    let found = write.find(transaction, view, id)?;
    found.ok_or_else(|| {
        transaction.work.push(Step::ReadNothing);
        item_not_found(id, &write.key)
    })
}

/// Adds id and partition key to the 404 of a missing item.
fn explain_missing(error: Error, id: Id<'_>, key: &PartitionKey) -> Error {
    match id {
        Id::Name(id) if error.kind() == Kind::NotFound => item_not_found(id, key),
        _ => error,
    }
}

/// Parses the body of a write. A deletion has none.
fn read_body(operation: &WriteOperation, body: Option<&[u8]>) -> Result<Option<Json>> {
    match operation {
        WriteOperation::Delete(_) => Ok(None),
        _ => parse_body(body.unwrap_or_default()).map(Some),
    }
}

/// Checks everything about a write that needs no store.
///
/// # Errors
/// 400 for a body, key or id that is wrong, 400/1001 if the named partition key is not the item's.
pub(crate) fn check<'a>(
    container: &Container,
    operation: &'a WriteOperation,
    body: Option<Json>,
    options: &'a WriteOptions,
) -> Result<CheckedWrite<'a>> {
    let body = || body.ok_or_else(|| Error::bad("The request has no body."));
    let operation = match operation {
        WriteOperation::Create => CheckedOperation::Create(as_item(body()?)?),
        WriteOperation::Upsert => CheckedOperation::Upsert(as_item(body()?)?),
        WriteOperation::Replace(id) => CheckedOperation::Replace {
            id,
            item: as_item(body()?)?,
        },
        WriteOperation::Patch(id) => CheckedOperation::Patch {
            id,
            patch: CheckedPatch::read(container, &body()?, None)?,
        },
        WriteOperation::Delete(id) => CheckedOperation::Delete { id },
    };
    let named = options.partition_key.as_ref();
    let key = match operation.item() {
        Some(item) => key_of_item(container, item, named)?,
        None => named_key(container, named)?,
    };
    Ok(CheckedWrite {
        operation,
        key,
        options,
    })
}

/// Returns the partition key of an item, which must be the named one if one is named.
fn key_of_item(
    container: &Container,
    item: &Object,
    named: Option<&PartitionKey>,
) -> Result<PartitionKey> {
    let definition = container.partition_key();
    if let Some(named) = named {
        definition.check(named)?;
    }
    item_id(item)?;
    let key = definition.extract(item)?;
    if let Some(named) = named
        && !definition.is_same_key(named, &key)
    {
        return Err(definition.mismatch(named, &key));
    }
    Ok(key)
}

/// Returns the partition key of an operation that brings no item to take the key from.
///
/// # Errors
/// 400 if no key is named and the container has no system key, 400/1001 for a key of the wrong
/// shape.
pub(crate) fn named_key(
    container: &Container,
    named: Option<&PartitionKey>,
) -> Result<PartitionKey> {
    let definition = container.partition_key();
    match named {
        Some(named) => {
            definition.check(named)?;
            Ok(named.clone())
        }
        None if definition.is_system_key() => Ok(container.settings().default_key()),
        None => Err(Error::bad(
            "The partition key is missing: send x-ms-documentdb-partitionkey with this operation.",
        )),
    }
}

/// Parses the text of an item.
///
/// # Errors
/// 400 with the place of the mistake, 413 for a text over [`limits::REQUEST_BODY_BYTES`].
pub(crate) fn parse_item(body: &[u8]) -> Result<Object> {
    as_item(parse_body(body)?)
}

/// Parses the text of a body.
///
/// # Errors
/// As for [`parse_item`].
pub(crate) fn parse_body(body: &[u8]) -> Result<Json> {
    if body.len() > limits::REQUEST_BODY_BYTES {
        return Err(Error::new(
            Kind::RequestEntityTooLarge,
            format!(
                "Request size is too large. The body has {} bytes, at most {} are allowed.",
                body.len(),
                limits::REQUEST_BODY_BYTES
            ),
        ));
    }
    parse(body).map_err(|error| {
        let (line, column) = error.place(body);
        Error::bad(format!(
            "The input content is invalid: the body is not valid JSON: {error} (line {line}, \
             column {column})."
        ))
    })
}

fn as_item(json: Json) -> Result<Object> {
    match json {
        Json::Object(item) => Ok(item),
        _ => Err(Error::bad(
            "The input content is invalid: the body is not a JSON object.",
        )),
    }
}
