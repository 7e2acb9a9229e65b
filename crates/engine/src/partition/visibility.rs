//! Which of the stored items of a partition clients may see.
//!
//! Rows outlive what clients see of them: an expired item waits for its removal, and so do the items of a logical
//! partition that is being deleted. Whoever reads many items of a snapshot asks here; single reads and writes ask in
//! `Transaction`.

use crate::partition::key_deletion::KeyDeletion;
use crate::partition::keys;
use crate::partition::row::Row;
use crate::partition::scan;
use orrery_model::Result;
use orrery_model::partition_key::Epk;
use orrery_storage::{Direction, Snapshot};
use std::collections::HashMap;

/// What clients may see of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Visibility {
    now_seconds: u64,
    default_ttl: Option<i32>,
    /// Logical partitions that are being deleted, with the LSN up to which their items are.
    cleared: HashMap<Epk, u64>,
}

impl Visibility {
    /// What can be seen at this second in a container with this `defaultTtl`.
    ///
    /// # Errors
    /// What the store reports.
    pub fn of(snapshot: &dyn Snapshot, now_seconds: u64, default_ttl: Option<i32>) -> Result<Self> {
        let mut cleared = HashMap::new();
        for entry in scan(snapshot, &keys::key_deletions(), Direction::Forward) {
            let (key, value) = entry?;
            let found = keys::read_key_deletion(&key).zip(KeyDeletion::decode(&value));
            let (epk, deletion) = found.ok_or_else(KeyDeletion::damaged)?;
            cleared.insert(epk, deletion.up_to);
        }
        Ok(Visibility {
            now_seconds,
            default_ttl,
            cleared,
        })
    }

    /// Whether a client may see an item.
    pub fn has(&self, row: &Row) -> bool {
        row.is_live(self.now_seconds, self.default_ttl) && !self.clears(row)
    }

    /// Whether every item that is stored can be seen, so that an index entry is as good as its item.
    pub fn is_everything(&self) -> bool {
        self.default_ttl.is_none() && !self.has_key_deletions()
    }

    /// Whether logical partitions are being deleted.
    pub fn has_key_deletions(&self) -> bool {
        !self.cleared.is_empty()
    }

    fn clears(&self, row: &Row) -> bool {
        self.has_key_deletions()
            && self
                .cleared
                .get(&row.epk)
                .is_some_and(|up_to| row.lsn <= *up_to)
    }
}

/// Whether the deletion of its logical partition hides an item, asked of whatever reads rows.
///
/// # Errors
/// What `get` reports; 500 for a damaged row.
pub fn is_deleted_by_key(
    row: &Row,
    get: impl FnOnce(&[u8]) -> Result<Option<bytes::Bytes>>,
) -> Result<bool> {
    let Some(value) = get(&keys::key_deletion(&row.epk))? else {
        return Ok(false);
    };
    Ok(row.lsn
        <= KeyDeletion::decode(&value)
            .ok_or_else(KeyDeletion::damaged)?
            .up_to)
}
