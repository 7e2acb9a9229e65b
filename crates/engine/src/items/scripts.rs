//! Running scripts: what a stored procedure or trigger can do to its logical partition, and how that becomes one commit.
//!
//! A script works on a durable snapshot, in a transaction of one logical partition. When it is done, the transaction is
//! ordered if nobody wrote to that logical partition meanwhile; if somebody did, the script is run again, in the end
//! under the writer's lock. Scripts of one logical partition run one at a time, so they do not make each other repeat.

use crate::Engine;
use crate::catalog::{Container, Script};
use crate::errors::{script_error, udf_error};
use crate::items::patch::CheckedPatch;
use crate::items::{CheckedWrite, apply};
use crate::partition::item::{StoredItem, item_id};
use crate::partition::transaction::{ItemOptions, ReadView, Transaction};
use crate::partition::{Partition, SubmittedCommit};
use crate::pending::Pending;
use crate::query::{ListedRow, environment, query_rows};
use crate::request::etag_matches;
use crate::request::{
    ExecuteOptions, Id, Outcome, PageRequest, ProcedureReply, QueryRequest, ScriptKind,
    WriteOperation, Written,
};
use crate::throughput::RequestTarget;
use bytes::Bytes;
use orrery_model::json::parse;
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::rid::ChildKind;
use orrery_model::work::{QueryWork, Step, Work};
use orrery_model::{Error, Json, Kind, Object, Result, Rid};
use orrery_script::{
    Ambient, ContainerLinks, DocumentLink, Host, HostCall, HostFailure, HostReply, IndexAction,
    Operation, Procedure, Quota, ScriptError, Trigger, TriggerTime,
};
use orrery_sql::{Functions, QueryError};
use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

/// Runs on a snapshot before the writer's lock is held for the whole run.
const OPTIMISTIC_RUNS: usize = 3;

/// The procedure that every container has: it answers its argument.
const ECHO: &str = "__.sys.echo";

/// The [`Host`] of one script execution: a transaction over one logical partition.
struct ScriptHost<'a, 'w> {
    engine: &'a Engine,
    container: &'a Container,
    key: PartitionKey,
    epk: Epk,
    transaction: Transaction<'a>,
    base: ReadView<'w>,
}

impl Engine {
    /// Executes a stored procedure in a logical partition. Blocks while it runs; wait for the answer before passing it on.
    ///
    /// # Errors
    /// 404 for an unknown procedure, 429 if it is not admitted, 400 for what it throws (with its number as sub-status), 408 when it runs too long.
    pub fn execute(
        &self,
        container: &Container,
        procedure: Id<'_>,
        key: &PartitionKey,
        arguments: &[u8],
        options: ExecuteOptions,
    ) -> std::result::Result<Pending<ProcedureReply>, Box<Outcome<ProcedureReply>>> {
        let found = container
            .partition_key()
            .check(key)
            .and_then(|()| match procedure {
                Id::Name(ECHO) => Ok(Arc::new(Script::procedure(
                    ECHO,
                    orrery_script::ECHO_PROCEDURE,
                ))),
                _ => self
                    .catalog()
                    .find_script(container, ScriptKind::Procedure, procedure),
            });
        let script = found.map_err(|e| {
            Box::new(self.outcome(
                Err(e),
                Work {
                    steps: vec![Step::ReadNothing],
                },
                None,
            ))
        })?;
        let epk = container.partition_key().epk(key);
        let mut work = Work::default();
        let mut run = |host: &mut ScriptHost<'_, '_>| {
            let (self_link, alt_link, quota) = (
                container.self_link(),
                container.alt_link(),
                self.quota(container),
            );
            let call = Procedure {
                id: script.id(),
                body: script.source(),
                arguments,
                links: ContainerLinks {
                    self_link: &self_link,
                    alt_link: &alt_link,
                },
                quota: Quota {
                    current: &quota.1,
                    maximum: &quota.0,
                },
                logging: options.logging,
                ambient: self.ambient(),
            };
            let run = || self.scripts().run_procedure(call, host);
            let outcome = self
                .meters()
                .script_seconds
                .time(run)
                .map_err(script_error)?;
            Ok(ProcedureReply {
                body: outcome.body,
                log: outcome.log,
            })
        };
        let (partition, done) = container.in_partition_of(&epk, |partition| {
            work.steps.clear();
            let spot = RequestTarget {
                container,
                partition,
                key: Some(&epk),
            };
            self.at(spot, options.admission, &mut work, |work| {
                let mut steps = Vec::new();
                let done = self.transact(container, partition, key, &mut steps, &mut run);
                work.steps.push(Step::Script {
                    inner: steps,
                    executions: 1,
                });
                done
            })
        });
        match done {
            Ok((ordered, reply, lsn)) => {
                let position = partition.position(lsn, None);
                Ok(Pending::new(
                    ordered,
                    &partition,
                    self.outcome(Ok(reply), work, Some(position)),
                ))
            }
            Err(error) => Err(Box::new(self.outcome(
                Err(error),
                work,
                Some(partition.position_now()),
            ))),
        }
    }

