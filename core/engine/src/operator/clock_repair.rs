//! The repair after a wrong clock: everything that is dated later than the clock is dated now.
//!
//! The operator vouches for the clock. An item is written again, as an update does: it gets the
//! present `_ts` and a new `_etag`, appears in the change feeds, and lives for its time to live
//! from now on. Kept versions and resources of the catalog get the present second in place.
//!
//! Promises: a repair that ends on the way leaves complete data, and the next one goes on.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::{damaged, storage_failure};
use crate::partition::item::StoredItem;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::ts_of;
use crate::partition::row_reader::read_row;
use crate::partition::stamps::is_unset_clock;
use crate::partition::transaction::Transaction;
use crate::partition::versions::dated_anew;
use crate::partition::{CommitChanges, Partition, scan, wait_durable};
use orrery_model::{Error, Result};
use orrery_storage::{Direction, Snapshot};
use std::sync::atomic::Ordering;

/// Bytes of version rows that one commit writes, about.
const VERSION_BYTES_PER_COMMIT: usize = 4 << 20;
/// Items that one commit writes.
const ITEMS_PER_COMMIT: usize = 100;

/// The number of things that a repair of the clock has dated anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockRepair {
    /// Databases, containers, scripts, offers, users, permissions and keys.
    pub resources: u64,
    /// Items.
    pub items: u64,
    /// Kept versions of items.
    pub versions: u64,
}

impl Engine {
    /// Returns true if the clock shows a time before this program was written: it was never set,
    /// and nothing expires by it.
    pub fn has_unset_clock(&self) -> bool {
        is_unset_clock(self.world().now_seconds())
    }

    /// Dates everything now that is dated later than the clock, and makes the clock the confirmed
    /// one. No request is served meanwhile.
    ///
    /// # Errors
    /// 400 if the clock was never set: everything would be dated back, and would expire once the
    /// clock is set. 500 and 503 as the store reports; another call goes on.
    pub fn repair_clock(&self) -> Result<ClockRepair> {
        if self.has_unset_clock() {
            return Err(Error::bad(
                "The clock shows a time before 2025, so it was never set.",
            ));
        }
        let now = self.world().now_seconds();
        let mut repair = ClockRepair {
            resources: self.catalog().date_anew(now)?,
            ..ClockRepair::default()
        };
        for container in self.catalog().all_containers() {
            for partition in container.partitions().iter() {
                repair.versions += self.date_versions_anew(partition, now)?;
                repair.items += self.date_items_anew(&container, partition, now)?;
            }
        }
        let now_ms = self.world().now_ms();
        if self.catalog().confirmed_time()?.is_some() {
            self.catalog().store_confirmed_time(now_ms)?;
            self.stored_time_ms.store(now_ms, Ordering::Relaxed);
        }
        Ok(repair)
    }

    fn date_items_anew(
        &self,
        container: &Container,
        partition: &Partition,
        now: u64,
    ) -> Result<u64> {
        let misdated = misdated_items(partition.snapshot()?.as_ref(), now)?;
        let mut dated = 0;
        let mut left = &misdated[..];
        while !left.is_empty() {
            let mut writer = partition.lock()?;
            // The stamps of misdated items are not to be waited for.
            partition.set_commit_second(0);
            let snapshot = partition.snapshot_with(writer.lsn)?;
            let mut transaction =
                Transaction::begin(container, partition, snapshot.as_ref(), self.world());
            let mut taken = 0;
            for (epk_prefix, number) in left.iter().take(ITEMS_PER_COMMIT) {
                if transaction.is_large() {
                    break;
                }
                taken += 1;
                let row = read_row(*epk_prefix, *number, |key| {
                    snapshot.get(key).map_err(storage_failure)
                })?;
                if let Some(row) = row {
                    let number = *number;
                    transaction.date_anew(&StoredItem { number, row })?;
                    dated += 1;
                }
            }
            let commit = transaction.commit(&mut writer, None)?;
            drop(writer);
            if let Some(commit) = commit {
                wait_durable(partition, commit)?;
            }
            left = &left[taken..];
        }
        Ok(dated)
    }

    fn date_versions_anew(&self, partition: &Partition, now: u64) -> Result<u64> {
        let snapshot = partition.snapshot()?;
        let (mut dated, mut puts, mut bytes) = (0, Vec::new(), 0);
        for entry in scan(
            snapshot.as_ref(),
            &keys::versions_after(0),
            Direction::Forward,
        ) {
            let (key, value) = entry?;
            let is_first = matches!(keys::read_version(&key), Some((_, 0)));
            if is_first && let Some(anew) = dated_anew(&value, now)? {
                bytes += anew.len();
                puts.push((key.to_vec(), anew));
                dated += 1;
            }
            if bytes >= VERSION_BYTES_PER_COMMIT || puts.len() >= 1_000 {
                self.put_rows(partition, std::mem::take(&mut puts))?;
                bytes = 0;
            }
        }
        if !puts.is_empty() {
            self.put_rows(partition, puts)?;
        }
        Ok(dated)
    }

    fn put_rows(&self, partition: &Partition, puts: Vec<(Vec<u8>, Vec<u8>)>) -> Result<()> {
        let mut writer = partition.lock()?;
        let changes = CommitChanges {
            puts,
            counters: writer.counters,
            ..CommitChanges::default()
        };
        let commit = writer.submit(partition, changes, self.world().random());
        drop(writer);
        wait_durable(partition, commit)
    }
}

/// Returns the items of a snapshot that are dated later than second `now`. Reads every item row.
fn misdated_items(snapshot: &dyn Snapshot, now: u64) -> Result<Vec<(EpkPrefix, ItemNumber)>> {
    let mut found = Vec::new();
    for entry in scan(snapshot, &keys::items(), Direction::Forward) {
        let (key, value) = entry?;
        if ts_of(&value)? > now {
            found.push(keys::read_item(&key).ok_or_else(|| damaged("an item row"))?);
        }
    }
    Ok(found)
}
