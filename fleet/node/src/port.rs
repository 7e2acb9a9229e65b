//! The client port of a node, from the start of the process on: before the node holds the lease of
//! the account, while it holds the lease, and until its end.

use crate::forward::to_owner::{OwnerForwarder, Recalls};
use crate::forward::{
    FORWARDED, Forwarder, NodesClient, is_read, is_refusal_of_node, may_have_changed, nodes_client,
    not_leaseholder, origin_of,
};
use crate::grants::{Grantor, POLL_PATH, RECALL_PATH};
use crate::manage::MANAGE_PATH;
use crate::role::{Seat, Serving};
use crate::roster::members::{HELLO_PATH, Members, say_hello};
use crate::{Leaseholder, Node, NodeContext, NodeFacts};
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Method, Request, Response, Version};
use orrery_gateway::{
    BodyMemory, Connection, ConnectionCounters, ConnectionLimits, DirectPlaces, FrameFuture,
    FrameRequest, FrameService, Gateway, Log, Patience, Port, RequestBody, Service, Unanswered,
    error_response, serve,
};
use orrery_model::world::World;
use orrery_model::{Error, Kind};
use orrery_storage::Store;
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

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

/// The longest wait of an answer for the lease, which a leaseholder may not be able to renew, and
/// the pause between two looks.
const LEASE_PATIENCE: Duration = Duration::from_secs(8);
const LEASE_PAUSE: Duration = Duration::from_millis(25);

/// The path at which clients of the direct mode ask for addresses.
const ADDRESSES: &str = "addresses";

