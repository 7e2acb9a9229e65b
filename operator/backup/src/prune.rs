//! The removal of old backups from a repository.
//!
//! Manifests are removed first, durably, then the objects that no manifest names. A process that is
//! killed in between leaves objects that the next run removes.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::BackupError;
use crate::log::is_continuous;
use crate::manifest::Manifest;
use crate::repository::Repository;

/// The backups to keep: those that one of the rules keeps, and the newest one in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The number of newest backups to keep.
    pub keep_last: usize,
    /// The age, in milliseconds, up to which backups are kept; 0 for no such rule.
    pub keep_within_ms: u64,
    /// The present moment, in milliseconds since 1970.
    pub now_ms: u64,
}

impl Retention {
    /// Returns true if the rules keep a backup of the moment `moment_ms` with `newer` newer ones.
    /// The newest backup is kept whatever the rules say.
    pub fn keeps(&self, moment_ms: u64, newer: usize) -> bool {
        let age_ms = self.now_ms.saturating_sub(moment_ms);
        newer < self.keep_last.max(1) || age_ms < self.keep_within_ms
    }
}

/// The backups and objects that were removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The ids of the backups that are left, the oldest first.
    pub kept: Vec<String>,
    /// The ids of the removed backups, the oldest first.
    pub removed: Vec<String>,
    /// The number of removed objects.
    pub objects: u64,
    /// The bytes of the removed objects.
    pub bytes: u64,
}

/// Removes old backups, the contents that no backup needs, and temporary files of interrupted runs.
///
/// # Errors
/// See [`BackupError`]. Nothing is removed if a manifest cannot be read, since its objects are not
/// known.
pub fn prune(repository: &Path, retention: &Retention) -> Result<Pruned, BackupError> {
    let repository = Repository::open(repository)?;
    prune_where(&repository, |backup, newer| {
        // The bases of a continuous backup have a retention of their own.
        !retention.keeps(backup.moment_ms, newer) && !is_continuous(backup)
    })
}

/// Removes the backups for which `is_old` returns true, and the contents that no backup needs.
/// `is_old` gets a backup and the number of newer ones.
///
/// # Errors
/// As [`prune`].
pub(crate) fn prune_where(
    repository: &Repository,
    is_old: impl Fn(&Manifest, usize) -> bool,
) -> Result<Pruned, BackupError> {
    let lock = repository.lock()?;
    let mut listing = repository.list()?;
    if let Some(unreadable) = listing.unreadable.pop() {
        return Err(unreadable.error);
    }
    let mut pruned = Pruned::default();
    let mut needed = BTreeSet::new();
    let count = listing.backups.len();
    for (place, backup) in listing.backups.into_iter().enumerate() {
        if is_old(&backup, count - place - 1) {
            pruned.removed.push(backup.id);
        } else {
            needed.extend(backup.files.into_iter().map(|file| file.sha256));
            pruned.kept.push(backup.id);
        }
    }
    // From here on no manifest names the objects that are removed afterwards.
    for id in &pruned.removed {
        lock.check()?;
        repository.remove_manifest(id)?;
    }
    (pruned.objects, pruned.bytes) = repository.remove_objects(&needed, &*lock)?;
    Ok(pruned)
}
