//! The clients of a fleet, and the way of a request from node to node.
//!
//! A client sends a request to any machine. A node without the lease carries it out if it owns the
//! partition, or sends it to the owner or the leaseholder; the leaseholder carries it out, sends it
//! to the owner, or takes the partition back (`fleet/node/src/forward.rs`,
//! `fleet/node/src/forward/to_owner.rs`).

use super::agenda::{Event, Message, What};
use super::history::{Action, Answer, History};
use super::process::{Process, Role, Serving, machine_at};
use super::{Fleet, FleetFault, MACHINES};
use crate::Checked;
use http::StatusCode;
use orrery_engine::Engine;
use orrery_engine::request::{Id, Position, ReadReply, WriteOperation, WriteOptions};
use orrery_model::json::parse;
use orrery_model::partition_key::PartitionKey;
use orrery_model::sync::lock;
use orrery_model::{Error, Kind};
use orrery_node::PartitionOwner;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Items at the same time.
const ITEMS: usize = 12;
/// Requests with unknown outcomes after which an item is left alone: each doubles what must be
/// tried.
const UNKNOWN_MAX: usize = 4;
/// Attempts of a node at a request whose partition changes owners, or while no node serves.
const ATTEMPTS: u64 = 8;
/// Attempts to read an item at the end, when a node may be occupied.
const READS: u64 = 20;
/// Milliseconds between two attempts.
const PAUSE_MS: u64 = 25;
/// Milliseconds for which an answer is waited for.
const PATIENCE_MS: u64 = 300;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The number of the item.
    item: u64,
    action: Action,
    /// The etag that the item must have.
    if_match: Option<String>,
}

/// An item and what clients know of it.
struct Item {
    number: u64,
    history: History,
    /// The versions that clients have seen, with their etags.
    etags: BTreeMap<u64, String>,
}

/// The requests of clients.
pub(super) struct Requests {
    left: u64,
    last_number: u64,
    items: Vec<Item>,
    /// The highest LSN of an answered write, by partition.
    highest: BTreeMap<u32, u64>,
    written: BTreeSet<(u32, u64)>,
}

/// The answer of an engine.
struct Answered {
    answer: Answer,
    position: Option<Position>,
    etag: Option<String>,
}

/// The end of a request, or of an attempt at it.
enum End {
    Answered(Answered),
    /// The request may have been carried out.
    Unknown,
    /// The request was not carried out, as the client is told.
    Refused,
    /// The request did not reach a node that can carry it out.
    NotSent,
    /// No request of this kind may end like that.
    Wrong(String),
}

/// The end of an attempt of a node without the lease.
enum Tried {
    Ended(End),
    /// The owner is another machine.
    Elsewhere(usize),
    NotHere,
}

impl Requests {
    pub(super) fn new(left: u64) -> Requests {
        Requests {
            left,
            last_number: 0,
            items: Vec::new(),
            highest: BTreeMap::new(),
            written: BTreeSet::new(),
        }
    }

    /// Notes that one of the requests has ended. Returns false for the last one.
    fn take_one(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    /// Returns a number that was not there before.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn item(&mut self, number: u64) -> Option<&mut Item> {
        self.items.iter_mut().find(|item| item.number == number)
    }

    /// Replaces items of which too much is unknown.
    fn renew_items(&mut self) {
        self.items
            .retain(|item| item.history.unknown_count() < UNKNOWN_MAX || item.history.is_in_use());
        while self.items.len() < ITEMS {
            let number = self.next_number();
            self.items.push(Item {
                number,
                history: History::new(),
                etags: BTreeMap::new(),
            });
        }
    }
}

/// The clients.
impl Fleet {
    /// Lets a client send a request to a machine, and plans the next.
    pub(super) fn begin_request(self: &Arc<Self>, machine: usize) {
        if !self.may_go_wrong() {
            return;
        }
        self.plan_event(self.below(80), Event::of_machine(machine, What::Request));
        let call = self.random_call();
        self.request(machine, &call);
    }

    fn random_call(&self) -> Call {
        let mut requests = lock(&self.requests);
        requests.renew_items();
        let n = requests.next_number();
        let at = self.below(requests.items.len() as u64) as usize;
        let item = &requests.items[at];
        let last = item.etags.last_key_value();
        let (action, if_match) = match self.below(100) {
            0..20 => (Action::Create(n), None),
            20..40 => (Action::Upsert(n), None),
            40..50 => (Action::Replace(n, None), None),
            50..62 => match last {
                Some((seen, etag)) => (Action::Replace(n, Some(*seen)), Some(etag.clone())),
                None => (Action::Upsert(n), None),
            },
            62..70 => (Action::Delete, None),
            _ => (Action::Read, None),
        };
        Call {
            item: item.number,
            action,
            if_match,
        }
    }

