//! The node of a fleet that runs in this server: the parts that the node gets from the server, its
//! client port, and the fleet for the management API.
//!
//! `fleet/node` has the node itself.

use crate::address::{Listen, first_of, listen};
use crate::background;
use crate::client_port::{DRAIN_TIMEOUT, cannot_listen, connection_limits};
use crate::config::{FleetConfig, ServerConfig};
use crate::context::ServerContext;
use crate::engine::engine_options;
use crate::failure::Failure;
use crate::gateway_options::gateway_options;
use crate::health::Health;
use crate::keys;
use crate::memory::Memory;
use crate::public_paths::PublicPaths;
use orrery_admin::{
    Admin, Components, Fleet, FleetCounts, FleetNode, ForwardedAnswer, ForwardedRequest,
};
use orrery_console::WithConsole;
use orrery_engine::Engine;
use orrery_gateway::{DirectMode, Gateway};
use orrery_model::world::ShiftedWorld;
use orrery_node::{
    DatabaseOptions, FleetOfNode, Forwarder, Host, ManageAnswer, ManageHandler, ManageRequest,
    Node, NodeContext, NodePort, NodePortOptions, OwnerNode, Seat, machine_name, read_file,
};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The service of the client port of a server.
pub(crate) type ClientService = PublicPaths<WithConsole<Gateway>>;

/// The client port of a node.
pub(crate) type ServerPort = NodePort<PublicPaths<Forwarder>, ClientService>;

/// The open client port of a node, and the part that forwards.
pub(crate) struct OpenPort {
    pub(crate) port: ServerPort,
    pub(crate) forwarder: Arc<Forwarder>,
}

/// Checks the cluster file of a node. Nothing is created.
///
/// # Errors
/// [`Failure::Usage`] if the file cannot be used.
pub(crate) fn check(config: &ServerConfig) -> Result<(), Failure> {
    if let Some(file) = config.cluster_file() {
        read_file(file)?;
    }
    Ok(())
}

/// Returns the parts of a server that its node uses.
pub(crate) fn node_context(config: &Arc<ServerConfig>, context: &ServerContext) -> NodeContext {
    NodeContext {
        world: context.world.clone(),
        log: context.log.clone(),
        bodies: context.memory.bodies.clone(),
        host: Arc::new(ServerOfNode {
            config: config.clone(),
            context: context.clone(),
        }),
    }
}

/// The server, as its node calls it.
struct ServerOfNode {
    config: Arc<ServerConfig>,
    context: ServerContext,
}

impl ServerOfNode {
    fn options(&self, memory: &Memory) -> Result<DatabaseOptions, Failure> {
        let keys = keys::of_server(&self.config)?.keys;
        Ok(DatabaseOptions {
            gateway: gateway_options(&self.config, &self.context, memory, keys)?,
            engine: engine_options(&self.config, memory)?,
            query_threads: memory.query_threads,
        })
    }
}

impl Host for ServerOfNode {
    fn options_of_reader(&self) -> Result<DatabaseOptions, String> {
        let options = self.options(&self.context.memory);
        options.map_err(|failure| failure.to_string())
    }

    fn options_of_owner(&self) -> Result<DatabaseOptions, String> {
        let options = self.options(&Memory::new(self.config.memory_limit));
        options.map_err(|failure| failure.to_string())
    }

    fn add_gateway(&self, gateway: &Arc<Gateway>) {
        self.context.key_users.add(gateway);
    }

    fn start_tasks(&self, engine: &Arc<Engine>) -> Vec<JoinHandle<()>> {
        background::start(engine, &self.context)
    }
}

/// Opens the client port of a node, which forwards until it serves. Returns `None` for a server
/// that is no node.
///
/// # Errors
/// [`Failure::Failed`] if the port cannot be used, [`Failure::Usage`] if the address for other
/// nodes is not known.
pub(crate) async fn open_port(
    config: &Arc<ServerConfig>,
    context: &ServerContext,
    health: &Arc<Health>,
) -> Result<Option<OpenPort>, Failure> {
    let Some(fleet) = &config.fleet else {
        return Ok(None);
    };
    let listeners = listen(&config.clients.listen, config.clients.takes_free_port).await;
    let failed = |(wanted, error)| cannot_listen(config, wanted, &error);
    let listeners = listeners.map_err(failed)?;
    let first = first_of(&listeners).map_err(|error| failed((Listen::Localhost(0), error)))?;
    let region = config.account.regions.first();
    let clusters = read_file(&fleet.cluster_file)?;
    let options = NodePortOptions {
        node: Node {
            name: fleet.node.clone().unwrap_or_else(machine_name),
            address: address_for_nodes(fleet, &config.clients.listen, first)?,
        },
        region: region.map(|name| name.trim().to_owned()),
        clusters: clusters.into_iter().map(|cluster| cluster.name).collect(),
        listeners,
        tls: context.tls.config.clone(),
        limits: connection_limits(config, context),
        spin: config.clients.spin,
        drain: DRAIN_TIMEOUT,
        direct: config.clients.direct.addresses != DirectMode::Off,
    };
    let mut opened = None;
    let front = |forwarder: Forwarder| {
        let forwarder = Arc::new(forwarder);
        opened = Some(forwarder.clone());
        PublicPaths {
            inner: forwarder,
            health: health.clone(),
            certificate: context.tls.chain_pem.as_bytes().to_vec().into(),
            stands_in_for_console: false,
        }
    };
    let node_context = node_context(config, context);
    let port = NodePort::open(options, &node_context, front);
    Ok(opened.map(|forwarder| OpenPort { port, forwarder }))
}

