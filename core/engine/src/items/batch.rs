//! Several operations in one request.
//!
//! A transactional batch is one transaction under the writer's lock, hence one commit: its reads
//! see its earlier writes, and the first failure undoes everything. In bulk each operation is a
//! commit of its own; all commits are submitted before the first is waited for, so that they share
//! the store's syncs.
//!
//! Promises: one outcome for each operation, in order; a batch is answered only when everything
//! that it has read is durable; an operation whose answer would not fit the response is not carried
//! out.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::{is_of_server, reserve_answer};
use crate::items::{
    CheckedWrite, apply, charge_as_refused, check, kind_of, named_key, parse_body, read_reply,
};
use crate::ownership::check_all_owned;
use crate::partition::Partition;
use crate::partition::row_reader::rows_of_item;
use crate::partition::session::check_session;
use crate::partition::transaction::{ReadView, Transaction};
use crate::partition_request::{
    PartitionRequest, PositionOfFailure, RequestAttempt, RequestResult, TargetPartition,
};
use crate::pending::{Pending, PendingBatch};
use crate::request::{
    AdmissionOptions, BatchAction, BatchAnswer, BatchMode, BatchOperation, BatchReply, Body, Id,
    OperationKind, ReadOptions, ReadReply, WriteOptions,
};
use orrery_model::memory::AnswerMemory;
use orrery_model::partition_key::{Epk, KeyAddress, PartitionKey};
use orrery_model::words::shortened;
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Json, Kind, Result, limits};
use orrery_storage::ReadAhead;
use std::sync::Arc;

/// An operation with its options in the form of a single write.
struct Draft {
    action: BatchAction,
    options: WriteOptions,
    if_none_match: Option<String>,
    /// Answer without the item.
    minimal: bool,
}

impl Draft {
    fn kind(&self) -> OperationKind {
        match &self.action {
            BatchAction::Read(_) => OperationKind::PointRead,
            BatchAction::Write(operation) => kind_of(operation),
        }
    }
}

/// An operation that has passed every check that needs no store.
struct Checked<'a> {
    address: KeyAddress,
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

impl Checked<'_> {
    /// Returns the rows that the operation is about to read.
    fn rows(&self, container: &Container) -> ReadAhead {
        match &self.task {
            Task::Read { id, .. } => rows_of_item(container.rid(), &self.address, Id::Name(id)),
            Task::Write { write, .. } => write.rows(container),
        }
    }
}

/// The answer of one operation in a transactional batch, and its work.
type OperationResult = (Result<BatchReply>, Vec<Step>);

