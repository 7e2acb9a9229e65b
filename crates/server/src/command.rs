//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use orrery_gateway::{LogFormat, LogLevel};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// An open, partitioned JSON document database that speaks the protocol of Azure Cosmos DB for NoSQL.
#[derive(Debug, Parser)]
#[command(name = "orrery", version, after_help = EXAMPLES)]
pub(crate) struct Program {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  orrery start                         serve on 127.0.0.1:8081, data in your home directory
  orrery start --memory                the same, and forget everything at the end
  orrery start --data-dir ./data --listen 127.0.0.1:9000
  orrery start --listen 0.0.0.0:8081 --key-file ./account.key
  orrery keys create --key-file account.key      a file with four new keys
  orrery healthcheck                   exit 0 if the server answers
  orrery bench blog                    what each model of the blog costs, beside the published figures

Clients connect with AccountEndpoint=https://127.0.0.1:8081/;AccountKey=<key>;
The port takes HTTP and HTTPS alike.";

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    #[command(after_help = START_HELP)]
    Start(Box<StartArguments>),
    /// Ask a server whether it answers: exit 0 if it does, 1 if not
    Healthcheck(HealthcheckArguments),
    /// Make and change the keys of an account
    #[command(after_help = KEYS_HELP)]
    Keys(KeysArguments),
    /// Measure a workload, on a server of its own unless told of one
    Bench(BenchArguments),
    /// Run scripts for a server (the server starts this itself)
    #[command(hide = true)]
    ScriptHost,
}

const START_HELP: &str = "\
Examples:
  orrery start --memory --listen 127.0.0.1:0 --ready-json     a free port, for tests
  orrery start --tls-cert cert.pem --tls-key key.pem          your own certificate
  orrery start --consistency strong --region 'West US' --region 'East US'     as another account would look

The key file holds the account's primary key in base64 on its first line. Further lines may add
'secondary: <key>', 'primary-read-only: <key>' and 'secondary-read-only: <key>'.
To make one:  orrery keys create --key-file account.key
A server that gets SIGHUP reads it again, without interruption: see 'orrery keys --help'.

The management API has an address and a key of its own; its health needs no key:
  curl http://127.0.0.1:8082/ready
  curl -H \"authorization: Bearer $(grep -v '^#' data/admin.key)\" http://127.0.0.1:8082/status
GET /openapi.json describes the rest.

Ctrl-C or SIGTERM stops the server: requests under way get 10 seconds to finish.";

const KEYS_HELP: &str = "\
Examples:
  orrery keys create --key-file account.key
  orrery keys regenerate --kind secondary --key-file account.key && kill -HUP \"$(pidof orrery)\"

To change the key that clients use, without interruption: move them to the secondary key, regenerate the primary one,
send SIGHUP, and move them back. What was signed with the old key is refused from then on, and so are resource tokens
that were asked for with it.";

/// What to do with keys.
#[derive(Debug, Args)]
pub(crate) struct KeysArguments {
    #[command(subcommand)]
    pub(crate) action: KeysAction,
}

/// The ways to change keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysAction {
    /// Write a new file with four keys; a file that exists is left alone
    Create {
        /// The file to write
        #[arg(long, value_name = "FILE", env = "ORRERY_KEY_FILE")]
        key_file: PathBuf,
    },
    /// Replace one key of a file by a new one; a running server takes it on SIGHUP
    Regenerate {
        /// The file to change
        #[arg(long, value_name = "FILE", env = "ORRERY_KEY_FILE")]
        key_file: PathBuf,
        /// The key to replace; one that is not there yet is added
        #[arg(long, value_enum)]
        kind: KeyKind,
    },
}

/// The keys of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyKind {
    /// May do everything
    Primary,
    /// May do everything
    Secondary,
    /// May read
    PrimaryReadOnly,
    /// May read
    SecondaryReadOnly,
}

