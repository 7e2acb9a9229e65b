//! Writing to a key space of the store that belongs to no partition: to fill it with a copy before
//! a partition uses it, and to empty it when no partition does any more.
//!
//! Rows are gathered and go to the store in commits of bounded size, in order, under a lease of
//! their own. A process that ends on the way leaves a key space that still belongs to no partition;
//! the catalog destroys it at the next start.

use crate::errors::{outcome_error, storage_failure};
use crate::partition::token_of;
use orrery_model::Result;
use orrery_model::world::World;
use orrery_storage::{Commit, Lease, PartitionId, Receipt, Snapshot, Store};
use std::sync::Arc;

/// Bytes of gathered rows from which on they are submitted as a commit.
const COMMIT_BYTES: usize = 4 << 20;
/// Gathered rows from which on they are submitted as a commit.
const COMMIT_ROWS: usize = 50_000;

/// The writer of a key space that belongs to no partition.
pub(crate) struct StagingWriter {
    store: Arc<dyn Store>,
    world: Arc<dyn World>,
    lease: Lease,
    /// LSN of the last commit.
    lsn: u64,
    /// Rows that are not submitted yet.
    gathered: Commit,
    gathered_bytes: usize,
    /// Commits that are submitted and not waited for yet.
    receipts: Vec<Receipt>,
}

impl StagingWriter {
    /// Opens a key space under a new lease, which stops every earlier writer.
    ///
    /// # Errors
    /// 500 if the store cannot be opened.
    pub(crate) fn open(
        store: &Arc<dyn Store>,
        world: &Arc<dyn World>,
        storage_id: PartitionId,
    ) -> Result<Self> {
        let lease = store.open(storage_id).map_err(storage_failure)?;
        Ok(StagingWriter {
            store: Arc::clone(store),
            world: Arc::clone(world),
            lsn: lease.head().lsn,
            lease,
            gathered: Commit::default(),
            gathered_bytes: 0,
            receipts: Vec::new(),
        })
    }

    /// Returns the id of the key space.
    pub(crate) fn storage_id(&self) -> PartitionId {
        self.lease.partition()
    }

    /// Returns the LSN of the last commit.
    pub(crate) fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Returns a snapshot of what is durable.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.store
            .snapshot(self.storage_id())
            .map_err(storage_failure)
    }

    /// Returns the bytes of rows that are not submitted yet.
    pub(crate) fn gathered_bytes(&self) -> usize {
        self.gathered_bytes
    }

    /// Writes a row. Of several rows with one key in one commit the last counts, and a row that is
    /// both written and removed is written.
    pub(crate) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.submit_if_full();
        self.gathered_bytes += key.len() + value.len();
        self.gathered.puts.push((key, value));
    }

    /// Removes a row.
    pub(crate) fn delete(&mut self, key: Vec<u8>) {
        self.submit_if_full();
        self.gathered_bytes += key.len();
        self.gathered.deletes.push(key);
    }

    /// Submits the gathered rows as a commit with LSN `lsn_min` or the next LSN, whichever is
    /// higher.
    pub(crate) fn submit(&mut self, lsn_min: u64) {
        let new_lsn = lsn_min.max(self.lsn + 1);
        let token = token_of(new_lsn, self.world.random());
        let gathered = std::mem::take(&mut self.gathered);
        let commit = Commit {
            expect_lsn: self.lsn,
            new_lsn,
            token,
            may_use_reserve: gathered.puts.is_empty(),
            ..gathered
        };
        self.receipts.push(self.store.submit(&self.lease, commit));
        self.lsn = new_lsn;
        self.gathered_bytes = 0;
    }

    /// Submits the gathered rows, if there are any.
    pub(crate) fn flush(&mut self) {
        if self.gathered_bytes > 0 {
            self.submit(0);
        }
    }

    /// Waits until all submitted commits are durable.
    ///
    /// # Errors
    /// The failure of the first commit that failed.
    pub(crate) fn wait_durable(&mut self) -> Result<()> {
        wait_all_durable(self.receipts.drain(..))
    }

    fn submit_if_full(&mut self) {
        let rows = self.gathered.puts.len() + self.gathered.deletes.len();
        if self.gathered_bytes >= COMMIT_BYTES || rows >= COMMIT_ROWS {
            self.flush();
        }
    }
}

/// Waits until all of these commits are durable.
///
/// # Errors
/// The failure of the first commit that failed.
pub(crate) fn wait_all_durable(receipts: impl IntoIterator<Item = Receipt>) -> Result<()> {
    let mut failure = None;
    for receipt in receipts {
        // A failure ends no wait: when this returns, the store is done with every commit.
        let outcome = receipt.wait();
        failure = failure.or_else(|| outcome_error(&outcome));
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
