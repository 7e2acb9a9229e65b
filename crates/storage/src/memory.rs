//! A store in memory: for tests, for `--memory`, and as the plainest implementation of the trait.
//!
//! Each partition is a persistent red-black tree. A snapshot is a clone of the tree's root, so it
//! costs nothing to take and never changes. Commits count as durable at once, although they are
//! lost with the process. One lock covers all partitions: this engine is built to be correct, not
//! to be fast on many cores.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use orrery_model::sync;
use rpds::RedBlackTreeMapSync;

use crate::commit::{Commit, CommitOutcome, Head, PartitionId};
use crate::error::StoreError;
use crate::ownership::{OwnershipTable, check_partition};
use crate::receipt::Receipt;
use crate::store::{
    Bytes, Capabilities, Direction, KeyRange, Lease, Rows, Snapshot, Store, is_empty_range,
};

type Map = RedBlackTreeMapSync<Bytes, Bytes>;

/// The memory engine.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ownership: OwnershipTable,
    maps: HashMap<PartitionId, Map>,
    bytes: u64,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Returns a copy of the ownership table, for an engine that keeps its durable image here.
    pub(crate) fn ownership(&self) -> OwnershipTable {
        self.state().ownership.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held cannot leave half a commit: the new map replaces the old
        // one as a whole.
        sync::lock(&self.state)
    }
}

impl Store for MemoryStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        check_partition(partition)?;
        Ok(self.state().ownership.raise_epoch(partition))
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let within_limits = self.limits().admit(&commit);
        let (expect_lsn, new_head) = (commit.expect_lsn, commit.new_head());
        let state = &mut *self.state();
        let accepted = state
            .ownership
            .accept(lease, expect_lsn, new_head, within_limits);
        if let Err(refusal) = accepted {
            return Receipt::ready(refusal);
        }
        let old = state.maps.get(&lease.partition()).cloned();
        let (new, bytes_added, bytes_removed) = apply(old.unwrap_or_default(), commit);
        state.maps.insert(lease.partition(), new);
        state.bytes = (state.bytes + bytes_added).saturating_sub(bytes_removed);
        Receipt::ready(CommitOutcome::Ok)
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        check_partition(partition)?;
        let state = self.state();
        let map = state.maps.get(&partition).cloned().unwrap_or_default();
        Ok(Box::new(MemorySnapshot {
            map,
            head: state.ownership.head(partition),
        }))
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        check_partition(partition)?;
        let mut state = self.state();
        state.ownership.remove(partition);
        if let Some(map) = state.maps.remove(&partition) {
            let freed: u64 = map.iter().map(|(key, value)| entry_bytes(key, value)).sum();
            state.bytes = state.bytes.saturating_sub(freed);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: false,
            long_snapshots: true,
            watch: false,
            followers: false,
        }
    }

    fn approximate_bytes(&self) -> u64 {
        self.state().bytes
    }
}

/// Returns the map after the commit, and the bytes of the entries that were added and removed.
fn apply(mut map: Map, mut commit: Commit) -> (Map, u64, u64) {
    commit.normalize();
    let (mut bytes_added, mut bytes_removed) = (0, 0);
    // Promise 8: range deletes and deletes take effect before puts.
    let mut deleted_keys: Vec<Bytes> = commit.deletes.into_iter().map(Bytes::from).collect();
    for range in &commit.range_deletes {
        let bounds: KeyRange<'_> = (Bound::Included(&range.start), Bound::Excluded(&range.end));
        if !is_empty_range(&bounds) {
            deleted_keys.extend(map.range::<[u8], _>(bounds).map(|(key, _)| key.clone()));
        }
    }
    for key in deleted_keys {
        if let Some(value) = map.get(&key) {
            bytes_removed += entry_bytes(&key, value);
            map.remove_mut(&key);
        }
    }
    for (key, value) in commit.puts {
        let (key, value) = (Bytes::from(key), Bytes::from(value));
        bytes_added += entry_bytes(&key, &value);
        if let Some(old) = map.get(&key) {
            bytes_removed += entry_bytes(&key, old);
        }
        map.insert_mut(key, value);
    }
    (map, bytes_added, bytes_removed)
}

/// Returns the bytes of an entry, with an estimate for the tree node around it.
fn entry_bytes(key: &Bytes, value: &Bytes) -> u64 {
    const NODE: u64 = 128;
    key.len() as u64 + value.len() as u64 + NODE
}

struct MemorySnapshot {
    map: Map,
    head: Head,
}

impl Snapshot for MemorySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.map.get(key).cloned())
    }

    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> Rows<'_> {
        if is_empty_range(&range) {
            return Box::new(std::iter::empty());
        }
        // The iterator outlives the borrowed bounds, so it gets copies of its own.
        let start = range.0.map(Bytes::copy_from_slice);
        let end = range.1.map(Bytes::copy_from_slice);
        let rows = self.map.range::<Bytes, _>((start, end));
        let rows = rows.map(|(key, value)| Ok((key.clone(), value.clone())));
        match direction {
            Direction::Forward => Box::new(rows),
            Direction::Reverse => Box::new(rows.rev()),
        }
    }

    fn head(&self) -> Head {
        self.head
    }
}
