//! The reading of backups in either form: a repository, or a file with one whole backup.

use std::io::Read;
use std::path::Path;

use crate::archive::{Archive, is_archive};
use crate::error::BackupError;
use crate::manifest::Manifest;
use crate::repository::Repository;

/// The backups of a repository or a file.
#[derive(Debug, Default)]
pub struct Listing {
    /// The backups, the oldest first.
    pub backups: Vec<Manifest>,
    /// Manifests that are damaged, or of a newer format.
    pub unreadable: Vec<UnreadableBackup>,
}

/// A backup whose manifest cannot be read.
#[derive(Debug)]
pub struct UnreadableBackup {
    /// The id by its file name.
    pub id: String,
    /// The fault.
    pub error: BackupError,
}

/// Returns the backups at a path: a repository, or a file that ends with `.tar.zst`, which is read
/// to its end.
///
/// # Errors
/// When there is none, or it cannot be read, or a newer version made it.
pub fn list(path: &Path) -> Result<Listing, BackupError> {
    match Source::open(path)? {
        Source::Repository(repository) => repository.list(),
        Source::Archive(archive) => Ok(Listing {
            backups: vec![archive.read(&mut |_, _| Ok(()))?],
            unreadable: Vec::new(),
        }),
    }
}

/// A file of a backup that is being read.
pub(crate) struct Entry<'a> {
    /// The name inside of the data directory.
    pub(crate) name: &'a str,
    /// The hash that the manifest has; `None` in a file, where the manifest comes last.
    pub(crate) sha256: Option<&'a str>,
    /// The object with the content, or the file with the whole backup.
    pub(crate) path: &'a Path,
}

/// Called with each file of a backup and its content.
pub(crate) type OnFile<'a> =
    &'a mut dyn FnMut(&Entry<'_>, &mut dyn Read) -> Result<(), BackupError>;

/// The backups at a path.
pub(crate) enum Source {
    Repository(Repository),
    Archive(Archive),
}

impl Source {
    /// Opens what is at a path.
    ///
    /// # Errors
    /// When there are no backups, or a newer version made them.
    pub(crate) fn open(path: &Path) -> Result<Source, BackupError> {
        if is_archive(path) {
            Ok(Source::Archive(Archive::open(path)?))
        } else {
            Ok(Source::Repository(Repository::open(path)?))
        }
    }
}

/// Returns the manifest with this id, or the newest one without an id. A newest one that cannot be
/// read is not passed over: an older backup lacks data, so a person chooses it.
///
/// # Errors
/// When there is none, or it cannot be read.
pub(crate) fn find(repository: &Repository, id: Option<&str>) -> Result<Manifest, BackupError> {
    let mut ids = repository.ids()?;
    let path = repository.root();
    let wanted = match id {
        Some(id) => id.to_owned(),
        None => ids
            .pop()
            .ok_or(BackupError::NoBackups { path: path.clone() })?,
    };
    // The text is compared with file names before it is used as one.
    let unknown = |known| BackupError::UnknownId {
        path,
        id: wanted.clone(),
        known,
    };
    if id.is_some() && !ids.contains(&wanted) {
        return Err(unknown(ids));
    }
    match repository.read_manifest(&wanted)? {
        Some(manifest) => Ok(manifest),
        None => Err(unknown(ids)),
    }
}

/// Calls `on_file` with each file of a backup. An object that cannot be opened has a content whose
/// reading fails.
pub(crate) fn read_objects(
    repository: &Repository,
    manifest: &Manifest,
    on_file: OnFile<'_>,
) -> Result<(), BackupError> {
    for file in &manifest.files {
        let path = repository.object(&file.sha256);
        let entry = Entry {
            name: &file.name,
            sha256: Some(&file.sha256),
            path: &path,
        };
        on_file(&entry, &mut *repository.open_object(&file.sha256))?;
    }
    Ok(())
}
