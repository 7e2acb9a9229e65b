//! Work that runs beside requests, in small commits, so that requests wait little.
//!
//! | module | work |
//! |---|---|
//! | `agenda` | knows which containers have work, and when |
//! | `work` | runs one piece of work, visits every container once after a start |
//! | `confirmed_clock` | keeps a clock that jumped ahead from removing anything |
//! | `misdated` | finds data that is dated later than the clock |
//! | `expiry` | removes expired items, frees the space of deleted containers |
//! | `delete_by_key` | removes the rows of deleted logical partitions |
//! | `key_sizes` | counts the logical partitions of large physical partitions |
//! | `version_retention` | marks from where versions are kept, removes old versions |
//! | `link` | quantises vectors and links them to their neighbours |
//! | `reindex` | brings indexes to a new indexing policy |
//! | `split` | splits and merges physical partitions |
//!
//! Callers run the agenda ([`Engine::run_background_work`]). The functions that walk over all
//! containers, such as [`Engine::remove_expired`], are for callers that want everything done now.
//!
//! Each step of expiry, deletion, retention and reindexing is the same: look at a snapshot without
//! a lock, and if there is work, wait for compaction, lock the writer, look again, submit one
//! commit and wait until it is durable. `Engine::transaction_step` is the part under the lock;
//! `Engine::for_each_partition` runs the steps of a walk.
//!
//! Promises: a step that fails changes nothing and is repeated later; a process that ends between
//! two steps goes on where it was.

pub(crate) mod agenda;
pub(crate) mod confirmed_clock;
mod delete_by_key;
mod expiry;
mod key_sizes;
mod link;
mod misdated;
mod reindex;
mod split;
mod version_retention;
mod work;

use crate::container::tasks::BackgroundTask;
pub use confirmed_clock::ClockJump;
pub(crate) use link::StoredLists;
pub use reindex::ITEMS_PER_STEP;
pub(crate) use split::RangeChanges;

use crate::Engine;
use crate::catalog::Container;
use crate::partition::transaction::Transaction;
use crate::partition::{Partition, skip_if_moved, wait_durable};
use orrery_model::Result;
use orrery_storage::Snapshot;
use std::sync::Arc;

impl Engine {
    /// Runs one step in each physical partition of the containers that `has_work` names. Partitions
    /// that are split or merged meanwhile are left to the next round. Returns what the steps
    /// returned, added up.
    ///
    /// # Errors
    /// The first error of a step; the remaining partitions get their turn in the next round.
    fn for_each_partition<T: Default + std::ops::AddAssign>(
        &self,
        has_work: impl Fn(&Container) -> bool,
        step: impl Fn(&Container, &Arc<Partition>) -> Result<T>,
    ) -> Result<T> {
        let mut sum = T::default();
        for container in self.catalog().all_containers() {
            if !has_work(&container) {
                continue;
            }
            for partition in container.partitions().iter() {
                sum += skip_if_moved(step(&container, partition))?;
            }
        }
        Ok(sum)
    }

    /// Runs `change` in a transaction under the writer's lock and waits until the commit is
    /// durable.
    ///
    /// # Errors
    /// 410 if the partition is split or merged, the errors of `change`, and those of the commit.
    fn transaction_step<T>(
        &self,
        container: &Container,
        partition: &Partition,
        change: impl FnOnce(&mut Transaction<'_>, &dyn Snapshot) -> Result<T>,
    ) -> Result<T> {
        // Background writes yield before foreground writes stall.
        self.store.wait_for_compaction();
        let mut writer = partition.lock()?;
        let snapshot = partition.snapshot_with(writer.lsn)?;
        let mut transaction =
            Transaction::begin(container, partition, snapshot.as_ref(), self.world());
        let result = change(&mut transaction, snapshot.as_ref())?;
        let commit = transaction.commit(&mut writer, None)?;
        drop(writer);
        if let Some(commit) = commit {
            wait_durable(partition, commit)?;
        }
        Ok(result)
    }
}
