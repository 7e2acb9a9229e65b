//! The repository: a folder with many backups of one store. `lib.rs` has its layout.
//!
//! Temporary files are `objects/tmp-PID-N` and names that end with `.new`. Only the holder of the
//! lock creates such files, so all of them are left over when the lock is taken.
//!
//! Left out: a lock for readers. A backup that is removed while it is read fails with the name of a
//! missing object.

use std::collections::{BTreeSet, HashMap};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::BackupError;
use crate::files::{
    DRAFT_ENDING, Lock, OnPiece, TemporaryFile, copy_hashed, create_folder, lock, parent,
    sync_folder, write_whole,
};
use crate::manifest::{
    MARKER_FILE, Manifest, is_hash, is_id, marker_text, order_of, parse_marker, time_of,
};
use crate::sink::{Sink, SourceFile, Stored};
use crate::source::{Listing, UnreadableBackup};

const LOCK_FILE: &str = "lock";
const OBJECTS_FOLDER: &str = "objects";
const BACKUPS_FOLDER: &str = "backups";
const MANIFEST_ENDING: &str = ".json";
const TEMPORARY_PREFIX: &str = "tmp-";
/// The folder that some file systems have in their root.
const FILE_SYSTEM_FOLDER: &str = "lost+found";

/// A folder with backups.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    root: PathBuf,
}

impl Repository {
    /// Opens a repository that exists.
    ///
    /// # Errors
    /// When the folder is none, or a newer version made it.
    pub(crate) fn open(root: &Path) -> Result<Repository, BackupError> {
        let repository = Repository {
            root: root.to_owned(),
        };
        if repository.store_id()?.is_none() {
            let found = match first_entry(root) {
                Ok(found) => Some(found.unwrap_or_else(|| "nothing".to_owned())),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(BackupError::io("list", root)(error)),
            };
            return Err(BackupError::NotARepository {
                path: root.to_owned(),
                found,
            });
        }
        Ok(repository)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the id of the store whose backups are here; `None` if there is no marker yet.
    pub(crate) fn store_id(&self) -> Result<Option<String>, BackupError> {
        let path = self.root.join(MARKER_FILE);
        match std::fs::read(&path) {
            Ok(text) => parse_marker(&path, &text).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BackupError::io("read", &path)(error)),
        }
    }

    /// Locks the repository and removes temporary files of interrupted runs.
    pub(crate) fn lock(&self) -> Result<Lock, BackupError> {
        let lock = lock(&self.root.join(LOCK_FILE), &self.root)?;
        for folder in [OBJECTS_FOLDER, BACKUPS_FOLDER, ""] {
            let folder = self.root.join(folder);
            for name in names(&folder)? {
                let is_temporary = name.starts_with(TEMPORARY_PREFIX);
                if is_temporary || name.ends_with(DRAFT_ENDING) {
                    let path = folder.join(name);
                    std::fs::remove_file(&path).map_err(BackupError::io("remove", &path))?;
                }
            }
        }
        Ok(lock)
    }

    /// Returns the place of a content.
    pub(crate) fn object(&self, sha256: &str) -> PathBuf {
        let folder = sha256.get(..2).unwrap_or_default();
        self.root.join(OBJECTS_FOLDER).join(folder).join(sha256)
    }

    /// Returns the place of a manifest.
    pub(crate) fn manifest(&self, id: &str) -> PathBuf {
        let name = format!("{id}{MANIFEST_ENDING}");
        self.root.join(BACKUPS_FOLDER).join(name)
    }

    /// Returns the ids of all backups, the oldest first.
    pub(crate) fn ids(&self) -> Result<Vec<String>, BackupError> {
        let names = names(&self.root.join(BACKUPS_FOLDER))?;
        let ids = names
            .iter()
            .filter_map(|name| name.strip_suffix(MANIFEST_ENDING));
        let mut ids: Vec<String> = ids.filter(|id| is_id(id)).map(str::to_owned).collect();
        ids.sort_by(|a, b| order_of(a).cmp(&order_of(b)));
        Ok(ids)
    }

    /// Returns all backups, the oldest first. A manifest that cannot be read is listed as such.
    pub(crate) fn list(&self) -> Result<Listing, BackupError> {
        let mut listing = Listing::default();
        for id in self.ids()? {
            match self.read_manifest(&id) {
                Ok(Some(manifest)) => listing.backups.push(manifest),
                Ok(None) => {}
                Err(error) => listing.unreadable.push(UnreadableBackup { id, error }),
            }
        }
        Ok(listing)
    }

