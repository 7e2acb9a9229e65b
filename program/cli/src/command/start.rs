//! Arguments of `orrery start`, with the types of their values.

use super::definition::InitMode;
use super::direct::{self, Direct};
use crate::retention::{BackupRetention, VersionRetention};
use crate::sizes::{PartitionSize, memory_limit};
use clap::{Args, CommandFactory, FromArgMatches, Parser, ValueEnum};
use orrery_gateway::{Cors, LogFormat, LogLevel};
use orrery_model::limits;
use orrery_server::MemoryLimit;
use orrery_server::address::Listen;
use orrery_server::certificate::parse_name;
use std::path::PathBuf;
use std::str::FromStr;

pub(super) const START_HELP: &str = "\
Examples:
  Select a free port, for tests:
    orrery start --memory --listen 127.0.0.1:0 --ready-json
  Use your own certificate:
    orrery start --tls-cert cert.pem --tls-key key.pem
  Set the consistency level and the regions of the account:
    orrery start --consistency strong --region 'West US' --region 'East US'

Configuration file:
  Every option can stand in a file, without its dashes: listen = \"127.0.0.1:9000\". The command
  line comes before the environment, and the environment before the file:
    orrery config show > orrery.toml
    orrery start --config orrery.toml

Key file:
  The first line holds the account's primary key in base64. Further lines may add
  'secondary: <key>', 'primary-read-only: <key>' and 'secondary-read-only: <key>'.
  Create one with:  orrery keys create --key-file account.key
  The server reads the file again at SIGHUP, without interruption; see 'orrery keys --help'.

Management API:
  Requests need the admin key, except those for health:
    curl http://127.0.0.1:8082/ready
    curl -H \"authorization: Bearer $(grep -v '^#' data/admin.key)\" http://127.0.0.1:8082/status
  GET /openapi.json describes all requests.

OpenTelemetry:
  The standard variables of OpenTelemetry are read too, such as OTEL_EXPORTER_OTLP_HEADERS,
  OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and OTEL_METRIC_EXPORT_INTERVAL:
    orrery start --otlp-endpoint http://localhost:4318

Shutdown:
  Ctrl-C or SIGTERM stops the server. Requests in progress get 10 seconds to finish.

Exit codes:
  0  stopped by a signal
  1  the server failed
  2  wrong options
  4  the data directory cannot be opened";

