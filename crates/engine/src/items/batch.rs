//! Several operations in one request.
//!
//! A transactional batch is one transaction in the writer's turn, hence one commit: its reads see its earlier writes, and
//! the first failure undoes everything. In bulk each operation is a commit of its own; all of them are ordered before the
//! first is waited for, so that they share the store's syncs.
//!
//! Promises: one outcome for each operation, in order; what a batch has read is durable when it is answered; nothing is
//! carried out whose answer would not fit.

use crate::Engine;
use crate::catalog::Container;
use crate::items::{CheckedWrite, apply, check, named_key, parse_body};
use crate::partition::session::check_session;
use crate::partition::transaction::{ReadView, Transaction};
use crate::partition::{Partition, SubmittedCommit, retry_if_moved};
use crate::pending::{Pending, PendingBatch};
use crate::request::etag_matches;
use crate::request::*;
use crate::throughput::{RequestTarget, ServedRequest, bytes_written, status};
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Json, Kind, Result, limits};
use std::sync::Arc;

/// An operation with its options in the form that single writes have.
struct Draft {
    action: BatchAction,
    options: WriteOptions,
    if_none_match: Option<String>,
    minimal: bool,
}

/// An operation that passed every check that needs no look at the store.
struct Checked<'a> {
    epk: Epk,
    task: Task<'a>,
}

enum Task<'a> {
    Read {
        id: &'a str,
        if_none_match: Option<&'a str>,
    },
    Write {
        write: CheckedWrite<'a>,
        minimal: bool,
    },
}

/// What an operation answers, and the work that led there.
type Done = (Result<BatchReply>, Vec<Step>);

impl Engine {
    /// Carries out the operations of one request. What comes back as `Ok` is ordered; wait for it before answering: there
    /// is one outcome for each operation then, good or bad.
    ///
    /// # Errors
    /// What concerns the request as a whole: 400 for no operations, for more than [`limits::BATCH_OPERATIONS`] and for a
    /// key that is not whole, 404/1002 for a batch that reads what the session token names too early, 410/1002 for a range
    /// that does not exist.
    pub fn batch<'a>(
        &self,
        container: &Container,
        mode: &BatchMode,
        operations: Vec<BatchOperation>,
        options: impl Into<ReadOptions<'a>>,
    ) -> std::result::Result<PendingBatch, Box<Outcome<BatchAnswer>>> {
        let options = options.into();
        let mut refused = Work {
            steps: vec![Step::ReadNothing],
        };
        let done = check_count(operations.len()).and_then(|()| match mode {
            BatchMode::Atomic(key) => {
                let mut operations = operations;
                retry_if_moved(|| {
                    self.batch_atomic(container, key, &mut operations, options, &mut refused)
                })
            }
            BatchMode::Each {
                range,
                key,
                continue_on_error,
            } => {
                let partition = range.map(|id| container.partition_by_id(id)).transpose()?;
                let (range, key, budget, written) = (
                    partition.as_ref().map(|p| p.id),
                    key.as_ref(),
                    ResponseBudget::default(),
                    None,
                );
                let bulk = Bulk {
                    engine: self,
                    container,
                    range,
                    key,
                    options,
                    budget,
                    written,
                };
                let parts = bulk.carry_out(operations, *continue_on_error);
                let position =
                    |p: Arc<Partition>| Ok::<_, Error>(p.position(p.snapshot()?.head().lsn, None));
                Ok(PendingBatch::each(
                    parts,
                    partition.map(position).transpose()?,
                ))
            }
        });
        done.map_err(|error| Box::new(self.outcome(Err(error), refused, None)))
    }

    /// Takes the operations when nothing hinders them any more.
    fn batch_atomic(
        &self,
        container: &Container,
        key: &PartitionKey,
        operations: &mut Vec<BatchOperation>,
        options: ReadOptions<'_>,
        refused: &mut Work,
    ) -> Result<PendingBatch> {
        container.partition_key().check(key)?;
        let epk = container.partition_key().epk(key);
        let partition = container.partition_of(&epk);
        let spot = RequestTarget {
            container,
            partition: &partition,
            key: Some(&epk),
        };
        let admitted = self
            .admit(spot, options.admission)
            .inspect_err(|_| refused.steps = vec![Step::Throttled])?;
        let pending = self.run_atomic(container, &partition, key, operations, options.session);
        match &pending {
            Ok((_, done)) => self.charge(spot, admitted, *done),
            Err(error) => {
                let (charge, status) = (self.profile.price(refused), error.status());
                self.charge(
                    spot,
                    admitted,
                    ServedRequest {
                        charge,
                        status,
                        bytes_written: 0,
                    },
                );
            }
        }
        pending.map(|(pending, _)| pending)
    }

    /// The batch, and how it ended: with the status of the operation that failed.
    fn run_atomic(
        &self,
        container: &Container,
        partition: &Arc<Partition>,
        key: &PartitionKey,
        operations: &mut Vec<BatchOperation>,
        session: Option<&str>,
    ) -> Result<(PendingBatch, ServedRequest)> {
        let reads = |operation: &BatchOperation| matches!(operation.action, BatchAction::Read(_));
        let (any_read, only_reads) = (operations.iter().any(reads), operations.iter().all(reads));
        // Who only reads needs no turn, and must not see what is not durable.
        let mut writer = if only_reads {
            None
        } else {
            Some(partition.lock()?)
        };
        let snapshot = partition.snapshot()?;
        if any_read {
            check_session(session, partition, snapshot.head().lsn)?;
        }
        let mut transaction =
            Transaction::begin(container, partition, snapshot.as_ref(), self.world());
        let mut base = writer
            .as_mut()
            .map_or(ReadView::Durable, |writer| ReadView::Writer(writer));
        let (done, whole) = run_all(&mut transaction, &mut base, key, std::mem::take(operations));
        let mut lsn = snapshot.head().lsn;
        let mut ordered = None;
        if let Some(mut writer) = writer.filter(|_| whole) {
            ordered = transaction.commit(&mut writer, None)?;
            lsn = writer.lsn;
            drop(writer);
            if ordered.is_none() {
                // Nothing is left of its writes, but its reads may have seen what is still on its way to the disk.
                partition.snapshot_with(lsn)?;
            }
        }
        let position = partition.position(lsn, None);
        let bytes_written = if whole {
            done.iter().map(|(_, steps)| bytes_written(steps)).sum()
        } else {
            0
        };
        let priced = |(result, steps)| self.outcome(result, Work { steps }, Some(position));
        let results: Vec<_> = done.into_iter().map(priced).collect();
        let charge = results.iter().map(|outcome| outcome.charge).sum();
        let status = results
            .iter()
            .map(|outcome| status(&outcome.result))
            .find(|s| ![200, 424].contains(s));
        let work = work_of(&results);
        let outcome = Outcome {
            result: Ok(BatchAnswer { results }),
            charge,
            work,
            position: Some(position),
        };
        let done = ServedRequest {
            charge,
            status: status.unwrap_or(200),
            bytes_written,
        };
        Ok((
            PendingBatch::whole(Pending::new(ordered, partition, outcome)),
            done,
        ))
    }
}

