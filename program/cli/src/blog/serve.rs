//! A blog that is served: its database, its data, its pipelines and its application.
//!
//! 1. The server starts, unless `--endpoint` names another one.
//! 2. The port of the application is opened: a port that is in use must not be found only after a
//!    long fill.
//! 3. The data of a new blog is created; see `filling`.
//! 4. Pipelines and application start, and the announcement is written.
//! 5. At SIGTERM or Ctrl-C, also during the fill, all parts stop in reverse order: the application
//!    finishes its requests, the pipelines release their leases, the server closes its data.

use super::pipelines::Workers;
use super::place::{Place, PlaceFile, account_at};
use super::port::{self, DRAIN_TIMEOUT};
use super::report::Report;
use super::{CONNECTIONS, DIRECTORY, failure, filling, runtime};
use crate::command::{AdminListen, KeyArguments, ServeArguments, StartArguments};
use crate::server_inside::{Facts, ServerInside};
use crate::signals;
use orrery_blog::Site;
use orrery_blog::dataset::Dataset;
use orrery_blog::lesson::lab::{self, LabOptions};
use orrery_console::LinkedBlog;
use orrery_engine::DatabaseLimits;
use orrery_gateway::{Log, LogFormat, serve as serve_port};
use orrery_server::address::{Listen, cannot_listen, reachable};
use orrery_server::config::ServerConfig;
use orrery_server::{Failure, SystemWorld, data_dir, descriptors};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Default port of the database.
const DATABASE_PORT: u16 = 8081;
/// Default port of the management API.
const ADMIN_PORT: u16 = 8082;
/// The limits of the lab's database in bytes: small enough to be met within seconds, and in the
/// proportion of the service's 20 GB and 50 GB.
const LAB_LOGICAL_PARTITION_BYTES: u64 = 4 << 20;
const LAB_PARTITION_BYTES: u64 = 10 << 20;

/// Serves a blog until SIGTERM or Ctrl-C.
///
/// # Errors
/// See [`Failure`], which also gives the exit code.
pub(super) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    // A scale out of range is reported before any file is created.
    if let Some(scale) = arguments.scale {
        Dataset::new(0, scale).map_err(failure)?;
    }
    let runtime = runtime()?;
    let server = match &arguments.endpoint {
        Some(_) => None,
        None => Some(ServerInside::start(server_config(arguments)?)?),
    };
    let facts = server.as_ref().map(|server| server.facts.clone());
    let served = runtime.block_on(serve(arguments, facts.as_ref()));
    // Tasks that outlived their shutdown period must not hold up the server.
    runtime.shutdown_background();
    let stopped = match server {
        Some(server) => server.stop(),
        None => Ok(()),
    };
    served.and(stopped)
}

/// Returns the configuration of the server in this process.
fn server_config(arguments: &ServeArguments) -> Result<ServerConfig, Failure> {
    let mut config = StartArguments::defaults()
        .map_err(Failure::Usage)?
        .into_config()?;
    let data_dir = match arguments.memory {
        true => None,
        false => Some(data_dir::locate(arguments.data_dir.as_deref(), DIRECTORY)?),
    };
    config.data.directory = data_dir;
    config.data.in_memory = arguments.memory;
    config.clients.listen = vec![
        arguments
            .database_listen
            .unwrap_or(Listen::At(database_default())),
    ];
    config.clients.listen_option = "--database-listen";
    config.clients.takes_free_port = arguments.database_listen.is_none();
    // The connections of visitors, and both ends of those of the application.
    config.clients.reserved_descriptors = descriptors::for_visitors() + 2 * CONNECTIONS;
    config.admin.listen = match arguments.admin_listen {
        Some(AdminListen::Off) => None,
        Some(AdminListen::At(listen)) => Some(listen),
        None => Some(Listen::At(admin_default())),
    };
    config.admin.takes_free_port = arguments.admin_listen.is_none();
    config.account.key_file = arguments.key_file.clone();
    config.engine.profile = arguments.profile.into();
    config.engine.throughput.enforce = true;
    config.engine.logical_partition_bytes = arguments.logical_partition_limit.0;
    config.engine.physical_partition_bytes = arguments.physical_partition_limit.0;
    config.engine.database_limits = vec![lab_limits(arguments)];
    config.log.level = arguments.log_level.into();
    Ok(config)
}

/// Returns the limits of the lab's database: those of the lab, or lower ones of the command line.
fn lab_limits(arguments: &ServeArguments) -> DatabaseLimits {
    let logical = arguments.logical_partition_limit.0;
    let physical = arguments.physical_partition_limit.0;
    DatabaseLimits {
        database: lab::database(&arguments.database),
        logical_partition_bytes: logical.min(LAB_LOGICAL_PARTITION_BYTES),
        partition_bytes: physical.min(LAB_PARTITION_BYTES),
    }
}

fn database_default() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, DATABASE_PORT))
}

fn admin_default() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT))
}

