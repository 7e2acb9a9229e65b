//! A node that waits for the lease, as the owner of the partitions that the leaseholder gives it.
//!
//! A gateway of its own checks signatures and permissions as the leaseholder does. The node asks
//! the leaseholder for its partitions twice a second, and gives back what the leaseholder recalls
//! (`partition_owner.rs`).

use super::messages::{PollAnswer, RecallText};
use super::partition_owner::{PartitionOwner, PartitionOwnerOptions};
use super::wire::{POLL_PATH, answer_with, ask, read_message};
use crate::clusters;
use crate::forward::to_owner::is_of_partition;
use crate::forward::{NodesClient, changes_nothing, not_leaseholder};
use crate::role::Seat;
use crate::standby::ANSWERED_BY;
use crate::{DatabaseOptions, Leaseholder, Moment, NodeContext};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use orrery_engine::Engine;
use orrery_gateway::{
    Connection, FrameAnswer, FrameOutcome, FrameRequest, Gateway, LogLevel, NotOwned, RequestBody,
    Unanswered,
};
use orrery_model::sync::lock;
use orrery_model::world::World;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The time from one poll to the next, and the time in which one is answered: after a poll without
/// an answer there is time for another one before the grants have expired.
const PERIOD: Duration = Duration::from_millis(500);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The time in which a node that leaves gives its partitions back.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between attempts to open the clusters.
const PAUSE: Duration = Duration::from_secs(1);

/// A node that may own partitions.
pub struct OwnerNode {
    seat: Arc<Seat>,
    world: Arc<dyn World>,
    owner: Arc<PartitionOwner>,
    gateway: Arc<Gateway>,
    /// The loops of background work. They run until the node serves itself.
    tasks: Mutex<Vec<JoinHandle<()>>>,
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
        let owner = Arc::new(PartitionOwner::new(PartitionOwnerOptions {
            node: seat.node.clone(),
            clusters: clusters.map_err(|error| error.to_string())?,
            engine,
            world: context.world.clone(),
            log: gateway.log.clone(),
        }));
        // The leaseholder may reach a cluster that this node does not reach, and waits for it.
        let gateway = Gateway::new(owner.engine().clone(), gateway);
        let gateway = Arc::new(gateway.with_remote_store(Duration::ZERO));
        context.host.add_gateway(&gateway);
        Ok(OwnerNode {
            seat,
            world: context.world.clone(),
            owner,
            gateway,
            tasks: Mutex::default(),
        })
    }

    /// Returns the engine with the partitions of this node.
    pub fn engine(&self) -> &Arc<Engine> {
        self.owner.engine()
    }

    /// Returns the protocol on the engine.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Returns the number of partitions of each node without the lease, as
    /// [`PartitionOwner::partitions_by_address`] does.
    pub(crate) fn partitions_by_address(&self, own: String) -> BTreeMap<String, usize> {
        self.owner.partitions_by_address(own)
    }

    /// Returns the address of the owner of a partition of another node without the lease.
    pub(crate) fn owner_of(&self, partition: u64) -> Option<Arc<str>> {
        self.owner.owner_of(partition)
    }

    /// Carries a request out, if this node owns the partition that it needs.
    pub(crate) async fn answer(
        &self,
        head: &Parts,
        body: &Bytes,
        connection: &Connection,
    ) -> Tried {
        let owns_any = self.owner.owns_any();
        if !self.owner.knows_owners() || !is_of_partition(&head.method, head.uri.path()) {
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
                Some(partition) => match self.owner.owner_of(partition) {
                    Some(address) => Tried::Elsewhere(partition, address),
                    None => Tried::NotHere,
                },
                None => Tried::NotHere,
            },
            None if self.is_final(owns_any, head, response.status()) => Tried::Answered(response),
            None => Tried::NotHere,
        }
    }

    /// Returns true if an answer goes to the client, as [`PartitionOwner::is_final`] does.
    fn is_final(&self, owned_any: bool, head: &Parts, status: StatusCode) -> bool {
        let changes_nothing = changes_nothing(head);
        self.owner.is_final(owned_any, changes_nothing, status)
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
        let owns_any = self.owner.owns_any();
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
    pub async fn leave(&self, client: &NodesClient) {
        self.owner.begin_leaving();
        self.stop_tasks();
        let owner = self.owner.clone();
        let given_back = tokio::task::spawn_blocking(move || owner.leave());
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

    /// Asks the leaseholder once.
    async fn poll(&self, leaseholder: &Leaseholder, client: &NodesClient) -> Option<()> {
        let key = leaseholder.key.as_ref()?;
        let owner = self.owner.clone();
        let poll = tokio::task::spawn_blocking(move || owner.message()).await;
        let poll = poll.ok()?;
        // The time counts from here: the leaseholder counts from later.
        let since = Moment::now(self.world.as_ref());
        let to = ("poll", leaseholder.node.address.as_str(), POLL_PATH);
        let answer = ask::<PollAnswer>(client, key, to, &poll);
        let Some(answer) = timeout(ANSWER_TIMEOUT, answer).await.ok().flatten() else {
            self.owner.give_poll_up(&poll);
            return None;
        };
        let owner = self.owner.clone();
        let taken = tokio::task::spawn_blocking(move || owner.take_in(&poll, &answer, since));
        // A panic has been reported.
        taken.await.ok()
    }

    /// Answers a request at the path of recalls.
    pub(crate) async fn answer_recall(&self, request: Request<RequestBody>) -> Response<Bytes> {
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
        let owner = self.owner.clone();
        let returned = tokio::task::spawn_blocking(move || owner.follow(&recall)).await;
        match returned {
            Ok(Some(returned)) => answer_with(&key, &signature, &returned),
            // The recall is for another process, or a panic has been reported.
            Ok(None) | Err(_) => not_leaseholder(),
        }
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
                *lock(&node.tasks) = context.host.start_tasks(node.engine());
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