/// Returns the address at which other nodes reach this one, as a URL.
fn address_for_nodes(
    fleet: &FleetConfig,
    listen: &[Listen],
    first: SocketAddr,
) -> Result<String, Failure> {
    if let Some(url) = &fleet.advertise {
        return Ok(url.clone());
    }
    if first.ip().is_unspecified() || listen.len() > 1 {
        return Err(Failure::Usage(
            "a node that listens on all interfaces or on several addresses needs --advertise URL: \
             the address at which the other nodes reach this one, such as http://10.0.0.1:8081"
                .to_owned(),
        ));
    }
    Ok(format!("http://{first}"))
}

/// Returns the parts of an owner that the management API reads for metrics and logs of requests.
pub(crate) fn components_of_owner(
    owner: &OwnerNode,
    context: &ServerContext,
    fleet: Arc<dyn Fleet>,
) -> Components {
    Components {
        engine: owner.engine().clone(),
        gateway: owner.gateway().clone(),
        clock: Arc::new(ShiftedWorld::new(context.world.clone())),
        data_dir: context.data_dir.clone(),
        placement: None,
        fleet: Some(fleet),
        jobs: Arc::default(),
        continuous_backup: None,
        started: context.started,
    }
}

/// Returns the fleet for the management API.
pub(crate) fn fleet_for_operator(fleet: FleetOfNode) -> Arc<dyn Fleet> {
    Arc::new(OperatorFleet(fleet))
}

/// The fleet, as the management API reads it.
struct OperatorFleet(FleetOfNode);

impl Fleet for OperatorFleet {
    fn holds_lease(&self) -> bool {
        self.0.holds_lease()
    }

    fn counts(&self) -> FleetCounts {
        let grants = self.0.grant_counts();
        FleetCounts {
            takeovers: u64::from(self.0.has_held_lease()),
            granted: grants.granted,
            returned: grants.returned,
            expired: grants.expired,
        }
    }

    fn nodes(&self) -> Vec<FleetNode> {
        let nodes = self.0.nodes().into_iter();
        nodes
            .map(|node| FleetNode {
                clock_ahead_ms: node.facts.clock_ahead_ms,
                wrong_clock: node.facts.wrong_clock(),
                name: node.facts.name,
                region: node.facts.region,
                address: node.facts.address,
                clusters: node.facts.clusters,
                partitions: node.partitions,
                silent_ms: node.silent_ms,
                holds_lease: node.holds_lease,
            })
            .collect()
    }

    fn hand_over(&self, name: &str) {
        self.0.hand_over(name);
    }

    fn forward(
        &self,
        request: ForwardedRequest,
    ) -> Pin<Box<dyn Future<Output = Option<ForwardedAnswer>> + Send>> {
        let ForwardedRequest { method, path, body } = request;
        let answer = self.0.manage(ManageRequest { method, path, body });
        Box::pin(async move {
            let ManageAnswer { status, body } = answer.await?;
            Some(ForwardedAnswer { status, body })
        })
    }
}

/// Lets other nodes send requests of their operators to the management API of this one, while this
/// node is the leaseholder.
pub(crate) fn take_management_requests(seat: &Seat, admin: &Arc<Admin>) {
    let admin = admin.clone();
    let handler: ManageHandler = Arc::new(move |request| {
        let admin = admin.clone();
        Box::pin(async move {
            let ManageRequest { method, path, body } = request;
            let answer = admin
                .handle_forwarded(ForwardedRequest { method, path, body })
                .await;
            let ForwardedAnswer { status, body } = answer;
            ManageAnswer { status, body }
        })
    });
    seat.manager.set(handler);
}
