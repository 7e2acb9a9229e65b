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
use crate::address::{listen, reachable};
use crate::admin::AdminServer;
use crate::announce::Announcement;
use crate::background;
use crate::command::StartArguments;
use crate::context::ServerContext;
use crate::definition;
use crate::engine::open_engine;
use crate::entra;
use crate::failure::Failure;
use crate::keys;
use crate::memory::Memory;
use crate::private_file;
use crate::signals::{self, KeyReloader};
use crate::write_watch;
use orrery_admin::Components;
use orrery_console::{Base, Database, WithConsole};
use orrery_engine::Engine;
use orrery_gateway::{ConnectionLimits, Field, Gateway, LogLevel, Options, Patience, Port, serve};
use orrery_model::world::ShiftedWorld;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Time that requests in progress get to finish after a signal to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A server whose data is open.
struct Server {
    context: ServerContext,
    engine: Arc<Engine>,
    gateway: Arc<Gateway>,
    /// Clock of the data, which the management API can move forward.
    clock: Arc<ShiftedWorld>,
    /// Primary key of the account, for the announcement.
    primary_key: String,
    /// True if one of the account keys is the well-known key of the emulator.
    has_well_known_key: bool,
}

/// Runs a server until SIGTERM or Ctrl-C.
///
/// # Errors
/// See [`Failure`], which also gives the exit code.
pub(crate) fn run(arguments: StartArguments) -> Result<(), Failure> {
    let ready_json = arguments.ready_json;
    let announce = |announcement: &Announcement<'_>| {
        announcement
            .write(ready_json)
            .map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
    };
    let stopped = || signals::shutdown().map_err(cannot_catch);
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
    let server = runtime.block_on(run_server(arguments, stopped, ready))?;

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

