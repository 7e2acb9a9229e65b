//! Reading and writing single items.

pub mod batch;
pub mod patch;
pub mod scripts;

use crate::Engine;
use crate::catalog::Container;
use crate::items::patch::CheckedPatch;
use crate::partition::item::StoredItem;
use crate::partition::session::check_session;
use crate::partition::transaction::{ItemOptions, ReadView, Transaction};
use crate::partition::{Partition, SubmittedCommit, retry_if_moved};
use crate::pending::Pending;
use crate::request::etag_matches;
use crate::request::{
    Id, Outcome, Position, ReadOptions, ReadReply, WriteOperation, WriteOptions, Written,
};
use crate::throughput::RequestTarget;
use orrery_model::json::parse;
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Json, Kind, Object, Result, Rid, limits};

/// A write that passed every check that needs no look at the store.
pub(crate) struct CheckedWrite<'a> {
    pub operation: &'a WriteOperation,
    pub key: PartitionKey,
    pub item: Option<Object>,
    pub patch: Option<CheckedPatch>,
    pub options: &'a WriteOptions,
}

impl CheckedWrite<'_> {
    /// The item that its operation names.
    pub(crate) fn named(
        &self,
        transaction: &Transaction<'_>,
        base: &mut ReadView<'_>,
        id: &str,
    ) -> Result<Option<StoredItem>> {
        let epk = transaction.epk(&self.key);
        match self.options.by_rid {
            false => transaction.find(base, &epk, id),
            true => Rid::parse(id).map_or(Ok(None), |rid| {
                transaction.find_by(base, &epk, Id::Rid(rid))
            }),
        }
    }
}

impl Engine {
    /// Reads an item, named by its id or by its resource id.
    pub fn read_item<'a, 'b>(
        &self,
        container: &Container,
        key: &PartitionKey,
        id: impl Into<Id<'a>>,
        if_none_match: Option<&str>,
        options: impl Into<ReadOptions<'b>>,
    ) -> Outcome<ReadReply> {
        let (id, options) = (id.into(), options.into());
        let (mut work, mut position) = (Work::default(), None);
        let read = || {
            work.steps.clear();
            let epk = container.partition_key().epk(key);
            let partition = container.partition_of(&epk);
            let spot = RequestTarget {
                container,
                partition: &partition,
                key: Some(&epk),
            };
            self.at(spot, options.admission, &mut work, |work| {
                let stored = self
                    .read(
                        container,
                        &partition,
                        &epk,
                        id,
                        options.session,
                        &mut position,
                    )
                    .inspect_err(|_| work.steps.push(Step::ReadNothing))?;
                let etag = stored.row.etag_text();
                if if_none_match.is_some_and(|known| etag_matches(known, &etag)) {
                    work.steps.push(Step::ReadNothing);
                    return Ok(ReadReply::NotModified { etag });
                }
                work.steps.push(Step::Read {
                    bytes: stored.row.size(),
                });
                Ok(ReadReply::Item {
                    body: stored.row.text(container.rid(), stored.number),
                    etag,
                })
            })
        };
        let result = container
            .partition_key()
            .check(key)
            .and_then(|()| retry_if_moved(read));
        if work.steps.is_empty() {
            work.steps.push(Step::ReadNothing);
        }
        self.outcome(result, work, position)
    }

    fn read(
        &self,
        container: &Container,
        partition: &Partition,
        epk: &Epk,
        id: Id<'_>,
        session: Option<&str>,
        position: &mut Option<Position>,
    ) -> Result<StoredItem> {
        let snapshot = partition.snapshot()?;
        let lsn = snapshot.head().lsn;
        *position = Some(partition.position(lsn, None));
        check_session(session, partition, lsn)?;
        let transaction = Transaction::begin(container, partition, snapshot.as_ref(), self.world());
        let stored = transaction
            .find_by(&mut ReadView::Durable, epk, id)?
            .ok_or_else(Error::not_found)?;
        *position = Some(partition.position(lsn, Some(stored.row.lsn)));
        Ok(stored)
    }

