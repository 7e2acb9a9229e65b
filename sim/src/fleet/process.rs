//! A process of a node: it waits for the lease or holds it, owns partitions, and gives them.
//!
//! The rules are those of `orrery-node`. What is here stands for the threads and loops of a node:
//! the times at which it looks, asks and renews.

use super::agenda::{Event, Message, Part, What};
use super::connection::Connection;
use super::{Fleet, FleetFault, TTL_MS, event_of, turns};
use crate::Checked;
use crate::node::{engine_options, object};
use orrery_engine::request::{Id, Throughput};
use orrery_engine::{BackgroundTask, Engine, EngineOptions};
use orrery_model::sync::lock;
use orrery_model::world::World;
use orrery_node::{
    Attempt, Claim, Ended, Grantor, GrantorOptions, Holding, LeasedStore, Leaseholder, Members,
    Moment, Node, NodeFacts, PartitionOwner, PartitionOwnerOptions, Poll, PollAnswer, Recall,
    RecallText, Renewal, Returned, SendRecalls, Terms, Validity,
};
use orrery_placement::{NamedCluster, Options, PlacedStore};
use orrery_storage::Store;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// The name of the only cluster.
const CLUSTER: &str = "first";
/// Milliseconds between two polls, and for the answer to one (`fleet/node/src/grants/owner.rs`).
const POLL_MS: u64 = 500;
const ANSWER_MS: u64 = 1_000;
/// Looks at a renewal that is under way when a process leaves, and milliseconds between them.
const RENEWAL_LOOKS: u64 = 100;
const RENEWAL_LOOK_MS: u64 = 20;
/// Milliseconds between two attempts to get the lease.
const CLAIM_MS: u64 = TTL_MS / 60;
/// The most milliseconds that a message is on its way in order.
const LATENCY_MS: u64 = 40;

/// The role of a process.
#[derive(Clone)]
pub(super) enum Role {
    /// The process waits for the lease and may own partitions.
    Waiting(Arc<PartitionOwner>),
    /// The process holds the lease and opens the data. What it owns, it owns by an earlier lease.
    Opening(Arc<PartitionOwner>),
    /// The process is the leaseholder.
    Serving(Arc<Serving>),
    /// The process has ended.
    Ended,
}

/// The parts of a leaseholder.
pub(super) struct Serving {
    pub(super) engine: Arc<Engine>,
    pub(super) grantor: Arc<Grantor>,
    pub(super) validity: Arc<Validity>,
}

/// The lease as a process sees it.
enum LeasePart {
    Claim(Claim),
    Holding(Holding),
    /// The lease is at work, or was given back.
    Away,
}

/// A poll with its number and the moment before it was sent.
type Asked = (u64, Poll, Moment);

/// A process.
pub(super) struct Process {
    pub(super) machine: usize,
    /// The number of the process in the world.
    pub(super) number: u64,
    fleet: Weak<Fleet>,
    store: Arc<dyn Store>,
    role: Mutex<Role>,
    lease: Mutex<LeasePart>,
    validity: Mutex<Option<Arc<Validity>>>,
    /// The leaseholder that the process has seen last.
    leaseholder: Mutex<Option<Leaseholder>>,
    /// The poll that is not answered yet.
    asked: Mutex<Option<Asked>>,
    polls: AtomicU64,
}

/// Returns the address of a machine.
fn address_of(machine: usize) -> String {
    format!("http://m{machine}")
}

/// Returns the machine with an address.
pub(super) fn machine_at(address: &str) -> Option<usize> {
    address.strip_prefix("http://m")?.parse().ok()
}

fn node_of(machine: usize) -> Node {
    Node {
        name: format!("m{machine}"),
        address: address_of(machine),
    }
}

impl Process {
    fn new(fleet: &Arc<Fleet>, machine: usize, number: u64) -> Process {
        let clock: Arc<dyn World> = fleet.machines[machine].clock.clone();
        let store: Arc<dyn Store> = Arc::new(Connection {
            fleet: Arc::downgrade(fleet),
            machine,
            process: number,
        });
        let claim = Claim::new(node_of(machine), clock.random(), TTL_MS);
        let owner = PartitionOwner::new(PartitionOwnerOptions {
            node: node_of(machine),
            clusters: vec![(CLUSTER.to_owned(), store.clone())],
            engine: engine_options(),
            world: clock,
            log: fleet.log.clone(),
        });
        Process {
            machine,
            number,
            fleet: Arc::downgrade(fleet),
            store,
            role: Mutex::new(Role::Waiting(Arc::new(owner))),
            lease: Mutex::new(LeasePart::Claim(claim)),
            validity: Mutex::default(),
            leaseholder: Mutex::default(),
            asked: Mutex::default(),
            polls: AtomicU64::new(0),
        }
    }

