//! The dictionary of a partition's paths, in memory: read once, extended by writes.
//!
//! Index terms refer to paths by number, which keeps them short. A number never changes its path.

use super::{Partition, scan};
use crate::errors::{damaged, storage_failure};
use crate::index::paths::Paths;
use crate::partition::keys;
use orrery_model::Result;
use orrery_model::sync::{read, write};
use orrery_storage::{Direction, Snapshot};
use std::sync::atomic::Ordering;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// The dictionary, locked for reading.
pub struct PathsRef<'a>(RwLockReadGuard<'a, Option<Paths>>);

impl std::ops::Deref for PathsRef<'_> {
    type Target = Paths;
    fn deref(&self) -> &Paths {
        self.0.as_ref().expect("loaded by Partition::paths")
    }
}

/// The dictionary, locked for writing.
pub struct PathsMut<'a>(RwLockWriteGuard<'a, Option<Paths>>);

impl std::ops::Deref for PathsMut<'_> {
    type Target = Paths;
    fn deref(&self) -> &Paths {
        self.0.as_ref().expect("loaded by Partition::paths_mut")
    }
}

impl std::ops::DerefMut for PathsMut<'_> {
    fn deref_mut(&mut self) -> &mut Paths {
        self.0.as_mut().expect("loaded by Partition::paths_mut")
    }
}

impl Partition {
    /// Locks the dictionary to look up paths of a snapshot.
    ///
    /// The caller's snapshot is read if the dictionary is not in memory: a second one might wait
    /// for a connection that the callers who wait for this dictionary hold. A dictionary that is
    /// not in memory has not grown in this process, so the snapshot has all of it. The dictionary
    /// of a copy, or of a partition with another owner, grows in another process, so a later
    /// snapshot may have more paths.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn paths(&self, snapshot: &dyn Snapshot) -> Result<PathsRef<'_>> {
        let lsn = snapshot.head().lsn;
        loop {
            let guard = read(&self.paths);
            if guard.is_some() && lsn <= self.paths_until.load(Ordering::Acquire) {
                return Ok(PathsRef(guard));
            }
            drop(guard);
            // The dictionary may be forgotten again before the next look.
            self.load_paths_of(snapshot)?;
        }
    }

    /// Reads the dictionary of a snapshot, if the one in memory may lack paths of the snapshot.
    fn load_paths_of(&self, snapshot: &dyn Snapshot) -> Result<()> {
        let lsn = snapshot.head().lsn;
        let mut guard = write(&self.paths);
        if lsn > self.paths_until.load(Ordering::Acquire) || guard.is_none() {
            // Numbers are given without gaps, so the next one tells if there are more.
            let is_complete = match &*guard {
                Some(paths) => {
                    let next = snapshot.get(&keys::path(paths.last() + 1));
                    next.map_err(storage_failure)?.is_none()
                }
                None => false,
            };
            if !is_complete {
                *guard = Some(load_paths(snapshot)?);
            }
            self.paths_until.fetch_max(lsn, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Reads the dictionary for a new writer. From now on the dictionary in memory grows with the
    /// writes of this process.
    ///
    /// # Errors
    /// 500 if the store cannot be read or a row is damaged.
    pub(super) fn load_dictionary(&self, snapshot: &dyn Snapshot) -> Result<()> {
        let stored = load_paths(snapshot)?;
        match &mut *write(&self.paths) {
            // Transactions that are running use the numbers in memory, so those stay. Paths that
            // the store lacks, because their commit never took place, go along with the next
            // commit.
            Some(paths) if paths.has_all_of(&stored) => paths.set_saved(&stored),
            // Another process has given numbers since a reader loaded the dictionary. Transactions
            // that are running may use the same numbers for other paths.
            Some(paths) => {
                self.hand_overs.fetch_add(1, Ordering::AcqRel);
                *paths = stored;
            }
            none => *none = Some(stored),
        }
        self.paths_until.store(u64::MAX, Ordering::Release);
        Ok(())
    }

    /// Forgets the dictionary, which another process extends from now on. The next reader reads the
    /// dictionary of its snapshot.
    pub(super) fn forget_paths(&self) {
        let mut guard = write(&self.paths);
        *guard = None;
        self.paths_until.store(0, Ordering::Release);
    }

    /// Locks the dictionary to add paths. Only the owner gives numbers to paths.
    ///
    /// # Errors
    /// 410 if the partition is split or merged, 500 if the store cannot be read, 503 if another
    /// process owns the partition.
    pub fn paths_mut(&self) -> Result<PathsMut<'_>> {
        let mut guard = write(&self.paths);
        self.check_owned()?;
        if guard.is_none() {
            *guard = Some(load_paths(self.snapshot()?.as_ref())?);
        }
        Ok(PathsMut(guard))
    }
}

/// Reads the dictionary of a snapshot.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub(super) fn load_paths(snapshot: &dyn Snapshot) -> Result<Paths> {
    let mut paths = Paths::default();
    for row in scan(snapshot, &keys::paths(), Direction::Forward) {
        let (key, value) = row?;
        let loaded = keys::read_path(&key).and_then(|number| paths.load(number, &value));
        loaded.ok_or_else(|| damaged("a row of the path dictionary"))?;
    }
    Ok(paths)
}
