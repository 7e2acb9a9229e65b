//! `orrery doctor`: the checks of `orrery_tools::doctor`, with the facts of this program.

use crate::command::DoctorArguments;
use crate::variables;
use orrery_server::data_dir::{self, OWN_FILES, SERVER};
use orrery_server::{Failure, descriptors};
use orrery_tools::connection;
use orrery_tools::doctor::{self, Subject};
use std::io::Write;

/// Runs the checks and prints the report. Returns true if there is no problem.
///
/// # Errors
/// [`Failure::Failed`] if the report cannot be written.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<bool, Failure> {
    let subject = Subject {
        account: arguments.account.options(),
        // Without a home directory the report says so.
        data_dir: data_dir::locate(arguments.data_dir.as_deref(), SERVER).ok(),
        own_files: &OWN_FILES,
        format: orrery_storage::FORMAT,
        open_files_min: descriptors::NEEDED_MIN,
        needless_variables: variables::warnings(),
    };
    let runtime = connection::runtime()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))?;
    let findings = runtime.block_on(doctor::run(&subject, &|name| std::env::var(name).ok()));
    let text = match arguments.json {
        true => format!("{:#}\n", doctor::as_json(&findings)),
        false => doctor::as_text(&findings),
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // The reader has seen enough, for example `head`.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Failed(
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(!doctor::has_problem(&findings)),
    }
}