    /// Returns the role.
    pub(super) fn role(&self) -> Role {
        lock(&self.role).clone()
    }

    /// Returns the parts of a leaseholder, if the process is one.
    pub(super) fn serving(&self) -> Option<Arc<Serving>> {
        match self.role() {
            Role::Serving(serving) => Some(serving),
            Role::Waiting(_) | Role::Opening(_) | Role::Ended => None,
        }
    }

    /// Returns true while the lease of the process is valid.
    pub(super) fn holds_valid_lease(&self) -> bool {
        let validity = lock(&self.validity);
        validity
            .as_ref()
            .is_some_and(|validity| validity.is_valid())
    }

    /// Returns the machine of the leaseholder that the process knows, if it is another one.
    pub(super) fn known_leaseholder(&self) -> Option<usize> {
        let known = lock(&self.leaseholder);
        let machine = machine_at(&known.as_ref()?.node.address)?;
        (machine != self.machine).then_some(machine)
    }

    /// Notes that the process holds the lease.
    fn begin_opening(&self) {
        let mut role = lock(&self.role);
        if let Role::Waiting(owner) = &*role {
            let owner = owner.clone();
            *role = Role::Opening(owner);
        }
    }

    /// Notes that the process serves. Returns false if it has ended meanwhile.
    fn begin_serving(&self, serving: Serving) -> bool {
        let mut role = lock(&self.role);
        if !matches!(&*role, Role::Opening(_)) {
            return false;
        }
        let before = std::mem::replace(&mut *role, Role::Serving(Arc::new(serving)));
        drop(role);
        // The owner ends without a lock.
        drop(before);
        true
    }

    /// Notes that the process has ended.
    pub(super) fn end(&self) {
        let role = std::mem::replace(&mut *lock(&self.role), Role::Ended);
        // The parts end without a lock.
        drop(role);
    }

    fn take_lease_part(&self) -> LeasePart {
        std::mem::replace(&mut *lock(&self.lease), LeasePart::Away)
    }

    /// Takes the poll with a number, if that is the one which is not answered yet.
    fn take_asked(&self, number: u64) -> Option<Asked> {
        lock(&self.asked).take_if(|(asked, _, _)| *asked == number)
    }

    fn event(&self, part: Part, what: What) -> Event {
        event_of(self.machine, self.number, part, what)
    }
}

/// The life of processes.
impl Fleet {
    /// Starts a process on a machine, if none runs.
    pub(super) fn start_process(self: &Arc<Self>, machine: usize) {
        if self.machines[machine].process().is_some() {
            return;
        }
        let number = lock(&self.requests).next_number();
        self.note(|| format!("m{machine} process {number} starts"));
        let process = Arc::new(Process::new(self, machine, number));
        self.machines[machine].begin_process(process.clone());
        self.plan_event(self.below(20), process.event(Part::Lease, What::Lease));
        self.plan_event(self.below(POLL_MS), process.event(Part::Main, What::Poll));
    }

    /// Ends the process of a machine at once. Another one starts soon.
    pub(super) fn kill_process(self: &Arc<Self>, machine: usize) {
        drop(self.machines[machine].end_process());
        let start = Event::of_machine(machine, What::Start);
        self.plan_event(100 + self.below(3_000), start);
    }

    /// Ends a process at once that has noticed that it must not go on.
    fn end_process(self: &Arc<Self>, process: &Process, reason: &str) {
        let Process {
            machine, number, ..
        } = process;
        self.note(|| format!("m{machine} process {number} ends: {reason}"));
        let runs = self.machines[*machine].process();
        if runs.is_some_and(|runs| runs.number == *number) {
            self.kill_process(*machine);
        }
    }

    /// Returns the parts of the node that holds the lease.
    pub(super) fn leaseholder(&self) -> Option<Arc<Serving>> {
        let processes = self.machines.iter().filter_map(|machine| machine.process());
        let mut serving = processes.filter_map(|process| process.serving());
        serving.find(|serving| serving.validity.is_valid())
    }

