//! The destination of a backup: a repository, or a file with one whole backup.

use std::io::{self, Read};
use std::path::Path;

use crate::error::BackupError;
use crate::files::{CopyError, Digested, OnPiece};
use crate::manifest::Manifest;

/// A file that is to be stored.
pub(crate) struct SourceFile<'a> {
    /// The name inside of the data directory.
    pub(crate) name: &'a str,
    /// The place where it is read, for messages.
    pub(crate) path: &'a Path,
    /// The bytes to store.
    pub(crate) bytes: u64,
    /// Text that is equal for two tables with equal content; `None` for other files.
    pub(crate) identity: Option<&'a str>,
}

/// A content that was stored.
pub(crate) struct Stored {
    pub(crate) content: Digested,
    /// The content was not in the destination before.
    pub(crate) is_new: bool,
    /// Bytes that were not in the destination before.
    pub(crate) new_bytes: u64,
}

impl SourceFile<'_> {
    /// Returns the error of a copy of this file to `target`.
    pub(crate) fn copy_failed(&self, target: &Path, error: CopyError) -> BackupError {
        match error {
            CopyError::Read(source) => BackupError::io("read", self.path)(source),
            CopyError::Write(source) => BackupError::io("write", target)(source),
            CopyError::Stopped(error) => error,
        }
    }

    /// Refuses a content that is shorter than the file should be.
    pub(crate) fn check_length(&self, found: u64) -> Result<(), BackupError> {
        if found == self.bytes {
            return Ok(());
        }
        let detail = format!("it ends after {found} of {} bytes", self.bytes);
        let error = io::Error::new(io::ErrorKind::UnexpectedEof, detail);
        Err(BackupError::io("read", self.path)(error))
    }
}

/// The destination of one backup. Dropping it before [`Sink::finish`] gives the backup up, and
/// leaves the destination usable.
pub(crate) trait Sink {
    /// Prepares the destination for the backups of a store.
    ///
    /// # Errors
    /// When the destination has the backups of another store.
    fn begin(&mut self, store_id: &str) -> Result<(), BackupError>;

    /// Returns the hash of a file whose content the destination has already, without reading it.
    fn known(&self, file: &SourceFile<'_>) -> Option<String>;

    /// Stores a content, which is read to its end in pieces of `piece_bytes`.
    ///
    /// # Errors
    /// When the content cannot be read or stored, or is not as long as the file should be.
    fn add(
        &mut self,
        file: &SourceFile<'_>,
        content: &mut dyn Read,
        piece_bytes: usize,
        on_piece: OnPiece<'_>,
    ) -> Result<Stored, BackupError>;

    /// Returns an id for a backup that no other backup here has. `base` is the time of the backup.
    fn free_id(&self, base: &str) -> Result<String, BackupError>;

    /// Completes the backup, durably: it is listed from now on.
    fn finish(self: Box<Self>, manifest: &Manifest) -> Result<(), BackupError>;
}
