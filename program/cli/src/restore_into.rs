//! `orrery restore --into`: databases and containers of a backup in an account that runs.
//!
//! The whole backup is restored into a directory for the time of the command, and a server in this
//! process serves it, with a clock that stands at the moment of the backup. From there the
//! containers are copied by requests, so the account may be of this program, of a fleet or of the
//! service.
//!
//! Promises: no container that exists is changed, and all items of the moment are copied, also
//! those whose time to live is over today. At the end, after a failure and after a signal, the
//! directory is removed, and a container that is not complete is named.
//! Leaves out: SIGKILL, which leaves the directory, and users and permissions.

use crate::backup::{self, RestoredDirectory, restore_directory};
use crate::command::{RestoreArguments, StartArguments};
use crate::disk;
use crate::management::print;
use crate::server_inside::ServerInside;
use crate::transfer::{client_failure, failure, runtime, tell};
use crate::{rotation, signals};
use orrery_backup::list;
use orrery_client::{Client, ConnectionOptions, Secret};
use orrery_gateway::LogLevel;
use orrery_model::Json;
use orrery_server::address::Listen;
use orrery_server::{Failure, MemoryLimit};
use orrery_tools::connection;
use orrery_tools::copy::Selection;
use orrery_tools::transfer::on_stderr;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The memory of the server of the restored data, which may run beside one with much more.
const MEMORY_BYTES: u64 = 512 << 20;
/// Attempts to remove the directory: a restore that was interrupted may write into it once more.
const REMOVALS: u32 = 1_000;

/// The directory of the restored backup. Dropping it removes the directory.
struct WorkDirectory(PathBuf);

