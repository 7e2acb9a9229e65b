//! The life of a server, from its configuration to its end.
//!
//! 1. [`ServerContext::new`] prepares everything that does not need the data: the data directory,
//!    the certificate, the clock and the log.
//! 2. The management API begins to listen. Opening the data can take long after a crash, and a
//!    health check must be able to tell a server that is recovering from one that is dead.
//! 3. [`Opening`] reads the keys, opens the data and creates the gateway.
//! 4. [`serve_clients`] listens on the client port, tells that the server is ready, and serves
//!    requests until it is told to stop.
//! 5. Requests in progress get ten seconds to finish. The management API stops after them, so that
//!    it can report the shutdown. The engine shuts down last.
//!
//! Nothing is written to standard output; the log goes to standard error.

use crate::address::cannot_listen as cannot_listen_for;
use crate::address::{Listen, listen, reachable, reachable_by_others};
use crate::admin::AdminServer;
use crate::announcement::Announcement;
use crate::background;
use crate::certificate;
use crate::client_port::{DRAIN_TIMEOUT, cannot_listen, connection_limits};
use crate::config::ServerConfig;
use crate::context::ServerContext;
use crate::continuous_backup;
use crate::definition;
use crate::failure::Failure;
use crate::fleet_node::{
    self, ClientService, OpenPort, ServerPort, fleet_for_operator, open_port,
    take_management_requests,
};
use crate::key_reloader::KeyReloader;
use crate::memory::Memory;
use crate::observers::Observers;
use crate::opening::{Opened, Opening, Server};
use crate::private_file;
use crate::public_file;
use crate::public_paths::PublicPaths;
use crate::telemetry::Telemetry;
use crate::write_watch;
use orrery_admin::Components;
use orrery_console::{Base, Database, WithConsole};
use orrery_gateway::{ConnectionLimits, DirectMode, Gateway, LogLevel, Patience, Port, serve};
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Runs a server until the future that `stopped` returns completes. `stopped` is called in the
/// runtime of the server, before `ready`; `ready` is called when the server accepts requests.
///
/// # Errors
/// See [`Failure`]; the errors of `stopped` and `ready` end the server.
pub fn run<S: Future<Output = ()>>(
    config: ServerConfig,
    stopped: impl FnOnce() -> Result<S, Failure>,
    ready: impl FnOnce(&Announcement<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Before any file is created: the tables of the store get their permissions from here.
    private_file::restrict_new_files();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // A node waits for other machines on many threads.
    if config.fleet.is_none() {
        runtime.max_blocking_threads(Memory::new(config.memory_limit).blocking_threads());
    }
    let runtime = runtime
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))?;
    let Some((server, node)) = runtime.block_on(run_server(config, stopped, ready))? else {
        // A node that was stopped while another one served.
        runtime.shutdown_background();
        return Ok(());
    };
    if let Some(node) = node {
        end_node(&runtime, server, node)?;
        runtime.shutdown_background();
        return Ok(());
    }

    // Scripts and queries that outlived the shutdown period may still run on the threads for
    // blocking work. Dropping the runtime would wait for them; this call does not. They can be
    // abandoned: a transaction takes effect completely or not at all, and the connections that
    // waited for a response are closed.
    runtime.shutdown_background();

    // The shutdown of the engine waits until all accepted writes are durable, so it comes after the
    // end of everything that serves requests.
    server.engine.shut_down().map_err(cannot_close)?;
    server.context.log(LogLevel::Info, "server stopped");
    Ok(())
}

/// Shuts the engine of a node down, gives the lease back, and closes the port once the next holder
/// is known: until then other nodes hear on their connections that this node has left.
fn end_node(runtime: &Runtime, server: Server, node: ServerPort) -> Result<(), Failure> {
    let Server {
        engine,
        clusters,
        context,
        ..
    } = server;
    let closed = engine.shut_down();
    let successor = node.seat.successor();
    if let Some(clusters) = clusters {
        let lease_store = clusters.lease_store();
        clusters.release();
        runtime.block_on(node.hand_over(lease_store));
    }
    closed.map_err(cannot_close)?;
    context.log(LogLevel::Info, "server stopped");
    match successor {
        Some(name) => Err(Failure::Failed(format!(
            "the lease of the account was given to the node '{name}', as asked: start this node \
             again, and it waits for the lease"
        ))),
        None => Ok(()),
    }
}

