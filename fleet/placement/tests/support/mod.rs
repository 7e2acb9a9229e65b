//! Clusters in memory that fail on demand, and the owner of a partition with a model of its rows.

use orrery_placement::{NamedCluster, Options, PlacedStore};
use orrery_storage::testing::{Failing, Fault};
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, Direction, Head, Lease, Lsn, MemoryStore, PartitionId,
    Receipt, Snapshot, Store, StoreError,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Hook = Box<dyn FnOnce() + Send>;
type Hooks = Arc<Mutex<Vec<(PartitionId, Hook)>>>;

/// No attempt is repeated, so that a failure ends the call.
pub(crate) const IMPATIENT: Options = Options {
    copy_patience: Duration::ZERO,
    short_patience: Duration::ZERO,
};

/// A cluster that fails on demand and runs a hook after a snapshot was taken.
struct Cluster {
    inner: Failing<Arc<MemoryStore>>,
    hooks: Hooks,
    /// Hooks run no hooks.
    is_in_hook: Arc<AtomicBool>,
}

impl Cluster {
    /// Returns true if a snapshot of `number` runs a hook of a partition.
    fn is_hooked(&self, partition: PartitionId, number: PartitionId) -> bool {
        let is_copy = number.0 >= 1 << 62 && number.0 < u64::MAX - 2;
        (number == partition || is_copy) && !self.is_in_hook.load(Ordering::SeqCst)
    }
}

impl Store for Cluster {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        self.inner.open(partition)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        self.inner.submit(lease, commit)
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        let snapshot = self.inner.snapshot(partition)?;
        let hook = {
            let mut hooks = self.hooks.lock().unwrap();
            match hooks.last() {
                Some((of, _)) if self.is_hooked(*of, partition) => hooks.pop(),
                _ => None,
            }
        };
        if let Some((_, hook)) = hook {
            self.is_in_hook.store(true, Ordering::SeqCst);
            hook();
            self.is_in_hook.store(false, Ordering::SeqCst);
        }
        Ok(snapshot)
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.inner.destroy(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn approximate_bytes(&self) -> u64 {
        self.inner.approximate_bytes()
    }
}

/// Several clusters, which survive the store over them.
pub(crate) struct Clusters {
    all: Vec<Arc<Cluster>>,
    pub(crate) memories: Vec<Arc<MemoryStore>>,
    hooks: Hooks,
    failures: usize,
}

impl Clusters {
    pub(crate) fn new(count: usize, fault: Fault) -> Clusters {
        let hooks = Hooks::default();
        let is_in_hook = Arc::new(AtomicBool::new(false));
        let memories: Vec<_> = (0..count).map(|_| Arc::new(MemoryStore::new())).collect();
        let all = memories.iter().map(|memory| {
            Arc::new(Cluster {
                inner: Failing::after(u64::MAX, fault, memory.clone()),
                hooks: hooks.clone(),
                is_in_hook: is_in_hook.clone(),
            })
        });
        Clusters {
            all: all.collect(),
            memories,
            hooks,
            failures: 0,
        }
    }

    pub(crate) fn open(&self) -> Result<Arc<PlacedStore>, StoreError> {
        let named = self
            .all
            .iter()
            .enumerate()
            .map(|(at, cluster)| NamedCluster {
                name: self.name(at),
                store: cluster.clone(),
                drained: false,
            });
        PlacedStore::open_with(named.collect(), IMPATIENT).map(Arc::new)
    }

    pub(crate) fn name(&self, at: usize) -> String {
        format!("cluster {at}")
    }

    /// Runs a hook after the next snapshot of a copy of the partition. The last hook that was added
    /// is the first that runs, and each runs once. A move takes two snapshots at least before
    /// commits wait, and a hook while they wait would wait for ever, so there may be two hooks.
    pub(crate) fn after_snapshot(
        &self,
        partition: PartitionId,
        hook: impl FnOnce() + Send + 'static,
    ) {
        self.hooks.lock().unwrap().push((partition, Box::new(hook)));
    }

    pub(crate) fn forget_hooks(&self) {
        self.hooks.lock().unwrap().clear();
    }

    pub(crate) fn fail_after(&self, at: usize, writes: u64) {
        self.all[at].inner.fail_after(writes);
    }

