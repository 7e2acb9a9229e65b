//! Visibility: the stored items of a partition that clients may see.
//!
//! Rows outlive their visibility: an expired item waits for its removal, and so do the items of a
//! deleted logical partition. Queries see only items that are indexed, if the container has an
//! index, so that their rows do not depend on the access path; reads and feeds see the others too.
//! Readers of many items build a [`Visibility`] for a snapshot; readers
//! of one item use [`is_deleted_by_key`].

use crate::container::settings::Settings;
use crate::errors::damaged;
use crate::index::policy::Policy;
use crate::partition::key_deletion::{KeyDeletion, ROW, hides};
use crate::partition::keys;
use crate::partition::row::Row;
use crate::partition::scan;
use crate::partition::stamps::Moment;
use orrery_model::Result;
use orrery_model::partition_key::{Definition, Epk};
use orrery_storage::{Direction, Snapshot};
use std::collections::HashMap;
use std::sync::Arc;

/// Logical partitions that are being deleted, by EPK.
pub(crate) type KeyDeletions = HashMap<Epk, Vec<KeyDeletion>>;

/// Returns the logical partitions that are being deleted in a snapshot.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub(crate) fn key_deletions(snapshot: &dyn Snapshot) -> Result<KeyDeletions> {
    let mut deleted = HashMap::new();
    for entry in scan(snapshot, &keys::key_deletions(), Direction::Forward) {
        let (key, value) = entry?;
        let found = keys::read_key_deletion(&key).zip(KeyDeletion::decode(&value));
        let (epk, deletions) = found.ok_or_else(|| damaged(ROW))?;
        deleted.insert(epk, deletions);
    }
    Ok(deleted)
}

/// The visibility of the items of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visibility {
    moment: Moment,
    /// The settings of the container; `None` for a visibility that is not of a container.
    settings: Option<Arc<Settings>>,
    deleted: Arc<KeyDeletions>,
    /// The policy whose index decides which items are seen; `None` if items that are not indexed
    /// are seen too.
    policy: Option<Arc<Policy>>,
    /// True if some stored item may be hidden because `policy` does not index the item.
    may_hide_unindexed: bool,
}

impl Visibility {
    /// Returns the visibility at a moment in a container with these settings.
    ///
    /// # Errors
    /// 500 if the store cannot be read or a row is damaged.
    pub(crate) fn of(
        snapshot: &dyn Snapshot,
        moment: Moment,
        settings: &Arc<Settings>,
    ) -> Result<Self> {
        let deleted = Arc::new(key_deletions(snapshot)?);
        Ok(Visibility::with(deleted, moment, settings))
    }

    /// Returns the visibility as [`Visibility::of`] does, if the deletions are known.
    pub(crate) fn with(
        deleted: Arc<KeyDeletions>,
        moment: Moment,
        settings: &Arc<Settings>,
    ) -> Self {
        Visibility {
            moment,
            settings: Some(Arc::clone(settings)),
            deleted,
            policy: None,
            may_hide_unindexed: false,
        }
    }

    /// Hides the items that a policy does not index. `is_certain` is true if there is no such item.
    pub(crate) fn hide_unindexed(&mut self, policy: Arc<Policy>, is_certain: bool) {
        self.policy = Some(policy);
        self.may_hide_unindexed = !is_certain;
    }

    /// Returns true if clients may see an item.
    pub(crate) fn has(&self, row: &Row) -> bool {
        let is_live = self.moment.has(row, self.default_ttl()) && !self.is_deleted(row);
        let policy = self.policy.as_ref();
        is_live && policy.is_none_or(|policy| policy.indexes(row.indexing))
    }

    /// Returns true if clients may see every stored item, so that an index entry answers for its
    /// item.
    pub(crate) fn is_everything(&self) -> bool {
        self.default_ttl().is_none() && !self.has_key_deletions() && !self.may_hide_unindexed
    }

    /// Returns true if logical partitions are being deleted.
    pub(crate) fn has_key_deletions(&self) -> bool {
        !self.deleted.is_empty()
    }

    fn default_ttl(&self) -> Option<i32> {
        self.settings
            .as_ref()
            .and_then(|settings| settings.default_ttl)
    }

    fn is_deleted(&self, row: &Row) -> bool {
        if !self.has_key_deletions() {
            return false;
        }
        match (self.deleted.get(&row.epk), &self.settings) {
            (Some(deletions), Some(settings)) => hides(deletions, row, &settings.partition_key),
            _ => false,
        }
    }
}

/// Returns true if an item is hidden by the deletion of its logical partition, in a container with
/// this partition key definition. `get` reads a row.
///
/// # Errors
/// The error of `get`; 500 for a damaged row.
pub(crate) fn is_deleted_by_key(
    row: &Row,
    definition: &Definition,
    get: impl FnOnce(&[u8]) -> Result<Option<bytes::Bytes>>,
) -> Result<bool> {
    let Some(value) = get(&keys::key_deletion(&row.epk))? else {
        return Ok(false);
    };
    let deletions = KeyDeletion::decode(&value).ok_or_else(|| damaged(ROW))?;
    Ok(hides(&deletions, row, definition))
}