/// Runs all parts but the server.
async fn serve(arguments: &ServeArguments, server: Option<&Facts>) -> Result<(), Failure> {
    let place = place_of(arguments, server)?;
    let mut stopped = pin!(signals::shutdown()?);
    let listener = listen(arguments.listen.first()).await?;
    let opened = tokio::select! {
        opened = filling::open(arguments, place.client()?) => opened?,
        () = &mut stopped => {
            // If standard error is closed, the exit code alone reports the end.
            let _ = writeln!(io::stderr(), "orrery: stopped; the next start continues the fill");
            return Ok(());
        }
    };
    let site = opened;
    let file = match server.and_then(|facts| facts.data_dir.as_deref()) {
        Some(directory) => Some(PlaceFile::write(directory, &place)?),
        None => None,
    };
    let workers = Workers::start(&site, arguments.workers);
    let options = orrery_blog_web::Options {
        // Without a password anyone could sign in as anyone: on this machine only.
        demo: arguments.listen.is_loopback(),
        pipelines: workers.first(),
        lab: lab_options(arguments, server.is_some()),
        measures: server.is_some() || is_on_this_machine(&place.endpoint),
        // A console elsewhere has an address that this program does not know.
        console: server.and_then(Facts::console_base),
        proxies: arguments.proxies.clone(),
    };
    let log = Log::new(arguments.log_level.into(), LogFormat::Text, io::stderr());
    let application = Serving::start(&site, listener, options, Arc::new(log))?;
    if let Some(console) = server.and_then(|facts| facts.console_service.as_ref()) {
        console.link_blog(LinkedBlog {
            address: application.url.clone(),
            prefix: arguments.database.clone(),
        });
    }
    let report = Report {
        application: application.url.clone(),
        place: &place,
        server,
        replaced_ports: replaced_ports(arguments, server),
        home: site.home(),
        models: site.models(),
        workers: arguments.workers,
    };
    let result = match report.write(arguments.ready_json) {
        Ok(()) => application.run_until(stopped).await,
        Err(failure) => Err(failure),
    };
    drop(file);
    workers.stop().await;
    result
}

/// Returns the facts about the server that the lab needs: the limits of its database on a server of
/// this process.
fn lab_options(arguments: &ServeArguments, is_own_server: bool) -> LabOptions {
    let mut options = LabOptions::default();
    if is_own_server {
        let limits = lab_limits(arguments);
        options.logical_partition_limit = Some(limits.logical_partition_bytes);
        options.physical_partition_limit = Some(limits.partition_bytes);
    }
    options
}

/// Returns true for an endpoint of this machine. Another server may charge for what is measured
/// without a person's order, and for the databases of the measured writes.
fn is_on_this_machine(endpoint: &str) -> bool {
    let host = endpoint.split("://").nth(1).unwrap_or_default();
    ["127.0.0.1:", "localhost:", "[::1]:"]
        .iter()
        .any(|local| host.starts_with(local))
}

/// Returns the place of the database.
fn place_of(arguments: &ServeArguments, server: Option<&Facts>) -> Result<Place, Failure> {
    let (endpoint, key) = match (server, &arguments.endpoint) {
        (Some(facts), _) => (facts.endpoint(), facts.key.clone()),
        (None, endpoint) => {
            // The key of the command line comes before a file that the environment names.
            let key = KeyArguments {
                key: arguments.key.clone(),
                key_file: match arguments.key {
                    Some(_) => None,
                    None => arguments.key_file.clone(),
                },
            };
            account_at(endpoint.as_deref().unwrap_or_default(), &key)?
        }
    };
    Ok(Place {
        endpoint,
        key,
        database: arguments.database.clone(),
        throughput: filling::throughput_of(arguments),
    })
}

/// Returns the default ports that were in use.
fn replaced_ports(
    arguments: &ServeArguments,
    server: Option<&Facts>,
) -> Vec<(&'static str, SocketAddr)> {
    let mut replaced = Vec::new();
    let Some(facts) = server else {
        return replaced;
    };
    if arguments.database_listen.is_none() && facts.address != database_default() {
        replaced.push(("database", database_default()));
    }
    if let Some((endpoint, _, _)) = &facts.admin
        && arguments.admin_listen.is_none()
        && *endpoint != format!("http://{}/", admin_default())
    {
        replaced.push(("management API", admin_default()));
    }
    replaced
}

/// Opens the port of the application.
async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let remedy = "choose another port with --listen (ORRERY_BLOG_LISTEN)";
        cannot_listen(Listen::At(address), "the application", &error, remedy)
    })
}

/// The application while it is served.
struct Serving {
    url: String,
    stop: oneshot::Sender<()>,
    /// True at its end if all requests in progress have finished.
    task: tokio::task::JoinHandle<bool>,
}

impl Serving {
    /// Starts to serve the application.
    fn start(
        site: &Site,
        listener: TcpListener,
        options: orrery_blog_web::Options,
        log: Arc<Log>,
    ) -> Result<Self, Failure> {
        let address = listener
            .local_addr()
            .map_err(|error| Failure::Failed(format!("the application has no address: {error}")))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            // A dropped sender means the same as a message.
            let _ = stopped.await;
        };
        let site = site.clone();
        let serving = async move {
            let application = orrery_blog_web::Application::open(site, options).await;
            let connections = descriptors::for_visitors();
            let world = Arc::new(SystemWorld::new());
            let port = port::port(application, connections, log, world);
            serve_port(port, vec![listener], shutdown).await
        };
        Ok(Serving {
            url: format!("http://{}/", reachable(address)),
            stop,
            task: tokio::spawn(serving),
        })
    }

    /// Serves until `stopped` completes, and lets requests in progress finish.
    ///
    /// # Errors
    /// The application ended by itself.
    async fn run_until(mut self, stopped: impl Future<Output = ()>) -> Result<(), Failure> {
        tokio::select! {
            () = stopped => {}
            ended = &mut self.task => return Err(Failure::Failed(match ended {
                Ok(_) => "the application ended by itself".into(),
                Err(error) => format!("the application failed: {error}"),
            })),
        }
        // The task may have ended in the meantime.
        let _ = self.stop.send(());
        let has_drained = self.task.await.unwrap_or(false);
        if !has_drained {
            // If standard error is closed, the requests end without a word.
            let _ = writeln!(
                io::stderr(),
                "orrery: requests still in progress after {} s were aborted",
                DRAIN_TIMEOUT.as_secs()
            );
        }
        Ok(())
    }
}
