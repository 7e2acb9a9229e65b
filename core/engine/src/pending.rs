//! Answers that wait until a commit is durable.
//!
//! A write is *submitted* when its commit has an LSN and is in the store's hands, and *durable*
//! when the commit is on disk. The engine returns as soon as a write is submitted, so that one sync
//! serves many writes; [`Pending`] is the answer in between. A thread waits with [`Pending::wait`],
//! async code awaits it.
//!
//! An answer without a commit of its own may follow from a commit of another request, as 409 for an
//! id that an item has since a moment ago. It waits for that commit, and is not given if the commit
//! fails.
//!
//! Promises: no answer is released before its commit is durable, nor before the last commit is from
//! which it follows; an outcome that the store does not know is looked up in the commit log before
//! the client is told anything.

use crate::partition::{CommitAttempt, Partition, SubmittedCommit};
use crate::request::{BatchAnswer, BatchReply, Outcome, Position};
use orrery_model::work::Work;
use orrery_model::{Error, Kind};
use orrery_storage::{CommitOutcome, Receipt};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The answer of a request that may still wait for a commit. Answer the client only after
/// [`Pending::wait`], or after awaiting it.
///
/// Dropping it does not undo the write.
#[must_use = "the client may be answered only when the write is durable"]
pub struct Pending<T> {
    awaited: Option<Awaited>,
    outcome: Option<Outcome<T>>,
}

/// A commit for which an answer waits.
struct Awaited {
    /// Answers when the store is done with the commit.
    receipt: Receipt,
    commit: AwaitedCommit,
}

/// The commit itself.
struct AwaitedCommit {
    attempt: CommitAttempt,
    partition: Arc<Partition>,
    /// True for the commit of the request, false for one of another request.
    is_own: bool,
}

impl<T> Pending<T> {
    /// Creates an answer that waits for a commit of `partition`.
    pub(crate) fn new(
        commit: SubmittedCommit,
        partition: Arc<Partition>,
        outcome: Outcome<T>,
    ) -> Self {
        let SubmittedCommit { receipt, attempt } = commit;
        let commit = AwaitedCommit {
            attempt,
            partition,
            is_own: true,
        };
        Pending {
            awaited: Some(Awaited { receipt, commit }),
            outcome: Some(outcome),
        }
    }

    /// Creates an answer that follows from the commit `attempt` of another request to `partition`.
    pub(crate) fn resting_on(
        attempt: CommitAttempt,
        partition: Arc<Partition>,
        outcome: Outcome<T>,
    ) -> Self {
        let receipt = partition.barrier();
        let commit = AwaitedCommit {
            attempt,
            partition,
            is_own: false,
        };
        // A store on other machines has kept its caller waiting. What follows may do so again, so
        // it takes place here and not where the answer is polled.
        if let Some(answer) = receipt.answer() {
            return Pending::ready(conclude(outcome, answer, &commit));
        }
        Pending {
            awaited: Some(Awaited { receipt, commit }),
            outcome: Some(outcome),
        }
    }

    /// Creates an answer that waits for nothing.
    pub(crate) fn ready(outcome: Outcome<T>) -> Self {
        Pending {
            awaited: None,
            outcome: Some(outcome),
        }
    }

    /// Returns true if the request was refused, so that nothing was submitted.
    pub fn is_refused(&self) -> bool {
        self.refusal().is_some()
    }

    /// Returns the error of a request that was refused, so that nothing was submitted. The answer
    /// has another error if the commit fails from which the refusal follows.
    pub fn refusal(&self) -> Option<&Error> {
        self.outcome.as_ref()?.result.as_ref().err()
    }

    /// Blocks until the commit is durable.
    pub fn wait(mut self) -> Outcome<T> {
        let outcome = self.outcome.take().expect("taken once");
        match self.awaited.take() {
            Some(Awaited { receipt, commit }) => conclude(outcome, receipt.wait(), &commit),
            None => outcome,
        }
    }
}

impl<T: Unpin> Future for Pending<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        let mut committed = None;
        if let Some(awaited) = &mut self.awaited {
            let Poll::Ready(answer) = Pin::new(&mut awaited.receipt).poll(context) else {
                return Poll::Pending;
            };
            committed = Some(answer);
        }
        let outcome = self.outcome.take().expect("polled after it was ready");
        Poll::Ready(match committed.zip(self.awaited.take()) {
            Some((answer, awaited)) => conclude(outcome, answer, &awaited.commit),
            None => outcome,
        })
    }
}

