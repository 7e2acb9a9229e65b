//! Snapshots of everything, for test suites: the whole contents kept under a name, restored, or
//! deleted.
//!
//! A snapshot is a copy: the rows of each partition in a key space of the snapshot's own, and the
//! rows of the catalog beside them. A snapshot is of one moment: writers are blocked while the
//! moment is fixed, which takes no longer than the commits under way; the rows are copied beside
//! requests, from snapshots of the store.
//!
//! A restoration copies again, into new key spaces, and replaces everything in one commit of the
//! catalog; a process that ends on the way finds the contents from before or those from after.
//! After a restoration:
//!
//! - resource ids, etags, `_ts`, item numbers, LSNs of changes, partition key ranges, scripts and
//!   offers are as they were, so that clients' knowledge of them stays right;
//! - histories go on above the LSNs that they had reached before the restoration. So a position in
//!   a change feed from after the snapshot shows every later write, and no new item has the
//!   resource id of a deleted one;
//! - session tokens from after the snapshot name another version of the container (see
//!   `partition/session.rs`) and demand nothing.
//!
//! Writes that run during a restoration take place before it, and are lost with the old contents.

use crate::Engine;
use crate::catalog::HighWaterMarks;
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
/// Bytes of rows that are left for the last commit.
const LAST_BYTES: usize = 64 << 10;

impl Engine {
    /// Takes a snapshot of everything under a name, and replaces an older snapshot of that name.
    /// `note` is stored with it.
    ///
    /// # Errors
    /// 400 for a name that is not allowed, 500 and 503 as the store reports. A failure changes
    /// nothing.
    pub fn take_snapshot(&self, name: &str, note: &Object) -> Result<SnapshotInfo> {
        check_name(name)?;
        let _alone = lock(self.catalog().snapshot_lock());
        let moment = self
            .catalog()
            .with_writes_blocked(|blocked| blocked.capture())?;
        let storage_ids = self
            .catalog()
            .new_copy_ids(moment.partitions.iter().map(|(storage_id, _)| *storage_id))?;
        let copied = moment
            .partitions
            .iter()
            .try_for_each(|(storage_id, snapshot)| {
                let copy = self.copy_rows(snapshot.as_ref(), storage_ids[storage_id])?;
                end(
                    copy,
                    Partition::counters(snapshot.as_ref())?,
                    snapshot.head().lsn,
                )
            });
        copied.inspect_err(|_| {
            self.catalog()
                .release_storage_ids(storage_ids.values().copied())
        })?;
        // If the outcome of this commit is not known, the catalog still tells whose the key spaces
        // are.
        self.catalog()
            .store_snapshot(name, &moment, &storage_ids, note)?;
        self.snapshot_info(name)
    }

    /// Returns the snapshots, ordered by name.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        self.catalog().snapshots()
    }

    /// Returns a snapshot.
    ///
    /// # Errors
    /// 404 if there is none of this name, 500 if the store cannot be read.
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
    /// 404 if there is none of this name, 500 and 503 as the store reports.
    pub fn delete_snapshot(&self, name: &str) -> Result<()> {
        let _alone = lock(self.catalog().snapshot_lock());
        self.catalog().delete_snapshot(name)
    }

    /// Replaces everything by a snapshot. The snapshot stays.
    ///
    /// # Errors
    /// 404 if there is none of this name, 500 and 503 as the store reports. A failure changes
    /// nothing.
    pub fn restore_snapshot(&self, name: &str) -> Result<SnapshotInfo> {
        let _alone = lock(self.catalog().snapshot_lock());
        let kept = self.catalog().find_snapshot(name)?;
        let storage_ids = self
            .catalog()
            .new_copy_ids(kept.partitions.iter().map(|(storage_id, _)| *storage_id))?;
        let copy = |(storage_id, container): &(PartitionId, Rid)| -> Result<_> {
            let snapshot = self.store.snapshot(*storage_id).map_err(storage_failure)?;
            let counters = Partition::counters(snapshot.as_ref())?;
            Ok((
                *container,
                counters,
                snapshot.head().lsn,
                self.copy_rows(snapshot.as_ref(), storage_ids[storage_id])?,
            ))
        };
        let copies = kept.partitions.iter().map(copy).collect::<Result<Vec<_>>>();
        let copies = copies.inspect_err(|_| {
            self.catalog()
                .release_storage_ids(storage_ids.values().copied())
        })?;
        self.catalog().with_writes_blocked(|blocked| {
            let reached = blocked.high_water_marks()?;
            for (container, mut counters, lsn, copy) in copies {
                let HighWaterMarks {
                    lsn: floor,
                    next_number,
                } = reached.get(&container).copied().unwrap_or_default();
                counters.next_number = counters.next_number.max(next_number);
                end(copy, counters, lsn.max(floor))?;
            }
            blocked.replace_all(Some((&kept, &storage_ids)))
        })?;
        self.plan_background_work();
        self.snapshot_info(name)
    }

    /// Deletes everything but the snapshots, in one commit.
    ///
    /// # Errors
    /// 500 and 503 as the store reports. A failure changes nothing.
    pub fn reset(&self) -> Result<()> {
        let _alone = lock(self.catalog().snapshot_lock());
        self.catalog()
            .with_writes_blocked(|blocked| blocked.replace_all(None))?;
        self.plan_background_work();
        Ok(())
    }

    /// Copies the rows of a partition to an empty key space. A few rows are left for the last
    /// commit, so that a short history is copied in no more commits than it had.
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

/// Ends a copy: writes its counters, and continues its history after `lsn`.
fn end(mut copy: StagingWriter, counters: Counters, lsn: u64) -> Result<()> {
    // Of two writes of one key the later counts.
    copy.put(keys::counters(), counters.encode());
    copy.submit(lsn);
    copy.wait_durable()
}

/// Checks the name of a snapshot, which becomes part of a path. The names `.` and `..` are steps of
/// a path, which clients and proxies remove before they send a request.
fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let is_step = name == "." || name == "..";
    if !name.is_empty()
        && !is_step
        && name.chars().count() <= limits::RESOURCE_ID_CHARS
        && name.chars().all(good)
    {
        return Ok(());
    }
    Err(Error::bad(format!(
        "The name '{name}' of a snapshot is invalid: it has letters, digits, '-', '_' and '.', at \
         most {} of them, and is neither '.' nor '..'.",
        limits::RESOURCE_ID_CHARS
    )))
}
