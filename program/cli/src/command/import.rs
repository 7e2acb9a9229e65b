//! Arguments of `orrery import`.

use super::account::AccountArguments;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Help text after the options of `orrery import`.
pub(super) const IMPORT_HELP: &str = "\
Examples:
  A file into a container that exists:
    orrery import items.jsonl --database shop --container orders
  Compressed files into a new container:
    orrery import 'data/*.csv.gz' --database shop --container orders \\
      --create-container --partition-key /customer
  An import that goes on after an interruption; the same command continues it:
    orrery import items.jsonl.zst --database shop --container orders \\
      --resume import.checkpoint --dead-letter refused.jsonl
  From another account, whose connection string is in a file:
    orrery import --from @source.txt --database shop --container orders
  Check a file and write nothing:
    orrery import items.json --database shop --container orders --dry-run

Formats: JSON lines (.jsonl, .ndjson), JSON (.json: an array, or values one after another) and CSV
(.csv, with a header), each also compressed with gzip or zstd. Items are sent as they stand, so that
numbers keep their digits. An item without an id gets one that follows from the file's name, the
record's number and its text: the same file gives the same ids.

CSV: an empty cell is left out; true, false, null, numbers, arrays and objects in JSON become such
values; anything else is a string, as is every cell of the column id and of --csv-text. The column
address.city is the property city of the object address.

Without --dead-letter, the first record that cannot be imported ends the import.

Exit codes:
  0  every record was imported, or found and kept with --mode skip-existing
  1  the import failed, or records were refused
  2  wrong options";

/// Arguments of `orrery import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// Files, patterns such as 'data/*.jsonl', or directories; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "from")]
    pub(crate) files: Vec<String>,
    /// Connection string of another account, with Database= and Container= of the container to
    /// read; @FILE reads the string from a file. Other users of the machine can see arguments: a
    /// key belongs in a file or in this variable
    #[arg(
        long,
        value_name = "CONNECTION_STRING",
        env = "ORRERY_IMPORT_FROM",
        hide_env_values = true,
        conflicts_with = "files"
    )]
    pub(crate) from: Option<String>,
    /// Database of the container
    #[arg(long, value_name = "NAME")]
    pub(crate) database: String,
    /// Container for the items
    #[arg(long, value_name = "NAME")]
    pub(crate) container: String,
    /// Handling of items whose id exists
    #[arg(long, value_enum, default_value_t = ImportMode::Create)]
    pub(crate) mode: ImportMode,
    /// Create the database and the container if they do not exist
    #[arg(long, requires = "partition_key")]
    pub(crate) create_container: bool,
    /// Partition key paths of a new container, one to three
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        requires = "create_container"
    )]
    pub(crate) partition_key: Vec<String>,
    /// Throughput of a new container in RU/s
    #[arg(long, value_name = "RU/S", requires = "create_container")]
    pub(crate) throughput: Option<u32>,
    /// Format of the files [default: by their names and first characters]
    #[arg(long, value_enum)]
    pub(crate) format: Option<DataFormat>,
    /// Columns of CSV files whose cells are strings
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) csv_text: Vec<String>,
    /// Take column names as property names, with their dots
    #[arg(long)]
    pub(crate) csv_flat: bool,
    /// Import items that lack a property of the partition key
    #[arg(long)]
    pub(crate) allow_missing_key: bool,
    /// File for records that cannot be imported, as JSON lines with place, reason and text; the
    /// import goes on
    #[arg(long, value_name = "FILE")]
    pub(crate) dead_letter: Option<PathBuf>,
    /// Checkpoint: written during the import; if it exists, the import goes on from it
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Check all records and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Largest speed in RU/s [default: as fast as the server accepts]
    #[arg(long, value_name = "RU/S")]
    pub(crate) rate: Option<f64>,
    /// Requests in flight at most
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) concurrency: usize,
    /// Items of one request at most, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) batch: usize,
    #[command(flatten)]
    pub(crate) account: AccountArguments,
}

/// Handling of items whose id exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportMode {
    /// Refuse the item
    Create,
    /// Replace the existing item
    Upsert,
    /// Keep the existing item
    SkipExisting,
}

/// Format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataFormat {
    /// JSON lines
    Jsonl,
    /// JSON array
    Json,
    /// Comma-separated values with a header
    Csv,
}
