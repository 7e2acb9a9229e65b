//! The place of a repository: a folder, or a prefix of a bucket of an S3 service.
//!
//! - `folder.rs`: a folder of this machine;
//! - `bucket.rs`: objects of a bucket; `lease.rs`: the lock there; `client.rs`: the connection.
//!
//! Promised by each place: a file has its whole content or does not exist; a file that was written
//! is durable when the call returns, but objects, which are durable after [`Place::sync_objects`];
//! two processes never hold one lock.
//!
//! Names are relative to the place, with `/`.

mod bucket;
mod client;
#[cfg(test)]
mod contract;
mod folder;
mod lease;

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::BackupError;
use crate::files::{Digested, OnPiece};
use crate::sink::SourceFile;
use bucket::Bucket;
use folder::Folder;

/// The folder of the contents of files.
pub(crate) const OBJECTS_FOLDER: &str = "objects";

/// The beginning of the address of a bucket.
const BUCKET_SCHEME: &str = "s3://";

/// A file of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedFile {
    /// The name below the folder that was listed.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// A place with the files of a repository.
pub(crate) trait Place: fmt::Debug + Send + Sync {
    /// Returns the path or the address of a file or of a folder, for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// Returns the names directly in the place, in order; `None` if the place does not exist.
    fn names(&self) -> Result<Option<Vec<String>>, BackupError>;

    /// Returns the files below a folder, in order of their names; none if there is no such folder.
    fn files(&self, folder: &str) -> Result<Vec<PlacedFile>, BackupError>;

    /// Returns the content of a file; `None` if there is none.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BackupError>;

    /// Opens a file. One that cannot be opened has a content whose reading fails.
    fn open(&self, name: &str) -> Box<dyn Read>;

    /// Creates a folder if there is none, durably. A file is only written into a folder that
    /// exists, so that nothing is written where a disk is not mounted any more.
    fn create_folder(&self, name: &str) -> Result<(), BackupError>;

    /// Writes a file, durably, in the place of one with this name.
    fn write(&self, name: &str, content: &[u8]) -> Result<(), BackupError>;

    /// Stores a content under the name of its hash ([`object_name`]). The content is read to its
    /// end, in pieces of `piece_bytes`, and is not longer than the file.
    fn add_object(
        &self,
        file: &SourceFile<'_>,
        content: &mut dyn Read,
        piece_bytes: usize,
        on_piece: OnPiece<'_>,
    ) -> Result<Digested, BackupError>;

    /// Makes the objects durable that were added.
    fn sync_objects(&self) -> Result<(), BackupError>;

    /// Removes files of a folder, durably; nothing is done without names.
    fn remove(&self, folder: &str, names: &[String]) -> Result<(), BackupError>;

    /// Removes a folder with its files.
    fn remove_folder(&self, folder: &str) -> Result<(), BackupError>;

    /// Removes what interrupted writes left directly in a folder. Only the holder of the lock of
    /// these files may do so.
    fn remove_drafts(&self, folder: &str) -> Result<(), BackupError>;

    /// Takes the lock of this name. `holder` tells the holders apart: a lock of one's own that was
    /// left by a process that is gone is taken over at once.
    ///
    /// # Errors
    /// [`BackupError::Locked`] if another process holds it.
    fn lock(&self, name: &str, holder: Option<&str>) -> Result<Box<dyn Lock>, BackupError>;
}

/// A lock, held until it is dropped or lost.
pub(crate) trait Lock: fmt::Debug + Send + Sync {
    /// Fails if the lock was lost: its file is another one, or was not renewed in time.
    ///
    /// # Errors
    /// [`BackupError::LockLost`], or the reason why the file cannot be found.
    fn check(&self) -> Result<(), BackupError>;

    /// Returns true if the lock is held, as far as is known.
    fn is_held(&self) -> bool {
        self.check().is_ok()
    }
}

/// Returns the place at a path: a folder, or `s3://BUCKET/PREFIX`.
///
/// # Errors
/// When the address of a bucket is none, or the settings of its service cannot be used.
pub(crate) fn place_at(path: &Path) -> Result<Arc<dyn Place>, BackupError> {
    let text = path.to_str().unwrap_or_default();
    match text.strip_prefix(BUCKET_SCHEME) {
        Some(address) => Ok(Arc::new(Bucket::from_environment(path, address)?)),
        None if is_remote(path) => Err(BackupError::Address {
            path: path.to_owned(),
            detail: "a place is a folder, or s3://BUCKET/PREFIX".to_owned(),
        }),
        None => Ok(Arc::new(Folder::new(path))),
    }
}

/// Returns true if a path is an address with a scheme, as that of a bucket is, and no path of this
/// machine.
pub fn is_remote(path: &Path) -> bool {
    let text = path.to_str().unwrap_or_default();
    // One letter is a drive of Windows.
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Refuses an address that names no place, and settings of its service that cannot be used. The
/// service is not asked.
///
/// # Errors
/// [`BackupError::Address`].
pub fn check_address(path: &Path) -> Result<(), BackupError> {
    place_at(path).map(drop)
}

/// Returns the name of a content.
pub(crate) fn object_name(sha256: &str) -> String {
    let folder = sha256.get(..2).unwrap_or_default();
    format!("{OBJECTS_FOLDER}/{folder}/{sha256}")
}

/// The content of a file that could not be opened.
struct Unopened(Option<io::Error>);

impl Read for Unopened {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        let error = self.0.take();
        Err(error.unwrap_or_else(|| ErrorKind::NotFound.into()))
    }
}
