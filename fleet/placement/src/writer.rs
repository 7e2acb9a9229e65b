//! Commits of one writer that knows the outcome of each.
//!
//! The writer gives every commit a token that no other writer gives. So the head of the partition,
//! read by opening the partition again, tells the outcome of an unanswered commit: the head is the
//! attempted one, or the one before, or another process has written.

use orrery_storage::{Commit, CommitOutcome, Head, Lease, PartitionId, Store, StoreError, Token};
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::cluster::{RETRY_MS, failed, for_now};
use crate::patience::Patience;

/// Attempts at one commit that end with a fenced lease or an unknown outcome.
const MOST_OPENS: usize = 8;

/// A source of tokens: eight random bytes of the source, and a number.
pub(crate) struct Tokens {
    source: u64,
    next: u64,
}

impl Tokens {
    pub(crate) fn new() -> Tokens {
        Tokens {
            source: RandomState::new().build_hasher().finish(),
            next: 0,
        }
    }

    /// Creates a source whose tokens begin with a mark in place of the random bytes.
    pub(crate) fn marked(mark: [u8; 8]) -> Tokens {
        Tokens {
            source: u64::from_be_bytes(mark),
            next: RandomState::new().build_hasher().finish() & (u64::MAX >> 1),
        }
    }

    pub(crate) fn next(&mut self) -> Token {
        self.next += 1;
        let mut token = [0; 16];
        token[..8].copy_from_slice(&self.source.to_be_bytes());
        token[8..].copy_from_slice(&self.next.to_be_bytes());
        token
    }
}

/// The only writer of a partition.
pub(crate) struct Writer {
    cluster: String,
    lease: Lease,
    head: Head,
    /// The head of a commit whose outcome is unknown.
    doubt: Option<Head>,
    /// Another process has written the partition.
    is_taken: bool,
}

impl Writer {
    /// Opens a partition of a cluster.
    ///
    /// # Errors
    /// That of the store.
    pub(crate) fn open(
        store: &dyn Store,
        cluster: &str,
        partition: PartitionId,
    ) -> Result<Writer, StoreError> {
        let lease = store.open(partition)?;
        Ok(Writer {
            cluster: cluster.to_owned(),
            head: lease.head(),
            lease,
            doubt: None,
            is_taken: false,
        })
    }

    /// Returns the last commit that is known to be durable.
    pub(crate) fn head(&self) -> Head {
        self.head
    }

    /// Returns the lease of the last open.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns true if the outcome of the last commit is not known yet.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Returns true if another process has written the partition. It stays so.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// Commits changes, after which the head is `new_head`.
    ///
    /// # Errors
    /// Nothing was done, unless [`Writer::is_in_doubt`]: then the commit may have happened, and
    /// [`Writer::resolve`] tells.
    pub(crate) fn commit(
        &mut self,
        store: &dyn Store,
        changes: Commit,
        new_head: Head,
        patience: &Patience<'_>,
    ) -> Result<(), StoreError> {
        self.resolve(store, patience)?;
        let commit = Commit {
            expect_lsn: self.head.lsn,
            new_lsn: new_head.lsn,
            token: new_head.token,
            ..changes
        };
        let mut opens = 0;
        loop {
            let outcome = store.submit(&self.lease, commit.clone()).wait();
            let retry_after_ms = match outcome {
                CommitOutcome::Ok => {
                    self.head = new_head;
                    return Ok(());
                }
                // A store that has reopened itself fences leases too. The head tells if another
                // process has written.
                CommitOutcome::Unknown | CommitOutcome::Fenced if opens < MOST_OPENS => {
                    opens += 1;
                    self.doubt = Some(new_head);
                    self.resolve(store, patience)?;
                    if self.head == new_head {
                        return Ok(());
                    }
                    continue;
                }
                CommitOutcome::Busy { retry_after_ms }
                | CommitOutcome::Unavailable { retry_after_ms }
                | CommitOutcome::StorageFull { retry_after_ms } => retry_after_ms,
                refused => {
                    return Err(failed(&self.cluster, self.about(&format!("{refused:?}"))));
                }
            };
            if !patience.wait(retry_after_ms) {
                return Err(for_now(&self.cluster, self.about(&format!("{outcome:?}"))));
            }
        }
    }

    /// Finds out the outcome of the last commit if it is not known.
    ///
    /// # Errors
    /// When the partition cannot be opened, or another process has written it.
    pub(crate) fn resolve(
        &mut self,
        store: &dyn Store,
        patience: &Patience<'_>,
    ) -> Result<(), StoreError> {
        if self.is_taken {
            return Err(self.taken());
        }
        let Some(attempted) = self.doubt else {
            return Ok(());
        };
        let partition = self.lease.partition();
        let lease = patience.repeat(|| store.open(partition))?;
        let found = lease.head();
        if found != attempted && found != self.head {
            self.is_taken = true;
            self.doubt = None;
            return Err(self.taken());
        }
        self.lease = lease;
        self.head = found;
        self.doubt = None;
        Ok(())
    }

    fn about(&self, answer: &str) -> String {
        let partition = self.lease.partition();
        format!("a commit to partition {partition} was answered with {answer}")
    }

    /// The error is one that another attempt may pass: another process answers the next one.
    fn taken(&self) -> StoreError {
        let partition = self.lease.partition();
        for_now(
            &self.cluster,
            format!("another process writes partition {partition}, so this process must end"),
        )
    }
}

/// Returns the outcome for a caller whose commit cannot be taken for a moment.
pub(crate) fn unavailable() -> CommitOutcome {
    CommitOutcome::Unavailable {
        retry_after_ms: RETRY_MS,
    }
}
