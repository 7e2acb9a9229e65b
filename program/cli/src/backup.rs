//! `orrery backup` and `orrery restore`: backups of a data directory, and data directories from
//! backups.
//!
//! A data directory in which a server runs belongs to the server, so the server makes the backup;
//! any other directory is opened here. Folders with backups are read and pruned here. Results go to
//! standard output, the progress to standard error if that is a terminal.

use crate::command::{BackupAction, BackupArguments, CreateArguments, RestoreArguments};
use crate::management::{ask, print};
use crate::repair;
use orrery_admin::{about, backup_json, is_inside};
use orrery_backup::{
    BackupError, CreateOptions, Fault, Listing, Manifest, Progress, Pruned, Retention, Verified,
    create, list, prune, restore, verify,
};
use orrery_model::Json;
use orrery_model::world::World;
use orrery_server::data_dir::{self, SERVER};
use orrery_server::engine::{mark_data, store_folder};
use orrery_server::{Failure, SystemWorld, private_file};
use orrery_storage::{LocalStore, StoreError};
use orrery_tools::manage::{ManageError, text};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time between two looks at a backup of a server.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
const DAY_MS: u64 = 24 * 3_600_000;

/// Runs an action on backups.
///
/// # Errors
/// [`Failure::Failed`] if the work failed, [`Failure::Data`] if a backup or the data is damaged,
/// [`Failure::Usage`] for options that cannot be used.
pub(crate) fn run(arguments: &BackupArguments) -> Result<(), Failure> {
    private_file::restrict_new_files();
    match &arguments.action {
        BackupAction::Create(arguments) => run_create(arguments),
        BackupAction::List { path, json } => {
            let listing = list(path).map_err(failure)?;
            print(&match json {
                true => format!("{:#}\n", listing_json(&listing)),
                false => listing_text(path, &listing),
            })?;
            refuse_unreadable(&listing)
        }
        BackupAction::Verify { path, backup } => {
            let verified = with_progress("verifying", |on_progress| {
                verify(path, backup.as_deref(), on_progress)
            })?;
            print(&verified_text(&verified))?;
            match verified.problems.is_empty() && verified.unreadable.is_empty() {
                true => Ok(()),
                false => Err(Failure::Data(format!("{} is damaged", path.display()))),
            }
        }
        BackupAction::Prune {
            path,
            keep_last,
            keep_days,
        } => {
            let retention = Retention {
                keep_last: *keep_last,
                keep_within_ms: keep_days.saturating_mul(DAY_MS),
                now_ms: SystemWorld::new().now_ms(),
            };
            let pruned = prune(path, &retention).map_err(failure)?;
            print(&pruned_text(&pruned))
        }
    }
}

/// Makes a backup.
fn run_create(arguments: &CreateArguments) -> Result<(), Failure> {
    let directory = data_dir::locate(arguments.management.data_dir.as_deref(), SERVER)?;
    let folder = store_folder(&directory);
    let made = match arguments.online || is_in_use(&folder) {
        true => of_server(arguments)?,
        false => of_directory(arguments, &folder)?,
    };
    if arguments.management.json {
        print(&format!("{made:#}\n"))?;
    }
    match text(&made, "status") {
        "done" if arguments.management.json => Ok(()),
        "done" => print(&made_text(&arguments.target, &made)),
        "failed" => Err(Failure::Failed(text(&made, "failure").to_owned())),
        _ => Err(Failure::Failed("the backup was cancelled".to_owned())),
    }
}

/// Returns true if another process uses a store.
pub(crate) fn is_in_use(folder: &Path) -> bool {
    folder.is_dir() && matches!(LocalStore::examine(folder), Err(StoreError::Locked { .. }))
}

