//! `orrery start`: from arguments to a server that runs until it is told to stop.

use crate::admin::{self, AdminDoor};
use crate::command::{StartArguments, Switch};
use crate::engine::open_engine;
use crate::entra;
use crate::failure::Failure;
use crate::keys::{self, AccountKeys};
use crate::tls;
use crate::world::SystemWorld;
use orrery_admin::Parts;
use orrery_engine::{Engine, ThroughputOptions};
use orrery_gateway::{Account, Field, Gateway, Log, LogLevel, Options, serve};
use orrery_model::world::{ShiftedWorld, World};
use orrery_model::{Error, Json, object};
use rustls::ServerConfig;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// How long requests under way may take once the server is told to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Between two looks for what is expired or deleted.
const CHORE_PAUSE: Duration = Duration::from_secs(1);

/// What a server that runs is made of.
struct Server {
    engine: Arc<Engine>,
    gateway: Arc<Gateway>,
    context: ServerContext,
    clock: Arc<ShiftedWorld>,
    primary_key: String,
    well_known_key: bool,
    key_file: Option<PathBuf>,
}

/// The parts of the server that exist before the store is opened.
#[derive(Clone)]
struct ServerContext {
    started: Instant,
    tls: Arc<ServerConfig>,
    world: Arc<dyn World>,
    log: Arc<Log>,
    data_dir: Option<PathBuf>,
}

/// Runs the server until SIGTERM or Ctrl-C.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run(arguments: StartArguments) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))?;
    let server = runtime.block_on(live(arguments))?;
    // Scripts that still run are abandoned: their transactions are, too.
    runtime.shutdown_background();
    server
        .engine
        .shut_down()
        .map_err(|error| Failure::Failed(format!("the data was not closed in order: {error}")))?;
    server.context.log.write(
        server.context.world.now_ms(),
        LogLevel::Info,
        "stopped",
        &[],
    );
    Ok(())
}

/// The whole life of a server: the management API listens first and last, so that it can tell of the rest.
async fn live(arguments: StartArguments) -> Result<Server, Failure> {
    let context = prepare(&arguments)?;
    let ServerContext {
        tls,
        world,
        log,
        data_dir,
        ..
    } = context.clone();
    let door = admin::open(&arguments, data_dir.as_deref(), tls, world, log).await?;
    let arguments = Arc::new(arguments);
    let building = {
        let (arguments, context) = (arguments.clone(), context.clone());
        tokio::task::spawn_blocking(move || build(&arguments, context))
    };
    let server = building
        .await
        .map_err(|error| Failure::Failed(format!("the data were not opened: {error}")))??;
    if let Some(door) = &door {
        let (engine, gateway, clock) = (
            server.engine.clone(),
            server.gateway.clone(),
            server.clock.clone(),
        );
        door.admin.serves(Parts {
            engine,
            gateway,
            clock,
            data_dir: context.data_dir,
            started: context.started,
        });
    }
    run_until_told(&server, &arguments, door.as_ref()).await?;
    if let Some(door) = door {
        door.close().await;
    }
    Ok(server)
}

fn prepare(arguments: &StartArguments) -> Result<ServerContext, Failure> {
    let started = Instant::now();
    let data_dir = match (arguments.memory, &arguments.data_dir) {
        (true, _) => None,
        (false, Some(directory)) => Some(directory.clone()),
        (false, None) => Some(default_data_dir()?),
    };
    if let Some(directory) = &data_dir {
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::Data(format!(
                "cannot create the directory {}: {error}",
                directory.display()
            ))
        })?;
    }
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => tls::from_files(certificate, key)?,
        _ => tls::self_signed(data_dir.as_deref())?,
    };
    let world: Arc<dyn World> = Arc::new(SystemWorld::new());
    let log = Arc::new(Log::new(
        arguments.log_level.into(),
        arguments.log_format.into(),
        io::stderr(),
    ));
    Ok(ServerContext {
        started,
        tls,
        world,
        log,
        data_dir,
    })
}

fn build(arguments: &StartArguments, context: ServerContext) -> Result<Server, Failure> {
    let AccountKeys {
        keys,
        primary,
        well_known,
    } = keys::load(arguments.key_file.as_deref(), arguments.listen.ip())?;
    let account = account(arguments)?;
    let directory = entra::directory(arguments)?;
    let ServerContext {
        world,
        log,
        data_dir,
        ..
    } = context.clone();
    // The time of the data can be moved; signatures and log lines have the real one.
    let clock = Arc::new(ShiftedWorld::new(world.clone()));
    let throughput = ThroughputOptions {
        enforce: arguments.enforce_throughput == Switch::On,
        burst_capacity: arguments.burst_capacity,
        priorities: arguments.priority_based_execution,
    };
    let (profile, merging) = (arguments.profile, arguments.cross_partition_queries);
    let engine = open_engine(
        data_dir.as_deref(),
        profile,
        merging,
        throughput,
        clock.clone(),
    )?;
    let gateway = Arc::new(Gateway::new(
        engine.clone(),
        Options {
            keys,
            directory,
            account,
            world,
            log,
        },
    ));
    let key_file = arguments.key_file.clone();
    Ok(Server {
        engine,
        gateway,
        context,
        clock,
        primary_key: primary,
        well_known_key: well_known,
        key_file,
    })
}

