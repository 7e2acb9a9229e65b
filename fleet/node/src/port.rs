//! The client port of a node, from the start of the process on: before the node holds the lease of
//! the account, while it holds the lease, and until its end.

use crate::forward::to_owner::{Passing, Recalls};
use crate::forward::{
    Forwarder, FromNodes, NodesClient, is_refusal_of_node, nodes_client, not_leaseholder,
};
use crate::grants::{Grantor, OwnerNode, POLL_PATH, RECALL_PATH};
use crate::roster::members::{HELLO_PATH, Members, say_hello};
use crate::standby::Reader;
use crate::{Leaseholder, Node, NodeContext, NodeFacts, NodesKey};
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, Version};
use orrery_gateway::{
    BodyMemory, Connection, ConnectionCounters, ConnectionLimits, Gateway, Log, Patience, Port,
    RequestBody, Service, Unanswered, serve,
};
use orrery_model::sync::{lock, read, write};
use orrery_model::world::World;
use orrery_storage::Store;
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// The pause between attempts to get the lease of a leaseholder that leaves, and their number.
const QUICK_PAUSE: Duration = Duration::from_millis(5);
const QUICK_ATTEMPTS: u32 = 200;
/// The time for which a node that has given the lease back waits for the next leaseholder, if it
/// knows of another node and if it does not, and the pause between two looks at the row of the
/// lease.
const SUCCESSION_TIMEOUT: Duration = Duration::from_secs(3);
const LONELY_TIMEOUT: Duration = Duration::from_millis(500);
const SUCCESSION_PAUSE: Duration = Duration::from_millis(5);
/// The time for which the port stays open after the next leaseholder is known. A request that
/// another node sends while a connection is being closed has an unknown outcome, and all nodes know
/// the next leaseholder before this time is over.
const LINGER: Duration = Duration::from_millis(500);
/// The time for which requests wait until the next leaseholder serves: it opens the data first.
const SUCCESSOR_PATIENCE: Duration = Duration::from_secs(5);

/// The part of a node that the wait for the lease needs.
pub struct Seat {
    /// This node as others see it.
    pub node: Node,
    /// The nodes of the fleet.
    pub(crate) members: Arc<Members>,
    /// Told each leaseholder.
    pub(crate) leaseholder: watch::Sender<Option<Leaseholder>>,
    /// The waits between the attempts to get the lease.
    pub(crate) claim: ClaimWait,
    /// The node holds the lease and serves requests.
    is_serving: AtomicBool,
    /// The node has served and serves no more: each answer ends its connection, since the port is
    /// going to be closed. The refusals for other nodes end none.
    is_leaving: AtomicBool,
    /// The port is being closed, and no request waits for a leaseholder any more.
    is_ending: AtomicBool,
    /// The node to which an operator has given the lease; this process ends then.
    successor: watch::Sender<Option<String>>,
    /// The address of another node that uses the name of this one.
    pub(crate) namesake: watch::Sender<Option<String>>,
    /// There while the node waits for the lease and can read standbys.
    reader: RwLock<Option<Arc<Reader>>>,
    /// There while the node waits for the lease and may own partitions.
    owner: RwLock<Option<Arc<OwnerNode>>>,
}

impl Seat {
    /// Ends this process in favour of another node.
    pub(crate) fn hand_over_to(&self, name: &str) {
        self.successor.send_replace(Some(name.to_owned()));
    }

    /// Returns the node to which an operator has given the lease.
    pub fn successor(&self) -> Option<String> {
        self.successor.borrow().clone()
    }

    /// Returns when an operator gives the lease to another node.
    pub async fn has_successor(&self) {
        // The sender lives as long as `self`.
        let _ = self.successor.subscribe().wait_for(Option::is_some).await;
    }

    /// Notes that this node holds the lease. Requests wait from now on until this node serves, and
    /// are not sent to the leaseholder before, which has ended; if that node comes back, it tells
    /// of itself.
    pub(crate) fn take_lease(&self, key: &NodesKey) {
        let before = self.leaseholder.borrow().clone();
        if let Some(before) = before.filter(|before| before.node != self.node) {
            self.members.forget(&before.node.name);
        }
        self.leaseholder.send_replace(Some(Leaseholder {
            node: self.node.clone(),
            key: Some(key.clone()),
        }));
    }