    /// A write between its triggers, all in one commit.
    pub(crate) fn write_with_triggers(
        &self,
        container: &Container,
        partition: &Arc<Partition>,
        write: &CheckedWrite<'_>,
        work: &mut Work,
    ) -> Result<(Option<SubmittedCommit>, Written, u64)> {
        let named = |name: &Option<String>, time: TriggerTime| {
            name.as_ref()
                .map(|name| find_trigger(container, name, time, write.operation))
                .transpose()
        };
        let (pre, post) = (
            named(&write.options.pre_trigger, TriggerTime::Pre)?,
            named(&write.options.post_trigger, TriggerTime::Post)?,
        );
        let executions = [&pre, &post].into_iter().flatten().count() as u32;
        let mut steps = Vec::new();
        let done = self.transact(container, partition, &write.key, &mut steps, |host| {
            let deleted = host.item_to_delete(write)?;
            let rewritten = match &pre {
                Some(trigger) => self.run_pre_trigger(host, trigger, write, deleted.as_deref())?,
                None => None,
            };
            let write = CheckedWrite {
                operation: write.operation,
                key: write.key.clone(),
                item: rewritten.or_else(|| write.item.clone()),
                patch: None,
                options: write.options,
            };
            let (stored, created) = apply(&mut host.transaction, &mut host.base, &write)?;
            let mut written = Written::of(container, stored, created);
            if let Some(trigger) = &post
                && let Some(body) = self.run_post_trigger(
                    host,
                    trigger,
                    &write,
                    deleted.as_deref(),
                    written.item.as_ref(),
                )?
            {
                written.item = Some(Bytes::from(body));
            }
            Ok(written)
        });
        work.steps.push(Step::Script {
            inner: steps,
            executions,
        });
        done
    }