impl Engine {
    /// Carries out the operations of one request. The writes are submitted when this returns; wait
    /// for the answer before passing it on.
    ///
    /// The outcome has one outcome for each operation, or an error that concerns the request as a
    /// whole: 400 for no operations, for more than [`limits::BATCH_OPERATIONS`] and for a partition
    /// key of the wrong shape; 404/1002 for a batch that reads from a partition that has not
    /// reached the session token; 410/1002 for a partition key range that does not exist; 429 if
    /// the budget is spent.
    pub fn batch<'a>(
        &self,
        container: &Container,
        mode: &BatchMode,
        operations: Vec<BatchOperation>,
        options: impl Into<ReadOptions<'a>>,
    ) -> PendingBatch {
        let options = options.into();
        let refuse = |error| PendingBatch::together(self.refuse(error, Step::ReadNothing));
        if let Err(error) = check_count(operations.len()) {
            return refuse(error);
        }
        match mode {
            BatchMode::Atomic(key) => {
                PendingBatch::together(self.batch_atomic(container, key, operations, options))
            }
            BatchMode::Each {
                range,
                key,
                continue_on_error,
            } => {
                let bulk = Bulk {
                    engine: self,
                    container,
                    range: *range,
                    key: key.as_ref(),
                    options,
                    budget: ResponseBudget::default(),
                    last_write: None,
                };
                let done = bulk.run(operations, *continue_on_error);
                done.unwrap_or_else(refuse)
            }
        }
    }

    /// Carries out a transactional batch in the logical partition of `key`.
    fn batch_atomic(
        &self,
        container: &Container,
        key: &PartitionKey,
        mut operations: Vec<BatchOperation>,
        options: ReadOptions<'_>,
    ) -> Pending<BatchAnswer> {
        if let Err(error) = container.partition_key().check(key) {
            return self.refuse(error, Step::ReadNothing);
        }
        let epk = container.partition_key().epk(key);
        let request = PartitionRequest {
            container,
            kind: OperationKind::Batch,
            // The reads of a batch are under the writer's lock: no second replica is asked.
            admission: AdmissionOptions {
                two_replicas: false,
                ..options.admission
            },
            refusal: Step::ReadNothing,
            position_of_failure: PositionOfFailure::None,
        };
        self.at_partition(
            &request,
            || Ok(TargetPartition::by_key(container, &epk)),
            |attempt| self.run_atomic(container, key, &mut operations, options, attempt),
        )
    }

    /// Runs a transactional batch and commits it if every operation succeeded. `operations` is
    /// emptied after the last step that can find the partition gone, so that another attempt has
    /// them all.
    fn run_atomic(
        &self,
        container: &Container,
        key: &PartitionKey,
        operations: &mut Vec<BatchOperation>,
        options: ReadOptions<'_>,
        attempt: &mut RequestAttempt<'_>,
    ) -> Result<RequestResult<BatchAnswer>> {
        let partition = attempt.partition;
        let is_read = |operation: &BatchOperation| matches!(operation.action, BatchAction::Read(_));
        let any_read = operations.iter().any(is_read);
        let only_reads = operations.iter().all(is_read);
        // Reads alone need no lock, and must not see what is not durable.
        let mut writer = match only_reads {
            true => None,
            false => Some(partition.lock()?),
        };
        let snapshot = partition.snapshot()?;
        if any_read {
            check_session(options.session, partition, snapshot.head().lsn)?;
        }

        let mut transaction =
            Transaction::begin(container, partition, snapshot.as_ref(), self.world());
        let view = match &writer {
            Some(writer) => ReadView::Writer(writer),
            None => ReadView::Durable,
        };
        let operations = std::mem::take(operations);
        let mut batch = run_all(container, &mut transaction, view, key, operations)?;
        batch.reserve_response(options.answer)?;

        // A batch that failed leaves nothing behind: the transaction is dropped. It may have seen
        // commits of other requests that are not durable yet, as may one whose writes cancelled
        // each other out.
        let durable_lsn = transaction.base_lsn();
        let mut lsn = durable_lsn;
        let mut commit = None;
        if let Some(writer) = &mut writer {
            attempt.rest_on(writer, &transaction);
            if batch.succeeded {
                match transaction.commit(writer, None) {
                    Ok(accepted) => commit = accepted,
                    Err(error) => {
                        attempt.rest_on_all(writer, durable_lsn);
                        batch.fail_last(error)?;
                    }
                }
            }
            let rests_on = attempt.rests_on.map(|other| other.lsn);
            lsn = match commit {
                Some(_) => writer.lsn,
                None => rests_on.unwrap_or(durable_lsn),
            };
        }
        drop(writer);

        // Each operation is priced by itself, as clients see its charge, and the batch is their
        // sum.
        let position = partition.position(lsn, None);
        let mut results = Vec::with_capacity(batch.results.len());
        for (result, steps) in batch.results {
            attempt.steps.extend(steps.iter().cloned());
            results.push(self.outcome(result, Work { steps }, Some(position)));
        }
        attempt.charge = Some(results.iter().map(|outcome| outcome.charge).sum());
        attempt.position = Some(position);
        Ok(RequestResult {
            value: BatchAnswer { results },
            commit,
        })
    }
}

/// The results of a transactional batch.
struct BatchRun {
    results: Vec<OperationResult>,
    /// True if every operation succeeded.
    succeeded: bool,
    /// Bytes of the items in the response.
    response_bytes: usize,
}

/// Carries out operations one after the other until one fails. If one fails, it keeps its error,
/// and all others fail with 424 because of it.
fn run_all(
    container: &Container,
    transaction: &mut Transaction<'_>,
    view: ReadView<'_>,
    key: &PartitionKey,
    operations: Vec<BatchOperation>,
) -> Result<BatchRun> {
    let count = operations.len();
    let mut results: Vec<OperationResult> = Vec::with_capacity(count);
    let mut budget = ResponseBudget::default();
    let mut fits = true;
    let mut failed = None;
    for operation in operations {
        let result = match run_one(container, transaction, view, key, operation) {
            Err(error) if is_of_server(&error) => return Err(error),
            result => result,
        };
        let steps = std::mem::take(&mut transaction.work);
        if let Ok(reply) = &result {
            fits &= budget.take(reply);
        }
        let is_failed = result.is_err();
        results.push((result, steps));
        if is_failed {
            failed = Some(results.len() - 1);
            break;
        }
    }
    // The service answers a response that is too large with the error of the last operation.
    if failed.is_none() && !fits {
        failed = Some(count - 1);
        results[count - 1].0 = Err(too_large());
    }
    let Some(failed) = failed else {
        return Ok(BatchRun {
            results,
            succeeded: true,
            response_bytes: budget.bytes,
        });
    };
    let mut batch = BatchRun {
        results,
        succeeded: false,
        response_bytes: 0,
    };
    // The operations before the failed one are undone, those after it were never begun.
    batch.undo(failed);
    let never_begun = || (Err(Error::failed_dependency()), Vec::new());
    batch.results.resize_with(count, never_begun);
    Ok(batch)
}