    /// Returns the reader of standbys, if there is one.
    pub(crate) fn reader(&self) -> Option<Arc<Reader>> {
        read(&self.reader).clone()
    }

    /// Answers reads from standbys from now on, until this node serves.
    pub fn begin_reading(&self, reader: Reader) {
        *write(&self.reader) = Some(Arc::new(reader));
    }

    /// Returns the part of this node that owns partitions, if there is one.
    pub fn owner(&self) -> Option<Arc<OwnerNode>> {
        read(&self.owner).clone()
    }

    /// Owns the partitions that the leaseholder gives from now on, until this node serves.
    pub fn begin_owning(&self, owner: Arc<OwnerNode>) {
        *write(&self.owner) = Some(owner);
    }

    /// Returns true if no request is to wait for a leaseholder any more.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Returns true while the node holds the lease and serves requests.
    pub(crate) fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::SeqCst)
    }
}

/// The waits between the attempts of a node to get the lease.
#[derive(Default)]
pub(crate) struct ClaimWait {
    state: Mutex<ClaimState>,
    changed: Condvar,
}

#[derive(Default)]
struct ClaimState {
    is_cancelled: bool,
    /// The attempts that are left of those that come quickly.
    quick: u32,
}

impl ClaimWait {
    /// Waits for a time, or less if the leaseholder leaves. Returns false if no attempt is to
    /// follow.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let state = lock(&self.state);
        let is_idle = |state: &mut ClaimState| !state.is_cancelled && state.quick == 0;
        let waited = self.changed.wait_timeout_while(state, time, is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.quick > 0 && !state.is_cancelled {
            state.quick -= 1;
            let is_going_on = |state: &mut ClaimState| !state.is_cancelled;
            let waited = self
                .changed
                .wait_timeout_while(state, QUICK_PAUSE.min(time), is_going_on);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.is_cancelled
    }

    /// Makes the next attempts come quickly, since the leaseholder has told that it leaves.
    pub(crate) fn hurry(&self) {
        lock(&self.state).quick = QUICK_ATTEMPTS;
        self.changed.notify_all();
    }

    /// Ends the attempts.
    fn cancel(&self) {
        lock(&self.state).is_cancelled = true;
        self.changed.notify_all();
    }
}

/// The settings of a client port.
pub struct NodePortOptions {
    /// This node as others see it.
    pub node: Node,
    /// The region of this node; `None` for a node without one.
    pub region: Option<String>,
    /// The open sockets.
    pub listeners: Vec<TcpListener>,
    /// The certificate.
    pub tls: Arc<ServerConfig>,
    /// The bounds of the connections of clients.
    pub limits: ConnectionLimits,
    /// The time that a worker looks for the next request before it sleeps.
    pub spin: Duration,
    /// The time that requests in progress get to finish when the node stops.
    pub drain: Duration,
}

/// The open client port of a node: `F` answers clients while the node forwards, `S` while the node
/// serves.
pub struct NodePort<F, S> {
    /// The part that other parts of the node use.
    pub seat: Arc<Seat>,
    /// All addresses on which the node listens.
    pub addresses: Vec<SocketAddr>,
    service: Arc<NodeService<F, S>>,
    /// The HTTP client for other nodes.
    pub client: NodesClient,
    /// The time that requests in progress get to finish.
    drain: Duration,
    /// The task that tells leaseholders of this node.
    hello: JoinHandle<()>,
    /// Closed when the last request that this node serves has ended; there while the node serves.
    ended: Option<mpsc::Receiver<()>>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<bool>,
}

impl<F: Service, S: Service> NodePort<F, S> {
    /// Serves the client port of a node, which forwards until it serves requests itself. `front`
    /// puts the paths that each node answers in front of the service that forwards.
    pub fn open(
        options: NodePortOptions,
        context: &NodeContext,
        front: impl FnOnce(Forwarder) -> F,
    ) -> NodePort<F, S> {
        let NodePortOptions {
            node,
            region,
            listeners,
            tls,
            limits,
            spin,
            drain,
        } = options;
        let addresses = listeners.iter().filter_map(|one| one.local_addr().ok());
        let addresses = addresses.collect();
        let own = NodeFacts {
            name: node.name.clone(),
            region,
            address: node.address.clone(),
        };
        let seat = Arc::new(Seat {
            node,
            members: Arc::new(Members::new(own, context.world.clone())),
            leaseholder: watch::Sender::new(None),
            claim: ClaimWait::default(),
            is_serving: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            successor: watch::Sender::new(None),
            namesake: watch::Sender::new(None),
            reader: RwLock::default(),
            owner: RwLock::default(),
        });

        let client = nodes_client();
        let hello = say_hello(seat.clone(), client.clone());
        let forwarder = Forwarder::new(context, seat.clone(), client.clone());
        let service = Arc::new(NodeService {
            seat: seat.clone(),
            forwarder: Arc::new(front(forwarder)),
            serving: RwLock::new(None),
        });
        let port = Port {
            service: service.clone(),
            tls: Some(tls),
            limits,
            patience: Patience::default(),
            spin,
            drain,
        };
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(port, listeners, async {
            // A sender that is dropped ends the port as well.
            let _ = stopped.await;
        }));
        NodePort {
            seat,
            addresses,
            service,
            client,
            drain,
            hello: tokio::spawn(hello),
            ended: None,
            stop,
            serving,
        }
    }

