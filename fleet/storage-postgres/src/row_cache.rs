//! Rows of partitions that this process alone writes, as of the newest durable commit.
//!
//! The cache is behind the lock of the partitions, and follows each commit before the commit is
//! answered: a row that is here is the durable one. A key without a row is kept as well. What ends
//! the knowledge of a partition raises its generation; rows of an earlier generation are not found
//! any more, and are replaced in time.

use std::hash::{Hash, Hasher};

use bytes::Bytes;
use orrery_storage::PartitionId;
use quick_cache::unsync::Cache;
use quick_cache::{Equivalent, Weighter};

use crate::batch::Batch;

/// Bytes that a row takes beside its key and its value.
const ROW_BYTES: u64 = 96;
/// Bytes of a row that is expected.
const USUAL_BYTES: u64 = 512;

#[derive(Clone, PartialEq, Eq)]
struct Key {
    partition: PartitionId,
    key: Box<[u8]>,
}

#[derive(PartialEq, Eq)]
struct KeyRef<'a> {
    partition: PartitionId,
    key: &'a [u8],
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.partition.0, self.key).hash(state);
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.partition.0, &*self.key).hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.partition == key.partition && *self.key == *key.key
    }
}

#[derive(Clone)]
struct Row {
    generation: u64,
    /// `None` for a key without a row.
    value: Option<Bytes>,
}

#[derive(Clone)]
struct Bytewise;

impl Weighter<Key, Row> for Bytewise {
    fn weight(&self, key: &Key, row: &Row) -> u64 {
        let value = row.value.as_ref().map_or(0, |value| value.len() as u64);
        ROW_BYTES + key.key.len() as u64 + value
    }
}

/// The rows of all partitions.
pub(crate) struct RowCache(Cache<Key, Row, Bytewise>);

impl RowCache {
    /// Creates a cache that takes about this many bytes.
    pub(crate) fn new(bytes: u64) -> RowCache {
        let rows = usize::try_from(bytes / USUAL_BYTES).unwrap_or(usize::MAX);
        RowCache(Cache::with_weighter(rows.max(1), bytes, Bytewise))
    }

    /// Returns the row of a key (`None` if the key has none), if it is known.
    pub(crate) fn get(
        &self,
        partition: PartitionId,
        generation: u64,
        key: &[u8],
    ) -> Option<Option<Bytes>> {
        let row = self.0.get(&KeyRef { partition, key })?;
        (row.generation == generation).then(|| row.value.clone())
    }

    /// Keeps the row of a key, as it is after the newest durable commit.
    pub(crate) fn insert(
        &mut self,
        partition: PartitionId,
        generation: u64,
        key: &[u8],
        value: Option<Bytes>,
    ) {
        let key = Key {
            partition,
            key: key.into(),
        };
        self.0.insert(key, Row { generation, value });
    }

    /// Changes the rows that are here as a commit does. Returns false if the commit empties ranges,
    /// which the cache cannot follow.
    pub(crate) fn follow(
        &mut self,
        partition: PartitionId,
        generation: u64,
        batch: &Batch,
    ) -> bool {
        if !batch.ranges().0.is_empty() {
            return false;
        }
        for (key, value) in batch.changes() {
            if self.0.contains_key(&KeyRef { partition, key }) {
                let value = value.map(Bytes::copy_from_slice);
                self.insert(partition, generation, key, value);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use orrery_storage::Commit;

    use super::*;

    const P: PartitionId = PartitionId(1);

    fn value(text: &'static str) -> Option<Bytes> {
        Some(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn rows_follow_the_commits_of_their_partition() {
        let mut cache = RowCache::new(1 << 20);
        cache.insert(P, 1, b"a", value("old"));
        cache.insert(P, 1, b"b", value("old"));
        cache.insert(P, 1, b"none", None);
        cache.insert(PartitionId(2), 1, b"a", value("other"));
        let mut batch = Batch::default();
        batch.add(Commit {
            puts: vec![
                (b"a".to_vec(), b"new".to_vec()),
                (b"none".to_vec(), b"new".to_vec()),
                (b"unknown".to_vec(), b"new".to_vec()),
            ],
            deletes: vec![b"b".to_vec()],
            ..Commit::default()
        });
        assert!(cache.follow(P, 1, &batch));
        assert_eq!(cache.get(P, 1, b"a"), Some(value("new")));
        assert_eq!(cache.get(P, 1, b"b"), Some(None));
        assert_eq!(cache.get(P, 1, b"none"), Some(value("new")));
        assert_eq!(cache.get(P, 1, b"unknown"), None);
        assert_eq!(cache.get(PartitionId(2), 1, b"a"), Some(value("other")));

        // A new generation knows nothing of the earlier one.
        assert_eq!(cache.get(P, 2, b"a"), None);

        let mut batch = Batch::default();
        batch.add(Commit {
            range_deletes: vec![b"a".to_vec()..b"b".to_vec()],
            ..Commit::default()
        });
        assert!(!cache.follow(P, 1, &batch));
    }

    #[test]
    fn the_size_is_bounded_and_may_be_nothing() {
        let mut cache = RowCache::new(10_000);
        for n in 0..1_000_u64 {
            cache.insert(P, 1, &n.to_be_bytes(), Some(vec![7; 100].into()));
        }
        let known = |n: &u64| cache.get(P, 1, &n.to_be_bytes()).is_some();
        let count = (0..1_000).filter(known).count();
        assert!((20..60).contains(&count), "{count} rows in 10,000 bytes");

        let mut cache = RowCache::new(0);
        cache.insert(P, 1, b"a", value("b"));
        assert_eq!(cache.get(P, 1, b"a"), None);
    }
}
