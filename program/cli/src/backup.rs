//! `orrery backup` and `orrery restore`: backups of a data directory, and data directories from
//! backups.
//!
//! A data directory in which a server runs belongs to the server, so the server makes the backup;
//! any other directory is opened here. Folders with backups are read and pruned here. Results go to
//! standard output, the progress to standard error if that is a terminal.

use crate::command::{
    BackupAction, BackupArguments, CreateArguments, ManagementArguments, RestoreArguments,
};
use crate::management::{ask, print};
use crate::{fleet_backup, repair, restore_into};
use orrery_admin::{about, backup_json, is_inside};
use orrery_backup::{
    BackupError, CreateOptions, Fault, Listing, Manifest, Progress, Pruned, Retention,
    UNFINISHED_FILE, Verified, VerifiedSpan, Window, create, is_remote, list, prune, restore,
    restore_to, time_text, verify, windows,
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
use std::path::{Component, Path, PathBuf};
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
    let path = arguments.action.path();
    match (&arguments.action, fleet_backup::is_folder(path)) {
        (BackupAction::Create(arguments), _) => run_create(arguments),
        (BackupAction::List { json, .. }, true) => fleet_backup::list(path, *json),
        (BackupAction::List { json, .. }, false) => {
            let listing = list(path).map_err(failure)?;
            let windows = windows(path).map_err(failure)?;
            print(&match json {
                true => format!("{:#}\n", listing_json(&listing, &windows)),
                false => listing_text(path, &listing) + &windows_text(&windows),
            })?;
            refuse_unreadable(&listing)
        }
        (BackupAction::Verify { backup, .. }, true) => {
            fleet_backup::verify(path, backup.as_deref())
        }
        (BackupAction::Verify { backup, .. }, false) => {
            let verified = with_progress("verifying", |on_progress| {
                verify(path, backup.as_deref(), on_progress)
            })?;
            print(&verified_text(&verified))?;
            match verified.has_problems() {
                false => Ok(()),
                true => Err(Failure::Data(format!("{} is damaged", path.display()))),
            }
        }
        (
            BackupAction::Prune {
                keep_last,
                keep_days,
                ..
            },
            is_fleet,
        ) => {
            let retention = Retention {
                keep_last: keep_last.map_or(1, |number| number as usize),
                keep_within_ms: keep_days.unwrap_or(0).saturating_mul(DAY_MS),
                now_ms: SystemWorld::new().now_ms(),
            };
            if is_fleet {
                return fleet_backup::prune(path, &retention);
            }
            let pruned = prune(path, &retention).map_err(failure)?;
            print(&pruned_text(&pruned))
        }
    }
}

/// Makes a backup.
fn run_create(arguments: &CreateArguments) -> Result<(), Failure> {
    if let Some(cluster_file) = &arguments.cluster_file {
        return fleet_backup::create(arguments, cluster_file);
    }
    let directory = data_dir::locate(arguments.management.data_dir.as_deref(), SERVER)?;
    let folder = store_folder(&directory);
    let made = match server_of(arguments.online, &arguments.management, &folder) {
        Some(server) => of_server(arguments, &server)?,
        None => of_directory(arguments, &folder)?,
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

/// The reason to ask a server.
pub(crate) enum ServerOf {
    /// The options say so.
    Options,
    /// A process uses the data directory, with this id if it is known.
    Directory(Option<u32>),
}

/// Returns the reason to ask a server: the options name one, or a process uses the data directory.
pub(crate) fn server_of(
    is_online: bool,
    management: &ManagementArguments,
    folder: &Path,
) -> Option<ServerOf> {
    if is_online || management.admin_endpoint.is_some() {
        return Some(ServerOf::Options);
    }
    match LocalStore::check_unused(folder) {
        Err(StoreError::Locked { holder, .. }) => Some(ServerOf::Directory(holder)),
        _ => None,
    }
}

impl ServerOf {
    /// Adds to a failure why a server was asked.
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        match (self, failure) {
            (ServerOf::Directory(holder), Failure::Failed(message)) => {
                let process = match holder {
                    Some(id) => format!("process {id}"),
                    None => "another process".to_owned(),
                };
                Failure::Failed(format!("{message}; {process} uses the data directory"))
            }
            (_, failure) => failure,
        }
    }
}

/// Starts a job of a server and waits for its end. A Ctrl-C cancels the job. `look` hears of each
/// answer.
pub(crate) fn run_job(
    management: &ManagementArguments,
    path: &str,
    body: &Value,
    mut look: impl FnMut(&Value),
) -> Result<Value, Failure> {
    ask(management, async |manager| {
        let started = manager.ask("POST", path, Some(body)).await?;
        let mut is_cancelled = false;
        loop {
            let job = manager.ask("GET", path, None).await?;
            if job["beganMilliseconds"] != started["beganMilliseconds"] {
                let other = "another one has begun since; its result is not that of this command";
                return Err(ManageError::Failed(other.to_owned()));
            }
            look(&job);
            if job["status"] != "running" {
                return Ok(job);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_PAUSE) => {}
                _ = tokio::signal::ctrl_c(), if !is_cancelled => {
                    is_cancelled = true;
                    manager.ask("DELETE", path, None).await?;
                }
            }
        }
    })
}

