//! The side of the leaseholder: who owns which partition.
//!
//! A node asks twice a second for its partitions. The leaseholder then looks at the loads, and
//! gives the node further partitions if that makes the loads of the nodes more equal; `fleet/node`
//! has the rule. The leaseholder takes a partition back when the catalog changes, when a split, a
//! move or a snapshot needs it, when the loads ask for another owner, and when its owner is silent.
//!
//! Locks: the state, then the grants. Both are locked for moments only, and never while a message
//! or a store is waited for.

use super::counts::{Counters, GrantCounts};
use super::messages::{
    GivenBack, HeadText, Poll, PollAnswer, Report, StandingText, TermsText, reports,
};
use super::recaller::{Ended, SendRecalls};
use super::wire::{answer_with, read_message};
use crate::forward::not_leaseholder;
use crate::roster::members::Members;
use crate::{Given, NodesKey, Owner, PartitionLoad, Recall, Validity, next_assignment};
use bytes::Bytes;
use http::{Request, Response};
use orrery_engine::{Engine, GrantedPartition, Owners, Standing};
use orrery_gateway::{Log, LogLevel, RequestBody};
use orrery_model::Rid;
use orrery_model::sync::{lock, pause, read, wait, write};
use orrery_model::world::World;
use orrery_placement::PlacedStore;
use orrery_storage::{KnownHead, PartitionId, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, RwLock, Weak};
use std::time::Duration;

mod kept;
mod options;
#[cfg(test)]
mod tests;

use kept::KeptForMove;
pub(crate) use options::on_threads;
pub use options::{GrantorOptions, RunInBackground};

/// The most milliseconds for which an owner owns its partitions after a poll. With a short lease
/// they are fewer: four fifths of what is left of the lease.
const VALID_MS: u64 = 3_000;
/// Milliseconds after which a node that has not polled gets no further partitions.
const SILENT_MS: u64 = 2_000;
/// Milliseconds for which a partition that was recalled for some work stays with the leaseholder.
const KEPT_MS: u64 = 5_000;
/// Milliseconds for which a partition that a node gave back by itself stays with the leaseholder.
const REFUSED_MS: u64 = 30_000;
/// Milliseconds in which a node takes over what it was given.
const TAKE_OVER_MS: u64 = 1_000;
/// The pause while nothing tells of the end of a grant.
const PAUSE: Duration = Duration::from_millis(100);
/// The most partitions that change owners because of one poll.
const MOST_CHANGES: usize = 8;

/// The terms of a grant, with the place of the rows.
#[derive(Clone, Debug)]
struct Terms {
    granted: GrantedPartition,
    cluster: String,
    number: PartitionId,
    /// The head with which this process has given the partition up.
    known: Option<KnownHead>,
}

/// The grants of a leaseholder.
pub struct Grantor {
    /// The term of this leaseholder, which stands for its process where owners are compared.
    term: u64,
    key: NodesKey,
    /// The validity of the lease of the account.
    validity: Arc<Validity>,
    counters: Counters,
    world: Arc<dyn World>,
    log: Arc<Log>,
    placed: Arc<PlacedStore>,
    members: Arc<Members>,
    /// Set once the engine is open. The engine has a reference to this value.
    engine: OnceLock<Weak<Engine>>,
    recalls: Box<dyn SendRecalls>,
    in_background: RunInBackground,
    given: RwLock<Given<Terms>>,
    state: Mutex<State>,
    /// Told when a partition is busy no longer.
    unbusied: Condvar,
    /// Held while partitions change owners because of loads.
    choosing: Mutex<()>,
    /// A partition is being taken back for the sake of another owner.
    is_calling_back: AtomicBool,
    /// Grants that have expired are being ended.
    is_ending: AtomicBool,
    /// Request units a second from which on a partition is given; `None` gives none.
    least_load: Option<u64>,
}

