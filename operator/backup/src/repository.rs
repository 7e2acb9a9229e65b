//! The repository: the backups of one store in a place. `lib.rs` has its layout.
//!
//! Temporary files are left over when the lock is taken, since only its holder creates any.
//!
//! Left out: a lock for readers. A backup that is removed while it is read fails with the name of a
//! missing object.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::BackupError;
use crate::files::{DRAFT_ENDING, OnPiece};
use crate::manifest::{
    MARKER_FILE, Manifest, is_hash, is_id, marker_text, order_of, parse_marker, time_of,
};
use crate::place::{Lock, OBJECTS_FOLDER, Place, object_name, place_at};
use crate::sink::{Sink, SourceFile, Stored};
use crate::source::{Listing, UnreadableBackup};

const LOCK_FILE: &str = "lock";
const BACKUPS_FOLDER: &str = "backups";
const MANIFEST_ENDING: &str = ".json";
/// The most objects that are removed between two looks at the lock.
const REMOVED_AT_ONCE: usize = 1_000;
/// The folder that some file systems have in their root.
const FILE_SYSTEM_FOLDER: &str = "lost+found";

/// A place with backups.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    place: Arc<dyn Place>,
}

impl Repository {
    /// Opens the repository of a store, which is created if there is none.
    ///
    /// # Errors
    /// When another process has it locked, or the place has something else or the backups of
    /// another store.
    pub(crate) fn open_or_create(root: &Path, store_id: &str) -> Result<Repository, BackupError> {
        let (repository, lock) = Repository::lock_or_create(root)?;
        repository.begin(store_id)?;
        drop(lock);
        Ok(repository)
    }

    /// Locks a repository, or a place in which one can be created.
    fn lock_or_create(root: &Path) -> Result<(Repository, Box<dyn Lock>), BackupError> {
        let repository = Repository {
            place: place_at(root)?,
        };
        // Before the first file is created: a folder of another program must stay as it is.
        if repository.store_id()?.is_none() {
            let marker_draft = format!("{MARKER_FILE}{DRAFT_ENDING}");
            let ours = [LOCK_FILE, FILE_SYSTEM_FOLDER, &marker_draft];
            let mut names = repository.place.names()?.unwrap_or_default().into_iter();
            let foreign = names.find(|name| !ours.contains(&name.as_str()));
            if let Some(found) = foreign {
                return Err(BackupError::NotARepository {
                    path: root.to_owned(),
                    found: Some(found),
                });
            }
        }
        let lock = repository.lock()?;
        Ok((repository, lock))
    }

    /// Prepares the place for the backups of a store.
    fn begin(&self, store_id: &str) -> Result<(), BackupError> {
        match self.store_id()? {
            Some(found) if found == store_id => {}
            Some(found) => {
                return Err(BackupError::OtherStore {
                    path: self.root(),
                    found,
                    store: store_id.to_owned(),
                });
            }
            None => {
                let marker = marker_text(store_id);
                self.place.write(MARKER_FILE, marker.as_bytes())?;
            }
        }
        self.place.create_folder(OBJECTS_FOLDER)?;
        self.place.create_folder(BACKUPS_FOLDER)
    }

    /// Opens a repository that exists.
    ///
    /// # Errors
    /// When there is none, or a newer version made it.
    pub(crate) fn open(root: &Path) -> Result<Repository, BackupError> {
        let repository = Repository {
            place: place_at(root)?,
        };
        if repository.store_id()?.is_none() {
            let names = repository.place.names()?;
            let first = |names: Vec<String>| names.into_iter().next();
            let found = names.map(|names| first(names).unwrap_or_else(|| "nothing".to_owned()));
            return Err(BackupError::NotARepository {
                path: root.to_owned(),
                found,
            });
        }
        Ok(repository)
    }

    /// Returns the path or the address.
    pub(crate) fn root(&self) -> PathBuf {
        self.place.path("")
    }

    /// Returns the place of the files.
    pub(crate) fn place(&self) -> &Arc<dyn Place> {
        &self.place
    }

    /// Returns the id of the store whose backups are here; `None` if there is no marker yet.
    pub(crate) fn store_id(&self) -> Result<Option<String>, BackupError> {
        match self.place.read(MARKER_FILE)? {
            Some(text) => parse_marker(&self.place.path(MARKER_FILE), &text).map(Some),
            None => Ok(None),
        }
    }