    /// Runs `body` in a transaction of one logical partition until it takes place.
    fn transact<T>(
        &self,
        container: &Container,
        partition: &Partition,
        key: &PartitionKey,
        steps: &mut Vec<Step>,
        mut body: impl FnMut(&mut ScriptHost<'_, '_>) -> Result<T>,
    ) -> Result<(Option<SubmittedCommit>, T, u64)> {
        let epk = container.partition_key().epk(key);
        let epk_prefix = crate::partition::keys::epk_prefix(&epk);
        let _turn = self
            .script_lock_of(epk_prefix)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for run in 0..=OPTIMISTIC_RUNS {
            let mut held = (run == OPTIMISTIC_RUNS)
                .then(|| partition.lock())
                .transpose()?;
            let accepted = match &held {
                Some(writer) => writer.lsn,
                None => partition.lock()?.lsn,
            };
            let snapshot = partition.snapshot_with(accepted)?;
            let transaction =
                Transaction::begin(container, partition, snapshot.as_ref(), self.world());
            let mut host = ScriptHost {
                engine: self,
                container,
                key: key.clone(),
                epk: epk.clone(),
                transaction,
                base: ReadView::Durable,
            };
            let done = body(&mut host);
            let ScriptHost {
                mut transaction, ..
            } = host;
            *steps = std::mem::take(&mut transaction.work);
            let value = done?;
            if transaction.is_clean() {
                return Ok((None, value, transaction.base_lsn()));
            }
            let mut fresh = if held.is_none() {
                Some(partition.lock()?)
            } else {
                None
            };
            let writer = held
                .as_mut()
                .or(fresh.as_mut())
                .expect("one of both is held");
            match transaction.commit(writer, Some(epk_prefix)) {
                Ok(ordered) => return Ok((ordered, value, writer.lsn)),
                Err(error) if error.kind() == Kind::RetryWith && run < OPTIMISTIC_RUNS => continue,
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(
            Kind::RetryWith,
            "Conflicting request to resource has been attempted. Retry to avoid conflicts.",
        ))
    }

    fn run_pre_trigger(
        &self,
        host: &mut ScriptHost<'_, '_>,
        trigger: &Script,
        write: &CheckedWrite<'_>,
        deleted: Option<&str>,
    ) -> Result<Option<Object>> {
        let request = request_body(write, deleted);
        let Some(text) = self.run_trigger(
            host,
            trigger,
            TriggerTime::Pre,
            write,
            request.as_deref(),
            None,
        )?
        else {
            return Ok(None);
        };
        let item = crate::items::parse_item(text.as_bytes())?;
        if !matches!(write.operation, WriteOperation::Delete(_)) {
            item_id(&item)?;
            let key = host.container.partition_key().extract(&item)?;
            if host.container.partition_key().epk(&key) != host.epk {
                return Err(Error::partition_key_mismatch());
            }
        }
        Ok(Some(item))
    }

    fn run_post_trigger(
        &self,
        host: &mut ScriptHost<'_, '_>,
        trigger: &Script,
        write: &CheckedWrite<'_>,
        deleted: Option<&str>,
        stored: Option<&Bytes>,
    ) -> Result<Option<String>> {
        let request = request_body(write, deleted);
        let response = stored.map(|text| String::from_utf8_lossy(text).into_owned());
        self.run_trigger(
            host,
            trigger,
            TriggerTime::Post,
            write,
            request.as_deref(),
            response.as_deref(),
        )
    }

    fn run_trigger(
        &self,
        host: &mut ScriptHost<'_, '_>,
        trigger: &Script,
        time: TriggerTime,
        write: &CheckedWrite<'_>,
        request: Option<&str>,
        response: Option<&str>,
    ) -> Result<Option<String>> {
        let container = host.container;
        let (self_link, alt_link, quota) = (
            container.self_link(),
            container.alt_link(),
            self.quota(container),
        );
        let call = Trigger {
            id: trigger.id(),
            body: trigger.source(),
            time,
            operation: operation_of(write.operation),
            request,
            response,
            links: ContainerLinks {
                self_link: &self_link,
                alt_link: &alt_link,
            },
            quota: Quota {
                current: &quota.1,
                maximum: &quota.0,
            },
            logging: false,
            ambient: self.ambient(),
        };
        let run = || self.scripts().run_trigger(call, host);
        Ok(self
            .meters()
            .script_seconds
            .time(run)
            .map_err(script_error)?
            .body)
    }

    fn ambient(&self) -> Ambient {
        Ambient {
            now_ms: self.world().now_ms() as i64,
            seed: self.world().random(),
        }
    }
}

/// What a trigger reads as the request's body: the item as it is sent or, of a delete, as it is.
fn request_body<'a>(write: &CheckedWrite<'_>, deleted: Option<&'a str>) -> Option<Cow<'a, str>> {
    let sent = write
        .item
        .as_ref()
        .map(|item| Cow::Owned(Json::Object(item.clone()).to_text()));
    deleted.map(Cow::Borrowed).or(sent)
}

fn operation_of(operation: &WriteOperation) -> Operation {
    match operation {
        WriteOperation::Create => Operation::Create,
        WriteOperation::Upsert => Operation::Upsert,
        WriteOperation::Replace(_) => Operation::Replace,
        WriteOperation::Delete(_) => Operation::Delete,
        WriteOperation::Patch(_) => Operation::Patch,
    }
}

/// The trigger that a write names, if it fits the write.
fn find_trigger(
    container: &Container,
    name: &str,
    time: TriggerTime,
    operation: &WriteOperation,
) -> Result<Arc<Script>> {
    let trigger = container.script(ScriptKind::Trigger, name).ok_or_else(|| {
        Error::bad(format!(
            "The trigger '{name}' does not exist in this container."
        ))
    })?;
    let wanted = if time == TriggerTime::Pre {
        "Pre"
    } else {
        "Post"
    };
    if trigger.trigger_type() != wanted {
        return Err(Error::bad(format!(
            "The trigger '{name}' is no {wanted}-trigger."
        )));
    }
    let fits: &[&str] = match operation {
        WriteOperation::Create => &["Create"],
        WriteOperation::Upsert => &["Create", "Upsert", "Replace", "Update"],
        WriteOperation::Replace(_) => &["Replace", "Update"],
        WriteOperation::Delete(_) => &["Delete"],
        WriteOperation::Patch(_) => {
            return Err(Error::unsupported("A trigger on a partial update"));
        }
    };
    let covered = trigger.trigger_operation();
    if covered != "All" && !fits.contains(&covered) {
        return Err(Error::bad(format!(
            "The trigger '{name}' is for the operation {covered} and cannot run here."
        )));
    }
    Ok(trigger)
}

impl Host for ScriptHost<'_, '_> {
    fn call(&mut self, call: HostCall) -> std::result::Result<HostReply, HostFailure> {
        self.answer(call).map_err(|error| HostFailure {
            number: error.status(),
            message: error.message().to_owned(),
            body: error.message().to_owned(),
        })
    }
}

impl ScriptHost<'_, '_> {
    /// The text of the item that an operation is to delete.
    ///
    /// # Errors
    /// 404.
    fn item_to_delete(&mut self, write: &CheckedWrite<'_>) -> Result<Option<String>> {
        let WriteOperation::Delete(id) = write.operation else {
            return Ok(None);
        };
        let Some(stored) = write.named(&self.transaction, &mut self.base, id)? else {
            self.transaction.work.push(Step::ReadNothing);
            return Err(Error::not_found());
        };
        let text = stored.row.text(self.container.rid(), stored.number);
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    fn answer(&mut self, call: HostCall) -> Result<HostReply> {
        match call {
            HostCall::Read {
                link,
                if_none_match,
            } => {
                let stored = self.find(&link)?;
                if if_none_match.is_some_and(|known| etag_matches(&known, &stored.row.etag_text()))
                {
                    self.transaction.work.push(Step::ReadNothing);
                    return Ok(HostReply {
                        not_modified: true,
                        ..HostReply::default()
                    });
                }
                self.transaction.work.push(Step::Read {
                    bytes: stored.row.size(),
                });
                Ok(self.one(&stored))
            }
            HostCall::ReadFeed {
                page_size,
                continuation,
            } => self.query(&QueryRequest::everything(&script_page(
                page_size,
                continuation,
            ))),
            // Every path that is not indexed is scanned and the order is always exact, so both options are moot here.
            HostCall::Query {
                text,
                parameters,
                page_size,
                continuation,
                enable_scan: _,
                enable_low_precision_order_by: _,
            } => {
                let page = script_page(page_size, continuation);
                let parameters = read_parameters(&parameters)?;
                self.query(&QueryRequest::of(text, parameters, page))
            }
            HostCall::Create { body, index } => {
                let item = self.item(&body)?;
                let stored = self.transaction.create(
                    &mut self.base,
                    &self.key,
                    &item,
                    options(None, index)?,
                )?;
                Ok(self.one(&stored))
            }
            HostCall::Upsert { body, index } => {
                let item = self.item(&body)?;
                let old = self
                    .transaction
                    .find(&mut self.base, &self.epk, item_id(&item)?)?;
                let options = options(None, index)?;
                let stored = match old {
                    Some(old) => {
                        self.transaction
                            .replace(&mut self.base, &old, &self.key, &item, options)?
                    }
                    None => self
                        .transaction
                        .create(&mut self.base, &self.key, &item, options)?,
                };
                Ok(self.one(&stored))
            }
            HostCall::Replace {
                link,
                body,
                if_match,
                index,
            } => {
                let old = self.find(&link)?;
                let item = self.item(&body)?;
                let options = options(if_match.as_deref(), index)?;
                let stored =
                    self.transaction
                        .replace(&mut self.base, &old, &self.key, &item, options)?;
                Ok(self.one(&stored))
            }
            HostCall::Delete { link, if_match } => {
                let old = self.find(&link)?;
                self.transaction
                    .delete(&mut self.base, &old, if_match.as_deref())?;
                Ok(HostReply::default())
            }
            HostCall::Patch {
                link,
                spec,
                if_match,
                filter_predicate,
            } => {
                let old = self.find(&link)?;
                let spec = crate::items::parse_body(spec.as_bytes())?;
                let patch = CheckedPatch::read(self.container, &spec, filter_predicate.as_deref())?;
                let options = options(if_match.as_deref(), IndexAction::Default)?;
                let stored = self
                    .transaction
                    .patch(&mut self.base, &old, &patch, options)?;
                Ok(self.one(&stored))
            }
        }
    }

    fn one(&self, stored: &StoredItem) -> HostReply {
        let text = stored.row.text(self.container.rid(), stored.number);
        HostReply {
            items: vec![String::from_utf8_lossy(&text).into_owned()],
            ..HostReply::default()
        }
    }

    /// An item that a script writes: of this logical partition only.
    fn item(&mut self, body: &str) -> Result<Object> {
        let item = crate::items::parse_item(body.as_bytes())?;
        let key = self.container.partition_key().extract(&item)?;
        if self.container.partition_key().epk(&key) != self.epk {
            return Err(Error::bad(
                "Requests originating from scripts cannot reference partition keys other than the one for which client \
                 request was submitted.",
            ));
        }
        Ok(item)
    }

    fn find(&mut self, link: &DocumentLink) -> Result<StoredItem> {
        let id = match link {
            DocumentLink::Id(id) => Id::Name(id),
            DocumentLink::Rid(text) => {
                let own = |rid: &Rid| rid.container_part() == self.container.rid();
                let is_item = |rid: &Rid| matches!(rid.child_number(), Some((ChildKind::Item, _)));
                let rid = Rid::parse(text)
                    .filter(is_item)
                    .filter(own)
                    .ok_or_else(|| {
                        Error::bad(format!(
                            "The link names no item of this container: '{text}'."
                        ))
                    })?;
                Id::Rid(rid)
            }
        };
        self.transaction
            .find_by(&mut self.base, &self.epk, id)?
            .ok_or_else(|| {
                self.transaction.work.push(Step::ReadNothing);
                Error::not_found()
            })
    }

    fn query(&mut self, request: &QueryRequest) -> Result<HostReply> {
        let items = self.transaction.logical_partition(&self.epk)?;
        let listed = |s: &StoredItem| ListedRow {
            key: s.number.to_be_bytes().to_vec(),
            text: s.row.text(self.container.rid(), s.number),
        };
        let rows: Vec<ListedRow> = items.iter().map(listed).collect();
        let mut functions = UserFunctions::new(self.engine, self.container);
        let mut work = orrery_sql::Work::default();
        let environment = environment(self.container);
        let answer = query_rows(
            self.engine.world(),
            &environment,
            &rows,
            request,
            &mut functions,
            &mut work,
        )?;
        let bytes: u64 = answer.rows.iter().map(|row| row.len() as u64).sum();
        self.transaction.work.push(Step::Query(QueryWork {
            seeks: 1,
            loaded_items: work.rows_out,
            loaded_bytes: bytes,
            returned_rows: work.rows_out,
            returned_bytes: work.bytes_out,
            projected_rows: work.projected,
            array_elements: work.tuples,
            aggregates: u64::from(work.has_aggregate),
            udf_calls: work.udf_calls,
            ..QueryWork::default()
        }));
        let items = answer
            .rows
            .iter()
            .map(|row| String::from_utf8_lossy(row).into_owned())
            .collect();
        Ok(HostReply {
            items,
            continuation: answer.continuation,
            not_modified: false,
        })
    }
}

fn script_page(page_size: u32, continuation: Option<String>) -> PageRequest {
    PageRequest {
        max_items: Some(page_size as usize),
        continuation,
        continuation_limit_kb: None,
    }
}

fn options(if_match: Option<&str>, index: IndexAction) -> Result<ItemOptions<'_>> {
    Ok(ItemOptions {
        if_match,
        leave_out_of_index: index == IndexAction::Exclude,
    })
}

/// A JSON array of `{"name","value"}`.
fn read_parameters(text: &str) -> Result<Vec<(String, Json)>> {
    let bad = || Error::bad("The parameters of the query are not a list of names and values.");
    let json = parse(text.as_bytes()).map_err(|_| bad())?;
    let one = |p: &Json| Some((p.get("name")?.as_str()?.to_owned(), p.get("value")?.clone()));
    json.as_array()
        .ok_or_else(bad)?
        .iter()
        .map(|p| one(p).ok_or_else(bad))
        .collect()
}

/// The user-defined functions of a container, for one query. A script host is started only when one is called, and
/// compiles only what the query names: one that is broken does no harm to the queries that leave it alone.
pub struct UserFunctions<'a> {
    engine: &'a Engine,
    container: &'a Container,
    names: Vec<String>,
    session: Option<orrery_script::FunctionSession<'a>>,
}