#[derive(Default)]
struct State {
    /// The processes that poll, with the time of the last poll.
    nodes: BTreeMap<u64, Node>,
    /// The time until which a partition stays with the leaseholder.
    kept: HashMap<u64, u64>,
    /// Partitions that are being moved to another cluster.
    moving: HashMap<u64, usize>,
    /// Partitions whose writer the engine releases for another process, or opens again after one.
    /// Until that is done no other thread changes their owner.
    busy: HashSet<u64>,
    /// The numbers of each process that has polled. None is removed, so that no old message counts.
    numbers: HashMap<u64, Numbers>,
    /// The time at which partitions were given that may not be taken over yet.
    given_ms: HashMap<u64, u64>,
    /// The names of the nodes whose clocks are wrong.
    wrong_clocks: BTreeSet<String>,
    /// No partition is given any more.
    is_stopped: bool,
}

/// The numbers of the messages of a process.
#[derive(Default)]
struct Numbers {
    /// The last poll.
    poll: u64,
    /// The last report of the process.
    report: u64,
    /// The last report for the process.
    own_report: Report,
}

struct Node {
    name: String,
    address: String,
    polled_ms: u64,
}

impl Grantor {
    /// Creates the grants of a process that holds the lease. All partitions are its own.
    pub fn new(options: GrantorOptions) -> Arc<Grantor> {
        let GrantorOptions {
            term,
            key,
            validity,
            world,
            log,
            placed,
            members,
            recalls,
            in_background,
            least_load,
        } = options;
        let grantor = Arc::new(Grantor {
            term,
            key,
            validity,
            counters: Counters::default(),
            world,
            log,
            placed: placed.clone(),
            members,
            engine: OnceLock::new(),
            recalls,
            in_background,
            given: RwLock::default(),
            state: Mutex::default(),
            unbusied: Condvar::new(),
            choosing: Mutex::default(),
            is_calling_back: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            least_load,
        });
        let mover = Arc::downgrade(&grantor);
        placed.before_moves(Box::new(move |partition| match mover.upgrade() {
            Some(grantor) => grantor.keep_for_move(partition),
            None => Ok(Box::new(())),
        }));
        grantor
    }