    /// Writes an item. What comes back as `Ok` is ordered; wait for it before answering. `Err` was refused and has
    /// changed nothing.
    ///
    /// # Errors
    /// 400 for a body, key or option that is wrong; 404, 409, 412, 413; 429 if it is not admitted; what a trigger throws.
    pub fn write_item(
        &self,
        container: &Container,
        operation: &WriteOperation,
        body: Option<&[u8]>,
        options: &WriteOptions,
    ) -> std::result::Result<Pending<Written>, Box<Outcome<Written>>> {
        let refused =
            |error: Error, work: Work, position| Box::new(self.outcome(Err(error), work, position));
        let bytes = body.map_or(0, <[u8]>::len);
        let not_looked_at = Work {
            steps: vec![Step::Refused {
                bytes: bytes.min(1024),
                terms: 0,
            }],
        };
        let write = match read_body(operation, body)
            .and_then(|body| check(container, operation, body, options))
        {
            Ok(write) => write,
            Err(error) => return Err(refused(error, not_looked_at, None)),
        };
        let epk = container.partition_key().epk(&write.key);
        let mut work = Work::default();
        let (partition, done) = container.in_partition_of(&epk, |partition| {
            work.steps.clear();
            let spot = RequestTarget {
                container,
                partition,
                key: Some(&epk),
            };
            self.at(spot, options.admission, &mut work, |work| {
                let done = if options.pre_trigger.is_some() || options.post_trigger.is_some() {
                    self.write_with_triggers(container, partition, &write, work)
                } else {
                    self.write_alone(container, partition, &write, work)
                };
                if done.is_err() && work.steps.is_empty() {
                    work.clone_from(&not_looked_at);
                }
                done
            })
        });
        match done {
            Ok((ordered, written, lsn)) => {
                let position = partition.position(lsn, Some(lsn));
                Ok(Pending::new(
                    ordered,
                    &partition,
                    self.outcome(Ok(written), work, Some(position)),
                ))
            }
            Err(error) => Err(refused(error, work, Some(partition.position_now()))),
        }
    }

    fn write_alone(
        &self,
        container: &Container,
        partition: &Partition,
        write: &CheckedWrite<'_>,
        work: &mut Work,
    ) -> Result<(Option<SubmittedCommit>, Written, u64)> {
        let mut writer = partition.lock()?;
        let snapshot = partition.snapshot()?;
        let mut transaction =
            Transaction::begin(container, partition, snapshot.as_ref(), self.world());
        let done = apply(&mut transaction, &mut ReadView::Writer(&mut writer), write);
        work.steps.append(&mut transaction.work);
        let (stored, created) = done?;
        let ordered = transaction.commit(&mut writer, None)?;
        let lsn = writer.lsn;
        drop(writer);
        Ok((ordered, Written::of(container, stored, created), lsn))
    }
}

impl Written {
    /// The answer to a write that left `stored` behind.
    pub(crate) fn of(container: &Container, stored: Option<StoredItem>, created: bool) -> Written {
        Written {
            etag: stored.as_ref().map(|s| s.row.etag_text()),
            item: stored.map(|s| s.row.text(container.rid(), s.number)),
            created,
        }
    }
}