/// Arguments of `orrery start`.
#[derive(Debug, Args)]
pub(crate) struct StartArguments {
    /// Configuration file in TOML, whose keys are these options [default: orrery/orrery.toml in
    /// $XDG_CONFIG_HOME or ~/.config, if it exists]
    #[arg(long, value_name = "FILE", env = "ORRERY_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Data directory [default: $XDG_DATA_HOME/orrery, or ~/.local/share/orrery]
    #[arg(
        long,
        value_name = "DIR",
        env = "ORRERY_DATA_DIR",
        conflicts_with = "memory"
    )]
    pub(crate) data_dir: Option<PathBuf>,
    /// Keep data in memory only; lost on exit
    #[arg(long)]
    pub(crate) memory: bool,
    /// Listen address for clients, HTTP and HTTPS: 8081 or localhost:8081 for this machine by IPv4
    /// and IPv6, :8081 for all interfaces, or an address and a port; port 0 selects a free port.
    /// May be repeated
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "ORRERY_LISTEN",
        value_delimiter = ',',
        default_value = "localhost:8081"
    )]
    pub(crate) listen: Vec<Listen>,
    /// Listen address of the management API in a form of --listen, or 'off'; port 0 selects a free
    /// port
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "ORRERY_ADMIN_LISTEN",
        default_value = "localhost:8082"
    )]
    pub(crate) admin_listen: AdminListen,
    /// File with the admin keys of the management API, one per line [default: admin.key in the data
    /// directory, created at the first start]
    #[arg(long, value_name = "FILE", env = "ORRERY_ADMIN_KEY_FILE")]
    pub(crate) admin_key_file: Option<PathBuf>,
    /// Console in a browser, on the management port and below /_explorer/ on the port for clients;
    /// off if the management API is off
    #[arg(
        long,
        value_enum,
        value_name = "MODE",
        env = "ORRERY_CONSOLE",
        default_value = "on"
    )]
    pub(crate) console: ConsoleMode,
    /// Host name by which clients and browsers reach the server, beside addresses, names without a
    /// dot and names of the certificate; other names are refused with 403 by the console, and by
    /// the port for clients while the account has the well-known key. May be repeated
    #[arg(
        long = "allow-host",
        value_name = "NAME",
        env = "ORRERY_ALLOW_HOST",
        value_delimiter = ',',
        value_parser = parse_name
    )]
    pub(crate) allow_hosts: Vec<String>,
    /// The earlier name of --allow-host
    #[arg(
        long = "console-host",
        value_name = "NAME",
        env = "ORRERY_CONSOLE_HOST",
        value_parser = parse_name,
        hide = true
    )]
    pub(crate) console_hosts: Vec<String>,
    /// Origin whose pages may use the port for clients from a browser, such as
    /// http://localhost:3000, or * for all; may be repeated [default: none]
    #[arg(
        long = "cors",
        value_name = "ORIGIN",
        env = "ORRERY_CORS",
        value_delimiter = ',',
        value_parser = Cors::parse_origin
    )]
    pub(crate) cors: Vec<String>,
    /// Directory with built files of the console in place of the embedded ones, for work on the
    /// console
    #[arg(long, value_name = "DIR", env = "ORRERY_CONSOLE_FILES", hide = true)]
    pub(crate) console_files: Option<PathBuf>,
    /// Open connections of clients; more close one that is idle or waits for its client [default:
    /// 4096, less if the system allows few open files]
    #[arg(long, value_name = "N", env = "ORRERY_MAX_CONNECTIONS", value_parser = at_least_one)]
    pub(crate) max_connections: Option<usize>,
    /// Open connections of clients from one address; more close one of the address's own that
    /// is idle or waits for its client, or are refused [default: half of --max-connections]
    #[arg(
        long,
        value_name = "N",
        env = "ORRERY_MAX_CONNECTIONS_PER_ADDRESS",
        value_parser = at_least_one
    )]
    pub(crate) max_connections_per_address: Option<usize>,
    /// Microseconds for which a core looks for the next request of a client that sends one after
    /// the other, before it sleeps; at most 1000, and 0 for none
    #[arg(
        long,
        value_name = "MICROSECONDS",
        env = "ORRERY_SPIN",
        default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(..=1000)
    )]
    pub(crate) spin: u64,
    /// Account endpoint reported to clients [default: the address that each request used]
    #[arg(long, value_name = "URL", env = "ORRERY_ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    /// Direct connection mode of .NET and Java, over TLS: 'on' takes frames on the port for
    /// clients, a port number on a second port too, and 'off' tells clients to use the
    /// gateway mode [default: on if only this machine can reach the server, else off]
    #[arg(long, value_name = "MODE", env = "ORRERY_DIRECT")]
    pub(crate) direct: Option<Direct>,
    /// Address that clients of the direct mode connect to, where neither the address that they
    /// have used for HTTPS nor --endpoint is right, as behind a port that is mapped alone
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "ORRERY_DIRECT_ADVERTISE",
        value_parser = direct::parse_place
    )]
    pub(crate) direct_advertise: Option<String>,
    /// File with the account keys [default: the well-known key of the emulator]
    #[arg(long, value_name = "FILE", env = "ORRERY_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Accept tokens of Microsoft Entra ID
    #[arg(long, value_enum, value_name = "MODE", env = "ORRERY_ENTRA")]
    pub(crate) entra: Option<Entra>,
    /// Accepted audience of Entra ID tokens (claim 'aud'); may be repeated
    #[arg(
        long = "entra-audience",
        value_name = "URI",
        env = "ORRERY_ENTRA_AUDIENCE",
        requires = "entra"
    )]
    pub(crate) entra_audiences: Vec<String>,
    /// Accepted issuer of Entra ID tokens (claim 'iss')
    #[arg(
        long,
        value_name = "URI",
        env = "ORRERY_ENTRA_ISSUER",
        requires = "entra"
    )]
    pub(crate) entra_issuer: Option<String>,
    /// File with the issuer's JSON Web Key Set, as published at its 'jwks_uri'
    #[arg(
        long,
        value_name = "FILE",
        env = "ORRERY_ENTRA_KEYS",
        requires = "entra"
    )]
    pub(crate) entra_keys: Option<PathBuf>,
    /// Certificate chain in PEM, or a PFX file [default: a self-signed certificate, stored in the
    /// data directory]
    #[arg(long, value_name = "FILE", env = "ORRERY_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM, if it is not in the file of the certificate
    #[arg(
        long,
        value_name = "FILE",
        env = "ORRERY_TLS_KEY",
        requires = "tls_cert"
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// File with the password of the PFX file [default: the variable ORRERY_TLS_PASSWORD, or none]
    #[arg(
        long,
        value_name = "FILE",
        env = "ORRERY_TLS_PASSWORD_FILE",
        requires = "tls_cert"
    )]
    pub(crate) tls_password_file: Option<PathBuf>,
    /// Host name or address that the self-signed certificate names, beside those of this machine;
    /// may be repeated
    #[arg(
        long = "cert-host",
        value_name = "NAME",
        env = "ORRERY_CERT_HOST",
        value_delimiter = ',',
        value_parser = parse_name,
        conflicts_with = "tls_cert"
    )]
    pub(crate) cert_hosts: Vec<String>,
    /// Pricing model for request charges
    #[arg(long, value_enum, env = "ORRERY_PROFILE", default_value_t = Profile::Modern)]
    pub(crate) profile: Profile,
    /// Handling of queries whose results must be merged across physical partitions
    #[arg(
        long,
        value_enum,
        env = "ORRERY_CROSS_PARTITION_QUERIES",
        default_value_t = CrossPartitionQueries::Merge
    )]
    pub(crate) cross_partition_queries: CrossPartitionQueries,
    /// Throughput in RU/s of a container whose creation states none and whose database has none:
    /// 400 to 1,000,000 in steps of 100
    #[arg(
        long,
        value_name = "RU/S",
        env = "ORRERY_THROUGHPUT",
        default_value_t = 400,
        value_parser = throughput
    )]
    pub(crate) throughput: u32,
    /// Refuse requests beyond the provisioned throughput with 429; such requests are counted in
    /// either case
    #[arg(
        long,
        value_enum,
        value_name = "ON|OFF",
        env = "ORRERY_ENFORCE_THROUGHPUT",
        default_value_t = Switch::Off
    )]
    pub(crate) enforce_throughput: Switch,
    /// Let physical partitions below 3,000 RU/s save unused throughput for up to 300 seconds and
    /// spend it at up to 3,000 RU/s
    #[arg(long, env = "ORRERY_BURST_CAPACITY")]
    pub(crate) burst_capacity: bool,
    /// Refuse requests of low priority (x-ms-cosmos-priority-level) first if throughput is short
    #[arg(long, env = "ORRERY_PRIORITY_BASED_EXECUTION")]
    pub(crate) priority_based_execution: bool,
    /// Keep all versions of items for the change feed mode All Versions and Deletes, in every
    /// container without a changeFeedPolicy of its own, for minutes, hours or days such as 30m, 12h
    /// or 7d, at most 30d; without a value 7d. With --memory the oldest also go when those of a
    /// physical partition take more than 64 MiB [default: off]
    #[arg(
        long,
        value_name = "RETENTION",
        env = "ORRERY_ALL_VERSIONS_AND_DELETES",
        num_args = 0..=1,
        default_missing_value = "7d"
    )]
    pub(crate) all_versions_and_deletes: Option<VersionRetention>,
    /// Default consistency level; requests may ask for a weaker one. Reads return the last commit
    /// at every level
    #[arg(
        long,
        value_enum,
        env = "ORRERY_CONSISTENCY",
        default_value_t = Consistency::Session
    )]
    pub(crate) consistency: Consistency,
    /// Region of the account; may be repeated. This server serves all regions; the first one
    /// accepts writes. With --store postgres: the region of this node, given once; the region of
    /// the leaseholder accepts writes [default: South Central US]
    #[arg(
        long = "region",
        value_name = "NAME",
        env = "ORRERY_REGIONS",
        value_delimiter = ','
    )]
    pub(crate) regions: Vec<String>,
    /// Space in MB that is kept back on the disk, so that deletions go on when it is full; at most
    /// an eighth of the file system, and 0 for none
    #[arg(
        long,
        value_name = "MB",
        env = "ORRERY_DISK_RESERVE",
        default_value_t = 64,
        conflicts_with = "memory",
        value_parser = clap::value_parser!(u32)
    )]
    pub(crate) disk_reserve: u32,
    /// Size up to which the items of one logical partition may grow, such as 20MB; writes beyond
    /// are refused with 403/1014. A number without a unit counts MB
    #[arg(
        long,
        value_name = "SIZE",
        env = "ORRERY_LOGICAL_PARTITION_LIMIT",
        default_value = "20GB"
    )]
    pub(crate) logical_partition_limit: PartitionSize,
    /// Size of the items beyond which a physical partition is split in two, such as 50MB. A number
    /// without a unit counts MB
    #[arg(
        long,
        value_name = "SIZE",
        env = "ORRERY_PHYSICAL_PARTITION_LIMIT",
        default_value = "50GB"
    )]
    pub(crate) physical_partition_limit: PartitionSize,
    /// Time-outs within --script-timeout-window after which a stored procedure, a trigger or a
    /// user-defined function is not run any more: 403 until it is replaced; at most 100, and 0 for
    /// no such limit
    #[arg(
        long,
        value_name = "N",
        env = "ORRERY_SCRIPT_TIMEOUTS",
        default_value_t = limits::SCRIPT_TIMEOUTS,
        value_parser = clap::value_parser!(u32).range(..=100)
    )]
    pub(crate) script_timeouts: u32,
    /// Seconds within which --script-timeouts count
    #[arg(
        long,
        value_name = "SECONDS",
        env = "ORRERY_SCRIPT_TIMEOUT_WINDOW",
        default_value_t = (limits::SCRIPT_TIMEOUT_WINDOW_MS / 1_000) as u32,
        value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    pub(crate) script_timeout_window: u32,
    /// Memory that the server may use, such as 2GiB; at least 256MiB. It is divided into shares for
    /// the cache, queries, bodies and scripts [default: half of the memory of the machine or its
    /// control group]
    #[arg(
        long,
        value_name = "SIZE",
        env = "ORRERY_MEMORY_LIMIT",
        value_parser = memory_limit
    )]
    pub(crate) memory_limit: Option<MemoryLimit>,
    /// MiB per second at which the regular check reads all stored blocks; 0 for no check
    #[arg(long, env = "ORRERY_SCRUB_RATE", default_value_t = 4)]
    pub(crate) scrub_rate: u32,
    /// Folder of a continuous backup, which 'orrery restore --to' can restore as of each second:
    /// backups of the data directory, and the log of all writes since. It is created if it is
    /// missing. s3://BUCKET/PREFIX is one in a bucket, with the variables AWS_ACCESS_KEY_ID,
    /// AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL
    #[arg(
        long,
        value_name = "DIR",
        env = "ORRERY_CONTINUOUS_BACKUP",
        conflicts_with = "memory"
    )]
    pub(crate) continuous_backup: Option<PathBuf>,
    /// Seconds between two copies of the log to the continuous backup: the death of the machine
    /// loses the writes since the last one
    #[arg(
        long,
        value_name = "SECONDS",
        env = "ORRERY_CONTINUOUS_BACKUP_INTERVAL",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=3_600)
    )]
    pub(crate) continuous_backup_interval: u32,
    /// Time for which each second of the continuous backup can be restored, such as 12h or 7d
    #[arg(
        long,
        value_name = "TIME",
        env = "ORRERY_RETENTION",
        default_value = "7d"
    )]
    pub(crate) retention: BackupRetention,
    /// Format of log lines
    #[arg(long, value_enum, env = "ORRERY_LOG_FORMAT", default_value_t = Format::Text)]
    pub(crate) log_format: Format,
    /// Least severe level that is logged
    #[arg(long, value_enum, env = "ORRERY_LOG_LEVEL", default_value_t = Level::Info)]
    pub(crate) log_level: Level,
    /// Milliseconds from which a request is logged as slow, at level warn, with the text of its
    /// query; 0 for no such lines
    #[arg(
        long,
        value_name = "MILLISECONDS",
        env = "ORRERY_SLOW_REQUEST_MS",
        default_value_t = 1000
    )]
    pub(crate) slow_request_ms: u32,
    /// Show the values in the queries of slow requests, and their parameters; otherwise the lines
    /// have placeholders
    #[arg(long, env = "ORRERY_LOG_PARAMETERS")]
    pub(crate) log_parameters: bool,
    /// Base URL of an OpenTelemetry collector to which traces and metrics are sent by OTLP over
    /// HTTP, such as http://localhost:4318 [default: OTEL_EXPORTER_OTLP_ENDPOINT, or no export]
    #[arg(long, value_name = "URL", env = "ORRERY_OTLP_ENDPOINT")]
    pub(crate) otlp_endpoint: Option<String>,
    /// Definition of databases, containers, scripts and items that exist before the server is
    /// ready: a JSON file, a folder, or a state file of cosmium; see 'orrery init --help'
    #[arg(long, value_name = "PATH", env = "ORRERY_INIT")]
    pub(crate) init: Option<PathBuf>,
    /// Handling of resources that exist with other settings than the definition states
    #[arg(
        long,
        value_enum,
        value_name = "MODE",
        env = "ORRERY_INIT_MODE",
        default_value_t = InitMode::Refuse
    )]
    pub(crate) init_mode: InitMode,
    /// Print one JSON line with the endpoints and keys when the server is ready, and nothing else
    #[arg(long)]
    pub(crate) ready_json: bool,
    /// Place of the data
    #[arg(
        long,
        value_enum,
        env = "ORRERY_STORE",
        default_value_t = StoreKind::Directory,
        conflicts_with = "memory"
    )]
    pub(crate) store: StoreKind,
    /// File in TOML with the PostgreSQL clusters of --store postgres
    #[arg(
        long,
        value_name = "FILE",
        env = "ORRERY_CLUSTER_FILE",
        required_if_eq("store", "postgres"),
        conflicts_with_all = ["disk_reserve", "scrub_rate", "continuous_backup"]
    )]
    pub(crate) cluster_file: Option<PathBuf>,
    /// Serve the data of a directory that migrate-store has moved to clusters. The clusters have
    /// all later writes; without this option the server does not start on such data
    #[arg(long, env = "ORRERY_ACCEPT_STALE", conflicts_with = "cluster_file")]
    pub(crate) accept_stale: bool,
    /// Name of this server among the nodes of the same clusters [default: the name of the machine]
    #[arg(
        long,
        value_name = "NAME",
        env = "ORRERY_NODE",
        requires = "cluster_file"
    )]
    pub(crate) node: Option<String>,
    /// URL at which the other nodes reach this one, such as http://10.0.0.1:8081 [default: the
    /// address of --listen, if that is one of a machine]
    #[arg(
        long,
        value_name = "URL",
        env = "ORRERY_ADVERTISE",
        requires = "cluster_file",
        value_parser = node_address
    )]
    pub(crate) advertise: Option<String>,
    /// Move partitions between the clusters, one at a time, while two clusters differ by more than
    /// a fifth and by more than 1 GiB or 1,000 RU/s
    #[arg(
        long,
        value_enum,
        value_name = "ON|OFF",
        env = "ORRERY_BALANCE",
        requires = "cluster_file",
        default_value_t = Balance::Off
    )]
    pub(crate) balance: Balance,
    /// Answer reads of items at the levels Session, ConsistentPrefix and Eventual from the standbys
    /// of the first cluster while another node holds the lease; off: forward all requests
    #[arg(
        long,
        value_enum,
        value_name = "ON|OFF",
        env = "ORRERY_STANDBY_READS",
        requires = "cluster_file",
        default_value_t = StandbyReads::On
    )]
    pub(crate) standby_reads: StandbyReads,
    /// Load in RU/s from which on a physical partition may be owned by a node without the lease, so
    /// that the nodes share the load, as the leaseholder is told; 0 spreads idle partitions
    /// too. With off the node owns partitions only while it holds the lease, and then all of them
    #[arg(
        long,
        value_name = "RU/S|OFF",
        env = "ORRERY_SPREAD_LOAD",
        requires = "cluster_file",
        default_value = "10"
    )]
    pub(crate) spread_load: SpreadLoad,
    /// Seconds for which a renewal of the lease is good while this node holds it, from 2 to 60.
    /// Another node takes the lease of a node that has died after this time and a fifth; a commit
    /// of the first cluster that takes longer may cost a living node the lease
    #[arg(
        long,
        value_name = "SECONDS",
        env = "ORRERY_LEASE_SECONDS",
        requires = "cluster_file",
        value_parser = clap::value_parser!(u64).range(2..=60),
        default_value_t = 3
    )]
    pub(crate) lease_seconds: u64,
}

