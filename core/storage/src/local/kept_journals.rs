//! Links to the journals, so that they outlive their removal by fjall until a continuous backup has
//! copied them.
//!
//! ```text
//! kept-journals/N.jnl   a second name of store/N.jnl, or its only one once fjall has removed it
//! kept-journals/BEGAN   the last group before journals were kept, as a decimal number
//! ```
//!
//! fjall numbers its journals without a gap. A thread of fjall begins the next one at any moment,
//! also between two batches of a group, and removes an old one after its memtables are flushed. So
//! the leader tries to link the next number after each group: the journal that has the end of the
//! group is there then.
//!
//! The leader also writes the second of the clock into the journals, with the first group of each
//! second ([`SECOND_KEY`]), so that a log can be cut at a second. A clock that is set back by a
//! second leaves the last second; one that is set back further ends the log, and another one begins
//! with the earlier second.
//!
//! Left out: a link that failed. Its journal is missing then, which the reader of the log finds.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use orrery_model::sync;

use super::checkpoint::is_same_file;
use super::directory::{create_directory, ignore_missing, journals, sync_directory};
use crate::error::StoreError;

/// Key of the record of the second in which a group was written: the reserved partition and a tag.
/// The value is a u64, little-endian. In the keyspace of rows.
pub(super) const SECOND_KEY: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x06";

/// The name of the file with the last group before journals were kept. Without it, journals are
/// kept from the present group on.
const BEGAN_FILE: &str = "BEGAN";

/// Seconds by which the clock may be set back without an end of the log.
const CLOCK_SLACK: u64 = 1;

/// The clock of a log: seconds since 1970.
pub type LogClock = fn() -> u64;

/// The keeping of journals for a continuous backup.
#[derive(Clone, Copy, Debug, Default)]
pub enum LogKeeping {
    /// No journals are kept, and those that were kept are given up: a log has a gap then.
    #[default]
    Off,
    /// All journals are kept from now on.
    On(LogClock),
    /// Journals are kept if the last process that had the store open kept them.
    AsBefore(LogClock),
}

impl LogKeeping {
    /// Returns the clock if journals are kept in a folder.
    pub(super) fn clock(self, folder: &Path) -> Result<Option<LogClock>, StoreError> {
        Ok(match self {
            LogKeeping::Off => None,
            LogKeeping::On(clock) => Some(clock),
            LogKeeping::AsBefore(clock) => {
                let exists = folder.try_exists();
                let exists = exists.map_err(StoreError::io("look for", folder))?;
                exists.then_some(clock)
            }
        })
    }
}

/// The journals that are kept.
pub(super) struct KeptJournals {
    folder: PathBuf,
    store: PathBuf,
    clock: LogClock,
    state: Mutex<State>,
}

struct State {
    /// The number of the journal that fjall begins next, as far as it is known.
    next: u64,
    /// The second that the log has last.
    second: u64,
    /// The last group before the log: earlier groups may have no seconds, or later ones.
    began: u64,
}