impl BatchRun {
    /// Reserves the memory of the response before the commit.
    ///
    /// # Errors
    /// 429 if there is none left.
    fn reserve_response(&self, answer: Option<&AnswerMemory>) -> Result<()> {
        match self.succeeded {
            true => reserve_answer(answer, self.response_bytes, COPIES),
            false => Ok(()),
        }
    }

    /// Fails the last operation, which stands for the growth of the whole batch, because its
    /// logical partition is full, and all others because of it.
    ///
    /// # Errors
    /// Every error for another reason, which fails the whole request.
    fn fail_last(&mut self, error: Error) -> Result<()> {
        if error.kind() != Kind::PartitionKeyFull {
            return Err(error);
        }
        if let Some((result, _)) = self.results.last_mut() {
            *result = Err(error);
        }
        self.undo(self.results.len().saturating_sub(1));
        Ok(())
    }

    /// Undoes all operations because of the one at `failed`.
    fn undo(&mut self, failed: usize) {
        self.succeeded = false;
        for (at, (result, steps)) in self.results.iter_mut().enumerate() {
            if at != failed {
                *result = Err(Error::failed_dependency());
            }
            *steps = refused(std::mem::take(steps));
        }
    }
}

/// Checks and carries out one operation of a transactional batch.
fn run_one(
    container: &Container,
    transaction: &mut Transaction<'_>,
    view: ReadView<'_>,
    key: &PartitionKey,
    operation: BatchOperation,
) -> Result<BatchReply> {
    let (draft, body) = Draft::of(container, Some(key), operation)?;
    let checked = draft.check(container, body)?;
    carry_out(transaction, view, &checked)
}

/// Operations that are commits of their own.
struct Bulk<'a> {
    engine: &'a Engine,
    container: &'a Container,
    /// The partition key range that the request names.
    range: Option<u32>,
    /// The partition key that the request names.
    key: Option<&'a PartitionKey>,
    options: ReadOptions<'a>,
    budget: ResponseBudget,
    /// Range id and LSN of the last write, which a later read must see.
    last_write: Option<(u32, u64)>,
}