/// Carries out a checked write in a transaction: the item after it, and whether it is new.
pub(crate) fn apply(
    transaction: &mut Transaction<'_>,
    base: &mut ReadView<'_>,
    write: &CheckedWrite<'_>,
) -> Result<(Option<StoredItem>, bool)> {
    let options = ItemOptions {
        if_match: write.options.if_match.as_deref(),
        leave_out_of_index: write.options.leave_out_of_index,
    };
    let epk = transaction.epk(&write.key);
    let existing = |transaction: &mut Transaction<'_>,
                    base: &mut ReadView<'_>,
                    id: &str|
     -> Result<StoredItem> {
        let found = write.named(transaction, base, id)?;
        found.ok_or_else(|| {
            transaction.work.push(Step::ReadNothing);
            Error::not_found()
        })
    };
    if let (WriteOperation::Patch(id), Some(patch)) = (write.operation, &write.patch) {
        let old = existing(transaction, base, id)?;
        return Ok((Some(transaction.patch(base, &old, patch, options)?), false));
    }
    match (write.operation, &write.item) {
        (WriteOperation::Create, Some(item)) => Ok((
            Some(transaction.create(base, &write.key, item, options)?),
            true,
        )),
        (WriteOperation::Upsert, Some(item)) => {
            let id = crate::partition::item::item_id(item)?;
            match transaction.find(base, &epk, id)? {
                Some(old) => Ok((
                    Some(transaction.replace(base, &old, &write.key, item, options)?),
                    false,
                )),
                None => Ok((
                    Some(transaction.create(base, &write.key, item, options)?),
                    true,
                )),
            }
        }
        (WriteOperation::Replace(id), Some(item)) => {
            let old = existing(transaction, base, id)?;
            Ok((
                Some(transaction.replace(base, &old, &write.key, item, options)?),
                false,
            ))
        }
        (WriteOperation::Delete(id), _) => {
            let old = existing(transaction, base, id)?;
            transaction.delete(base, &old, options.if_match)?;
            Ok((None, false))
        }
        // `check` gave every other operation what it needs.
        _ => Err(Error::internal("a write without its body")),
    }
}

/// The body of a write as JSON; deletes have none.
fn read_body(operation: &WriteOperation, body: Option<&[u8]>) -> Result<Option<Json>> {
    match operation {
        WriteOperation::Delete(_) => Ok(None),
        _ => parse_body(body.unwrap_or_default()).map(Some),
    }
}

/// Everything that can be checked without the store.
pub(crate) fn check<'a>(
    container: &Container,
    operation: &'a WriteOperation,
    body: Option<Json>,
    options: &'a WriteOptions,
) -> Result<CheckedWrite<'a>> {
    let definition = container.partition_key();
    let (item, patch) = match (operation, body) {
        (WriteOperation::Delete(_), _) => (None, None),
        (_, None) => return Err(Error::bad("The request has no body.")),
        (WriteOperation::Patch(_), Some(json)) => {
            (None, Some(CheckedPatch::read(container, &json, None)?))
        }
        (_, Some(json)) => (Some(as_item(json)?), None),
    };
    let named = options.partition_key.as_ref();
    let key = match &item {
        Some(item) => {
            named.map_or(Ok(()), |named| definition.check(named))?;
            crate::partition::item::item_id(item)?;
            let own = definition.extract(item)?;
            if named.is_some_and(|named| definition.epk(named) != definition.epk(&own)) {
                return Err(Error::partition_key_mismatch());
            }
            own
        }
        None => named_key(container, named)?,
    };
    Ok(CheckedWrite {
        operation,
        key,
        item,
        patch,
        options,
    })
}

/// The key of an operation that brings no item to take it from.
///
/// # Errors
/// 400 if none is named where the container has no key of its own, or one that is not whole.
pub(crate) fn named_key(
    container: &Container,
    named: Option<&PartitionKey>,
) -> Result<PartitionKey> {
    match named {
        Some(named) => container
            .partition_key()
            .check(named)
            .map(|()| named.clone()),
        None if container.partition_key().is_system_key() => Ok(container.settings().default_key()),
        None => Err(Error::bad(
            "The partition key is missing: send x-ms-documentdb-partitionkey with this operation.",
        )),
    }
}

/// An item's text as an object.
///
/// # Errors
/// 400 with the place, 413 for a text beyond all bounds.
pub(crate) fn parse_item(body: &[u8]) -> Result<Object> {
    parse_body(body).and_then(as_item)
}

/// The text of a body as JSON.
///
/// # Errors
/// As for [`parse_item`].
pub(crate) fn parse_body(body: &[u8]) -> Result<Json> {
    if body.len() > limits::REQUEST_BODY_BYTES {
        return Err(Error::new(
            Kind::RequestEntityTooLarge,
            "Request size is too large.",
        ));
    }
    parse(body).map_err(|e| {
        Error::bad(format!(
            "The input content is invalid: the body is not valid JSON: {e}."
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