    /// Carries out what a process does by itself.
    pub(super) fn act(self: &Arc<Self>, process: &Arc<Process>, what: What) {
        match what {
            What::Lease => self.attend_to_lease(process),
            What::Open => self.open_data(process),
            What::Poll => self.poll(process),
            What::PollOver(number) => Fleet::give_poll_up(process, number),
            What::InBackground(work) => work(),
            What::Leave => self.leave(process),
            _ => {}
        }
    }

    /// Lets the background work of a machine go on, and plans the next.
    pub(super) fn work(self: &Arc<Self>, machine: usize) {
        self.plan_event(
            50 + self.below(1_000),
            Event::of_machine(machine, What::Work),
        );
        let Some(process) = self.machines[machine].process() else {
            return;
        };
        let engine = match process.role() {
            Role::Waiting(owner) | Role::Opening(owner) => owner.engine().clone(),
            Role::Serving(serving) => serving.engine.clone(),
            Role::Ended => return,
        };
        let task = BackgroundTask::ALL[self.below(BackgroundTask::ALL.len() as u64) as usize];
        let done = engine.run_background_work(task);
        if let Ok(true) = done {
            self.note(|| format!("m{machine} {task:?}"));
        }
        if let Some(serving) = process.serving() {
            self.note_partitions(&serving.engine);
        }
    }
}

/// The lease.
impl Fleet {
    /// Looks at the lease, or renews it.
    fn attend_to_lease(self: &Arc<Self>, process: &Arc<Process>) {
        match process.take_lease_part() {
            LeasePart::Claim(claim) => self.claim(process, claim),
            LeasePart::Holding(holding) => self.renew(process, holding),
            LeasePart::Away => {}
        }
    }

    fn claim(self: &Arc<Self>, process: &Arc<Process>, mut claim: Claim) {
        let clock: Arc<dyn World> = self.machines[process.machine].clock.clone();
        let attempt = claim.attempt(process.store.as_ref(), &clock);
        let pause_ms = match attempt {
            Ok(Attempt::Held(holding)) => {
                self.note(|| format!("m{} has the lease {}", process.machine, holding.lsn()));
                self.count(|counts| counts.leases += 1);
                *lock(&process.validity) = Some(holding.validity().clone());
                *lock(&process.lease) = LeasePart::Holding(holding);
                process.begin_opening();
                self.plan_event(0, process.event(Part::Main, What::Open));
                self.plan_event(TTL_MS / 6, process.event(Part::Lease, What::Lease));
                return;
            }
            Ok(Attempt::Waiting {
                leaseholder,
                left_ms,
            }) => {
                if let Some((leaseholder, _)) = leaseholder {
                    *lock(&process.leaseholder) = Some(leaseholder);
                }
                CLAIM_MS.min(left_ms.max(1))
            }
            Ok(Attempt::Refused(reason)) => {
                self.fail(format!("the lease is refused: {reason}"));
                return;
            }
            Err(_) => CLAIM_MS,
        };
        *lock(&process.lease) = LeasePart::Claim(claim);
        self.plan_event(pause_ms, process.event(Part::Lease, What::Lease));
    }

    fn renew(self: &Arc<Self>, process: &Arc<Process>, mut holding: Holding) {
        let before_ms = self.now_ms();
        let renewal = holding.renew(process.store.as_ref());
        let terms = Terms { ttl_ms: TTL_MS };
        let pause_ms = match renewal {
            Renewal::Renewed => terms.pause_ms(self.now_ms() - before_ms),
            Renewal::Failed(_) => TTL_MS / 30,
            Renewal::Lost(node) => {
                self.end_process(process, &format!("{} has the lease", node.name));
                return;
            }
        };
        *lock(&process.lease) = LeasePart::Holding(holding);
        self.plan_event(pause_ms, process.event(Part::Lease, What::Lease));
    }

    /// Opens the data of the account as the leaseholder.
    fn open_data(self: &Arc<Self>, process: &Arc<Process>) {
        if !matches!(&*lock(&process.lease), LeasePart::Holding(_)) {
            // A renewal is under way.
            self.plan_event(10, process.event(Part::Main, What::Open));
            return;
        }
        match self.try_to_open(process) {
            Ok(serving) => {
                if process.begin_serving(serving) {
                    self.note(|| format!("m{} serves", process.machine));
                }
            }
            Err(reason) => self.end_process(process, &reason),
        }
    }

