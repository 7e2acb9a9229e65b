//! Arguments of `orrery doctor`.

use super::account::AccountArguments;
use clap::Args;
use std::path::PathBuf;

/// Help text after the options of `orrery doctor`.
pub(super) const DOCTOR_HELP: &str = "\
Examples:
  This machine, with the server on 127.0.0.1:8081 or without one:
    orrery doctor
  Another server, for a script:
    orrery doctor --endpoint https://db.example:8081 --key-file account.key --json

The checks are: port and program behind the port, certificate, clock, key, addresses of the direct
mode, data directory, open files, environment variables, Java. Each line is ok, warning, problem or
skipped; a line that begins with -> says what to do. Nothing is changed, and no key is printed.

Exit codes:
  0  no problem
  1  a problem
  2  wrong options";

/// Arguments of `orrery doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Data directory [default: $XDG_DATA_HOME/orrery, or ~/.local/share/orrery]
    #[arg(long, value_name = "DIR", env = "ORRERY_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) account: AccountArguments,
}
