//! Clients that write: single items, transactional batches, deletions of logical partitions.
//!
//! A write is submitted, and its answer is awaited at once or some steps later, so that others are
//! submitted meanwhile. Every answer is compared with the prediction.

use crate::Checked;
use crate::model::{ContainerModel, OpenChange, Seen};
use crate::node::Node;
use crate::planted::PlantedFault;
use crate::predict::{Action, Prediction, Write, predict};
use crate::reads::seen_of;
use crate::spec::{ItemKey, KEYS, Value};
use bytes::Bytes;
use orrery_engine::request::{
    AdmissionOptions, BatchAction, BatchAnswer, BatchMode, BatchOperation, BatchReply, Body,
    Outcome, Position, WriteOperation, WriteOptions, Written,
};
use orrery_engine::{Pending, PendingBatch};
use orrery_model::{Error, Kind};

/// An answer that is awaited.
pub(crate) enum Waiting {
    /// Of a write of one item.
    Write(Pending<Written>),
    /// Of a batch.
    Batch(PendingBatch),
    /// Of the deletion of a logical partition.
    Deletion(Pending<()>),
}

impl Waiting {
    /// Returns the error of a write of which nothing was submitted. A batch has it only when it is
    /// awaited.
    fn refusal(&self) -> Option<&Error> {
        match self {
            Waiting::Write(pending) => pending.refusal(),
            Waiting::Deletion(pending) => pending.refusal(),
            Waiting::Batch(_) => None,
        }
    }
}

/// A write whose answer is awaited.
pub(crate) struct Submitted {
    /// The number of the container.
    pub(crate) container: usize,
    /// The number of the change.
    serial: u64,
    /// True if the write was refused, and the answer may wait for a write from which it follows.
    is_refused: bool,
    waiting: Waiting,
    /// The items, in the order of the operations.
    writes: Vec<Write>,
    prediction: Prediction,
}

/// A result without what only one kind of request has.
struct Answer {
    result: Result<Vec<Written>, Error>,
    position: Option<Position>,
    /// True if an error says that the operations themselves were refused.
    is_refusal: bool,
}

