//! Writing to a home in the store that belongs to nobody: to fill it with a copy before a partition lives there, and to
//! empty it when none does any more.
//!
//! What is put and deleted is gathered and goes to the store in commits of bounded size, in order, under a lease of its
//! own. A process that ends on the way leaves a home that still belongs to nobody.

use crate::errors::{outcome_error, storage_failure};
use crate::partition::token_of;
use orrery_model::Result;
use orrery_model::world::World;
use orrery_storage::{Commit, Lease, PartitionId, Receipt, Snapshot, Store};
use std::sync::Arc;

/// Most bytes and rows of one commit.
const COMMIT_BYTES: usize = 4 << 20;
const COMMIT_ROWS: usize = 50_000;

/// The one who writes to a home.
pub struct StagingWriter {
    store: Arc<dyn Store>,
    world: Arc<dyn World>,
    lease: Lease,
    /// LSN of the last commit.
    lsn: u64,
    /// Gathered and in nobody's hands yet.
    gathered: Commit,
    gathered_bytes: usize,
    receipts: Vec<Receipt>,
}

impl StagingWriter {
    /// Takes a home over: whoever wrote to it before cannot any more.
    ///
    /// # Errors
    /// What the store reports.
    pub fn open(store: &Arc<dyn Store>, world: &Arc<dyn World>, home: PartitionId) -> Result<Self> {
        let lease = store.open(home).map_err(storage_failure)?;
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

    /// Which home it is.
    pub fn home(&self) -> PartitionId {
        self.lease.partition()
    }

    /// LSN of the last commit.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// What is durable in it.
    ///
    /// # Errors
    /// What the store reports.
    pub fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.store.snapshot(self.home()).map_err(storage_failure)
    }

    /// Bytes that wait for a commit.
    pub fn gathered_bytes(&self) -> usize {
        self.gathered_bytes
    }

    /// Writes a row. Of several for one key in one commit the last counts, and a put wins over a deletion.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.make_room();
        self.gathered_bytes += key.len() + value.len();
        self.gathered.puts.push((key, value));
    }

    /// Removes a row.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.make_room();
        self.gathered_bytes += key.len();
        self.gathered.deletes.push(key);
    }

    /// Hands over what is gathered, as a commit with this LSN or the next one, whichever is higher.
    pub fn submit(&mut self, least_lsn: u64) {
        let new_lsn = least_lsn.max(self.lsn + 1);
        let token = token_of(new_lsn, self.world.random());
        let gathered = std::mem::take(&mut self.gathered);
        let commit = Commit {
            expect_lsn: self.lsn,
            new_lsn,
            token,
            ..gathered
        };
        self.receipts.push(self.store.submit(&self.lease, commit));
        (self.lsn, self.gathered_bytes) = (new_lsn, 0);
    }

    /// Hands over what is gathered, if anything is.
    pub fn flush(&mut self) {
        if self.gathered_bytes > 0 {
            self.submit(0);
        }
    }

    /// Waits until all that was handed over is durable.
    ///
    /// # Errors
    /// What the store reports of the first that is not.
    pub fn settle(&mut self) -> Result<()> {
        durable(self.receipts.drain(..))
    }

    fn make_room(&mut self) {
        let rows = self.gathered.puts.len() + self.gathered.deletes.len();
        if self.gathered_bytes >= COMMIT_BYTES || rows >= COMMIT_ROWS {
            self.flush();
        }
    }
}

/// Waits until commits are durable.
///
/// # Errors
/// What the store reports of the first that is not.
pub fn durable(receipts: impl IntoIterator<Item = Receipt>) -> Result<()> {
    // All are waited for, whatever becomes of the first: nothing is under way afterwards.
    let outcomes: Vec<_> = receipts.into_iter().map(Receipt::wait).collect();
    outcomes.iter().find_map(outcome_error).map_or(Ok(()), Err)
}