/// Carries out operations one after the other until one fails; whether none did. If one did, it keeps its reason, and all
/// others have failed because of it.
fn run_all(
    transaction: &mut Transaction<'_>,
    base: &mut ReadView<'_>,
    key: &PartitionKey,
    operations: Vec<BatchOperation>,
) -> (Vec<Done>, bool) {
    let count = operations.len();
    let mut done: Vec<Done> = Vec::with_capacity(count);
    let mut budget = ResponseBudget::default();
    let mut fits = true;
    let mut failed = None;
    for operation in operations {
        let result =
            Draft::of(transaction.container(), Some(key), operation).and_then(|(draft, body)| {
                let checked = draft.check(transaction.container(), body)?;
                carry_out(transaction, base, &checked)
            });
        let steps = std::mem::take(&mut transaction.work);
        fits &= result.as_ref().map_or(true, |reply| budget.take(reply));
        let broke = result.is_err();
        done.push((result, steps));
        if broke {
            failed = Some(done.len() - 1);
            break;
        }
    }
    // Too much is found out at the end: the last one has the reason, as at the service.
    if failed.is_none() && !fits {
        failed = Some(count - 1);
        done[count - 1].0 = Err(too_large());
    }
    let Some(failed) = failed else {
        return (done, true);
    };
    let of_one = |(at, (result, steps)): (usize, Done)| {
        (
            if at == failed {
                result
            } else {
                Err(Error::failed_dependency())
            },
            undone(steps),
        )
    };
    let mut all: Vec<Done> = done.into_iter().enumerate().map(of_one).collect();
    all.resize_with(count, || (Err(Error::failed_dependency()), Vec::new()));
    (all, false)
}

/// An operation that stands for itself: what waits for the disk, the answer, and its place in history.
type DoneOne = (Option<SubmittedCommit>, BatchReply, Position);

