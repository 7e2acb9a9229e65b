//! Why a store could not be opened or read.
//!
//! Each message is a sentence for the person who runs the server: which file, what is wrong, what to do. Commits do not
//! come here; they end in an [`CommitOutcome`](crate::CommitOutcome).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::store::PartitionId;

/// What went wrong.
#[derive(Debug)]
pub enum StoreError {
    /// Another process, or this one, has the data directory open.
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// The process that holds it, if it left its number.
        holder: Option<u32>,
    },
    /// The directory holds something, and it is not ours.
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// The name of something found in it.
        found: String,
    },
    /// The data was written by a version with another format.
    UnknownFormat {
        /// The format file.
        file: PathBuf,
        /// The version it names.
        found: String,
        /// The version this program reads and writes.
        known: u32,
    },
    /// A file is missing, cut, or not what was written.
    Damaged {
        /// The file or directory concerned.
        file: PathBuf,
        /// What is wrong, and what to do.
        detail: String,
    },
    /// The operating system refused.
    Io {
        /// What was being done, as in "cannot *create the data directory*".
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// An earlier write failed, so nothing more is written until the store is opened again.
    Poisoned {
        /// The first failure.
        detail: String,
    },
    /// The number belongs to the store itself.
    ReservedPartition(PartitionId),
}

impl StoreError {
    pub(crate) fn io<'a>(
        doing: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> StoreError + 'a {
        move |source| StoreError::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn damaged(file: &Path, detail: impl Into<String>) -> StoreError {
        StoreError::Damaged {
            file: file.to_owned(),
            detail: detail.into(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Locked {
                directory,
                holder: Some(pid),
            } => {
                write!(
                    f,
                    "the data directory {} is in use by process {pid}; stop it first",
                    directory.display()
                )
            }
            StoreError::Locked {
                directory,
                holder: None,
            } => {
                write!(
                    f,
                    "the data directory {} is in use by another process; stop it first",
                    directory.display()
                )
            }
            StoreError::Foreign { directory, found } => write!(
                f,
                "{} is not empty and not an Orrery data directory (it holds {found}); name an empty or new one",
                directory.display()
            ),
            StoreError::UnknownFormat { file, found, known } => write!(
                f,
                "{} says data format {found}, and this program knows format {known}; use the version that wrote it",
                file.display()
            ),
            StoreError::Damaged { file, detail } => {
                write!(f, "{} is damaged: {detail}", file.display())
            }
            StoreError::Io {
                doing,
                path,
                source,
            } => write!(f, "cannot {doing} {}: {source}", path.display()),
            StoreError::Poisoned { detail } => {
                write!(
                    f,
                    "the store stopped writing after a failure and must be opened again: {detail}"
                )
            }
            StoreError::ReservedPartition(id) => {
                write!(f, "partition number {id} is reserved for the store itself")
            }
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
