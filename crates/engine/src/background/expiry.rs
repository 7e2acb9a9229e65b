//! Removal of expired items, and of the space of deleted containers.
//!
//! Clients see an expired item no more, see `partition/visibility.rs`; the removal here frees its
//! rows.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::feed::read_change;
use crate::partition::item::StoredItem;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row_reader::read_row;
use crate::partition::{Partition, scan};
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};

/// Expired items that one commit removes.
const EXPIRED_PER_COMMIT: usize = 100;

impl Engine {
    /// Frees the space of deleted containers.
    ///
    /// # Errors
    /// 500 and 503 as the store reports; the next call goes on.
    pub fn destroy_deleted(&self) -> Result<()> {
        while self.catalog().destroy_one_orphan()? {}
        Ok(())
    }

    /// Removes expired items, a bounded number from each partition. Returns their number.
    ///
    /// # Errors
    /// 500 and 503 as the store reports; the next call goes on.
    pub fn remove_expired(&self) -> Result<usize> {
        let removed = self.for_each_partition(
            |container| container.settings().default_ttl.is_some(),
            |container, partition| self.remove_expired_of(container, partition),
        )?;
        self.meters().expired_items.add(removed as u64);
        Ok(removed)
    }

    fn remove_expired_of(&self, container: &Container, partition: &Partition) -> Result<usize> {
        let now = self.world().now_seconds();
        let default_ttl = container.settings().default_ttl;
        let snapshot = partition.snapshot()?;
        let expired = find_expired(snapshot.as_ref(), now, default_ttl)?;
        if expired.is_empty() {
            return Ok(0);
        }
        drop(snapshot);
        self.transaction_step(container, partition, |transaction, snapshot| {
            let mut removed = 0;
            for old in expired {
                if transaction.is_large() {
                    break;
                }
                // A client may have written the item again since it was found.
                let current = read_row(keys::epk_prefix(&old.row.epk), old.number, |key| {
                    snapshot.get(key).map_err(storage_failure)
                })?;
                if current.is_some_and(|row| row.lsn == old.row.lsn) {
                    transaction.erase(&old)?;
                    removed += 1;
                }
            }
            Ok(removed)
        })
    }
}

/// Returns some items of a snapshot that have expired at second `now`.
fn find_expired(
    snapshot: &dyn Snapshot,
    now: u64,
    default_ttl: Option<i32>,
) -> Result<Vec<StoredItem>> {
    let mut candidates: Vec<(ItemNumber, EpkPrefix)> = Vec::new();

    // Items with a `ttl` of their own have a row under the second in which they expire.
    let rows = scan(snapshot, &keys::expiries_until(now), Direction::Forward);
    for entry in rows.take(EXPIRED_PER_COMMIT) {
        let (key, value) = entry?;
        candidates.extend(keys::read_expiry(&key).zip(value[..].try_into().ok()));
    }

    // The others expire in the order in which they were last changed: that of the change feed.
    if default_ttl.is_some_and(|ttl| ttl > 0) {
        let rows = scan(snapshot, &keys::feed_after(0), Direction::Forward);
        for entry in rows.take(EXPIRED_PER_COMMIT) {
            let (key, value) = entry?;
            let (_, number, epk_prefix) = read_change(&key, &value)?;
            candidates.push((number, epk_prefix));
        }
    }
    candidates.sort_unstable();
    candidates.dedup();

    let mut expired = Vec::new();
    for (number, epk_prefix) in candidates {
        let row = read_row(epk_prefix, number, |key| {
            snapshot.get(key).map_err(storage_failure)
        })?;
        if let Some(row) = row
            && !row.is_live(now, default_ttl)
        {
            expired.push(StoredItem { number, row });
        }
    }
    Ok(expired)
}