fn cannot_close(error: impl fmt::Display) -> Failure {
    Failure::Failed(format!("cannot close the data: {error}"))
}

/// Runs the steps in the header of this file, except for the shutdown of the engine. Returns `None`
/// if the server was a node and was stopped while another node served, and the open port of a node
/// that served.
async fn run_server<S: Future<Output = ()>>(
    config: ServerConfig,
    stopped: impl FnOnce() -> Result<S, Failure>,
    ready: impl FnOnce(&Announcement<'_>) -> Result<(), Failure>,
) -> Result<Option<(Server, Option<ServerPort>)>, Failure> {
    // Wrong options, a wrong cluster file and a wrong definition end the start before any file is
    // created.
    fleet_node::check(&config)?;
    let definition = definition::of_server(&config)?;
    let telemetry = Telemetry::read(&config)?;
    let context = ServerContext::new(&config)?;
    // Before the announcement: a supervisor may send a signal as soon as the server is ready, and
    // an uncaught signal would kill the process. The task runs until the process ends.
    key_reloader(&config, &context).start()?;
    let ready = noting_announcement(ready, &context);
    log_notes(&config, &context);
    write_certificate(&config, &context)?;
    let observers = Observers::start(&config, &context).await?;

    // Other nodes may serve for long, and this one forwards requests to them meanwhile.
    let config = Arc::new(config);
    let opened = open_port(&config, &context, &observers.health).await?;
    let (node_port, forwarder) = match opened {
        Some(OpenPort { port, forwarder }) => (Some(port), Some(forwarder)),
        None => (None, None),
    };
    if let Some(node) = &node_port {
        observers.health.set_node(&node.seat);
    }
    if let (Some(node), Some(admin)) = (&node_port, &observers.admin) {
        take_management_requests(&node.seat, admin.admin());
    }
    let opening = Opening {
        config: config.clone(),
        context: &context,
        observers: &observers,
        node: node_port.as_ref(),
        forwarder,
    };
    let (mut server, stopped, ready) = match opening.run(telemetry, stopped, ready).await? {
        Opened::Serving {
            server,
            stopped,
            ready,
        } => (server, stopped, ready),
        Opened::Stopped(server) => {
            if let Some(node) = node_port {
                node.close(Duration::ZERO).await;
            }
            observers.stop().await;
            return Ok(server.map(|server| (server, None)));
        }
    };

    // The requests of a definition fill the queue of spans, which the exporter empties.
    let telemetry = std::mem::take(&mut server.telemetry);
    let exporter = telemetry.start(components(&server), &server.context)?;

    // Health checks and the announcement tell that the server is ready, so the definition is
    // applied before both.
    if let Some(definition) = definition {
        let port = private_port(&server);
        let has_containers = !server.engine.every_container().is_empty();
        let applied = definition::apply(port, &server.primary_key, definition, has_containers);
        for line in applied.await? {
            server.context.log(LogLevel::Info, &line);
        }
    }
    if let Some(admin) = &observers.admin {
        admin.begin_serving(components(&server));
    }
    let node = serve_clients(&server, &config, &observers, node_port, stopped, ready).await?;
    observers.stop().await;
    // The spans of the last requests are in the queue, and the metrics read the engine.
    if let Some(exporter) = exporter {
        exporter.stop().await;
    }
    Ok(Some((server, node)))
}

/// Returns the parts that the management API and the export of metrics read.
fn components(server: &Server) -> Components {
    let clusters = server.clusters.as_ref();
    Components {
        engine: server.engine.clone(),
        gateway: server.gateway.clone(),
        clock: server.clock.clone(),
        data_dir: server.context.data_dir.clone(),
        placement: clusters.map(|clusters| clusters.placed.clone()),
        fleet: clusters.map(|clusters| fleet_for_operator(clusters.fleet())),
        jobs: Arc::default(),
        continuous_backup: server.continuous_backup.clone(),
        started: server.context.started,
    }
}

/// Writes the settings file, the notes of the configuration and an expired certificate to the log.
fn log_notes(config: &ServerConfig, context: &ServerContext) {
    if let Some(file) = &config.settings_file {
        let message = format!("settings read from {}", file.display());
        context.log(LogLevel::Info, &message);
    }
    for (level, note) in &config.notes {
        context.log(*level, note);
    }
    let facts = certificate::facts_of_pem(&context.tls.chain_pem);
    let now = i64::try_from(context.world.now_ms() / 1_000).unwrap_or(i64::MAX);
    if facts.is_some_and(|facts| facts.expires < now) {
        let expired = "the certificate has expired: clients that check certificates refuse this \
                       server";
        context.log(LogLevel::Warn, expired);
    }
}

/// Writes the certificate to the file from which programs copy it out of a container of the
/// vendor's emulator. A folder that cannot be made is no failure, unless the user named the file.
fn write_certificate(config: &ServerConfig, context: &ServerContext) -> Result<(), Failure> {
    let Some(emulator) = &config.emulator else {
        return Ok(());
    };
    let Some(file) = &emulator.certificate_file else {
        return Ok(());
    };
    let is_own_choice = !emulator.needs_certificate_file;
    let certificate = context.tls.chain_pem.as_bytes();
    match public_file::replace(file, is_own_choice, certificate) {
        Ok(()) => Ok(()),
        Err(error) if emulator.needs_certificate_file => Err(Failure::Failed(format!(
            "cannot write the certificate to {}: {error}",
            file.display()
        ))),
        Err(error) => {
            let cause = format!("{}: {error}", file.display());
            let message = "the certificate was not written to the file of the vendor's image";
            context.log_with_cause(LogLevel::Warn, message, &cause);
            Ok(())
        }
    }
}

/// Returns `ready` with a note in the context that the server is announced.
fn noting_announcement<R>(
    ready: R,
    context: &ServerContext,
) -> impl FnOnce(&Announcement<'_>) -> Result<(), Failure>
where
    R: FnOnce(&Announcement<'_>) -> Result<(), Failure>,
{
    let context = context.clone();
    move |announcement: &Announcement<'_>| {
        ready(announcement)?;
        context.set_announced();
        Ok(())
    }
}

/// Returns the part of a server that reads the key file again.
fn key_reloader(config: &ServerConfig, context: &ServerContext) -> KeyReloader {
    KeyReloader {
        key_file: config.account.key_file.clone(),
        reachable_by_others: match config.emulator {
            Some(_) => None,
            None => reachable_by_others(&config.clients.listen),
        },
        context: context.clone(),
    }
}

/// Listens on the client port, unless a node has opened the port already, and serves requests until
/// `stopped` completes. `ready` is there unless the announcement was made already. Returns the port
/// of a node, which stays open.
async fn serve_clients<S: Future<Output = ()>>(
    server: &Server,
    config: &ServerConfig,
    observers: &Observers,
    node: Option<ServerPort>,
    stopped: Pin<Box<S>>,
    ready: Option<impl FnOnce(&Announcement<'_>) -> Result<(), Failure>>,
) -> Result<Option<ServerPort>, Failure> {
    let port = ClientPort::open(config, node).await?;

    // The port is open, so the system queues the connections of clients that react to the
    // announcement at once. Nothing after the announcement can fail.
    let announcement = observers.announcement(
        &server.context,
        &port.addresses(),
        &server.primary_key,
        server.has_well_known_key,
    )?;
    begin_serving(server, observers, announcement.address);
    if let (ClientPort::OfNode(node), Some(clusters)) = (&port, &server.clusters) {
        let service = client_service(server, config, observers);
        let grantor = clusters.grantor.clone();
        server.gateway.set_take_back(Arc::new(move |partition| {
            // If that fails, the next attempt finds the same owner again.
            let _ = grantor.recall_for_request(partition);
        }));
        let parts = (&server.gateway, &clusters.grantor);
        node.begin_serving(service, parts, &server.context.world);
    }
    if let Some(ready) = ready {
        ready(&announcement)?;
    }

    // Periodic tasks start after the announcement, so that they do not delay it.
    let tasks = start_tasks(server, config);
    // Load balancers poll the readiness, so it must change before the port closes.
    let shutdown = async {
        stopped.await;
        observers.begin_draining();
    };
    let (all_finished, node) = match port {
        ClientPort::OfNode(node) => {
            tokio::select! {
                () = shutdown => {}
                () = node.seat.wait_for_successor() => observers.begin_draining(),
            }
            (node.end_serving().await, Some(*node))
        }
        ClientPort::Opened(listeners) => {
            let service = client_service(server, config, observers);
            let port = client_port(server, config, service);
            (serve(port, listeners, shutdown).await, None)
        }
    };

    // No task may begin new work once the caller shuts the engine down.
    for task in tasks {
        task.abort();
    }
    if let Some(backups) = &server.continuous_backup {
        continuous_backup::finish(backups.clone(), server.context.clone()).await;
    }
    if !all_finished {
        server.context.log(
            LogLevel::Warn,
            "requests still in progress at the end of the shutdown period were aborted",
        );
    }
    Ok(node)
}

/// Tells the management API and probes of health that the server has its data.
fn begin_serving(server: &Server, observers: &Observers, address: SocketAddr) {
    if let Some(admin) = &observers.admin {
        admin.begin_console(Database {
            gateway: server.gateway.clone(),
            endpoint: format!("http://{}/", reachable(address)),
            has_well_known_key: server.has_well_known_key,
        });
    }
    observers.health.begin_serving(server.engine.clone());
}

/// The open port for clients.
enum ClientPort {
    /// That of a node, which has served requests already.
    OfNode(Box<ServerPort>),
    /// That of a server with its own data.
    Opened(Vec<TcpListener>),
}

impl ClientPort {
    async fn open(config: &ServerConfig, node: Option<ServerPort>) -> Result<ClientPort, Failure> {
        if let Some(node) = node {
            return Ok(ClientPort::OfNode(Box::new(node)));
        }
        let listeners = listen(&config.clients.listen, config.clients.takes_free_port).await;
        let mut listeners =
            listeners.map_err(|(wanted, error)| cannot_listen(config, wanted, &error))?;
        // The second port has the same services: its address is that of the frames.
        if let Some(port) = config.clients.direct.port {
            let wanted: Vec<Listen> = config
                .clients
                .listen
                .iter()
                .map(|at| at.with_port(port))
                .collect();
            let opened = listen(&wanted, false).await;
            let opened = opened.map_err(|(wanted, error)| {
                let remedy = "choose another port with --direct (ORRERY_DIRECT)";
                cannot_listen_for(wanted, "the direct mode", &error, remedy)
            })?;
            listeners.extend(opened);
        }
        Ok(ClientPort::Opened(listeners))
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            ClientPort::OfNode(node) => node.addresses.clone(),
            ClientPort::Opened(listeners) => {
                let addresses = listeners.iter().filter_map(|one| one.local_addr().ok());
                addresses.collect()
            }
        }
    }
}

/// Starts the periodic tasks of a server.
fn start_tasks(server: &Server, config: &ServerConfig) -> Vec<JoinHandle<()>> {
    let context = &server.context;
    let mut tasks = background::start(&server.engine, context);
    tasks.push(write_watch::start(&server.engine, context));
    if let (Some(backups), Some(config)) =
        (&server.continuous_backup, &config.data.continuous_backup)
    {
        tasks.push(continuous_backup::start(backups, config, context));
    }
    if config.fleet.as_ref().is_some_and(|fleet| fleet.balances) {
        tasks.push(background::balance(components(server), context));
    }
    tasks
}

/// Returns the service of the port for clients.
fn client_service(server: &Server, config: &ServerConfig, observers: &Observers) -> ClientService {
    let console = observers.admin.as_ref().and_then(AdminServer::console);
    let console = console.cloned();
    let stands_in_for_console = console.is_none() && config.emulator.is_some();
    let service = WithConsole::new(server.gateway.clone(), console, Base::Explorer);
    PublicPaths {
        inner: Arc::new(service),
        health: observers.health.clone(),
        certificate: server.context.tls.chain_pem.as_bytes().to_vec().into(),
        stands_in_for_console,
    }
}

/// Returns the port for clients.
fn client_port(
    server: &Server,
    config: &ServerConfig,
    service: ClientService,
) -> Port<ClientService> {
    Port {
        service: Arc::new(service),
        tls: Some(server.context.tls.config.clone()),
        limits: connection_limits(config, &server.context),
        patience: Patience::default(),
        spin: config.clients.spin,
        drain: DRAIN_TIMEOUT,
        direct: match config.clients.direct.addresses {
            DirectMode::Off => None,
            _ => Some(server.gateway.clone()),
        },
    }
}

/// Returns a port that serves this process alone, before the port for clients is open.
fn private_port(server: &Server) -> Port<Gateway> {
    Port {
        service: server.gateway.clone(),
        tls: None,
        limits: ConnectionLimits {
            total: 64,
            per_address: 64,
        },
        patience: Patience::default(),
        spin: Duration::ZERO,
        drain: DRAIN_TIMEOUT,
        direct: None,
    }
}