/// The account that clients see.
fn account(arguments: &StartArguments) -> Result<Account, Failure> {
    let mut account = Account {
        endpoint: arguments.endpoint.clone(),
        consistency: arguments.consistency.into(),
        ..Account::default()
    };
    if !arguments.regions.is_empty() {
        account.regions = checked_regions(&arguments.regions)?;
    }
    Ok(account)
}

/// The regions, if each has a name of its own. Clients compare names without blanks and in lower case.
fn checked_regions(names: &[String]) -> Result<Vec<String>, Failure> {
    let plain = |name: &String| name.replace(' ', "").to_lowercase();
    for (i, name) in names.iter().enumerate() {
        if plain(name).is_empty() {
            return Err(Failure::Usage("a --region needs a name".into()));
        }
        if names[..i].iter().any(|other| plain(other) == plain(name)) {
            return Err(Failure::Usage(format!(
                "the region '{name}' is named twice"
            )));
        }
    }
    Ok(names.iter().map(|name| name.trim().to_owned()).collect())
}

async fn run_until_told(
    server: &Server,
    arguments: &StartArguments,
    door: Option<&AdminDoor>,
) -> Result<(), Failure> {
    let (
        listen,
        ServerContext {
            world, log, tls, ..
        },
    ) = (arguments.listen, &server.context);
    let cannot = |error: io::Error| Failure::Failed(format!("cannot listen on {listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    // From here on the system queues connections and nothing can fail any more, so that requests will succeed.
    let told = told_to_stop()
        .map_err(|error| Failure::Failed(format!("cannot listen for signals: {error}")))?;
    let rotation = read_keys_when_told(server, listen.ip())
        .map_err(|error| Failure::Failed(format!("cannot listen for signals: {error}")))?;
    let announced = if arguments.ready_json {
        let door = door.map(|door| (door.endpoint(), door.key.text.as_str()));
        io::stdout().write_all(ready_line(&server.primary_key, address, door).as_bytes())
    } else {
        io::stdout().write_all(banner(server, address, door).as_bytes())
    };
    announced
        .and_then(|()| io::stdout().flush())
        .map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))?;
    let chores = CHORES
        .iter()
        .map(|chore| tokio::spawn(chore.repeat(server)))
        .collect::<Vec<_>>();
    let told = async {
        told.await;
        if let Some(door) = door {
            door.admin.drains();
        }
    };
    let finished = serve(
        server.gateway.clone(),
        listener,
        Some(tls.clone()),
        told,
        DRAIN,
    )
    .await;
    chores
        .iter()
        .chain(&rotation)
        .for_each(tokio::task::JoinHandle::abort);
    if !finished {
        let sentence = "requests still under way were cut off";
        log.write(world.now_ms(), LogLevel::Warn, sentence, &[]);
    }
    Ok(())
}

/// Work that goes on beside requests, again and again.
struct Chore {
    work: fn(&Engine) -> Result<(), Error>,
    /// What the log says when it fails.
    failure: &'static str,
}

const CHORES: [Chore; 4] = [
    Chore {
        work: |engine| {
            engine.remove_expired()?;
            engine.remove_old_versions()?;
            engine.destroy_deleted()
        },
        failure: "what is expired or deleted keeps its space for now",
    },
    Chore {
        work: Engine::finish_deletes_by_key,
        failure: "deleted logical partitions keep their space for now",
    },
    Chore {
        work: Engine::split_where_needed,
        failure: "a physical partition is not split for now",
    },
    Chore {
        work: Engine::finish_reindexing,
        failure: "an index does not follow its policy for now",
    },
];

impl Chore {
    fn repeat(&self, server: &Server) -> impl Future<Output = ()> + use<> {
        let (engine, world, log) = (
            server.engine.clone(),
            server.context.world.clone(),
            server.context.log.clone(),
        );
        let (work, failure) = (self.work, self.failure);
        async move {
            loop {
                tokio::time::sleep(CHORE_PAUSE).await;
                let engine = engine.clone();
                let Ok(Err(error)) = tokio::task::spawn_blocking(move || work(&engine)).await
                else {
                    continue;
                };
                let cause = error.cause_chain();
                log.write(
                    world.now_ms(),
                    LogLevel::Warn,
                    failure,
                    &[("cause", Field::Text(&cause))],
                );
            }
        }
    }
}

