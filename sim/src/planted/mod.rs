//! The store of a world, with room for one planted fault.
//!
//! The store is a [`Crashing`] one in memory, or one in files that crashes too. A self-test plants
//! a fault in it and expects that the checkers find the fault; without a fault every call is handed
//! on as it is.

mod rows;

pub use rows::RowFault;

use crate::{Checked, Plan};
use orrery_model::sync::lock;
use orrery_storage::testing::Crashing;
use orrery_storage::{
    Capabilities, Checkpoint, Commit, CommitOutcome, Lease, PartitionId, Receipt, Snapshot, Store,
    StoreError,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first byte of the keys of index entries.
const INDEX_TAG: u8 = 0x80;
/// The first byte of the rows of the change feed (`core/engine/src/partition/keys.rs`).
const FEED_TAG: u8 = 0x14;
/// Commits of items between two at which a fault shows.
const EVERY: u64 = 7;
/// The same for commits with a row of one kind, of which some kinds are seldom.
const EVERY_OF_KIND: u64 = 3;

/// A fault that a self-test plants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedFault {
    /// The store drops the deletes of index entries of some commits.
    IndexDeleteDropped,
    /// The store answers some commits `Ok` and keeps nothing of them but their place.
    CommitLost,
    /// The store drops the row of the change feed of some commits.
    FeedRowDropped,
    /// The client carries out the operations of a batch one by one.
    BatchInHalf,
    /// The store answers every commit before it is durable.
    AnsweredEarly,
    /// The store writes or deletes a row of one kind wrongly in some commits.
    Row(RowFault),
}

/// A store that crashes when a world says so.
pub(crate) trait CrashStore: Store {
    /// Returns true if the store has crashed.
    fn has_crashed(&self) -> bool;

    /// Crashes now.
    fn crash(&self);

    /// Arranges that the store crashes after this number of further steps, or does not.
    fn crash_after(&self, steps: Option<u64>);

    /// Returns what is there after a crash, as a store that does not crash yet. Crashes this store
    /// if it has not crashed.
    ///
    /// # Errors
    /// When the store does not open.
    fn reopen(&self) -> Checked<Box<dyn CrashStore>>;
}

impl CrashStore for Crashing {
    fn has_crashed(&self) -> bool {
        Crashing::has_crashed(self)
    }

    fn crash(&self) {
        Crashing::crash(self);
    }

    fn crash_after(&self, steps: Option<u64>) {
        Crashing::crash_after(self, steps);
    }

    fn reopen(&self) -> Checked<Box<dyn CrashStore>> {
        Ok(Box::new(Crashing::reopen(self, None)))
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
fn on_files(seed: u64) -> Checked<Box<dyn CrashStore>> {
    Ok(Box::new(crate::files::Files::new(seed)?))
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
fn on_files(_seed: u64) -> Checked<Box<dyn CrashStore>> {
    Err("there is no simulated disk on this system".to_owned())
}

/// The store. The module header describes it.
pub(crate) struct Planted {
    inner: Box<dyn CrashStore>,
    fault: Option<PlantedFault>,
    commits: AtomicU64,
    /// Receipts of commits that were answered early. A receipt that is dropped would be flushed.
    unanswered: Mutex<Vec<Receipt>>,
}

impl Planted {
    /// Creates the empty store of a plan.
    ///
    /// # Errors
    /// When the files of a store cannot be created.
    pub(crate) fn new(plan: &Plan) -> Checked<Planted> {
        let inner: Box<dyn CrashStore> = match plan.is_on_files {
            true => on_files(plan.seed)?,
            false => Box::new(Crashing::new(None)),
        };
        Ok(Planted::over(inner, plan.fault))
    }

    fn over(inner: Box<dyn CrashStore>, fault: Option<PlantedFault>) -> Planted {
        Planted {
            inner,
            fault,
            commits: AtomicU64::new(0),
            unanswered: Mutex::default(),
        }
    }

    /// Returns true if the store has crashed.
    pub(crate) fn has_crashed(&self) -> bool {
        self.inner.has_crashed()
    }

    /// Crashes now.
    pub(crate) fn crash(&self) {
        self.inner.crash();
    }

    /// Arranges that the store crashes after this number of further steps, or does not.
    pub(crate) fn crash_after(&self, steps: Option<u64>) {
        self.inner.crash_after(steps);
    }

    /// Returns what is durable, as a store that does not crash yet.
    ///
    /// # Errors
    /// As [`CrashStore::reopen`].
    pub(crate) fn reopen(&self) -> Checked<Planted> {
        Ok(Planted::over(self.inner.reopen()?, self.fault))
    }

    /// Returns true if the planted fault shows at this commit.
    fn is_hit(&self, commit: &Commit) -> bool {
        let writes_items = commit.puts.iter().any(|(key, _)| key[0] == FEED_TAG);
        writes_items && self.commits.fetch_add(1, Ordering::SeqCst) % EVERY == EVERY - 1
    }
}

impl Store for Planted {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        self.inner.open(partition)
    }

    fn submit(&self, lease: &Lease, mut commit: Commit) -> Receipt {
        match self.fault {
            Some(PlantedFault::IndexDeleteDropped) if self.is_hit(&commit) => {
                commit.deletes.retain(|key| key[0] < INDEX_TAG);
            }
            Some(PlantedFault::FeedRowDropped) if self.is_hit(&commit) => {
                commit.puts.retain(|(key, _)| key[0] != FEED_TAG);
            }
            Some(PlantedFault::CommitLost) if self.is_hit(&commit) => {
                commit.puts.clear();
                commit.deletes.clear();
                commit.range_deletes.clear();
            }
            Some(PlantedFault::Row(fault)) if fault.concerns(lease.partition(), &commit) => {
                let number = self.commits.fetch_add(1, Ordering::SeqCst);
                if number % EVERY_OF_KIND == EVERY_OF_KIND - 1 {
                    fault.apply(&mut commit);
                }
            }
            Some(PlantedFault::AnsweredEarly) => {
                let receipt = self.inner.submit(lease, commit);
                if let Some(refusal) = receipt.refusal() {
                    return Receipt::ready(refusal);
                }
                lock(&self.unanswered).push(receipt);
                return Receipt::ready(CommitOutcome::Ok);
            }
            _ => {}
        }
        self.inner.submit(lease, commit)
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        self.inner.snapshot(partition)
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.inner.destroy(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn barrier(&self, partition: PartitionId) -> Receipt {
        match self.fault {
            Some(PlantedFault::AnsweredEarly) => Receipt::ready(CommitOutcome::Ok),
            _ => self.inner.barrier(partition),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn partitions(&self) -> Result<Option<Vec<PartitionId>>, StoreError> {
        self.inner.partitions()
    }

    fn approximate_bytes(&self) -> u64 {
        self.inner.approximate_bytes()
    }

    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        self.inner.checkpoint()
    }
}