    /// Sets the engine whose partitions are given.
    pub fn set_engine(&self, engine: &Arc<Engine>) {
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    /// Takes all partitions back, and gives none any more.
    pub fn stop(&self) {
        lock(&self.state).is_stopped = true;
        // An owner that does not answer is waited for until its grants have expired. If a cluster
        // does not answer, the next leaseholder fences what may be on its way.
        let _ = self.take_back(None);
    }

    /// Returns true if other nodes may own partitions.
    pub(crate) fn may_give(&self) -> bool {
        self.least_load.is_some()
    }

    /// Returns true if another node owns a partition and is silent for so long that it owns nothing
    /// any more.
    pub(crate) fn is_expired(&self, partition: u64) -> bool {
        read(&self.given).is_expired(partition, self.world.monotonic_ms())
    }

    /// Returns true if a partition was given to another node so recently that the node may not have
    /// taken it over yet.
    pub fn is_just_given(&self, partition: u64) -> bool {
        let given_ms = lock(&self.state).given_ms.get(&partition).copied();
        given_ms.is_some_and(|given_ms| self.world.monotonic_ms() < given_ms + TAKE_OVER_MS)
    }

    /// Returns true if the cluster of a partition takes no commits now.
    pub(crate) fn is_away(&self, partition: u64) -> bool {
        self.placed.failure_of(PartitionId(partition)).is_some()
    }

    /// Returns the address of the owner of a partition, if it is another node.
    pub(crate) fn owner_address(&self, partition: u64) -> Option<String> {
        let given = read(&self.given);
        given.owner(partition).map(|owner| owner.address.clone())
    }

    /// Returns the address of the owner of a partition, if it is another node whose time is not
    /// over.
    pub fn live_owner(&self, partition: u64) -> Option<String> {
        let owner = self.owner_address(partition);
        owner.filter(|_| !self.is_expired(partition))
    }

    /// Returns the number of partitions of each node, by the address of the node. `own` is the
    /// address of this one.
    pub(crate) fn partitions_by_address(&self, own: String) -> BTreeMap<String, usize> {
        let all = self
            .engine()
            .map_or(0, |engine| engine.partition_shares().len());
        let mut counts = BTreeMap::new();
        let given = read(&self.given);
        for (_, owner) in given.owners() {
            *counts.entry(owner.address.clone()).or_default() += 1;
        }
        counts.insert(own, all.saturating_sub(given.len()));
        counts
    }

    /// Makes this node the owner of a partition, or of all, for a request that no owner carries
    /// out. Returns false if that is not possible now.
    pub fn recall_for_request(&self, partition: Option<u64>) -> bool {
        let recalled = match partition {
            Some(partition) => self.recall(PartitionId(partition)),
            None => {
                // The next request of this kind finds them here.
                let until_ms = self.world.monotonic_ms() + KEPT_MS;
                let given: Vec<u64> = read(&self.given).owners().map(|(id, _)| id).collect();
                for partition in given {
                    self.keep(partition, until_ms);
                }
                self.recall_all()
            }
        };
        recalled.is_ok()
    }

    /// Returns the key of all nodes.
    pub(crate) fn key(&self) -> &NodesKey {
        &self.key
    }

    /// Returns true while the lease of the account is valid.
    pub(crate) fn holds_lease(&self) -> bool {
        self.validity.is_valid()
    }

    /// Returns the numbers of grants so far.
    pub fn counts(&self) -> GrantCounts {
        self.counters.counts()
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.get()?.upgrade()
    }

    /// Answers a request at the path of polls.
    pub(crate) async fn answer(self: &Arc<Self>, request: Request<RequestBody>) -> Response<Bytes> {
        let (head, body) = request.into_parts();
        let read = read_message(&self.key, "poll", &head.headers, body).await;
        let (poll, signature) = match read {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        // Giving a partition up waits for the store.
        let grantor = self.clone();
        let answered = tokio::task::spawn_blocking(move || grantor.poll(poll)).await;
        match answered {
            Ok(Some(answer)) => answer_with(&self.key, &signature, &answer),
            // The engine is being closed, or a panic has been reported.
            _ => not_leaseholder(),
        }
    }

    /// Carries a poll out. No cluster is waited for, except for the commits of a partition that is
    /// given to the process. Returns `None` for a poll that a later one has overtaken, and when the
    /// engine is being closed.
    pub fn poll(self: &Arc<Self>, poll: Poll) -> Option<PollAnswer> {
        let engine = self.engine()?;
        let now_ms = self.world.monotonic_ms();
        let is_new_report = self.note_numbers(&poll)?;
        // Counts come before standings, which contain them.
        if is_new_report {
            self.add_reports(&engine, &poll);
        }
        // Heads come before the ends of grants: this process may open the partitions then.
        let heads_of_ended = poll.given_back.iter().filter_map(|back| back.head.as_ref());
        let heads_of_owned = poll.heads.iter().map(|(_, head)| head);
        self.note_heads(heads_of_owned.chain(heads_of_ended));
        if self.is_of_term(&poll) {
            for back in &poll.given_back {
                self.take_in(&engine, (back, poll.process), now_ms);
            }
        }
        let work: Vec<Rid> = poll.work.iter().filter_map(|rid| Rid::parse(rid)).collect();
        engine.enter_leaseholder_work(&work);
        if !read(&self.given).expired(now_ms).is_empty() {
            self.end_expired_later();
        }
        let wrong_clock = self.members.wrong_clock(&poll.address);
        let is_right = wrong_clock.is_none();
        self.note_clock(&poll.name, wrong_clock);
        self.note_node(&poll, is_right, now_ms);
        if !is_right {
            self.call_all_back(poll.process);
        } else if !poll.takes_none {
            self.choose(&engine, poll.process);
        }
        let owned = read(&self.given).len();
        if let Some(line) = self.counters.news(owned, now_ms) {
            self.log
                .write(self.world.now_ms(), LogLevel::Info, &line, &[]);
        }
        Some(self.answer_to(&engine, &poll))
    }

    /// Returns true if the grants of a poll are those of this leaseholder. Those of an earlier one
    /// may have the same ids. An owner that tells no term ends at most a grant of its own.
    fn is_of_term(&self, poll: &Poll) -> bool {
        poll.term.is_none_or(|term| term == self.term)
    }

    /// Takes in what owners know of the heads of partitions.
    fn note_heads<'a>(&self, heads: impl Iterator<Item = &'a HeadText>) {
        for head in heads {
            let number = PartitionId(head.number);
            self.placed
                .note_known_head_at(&head.cluster, number, &head.known());
        }
    }

    /// Notes the numbers of a poll. Returns true for a report that has not come before, and `None`
    /// for a poll that a later one has overtaken, or that is sent a second time.
    fn note_numbers(&self, poll: &Poll) -> Option<bool> {
        let mut state = lock(&self.state);
        let numbers = state.numbers.entry(poll.process).or_default();
        if poll.number <= numbers.poll {
            return None;
        }
        numbers.poll = poll.number;
        if poll.seen.0 == self.term {
            numbers.own_report.has_arrived(poll.seen.1);
        }
        let is_new = poll.report.number > numbers.report;
        numbers.report = numbers.report.max(poll.report.number);
        Some(is_new)
    }

    /// Adds the counts of a process at its partitions. Those of other partitions are in the
    /// standings with which these came back.
    fn add_reports(&self, engine: &Engine, poll: &Poll) {
        let mut reports = reports(&poll.report.counts);
        let given = read(&self.given);
        reports.retain(|(partition, _)| given.is_owned_by(partition.0, poll.process));
        drop(given);
        engine.add_reports(&reports);
    }

    /// Ends a grant that a process has given back by itself: it could not take the partition over,
    /// or gave it up. The process does not get the partition at once.
    fn take_in(&self, engine: &Engine, (back, process): (&GivenBack, u64), now_ms: u64) {
        // A grant that was recalled has ended before.
        let is_right = {
            let given = read(&self.given);
            given.has(back.grant) && given.is_owned_by(back.grant.0, process)
        };
        if !is_right {
            return;
        }
        self.keep(back.grant.0, now_ms + REFUSED_MS);
        match back.is_settled {
            true => self.end_settled(engine, back),
            false => write(&self.given).expire(back.grant),
        }
    }

    /// Keeps a partition for this node until a time.
    fn keep(&self, partition: u64, until_ms: u64) {
        lock(&self.state).kept.insert(partition, until_ms);
    }

    /// Writes to the log that the clock of a node is wrong, as a sentence says, or is right again.
    fn note_clock(&self, name: &str, wrong_clock: Option<String>) {
        let mut state = lock(&self.state);
        let message = match wrong_clock {
            Some(sentence) if state.wrong_clocks.insert(name.to_owned()) => {
                format!("{sentence}. The node owns no partitions until then")
            }
            None if state.wrong_clocks.remove(name) => {
                format!("the clock of the node '{name}' is right again")
            }
            _ => return,
        };
        drop(state);
        self.log
            .write(self.world.now_ms(), LogLevel::Warn, &message, &[]);
    }

    /// Takes the partitions of a process back on a thread of its own: it refuses the signatures of
    /// clients whose clocks are right.
    fn call_all_back(self: &Arc<Self>, process: u64) {
        let given = read(&self.given);
        let of_process = given.owners().filter(|(_, owner)| owner.process == process);
        let partitions: Vec<u64> = of_process.map(|(partition, _)| partition).collect();
        drop(given);
        if partitions.is_empty() {
            return;
        }
        let call = move |grantor: &Grantor| {
            for partition in partitions {
                // The next poll tries again.
                let _ = grantor.take_back(Some(partition));
            }
        };
        self.in_background("orrery-call-back", |grantor| &grantor.is_calling_back, call);
    }

    /// Notes the node that has polled, and forgets what is over. Only a node whose clock
    /// `is_right` gets partitions.
    fn note_node(&self, poll: &Poll, is_right: bool, now_ms: u64) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let is_heard = |node: &Node| now_ms.saturating_sub(node.polled_ms) <= SILENT_MS;
        state.nodes.retain(|_, node| is_heard(node));
        state.kept.retain(|_, until_ms| now_ms < *until_ms);
        let given_ms = &mut state.given_ms;
        given_ms.retain(|_, given_ms| now_ms < *given_ms + TAKE_OVER_MS);
        if poll.takes_none || !is_right {
            state.nodes.remove(&poll.process);
            return;
        }
        let node = Node {
            name: poll.name.clone(),
            address: poll.address.clone(),
            polled_ms: now_ms,
        };
        state.nodes.insert(poll.process, node);
    }

