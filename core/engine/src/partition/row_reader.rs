//! Reading item rows from a snapshot: single rows, all rows of an EPK prefix, and single items as
//! clients see them.
//!
//! A large item is stored as a first row and further chunks; the functions here put them together.
//! Readers outside a transaction use [`ItemReader`], which holds no lock and keeps no changes.

use crate::container::settings::Settings;
use crate::errors::{self, storage_failure};
use crate::partition::item::{StoredItem, damaged};
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::{self, Row};
use crate::partition::scan;
use crate::partition::stamps::Moment;
use crate::partition::visibility::is_deleted_by_key;
use crate::request::Id;
use bytes::Bytes;
use orrery_model::partition_key::KeyAddress;
use orrery_model::rid::ChildKind;
use orrery_model::{Result, Rid};
use orrery_storage::{Direction, Link, ReadAhead, Snapshot};

/// The subject of the error for a damaged row of the change feed.
const CHANGE: &str = "a row of the change feed";

/// Reads LSN, item number and EPK prefix of a row of the change feed.
///
/// # Errors
/// 500 if the row is damaged.
pub(crate) fn read_change(key: &[u8], value: &[u8]) -> Result<(u64, ItemNumber, EpkPrefix)> {
    let (lsn, number) = keys::read_feed(key).ok_or_else(|| errors::damaged(CHANGE))?;
    let epk_prefix = value.try_into().map_err(|_| errors::damaged(CHANGE))?;
    Ok((lsn, number, epk_prefix))
}

/// Reads the row of an item with all its chunks through `get`. Returns `None` if there is no row.
///
/// # Errors
/// The error of `get`; 500 for a row that cannot be decoded.
pub(crate) fn read_row(
    epk_prefix: EpkPrefix,
    number: ItemNumber,
    mut get: impl FnMut(&[u8]) -> Result<Option<Bytes>>,
) -> Result<Option<Row>> {
    match get(&keys::item(epk_prefix, number))? {
        Some(first) => complete_row(first, number, get).map(Some),
        None => Ok(None),
    }
}

/// Decodes the row of an item whose first value is `first`, and reads further chunks through `get`
/// if the row has any.
///
/// # Errors
/// As for [`read_row`].
pub(crate) fn complete_row(
    first: Bytes,
    number: ItemNumber,
    mut get: impl FnMut(&[u8]) -> Result<Option<Bytes>>,
) -> Result<Row> {
    if !row::may_go_on(&first) {
        return Row::decode(&first);
    }
    let mut whole = first.to_vec();
    for chunk in 0.. {
        match get(&keys::item_rest(number, chunk))? {
            Some(bytes) => whole.extend_from_slice(&bytes),
            None => break,
        }
    }
    Row::decode(&Bytes::from(whole))
}

/// Iterates over the items with an EPK prefix in natural order, beginning with number `from`.
///
/// Different logical partitions can share a prefix, though rarely: callers compare the whole EPK.
pub(crate) fn rows_of_epk_prefix(
    snapshot: &dyn Snapshot,
    epk_prefix: EpkPrefix,
    from: ItemNumber,
) -> impl Iterator<Item = Result<StoredItem>> + '_ {
    let range = keys::items_of(epk_prefix, from);
    scan(snapshot, &range, Direction::Forward).map(move |entry| {
        let (key, value) = entry?;
        let (_, number) = keys::read_item(&key).ok_or_else(damaged)?;
        let row = complete_row(value, number, |key| {
            snapshot.get(key).map_err(storage_failure)
        })?;
        Ok(StoredItem { number, row })
    })
}

/// Returns the rows that decide which item a logical partition has under this id or resource id.
pub(crate) fn rows_of_item(container: Rid, address: &KeyAddress, id: Id<'_>) -> ReadAhead {
    let epk = address.epk();
    let epk_prefix = keys::epk_prefix(epk);
    let mut ahead = ReadAhead {
        keys: vec![keys::key_deletion(epk)],
        ..ReadAhead::default()
    };
    match id {
        Id::Name(name) => {
            let primary = keys::primary(epk, name);
            ahead.links.push(Link {
                from: primary.clone(),
                prefix: keys::item_of_any_number(epk_prefix),
            });
            ahead.keys.push(primary);
        }
        Id::Rid(rid) => {
            let number = number_of_rid(container, rid);
            ahead
                .keys
                .extend(number.map(|number| keys::item(epk_prefix, number)));
        }
    }
    ahead
}

/// Returns the number of the item that a resource id names, or `None` if the resource id names
/// something else or an item of another container.
pub(crate) fn number_of_rid(container: Rid, rid: Rid) -> Option<ItemNumber> {
    match rid.child_number() {
        Some((ChildKind::Item, number)) if rid.container_part() == container => Some(number),
        _ => None,
    }
}

/// Reads single items of one snapshot as clients see them: without expired items and without items
/// of deleted logical partitions.
pub(crate) struct ItemReader<'a> {
    /// The snapshot of the partition.
    pub snapshot: &'a dyn Snapshot,
    /// Resource id of the container.
    pub container: Rid,
    /// The present moment, which decides what has expired.
    pub moment: Moment,
    /// The settings of the container.
    pub settings: &'a Settings,
}

impl ItemReader<'_> {
    /// Returns the item with this id or resource id in a logical partition, or `None` if clients
    /// see no such item.
    ///
    /// # Errors
    /// 500 if the store cannot be read or rows contradict each other.
    pub(crate) fn find(&self, address: &KeyAddress, id: Id<'_>) -> Result<Option<StoredItem>> {
        let number = match id {
            Id::Name(name) => self.number_of_id(address, name)?,
            Id::Rid(rid) => number_of_rid(self.container, rid),
        };
        let Some(number) = number else {
            return Ok(None);
        };
        let epk_prefix = keys::epk_prefix(address.epk());
        let row = read_row(epk_prefix, number, |key| self.get(key))?;
        let row = match (row, id) {
            (Some(row), _) => row,
            // The primary key row promises an item row.
            (None, Id::Name(_)) => return Err(damaged()),
            (None, Id::Rid(_)) => return Ok(None),
        };
        // A resource id alone does not say in which logical partition the item lies, nor does an
        // EPK that several keys have.
        let definition = &self.settings.partition_key;
        let is_visible = row.is_of(address)
            && self.moment.has(&row, self.settings.default_ttl)
            && !is_deleted_by_key(&row, definition, |key| self.get(key))?;
        Ok(is_visible.then_some(StoredItem { number, row }))
    }

    /// Returns the number of the item with this id from its primary key row.
    fn number_of_id(&self, address: &KeyAddress, id: &str) -> Result<Option<ItemNumber>> {
        match self.get(&keys::primary(address.epk(), id))? {
            Some(row) => keys::number(&row).map(Some).ok_or_else(damaged),
            None => Ok(None),
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.snapshot.get(key).map_err(storage_failure)
    }
}