/// The settings of a client port.
pub struct NodePortOptions {
    /// This node as others see it.
    pub node: Node,
    /// The region of this node; `None` for a node without one.
    pub region: Option<String>,
    /// The names of the clusters in the cluster file.
    pub clusters: Vec<String>,
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
    /// True if the port takes frames of the direct mode.
    pub direct: bool,
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
            clusters,
            listeners,
            tls,
            limits,
            spin,
            drain,
            direct,
        } = options;
        let addresses = listeners.iter().filter_map(|one| one.local_addr().ok());
        let addresses = addresses.collect();
        let own = NodeFacts {
            name: node.name.clone(),
            region,
            address: node.address.clone(),
            clusters,
            clock_ahead_ms: 0,
        };
        let members = Members::new(own, context.world.clone());
        let client = nodes_client();
        let seat = Arc::new(Seat::new(node, members, client.clone()));

        let hello = say_hello(seat.clone(), client.clone(), context.clone());
        let forwarder = Forwarder::new(context, seat.clone(), client.clone());
        let service = Arc::new(NodeService {
            seat: seat.clone(),
            forwarder: Arc::new(front(forwarder)),
            own: OnceLock::new(),
        });
        let port = Port {
            service: service.clone(),
            tls: Some(tls),
            limits,
            patience: Patience::default(),
            spin,
            drain,
            direct: direct.then(|| service.clone() as Arc<dyn FrameService>),
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
            stop,
            serving,
        }
    }

    /// Returns when another node is known to hold the lease.
    pub async fn wait_for_leaseholder(&self) {
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
    pub async fn wait_for_namesake(&self) -> String {
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
        &self,
        service: S,
        (gateway, grantor): (&Arc<Gateway>, &Arc<Grantor>),
        world: &Arc<dyn World>,
    ) {
        let forwarder = OwnerForwarder {
            recalls: Recalls::default(),
            grantor: grantor.clone(),
            gateway: gateway.clone(),
            client: self.client.clone(),
            world: world.clone(),
        };
        let (serving, ended) = Serving::new(grantor.key().clone(), forwarder);
        // Before the role: a node serves once.
        let _ = self.service.own.set(service);
        if let Some(owner) = self.seat.begin_serving(serving, ended) {
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
    pub async fn end_serving(&self) -> bool {
        let Some(mut ended) = self.seat.end_serving() else {
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
        if tokio::time::timeout(limit, self.wait_for_leaseholder())
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
        self.seat.end();
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
    /// The service of the leaseholder. There from before the node serves until the last connection
    /// of the port has ended, so nothing may wait for the end of the service.
    own: OnceLock<S>,
}

impl<F: Service, S: Service> NodeService<F, S> {
    /// Carries a request out. Takes the scheme of the client from a request that another node has
    /// forwarded, and adds the addresses of the regions.
    async fn serve(
        &self,
        (serving, own): (&Serving, &S),
        mut request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        let mut connection = *connection;
        let value = request.headers_mut().remove(FORWARDED);
        let origin = value.as_ref().and_then(|value| {
            let (method, uri) = (request.method().as_str(), request.uri());
            origin_of(&serving.key, value, method, uri, request.headers())
        });
        let via = match origin {
            Some((scheme, via)) => {
                connection.scheme = scheme;
                via
            }
            None => &self.seat.node.address,
        };
        if let Some(regions) = self.seat.members.regions(via, connection.scheme) {
            request.extensions_mut().insert(regions);
        }
        if request.uri().path().trim_matches('/') == ADDRESSES {
            request.extensions_mut().insert(self.places(serving));
        }
        let is_read = is_read(request.method(), request.headers());
        let is_of_data = is_of_data(request.uri().path());
        let is_head = request.method() == Method::HEAD;
        let answered = match serving.forwarder.concerns(&request) {
            true => serving.forwarder.handle(request, &connection, via).await,
            false => own.handle(request, &connection).await,
        };
        let answer = answered?;
        if !is_of_data || (!is_read && may_have_changed(answer.status())) {
            return Ok(answer);
        }
        Ok(self.with_lease(serving, answer, is_head).await)
    }

    /// Returns an answer that nothing later explains: the lease was valid after it was made. An
    /// answer from the catalog in memory has not looked at the store. If the lease is renewed
    /// meanwhile, no other node has held it.
    async fn with_lease(
        &self,
        serving: &Serving,
        answer: Response<Bytes>,
        is_head: bool,
    ) -> Response<Bytes> {
        let deadline = Instant::now() + LEASE_PATIENCE;
        let grantor = &serving.forwarder.grantor;
        while !grantor.holds_lease() {
            let gateway = &serving.forwarder.gateway;
            if Instant::now() > deadline || gateway.has_ended_waits() {
                let reason = self.seat.lease_failure();
                let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
                let message = format!(
                    "This node does not hold the lease of the account any more{reason}. The \
                     request was not carried out. Retry later."
                );
                let error = Error::new(Kind::Unavailable, message);
                return error_response(error, serving.forwarder.world.as_ref(), is_head);
            }
            tokio::time::sleep(LEASE_PAUSE).await;
        }
        answer
    }

    /// Returns the places of partitions for clients of the direct mode.
    fn places(&self, serving: &Serving) -> DirectPlaces {
        let grantor = serving.forwarder.grantor.clone();
        DirectPlaces {
            leaseholder: self.seat.node.address.clone(),
            owner: Arc::new(move |partition| grantor.live_owner(partition)),
        }
    }

    /// Returns the gateway that carries out frames at this node: that of the leaseholder, or that
    /// of the partitions which this node owns.
    fn gateway(&self) -> Option<Arc<Gateway>> {
        match self.seat.serving() {
            Some(serving) => Some(serving.forwarder.gateway.clone()),
            None => self.seat.owner().map(|owner| owner.gateway().clone()),
        }
    }
}

/// Returns true for the path of a database or of what is in one, and of an offer.
fn is_of_data(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    matches!(first, Some("dbs" | "offers"))
}

impl<F: Service, S: Service> FrameService for NodeService<F, S> {
    fn knows_sender(&self, request: &FrameRequest) -> bool {
        self.gateway()
            .is_some_and(|gateway| gateway.knows_sender_of(request))
    }

    fn answer(
        self: Arc<Self>,
        request: FrameRequest,
        body: Bytes,
        connection: Connection,
    ) -> FrameFuture {
        Box::pin(async move {
            if let Some(serving) = self.seat.serving() {
                let forwarder = &serving.forwarder;
                return forwarder.handle_frame(request, body, &connection).await;
            }
            match self.seat.owner() {
                Some(owner) => owner.answer_frame(request, body, &connection).await,
                None => Ok(request.address_gone()),
            }
        })
    }
}

impl<F: Service, S: Service> Service for NodeService<F, S> {
    async fn handle(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        let serving = self.seat.serving();
        match request.uri().path() {
            HELLO_PATH => {
                let key = serving.as_ref().map(|serving| &serving.key);
                return Ok(self.seat.members.answer(request, key).await);
            }
            MANAGE_PATH => {
                let key = serving.as_ref().map(|serving| &serving.key);
                return Ok(self.seat.manager.answer(request, key).await);
            }
            POLL_PATH => {
                return Ok(match serving {
                    Some(serving) => serving.forwarder.grantor.answer(request).await,
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
        let mut response = match (&serving, self.own.get()) {
            (Some(serving), Some(own)) => self.serve((serving, own), request, connection).await?,
            _ => self.forwarder.handle(request, connection).await?,
        };
        if may_end && self.seat.ends_connections() && !is_refusal_of_node(&response) {
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
