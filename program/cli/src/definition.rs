//! `orrery init` and `orrery dump`: the definition of an account.

use crate::command::{DumpArguments, DumpFormat, InitArguments};
use orrery_client::ClientError;
use orrery_server::Failure;
use orrery_tools::connection;
use orrery_tools::definition::{self, DefinitionError};
use std::io::Write;

/// Applies a definition to an account.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run_init(arguments: &InitArguments) -> Result<(), Failure> {
    let stated = definition::read(&arguments.path).map_err(usage)?;
    let (client, _) = connection::client(&arguments.account.options()).map_err(client_failure)?;
    let runtime = runtime()?;
    let applied = definition::apply(&client, stated, arguments.init_mode.into());
    let done = runtime.block_on(applied).map_err(failure)?;
    for line in done.lines() {
        tell(&line);
    }
    Ok(())
}

/// Writes the definition of an account.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run_dump(arguments: &DumpArguments) -> Result<(), Failure> {
    let output = arguments.output.as_deref();
    if let Some(path) = output.filter(|_| arguments.format == DumpFormat::File)
        && let Ok(facts) = std::fs::symlink_metadata(path)
        && !(facts.is_file() && arguments.overwrite)
    {
        let problem = format!(
            "{} exists: name another file, or add --overwrite, which replaces a plain file",
            path.display()
        );
        return Err(Failure::Usage(problem));
    }
    let (client, _) = connection::client(&arguments.account.options()).map_err(client_failure)?;
    let runtime = runtime()?;
    let read = definition::dump(&client, arguments.database.as_deref(), arguments.items);
    let found = runtime.block_on(read).map_err(failure)?;
    match (&arguments.output, arguments.format) {
        (Some(folder), DumpFormat::Folder) => definition::write_folder(found, folder),
        (Some(path), DumpFormat::File) => {
            definition::replace_file(&found, path, arguments.overwrite)
        }
        (None, _) => definition::write_file(&found, &mut std::io::stdout()),
    }
    .map_err(failure)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    connection::runtime()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))
}

fn client_failure(error: ClientError) -> Failure {
    match error {
        ClientError::InvalidOption(text) => Failure::Usage(text),
        error => Failure::Failed(error.to_string()),
    }
}

fn usage(error: DefinitionError) -> Failure {
    Failure::Usage(error.to_string())
}

fn failure(error: DefinitionError) -> Failure {
    Failure::Failed(error.to_string())
}

fn tell(line: &str) {
    // If standard error is closed, the exit code tells the result.
    let _ = writeln!(std::io::stderr(), "{line}");
}