    /// Reads a manifest; `None` if there is none with this id.
    pub(crate) fn read_manifest(&self, id: &str) -> Result<Option<Manifest>, BackupError> {
        let path = self.manifest(id);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(BackupError::io("read", &path)(error)),
        };
        let manifest = Manifest::parse(&path, &text)?;
        if manifest.id != id {
            let detail = format!("it is the manifest of {}", manifest.id);
            return Err(BackupError::damaged(&path, detail));
        }
        Ok(Some(manifest))
    }

    /// Removes a manifest, durably. Its objects stay.
    pub(crate) fn remove_manifest(&self, id: &str) -> Result<(), BackupError> {
        let path = self.manifest(id);
        std::fs::remove_file(&path).map_err(BackupError::io("remove", &path))?;
        let folder = self.root.join(BACKUPS_FOLDER);
        sync_folder(&folder).map_err(BackupError::io("sync", &folder))
    }

    /// Removes the objects that are not in `needed`. Returns their number and their bytes.
    pub(crate) fn remove_objects(
        &self,
        needed: &BTreeSet<String>,
    ) -> Result<(u64, u64), BackupError> {
        let (mut objects, mut bytes) = (0, 0);
        let root = self.root.join(OBJECTS_FOLDER);
        for folder in names(&root)? {
            let folder = root.join(folder);
            for name in names(&folder)? {
                // A name that is no hash is not ours.
                if !is_hash(&name) || needed.contains(&name) {
                    continue;
                }
                let path = folder.join(name);
                let metadata = path.metadata().map_err(BackupError::io("read", &path))?;
                std::fs::remove_file(&path).map_err(BackupError::io("remove", &path))?;
                objects += 1;
                bytes += metadata.len();
            }
            // It has other objects, in most cases.
            let _ = std::fs::remove_dir(&folder);
        }
        Ok((objects, bytes))
    }
}

/// Returns the names in a folder, in order; none if there is no such folder.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, BackupError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(BackupError::io("list", folder)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(BackupError::io("list", folder))?;
        // A name that is no text is not ours.
        found.extend(entry.file_name().into_string());
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the name of an entry of a folder; `None` if it is empty.
pub(crate) fn first_entry(folder: &Path) -> std::io::Result<Option<String>> {
    match std::fs::read_dir(folder)?.next() {
        Some(entry) => Ok(Some(entry?.file_name().to_string_lossy().into_owned())),
        None => Ok(None),
    }
}

/// Returns an id behind the newest one, with the time `base` if that is later.
pub(crate) fn free_id(newest: Option<&str>, base: &str) -> String {
    // A clock that was set back must not make this id older than the one before.
    let base = match newest {
        Some(newest) if order_of(newest) > order_of(base) => time_of(newest),
        _ => base,
    };
    let mut id = base.to_owned();
    let mut next = 2u64;
    while newest.is_some_and(|newest| order_of(newest) >= order_of(&id)) {
        id = format!("{base}-{next}");
        next += 1;
    }
    id
}

/// A backup that is being added to a repository.
pub(crate) struct RepositorySink {
    repository: Repository,
    /// The hashes of the tables of the newest backup, by name, bytes and identity.
    known: HashMap<(String, u64, String), String>,
    /// Folders that got a new name since the last sync.
    changed: BTreeSet<PathBuf>,
    next_temporary: u64,
    _lock: Lock,
}