impl Node<'_> {
    /// Writes one item.
    pub(crate) fn write_item(&mut self) -> Checked {
        let container = self.random_container();
        let key = ItemKey::random(&mut self.random);
        let write = self.random_write(container, key);
        let prediction = predict(
            &self.models[container],
            std::slice::from_ref(&write),
            self.now(),
        );
        let handle = self.handle(container)?;
        let options = WriteOptions {
            partition_key: Some(self.models[container].spec.partition_key(key.key)),
            if_match: write.if_match.as_ref().map(|(_, etag)| etag.clone()),
            ..WriteOptions::default()
        };
        let body = body_of(&self.models[container], &write);
        let operation = operation_of(&write);
        let pending = self
            .engine
            .write_item(&handle, &operation, body.as_deref(), &options);
        let serial = self.number();
        self.note(format!("c{container} {serial} {}", write.shown()));
        self.submitted(
            container,
            serial,
            Waiting::Write(pending),
            vec![write],
            prediction,
        )
    }

    /// Writes several items of one logical partition together.
    pub(crate) fn write_batch(&mut self) -> Checked {
        let container = self.random_container();
        let key = self.random.below(u64::from(KEYS)) as u8;
        let mut writes: Vec<Write> = Vec::new();
        for _ in 0..2 + self.random.below(3) {
            let item = ItemKey {
                key,
                ..ItemKey::random(&mut self.random)
            };
            // A patch, and a condition, of an item that the batch writes would follow from it.
            let is_written = writes.iter().any(|write| write.key == item);
            let mut write = self.random_write(container, item);
            if is_written && write.action == Action::Patch {
                write.action = Action::Replace;
                write.value = Some(self.random_value(container));
            }
            writes.push(write);
        }
        let prediction = predict(&self.models[container], &writes, self.now());
        let handle = self.handle(container)?;
        let partition_key = self.models[container].spec.partition_key(key);
        let serial = self.number();
        self.note(format!("c{container} {serial} batch: {}", shown(&writes)));
        let model = &self.models[container];
        if self.plan.fault == Some(PlantedFault::BatchInHalf) {
            return self.write_in_half(container, &writes, &prediction);
        }
        let operations = writes
            .iter()
            .map(|write| batch_operation(model, write))
            .collect();
        let mode = BatchMode::Atomic(partition_key);
        let pending = self.engine.batch(&handle, &mode, operations, None);
        let is_certain =
            prediction.is_success() && !self.is_failing() && !self.is_completing(container);
        let at = self.submit(
            container,
            serial,
            Waiting::Batch(pending),
            writes,
            prediction,
        );
        match is_certain {
            true => self.wait_or_not(),
            false => self.wait_for(at),
        }
    }

    /// Carries out a batch as a faulty client does: one by one, up to the first refusal.
    fn write_in_half(
        &mut self,
        container: usize,
        writes: &[Write],
        prediction: &Prediction,
    ) -> Checked {
        let handle = self.handle(container)?;
        let mut serials = Vec::new();
        for write in writes {
            let model = &self.models[container];
            let options = WriteOptions {
                partition_key: Some(model.spec.partition_key(write.key.key)),
                if_match: write.if_match.as_ref().map(|(_, etag)| etag.clone()),
                ..WriteOptions::default()
            };
            let body = body_of(model, write);
            let operation = operation_of(write);
            let written = self
                .engine
                .write_item(&handle, &operation, body.as_deref(), &options);
            let outcome = written.wait();
            self.note_charge(container, outcome.charge);
            if let Err(error) = outcome.result {
                return self.check_refusal(container, &error, prediction);
            }
            let serial = self.number();
            serials.push((serial, write));
        }
        for (serial, write) in serials {
            self.models[container].submit(serial, change_of(std::slice::from_ref(write)));
            self.models[container].applied(serial);
        }
        Ok(())
    }

    /// Deletes all items of a logical partition.
    pub(crate) fn delete_key(&mut self) -> Checked {
        let container = self.random_container();
        let key = self.random.below(u64::from(KEYS)) as u8;
        let handle = self.handle(container)?;
        let partition_key = self.models[container].spec.partition_key(key);
        let admission = AdmissionOptions::default();
        let pending = self
            .engine
            .delete_logical_partition(&handle, &partition_key, admission);
        let serial = self.number();
        self.note(format!("c{container} {serial} delete key {key}"));
        // Few deletions of a partition may wait for the removal of their rows.
        let prediction = Prediction::success_or(vec![Kind::Throttled]);
        let writes = ItemKey::all_of(key).map(|key| Write {
            key,
            action: Action::Delete,
            value: None,
            if_match: None,
        });
        let writes = writes.collect();
        self.submitted(
            container,
            serial,
            Waiting::Deletion(pending),
            writes,
            prediction,
        )
    }

    /// Notes a submitted write, and waits for its answer now or later.
    fn submitted(
        &mut self,
        container: usize,
        serial: u64,
        waiting: Waiting,
        writes: Vec<Write>,
        prediction: Prediction,
    ) -> Checked {
        match waiting.refusal().map(Error::kind) {
            // The store or a split refuses the write, which no item explains later.
            Some(kind) if !prediction.allows(kind) => {
                return match self.end_of(container, waiting).result {
                    Err(error) => self.check_refusal(container, &error, &prediction),
                    Ok(_) => Err(format!("{} was refused, and succeeds", shown(&writes))),
                };
            }
            None if !prediction.may_succeed => {
                return Err(format!(
                    "{} was accepted, and must be refused: {prediction:?}",
                    shown(&writes)
                ));
            }
            _ => {}
        }
        self.submit(container, serial, waiting, writes, prediction);
        self.wait_or_not()
    }

    /// Notes a submitted write. Returns its place among those that are awaited.
    fn submit(
        &mut self,
        container: usize,
        serial: u64,
        waiting: Waiting,
        writes: Vec<Write>,
        prediction: Prediction,
    ) -> usize {
        let is_refused = waiting.refusal().is_some();
        if !is_refused {
            let mut change = change_of(&writes);
            // The store may refuse the commit, which the answer tells only when it is awaited.
            change.is_sure = !self.is_failing();
            change.is_key_deletion = matches!(waiting, Waiting::Deletion(_));
            self.models[container].submit(serial, change);
        }
        self.awaited.push(Submitted {
            container,
            serial,
            is_refused,
            waiting,
            writes,
            prediction,
        });
        self.awaited.len() - 1
    }

    /// Waits for a random answer, in half of the cases or if many are awaited.
    fn wait_or_not(&mut self) -> Checked {
        if self.awaited.len() > 6 || self.random.chance(55) {
            let at = self.random.index(self.awaited.len());
            return self.wait_for(at);
        }
        Ok(())
    }

    /// Waits for all answers, in a random order.
    pub(crate) fn wait_for_all(&mut self) -> Checked {
        while !self.awaited.is_empty() {
            let at = self.random.index(self.awaited.len());
            self.wait_for(at)?;
        }
        Ok(())
    }

    /// Waits for an answer, and compares it with the prediction.
    pub(crate) fn wait_for(&mut self, at: usize) -> Checked {
        let Submitted {
            container,
            serial,
            is_refused,
            waiting,
            writes,
            prediction,
        } = self.awaited.swap_remove(at);
        let is_single = matches!(waiting, Waiting::Write(_));
        let answer = self.end_of(container, waiting);
        match &answer.result {
            Ok(_) => self.note(format!(
                "c{container} {serial} done at {:?}",
                answer.position
            )),
            Err(error) => self.note(format!("c{container} {serial} ended {:?}", error.kind())),
        }
        match answer.result {
            Ok(_) if is_refused => Err(format!("{} was refused, and succeeds", shown(&writes))),
            Err(error) if is_refused => self.check_refusal(container, &error, &prediction),
            Ok(written) => {
                if !prediction.may_succeed {
                    return Err(format!(
                        "{} must be refused: {prediction:?}",
                        shown(&writes)
                    ));
                }
                self.counts.answered += 1;
                self.models[container].applied(serial);
                self.check_answers(container, &writes, written)?;
                self.note_written_lsn(container, answer.position, is_single)
            }
            Err(error) if answer.is_refusal => {
                self.models[container].refused(serial);
                self.check_refusal(container, &error, &prediction)
            }
            Err(error) => self.failed_wait(container, serial, &error),
        }
    }

    /// Waits for an answer, and notes its charge.
    fn end_of(&mut self, container: usize, waiting: Waiting) -> Answer {
        let (answer, charge) = match waiting {
            Waiting::Write(pending) => {
                let Outcome {
                    result,
                    position,
                    charge,
                    ..
                } = pending.wait();
                (
                    answer_of(result.map(|written| vec![written]), position),
                    charge,
                )
            }
            Waiting::Batch(pending) => {
                let outcome = pending.wait();
                let charge = outcome.charge;
                (answer_of_batch(outcome), charge)
            }
            Waiting::Deletion(pending) => {
                let Outcome {
                    result,
                    position,
                    charge,
                    ..
                } = pending.wait();
                (answer_of(result.map(|()| Vec::new()), position), charge)
            }
        };
        self.note_charge(container, charge);
        answer
    }

    /// Takes in an error that says what became of a commit.
    fn failed_wait(&mut self, container: usize, serial: u64, error: &Error) -> Checked {
        let model = &mut self.models[container];
        match error.kind() {
            Kind::UnknownOutcome | Kind::Internal => self.counts.unknown += 1,
            Kind::RetryWith | Kind::Unavailable | Kind::StorageFull | Kind::Throttled => {
                model.failed(serial)?;
            }
            Kind::CompletingSplit => model.failed(serial)?,
            _ => return Err(format!("change {serial} ended with {error:?}")),
        }
        self.models[container].doubt();
        self.check_failure(container, error)
    }

    /// Compares the items of an answer with those that were sent.
    fn check_answers(
        &mut self,
        container: usize,
        writes: &[Write],
        written: Vec<Written>,
    ) -> Checked {
        for (write, written) in writes.iter().zip(written) {
            let (Some(value), Some(item)) = (&write.value, written.item) else {
                continue;
            };
            let seen = seen_of(&self.models[container], write.key, &item, Some(value))?.1;
            if written.etag.as_ref() != Some(&seen.etag) {
                return Err(format!(
                    "the answer has two etags: {seen:?}, {:?}",
                    written.etag
                ));
            }
            note_answer(&mut self.models[container], write.key, &seen);
        }
        Ok(())
    }

    /// Checks the error of a write that was refused, and notes the change from which it follows.
    fn check_refusal(
        &mut self,
        container: usize,
        error: &Error,
        prediction: &Prediction,
    ) -> Checked {
        self.note(format!("  refused {:?}", error.kind()));
        match (
            prediction.allows(error.kind()),
            prediction.rests_on(error.kind()),
        ) {
            (true, Some(change)) => self.models[container].is_told_of(change),
            (true, None) => Ok(()),
            (false, _) => self
                .check_failure(container, error)
                .map_err(|message| format!("{message}; predicted: {prediction:?}")),
        }
    }

    /// Returns a random write of an item.
    fn random_write(&mut self, container: usize, key: ItemKey) -> Write {
        let states = self.models[container].accepted(key, self.now());
        let any = [
            Action::Create,
            Action::Upsert,
            Action::Replace,
            Action::Patch,
            Action::Delete,
        ];
        // Mostly a write that fits what is there, so that clients do more than be refused.
        let is_there = states.iter().any(Option::is_some);
        let mut action = match (self.random.chance(80), is_there) {
            (false, _) => self.random.pick(&any),
            (true, true) => self.random.pick(&any[1..]),
            (true, false) => self.random.pick(&any[..2]),
        };
        let mut value = self.random_value(container);
        // The result of a patch follows from the value before.
        if action == Action::Patch {
            match states.as_slice() {
                [Some(old)] => {
                    let (k, base, unique) = (old.k + 1, old.base, old.unique);
                    value = Value {
                        k,
                        base,
                        unique,
                        ttl: old.ttl,
                        ..value
                    };
                }
                [None] => {}
                _ => action = Action::Upsert,
            }
        }
        let has_condition =
            !matches!(action, Action::Create | Action::Upsert) && self.random.chance(30);
        let known = self.models[container]
            .etags
            .get(&key)
            .filter(|_| has_condition);
        let if_match = known.and_then(|known| {
            // Mostly the newest version, so that the condition often holds.
            let recent = &known[known.len().saturating_sub(2)..];
            let at = self.random.index(recent.len());
            recent.get(at).cloned()
        });
        let value = (action != Action::Delete).then_some(value);
        Write {
            key,
            action,
            value,
            if_match,
        }
    }

    fn random_value(&mut self, container: usize) -> Value {
        let n = self.number();
        let has_ttl = self.models[container].spec.has_ttl;
        let ttls = [None, None, Some(-1), Some(2), Some(30), Some(5_000)];
        Value {
            n,
            base: n,
            k: self.random.below(6) as i64,
            unique: self.random.below(7) as u8,
            ttl: if has_ttl {
                self.random.pick(&ttls)
            } else {
                None
            },
            ts: self.now(),
            is_ts_known: false,
            may_be_gone: false,
            was_over: false,
        }
    }
}

