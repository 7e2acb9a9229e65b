//! The command line: sub-commands, options, help texts.
//!
//! The doc comments of options and values are the help texts that users read. They are noun phrases
//! or imperatives without a full stop at the end, as is usual for help texts.

mod account;
mod backup;
mod bench;
mod blog;
mod cert;
mod config;
mod definition;
pub(crate) mod direct;
mod doctor;
mod emulator;
mod export;
mod fleet;
mod import;
mod keys;
mod mcp;
mod migrate_store;
mod query;
mod server_config;
mod shell;
mod shell_files;
mod start;
mod start_help;
mod verify;

pub(crate) use account::KeyArguments;
pub(crate) use backup::{BackupAction, BackupArguments, CreateArguments, RestoreArguments};
pub(crate) use bench::{BenchArguments, BlogArguments, TableFormat, Workload};
pub(crate) use blog::{
    BlogAction, BlogCommand, DriftArguments, MigrateArguments, RunningBlog, ServeArguments,
    WorkerArguments,
};
pub(crate) use definition::{DumpArguments, DumpFormat, InitArguments};
pub(crate) use export::ExportArguments;
pub(crate) use fleet::{
    ClustersAction, ClustersArguments, ManagementArguments, NodesAction, NodesArguments,
    PartitionsAction, PartitionsArguments,
};
pub(crate) use import::{DataFormat, ImportArguments, ImportMode};

pub(crate) use cert::{CertAction, CertArguments, CertFormat, CertSource};
pub(crate) use config::{ConfigAction, ConfigArguments, ConfigFormat, ShowArguments};
pub(crate) use doctor::DoctorArguments;
pub(crate) use emulator::EmulatorArguments;
pub(crate) use keys::{KeysAction, KeysArguments};
pub(crate) use mcp::McpArguments;
pub(crate) use migrate_store::MigrateStoreArguments;
pub(crate) use query::QueryArguments;
pub(crate) use shell::ShellArguments;
pub(crate) use shell_files::{CompletionsArguments, ManArguments};
pub(crate) use start::{AdminListen, Level, Profile, StartArguments, StoreKind, throughput};

pub(crate) use verify::VerifyArguments;

pub(crate) use start_help::summary as summary_of_start;
#[cfg(test)]
pub(crate) use start_help::{group_of, groups};

use clap::{Args, Parser, Subcommand};
use orrery_server::address::Listen;
use std::path::PathBuf;