/// The answer of a batch that may still wait for commits. Answer the client only after
/// [`PendingBatch::wait`], or after awaiting it.
///
/// Dropping it does not undo the writes.
#[must_use = "the client may be answered only when the writes are durable"]
pub struct PendingBatch(Operations);

enum Operations {
    /// All operations are one commit, or the request was refused as a whole.
    Together(Pending<BatchAnswer>),
    /// Each operation is a commit of its own.
    Separate {
        waiting: VecDeque<Pending<BatchReply>>,
        done: Vec<Outcome<BatchReply>>,
        /// The position of the partition that the request names, if it names one.
        position: Option<Position>,
    },
}

impl PendingBatch {
    /// Creates the answer of a batch that is one commit.
    pub(crate) fn together(pending: Pending<BatchAnswer>) -> Self {
        PendingBatch(Operations::Together(pending))
    }

    /// Creates the answer of operations that are commits of their own.
    pub(crate) fn separate(
        operations: Vec<Pending<BatchReply>>,
        position: Option<Position>,
    ) -> Self {
        let done = Vec::with_capacity(operations.len());
        PendingBatch(Operations::Separate {
            waiting: operations.into(),
            done,
            position,
        })
    }

    /// Blocks until all commits are durable.
    pub fn wait(self) -> Outcome<BatchAnswer> {
        match self.0 {
            Operations::Together(pending) => pending.wait(),
            Operations::Separate {
                waiting,
                mut done,
                position,
            } => {
                done.extend(waiting.into_iter().map(Pending::wait));
                combine(done, position)
            }
        }
    }
}

impl Future for PendingBatch {
    type Output = Outcome<BatchAnswer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<BatchAnswer>> {
        match &mut self.0 {
            Operations::Together(pending) => Pin::new(pending).poll(context),
            Operations::Separate {
                waiting,
                done,
                position,
            } => {
                while let Some(next) = waiting.front_mut() {
                    let Poll::Ready(outcome) = Pin::new(next).poll(context) else {
                        return Poll::Pending;
                    };
                    done.push(outcome);
                    waiting.pop_front();
                }
                Poll::Ready(combine(std::mem::take(done), *position))
            }
        }
    }
}

/// Combines the outcomes of operations into the outcome of their request: the sum of the charges,
/// all work, and the newest position if all operations were at one partition.
fn combine(
    mut results: Vec<Outcome<BatchReply>>,
    position: Option<Position>,
) -> Outcome<BatchAnswer> {
    // Other operations of the request were carried out, so it cannot be forwarded as a whole.
    for outcome in &mut results {
        if matches!(&outcome.result, Err(error) if error.kind() == Kind::NotOwned) {
            outcome.result = Err(moved_meanwhile());
        }
    }
    let mut newest = position;
    let mut is_one_partition = true;
    for found in results.iter().filter_map(|outcome| outcome.position) {
        is_one_partition &= newest.is_none_or(|newest| newest.range_id == found.range_id);
        if newest.is_none_or(|newest| newest.lsn <= found.lsn) {
            newest = Some(found);
        }
    }
    let position = match newest {
        Some(newest) if is_one_partition => Some(Position {
            item_lsn: None,
            ..newest
        }),
        _ => None,
    };
    Outcome {
        charge: results.iter().map(|outcome| outcome.charge).sum(),
        work: work_of(&results),
        result: Ok(BatchAnswer { results }),
        position,
    }
}

/// Returns the error 410/1008, after which clients send the operation again.
/// They give up after 503.
fn moved_meanwhile() -> Error {
    Error::new(
        Kind::CompletingMigration,
        "The physical partition went to another node in the middle of the request. This operation \
         was not carried out. Send it again.",
    )
}

/// Returns the work of all operations together.
pub(crate) fn work_of(results: &[Outcome<BatchReply>]) -> Work {
    let mut work = Work::default();
    for outcome in results {
        work.steps.extend(outcome.work.steps.iter().cloned());
    }
    work
}

/// Decides the outcome of a request once the store has answered the receipt for which it waits.
fn conclude<T>(outcome: Outcome<T>, answer: CommitOutcome, commit: &AwaitedCommit) -> Outcome<T> {
    let settled = match commit.is_own {
        true => commit.partition.settle(answer, commit.attempt),
        false => commit.partition.confirm(answer, commit.attempt),
    };
    match settled {
        Ok(()) => outcome,
        // A client would keep the position in its session, and the commit may not have taken place:
        // no partition might ever reach that position.
        Err(error) => Outcome {
            result: Err(error),
            position: None,
            ..outcome
        },
    }
}