/// Operations that stand for themselves.
struct Bulk<'a> {
    engine: &'a Engine,
    container: &'a Container,
    range: Option<u32>,
    key: Option<&'a PartitionKey>,
    options: ReadOptions<'a>,
    budget: ResponseBudget,
    /// Where it wrote last: the range id and the LSN.
    written: Option<(u32, u64)>,
}

impl Bulk<'_> {
    fn carry_out(
        mut self,
        operations: Vec<BatchOperation>,
        continue_on_error: bool,
    ) -> Vec<Pending<BatchReply>> {
        let mut stopped = false;
        let engine = self.engine;
        let refused =
            |error, steps| Pending::ready(engine.outcome(Err(error), Work { steps }, None));
        let one = |operation| {
            if stopped {
                return refused(Error::failed_dependency(), Vec::new());
            }
            let mut work = Work::default();
            self.one(operation, &mut work).unwrap_or_else(|error| {
                stopped = !continue_on_error;
                refused(error, undone(work.steps))
            })
        };
        operations.into_iter().map(one).collect()
    }

    fn one(&mut self, operation: BatchOperation, work: &mut Work) -> Result<Pending<BatchReply>> {
        let (draft, body) = Draft::of(self.container, self.key, operation)?;
        let checked = draft.check(self.container, body)?;
        retry_if_moved(|| self.one_of(&checked, work))
    }

    fn one_of(&mut self, checked: &Checked<'_>, work: &mut Work) -> Result<Pending<BatchReply>> {
        work.steps.clear();
        let partition = self.container.partition_of(&checked.epk);
        if self.range.is_some_and(|id| id != partition.id) {
            return Err(Error::new(
                Kind::PartitionKeyRangeGone,
                "The partition key of the operation lies in another partition key range than the batch.",
            ));
        }
        let spot = RequestTarget {
            container: self.container,
            partition: &partition,
            key: Some(&checked.epk),
        };
        let engine = self.engine;
        let (ordered, reply, position) = engine.at(spot, self.options.admission, work, |work| {
            let done = match checked.task {
                Task::Read { .. } => self.read(&partition, checked, &mut work.steps),
                Task::Write { .. } => self.write(&partition, checked, &mut work.steps),
            };
            if done.is_err() {
                work.steps = undone(std::mem::take(&mut work.steps));
            }
            done
        })?;
        Ok(Pending::new(
            ordered,
            &partition,
            engine.outcome(Ok(reply), std::mem::take(work), Some(position)),
        ))
    }

    fn read(
        &mut self,
        partition: &Arc<Partition>,
        checked: &Checked<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<DoneOne> {
        // What it wrote itself it must find.
        let own = self
            .written
            .filter(|(id, _)| *id == partition.id)
            .map_or(0, |(_, lsn)| lsn);
        let snapshot = partition.snapshot_with(own)?;
        let lsn = snapshot.head().lsn;
        check_session(self.options.session, partition, lsn)?;
        let mut transaction = Transaction::begin(
            self.container,
            partition,
            snapshot.as_ref(),
            self.engine.world(),
        );
        let done = carry_out(&mut transaction, &mut ReadView::Durable, checked);
        *steps = std::mem::take(&mut transaction.work);
        let reply = done?;
        if !self.budget.take(&reply) {
            return Err(too_large());
        }
        Ok((None, reply, partition.position(lsn, None)))
    }

    fn write(
        &mut self,
        partition: &Arc<Partition>,
        checked: &Checked<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<DoneOne> {
        let mut writer = partition.lock()?;
        let snapshot = partition.snapshot()?;
        let mut transaction = Transaction::begin(
            self.container,
            partition,
            snapshot.as_ref(),
            self.engine.world(),
        );
        let done = carry_out(
            &mut transaction,
            &mut ReadView::Writer(&mut writer),
            checked,
        );
        *steps = std::mem::take(&mut transaction.work);
        let reply = done?;
        // Its client will send it again if the answer does not fit, so it must not have happened then.
        if !self.budget.take(&reply) {
            return Err(too_large());
        }
        let ordered = transaction.commit(&mut writer, None)?;
        let lsn = writer.lsn;
        drop(writer);
        self.written = Some((partition.id, lsn));
        Ok((ordered, reply, partition.position(lsn, Some(lsn))))
    }
}

impl Draft {
    /// An operation and its body. `key` is the one that the whole request names.
    fn of(
        container: &Container,
        key: Option<&PartitionKey>,
        operation: BatchOperation,
    ) -> Result<(Draft, Option<Json>)> {
        let BatchOperation {
            action,
            body,
            partition_key,
            if_match,
            if_none_match,
            leave_out_of_index,
            minimal,
        } = operation;
        let definition = container.partition_key();
        if let (Some(own), Some(key)) = (&partition_key, key) {
            definition.check(own)?;
            if definition.epk(own) != definition.epk(key) {
                return Err(Error::partition_key_mismatch());
            }
        }
        let body = match body {
            Some(Body::Text(text)) => Some(parse_body(&text)?),
            Some(Body::Json(json)) => Some(json),
            None => None,
        };
        let partition_key = partition_key.or_else(|| key.cloned());
        let options = WriteOptions {
            partition_key,
            if_match,
            leave_out_of_index,
            ..WriteOptions::default()
        };
        Ok((
            Draft {
                action,
                options,
                if_none_match,
                minimal,
            },
            body,
        ))
    }

    fn check(&self, container: &Container, body: Option<Json>) -> Result<Checked<'_>> {
        let epk = |key: &PartitionKey| container.partition_key().epk(key);
        match &self.action {
            BatchAction::Read(id) => {
                let key = named_key(container, self.options.partition_key.as_ref())?;
                let if_none_match = self.if_none_match.as_deref();
                Ok(Checked {
                    epk: epk(&key),
                    task: Task::Read { id, if_none_match },
                })
            }
            BatchAction::Write(operation) => {
                let write = check(container, operation, body, &self.options)?;
                let minimal = self.minimal;
                Ok(Checked {
                    epk: epk(&write.key),
                    task: Task::Write { write, minimal },
                })
            }
        }
    }
}

