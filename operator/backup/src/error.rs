//! The failures of backups. Each message is a sentence for the person who runs the server: it names
//! the path, the fault and the remedy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use orrery_storage::StoreError;

use crate::place::is_remote;

/// A failure of a backup, of a check or of a restore.
#[derive(Debug)]
pub enum BackupError {
    /// The store has no files to copy: it is in memory, or in PostgreSQL.
    NoFiles,
    /// The store gave no checkpoint.
    Store(StoreError),
    /// A call of the operating system failed.
    Io {
        /// The attempted action, as in "cannot *write*".
        doing: &'static str,
        /// The file or folder concerned.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The folder is not empty and has no marker of a repository.
    NotARepository {
        /// The folder.
        path: PathBuf,
        /// The name of an entry found in it; `None` if there is no such folder or file.
        found: Option<String>,
    },
    /// The repository has the backups of another store.
    OtherStore {
        /// The repository.
        path: PathBuf,
        /// The id of the store whose backups it has.
        found: String,
        /// The id of the store that was to be copied.
        store: String,
    },
    /// Another process changes the repository or writes the file.
    Locked {
        /// The repository or the file.
        path: PathBuf,
        /// The other process, as in "process 17", if it can be told.
        holder: Option<String>,
    },
    /// The lock of the repository ended while it was needed.
    LockLost {
        /// The lock.
        path: PathBuf,
    },
    /// The address of a bucket cannot be used.
    Address {
        /// The address.
        path: PathBuf,
        /// The fault.
        detail: String,
    },
    /// There is no backup with this id.
    UnknownId {
        /// The repository or the file.
        path: PathBuf,
        /// The id that was asked for.
        id: String,
        /// The ids that exist, the oldest first.
        known: Vec<String>,
    },
    /// The repository has no backup yet.
    NoBackups {
        /// The repository.
        path: PathBuf,
    },
    /// A newer version of the program wrote the repository or the manifest.
    NewerFormat {
        /// The marker or the manifest.
        path: PathBuf,
        /// The format that it names.
        found: u64,
        /// The newest format that this program reads.
        known: u64,
    },
    /// The files of the backup have a format that this program does not open.
    StoreFormat {
        /// The id of the backup.
        id: String,
        /// The version of the program that made it.
        program: String,
        /// The format of its files.
        found: u64,
        /// The format that this program opens.
        known: u64,
    },
    /// A marker or a manifest is not as written.
    DamagedManifest {
        /// The marker or the manifest.
        path: PathBuf,
        /// The fault.
        detail: String,
    },
    /// A file of the backup that is being restored is missing or damaged.
    DamagedObject {
        /// The id of the backup.
        id: String,
        /// The name of the file inside of the data directory.
        file: String,
        /// The object with its contents, or the file with the whole backup.
        object: PathBuf,
        /// The fault.
        fault: String,
        /// The newest other backup that is whole, if there is one.
        whole: Option<String>,
    },
    /// A file with a whole backup is cut or damaged.
    DamagedArchive {
        /// The file.
        path: PathBuf,
        /// The fault.
        detail: String,
    },
    /// A continuous backup needs a folder.
    NoFolder {
        /// The file, or the name of one.
        path: PathBuf,
    },
    /// The repository has no log, or the log has no backup to begin with.
    NoLog {
        /// The repository.
        path: PathBuf,
    },
    /// The log does not have a moment.
    MomentNotInLog {
        /// The repository.
        path: PathBuf,
        /// The second that was asked for, since 1970.
        second: u64,
        /// The last second before it that can be restored.
        before: Option<u64>,
        /// The first second behind it that can be restored.
        after: Option<u64>,
    },
    /// A segment of a log that a restore needs is missing or damaged.
    DamagedLog {
        /// The segment.
        path: PathBuf,
        /// The fault.
        detail: String,
        /// The last second before it that can be restored.
        before: Option<u64>,
        /// The first second behind it that can be restored.
        after: Option<u64>,
    },
    /// The directory into which a backup is to be restored is not empty.
    TargetNotEmpty {
        /// The directory.
        path: PathBuf,
        /// The name of an entry found in it.
        found: String,
    },
    /// An earlier restore into the directory did not finish.
    TargetUnfinished {
        /// The directory.
        path: PathBuf,
    },
    /// The file that a backup is to be written to exists.
    TargetExists {
        /// The file.
        path: PathBuf,
    },
    /// An extra file has a name that cannot be used.
    InvalidName {
        /// The name.
        name: String,
    },
    /// The caller cancelled the operation.
    Cancelled,
}

impl BackupError {
    /// Returns a function for `map_err` that wraps an error of the operating system.
    pub(crate) fn io<'a>(
        doing: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> BackupError + 'a {
        move |source| BackupError::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    /// Creates the error for a marker or a manifest that is not as written.
    pub(crate) fn damaged(path: &Path, detail: impl Into<String>) -> BackupError {
        BackupError::DamagedManifest {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> BackupError {
        BackupError::Store(error)
    }
}

/// Returns the remedy for an error of the operating system.
fn remedy(path: &Path, source: &io::Error) -> &'static str {
    match source.kind() {
        _ if is_remote(path) => {
            "; check the address, the service, and AWS_ACCESS_KEY_ID and the other variables"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free space there and repeat the command"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "; name a path that this user may read and write"
        }
        io::ErrorKind::NotFound => "; check that the path exists and its disk is mounted",
        _ => "; check the disk and repeat the command",
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::NoFiles => f.write_str(
                "this store has no files to copy, since its data is in memory or in PostgreSQL; \
                 use the backups of PostgreSQL, or export the items",
            ),
            BackupError::Store(error) => write!(f, "the store cannot be copied now: {error}"),
            BackupError::Io {
                doing,
                path,
                source,
            } => {
                let remedy = remedy(path, source);
                let path = path.display();
                write!(f, "cannot {doing} {path}: {source}{remedy}")
            }
            BackupError::InvalidName { name } => write!(
                f,
                "'{name}' is no name for an extra file; use names like extra/key.pem, each once"
            ),
            BackupError::Cancelled => {
                f.write_str("the operation was cancelled; what is copied already is used next time")
            }
            BackupError::NoFolder { path } => write!(
                f,
                "{} is no folder, which a continuous backup needs; name a new or empty folder",
                path.display()
            ),
            BackupError::NoLog { path } => write!(
                f,
                "{} has no continuous backup with a base; restore one of its backups instead",
                path.display()
            ),
            BackupError::MomentNotInLog {
                path,
                second,
                before,
                after,
            } => {
                let (path, second) = (path.display(), time_text(*second));
                write!(f, "the continuous backup in {path} has no {second}; ")?;
                fmt_moments(f, *before, *after)
            }
            BackupError::DamagedLog {
                path,
                detail,
                before,
                after,
            } => {
                write!(f, "{} cannot be used: {detail}; ", path.display())?;
                fmt_moments(f, *before, *after)
            }
            BackupError::TargetNotEmpty { .. }
            | BackupError::TargetUnfinished { .. }
            | BackupError::TargetExists { .. } => self.fmt_target(f),
            BackupError::DamagedManifest { .. }
            | BackupError::DamagedObject { .. }
            | BackupError::DamagedArchive { .. } => self.fmt_damage(f),
            _ => self.fmt_repository(f),
        }
    }
}

impl BackupError {
    /// Writes the refusals of a repository, or of a backup by its name.
    fn fmt_repository(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::NotARepository { path, found } => fmt_no_repository(f, path, found),
            BackupError::OtherStore { path, found, store } => write!(
                f,
                "{} has the backups of another data directory (id {found}, and this one has \
                 {store}); name another folder, since one folder has the backups of one store",
                path.display()
            ),
            BackupError::Locked { path, holder } => {
                write!(f, "{} is being written by ", path.display())?;
                match holder {
                    Some(process) => f.write_str(process)?,
                    None => f.write_str("another process")?,
                }
                f.write_str("; wait for its end and repeat the command")
            }
            BackupError::LockLost { path } => write!(
                f,
                "the lock {} was lost: another process has taken it, or it could not be renewed in \
                 time",
                path.display()
            ),
            BackupError::Address { path, detail } => {
                write!(f, "{} cannot be used: {detail}", path.display())
            }
            BackupError::UnknownId { path, id, known } => {
                let known = match known.as_slice() {
                    [] => "none".to_owned(),
                    known => known.join(", "),
                };
                write!(f, "{} has no backup '{id}'; it has {known}", path.display())
            }
            BackupError::NoBackups { path } => write!(
                f,
                "{} has no backup yet; create one first, or name another folder",
                path.display()
            ),
            BackupError::NewerFormat { path, found, known } => write!(
                f,
                "{} was made by a newer version of the program (format {found}, and this one \
                 reads up to {known}); use that version",
                path.display()
            ),
            BackupError::StoreFormat {
                id,
                program,
                found,
                known,
            } => fmt_store_format(f, id, program, *found, *known),
            _ => Ok(()),
        }
    }