    /// Returns the answer to a poll.
    fn answer_to(&self, engine: &Engine, poll: &Poll) -> PollAnswer {
        // A later leaseholder may claim the lease when this time is over, and waits for no owner.
        // The owner's clock may be a fifth slower.
        let of_lease = self.validity.remaining_ms() * 4 / 5;
        let valid_ms = VALID_MS.min(of_lease);
        let mut given = write(&self.given);
        let answer = given.answer(poll.process, self.world.monotonic_ms(), valid_ms);
        let mut owners: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (partition, owner) in given.owners() {
            if owner.process != poll.process {
                owners
                    .entry(owner.address.clone())
                    .or_default()
                    .push(partition);
            }
        }
        drop(given);

        // A grant of an earlier leaseholder with the same id has other terms.
        let is_of_term = self.is_of_term(poll);
        let mut grants = Vec::with_capacity(answer.grants.len());
        let mut terms = Vec::new();
        for (partition, id, of_grant) in &answer.grants {
            grants.push((*partition, *id));
            if !is_of_term || !poll.owned.contains(&(*partition, *id)) {
                let Terms {
                    granted,
                    cluster,
                    number,
                    known,
                } = of_grant;
                terms.push(TermsText::of(granted, cluster, *number, *known));
            }
        }
        let owned: Vec<PartitionId> = grants.iter().map(|(id, _)| PartitionId(*id)).collect();
        let report = {
            let mut state = lock(&self.state);
            let numbers = state.numbers.entry(poll.process).or_default();
            numbers.own_report.next(|| engine.take_reports(&owned))
        };
        PollAnswer {
            term: self.term,
            round: answer.round,
            valid_ms,
            catalog: engine.catalog_version(),
            confirmed_ms: engine.confirmed_ms(),
            grants,
            terms,
            report,
            owners: owners.into_iter().collect(),
        }
    }

