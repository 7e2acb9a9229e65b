//! Execution of stored procedures and triggers.
//!
//! A script runs in a transaction over one logical partition:
//!
//! ```text
//! take the script lock of the logical partition
//! several times:
//!     snapshot with every accepted commit ── run the script ── lock the writer ── commit
//!                                                              (449: a write came, run again)
//! ```
//!
//! The writer's lock is never held while a script runs: other writes of the physical partition, of
//! any logical partition, wait for a commit and not for a script. Scripts of one logical partition
//! run one at a time, so that they do not make each other repeat. A script whose logical partition
//! is written in each of its runs is answered with 449, which clients repeat.
//!
//! `script_host.rs` answers the calls that a script makes, `crate::catalog` keeps the scripts.

use crate::Engine;
use crate::catalog::{Container, Script};
use crate::errors::{conflicting_write, reserve_answer, script_error};
use crate::items::fired_write::FiredWrite;
use crate::items::script_host::ScriptHost;
use crate::items::{CheckedOperation, CheckedWrite, apply, parse_item};
use crate::partition::SubmittedCommit;
use crate::partition::item::item_id;
use crate::partition::keys;
use crate::partition::transaction::{ReadView, Transaction};
use crate::partition_request::{
    PartitionRequest, PositionOfFailure, RequestAttempt, RequestResult, TargetPartition,
};
use crate::pending::Pending;
use crate::request::{ExecuteOptions, Id, OperationKind, ProcedureReply, ScriptKind, Written};
use bytes::Bytes;
use orrery_model::partition_key::PartitionKey;
use orrery_model::work::Step;
use orrery_model::{Error, Json, Kind, Object, Result, limits};
use orrery_script::{
    Ambient, ContainerLinks, Operation, Procedure, Quota, ScriptError, Trigger, TriggerTime,
};
use std::borrow::Cow;
use std::sync::Arc;

/// Runs of a script that are always made, if other writes come between.
const RUNS: usize = 4;
/// Runs of a script at most. Those beyond [`RUNS`] are made only within the time of a request.
const RUNS_MAX: usize = 16;

/// The id of the procedure that every container has: it answers its argument.
const ECHO: &str = "__.sys.echo";

/// The end of a transaction of a script.
struct Committed<T> {
    /// The result of the script.
    value: T,
    /// The commit; `None` if the script changed nothing.
    commit: Option<SubmittedCommit>,
    /// The LSN that the result reflects.
    lsn: u64,
}

impl Engine {
    /// Executes a stored procedure in a logical partition. Blocks while the procedure runs. Its
    /// writes are submitted when this returns; wait for the answer before passing it on.
    ///
    /// The outcome has 404 for an unknown procedure, 429 if the budget is spent, 400 for an
    /// exception of the procedure (its number is the sub-status), 408 for a procedure that runs too
    /// long, 403 for a procedure that did so again and again.
    pub fn execute(
        &self,
        container: &Container,
        procedure: Id<'_>,
        key: &PartitionKey,
        arguments: &[u8],
        options: ExecuteOptions<'_>,
    ) -> Pending<ProcedureReply> {
        let found = container
            .partition_key()
            .check(key)
            .and_then(|()| self.find_procedure(container, procedure));
        let script = match found {
            Ok(script) => script,
            Err(error) => return self.refuse(error, Step::ReadNothing),
        };
        let epk = container.partition_key().epk(key);
        let request = PartitionRequest {
            container,
            kind: OperationKind::Script,
            admission: options.admission,
            refusal: Step::ReadNothing,
            position_of_failure: PositionOfFailure::Durable,
        };
        self.at_partition(
            &request,
            || Ok(TargetPartition::by_key(container, &epk)),
            |attempt| {
                let partition = attempt.partition;
                let mut inner = Vec::new();
                let ran = self.transact(container, attempt, key, &mut inner, |host| {
                    let reply = self.run_procedure(host, &script, arguments, options.logging)?;
                    reserve_answer(options.answer, reply.body.len(), 1)?;
                    Ok(reply)
                });
                attempt.steps.push(Step::Script {
                    inner,
                    executions: 1,
                });
                let ran = ran?;
                attempt.position = Some(partition.position(ran.lsn, None));
                Ok(RequestResult {
                    value: ran.value,
                    commit: ran.commit,
                })
            },
        )
    }