impl WorkDirectory {
    /// Creates a directory with a new name in `home`.
    fn new(home: &Path) -> Result<Self, Failure> {
        let made = tempfile::Builder::new()
            .prefix("orrery-restore-")
            .tempdir_in(home);
        match made {
            Ok(directory) => Ok(Self(directory.keep())),
            Err(error) => Err(Failure::Usage(format!(
                "cannot create a directory in {}: {error}; --work-dir names another",
                home.display()
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
                Err(_) => std::thread::yield_now(),
            }
        }
        tell(&format!(
            "{} could not be removed: delete it",
            self.0.display()
        ));
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

    let home = arguments.work_dir.clone();
    let home = home.unwrap_or_else(std::env::temp_dir);
    check_backup(arguments, &home)?;
    let directory = WorkDirectory::new(&home)?;

    // The place that is being written, and the server, are known after an interruption too.
    let work = Work::default();
    let outcome = runtime.block_on(async {
        let interrupted = signals::ending()?;
        tokio::select! {
            outcome = restore_and_copy(arguments, &target, &directory.0, &work) => outcome,
            () = interrupted => Err(Failure::Failed("the restore was interrupted".into())),
        }
    });
    // A restore that is interrupted goes on until its next file, for which nothing waits.
    runtime.shutdown_background();
    if let Some(server) = work.server.take() {
        // The data goes with its directory, so a failure to close it tells nothing.
        let _ = server.stop();
    }
    drop(directory);
    match (outcome, work.incomplete.take()) {
        (Err(Failure::Failed(message)), Some(place)) => Err(Failure::Failed(format!(
            "{message}\n{place} in the account is not complete: delete it, and repeat the command \
             with --skip-existing"
        ))),
        (outcome, _) => outcome,
    }
}

/// Refuses names that the backup does not have, and a disk with less free space than the backup has
/// bytes. A second of a continuous backup takes at least the space of the newest backup, and may
/// have other names.
fn check_backup(arguments: &RestoreArguments, home: &Path) -> Result<(), Failure> {
    let listing = list(&arguments.path).map_err(backup::failure)?;
    let id = arguments.backup.as_deref();
    let mut backups = listing.backups.iter().rev();
    let Some(wanted) = backups.find(|one| id.is_none_or(|id| id == one.id)) else {
        // The restore says what there is.
        return Ok(());
    };
    if let (None, Some(database)) = (&arguments.to, &arguments.database) {
        refuse_unknown_names(database, &arguments.container, &wanted.about)?;
    }
    let advice = "--work-dir names a place on another disk";
    disk::check_space(home, wanted.bytes, advice)
}

/// Refuses a database and containers of it that a backup does not have, by what its manifest says
/// about the data. A database without containers has no name there, so it is looked for in the
/// restored data.
fn refuse_unknown_names(
    database: &str,
    containers: &[String],
    about: &Json,
) -> Result<(), Failure> {
    let Some(known) = about.get("containers").and_then(Json::as_array) else {
        return Ok(());
    };
    let mut databases = BTreeSet::new();
    let mut of_database = BTreeSet::new();
    for container in known {
        let text = |name: &str| container.get(name).and_then(Json::as_str);
        let (Some(of), Some(name)) = (text("database"), text("container")) else {
            return Ok(());
        };
        databases.insert(of);
        if of == database {
            of_database.insert(name);
        }
    }
    let count = about.get("databases").and_then(Json::as_i64);
    let has_empty = count.is_none_or(|count| count > databases.len() as i64);
    if !databases.contains(database) && !has_empty {
        return Err(Failure::Usage(format!(
            "there is no database '{database}' in the backup; there are: {}",
            list_of(databases)
        )));
    }
    for container in containers {
        if !of_database.contains(container.as_str()) {
            return Err(Failure::Usage(format!(
                "there is no container '{container}' of the database '{database}' in the backup; \
                 there are: {}",
                list_of(of_database)
            )));
        }
    }
    Ok(())
}

/// Returns names for a person.
fn list_of(names: BTreeSet<&str>) -> String {
    match names.is_empty() {
        true => "none".to_owned(),
        false => Vec::from_iter(names).join(", "),
    }
}

/// The state of a restore that is to be ended in order.
#[derive(Default)]
struct Work {
    server: RefCell<Option<ServerInside>>,
    /// The container in the account whose items are being written.
    incomplete: RefCell<Option<String>>,
}

/// Restores the backup, serves it, and copies the selection.
async fn restore_and_copy(
    arguments: &RestoreArguments,
    target: &Client,
    directory: &Path,
    work: &Work,
) -> Result<(), Failure> {
    let selection = Selection {
        database: arguments.database.clone(),
        containers: arguments.container.clone(),
        as_database: arguments.as_database.clone(),
        as_container: arguments.as_container.clone(),
        skips_existing: arguments.skip_existing,
    };
    // A restore may take hours: the account is asked first.
    target.databases().await.map_err(client_failure)?;
    selection.check(target).await.map_err(failure)?;

    let data = directory.join("data");
    let (of_restore, path) = (arguments.clone(), data.clone());
    let restored = tokio::task::spawn_blocking(move || restore_directory(&of_restore, &path));
    let restored = restored.await;
    let restored =
        restored.map_err(|error| Failure::Failed(format!("the restore ended: {error}")))??;
    tell(&restored.words);

    let server = serve(&data, &directory.join("account.key"), &restored)?;
    let options = ConnectionOptions {
        endpoint: Some(server.facts.endpoint()),
        key: Some(Secret::new(server.facts.key.clone())),
        ..ConnectionOptions::default()
    };
    work.server.replace(Some(server));
    let (source, _) = connection::client(&options).map_err(client_failure)?;
    copy(&selection, &source, target, work).await
}

/// Starts a server on the restored data, for this process alone.
fn serve(
    data: &Path,
    key_file: &Path,
    restored: &RestoredDirectory,
) -> Result<ServerInside, Failure> {
    // Without a key of its own the server would be open to every user of this machine.
    rotation::create(key_file)?;
    let mut config = StartArguments::without_environment()
        .map_err(Failure::Failed)?
        .into_config()?;
    config.clients.listen = vec![Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))];
    config.admin.listen = None;
    config.account.key_file = Some(key_file.to_owned());
    config.data.directory = Some(data.to_owned());
    config.data.as_of_ms = Some(restored.moment_ms);
    config.data.scrub_bytes_per_second = 0;
    config.log.level = LogLevel::Error;
    config.memory_limit = MemoryLimit::new(MEMORY_BYTES).ok();
    ServerInside::start(config)
}

/// Copies the selection, and prints a line for each container.
async fn copy(
    selection: &Selection,
    source: &Client,
    target: &Client,
    work: &Work,
) -> Result<(), Failure> {
    let parts = selection.steps(source, target).await.map_err(failure)?;
    for place in &parts.skipped {
        print(&format!("{place} exists and stays as it is\n"))?;
    }
    let mut items = 0;
    for step in parts.steps {
        let (origin, place) = (step.origin().to_owned(), step.place().to_owned());
        // An interruption may come between the creation and its answer.
        work.incomplete.replace(Some(place.clone()));
        let created = step.create(target).await;
        let Ok(Some(created)) = created else {
            work.incomplete.take();
            created.map_err(failure)?;
            print(&format!("{origin} is now {place}, without containers\n"))?;
            continue;
        };
        let progress = on_stderr();
        let copied = created.copy_items(source, target, &*progress).await;
        let copied = copied.map_err(failure)?;
        work.incomplete.take();
        items += copied;
        print(&format!(
            "{origin} is now {place}: {}\n",
            count_text(copied)
        ))?;
    }
    print(&format!(
        "{} copied into {}\n",
        count_text(items),
        target.endpoint()
    ))
}

fn count_text(items: u64) -> String {
    match items {
        1 => "1 item".to_owned(),
        many => format!("{many} items"),
    }
}

#[cfg(test)]
mod tests {
    use super::refuse_unknown_names;
    use orrery_model::json::parse;
    use orrery_server::Failure;

    /// Returns the refusal of a database and a container by a manifest with one container in each
    /// of two databases, and this number of databases.
    fn refusal(databases: u64, database: &str, container: &str) -> String {
        let about = format!(
            r#"{{"databases":{databases},"containers":[
                {{"database":"shop","container":"orders","items":3}},
                {{"database":"site","container":"pages"}}]}}"#
        );
        let about = parse(about.as_bytes()).expect("JSON");
        match refuse_unknown_names(database, &[container.to_owned()], &about) {
            Ok(()) => String::new(),
            Err(Failure::Usage(message)) => message,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_that_a_manifest_lacks_are_refused() {
        assert_eq!(refusal(2, "shop", "orders"), "");
        assert_eq!(
            refusal(2, "shop", "pages"),
            "there is no container 'pages' of the database 'shop' in the backup; there are: orders"
        );
        let unknown = "there is no database 'x' in the backup; there are: shop, site";
        assert_eq!(refusal(2, "x", "orders"), unknown);
        // The third database has no container, and may have this name.
        let empty = "there is no container 'orders' of the database 'x' in the backup; there are: \
                     none";
        assert_eq!(refusal(3, "x", "orders"), empty);
    }
}
