//! The client port of a node, from the start of the process on: before the node holds the lease of
//! the account, while it holds the lease, and until its end.

use crate::address::{first_of, listen};
use crate::clusters::machine_name;
use crate::command::{StartArguments, StoreKind};
use crate::context::ServerContext;
use crate::failure::Failure;
use crate::forwarding::{Forwarder, FromNodes};
use crate::health::Health;
use crate::public_paths::PublicPaths;
use crate::start::{DRAIN_TIMEOUT, cannot_listen, connection_limits};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use orrery_console::WithConsole;
use orrery_gateway::{
    BodyMemory, Connection, ConnectionCounters, Gateway, Log, Patience, Port, Service, Unanswered,
    serve,
};
use orrery_model::sync::{read, write};
use orrery_node_lease::{Holder, Node, NodesKey};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// The service of the client port of a server.
pub(crate) type ClientService = PublicPaths<WithConsole<Gateway>>;

/// The part of a node that the wait for the lease needs.
pub(crate) struct Seat {
    /// This node as others see it.
    pub(crate) node: Node,
    /// Told each holder of the lease.
    pub(crate) holder: watch::Sender<Option<Holder>>,
    /// The node is to wait for the lease no longer.
    pub(crate) is_cancelled: AtomicBool,
}

/// The open client port of a node.
pub(crate) struct NodePort {
    pub(crate) seat: Arc<Seat>,
    /// All addresses on which the node listens.
    pub(crate) addresses: Vec<SocketAddr>,
    service: Arc<NodeService>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<bool>,
}

impl NodePort {
    /// Opens the client port of a node, which forwards until it serves. Returns `None` for a
    /// server that is no node.
    ///
    /// # Errors
    /// [`Failure::Failed`] if the port cannot be used, [`Failure::Usage`] if the address for other
    /// nodes is not known.
    pub(crate) async fn open(
        arguments: &StartArguments,
        context: &ServerContext,
        health: &Arc<Health>,
    ) -> Result<Option<NodePort>, Failure> {
        if arguments.store != StoreKind::Postgres {
            return Ok(None);
        }
        let listeners = listen(&arguments.listen, arguments.takes_free_port).await;
        let listeners = listeners.map_err(|(wanted, error)| cannot_listen(&wanted, &error))?;
        let first = first_of(&listeners).map_err(|error| cannot_listen(&"the port", &error))?;
        let addresses = listeners.iter().filter_map(|one| one.local_addr().ok());
        let addresses = addresses.collect();
        let seat = Arc::new(Seat {
            node: Node {
                name: arguments.node.clone().unwrap_or_else(machine_name),
                address: address_for_nodes(arguments, first)?,
            },
            holder: watch::Sender::new(None),
            is_cancelled: AtomicBool::new(false),
        });

        let forwarder = Forwarder::new(context, seat.holder.subscribe());
        let service = Arc::new(NodeService {
            forwarder: Arc::new(forwarder.with_public_paths(context, health.clone())),
            serving: RwLock::new(None),
        });
        let port = Port {
            service: service.clone(),
            tls: Some(context.tls.config.clone()),
            limits: connection_limits(arguments, context),
            patience: Patience::default(),
            spin: Duration::from_micros(arguments.spin),
            drain: DRAIN_TIMEOUT,
        };
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(port, listeners, async {
            // A sender that is dropped ends the port as well.
            let _ = stopped.await;
        }));
        Ok(Some(NodePort {
            seat,
            addresses,
            service,
            stop,
            serving,
        }))
    }

    /// Returns when another node is known to hold the lease.
    pub(crate) async fn has_holder(&self) {
        let mut holder = self.seat.holder.subscribe();
        // The sender lives as long as `self`.
        let _ = holder.wait_for(Option::is_some).await;
    }

    /// Makes the node wait for the lease no longer.
    pub(crate) fn cancel(&self) {
        self.seat.is_cancelled.store(true, Ordering::SeqCst);
    }

    /// Returns the counters of the port's connections.
    pub(crate) fn connections(&self) -> Arc<ConnectionCounters> {
        self.service.connections()
    }

    /// Serves requests from now on, those too that wait for a holder.
    pub(crate) fn begin_serving(&self, service: ClientService, key: &NodesKey) {
        *write(&self.service.serving) = Some(Arc::new(FromNodes {
            inner: Arc::new(service),
            key: Some(key.clone()),
        }));
        self.seat.holder.send_replace(Some(Holder {
            node: self.seat.node.clone(),
            key: Some(key.clone()),
        }));
    }

    /// Closes the port, and waits for the requests in progress. Returns true if all of these ended
    /// in time.
    pub(crate) async fn close(self) -> bool {
        // The port may have ended by itself, which only a panic does.
        let _ = self.stop.send(());
        self.serving.await.unwrap_or(false)
    }
}

/// The service of the port: that of the holder, or the one that forwards.
struct NodeService {
    forwarder: Arc<PublicPaths<Forwarder>>,
    /// There once the node holds the lease.
    serving: RwLock<Option<Arc<FromNodes<ClientService>>>>,
}

impl Service for NodeService {
    async fn handle(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        let serving = read(&self.serving).clone();
        match serving {
            Some(service) => service.handle(request, connection).await,
            None => self.forwarder.handle(request, connection).await,
        }
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

/// Returns the address at which other nodes reach this one, as a URL.
fn address_for_nodes(arguments: &StartArguments, first: SocketAddr) -> Result<String, Failure> {
    if let Some(url) = &arguments.advertise {
        return Ok(url.clone());
    }
    if first.ip().is_unspecified() || arguments.listen.len() > 1 {
        return Err(Failure::Usage(
            "a node that listens on all interfaces or on several addresses needs --advertise URL: \
             the address at which the other nodes reach this one, such as http://10.0.0.1:8081"
                .to_owned(),
        ));
    }
    Ok(format!("http://{first}"))
}
