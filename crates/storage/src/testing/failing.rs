//! A store that fails at a chosen write.
//!
//! Writes are counted: each `open`, `submit`, `destroy` and `sync` is one. From the chosen one on the store is broken, as
//! a real one is after a failed sync: nothing is written any more until [`Failing::heal`], which stands for opening it
//! again. Reads go on. Whoever finds an unknown outcome after that must open the partition and look.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::StoreError;
use crate::receipt::Receipt;
use crate::store::{Capabilities, Commit, CommitOutcome, Lease, PartitionId, Snapshot, Store};

const RETRY_MS: u64 = 1_000;

/// What happens to the commit that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The write is refused: `Unavailable`, nothing done.
    Refused,
    /// The write is turned away, for once: `Busy`, nothing done. Nothing is broken.
    Busy,
    /// The sync fails and the commit is lost: `Unknown`.
    Lost,
    /// The sync fails, or its answer does, and the commit is there: `Unknown`.
    Applied,
}

/// Wraps a store. The module header says how it fails.
pub struct Failing<S> {
    inner: S,
    fault: Fault,
    /// Writes until the failure; `u64::MAX` for never.
    left: AtomicU64,
    broken: AtomicBool,
}

impl<S: Store> Failing<S> {
    /// Lets `writes` writes pass and fails the next.
    pub fn after(writes: u64, fault: Fault, inner: S) -> Failing<S> {
        Failing {
            inner,
            fault,
            left: AtomicU64::new(writes),
            broken: AtomicBool::new(false),
        }
    }

    /// Whether the failure has happened and was not healed.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Fails at the next write.
    pub fn strike_next(&self) {
        self.strike_after(0);
    }

    /// Lets so many further writes pass and fails the next.
    pub fn strike_after(&self, writes: u64) {
        self.left.store(writes, Ordering::SeqCst);
    }

    /// Ends the failure; no other follows.
    pub fn heal(&self) {
        self.left.store(u64::MAX, Ordering::SeqCst);
        self.broken.store(false, Ordering::SeqCst);
    }

    /// Counts a write; true if it is the one that fails.
    fn strikes(&self) -> bool {
        let count = |left: u64| {
            if left == u64::MAX {
                None
            } else {
                Some(left.wrapping_sub(1))
            }
        };
        let strikes = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, count)
            == Ok(0);
        if strikes {
            self.broken.store(true, Ordering::SeqCst);
        }
        strikes
    }

    fn guard(&self) -> Result<(), StoreError> {
        if self.is_broken() || self.strikes() {
            return Err(StoreError::Poisoned {
                detail: format!("planned failure: {:?}", self.fault),
            });
        }
        Ok(())
    }
}

impl<S: Store> Store for Failing<S> {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        self.guard()?;
        self.inner.open(partition)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let unavailable = Receipt::ready(CommitOutcome::Unavailable {
            retry_after_ms: RETRY_MS,
        });
        if self.is_broken() {
            return unavailable;
        }
        if !self.strikes() {
            return self.inner.submit(lease, commit);
        }
        match self.fault {
            Fault::Refused => unavailable,
            Fault::Busy => {
                self.heal();
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
        self.guard()?;
        self.inner.destroy(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.guard()?;
        self.inner.sync()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn approximate_bytes(&self) -> u64 {
        self.inner.approximate_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn it_fails_at_the_chosen_write_and_stays_broken_until_healed() {
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
            store.heal();
            assert_eq!(store.open(partition).unwrap().head().lsn, head, "{fault:?}");
        }
    }
}
