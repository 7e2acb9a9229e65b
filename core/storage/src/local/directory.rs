//! The data directory: its layout, its lock, and the check that it is complete.
//!
//! ```text
//! ORRERY        format file: readable text, written first; has the version, whether creation
//!               finished, and the id of the directory
//! LOCK          locked while a process has the directory open; holds the id of the process
//! high-water    how far the log was acknowledged (high_water.rs)
//! damage/       records of damaged blocks, if there are any (damage.rs)
//! checkpoints/  links to files that are being copied for a backup (checkpoint.rs)
//! kept-journals/ links to journals that a continuous backup has not copied (kept_journals.rs)
//! store/        the tables and journals of fjall
//! ```
//!
//! Promised: a directory of another program is never changed, an unknown format is never read, two
//! processes never share a directory, and a finished directory that lost a part is refused where
//! fjall would silently create the part anew (a table tree, its journals).

use std::collections::hash_map::RandomState;
use std::fs::{File, OpenOptions, TryLockError};
use std::hash::BuildHasher;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use orrery_model::{hex, sync};

use crate::checkpoint::FORMAT_FILE;
use crate::error::StoreError;

/// Version of the whole directory: layout, key prefixes, internal records, high-water file.
pub const FORMAT: u32 = 3;

/// The format file while it is being written.
const FORMAT_DRAFT: &str = "ORRERY.new";
const LOCK_FILE: &str = "LOCK";
pub(super) const STORE_DIRECTORY: &str = "store";
pub(super) const HIGH_WATER_FILE: &str = "high-water";
pub(super) const DAMAGE_DIRECTORY: &str = "damage";
const CHECKPOINTS_DIRECTORY: &str = "checkpoints";
/// The keyspaces of fjall: the list of keyspaces, rows, index entries.
pub(super) const KEYSPACES: [&str; 3] = ["0", "1", "2"];
/// The directory with links to an older list of tables.
const OLDER_LIST_DIRECTORY: &str = "older-list";
const KEPT_JOURNALS_DIRECTORY: &str = "kept-journals";
/// Bytes of the id of a directory. The format file has two hexadecimal digits for each.
const ID_BYTES: usize = 16;
/// The first line of the format file.
const PREFACE: &str = "Orrery data directory. Copy, move or delete it only as a whole, \
                       and only while no server uses it.";

/// The progress of a directory's creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No commit was acknowledged yet: the content may be discarded.
    Creating,
    /// The directory holds data.
    Ready,
}

/// A data directory that this process has locked.
pub(super) struct Directory {
    root: PathBuf,
    pub(super) stage: Stage,
    /// The id; `None` for a directory of an earlier version that got none yet.
    id: Mutex<Option<String>>,
    _lock: DirectoryLock,
}

/// The lock file, locked until dropped.
struct DirectoryLock(File);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that another thread starts at this moment has a
        // copy of the open file until its program begins.
        let _ = self.0.unlock();
    }
}

impl Directory {
    /// Locks the directory, and creates it if there is none.
    pub(super) fn claim(root: &Path) -> Result<Directory, StoreError> {
        create_directory(root).map_err(StoreError::io("create the data directory", root))?;
        let format_file = root.join(FORMAT_FILE);
        let has_format_file = format_file
            .try_exists()
            .map_err(StoreError::io("look for", &format_file))?;
        // Before the first file is created: a directory of another program must stay as it is.
        if !has_format_file {
            refuse_foreign(root)?;
        }
        let lock = lock(root)?;
        let (stage, id) = if has_format_file {
            read_format(&format_file)?
        } else {
            (Stage::Creating, Some(new_id()))
        };
        let directory = Directory {
            root: root.to_owned(),
            stage,
            id: Mutex::new(id),
            _lock: lock,
        };
        if !has_format_file {
            let id = sync::lock(&directory.id).clone();
            directory.write_format(Stage::Creating, id.as_deref())?;
        }
        // Links that a process left which ended while it used them: they only take space.
        for left in [directory.checkpoints(), directory.older_list()] {
            ignore_missing(std::fs::remove_dir_all(&left))
                .map_err(StoreError::io("remove", &left))?;
        }
        Ok(directory)
    }