    /// Carries a request of a client out, and compares its end with the history of the item.
    fn request(self: &Arc<Self>, machine: usize, call: &Call) -> bool {
        let (number, highest) = {
            let mut requests = lock(&self.requests);
            let number = requests.next_number();
            if let Some(item) = requests.item(call.item) {
                item.history.begin(number, call.action);
            }
            (number, requests.highest.clone())
        };
        self.note(|| format!("m{machine} #{number} i{} {:?}", call.item, call.action));
        let end = match self.machines[machine].process() {
            Some(process) => {
                let end = self.carry_out(&process, call);
                // The client of a process that has ended gets no answer.
                match process.role() {
                    Role::Ended if matches!(end, End::Answered(_)) => End::Unknown,
                    _ => end,
                }
            }
            None => End::NotSent,
        };
        self.take_end_in(number, call, &highest, end)
    }

    /// Takes the end of a request in. Returns true if it was answered.
    fn take_end_in(
        &self,
        number: u64,
        call: &Call,
        highest: &BTreeMap<u32, u64>,
        end: End,
    ) -> bool {
        let shown = match &end {
            End::Answered(Answered {
                answer, position, ..
            }) => format!(
                "{answer:?} at {:?}",
                position.map(|at| (at.range_id, at.lsn))
            ),
            End::Unknown => "unknown".to_owned(),
            End::Refused | End::NotSent => "refused".to_owned(),
            End::Wrong(error) => error.clone(),
        };
        self.note(|| format!("#{number} {shown}"));
        let mut requests = lock(&self.requests);
        let Some(item) = requests.item(call.item) else {
            return false;
        };
        let is_right = match &end {
            End::Answered(answered) => {
                if let (Some(etag), Some(n)) = (&answered.etag, version(call, answered.answer)) {
                    item.etags.insert(n, etag.clone());
                }
                item.history.end(number, answered.answer)
            }
            End::Unknown => {
                item.history.stays_unknown(number);
                true
            }
            End::Refused | End::NotSent => item.history.was_not_carried_out(number),
            End::Wrong(_) => false,
        };
        if !matches!(end, End::Refused | End::NotSent) && !requests.take_one() {
            self.may_go_wrong.store(false, Ordering::SeqCst);
        }
        if !is_right {
            self.fail(format!(
                "request #{number}, {:?} of i{}, cannot have ended like that: {shown}",
                call.action, call.item
            ));
        }
        self.count(|counts| match &end {
            End::Answered(_) => counts.answered += 1,
            End::Unknown => counts.unknown += 1,
            End::Refused | End::NotSent | End::Wrong(_) => counts.refused += 1,
        });
        if let End::Answered(Answered {
            answer,
            position: Some(position),
            ..
        }) = &end
        {
            let is_write = *answer == Answer::Done;
            self.check_position(&mut requests, (number, is_write), position, highest);
        }
        matches!(end, End::Answered(_))
    }

    /// Checks that an answer is not older than those that were there when its request began.
    fn check_position(
        &self,
        requests: &mut Requests,
        (number, is_write): (u64, bool),
        position: &Position,
        highest: &BTreeMap<u32, u64>,
    ) {
        let Position { range_id, lsn, .. } = *position;
        // A refusal has the LSN 0 if the store could not be read any more.
        if lsn == 0 && !is_write {
            return;
        }
        let before = highest.get(&range_id).copied().unwrap_or(0);
        if lsn < before || (is_write && lsn == before) {
            self.fail(format!(
                "request #{number} has the LSN {lsn} of partition {range_id}, which had {before} \
                 before"
            ));
        }
        if is_write {
            if !requests.written.insert((range_id, lsn)) {
                self.fail(format!(
                    "request #{number} has the LSN {lsn} of partition {range_id}, which another \
                     write has"
                ));
            }
            let highest = requests.highest.entry(range_id).or_default();
            *highest = lsn.max(*highest);
        }
    }