    /// Changes owners of partitions in favour of a node that has polled, as the loads ask for.
    fn choose(self: &Arc<Self>, engine: &Engine, process: u64) {
        let Some(least_load) = self.least_load else {
            return;
        };
        let Ok(_choosing) = self.choosing.try_lock() else {
            return;
        };
        // The leaseholder is the first node.
        let mut nodes = vec![self.term];
        nodes.extend(lock(&self.state).nodes.keys());
        let mut loads = self.loads(engine, &nodes);
        for _ in 0..MOST_CHANGES {
            let Some(next) = next_assignment(nodes.len(), &loads, least_load) else {
                return;
            };
            // Another node gets its partitions when it polls.
            let to = nodes[next.to];
            if to != process && to != self.term {
                return;
            }
            // A partition of another node comes back first. The node that polls does not wait for
            // that: it gets the partition with one of its next polls.
            if !read(&self.given).is_owned_here(next.partition) {
                self.call_back(next.partition);
                return;
            }
            if to == process && !self.give(engine, next.partition, process) {
                return;
            }
            for load in &mut loads {
                if load.partition == next.partition {
                    load.owner = next.to;
                }
            }
        }
    }

    /// Takes a partition back on a thread of its own, unless one is being taken back so already.
    fn call_back(self: &Arc<Self>, partition: u64) {
        // The next look at the loads decides again.
        let call = move |grantor: &Grantor| _ = grantor.take_back(Some(partition));
        self.in_background("orrery-call-back", |grantor| &grantor.is_calling_back, call);
    }