/// An open, partitioned JSON document database that speaks the protocol of Azure Cosmos DB for
/// NoSQL
#[derive(Debug, Parser)]
#[command(name = "orrery", version, after_help = EXAMPLES)]
pub(crate) struct Program {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  orrery start                               serve on 127.0.0.1:8081, data in the home directory
  orrery emulator                            stand in for the vendor's emulator on 0.0.0.0:8081
  orrery start --memory                      keep data in memory only; lost on exit
  orrery start --data-dir ./data --listen 127.0.0.1:9000
  orrery start --listen 0.0.0.0:8081 --key-file ./account.key
  orrery keys create --key-file account.key  create a file with four new account keys
  orrery repair --data-dir ./data            say what a damaged data directory lost
  orrery verify --data-dir ./data            compare every row with what must be there
  orrery backup create /backups/shop         back a data directory up, also of a running server
  orrery restore /backups/shop --data-dir ./restored
  orrery healthcheck                         exit with 0 if the server answers
  orrery doctor                              find out why a client cannot reach a server
  orrery mcp                                 serve an account to an assistant
  orrery blog                                serve a blog that shows the cost of each request
  orrery bench blog                          measure the blog workload
  orrery query 'SELECT * FROM c' --database d --container c
  orrery shell                               type queries and commands
  orrery dump --output definition.json       write databases, containers and scripts to a file
  orrery migrate-store --to postgres --data-dir ./data --cluster-file clusters.toml
  orrery clusters list                       list the clusters of a fleet
  orrery import items.jsonl --database d --container c
  orrery export --database d --container c --output items.jsonl.zst

Clients connect with AccountEndpoint=http://127.0.0.1:8081/;AccountKey=<key>;
The port accepts HTTP and HTTPS; the certificate is self-signed, see 'orrery cert --help'.";

/// The sub-commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    #[command(
        after_help = start_help::SUMMARY_END,
        after_long_help = start::START_HELP,
        disable_help_flag = true,
        arg = start_help::help_option(),
        mut_args = start_help::in_group
    )]
    Start(Box<StartArguments>),
    /// Start the server in the place of the vendor's emulator: its ports, its well-known key, its
    /// environment variables
    Emulator(Box<EmulatorArguments>),
    /// Print, export and install the certificate of a server
    #[command(after_help = cert::CERT_HELP)]
    Cert(CertArguments),
    /// Check that a server answers; exit with 0 if it does, otherwise with 1
    Healthcheck(HealthcheckArguments),
    /// Check what keeps a server from starting and clients from reaching the server
    #[command(after_help = doctor::DOCTOR_HELP)]
    Doctor(DoctorArguments),
    /// Check the data directory of a server that does not run, and accept the loss of commits that
    /// its files no longer hold
    #[command(after_help = REPAIR_HELP)]
    Repair(RepairArguments),
    /// Read every row of the data and compare it with what must be there
    #[command(after_help = verify::VERIFY_HELP)]
    Verify(VerifyArguments),
    /// Make, list, verify and remove backups of a data directory
    #[command(after_help = backup::BACKUP_HELP)]
    Backup(BackupArguments),
    /// Restore a backup into a new data directory, or containers of it into an account that runs
    #[command(after_help = backup::RESTORE_HELP)]
    Restore(RestoreArguments),
    /// Copy the data of a data directory to PostgreSQL clusters, or back, while no server runs
    #[command(after_help = migrate_store::MIGRATE_STORE_HELP)]
    MigrateStore(MigrateStoreArguments),
    /// List the nodes of a fleet, and give the lease of the account to another node
    #[command(after_help = fleet::NODES_HELP)]
    Nodes(NodesArguments),
    /// List, drain and balance the clusters of a fleet
    #[command(after_help = fleet::CLUSTERS_HELP)]
    Clusters(ClustersArguments),
    /// List the physical partitions of a fleet, and move them between its clusters
    #[command(after_help = fleet::PARTITIONS_HELP)]
    Partitions(PartitionsArguments),
    /// Create and change the keys of an account
    #[command(after_help = keys::KEYS_HELP)]
    Keys(KeysArguments),
    /// Serve the reference blog in three data models, with its database in the same process
    #[command(after_help = blog::BLOG_HELP)]
    Blog(Box<BlogCommand>),
    /// Measure a workload on a temporary server or on a running one
    Bench(BenchArguments),
    /// Create the databases, containers, scripts and items that a definition states
    #[command(after_help = definition::INIT_HELP)]
    Init(InitArguments),
    /// Write the definition of an account: databases, containers, scripts and, if asked, items
    #[command(after_help = definition::DUMP_HELP)]
    Dump(DumpArguments),
    /// Run a query and print its rows
    #[command(after_help = query::QUERY_HELP)]
    Query(QueryArguments),
    /// Run queries and commands at a terminal, or from a script
    #[command(after_help = shell::SHELL_HELP)]
    Shell(Box<ShellArguments>),
    /// Serve an account to an assistant: a server of the Model Context Protocol over standard input
    /// and output
    #[command(after_help = mcp::MCP_HELP)]
    Mcp(McpArguments),
    /// Import items from files, standard input or another account
    #[command(after_help = import::IMPORT_HELP)]
    Import(Box<ImportArguments>),
    /// Export the items of a container, or the rows of a query, to a file
    #[command(after_help = export::EXPORT_HELP)]
    Export(Box<ExportArguments>),
    /// Print or check the settings of a server, with the source of each
    #[command(after_help = config::CONFIG_HELP)]
    Config(ConfigArguments),
    /// Print the completions of a shell
    #[command(after_help = shell_files::COMPLETIONS_HELP)]
    Completions(CompletionsArguments),
    /// Print the man page, or write the pages of all sub-commands
    #[command(after_help = shell_files::MAN_HELP)]
    Man(ManArguments),
    /// Run scripts for a server, which starts this command itself
    #[command(hide = true)]
    ScriptHost,
}

const REPAIR_HELP: &str = "\
Examples:
  See what is lost; nothing is given up:
    orrery repair --data-dir ./data
  Go on with what is left:
    orrery repair --data-dir ./data --accept-loss
  Make anew what follows from the items, such as damaged indexes:
    orrery repair --data-dir ./data --rebuild-index
  Date now what a clock that was ahead has dated in the future:
    orrery repair --data-dir ./data --clock

