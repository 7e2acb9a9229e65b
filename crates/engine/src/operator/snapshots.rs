//! Snapshots of everything, for test suites: what there is, kept under a name and brought back, and emptied.
//!
//! A snapshot is a copy: each partition's rows in a home of the snapshot's own, and the catalog's rows beside it. It is of
//! one moment: nobody writes while the moment is fixed, which takes no longer than the commits under way; the copying is
//! done beside requests, from the store's snapshots.
//!
//! A restoration copies again, into new homes, and puts them in the place of everything in one commit of the catalog; a
//! process that ends on the way finds what was there before, or what is there after. What comes back:
//!
//! - resource ids, etags, `_ts`, item numbers, LSNs of changes, partition key ranges, scripts, offers: as they were, so
//!   that what clients remember of them is right;
//! - histories go on above what they had reached when they were cut off. So a position in a change feed that is from
//!   after the snapshot shows what is written from now on, and no new item has the resource id of one that is gone;
//! - session tokens name another life of the container (see `consistency.rs`): one from after the snapshot demands
//!   nothing of what is there now.
//!
//! Writes that are under way during a restoration take place before it, and go with what was there.

use crate::Engine;
use crate::catalog::Reached;
use crate::errors::storage_failure;
use crate::partition::keys;
use crate::partition::staging::StagingWriter;
use crate::partition::{Counters, Partition};
use crate::request::SnapshotInfo;
use orrery_model::sync::lock;
use orrery_model::{Error, Kind, Object, Result, Rid, limits};
use orrery_storage::{Direction, PartitionId, Snapshot};
use std::ops::Bound;

/// Bytes of rows that are copied at once.
const COPIED_BYTES: usize = 2 << 20;
/// Bytes of rows that wait for the last commit.
const LAST_BYTES: usize = 64 << 10;

impl Engine {
    /// Keeps all that is there now under a name; an older snapshot of that name goes. `note` comes along with it.
    ///
    /// # Errors
    /// 400 for a name that is none; what the store reports. Nothing has changed then.
    pub fn take_snapshot(&self, name: &str, note: &Object) -> Result<SnapshotInfo> {
        check_name(name)?;
        let _alone = lock(self.catalog().snapshotting());
        let moment = self.catalog().stop(|stopped| stopped.moment())?;
        let homes = self
            .catalog()
            .homes_for(moment.partitions.iter().map(|(home, _)| *home))?;
        let copied = moment.partitions.iter().try_for_each(|(home, snapshot)| {
            let copy = self.copy_rows(snapshot.as_ref(), homes[home])?;
            end(
                copy,
                Partition::counters(snapshot.as_ref())?,
                snapshot.head().lsn,
            )
        });
        copied.inspect_err(|_| self.catalog().give_up_homes(homes.values().copied()))?;
        // Whatever becomes of this commit, the store knows to whom the homes belong.
        self.catalog().keep(name, &moment, &homes, note)?;
        self.snapshot_info(name)
    }

    /// The snapshots there are, by name.
    ///
    /// # Errors
    /// What the store reports.
    pub fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        self.catalog().snapshots()
    }

    /// A snapshot.
    ///
    /// # Errors
    /// 404; what the store reports.
    pub fn snapshot_info(&self, name: &str) -> Result<SnapshotInfo> {
        let found = self
            .snapshots()?
            .into_iter()
            .find(|snapshot| snapshot.name == name);
        found.ok_or_else(|| Error::new(Kind::NotFound, format!("There is no snapshot '{name}'.")))
    }

    /// Deletes a snapshot.
    ///
    /// # Errors
    /// 404; what the store reports.
    pub fn delete_snapshot(&self, name: &str) -> Result<()> {
        let _alone = lock(self.catalog().snapshotting());
        self.catalog().delete_snapshot(name)
    }

    /// Puts a snapshot in the place of everything there is. The snapshot stays.
    ///
    /// # Errors
    /// 404; what the store reports. Nothing has changed then.
    pub fn restore_snapshot(&self, name: &str) -> Result<SnapshotInfo> {
        let _alone = lock(self.catalog().snapshotting());
        let kept = self.catalog().kept(name)?;
        let homes = self
            .catalog()
            .homes_for(kept.homes.iter().map(|(home, _)| *home))?;
        let copy = |(home, container): &(PartitionId, Rid)| -> Result<_> {
            let snapshot = self.store.snapshot(*home).map_err(storage_failure)?;
            let counters = Partition::counters(snapshot.as_ref())?;
            Ok((
                *container,
                counters,
                snapshot.head().lsn,
                self.copy_rows(snapshot.as_ref(), homes[home])?,
            ))
        };
        let copies = kept.homes.iter().map(copy).collect::<Result<Vec<_>>>();
        let copies =
            copies.inspect_err(|_| self.catalog().give_up_homes(homes.values().copied()))?;
        self.catalog().stop(|stopped| {
            let reached = stopped.reached()?;
            for (container, mut counters, lsn, copy) in copies {
                let Reached {
                    lsn: floor,
                    next_number,
                } = reached.get(&container).copied().unwrap_or_default();
                counters.next_number = counters.next_number.max(next_number);
                end(copy, counters, lsn.max(floor))?;
            }
            stopped.become_of(Some((&kept, &homes)))
        })?;
        self.snapshot_info(name)
    }

    /// Deletes everything there is but the snapshots, at once.
    ///
    /// # Errors
    /// What the store reports. Nothing has changed then.
    pub fn reset(&self) -> Result<()> {
        let _alone = lock(self.catalog().snapshotting());
        self.catalog().stop(|stopped| stopped.become_of(None))
    }

    /// Copies the rows of a partition to an empty home. A few rows are left for the last commit, so that a short history
    /// is copied in no more commits than it had.
    fn copy_rows(&self, from: &dyn Snapshot, to: PartitionId) -> Result<StagingWriter> {
        let mut copy = StagingWriter::open(&self.store, &self.world, to)?;
        for row in from.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            let (key, value) = row.map_err(storage_failure)?;
            copy.put(key.to_vec(), value.to_vec());
            if copy.gathered_bytes() > COPIED_BYTES {
                self.store.wait_for_compaction();
                copy.flush();
                copy.wait_durable()?;
            }
        }
        if copy.gathered_bytes() > LAST_BYTES {
            copy.flush();
            copy.wait_durable()?;
        }
        Ok(copy)
    }
}

/// The copy has these counters and goes on behind `lsn`.
fn end(mut copy: StagingWriter, counters: Counters, lsn: u64) -> Result<()> {
    // Of two puts of one key the later counts.
    copy.put(keys::counters(), counters.encode());
    copy.submit(lsn);
    copy.wait_durable()
}

/// A name goes into a path, and a person reads it.
fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if !name.is_empty()
        && name.chars().count() <= limits::RESOURCE_ID_CHARS
        && name.chars().all(good)
    {
        return Ok(());
    }
    Err(Error::bad(format!(
        "The name '{name}' of a snapshot is invalid: it has letters, digits, '-', '_' and '.', and at most {} of them.",
        limits::RESOURCE_ID_CHARS
    )))
}