/// Reads the key file again at each SIGHUP. A file that is not usable changes nothing.
#[cfg(unix)]
fn read_keys_when_told(
    server: &Server,
    listen: IpAddr,
) -> io::Result<Option<tokio::task::JoinHandle<()>>> {
    let mut told = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
    let (gateway, file) = (server.gateway.clone(), server.key_file.clone());
    let (world, log) = (server.context.world.clone(), server.context.log.clone());
    Ok(Some(tokio::spawn(async move {
        while told.recv().await.is_some() {
            let file = file.clone();
            let read = tokio::task::spawn_blocking(move || match &file {
                Some(file) => keys::load(Some(file), listen).map_err(|failure| failure.to_string()),
                None => Err("the server was started without --key-file".into()),
            });
            match read.await.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(read) => {
                    gateway.replace_keys(read.keys);
                    log.write(
                        world.now_ms(),
                        LogLevel::Info,
                        "the keys were read again",
                        &[],
                    );
                }
                Err(why) => {
                    let cause = [("cause", Field::Text(&why))];
                    log.write(
                        world.now_ms(),
                        LogLevel::Error,
                        "the keys stay what they were",
                        &cause,
                    );
                }
            }
        }
    })))
}

/// There is no signal for it here.
#[cfg(not(unix))]
fn read_keys_when_told(_: &Server, _: IpAddr) -> io::Result<Option<tokio::task::JoinHandle<()>>> {
    Ok(None)
}

/// Ends when the process is told to stop.
fn told_to_stop() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    #[cfg(unix)]
    let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            // Without the signal there is no way to be told, and so no reason to stop.
            std::future::pending::<()>().await;
        }
    })
}

/// Where data is kept for this user if nothing else is said.
fn default_data_dir() -> Result<PathBuf, Failure> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    data_dir_of(
        variable("XDG_DATA_HOME"),
        variable("HOME").or_else(|| variable("USERPROFILE")),
    )
}

fn data_dir_of(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let base = xdg.or_else(|| home.map(|home| home.join(".local").join("share")));
    base.map(|base| base.join("orrery")).ok_or_else(|| {
        Failure::Usage("there is no home directory: name a --data-dir, or use --memory".into())
    })
}

/// The address at which a server that listens on `address` can be reached from this machine.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn ready_line(key: &str, address: SocketAddr, admin: Option<(String, &str)>) -> String {
    let address = reachable(address);
    let mut line = object! {
        "ready" => true,
        "endpoint" => format!("https://{address}/"),
        "endpoint_http" => format!("http://{address}/"),
        "key" => key,
    };
    if let Some((endpoint, key)) = admin {
        line.set("admin_endpoint", endpoint);
        line.set("admin_key", key);
    }
    format!("{}\n", Json::Object(line).to_text())
}

fn banner(server: &Server, address: SocketAddr, door: Option<&AdminDoor>) -> String {
    // A key of one's own is a secret and stays out of terminals and logs.
    let key = if server.well_known_key {
        &server.primary_key
    } else {
        "<the key in your key file>"
    };
    let data = server
        .context
        .data_dir
        .as_deref()
        .map_or("memory (forgotten at the end)".into(), |d| {
            d.display().to_string()
        });
    let manage = door.map_or("nowhere (--admin-listen off)".into(), AdminDoor::told);
    let here = reachable(address);
    format!(
        "Orrery {version}\n\
         \n\
         Now listening on: https://{address} and http://{address}\n\
         Data:             {data}\n\
         Connect with:     AccountEndpoint=https://{here}/;AccountKey={key};\n\
         Manage at:        {manage}\n\
         Stop with:        Ctrl-C\n\
         \n\
         Started\n",
        version = env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn data_is_kept_where_the_desktop_standard_says() {
        let xdg = data_dir_of(Some("/x".into()), Some("/home/a".into())).expect("a directory");
        assert_eq!(xdg, Path::new("/x/orrery"));
        let home = data_dir_of(None, Some("/home/a".into())).expect("a directory");
        assert_eq!(home, Path::new("/home/a/.local/share/orrery"));
        assert!(matches!(data_dir_of(None, None), Err(Failure::Usage(_))));
    }

    #[test]
    fn regions_are_told_apart_as_clients_do() {
        let regions = |names: &[&str]| {
            checked_regions(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            regions(&["West US", " East US"]).expect("two regions"),
            ["West US", "East US"]
        );
        assert!(matches!(
            regions(&["West US", "westus"]),
            Err(Failure::Usage(_))
        ));
        assert!(matches!(regions(&[" "]), Err(Failure::Usage(_))));
    }

    #[test]
    fn the_ready_line_is_one_line_of_json_with_an_address_that_works() {
        let admin = Some(("http://127.0.0.1:9001/".to_owned(), "secret"));
        let line = ready_line("k==", SocketAddr::from(([0, 0, 0, 0], 9000)), admin);
        assert_eq!(line.matches('\n').count(), 1);
        let json = orrery_model::json::parse(line.as_bytes()).expect("JSON");
        assert_eq!(json.get("ready").and_then(Json::as_bool), Some(true));
        assert_eq!(
            json.get("endpoint").and_then(Json::as_str),
            Some("https://127.0.0.1:9000/")
        );
        assert_eq!(
            json.get("endpoint_http").and_then(Json::as_str),
            Some("http://127.0.0.1:9000/")
        );
        assert_eq!(json.get("key").and_then(Json::as_str), Some("k=="));
        assert_eq!(
            json.get("admin_endpoint").and_then(Json::as_str),
            Some("http://127.0.0.1:9001/")
        );
        assert_eq!(json.get("admin_key").and_then(Json::as_str), Some("secret"));
    }
}