    fn find_procedure(&self, container: &Container, procedure: Id<'_>) -> Result<Arc<Script>> {
        match procedure {
            Id::Name(ECHO) => {
                let echo = Script::procedure(ECHO, orrery_script::ECHO_PROCEDURE);
                Ok(Arc::new(echo))
            }
            _ => self
                .catalog()
                .find_script(container, ScriptKind::Procedure, procedure),
        }
    }

    fn run_procedure(
        &self,
        host: &mut ScriptHost<'_, '_>,
        script: &Script,
        arguments: &[u8],
        logging: bool,
    ) -> Result<ProcedureReply> {
        let container = host.container;
        let (maximum, current) = self.quota(container);
        let call = Procedure {
            id: script.id(),
            body: script.source(),
            arguments,
            links: ContainerLinks {
                self_link: &container.self_link(),
                alt_link: &container.alt_link(),
            },
            quota: Quota {
                current: &current,
                maximum: &maximum,
            },
            logging,
            ambient: self.ambient(),
        };
        let outcome =
            self.run_unless_denied(script, || self.scripts().run_procedure(call, host))?;
        Ok(ProcedureReply {
            body: outcome.body,
            log: outcome.log,
        })
    }

    /// Carries out a write between its triggers, as one commit.
    ///
    /// # Errors
    /// 400 for a trigger that does not exist or does not fit the write, and for what a trigger
    /// throws; the errors of the write.
    pub(super) fn write_with_triggers(
        &self,
        container: &Container,
        write: &CheckedWrite<'_>,
        attempt: &mut RequestAttempt<'_>,
    ) -> Result<RequestResult<Written>> {
        let triggers = Triggers::find(container, write)?;
        let partition = attempt.partition;
        let mut inner = Vec::new();
        let ran = self.transact(container, attempt, &write.key, &mut inner, |host| {
            let written = self.write_between(host, write, &triggers)?;
            let bytes = written.item.as_ref().map_or(0, Bytes::len);
            reserve_answer(write.options.answer.as_deref(), bytes, 1)?;
            Ok(written)
        });
        attempt.steps.push(Step::Script {
            inner,
            executions: triggers.count(),
        });
        let ran = ran?;
        attempt.position = Some(partition.position(ran.lsn, Some(ran.lsn)));
        Ok(RequestResult {
            value: ran.value,
            commit: ran.commit,
        })
    }

    /// Runs the pre-trigger, the write and the post-trigger in the transaction of `host`.
    fn write_between(
        &self,
        host: &mut ScriptHost<'_, '_>,
        write: &CheckedWrite<'_>,
        triggers: &Triggers,
    ) -> Result<Written> {
        // The request of a deletion has no body; triggers see the item that is deleted.
        let deleted = host.item_to_delete(write)?;
        let mut request = TriggerRequest {
            write,
            deleted: deleted.as_deref(),
        };
        let rewritten = match &triggers.pre {
            Some(trigger) => self.run_pre_trigger(host, trigger, request)?,
            None => None,
        };
        // A pre-trigger may have replaced the item; the write and the post-trigger go on with that.
        let changed = rewritten.and_then(|item| write.with_item(item));
        if let Some(changed) = &changed {
            request.write = changed;
        }
        let Some(trigger) = &triggers.post else {
            let applied = apply(&mut host.transaction, host.view, request.write)?;
            return Ok(applied.answer(host.container.rid(), request.write.options));
        };
        let before = FiredWrite::item_before(&host.transaction, host.view, request.write)?;
        let applied = apply(&mut host.transaction, host.view, request.write)?;
        host.fired = FiredWrite::new(before, &applied);
        let mut written = applied.answer(host.container.rid(), request.write.options);
        let response = written.item.as_ref();
        let response = response.map(|text| String::from_utf8_lossy(text).into_owned());
        let response = response.as_deref();
        let body = self.run_trigger(host, trigger, TriggerTime::Post, request, response)?;
        if let Some(body) = body {
            written.item = Some(Bytes::from(body));
        }
        Ok(written)
    }