    /// Returns when another node is known to hold the lease.
    pub async fn has_leaseholder(&self) {
        let own = &self.seat.node;
        // The row may be that of an earlier process of this node.
        let is_other = |leaseholder: &Option<Leaseholder>| {
            leaseholder
                .as_ref()
                .is_some_and(|leaseholder| leaseholder.node != *own)
        };
        let mut leaseholder = self.seat.leaseholder.subscribe();
        // The sender lives as long as `self`.
        let _ = leaseholder.wait_for(is_other).await;
    }

    /// Returns the address of another node that uses the name of this one, once it is known.
    pub async fn has_namesake(&self) -> String {
        let mut namesake = self.seat.namesake.subscribe();
        match namesake.wait_for(Option::is_some).await {
            Ok(address) => address.clone().unwrap_or_default(),
            // The sender lives as long as `self`.
            Err(_) => std::future::pending().await,
        }
    }

    /// Makes the node wait for the lease no longer.
    pub fn cancel(&self) {
        self.seat.claim.cancel();
    }

    /// Returns the counters of the port's connections.
    pub fn connections(&self) -> Arc<ConnectionCounters> {
        self.service.connections()
    }

    /// Serves requests from now on, those too that wait for a leaseholder.
    pub fn begin_serving(
        &mut self,
        service: S,
        (gateway, grantor): (&Arc<Gateway>, &Arc<Grantor>),
        world: &Arc<dyn World>,
    ) {
        let (in_progress, ended) = mpsc::channel(1);
        self.ended = Some(ended);
        *write(&self.service.serving) = Some(Arc::new(Serving {
            service: FromNodes {
                inner: Arc::new(service),
                key: grantor.key().clone(),
                members: self.seat.members.clone(),
                address: self.seat.node.address.clone(),
                passing: Passing {
                    recalls: Recalls::default(),
                    grantor: grantor.clone(),
                    gateway: gateway.clone(),
                    client: self.client.clone(),
                    world: world.clone(),
                },
            },
            _in_progress: in_progress,
        }));
        self.seat.is_serving.store(true, Ordering::SeqCst);
        drop(write(&self.seat.reader).take());
        let owner = write(&self.seat.owner).take();
        if let Some(owner) = owner {
            owner.stop_tasks();
            // The end of the store may wait for a cluster.
            tokio::task::spawn_blocking(move || drop(owner));
        }
        // The requests that wait look again.
        self.seat.take_lease(grantor.key());
    }

    /// Serves no further requests, and waits for those in progress. Returns true if all of these
    /// ended in time. The port stays open: requests of other nodes are refused, so that those nodes
    /// look for the next leaseholder, and requests of clients wait for that leaseholder.
    pub async fn end_serving(&mut self) -> bool {
        self.seat.is_leaving.store(true, Ordering::SeqCst);
        self.seat.is_serving.store(false, Ordering::SeqCst);
        drop(write(&self.service.serving).take());
        let Some(mut ended) = self.ended.take() else {
            return true;
        };
        let all_ended = tokio::time::timeout(self.drain, ended.recv()).await;
        all_ended.is_ok()
    }

