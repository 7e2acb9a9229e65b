//! Arguments of `orrery shell`.

use super::account::AccountArguments;
use super::query::RowFormat;
use clap::Args;

/// Help text after the options of `orrery shell`.
pub(super) const SHELL_HELP: &str = "\
Examples:
  At a terminal, on the server of this machine:
    orrery shell
  In a container of another account:
    orrery shell --endpoint https://db.example/ --key-file account.key --database shop \\
      --container orders
  One statement:
    orrery shell --database shop --container orders -c 'SELECT * FROM c' --format jsonl
  A script:
    orrery shell --database shop < script.txt

A query begins with SELECT and ends with ';' or an empty line. Commands are one line, and '.help'
lists them. Rows go to standard output; costs, notes and failures go to standard error.

Without a terminal, the statements come from standard input, and the first failure ends the
session.

At a terminal the statements are kept in the file orrery/shell-history below $XDG_STATE_HOME, or
below ~/.local/state, which only its owner can read. A statement with an account key is left out.

Exit codes:
  0  every statement was done
  1  a statement failed, or the account cannot be reached
  2  wrong options";

/// Arguments of `orrery shell`.
#[derive(Debug, Args)]
pub(crate) struct ShellArguments {
    /// Account: URL, 'emulator', or @FILE with a connection string [default: as without it for the
    /// other options]
    #[arg(value_name = "ACCOUNT", conflicts_with = "endpoint")]
    pub(crate) target: Option<String>,
    /// Run this statement and end; may be repeated
    #[arg(short = 'c', long = "command", value_name = "STATEMENT")]
    pub(crate) commands: Vec<String>,
    /// Database [default: that of the connection string]
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Option<String>,
    /// Container [default: that of the connection string]
    #[arg(long, value_name = "NAME", requires = "database")]
    pub(crate) container: Option<String>,
    /// Form of rows
    #[arg(long, value_enum, default_value_t = RowFormat::Table)]
    pub(crate) format: RowFormat,
    /// Rows of a query before '.more' prints the next ones [default: 50 at a terminal, otherwise
    /// all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: Option<u32>,
    /// Go on behind a statement that failed
    #[arg(long)]
    pub(crate) continue_on_error: bool,
    /// Delete without a question
    #[arg(long)]
    pub(crate) yes: bool,
    /// Neither read nor write the history
    #[arg(long)]
    pub(crate) no_history: bool,
    /// Leave out rows, request units, time and partitions after each statement
    #[arg(long)]
    pub(crate) no_timing: bool,
    #[command(flatten)]
    pub(crate) account: AccountArguments,
}