    /// Ends the grants that have expired on a thread of its own: a cluster may not answer.
    fn end_expired_later(self: &Arc<Self>) {
        let end = |grantor: &Grantor| {
            let expired = read(&grantor.given).expired(grantor.world.monotonic_ms());
            if let Some(engine) = grantor.engine() {
                // The next poll tries again.
                let _ = grantor.end_expired(&engine, &expired);
            }
        };
        self.in_background("orrery-end-grants", |grantor| &grantor.is_ending, end);
    }

    /// Runs a piece of work in the background, unless such a piece runs already, as a mark tells.
    fn in_background(
        self: &Arc<Self>,
        name: &str,
        mark: fn(&Grantor) -> &AtomicBool,
        work: impl FnOnce(&Grantor) + Send + 'static,
    ) {
        if mark(self).swap(true, Ordering::AcqRel) {
            return;
        }
        let grantor = self.clone();
        let run = move || {
            work(&grantor);
            mark(&grantor).store(false, Ordering::Release);
        };
        if !(self.in_background)(name, Box::new(run)) {
            mark(self).store(false, Ordering::Release);
        }
    }

    /// Returns the loads of all partitions with the indexes of their owners.
    fn loads(&self, engine: &Engine, nodes: &[u64]) -> Vec<PartitionLoad> {
        let shares = engine.partition_shares();
        let state = lock(&self.state);
        let given = read(&self.given);
        let load = |share: orrery_engine::PartitionShare| {
            let partition = share.partition.0;
            let owner = given.owner(partition).map_or(self.term, |one| one.process);
            let is_kept = state.is_stopped
                || state.kept.contains_key(&partition)
                || state.moving.contains_key(&partition);
            PartitionLoad {
                partition,
                owner: nodes.iter().position(|node| *node == owner).unwrap_or(0),
                load: share.load,
                is_movable: share.may_be_given && !is_kept,
            }
        };
        shares.into_iter().map(load).collect()
    }

    /// Gives a partition to a process. Returns false if that is not possible now.
    fn give(&self, engine: &Engine, partition: u64, process: u64) -> bool {
        let mut begun = None;
        let mark = || {
            begun = self.begin(partition, process);
            begun.is_some()
        };
        let granted = engine.give_up(PartitionId(partition), mark);
        let Some(Begun { id, name, _busy }) = begun else {
            return false;
        };
        let Ok(Some(granted)) = granted else {
            // Everything that the writer had accepted may not be durable: the leaseholder goes on.
            write(&self.given).end(&[(partition, id)]);
            self.keep(partition, self.world.monotonic_ms() + REFUSED_MS);
            return false;
        };
        let (cluster, number) = self.placed.home(PartitionId(partition));
        let terms = Terms {
            granted,
            cluster,
            number,
            known: self.placed.known_head(PartitionId(partition)),
        };
        write(&self.given).set_terms(partition, id, terms);
        self.counters.note(|counts| counts.granted += 1);
        self.tell(&format!(
            "the node '{name}' owns partition {partition} from now on"
        ));
        true
    }