/// How the server starts.
#[derive(Debug, Args)]
pub(crate) struct StartArguments {
    /// Where data is kept [default: $XDG_DATA_HOME/orrery, or ~/.local/share/orrery]
    #[arg(
        long,
        value_name = "DIR",
        env = "ORRERY_DATA_DIR",
        conflicts_with = "memory"
    )]
    pub(crate) data_dir: Option<PathBuf>,
    /// Keep everything in memory and forget it at the end
    #[arg(long)]
    pub(crate) memory: bool,
    /// Address and port to listen on; port 0 takes a free one
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "ORRERY_LISTEN",
        default_value = "127.0.0.1:8081"
    )]
    pub(crate) listen: SocketAddr,
    /// Address and port of the management API; port 0 takes a free one, 'off' opens none
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "ORRERY_ADMIN_LISTEN",
        default_value = "127.0.0.1:8082"
    )]
    pub(crate) admin_listen: AdminListen,
    /// The keys of the management API, one a line [default: admin.key in the data directory, made at the first start]
    #[arg(long, value_name = "FILE", env = "ORRERY_ADMIN_KEY_FILE")]
    pub(crate) admin_key_file: Option<PathBuf>,
    /// The address that clients are told to use [default: the one by which each came]
    #[arg(long, value_name = "URL", env = "ORRERY_ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    /// The account's keys [default: the well-known key of the emulator]
    #[arg(long, value_name = "FILE", env = "ORRERY_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Accept identities of Microsoft Entra ID: as they are, for development on this machine, or checked
    #[arg(long, value_enum, value_name = "MODE", env = "ORRERY_ENTRA")]
    pub(crate) entra: Option<Entra>,
    /// Whom their tokens must be for, the claim 'aud'; may be given more than once
    #[arg(
        long = "entra-audience",
        value_name = "URI",
        env = "ORRERY_ENTRA_AUDIENCE",
        requires = "entra"
    )]
    pub(crate) entra_audiences: Vec<String>,
    /// Whose tokens they must be, the claim 'iss'
    #[arg(
        long,
        value_name = "URI",
        env = "ORRERY_ENTRA_ISSUER",
        requires = "entra"
    )]
    pub(crate) entra_issuer: Option<String>,
    /// The issuer's keys: a file with what it publishes at its 'jwks_uri'
    #[arg(
        long,
        value_name = "FILE",
        env = "ORRERY_ENTRA_KEYS",
        requires = "entra"
    )]
    pub(crate) entra_keys: Option<PathBuf>,
    /// A certificate chain in PEM [default: a self-signed one, kept in the data directory]
    #[arg(
        long,
        value_name = "FILE",
        env = "ORRERY_TLS_CERT",
        requires = "tls_key"
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key in PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "ORRERY_TLS_KEY",
        requires = "tls_cert"
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// Whose request charges to reproduce
    #[arg(long, value_enum, env = "ORRERY_PROFILE", default_value_t = Profile::Modern)]
    pub(crate) profile: Profile,
    /// Queries whose rows must be merged over several physical partitions: merged here, or refused with a plan for the
    /// client, as the service does it
    #[arg(long, value_enum, env = "ORRERY_CROSS_PARTITION_QUERIES", default_value_t = CrossPartitionQueries::Merge)]
    pub(crate) cross_partition_queries: CrossPartitionQueries,
    /// Whether requests beyond the provisioned throughput are refused with 429; counted in either case
    #[arg(long, value_enum, value_name = "ON|OFF", env = "ORRERY_ENFORCE_THROUGHPUT", default_value_t = Switch::Off)]
    pub(crate) enforce_throughput: Switch,
    /// Physical partitions below 3,000 RU/s keep what they do not use for 300 seconds, and spend it at up to 3,000 RU/s
    #[arg(long, env = "ORRERY_BURST_CAPACITY")]
    pub(crate) burst_capacity: bool,
    /// Requests of low priority (x-ms-cosmos-priority-level) are refused before others when throughput is short
    #[arg(long, env = "ORRERY_PRIORITY_BASED_EXECUTION")]
    pub(crate) priority_based_execution: bool,
    /// The consistency that requests get unless they ask for a weaker one; every read is of the last commit anyway
    #[arg(long, value_enum, env = "ORRERY_CONSISTENCY", default_value_t = Consistency::Session)]
    pub(crate) consistency: Consistency,
    /// A region of the account, to be named again for each more; all are served here, and the first takes writes
    /// [default: South Central US]
    #[arg(
        long = "region",
        value_name = "NAME",
        env = "ORRERY_REGIONS",
        value_delimiter = ','
    )]
    pub(crate) regions: Vec<String>,
    /// The form of log lines
    #[arg(long, value_enum, env = "ORRERY_LOG_FORMAT", default_value_t = Format::Text)]
    pub(crate) log_format: Format,
    /// How much is logged
    #[arg(long, value_enum, env = "ORRERY_LOG_LEVEL", default_value_t = Level::Info)]
    pub(crate) log_level: Level,
    /// Print one JSON line with the endpoints and the key when ready, and nothing else
    #[arg(long)]
    pub(crate) ready_json: bool,
}

/// Where the management API listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminListen {
    /// Nowhere.
    Off,
    /// Here.
    At(SocketAddr),
}

impl FromStr for AdminListen {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(AdminListen::Off),
            _ => text
                .parse()
                .map(AdminListen::At)
                .map_err(|error| format!("{error}, and not 'off'")),
        }
    }
}

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    pub(crate) workload: Workload,
}

/// The workloads.
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// The blog in three data models: milliseconds and request units of each request beside the article's
    #[command(after_help = BLOG_HELP)]
    Blog(BlogArguments),
}

