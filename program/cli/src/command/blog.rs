//! The command line of `orrery blog`.

use super::account::KeyArguments;
use super::{AdminListen, Level, Profile, throughput};
use crate::sizes::PartitionSize;
use clap::{Args, Subcommand, ValueEnum};
use orrery_client::Secret;
use orrery_server::address::Listen;
use std::net::IpAddr;
use std::path::PathBuf;

/// Help text after the options of `orrery blog`.
pub(super) const BLOG_HELP: &str = "\
Examples:
  orrery blog                                serve http://127.0.0.1:8083, data in the home directory
  orrery blog --memory                       keep data in memory only; lost on exit
  orrery blog --model v1 --only              one model, as a blog in production has it
  orrery blog --scale 0.01                   1,000 users with 27,500 posts in each model
  orrery blog --memory --logical-partition-limit 20MB --physical-partition-limit 50MB \\
    --throughput 400                         meet a full partition key, a split and 429
  orrery blog --endpoint https://my-account.documents.azure.com --key-file account.key
  orrery blog migrate --to v3                change the model of the running blog
  orrery blog worker                         run more pipelines for the running blog
  orrery blog drift                          compare every copy with its source

Data:
  A new blog is filled with users, posts, comments and likes. A fill that was interrupted continues
  at the next start with the same options. An existing blog is served as it is.
  --throughput applies to an existing blog as well.

Addresses:
  If a default port of the database or of the management API is in use, a free port is taken and
  printed. A port that an option names is never replaced.

Shutdown:
  Ctrl-C or SIGTERM stops the application, then the pipelines, then the server. Requests in
  progress get 10 seconds to finish.

Exit codes:
  0  stopped by a signal
  1  the command failed
  2  wrong options
  4  the data directory cannot be opened";

/// Arguments of `orrery blog`: an action on a running blog, or the options of a blog to serve.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BlogCommand {
    #[command(subcommand)]
    pub(crate) action: Option<BlogAction>,
    #[command(flatten)]
    pub(crate) serve: ServeArguments,
}

/// Actions on a running blog.
#[derive(Debug, Subcommand)]
pub(crate) enum BlogAction {
    /// Move a running blog to another home model, while users read and write; an interrupted
    /// migration continues with the same command
    Migrate(MigrateArguments),
    /// Run pipelines for a running blog until Ctrl-C or SIGTERM; several workers share the work
    Worker(WorkerArguments),
    /// Compare every copy of a running blog with its source; exit with 0 if all are equal,
    /// otherwise with 1
    Drift(DriftArguments),
}

/// Arguments of `orrery blog migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArguments {
    #[command(flatten)]
    pub(crate) blog: RunningBlog,
    /// New home model
    #[arg(
        long,
        value_enum,
        value_name = "MODEL",
        required_unless_present = "cancel"
    )]
    pub(crate) to: Option<HomeModel>,
    /// Keep the data of the old home model, without further changes
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) keep_old: bool,
    /// End an interrupted migration that has not changed the home model, and delete its target
    #[arg(long, conflicts_with = "to")]
    pub(crate) cancel: bool,
}

/// Arguments of `orrery blog drift`.
#[derive(Debug, Args)]
pub(crate) struct DriftArguments {
    #[command(flatten)]
    pub(crate) blog: RunningBlog,
    /// Seconds for which differing copies are compared again, because pipelines may be about to
    /// write them
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) patience: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The database of a running blog, for commands beside it.
#[derive(Debug, Args)]
pub(crate) struct RunningBlog {
    /// Endpoint of the database [default: that of the blog that runs on the data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    /// Data directory of the running blog [default: $XDG_DATA_HOME/orrery-blog, or
    /// ~/.local/share/orrery-blog]
    #[arg(
        long,
        value_name = "DIR",
        env = "ORRERY_BLOG_DATA_DIR",
        conflicts_with = "endpoint"
    )]
    pub(crate) data_dir: Option<PathBuf>,
    /// First part of the names of the databases [default: that of the blog that runs on the data
    /// directory, or 'blog' with --endpoint]
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub(crate) database: Option<String>,
}

/// Arguments of `orrery blog worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArguments {
    #[command(flatten)]
    pub(crate) blog: RunningBlog,
    /// Number of pipeline workers in this process
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=64)
    )]
    pub(crate) workers: u8,
    /// Print one JSON line when the workers run, and nothing else
    #[arg(long)]
    pub(crate) ready_json: bool,
}