impl Bulk<'_> {
    fn run(
        mut self,
        operations: Vec<BatchOperation>,
        continue_on_error: bool,
    ) -> Result<PendingBatch> {
        let named = match self.range {
            Some(id) => Some(self.container.partition_by_id(id)?),
            None => None,
        };
        // All operations are carried out here, or none is.
        let concerned = match (&named, self.key) {
            (Some(partition), _) => Arc::from([Arc::clone(partition)]),
            (None, Some(key)) => {
                let epk = self.container.partition_key().epk(key);
                Arc::from([self.container.partition_of(&epk)])
            }
            (None, None) => self.container.partitions(),
        };
        let bulk: Vec<_> = concerned.iter().map(|one| one.begin_bulk()).collect();
        check_all_owned(concerned.iter().map(Arc::as_ref))?;
        let mut answers: Vec<Pending<BatchReply>> = Vec::with_capacity(operations.len());
        let mut stopped = false;
        for operation in operations {
            if stopped {
                let outcome = Err(Error::failed_dependency());
                let nothing = Work::default();
                answers.push(Pending::ready(self.engine.outcome(outcome, nothing, None)));
                continue;
            }
            let answer = self.run_one(operation);
            stopped = answer.is_refused() && !continue_on_error;
            answers.push(answer);
        }
        // The partition was lost before the first operation.
        let is_elsewhere = |answer: &Pending<BatchReply>| {
            let refusal = answer.refusal();
            refusal.is_some_and(|error| error.kind() == Kind::NotOwned)
        };
        if !answers.is_empty() && answers.iter().all(is_elsewhere) {
            let only = match &concerned[..] {
                [only] => Some(only.storage_id.0),
                _ => None,
            };
            return Err(Error::not_owned(only));
        }
        // Commits are submitted, so nothing fails any more: without a snapshot the answer has no
        // position.
        let position = named.and_then(|partition| {
            let snapshot = partition.snapshot_in_any_phase().ok()?;
            Some(partition.position(snapshot.head().lsn, None))
        });
        drop(bulk);
        Ok(PendingBatch::separate(answers, position))
    }

    fn run_one(&mut self, operation: BatchOperation) -> Pending<BatchReply> {
        let refusal = Step::Refused { bytes: 0, terms: 0 };
        let drafted = Draft::of(self.container, self.key, operation);
        let (draft, body) = match drafted {
            Ok(drafted) => drafted,
            Err(error) => return self.engine.refuse(error, refusal),
        };
        let checked = match draft.check(self.container, body) {
            Ok(checked) => checked,
            Err(error) => return self.engine.refuse(error, refusal),
        };
        let request = PartitionRequest {
            container: self.container,
            kind: draft.kind(),
            admission: self.options.admission,
            refusal,
            position_of_failure: PositionOfFailure::None,
        };
        let (engine, container, range) = (self.engine, self.container, self.range);
        engine.at_partition(
            &request,
            || find_in_range(container, range, checked.address.epk()),
            |attempt| {
                let done = match checked.task {
                    Task::Read { .. } => self.read(&checked, attempt),
                    Task::Write { .. } => self.write(&checked, attempt),
                };
                if done.is_err() {
                    // What a refused write wrote did not reach the replicas.
                    *attempt.steps = refused(std::mem::take(attempt.steps));
                    attempt.position = None;
                }
                done
            },
        )
    }

    /// Adds the reply of an operation to the response.
    ///
    /// # Errors
    /// 413 if the response is too large, 429 if there is no memory for it.
    fn take(&mut self, reply: &BatchReply) -> Result<()> {
        if !self.budget.take(reply) {
            return Err(too_large());
        }
        reserve_answer(self.options.answer, self.budget.bytes, COPIES)
    }

    fn read(
        &mut self,
        checked: &Checked<'_>,
        attempt: &mut RequestAttempt<'_>,
    ) -> Result<RequestResult<BatchReply>> {
        let partition = attempt.partition;
        // A read must see the earlier writes of its own request.
        let own_lsn = match self.last_write {
            Some((range, lsn)) if range == partition.id => lsn,
            _ => 0,
        };
        let snapshot = match own_lsn {
            0 => partition.snapshot_ahead(|| checked.rows(self.container))?,
            lsn => partition.snapshot_with(lsn)?,
        };
        check_session(self.options.session, partition, snapshot.head().lsn)?;
        let world = self.engine.world();
        let mut transaction =
            Transaction::begin(self.container, partition, snapshot.as_ref(), world);
        let result = carry_out(&mut transaction, ReadView::Durable, checked);
        *attempt.steps = std::mem::take(&mut transaction.work);
        let reply = result?;
        self.take(&reply)?;
        attempt.position = Some(partition.position(snapshot.head().lsn, None));
        Ok(RequestResult::read(reply))
    }

    fn write(
        &mut self,
        checked: &Checked<'_>,
        attempt: &mut RequestAttempt<'_>,
    ) -> Result<RequestResult<BatchReply>> {
        let partition: &Arc<Partition> = attempt.partition;
        partition.read_ahead(|| checked.rows(self.container))?;
        let mut writer = partition.lock()?;
        let snapshot = partition.snapshot_for_writer(&writer, || checked.rows(self.container))?;
        let world = self.engine.world();
        let mut transaction =
            Transaction::begin(self.container, partition, snapshot.as_ref(), world);
        let result = carry_out(&mut transaction, ReadView::Writer(&writer), checked);
        *attempt.steps = std::mem::take(&mut transaction.work);
        let value = result.inspect_err(|_| attempt.rest_on(&writer, &transaction))?;
        // A client sends an operation again if its answer did not fit, so it must not be committed.
        self.take(&value)?;
        let durable_lsn = transaction.base_lsn();
        let commit = transaction.commit(&mut writer, None).inspect_err(|error| {
            attempt.rest_on_all(&writer, durable_lsn);
            charge_as_refused(error, attempt.steps);
        })?;
        self.last_write = Some((partition.id, writer.lsn));
        attempt.position = Some(partition.position(writer.lsn, Some(writer.lsn)));
        Ok(RequestResult { value, commit })
    }
}

