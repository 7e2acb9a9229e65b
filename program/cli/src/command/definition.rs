//! Arguments of `orrery init` and `orrery dump`.

use super::account::AccountArguments;
use clap::{Args, ValueEnum};
use orrery_tools::definition::ExistingMode;
use std::path::PathBuf;

/// Help text after the options of `orrery init`.
pub(super) const INIT_HELP: &str = "\
Examples:
  A definition in one file:
    {\"databases\": [{\"id\": \"shop\", \"containers\": [{
       \"id\": \"orders\", \"partitionKey\": {\"paths\": [\"/customer\"]},
       \"throughput\": {\"autoscale\": 4000},
       \"items\": [{\"id\": \"1\", \"customer\": \"ada\"}]}]}]}
  Create what it states and what is missing:
    orrery init shop.json --endpoint http://127.0.0.1:8081
  The same before a server is ready:
    orrery start --memory --init shop.json

A folder holds shop/database.json, shop/orders/container.json, shop/orders/items.jsonl, and scripts
in shop/orders/procedures, functions and triggers as .js files; 'orrery dump' writes both forms.

Exit codes:
  0  everything that the definition states exists
  1  a request failed, or a resource differs
  2  wrong options, or a wrong definition";

/// Help text after the options of `orrery dump`.
pub(super) const DUMP_HELP: &str = "\
Examples:
  All databases, containers and scripts:
    orrery dump --output definition.json
  One database with its items, as a folder:
    orrery dump --database shop --items --format folder --output shop

Items of one container are held in memory; 'orrery export' is for large containers.";

/// Arguments of `orrery init`.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// Definition: a JSON file, a folder, or a state file of cosmium
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// Handling of resources that exist with other settings than the definition states
    #[arg(long, value_enum, value_name = "MODE", default_value_t = InitMode::Refuse)]
    pub(crate) init_mode: InitMode,
    #[command(flatten)]
    pub(crate) account: AccountArguments,
}

/// Arguments of `orrery dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    /// Database to write [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Option<String>,
    /// Write items too
    #[arg(long)]
    pub(crate) items: bool,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = DumpFormat::File)]
    pub(crate) format: DumpFormat,
    /// File or folder to write [default: standard output]
    #[arg(long, short, value_name = "PATH", required_if_eq("format", "folder"))]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) account: AccountArguments,
}

/// Forms of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// One JSON file
    File,
    /// A folder with a folder for each database and container
    Folder,
}

/// Handling of resources that exist with other settings than a definition states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitMode {
    /// End with an error
    Refuse,
    /// Leave them as they are
    Keep,
    /// Give them the stated settings, and replace items
    Replace,
}

impl From<InitMode> for ExistingMode {
    fn from(mode: InitMode) -> Self {
        match mode {
            InitMode::Refuse => ExistingMode::Refuse,
            InitMode::Keep => ExistingMode::Keep,
            InitMode::Replace => ExistingMode::Replace,
        }
    }
}
