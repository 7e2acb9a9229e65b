//! A store in memory: for tests, for `--memory`, and as the plain reading of the trait.
//!
//! Each partition is a persistent red-black tree: a snapshot is a clone of its root, so it costs nothing to take and never
//! changes. Commits are "durable" at once, that is, as durable as memory is. One lock for all partitions: this engine is
//! for being right, not for being fast on many cores.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rpds::RedBlackTreeMapSync;

use crate::error::StoreError;
use crate::owners::{Owners, check_partition};
use crate::receipt::Receipt;
use crate::store::{
    Bytes, Capabilities, Commit, CommitOutcome, Direction, Head, KeyRange, Lease, PartitionId,
    Rows, Snapshot, Store, is_empty_range,
};

type Map = RedBlackTreeMapSync<Bytes, Bytes>;

/// The memory engine.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    owners: Owners,
    maps: HashMap<PartitionId, Map>,
    bytes: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Who owns what, for an engine that keeps its durable image here.
    pub(crate) fn owners(&self) -> Owners {
        self.state().owners.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held cannot leave half a commit: the new map is put in place as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        check_partition(partition)?;
        Ok(self.state().owners.raise(partition))
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let fits = self.limits().admit(&commit);
        let state = &mut *self.state();
        if let Err(refusal) = state
            .owners
            .accept(lease, commit.expect_lsn, commit.new_head(), fits)
        {
            return Receipt::ready(refusal);
        }
        let old = state
            .maps
            .get(&lease.partition())
            .cloned()
            .unwrap_or_default();
        let (new, grown, shrunk) = apply(old, commit);
        state.maps.insert(lease.partition(), new);
        state.bytes = (state.bytes + grown).saturating_sub(shrunk);
        Receipt::ready(CommitOutcome::Ok)
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        check_partition(partition)?;
        let state = self.state();
        let map = state.maps.get(&partition).cloned().unwrap_or_default();
        Ok(Box::new(MemorySnapshot {
            map,
            head: state.owners.head(partition),
        }))
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        check_partition(partition)?;
        let mut state = self.state();
        state.owners.forget(partition);
        if let Some(map) = state.maps.remove(&partition) {
            state.bytes = state
                .bytes
                .saturating_sub(map.iter().map(|(key, value)| weight(key, value)).sum());
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

/// The map after the commit, and the bytes that came and went.
fn apply(mut map: Map, mut commit: Commit) -> (Map, u64, u64) {
    commit.settle();
    let (mut grown, mut shrunk) = (0, 0);
    let mut doomed: Vec<Bytes> = commit.deletes.into_iter().map(Bytes::from).collect();
    for range in &commit.range_deletes {
        let bounds: KeyRange<'_> = (Bound::Included(&range.start), Bound::Excluded(&range.end));
        if !is_empty_range(&bounds) {
            doomed.extend(map.range::<[u8], _>(bounds).map(|(key, _)| key.clone()));
        }
    }
    for key in doomed {
        if let Some(value) = map.get(&key) {
            shrunk += weight(&key, value);
            map.remove_mut(&key);
        }
    }
    for (key, value) in commit.puts {
        let (key, value) = (Bytes::from(key), Bytes::from(value));
        grown += weight(&key, &value);
        shrunk += map.get(&key).map_or(0, |old| weight(&key, old));
        map.insert_mut(key, value);
    }
    (map, grown, shrunk)
}

/// Bytes of an entry, with a round figure for the tree node around it.
fn weight(key: &Bytes, value: &Bytes) -> u64 {
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
        // The iterator outlives the borrowed bounds, so it gets its own.
        let own = |bound: Bound<&[u8]>| bound.map(Bytes::copy_from_slice);
        let rows = self.map.range::<Bytes, _>((own(range.0), own(range.1)));
        let copy = |(key, value): (&Bytes, &Bytes)| Ok((key.clone(), value.clone()));
        match direction {
            Direction::Forward => Box::new(rows.map(copy)),
            Direction::Reverse => Box::new(rows.rev().map(copy)),
        }
    }

    fn head(&self) -> Head {
        self.head
    }
}
