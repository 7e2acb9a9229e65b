//! `orrery script-host`: the process in which scripts run, apart from the server.

use std::io::Write;
use std::process::ExitCode;

/// Serves scripts on standard input and output until they end.
pub(crate) fn serve() -> ExitCode {
    let _ = writeln!(std::io::stderr(), "orrery: this build cannot run scripts");
    ExitCode::FAILURE
}