    /// Repairs the clusters that have failed. Returns true for every second failure, and `None` if
    /// there was none.
    pub(crate) fn repair_broken(&mut self) -> Option<bool> {
        let broken = self.all.iter().filter(|cluster| cluster.inner.is_broken());
        if broken.count() == 0 {
            return None;
        }
        self.repair_all();
        self.failures += 1;
        Some(self.failures.is_multiple_of(2))
    }

    pub(crate) fn repair_all(&self) {
        for cluster in &self.all {
            cluster.inner.repair();
        }
    }
}

/// Returns the number of copies of partitions that have commits, in all clusters.
pub(crate) fn copies(clusters: &Clusters) -> usize {
    let numbers = (1..=16).chain((0..400).map(|generation| (1 << 62) | generation));
    let mut count = 0;
    for number in numbers {
        for memory in &clusters.memories {
            let head = memory.snapshot(PartitionId(number)).unwrap().head();
            count += usize::from(head != Head::default());
        }
    }
    count
}

pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The only writer of a partition, with the rows that must be there.
pub(crate) struct Owner {
    pub(crate) partition: PartitionId,
    lease: Option<Lease>,
    epoch: u64,
    pub(crate) head: Lsn,
    pub(crate) rows: Rows,
    /// The rows after a commit whose outcome is unknown.
    unknown: Option<Rows>,
    /// A removal failed, so the partition may be there or not.
    may_be_gone: bool,
}

impl Owner {
    pub(crate) fn new(id: u64) -> Owner {
        Owner {
            partition: PartitionId(id),
            lease: None,
            epoch: 0,
            head: 0,
            rows: Rows::new(),
            unknown: None,
            may_be_gone: false,
        }
    }

    pub(crate) fn forget_lease(&mut self) {
        self.lease = None;
    }

    /// Opens the partition and finds out what has happened. Returns false if that failed.
    pub(crate) fn open(&mut self, store: &dyn Store) -> bool {
        self.lease = None;
        let Ok(lease) = store.open(self.partition) else {
            return false;
        };
        assert!(lease.epoch() > self.epoch, "epochs rise");
        self.epoch = lease.epoch();
        let found = lease.head().lsn;
        if self.may_be_gone && found == 0 {
            self.rows.clear();
            self.head = 0;
            self.unknown = None;
        }
        if let Some(after) = self.unknown.take()
            && found == self.head + 1
        {
            self.rows = after;
            self.head = found;
        }
        assert_eq!(found, self.head, "no commit is lost and none is doubled");
        self.may_be_gone = false;
        self.lease = Some(lease);
        true
    }

    /// Commits a change, after the partition was opened if it must be.
    pub(crate) fn commit(&mut self, store: &dyn Store, change: Commit) {
        if self.lease.is_none() && !self.open(store) {
            return;
        }
        let Some(lease) = &self.lease else { return };
        let mut after = self.rows.clone();
        for range in &change.range_deletes {
            after.retain(|key, _| !range.contains(key));
        }
        for key in &change.deletes {
            after.remove(key);
        }
        after.extend(change.puts.iter().cloned());
        let mut token = [0; 16];
        token[..8].copy_from_slice(&(self.head + 1).to_be_bytes());
        let commit = Commit {
            expect_lsn: self.head,
            new_lsn: self.head + 1,
            token,
            ..change
        };
        match store.submit(lease, commit).wait() {
            CommitOutcome::Ok => {
                self.rows = after;
                self.head += 1;
            }
            CommitOutcome::Unknown => {
                self.unknown = Some(after);
                self.lease = None;
            }
            CommitOutcome::Fenced => self.lease = None,
            _ => {}
        }
    }

    pub(crate) fn destroy(&mut self, store: &dyn Store) {
        self.lease = None;
        match store.destroy(self.partition) {
            Ok(()) => {
                self.rows.clear();
                (self.head, self.unknown, self.may_be_gone) = (0, None, false);
            }
            Err(_) => self.may_be_gone = true,
        }
    }

    /// Checks the rows and the head. The outcome of every commit must be known.
    pub(crate) fn check(&self, store: &dyn Store) {
        let snapshot = store.snapshot(self.partition).unwrap();
        assert_eq!(snapshot.head().lsn, self.head);
        assert_eq!(rows(&*snapshot), self.rows);
    }
}

/// Returns all rows of a snapshot.
pub(crate) fn rows(snapshot: &dyn Snapshot) -> Rows {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let rows = snapshot.scan(all, Direction::Forward);
    rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .unwrap()
}
