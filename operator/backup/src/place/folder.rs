//! A folder of this machine as the place of a repository.
//!
//! Files are written under a temporary name and renamed: `objects/tmp-PID-N`, and names that end
//! with `.new`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_model::sync::lock as lock_of;

use super::{Lock, OBJECTS_FOLDER, Place, PlacedFile, Unopened, object_name};
use crate::error::BackupError;
use crate::files::{
    DRAFT_ENDING, Digested, LockFile, OnPiece, TemporaryFile, copy_hashed, create_folder, lock,
    parent, sync_folder, write_whole,
};
use crate::sink::SourceFile;

const TEMPORARY_PREFIX: &str = "tmp-";

/// A folder with the files of a repository, which need not exist.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    /// Folders that got a new object since the last sync.
    changed: Mutex<BTreeSet<PathBuf>>,
    next_temporary: AtomicU64,
}

impl Folder {
    pub(super) fn new(root: &Path) -> Folder {
        Folder {
            root: root.to_owned(),
            changed: Mutex::default(),
            next_temporary: AtomicU64::new(0),
        }
    }
}

impl Place for Folder {
    fn path(&self, name: &str) -> PathBuf {
        match name {
            "" => self.root.clone(),
            name => self.root.join(name),
        }
    }

    fn names(&self) -> Result<Option<Vec<String>>, BackupError> {
        match std::fs::read_dir(&self.root) {
            Ok(entries) => {
                let mut names = Vec::new();
                for entry in entries {
                    let entry = entry.map_err(BackupError::io("list", &self.root))?;
                    names.push(entry.file_name().to_string_lossy().into_owned());
                }
                names.sort_unstable();
                Ok(Some(names))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BackupError::io("list", &self.root)(error)),
        }
    }

    fn files(&self, folder: &str) -> Result<Vec<PlacedFile>, BackupError> {
        let mut files = Vec::new();
        collect(&self.path(folder), "", &mut files)?;
        files.sort_unstable_by(|a: &PlacedFile, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BackupError> {
        let path = self.path(name);
        match std::fs::read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BackupError::io("read", &path)(error)),
        }
    }

    fn open(&self, name: &str) -> Box<dyn Read> {
        match File::open(self.path(name)) {
            Ok(file) => Box::new(file),
            Err(error) => Box::new(Unopened(Some(error))),
        }
    }

    fn create_folder(&self, name: &str) -> Result<(), BackupError> {
        create_missing(&self.path(name))
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), BackupError> {
        write_whole(&self.path(name), content)
    }

    fn add_object(
        &self,
        file: &SourceFile<'_>,
        content: &mut dyn Read,
        piece_bytes: usize,
        on_piece: OnPiece<'_>,
    ) -> Result<Digested, BackupError> {
        let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let name = format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id());
        let objects = self.path(OBJECTS_FOLDER);
        let mut temporary = TemporaryFile::create(objects.join(name))?;
        let copied = copy_hashed(content, &mut temporary.file, piece_bytes, on_piece);
        let content = copied.map_err(|error| file.copy_failed(temporary.path(), error))?;
        file.check_length(content.bytes)?;
        let object = self.path(&object_name(&content.sha256));
        // The name of an object of an interrupted run may not be durable yet, so its folder is
        // synced in any case.
        create_missing(parent(&object))?;
        lock_of(&self.changed).insert(parent(&object).to_owned());
        // An object that exists is replaced too: its bytes may be damaged, and the new ones have
        // the hash of its name.
        temporary.keep_as(&object)?;
        Ok(content)
    }

    fn sync_objects(&self) -> Result<(), BackupError> {
        let changed = std::mem::take(&mut *lock_of(&self.changed));
        for folder in &changed {
            sync_folder(folder).map_err(BackupError::io("sync", folder))?;
        }
        Ok(())
    }

    fn remove(&self, folder: &str, names: &[String]) -> Result<(), BackupError> {
        if names.is_empty() {
            return Ok(());
        }
        let root = self.path(folder);
        let mut folders = BTreeSet::from([root.clone()]);
        for name in names {
            let path = root.join(name);
            std::fs::remove_file(&path).map_err(BackupError::io("remove", &path))?;
            folders.insert(parent(&path).to_owned());
        }
        for folder in folders.into_iter().rev() {
            // A folder without a file goes too. In most cases there are others.
            if folder != root && std::fs::remove_dir(&folder).is_ok() {
                continue;
            }
            sync_folder(&folder).map_err(BackupError::io("sync", &folder))?;
        }
        Ok(())
    }

    fn remove_folder(&self, folder: &str) -> Result<(), BackupError> {
        let path = self.path(folder);
        std::fs::remove_dir_all(&path).map_err(BackupError::io("remove", &path))
    }

    fn remove_drafts(&self, folder: &str) -> Result<(), BackupError> {
        let folder = self.path(folder);
        for entry in entries_of(&folder)? {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(TEMPORARY_PREFIX) || name.ends_with(DRAFT_ENDING) {
                let path = entry.path();
                std::fs::remove_file(&path).map_err(BackupError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    fn lock(&self, name: &str, _holder: Option<&str>) -> Result<Box<dyn Lock>, BackupError> {
        let path = self.path(name);
        create_missing(parent(&path))?;
        let lock = lock(&path, parent(&path))?;
        Ok(Box::new(FolderLock { lock, path }))
    }
}

/// A lock file. The system unlocks it when its process ends.
#[derive(Debug)]
struct FolderLock {
    lock: LockFile,
    path: PathBuf,
}

impl Lock for FolderLock {
    fn check(&self) -> Result<(), BackupError> {
        let found = self
            .path
            .metadata()
            .and_then(|_| self.lock.is_at(&self.path));
        match found.map_err(BackupError::io("find the lock", &self.path))? {
            true => Ok(()),
            false => Err(BackupError::LockLost {
                path: self.path.clone(),
            }),
        }
    }
}

/// Creates a folder if there is none.
fn create_missing(folder: &Path) -> Result<(), BackupError> {
    let exists = folder
        .try_exists()
        .map_err(BackupError::io("look for", folder))?;
    match exists {
        true => Ok(()),
        false => create_folder(folder),
    }
}

/// Returns the entries of a folder; none if there is no such folder.
fn entries_of(folder: &Path) -> Result<Vec<std::fs::DirEntry>, BackupError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(BackupError::io("list", folder)(error)),
    };
    let entries: io::Result<Vec<_>> = entries.collect();
    entries.map_err(BackupError::io("list", folder))
}

/// Adds the files below a folder. `prefix` is the name of the folder in the list.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<PlacedFile>) -> Result<(), BackupError> {
    for entry in entries_of(folder)? {
        // A name that is no text is not ours.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = entry.path();
        let kind = entry.file_type().map_err(BackupError::io("read", &path))?;
        if kind.is_dir() {
            collect(&path, &format!("{prefix}{name}/"), files)?;
            continue;
        }
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            // Removed meanwhile, or a link to nothing.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(BackupError::io("read", &path)(error)),
        };
        // A link may lead to a folder, whose files are not ours.
        if metadata.is_file() {
            files.push(PlacedFile {
                name: format!("{prefix}{name}"),
                bytes: metadata.len(),
            });
        }
    }
    Ok(())
}
