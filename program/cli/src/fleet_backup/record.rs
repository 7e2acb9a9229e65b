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
const BACKUP_FILE: &str = "backup.json";
/// The list of files that pg_basebackup writes, with the end of the WAL that makes them whole.
const MANIFEST_FILE: &str = "backup_manifest";
/// The most bytes of a record, and of a manifest: a line of 200 bytes for each file.
const RECORD_BYTES_MAX: u64 = 1 << 20;
const MANIFEST_BYTES_MAX: u64 = 1 << 30;
/// The file of PostgreSQL that says where the recovery of a base backup begins.
const LABEL_FILE: &str = "backup_label";
/// A folder that a new file system has.
const OF_FILE_SYSTEM: &str = "lost+found";

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
        self.clusters.iter().map(|cluster| cluster.bytes).sum()
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
        let bytes = files.filter_map(|file| file["Size"].as_u64()).sum();
        let end = manifest["WAL-Ranges"][0]["End-LSN"].as_str();
        let end = end.ok_or_else(|| failed("it has no range of WAL".into()))?;
        let label = data.join(LABEL_FILE);
        let first_wal = read_text(&label).ok().and_then(|text| wal_file(&text));
        let first_wal = first_wal.ok_or_else(|| {
            Failure::Failed(format!("{}: it names no file of WAL", label.display()))
        })?;
        Ok(Self {
            name: name.to_owned(),
            bytes,
            first_wal,
            end_lsn: end.to_owned(),
            ended_milliseconds: ended_ms,
        })
    }
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

/// A folder of backups of a fleet.
pub(super) struct FleetFolder {
    path: PathBuf,
    /// Held by a command that writes.
    _lock: Option<File>,
}

/// A backup that is being made.
pub(super) struct Unfinished {
    pub(super) id: String,
    pub(super) path: PathBuf,
}

impl FleetFolder {
    /// Opens a folder to read it.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a folder of something else.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        match is_folder(path) {
            true => Ok(Self {
                path: path.to_owned(),
                _lock: None,
            }),
            false => Err(Failure::Usage(format!(
                "{} has no backups of a fleet",
                path.display()
            ))),
        }
    }

    /// Opens a folder for the one command that writes it. A folder that is missing or empty becomes
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
        let lock = File::create(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::Failed(format!(
                    "another command writes to {}: wait for its end",
                    path.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: Some(lock),
        })
    }

    /// Returns the backups, the oldest first.
    ///
    /// # Errors
    /// [`Failure::Data`] for a record that cannot be read.
    pub(super) fn backups(&self) -> Result<Vec<FleetBackup>, Failure> {
        let mut backups = Vec::new();
        for name in self.names()? {
            let file = self.path.join(&name).join(BACKUP_FILE);
            if !is_id(&name) || !file.is_file() {
                continue;
            }
            let damaged = |reason: String| Failure::Data(format!("{}: {reason}", file.display()));
            let text = read_bounded(&file, RECORD_BYTES_MAX).map_err(|e| damaged(e.to_string()))?;
            let backup: FleetBackup =
                serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
            if backup.format != FORMAT || backup.id != name {
                return Err(damaged(format!("it is no record of the backup {name}")));
            }
            for cluster in &backup.clusters {
                check_name(&cluster.name).map_err(|_| damaged("a name of a cluster".into()))?;
            }
            backups.push(backup);
        }
        backups.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(backups)
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
        let backups = self.backups()?;
        let known: Vec<String> = backups.iter().map(|backup| backup.id.clone()).collect();
        let found = match id {
            Some(id) => backups.into_iter().find(|backup| backup.id == id),
            None => backups.into_iter().next_back(),
        };
        found.ok_or_else(|| {
            Failure::Usage(format!(
                "{} has no backup{}; it has {}",
                self.path.display(),
                id.map(|id| format!(" '{id}'")).unwrap_or_default(),
                match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.join(", "),
                }
            ))
        })
    }

    /// Returns the data directory in a backup.
    pub(super) fn data(&self, backup: &FleetBackup, cluster: &ClusterBackup) -> PathBuf {
        self.path.join(&backup.id).join(&cluster.name)
    }

    /// Begins a backup, after removing what interrupted commands left.
    pub(super) fn begin(&self, moment_ms: u64) -> Result<Unfinished, Failure> {
        for name in self.names()? {
            if name.strip_prefix('.').is_some_and(is_id) {
                self.remove_folder(&name)?;
            }
        }
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
        unfinished: Unfinished,
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
