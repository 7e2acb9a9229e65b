//! Opening the data of a server: at once, or on a node after the wait for the lease of the account.
//!
//! A node has opened its client port before, and forwards the requests of clients to the
//! leaseholder. So such a node is announced as ready before its own data is open.

use crate::account::account;
use crate::address::reachable;
use crate::announcement::Announcement;
use crate::config::ServerConfig;
use crate::console_data::SignedRequests;
use crate::context::ServerContext;
use crate::continuous_backup;
use crate::engine::open_engine;
use crate::failure::Failure;
use crate::fleet_node::{ServerPort, components_of_owner, fleet_for_operator, node_context};
use crate::gateway_options::gateway_options;
use crate::keys;
use crate::observers::Observers;
use crate::private_file;
use crate::telemetry::Telemetry;
use crate::world_as_of::WorldAsOf;
use orrery_admin::{ContinuousBackups, Fleet};
use orrery_console::RemoteDatabase;
use orrery_engine::Engine;
use orrery_gateway::{ConnectionCounters, Field, Gateway, LogLevel};
use orrery_model::world::{ShiftedWorld, World};
use orrery_node::{
    Clusters, FleetOfNode, Forwarder, NodeContext, Reader, Seat, Terms, open_owner, open_reader,
    read_file,
};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle};

/// The time for which a request waits for a cluster of the fleet that is away, as in a failover.
const PATIENCE_WITH_CLUSTERS: Duration = Duration::from_secs(8);

/// A server whose data is open.
pub(crate) struct Server {
    /// Everything that does not need the data.
    pub(crate) context: ServerContext,
    /// The open data.
    pub(crate) engine: Arc<Engine>,
    /// The protocol on the data.
    pub(crate) gateway: Arc<Gateway>,
    /// Clusters with the data, if a data directory has it not. Dropped after the engine has shut
    /// down, so that the next node finds everything.
    pub(crate) clusters: Option<Clusters>,
    /// Clock of the data, which the management API can move forward.
    pub(crate) clock: Arc<ShiftedWorld>,
    /// Primary key of the account, for the announcement.
    pub(crate) primary_key: String,
    /// True if one of the account keys is the well-known key of the emulator.
    pub(crate) has_well_known_key: bool,
    /// Export by OpenTelemetry, until it runs.
    pub(crate) telemetry: Telemetry,
    /// The continuous backup, if there is one.
    pub(crate) continuous_backup: Option<Arc<ContinuousBackups>>,
}

/// A server whose data is to be opened.
pub(crate) struct Opening<'a> {
    /// The options.
    pub(crate) config: Arc<ServerConfig>,
    /// Everything that does not need the data.
    pub(crate) context: &'a ServerContext,
    /// The parts that tell others the state.
    pub(crate) observers: &'a Observers,
    /// The client port, if the server is a node.
    pub(crate) node: Option<&'a ServerPort>,
    /// The part of the client port that forwards, if the server is a node.
    pub(crate) forwarder: Option<Arc<Forwarder>>,
}

/// The end of the opening. `S` is the future that completes when the server is to stop, `R` the
/// function that announces the server.
pub(crate) enum Opened<S, R> {
    /// The data is open.
    Serving {
        server: Server,
        stopped: Pin<Box<S>>,
        /// `None` if the announcement was made already.
        ready: Option<R>,
    },
    /// The node was told to stop. The data may have been opened at the last moment.
    Stopped(Option<Server>),
}

