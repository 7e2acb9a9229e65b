//! The failures of opening and reading a store.
//!
//! Each message is a sentence for the person who runs the server. It names the file, the fault and
//! the remedy. Commits do not fail with these errors; they end in a
//! [`CommitOutcome`](crate::CommitOutcome).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::commit::PartitionId;

/// A failure of opening or reading a store.
#[derive(Debug)]
pub enum StoreError {
    /// Another process, or this process, has the data directory open.
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// The id of the process that holds the directory, if the lock file names it.
        holder: Option<u32>,
    },
    /// The directory is not empty and is not an Orrery data directory.
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// The name of an entry found in the directory.
        found: String,
    },
    /// The data was written by a version of the program with another format.
    UnknownFormat {
        /// The format file.
        file: PathBuf,
        /// The format that the file names.
        found: String,
        /// The format that this program reads and writes.
        known: u32,
    },
    /// A file is missing, truncated, or different from what was written.
    Damaged {
        /// The file or directory concerned.
        file: PathBuf,
        /// The fault and the remedy.
        detail: String,
    },
    /// A read touched keys of a damaged block. Other keys can be read.
    DamagedBlock {
        /// The file that has the block.
        file: PathBuf,
        /// Offset of the block in the file, in bytes.
        offset: u64,
        /// The fault of the block.
        fault: String,
    },
    /// A call of the operating system failed.
    Io {
        /// The attempted action, as in "cannot *create the data directory*".
        doing: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The store takes no writes, or cannot be read, for a while. Nothing was done.
    Unavailable {
        /// The cause, as a sentence without its end.
        reason: &'static str,
        /// Milliseconds after which another attempt may succeed.
        retry_after_ms: u64,
        /// The disk is full.
        is_full: bool,
    },
    /// A database cluster cannot be used, or does not answer. Nothing was done.
    Cluster {
        /// The name of the cluster.
        cluster: String,
        /// The fault, as a sentence without its end.
        detail: String,
        /// Milliseconds after which another attempt may succeed; `None` if a person has to act.
        retry_after_ms: Option<u64>,
    },
    /// An earlier write failed. The store writes nothing more until it is opened again.
    Poisoned {
        /// The first failure.
        detail: String,
    },
    /// The partition number is reserved for the store itself.
    ReservedPartition(PartitionId),
}

impl StoreError {
    /// Returns a function for `map_err` that wraps an error of the operating system.
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

    /// Creates the error for a damaged file or directory.
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
            StoreError::Locked { directory, holder } => {
                write!(
                    f,
                    "the data directory {} is in use by ",
                    directory.display()
                )?;
                match holder {
                    Some(pid) => write!(f, "process {pid}; stop it first"),
                    None => f.write_str("another process; stop it first"),
                }
            }
            StoreError::Foreign { directory, found } => write!(
                f,
                "{} is not empty and not an Orrery data directory (it holds {found}); \
                 name an empty or new one",
                directory.display()
            ),
            StoreError::UnknownFormat { file, found, known } => write!(
                f,
                "{} says data format {found}, and this program knows format {known}; \
                 use the version that wrote it",
                file.display()
            ),
            StoreError::Damaged { file, detail } => {
                write!(f, "{} is damaged: {detail}", file.display())
            }
            StoreError::DamagedBlock {
                file,
                offset,
                fault,
            } => write!(
                f,
                "a block in {} at byte {offset} is damaged ({fault}), and its keys cannot be read",
                file.display()
            ),
            StoreError::Io {
                doing,
                path,
                source,
            } => write!(f, "cannot {doing} {}: {source}", path.display()),
            StoreError::Unavailable { reason, .. } => f.write_str(reason),
            StoreError::Cluster {
                cluster, detail, ..
            } => write!(f, "database cluster '{cluster}': {detail}"),
            StoreError::Poisoned { detail } => {
                write!(
                    f,
                    "the store stopped writing after a failure, and only a restart makes it write \
                     again, since a failed sync cannot be repeated: {detail}"
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
