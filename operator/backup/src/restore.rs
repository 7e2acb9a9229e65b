//! The restore of a backup into an empty directory.
//!
//! ```text
//! RESTORE-UNFINISHED   exists from the first step to the last one
//! store/…, damage/…    the files, each compared with its hash while it is written
//! ORRERY               the format file, written when all other files are durable
//! ```
//!
//! A directory whose restore was interrupted has no format file and has files, so the store refuses
//! to open it; and a second restore refuses it with the advice to delete it.
//!
//! A restored directory is another store than the one that was copied, which may go on: it gets an
//! id of its own, so that the backups of both never meet in one repository.
//!
//! Left out: extra files are restored under their names, `extra/…`, and the caller moves them to
//! their places.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use orrery_storage::{FORMAT, FORMAT_FILE, format_of_new_store};

use crate::archive::Archive;
use crate::create::EXTRA_FOLDER;
use crate::error::BackupError;
use crate::files::{
    CopyError, Digested, PIECE_BYTES, copy_hashed, create_folder, owner_only, parent, sync_folder,
    write_whole,
};
use crate::manifest::Manifest;
use crate::repository::Repository;
use crate::source::{Entry, Source, find, read_objects};
use crate::verify::{Fault, check_no_others, differences, newest_whole};
use crate::{OnProgress, Progress};

/// The file that marks a directory whose restore is not finished.
pub const UNFINISHED_FILE: &str = "RESTORE-UNFINISHED";

/// The text of the marker.
const UNFINISHED_TEXT: &str = "A restore into this directory began and did not finish. Delete the \
                               directory and restore again.\n";
/// The most bytes of a format file. More is damage.
const FORMAT_FILE_BYTES_MAX: u64 = 64 << 10;

/// A backup that was restored.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// The manifest of the backup.
    pub manifest: Manifest,
    /// The extra files, in the restored directory.
    pub extra_files: Vec<PathBuf>,
}

/// Restores a backup, the newest one without an id, into a directory that does not exist or is
/// empty. `path` is a repository, or a file that ends with `.tar.zst`.
///
/// # Errors
/// See [`BackupError`]. After an error the directory cannot be opened as a store and is to be
/// deleted.
pub fn restore(
    path: &Path,
    id: Option<&str>,
    target: &Path,
    progress: OnProgress<'_>,
) -> Result<Restored, BackupError> {
    // Everything that can be refused is refused before the directory is changed.
    let source = Source::open(path)?;
    check_empty(target)?;
    let manifest = match &source {
        Source::Repository(repository) => {
            let manifest = find(repository, id)?;
            restore_manifest(repository, &manifest, target, progress, &mut |_| Ok(()))?;
            manifest
        }
        Source::Archive(archive) => restore_archive(archive, id, target, progress)?,
    };
    let extra = manifest
        .files
        .iter()
        .filter(|file| file.name.starts_with(EXTRA_FOLDER));
    let extra_files = extra.map(|file| target.join(&file.name)).collect();
    Ok(Restored {
        manifest,
        extra_files,
    })
}

/// Restores a backup of a repository into a directory that is empty ([`check_empty`]). `extend`
/// gets the directory when all files but the format file are there: it is no store yet.
///
/// # Errors
/// As [`restore`].
pub(crate) fn restore_manifest(
    repository: &Repository,
    manifest: &Manifest,
    target: &Path,
    progress: OnProgress<'_>,
    extend: &mut dyn FnMut(&Path) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    check_format(manifest)?;
    let total = Progress {
        files_total: manifest.files.len() as u64,
        bytes_total: manifest.bytes,
        ..Progress::default()
    };
    let mut written = Target::begin(target, total, progress)?;
    // Each file is compared with its hash as it is written.
    read_objects(repository, manifest, &mut |entry, content| {
        let received = written.receive(entry, content);
        received.map_err(|error| object_failed(repository, manifest, entry, error))
    })?;
    extend(target)?;
    written.finish()
}

/// Restores a file with one whole backup, whose manifest comes last.
fn restore_archive(
    archive: &Archive,
    id: Option<&str>,
    target: &Path,
    progress: OnProgress<'_>,
) -> Result<Manifest, BackupError> {
    let mut target = Target::begin(target, Progress::default(), progress)?;
    let manifest = archive.read(&mut |entry, content| {
        let received = target.receive(entry, content);
        received.map_err(|error| match error {
            ReceiveError::Fault(fault) => archive.damaged(&format!("{} {fault}", entry.name)),
            ReceiveError::Other(error) => error,
        })
    })?;
    if let Some(id) = id.filter(|id| *id != manifest.id) {
        return Err(BackupError::UnknownId {
            path: archive.path().to_owned(),
            id: id.to_owned(),
            known: vec![manifest.id],
        });
    }
    check_format(&manifest)?;
    check_no_others(archive, &manifest, &target.found)?;
    if let Some((name, fault)) = differences(&manifest, &target.found).first() {
        return Err(archive.damaged(&format!("{name} {fault}")));
    }
    target.finish()?;
    Ok(manifest)
}

/// Returns the error for a file of a repository that could not be restored.
fn object_failed(
    repository: &Repository,
    manifest: &Manifest,
    entry: &Entry<'_>,
    error: ReceiveError,
) -> BackupError {
    let fault = match error {
        ReceiveError::Fault(fault) => fault,
        ReceiveError::Other(error) => return error,
    };
    BackupError::DamagedObject {
        id: manifest.id.clone(),
        file: entry.name.to_owned(),
        object: entry.path.to_owned(),
        fault: fault.to_string(),
        whole: newest_whole(repository, entry.sha256.unwrap_or_default()),
    }
}