/// Runs the steps in the header of this file, except for the shutdown of the engine.
async fn run_server<S: Future<Output = ()>>(
    arguments: StartArguments,
    stopped: impl FnOnce() -> Result<S, Failure>,
    ready: impl FnOnce(&Announcement<'_>) -> Result<(), Failure>,
) -> Result<Server, Failure> {
    // A wrong definition ends the start before any file is created.
    let definition = definition::read(arguments.init.as_deref())?;
    let context = ServerContext::new(&arguments)?;
    let admin = AdminServer::start(&arguments, &context).await?;

    // Opening the data reads and writes files for a long time. It runs on a thread for blocking
    // work, because the management API needs the worker threads in the meantime.
    let arguments = Arc::new(arguments);
    let opening = {
        let arguments = arguments.clone();
        tokio::task::spawn_blocking(move || open_server(&arguments, context))
    };
    let server = opening
        .await
        .map_err(|error| Failure::Failed(format!("opening the data failed: {error}")))??;

    // Health checks and the announcement tell that the server is ready, so the definition is
    // applied before both.
    if let Some(definition) = definition {
        let port = private_port(&server);
        let applied =
            definition::apply(port, &server.primary_key, definition, arguments.init_mode).await;
        for line in applied? {
            server.context.log(LogLevel::Info, &line);
        }
    }
    if let Some(admin) = &admin {
        admin.begin_serving(Components {
            engine: server.engine.clone(),
            gateway: server.gateway.clone(),
            clock: server.clock.clone(),
            data_dir: server.context.data_dir.clone(),
            started: server.context.started,
        });
    }
    serve_clients(&server, &arguments, admin.as_ref(), stopped, ready).await?;
    if let Some(admin) = admin {
        admin.stop().await;
    }
    Ok(server)
}

/// Reads the keys, opens the data and creates the gateway.
fn open_server(arguments: &StartArguments, context: ServerContext) -> Result<Server, Failure> {
    // The rest of the configuration is checked first, because opening the data may take long and
    // creates files.
    let account_keys = keys::load(arguments.key_file.as_deref(), arguments.listen.ip())?;
    warn_of_readable_keys(arguments, &context);
    let account = account(arguments)?;
    let directory = entra::directory(arguments)?;

    // The management API may move the clock of the data. Signatures, tokens and log lines need the
    // real time and therefore use the clock of the context.
    let clock = Arc::new(ShiftedWorld::new(context.world.clone()));
    let memory = Memory::new(arguments.memory_limit);
    context.log(LogLevel::Info, &memory.description());
    let engine = open_engine(arguments, &context, &memory, clock.clone())?;
    report_damage(&engine, &context);
    let gateway = Arc::new(Gateway::new(
        engine.clone(),
        Options {
            keys: account_keys.keys,
            directory,
            account,
            world: context.world.clone(),
            log: context.log.clone(),
            memory: memory.bodies.clone(),
        },
    ));
    Ok(Server {
        context,
        engine,
        gateway,
        clock,
        primary_key: account_keys.primary,
        has_well_known_key: account_keys.has_well_known_key,
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

/// Listens on the client port and serves requests until the server is told to stop.
async fn serve_clients<S: Future<Output = ()>>(
    server: &Server,
    arguments: &StartArguments,
    admin: Option<&AdminServer>,
    stopped: impl FnOnce() -> Result<S, Failure>,
    ready: impl FnOnce(&Announcement<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let context = &server.context;
    let wanted = arguments.listen;
    let cannot_listen =
        |error: io::Error| Failure::Failed(format!("cannot listen on {wanted}: {error}"));
    let listener = listen(wanted, arguments.takes_free_port).await;
    let listener = listener.map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;

    // The signal handlers must be installed before the announcement: a supervisor may send a
    // signal as soon as the server is ready, and an uncaught signal would kill the process.
    let stopped = stopped()?;
    let reloader = KeyReloader {
        gateway: server.gateway.clone(),
        key_file: arguments.key_file.clone(),
        listen: wanted.ip(),
        context: context.clone(),
    };
    let reloading = reloader.start().map_err(cannot_catch)?;

    // The port is open, so the system queues the connections of clients that react to the
    // announcement at once. Nothing after the announcement can fail.
    if let Some(admin) = admin {
        admin.begin_console(Database {
            gateway: server.gateway.clone(),
            endpoint: format!("http://{}/", reachable(address)),
            has_well_known_key: server.has_well_known_key,
        });
    }
    let announcement = Announcement {
        address,
        primary_key: &server.primary_key,
        has_well_known_key: server.has_well_known_key,
        data_dir: context.data_dir.as_deref(),
        admin,
    };
    ready(&announcement)?;

    // Periodic tasks start after the announcement, so that they do not delay it.
    let mut tasks = background::start(&server.engine, context);
    tasks.push(write_watch::start(&server.engine, context));

    // Load balancers poll the readiness, so it must change before the port closes.
    let shutdown = async {
        stopped.await;
        if let Some(admin) = admin {
            admin.begin_draining();
        }
    };
    let port = client_port(server, arguments, admin);
    let all_finished = serve(port, listener, shutdown).await;

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

/// Returns the failure of a signal handler.
pub(crate) fn cannot_catch(error: io::Error) -> Failure {
    Failure::Failed(format!("cannot install a signal handler: {error}"))
}

/// Returns the port for clients.
fn client_port(
    server: &Server,
    arguments: &StartArguments,
    admin: Option<&AdminServer>,
) -> Port<WithConsole<Gateway>> {
    let console = admin.and_then(AdminServer::console).cloned();
    let service = WithConsole::new(server.gateway.clone(), console, Base::Explorer);
    Port {
        service: Arc::new(service),
        tls: Some(server.context.tls.clone()),
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
fn connection_limits(arguments: &StartArguments, context: &ServerContext) -> ConnectionLimits {
    let total = context.descriptors.connections;
    let per_address = arguments.max_connections_per_address;
    ConnectionLimits {
        total,
        per_address: per_address.unwrap_or(total.div_ceil(2)).min(total),
    }
}
