//! Seeded worlds of a fleet: three nodes on one store, and a network that loses messages.
//!
//! The nodes are those of `orrery-node` without its sockets and threads: they claim and renew the
//! lease, give partitions to each other, forward requests, and open engines on the same store. All
//! of them run on threads of which one runs at a time. A call of the store may take long: while it
//! waits, the others go on, so requests of several nodes overlap. The clocks of the machines differ
//! in speed.
//!
//! ```text
//! clients ─▶ Requests ─▶ node ─▶ Grantor, PartitionOwner, Engine ─▶ Connection ─▶ MemoryStore
//!               │          │                                            │
//!               ▼          └─ messages ─▶ agenda ─▶ other nodes ◀───────┘ time passes
//!            History
//! ```
//!
//! # Promises
//!
//! 1. The same plan gives the same trace.
//! 2. At no moment is the lease valid at two nodes, and at no moment do two nodes own a partition.
//! 3. The requests for each item are linearizable, and a request that was refused as not carried
//!    out had no effect.
//! 4. The LSN of an answered write is higher than those of the writes of its partition that were
//!    answered before, and no other write has it.
//! 5. When nothing goes wrong any more, each item can be read, and the engine's own verification
//!    finds nothing.
//!
//! # Leaves out
//!
//! The wire between nodes and its signatures, standbys, moves between clusters, the roster of the
//! nodes, the heads of partitions that nodes tell each other, for a store that loses what it has
//! confirmed. Two pieces of work at one node overlap nowhere, except for the lease: what holds
//! between the threads of a node is tested in `core/engine/tests/ownership.rs` and in
//! `program/cli/tests`. The way of a request from node to node is written a second time
//! (`requests.rs`), since that of the program is bound to HTTP.
//!
//! # The modules, in reading order
//!
//! | module | holds |
//! |---|---|
//! | `history` | the requests for one item, and the check of their answers |
//! | `agenda`, `turns` | what will happen, who is occupied, and who is at work |
//! | `machine` | a machine: its clocks, its process, what it cannot reach |
//! | `connection` | the store as a process reaches it |
//! | `process` | a process of a node: its lease, its partitions, its messages |
//! | `requests` | the clients, and the way of a request from node to node |
//! | `misfortunes` | what goes wrong |

mod agenda;
mod connection;
mod history;
mod machine;
mod misfortunes;
mod process;
mod requests;
mod turns;

use crate::random::Random;
use crate::trace::{Listener, Trace};
use crate::{Checked, Failure};
use agenda::{Agenda, Event, Part, What};
use machine::Machine;
use orrery_engine::Owners;
use orrery_gateway::{Log, LogFormat, LogLevel};
use orrery_model::sync::lock;
use orrery_storage::{MemoryStore, PartitionId};
use process::Role;
use requests::Requests;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use turns::Turns;

/// Machines of a fleet.
const MACHINES: usize = 3;
/// Milliseconds for which a renewal of the lease is good.
const TTL_MS: u64 = 3_000;
/// The most milliseconds of a world before it comes to rest: a fleet may answer little.
const LONGEST_MS: u64 = 300_000;
/// Milliseconds without misfortunes and requests at the end of a world.
const QUIET_MS: u64 = 60_000;

/// The plan of a fleet.
#[derive(Clone, Copy, Debug)]
pub struct FleetPlan {
    /// The seed, from which everything follows.
    pub seed: u64,
    /// The number of requests of clients that are not refused.
    pub requests: u64,
    /// The fault that a self-test plants.
    pub fault: Option<FleetFault>,
}

impl FleetPlan {
    /// Creates the plan of a seed.
    pub fn new(seed: u64, requests: u64) -> FleetPlan {
        FleetPlan {
            seed,
            requests,
            fault: None,
        }
    }
}

/// A fault of a fleet that a self-test plants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetFault {
    /// The store accepts commits of earlier processes, behind its head.
    FenceLost,
    /// The store answers a commit that is still on its way.
    AnsweredEarly,
    /// The clock of a machine runs at twice the speed of the others.
    ClockTooFast,
    /// A node counts the time of its partitions from the answer of the leaseholder.
    CountsFromAnswer,
    /// The leaseholder takes partitions back without the answer of their owners.
    RecallNotSent,
    /// A write whose answer was lost is sent again.
    SentTwice,
    /// A write whose answer was lost is reported as one that was not carried out.
    LostIsRefused,
}