/// Notes the time and the etag that an answer has shown.
fn note_answer(model: &mut ContainerModel, key: ItemKey, seen: &Seen) {
    model.note_stamp(key, seen);
    let etags = model.etags.entry(key).or_default();
    if etags.iter().all(|(n, _)| *n != seen.n) {
        etags.push((seen.n, seen.etag.clone()));
    }
}

/// Returns writes as a part of an event.
fn shown(writes: &[Write]) -> String {
    let all: Vec<String> = writes.iter().map(Write::shown).collect();
    all.join(", ")
}

fn change_of(writes: &[Write]) -> OpenChange {
    // Of several writes of one item the last one counts.
    let mut items: Vec<(ItemKey, Option<Value>)> = Vec::new();
    for write in writes {
        items.retain(|(key, _)| *key != write.key);
        items.push((write.key, write.value.clone()));
    }
    OpenChange {
        items,
        is_sure: true,
        is_key_deletion: false,
    }
}

fn operation_of(write: &Write) -> WriteOperation {
    let id = write.key.name();
    match write.action {
        Action::Create => WriteOperation::Create,
        Action::Upsert => WriteOperation::Upsert,
        Action::Replace => WriteOperation::Replace(id),
        Action::Patch => WriteOperation::Patch(id),
        Action::Delete => WriteOperation::Delete(id),
    }
}

