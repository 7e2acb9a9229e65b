//! The folder of the backups of a fleet, and what is known about each of them.
//!
//! ```text
//! FOLDER/fleet-backups.json        says what the folder is
//! FOLDER/lock                      held by the one command that writes
//! FOLDER/20261130T145500Z/         a backup
//!   backup.json                    the clusters, and from when on each is whole
//!   CLUSTER/                       a data directory, as pg_basebackup writes it
//! FOLDER/.20261130T145500Z/        a backup that is not complete; the next one removes it
//! ```

use orrery_backup::time_text;
use orrery_client::files::{read_bounded, read_text};
use orrery_server::{Failure, private_file};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The form of a record.
pub(super) const FORMAT: u32 = 1;
const MARKER_FILE: &str = "fleet-backups.json";
const LOCK_FILE: &str = "lock";
const BACKUP_FILE: &str = "backup.json";
/// The list of files that pg_basebackup writes, with the end of the WAL that makes them whole.
const MANIFEST_FILE: &str = "backup_manifest";
/// The most bytes of a record, and of a manifest: a line of 200 bytes for each file.
const RECORD_BYTES_MAX: u64 = 1 << 20;
const MANIFEST_BYTES_MAX: u64 = 1 << 30;
/// The file of PostgreSQL that says where the recovery of a base backup begins.
const LABEL_FILE: &str = "backup_label";
/// The file of PostgreSQL without which a server opens no data directory.
pub(super) const CONTROL_FILE: &str = "global/pg_control";
/// A folder that a new file system has.
pub(super) const OF_FILE_SYSTEM: &str = "lost+found";

/// A backup of all clusters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FleetBackup {
    pub(super) format: u32,
    /// The name of its folder.
    pub(super) id: String,
    /// The version of this program.
    pub(super) program: String,
    /// The moment at which the first base backup began, in milliseconds since 1970.
    pub(super) moment_milliseconds: u64,
    pub(super) clusters: Vec<ClusterBackup>,
}

/// The base backup of one cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ClusterBackup {
    pub(super) name: String,
    /// The number that `initdb` gave the cluster.
    pub(super) system_identifier: String,
    /// The bytes of all files.
    pub(super) bytes: u64,
    /// The file of WAL from which on a recovery needs the archive.
    pub(super) first_wal: String,
    /// The position in the WAL at which the files are whole.
    pub(super) end_lsn: String,
    /// The moment at which the base backup had ended, in milliseconds since 1970.
    pub(super) ended_milliseconds: u64,
}

impl FleetBackup {
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.clusters.iter().map(|cluster| cluster.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the first second that every cluster can be restored to.
    pub(super) fn whole_from(&self) -> Option<u64> {
        let ends = self.clusters.iter();
        ends.map(|cluster| cluster.ended_milliseconds / 1_000).max()
    }
}

impl ClusterBackup {
    /// Reads the facts about a base backup from its manifest.
    ///
    /// # Errors
    /// [`Failure::Failed`] if the manifest cannot be read.
    pub(super) fn of(name: &str, data: &Path, ended_ms: u64) -> Result<Self, Failure> {
        let path = data.join(MANIFEST_FILE);
        let failed = |reason: String| Failure::Failed(format!("{}: {reason}", path.display()));
        let text = read_bounded(&path, MANIFEST_BYTES_MAX).map_err(|e| failed(e.to_string()))?;
        let manifest: Value = serde_json::from_slice(&text).map_err(|e| failed(e.to_string()))?;
        let files = manifest["Files"].as_array().into_iter().flatten();
        let sizes = files.filter_map(|file| file["Size"].as_u64());
        let bytes = sizes.fold(0, u64::saturating_add);
        let end = manifest["WAL-Ranges"][0]["End-LSN"].as_str();
        let end = end.ok_or_else(|| failed("it has no range of WAL".into()))?;
        let label = data.join(LABEL_FILE);
        let first_wal = read_text(&label).ok().and_then(|text| wal_file(&text));
        let first_wal = first_wal.ok_or_else(|| {
            Failure::Failed(format!("{}: it names no file of WAL", label.display()))
        })?;
        let control = data.join(CONTROL_FILE);
        let identifier = read_bounded(&control, MANIFEST_BYTES_MAX).ok();
        let identifier = identifier.and_then(|bytes| system_identifier(&bytes));
        let identifier = identifier.ok_or_else(|| {
            Failure::Failed(format!("{}: it names no cluster", control.display()))
        })?;
        Ok(Self {
            name: name.to_owned(),
            system_identifier: identifier.to_string(),
            bytes,
            first_wal,
            end_lsn: end.to_owned(),
            ended_milliseconds: ended_ms,
        })
    }
}

/// Returns the number of a cluster, with which its control file begins.
fn system_identifier(control: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*control.first_chunk()?))
}

