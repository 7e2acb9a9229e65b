//! A store of `BTreeMap`s, the shortest program that keeps the promises of `orrery_storage::store`.
//!
//! Each partition is a map behind an `Arc`. A snapshot clones the `Arc`; a commit changes the map
//! in place if no snapshot holds it, and copies it otherwise. One lock guards everything, so a
//! commit and the comparison with the head are one step.
//!
//! `core/storage/tests/contract.rs` runs the contract on this store.
//! Leaves out: durability. "Durable" means "in memory" here, as for `MemoryStore`.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orrery_storage::{
    Bytes, Capabilities, Commit, CommitOutcome, Direction, Head, KeyRange, Lease, PartitionId,
    Receipt, Rows, Snapshot, Store, StoreError,
};

type Map = BTreeMap<Bytes, Bytes>;

/// The number that belongs to stores themselves and is refused as a partition.
const RESERVED: PartitionId = PartitionId(u64::MAX);

/// A store in memory.
#[derive(Default)]
pub(crate) struct TreeStore {
    partitions: Mutex<HashMap<PartitionId, Partition>>,
}

/// One partition. A destroyed partition keeps its epoch, so that its leases stay fenced.
#[derive(Default)]
struct Partition {
    epoch: u64,
    head: Head,
    map: Arc<Map>,
}

impl TreeStore {
    /// Creates an empty store.
    pub(crate) fn new() -> TreeStore {
        TreeStore::default()
    }

    fn partitions(&self) -> MutexGuard<'_, HashMap<PartitionId, Partition>> {
        // The changes of a commit cannot panic half-way, so a poisoned lock guards whole commits.
        self.partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for TreeStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        check(partition)?;
        let mut partitions = self.partitions();
        let state = partitions.entry(partition).or_default();
        // Promise 2: a higher epoch fences every earlier lease.
        state.epoch += 1;
        Ok(Lease::new(partition, state.epoch, state.head))
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let fits = self.limits().admit(&commit);
        let mut partitions = self.partitions();
        let Some(state) = partitions.get_mut(&lease.partition()) else {
            return Receipt::ready(CommitOutcome::Fenced);
        };
        // Promises 2 and 5: only the newest lease commits, at the head that it expects, upwards.
        let is_newest = lease.epoch() == state.epoch;
        let is_at_head = commit.expect_lsn == state.head.lsn;
        let rises = commit.new_lsn > commit.expect_lsn;
        if !(is_newest && is_at_head && rises) {
            return Receipt::ready(CommitOutcome::Fenced);
        }
        // Promise 7: exactly the envelope that every store takes.
        if !fits {
            return Receipt::ready(CommitOutcome::TooLarge);
        }
        state.head = commit.new_head();
        apply(Arc::make_mut(&mut state.map), commit);
        Receipt::ready(CommitOutcome::Ok)
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        check(partition)?;
        let partitions = self.partitions();
        let (map, head) = match partitions.get(&partition) {
            Some(state) => (Arc::clone(&state.map), state.head),
            None => Default::default(),
        };
        Ok(Box::new(TreeSnapshot { map, head }))
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        check(partition)?;
        if let Some(state) = self.partitions().get_mut(&partition) {
            state.epoch += 1;
            state.head = Head::default();
            state.map = Arc::default();
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
            followers: false,
            remote: false,
        }
    }

    fn approximate_bytes(&self) -> u64 {
        let partitions = self.partitions();
        let rows = partitions.values().flat_map(|state| state.map.iter());
        rows.map(|(key, value)| (key.len() + value.len()) as u64)
            .sum()
    }
}

/// Applies a commit in the order of promise 8: range deletes, deletes, puts.
fn apply(map: &mut Map, commit: Commit) {
    for range in commit.range_deletes {
        let range = (
            Bound::Included(&range.start[..]),
            Bound::Excluded(&range.end[..]),
        );
        if is_empty(&range) {
            continue;
        }
        let keys: Vec<Bytes> = map
            .range::<[u8], _>(range)
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            map.remove(&key);
        }
    }
    for key in commit.deletes {
        map.remove(&key[..]);
    }
    for (key, value) in commit.puts {
        map.insert(key.into(), value.into());
    }
}

fn check(partition: PartitionId) -> Result<(), StoreError> {
    match partition {
        RESERVED => Err(StoreError::ReservedPartition(partition)),
        _ => Ok(()),
    }
}

/// Returns true if the range holds no key. `BTreeMap::range` panics on some of these ranges.
fn is_empty(range: &KeyRange<'_>) -> bool {
    match *range {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (
            Bound::Included(start) | Bound::Excluded(start),
            Bound::Included(end) | Bound::Excluded(end),
        ) => start >= end,
        _ => false,
    }
}

/// A partition at one moment.
struct TreeSnapshot {
    map: Arc<Map>,
    head: Head,
}

impl Snapshot for TreeSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.map.get(key).cloned())
    }

    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> Rows<'_> {
        if is_empty(&range) {
            return Box::new(std::iter::empty());
        }
        let rows = self.map.range::<[u8], _>(range);
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
