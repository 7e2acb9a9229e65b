//! Reading item rows: the chunks of a large row put together, one by one or all of an EPK prefix.

use crate::errors::storage_failure;
use crate::partition::item::{StoredItem, damaged};
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::{self, Row};
use crate::partition::scan;
use bytes::Bytes;
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};

/// An item row with its further chunks, through whatever reads rows.
pub fn read_row(
    epk_prefix: EpkPrefix,
    number: ItemNumber,
    mut get: impl FnMut(&[u8]) -> Result<Option<Bytes>>,
) -> Result<Option<Row>> {
    let Some(first) = get(&keys::item(epk_prefix, number))? else {
        return Ok(None);
    };
    complete_row(first, number, get).map(Some)
}

/// The row whose first value is `first`.
pub fn complete_row(
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

/// The items of one place in natural order, from number `from` on. Places are shared by rare chance: callers compare
/// keys.
pub fn rows_of_epk_prefix(
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