/// Returns the file of WAL with which a recovery begins, from the text of a label:
/// `START WAL LOCATION: 0/2000028 (file 000000010000000000000002)`.
fn wal_file(label: &str) -> Option<String> {
    let (_, rest) = label.lines().next()?.split_once("(file ")?;
    Some(rest.strip_suffix(')')?.to_owned())
}

/// Returns true for the name of a backup, such as `20261130T145500Z`.
fn is_id(name: &str) -> bool {
    let is_of_form = |(place, byte): (usize, u8)| match place {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    name.len() == 16 && name.bytes().enumerate().all(is_of_form)
}

/// Refuses the name of a cluster that makes no name of a folder.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.starts_with('.') || name == BACKUP_FILE || !name.chars().all(is_usual) {
        return Err(Failure::Usage(format!(
            "the cluster '{name}' makes no name of a folder: give it letters, digits, -, _ and . \
             alone"
        )));
    }
    Ok(())
}

/// Returns true if a folder has backups of a fleet.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.join(MARKER_FILE).is_file()
}

/// Refuses the folder of a later version of this program.
fn check_marker(path: &Path) -> Result<(), Failure> {
    let file = path.join(MARKER_FILE);
    let damaged = |reason: String| Failure::Data(format!("{}: {reason}", file.display()));
    let text = read_bounded(&file, RECORD_BYTES_MAX).map_err(|e| damaged(e.to_string()))?;
    let marker: Value = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
    match marker["format"] == FORMAT {
        true => Ok(()),
        false => Err(damaged(format!(
            "it has the format {}, and this program writes {FORMAT}",
            marker["format"]
        ))),
    }
}

fn of_lock(path: &Path, error: TryLockError) -> Failure {
    match error {
        TryLockError::WouldBlock => Failure::Failed(format!(
            "another command, or a program of PostgreSQL that it began, uses {}: wait for its end",
            path.display()
        )),
        TryLockError::Error(error) => Failure::Failed(format!("{}: {error}", path.display())),
    }
}

/// A folder of backups of a fleet.
pub(super) struct FleetFolder {
    path: PathBuf,
    /// Held by a command that writes alone, and by commands that read files together.
    lock: Option<File>,
}

