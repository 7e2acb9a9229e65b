//! `orrery script-host`: the processes in which a server runs scripts.
//!
//! The processes are of this program, and can be killed without harm to the server. The command is
//! hidden: only the server starts it.

use orrery_script::HostCommand;
use orrery_server::Failure;
use std::process::ExitCode;

/// Returns the command that starts a process for scripts.
///
/// # Errors
/// The path of this program is not known.
pub(crate) fn command() -> Result<HostCommand, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::Failed(format!(
            "cannot determine the path of this program, which runs scripts: {error}"
        ))
    })?;
    Ok(HostCommand {
        program: program.into_os_string(),
        arguments: vec!["script-host".into()],
    })
}

/// Runs scripts for the server that started this process, until the server ends it.
pub(crate) fn run() -> ExitCode {
    orrery_script::serve_script_host()
}
