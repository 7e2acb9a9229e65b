//! Arguments of `orrery migrate-store`.

use super::start::StoreKind;
use clap::Args;
use std::path::PathBuf;

/// Help text after the options of `orrery migrate-store`.
pub(super) const MIGRATE_STORE_HELP: &str = "\
Examples:
  From a data directory to clusters:
    orrery migrate-store --to postgres --data-dir ./data --cluster-file clusters.toml
  Back to a new data directory:
    orrery migrate-store --to directory --data-dir ./new --cluster-file clusters.toml

No server may use the source or the target meanwhile. The target must be empty, or hold an
interrupted copy of the same source, which is continued. At the end all rows of both are compared.
The source stays as it is. Session tokens, continuations and etags of clients stay valid; keys and
certificates are not copied.

Exit codes:
  0  the copy is complete and was compared
  1  a server uses the clusters
  2  wrong options
  4  the source or the target cannot be used, or the copy failed";

/// Arguments of `orrery migrate-store`.
#[derive(Debug, Args)]
pub(crate) struct MigrateStoreArguments {
    /// Target of the copy; the source is the other one
    #[arg(long, value_enum)]
    pub(crate) to: StoreKind,
    /// Data directory [default: $XDG_DATA_HOME/orrery, or ~/.local/share/orrery]
    #[arg(long, value_name = "DIR", env = "ORRERY_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// File in TOML with the PostgreSQL clusters
    #[arg(long, value_name = "FILE", env = "ORRERY_CLUSTER_FILE")]
    pub(crate) cluster_file: PathBuf,
}
