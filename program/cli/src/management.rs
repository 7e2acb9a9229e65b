//! Requests of commands to the management API of a server: the connection that the options name,
//! and the output.
//!
//! Tables and JSON go to standard output; a sentence about work that was started goes to standard
//! error.

use crate::command::ManagementArguments;
use orrery_client::Trust;
use orrery_client::files::read_text;
use orrery_server::Failure;
use orrery_server::data_dir::{self, SERVER};
use orrery_tools::connection;
use orrery_tools::form::screen_width;
use orrery_tools::manage::{ManageError, Manager, rows};
use orrery_tools::table::{for_terminal, table};
use serde_json::Value;
use std::io::{self, IsTerminal, Write};

/// The endpoint of the management API of this machine.
const ENDPOINT: &str = "http://127.0.0.1:8082/";

/// The output of a command.
pub(crate) struct Printed {
    /// The answer of the server.
    json: Value,
    table: String,
    /// A sentence for people.
    note: String,
}

impl Printed {
    /// Creates the output about an answer with its table.
    pub(crate) fn of(json: Value, table: String) -> Printed {
        Printed {
            json,
            table,
            note: String::new(),
        }
    }

    /// Creates the output about one object.
    pub(crate) fn one(json: Value, columns: &[&str]) -> Printed {
        let table = table_of(std::slice::from_ref(&json), columns);
        Printed::of(json, table)
    }

    /// Adds a sentence for people.
    pub(crate) fn with(self, note: String) -> Printed {
        Printed { note, ..self }
    }
}

/// Returns a table of objects, or no text without objects.
pub(crate) fn table_of(objects: &[Value], columns: &[&str]) -> String {
    match objects {
        [] => String::new(),
        objects => table(&rows(objects, columns), screen_width()),
    }
}

/// Runs requests and prints what they return.
///
/// # Errors
/// [`Failure::Usage`] for options that cannot be used; [`Failure::Failed`] if the server refuses or
/// does not answer.
pub(crate) fn with(
    management: &ManagementArguments,
    requests: impl AsyncFnOnce(&Manager) -> Result<Printed, ManageError>,
) -> Result<(), Failure> {
    let printed = ask(management, requests)?;
    let text = match management.json {
        true => format!("{:#}\n", printed.json),
        false => printed.table,
    };
    print(&text)?;
    if !printed.note.is_empty() {
        // If standard error is closed, the table tells enough.
        let _ = writeln!(io::stderr(), "{}", for_terminal(&printed.note));
    }
    Ok(())
}

/// Runs requests and returns their result.
///
/// # Errors
/// As [`with`].
pub(crate) fn ask<T>(
    management: &ManagementArguments,
    requests: impl AsyncFnOnce(&Manager) -> Result<T, ManageError>,
) -> Result<T, Failure> {
    let manager = manager(management)?;
    let runtime = connection::runtime()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))?;
    runtime.block_on(requests(&manager)).map_err(failure)
}

/// Prints a text on standard output.
///
/// # Errors
/// [`Failure::Failed`] if standard output takes no text; a reader that has seen enough, as `head`
/// has, is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    let text = match stdout.is_terminal() {
        true => for_terminal(text).into_owned(),
        false => text.to_owned(),
    };
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let message = format!("cannot write to standard output: {error}");
            Err(Failure::Failed(message))
        }
        _ => Ok(()),
    }
}

/// Returns the connection that the options name.
fn manager(management: &ManagementArguments) -> Result<Manager, Failure> {
    let file = match &management.admin_key_file {
        Some(file) => file.clone(),
        None => data_dir::locate(management.data_dir.as_deref(), SERVER)?.join("admin.key"),
    };
    let keys = read_text(&file).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the admin key in {}: {error}; name its file with --admin-key-file, or the \
             data directory of the node with --data-dir",
            file.display()
        ))
    })?;
    let mut keys = keys.lines().map(str::trim);
    let key = keys.find(|line| !line.is_empty() && !line.starts_with('#'));
    let key =
        key.ok_or_else(|| Failure::Usage(format!("there is no admin key in {}", file.display())))?;
    let trust = match &management.ca_file {
        _ if management.insecure => Trust::Any,
        Some(file) => Trust::File(file.clone()),
        None => Trust::System,
    };
    let endpoint = management.admin_endpoint.as_deref().unwrap_or(ENDPOINT);
    Manager::new(endpoint, key, &trust).map_err(failure)
}

fn failure(error: ManageError) -> Failure {
    match error {
        ManageError::Option(text) => Failure::Usage(text),
        error => Failure::Failed(error.to_string()),
    }
}
