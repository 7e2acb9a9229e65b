//! Arguments of `orrery config`.

use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const CONFIG_HELP: &str = "\
Examples:
  Write a file with every setting, as a comment where it has its default:
    orrery config show > orrery.toml
  See what a server would use, and where each value comes from:
    orrery config show --effective --config orrery.toml --memory
  Check a file, and change nothing:
    orrery config check orrery.toml

A file is in TOML. Its keys are the options of 'orrery start' without the two dashes:
    listen = \"127.0.0.1:9000\"
    burst-capacity = true
    region = [\"West US\", \"East US\"]

An option on the command line comes before a variable of the environment, a variable before the
file, and the file before the default. Secrets do not stand in the file: name a file that holds
them, such as key-file.

Exit codes:
  0  the settings are usable
  2  they are not, or the options of this command are wrong";

/// Arguments of `orrery config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

/// Actions on the settings of `orrery start`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Print every setting of 'orrery start' with its value and where the value comes from
    Show(ShowArguments),
    /// Check a configuration file; every fault is printed with its line
    Check {
        /// File to check
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Arguments of `orrery config show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// Print defaults as settings too; otherwise they are comments
    #[arg(long)]
    pub(crate) effective: bool,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = ConfigFormat::Toml)]
    pub(crate) format: ConfigFormat,
    /// Options of 'orrery start', such as --config FILE, behind the options of this command
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) options: Vec<OsString>,
}

/// Forms of the output of `orrery config show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigFormat {
    /// A configuration file, with the source of each value as a comment
    Toml,
    /// An object with the file and the settings, each with key, value and source
    Json,
}