    /// Locks a directory that exists, and creates nothing.
    pub(super) fn claim_existing(root: &Path) -> Result<Directory, StoreError> {
        let format_file = root.join(FORMAT_FILE);
        std::fs::metadata(&format_file).map_err(StoreError::io("read", &format_file))?;
        Directory::claim(root)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn store(&self) -> PathBuf {
        self.root.join(STORE_DIRECTORY)
    }

    pub(super) fn high_water(&self) -> PathBuf {
        self.root.join(HIGH_WATER_FILE)
    }

    /// Makes the names of all directories and files durable. fjall syncs the directories that it
    /// creates things in, but not all of those that it creates.
    pub(super) fn sync_new_parts(&self) -> Result<(), StoreError> {
        let mut left = vec![self.root.clone()];
        while let Some(directory) = left.pop() {
            let failed = StoreError::io("list", &directory);
            left.extend(subdirectories(&directory).map_err(failed)?);
            sync_directory(&directory).map_err(StoreError::io("sync", &directory))?;
        }
        Ok(())
    }

    /// Returns the directory with the records of damaged blocks.
    pub(super) fn damage(&self) -> PathBuf {
        self.root.join(DAMAGE_DIRECTORY)
    }

    /// Returns the directory with the links of checkpoints.
    pub(super) fn checkpoints(&self) -> PathBuf {
        self.root.join(CHECKPOINTS_DIRECTORY)
    }

    /// Returns the directory with links to an older list of tables, while it is read.
    pub(super) fn older_list(&self) -> PathBuf {
        self.root.join(OLDER_LIST_DIRECTORY)
    }

    /// Returns the directory with the journals that are kept for a continuous backup.
    pub(super) fn kept_journals(&self) -> PathBuf {
        self.root.join(KEPT_JOURNALS_DIRECTORY)
    }

    /// Gives up the journals that are kept for a continuous backup.
    pub(super) fn remove_kept_journals(&self) -> Result<(), StoreError> {
        let folder = self.kept_journals();
        ignore_missing(std::fs::remove_dir_all(&folder)).map_err(StoreError::io("remove", &folder))
    }

    /// Returns the id of the directory. Gives it one, durably, if it has none yet.
    ///
    /// # Errors
    /// When the format file cannot be written.
    pub(super) fn id(&self) -> Result<String, StoreError> {
        let mut known = sync::lock(&self.id);
        if let Some(id) = &*known {
            return Ok(id.clone());
        }
        let id = new_id();
        self.write_format(self.stage, Some(&id))?;
        *known = Some(id.clone());
        Ok(id)
    }

    /// Removes the remains of a creation that did not finish.
    pub(super) fn remove_unfinished(&self) -> Result<(), StoreError> {
        let (store, mark) = (self.store(), self.high_water());
        ignore_missing(std::fs::remove_dir_all(&store))
            .map_err(StoreError::io("remove", &store))?;
        ignore_missing(std::fs::remove_file(&mark)).map_err(StoreError::io("remove", &mark))
    }

    /// Records that the directory is complete.
    pub(super) fn mark_ready(&mut self) -> Result<(), StoreError> {
        let id = self.id()?;
        self.write_format(Stage::Ready, Some(&id))?;
        self.stage = Stage::Ready;
        Ok(())
    }

    /// Refuses a finished directory that lost a part which fjall would replace by an empty part.
    pub(super) fn check_parts(&self) -> Result<(), StoreError> {
        let store = self.store();
        let parts = [
            (store.clone(), "the directory with all tables and journals"),
            (store.join("version"), "the version mark of the tables"),
            (
                store.join("keyspaces/0/current"),
                "the pointer to the list of keyspaces",
            ),
            (
                store.join("keyspaces/1/current"),
                "the pointer to the tables of rows",
            ),
            (
                store.join("keyspaces/2/current"),
                "the pointer to the tables of index entries",
            ),
        ];
        for (path, description) in parts {
            let exists = path
                .try_exists()
                .map_err(StoreError::io("look for", &path))?;
            if !exists {
                let detail = format!("{description} is missing. {RESTORE_ADVICE}");
                return Err(StoreError::damaged(&path, detail));
            }
        }
        // fjall starts an empty journal when it finds none, and acknowledged commits would be gone.
        if journals(&store)?.is_empty() {
            let detail = format!("no journal file (*.jnl) is left in it. {RESTORE_ADVICE}");
            return Err(StoreError::damaged(&store, detail));
        }
        Ok(())
    }

    /// Replaces the format file, atomically and durably.
    fn write_format(&self, stage: Stage, id: Option<&str>) -> Result<(), StoreError> {
        let path = self.root.join(FORMAT_FILE);
        let draft = self.root.join(FORMAT_DRAFT);
        let text = format_text(stage, id);
        let write = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true);
            let mut file = owner_only(&mut options).open(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            sync_directory(&self.root)
        };
        write().map_err(StoreError::io("write", &path))
    }
}