/// Has a server make a backup, and waits for the end.
fn of_server(arguments: &CreateArguments, server: &ServerOf) -> Result<Value, Failure> {
    let mut body = json!({ "target": absolute(&arguments.target)? });
    if let Some(rate) = arguments.bytes_per_second {
        body["bytesPerSecond"] = rate.into();
    }
    let mut line = ProgressLine::new("copying");
    let made = run_job(&arguments.management, "/backups", &body, |job| {
        let count = |name: &str| job[name].as_u64().unwrap_or(0);
        line.show(count("bytesDone"), count("bytes"));
    });
    line.end();
    made.map_err(|failure| server.explained(failure))
}

/// Returns the path as the server, on this machine, sees it: absolute and without `..`. The address
/// of a bucket stays as it is.
fn absolute(path: &Path) -> Result<String, Failure> {
    if is_remote(path) {
        return Ok(path.display().to_string());
    }
    let refused = |reason: &str| Failure::Usage(format!("{}: {reason}", path.display()));
    let mut absolute = std::path::absolute(path).map_err(|error| refused(&error.to_string()))?;
    if absolute
        .components()
        .any(|part| part == Component::ParentDir)
    {
        let folder = absolute
            .parent()
            .and_then(|parent| parent.canonicalize().ok());
        let name = absolute.file_name();
        absolute = match (folder, name) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => return Err(refused("name the target without '..'")),
        };
    }
    match absolute.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(refused(
            "the path is not in UTF-8, which the management API needs",
        )),
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
        bytes_per_second: arguments.bytes_per_second.unwrap_or(0),
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
    let has_key = arguments.key.key.is_some() || arguments.key.key_file.is_some();
    if has_key && arguments.into.is_none() {
        return Err(Failure::Usage(
            "a key belongs to --into: a data directory needs none".into(),
        ));
    }
    if fleet_backup::is_folder(&arguments.path) {
        return fleet_backup::restore(arguments);
    }
    if arguments.to.is_some() && arguments.backup.is_some() {
        return Err(Failure::Usage(
            "--to chooses the backup itself: leave --backup out".into(),
        ));
    }
    if arguments.cluster.is_some() {
        return Err(Failure::Usage(format!(
            "{} has no backups of a fleet, to which --cluster belongs",
            arguments.path.display()
        )));
    }
    let Some(directory) = &arguments.data_dir else {
        return restore_into::run(arguments);
    };
    refuse_used(directory)?;
    let restored = restore_directory(arguments, directory)?;
    print(&format!(
        "{}\nA server that uses it is started by: orrery start --data-dir {}\n",
        restored.words,
        directory.display()
    ))
}

/// A data directory that was restored.
pub(crate) struct RestoredDirectory {
    /// A sentence that says what was restored.
    pub(crate) words: String,
    /// The moment of the data, in milliseconds since 1970.
    pub(crate) moment_ms: u64,
}

/// Restores a backup, or a moment of a continuous backup, into a directory that is new or empty.
///
/// # Errors
/// As [`run`].
pub(crate) fn restore_directory(
    arguments: &RestoreArguments,
    directory: &Path,
) -> Result<RestoredDirectory, Failure> {
    let folder = store_folder(directory);
    let (path, backup) = (&arguments.path, arguments.backup.as_deref());
    let restored = match arguments.to {
        None => {
            let restored = with_progress("restoring", |on_progress| {
                restore(path, backup, &folder, on_progress)
            })?;
            let manifest = restored.manifest;
            RestoredDirectory {
                words: format!(
                    "Restored the backup {} of {}: {} files, {} bytes.",
                    manifest.id,
                    contents(&manifest),
                    manifest.files.len(),
                    manifest.bytes
                ),
                moment_ms: manifest.moment_ms,
            }
        }
        Some(moment) => {
            let restored = with_progress("restoring", |on_progress| {
                restore_to(path, moment, &folder, on_progress)
            })?;
            RestoredDirectory {
                words: format!(
                    "Restored the data as of {}: the backup {} and {} segments of the log with \
                     {} bytes.",
                    time_text(restored.second),
                    restored.base.id,
                    restored.segments,
                    restored.segment_bytes
                ),
                moment_ms: restored.second.saturating_mul(1_000).saturating_add(999),
            }
        }
    };
    mark_data(directory)?;
    Ok(restored)
}