    fn try_to_open(self: &Arc<Self>, process: &Arc<Process>) -> Checked<Serving> {
        let (term, key, validity) = match &*lock(&process.lease) {
            LeasePart::Holding(holding) => {
                let validity = holding.validity().clone();
                (holding.lsn(), holding.key().clone(), validity)
            }
            LeasePart::Claim(_) | LeasePart::Away => return Err("the lease is away".to_owned()),
        };
        let clock: Arc<dyn World> = self.machines[process.machine].clock.clone();
        let clusters = vec![NamedCluster {
            name: CLUSTER.to_owned(),
            store: process.store.clone(),
            drained: false,
        }];
        // The patience is that of the clock of the real machine.
        let options = Options {
            copy_patience: Duration::ZERO,
            short_patience: Duration::ZERO,
        };
        let placed = PlacedStore::open_with(clusters, options);
        let placed = Arc::new(placed.map_err(|error| error.to_string())?);
        let own = NodeFacts {
            name: node_of(process.machine).name,
            region: None,
            address: address_of(process.machine),
            clusters: Vec::new(),
            clock_ahead_ms: 0,
        };
        let sender = RecallSender {
            fleet: process.fleet.clone(),
            process: Arc::downgrade(process),
            term,
        };
        let (fleet, machine, number) = (process.fleet.clone(), process.machine, process.number);
        let in_background = move |_: &str, work: Box<dyn FnOnce() + Send>| {
            let Some(fleet) = fleet.upgrade() else {
                return false;
            };
            let event = event_of(machine, number, Part::Main, What::InBackground(work));
            fleet.plan_event(fleet.below(30), event);
            true
        };
        let grantor = Grantor::new(GrantorOptions {
            term,
            key,
            validity: validity.clone(),
            world: clock.clone(),
            log: self.log.clone(),
            placed: placed.clone(),
            members: Arc::new(Members::new(own, clock.clone())),
            recalls: Box::new(sender),
            in_background: Box::new(in_background),
            least_load: Some(0),
        });
        let store = Arc::new(LeasedStore::new(placed, validity.clone()));
        let options = EngineOptions {
            owners: grantor.clone(),
            ..engine_options()
        };
        let engine = Engine::open(store, options, clock).map_err(|error| error.to_string())?;
        let engine = Arc::new(engine);
        grantor.set_engine(&engine);
        self.note_partitions(&engine);
        Ok(Serving {
            engine,
            grantor,
            validity,
        })
    }

    /// Notes the partitions of the container.
    pub(super) fn note_partitions(&self, engine: &Engine) {
        let shares = engine.partition_shares();
        let ids = shares.iter().map(|share| share.partition.0);
        lock(&self.partitions).extend(ids);
    }

    /// Ends a process in order.
    fn leave(self: &Arc<Self>, process: &Arc<Process>) {
        self.note(|| format!("m{} leaves", process.machine));
        match process.role() {
            Role::Waiting(owner) => {
                owner.leave();
                self.send_poll(process, &owner);
            }
            Role::Serving(serving) => {
                serving.grantor.stop();
                *lock(&process.role) = Role::Ended;
                drop(serving);
                // A renewal may be under way.
                for _ in 0..RENEWAL_LOOKS {
                    if matches!(&*lock(&process.lease), LeasePart::Holding(_)) {
                        break;
                    }
                    self.pass(RENEWAL_LOOK_MS);
                }
                if let LeasePart::Holding(mut holding) = process.take_lease_part() {
                    let successor = self.below(2 * super::MACHINES as u64) as usize;
                    let successor = (successor < super::MACHINES).then(|| node_of(successor).name);
                    let is_released = holding.release(process.store.as_ref(), successor);
                    self.note(|| format!("m{} released: {is_released}", process.machine));
                }
            }
            Role::Opening(_) | Role::Ended => {}
        }
        self.end_process(process, "it leaves");
    }
}

/// The messages between leaseholder and owners.
impl Fleet {
    /// Asks the leaseholder for partitions, and plans the next poll.
    fn poll(self: &Arc<Self>, process: &Arc<Process>) {
        self.plan_event(POLL_MS, process.event(Part::Main, What::Poll));
        if let Role::Waiting(owner) = process.role()
            && lock(&process.asked).is_none()
        {
            self.send_poll(process, &owner);
        }
    }

