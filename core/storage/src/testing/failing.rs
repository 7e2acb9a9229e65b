//! A store that fails at a chosen write.
//!
//! Writes are counted: each `open`, `submit`, `destroy`, `sync` and `barrier` is one write. From
//! the chosen write on the store is broken, as a real store is after a failed sync: no write
//! succeeds until [`Failing::repair`], which stands for opening the store again. Reads go on. A
//! caller with an unknown outcome must then open the partition and look for its commit.
//!
//! A test that chooses faults as it goes names each by [`Failing::fail_by`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use orrery_model::sync;

use crate::checkpoint::Checkpoint;
use crate::commit::{Commit, CommitOutcome, PartitionId};
use crate::error::StoreError;
use crate::receipt::Receipt;
use crate::store::{Capabilities, Lease, Snapshot, Store};

/// The `retry_after_ms` of the outcomes that this store makes up.
const RETRY_MS: u64 = 1_000;

/// The fate of the commit at which the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The write is refused: `Unavailable`, nothing done.
    Refused,
    /// The write is refused once: `Busy`, nothing done. The store is not broken.
    Busy,
    /// The disk is full: `StorageFull`, nothing done. Commits that may use the reserve pass.
    Full,
    /// The sync fails and the commit is lost: `Unknown`.
    Lost,
    /// The sync fails, or its answer is lost, and the commit is there: `Unknown`.
    Applied,
}

/// Wraps a store. The module header says how it fails.
pub struct Failing<S> {
    inner: S,
    fault: Mutex<Fault>,
    /// Writes that pass before the failure; `u64::MAX` for no failure.
    writes_left: AtomicU64,
    is_broken: AtomicBool,
}

impl<S: Store> Failing<S> {
    /// Creates a store that lets `writes` writes pass and fails the next one.
    pub fn after(writes: u64, fault: Fault, inner: S) -> Failing<S> {
        Failing {
            inner,
            fault: Mutex::new(fault),
            writes_left: AtomicU64::new(writes),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Returns true if the failure has happened and was not repaired.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst)
    }

    /// Returns the store that this one wraps.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Arranges that `writes` further writes pass and the next one fails in this way.
    pub fn fail_by(&self, fault: Fault, writes: u64) {
        *sync::lock(&self.fault) = fault;
        self.fail_after(writes);
    }

    fn fault(&self) -> Fault {
        *sync::lock(&self.fault)
    }

    /// Arranges that the next write fails.
    pub fn fail_next(&self) {
        self.fail_after(0);
    }

    /// Arranges that `writes` further writes pass and the next one fails.
    pub fn fail_after(&self, writes: u64) {
        self.writes_left.store(writes, Ordering::SeqCst);
    }

    /// Ends the failure. No further failure follows unless it is arranged.
    pub fn repair(&self) {
        self.writes_left.store(u64::MAX, Ordering::SeqCst);
        self.is_broken.store(false, Ordering::SeqCst);
    }

    /// Counts a write. Returns true if it is the one that fails.
    fn fails_now(&self) -> bool {
        let count = |left: u64| {
            if left == u64::MAX {
                None
            } else {
                Some(left.wrapping_sub(1))
            }
        };
        let fails_now = self
            .writes_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, count)
            == Ok(0);
        if fails_now {
            self.is_broken.store(true, Ordering::SeqCst);
        }
        fails_now
    }

    /// Counts a write, and fails if the store is broken.
    fn check_write(&self) -> Result<(), StoreError> {
        if self.is_broken() || self.fails_now() {
            if self.fault() == Fault::Full {
                return Err(StoreError::Unavailable {
                    reason: "the disk is full",
                    retry_after_ms: RETRY_MS,
                    is_full: true,
                });
            }
            return Err(StoreError::Poisoned {
                detail: format!("planned failure: {:?}", self.fault()),
            });
        }
        Ok(())
    }
}

impl<S: Store> Store for Failing<S> {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        self.check_write()?;
        self.inner.open(partition)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let unavailable = Receipt::ready(CommitOutcome::Unavailable {
            retry_after_ms: RETRY_MS,
        });
        let full = CommitOutcome::StorageFull {
            retry_after_ms: RETRY_MS,
        };
        let is_full = self.fault() == Fault::Full;
        let was_broken = self.is_broken();
        if (was_broken || self.fails_now()) && is_full {
            return match commit.may_use_reserve {
                true => self.inner.submit(lease, commit),
                false => Receipt::ready(full),
            };
        }
        if was_broken {
            return unavailable;
        }
        if !self.is_broken() {
            return self.inner.submit(lease, commit);
        }
        match self.fault() {
            Fault::Refused | Fault::Full => unavailable,
            Fault::Busy => {
                self.repair();
                Receipt::ready(CommitOutcome::Busy {
                    retry_after_ms: RETRY_MS,
                })
            }
            Fault::Lost => Receipt::ready(CommitOutcome::Unknown),
            Fault::Applied => Receipt::ready(match self.inner.submit(lease, commit).wait() {
                CommitOutcome::Ok => CommitOutcome::Unknown,
                refusal => refusal,
            }),
        }
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        self.inner.snapshot(partition)
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.check_write()?;
        self.inner.destroy(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.check_write()?;
        self.inner.sync()
    }

    fn barrier(&self, partition: PartitionId) -> Receipt {
        match self.check_write() {
            Ok(()) => self.inner.barrier(partition),
            Err(_) => Receipt::ready(CommitOutcome::Unknown),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn the_store_fails_at_the_chosen_write_and_stays_broken_until_repaired() {
        for (fault, outcome, head) in [
            (
                Fault::Refused,
                CommitOutcome::Unavailable {
                    retry_after_ms: RETRY_MS,
                },
                1,
            ),
            (Fault::Lost, CommitOutcome::Unknown, 1),
            (Fault::Applied, CommitOutcome::Unknown, 2),
        ] {
            let store = Failing::after(2, fault, MemoryStore::new());
            let partition = PartitionId(1);
            let lease = store.open(partition).unwrap();
            let commit = |n| Commit {
                expect_lsn: n,
                new_lsn: n + 1,
                ..Commit::default()
            };
            assert_eq!(store.submit(&lease, commit(0)).wait(), CommitOutcome::Ok);
            assert_eq!(store.submit(&lease, commit(1)).wait(), outcome);
            assert_eq!(
                store.submit(&lease, commit(1)).wait(),
                CommitOutcome::Unavailable {
                    retry_after_ms: RETRY_MS
                },
                "{fault:?}"
            );
            assert!(store.open(partition).is_err() && store.sync().is_err());
            store.repair();
            assert_eq!(store.open(partition).unwrap().head().lsn, head, "{fault:?}");
        }
    }
}
