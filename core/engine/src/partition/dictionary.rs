//! The dictionary of a partition's paths, in memory: read once, extended by commits.
//!
//! Index terms refer to paths by number, which keeps them short. The number of a path in a durable
//! commit never changes.
//!
//! Promises: the dictionary has the paths of durable and of accepted commits. A commit that is
//! refused when it is submitted takes its paths back; after a commit that fails later, the next
//! writer reads the dictionary anew, and transactions that began before are refused.

use super::{Partition, scan};
use crate::errors::{damaged, storage_failure};
use crate::index::paths::Paths;
use crate::partition::keys::{self, PathNumber};
use orrery_model::Result;
use orrery_model::sync::{read, write};
use orrery_storage::{Direction, Snapshot};
use std::sync::RwLockReadGuard;
use std::sync::atomic::Ordering;

/// The dictionary, locked for reading.
pub struct PathsRef<'a>(RwLockReadGuard<'a, Option<Paths>>);

impl std::ops::Deref for PathsRef<'_> {
    type Target = Paths;
    fn deref(&self) -> &Paths {
        self.0.as_ref().expect("loaded by Partition::paths")
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
    /// commits of this process.
    ///
    /// # Errors
    /// 500 if the store cannot be read or a row is damaged.
    pub(super) fn load_dictionary(&self, snapshot: &dyn Snapshot) -> Result<()> {
        let stored = load_paths(snapshot)?;
        let mut guard = write(&self.paths);
        let is_current = guard.as_ref().is_some_and(|paths| paths.is_same(&stored));
        if !is_current {
            // The numbers in memory may be those of a commit that never took place, and another
            // process may have given numbers. Transactions that are running may use the same
            // numbers for other paths.
            if guard.is_some() {
                self.hand_overs.fetch_add(1, Ordering::AcqRel);
            }
            *guard = Some(stored);
        }
        self.paths_until.store(u64::MAX, Ordering::Release);
        Ok(())
    }

    /// Adds the paths of a commit that is about to be submitted. The writer is locked.
    pub(super) fn add_paths(&self, rows: &[(PathNumber, Vec<u8>)]) {
        if rows.is_empty() {
            return;
        }
        if let Some(paths) = &mut *write(&self.paths) {
            for (number, row) in rows {
                paths.load(*number, row).expect("a row of this process");
            }
        }
    }

    /// Removes the paths of a commit that was refused. The writer is locked.
    pub(super) fn take_paths_back(&self, rows: &[(PathNumber, Vec<u8>)]) {
        if rows.is_empty() {
            return;
        }
        if let Some(paths) = &mut *write(&self.paths) {
            paths.take_back(rows);
        }
        // A script that runs without the lock may have looked the paths up meanwhile.
        self.hand_overs.fetch_add(1, Ordering::AcqRel);
    }

    /// Forgets the dictionary, which another process extends from now on. The next reader reads the
    /// dictionary of its snapshot.
    pub(super) fn forget_paths(&self) {
        let mut guard = write(&self.paths);
        *guard = None;
        self.paths_until.store(0, Ordering::Release);
    }

    /// Locks the dictionary to look up the paths of items that are about to be written, which the
    /// owner alone does.
    ///
    /// # Errors
    /// 410 if the partition is split or merged, 500 if the store cannot be read, 503 if another
    /// process owns the partition.
    pub(crate) fn paths_for_write(&self) -> Result<PathsRef<'_>> {
        loop {
            let guard = read(&self.paths);
            // The owner is checked after the lock: a partition that is given up has its dictionary
            // forgotten later.
            self.check_owned()?;
            if guard.is_some() {
                return Ok(PathsRef(guard));
            }
            drop(guard);
            let snapshot = self.snapshot()?;
            let stored = load_paths(snapshot.as_ref())?;
            write(&self.paths).get_or_insert(stored);
        }
    }
}

/// Reads the dictionary of a snapshot.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub(crate) fn load_paths(snapshot: &dyn Snapshot) -> Result<Paths> {
    let mut paths = Paths::default();
    for row in scan(snapshot, &keys::paths(), Direction::Forward) {
        let (key, value) = row?;
        let loaded = keys::read_path(&key).and_then(|number| paths.load(number, &value));
        loaded.ok_or_else(|| damaged("a row of the path dictionary"))?;
    }
    Ok(paths)
}