/// Has a server make a backup, and waits for the end.
fn of_server(arguments: &CreateArguments) -> Result<Value, Failure> {
    const PATH: &str = "/backups";
    let target = absolute(&arguments.target)?;
    let body = json!({ "target": target, "bytesPerSecond": arguments.bytes_per_second });
    let mut line = ProgressLine::new("copying");
    ask(&arguments.management, async |manager| {
        manager.ask("POST", PATH, Some(&body)).await?;
        loop {
            let made = manager.ask("GET", PATH, None).await?;
            if made["status"] != "running" {
                line.end();
                return Ok::<Value, ManageError>(made);
            }
            let count = |name: &str| made[name].as_u64().unwrap_or(0);
            line.show(count("bytesDone"), count("bytes"));
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    })
}

/// Returns the path as the server, on this machine, sees it.
fn absolute(path: &Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    match absolute.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Failure::Usage(format!(
            "{}: the path is not in UTF-8, which the management API needs",
            path.display()
        ))),
    }
}

/// Makes a backup of a data directory that no server uses.
fn of_directory(arguments: &CreateArguments, folder: &Path) -> Result<Value, Failure> {
    repair::refuse_missing(folder)?;
    let target = PathBuf::from(absolute(&arguments.target)?);
    if folder.parent().is_some_and(|data| is_inside(&target, data)) {
        return Err(Failure::Usage(format!(
            "{}: a backup inside of the data directory would be lost with it; name another place",
            target.display()
        )));
    }
    let engine = repair::open(folder, false)?;
    let options = CreateOptions {
        about: about(&engine),
        bytes_per_second: arguments.bytes_per_second,
        ..CreateOptions::new(SystemWorld::new().now_ms(), env!("CARGO_PKG_VERSION"))
    };
    let made = with_progress("copying", |on_progress| {
        create(&**engine.store(), &target, &options, on_progress)
    })?;
    repair::close(&engine)?;
    let text = Json::Object(backup_json(&made)).to_text();
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Restores a backup into a new data directory.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    private_file::restrict_new_files();
    let directory = &arguments.data_dir;
    refuse_used(directory)?;
    let folder = store_folder(directory);
    let restored = with_progress("restoring", |on_progress| {
        restore(
            &arguments.path,
            arguments.backup.as_deref(),
            &folder,
            on_progress,
        )
    })?;
    mark_data(directory)?;
    let manifest = restored.manifest;
    print(&format!(
        "Restored the backup {} of {}: {} files, {} bytes.\nA server that uses it is started by: \
         orrery start --data-dir {}\n",
        manifest.id,
        contents(&manifest),
        manifest.files.len(),
        manifest.bytes,
        directory.display()
    ))
}

/// Refuses a data directory with something in it.
fn refuse_used(directory: &Path) -> Result<(), Failure> {
    let mut entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let message = format!("cannot list {}: {error}", directory.display());
            return Err(Failure::Data(message));
        }
    };
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Failure::Data(format!(
            "the directory {} is not empty: a backup is restored into a new directory",
            directory.display()
        ))),
    }
}

/// A line of progress on standard error, if that is a terminal.
struct ProgressLine {
    word: &'static str,
    is_shown: bool,
}

impl ProgressLine {
    fn new(word: &'static str) -> Self {
        ProgressLine {
            word,
            is_shown: io::stderr().is_terminal(),
        }
    }

    fn show(&mut self, done: u64, all: u64) {
        if self.is_shown {
            // If standard error is closed, the result tells enough.
            let _ = write!(
                io::stderr(),
                "\r{}: {} of {} MB \x1b[K",
                self.word,
                done >> 20,
                all >> 20
            );
        }
    }