A server refuses to start if its files do not hold every acknowledged commit. A backup of the whole
data directory is the better remedy. If there is none, --accept-loss copies the unreadable part to
the folder 'lost-1' in the data directory, opens the data with the commits before it, and lists the
items of lost commits as far as they can be read. It mends cut and damaged journals and a missing
file 'high-water'. Damaged blocks of tables are listed; their partitions stay read-only until their
container is deleted, a backup is restored, or --rebuild-index makes them anew.

--rebuild-index verifies the data, as 'orrery verify' does, and makes the partitions anew in which
rows that follow from the items are damaged, missing or wrong: indexes, unique keys, the change
feed, times to live, counters. Items, their versions and their change feed stay as they are. A
partition whose items cannot be read stays as it is. A rebuilt partition has a new partition key
range id, as after a split.

A server that ran with a clock that was ahead has dated in the future what was written meanwhile.
--clock gives the present time to all items, kept versions and resources that are dated later than
the clock of this machine, which must be right. Such items get a new _ts and _etag, appear in change
feeds, and live for their time to live from now on.

Exit codes:
  0  the data directory is complete, the loss was accepted, or the times or indexes are mended
  2  wrong options
  4  the data directory is damaged, in use or missing";

/// Arguments of `orrery repair`.
#[derive(Debug, Args)]
pub(crate) struct RepairArguments {
    /// Data directory [default: $XDG_DATA_HOME/orrery, or ~/.local/share/orrery]
    #[arg(long, value_name = "DIR", env = "ORRERY_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Open the data without the lost commits; this cannot be undone
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Date now what is dated later than the clock, which must be right: after a run with a clock
    /// that was ahead
    #[arg(long, conflicts_with = "accept_loss")]
    pub(crate) clock: bool,
    /// Make everything that follows from the items anew where it is damaged, missing or wrong
    #[arg(long, conflicts_with_all = ["accept_loss", "clock"])]
    pub(crate) rebuild_index: bool,
}

/// Arguments of `orrery healthcheck`.
#[derive(Debug, Args)]
pub(crate) struct HealthcheckArguments {
    /// Listen address of the server [default: localhost with the port in the variable PORT, or
    /// with 8081]
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "ORRERY_LISTEN",
        value_delimiter = ','
    )]
    pub(crate) listen: Vec<Listen>,
    /// Check that the server is ready for requests, and not only that it answers
    #[arg(long)]
    pub(crate) ready: bool,
    /// Seconds for which a failed check is repeated
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use orrery_engine::CrossPartitionQueries;
    use orrery_gateway::Consistency;

    #[test]
    fn the_command_line_is_consistent() {
        Program::command().debug_assert();
    }

    #[test]
    fn without_options_a_server_listens_on_the_loopback_only() {
        let Command::Start(start) = Program::parse_from(["orrery", "start"]).command else {
            panic!("not a start")
        };
        let config = start.into_config().expect("a configuration");
        let listen = config.clients.listen.iter().chain(&config.admin.listen);
        assert!(listen.clone().count() == 2 && listen.clone().all(|listen| listen.is_loopback()));
        assert_eq!(config.engine.profile, orrery_engine::Profile::Modern);
        assert_eq!(
            config.engine.cross_partition_queries,
            CrossPartitionQueries::Merge
        );
        assert_eq!(config.account.consistency, Consistency::Session);
        assert!(!config.engine.throughput.enforce);
        assert!(config.account.regions.is_empty());
        assert!(config.fleet.is_none());
    }

    #[test]
    fn the_management_api_listens_on_the_given_address_or_is_off() {
        let parse = |text: &str| {
            let arguments = ["orrery", "start", "--admin-listen", text];
            match Program::try_parse_from(arguments).map(|program| program.command) {
                Ok(Command::Start(start)) => Some(start.admin_listen),
                _ => None,
            }
        };
        assert_eq!(parse("off"), Some(AdminListen::Off));
        assert_eq!(
            parse("127.0.0.1:0"),
            Some(AdminListen::At(Listen::At(([127, 0, 0, 1], 0).into())))
        );
        assert_eq!(parse("on"), None);
    }

    #[test]
    fn a_data_directory_and_memory_exclude_each_other() {
        assert!(
            Program::try_parse_from(["orrery", "start", "--memory", "--data-dir", "d"]).is_err()
        );
        assert!(Program::try_parse_from(["orrery", "start", "--tls-key", "k.pem"]).is_err());
    }
}