impl FleetFault {
    /// All faults.
    pub const ALL: [FleetFault; 7] = [
        FleetFault::FenceLost,
        FleetFault::AnsweredEarly,
        FleetFault::ClockTooFast,
        FleetFault::CountsFromAnswer,
        FleetFault::RecallNotSent,
        FleetFault::SentTwice,
        FleetFault::LostIsRefused,
    ];
}

/// The result of a fleet in which everything was as it must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetReport {
    /// The hash of the trace.
    pub hash: u64,
    /// The number of events in the trace.
    pub events: u64,
    /// Milliseconds that passed in the world.
    pub passed_ms: u64,
    /// The figures.
    pub counts: FleetCounts,
}

/// Figures of a fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetCounts {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that an owner without the lease has answered.
    pub by_owners: u64,
    /// Requests whose outcome their client did not learn.
    pub unknown: u64,
    /// Requests that were refused as not carried out.
    pub refused: u64,
    /// Times that a node took the lease.
    pub leases: u64,
    /// Partitions that were given to a node.
    pub granted: u64,
    /// Partitions that were taken back from a node that gave no answer.
    pub expired: u64,
    /// Things that went wrong.
    pub misfortunes: u64,
}

/// The rates at which things go wrong in a world.
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// The mean milliseconds from one misfortune to the next.
    misfortune_ms: u64,
    /// Calls of the store, of 10,000, at which a machine stands still, and that take long.
    long_calls: u64,
    /// Messages of 1,000 that are lost.
    lost: u64,
    /// Messages of 1,000 that are late.
    late: u64,
}

impl Rates {
    fn random(random: &mut Random) -> Rates {
        Rates {
            misfortune_ms: random.pick(&[800, 3_000, 12_000]),
            long_calls: random.pick(&[0, 3, 20]),
            lost: random.pick(&[0, 10, 60]),
            late: random.pick(&[0, 30, 150]),
        }
    }
}

/// The world of a seed.
struct Fleet {
    plan: FleetPlan,
    random: Mutex<Random>,
    trace: Mutex<Trace>,
    /// The first thing that is not as it must be. Nothing goes on behind it.
    failure: Mutex<Option<String>>,
    now_ms: AtomicU64,
    turns: Turns,
    /// The world is over: nothing waits any more.
    is_over: AtomicBool,
    /// Things may go wrong.
    may_go_wrong: AtomicBool,
    machines: Vec<Machine>,
    store: MemoryStore,
    rates: Rates,
    agenda: Mutex<Agenda>,
    requests: Mutex<Requests>,
    /// The partitions of the container.
    partitions: Mutex<BTreeSet<u64>>,
    counts: Mutex<FleetCounts>,
    log: Arc<Log>,
}

/// Runs a fleet. `listener` gets each event as a line.
///
/// # Errors
/// The first thing that is not as it must be, or a panic of a node.
pub fn run_fleet(
    plan: &FleetPlan,
    listener: Option<Listener>,
) -> Result<FleetReport, Box<Failure>> {
    let fleet = Fleet::new(plan, Trace::new(listener));
    let ran = catch_unwind(AssertUnwindSafe(|| fleet.run()));
    let result = crate::without_panic(ran);
    // The end of the world adds events of no interest.
    let trace = std::mem::replace(&mut *lock(&fleet.trace), Trace::new(None));
    let counts = *lock(&fleet.counts);
    fleet.end();
    match result {
        Ok(()) => Ok(FleetReport {
            hash: trace.hash(),
            events: trace.events(),
            passed_ms: fleet.now_ms(),
            counts,
        }),
        Err(message) => Err(Box::new(Failure {
            seed: plan.seed,
            arguments: format!("--fleet --seed {} --requests {}", plan.seed, plan.requests),
            message,
            last: trace.last(),
        })),
    }
}