/// Arguments of a blog to serve.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Listen address of the application; port 0 selects a free port
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "ORRERY_BLOG_LISTEN",
        default_value = "127.0.0.1:8083"
    )]
    pub(crate) listen: Listen,
    /// Address of a proxy in front of the application, whose header x-forwarded-for names the
    /// visitor; may be repeated. Attempts to sign in are slowed down by the visitor's address
    #[arg(
        long = "proxy",
        value_name = "ADDR",
        env = "ORRERY_BLOG_PROXY",
        value_delimiter = ','
    )]
    pub(crate) proxies: Vec<IpAddr>,
    /// Data directory [default: $XDG_DATA_HOME/orrery-blog, or ~/.local/share/orrery-blog]
    #[arg(
        long,
        value_name = "DIR",
        env = "ORRERY_BLOG_DATA_DIR",
        conflicts_with_all = ["memory", "endpoint"]
    )]
    pub(crate) data_dir: Option<PathBuf>,
    /// Keep data in memory only; lost on exit
    #[arg(long, conflicts_with = "endpoint")]
    pub(crate) memory: bool,
    /// Endpoint of another server, or of an account of the service, that keeps the data [default: a
    /// server in this process]
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// Account key of the other server [default: that in --key-file, ORRERY_KEY, COSMOS_KEY, or for
    /// this machine the well-known key]. Other users of the machine can see arguments: a key that
    /// is not public belongs in a file or in ORRERY_KEY
    #[arg(long, value_name = "KEY", requires = "endpoint")]
    pub(crate) key: Option<Secret>,
    /// Listen address of the database for other clients; port 0 selects a free port [default:
    /// 127.0.0.1:8081, or a free port if that port is in use]
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "endpoint")]
    pub(crate) database_listen: Option<Listen>,
    /// Listen address of the management API, or 'off' [default: 127.0.0.1:8082, or a free port if
    /// that port is in use]
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "endpoint")]
    pub(crate) admin_listen: Option<AdminListen>,
    /// File with the account keys: those of the database in this process [default: the well-known
    /// key of the emulator], or of the server that --endpoint names
    #[arg(long, value_name = "FILE", env = "ORRERY_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Size of a new blog; 1 is the 100,000 users of the published figures [default: 0.0001, which
    /// is 10 users with 275 posts]
    #[arg(long, value_name = "S")]
    pub(crate) scale: Option<f64>,
    /// Seed of the data of a new blog [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Home model of a new blog: '/' leads there [default: v3]
    #[arg(long, value_enum, value_name = "MODEL")]
    pub(crate) model: Option<HomeModel>,
    /// Keep a new blog in its home model only, as in production; otherwise all three models are
    /// present with equal contents
    #[arg(long)]
    pub(crate) only: bool,
    /// First part of the names of the databases
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "blog",
        value_parser = prefix
    )]
    pub(crate) database: String,
    /// Throughput of each container of the blog in RU/s [default: that of the published figures,
    /// 400,000 for posts]
    #[arg(long, value_name = "RU/S", value_parser = throughput)]
    pub(crate) throughput: Option<u32>,
    /// Size up to which the items of one logical partition may grow, such as 20MB
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "20GB",
        conflicts_with = "endpoint"
    )]
    pub(crate) logical_partition_limit: PartitionSize,
    /// Size of the items beyond which a physical partition is split in two, such as 50MB
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "50GB",
        conflicts_with = "endpoint"
    )]
    pub(crate) physical_partition_limit: PartitionSize,
    /// Pricing model for request charges
    #[arg(
        long,
        value_enum,
        default_value_t = Profile::Y2019,
        conflicts_with = "endpoint"
    )]
    pub(crate) profile: Profile,
    /// Number of pipeline workers in this process; 0 for none, if 'orrery blog worker' runs them
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(..=64)
    )]
    pub(crate) workers: u8,
    /// Least severe level of the database server that is logged
    #[arg(
        long,
        value_enum,
        default_value_t = Level::Warn,
        conflicts_with = "endpoint"
    )]
    pub(crate) log_level: Level,
    /// Print one JSON line with the addresses when the blog is ready, and nothing else on standard
    /// output
    #[arg(long)]
    pub(crate) ready_json: bool,
}

/// The three data models of the blog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HomeModel {
    /// Every entity once, joined by the application
    V1,
    /// Names and counts copied into posts
    V2,
    /// Also short posts by user, and a feed of the newest
    V3,
}

impl From<HomeModel> for orrery_blog::Model {
    fn from(model: HomeModel) -> Self {
        match model {
            HomeModel::V1 => Self::V1,
            HomeModel::V2 => Self::V2,
            HomeModel::V3 => Self::V3,
        }
    }
}

/// Parses the first part of the names of databases.
fn prefix(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match text.len() {
        1..=64 if text.chars().all(is_allowed) => Ok(text.to_owned()),
        _ => Err("it must have 1 to 64 letters, digits, '-' and '_'".to_owned()),
    }
}