impl RepositorySink {
    /// Locks the repository, and creates the folder if there is none.
    ///
    /// # Errors
    /// When another process has it locked, or the folder has something else.
    pub(crate) fn open(root: &Path) -> Result<RepositorySink, BackupError> {
        create_folder(root)?;
        let repository = Repository {
            root: root.to_owned(),
        };
        // Before the first file is created: a folder of another program must stay as it is.
        if repository.store_id()?.is_none() {
            let marker_draft = format!("{MARKER_FILE}{DRAFT_ENDING}");
            let ours = [LOCK_FILE, FILE_SYSTEM_FOLDER, &marker_draft];
            let mut names = names(root)?.into_iter();
            let foreign = names.find(|name| !ours.contains(&name.as_str()));
            if let Some(found) = foreign {
                return Err(BackupError::NotARepository {
                    path: root.to_owned(),
                    found: Some(found),
                });
            }
        }
        let lock = repository.lock()?;
        // The newest backup that can be read has most of the tables that are still there.
        let ids = repository.ids()?.into_iter().rev();
        let mut manifests = ids.filter_map(|id| repository.read_manifest(&id).ok().flatten());
        let files = manifests
            .next()
            .map_or(Vec::new(), |manifest| manifest.files);
        let mut known = HashMap::new();
        for file in files {
            if let Some(identity) = file.identity {
                known.insert((file.name, file.bytes, identity), file.sha256);
            }
        }
        Ok(RepositorySink {
            repository,
            known,
            changed: BTreeSet::new(),
            next_temporary: 0,
            _lock: lock,
        })
    }

    /// Returns true if there is an object of this length. Another length is damage, and the object
    /// is written again.
    fn has_object(&self, sha256: &str, bytes: u64) -> bool {
        let metadata = self.repository.object(sha256).metadata();
        metadata.is_ok_and(|metadata| metadata.len() == bytes)
    }

    /// Creates the folder of an object if there is none, and has it synced at the end.
    fn object_folder(&mut self, object: &Path) -> Result<(), BackupError> {
        let folder = parent(object);
        let exists = folder
            .try_exists()
            .map_err(BackupError::io("look for", folder))?;
        if !exists {
            create_folder(folder)?;
        }
        self.changed.insert(folder.to_owned());
        Ok(())
    }
}

impl Sink for RepositorySink {
    fn begin(&mut self, store_id: &str) -> Result<(), BackupError> {
        match self.repository.store_id()? {
            Some(found) if found == store_id => {}
            Some(found) => {
                return Err(BackupError::OtherStore {
                    path: self.repository.root.clone(),
                    found,
                    store: store_id.to_owned(),
                });
            }
            None => {
                let marker = self.repository.root.join(MARKER_FILE);
                write_whole(&marker, marker_text(store_id).as_bytes())?;
            }
        }
        create_folder(&self.repository.root.join(OBJECTS_FOLDER))?;
        create_folder(&self.repository.root.join(BACKUPS_FOLDER))
    }

    fn known(&self, file: &SourceFile<'_>) -> Option<String> {
        let key = (file.name.to_owned(), file.bytes, file.identity?.to_owned());
        let hash = self.known.get(&key)?;
        self.has_object(hash, file.bytes).then(|| hash.clone())
    }

    fn add(
        &mut self,
        file: &SourceFile<'_>,
        content: &mut dyn Read,
        piece_bytes: usize,
        on_piece: OnPiece<'_>,
    ) -> Result<Stored, BackupError> {
        let name = format!(
            "{TEMPORARY_PREFIX}{}-{}",
            std::process::id(),
            self.next_temporary
        );
        self.next_temporary += 1;
        let objects = self.repository.root.join(OBJECTS_FOLDER);
        let mut temporary = TemporaryFile::create(objects.join(name))?;
        let copied = copy_hashed(content, &mut temporary.file, piece_bytes, on_piece);
        let content = copied.map_err(|error| file.copy_failed(temporary.path(), error))?;
        file.check_length(content.bytes)?;
        let object = self.repository.object(&content.sha256);
        // The name of an object of an interrupted run may not be durable yet, so its folder is
        // synced in any case.
        self.object_folder(&object)?;
        // An object that exists is replaced too: its bytes may be damaged, and the new ones have
        // the hash of its name.
        let is_new = !self.has_object(&content.sha256, content.bytes);
        temporary.keep_as(&object)?;
        Ok(Stored {
            is_new,
            new_bytes: if is_new { content.bytes } else { 0 },
            content,
        })
    }

    fn free_id(&self, base: &str) -> Result<String, BackupError> {
        let newest = self.repository.ids()?.pop();
        Ok(free_id(newest.as_deref(), base))
    }

    fn finish(self: Box<Self>, manifest: &Manifest) -> Result<(), BackupError> {
        // The names of the objects are durable before the manifest that needs them has its name.
        for folder in &self.changed {
            sync_folder(folder).map_err(BackupError::io("sync", folder))?;
        }
        let path = self.repository.manifest(&manifest.id);
        write_whole(&path, manifest.to_text().as_bytes())
    }
}
