//! `orrery start`: the life of a server, from its arguments to its exit.
//!
//! [`run`] announces the server on standard output and stops it at a signal. [`run_inside`] is for
//! a command that needs a server in its own process: the command hears when the server is ready,
//! and stops it.
//!
//! 1. [`ServerContext::new`] prepares everything that does not need the data: the data directory,
//!    the certificate, the clock and the log.
//! 2. The management API begins to listen. Opening the data can take long after a crash, and a
//!    health check must be able to tell a server that is recovering from one that is dead.
//! 3. [`open_server`] reads the keys, opens the data and creates the gateway.
//! 4. [`serve_clients`] listens on the client port, tells that the server is ready, and serves
//!    requests until it is told to stop.
//! 5. Requests in progress get ten seconds to finish. The management API stops after them, so that
//!    it can report the shutdown. The engine shuts down last.
//!
//! Standard output of `orrery start` carries the announcement and nothing else; the log goes to
//! standard error.

use crate::account::account;
use crate::address::{listen, reachable, reachable_by_others};
use crate::admin::AdminServer;
use crate::announce::Announcement;
use crate::background;
use crate::certificate;
use crate::clusters::{self, Clusters};
use crate::command::{Balance, StartArguments};
use crate::context::ServerContext;
use crate::definition;
use crate::engine::open_engine;
use crate::entra;
use crate::failure::Failure;
use crate::health::{Health, HealthPort};
use crate::keys;
use crate::memory::Memory;
use crate::node::{ClientService, NodePort, Seat};
use crate::notify;
use crate::private_file;
use crate::public_file;
use crate::public_paths::PublicPaths;
use crate::signals::{self, KeyReloader};
use crate::telemetry::Telemetry;
use crate::write_watch;
use orrery_admin::Components;
use orrery_console::{Base, Database, WithConsole};
use orrery_engine::Engine;
use orrery_gateway::{
    ConnectionCounters, ConnectionLimits, Field, Gateway, LogLevel, Options, Patience, Port,
    SlowRequests, serve,
};
use orrery_model::world::ShiftedWorld;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle};

/// Time that requests in progress get to finish after a signal to stop.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A server whose data is open.
struct Server {
    context: ServerContext,
    engine: Arc<Engine>,
    gateway: Arc<Gateway>,
    /// Clusters with the data, if a data directory has it not. Dropped after the engine has shut
    /// down, so that the next node finds everything.
    clusters: Option<Clusters>,
    /// Clock of the data, which the management API can move forward.
    clock: Arc<ShiftedWorld>,
    /// Primary key of the account, for the announcement.
    primary_key: String,
    /// True if one of the account keys is the well-known key of the emulator.
    has_well_known_key: bool,
    /// Export by OpenTelemetry, until it runs.
    telemetry: Telemetry,
}

/// The parts that tell others the state of the server.
struct Observers<'a> {
    admin: Option<&'a AdminServer>,
    health: Arc<Health>,
    health_port: Option<HealthPort>,
}

impl Observers<'_> {
    fn health_address(&self) -> Option<SocketAddr> {
        self.health_port.as_ref().map(|port| port.address)
    }

    /// Tells that the server is not ready any more.
    fn begin_draining(&self) {
        self.health.begin_draining();
        if let Some(admin) = self.admin {
            admin.begin_draining();
        }
    }

    async fn stop_health_port(self) {
        if let Some(port) = self.health_port {
            port.stop().await;
        }
    }
}

/// Runs a server until SIGTERM or Ctrl-C.
///
/// # Errors
/// See [`Failure`], which also gives the exit code.
pub(crate) fn run(arguments: StartArguments) -> Result<(), Failure> {
    let ready_json = arguments.ready_json;
    let announce = |announcement: &Announcement<'_>| -> Result<(), Failure> {
        let written = announcement.write(ready_json);
        written.map_err(|error| {
            Failure::Failed(format!("cannot write to standard output: {error}"))
        })?;
        notify::ready();
        notify::start_watchdog();
        Ok(())
    };
    let stopped = || -> Result<_, Failure> {
        let signal = signals::shutdown().map_err(cannot_catch)?;
        Ok(async {
            signal.await;
            notify::stopping();
        })
    };
    run_inside(arguments, stopped, announce)
}

