//! The bare store: the local store with the same commits that the engine makes, without the engine.
//!
//! The commits are recorded from an engine on a memory store, so number, size and order of their
//! entries are the real ones. Writers submit one after another, as they must for one physical
//! partition, and wait for durability concurrently.

use crate::Result;
use crate::engine::BenchEngine;
use crate::items::{CREATE_BYTES, READ_BYTES, READ_ITEMS, item};
use crate::report::Measurement;
use orrery_model::sync::{into_inner, lock};
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, Lease, LocalOptions, LocalStore, MemoryStore, PartitionId,
    Receipt, Snapshot, Store, StoreError,
};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The partition in the bare store.
const PARTITION: PartitionId = PartitionId(1);
/// Commits to record for each second of a measurement with several writers: more than the store can
/// write.
const COMMITS_PER_SECOND: f64 = 20_000.0;
/// Commits to record for each second of a measurement with one writer.
const COMMITS_PER_SECOND_ALONE: f64 = 8_000.0;

/// A memory store that records every commit.
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
    engine: BenchEngine,
    created: u64,
    /// Recorded commits that are not written yet, in order.
    ready: VecDeque<Commit>,
    /// The partition of the recorded container.
    recorded: PartitionId,
    store: LocalStore,
    lease: Lease,
    /// Keys of the rows to read.
    rows: Vec<Vec<u8>>,
    /// Description of one create, see [`BareStore::describe`].
    shape: String,
}

impl BareStore {
    /// Opens a local store in `directory` and writes the items to read.
    pub(crate) fn open(directory: &Path) -> Result<BareStore> {
        let recorder = Arc::new(Recorder::default());
        let engine = BenchEngine::open(recorder.clone())?;
        for n in 0..READ_ITEMS {
            engine.create(&item('r', n, READ_BYTES))?;
        }
        let recorded = lock(&recorder.commits)
            .last()
            .map(|(partition, _)| *partition)
            .ok_or("nothing was recorded")?;
        let store = LocalStore::open(directory, LocalOptions::default())?;
        let lease = store.open(PARTITION)?;
        let mut bare = BareStore {
            recorder,
            engine,
            created: 0,
            ready: VecDeque::new(),
            recorded,
            store,
            lease,
            rows: Vec::new(),
            shape: String::new(),
        };
        for commit in bare.take_recorded() {
            // The largest value of a create is the row of the item.
            let longest = commit.puts.iter().max_by_key(|(_, value)| value.len());
            bare.rows.extend(
                longest
                    .filter(|(_, value)| value.len() > READ_BYTES / 2)
                    .map(|(key, _)| key.clone()),
            );
            check_outcome(bare.store.submit(&bare.lease, commit).wait())?;
        }
        Ok(bare)
    }

    /// Returns a description of the commit of one create.
    pub(crate) fn describe(&mut self) -> String {
        if self.shape.is_empty()
            && let Ok(commits) = self.record(1000)
        {
            let entries: usize = commits.iter().map(|c| c.puts.len() + c.deletes.len()).sum();
            let bytes: usize = commits.iter().map(Commit::bytes).sum();
            let count = commits.len().max(1);
            self.shape = format!(
                "One create of {CREATE_BYTES} B is a commit of {:.1} entries and {} bytes of keys \
                 and values.",
                entries as f64 / count as f64,
                bytes / count
            );
            self.ready.extend(commits);
        }
        self.shape.clone()
    }

    /// Measures durable commits with `writers` threads.
    pub(crate) fn commit(&mut self, writers: usize, time: Duration) -> Result<Measurement> {
        let rate = if writers == 1 {
            COMMITS_PER_SECOND_ALONE
        } else {
            COMMITS_PER_SECOND
        };
        let wanted = (rate * time.as_secs_f64()) as u64;
        let more = self.record(wanted.saturating_sub(self.ready.len() as u64))?;
        self.ready.extend(more);
        let queue = Mutex::new(std::mem::take(&mut self.ready));
        let measurement = threads(writers, time, |_| {
            let receipt = {
                let mut queue = lock(&queue);
                let Some(commit) = queue.pop_front() else {
                    return Ok(false);
                };
                // Submitted while the queue is locked: the store accepts commits only in order.
                self.store.submit(&self.lease, commit)
            };
            check_outcome(receipt.wait()).map(|()| true)
        })?;
        self.ready = into_inner(queue);
        Ok(measurement)
    }

    /// Measures reads of a row by key, each on a new snapshot, with `readers` threads.
    pub(crate) fn get(&mut self, readers: usize, time: Duration) -> Result<Measurement> {
        threads(readers, time, |n| {
            let snapshot = self
                .store
                .snapshot(PARTITION)
                .map_err(|error| error.to_string())?;
            let key = &self.rows[n % self.rows.len()];
            match snapshot.get(key) {
                Ok(Some(row)) if row.len() > READ_BYTES / 2 => Ok(true),
                Ok(_) => Err("a row is missing".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    /// Creates items in the engine and returns the recorded commits.
    fn record(&mut self, creates: u64) -> Result<Vec<Commit>> {
        for n in self.created..self.created + creates {
            self.engine.create(&item('c', n, CREATE_BYTES))?;
        }
        self.created += creates;
        Ok(self.take_recorded())
    }

    /// Removes and returns the commits of the measured partition recorded so far.
    fn take_recorded(&self) -> Vec<Commit> {
        let all = std::mem::take(&mut *lock(&self.recorder.commits));
        all.into_iter()
            .filter(|(partition, _)| *partition == self.recorded)
            .map(|(_, commit)| commit)
            .collect()
    }
}

/// Returns an error unless the commit is durable.
fn check_outcome(outcome: CommitOutcome) -> std::result::Result<(), String> {
    if outcome == CommitOutcome::Ok {
        Ok(())
    } else {
        Err(format!("a commit of the bare store ended in {outcome:?}"))
    }
}

/// Calls `work` with increasing numbers on `count` threads until the time has passed or `work`
/// returns false.
fn threads(
    count: usize,
    time: Duration,
    work: impl Fn(usize) -> std::result::Result<bool, String> + Sync,
) -> Result<Measurement> {
    let started = Instant::now();
    let deadline = started + time;
    // Each thread takes every `count`-th number, so the threads share no counter.
    let run = |first: usize| {
        let mut latencies = Vec::with_capacity(1 << 14);
        for n in (first..).step_by(count) {
            let started = Instant::now();
            if started >= deadline || !work(n)? {
                break;
            }
            latencies.push(started.elapsed());
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
    let elapsed = started.elapsed();
    Ok(Measurement {
        elapsed,
        latencies: done?.concat(),
    })
}