    /// Closes the port of a node that has given the lease back, once another node holds the lease
    /// or for some time none does. Requests that wait are forwarded to the next leaseholder.
    pub async fn hand_over(self, lease_store: Arc<dyn Store>) {
        // The next leaseholder has no use for a node that ends.
        self.hello.abort();
        let limit = match self.seat.members.live().len() {
            0 | 1 => LONELY_TIMEOUT,
            _ => SUCCESSION_TIMEOUT,
        };
        let following = tokio::spawn(follow_leaseholders(self.seat.clone(), lease_store));
        let mut patience = Duration::ZERO;
        if tokio::time::timeout(limit, self.has_leaseholder())
            .await
            .is_ok()
        {
            patience = SUCCESSOR_PATIENCE;
            tokio::time::sleep(LINGER).await;
        }
        self.close(patience).await;
        following.abort();
    }

    /// Closes the port, and waits for the requests in progress; those that wait for a leaseholder
    /// are answered with 503 after a time. Returns true if all of these ended in time.
    pub async fn close(mut self, patience: Duration) -> bool {
        self.hello.abort();
        // The port may have ended by itself, which only a panic does.
        let _ = self.stop.send(());
        if let Ok(ended) = tokio::time::timeout(patience, &mut self.serving).await {
            return ended.unwrap_or(false);
        }
        self.seat.is_ending.store(true, Ordering::SeqCst);
        self.serving.await.unwrap_or(false)
    }
}

/// Reads the row of the lease again and again for a node that has given the lease back: the next
/// leaseholder may leave as well while requests wait. Never ends.
async fn follow_leaseholders(seat: Arc<Seat>, lease_store: Arc<dyn Store>) {
    loop {
        let store = lease_store.clone();
        let find = move || crate::leaseholder(store.as_ref());
        let found = tokio::task::spawn_blocking(find).await;
        if let Ok(Ok(Some(node))) = found
            && node != seat.node
        {
            seat.leaseholder.send_if_modified(|known| match known {
                Some(known) if known.node != node => {
                    known.node = node;
                    true
                }
                _ => false,
            });
        }
        tokio::time::sleep(SUCCESSION_PAUSE).await;
    }
}

/// The service of the port: that of the leaseholder, or the one that forwards.
struct NodeService<F, S> {
    seat: Arc<Seat>,
    forwarder: Arc<F>,
    /// There while the node holds the lease.
    serving: RwLock<Option<Arc<Serving<S>>>>,
}

/// The service of the leaseholder. Each request in progress has a reference.
struct Serving<S> {
    service: FromNodes<S>,
    /// Dropped with the last reference.
    _in_progress: mpsc::Sender<()>,
}

impl<F: Service, S: Service> Service for NodeService<F, S> {
    async fn handle(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        let serving = read(&self.serving).clone();
        match request.uri().path() {
            HELLO_PATH => {
                let key = serving.as_ref().map(|serving| &serving.service.key);
                return Ok(self.seat.members.answer(request, key).await);
            }
            POLL_PATH => {
                return Ok(match serving {
                    Some(serving) => serving.service.passing.grantor.answer(request).await,
                    None => not_leaseholder(),
                });
            }
            RECALL_PATH => {
                return Ok(match self.seat.owner() {
                    Some(owner) => owner.answer_recall(request).await,
                    None => not_leaseholder(),
                });
            }
            _ => {}
        }
        let may_end = request.version() <= Version::HTTP_11;
        let mut response = match serving {
            Some(serving) => serving.service.handle(request, connection).await?,
            None => self.forwarder.handle(request, connection).await?,
        };
        let is_leaving = self.seat.is_leaving.load(Ordering::SeqCst);
        if is_leaving && may_end && !is_refusal_of_node(&response) {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        Ok(response)
    }

    fn log(&self) -> &Log {
        self.forwarder.log()
    }

    fn now_ms(&self) -> u64 {
        self.forwarder.now_ms()
    }

    fn connections(&self) -> Arc<ConnectionCounters> {
        self.forwarder.connections()
    }

    fn memory(&self) -> &BodyMemory {
        self.forwarder.memory()
    }
}