    /// Makes a process the owner of a partition, which is busy until the engine has released the
    /// writer. Returns `None` if the partition must stay.
    fn begin(&self, partition: u64, process: u64) -> Option<Begun<'_>> {
        let mut state = lock(&self.state);
        let node = state.nodes.get(&process)?;
        let owner = Owner {
            process,
            address: node.address.clone(),
        };
        let name = node.name.clone();
        let mut given = write(&self.given);
        let must_stay = state.is_stopped
            || state.moving.contains_key(&partition)
            || state.busy.contains(&partition)
            || !given.is_owned_here(partition);
        if must_stay {
            return None;
        }
        let now_ms = self.world.monotonic_ms();
        state.given_ms.insert(partition, now_ms);
        state.busy.insert(partition);
        Some(Begun {
            id: given.begin(partition, owner),
            name,
            _busy: Busy {
                grantor: self,
                partition,
            },
        })
    }

    /// Waits until a partition is not busy, or none is.
    fn wait_for_busy(&self, partition: Option<u64>) -> MutexGuard<'_, State> {
        let is_busy = |state: &State| match partition {
            Some(one) => state.busy.contains(&one),
            None => !state.busy.is_empty(),
        };
        let mut state = lock(&self.state);
        while is_busy(&state) {
            state = wait(&self.unbusied, state);
        }
        state
    }

    /// Takes partitions back: `None` for all. Waits for the owners.
    ///
    /// # Errors
    /// A cluster does not answer, so that commits of a silent owner may still arrive there.
    fn take_back(&self, partition: Option<u64>) -> Result<(), StoreError> {
        loop {
            // A partition that is being given is taken back afterwards.
            drop(self.wait_for_busy(partition));
            let recalls = {
                let mut given = write(&self.given);
                match partition {
                    Some(one) if given.is_owned_here(one) => return Ok(()),
                    None if given.is_empty() => return Ok(()),
                    _ => given.recall(partition),
                }
            };
            // The engine is gone at the end of the process only.
            let Some(engine) = self.engine() else {
                return Err(not_taken_back());
            };
            let mut is_fenced = true;
            let all_sent = self.recalls.recall(recalls, &mut |recall, ended| {
                is_fenced &= self.end_recall(&engine, &recall, ended);
            });
            if !is_fenced {
                return Err(not_taken_back());
            }
            if !all_sent {
                // Without the thread the grants end with their time, which no answer extends.
                pause(PAUSE);
                let expired = read(&self.given).expired(self.world.monotonic_ms());
                if !self.end_expired(&engine, &expired) {
                    return Err(not_taken_back());
                }
            }
        }
    }

    /// Ends the grants of a recall. Returns false if a cluster does not answer: some grants have
    /// not ended.
    fn end_recall(&self, engine: &Engine, recall: &Recall, ended: Ended) -> bool {
        match ended {
            Ended::Returned(returned) => {
                engine.add_reports(&reports(&returned.reports));
                let returned_heads = returned.given_back.iter();
                self.note_heads(returned_heads.filter_map(|back| back.head.as_ref()));
                let mut have_ended = true;
                for back in &returned.given_back {
                    have_ended &= self.end_returned(engine, back);
                }
                // A grant that the owner does not name may not be settled.
                have_ended && self.end_expired(engine, &recall.partitions)
            }
            Ended::Expired => {
                let are_new = recall.partitions.iter().any(|grant| self.has(*grant));
                let have_ended = self.end_expired(engine, &recall.partitions);
                if are_new && have_ended {
                    let message = format!(
                        "the node at {} did not give partitions back: its grants have expired",
                        recall.owner.address
                    );
                    self.log
                        .write(self.world.now_ms(), LogLevel::Warn, &message, &[]);
                }
                have_ended
            }
        }
    }

    fn has(&self, grant: (u64, u64)) -> bool {
        read(&self.given).has(grant)
    }

    /// Ends a grant that its owner has given back. Returns false if a cluster does not answer.
    fn end_returned(&self, engine: &Engine, back: &GivenBack) -> bool {
        if !back.is_settled {
            return self.end_expired(engine, &[back.grant]);
        }
        self.end_settled(engine, back);
        true
    }

    /// Ends grants whose owners may have sent commits that have not arrived: these must take place
    /// before this process reads the partitions, or never. Returns false if a cluster does not
    /// answer: some grants have not ended.
    fn end_expired(&self, engine: &Engine, grants: &[(u64, u64)]) -> bool {
        let mut have_ended = true;
        for grant in grants {
            let partition = grant.0;
            // Another thread may have ended the grant, and the partition may have an owner again.
            let _busy = {
                let mut state = self.wait_for_busy(Some(partition));
                if !self.has(*grant) {
                    continue;
                }
                state.busy.insert(partition);
                Busy {
                    grantor: self,
                    partition,
                }
            };
            if let Err(error) = engine.fence(PartitionId(partition)) {
                // The grant stays, and the next attempt comes with the next request or poll.
                self.tell(&format!(
                    "partition {partition} cannot be taken back now: {}",
                    error.cause_chain()
                ));
                have_ended = false;
                continue;
            }
            if self.end(engine, *grant, None) {
                self.counters.note(|counts| counts.expired += 1);
            }
        }
        have_ended
    }

    /// Ends a grant that its owner has given back in order.
    fn end_settled(&self, engine: &Engine, back: &GivenBack) {
        if self.end(engine, back.grant, back.standing.as_ref()) {
            self.counters.note(|counts| counts.returned += 1);
        }
    }

    /// Ends a grant, and goes on with the standing of the budget of its partition. Returns false
    /// if it has ended before.
    fn end(&self, engine: &Engine, grant: (u64, u64), standing: Option<&StandingText>) -> bool {
        let ended = write(&self.given).end(&[grant]);
        let standing = standing.map(Standing::from);
        for partition in &ended {
            engine.resume(PartitionId(*partition), standing.as_ref());
            self.tell(&format!("this node owns partition {partition} again"));
        }
        !ended.is_empty()
    }

    /// Takes a partition back, and keeps it until the returned value is dropped.
    fn keep_for_move(self: Arc<Self>, partition: PartitionId) -> Result<Box<dyn Send>, StoreError> {
        *lock(&self.state).moving.entry(partition.0).or_default() += 1;
        let kept = KeptForMove {
            grantor: self.clone(),
            partition: partition.0,
        };
        self.take_back(Some(partition.0))?;
        Ok(Box::new(kept))
    }

    fn tell(&self, message: &str) {
        self.log
            .write(self.world.now_ms(), LogLevel::Debug, message, &[]);
    }
}

/// A grant that has begun.
struct Begun<'g> {
    id: u64,
    /// The name of the node.
    name: String,
    _busy: Busy<'g>,
}

/// A busy partition, until this value is dropped.
struct Busy<'g> {
    grantor: &'g Grantor,
    partition: u64,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        lock(&self.grantor.state).busy.remove(&self.partition);
        self.grantor.unbusied.notify_all();
    }
}

fn not_taken_back() -> StoreError {
    StoreError::Unavailable {
        reason: "a partition cannot be taken back from another node now",
        retry_after_ms: 100,
        is_full: false,
    }
}

impl Owners for Grantor {
    fn owns(&self, partition: PartitionId) -> bool {
        read(&self.given).is_owned_here(partition.0)
    }

    fn reads_all(&self) -> bool {
        true
    }

    fn recall(&self, partition: PartitionId) -> Result<(), StoreError> {
        if self.owns(partition) {
            return Ok(());
        }
        self.keep(partition.0, self.world.monotonic_ms() + KEPT_MS);
        self.take_back(Some(partition.0))
    }

    fn recall_all(&self) -> Result<(), StoreError> {
        self.take_back(None)
    }

    fn are_forwarded(&self) -> bool {
        self.may_give()
    }
}