    /// Runs `body` in a transaction of one logical partition until the transaction is committed.
    /// See the module's text. `steps` gets the work of the last run.
    ///
    /// # Errors
    /// The error of `body`; 449 if other writes came between every time.
    fn transact<T>(
        &self,
        container: &Container,
        attempt: &mut RequestAttempt<'_>,
        key: &PartitionKey,
        steps: &mut Vec<Step>,
        mut body: impl FnMut(&mut ScriptHost<'_, '_>) -> Result<T>,
    ) -> Result<Committed<T>> {
        let partition = attempt.partition;
        let address = container.partition_key().address(key);
        let epk_prefix = keys::epk_prefix(address.epk());
        let _script_lock = self.script_locks().lock(container.rid(), epk_prefix)?;
        let began_ms = self.world().now_ms();
        for run in 0..RUNS_MAX {
            let is_late = self.world().now_ms().saturating_sub(began_ms) > limits::REQUEST_TIME_MS;
            if run >= RUNS && is_late {
                break;
            }

            // A script sees durable commits only, and all that were accepted before it began.
            let accepted = partition.lock()?.lsn;
            let snapshot = partition.snapshot_with(accepted)?;
            let transaction =
                Transaction::begin(container, partition, snapshot.as_ref(), self.world());
            let mut host = ScriptHost {
                engine: self,
                container,
                key: key.clone(),
                address: address.clone(),
                transaction,
                view: ReadView::Durable,
                fired: None,
                failure_of_server: None,
            };
            let result = body(&mut host);
            let mut transaction = host.transaction;
            *steps = std::mem::take(&mut transaction.work);
            if let Some(failure) = host.failure_of_server {
                return Err(failure);
            }
            transaction.check_not_overfull()?;
            let value = result?;
            if transaction.is_clean() {
                return Ok(Committed {
                    value,
                    commit: None,
                    lsn: transaction.base_lsn(),
                });
            }

            let mut writer = partition.lock()?;
            let durable_lsn = transaction.base_lsn();
            match transaction.commit(&mut writer, Some(epk_prefix)) {
                Ok(commit) => {
                    return Ok(Committed {
                        value,
                        commit,
                        lsn: writer.lsn,
                    });
                }
                Err(error) if error.kind() == Kind::RetryWith => {}
                Err(error) => {
                    attempt.rest_on_all(&writer, durable_lsn);
                    return Err(error);
                }
            }
        }
        Err(conflicting_write())
    }

    /// Runs a pre-trigger. Returns the item if the trigger replaced it.
    ///
    /// # Errors
    /// 400 for an exception of the trigger and for an item that is wrong; 400/1001 for an item of
    /// another logical partition.
    fn run_pre_trigger(
        &self,
        host: &mut ScriptHost<'_, '_>,
        trigger: &Script,
        request: TriggerRequest<'_>,
    ) -> Result<Option<Object>> {
        let body = self.run_trigger(host, trigger, TriggerTime::Pre, request, None)?;
        let Some(text) = body else {
            return Ok(None);
        };
        let item = parse_item(text.as_bytes())?;
        if request.deleted.is_none() {
            item_id(&item)?;
            let definition = host.container.partition_key();
            let key = definition.extract(&item)?;
            if !definition.is_same_key(&key, &host.key) {
                return Err(Error::partition_key_mismatch().with_help(format!(
                    "The trigger '{}' makes an item with the partition key {}, which is not that \
                     of the request.",
                    trigger.id(),
                    key.shown()
                )));
            }
        }
        Ok(Some(item))
    }

    /// Runs a trigger. Returns the body that the trigger set: of the request before the write, of
    /// the response after it.
    fn run_trigger(
        &self,
        host: &mut ScriptHost<'_, '_>,
        trigger: &Script,
        time: TriggerTime,
        request: TriggerRequest<'_>,
        response: Option<&str>,
    ) -> Result<Option<String>> {
        let container = host.container;
        let (maximum, current) = self.quota(container);
        let request_body = request.body();
        let call = Trigger {
            id: trigger.id(),
            body: trigger.source(),
            time,
            operation: operation_of(&request.write.operation),
            request: request_body.as_deref(),
            response,
            links: ContainerLinks {
                self_link: &container.self_link(),
                alt_link: &container.alt_link(),
            },
            quota: Quota {
                current: &current,
                maximum: &maximum,
            },
            logging: false,
            ambient: self.ambient(),
        };
        let outcome = self.run_unless_denied(trigger, || self.scripts().run_trigger(call, host))?;
        Ok(outcome.body)
    }