/// The arguments of `orrery start` alone, for [`StartArguments::defaults`].
#[derive(Debug, Parser)]
struct Defaults {
    #[command(flatten)]
    start: StartArguments,
}

impl StartArguments {
    /// Returns the arguments of `orrery start` without options: the defaults, and what variables of
    /// the environment set.
    ///
    /// # Errors
    /// A description of a variable with an invalid value.
    pub(crate) fn defaults() -> Result<Self, String> {
        match Defaults::try_parse_from(["orrery"]) {
            Ok(defaults) => Ok(defaults.start),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the defaults alone: variables of the environment, which are for a server of the
    /// user, change nothing.
    ///
    /// # Errors
    /// A description of a default that is not valid.
    pub(crate) fn without_environment() -> Result<Self, String> {
        let command = Defaults::command().mut_args(|option| option.env(None::<&str>));
        let matches = command.try_get_matches_from(["orrery"]);
        let defaults = matches.and_then(|matches| Defaults::from_arg_matches(&matches));
        match defaults {
            Ok(defaults) => Ok(defaults.start),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Parses a manual throughput.
pub(crate) fn throughput(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(ru @ 400..=1_000_000) if ru % 100 == 0 => Ok(ru),
        _ => Err("it must be between 400 and 1000000, in steps of 100".to_owned()),
    }
}

/// Parses the address of a node for other nodes.
fn node_address(text: &str) -> Result<String, String> {
    let form = "it must have the form http://HOST:PORT";
    let url: http::Uri = text.parse().map_err(|_| form.to_owned())?;
    match url.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(
                "nodes reach each other over plain HTTP, in a network of their own: \
                        write http://HOST:PORT"
                    .to_owned(),
            );
        }
        _ => return Err(form.to_owned()),
    }
    if url.port_u16().is_none() || url.path() != "/" || url.query().is_some() {
        return Err(form.to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Parses a number above zero.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("it is no number: {error}")),
    }
}

/// Places of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// The data directory
    Directory,
    /// The PostgreSQL clusters of the cluster file
    Postgres,
}

/// Modes of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConsoleMode {
    /// People who are signed in may read and change everything
    On,
    /// People who are signed in may read everything and change nothing
    ReadOnly,
    /// There is no console
    Off,
}