    fn end(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Runs a piece of work that tells its progress.
fn with_progress<T>(
    word: &'static str,
    work: impl FnOnce(&mut dyn FnMut(&Progress)) -> Result<T, BackupError>,
) -> Result<T, Failure> {
    let mut line = ProgressLine::new(word);
    let done = work(&mut |progress| line.show(progress.bytes_done, progress.bytes_total));
    line.end();
    done.map_err(failure)
}

fn made_text(target: &Path, made: &Value) -> String {
    let count = |name: &str| made[name].as_u64().unwrap_or(0);
    format!(
        "Backup {} in {}: {} files with {} bytes, of which {} files with {} bytes are new.\n",
        text(made, "id"),
        target.display(),
        count("files"),
        count("bytes"),
        count("newFiles"),
        count("newBytes")
    )
}

fn listing_text(path: &Path, listing: &Listing) -> String {
    let mut text = String::new();
    for manifest in &listing.backups {
        let _ = writeln!(
            text,
            "{}  {:>14} bytes, {:>14} new  {}",
            manifest.id,
            manifest.bytes,
            manifest.new_bytes,
            contents(manifest)
        );
    }
    if listing.backups.is_empty() && listing.unreadable.is_empty() {
        let _ = writeln!(text, "There is no backup in {}.", path.display());
    }
    text
}

/// Describes what a backup holds.
fn contents(manifest: &Manifest) -> String {
    let containers = manifest.about.get("containers").and_then(Json::as_array);
    let containers = containers.unwrap_or_default();
    let items = containers
        .iter()
        .filter_map(|container| container.get("items").and_then(Json::as_i64));
    let items: i64 = items.sum();
    match containers.len() {
        1 => format!("1 container with {items} items"),
        many => format!("{many} containers with {items} items"),
    }
}

fn listing_json(listing: &Listing) -> Value {
    let mut backups = Vec::new();
    for manifest in &listing.backups {
        let about: Value = serde_json::from_str(&manifest.about.to_text()).unwrap_or_default();
        backups.push(json!({
            "id": manifest.id,
            "momentMilliseconds": manifest.moment_ms,
            "program": manifest.program,
            "storeId": manifest.store_id,
            "files": manifest.files.len(),
            "bytes": manifest.bytes,
            "newBytes": manifest.new_bytes,
            "about": about,
        }));
    }
    let unreadable = listing.unreadable.iter();
    let unreadable: Vec<Value> = unreadable
        .map(|one| json!({ "id": one.id, "failure": one.error.to_string() }))
        .collect();
    json!({ "backups": backups, "unreadable": unreadable })
}

/// Fails if a manifest cannot be read.
fn refuse_unreadable(listing: &Listing) -> Result<(), Failure> {
    match listing.unreadable.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Data(first.error.to_string())),
    }
}

fn verified_text(verified: &Verified) -> String {
    let mut text = String::new();
    for problem in &verified.problems {
        let fault = match &problem.fault {
            Fault::Missing => "it is missing".to_owned(),
            other => other.to_string(),
        };
        let _ = writeln!(text, "{}: {fault}", problem.path.display());
        for (id, files) in &problem.needed_by {
            let _ = writeln!(text, "  needed by {id} for {}", files.join(", "));
        }
    }
    for one in &verified.unreadable {
        let _ = writeln!(text, "{}: {}", one.id, one.error);
    }
    let restorable = match verified.restorable.is_empty() {
        true => "none".to_owned(),
        false => verified.restorable.join(", "),
    };
    let _ = writeln!(
        text,
        "Read {} files with {} bytes. Backups that can be restored: {restorable}.",
        verified.objects, verified.bytes
    );
    text
}

fn pruned_text(pruned: &Pruned) -> String {
    let removed = match pruned.removed.is_empty() {
        true => "No backup was removed".to_owned(),
        false => format!("Removed {}", pruned.removed.join(", ")),
    };
    format!(
        "{removed}: {} files with {} bytes are gone. Kept: {}.\n",
        pruned.objects,
        pruned.bytes,
        pruned.kept.join(", ")
    )
}

/// Returns the failure of the program for a failure of a backup.
fn failure(error: BackupError) -> Failure {
    let message = error.to_string();
    match error {
        BackupError::DamagedManifest { .. }
        | BackupError::DamagedObject { .. }
        | BackupError::DamagedArchive { .. }
        | BackupError::TargetNotEmpty { .. }
        | BackupError::TargetUnfinished { .. } => Failure::Data(message),
        BackupError::UnknownId { .. } | BackupError::NotARepository { .. } => {
            Failure::Usage(message)
        }
        _ => Failure::Failed(message),
    }
}
