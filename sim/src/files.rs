//! The store of a world in files on a simulated disk.
//!
//! The store crashes at the same steps as the one in memory: before a commit is written, and after
//! it is durable and before it is answered. The next store opens a directory that a power loss at
//! that place of the record can leave, or, after the death of the process alone, all that was
//! written.
//!
//! Leaves out: power losses that keep a later part of a file and lose an earlier one, after which
//! the store may refuse to open (`core/storage/tests/power_loss.rs`).

use crate::Checked;
use crate::planted::CrashStore;
use orrery_model::sync::lock;
use orrery_model::world::split_mix;
use orrery_storage::{
    Capabilities, Checkpoint, Commit, CommitOutcome, Lease, LocalOptions, LocalStore, PartitionId,
    Pending, Receipt, Snapshot, Store, StoreError,
};
use orrery_test_disk::{Disk, Loss, Position};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tempfile::TempDir;

/// Small memtables, so that a world writes tables and compacts them.
const MEMTABLE_BYTES: u64 = 16 << 10;

/// The store. The module header describes it.
pub(crate) struct Files {
    shared: Arc<Shared>,
    /// The seed of the next image.
    seed: u64,
}

struct Shared {
    // Closed before its files go.
    store: LocalStore,
    disk: Disk,
    _directory: TempDir,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Steps taken so far.
    steps: u64,
    crash_at: Option<u64>,
    /// The place in the record at which the store crashed.
    crashed_at: Option<Position>,
}

impl Files {
    /// Creates an empty store.
    ///
    /// # Errors
    /// When the store or its directory cannot be created.
    pub(crate) fn new(seed: u64) -> Checked<Files> {
        let directory = new_directory()?;
        Files::open_on(directory, seed)
    }

    fn open_on(directory: TempDir, seed: u64) -> Checked<Files> {
        let disk = Disk::record(directory.path()).map_err(|error| error.to_string())?;
        let store = open(directory.path())?;
        Ok(Files {
            shared: Arc::new(Shared {
                store,
                disk,
                _directory: directory,
                state: Mutex::default(),
            }),
            seed: split_mix(seed),
        })
    }
}

/// Creates a directory.
pub(crate) fn new_directory() -> Checked<TempDir> {
    orrery_test_disk::new_directory().map_err(|error| format!("no directory: {error}"))
}

/// Opens a store in a directory.
pub(crate) fn open(directory: &Path) -> Checked<LocalStore> {
    let options = LocalOptions {
        cache_bytes: 1 << 20,
        memtable_bytes: MEMTABLE_BYTES,
        scrub_bytes_per_second: 0,
        ..LocalOptions::default()
    };
    let opened = LocalStore::open(directory, options);
    opened.map_err(|error| format!("the store does not open: {error}"))
}

impl CrashStore for Files {
    fn has_crashed(&self) -> bool {
        lock(&self.shared.state).crashed_at.is_some()
    }

    fn crash(&self) {
        let mut state = lock(&self.shared.state);
        state.crashed_at.get_or_insert(self.shared.disk.position());
    }

    fn crash_after(&self, steps: Option<u64>) {
        let mut state = lock(&self.shared.state);
        state.crash_at = steps.map(|steps| state.steps + steps);
    }

    fn reopen(&self) -> Checked<Box<dyn CrashStore>> {
        self.crash();
        let crashed_at = lock(&self.shared.state).crashed_at;
        let at = crashed_at.unwrap_or(Position::MAX);
        let loss = match self.seed % 4 {
            0 => Loss::Nothing,
            _ => Loss::InOrder,
        };
        let directory = new_directory()?;
        let image = self.shared.disk.image(at, loss, self.seed);
        let written = image.write(directory.path());
        written.map_err(|error| format!("no image: {error}"))?;
        Ok(Box::new(Files::open_on(directory, self.seed)?))
    }
}

impl Shared {
    /// Takes a step. Returns true if the store has crashed, at this step or before.
    fn step(&self) -> bool {
        let mut state = lock(&self.state);
        if state.crash_at == Some(state.steps) {
            state.crashed_at.get_or_insert(self.disk.position());
        }
        state.steps += 1;
        state.crashed_at.is_some()
    }

    /// Fails if the store has crashed.
    fn check(&self) -> Result<(), StoreError> {
        match lock(&self.state).crashed_at {
            None => Ok(()),
            Some(_) => Err(StoreError::Poisoned {
                detail: "planned crash".to_owned(),
            }),
        }
    }

    /// Waits for a commit, with a step before and a step behind.
    fn wait(&self, receipt: Receipt) -> CommitOutcome {
        if self.step() {
            return CommitOutcome::Unknown;
        }
        let outcome = receipt.wait();
        match self.step() {
            true => CommitOutcome::Unknown,
            false => outcome,
        }
    }
}

impl Store for Files {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        self.shared.check()?;
        self.shared.store.open(partition)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        if self.has_crashed() {
            return Receipt::ready(CommitOutcome::Unavailable {
                retry_after_ms: 1_000,
            });
        }
        let receipt = self.shared.store.submit(lease, commit);
        match receipt.answer() {
            Some(answer) => Receipt::ready(answer),
            None => Receipt::pending(Ticket {
                shared: Arc::clone(&self.shared),
                receipt: Some(receipt),
            }),
        }
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        self.shared.check()?;
        self.shared.store.snapshot(partition)
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.shared.check()?;
        self.shared.store.destroy(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.shared.check()?;
        self.shared.store.sync()
    }

    fn barrier(&self, partition: PartitionId) -> Receipt {
        Receipt::pending(Ticket {
            shared: Arc::clone(&self.shared),
            receipt: Some(self.shared.store.barrier(partition)),
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.shared.store.capabilities()
    }

    fn partitions(&self) -> Result<Option<Vec<PartitionId>>, StoreError> {
        self.shared.store.partitions()
    }

    fn approximate_bytes(&self) -> u64 {
        self.shared.store.approximate_bytes()
    }

    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        self.shared.check()?;
        self.shared.store.checkpoint()
    }
}

/// The receipt of a commit. The thread that waits writes the commit, so that the record of journals
/// follows from the seed; that of tables, which a thread of fjall writes, does not.
struct Ticket {
    shared: Arc<Shared>,
    receipt: Option<Receipt>,
}

impl Pending for Ticket {
    fn wait(mut self: Box<Self>) -> CommitOutcome {
        match self.receipt.take() {
            Some(receipt) => self.shared.wait(receipt),
            None => CommitOutcome::Unknown,
        }
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<CommitOutcome> {
        match self.receipt.take() {
            Some(receipt) => Poll::Ready(self.shared.wait(receipt)),
            None => Poll::Ready(CommitOutcome::Unknown),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            let _ = self.shared.wait(receipt);
        }
    }
}
