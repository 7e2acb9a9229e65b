//! Arguments of `orrery export`.

use super::account::AccountArguments;
use super::import::DataFormat;
use clap::Args;
use std::path::PathBuf;

/// Help text after the options of `orrery export`.
pub(super) const EXPORT_HELP: &str = "\
Examples:
  All items, compressed:
    orrery export --database shop --container orders --output orders.jsonl.zst
  The rows of a query for a spreadsheet:
    orrery export --database shop --container orders --output open.csv \\
      --query \"SELECT c.id, c.total FROM c WHERE c.open\"
  To another program:
    orrery export --database shop --container orders --output - | wc -l

The file's extension gives the format (jsonl, json, csv) and the compression (gz, zst). The export
reads into the folder FILE.part, and FILE gets its name when it is complete; after an interruption
the same command goes on with the folder.

The export is no snapshot: an item that does not change meanwhile is in the file once; of an item
that changes, the old version or the new.";

/// Arguments of `orrery export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// Database of the container
    #[arg(long, value_name = "NAME")]
    pub(crate) database: String,
    /// Container
    #[arg(long, value_name = "NAME")]
    pub(crate) container: String,
    /// File to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Format [default: by the file's name; JSON lines for standard output]
    #[arg(long, value_enum)]
    pub(crate) format: Option<DataFormat>,
    /// Query whose rows are written [default: all items]
    #[arg(long, value_name = "SQL")]
    pub(crate) query: Option<String>,
    /// Write _rid, _self, _etag, _attachments and _ts too
    #[arg(long)]
    pub(crate) system_properties: bool,
    /// Physical partitions that are read at the same time
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) parallel: usize,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) account: AccountArguments,
}
