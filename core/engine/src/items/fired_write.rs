//! The write that fired a post-trigger, as the queries of the trigger see the write.
//!
//! A query of a post-trigger, and a feed that is read by a query, sees the logical partition as it
//! was before the write: a created item is missing, a replaced item has its old content, a deleted
//! item is there. Reads by link see the write. Changes that the trigger itself makes are seen by
//! both, as in a stored procedure; a trigger that changes the item of the write makes the item
//! visible.

use crate::items::{Applied, CheckedOperation, CheckedWrite};
use crate::partition::item::{StoredItem, item_id};
use crate::partition::keys::ItemNumber;
use crate::partition::transaction::{ReadView, Transaction};
use crate::request::Id;
use orrery_model::Result;

/// A write that fired a post-trigger.
pub(super) struct FiredWrite {
    /// The item before the write; `None` if the write created the item.
    before: Option<StoredItem>,
    /// Number of the item.
    number: ItemNumber,
    /// Etag that the write gave to the item; `None` if the write deleted the item.
    etag: Option<u64>,
}

impl FiredWrite {
    /// Returns the item that a write is about to change, or `None` if the write creates an item.
    ///
    /// # Errors
    /// 400 for an item without a valid id, 500 if the store cannot be read.
    pub(super) fn item_before(
        transaction: &Transaction<'_>,
        view: ReadView<'_>,
        write: &CheckedWrite<'_>,
    ) -> Result<Option<StoredItem>> {
        match &write.operation {
            CheckedOperation::Create(_) => Ok(None),
            CheckedOperation::Upsert(item) => {
                let address = transaction.address(&write.key);
                transaction.find(view, &address, Id::Name(item_id(item)?))
            }
            CheckedOperation::Replace { id, .. }
            | CheckedOperation::Patch { id, .. }
            | CheckedOperation::Delete { id } => write.find(transaction, view, id),
        }
    }

    /// Returns the write that was applied to `before`, or `None` if the write changed nothing.
    pub(super) fn new(before: Option<StoredItem>, applied: &Applied) -> Option<FiredWrite> {
        let after = applied.stored.as_ref();
        let number = after.or(before.as_ref())?.number;
        Some(FiredWrite {
            number,
            etag: after.map(|stored| stored.row.etag),
            before,
        })
    }

    /// Takes the write back in the items of a logical partition, which are in natural order.
    pub(super) fn undo(&self, items: &mut Vec<StoredItem>) {
        let place = items.binary_search_by_key(&self.number, |stored| stored.number);
        let found = place.ok().map(|at| items[at].row.etag);
        if found != self.etag {
            // The trigger has changed the item since.
            return;
        }
        match (place, self.before.clone()) {
            (Ok(at), Some(before)) => items[at] = before,
            (Ok(at), None) => drop(items.remove(at)),
            (Err(at), Some(before)) => items.insert(at, before),
            (Err(_), None) => {}
        }
    }
}
