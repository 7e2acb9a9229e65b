//! Writes that are ordered and not yet on disk.

use crate::errors::outcome_error;
use crate::items::batch::work_of;
use crate::partition::{Partition, SubmittedCommit};
use crate::request::{BatchAnswer, BatchReply, Outcome, Position};
use orrery_model::{Error, Kind};
use orrery_storage::CommitOutcome;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A write that is ordered but not yet on disk. Answer the client only after [`Pending::wait`], or after awaiting it.
///
/// Dropping it does not undo the write.
#[must_use = "the client may be answered only when the write is durable"]
pub struct Pending<T> {
    ordered: Option<(SubmittedCommit, Arc<Partition>)>,
    outcome: Option<Outcome<T>>,
}

impl<T> Pending<T> {
    /// An answer that waits for a commit.
    pub(crate) fn new(
        ordered: Option<SubmittedCommit>,
        partition: &Arc<Partition>,
        outcome: Outcome<T>,
    ) -> Self {
        Pending {
            ordered: ordered.map(|o| (o, Arc::clone(partition))),
            outcome: Some(outcome),
        }
    }

    /// An answer that waits for nothing.
    pub(crate) fn ready(outcome: Outcome<T>) -> Self {
        Pending {
            ordered: None,
            outcome: Some(outcome),
        }
    }

    /// Blocks until the write is durable.
    pub fn wait(mut self) -> Outcome<T> {
        let outcome = self.outcome.take().expect("taken once");
        match self.ordered.take() {
            None => outcome,
            Some((ordered, partition)) => {
                let SubmittedCommit {
                    receipt,
                    lsn,
                    token,
                } = ordered;
                conclude(outcome, receipt.wait(), &partition, lsn, token)
            }
        }
    }
}

impl<T: Unpin> Future for Pending<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        if let Some((ordered, partition)) = &mut self.ordered {
            let Poll::Ready(stored) = Pin::new(&mut ordered.receipt).poll(context) else {
                return Poll::Pending;
            };
            let (lsn, token, partition) = (ordered.lsn, ordered.token, Arc::clone(partition));
            self.ordered = None;
            let outcome = self.outcome.take().expect("polled after it was ready");
            return Poll::Ready(conclude(outcome, stored, &partition, lsn, token));
        }
        Poll::Ready(self.outcome.take().expect("polled after it was ready"))
    }
}

/// A batch that is ordered but not yet on disk. Answer the client only after [`PendingBatch::wait`], or after awaiting it.
///
/// Dropping it does not undo the writes.
#[must_use = "the client may be answered only when the writes are durable"]
pub struct PendingBatch(Parts);

enum Parts {
    /// One commit for all.
    Whole(Pending<BatchAnswer>),
    /// A commit for each write.
    Each {
        waiting: VecDeque<Pending<BatchReply>>,
        done: Vec<Outcome<BatchReply>>,
        position: Option<Position>,
    },
}

impl PendingBatch {
    /// A batch that takes place whole or not at all.
    pub(crate) fn whole(pending: Pending<BatchAnswer>) -> Self {
        PendingBatch(Parts::Whole(pending))
    }

    /// Operations that stand for themselves. `position` is that of the partition that was addressed.
    pub(crate) fn each(parts: Vec<Pending<BatchReply>>, position: Option<Position>) -> Self {
        let done = Vec::with_capacity(parts.len());
        PendingBatch(Parts::Each {
            waiting: parts.into(),
            done,
            position,
        })
    }

    /// Blocks until all writes are durable.
    pub fn wait(self) -> Outcome<BatchAnswer> {
        match self.0 {
            Parts::Whole(pending) => pending.wait(),
            Parts::Each {
                waiting,
                mut done,
                position,
            } => {
                done.extend(waiting.into_iter().map(Pending::wait));
                all_of(done, position)
            }
        }
    }
}

impl Future for PendingBatch {
    type Output = Outcome<BatchAnswer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<BatchAnswer>> {
        match &mut self.0 {
            Parts::Whole(pending) => Pin::new(pending).poll(context),
            Parts::Each {
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
                Poll::Ready(all_of(std::mem::take(done), *position))
            }
        }
    }
}

/// The outcomes of operations as the outcome of their request: what they cost together, and the newest place in history
/// that they have in common.
fn all_of(results: Vec<Outcome<BatchReply>>, position: Option<Position>) -> Outcome<BatchAnswer> {
    let charge = results.iter().map(|outcome| outcome.charge).sum();
    let positions = || {
        results
            .iter()
            .filter_map(|outcome| outcome.position)
            .chain(position)
    };
    let newest = positions().max_by_key(|position| position.lsn);
    let newest =
        newest.filter(|newest| positions().all(|position| position.range_id == newest.range_id));
    let position = newest.map(|newest| Position {
        item_lsn: None,
        ..newest
    });
    let work = work_of(&results);
    Outcome {
        result: Ok(BatchAnswer { results }),
        charge,
        work,
        position,
    }
}

/// What the client learns. An unknown outcome is looked up with a newer lease before anybody is told anything.
fn conclude<T>(
    outcome: Outcome<T>,
    stored: CommitOutcome,
    partition: &Partition,
    lsn: u64,
    token: [u8; 16],
) -> Outcome<T> {
    let Some(error) = outcome_error(&stored) else {
        return outcome;
    };
    let error = match stored {
        CommitOutcome::Fenced | CommitOutcome::Unknown => {
            match partition.is_committed(lsn, token) {
                Ok(true) => return outcome,
                Ok(false) => Error::new(Kind::RetryWith, "The write did not take place. Retry it.")
                    .with_cause(error),
                Err(cause) => cause,
            }
        }
        _ => {
            partition.abandon_writer();
            error
        }
    };
    Outcome {
        result: Err(error),
        charge: outcome.charge,
        work: outcome.work,
        position: outcome.position,
    }
}