/// Refuses a backup whose files this program cannot open.
fn check_format(manifest: &Manifest) -> Result<(), BackupError> {
    if manifest.store_format == u64::from(FORMAT) {
        return Ok(());
    }
    Err(BackupError::StoreFormat {
        id: manifest.id.clone(),
        program: manifest.program.clone(),
        found: manifest.store_format,
        known: FORMAT.into(),
    })
}

/// Refuses a directory that has anything in it.
pub(crate) fn check_empty(target: &Path) -> Result<(), BackupError> {
    let marker = target.join(UNFINISHED_FILE);
    if marker.try_exists().unwrap_or(false) {
        return Err(BackupError::TargetUnfinished {
            path: target.to_owned(),
        });
    }
    match first_entry(target) {
        Ok(None) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(Some(found)) => Err(BackupError::TargetNotEmpty {
            path: target.to_owned(),
            found,
        }),
        Err(error) => Err(BackupError::io("list", target)(error)),
    }
}

/// Returns the name of an entry of a folder; `None` if it is empty.
fn first_entry(folder: &Path) -> io::Result<Option<String>> {
    match std::fs::read_dir(folder)?.next() {
        Some(entry) => Ok(Some(entry?.file_name().to_string_lossy().into_owned())),
        None => Ok(None),
    }
}

/// The failure of one file.
enum ReceiveError {
    /// The backup's content has this fault.
    Fault(Fault),
    Other(BackupError),
}

impl From<BackupError> for ReceiveError {
    fn from(error: BackupError) -> ReceiveError {
        ReceiveError::Other(error)
    }
}

/// The directory that is being written.
struct Target<'a> {
    root: PathBuf,
    /// The content of the format file, which is written last.
    format_file: Option<Vec<u8>>,
    /// The files so far.
    found: HashMap<String, Digested>,
    /// The folders with new names.
    folders: BTreeSet<PathBuf>,
    progress: Progress,
    on_progress: OnProgress<'a>,
}

impl<'a> Target<'a> {
    /// Creates the directory with the marker of an unfinished restore.
    fn begin(
        root: &Path,
        progress: Progress,
        on_progress: OnProgress<'a>,
    ) -> Result<Target<'a>, BackupError> {
        create_folder(root)?;
        write_whole(&root.join(UNFINISHED_FILE), UNFINISHED_TEXT.as_bytes())?;
        Ok(Target {
            root: root.to_owned(),
            format_file: None,
            found: HashMap::new(),
            folders: BTreeSet::new(),
            progress,
            on_progress,
        })
    }

    /// Writes one file, durably, and compares it with its hash if that is known.
    fn receive(&mut self, entry: &Entry<'_>, content: &mut dyn Read) -> Result<(), ReceiveError> {
        entry.name.clone_into(&mut self.progress.file);
        let path = self.root.join(entry.name);
        let digest = if entry.name == FORMAT_FILE {
            let mut text = Vec::new();
            let content = &mut content.take(FORMAT_FILE_BYTES_MAX);
            let digest = self.copy(content, &mut text, &path)?;
            self.format_file = Some(text);
            digest
        } else {
            let mut file = self.create_file(&path)?;
            let digest = self.copy(content, &mut file, &path)?;
            file.sync_all().map_err(BackupError::io("write", &path))?;
            digest
        };
        if entry.sha256.is_some_and(|sha256| sha256 != digest.sha256) {
            return Err(ReceiveError::Fault(Fault::Damaged));
        }
        self.found.insert(entry.name.to_owned(), digest);
        self.progress.files_done += 1;
        (self.on_progress)(&self.progress);
        Ok(())
    }

    fn copy(
        &mut self,
        content: &mut dyn Read,
        file: &mut dyn Write,
        path: &Path,
    ) -> Result<Digested, ReceiveError> {
        let (progress, on_progress) = (&mut self.progress, &mut self.on_progress);
        let copied = copy_hashed(content, file, PIECE_BYTES, &mut |bytes| {
            progress.bytes_done += bytes;
            on_progress(progress);
            Ok(())
        });
        copied.map_err(|error| match error {
            CopyError::Read(error) => ReceiveError::Fault(Fault::of(&error)),
            CopyError::Write(error) => BackupError::io("write", path)(error).into(),
            CopyError::Stopped(error) => error.into(),
        })
    }

    fn create_file(&mut self, path: &Path) -> Result<File, BackupError> {
        let folder = parent(path);
        if self.folders.insert(folder.to_owned()) {
            create_folder(folder)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let file = owner_only(&mut options).open(path);
        file.map_err(BackupError::io("create", path))
    }

    /// Writes the format file, and removes the marker of an unfinished restore.
    fn finish(self) -> Result<(), BackupError> {
        for folder in &self.folders {
            sync_folder(folder).map_err(BackupError::io("sync", folder))?;
        }
        let path = self.root.join(FORMAT_FILE);
        let Some(text) = self.format_file else {
            let error = io::Error::new(ErrorKind::NotFound, "the backup has no such file");
            return Err(BackupError::io("write", &path)(error));
        };
        write_whole(&path, &format_of_new_store(&text))?;
        let marker = self.root.join(UNFINISHED_FILE);
        std::fs::remove_file(&marker).map_err(BackupError::io("remove", &marker))?;
        sync_folder(&self.root).map_err(BackupError::io("sync", &self.root))
    }
}