/// Finds the partition of a key, which must be the partition of `range` if the request names one.
fn find_in_range<'k>(
    container: &Container,
    range: Option<u32>,
    epk: &'k Epk,
) -> Result<TargetPartition<'k>> {
    let found = TargetPartition::by_key(container, epk);
    match range {
        Some(range) if range != found.partition.id => Err(Error::new(
            Kind::PartitionKeyRangeGone,
            "The partition key of the operation lies in another partition key range than the batch.",
        )),
        _ => Ok(found),
    }
}

impl Draft {
    /// Splits an operation into a draft and its parsed body. `key` is the key that the request
    /// names.
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
            indexing,
            minimal,
        } = operation;
        let definition = container.partition_key();
        if let (Some(own), Some(key)) = (&partition_key, key) {
            definition.check(own)?;
            if !definition.is_same_key(own, key) {
                return Err(definition.mismatch(key, own));
            }
        }
        let body = match body {
            Some(Body::Text(text)) => Some(parse_body(&text)?),
            Some(Body::Json(json)) => Some(json),
            None => None,
        };
        let options = WriteOptions {
            partition_key: partition_key.or_else(|| key.cloned()),
            if_match,
            indexing,
            ..WriteOptions::default()
        };
        let draft = Draft {
            action,
            options,
            if_none_match,
            minimal,
        };
        Ok((draft, body))
    }

    fn check(&self, container: &Container, body: Option<Json>) -> Result<Checked<'_>> {
        let definition = container.partition_key();
        match &self.action {
            BatchAction::Read(id) => {
                let key = named_key(container, self.options.partition_key.as_ref())?;
                let if_match = self.options.if_match.as_deref();
                Ok(Checked {
                    address: definition.address(&key),
                    task: Task::Read {
                        id,
                        // An etag in `ifMatch` of a read counts as one in `ifNoneMatch`.
                        if_none_match: self.if_none_match.as_deref().or(if_match),
                    },
                })
            }
            BatchAction::Write(operation) => {
                let write = check(container, operation, body, &self.options)?;
                Ok(Checked {
                    address: definition.address(&write.key),
                    task: Task::Write {
                        write,
                        minimal: self.minimal,
                    },
                })
            }
        }
    }
}

/// Carries out one operation in a transaction.
fn carry_out(
    transaction: &mut Transaction<'_>,
    view: ReadView<'_>,
    checked: &Checked<'_>,
) -> Result<BatchReply> {
    match &checked.task {
        Task::Read { id, if_none_match } => {
            let Some(stored) = transaction.find(view, &checked.address, Id::Name(id))? else {
                transaction.work.push(Step::ReadNothing);
                return Err(Error::not_found()
                    .with_help(format!("No item has the id '{}'.", shortened(id))));
            };
            let rid = transaction.container_rid();
            let (reply, step) = read_reply(rid, &stored, *if_none_match, false);
            transaction.work.push(step);
            Ok(BatchReply::Read(reply))
        }
        Task::Write { write, minimal } => {
            let applied = apply(transaction, view, write)?;
            let mut written = applied.answer(transaction.container_rid(), write.options);
            if *minimal {
                written.item = None;
            }
            Ok(BatchReply::Written(written))
        }
    }
}

/// The times that an item of the response is in memory until the body is made: itself, and as a
/// part of the body.
const COPIES: u64 = 2;

/// The bytes of items in the response so far, at most [`limits::BATCH_RESPONSE_BYTES`].
#[derive(Default)]
struct ResponseBudget {
    bytes: usize,
}

impl ResponseBudget {
    /// Adds a reply and returns true, or returns false if the reply does not fit any more.
    fn take(&mut self, reply: &BatchReply) -> bool {
        let item = match reply {
            BatchReply::Read(ReadReply::Item { body, .. }) => Some(body),
            BatchReply::Read(ReadReply::NotModified { .. }) => None,
            BatchReply::Written(written) => written.item.as_ref(),
        };
        let bytes = item.map_or(0, |item| item.len());
        let fits = self.bytes + bytes <= limits::BATCH_RESPONSE_BYTES;
        if fits {
            self.bytes += bytes;
        }
        fits
    }
}

/// Returns the work of an operation that was refused: its reads count, its writes count as refused.
fn refused(steps: Vec<Step>) -> Vec<Step> {
    if steps.is_empty() {
        return vec![Step::Refused { bytes: 0, terms: 0 }];
    }
    steps.into_iter().map(Step::into_refused).collect()
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
    Error::new(
        Kind::BatchResponseTooLarge,
        format!(
            "The answers to the operations of the batch have more than {} bytes together.",
            limits::BATCH_RESPONSE_BYTES
        ),
    )
}