impl<'a> UserFunctions<'a> {
    /// The functions of a container.
    pub fn new(engine: &'a Engine, container: &'a Container) -> Self {
        UserFunctions {
            engine,
            container,
            names: Vec::new(),
            session: None,
        }
    }

    fn open(
        &mut self,
    ) -> std::result::Result<&mut orrery_script::FunctionSession<'a>, ScriptError> {
        if self.session.is_none() {
            let functions = self.container.scripts(ScriptKind::Function);
            let named = functions
                .iter()
                .filter(|f| self.names.iter().any(|name| name == f.id()));
            let sources: Vec<(String, String)> = named
                .map(|f| (f.id().to_owned(), f.source().to_owned()))
                .collect();
            self.session = Some(
                self.engine
                    .scripts()
                    .functions(&sources, self.engine.ambient())?,
            );
        }
        Ok(self.session.as_mut().expect("just opened"))
    }
}

impl Functions for UserFunctions<'_> {
    fn prepare(&mut self, names: &[String]) {
        if self.names != names {
            (self.names, self.session) = (names.to_vec(), None);
        }
    }

    fn call(
        &mut self,
        name: &str,
        arguments: &[Option<Json>],
    ) -> std::result::Result<Option<Json>, QueryError> {
        let texts: Vec<Option<String>> = arguments
            .iter()
            .map(|a| a.as_ref().map(Json::to_text))
            .collect();
        let answer = self
            .open()
            .and_then(|session| session.call(name, &texts))
            .map_err(udf_error)?;
        let json =
            |text: String| parse(text.as_bytes()).map_err(|e| QueryError::Source(Box::new(e)));
        answer.map(json).transpose()
    }
}