const BLOG_HELP: &str = "\
Examples:
  orrery bench blog                                   a small data set, in about half a minute
  orrery bench blog --scale 0.01 --models v1,v3       1,000 users, two of the models
  orrery bench blog --format json > table.json
  orrery bench blog --endpoint http://127.0.0.1:8081 --key \"$KEY\"

The data set of scale 1 is the article's: 100,000 users with 5 to 50 posts each. Equal seeds give equal data.
Databases named blog-v1, blog-v2 and blog-v3 are deleted first and made anew.";

/// How the blog is measured.
#[derive(Debug, Args)]
pub(crate) struct BlogArguments {
    /// Size of the data set; 1 is the article's
    #[arg(long, value_name = "S", default_value_t = 0.0004)]
    pub(crate) scale: f64,
    /// The models to measure
    #[arg(
        long,
        value_name = "MODELS",
        value_delimiter = ',',
        default_value = "v1,v2,v3"
    )]
    pub(crate) models: Vec<String>,
    /// A server that runs already [default: one of its own]
    #[arg(long, value_name = "URL", requires = "key")]
    pub(crate) endpoint: Option<String>,
    /// That server's account key
    #[arg(long, value_name = "KEY", env = "ORRERY_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// The prices that apply; a server that runs already must have been started with the same
    #[arg(long, value_enum, default_value_t = Profile::Y2019)]
    pub(crate) profile: Profile,
    /// Seed of the data set
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How the result is written
    #[arg(long, value_enum, default_value_t = TableFormat::Table)]
    pub(crate) format: TableFormat,
}

impl BlogArguments {
    /// The profile as the command line spells it.
    pub(crate) fn profile_name(&self) -> &'static str {
        match self.profile {
            Profile::Modern => "modern",
            Profile::Y2019 => "y2019",
        }
    }
}

/// How a result is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TableFormat {
    /// For people
    Table,
    /// A list of rows
    Json,
}

/// Which server to ask.
#[derive(Debug, Args)]
pub(crate) struct HealthcheckArguments {
    /// Address and port of the server
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "ORRERY_LISTEN",
        default_value = "127.0.0.1:8081"
    )]
    pub(crate) listen: SocketAddr,
}

/// The table of request charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// The service as it charges today
    Modern,
    /// The service as it charged in 2019
    Y2019,
}

/// Who merges over physical partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrossPartitionQueries {
    /// The server: every query is answered
    Merge,
    /// The client: it gets 400 with sub-status 1004 and the plan, and pages end with their partition
    Refuse,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// It is
    On,
    /// It is not
    Off,
}

/// How up to date reads are, the strongest first.
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
    /// Reads converge
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

/// Which directory identities are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Entra {
    /// Every token that is well-formed and not expired, whoever made it; only on the loopback
    AcceptAny,
    /// Tokens that the issuer signed for the audience; needs --entra-issuer, --entra-audience and --entra-keys
    Verify,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One JSON object a line
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

/// How much is logged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    /// Only failures of the server
    Error,
    /// And requests that failed on the server's side
    Warn,
    /// And start and end
    Info,
    /// And every request
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Program::command().debug_assert();
    }

    #[test]
    fn a_plain_start_listens_on_this_machine_only() {
        let Command::Start(start) = Program::parse_from(["orrery", "start"]).command else {
            panic!("not a start")
        };
        assert!(start.listen.ip().is_loopback());
        assert!(
            matches!(start.admin_listen, AdminListen::At(address) if address.ip().is_loopback())
        );
        assert_eq!(start.profile, Profile::Modern);
        assert_eq!(start.cross_partition_queries, CrossPartitionQueries::Merge);
        assert_eq!(start.consistency, Consistency::Session);
        assert_eq!(start.enforce_throughput, Switch::Off);
        assert!(start.regions.is_empty());
    }

    #[test]
    fn the_management_api_listens_where_it_is_told_or_nowhere() {
        let of = |text: &str| {
            Program::try_parse_from(["orrery", "start", "--admin-listen", text]).map(|p| p.command)
        };
        let listens = |text: &str| match of(text) {
            Ok(Command::Start(start)) => Some(start.admin_listen),
            _ => None,
        };
        assert_eq!(listens("off"), Some(AdminListen::Off));
        assert_eq!(
            listens("127.0.0.1:0"),
            Some(AdminListen::At(SocketAddr::from(([127, 0, 0, 1], 0))))
        );
        assert_eq!(listens("on"), None);
    }

    #[test]
    fn a_data_directory_and_memory_exclude_each_other() {
        assert!(
            Program::try_parse_from(["orrery", "start", "--memory", "--data-dir", "d"]).is_err()
        );
        assert!(Program::try_parse_from(["orrery", "start", "--tls-cert", "c.pem"]).is_err());
    }
}