/// Runs a server until the future that `stopped` returns completes. `stopped` is called in the
/// runtime of the server, before `ready`; `ready` is called when the server accepts requests.
///
/// # Errors
/// See [`Failure`]; the errors of `stopped` and `ready` end the server.
pub(crate) fn run_inside<S: Future<Output = ()>>(
    arguments: StartArguments,
    stopped: impl FnOnce() -> Result<S, Failure>,
    ready: impl FnOnce(&Announcement<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Before any file is created: the tables of the store get their permissions from here.
    private_file::restrict_new_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))?;
    let Some(server) = runtime.block_on(run_server(arguments, stopped, ready))? else {
        // A node that was stopped while another one served.
        runtime.shutdown_background();
        return Ok(());
    };

    // Scripts and queries that outlived the shutdown period may still run on the threads for
    // blocking work. Dropping the runtime would wait for them; this call does not. They can be
    // abandoned: a transaction takes effect completely or not at all, and the connections that
    // waited for a response are closed.
    runtime.shutdown_background();

    // The shutdown of the engine waits until all accepted writes are durable, so it comes after the
    // end of everything that serves requests.
    server
        .engine
        .shut_down()
        .map_err(|error| Failure::Failed(format!("cannot close the data: {error}")))?;
    server.context.log(LogLevel::Info, "server stopped");
    Ok(())
}