/// Returns the text of a format file.
pub(super) fn format_text(stage: Stage, id: Option<&str>) -> String {
    let word = match stage {
        Stage::Creating => "creating",
        Stage::Ready => "ready",
    };
    let id = id.map_or(String::new(), |id| format!("id: {id}\n"));
    format!("{PREFACE}\nformat: {FORMAT}\nstage: {word}\n{id}")
}

/// Returns a random id, which ends with its own checksum. The standard library takes random keys
/// from the system for its hashers.
fn new_id() -> String {
    let mut bytes = Vec::with_capacity(ID_BYTES);
    while bytes.len() < ID_BYTES {
        let hash = RandomState::new().hash_one(bytes.len());
        bytes.extend_from_slice(&hash.to_le_bytes());
    }
    bytes.truncate(ID_BYTES - 4);
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_be_bytes());
    hex::encode(&bytes)
}

/// Returns the fault of the format file of a directory that is ready, if it is not as written.
pub(super) fn format_fault(root: &Path) -> Option<(PathBuf, String)> {
    let path = root.join(FORMAT_FILE);
    let text = match std::fs::read(&path) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => return Some((path, error.to_string())),
    };
    let id = field(&text, "id:");
    let has_checksum = |id: &str| {
        let bytes = hex::decode(id).unwrap_or_default();
        let Some((random, checksum)) = bytes.split_last_chunk::<4>() else {
            return false;
        };
        crc32fast::hash(random).to_be_bytes() == *checksum
    };
    let is_as_written = text == format_text(Stage::Ready, id) && id.is_none_or(has_checksum);
    (!is_as_written).then(|| (path, "it is not as it was written".to_owned()))
}

/// The remedy for a damaged directory, for messages.
pub(super) const RESTORE_ADVICE: &str =
    "Put back what was moved or deleted, or restore a backup of the whole data directory";

