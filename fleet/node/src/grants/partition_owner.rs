//! The partitions that a node without the lease owns, and the requests for them.
//!
//! The node has an engine on the clusters. Every answer of the engine is final as long as the node
//! owns any partition, since the catalog does not change then; without one the engine tells only
//! which partition a request needs, so that the request is forwarded to its owner and not to the
//! leaseholder.
//!
//! Messages of the leaseholder are taken in one after the other, so a recall that comes while
//! partitions are taken over waits for that.
//!
//! Left out: the network, threads and the protocol of clients (`owner.rs`).

use super::messages::{
    GivenBack, Granted, HeadText, Poll, PollAnswer, RecallText, Report, Returned, StandingText,
    TermsText, counted, reports,
};
use super::routed_store::RoutedStore;
use crate::forward::may_have_changed;
use crate::{LeasedStore, Moment, Node, Owned, Validity};
use http::StatusCode;
use orrery_engine::{Engine, EngineOptions, Owners};
use orrery_gateway::{Field, Log, LogLevel};
use orrery_model::Rid;
use orrery_model::sync::{lock, read, write};
use orrery_model::world::World;
use orrery_storage::{PartitionId, Store, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// Milliseconds for which a node takes no partitions over after a cluster did not answer.
const UNREACHABLE_MS: u64 = 30_000;
/// Requests in a row that a cluster does not answer, after which the node gives its partitions
/// back.
const MOST_FAILURES: u64 = 3;
/// The most partitions that one poll gives back: each has some kilobytes.
const MOST_RETURNED: usize = 200;
/// The catalog, which is read by every node.
const CATALOG: PartitionId = PartitionId(0);

/// The partitions that this process owns while it does not hold the lease.
pub struct PartitionOwner {
    /// This node as others see it.
    node: Node,
    /// The random number of this process.
    process: u64,
    engine: Arc<Engine>,
    log: Arc<Log>,
    partitions: Arc<OwnPartitions>,
    store: Arc<RoutedStore>,
    world: Arc<dyn World>,
    /// Held while a message of the leaseholder is taken in.
    owned: Mutex<Owned>,
    /// The partitions that were given back, until the leaseholder has heard of them.
    returned: Mutex<HashMap<u64, Back>>,
    /// The heads of partitions that have reached the leaseholder of a term.
    told_heads: Mutex<(u64, HashMap<u64, HeadText>)>,
    /// Counts that may not have reached the leaseholder.
    report: Mutex<Report>,
    /// The number of the last poll.
    polls: AtomicU64,
    /// The last report of a leaseholder: the term of the leaseholder, and the number.
    seen: Mutex<(u64, u64)>,
    /// The millisecond of the monotonic clock until which the node takes no partitions over, since
    /// a cluster did not answer.
    takes_none_until_ms: AtomicU64,
    /// Requests that a cluster did not answer, since the last that was answered.
    failures: AtomicU64,
    /// The process ends, and takes no partitions over.
    is_leaving: AtomicBool,
    /// The addresses of the owners of other partitions.
    others: RwLock<HashMap<u64, Arc<str>>>,
}

/// The parts of a [`PartitionOwner`].
pub struct PartitionOwnerOptions {
    /// This node as others see it.
    pub node: Node,
    /// The stores of the clusters by their names. The first one has the catalog.
    pub clusters: Vec<(String, Arc<dyn Store>)>,
    /// The options of the engine. The owner sets `owners`.
    pub engine: EngineOptions,
    /// Clock and random numbers.
    pub world: Arc<dyn World>,
    /// The log of the node.
    pub log: Arc<Log>,
}

/// A partition that was given back.
#[derive(Clone, Debug)]
struct Back {
    standing: Option<StandingText>,
    head: Option<HeadText>,
    /// Everything was durable.
    is_settled: bool,
}

/// The partitions that this process owns now.
struct OwnPartitions {
    /// The time until which the process owns them.
    validity: Arc<Validity>,
    set: RwLock<HashSet<u64>>,
}

impl OwnPartitions {
    fn are_valid(&self) -> bool {
        self.validity.is_valid() && !read(&self.set).is_empty()
    }
}

impl Owners for OwnPartitions {
    fn owns(&self, partition: PartitionId) -> bool {
        partition == CATALOG || (read(&self.set).contains(&partition.0) && self.validity.is_valid())
    }

    fn reads_all(&self) -> bool {
        false
    }

    fn recall(&self, partition: PartitionId) -> Result<(), StoreError> {
        match self.owns(partition) {
            true => Ok(()),
            false => Err(refused()),
        }
    }

    fn recall_all(&self) -> Result<(), StoreError> {
        Err(refused())
    }
}

fn refused() -> StoreError {
    StoreError::Unavailable {
        reason: "only the leaseholder changes the catalog and takes partitions back",
        retry_after_ms: 100,
        is_full: false,
    }
}

impl PartitionOwner {
    /// Creates the owner of no partition yet.
    pub fn new(options: PartitionOwnerOptions) -> PartitionOwner {
        let PartitionOwnerOptions {
            node,
            clusters,
            engine,
            world,
            log,
        } = options;
        let store = Arc::new(RoutedStore::new(clusters));
        let validity = Arc::new(Validity::ended(world.clone()));
        let partitions = Arc::new(OwnPartitions {
            validity: validity.clone(),
            set: RwLock::default(),
        });
        let engine = EngineOptions {
            owners: partitions.clone(),
            ..engine
        };
        let leased = Arc::new(LeasedStore::new(store.clone(), validity));
        PartitionOwner {
            node,
            process: world.random(),
            engine: Arc::new(Engine::open_owner(leased, engine, world.clone())),
            log,
            partitions,
            store,
            world,
            owned: Mutex::default(),
            returned: Mutex::default(),
            told_heads: Mutex::default(),
            report: Mutex::default(),
            polls: AtomicU64::new(0),
            seen: Mutex::default(),
            takes_none_until_ms: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            is_leaving: AtomicBool::new(false),
            others: RwLock::default(),
        }
    }

    /// Returns the engine with the partitions of this node.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the number of partitions of this node, whose address is `own`, and of the other
    /// nodes without the lease, by the addresses of the nodes.
    pub(crate) fn partitions_by_address(&self, own: String) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for address in read(&self.others).values() {
            *counts.entry(address.to_string()).or_default() += 1;
        }
        counts.insert(own, read(&self.partitions.set).len());
        counts
    }

    /// Returns true if this process owns any partition now.
    pub fn owns_any(&self) -> bool {
        self.partitions.are_valid()
    }

    /// Returns true if this process owns a partition now.
    pub fn owns(&self, partition: PartitionId) -> bool {
        self.partitions.owns(partition)
    }

    /// Returns true if this process can tell which node owns the partition of a request.
    pub fn knows_owners(&self) -> bool {
        self.owns_any() || !read(&self.others).is_empty()
    }

    /// Returns true if an answer of this node goes to the client, and false if the request is to be
    /// carried out elsewhere. `owned_any`: the node owned partitions before the request;
    /// `changes_nothing`: the request is none that writes.
    pub fn is_final(&self, owned_any: bool, changes_nothing: bool, status: StatusCode) -> bool {
        // Nothing was done: the time of the partitions may have been over for a moment, or a
        // cluster does not answer this node.
        if status == StatusCode::SERVICE_UNAVAILABLE {
            self.note_failure();
            return false;
        }
        // The catalog was the present one from before the request to its end.
        if owned_any && self.partitions.are_valid() {
            self.failures.store(0, Ordering::Release);
            return true;
        }
        // The partition may have come or gone meanwhile. A write that may have been carried out is
        // not repeated.
        !changes_nothing && may_have_changed(status)
    }

    /// Notes that a cluster does not answer this node, which takes no partitions over for a while
    /// after some such requests in a row.
    fn note_failure(&self) {
        let failures = self.failures.fetch_add(1, Ordering::AcqRel) + 1;
        if failures >= MOST_FAILURES && self.partitions.validity.is_valid() {
            let until_ms = self.world.monotonic_ms() + UNREACHABLE_MS;
            self.takes_none_until_ms.store(until_ms, Ordering::Release);
        }
    }

    /// Returns the address of the owner of a partition of another node without the lease.
    pub fn owner_of(&self, partition: u64) -> Option<Arc<str>> {
        read(&self.others).get(&partition).cloned()
    }

    /// Takes no partitions over from now on.
    pub fn begin_leaving(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
    }

    /// Takes no partitions over from now on, and gives all back: the process ends. Waits for the
    /// clusters. The next poll tells the leaseholder.
    pub fn leave(&self) {
        self.begin_leaving();
        self.give_back_all(&mut lock(&self.owned));
    }

    fn give_back_all(&self, owned: &mut Owned) {
        let all: Vec<u64> = owned.partitions().keys().copied().collect();
        for partition in all {
            self.give_back(partition);
            owned.give_back(partition);
        }
    }

    /// Notes that a poll was not answered. What the poll told is part of a later one.
    pub fn give_poll_up(&self, poll: &Poll) {
        let work = poll.work.iter().filter_map(|rid| Rid::parse(rid));
        let work: Vec<Rid> = work.collect();
        self.engine.take_leaseholder_work_back(&work);
    }

    /// Notes the heads of a poll that the leaseholder of a term has answered. A new leaseholder is
    /// told all heads.
    fn note_told(&self, term: u64, poll: &Poll) {
        let mut told = lock(&self.told_heads);
        if told.0 != term {
            *told = (term, HashMap::new());
            return;
        }
        let owned: HashSet<u64> = poll.owned.iter().map(|grant| grant.0).collect();
        told.1.retain(|partition, _| owned.contains(partition));
        told.1.extend(poll.heads.iter().cloned());
    }

    /// Returns the heads of partitions that the leaseholder may not know.
    fn untold_heads(&self, grants: &[Granted]) -> Vec<(u64, HeadText)> {
        let told = lock(&self.told_heads);
        let heads = grants.iter().filter_map(|(partition, _)| {
            let known = self.store.known_head_at(PartitionId(*partition))?;
            let head = HeadText::from(&known);
            let is_told = told.1.get(partition) == Some(&head);
            (!is_told).then_some((*partition, head))
        });
        heads.collect()
    }

    /// Returns true if this node takes no partitions over for now.
    fn takes_none(&self) -> bool {
        let until_ms = self.takes_none_until_ms.load(Ordering::Acquire);
        self.is_leaving.load(Ordering::SeqCst) || self.world.monotonic_ms() < until_ms
    }

    /// Returns the next poll. Waits for the clusters if partitions are given back before.
    pub fn message(&self) -> Poll {
        let mut owned = lock(&self.owned);
        let takes_none = self.takes_none();
        if takes_none {
            self.give_back_all(&mut owned);
        }
        let grants: Vec<Granted> = owned.partitions().iter().map(|(p, id)| (*p, *id)).collect();
        let returned = lock(&self.returned);
        let given_back = owned.given_back().iter().take(MOST_RETURNED);
        let given_back = given_back.map(|(partition, id)| end_of((*partition, *id), &returned));
        let given_back: Vec<GivenBack> = given_back.collect();
        let ended = given_back.iter().map(|back| back.grant.0);
        let counting = grants.iter().map(|grant| grant.0).chain(ended);
        let counting: Vec<PartitionId> = counting.map(PartitionId).collect();
        let report = lock(&self.report).next(|| self.engine.take_reports(&counting));
        let work = self.engine.take_leaseholder_work();
        Poll {
            heads: self.untold_heads(&grants),
            process: self.process,
            number: self.polls.fetch_add(1, Ordering::AcqRel) + 1,
            name: self.node.name.clone(),
            address: self.node.address.clone(),
            given_back,
            report,
            seen: *lock(&self.seen),
            term: Some(owned.term()),
            work: work.iter().map(ToString::to_string).collect(),
            owned: grants,
            takes_none,
        }
    }

    /// Takes in the answer of the leaseholder to a poll. Waits for the clusters. The time of the
    /// partitions counts from `since`, the moment before the poll was sent.
    pub fn take_in(&self, poll: &Poll, answer: &PollAnswer, since: Moment) {
        lock(&self.report).has_arrived(poll.report.number);
        self.note_told(answer.term, poll);
        let mut owned = lock(&self.owned);
        let Some(changes) = owned.apply(answer.term, answer.round, &answer.grants) else {
            return;
        };
        for partition in changes.lost {
            self.give_back(partition);
        }
        let kept: HashSet<u64> = owned.given_back().keys().copied().collect();
        lock(&self.returned).retain(|partition, _| kept.contains(partition));
        // Only now: the time must not be that of a partition which is lost.
        self.partitions.validity.extend(since, answer.valid_ms);
        let mut others = HashMap::new();
        for (address, partitions) in &answer.owners {
            let address: Arc<str> = address.as_str().into();
            others.extend(partitions.iter().map(|one| (*one, address.clone())));
        }
        *write(&self.others) = others;

        // The leaseholder has taken everything back before the catalog changed.
        if owned.partitions().is_empty()
            && let Err(error) = self
                .engine
                .load_catalog(answer.catalog, answer.confirmed_ms)
        {
            self.tell("the catalog cannot be read now", &error.operator_text());
            return;
        }
        for (partition, id) in changes.gained {
            if self.takes_none() {
                owned.refuse(partition, id);
                continue;
            }
            let terms = answer.terms.iter().find(|one| one.partition == partition);
            match terms.map(|terms| self.take_over(terms)) {
                Some(Ok(())) => owned.take(partition, id),
                Some(Err(cause)) => {
                    self.tell("a partition cannot be taken over", &cause);
                    // The opening may still take place.
                    let back = Back {
                        standing: None,
                        head: None,
                        is_settled: false,
                    };
                    lock(&self.returned).insert(partition, back);
                    owned.refuse(partition, id);
                }
                None => owned.refuse(partition, id),
            }
        }
        // Each standing of a partition that was taken over is older than these counts.
        let mut seen = lock(&self.seen);
        if *seen != (answer.term, answer.report.number) {
            *seen = (answer.term, answer.report.number);
            self.engine.add_reports(&reports(&answer.report.counts));
        }
    }

    /// Takes one partition over.
    ///
    /// # Errors
    /// The reason, for the log.
    fn take_over(&self, terms: &TermsText) -> Result<(), String> {
        let partition = PartitionId(terms.partition);
        if !self
            .store
            .add(partition, &terms.cluster, PartitionId(terms.number))
        {
            let cluster = &terms.cluster;
            return Err(format!(
                "the cluster file of this node has no cluster '{cluster}'"
            ));
        }
        // An opening that finds an older head than this one finds the loss of commits.
        if let Some(head) = &terms.head {
            self.store.note_known_head(partition, &head.known());
        }
        let taken = self.engine.take_over(&terms.granted());
        if let Err(error) = taken {
            // An opening that comes late fences the leaseholder, which opens the partition again
            // then.
            let _ = self.store.release(partition);
            self.store.remove(partition);
            return Err(format!("{}: {}", error.message(), error.cause_chain()));
        }
        write(&self.partitions.set).insert(partition.0);
        Ok(())
    }

    /// Gives one partition up: everything is durable afterwards, or fenced by the next owner.
    fn give_back(&self, partition: u64) {
        let id = PartitionId(partition);
        let mark = || _ = write(&self.partitions.set).remove(&partition);
        let given = self.engine.give_back(id, mark);
        let head = self.store.known_head_at(id);
        self.store.remove(id);
        let back = Back {
            head: head.as_ref().map(HeadText::from),
            is_settled: given.is_ok(),
            standing: given.ok().flatten().as_ref().map(StandingText::from),
        };
        lock(&self.returned).insert(partition, back);
    }

    /// Gives back what the leaseholder recalls. Waits for the clusters. Returns `None` for a recall
    /// of another process, which had this address before and may still live, and for one of an
    /// earlier leaseholder.
    pub fn follow(&self, recall: &RecallText) -> Option<Returned> {
        if recall.process != self.process {
            return None;
        }
        let mut owned = lock(&self.owned);
        let begins_term = recall.term > owned.term();
        let lost = owned.recall(recall.term, recall.round, &recall.partitions)?;
        let ids: Vec<PartitionId> = lost.iter().map(|one| PartitionId(*one)).collect();
        for partition in &lost {
            self.give_back(*partition);
        }
        let mut returned = lock(&self.returned);
        // The ends of grants of the leaseholder before say nothing of the grants of this one.
        if begins_term {
            returned.clear();
        }
        let given_back = recall.partitions.iter();
        let given_back = given_back.map(|grant| end_of(*grant, &returned));
        Some(Returned {
            given_back: given_back.collect(),
            reports: counted(&self.engine.take_reports(&ids)),
        })
    }

    fn tell(&self, message: &str, cause: &str) {
        let fields = [("cause", Field::Text(cause))];
        let now_ms = self.world.now_ms();
        self.log.write(now_ms, LogLevel::Warn, message, &fields);
    }
}

/// Returns the end of a grant, for the leaseholder.
fn end_of(grant: Granted, returned: &HashMap<u64, Back>) -> GivenBack {
    // The node has not begun to take a partition over that is not known: nothing is on its way.
    let back = returned.get(&grant.0).cloned().unwrap_or(Back {
        standing: None,
        head: None,
        is_settled: true,
    });
    GivenBack {
        grant,
        standing: back.standing,
        head: back.head,
        is_settled: back.is_settled,
    }
}