    /// Reads each item, which must be possible.
    pub(super) fn read_all_items(self: &Arc<Self>) -> Checked {
        let items: Vec<u64> = {
            let requests = lock(&self.requests);
            requests.items.iter().map(|item| item.number).collect()
        };
        for item in items {
            let call = Call {
                item,
                action: Action::Read,
                if_match: None,
            };
            for machine in 0..MACHINES {
                let mut is_answered = None;
                for _ in 0..READS {
                    is_answered = self.at_machine(machine, |_| self.request(machine, &call));
                    if is_answered == Some(true) || self.has_failed() {
                        break;
                    }
                    self.pass(PAUSE_MS);
                }
                if is_answered != Some(true) && !self.has_failed() {
                    return Err(format!(
                        "i{item} cannot be read at m{machine} although nothing goes wrong"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Returns the version of an item behind an answered request.
fn version(call: &Call, answer: Answer) -> Option<u64> {
    match (answer, call.action) {
        (Answer::Shows(n), _)
        | (Answer::Done, Action::Create(n) | Action::Upsert(n) | Action::Replace(n, _)) => Some(n),
        _ => None,
    }
}

/// The way of a request.
impl Fleet {
    /// Carries a request out at the process that a client has sent it to.
    fn carry_out(self: &Arc<Self>, process: &Arc<Process>, call: &Call) -> End {
        if let Role::Waiting(owner) | Role::Opening(owner) = process.role() {
            match self.at_owner(&owner, call) {
                Tried::Ended(end) => return end,
                Tried::Elsewhere(machine) => {
                    let end = self.send_call(process.machine, machine, call);
                    if !matches!(end, End::NotSent) {
                        return end;
                    }
                }
                Tried::NotHere => {}
            }
        }
        // Until the leaseholder answers.
        for _ in 0..ATTEMPTS {
            let end = match (process.role(), process.known_leaseholder()) {
                (Role::Serving(serving), _) => self.at_leaseholder(process.machine, &serving, call),
                (Role::Waiting(_), Some(to)) => self.send_call(process.machine, to, call),
                (Role::Waiting(_) | Role::Opening(_), _) => End::NotSent,
                (Role::Ended, _) => return End::NotSent,
            };
            if !matches!(end, End::NotSent) {
                return end;
            }
            self.pass(PAUSE_MS);
        }
        End::NotSent
    }

    /// Carries a request out at a node without the lease, if the node owns the partition.
    fn at_owner(&self, owner: &PartitionOwner, call: &Call) -> Tried {
        if !owner.knows_owners() {
            return Tried::NotHere;
        }
        let owned_any = owner.owns_any();
        let result = execute(owner.engine(), call);
        let status = match &result {
            Err(error) if error.kind() == Kind::NotOwned => {
                let address = error.partition().and_then(|one| owner.owner_of(one));
                let machine = address.and_then(|address| machine_at(&address));
                return machine.map_or(Tried::NotHere, Tried::Elsewhere);
            }
            Err(error) => error.status(),
            Ok(answered) => status_of(answered.answer),
        };
        let status = StatusCode::from_u16(status).unwrap_or_default();
        match owner.is_final(owned_any, call.action.is_read(), status) {
            true => {
                self.count(|counts| counts.by_owners += 1);
                Tried::Ended(end_of(result))
            }
            false => Tried::NotHere,
        }
    }

    /// Carries a request out at the leaseholder, or lets the owner of the partition do it.
    fn at_leaseholder(self: &Arc<Self>, machine: usize, serving: &Serving, call: &Call) -> End {
        for _ in 0..ATTEMPTS {
            let result = execute(&serving.engine, call);
            let partition = match &result {
                Err(error) if error.kind() == Kind::NotOwned => error.partition(),
                _ => return end_of(result),
            };
            let grantor = &serving.grantor;
            let owner = partition.and_then(|one| grantor.live_owner(one));
            if let Some(to) = owner.and_then(|address| machine_at(&address)) {
                let end = self.send_call(machine, to, call);
                if !matches!(end, End::NotSent) {
                    return end;
                }
            }
            match partition.is_some_and(|one| grantor.is_just_given(one)) {
                true => self.pass(5),
                false => _ = grantor.recall_for_request(partition),
            }
        }
        End::Refused
    }

    /// Sends a request to another node, and waits for the answer.
    fn send_call(self: &Arc<Self>, from: usize, to: usize, call: &Call) -> End {
        let end = self.send_once(from, to, call);
        match end {
            End::Unknown if self.has_fault(FleetFault::SentTwice) => self.send_once(from, to, call),
            End::Unknown if self.has_fault(FleetFault::LostIsRefused) => End::Refused,
            // A read that may have been carried out is sent again.
            End::Unknown if call.action.is_read() => End::NotSent,
            end => end,
        }
    }

    fn send_once(self: &Arc<Self>, from: usize, to: usize, call: &Call) -> End {
        if from == to || !self.machines[from].reaches(to, self.now_ms()) {
            return End::NotSent;
        }
        if self.is_lost() {
            self.pass(PATIENCE_MS);
            return End::Unknown;
        }
        self.pass(self.latency_ms());
        let carried_out = self.at_machine(to, |process| {
            let end = self.as_node(process, call);
            match process.role() {
                Role::Ended => End::Unknown,
                _ => end,
            }
        });
        let Some(end) = carried_out else {
            return self.leave_behind(to, call);
        };
        let is_answer_lost = self.is_lost();
        self.pass(self.latency_ms());
        match is_answer_lost {
            true => End::Unknown,
            false => end,
        }
    }

    /// Leaves a request with a machine that is occupied or stands still, without its answer.
    fn leave_behind(self: &Arc<Self>, to: usize, call: &Call) -> End {
        if self.machines[to].process().is_none() {
            return End::NotSent;
        }
        let late = What::Arrives(Message::Late(call.clone()));
        self.plan_event(self.below(PATIENCE_MS), Event::of_machine(to, late));
        self.pass(PATIENCE_MS);
        End::Unknown
    }

    /// Carries out a request that another node has sent: it is sent no further.
    fn as_node(self: &Arc<Self>, process: &Process, call: &Call) -> End {
        match process.role() {
            Role::Serving(serving) => self.at_leaseholder(process.machine, &serving, call),
            Role::Waiting(owner) | Role::Opening(owner) => match self.at_owner(&owner, call) {
                Tried::Ended(end) => end,
                Tried::Elsewhere(_) | Tried::NotHere => End::NotSent,
            },
            Role::Ended => End::NotSent,
        }
    }

    /// Carries out a request whose sender waits no longer.
    pub(super) fn carry_out_late(self: &Arc<Self>, process: &Process, call: &Call) {
        self.note(|| format!("m{} late i{} {:?}", process.machine, call.item, call.action));
        drop(self.as_node(process, call));
    }
}

/// Carries a request out at an engine.
fn execute(engine: &Engine, call: &Call) -> Result<Answered, Error> {
    let container = engine.container(Id::Name("db"), Id::Name("c"))?;
    let pk = format!("k{}", call.item);
    let key = PartitionKey::from_header(&format!(r#"["{pk}"]"#))?;
    let id = format!("i{}", call.item);
    let (operation, n) = match call.action {
        Action::Read => {
            let outcome = engine
                .read_item(&container, &key, id.as_str(), None, None)
                .wait();
            let (answer, etag) = match outcome.result {
                Ok(ReadReply::Item { body, etag }) => {
                    (Answer::Shows(number_in(&body)?), Some(etag))
                }
                Ok(ReadReply::NotModified { .. }) => return Err(Error::internal("no condition")),
                Err(error) if error.kind() == Kind::NotFound => (Answer::NotFound, None),
                Err(error) => return Err(error),
            };
            return Ok(Answered {
                answer,
                position: outcome.position,
                etag,
            });
        }
        Action::Create(n) => (WriteOperation::Create, Some(n)),
        Action::Upsert(n) => (WriteOperation::Upsert, Some(n)),
        Action::Replace(n, _) => (WriteOperation::Replace(id.clone()), Some(n)),
        Action::Delete => (WriteOperation::Delete(id.clone()), None),
    };
    let body = n.map(|n| format!(r#"{{"id":"{id}","pk":"{pk}","n":{n}}}"#));
    let options = WriteOptions {
        partition_key: Some(key),
        if_match: call.if_match.clone(),
        ..WriteOptions::default()
    };
    let body = body.as_deref().map(str::as_bytes);
    let outcome = engine
        .write_item(&container, &operation, body, &options)
        .wait();
    let (answer, etag) = match outcome.result {
        Ok(written) => (Answer::Done, written.etag),
        Err(error) => match error.kind() {
            Kind::NotFound => (Answer::NotFound, None),
            Kind::Conflict => (Answer::Conflict, None),
            Kind::PreconditionFailed => (Answer::PreconditionFailed, None),
            _ => return Err(error),
        },
    };
    Ok(Answered {
        answer,
        position: outcome.position,
        etag,
    })
}

/// Returns the number of the version in the text of an item.
fn number_in(text: &[u8]) -> Result<u64, Error> {
    let item = parse(text).map_err(|error| Error::internal(error.to_string()))?;
    let number = item.get("n").and_then(|n| n.as_i64());
    let number = number.and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| Error::internal("an item without a number"))
}

/// Returns the status of an answer.
fn status_of(answer: Answer) -> u16 {
    match answer {
        Answer::Done | Answer::Shows(_) => 200,
        Answer::NotFound => 404,
        Answer::Conflict => 409,
        Answer::PreconditionFailed => 412,
    }
}

/// Returns the end of a request that an engine has carried out.
fn end_of(result: Result<Answered, Error>) -> End {
    match result {
        Ok(answered) => End::Answered(answered),
        Err(error) => match error.kind() {
            Kind::UnknownOutcome => End::Unknown,
            Kind::Unavailable
            | Kind::NotOwned
            | Kind::RetryWith
            | Kind::Throttled
            | Kind::CompletingSplit
            | Kind::PartitionKeyRangeGone => End::Refused,
            _ => End::Wrong(format!("{error:?} {}", error.cause_chain())),
        },
    }
}
