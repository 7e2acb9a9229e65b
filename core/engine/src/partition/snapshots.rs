//! Snapshots of a partition: for readers, for the writer, and for splits and merges.
//!
//! Promised: a snapshot for a reader was taken while this process might read the partition, and
//! before the partition was gone. Rows that a snapshot of few rows reads later are of the same
//! moment as those that it has shown, or the read fails.

use super::{Partition, Writer};
use crate::errors::{did_not_happen, storage_failure};
use orrery_model::sync::lock;
use orrery_model::{Kind, Result};
use orrery_storage::{PartitionId, ReadAhead, Snapshot};

impl Partition {
    /// Returns a snapshot of what is durable.
    ///
    /// # Errors
    /// 410/1002 if the partition is gone, 410/1007 if it is completing, 503 if another process owns
    /// the partition and this one may not read it.
    pub fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.checked(self.snapshot_in_any_phase())
    }

    /// Returns a snapshot for reads of the rows that `ahead` names, as
    /// [`Store::snapshot_ahead`](orrery_storage::Store::snapshot_ahead) does.
    ///
    /// # Errors
    /// As for [`Partition::snapshot`].
    pub(crate) fn snapshot_ahead(
        &self,
        ahead: impl FnOnce() -> ReadAhead,
    ) -> Result<Box<dyn Snapshot>> {
        // A store on this machine reads each row as fast without the names.
        if !self.store.capabilities().remote {
            return self.snapshot();
        }
        let snapshot = self.store.snapshot_ahead(self.storage_id, &ahead());
        self.checked(snapshot.map_err(storage_failure))
    }

    /// Returns a snapshot for the writer of the partition, as [`Partition::snapshot_ahead`] does.
    ///
    /// # Errors
    /// As for [`Partition::snapshot`]; 449 if the store shows less than before.
    pub(crate) fn snapshot_for_writer(
        &self,
        writer: &Writer,
        ahead: impl Fn() -> ReadAhead,
    ) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.snapshot_ahead(|| ReadAhead {
            is_for_writer: true,
            ..ahead()
        })?;
        // The writer may have forgotten rows that another snapshot has shown and this one lacks.
        if writer.completes(snapshot.head().lsn) {
            return Ok(snapshot);
        }
        let snapshot = self.snapshot_ahead(ahead)?;
        match writer.completes(snapshot.head().lsn) {
            true => Ok(snapshot),
            // A write from rows that lack a commit would undo that commit.
            false => Err(did_not_happen()),
        }
    }

    /// Reads rows into memory before the writer is locked, if the store is on another machine: the
    /// next writer waits until the lock is free.
    ///
    /// # Errors
    /// 503 if the store cannot be read.
    pub(crate) fn read_ahead(&self, ahead: impl FnOnce() -> ReadAhead) -> Result<()> {
        if !self.store.capabilities().remote {
            return Ok(());
        }
        let read = self.store.read_ahead(self.storage_id, &ahead());
        read.map_err(storage_failure)
    }

    fn checked(&self, snapshot: Result<Box<dyn Snapshot>>) -> Result<Box<dyn Snapshot>> {
        // Phase and owner are checked after the snapshot is taken: a snapshot from before the
        // partition was gone holds everything that was ever written to it.
        self.check_readable()?;
        self.check_phase()?;
        snapshot
    }

    /// Returns snapshots of several partitions of one store, in their order.
    ///
    /// # Errors
    /// As for [`Partition::snapshot`], of the first partition that has one.
    pub fn snapshots(partitions: &[&Partition]) -> Result<Vec<Box<dyn Snapshot>>> {
        let Some(first) = partitions.first() else {
            return Ok(Vec::new());
        };
        let ids: Vec<PartitionId> = partitions.iter().map(|p| p.storage_id).collect();
        let snapshots = first.store.snapshots(&ids).map_err(storage_failure);
        // After the snapshots are taken, as in `snapshot`.
        for partition in partitions {
            partition.check_readable()?;
            partition.check_phase()?;
        }
        snapshots
    }

    /// Returns a snapshot for counting, which is allowed while the partition is completing.
    ///
    /// # Errors
    /// 410/1002 if the partition is gone.
    pub fn snapshot_while_completing(&self) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.snapshot_in_any_phase()?;
        match self.check_phase() {
            Err(error) if error.kind() == Kind::PartitionKeyRangeGone => Err(error),
            _ => Ok(snapshot),
        }
    }

    /// Returns a snapshot for the split or merge that takes the partition over.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn snapshot_in_any_phase(&self) -> Result<Box<dyn Snapshot>> {
        self.store
            .snapshot(self.storage_id)
            .map_err(storage_failure)
    }

    /// Returns a snapshot that holds the commit `lsn`, and waits for a sync if the commit is not
    /// durable yet.
    ///
    /// # Errors
    /// As for [`Partition::snapshot`]; 500 if the store cannot sync.
    pub fn snapshot_with(&self, lsn: u64) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.snapshot()?;
        if snapshot.head().lsn >= lsn {
            return Ok(snapshot);
        }
        drop(snapshot);
        self.sync()?;
        self.snapshot()
    }

    /// Returns a snapshot that holds every commit that was accepted before, for background work
    /// that must not miss one. Opens no writer.
    ///
    /// # Errors
    /// As for [`Partition::snapshot_with`].
    pub fn snapshot_of_accepted(&self) -> Result<Box<dyn Snapshot>> {
        let accepted = lock(&self.writer).as_ref().map_or(0, |writer| writer.lsn);
        self.snapshot_with(accepted)
    }
}