/// Listen address of the management API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminListen {
    /// The management API is switched off.
    Off,
    /// The management API listens on these addresses.
    At(Listen),
}

impl FromStr for AdminListen {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(AdminListen::Off);
        }
        match text.parse() {
            Ok(address) => Ok(AdminListen::At(address)),
            Err(error) => Err(format!("{error}, and not 'off'")),
        }
    }
}

/// The load from which on another node may own a partition, in RU/s; `None` for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpreadLoad(pub(crate) Option<u64>);

impl FromStr for SpreadLoad {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(SpreadLoad(None));
        }
        match text.parse() {
            Ok(load) => Ok(SpreadLoad(Some(load))),
            Err(_) => Err("a number of RU/s, or 'off'".to_owned()),
        }
    }
}

/// Pricing model for request charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Current charges of the service
    Modern,
    /// Charges of the service in 2019
    Y2019,
}

/// Handling of queries whose results must be merged across physical partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrossPartitionQueries {
    /// The server merges the results, so every query is answered
    Merge,
    /// The client merges the results, as with the service: the server answers 400 with sub-status
    /// 1004 and a query plan, and a page ends with its physical partition
    Refuse,
}

/// An option that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Requests are refused
    On,
    /// Requests are not refused
    Off,
}

/// Moves between the clusters that the server begins by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Balance {
    /// Partitions move
    On,
    /// Partitions stay where they are
    Off,
}