impl KeptJournals {
    /// Links all journals that exist. `group` is the last group of the store, and `second` the last
    /// second that it has a record of.
    ///
    /// # Errors
    /// When the file system cannot link them.
    pub(super) fn open(
        folder: PathBuf,
        store: PathBuf,
        clock: LogClock,
        group: u64,
        second: u64,
    ) -> Result<KeptJournals, StoreError> {
        create_directory(&folder).map_err(StoreError::io("create", &folder))?;
        let began_file = folder.join(BEGAN_FILE);
        let noted = match std::fs::read_to_string(&began_file) {
            Ok(text) => text.trim().parse().ok(),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::io("read", &began_file)(error)),
        };
        if noted.is_none() {
            let written = write_began(&folder, group);
            written.map_err(StoreError::io("write", &began_file))?;
        }
        let state = State {
            next: 0,
            second,
            began: noted.unwrap_or(group),
        };
        let kept = KeptJournals {
            folder,
            store,
            clock,
            state: Mutex::new(state),
        };
        kept.link_all()?;
        Ok(kept)
    }

    /// Links all journals that exist and are not linked: also those that took the place of another
    /// file of the same name, as after a failed group was cut out.
    ///
    /// # Errors
    /// When the file system cannot link them.
    pub(super) fn link_all(&self) -> Result<(), StoreError> {
        let mut state = sync::lock(&self.state);
        for (number, path) in journals(&self.store)? {
            match replace_link(&path, &self.path(number)) {
                // fjall has removed the journal meanwhile, and needs it no more.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => other.map_err(StoreError::io("keep the journal", &path))?,
            }
            state.next = number + 1;
        }
        // What a store of before kept under numbers that do not exist yet is of no use.
        for (number, path) in self.all()? {
            if number >= state.next {
                std::fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
            }
        }
        sync_directory(&self.folder).map_err(StoreError::io("sync", &self.folder))
    }

    /// Links the next journal if fjall has begun it. Called by the leader after each group.
    pub(super) fn link_next(&self) {
        let mut state = sync::lock(&self.state);
        loop {
            let name = format!("{}.jnl", state.next);
            match std::fs::hard_link(self.store.join(&name), self.folder.join(&name)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == ErrorKind::NotFound => return,
                Err(error) => log::warn!("cannot keep the journal {name} for a backup: {error}"),
            }
            state.next += 1;
        }
    }

    /// Returns the second of the group that is being written behind `last_group`, if it is another
    /// one than the last.
    pub(super) fn new_second(&self, last_group: u64) -> Option<u64> {
        let second = (self.clock)();
        let mut state = sync::lock(&self.state);
        if second + CLOCK_SLACK >= state.second {
            return (second > state.second).then_some(second);
        }
        // A log that ends with the last group does not go on either.
        state.began = last_group + 1;
        if let Err(error) = write_began(&self.folder, state.began) {
            log::warn!("cannot note in {}: {error}", self.folder.display());
        }
        Some(second)
    }

    /// Records that the log has a second durably.
    pub(super) fn set_second(&self, second: u64) {
        sync::lock(&self.state).second = second;
    }

    /// Returns the last group before the log.
    pub(super) fn began(&self) -> u64 {
        sync::lock(&self.state).began
    }

    /// Returns the last second that the log has.
    pub(super) fn second(&self) -> u64 {
        sync::lock(&self.state).second
    }

    /// Returns the place of a journal, which need not exist.
    pub(super) fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number}.jnl"))
    }

    /// Returns the journals that are kept, in order.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub(super) fn all(&self) -> Result<Vec<(u64, PathBuf)>, StoreError> {
        let mut found = Vec::new();
        let failed = || StoreError::io("list", &self.folder);
        for entry in std::fs::read_dir(&self.folder).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let number = stem.and_then(|stem| stem.parse().ok());
            // Any other file is not ours.
            if let Some(number) = number.filter(|number| path == self.path(*number)) {
                found.push((number, path));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Gives up the journals before a number. Returns the bytes of those that have no other name.
    ///
    /// # Errors
    /// When a file cannot be removed or looked at.
    pub(super) fn release(&self, before: u64) -> Result<u64, StoreError> {
        let in_store: BTreeMap<u64, PathBuf> = journals(&self.store)?.into_iter().collect();
        let mut bytes = 0;
        for (number, path) in self.all()? {
            if number < before {
                std::fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
            } else if !in_store.contains_key(&number) {
                let metadata = path.metadata().map_err(StoreError::io("read", &path))?;
                bytes += metadata.len();
            }
        }
        Ok(bytes)
    }
}

/// Notes the last group before a log.
fn write_began(folder: &Path, group: u64) -> std::io::Result<()> {
    let draft = folder.join(format!("{BEGAN_FILE}.new"));
    std::fs::write(&draft, format!("{group}\n"))?;
    std::fs::rename(&draft, folder.join(BEGAN_FILE))
}

/// Gives a file a second name, in the place of another file that has this name.
fn replace_link(path: &Path, link: &Path) -> std::io::Result<()> {
    // Systems without numbers of files are treated as if each link were another file.
    if cfg!(unix) && is_same_file(link, path)? {
        return Ok(());
    }
    let draft = link.with_extension("new");
    ignore_missing(std::fs::remove_file(&draft))?;
    std::fs::hard_link(path, &draft)?;
    std::fs::rename(&draft, link)
}
