//! The options of an import.

use super::input::{CsvRules, InputFormat};
use orrery_client::Client;
use std::path::PathBuf;

/// Handling of an item whose id exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The item is refused.
    Create,
    /// The item replaces the other.
    Upsert,
    /// The other is kept, and counted.
    SkipExisting,
}

/// A container that is created if it does not exist.
#[derive(Debug, Clone)]
pub struct NewContainer {
    /// Paths of the partition key, one to three, for example `/city`.
    pub partition_key: Vec<String>,
    /// Throughput of the container.
    pub throughput: Option<u32>,
}

/// The options of an import.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Files, patterns, directories, and `-` for standard input.
    pub files: Vec<String>,
    /// A container of this or another endpoint to read from: its client and link.
    pub from: Option<(Client, String)>,
    /// Database of the container.
    pub database: String,
    /// Container for the items.
    pub container: String,
    /// Handling of an item whose id exists.
    pub mode: Mode,
    /// Creates database and container.
    pub create: Option<NewContainer>,
    /// Format of the files; otherwise by their names and first characters.
    pub format: Option<InputFormat>,
    /// Rules for CSV files.
    pub csv: CsvRules,
    /// True if items without a property of the partition key are imported.
    pub allows_missing_key: bool,
    /// File for refused records; without it, the first one ends the import.
    pub dead_letter: Option<PathBuf>,
    /// Checkpoint: written during the import, and read if it exists.
    pub checkpoint: Option<PathBuf>,
    /// True if records are checked and nothing is written.
    pub is_dry_run: bool,
    /// Request units per second at most.
    pub rate: Option<f64>,
    /// Requests in flight at most.
    pub concurrency: usize,
    /// Items of one request at most, 1 to 100.
    pub batch: usize,
}