/// Reads of a node that does not hold the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StandbyReads {
    /// Standbys answer reads that may be behind
    On,
    /// The leaseholder answers all requests
    Off,
}

/// Consistency levels, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Consistency {
    /// Reads see the last committed write
    Strong,
    /// Reads lag by a bounded number of versions or seconds
    Bounded,
    /// A client reads its own writes
    Session,
    /// Reads never see writes out of order
    ConsistentPrefix,
    /// Reads see all writes eventually
    Eventual,
}

impl From<Consistency> for orrery_gateway::Consistency {
    fn from(level: Consistency) -> Self {
        match level {
            Consistency::Strong => Self::Strong,
            Consistency::Bounded => Self::BoundedStaleness,
            Consistency::Session => Self::Session,
            Consistency::ConsistentPrefix => Self::ConsistentPrefix,
            Consistency::Eventual => Self::Eventual,
        }
    }
}

/// Accepted Microsoft Entra ID tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Entra {
    /// Accept every well-formed, unexpired token without checking its signature; for development,
    /// and only on a loopback address
    AcceptAny,
    /// Accept tokens that the issuer signed for an accepted audience; requires --entra-issuer,
    /// --entra-audience and --entra-keys
    Verify,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
}

impl From<Format> for LogFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => LogFormat::Text,
            Format::Json => LogFormat::Json,
        }
    }
}

/// Log level.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    /// Failures of the server
    Error,
    /// Also requests that failed because of the server
    Warn,
    /// Also start and stop
    Info,
    /// Also every request
    Debug,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => LogLevel::Error,
            Level::Warn => LogLevel::Warn,
            Level::Info => LogLevel::Info,
            Level::Debug => LogLevel::Debug,
        }
    }
}