impl Fleet {
    fn new(plan: &FleetPlan, trace: Trace) -> Arc<Fleet> {
        let mut random = Random::new(plan.seed);
        let machines = (0..MACHINES).map(|at| Machine::new(at, plan.seed, &mut random));
        let mut machines: Vec<Machine> = machines.collect();
        if plan.fault == Some(FleetFault::ClockTooFast) {
            machines[0].speed = 2_000;
        }
        let rates = Rates::random(&mut random);
        Arc::new(Fleet {
            plan: *plan,
            random: Mutex::new(random),
            trace: Mutex::new(trace),
            failure: Mutex::default(),
            now_ms: AtomicU64::new(0),
            turns: Turns::new(),
            is_over: AtomicBool::new(false),
            may_go_wrong: AtomicBool::new(false),
            machines,
            store: MemoryStore::new(),
            rates,
            agenda: Mutex::default(),
            requests: Mutex::new(Requests::new(plan.requests)),
            partitions: Mutex::default(),
            counts: Mutex::default(),
            log: Arc::new(Log::new(LogLevel::Error, LogFormat::Text, std::io::sink())),
        })
    }

    /// Lets the world happen, then lets it come to rest and compares everything.
    fn run(self: &Arc<Self>) -> Checked {
        for machine in 0..MACHINES {
            let speed = self.machines[machine].speed;
            self.note(|| format!("m{machine} has a clock of speed {speed}"));
            self.start_process(machine);
        }
        self.note(|| format!("{:?}", self.rates));
        self.create_container()?;
        self.may_go_wrong.store(true, Ordering::SeqCst);
        for machine in 0..MACHINES {
            self.plan_event(self.below(50), Event::of_machine(machine, What::Request));
            self.plan_event(self.below(500), Event::of_machine(machine, What::Work));
        }
        self.plan_event(0, Event::of_world(What::Misfortune));
        self.plan_event(self.below(9_000), Event::of_world(What::CatalogChange));
        while self.may_go_wrong() && !self.has_failed() && self.now_ms() < LONGEST_MS {
            self.pass(1_000);
        }
        self.repair_everything();
        self.pass(QUIET_MS);
        self.check_end()?;
        match lock(&self.failure).take() {
            Some(message) => Err(message),
            None => Ok(()),
        }
    }

    /// Lets the fleet come up and creates the container of the world.
    fn create_container(self: &Arc<Self>) -> Checked {
        for _ in 0..100 {
            self.pass(100);
            if let Some(serving) = self.leaseholder() {
                process::create_container(&serving.engine)?;
                self.note_partitions(&serving.engine);
                return Ok(());
            }
        }
        Err("no node holds the lease at the beginning".to_owned())
    }

    /// Compares what is left when nothing goes wrong any more.
    fn check_end(self: &Arc<Self>) -> Checked {
        if self.has_failed() {
            return Ok(());
        }
        self.read_all_items()?;
        let Some(serving) = self.leaseholder() else {
            return Err("no node holds the lease although nothing goes wrong".to_owned());
        };
        let verified = serving.engine.verify(None, &mut |_| true);
        let verified = verified.map_err(|error| format!("no verification: {error:?}"))?;
        match verified.findings.is_empty() {
            true => Ok(()),
            false => Err(format!("the verification finds {:?}", verified.findings)),
        }
    }

    /// Ends all processes, which have references to the world.
    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.turns.end();
        for machine in &self.machines {
            drop(machine.end_process());
        }
        lock(&self.agenda).clear();
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Adds an event to the trace.
    fn note(&self, line: impl FnOnce() -> String) {
        let line = format!("{:>7} {}", self.now_ms(), line());
        lock(&self.trace).add(line);
    }

    fn count(&self, change: impl FnOnce(&mut FleetCounts)) {
        change(&mut lock(&self.counts));
    }

    /// Returns a random number below `end`.
    fn below(&self, end: u64) -> u64 {
        lock(&self.random).below(end)
    }

