//! The key spaces of a store that the catalog uses, read without an engine: for tools that copy
//! whole stores.

use super::ORPHAN;
use super::ranges::RANGE;
use super::row_sets::{current_set, key_prefix};
use super::snapshots::{live_partition, rows_of_snapshots};
use crate::errors::storage_failure;
use crate::partition::keys::CATALOG_PARTITION;
use crate::partition::{keys, scan};
use orrery_model::Result;
use orrery_storage::{Direction, PartitionId, Store};

/// Returns the partitions of a store that the catalog uses, ascending: the catalog itself, the
/// physical partitions of all containers, and their copies in snapshots. Key spaces of deleted
/// containers are left out. The store must not be written meanwhile.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub fn storage_ids(store: &dyn Store) -> Result<Vec<PartitionId>> {
    let snapshot = store.snapshot(CATALOG_PARTITION).map_err(storage_failure)?;
    let snapshot = snapshot.as_ref();
    let mut found = vec![CATALOG_PARTITION];

    // The physical partitions are in the current row set only: others are remains.
    let prefix = key_prefix(current_set(snapshot)?);
    let first = [&prefix[..], &[RANGE]].concat();
    let range = (first.clone(), keys::after(&first));
    for row in scan(snapshot, &range, Direction::Forward) {
        let (key, value) = row?;
        let live = live_partition(&key[prefix.len()..], &value)?;
        found.extend(live.map(|(storage_id, _)| storage_id));
    }

    for row in rows_of_snapshots(snapshot) {
        let (key, value) = row?;
        let live = live_partition(&key, &value)?;
        found.extend(live.map(|(storage_id, _)| storage_id));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Returns the partitions of a store that nothing uses any more, or not yet, and that are destroyed
/// at the next start at the latest.
///
/// # Errors
/// 500 if the store cannot be read.
pub(crate) fn orphans(store: &dyn Store) -> Result<Vec<PartitionId>> {
    let snapshot = store.snapshot(CATALOG_PARTITION).map_err(storage_failure)?;
    let mut orphans = Vec::new();
    for row in scan(snapshot.as_ref(), &keys::tagged(ORPHAN), Direction::Forward) {
        let (key, _) = row?;
        orphans.extend(key.get(1..).and_then(keys::number).map(PartitionId));
    }
    Ok(orphans)
}