    /// Runs a stored procedure or a trigger, unless it timed out too often, and notes a time-out.
    ///
    /// # Errors
    /// 403 for a script that is denied; those of [`script_error`].
    fn run_unless_denied<T>(
        &self,
        script: &Script,
        run: impl FnOnce() -> std::result::Result<T, ScriptError>,
    ) -> Result<T> {
        self.denied_scripts().check(script)?;
        let ran = self.meters().script_seconds.time(run);
        if matches!(ran, Err(ScriptError::TimedOut)) {
            let now_ms = self.world().now_ms();
            self.denied_scripts().add_timeout(script, now_ms);
        }
        ran.map_err(script_error)
    }

    /// Returns time and randomness for one script execution.
    pub(super) fn ambient(&self) -> Ambient {
        Ambient {
            now_ms: self.world().now_ms() as i64,
            seed: self.world().random(),
        }
    }
}

/// The request that a trigger sees.
#[derive(Clone, Copy)]
struct TriggerRequest<'a> {
    write: &'a CheckedWrite<'a>,
    /// The text of the item that the request deletes.
    deleted: Option<&'a str>,
}

impl TriggerRequest<'_> {
    /// Returns the body of the request: the item that is sent or, of a deletion, the stored item.
    fn body(&self) -> Option<Cow<'_, str>> {
        if let Some(deleted) = self.deleted {
            return Some(Cow::Borrowed(deleted));
        }
        let item = self.write.item()?;
        Some(Cow::Owned(Json::Object(item.clone()).to_text()))
    }
}

fn operation_of(operation: &CheckedOperation<'_>) -> Operation {
    match operation {
        CheckedOperation::Create(_) => Operation::Create,
        CheckedOperation::Upsert(_) => Operation::Upsert,
        CheckedOperation::Replace { .. } => Operation::Replace,
        CheckedOperation::Delete { .. } => Operation::Delete,
        CheckedOperation::Patch { .. } => Operation::Patch,
    }
}

/// The triggers that a write names.
struct Triggers {
    pre: Option<Arc<Script>>,
    post: Option<Arc<Script>>,
}

impl Triggers {
    /// Finds the triggers that a write names.
    ///
    /// # Errors
    /// 400 for a trigger that does not exist, is of the other type or does not fit the operation.
    fn find(container: &Container, write: &CheckedWrite<'_>) -> Result<Triggers> {
        let find = |name: &Option<String>, trigger_type| match name {
            Some(name) => find_trigger(container, name, trigger_type, &write.operation).map(Some),
            None => Ok(None),
        };
        Ok(Triggers {
            pre: find(&write.options.pre_trigger, "Pre")?,
            post: find(&write.options.post_trigger, "Post")?,
        })
    }

    fn count(&self) -> u32 {
        u32::from(self.pre.is_some()) + u32::from(self.post.is_some())
    }
}

fn find_trigger(
    container: &Container,
    name: &str,
    trigger_type: &str,
    operation: &CheckedOperation<'_>,
) -> Result<Arc<Script>> {
    let trigger = container.script(ScriptKind::Trigger, name).ok_or_else(|| {
        Error::bad(format!(
            "The trigger '{name}' does not exist in this container."
        ))
        .with_help("Create it on the container before a request names it.")
    })?;
    if trigger.trigger_type() != trigger_type {
        return Err(Error::bad(format!(
            "The trigger '{name}' is no {trigger_type}-trigger."
        ))
        .with_help(format!(
            "Its triggerType is {}: name it as such on the request.",
            trigger.trigger_type()
        )));
    }
    let fitting: &[&str] = match operation {
        CheckedOperation::Create(_) => &["Create"],
        CheckedOperation::Upsert(_) => &["Create", "Upsert", "Replace", "Update"],
        CheckedOperation::Replace { .. } => &["Replace", "Update"],
        CheckedOperation::Delete { .. } => &["Delete"],
        CheckedOperation::Patch { .. } => {
            return Err(Error::unsupported("A trigger on a partial update"));
        }
    };
    let covered = trigger.trigger_operation();
    if covered != "All" && !fitting.contains(&covered) {
        return Err(Error::bad(format!(
            "The trigger '{name}' is for the operation {covered} and cannot run here."
        )));
    }
    Ok(trigger)
}
