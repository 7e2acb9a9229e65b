//! The store of an engine that reads a copy of data which another process writes.
//!
//! The copy lags behind, and its catalog and its partitions must be of the same moment: a partition
//! that a split has replaced is removed some time after the commit of the catalog. So each snapshot
//! of a partition is taken together with one of the catalog, and is refused unless the engine has
//! loaded this very state of the catalog. [`Engine::refresh_replica`] loads the next one.
//!
//! Promises: nothing is written; a snapshot that is given shows the partition after one of its
//! commits, under the catalog of the same moment. Left out: sessions, which the engine checks as
//! for any snapshot.

use crate::Engine;
use crate::errors::storage_failure;
use crate::partition::keys::CATALOG_PARTITION;

use orrery_model::sync::lock;
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, Copies, Head, Lease, PartitionId, Receipt, Snapshot,
    Store, StoreError,
};
use std::sync::{Arc, Mutex};

/// Milliseconds after which a caller may try again.
const RETRY_MS: u64 = 100;

/// Copies as a store that takes no writes.
pub(crate) struct ReplicaStore {
    copies: Arc<dyn Copies>,
    /// The state of the catalog that the engine has loaded.
    loaded: Mutex<Head>,
    /// Held while the engine loads the catalog.
    loading: Mutex<()>,
}

impl ReplicaStore {
    /// Creates the store of an engine that has not loaded a catalog yet.
    pub(crate) fn new(copies: Arc<dyn Copies>) -> ReplicaStore {
        ReplicaStore {
            copies,
            loaded: Mutex::default(),
            loading: Mutex::default(),
        }
    }

    fn loaded(&self) -> Head {
        *lock(&self.loaded)
    }

    /// Takes snapshots of one moment.
    fn take(&self, partitions: &[PartitionId]) -> Result<Vec<Box<dyn Snapshot>>, StoreError> {
        let found = self.copies.snapshots(partitions)?;
        found.ok_or(refused("no copy of the data can be read"))
    }
}

fn refused(reason: &'static str) -> StoreError {
    StoreError::Unavailable {
        reason,
        retry_after_ms: RETRY_MS,
        is_full: false,
    }
}

impl Store for ReplicaStore {
    fn open(&self, _partition: PartitionId) -> Result<Lease, StoreError> {
        Err(refused("a copy of the data takes no writes"))
    }

    fn submit(&self, _lease: &Lease, _commit: Commit) -> Receipt {
        Receipt::ready(CommitOutcome::Unavailable {
            retry_after_ms: RETRY_MS,
        })
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        let mut snapshots = self.snapshots(&[partition])?;
        snapshots
            .pop()
            .ok_or(refused("no copy of the data can be read"))
    }

    fn snapshots(&self, partitions: &[PartitionId]) -> Result<Vec<Box<dyn Snapshot>>, StoreError> {
        let all = [&[CATALOG_PARTITION], partitions].concat();
        let mut snapshots = self.take(&all)?;
        let catalog = snapshots.remove(0).head();
        if catalog != self.loaded() {
            return Err(refused("the copy has another state of the catalog"));
        }
        // Each partition of a catalog has its first commit, so one without was removed.
        if snapshots.iter().any(|snapshot| snapshot.head().lsn == 0) {
            return Err(refused("the copy does not have the partition"));
        }
        Ok(snapshots)
    }

    fn destroy(&self, _partition: PartitionId) -> Result<(), StoreError> {
        Err(refused("a copy of the data takes no writes"))
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            long_snapshots: false,
            followers: false,
            remote: true,
        }
    }

    fn approximate_bytes(&self) -> u64 {
        0
    }
}

impl Engine {
    /// Loads the catalog of the copies if it is later than the loaded one. Does nothing on an
    /// engine that writes its data itself, and while another thread loads.
    ///
    /// # Errors
    /// 503 if no copy can be read, 500 if its catalog is damaged. The state in memory stays.
    pub fn refresh_replica(&self) -> orrery_model::Result<()> {
        let Some(replica) = &self.replica else {
            return Ok(());
        };
        let Ok(_loading) = replica.loading.try_lock() else {
            return Ok(());
        };
        self.load_copy(replica)
    }

    fn load_copy(&self, replica: &ReplicaStore) -> orrery_model::Result<()> {
        let snapshots = replica.take(&[CATALOG_PARTITION]);
        let snapshots = snapshots.map_err(storage_failure)?;
        for snapshot in snapshots {
            let head = snapshot.head();
            // Another copy may be further behind than the one that was loaded.
            if head.lsn > replica.loaded().lsn {
                // The state is visible before the store gives snapshots for it, and the partitions
                // of the state before are gone by then.
                self.catalog.load_copy(snapshot.as_ref())?;
                *lock(&replica.loaded) = head;
            }
        }
        Ok(())
    }
}