/// Runs the steps in the header of this file, except for the shutdown of the engine. Returns `None`
/// if the server was a node and was stopped while another node served.
async fn run_server<S: Future<Output = ()>>(
    arguments: StartArguments,
    stopped: impl FnOnce() -> Result<S, Failure>,
    ready: impl FnOnce(&Announcement<'_>) -> Result<(), Failure>,
) -> Result<Option<Server>, Failure> {
    // Wrong options, a wrong cluster file and a wrong definition end the start before any file is
    // created.
    clusters::check(&arguments)?;
    let definition = definition::of_server(&arguments)?;
    let telemetry = Telemetry::read(&arguments)?;
    let context = ServerContext::new(&arguments)?;
    if let Some(file) = &arguments.config {
        let message = format!("settings read from {}", file.display());
        context.log(LogLevel::Info, &message);
    }
    log_notes(&arguments, &context);
    let health = Arc::new(Health::new(&context));
    write_certificate(&arguments, &context)?;
    let health_port = HealthPort::start(&arguments, &context, &health).await?;
    let admin = AdminServer::start(&arguments, &context).await?;
    // Other nodes may serve for long, and this one sends requests on to them meanwhile.
    let node_port = NodePort::open(&arguments, &context, &health).await?;
    let observers = Observers {
        admin: admin.as_ref(),
        health,
        health_port,
    };

    // Opening the data reads and writes files for a long time. It runs on a thread for blocking
    // work, because the management API needs the worker threads in the meantime.
    let arguments = Arc::new(arguments);
    let opening = {
        let (arguments, context) = (arguments.clone(), context.clone());
        let seat = node_port
            .as_ref()
            .map(|node| (node.seat.clone(), node.connections()));
        tokio::task::spawn_blocking(move || open_server(&arguments, context, telemetry, seat))
    };
    let opened = match &node_port {
        None => {
            let server = joined(opening.await)?;
            let stopped = Box::pin(stopped()?);
            server.map(|server| (server, stopped, Some(ready)))
        }
        Some(node) => {
            let mut stopped = Box::pin(stopped()?);
            let forwarding = Forwarding {
                arguments: &arguments,
                context: &context,
                observers: &observers,
                node,
            };
            match forwarding
                .until_open(opening, stopped.as_mut(), ready)
                .await?
            {
                Opened::Serving(server, ready) => Some((server, stopped, ready)),
                Opened::Stopped(server) => {
                    if let Some(node) = node_port {
                        node.close().await;
                    }
                    observers.stop_health_port().await;
                    return Ok(server);
                }
            }
        }
    };
    let Some((mut server, stopped, ready)) = opened else {
        return Ok(None);
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
    if let Some(admin) = &admin {
        admin.begin_serving(components(&server));
    }
    serve_clients(&server, &arguments, &observers, node_port, stopped, ready).await?;
    observers.stop_health_port().await;
    if let Some(admin) = admin {
        admin.stop().await;
    }
    // The spans of the last requests are in the queue, and the metrics read the engine.
    if let Some(exporter) = exporter {
        exporter.stop().await;
    }
    Ok(Some(server))
}

/// Returns the parts that the management API and the export of metrics read.
fn components(server: &Server) -> Components {
    Components {
        engine: server.engine.clone(),
        gateway: server.gateway.clone(),
        clock: server.clock.clone(),
        data_dir: server.context.data_dir.clone(),
        placement: server
            .clusters
            .as_ref()
            .map(|clusters| clusters.placed.clone()),
        holds_lease: server.clusters.as_ref().map(Clusters::holds_lease),
        started: server.context.started,
    }
}

/// Writes the effects of variables of the emulator to the log.
fn log_notes(arguments: &StartArguments, context: &ServerContext) {
    let notes = arguments
        .emulator
        .iter()
        .flat_map(|emulator| &emulator.notes);
    for (level, note) in notes {
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
fn write_certificate(arguments: &StartArguments, context: &ServerContext) -> Result<(), Failure> {
    let Some(emulator) = &arguments.emulator else {
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

/// Reads the keys, opens the data and creates the gateway. A node has a seat; it waits while another
/// node holds the lease, and `None` is returned if the wait was cancelled.
fn open_server(
    arguments: &StartArguments,
    context: ServerContext,
    mut telemetry: Telemetry,
    seat: Option<(Arc<Seat>, Arc<ConnectionCounters>)>,
) -> Result<Option<Server>, Failure> {
    // The rest of the configuration is checked first, because opening the data may take long and
    // creates files.
    let account_keys = keys::of_server(arguments)?;
    warn_of_readable_keys(arguments, &context);
    let account = account(arguments)?;
    let directory = entra::directory(arguments)?;

    // The management API may move the clock of the data. Signatures, tokens and log lines need the
    // real time and therefore use the clock of the context.
    let clock = Arc::new(ShiftedWorld::new(context.world.clone()));
    let memory = Memory::new(arguments.memory_limit);
    context.log(LogLevel::Info, &memory.description());
    let mut clusters = None;
    if let (Some(file), Some((seat, _))) = (&arguments.cluster_file, &seat) {
        clusters = Clusters::open(file, seat, &context)?;
        if clusters.is_none() {
            return Ok(None);
        }
    }
    let engine = open_engine(
        arguments,
        &context,
        &memory,
        clusters.as_ref(),
        clock.clone(),
    )?;
    report_damage(&engine, &context);
    let gateway = Gateway::behind(
        seat.map(|(_, connections)| connections).unwrap_or_default(),
        engine.clone(),
        Options {
            keys: account_keys.keys,
            directory,
            account,
            world: context.world.clone(),
            log: context.log.clone(),
            memory: memory.bodies.clone(),
        },
    );
    let gateway = gateway
        .reporting_slow(slow_requests(arguments))
        .recording_spans(telemetry.recorder());
    let gateway = match clusters {
        Some(_) => gateway.with_remote_store(),
        None => gateway,
    };
    let gateway = Arc::new(gateway);
    Ok(Some(Server {
        context,
        engine,
        gateway,
        clusters,
        clock,
        primary_key: account_keys.primary,
        has_well_known_key: account_keys.has_well_known_key,
        telemetry,
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

/// A node whose data is not open yet.
struct Forwarding<'a> {
    arguments: &'a StartArguments,
    context: &'a ServerContext,
    observers: &'a Observers<'a>,
    node: &'a NodePort,
}

/// The end of the wait for the lease.
enum Opened<R> {
    /// The data is open. The announcement is to be made, unless it was made already.
    Serving(Server, Option<R>),
    /// The node was told to stop. The data may have been opened at the last moment.
    Stopped(Option<Server>),
}

impl Forwarding<'_> {
    /// Waits until the data is open. Announces the node as ready when another node holds the
    /// lease, since requests are sent on to that node.
    async fn until_open<
        S: Future<Output = ()>,
        R: FnOnce(&Announcement<'_>) -> Result<(), Failure>,
    >(
        &self,
        mut opening: JoinHandle<Result<Option<Server>, Failure>>,
        mut stopped: Pin<&mut S>,
        ready: R,
    ) -> Result<Opened<R>, Failure> {
        let mut ready = Some(ready);
        loop {
            tokio::select! {
                biased;
                opened = &mut opening => {
                    return Ok(match joined(opened)? {
                        Some(server) => Opened::Serving(server, ready),
                        None => Opened::Stopped(None),
                    });
                }
                () = &mut stopped => {
                    self.node.cancel();
                    self.observers.begin_draining();
                    return Ok(Opened::Stopped(joined(opening.await)?));
                }
                () = self.node.has_holder(), if ready.is_some() => {
                    self.observers.health.begin_forwarding();
                    if let Some(ready) = ready.take() {
                        let keys = keys::of_server(self.arguments)?;
                        let address = *self.node.addresses.first().ok_or_else(no_address)?;
                        ready(&Announcement {
                            address,
                            addresses: self.node.addresses.clone(),
                            health: self.observers.health_address(),
                            primary_key: &keys.primary,
                            has_well_known_key: keys.has_well_known_key,
                            data_dir: self.context.data_dir.as_deref(),
                            admin: self.observers.admin,
                        })?;
                    }
                }
            }
        }
    }
}

fn no_address() -> Failure {
    Failure::Failed("the client port has no address".to_owned())
}

/// Returns the settings of the slow-request log; `None` if it is switched off.
fn slow_requests(arguments: &StartArguments) -> Option<SlowRequests> {
    (arguments.slow_request_ms > 0).then(|| SlowRequests {
        min_microseconds: u64::from(arguments.slow_request_ms) * 1000,
        shows_values: arguments.log_parameters,
    })
}

/// Warns of every file with a key that users other than its owner may read.
fn warn_of_readable_keys(arguments: &StartArguments, context: &ServerContext) {
    let files = [
        arguments.key_file.clone(),
        arguments.admin_key_file.clone(),
        arguments.tls_key.clone(),
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

/// Returns the part of a server that reads the key file again.
fn key_reloader(server: &Server, arguments: &StartArguments) -> KeyReloader {
    KeyReloader {
        gateway: server.gateway.clone(),
        key_file: arguments.key_file.clone(),
        reachable_by_others: match arguments.emulator {
            Some(_) => None,
            None => reachable_by_others(&arguments.listen),
        },
        context: server.context.clone(),
    }
}

/// Listens on the client port, unless a node has opened the port already, and serves requests until
/// `stopped` completes. `ready` is there unless the announcement was made already.
async fn serve_clients<S: Future<Output = ()>>(
    server: &Server,
    arguments: &StartArguments,
    observers: &Observers<'_>,
    node: Option<NodePort>,
    stopped: Pin<Box<S>>,
    ready: Option<impl FnOnce(&Announcement<'_>) -> Result<(), Failure>>,
) -> Result<(), Failure> {
    let context = &server.context;
    let admin = observers.admin;
    let mut listeners = Vec::new();
    let addresses: Vec<SocketAddr> = match &node {
        Some(node) => node.addresses.clone(),
        None => {
            let opened = listen(&arguments.listen, arguments.takes_free_port).await;
            listeners = opened.map_err(|(wanted, error)| cannot_listen(&wanted, &error))?;
            listeners
                .iter()
                .filter_map(|one| one.local_addr().ok())
                .collect()
        }
    };
    let address = *addresses.first().ok_or_else(no_address)?;

    // The signal handlers are installed before the announcement: a supervisor may send a signal as
    // soon as the server is ready, and an uncaught signal would kill the process.
    let reloading = key_reloader(server, arguments)
        .start()
        .map_err(cannot_catch)?;

    // The port is open, so the system queues the connections of clients that react to the
    // announcement at once. Nothing after the announcement can fail.
    if let Some(admin) = admin {
        admin.begin_console(Database {
            gateway: server.gateway.clone(),
            endpoint: format!("http://{}/", reachable(address)),
            has_well_known_key: server.has_well_known_key,
        });
    }
    observers.health.begin_serving(server.engine.clone());
    let announcement = Announcement {
        address,
        addresses,
        health: observers.health_address(),
        primary_key: &server.primary_key,
        has_well_known_key: server.has_well_known_key,
        data_dir: context.data_dir.as_deref(),
        admin,
    };
    if let Some(ready) = ready {
        ready(&announcement)?;
    }

    // Periodic tasks start after the announcement, so that they do not delay it.
    let tasks = start_tasks(server, arguments);

    // Load balancers poll the readiness, so it must change before the port closes.
    let shutdown = async {
        stopped.await;
        observers.begin_draining();
    };
    let service = client_service(server, arguments, observers);
    let all_finished = match (node, &server.clusters) {
        (Some(node), Some(clusters)) => {
            node.begin_serving(service, clusters.key());
            shutdown.await;
            node.close().await
        }
        _ => serve(client_port(server, arguments, service), listeners, shutdown).await,
    };

    // No task may begin new work once the caller shuts the engine down.
    for task in tasks.iter().chain(&reloading) {
        task.abort();
    }
    if !all_finished {
        context.log(
            LogLevel::Warn,
            "requests still in progress at the end of the shutdown period were aborted",
        );
    }
    Ok(())
}

/// Starts the periodic tasks of a server.
fn start_tasks(server: &Server, arguments: &StartArguments) -> Vec<JoinHandle<()>> {
    let context = &server.context;
    let mut tasks = background::start(&server.engine, context);
    tasks.push(write_watch::start(&server.engine, context));
    if arguments.balance == Balance::On {
        tasks.push(background::balance(components(server), context));
    }
    tasks
}

pub(crate) fn cannot_listen(wanted: &dyn fmt::Display, error: &io::Error) -> Failure {
    Failure::Failed(format!("cannot listen on {wanted}: {error}"))
}

/// Returns the failure of a signal handler.
pub(crate) fn cannot_catch(error: io::Error) -> Failure {
    Failure::Failed(format!("cannot install a signal handler: {error}"))
}

/// Returns the service of the port for clients.
fn client_service(
    server: &Server,
    arguments: &StartArguments,
    observers: &Observers<'_>,
) -> ClientService {
    let console = observers.admin.and_then(AdminServer::console).cloned();
    let stands_in_for_console = console.is_none() && arguments.emulator.is_some();
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
    arguments: &StartArguments,
    service: ClientService,
) -> Port<ClientService> {
    Port {
        service: Arc::new(service),
        tls: Some(server.context.tls.config.clone()),
        limits: connection_limits(arguments, &server.context),
        patience: Patience::default(),
        spin: Duration::from_micros(arguments.spin),
        drain: DRAIN_TIMEOUT,
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
    }
}

/// Returns the limits of the clients' connections.
///
/// One address may have half of all connections: clients behind a proxy share its address, and the
/// other half stays for others. A client that opens more gives up its own idle connections first.
pub(crate) fn connection_limits(
    arguments: &StartArguments,
    context: &ServerContext,
) -> ConnectionLimits {
    let total = context.descriptors.connections;
    let per_address = arguments.max_connections_per_address;
    ConnectionLimits {
        total,
        per_address: per_address.unwrap_or(total.div_ceil(2)).min(total),
    }
}
