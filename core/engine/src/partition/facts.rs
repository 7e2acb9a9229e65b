//! Facts of a partition that the planning of every query asks for, kept for the newest commit.
//!
//! A query over many partitions returns few rows of each, so planning would spend most of its time
//! on reading these rows again. A commit has one state, so its facts hold for every snapshot with
//! the same head; the first query after a commit reads the facts anew.
//!
//! Left out: everything that depends on the items of a query.

use super::Partition;
use super::counts::Counters;
use super::keys::PathNumber;
use super::visibility::{KeyDeletions, key_deletions};
use crate::index::generations::PolicyGenerations;
use orrery_model::Result;
use orrery_model::sync::lock;
use orrery_storage::{Head, Snapshot};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// The facts of a partition at one commit. Each is read once, when it is first asked for.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    head: Head,
    counters: OnceLock<Counters>,
    generations: OnceLock<PolicyGenerations>,
    deletions: OnceLock<Arc<KeyDeletions>>,
    /// Entries of the paths that were asked for.
    entries: Mutex<HashMap<PathNumber, u64>>,
}

impl Facts {
    /// Returns the counters.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub(crate) fn counters(&self, snapshot: &dyn Snapshot) -> Result<Counters> {
        read_once(&self.counters, || Partition::counters(snapshot)).copied()
    }

    /// Returns the policy generations of the items.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub(crate) fn generations(&self, snapshot: &dyn Snapshot) -> Result<&PolicyGenerations> {
        read_once(&self.generations, || Partition::generations(snapshot))
    }

    /// Returns the logical partitions that are being deleted.
    ///
    /// # Errors
    /// 500 if the store cannot be read or a row is damaged.
    pub(crate) fn deletions(&self, snapshot: &dyn Snapshot) -> Result<&Arc<KeyDeletions>> {
        read_once(&self.deletions, || key_deletions(snapshot).map(Arc::new))
    }

    /// Returns the number of index entries of a path.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn entries_of(&self, snapshot: &dyn Snapshot, path: PathNumber) -> Result<u64> {
        if let Some(entries) = lock(&self.entries).get(&path) {
            return Ok(*entries);
        }
        let entries = Partition::entries_of(snapshot, path)?;
        lock(&self.entries).insert(path, entries);
        Ok(entries)
    }
}

/// Returns the value of a cell, which is read if it is empty.
fn read_once<T>(cell: &OnceLock<T>, read: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let value = read()?;
    // Another thread may have read the same value meanwhile.
    Ok(cell.get_or_init(|| value))
}

impl Partition {
    /// Returns the facts of the commit that a snapshot shows.
    pub(crate) fn facts(&self, snapshot: &dyn Snapshot) -> Arc<Facts> {
        let head = snapshot.head();
        let mut kept = lock(&self.facts);
        match &*kept {
            Some(facts) if facts.head == head => Arc::clone(facts),
            _ => {
                let facts = Arc::new(Facts {
                    head,
                    ..Facts::default()
                });
                *kept = Some(Arc::clone(&facts));
                facts
            }
        }
    }
}