impl Opening<'_> {
    /// Opens the data. `stopped` is called once the wait may be ended; `ready` is called when
    /// another node holds the lease of the account, since requests are forwarded to that node.
    ///
    /// # Errors
    /// Those of the data, of `stopped` and of `ready`.
    pub(crate) async fn run<S: Future<Output = ()>, R>(
        &self,
        telemetry: Telemetry,
        stopped: impl FnOnce() -> Result<S, Failure>,
        ready: R,
    ) -> Result<Opened<S, R>, Failure>
    where
        R: FnOnce(&Announcement<'_>) -> Result<(), Failure>,
    {
        // Opening the data reads and writes files for a long time. It runs on a thread for blocking
        // work, because the management API needs the worker threads in the meantime.
        let (config, context) = (self.config.clone(), self.context.clone());
        let node = self.node.map(|node| NodeOfServer {
            seat: node.seat.clone(),
            connections: node.connections(),
            context: self.node_context(),
        });
        let opening =
            tokio::task::spawn_blocking(move || open_server(&config, context, telemetry, node));
        let Some(node) = self.node else {
            let server = joined(opening.await)?;
            let stopped = Box::pin(stopped()?);
            return Ok(match server {
                Some(server) => Opened::Serving {
                    server,
                    stopped,
                    ready: Some(ready),
                },
                None => Opened::Stopped(None),
            });
        };
        let stopped = Box::pin(stopped()?);
        self.wait_for_lease(node, opening, stopped, ready).await
    }

    /// Waits until the data of a node is open or the node is told to stop. Announces the node when
    /// another node holds the lease.
    async fn wait_for_lease<S: Future<Output = ()>, R>(
        &self,
        node: &ServerPort,
        mut opening: JoinHandle<Result<Option<Server>, Failure>>,
        mut stopped: Pin<Box<S>>,
        ready: R,
    ) -> Result<Opened<S, R>, Failure>
    where
        R: FnOnce(&Announcement<'_>) -> Result<(), Failure>,
    {
        let mut ready = Some(ready);
        let mut reading = std::pin::pin!(self.read_standbys(node));
        let mut owning = std::pin::pin!(self.own_partitions(node));
        let mut is_reading = false;
        loop {
            tokio::select! {
                biased;
                opened = &mut opening => {
                    return Ok(match joined(opened)? {
                        Some(server) => Opened::Serving { server, stopped, ready },
                        None => Opened::Stopped(None),
                    });
                }
                () = &mut owning => {}
                () = &mut stopped => {
                    node.cancel();
                    self.observers.begin_draining();
                    if let Some(owner) = node.seat.owner() {
                        owner.leave(&node.client).await;
                    }
                    return Ok(Opened::Stopped(joined(opening.await)?));
                }
                address = node.wait_for_namesake() => {
                    node.cancel();
                    if let Some(owner) = node.seat.owner() {
                        owner.leave(&node.client).await;
                    }
                    return Err(namesake_error(&node.seat, &address));
                }
                () = node.wait_for_leaseholder(), if ready.is_some() => {
                    if let Some(ready) = ready.take() {
                        self.announce_forwarding(node, ready)?;
                    }
                }
                opened = &mut reading, if !is_reading => {
                    is_reading = true;
                    if let Some(reader) = opened? {
                        node.seat.begin_reading(reader);
                    }
                }
            }
        }
    }

    /// Opens the standbys once another node holds the lease. Returns `None` if reads are not to be
    /// answered from standbys.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a cluster file that cannot be used.
    async fn read_standbys(&self, node: &ServerPort) -> Result<Option<Reader>, Failure> {
        let Some(fleet) = self
            .config
            .fleet
            .as_ref()
            .filter(|fleet| fleet.reads_standbys)
        else {
            return Ok(None);
        };
        let clusters = read_file(&fleet.cluster_file)?;
        let first = clusters.into_iter().next();
        // A cluster of one server has no standby.
        let first = first.filter(|cluster| cluster.hosts.len() > 1);
        let Some(first) = first else {
            return Ok(None);
        };
        node.wait_for_leaseholder().await;
        Ok(Some(open_reader(first, self.node_context()).await))
    }

    /// Owns the partitions that the leaseholder gives, once another node holds the lease. Never
    /// returns.
    async fn own_partitions(&self, node: &ServerPort) {
        // The connections of a node that owns nothing would be of no use.
        let fleet = self.config.fleet.as_ref();
        let Some(fleet) = fleet.filter(|fleet| fleet.spread_load_ru.is_some()) else {
            return std::future::pending().await;
        };
        node.wait_for_leaseholder().await;
        let (file, seat) = (fleet.cluster_file.clone(), node.seat.clone());
        let owner = open_owner(file, seat, self.node_context()).await;
        node.seat.begin_owning(owner.clone());
        if let Some(admin) = &self.observers.admin {
            let fleet = self.fleet(node);
            admin.begin_owning(components_of_owner(&owner, self.context, fleet));
        }
        owner.poll_for_ever(node.client.clone()).await;
    }

    /// Returns the fleet as a node without the lease sees it.
    fn fleet(&self, node: &ServerPort) -> Arc<dyn Fleet> {
        fleet_for_operator(FleetOfNode::without_lease(node.seat.clone()))
    }

    fn node_context(&self) -> NodeContext {
        node_context(&self.config, self.context)
    }

    /// Announces a node that forwards requests.
    fn announce_forwarding<R>(&self, node: &ServerPort, ready: R) -> Result<(), Failure>
    where
        R: FnOnce(&Announcement<'_>) -> Result<(), Failure>,
    {
        self.observers.begin_forwarding(self.fleet(node));
        let keys = keys::of_server(&self.config)?;
        let announcement = self.observers.announcement(
            self.context,
            &node.addresses,
            &keys.primary,
            keys.has_well_known_key,
        )?;
        if let (Some(admin), Some(forwarder)) = (&self.observers.admin, &self.forwarder) {
            let host = reachable(announcement.address).to_string();
            admin.begin_remote_console(RemoteDatabase {
                endpoint: format!("http://{host}/"),
                account: account(&self.config)?.name,
                has_well_known_key: keys.has_well_known_key,
                gateway: Arc::new(SignedRequests {
                    context: self.context.clone(),
                    forwarder: forwarder.clone(),
                    host,
                    keys_of_start: keys.clone(),
                }),
            });
        }
        ready(&announcement)
    }
}

/// Returns the failure of a node whose name another node uses.
fn namesake_error(seat: &Seat, address: &str) -> Failure {
    Failure::Usage(format!(
        "the node at {address} has the name '{}' too: give each node a name of its own with \
         --node NAME",
        seat.node.name
    ))
}

/// The parts of a node that the opening of its data needs.
struct NodeOfServer {
    seat: Arc<Seat>,
    /// The counters of the client port.
    connections: Arc<ConnectionCounters>,
    context: NodeContext,
}

/// Reads the keys, opens the data and creates the gateway. A node waits while another node holds
/// the lease, and `None` is returned if the wait was cancelled.
fn open_server(
    config: &ServerConfig,
    context: ServerContext,
    mut telemetry: Telemetry,
    node: Option<NodeOfServer>,
) -> Result<Option<Server>, Failure> {
    // The rest of the configuration is checked first, because opening the data may take long and
    // creates files.
    let account_keys = keys::of_server(config)?;
    warn_of_readable_keys(config, &context);
    let memory = context.memory.clone();
    let options = gateway_options(config, &context, &memory, account_keys.keys)?;

    // The management API may move the clock of the data. Signatures, tokens and log lines need the
    // real time and therefore use the clock of the context.
    let world: Arc<dyn World> = match config.data.as_of_ms {
        Some(moment_ms) => Arc::new(WorldAsOf::new(context.world.clone(), moment_ms)),
        None => context.world.clone(),
    };
    let clock = Arc::new(ShiftedWorld::new(world));
    context.log(LogLevel::Info, &memory.description());
    if memory.is_too_small() {
        let message = "the machine or the control group has less memory than the server needs: \
                       give it 512 MiB";
        context.log(LogLevel::Warn, message);
    }
    let mut clusters = None;
    if let (Some(fleet), Some(node)) = (&config.fleet, &node) {
        let (file, least_load) = (&fleet.cluster_file, fleet.spread_load_ru);
        let terms = Terms::of_seconds(fleet.lease_seconds);
        clusters = Clusters::open(file, least_load, terms, &node.seat, &node.context)?;
        if clusters.is_none() {
            return Ok(None);
        }
    }
    let engine = open_engine(config, &context, &memory, clusters.as_ref(), clock.clone())?;
    report_damage(&engine, &context);
    let continuous_backup = continuous_backup::open(config, &context, &engine)?;
    let gateway = Gateway::behind(
        node.map(|node| node.connections).unwrap_or_default(),
        engine.clone(),
        options,
    );
    let gateway = gateway
        .reporting_slow(config.log.slow_requests)
        .recording_spans(telemetry.recorder())
        .with_query_threads(memory.query_threads);
    let gateway = match clusters {
        Some(_) => gateway.with_remote_store(PATIENCE_WITH_CLUSTERS),
        None => gateway,
    };
    let gateway = Arc::new(gateway);
    context.key_users.add(&gateway);
    Ok(Some(Server {
        context,
        engine,
        gateway,
        clusters,
        clock,
        primary_key: account_keys.primary,
        has_well_known_key: account_keys.has_well_known_key,
        telemetry,
        continuous_backup,
    }))
}

/// Returns the server that a thread has opened.
///
/// # Errors
/// Those of [`open_server`]; [`Failure::Failed`] if the thread has panicked.
fn joined(
    opening: Result<Result<Option<Server>, Failure>, JoinError>,
) -> Result<Option<Server>, Failure> {
    opening.map_err(|error| Failure::Failed(format!("opening the data failed: {error}")))?
}

/// Warns of every file with a key that users other than its owner may read.
fn warn_of_readable_keys(config: &ServerConfig, context: &ServerContext) {
    let files = [
        config.account.key_file.clone(),
        config.admin.key_file.clone(),
        config.tls.key.clone(),
        context.data_dir.as_ref().map(|dir| dir.join("admin.key")),
        context.data_dir.as_ref().map(|dir| dir.join("tls/key.pem")),
    ];
    for file in files.into_iter().flatten() {
        if private_file::is_readable_by_others(&file) {
            let message = format!(
                "the file {} holds a key, and other users may read it: take their right away with \
                 chmod go-r",
                file.display()
            );
            context.log(LogLevel::Warn, &message);
        }
    }
}

/// Writes a line to the log for each damaged block of the store.
fn report_damage(engine: &Arc<Engine>, context: &ServerContext) {
    let (log, world) = (context.log.clone(), context.world.clone());
    engine.report_damage(move |block| {
        let partitions = block.partition_paths().join(" ");
        let fields = [
            ("file", Field::Text(&block.file)),
            ("offset", Field::Number(block.offset as f64)),
            ("bytes", Field::Number(block.bytes as f64)),
            ("fault", Field::Text(&block.fault)),
            ("contents", Field::Text(block.contents.name())),
            ("readOnlyPartitions", Field::Text(&partitions)),
        ];
        let message = "a block of the stored data is damaged";
        log.write(world.now_ms(), LogLevel::Error, message, &fields);
    });
}
