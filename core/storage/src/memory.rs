//! A store in memory, for `--memory` and for tests.
//!
//! The rows of a partition are in blocks of some kilobytes, sorted and with compressed keys
//! (`memory/block.rs`). An item has many short rows, so the memory that a row takes beside its
//! bytes decides how many items fit. A commit replaces the blocks that it touches; the blocks
//! before stay for the snapshots that see them (`memory/rows.rs`).
//!
//! Commits count as durable at once, although they are lost with the process. Partitions have locks
//! of their own: a commit excludes reads of its partition while it is applied, and a snapshot holds
//! no lock. The store has no threads; a commit, and the end of a snapshot, release the memory that
//! is no longer needed.
//!
//! Locks are taken in this order: the list of partitions, the rows of a partition, then ownership
//! or the live snapshots.

mod block;
mod rows;

use std::collections::HashMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, RwLock};

use orrery_model::sync::{lock, read, write};

use crate::commit::{Commit, CommitOutcome, Head, PartitionId};
use crate::error::StoreError;
use crate::ownership::{OwnershipTable, check_partition};
use crate::receipt::Receipt;
use crate::store::{
    Bytes, Capabilities, Direction, KeyRange, Keys, Lease, Rows as StoreRows, Snapshot, Store,
    is_empty_range,
};
use block::{BackwardRows, BlockRows};
use rows::{LiveSnapshots, QUEUE_PIECE, Rows};

/// The memory engine.
#[derive(Default)]
pub struct MemoryStore {
    partitions: RwLock<HashMap<PartitionId, Arc<Partition>>>,
    ownership: Mutex<OwnershipTable>,
}

#[derive(Default)]
struct Partition {
    rows: RwLock<Rows>,
    /// A snapshot is added while `rows` is locked for reading, so none appears during a commit.
    live: Mutex<LiveSnapshots>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Returns a copy of the ownership table, for an engine that keeps its durable image here.
    pub(crate) fn ownership(&self) -> OwnershipTable {
        lock(&self.ownership).clone()
    }

    /// Returns a partition that was opened and not destroyed.
    fn partition(&self, partition: PartitionId) -> Option<Arc<Partition>> {
        read(&self.partitions).get(&partition).cloned()
    }
}

impl Store for MemoryStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        check_partition(partition)?;
        let mut partitions = write(&self.partitions);
        let opened = partitions.entry(partition).or_default();
        // Promise 4: a commit that was accepted is visible before the partition is opened.
        let _rows = write(&opened.rows);
        Ok(lock(&self.ownership).raise_epoch(partition))
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let within_limits = self.limits().admit(&commit);
        let Some(partition) = self.partition(lease.partition()) else {
            return Receipt::ready(CommitOutcome::Fenced);
        };
        let mut rows = write(&partition.rows);
        let accepted = lock(&self.ownership).accept(
            lease,
            commit.expect_lsn,
            commit.new_head(),
            within_limits,
        );
        if let Err(refusal) = accepted {
            return Receipt::ready(refusal);
        }
        // From here on nothing can fail: a panic would leave half a commit.
        let live = lock(&partition.live).lsns();
        rows.apply(commit, &live);
        Receipt::ready(CommitOutcome::Ok)
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        check_partition(partition)?;
        let partition = self.partition(partition).unwrap_or_default();
        let head = {
            let rows = read(&partition.rows);
            lock(&partition.live).add(rows.head().lsn);
            rows.head()
        };
        Ok(Box::new(MemorySnapshot { partition, head }))
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        check_partition(partition)?;
        let destroyed = {
            let mut partitions = write(&self.partitions);
            let destroyed = partitions.remove(&partition);
            let _rows = destroyed.as_ref().map(|destroyed| write(&destroyed.rows));
            lock(&self.ownership).remove(partition);
            destroyed.clone()
        };
        // The rows are freed here, without a lock, unless a snapshot still reads them.
        drop(destroyed);
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: false,
            long_snapshots: true,
            followers: false,
            remote: false,
        }
    }

    fn partitions(&self) -> Result<Option<Vec<PartitionId>>, StoreError> {
        Ok(Some(lock(&self.ownership).partitions()))
    }

    fn approximate_bytes(&self) -> u64 {
        let partitions: Vec<_> = read(&self.partitions).values().cloned().collect();
        let bytes = partitions.iter().map(|p| read(&p.rows).bytes() as u64);
        bytes.sum()
    }
}

/// A partition as of one commit. The partition keeps what the snapshot sees while it lives.
struct MemorySnapshot {
    partition: Arc<Partition>,
    head: Head,
}

