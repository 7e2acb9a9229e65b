//! A checkpoint: the files of a store as they are after one commit, for a backup.
//!
//! [`Store::checkpoint`](crate::Store::checkpoint) takes it while the store is open and written.
//! The files can be copied at leisure: they stay as they are, or grow behind the bytes that count,
//! until the checkpoint is dropped.
//!
//! Left out: the copying (`operator/backup`), and stores that have no files of their own.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::path::PathBuf;

use crate::commit::{Head, PartitionId};

/// The name of the file that makes a directory a data directory. A copy of a
/// checkpoint gets this file last: without it the directory is not opened.
pub const FORMAT_FILE: &str = "ORRERY";

/// A consistent image of the files of a store. It holds every commit that was answered before it
/// was taken, and no part of a later group of commits.
///
/// The files take no space of their own where the file system can link them. A compaction frees the
/// space of the tables that it replaces only when the checkpoint is dropped, and the store stays
/// open until then.
pub struct Checkpoint {
    /// The files. Copied under their names into an empty directory, they are a data directory.
    pub files: Vec<CheckpointFile>,
    /// The durable head of each partition at the moment of the checkpoint.
    pub heads: BTreeMap<PartitionId, Head>,
    /// The id of the data directory: 32 hexadecimal digits, the same for all of its checkpoints.
    pub store_id: String,
    /// The number of the last group of commits that it holds. The groups of a store are numbered
    /// without a gap.
    pub group: u64,
    /// Keeps the files until it is dropped.
    staging: Box<dyn Any + Send + Sync>,
}

/// One file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFile {
    /// The name inside of a data directory, with `/` between its parts.
    pub name: String,
    /// The place where the file can be read until the checkpoint is dropped.
    pub path: PathBuf,
    /// The number of bytes from its beginning that belong to the checkpoint. The file may have
    /// more.
    pub bytes: u64,
    /// The content never changes under the name: it is a table. A later checkpoint may have the
    /// same file, with the same inode and modification time.
    pub is_immutable: bool,
}

impl CheckpointFile {
    /// Returns true if a file that was opened at `path` is no longer the file there: the store has
    /// taken a damaged block out of its table, and has put a copy from before that at `path`. What
    /// was read from the open file does not count then.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn is_replaced(&self, open: &File) -> io::Result<bool> {
        Ok(inode(&open.metadata()?) != inode(&self.path.metadata()?))
    }
}

/// Returns the numbers by which the system tells files apart; the same ones for all files on a
/// system without such numbers.
pub(crate) fn inode(metadata: &Metadata) -> (u64, u64) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        (metadata.dev(), metadata.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        (0, 0)
    }
}

impl Checkpoint {
    /// Creates a checkpoint whose files exist until `staging` is dropped. For engines only.
    pub fn new(
        files: Vec<CheckpointFile>,
        heads: BTreeMap<PartitionId, Head>,
        store_id: String,
        group: u64,
        staging: Box<dyn Any + Send + Sync>,
    ) -> Checkpoint {
        Checkpoint {
            files,
            heads,
            store_id,
            group,
            staging,
        }
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value behind `staging` has no text.
        let _ = &self.staging;
        f.debug_struct("Checkpoint")
            .field("store_id", &self.store_id)
            .field("files", &self.files.len())
            .field("heads", &self.heads.len())
            .finish_non_exhaustive()
    }
}

/// Returns the format file of a directory that was copied, without the id of the store: the copy
/// gets an id of its own when it is first backed up.
pub fn format_of_new_store(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.starts_with(b"id:"))
        .flatten()
        .copied()
        .collect()
}
