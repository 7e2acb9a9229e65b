//! Arguments of `orrery query`.

use super::account::AccountArguments;
use clap::{Args, ValueEnum};
use orrery_tools::form::RowForm;

/// Help text after the options of `orrery query`.
pub(super) const QUERY_HELP: &str = "\
Examples:
  orrery query 'SELECT c.id, c.total FROM c' --database shop --container orders
  orrery query 'SELECT * FROM c WHERE c.total > @min' --parameter min=100 --all --format jsonl \\
    --database shop --container orders
  orrery query 'SELECT * FROM c' --partition-key '\"ada\"' --explain --database shop \\
    --container orders

Request units, items, time and physical partitions go to standard error. A server that leaves the
merge of physical partitions to its clients gets the query for one partition after the other, and
TOP, OFFSET and LIMIT are counted here; a query that sorts, groups, aggregates or removes duplicates
over them is then refused.";

/// Arguments of `orrery query`.
#[derive(Debug, Args)]
pub(crate) struct QueryArguments {
    /// Query
    #[arg(value_name = "QUERY")]
    pub(crate) text: String,
    /// Database of the container [default: that of the connection string]
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Option<String>,
    /// Container [default: that of the connection string]
    #[arg(long, value_name = "NAME")]
    pub(crate) container: Option<String>,
    /// Form of the rows
    #[arg(long, value_enum, default_value_t = RowFormat::Table)]
    pub(crate) format: RowFormat,
    /// Value of a parameter in JSON; may be repeated
    #[arg(long = "parameter", value_name = "NAME=JSON")]
    pub(crate) parameters: Vec<String>,
    /// Partition key of the logical partition to ask, as a JSON value or an array for several paths
    #[arg(long, value_name = "JSON")]
    pub(crate) partition_key: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "all")]
    pub(crate) max_items: usize,
    /// All rows
    #[arg(long)]
    pub(crate) all: bool,
    /// Print metrics of the query, its use of the index, and the plan if the server gives it
    #[arg(long)]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) account: AccountArguments,
}

/// Forms of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    /// Table, cut to the width of the terminal
    Table,
    /// JSON array
    Json,
    /// JSON lines
    Jsonl,
    /// CSV with a header
    Csv,
}

impl From<RowFormat> for RowForm {
    fn from(format: RowFormat) -> Self {
        match format {
            RowFormat::Table => Self::Table,
            RowFormat::Json => Self::Json,
            RowFormat::Jsonl => Self::JsonLines,
            RowFormat::Csv => Self::Csv,
        }
    }
}