impl MemorySnapshot {
    /// Returns a scan of which nothing is read yet.
    fn scan_of(&self, range: KeyRange<'_>) -> Scan<'_> {
        Scan {
            snapshot: self,
            start: range.0.map(Vec::from),
            end: range.1.map(Vec::from),
        }
    }

    fn forward(&self, range: KeyRange<'_>) -> ForwardRows<'_> {
        ForwardRows {
            scan: self.scan_of(range),
            block: None,
        }
    }

    fn reverse(&self, range: KeyRange<'_>) -> ReverseRows<'_> {
        ReverseRows {
            scan: self.scan_of(range),
            block: None,
        }
    }
}

impl Snapshot for MemorySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        // The block is searched after the lock is released.
        let block = read(&self.partition.rows).block_of(key, self.head.lsn);
        Ok(block.get(key))
    }

    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> StoreRows<'_> {
        match direction {
            Direction::Forward => Box::new(self.forward(range)),
            Direction::Reverse => Box::new(self.reverse(range)),
        }
    }

    fn scan_keys(&self, range: KeyRange<'_>, direction: Direction) -> Box<dyn Keys + '_> {
        match direction {
            Direction::Forward => Box::new(self.forward(range)),
            Direction::Reverse => Box::new(self.reverse(range)),
        }
    }

    fn head(&self) -> Head {
        self.head
    }
}

impl Drop for MemorySnapshot {
    fn drop(&mut self) {
        if !lock(&self.partition.live).remove(self.head.lsn) {
            return;
        }
        // The lock is released between the pieces, so that requests are not held up.
        loop {
            let mut rows = write(&self.partition.rows);
            let live = lock(&self.partition.live).lsns();
            if !rows.work_off(&live, QUEUE_PIECE) {
                return;
            }
        }
    }
}

/// A scan, with the range that is not read yet.
struct Scan<'a> {
    snapshot: &'a MemorySnapshot,
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
}

impl Scan<'_> {
    /// Reads from the rows of the partition, unless the range is empty.
    fn read<T>(&self, read_range: impl FnOnce(&Rows, KeyRange<'_>) -> T) -> Option<T> {
        let range = (
            self.start.as_ref().map(Vec::as_slice),
            self.end.as_ref().map(Vec::as_slice),
        );
        if is_empty_range(&range) {
            return None;
        }
        Some(read_range(&read(&self.snapshot.partition.rows), range))
    }

    fn is_beyond_end(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Included(end) => key > end.as_slice(),
            Bound::Excluded(end) => key >= end.as_slice(),
            Bound::Unbounded => false,
        }
    }
}

struct ForwardRows<'a> {
    scan: Scan<'a>,
    /// The rows of the block that is being read.
    block: Option<BlockRows>,
}

impl ForwardRows<'_> {
    /// Moves over the next row. Returns the block, which has its key, and the place of its value.
    fn advance(&mut self) -> Option<(&BlockRows, Range<usize>)> {
        loop {
            let Some(block) = &mut self.block else {
                let lsn = self.scan.snapshot.head.lsn;
                let found = self.scan.read(|rows, range| rows.first_rows(range, lsn));
                self.block = Some(found.flatten()?);
                continue;
            };
            if let Some(value) = block.advance() {
                if self.scan.is_beyond_end(block.key()) {
                    // The next call finds an empty range.
                    self.scan.start = Bound::Excluded(block.key().to_vec());
                    self.block = None;
                    return None;
                }
                return self.block.as_ref().map(|block| (block, value));
            }
            if let Some(finished) = self.block.take() {
                self.scan.start = Bound::Excluded(finished.last_key());
            }
        }
    }
}

impl Iterator for ForwardRows<'_> {
    type Item = Result<(Bytes, Bytes), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (block, value) = self.advance()?;
        Some(Ok(block.shared(value)))
    }
}

impl Keys for ForwardRows<'_> {
    fn next_key(&mut self) -> Option<Result<&[u8], StoreError>> {
        let (block, _) = self.advance()?;
        Some(Ok(block.key()))
    }
}

struct ReverseRows<'a> {
    scan: Scan<'a>,
    /// The rows of the block that is being read.
    block: Option<BackwardRows>,
}

impl ReverseRows<'_> {
    /// Returns the block that is being read, or the next one with rows, whose keys are taken out of
    /// the range.
    fn current_block(&mut self) -> Option<&mut BackwardRows> {
        let is_read = |block: &BackwardRows| block.lowest_key().is_none();
        if self.block.as_ref().is_none_or(is_read) {
            let lsn = self.scan.snapshot.head.lsn;
            let found = self.scan.read(|rows, range| rows.last_rows(range, lsn));
            let block = found.flatten()?;
            self.scan.end = Bound::Excluded(block.lowest_key()?.to_vec());
            self.block = Some(block);
        }
        self.block.as_mut()
    }
}

impl Iterator for ReverseRows<'_> {
    type Item = Result<(Bytes, Bytes), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.current_block()?;
        block.next_row().map(Ok)
    }
}

impl Keys for ReverseRows<'_> {
    fn next_key(&mut self) -> Option<Result<&[u8], StoreError>> {
        let block = self.current_block()?;
        block.next_key().map(Ok)
    }
}