fn body_of(model: &ContainerModel, write: &Write) -> Option<Vec<u8>> {
    let value = write.value.as_ref()?;
    let text = match write.action {
        Action::Patch => format!(
            r#"{{"operations":[{{"op":"set","path":"/n","value":{}}},
            {{"op":"incr","path":"/k","value":1}}]}}"#,
            value.n
        ),
        _ => model.spec.item_text(write.key, value),
    };
    Some(text.into_bytes())
}

fn batch_operation(model: &ContainerModel, write: &Write) -> BatchOperation {
    let body = body_of(model, write).map(|text| Body::Text(Bytes::from(text)));
    let mut operation = BatchOperation::new(BatchAction::Write(operation_of(write)), body);
    operation.if_match = write.if_match.as_ref().map(|(_, etag)| etag.clone());
    operation
}

fn answer_of(result: Result<Vec<Written>, Error>, position: Option<Position>) -> Answer {
    Answer {
        result,
        position,
        is_refusal: false,
    }
}

fn answer_of_batch(outcome: Outcome<BatchAnswer>) -> Answer {
    let answer = match outcome.result {
        Err(error) => return answer_of(Err(error), outcome.position),
        Ok(answer) => answer,
    };
    let mut written = Vec::new();
    let mut refusal = None;
    for one in answer.results {
        match one.result {
            Ok(BatchReply::Written(one)) => written.push(one),
            Ok(BatchReply::Read(_)) => {}
            Err(error) if error.kind() == Kind::FailedDependency => {}
            Err(error) => refusal = Some(error),
        }
    }
    Answer {
        is_refusal: refusal.is_some(),
        result: refusal.map_or(Ok(written), Err),
        position: outcome.position,
    }
}
