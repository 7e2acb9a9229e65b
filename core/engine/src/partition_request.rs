//! The envelope of every request at one physical partition.
//!
//! Reads, writes, batches, stored procedures, deletions by partition key and pages of a change feed
//! all pass [`Engine::at_partition`], which does what they have in common:
//!
//! 1. finds the partition that holds what the request names, which this process must own;
//! 2. admits the request there, or refuses it with 429/3200;
//! 3. runs it, while it counts its work in [`RequestAttempt::steps`];
//! 4. charges the partition;
//! 5. repeats 1 to 4 if a split or merge replaced the partition in the meantime;
//! 6. puts charge and position on the outcome, and makes the outcome wait for the commit, or for
//!    that of another request from which a refusal follows.
//!
//! Left out: queries, which ask several partitions and keep
//! [`crate::throughput::PartitionCharges`], and metadata, which is not admitted.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::is_of_server;
use crate::partition::transaction::Transaction;
use crate::partition::{CommitAttempt, Partition, SubmittedCommit, Writer, retry_if_moved};
use crate::pending::Pending;
use crate::request::{AdmissionOptions, Charge, OperationKind, Outcome, Position};
use crate::throughput::{Ran, RequestTarget};
use orrery_model::partition_key::Epk;
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Kind, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// A request at one physical partition, as far as all such requests are alike.
pub(crate) struct PartitionRequest<'a> {
    /// The container.
    pub container: &'a Container,
    /// The kind of the request.
    pub kind: OperationKind,
    /// Options of admission.
    pub admission: AdmissionOptions,
    /// The work that is charged if the request fails before it counted any.
    pub refusal: Step,
    /// The position that a failed request answers if it set none.
    pub position_of_failure: PositionOfFailure,
}

/// The position in a partition's history that a failed request answers with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PositionOfFailure {
    /// None.
    None,
    /// The end of what is durable in the partition.
    Durable,
}

/// The partition that a request is for.
pub(crate) struct TargetPartition<'k> {
    /// The partition.
    pub partition: Arc<Partition>,
    /// The logical partition, if the request is for a single one.
    pub key: Option<Cow<'k, Epk>>,
}

impl<'k> TargetPartition<'k> {
    /// Finds the partition of a logical partition.
    pub(crate) fn by_key(container: &Container, epk: &'k Epk) -> TargetPartition<'k> {
        TargetPartition {
            partition: container.partition_of(epk),
            key: Some(Cow::Borrowed(epk)),
        }
    }
}

/// One attempt to carry out a request, with what it reports.
pub(crate) struct RequestAttempt<'a> {
    /// The partition.
    pub partition: &'a Arc<Partition>,
    /// Counted work.
    pub steps: &'a mut Vec<Step>,
    /// The place in the partition's history that the answer reflects.
    pub position: Option<Position>,
    /// The charge, where it is not that of all steps together.
    pub charge: Option<Charge>,
    /// The number of the item that the request found or wrote.
    pub item: Option<u64>,
    /// The last commit of another request from which an answer without a commit of its own follows,
    /// and which may not be durable.
    pub rests_on: Option<CommitAttempt>,
}

impl RequestAttempt<'_> {
    /// Lets an answer without a commit of its own wait for the commits whose rows a transaction has
    /// read.
    pub(crate) fn rest_on(&mut self, writer: &Writer, transaction: &Transaction<'_>) {
        self.rests_on = writer.pending_commit(transaction.rests_on.get(), transaction.base_lsn());
    }

    /// Lets a refusal wait for every commit that the writer has accepted: the sizes and counts of a
    /// partition follow from all of them. `durable_lsn` is the LSN of a snapshot.
    pub(crate) fn rest_on_all(&mut self, writer: &Writer, durable_lsn: u64) {
        self.rests_on = writer.pending_commit(u64::MAX, durable_lsn);
    }
}