    fn send_poll(self: &Arc<Self>, process: &Arc<Process>, owner: &PartitionOwner) {
        let Some(to) = process.known_leaseholder() else {
            return;
        };
        let poll = owner.message();
        let since = Moment::now(self.machines[process.machine].clock.as_ref());
        let number = process.polls.fetch_add(1, Ordering::SeqCst);
        if let Ok(text) = serde_json::to_string(&poll) {
            self.note(|| format!("m{} asks m{to} poll {number}: {text}", process.machine));
            let message = Message::Poll {
                from: process.machine,
                process: process.number,
                number,
                text,
            };
            self.send(process.machine, to, message);
        }
        *lock(&process.asked) = Some((number, poll, since));
        let over = process.event(Part::Main, What::PollOver(number));
        self.plan_event(ANSWER_MS, over);
    }

    /// Sends a message that is late now and then, or lost.
    pub(super) fn send(self: &Arc<Self>, from: usize, to: usize, message: Message) {
        if !self.machines[from].reaches(to, self.now_ms()) || self.is_lost() {
            return;
        }
        let event = Event::of_machine(to, What::Arrives(message));
        self.plan_event(self.latency_ms(), event);
    }

    /// Returns true if a message is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.may_go_wrong() && self.happens(self.rates.lost)
    }

    /// Returns the milliseconds that a message is on its way.
    pub(super) fn latency_ms(&self) -> u64 {
        match self.may_go_wrong() && self.happens(self.rates.late) {
            true => self.below(2_500),
            false => self.below(LATENCY_MS),
        }
    }

    /// Takes in a message at a machine.
    pub(super) fn receive(self: &Arc<Self>, machine: usize, message: Message) {
        let Some(process) = self.machines[machine].process() else {
            return;
        };
        match (message, process.role()) {
            (
                Message::Poll {
                    from,
                    process: asking,
                    number,
                    text,
                },
                Role::Serving(serving),
            ) => {
                let Ok(poll) = serde_json::from_str(&text) else {
                    return self.fail(format!("a poll cannot be read: {text}"));
                };
                let before = serving.grantor.counts();
                let answer = serving.grantor.poll(poll);
                let after = serving.grantor.counts();
                self.count(|counts| {
                    counts.granted += after.granted - before.granted;
                });
                if let Some(Ok(text)) = answer.map(|answer| serde_json::to_string(&answer)) {
                    self.note(|| format!("m{machine} answers m{from} poll {number}: {text}"));
                    let answer = Message::PollAnswer {
                        process: asking,
                        number,
                        text,
                    };
                    self.send(machine, from, answer);
                }
            }
            (
                Message::PollAnswer {
                    process: asking,
                    number,
                    text,
                },
                Role::Waiting(owner),
            ) if asking == process.number => self.take_answer_in(&process, &owner, number, &text),
            (Message::Recall(text), Role::Waiting(owner) | Role::Opening(owner)) => {
                if let Ok(recall) = serde_json::from_str::<RecallText>(&text) {
                    drop(owner.follow(&recall));
                }
            }
            (Message::Late(call), _) => self.carry_out_late(&process, &call),
            _ => {}
        }
    }

    fn take_answer_in(
        self: &Arc<Self>,
        process: &Process,
        owner: &PartitionOwner,
        number: u64,
        text: &str,
    ) {
        let Some((_, poll, since)) = process.take_asked(number) else {
            return;
        };
        let Ok(answer) = serde_json::from_str::<PollAnswer>(text) else {
            return self.fail(format!("an answer cannot be read: {text}"));
        };
        let since = match self.has_fault(FleetFault::CountsFromAnswer) {
            true => Moment::now(self.machines[process.machine].clock.as_ref()),
            false => since,
        };
        self.note(|| format!("m{} takes answer {number}", process.machine));
        owner.take_in(&poll, &answer, since);
        self.note(|| format!("m{} has taken answer {number}", process.machine));
    }

    /// Gives a poll up whose time is over.
    fn give_poll_up(process: &Process, number: u64) {
        let asked = process.take_asked(number);
        if let (Some((_, poll, _)), Role::Waiting(owner)) = (asked, process.role()) {
            owner.give_poll_up(&poll);
        }
    }
}

/// The recalls of a leaseholder.
struct RecallSender {
    fleet: Weak<Fleet>,
    process: Weak<Process>,
    term: u64,
}