/// Returns the journal files in order, with their numbers.
pub(super) fn journals(store: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(store).map_err(StoreError::io("list", store))? {
        let path = entry.map_err(StoreError::io("list", store))?.path();
        if path.extension().is_none_or(|extension| extension != "jnl") {
            continue;
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let Some(number) = stem.and_then(|stem| stem.parse().ok()) else {
            return Err(StoreError::damaged(
                &path,
                "a journal's name must be a number",
            ));
        };
        found.push((number, path));
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns true if the directory holds a store whose creation finished.
pub(super) fn is_ready(root: &Path) -> Result<bool, StoreError> {
    let path = root.join(FORMAT_FILE);
    let exists = path
        .try_exists()
        .map_err(StoreError::io("look for", &path))?;
    Ok(exists && read_format(&path)?.0 == Stage::Ready)
}

/// Lets a file that `options` creates be readable and writable by its owner only, on Unix.
pub(super) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Creates a directory that only its owner may enter, with its missing ancestors, durably.
pub(super) fn create_directory(path: &Path) -> std::io::Result<()> {
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        if ancestor.as_os_str().is_empty() || ancestor.try_exists()? {
            break;
        }
        missing.push(ancestor);
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    for directory in missing {
        match directory.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent)?,
            _ => sync_directory(Path::new("."))?,
        }
    }
    Ok(())
}

/// Returns the directories in a directory.
fn subdirectories(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
thread_local! {
    /// The directories that this thread has synced, for tests.
    static SYNCED: std::cell::RefCell<Vec<PathBuf>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(path: &Path) -> std::io::Result<()> {
    #[cfg(test)]
    SYNCED.with_borrow_mut(|synced| synced.push(path.to_owned()));
    if cfg!(windows) {
        Ok(())
    } else {
        File::open(path)?.sync_all()
    }
}

/// Takes a missing file for a success.
pub(super) fn ignore_missing(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Refuses a directory without a format file that holds anything but the remains of a creation.
fn refuse_foreign(root: &Path) -> Result<(), StoreError> {
    for entry in std::fs::read_dir(root).map_err(StoreError::io("list", root))? {
        let name = entry.map_err(StoreError::io("list", root))?.file_name();
        if name == STORE_DIRECTORY || name == HIGH_WATER_FILE {
            let file = root.join(FORMAT_FILE);
            return Err(StoreError::damaged(
                &file,
                format!("it is missing, and data is beside it. {RESTORE_ADVICE}"),
            ));
        }
        // A creation that was interrupted before the format file had its name leaves these two.
        let is_own_file = name == LOCK_FILE || name == FORMAT_DRAFT;
        if !is_own_file {
            let found = name.to_string_lossy().into_owned();
            return Err(StoreError::Foreign {
                directory: root.to_owned(),
                found,
            });
        }
    }
    Ok(())
}

/// Locks the lock file and writes the id of this process into it.
fn lock(root: &Path) -> Result<DirectoryLock, StoreError> {
    let path = root.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let open = owner_only(&mut options).open(&path);
    let mut file = open.map_err(StoreError::io("open the lock file", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(StoreError::Locked {
                directory: root.to_owned(),
                holder: read_process_id(&mut file),
            });
        }
        Err(TryLockError::Error(source)) => {
            return Err(StoreError::Io {
                doing: "lock",
                path,
                source,
            });
        }
    }
    // The id only improves the message of a later refusal; the lock itself is the system's. A full
    // disk must not keep the store from being opened.
    let mut write_process_id = || {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    let _ = write_process_id();
    Ok(DirectoryLock(file))
}

/// Reads the process id that the holder of the lock file wrote; `None` if it is not readable.
fn read_process_id(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Reads the stage and the id in the format file, and refuses another format than this program's.
fn read_format(path: &Path) -> Result<(Stage, Option<String>), StoreError> {
    let bytes = std::fs::read(path).map_err(StoreError::io("read", path))?;
    let text = String::from_utf8_lossy(&bytes);
    let Some(format) = field(&text, "format:") else {
        let detail = format!("it has no line \"format:\". {RESTORE_ADVICE}");
        return Err(StoreError::damaged(path, detail));
    };
    if format != FORMAT.to_string() {
        return Err(StoreError::UnknownFormat {
            file: path.to_owned(),
            found: format.to_owned(),
            known: FORMAT,
        });
    }
    let unreadable = |line: &str| {
        let detail = format!("its line \"{line}\" is missing or unreadable. {RESTORE_ADVICE}");
        StoreError::damaged(path, detail)
    };
    let stage = match field(&text, "stage:") {
        Some("creating") => Stage::Creating,
        Some("ready") => Stage::Ready,
        _ => return Err(unreadable("stage:")),
    };
    // Earlier versions of this format wrote no id.
    let id = field(&text, "id:").map(str::to_owned);
    if let Some(id) = &id
        && hex::decode(id).is_none_or(|bytes| bytes.len() != ID_BYTES)
    {
        return Err(unreadable("id:"));
    }
    Ok((stage, id))
}

/// Returns the rest of the first line that begins with `name`, without surrounding spaces.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalOptions, LocalStore};

    #[test]
    fn a_copy_of_the_open_lock_file_does_not_keep_the_directory_locked() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        // As in a process that another thread starts, until its program begins.
        let copy = held.0.try_clone().unwrap();
        let refused = lock(dir.path()).err();
        assert!(matches!(refused, Some(StoreError::Locked { .. })));
        drop(held);
        assert!(lock(dir.path()).is_ok());
        drop(copy);
    }

    #[test]
    fn every_new_directory_and_its_parent_are_synced_before_the_store_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new/deeper");
        SYNCED.with_borrow_mut(Vec::clear);
        let _store = LocalStore::open(&root, LocalOptions::default()).unwrap();
        let synced = SYNCED.with_borrow(Vec::clone);
        let store = root.join("store");
        let mut expected = vec![dir.path().to_owned(), dir.path().join("new"), root];
        expected.extend([store.join("keyspaces"), store.clone()]);
        for keyspace in 0..3 {
            let keyspace = store.join(format!("keyspaces/{keyspace}"));
            expected.extend([keyspace.join("tables"), keyspace]);
        }
        for directory in expected {
            assert!(synced.contains(&directory), "{}", directory.display());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_new_directory_and_the_files_of_the_store_itself_belong_to_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        let _store = LocalStore::open(&root, LocalOptions::default()).unwrap();
        for (path, mode) in [
            (root.clone(), 0o700),
            (root.join(FORMAT_FILE), 0o600),
            (root.join(LOCK_FILE), 0o600),
            (root.join(HIGH_WATER_FILE), 0o600),
        ] {
            let found = path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(found, mode, "{}", path.display());
        }
    }
}