/// The result of a request that succeeded.
pub(crate) struct RequestResult<T> {
    /// The answer.
    pub value: T,
    /// The commit that must be durable before the client is answered.
    pub commit: Option<SubmittedCommit>,
}

impl<T> RequestResult<T> {
    /// An answer that waits for no commit.
    pub(crate) fn read(value: T) -> Self {
        RequestResult {
            value,
            commit: None,
        }
    }
}

impl Engine {
    /// Carries out a request at the partition that `find` names. See the module's text.
    pub(crate) fn at_partition<'k, T>(
        &self,
        request: &PartitionRequest<'_>,
        mut find: impl FnMut() -> Result<TargetPartition<'k>>,
        mut run: impl FnMut(&mut RequestAttempt<'_>) -> Result<RequestResult<T>>,
    ) -> Pending<T> {
        let mut work = Work::default();
        let mut partition = None;
        let (mut position, mut charge, mut rests_on) = (None, None, None);
        let done = retry_if_moved(|| {
            // An earlier attempt met a partition that is gone; nothing of it counts.
            work.steps.clear();
            let found = find()?;
            // The owner admits the request, and charges it.
            found.partition.check_owned()?;
            // Refused before admission: a request that waits for the store costs nothing.
            found.partition.check_reachable()?;
            let partition = &*partition.insert(found.partition);
            let target = RequestTarget {
                container: request.container,
                partition,
                key: found.key.as_deref(),
                kind: request.kind,
            };
            let done = self.with_admission(target, request.admission, &mut work, |steps| {
                let mut attempt = RequestAttempt {
                    partition,
                    steps,
                    position: None,
                    charge: None,
                    item: None,
                    rests_on: None,
                };
                let done = run(&mut attempt);
                (position, charge) = (attempt.position, attempt.charge);
                rests_on = attempt.rests_on;
                let item = attempt.item;
                if done.is_err() && steps.is_empty() {
                    steps.push(request.refusal.clone());
                }
                (done, Ran { charge, item })
            });
            told_by_owner(done, partition)
        });
        let done = self.moved_with_catalog(request.container, done);
        // No partition was found, or none of those found was still there.
        if work.steps.is_empty() {
            work.steps.push(request.refusal.clone());
        }
        let charge = charge.unwrap_or_else(|| self.profile.price(&work));
        let (result, commit) = match done {
            Ok(RequestResult { value, commit }) => (Ok(value), commit),
            Err(error) => (Err(error), None),
        };
        // An error of the server follows from no item.
        if result.as_ref().is_err_and(is_of_server) {
            rests_on = None;
        }
        let wants_position = request.position_of_failure == PositionOfFailure::Durable;
        if result.is_err() && wants_position && position.is_none() {
            position = partition.as_deref().map(|partition| match rests_on {
                Some(CommitAttempt { lsn, .. }) => partition.position(lsn, None),
                None => partition.position_now(),
            });
        }
        let outcome = Outcome {
            result,
            charge,
            work,
            position,
        };
        match (partition, commit, rests_on) {
            (Some(partition), Some(commit), _) => Pending::new(commit, partition, outcome),
            (Some(partition), None, Some(attempt)) => {
                Pending::resting_on(attempt, partition, outcome)
            }
            _ => Pending::ready(outcome),
        }
    }

    /// Answers a request that is refused before any partition is asked, and charges it `step`.
    pub(crate) fn refuse<T>(&self, error: Error, step: Step) -> Pending<T> {
        let work = Work { steps: vec![step] };
        Pending::ready(self.outcome(Err(error), work, None))
    }
}

/// Turns the refusal of a store into that of a partition which this process does not own any more:
/// the partition was given up in the middle of the request.
fn told_by_owner<T>(done: Result<T>, partition: &Partition) -> Result<T> {
    match done {
        Err(error) if error.kind() == Kind::Unavailable => {
            partition.check_owned()?;
            Err(error)
        }
        done => done,
    }
}
