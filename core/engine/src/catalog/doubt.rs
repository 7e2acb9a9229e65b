//! Changes of the catalog whose outcome is not known, and the catalog that is read again from its
//! rows.
//!
//! The catalog in memory changes after its commit is durable. If the store fails at the commit and
//! cannot say what became of it, the rows may be those after the change, and the catalog in memory
//! is that before. The change is then in *doubt*:
//!
//! ```text
//! commit: unknown ──▶ doubt ──▶ the store answers
//!                                 ├▶ did not take place: as before
//!                                 └▶ took place: the catalog is read again
//! ```
//!
//! Requests are answered from the catalog before until the doubt ends, with one exception: the
//! partitions that the change would replace or delete are read and not written
//! ([`Phase::InDoubt`]), because an answered write would be lost with them.
//!
//! Promise: a change begins ([`Catalog::begin_change`]) when memory and rows are the same. Left
//! out: a commit that concerns no resource, which parts nothing.

use super::row_sets::current_set;
use super::snapshots::BlockedCatalog;
use super::{Catalog, ORPHAN, RowChanges};
use crate::background::agenda::Subject;
use crate::container::tasks::BackgroundTask;
use crate::errors::unconfirmed;
use crate::partition::keys;
use crate::partition::{CommitAttempt, Phase};
use orrery_model::sync::lock;
use orrery_model::{Kind as ErrorKind, Result};
use orrery_storage::{CommitOutcome, PartitionId, Snapshot};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, TryLockError};

/// A commit of the catalog of which it is not known whether it took place.
#[derive(Clone)]
pub(super) struct Doubt {
    attempt: CommitAttempt,
    /// The key spaces that no container uses any more if the commit took place.
    orphans: Vec<PartitionId>,
}

impl RowChanges {
    /// Returns the key spaces that no container uses any more after the changes.
    pub(super) fn orphans(&self) -> Vec<PartitionId> {
        let puts = self.puts.iter();
        let marks = puts.filter_map(|(key, _)| key.strip_prefix(&[ORPHAN]));
        marks.filter_map(keys::number).map(PartitionId).collect()
    }
}

impl Catalog {
    /// Begins a change of the catalog: no other one runs until the guard is dropped, and the
    /// catalog in memory is that of the rows.
    ///
    /// # Errors
    /// 500 and 503 while it cannot be found out what became of the change before.
    pub(super) fn begin_change(&self) -> Result<MutexGuard<'_, ()>> {
        let writing = lock(&self.write_lock);
        self.resolve(&writing)?;
        Ok(writing)
    }

    /// Returns true if it is not known what became of the last change.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::Acquire)
    }

    /// Finds out what became of the last change, if that is not known.
    ///
    /// # Errors
    /// As for [`Catalog::begin_change`].
    pub(crate) fn end_doubt(&self) -> Result<()> {
        match self.is_in_doubt() {
            true => self.begin_change().map(drop),
            false => Ok(()),
        }
    }

    /// Does the same for a request, which goes on with the catalog in memory if the store does not
    /// answer or a change is under way. A store on other machines may keep its callers waiting, so
    /// only background work asks it.
    pub(crate) fn try_to_end_doubt(&self) {
        if !self.is_in_doubt() || self.store.capabilities().remote {
            return;
        }
        let writing = match self.write_lock.try_lock() {
            Ok(writing) => writing,
            Err(TryLockError::Poisoned(writing)) => writing.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let _ = self.resolve(&writing);
    }

    /// Notes that the outcome of a commit is not known. The caller holds the write lock, and the
    /// writers of the partitions that the commit replaces.
    pub(super) fn note_doubt(&self, attempt: CommitAttempt, orphans: Vec<PartitionId>) {
        for container in self.all_containers() {
            for partition in container.partitions().iter() {
                if orphans.contains(&partition.storage_id) {
                    partition.set_phase(Phase::InDoubt);
                }
            }
        }
        *lock(&self.doubt) = Some(Doubt { attempt, orphans });
        self.is_in_doubt.store(true, Ordering::Release);
        // A visit of the task finds the outcome out, or tries again later.
        self.agenda
            .enter(BackgroundTask::Removal, Subject::Orphans, 0);
    }

    fn resolve(&self, writing: &MutexGuard<'_, ()>) -> Result<()> {
        let doubt = lock(&self.doubt).clone();
        let Some(Doubt { attempt, orphans }) = doubt else {
            return Ok(());
        };
        match self.partition.settle(CommitOutcome::Unknown, attempt) {
            // A read that fails leaves the doubt, and the next attempt reads again.
            Ok(()) => {
                self.read_again(writing)?;
                self.queue_orphans(orphans);
            }
            Err(error) if error.kind() == ErrorKind::RetryWith => self.serve_after_doubt(),
            Err(error) => return Err(unconfirmed().with_cause(error)),
        }
        *lock(&self.doubt) = None;
        self.is_in_doubt.store(false, Ordering::Release);
        Ok(())
    }

    /// Lets the partitions serve that a change would have replaced which did not take place.
    fn serve_after_doubt(&self) {
        for container in self.all_containers() {
            for partition in container.partitions().iter() {
                partition.serve_after(Phase::InDoubt);
            }
        }
    }

    /// Reads the catalog again from its rows. Nothing is written meanwhile, so the numbers of items
    /// go on above all that were used.
    fn read_again(&self, writing: &MutexGuard<'_, ()>) -> Result<()> {
        self.with_partitions_blocked(writing, |_blocked: BlockedCatalog<'_>| {
            let snapshot = self.partition.snapshot()?;
            self.load(snapshot.as_ref(), |_| {})?;
            self.version.store(snapshot.head().lsn, Ordering::Release);
            Ok(())
        })?;
        // Containers of the change are new to the agenda.
        for container in self.all_containers() {
            container.enter_all_work();
        }
        Ok(())
    }

    /// Replaces the state in memory by that of a copy which another process writes. Requests that
    /// hold a partition of the state before find the partition gone.
    ///
    /// # Errors
    /// 500 if the copy cannot be read or has damaged records. The state in memory stays.
    pub(crate) fn load_copy(&self, snapshot: &dyn Snapshot) -> Result<()> {
        self.load(snapshot, |copy| {
            for container in copy.all_containers() {
                let partitions = container.partitions();
                let newest = partitions.iter().map(|partition| partition.id).max();
                for partition in partitions.iter() {
                    partition.set_newest_range(newest.unwrap_or_default());
                }
            }
        })
    }

    /// Replaces the state in memory by that of the rows of a snapshot, once `prepare` has seen it.
    fn load(&self, snapshot: &dyn Snapshot, prepare: impl FnOnce(&Catalog)) -> Result<()> {
        let copy = self.empty_copy();
        copy.use_row_set(current_set(snapshot)?);
        copy.load_stored_rows(snapshot)?;
        prepare(&copy);

        // The new state is visible before the partitions of the state before are gone.
        let before = self.all_containers();
        self.use_row_set(copy.row_set());
        self.adopt_state(copy);
        for container in before {
            for partition in container.partitions().iter() {
                partition.set_phase(Phase::Gone);
            }
        }
        Ok(())
    }
}