/// A backup that is being made. Dropping it removes the files.
pub(super) struct Unfinished {
    pub(super) id: String,
    pub(super) path: PathBuf,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // The next command removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl FleetFolder {
    /// Opens a folder to read it.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a folder of something else.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        match is_folder(path) {
            true => {
                check_marker(path)?;
                Ok(Self {
                    path: path.to_owned(),
                    lock: None,
                })
            }
            false => Err(Failure::Usage(format!(
                "{} has no backups of a fleet",
                path.display()
            ))),
        }
    }

    /// Opens a folder to read the files of backups, which no other command removes meanwhile.
    ///
    /// # Errors
    /// [`Failure::Failed`] while another command writes the folder, and those of
    /// [`FleetFolder::open`].
    pub(super) fn open_files(path: &Path) -> Result<Self, Failure> {
        let mut folder = Self::open(path)?;
        // A folder on a medium that cannot be written has no other command.
        if let Ok(lock) = File::open(path.join(LOCK_FILE)) {
            lock.try_lock_shared()
                .map_err(|error| of_lock(path, error))?;
            folder.lock = Some(lock);
        }
        Ok(folder)
    }

    /// Opens a folder for the one command that writes it, after removing what interrupted commands
    /// left. A folder that is missing or empty becomes
    /// one of backups.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a folder of something else, [`Failure::Failed`] if another command
    /// has the folder or a file cannot be written.
    pub(super) fn claim(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::Failed(format!("{}: {error}", path.display()));
        if !is_folder(path) {
            fs::create_dir_all(path).map_err(failed)?;
            let mut entries = fs::read_dir(path).map_err(failed)?.flatten();
            if entries.any(|entry| entry.file_name() != OF_FILE_SYSTEM) {
                return Err(Failure::Usage(format!(
                    "{} has something else than backups of a fleet: name a new folder",
                    path.display()
                )));
            }
            let marker = json!({ "format": FORMAT }).to_string();
            private_file::write(&path.join(MARKER_FILE), marker.as_bytes()).map_err(failed)?;
        }
        check_marker(path)?;
        let lock = File::create(path.join(LOCK_FILE)).map_err(failed)?;
        lock.try_lock().map_err(|error| of_lock(path, error))?;
        // A program of PostgreSQL that survives this command keeps the lock.
        #[cfg(unix)]
        rustix::io::fcntl_setfd(&lock, rustix::io::FdFlags::empty())
            .map_err(|error| failed(error.into()))?;
        let folder = Self {
            path: path.to_owned(),
            lock: Some(lock),
        };
        for name in folder.names()? {
            if name.strip_prefix('.').is_some_and(is_id) {
                folder.remove_folder(&name)?;
            }
        }
        Ok(folder)
    }

    /// Returns the backups, the oldest first.
    ///
    /// # Errors
    /// [`Failure::Data`] for a record that cannot be read.
    pub(super) fn backups(&self) -> Result<Vec<FleetBackup>, Failure> {
        let (backups, unreadable) = self.listed()?;
        match unreadable.into_iter().next() {
            None => Ok(backups),
            Some(first) => Err(first),
        }
    }

    /// Returns the backups, the oldest first, and the failures of records that cannot be read.
    ///
    /// # Errors
    /// [`Failure::Failed`] if the folder cannot be listed.
    pub(super) fn listed(&self) -> Result<(Vec<FleetBackup>, Vec<Failure>), Failure> {
        let (mut backups, mut unreadable) = (Vec::new(), Vec::new());
        for id in self.ids()? {
            match self.record(&id) {
                Ok(backup) => backups.push(backup),
                Err(failure) => unreadable.push(failure),
            }
        }
        Ok((backups, unreadable))
    }

    /// Returns the names of the backups, the oldest first.
    fn ids(&self) -> Result<Vec<String>, Failure> {
        let mut ids = self.names()?;
        ids.retain(|name| is_id(name));
        ids.sort();
        Ok(ids)
    }

    fn record(&self, id: &str) -> Result<FleetBackup, Failure> {
        let file = self.path.join(id).join(BACKUP_FILE);
        let damaged = |reason: String| Failure::Data(format!("{}: {reason}", file.display()));
        let text = read_bounded(&file, RECORD_BYTES_MAX).map_err(|e| damaged(e.to_string()))?;
        let backup: FleetBackup =
            serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        let names = backup.clusters.iter().map(|cluster| &cluster.name);
        let has_names = names.clone().all(|name| check_name(name).is_ok());
        let is_right = backup.format == FORMAT && backup.id == id && !backup.clusters.is_empty();
        match is_right && has_names {
            true => Ok(backup),
            false => Err(damaged(format!("it is no record of the backup {id}"))),
        }
    }

    fn names(&self) -> Result<Vec<String>, Failure> {
        let failed = |e: io::Error| Failure::Failed(format!("{}: {e}", self.path.display()));
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            names.push(
                entry
                    .map_err(failed)?
                    .file_name()
                    .to_string_lossy()
                    .into_owned(),
            );
        }
        Ok(names)
    }

    /// Returns the named backup, or the newest one.
    ///
    /// # Errors
    /// [`Failure::Usage`] if there is none.
    pub(super) fn named(&self, id: Option<&str>) -> Result<FleetBackup, Failure> {
        let known = self.ids()?;
        let place = self.path.display();
        match id.or(known.last().map(String::as_str)) {
            Some(id) if known.iter().any(|one| one == id) => self.record(id),
            Some(id) if !known.is_empty() => Err(Failure::Usage(format!(
                "{place} has no backup '{id}'; it has {}",
                known.join(", ")
            ))),
            _ => Err(Failure::Usage(format!("{place} has no backup"))),
        }
    }

    /// Returns the newest backup that every cluster can be restored from to a second.
    ///
    /// # Errors
    /// [`Failure::Usage`] if there is none, with the first second that can be restored.
    pub(super) fn before(&self, second: u64) -> Result<FleetBackup, Failure> {
        let (backups, _) = self.listed()?;
        let first = backups.iter().filter_map(FleetBackup::whole_from).min();
        let is_before = |backup: &FleetBackup| backup.whole_from() <= Some(second);
        let found = backups.into_iter().rev().find(is_before);
        found.ok_or_else(|| match first {
            Some(first) => Failure::Usage(format!(
                "{} can restore times from {} on",
                self.path.display(),
                time_text(first)
            )),
            None => Failure::Usage(format!("{} has no backup", self.path.display())),
        })
    }

    /// Refuses a cluster that has the name of another one in the backups of this folder.
    ///
    /// # Errors
    /// [`Failure::Usage`] for such a cluster.
    pub(super) fn refuse_other(&self, cluster: &ClusterBackup) -> Result<(), Failure> {
        let (backups, _) = self.listed()?;
        let mut known = backups.iter().flat_map(|backup| &backup.clusters);
        let is_other = |one: &&ClusterBackup| {
            one.name == cluster.name && one.system_identifier != cluster.system_identifier
        };
        match known.find(is_other) {
            None => Ok(()),
            Some(other) => Err(Failure::Usage(format!(
                "{} has backups of another cluster '{}', which initdb gave the number {} and not \
                 {}: name another folder",
                self.path.display(),
                other.name,
                other.system_identifier,
                cluster.system_identifier
            ))),
        }
    }

    /// Returns the data directory in a backup.
    pub(super) fn data(&self, backup: &FleetBackup, cluster: &ClusterBackup) -> PathBuf {
        self.path.join(&backup.id).join(&cluster.name)
    }

    /// Begins a backup.
    pub(super) fn begin(&self, moment_ms: u64) -> Result<Unfinished, Failure> {
        let id = time_text(moment_ms / 1_000).replace(['-', ':'], "");
        let path = self.path.join(format!(".{id}"));
        let failed = |e: io::Error| Failure::Failed(format!("{}: {e}", path.display()));
        if self.path.join(&id).exists() {
            return Err(Failure::Failed(format!(
                "the backup {id} of this second exists: try again"
            )));
        }
        fs::create_dir(&path).map_err(failed)?;
        Ok(Unfinished { id, path })
    }

    /// Gives a backup its record and its name.
    pub(super) fn finish(
        &self,
        unfinished: &Unfinished,
        backup: &FleetBackup,
    ) -> Result<(), Failure> {
        let path = self.path.join(&unfinished.id);
        let failed = |e: io::Error| Failure::Failed(format!("{}: {e}", path.display()));
        let record = unfinished.path.join(BACKUP_FILE);
        let text = format!("{:#}\n", json!(backup));
        private_file::write(&record, text.as_bytes()).map_err(failed)?;
        fs::rename(&unfinished.path, &path).map_err(failed)?;
        private_file::sync_directory_of(&path).map_err(failed)
    }

    /// Removes a backup.
    pub(super) fn remove(&self, backup: &FleetBackup) -> Result<(), Failure> {
        // Without its name the backup is none, also if the removal does not end.
        let hidden = format!(".{}", backup.id);
        let failed = |e: io::Error| Failure::Failed(format!("{}: {e}", backup.id));
        fs::rename(self.path.join(&backup.id), self.path.join(&hidden)).map_err(failed)?;
        self.remove_folder(&hidden)
    }

    fn remove_folder(&self, name: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        fs::remove_dir_all(&path)
            .map_err(|e| Failure::Failed(format!("cannot remove {}: {e}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_names_the_first_file_of_wal() {
        let label = "START WAL LOCATION: 1/9C000028 (file 00000003000000010000009C)\n\
                     CHECKPOINT LOCATION: 1/9C000060\n";
        assert_eq!(wal_file(label).as_deref(), Some("00000003000000010000009C"));
        assert_eq!(wal_file(""), None);
    }

    #[test]
    fn the_control_file_begins_with_the_number_of_the_cluster() {
        let control = [&7_312_000_000_000_000_001_u64.to_le_bytes()[..], &[1; 300]].concat();
        assert_eq!(system_identifier(&control), Some(7_312_000_000_000_000_001));
        assert_eq!(system_identifier(&[1, 2]), None);
    }

    #[test]
    fn only_what_an_interrupted_command_left_has_its_form() {
        assert!(is_id("20261130T145500Z"));
        for name in [
            "snapshot",
            "20261130T145500",
            "20261130X145500Z",
            "2026113éT145500Z",
        ] {
            assert!(!is_id(name), "{name}");
        }
    }

    #[test]
    fn names_of_clusters_are_names_of_folders() {
        for name in ["main", "eu-west_2.a"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["..", ".hidden", "a/b", "a b", "backup.json"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
