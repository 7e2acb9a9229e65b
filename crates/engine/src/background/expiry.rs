//! Work beside requests: removing expired items, giving back the space of deleted containers. The removal of deleted
//! logical partitions is in `deletion.rs`.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::feed::read_change;
use crate::partition::item::StoredItem;
use crate::partition::keys;
use crate::partition::row_reader::read_row;
use crate::partition::transaction::Transaction;
use crate::partition::{Partition, scan, skip_if_moved, wait_durable};
use orrery_model::Result;
use orrery_storage::Direction;

/// Expired items that one commit removes.
const EXPIRED_A_COMMIT: usize = 100;

impl Engine {
    /// Gives back the space of deleted containers.
    ///
    /// # Errors
    /// What the store reports; the rest is tried again next time.
    pub fn destroy_deleted(&self) -> Result<()> {
        while self.catalog().destroy_one_orphan()? {}
        Ok(())
    }

    /// Removes expired items of all containers, some from each partition; how many.
    ///
    /// # Errors
    /// What the store reports.
    pub fn remove_expired(&self) -> Result<usize> {
        let mut removed = 0;
        for container in self.catalog().all_containers() {
            if container.settings().default_ttl.is_none() {
                continue;
            }
            for partition in container.partitions().iter() {
                removed += skip_if_moved(self.remove_expired_of(&container, partition))?;
            }
        }
        self.meters().expired_items.add(removed as u64);
        Ok(removed)
    }

    fn remove_expired_of(&self, container: &Container, partition: &Partition) -> Result<usize> {
        let (now, default_ttl) = (self.world().now_seconds(), container.settings().default_ttl);
        let snapshot = partition.snapshot()?;
        let mut candidates: Vec<(keys::ItemNumber, keys::EpkPrefix)> = Vec::new();
        for entry in scan(
            snapshot.as_ref(),
            &keys::expiries_until(now),
            Direction::Forward,
        )
        .take(EXPIRED_A_COMMIT)
        {
            let (key, value) = entry?;
            candidates.extend(keys::read_expiry(&key).zip(value[..].try_into().ok()));
        }
        if default_ttl.is_some_and(|ttl| ttl > 0) {
            // Oldest changes first: what was changed last expires last, but for items with a `ttl` of their own.
            for entry in scan(snapshot.as_ref(), &keys::feed_after(0), Direction::Forward)
                .take(EXPIRED_A_COMMIT)
            {
                let (key, value) = entry?;
                let (_, number, epk_prefix) = read_change(&key, &value)?;
                candidates.push((number, epk_prefix));
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        let mut expired: Vec<StoredItem> = Vec::new();
        for (number, epk_prefix) in candidates {
            let row = read_row(epk_prefix, number, |key| {
                snapshot.get(key).map_err(storage_failure)
            })?;
            expired.extend(
                row.filter(|row| !row.is_live(now, default_ttl))
                    .map(|row| StoredItem { number, row }),
            );
        }
        if expired.is_empty() {
            return Ok(0);
        }
        drop(snapshot);
        self.store.wait_for_compaction();
        let mut writer = partition.lock()?;
        let snapshot = partition.snapshot_with(writer.lsn)?;
        let mut transaction =
            Transaction::begin(container, partition, snapshot.as_ref(), self.world());
        let mut removed = 0;
        for old in expired {
            let epk_prefix = keys::epk_prefix(&old.row.epk);
            let now_there = read_row(epk_prefix, old.number, |key| {
                snapshot.get(key).map_err(storage_failure)
            })?;
            if transaction.is_large() {
                break;
            }
            if now_there.is_some_and(|row| row.lsn == old.row.lsn) {
                transaction.erase(&old)?;
                removed += 1;
            }
        }
        let ordered = transaction.commit(&mut writer, None)?;
        drop(writer);
        ordered
            .map_or(Ok(()), |ordered| wait_durable(partition, ordered))
            .map(|()| removed)
    }
}