impl SendRecalls for RecallSender {
    fn recall(&self, recalls: Vec<Recall>, ended: &mut dyn FnMut(Recall, Ended)) -> bool {
        let (Some(fleet), Some(process)) = (self.fleet.upgrade(), self.process.upgrade()) else {
            return false;
        };
        for recall in recalls {
            let end = fleet.recall(&process, self.term, &recall);
            if matches!(end, Ended::Expired) {
                fleet.count(|counts| counts.expired += 1);
            }
            ended(recall, end);
        }
        true
    }
}

impl Fleet {
    /// Asks an owner until it has given partitions back, or its time is over.
    fn recall(self: &Arc<Self>, process: &Process, term: u64, recall: &Recall) -> Ended {
        let message = RecallText::of(term, recall);
        let clock = &self.machines[process.machine].clock;
        self.note(|| format!("m{} recalls {:?}", process.machine, recall.partitions));
        if self.has_fault(FleetFault::RecallNotSent) {
            return Ended::Returned(settled(recall));
        }
        while clock.monotonic_ms() <= recall.until_ms {
            if let Some(returned) = self.ask_owner(process, recall, &message) {
                return Ended::Returned(returned);
            }
            self.pass(50 + self.below(ANSWER_MS));
            if self.is_over() {
                break;
            }
        }
        Ended::Expired
    }

    /// Asks an owner once.
    fn ask_owner(
        self: &Arc<Self>,
        process: &Process,
        recall: &Recall,
        message: &RecallText,
    ) -> Option<Returned> {
        let to = machine_at(&recall.owner.address)?;
        let is_reached = self.machines[process.machine].reaches(to, self.now_ms());
        if !is_reached || self.is_lost() {
            return None;
        }
        self.pass(self.below(LATENCY_MS));
        if self.may_go_wrong() && self.happens(100) {
            let late = Message::Recall(serde_json::to_string(message).ok()?);
            self.send(process.machine, to, late);
        }
        let returned = self.at_machine(to, |owner_process| match owner_process.role() {
            Role::Waiting(owner) | Role::Opening(owner) => owner.follow(message),
            Role::Serving(_) | Role::Ended => None,
        });
        self.pass(self.below(LATENCY_MS));
        returned.flatten().filter(|_| !self.is_lost())
    }

    /// Lets the process of a machine carry something out, if it is not occupied.
    pub(super) fn at_machine<T>(
        self: &Arc<Self>,
        machine: usize,
        carry_out: impl FnOnce(&Arc<Process>) -> T,
    ) -> Option<T> {
        let process = self.machines[machine].process()?;
        let actor = (machine, Part::Main);
        if self.is_frozen(machine) || !lock(&self.agenda).occupy(actor) {
            return None;
        }
        turns::enter(machine);
        let done = carry_out(&process);
        turns::leave();
        lock(&self.agenda).set_free(actor);
        Some(done)
    }
}

/// Returns the answer of an owner that has given everything back in order.
fn settled(recall: &Recall) -> Returned {
    let mut backs = Vec::new();
    for (partition, id) in &recall.partitions {
        backs.push(format!(
            r#"{{"grant":[{partition},{id}],"standing":null,"head":null,"is_settled":true}}"#
        ));
    }
    let text = format!(r#"{{"given_back":[{}],"reports":[]}}"#, backs.join(","));
    serde_json::from_str(&text).unwrap_or_default()
}

/// Creates the container of a world, with several partitions.
///
/// # Errors
/// The error of the engine.
pub(super) fn create_container(engine: &Engine) -> Checked {
    let created = engine
        .create_database(&object(r#"{"id":"db"}"#)?, None)
        .result;
    created.map_err(|error| format!("no database: {error:?}"))?;
    let database = engine
        .database(Id::Name("db"))
        .map_err(|error| error.to_string())?;
    let definition = object(&definition(0))?;
    let throughput = Some(Throughput::Manual(18_000));
    let created = engine.create_container(&database, &definition, throughput);
    let created = created.result.map(drop);
    created.map_err(|error| format!("no container: {error:?}"))
}

/// Returns a definition of the container, of which there are two.
pub(super) fn definition(number: u64) -> String {
    let path = ["/*", "/n/?"][number as usize % 2];
    format!(
        r#"{{"id":"c","partitionKey":{{"paths":["/pk"],"kind":"Hash"}},
        "indexingPolicy":{{"indexingMode":"consistent","includedPaths":[{{"path":"{path}"}}],
        "excludedPaths":[{{"path":"/_etag/?"}}]}}}}"#
    )
}