    /// Returns true in `per_mille` of 1,000 cases.
    fn happens(&self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    fn has_fault(&self, fault: FleetFault) -> bool {
        self.plan.fault == Some(fault)
    }

    /// Returns the milliseconds since the beginning of the world.
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    /// Notes that something is not as it must be.
    fn fail(&self, message: String) {
        lock(&self.failure).get_or_insert(message);
    }

    fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    fn plan_event(&self, in_ms: u64, event: Event) {
        let at_ms = self.now_ms() + in_ms;
        lock(&self.agenda).add(at_ms, event);
    }

    /// Lets time pass, in which the others go on.
    fn pass(self: &Arc<Self>, time_ms: u64) {
        if self.is_over() {
            return;
        }
        match turns::this() {
            Some((thread, machine)) => {
                let goes_on = Event {
                    machine,
                    ..Event::of_world(What::GoesOn(thread))
                };
                self.plan_event(time_ms, goes_on);
                turns::wait();
            }
            None => self.run_until(self.now_ms() + time_ms),
        }
    }

    /// Lets everything happen that is due until a time.
    fn run_until(self: &Arc<Self>, until_ms: u64) {
        while !self.has_failed() {
            let is_free = |event: &Event| event.machine.is_none_or(|at| !self.is_frozen(at));
            let next = lock(&self.agenda).take_due(until_ms, is_free);
            let Some((due_ms, event)) = next else {
                break;
            };
            self.move_time_to(due_ms);
            let done = match event.what {
                What::GoesOn(thread) => self.turns.go_on(thread),
                _ => {
                    let fleet = self.clone();
                    let machine = event.machine;
                    let work = move || {
                        let actor = event.machine.map(|machine| (machine, event.part));
                        fleet.handle(event);
                        if let Some(actor) = actor {
                            lock(&fleet.agenda).set_free(actor);
                        }
                    };
                    self.turns.begin(machine, Box::new(work))
                }
            };
            if let Err(message) = done {
                self.fail(message);
            }
            self.check_owners();
        }
        self.move_time_to(until_ms);
    }

    fn move_time_to(&self, at_ms: u64) {
        let before_ms = self.now_ms();
        if at_ms > before_ms {
            self.now_ms.store(at_ms, Ordering::SeqCst);
            for machine in &self.machines {
                machine.pass(at_ms);
            }
        }
    }

    fn is_frozen(&self, machine: usize) -> bool {
        self.machines[machine].is_frozen(self.now_ms())
    }

    /// Checks that one node at most holds the lease, and owns each partition.
    fn check_owners(&self) {
        let mut holders = Vec::new();
        let mut owners: Vec<(u64, usize)> = Vec::new();
        let partitions = lock(&self.partitions).clone();
        for (at, machine) in self.machines.iter().enumerate() {
            let Some(process) = machine.process() else {
                continue;
            };
            if process.holds_valid_lease() {
                holders.push(at);
            }
            let owns = |partition: u64| match process.role() {
                Role::Waiting(owner) | Role::Opening(owner) => owner.owns(PartitionId(partition)),
                Role::Serving(serving) => {
                    serving.validity.is_valid() && serving.grantor.owns(PartitionId(partition))
                }
                Role::Ended => false,
            };
            for partition in &partitions {
                if owns(*partition) {
                    owners.push((*partition, at));
                }
            }
        }
        if holders.len() > 1 {
            self.fail(format!("the lease is valid at the nodes {holders:?}"));
        }
        owners.sort_unstable();
        for pair in owners.windows(2) {
            if pair[0].0 == pair[1].0 {
                self.fail(format!(
                    "m{} and m{} own partition {}",
                    pair[0].1, pair[1].1, pair[0].0
                ));
            }
        }
    }

    /// Carries an event out.
    fn handle(self: &Arc<Self>, event: Event) {
        let process = event.process_in(&self.machines);
        if event.process.is_some() && process.is_none() {
            return;
        }
        match (event.what, event.machine, process) {
            (What::Misfortune, ..) => self.meet_misfortune(),
            (What::CatalogChange, ..) => self.change_catalog(),
            (What::Start, Some(machine), _) => self.start_process(machine),
            (What::Request, Some(machine), _) => self.begin_request(machine),
            (What::Work, Some(machine), _) => self.work(machine),
            (What::Arrives(message), Some(machine), _) => self.receive(machine, message),
            (What::CommitArrives(commit), ..) => self.receive_commit(*commit),
            (what, Some(_), Some(process)) => self.act(&process, what),
            _ => {}
        }
    }
}

/// Returns an event for a part of a process.
fn event_of(machine: usize, process: u64, part: Part, what: What) -> Event {
    Event {
        machine: Some(machine),
        process: Some(process),
        part,
        what,
    }
}
