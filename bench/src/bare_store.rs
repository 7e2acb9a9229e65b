//! The bare store: the very commits that the engine makes of the same items, handed to the local store without an engine.
//!
//! They are recorded from an engine on the memory store, so number, size and order of their entries are not a guess.
//! Writers take turns to submit, as they must on one physical partition, and wait for durability side by side.

use crate::Result;
use crate::engine::Room;
use crate::items::{CREATE_BYTES, READ_BYTES, READ_ITEMS, item};
use crate::report::Slice;
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, Lease, LocalOptions, LocalStore, MemoryStore, PartitionId,
    Receipt, Snapshot, Store, StoreError,
};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The partition in the bare store.
const HOME: PartitionId = PartitionId(1);
/// Commits recorded before each measurement, for each second of it: more than a store does.
const COMMITS_PER_SECOND: f64 = 20_000.0;
const COMMITS_PER_SECOND_ALONE: f64 = 8_000.0;

/// A memory store that writes down every commit.
#[derive(Default)]
struct Recorder {
    inner: MemoryStore,
    commits: Mutex<Vec<(PartitionId, Commit)>>,
}

impl Store for Recorder {
    fn open(&self, partition: PartitionId) -> std::result::Result<Lease, StoreError> {
        self.inner.open(partition)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        lock(&self.commits).push((lease.partition(), commit.clone()));
        self.inner.submit(lease, commit)
    }

    fn snapshot(
        &self,
        partition: PartitionId,
    ) -> std::result::Result<Box<dyn Snapshot>, StoreError> {
        self.inner.snapshot(partition)
    }

    fn destroy(&self, partition: PartitionId) -> std::result::Result<(), StoreError> {
        self.inner.destroy(partition)
    }

    fn sync(&self) -> std::result::Result<(), StoreError> {
        self.inner.sync()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn approximate_bytes(&self) -> u64 {
        self.inner.approximate_bytes()
    }
}

/// The bare store and the source of its commits.
pub(crate) struct BareStore {
    recorder: Arc<Recorder>,
    room: Room,
    created: u64,
    /// Recorded and not yet written, in order.
    ready: VecDeque<Commit>,
    /// The partition of the recorded container.
    recorded: PartitionId,
    store: LocalStore,
    lease: Lease,
    /// Keys of the rows that are read.
    rows: Vec<Vec<u8>>,
    shape: String,
}

impl BareStore {
    pub(crate) fn open(directory: &Path) -> Result<BareStore> {
        let recorder = Arc::new(Recorder::default());
        let room = Room::open(recorder.clone())?;
        for n in 0..READ_ITEMS {
            room.create(&item('r', n, READ_BYTES))?;
        }
        let recorded = lock(&recorder.commits)
            .last()
            .map(|(partition, _)| *partition)
            .ok_or("nothing was recorded")?;
        let store = LocalStore::open(directory, LocalOptions::default())?;
        let lease = store.open(HOME)?;
        let mut bare = BareStore {
            recorder,
            room,
            created: 0,
            ready: VecDeque::new(),
            recorded,
            store,
            lease,
            rows: Vec::new(),
            shape: String::new(),
        };
        for commit in bare.take_recorded() {
            let longest = commit.puts.iter().max_by_key(|(_, value)| value.len());
            bare.rows.extend(
                longest
                    .filter(|(_, value)| value.len() > READ_BYTES / 2)
                    .map(|(key, _)| key.clone()),
            );
            settled(bare.store.submit(&bare.lease, commit).wait())?;
        }
        Ok(bare)
    }

    /// What one create is in the store.
    pub(crate) fn describe(&mut self) -> String {
        if self.shape.is_empty()
            && let Ok(commits) = self.record(1000)
        {
            let entries: usize = commits.iter().map(|c| c.puts.len() + c.deletes.len()).sum();
            let bytes: usize = commits.iter().map(Commit::bytes).sum();
            let (entries, bytes, count) = (
                entries as f64,
                bytes / commits.len().max(1),
                commits.len().max(1),
            );
            self.shape = format!(
                "One create of {CREATE_BYTES} B is a commit of {:.1} entries and {bytes} bytes of keys and values.",
                entries / count as f64
            );
            self.ready.extend(commits);
        }
        self.shape.clone()
    }

    /// Durable commits a second with some writers.
    pub(crate) fn commit(&mut self, writers: usize, time: Duration) -> Result<Slice> {
        let rate = if writers == 1 {
            COMMITS_PER_SECOND_ALONE
        } else {
            COMMITS_PER_SECOND
        };
        let wanted = (rate * time.as_secs_f64()) as u64;
        let more = self.record(wanted.saturating_sub(self.ready.len() as u64))?;
        self.ready.extend(more);
        let queue = Mutex::new(std::mem::take(&mut self.ready));
        let slice = threads(writers, time, |_| {
            let receipt = {
                let mut queue = lock(&queue);
                let Some(commit) = queue.pop_front() else {
                    return Ok(false);
                };
                // Submitted under the lock: the store takes them in order only.
                self.store.submit(&self.lease, commit)
            };
            settled(receipt.wait()).map(|()| true)
        })?;
        self.ready = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(slice)
    }

    /// Reads of a row by its key a second, each on a snapshot of its own.
    pub(crate) fn get(&mut self, readers: usize, time: Duration) -> Result<Slice> {
        threads(readers, time, |n| {
            let snapshot = self
                .store
                .snapshot(HOME)
                .map_err(|error| error.to_string())?;
            let key = &self.rows[n % self.rows.len()];
            match snapshot.get(key) {
                Ok(Some(row)) if row.len() > READ_BYTES / 2 => Ok(true),
                Ok(_) => Err("a row is missing".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    fn record(&mut self, creates: u64) -> Result<Vec<Commit>> {
        for n in self.created..self.created + creates {
            self.room.create(&item('c', n, CREATE_BYTES))?;
        }
        self.created += creates;
        Ok(self.take_recorded())
    }

    fn take_recorded(&self) -> Vec<Commit> {
        let all = std::mem::take(&mut *lock(&self.recorder.commits));
        all.into_iter()
            .filter(|(partition, _)| *partition == self.recorded)
            .map(|(_, commit)| commit)
            .collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn settled(outcome: CommitOutcome) -> std::result::Result<(), String> {
    if outcome == CommitOutcome::Ok {
        Ok(())
    } else {
        Err(format!("a commit of the bare store ended in {outcome:?}"))
    }
}

/// Calls `work` with a running number on some threads until the time is over or one has nothing left to do.
fn threads(
    count: usize,
    time: Duration,
    work: impl Fn(usize) -> std::result::Result<bool, String> + Sync,
) -> Result<Slice> {
    let begun = Instant::now();
    let over = begun + time;
    let run = |first: usize| {
        let mut latencies = Vec::with_capacity(1 << 14);
        for n in (first..).step_by(count) {
            let begun = Instant::now();
            if begun >= over || !work(n)? {
                break;
            }
            latencies.push(begun.elapsed());
        }
        Ok(latencies)
    };
    let done: std::result::Result<Vec<_>, String> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..count)
            .map(|first| scope.spawn(move || run(first)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
            .collect()
    });
    let elapsed = begun.elapsed();
    Ok(Slice {
        elapsed,
        latencies: done?.concat(),
    })
}
