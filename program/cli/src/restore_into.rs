//! `orrery restore --into`: databases and containers of a backup in an account that runs.
//!
//! The whole backup is restored into a directory for the time of the command, and a server of this
//! program serves it. From there the containers are copied by requests, so the account may be of
//! this program, of a fleet or of the service.
//!
//! Promises: no container that exists is changed. At the end, after a failure and after Ctrl-C, the
//! directory is removed, and a container that is not complete is named.
//! Leaves out: a restore that goes on where an interrupted one stopped.

use crate::backup::restore_directory;
use crate::command::RestoreArguments;
use crate::management::print;
use crate::rotation;
use crate::signals;
use crate::temporary_server::TemporaryServer;
use crate::transfer::{client_failure, failure, runtime, tell};
use orrery_client::{Client, ConnectionOptions, Secret};
use orrery_server::Failure;
use orrery_tools::connection;
use orrery_tools::copy::Selection;
use orrery_tools::transfer::on_stderr;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

/// Waits of one request to the restored data, whose containers have their budgets of before.
const PATIENCE: Duration = Duration::from_secs(600);
/// Attempts to remove the directory: a restore that was interrupted may write into it once more.
const REMOVALS: u32 = 100;

/// The directory of the restored backup. Dropping it removes the directory.
struct WorkDirectory(PathBuf);

impl WorkDirectory {
    /// Creates a directory of its own in `home`.
    fn new(home: &Path) -> Result<Self, Failure> {
        let path = home.join(format!("orrery-restore-{}", process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(Failure::Failed(format!(
                "cannot create {}: {error}",
                path.display()
            ))),
        }
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            match std::fs::remove_dir_all(&self.0) {
                Ok(()) => return,
                Err(error) if error.kind() == ErrorKind::NotFound => return,
                Err(_) => {}
            }
        }
        tell(&format!("{} could not be removed", self.0.display()));
    }
}

/// Restores a backup for the time of a copy, and copies from it.
///
/// # Errors
/// [`Failure::Usage`] for options that cannot be used and containers that exist,
/// [`Failure::Data`] for a damaged backup, [`Failure::Failed`] if a request failed or the command
/// was interrupted.
pub(crate) fn run(arguments: &RestoreArguments) -> Result<(), Failure> {
    if arguments.as_container.is_some() && arguments.container.len() != 1 {
        return Err(Failure::Usage(
            "--as-container names one container: name one with --container".into(),
        ));
    }
    let options = ConnectionOptions {
        endpoint: arguments.into.clone(),
        key: arguments.key.key.clone(),
        key_file: arguments.key.key_file.clone(),
        insecure: arguments.insecure,
        ca_file: arguments.ca_file.clone(),
        ..ConnectionOptions::default()
    };
    let (target, _) = connection::client(&options).map_err(client_failure)?;
    let runtime = runtime()?;

    // The place that is being written is known after an interruption too.
    let incomplete = RefCell::new(None);
    let outcome = runtime.block_on(async {
        let interrupted = signals::shutdown()?;
        tokio::select! {
            outcome = restore_and_copy(arguments, &target, &incomplete) => outcome,
            () = interrupted => Err(Failure::Failed("the restore was interrupted".into())),
        }
    });
    // A restore that is interrupted goes on until its next file, which nobody waits for.
    runtime.shutdown_background();
    match (outcome, incomplete.take()) {
        (Err(Failure::Failed(message)), Some(place)) => Err(Failure::Failed(format!(
            "{message}; {place} in the account is not complete: delete it, and restore it again"
        ))),
        (outcome, _) => outcome,
    }
}

/// Restores the backup, serves it, and copies the selection.
async fn restore_and_copy(
    arguments: &RestoreArguments,
    target: &Client,
    incomplete: &RefCell<Option<String>>,
) -> Result<(), Failure> {
    let selection = Selection {
        database: arguments.database.clone(),
        containers: arguments.container.clone(),
        as_database: arguments.as_database.clone(),
        as_container: arguments.as_container.clone(),
    };
    // A restore may take hours: the account is asked first.
    target.databases().await.map_err(client_failure)?;
    selection.refuse_existing(target).await.map_err(failure)?;

    // The server is dropped before its directory.
    let home = arguments.work_dir.clone();
    let directory = WorkDirectory::new(&home.unwrap_or_else(std::env::temp_dir))?;
    let data = directory.0.join("data");
    let (of_restore, path) = (arguments.clone(), data.clone());
    let restored = tokio::task::spawn_blocking(move || restore_directory(&of_restore, &path));
    let restored = restored.await;
    tell(&restored.map_err(|error| Failure::Failed(format!("the restore ended: {error}")))??);

    // Without a key of its own the server would be open to every user of this machine.
    let key_file = directory.0.join("account.key");
    rotation::create(&key_file)?;
    let options = [OsStr::new("--key-file"), key_file.as_os_str()];
    let server = TemporaryServer::start(&data, &options)?;
    let options = ConnectionOptions {
        endpoint: Some(server.endpoint.clone()),
        key: Some(Secret::new(server.key.clone())),
        ..ConnectionOptions::default()
    };
    let (source, _) = connection::client(&options).map_err(client_failure)?;
    let source = source.with_patience(PATIENCE);
    copy(&selection, &source, target, incomplete).await
}

/// Copies the selection, and prints a line for each container.
async fn copy(
    selection: &Selection,
    source: &Client,
    target: &Client,
    incomplete: &RefCell<Option<String>>,
) -> Result<(), Failure> {
    let steps = selection.steps(source, target).await.map_err(failure)?;
    let mut items = 0;
    for step in steps {
        let (origin, place) = (step.origin().to_owned(), step.place().to_owned());
        incomplete.replace(Some(place.clone()));
        let progress = on_stderr();
        let copied = step.run(source, target, &*progress).await;
        let copied = copied.map_err(failure)?;
        incomplete.take();
        items += copied;
        print(&format!("{origin} is now {place}: {copied} items\n"))?;
    }
    print(&format!(
        "{items} items copied into {}\n",
        target.endpoint()
    ))
}