/// Does one operation in a transaction.
fn carry_out(
    transaction: &mut Transaction<'_>,
    base: &mut ReadView<'_>,
    checked: &Checked<'_>,
) -> Result<BatchReply> {
    match &checked.task {
        Task::Read { id, if_none_match } => {
            let Some(stored) = transaction.find(base, &checked.epk, id)? else {
                transaction.work.push(Step::ReadNothing);
                return Err(Error::not_found());
            };
            let etag = stored.row.etag_text();
            if if_none_match.is_some_and(|known| etag_matches(known, &etag)) {
                transaction.work.push(Step::ReadNothing);
                return Ok(BatchReply::Read(ReadReply::NotModified { etag }));
            }
            transaction.work.push(Step::Read {
                bytes: stored.row.size(),
            });
            let body = stored
                .row
                .text(transaction.container().rid(), stored.number);
            Ok(BatchReply::Read(ReadReply::Item { body, etag }))
        }
        Task::Write { write, minimal } => {
            let (stored, created) = apply(transaction, base, write)?;
            let mut written = Written::of(transaction.container(), stored, created);
            if *minimal {
                written.item = None;
            }
            Ok(BatchReply::Written(written))
        }
    }
}

/// The bytes of a batch response that are used so far.
#[derive(Default)]
struct ResponseBudget {
    bytes: usize,
}

impl ResponseBudget {
    /// Counts the bytes of a reply if they fit; returns true if they do.
    fn take(&mut self, reply: &BatchReply) -> bool {
        let item = match reply {
            BatchReply::Read(ReadReply::Item { body, .. }) => Some(body),
            BatchReply::Read(ReadReply::NotModified { .. }) => None,
            BatchReply::Written(written) => written.item.as_ref(),
        };
        let bytes = item.map_or(0, |item| item.len());
        let fits = self.bytes + bytes <= limits::BATCH_RESPONSE_BYTES;
        self.bytes += if fits { bytes } else { 0 };
        fits
    }
}

/// The work of an operation that was refused: what it wrote did not reach the replicas, but it was looked at.
fn undone(steps: Vec<Step>) -> Vec<Step> {
    if steps.is_empty() {
        return vec![Step::Refused { bytes: 0, terms: 0 }];
    }
    steps.into_iter().map(Step::into_refused).collect()
}

/// What all operations did.
pub(crate) fn work_of(results: &[Outcome<BatchReply>]) -> Work {
    Work {
        steps: results
            .iter()
            .flat_map(|outcome| &outcome.work.steps)
            .cloned()
            .collect(),
    }
}

fn check_count(operations: usize) -> Result<()> {
    match operations {
        0 => Err(Error::bad("Batch request has no operations.")),
        1..=limits::BATCH_OPERATIONS => Ok(()),
        _ => Err(Error::bad(
            "Batch request has more operations than what is supported.",
        )),
    }
}

fn too_large() -> Error {
    let most = limits::BATCH_RESPONSE_BYTES;
    Error::new(
        Kind::BatchResponseTooLarge,
        format!("The answers to the operations of the batch have more than {most} bytes together."),
    )
}