/// Refuses a data directory with something in it.
fn refuse_used(directory: &Path) -> Result<(), Failure> {
    let place = directory.display();
    if store_folder(directory).join(UNFINISHED_FILE).exists() {
        return Err(Failure::Data(format!(
            "an earlier restore into {place} did not finish: delete the directory and restore again"
        )));
    }
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::Data(format!("cannot list {place}: {error}"))),
    };
    for entry in entries {
        let entry =
            entry.map_err(|error| Failure::Data(format!("cannot list {place}: {error}")))?;
        // A new file system has this folder.
        if entry.file_name() != "lost+found" {
            return Err(Failure::Data(format!(
                "the directory {place} is not empty: a backup is restored into a new directory"
            )));
        }
    }
    Ok(())
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

/// Describes the continuous backup of a folder, a line for each span without a gap.
fn windows_text(windows: &[Window]) -> String {
    let mut text = String::new();
    for window in windows {
        let _ = writeln!(
            text,
            "Continuous backup: {}, by {} segments with {} bytes.",
            seconds_text(window.from, window.to),
            window.segments,
            window.bytes
        );
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
    let damaged = manifest.about.get("damagedBlocks").and_then(Json::as_i64);
    let damaged = match damaged {
        None | Some(0) => String::new(),
        Some(blocks) => format!(", {blocks} damaged blocks"),
    };
    match containers.len() {
        1 => format!("1 container with {items} items{damaged}"),
        many => format!("{many} containers with {items} items{damaged}"),
    }
}

fn listing_json(listing: &Listing, windows: &[Window]) -> Value {
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
    let windows = windows.iter();
    let windows: Vec<Value> = windows
        .map(|window| {
            json!({
                "fromSeconds": window.from,
                "toSeconds": window.to,
                "segments": window.segments,
                "bytes": window.bytes,
            })
        })
        .collect();
    json!({ "backups": backups, "unreadable": unreadable, "continuous": windows })
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
    if !verified.problems.is_empty() {
        text.push_str(
            "Delete these files: the next backup writes them anew, as far as the data has them.\n",
        );
    }
    for one in &verified.unreadable {
        let _ = writeln!(text, "{}: {}", one.id, one.error);
    }
    for span in &verified.spans {
        text.push_str(&span_text(span));
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

/// Describes the check of a span of the continuous backup.
fn span_text(span: &VerifiedSpan) -> String {
    let mut text = String::new();
    for problem in &span.problems {
        let _ = writeln!(text, "{}: {}", problem.path.display(), problem.detail);
        let moments = match (problem.before.map(time_text), problem.after.map(time_text)) {
            (Some(before), Some(after)) => {
                format!("up to {before} and from {after} on can be restored")
            }
            (Some(before), None) => format!("only what is before can be restored, up to {before}"),
            (None, Some(after)) => format!("only what is behind can be restored, from {after} on"),
            (None, None) => "no second of this span can be restored".to_owned(),
        };
        let _ = writeln!(text, "  {moments}");
    }
    let _ = writeln!(
        text,
        "Continuous backup of {}: read {} segments, {} with problems.",
        seconds_text(span.from, span.to),
        span.segments,
        span.problems.len()
    );
    text
}

/// Describes the seconds that can be restored.
fn seconds_text(from: Option<u64>, to: u64) -> String {
    match from {
        Some(from) if from <= to => {
            format!("each second from {} to {}", time_text(from), time_text(to))
        }
        _ => "no second yet".to_owned(),
    }
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
pub(crate) fn failure(error: BackupError) -> Failure {
    let message = error.to_string();
    match error {
        BackupError::DamagedManifest { .. }
        | BackupError::DamagedObject { .. }
        | BackupError::DamagedArchive { .. }
        | BackupError::DamagedLog { .. }
        | BackupError::TargetNotEmpty { .. }
        | BackupError::TargetUnfinished { .. } => Failure::Data(message),
        BackupError::UnknownId { .. }
        | BackupError::NotARepository { .. }
        | BackupError::NoLog { .. }
        | BackupError::Address { .. }
        | BackupError::MomentNotInLog { .. } => Failure::Usage(message),
        _ => Failure::Failed(message),
    }
}