    /// Locks the repository and removes temporary files of interrupted runs.
    pub(crate) fn lock(&self) -> Result<Box<dyn Lock>, BackupError> {
        let lock = self.place.lock(LOCK_FILE, None)?;
        for folder in [OBJECTS_FOLDER, BACKUPS_FOLDER, ""] {
            self.place.remove_drafts(folder)?;
        }
        Ok(lock)
    }

    /// Returns the path of a content, for messages.
    pub(crate) fn object(&self, sha256: &str) -> PathBuf {
        self.place.path(&object_name(sha256))
    }

    /// Opens a content. One that cannot be opened fails when it is read.
    pub(crate) fn open_object(&self, sha256: &str) -> Box<dyn Read> {
        self.place.open(&object_name(sha256))
    }

    /// Returns the ids of all backups, the oldest first.
    pub(crate) fn ids(&self) -> Result<Vec<String>, BackupError> {
        let mut ids = Vec::new();
        for file in self.place.files(BACKUPS_FOLDER)? {
            if let Some(id) = file.name.strip_suffix(MANIFEST_ENDING)
                && is_id(id)
            {
                ids.push(id.to_owned());
            }
        }
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
        let name = manifest_name(id);
        let Some(text) = self.place.read(&name)? else {
            return Ok(None);
        };
        let path = self.place.path(&name);
        let manifest = Manifest::parse(&path, &text)?;
        if manifest.id != id {
            let detail = format!("it is the manifest of {}", manifest.id);
            return Err(BackupError::damaged(&path, detail));
        }
        Ok(Some(manifest))
    }

    /// Removes a manifest, durably. Its objects stay.
    pub(crate) fn remove_manifest(&self, id: &str) -> Result<(), BackupError> {
        let name = format!("{id}{MANIFEST_ENDING}");
        self.place.remove(BACKUPS_FOLDER, &[name])
    }

    /// Removes the objects that are not in `needed`. Returns their number and their bytes.
    pub(crate) fn remove_objects(
        &self,
        needed: &BTreeSet<String>,
        lock: &dyn Lock,
    ) -> Result<(u64, u64), BackupError> {
        let mut bytes = 0;
        let mut names = Vec::new();
        for file in self.place.files(OBJECTS_FOLDER)? {
            // A name that is no hash is not ours.
            let hash = file.name.rsplit('/').next().unwrap_or_default();
            if is_hash(hash) && !needed.contains(hash) {
                bytes += file.bytes;
                names.push(file.name);
            }
        }
        // Another process may need these objects if it has the lock meanwhile.
        for some in names.chunks(REMOVED_AT_ONCE) {
            lock.check()?;
            self.place.remove(OBJECTS_FOLDER, some)?;
        }
        Ok((names.len() as u64, bytes))
    }
}

/// Returns the name of a manifest.
fn manifest_name(id: &str) -> String {
    format!("{BACKUPS_FOLDER}/{id}{MANIFEST_ENDING}")
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
    /// The bytes of the objects that are there, by their hashes.
    objects: HashMap<String, u64>,
    lock: Box<dyn Lock>,
}

impl RepositorySink {
    /// Locks the repository, which is created if there is none.
    ///
    /// # Errors
    /// When another process has it locked, or the place has something else.
    pub(crate) fn open(root: &Path) -> Result<RepositorySink, BackupError> {
        let (repository, lock) = Repository::lock_or_create(root)?;
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
        let mut objects = HashMap::new();
        for file in repository.place.files(OBJECTS_FOLDER)? {
            let hash = file.name.rsplit('/').next().unwrap_or_default();
            objects.insert(hash.to_owned(), file.bytes);
        }
        Ok(RepositorySink {
            repository,
            known,
            objects,
            lock,
        })
    }

    /// Returns true if there is an object of this length. Another length is damage, and the object
    /// is written again.
    fn has_object(&self, sha256: &str, bytes: u64) -> bool {
        self.objects.get(sha256) == Some(&bytes)
    }
}

impl Sink for RepositorySink {
    fn begin(&mut self, store_id: &str) -> Result<(), BackupError> {
        self.repository.begin(store_id)
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
        // A long copy without the lock would be in vain.
        self.lock.check()?;
        let place = &self.repository.place;
        let content = place.add_object(file, content, piece_bytes, on_piece)?;
        let is_new = !self.has_object(&content.sha256, content.bytes);
        self.objects.insert(content.sha256.clone(), content.bytes);
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
        // The names of the objects are durable before the manifest that needs them has its name,
        // and no other process has removed any.
        self.repository.place.sync_objects()?;
        self.lock.check()?;
        let name = manifest_name(&manifest.id);
        let text = manifest.to_text();
        self.repository.place.write(&name, text.as_bytes())
    }
}
