//! The side of a node that waits for the lease: it owns the partitions that the leaseholder gives
//! it.
//!
//! The node has an engine on the clusters with a gateway of its own, which checks signatures and
//! permissions as the leaseholder does. Every answer is final as long as the node owns any
//! partition, since the catalog does not change then; without one the engine tells only which
//! partition a request needs, so that the request is forwarded to its owner and not to the
//! leaseholder.
//!
//! Messages of the leaseholder are taken in one after the other, so a recall that comes while
//! partitions are taken over waits for that.

use super::messages::{
    GivenBack, Granted, HeadText, POLL_PATH, Poll, PollAnswer, RecallText, Report, Returned,
    StandingText, TermsText, answer_with, ask, counted, read_message, reports,
};
use super::routed_store::RoutedStore;
use crate::clusters;
use crate::forward::to_owner::is_of_partition;
use crate::forward::{NodesClient, changes_nothing, may_have_changed, not_leaseholder};
use crate::role::Seat;
use crate::standby::ANSWERED_BY;
use crate::{DatabaseOptions, LeasedStore, Leaseholder, Moment, NodeContext, Owned, Validity};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use orrery_engine::{Engine, EngineOptions, Owners};
use orrery_gateway::{
    Connection, Field, FrameAnswer, FrameOutcome, FrameRequest, Gateway, LogLevel, NotOwned,
    RequestBody, Unanswered,
};
use orrery_model::Rid;
use orrery_model::sync::{lock, read, write};
use orrery_model::world::World;
use orrery_storage::{PartitionId, Store, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The time from one poll to the next, and the time in which one is answered: after a poll without
/// an answer there is time for another one before the grants have expired.
const PERIOD: Duration = Duration::from_millis(500);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Milliseconds for which a node takes no partitions over after a cluster did not answer.
const UNREACHABLE_MS: u64 = 30_000;
/// Requests in a row that a cluster does not answer, after which the node gives its partitions
/// back.
const MOST_FAILURES: u64 = 3;
/// The most partitions that one poll gives back: each has some kilobytes.
const MOST_RETURNED: usize = 200;
/// The time in which a node that leaves gives its partitions back.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between attempts to open the clusters.
const PAUSE: Duration = Duration::from_secs(1);
/// The catalog, which is read by every node.
const CATALOG: PartitionId = PartitionId(0);

/// A node that may own partitions.
pub struct OwnerNode {
    seat: Arc<Seat>,
    /// The random number of this process.
    process: u64,
    engine: Arc<Engine>,
    gateway: Arc<Gateway>,
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
    /// The loops of background work. They run until the node serves itself.
    tasks: Mutex<Vec<JoinHandle<()>>>,
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

/// The end of an attempt to carry a request out here.
pub(crate) enum Tried {
    /// This node has carried the request out.
    Answered(Response<Bytes>),
    /// The owner of the partition is the node with this address.
    Elsewhere(u64, Arc<str>),
    /// The leaseholder must carry the request out, or tell who does.
    NotHere,
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

impl OwnerNode {
    /// Opens the clusters of a file.
    ///
    /// # Errors
    /// A cluster cannot be used now, or there are no usable options; the reason is for the log.
    fn open(
        cluster_file: &Path,
        context: &NodeContext,
        seat: Arc<Seat>,
    ) -> Result<OwnerNode, String> {
        let DatabaseOptions {
            engine, gateway, ..
        } = context.host.options_of_owner()?;
        let clusters = clusters::open_for_owner(cluster_file);
        let store = RoutedStore::new(clusters.map_err(|error| error.to_string())?);
        let store = Arc::new(store);
        let world = context.world.clone();
        let validity = Arc::new(Validity::ended(world.clone()));
        let partitions = Arc::new(OwnPartitions {
            validity: validity.clone(),
            set: RwLock::default(),
        });
        let options = EngineOptions {
            owners: partitions.clone(),
            ..engine
        };
        let leased = Arc::new(LeasedStore::new(store.clone(), validity));
        let engine = Arc::new(Engine::open_owner(leased, options, world.clone()));
        // The leaseholder may reach a cluster that this node does not reach, and waits for it.
        let gateway = Gateway::new(engine.clone(), gateway).with_remote_store(Duration::ZERO);
        let gateway = Arc::new(gateway);
        context.host.add_gateway(&gateway);
        Ok(OwnerNode {
            seat,
            process: world.random(),
            engine,
            gateway,
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
            tasks: Mutex::default(),
        })
    }

    /// Returns the engine with the partitions of this node.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the protocol on the engine.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
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

    /// Carries a request out, if this node owns the partition that it needs.
    pub(crate) async fn answer(
        &self,
        head: &Parts,
        body: &Bytes,
        connection: &Connection,
    ) -> Tried {
        let owns_any = self.partitions.are_valid();
        let knows_owners = owns_any || !read(&self.others).is_empty();
        if !knows_owners || !is_of_partition(&head.method, head.uri.path()) {
            return Tried::NotHere;
        }
        let request = Request::from_parts(head.clone(), Full::new(body.clone()));
        let Ok(mut response) = self.gateway.handle(request, connection).await else {
            return Tried::NotHere;
        };
        let headers = response.headers_mut();
        headers.insert(ANSWERED_BY, HeaderValue::from_static("owner"));
        match response.extensions().get::<NotOwned>() {
            Some(not_owned) => match not_owned.partition {
                Some(partition) => match self.owner_of(partition) {
                    Some(address) => Tried::Elsewhere(partition, address),
                    None => Tried::NotHere,
                },
                None => Tried::NotHere,
            },
            None if self.is_final(owns_any, head, response.status()) => Tried::Answered(response),
            None => Tried::NotHere,
        }
    }

    /// Returns true if an answer of this node goes to the client, and false if the request is to be
    /// carried out elsewhere. `owned_any`: the node owned partitions before the request.
    fn is_final(&self, owned_any: bool, head: &Parts, status: StatusCode) -> bool {
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
        !changes_nothing(head) && may_have_changed(status)
    }

    /// Answers a request of the direct mode, if this node owns the partition that the request
    /// needs. All other requests came to the wrong address: their clients ask for the addresses
    /// again.
    ///
    /// # Errors
    /// As [`Gateway::handle_frame`].
    pub(crate) async fn answer_frame(
        &self,
        mut request: FrameRequest,
        body: Bytes,
        connection: &Connection,
    ) -> Result<FrameAnswer, Unanswered> {
        let owns_any = self.partitions.are_valid();
        let is_here = request.is_refused() || is_at_range(request.method(), request.path());
        if !owns_any || !is_here {
            return Ok(request.address_gone());
        }
        let outcome = self
            .gateway
            .handle_frame(&mut request, body, connection)
            .await?;
        let FrameOutcome::Answered(answer) = outcome else {
            return Ok(request.address_gone());
        };
        let status = StatusCode::from_u16(answer.status).unwrap_or_default();
        match self.is_final(owns_any, request.head(), status) {
            true => Ok(answer),
            false => Ok(request.address_gone()),
        }
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
    pub(crate) fn owner_of(&self, partition: u64) -> Option<Arc<str>> {
        read(&self.others).get(&partition).cloned()
    }

    /// Asks the leaseholder for partitions, until the node serves itself.
    pub async fn poll_for_ever(self: Arc<Self>, client: NodesClient) {
        let mut leaseholder = self.seat.leaseholder.subscribe();
        loop {
            let next = Instant::now() + PERIOD;
            let known = leaseholder.borrow_and_update().clone();
            if let Some(known) = known
                && known.node != self.seat.node
            {
                // A leaseholder that does not answer is asked again; the grants expire meanwhile.
                self.poll(&known, &client).await;
            }
            let _ = timeout_at(next, leaseholder.changed()).await;
        }
    }

    /// Gives all partitions back, and tells the leaseholder, before the process ends.
    pub async fn leave(self: &Arc<Self>, client: &NodesClient) {
        self.is_leaving.store(true, Ordering::SeqCst);
        self.stop_tasks();
        let own = self.clone();
        let given_back = tokio::task::spawn_blocking(move || own.give_all_back());
        // Grants of a cluster that does not answer expire.
        let _ = timeout(LEAVE_TIMEOUT, given_back).await;
        let known = self.seat.leaseholder.borrow().clone();
        if let Some(known) = known.filter(|known| known.node != self.seat.node) {
            self.poll(&known, client).await;
        }
    }

    /// Ends the background work.
    pub(crate) fn stop_tasks(&self) {
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
    }

    fn give_all_back(&self) {
        self.give_back_all(&mut lock(&self.owned));
    }

    fn give_back_all(&self, owned: &mut Owned) {
        let all: Vec<u64> = owned.partitions().keys().copied().collect();
        for partition in all {
            self.give_back(partition);
            owned.give_back(partition);
        }
    }

    /// Asks the leaseholder once.
    async fn poll(self: &Arc<Self>, leaseholder: &Leaseholder, client: &NodesClient) -> Option<()> {
        let key = leaseholder.key.as_ref()?;
        let own = self.clone();
        let message = tokio::task::spawn_blocking(move || own.message()).await;
        let message = message.ok()?;
        // The time counts from here: the leaseholder counts from later.
        let since = Moment::now(self.world.as_ref());
        let to = ("poll", leaseholder.node.address.as_str(), POLL_PATH);
        let answer = ask::<PollAnswer>(client, key, to, &message);
        let Some(answer) = timeout(ANSWER_TIMEOUT, answer).await.ok().flatten() else {
            let work = message.work.iter().filter_map(|rid| Rid::parse(rid));
            self.engine
                .take_leaseholder_work_back(&work.collect::<Vec<Rid>>());
            return None;
        };
        lock(&self.report).has_arrived(message.report.number);
        self.note_told(answer.term, &message);
        let own = self.clone();
        let taken = tokio::task::spawn_blocking(move || own.take_in(&answer, since));
        // A panic has been reported.
        taken.await.ok()
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

    /// Returns the next poll.
    fn message(&self) -> Poll {
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
            name: self.seat.node.name.clone(),
            address: self.seat.node.address.clone(),
            given_back,
            report,
            seen: *lock(&self.seen),
            work: work.iter().map(ToString::to_string).collect(),
            owned: grants,
            takes_none,
        }
    }

    /// Takes an answer of the leaseholder in.
    fn take_in(&self, answer: &PollAnswer, since: Moment) {
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

    /// Answers a request at the path of recalls.
    pub(crate) async fn answer_recall(
        self: &Arc<Self>,
        request: Request<RequestBody>,
    ) -> Response<Bytes> {
        let (head, body) = request.into_parts();
        let key = self
            .seat
            .leaseholder
            .borrow()
            .as_ref()
            .and_then(|leaseholder| leaseholder.key.clone());
        let Some(key) = key else {
            return not_leaseholder();
        };
        let read = read_message(&key, "recall", &head.headers, body).await;
        let (recall, signature): (RecallText, String) = match read {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        // Another process had this address before, and may still live.
        if recall.process != self.process {
            return not_leaseholder();
        }
        let own = self.clone();
        let returned = tokio::task::spawn_blocking(move || own.follow(&recall)).await;
        match returned {
            Ok(returned) => answer_with(&key, &signature, &returned),
            Err(_) => not_leaseholder(),
        }
    }

    /// Gives back what the leaseholder recalls.
    fn follow(&self, recall: &RecallText) -> Returned {
        let mut owned = lock(&self.owned);
        let lost = owned.recall(recall.term, recall.round, &recall.partitions);
        let ids: Vec<PartitionId> = lost.iter().map(|one| PartitionId(*one)).collect();
        for partition in &lost {
            self.give_back(*partition);
        }
        let returned = lock(&self.returned);
        let given_back = recall.partitions.iter();
        let given_back = given_back.map(|grant| end_of(*grant, &returned));
        Returned {
            given_back: given_back.collect(),
            reports: counted(&self.engine.take_reports(&ids)),
        }
    }

    fn tell(&self, message: &str, cause: &str) {
        let fields = [("cause", Field::Text(cause))];
        let log = self.gateway.log();
        log.write(self.world.now_ms(), LogLevel::Warn, message, &fields);
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

/// Returns true for a request of the direct mode that clients send to the address of a partition:
/// those that its owner carries out, conflicts, and the head of a container, by which a client
/// waits until a partition has reached a position.
fn is_at_range(method: &Method, path: &str) -> bool {
    let is_of_conflicts = path.split('/').nth(5) == Some("conflicts");
    let is_barrier = *method == Method::HEAD && path.split('/').nth(3) == Some("colls");
    is_of_partition(method, path) || is_of_conflicts || is_barrier
}

/// Opens the clusters, and tries again until all answer.
pub async fn open_owner(
    cluster_file: PathBuf,
    seat: Arc<Seat>,
    context: NodeContext,
) -> Arc<OwnerNode> {
    let mut has_told = false;
    loop {
        let (file, own, place) = (cluster_file.clone(), context.clone(), seat.clone());
        let opened = tokio::task::spawn_blocking(move || OwnerNode::open(&file, &own, place));
        match opened.await {
            Ok(Ok(node)) => {
                let node = Arc::new(node);
                *lock(&node.tasks) = context.host.start_tasks(&node.engine);
                return node;
            }
            Ok(Err(cause)) if !has_told => {
                let message = "the clusters cannot be opened now, so this node owns no partitions";
                context.log_with_cause(LogLevel::Info, message, &cause);
                has_told = true;
            }
            _ => {}
        }
        sleep(PAUSE).await;
    }
}
