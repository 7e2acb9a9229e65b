//! Arguments of `orrery nodes`, `orrery clusters` and `orrery partitions`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Help text after the options of `orrery clusters`.
pub(super) const CLUSTERS_HELP: &str = "\
Examples:
  orrery clusters list
  orrery clusters drain second --wait
  orrery clusters undrain second
  orrery clusters balance --min-bytes 100000000

The commands are requests to the management API of a node.

Exit codes:
  0  done, or started
  1  the server refused the request or did not answer, or a move failed
  2  wrong options";

/// Help text after the options of `orrery nodes`.
pub(super) const NODES_HELP: &str = "\
Examples:
  orrery nodes list
  orrery nodes lead b

The commands are requests to the management API of the leaseholder.

Exit codes:
  0  done, or started
  1  the server refused the request or did not answer
  2  wrong options";

/// Help text after the options of `orrery partitions`.
pub(super) const PARTITIONS_HELP: &str = "\
Examples:
  orrery partitions list
  orrery partitions list --database blog --container posts --json
  orrery partitions move 0 --database blog --container posts --to second --wait

The commands are requests to the management API of a node.

Exit codes:
  0  done, or started
  1  the server refused the request or did not answer, or a move failed
  2  wrong options";

/// The management API that a command uses.
#[derive(Debug, Args)]
pub(crate) struct ManagementArguments {
    /// Endpoint of the management API [default: ORRERY_ADMIN_ENDPOINT, or http://127.0.0.1:8082/]
    #[arg(
        long,
        value_name = "URL",
        env = "ORRERY_ADMIN_ENDPOINT",
        hide_env = true
    )]
    pub(crate) admin_endpoint: Option<String>,
    /// File with the admin key [default: admin.key in the data directory]
    #[arg(long, value_name = "FILE", env = "ORRERY_ADMIN_KEY_FILE")]
    pub(crate) admin_key_file: Option<PathBuf>,
    /// Data directory of the node, for the admin key [default: $XDG_DATA_HOME/orrery, or
    /// ~/.local/share/orrery]
    #[arg(long, value_name = "DIR", env = "ORRERY_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca_file")]
    pub(crate) insecure: bool,
    /// File in PEM with the root certificates to accept
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `orrery nodes`.
#[derive(Debug, Args)]
pub(crate) struct NodesArguments {
    #[command(subcommand)]
    pub(crate) action: NodesAction,
}

/// Actions on nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum NodesAction {
    /// List the live nodes with their regions
    List {
        #[command(flatten)]
        management: ManagementArguments,
    },
    /// Give the lease of the account to another node: its region takes the writes then. The process
    /// of the node that had the lease ends with exit code 1, for its supervisor to start it again
    Lead {
        /// Node that gets the lease
        #[arg(value_name = "NODE")]
        node: String,
        #[command(flatten)]
        management: ManagementArguments,
    },
}

/// Arguments of `orrery clusters`.
#[derive(Debug, Args)]
pub(crate) struct ClustersArguments {
    #[command(subcommand)]
    pub(crate) action: ClustersAction,
}

/// Actions on clusters.
#[derive(Debug, Subcommand)]
pub(crate) enum ClustersAction {
    /// List the clusters with their partitions and sizes
    List {
        #[command(flatten)]
        management: ManagementArguments,
    },
    /// Move all partitions of a cluster to others; the cluster gets no further ones
    Drain {
        /// Cluster
        #[arg(value_name = "CLUSTER")]
        cluster: String,
        /// Wait until all partitions have moved
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        management: ManagementArguments,
    },
    /// Let a drained cluster get partitions again
    Undrain {
        /// Cluster
        #[arg(value_name = "CLUSTER")]
        cluster: String,
        #[command(flatten)]
        management: ManagementArguments,
    },
    /// Move the one partition that makes the clusters more equal, if there is one
    Balance {
        /// Difference of two clusters in bytes from which on a partition moves [default: 1 GiB]
        #[arg(long, value_name = "BYTES")]
        min_bytes: Option<u32>,
        /// Difference of two clusters in request units per second from which on a partition moves
        /// [default: 1000]
        #[arg(long, value_name = "RU/S")]
        min_request_units: Option<u32>,
        /// Wait until the partition has moved
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        management: ManagementArguments,
    },
}

/// Arguments of `orrery partitions`.
#[derive(Debug, Args)]
pub(crate) struct PartitionsArguments {
    #[command(subcommand)]
    pub(crate) action: PartitionsAction,
}

/// Actions on physical partitions.
#[derive(Debug, Subcommand)]
pub(crate) enum PartitionsAction {
    /// List the partitions with the clusters that have them
    List {
        /// Database whose partitions are listed [default: all]
        #[arg(long, value_name = "NAME")]
        database: Option<String>,
        /// Container whose partitions are listed [default: all]
        #[arg(long, value_name = "NAME", requires = "database")]
        container: Option<String>,
        #[command(flatten)]
        management: ManagementArguments,
    },
    /// Move a physical partition to another cluster while it is used
    Move {
        /// Partition key range id
        #[arg(value_name = "ID")]
        id: u32,
        /// Database of the container
        #[arg(long, value_name = "NAME")]
        database: String,
        /// Container
        #[arg(long, value_name = "NAME")]
        container: String,
        /// Cluster that gets the partition
        #[arg(long, value_name = "CLUSTER")]
        to: String,
        /// Wait until the partition has moved
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        management: ManagementArguments,
    },
}