    /// Writes the refusals of a place that is to be written.
    fn fmt_target(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::TargetNotEmpty { path, found } => write!(
                f,
                "{} is not empty (it holds {found}); name a directory that is empty or does not \
                 exist",
                path.display()
            ),
            BackupError::TargetUnfinished { path } => write!(
                f,
                "an earlier restore into {} did not finish; delete this directory and repeat the \
                 command",
                path.display()
            ),
            BackupError::TargetExists { path } => write!(
                f,
                "{} exists; name another file, or delete this one first",
                path.display()
            ),
            _ => Ok(()),
        }
    }

    /// Writes the errors of backups that are not as written.
    fn fmt_damage(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::DamagedManifest { path, detail } => write!(
                f,
                "{} is damaged: {detail}; put a copy of it back, name another backup, or delete it \
                 to give up what it describes",
                path.display()
            ),
            BackupError::DamagedArchive { path, detail } => write!(
                f,
                "{} is cut or damaged: {detail}; copy it again from where it was made, or use \
                 another backup",
                path.display()
            ),
            BackupError::DamagedObject {
                id,
                file,
                object,
                fault,
                whole,
            } => {
                let object = object.display();
                write!(
                    f,
                    "backup {id} cannot be restored: {object}, which has the file {file}, {fault}; "
                )?;
                match whole {
                    Some(id) => write!(f, "restore {id}, the newest other backup that is whole"),
                    None => f.write_str("no other backup here is whole: use a copy of this one"),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Returns a second since 1970 as a time in UTC.
pub fn time_text(second: u64) -> String {
    let second = i64::try_from(second).unwrap_or(i64::MAX);
    let time = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
    time.to_string()
}

/// Writes the moments that can be restored instead.
fn fmt_moments(f: &mut fmt::Formatter<'_>, before: Option<u64>, after: Option<u64>) -> fmt::Result {
    match (before.map(time_text), after.map(time_text)) {
        (Some(before), Some(after)) => write!(
            f,
            "the moments next to it that can be restored are {before} and {after}"
        ),
        (Some(before), None) => write!(f, "the last moment that can be restored is {before}"),
        (None, Some(after)) => write!(f, "the first moment that can be restored is {after}"),
        (None, None) => f.write_str("no other moment of this log can be restored"),
    }
}

fn fmt_no_repository(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    found: &Option<String>,
) -> fmt::Result {
    let path = path.display();
    match found {
        Some(found) => write!(
            f,
            "{path} is not empty and no folder of backups (it holds {found} and no \
             orrery-backups.json); name an empty or new folder, or one with backups"
        ),
        None => write!(
            f,
            "there are no backups at {path}; check the path, and that its disk is mounted"
        ),
    }
}

fn fmt_store_format(
    f: &mut fmt::Formatter<'_>,
    id: &str,
    program: &str,
    found: u64,
    known: u64,
) -> fmt::Result {
    write!(
        f,
        "backup {id} was made by version {program} with data format {found}, and this program "
    )?;
    if found > known {
        write!(
            f,
            "is a server older than the backup, which knows format {known}"
        )?;
    } else {
        write!(f, "knows format {known} only")?;
    }
    f.write_str("; restore it with the version that made it")
}

impl std::error::Error for BackupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BackupError::Io { source, .. } => Some(source),
            BackupError::Store(error) => Some(error),
            _ => None,
        }
    }
}
