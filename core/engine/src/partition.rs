//! One physical partition: a range of effective partition keys, its history, and its one writer.
//!
//! The history is a sequence of commits numbered by LSN. A commit is *accepted* when the writer has
//! handed it to the store, and *durable* when the store has synced it:
//!
//! ```text
//! LSN          40        41        42        43        44
//!              durable   durable   accepted  accepted  (next)
//!                        │                   │
//!                        │                   └─ Writer::lsn: what the next write builds on
//!                        └─ Snapshot::head: what readers and the change feed see
//! ```
//!
//! A write locks the writer, computes its rows and calls [`Writer::submit`], which returns at once:
//! the lock is held for computing and never for a sync. The rows of 42 and 43 wait in the writer's
//! memory, where only the next write of this partition sees them.
//!
//! If the store cannot say what became of 43, the writer is dropped
//! ([`Partition::abandon_writer`]). The next writer opens a newer lease, which stops every older
//! one, and the commit log in the partition tells whether 43 took place ([`Partition::settle`]).
//!
//! A request that is refused because of a row of 43 waits for 43 too ([`Partition::confirm`]): its
//! client may not hear of an item that a crash can still take away.
//!
//! A partition that is split or merged goes through three phases, or four if the store does not say
//! what became of the commit of the catalog:
//!
//! ```text
//! Serving ──▶ Completing ──▶ Gone
//!    ▲            │           ▲ it took place
//!    ├────────────┘ failed    │
//!    └──────────────────── InDoubt
//!       it did not take place
//! ```
//!
//! A request that still holds a partition that is gone is told so by [`Partition::lock`] and
//! [`Partition::snapshot`] and repeats its look-up, see [`retry_if_moved`].
//!
//! In a fleet another process may own a partition (`ownership.rs`). The process that gives a
//! partition up drops its writer; the process that takes the partition over opens one.
//!
//! The modules: `keys` draws every key, `row` and `item_rows` are the rows of an item,
//! `transaction` turns changes into commits, `writer` submits them; `visibility`, `versions` and
//! `session` are rules of readers; `codes` keeps quantised vectors in memory; `key_sizes` and
//! `key_limit` bound logical partitions by `size_limits`; `change_capture` and `staging` serve
//! splits and merges.
//!
//! Left out: the catalog, which knows the partitions of a container, and the network.

pub(crate) mod change_capture;
pub(crate) mod codes;
mod counts;
mod dictionary;
mod effects;
mod envelope;
mod facts;
pub(crate) mod item;
pub(crate) mod item_rows;
pub(crate) mod key_deletion;
pub(crate) mod key_limit;
pub(crate) mod key_sizes;
pub(crate) mod keys;
pub(crate) mod row;
pub(crate) mod row_reader;
pub(crate) mod session;
pub(crate) mod size_limits;
mod snapshots;
pub(crate) mod staging;
pub(crate) mod stamps;
pub(crate) mod transaction;
pub(crate) mod version_floors;
pub(crate) mod versions;
pub(crate) mod visibility;
mod writer;

pub(crate) use counts::{Counters, entry_counts, summary_rows};
pub(crate) use dictionary::{PathsRef, load_paths};
pub(crate) use facts::Facts;
pub(crate) use writer::{
    CommitAttempt, CommitChanges, NOT_LOOKED_AT, SubmittedCommit, VERSION_LOOKS, WriteBlock,
    Writer, WriterGuard, newest_ts, token_of,
};

use crate::container::owners::Owners;
use crate::container::view::ContainerView;
use crate::errors::{
    damaged, did_not_happen, gone_error, outcome_error, storage_failure, unconfirmed,
    unknown_outcome,
};
use crate::index::generations::PolicyGenerations;
use crate::index::paths::{Paths, Step as PathStep};
use crate::partition::keys::CATALOG_PARTITION;
use crate::request::Position;
use crate::throughput::meter::Meter;
use bytes::Bytes;
use change_capture::{CapturedCommit, ChangeCapture};
use keys::ItemNumber;
use orrery_model::partition_key::EpkRange;
use orrery_model::sync::{lock, read, write};
use orrery_model::{Error, Kind, Result};
use orrery_storage::{CommitOutcome, Direction, Keys, PartitionId, Receipt, Snapshot, Store};
use stamps::Stamps;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, TryLockError};
use version_floors::VersionFloors;

/// A physical partition.
pub struct Partition {
    /// The partition key range id that clients see.
    pub id: u32,
    /// The ids of all ranges that this one came from, the oldest first.
    pub parents: Vec<u32>,
    /// The EPK range.
    pub range: EpkRange,
    /// The partition's key space in the store.
    pub storage_id: PartitionId,
    /// The version in session tokens: the millisecond in which the container was created, so that a
    /// token of an earlier container of the same name is told apart.
    pub version: u64,
    /// The LSN up to which changes stand in the order of several merged histories and not in that
    /// of time.
    pub mixed_until: u64,
    /// The budget, and the account of what was served.
    pub(crate) meter: Arc<Meter>,
    store: Arc<dyn Store>,
    owners: Arc<dyn Owners>,
    writer: Mutex<Option<Writer>>,
    /// Held by requests of several commits, which end before the partition is given up.
    bulk: RwLock<()>,
    /// The item numbers that this process may use, if the leaseholder hands them out.
    granted_numbers: Mutex<Option<Range<ItemNumber>>>,
    /// The number of times that another process gave numbers to paths, or may have.
    hand_overs: AtomicU64,
    paths: RwLock<Option<Paths>>,
    facts: Mutex<Option<Arc<Facts>>>,
    codes: codes::CodesByIndex,
    /// Locked while a step links vectors.
    linking: Mutex<()>,
    /// Requests to link vectors so far, and the number of them when all vectors were linked.
    linking_requests: AtomicU64,
    linked_requests: AtomicU64,
    phase: AtomicU8,
    change_capture: Mutex<Option<ChangeCapture>>,
    /// Bytes of items from which on a commit asks for a look at the partition's size.
    bytes_to_look_at: AtomicU64,
    /// The LSN up to which no changed item expires by the `defaultTtl` before `passed_before`.
    passed_until: AtomicU64,
    passed_before: AtomicU64,
    stamps: Stamps,
    /// The LSN up to which the dictionary in memory has all paths.
    paths_until: AtomicU64,
    /// In a copy, the newest partition key range that the copy's catalog has; else `u32::MAX`.
    newest_range: AtomicU32,
}

/// The phase of a partition in a split or merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The partition is read and written.
    Serving = 0,
    /// Its successors are about to take over. Requests are refused for now.
    Completing = 1,
    /// Its successors have taken over.
    Gone = 2,
    /// It is not known whether its successors have taken over: the store does not say what became
    /// of the commit. The partition is read and not written.
    InDoubt = 3,
}

impl Partition {
    /// Creates a partition that exists in the store or is about to.
    pub fn new(
        store: Arc<dyn Store>,
        owners: Arc<dyn Owners>,
        id: u32,
        parents: Vec<u32>,
        range: EpkRange,
        storage_id: PartitionId,
        version: u64,
    ) -> Self {
        Partition {
            id,
            parents,
            range,
            storage_id,
            version,
            mixed_until: 0,
            meter: Arc::default(),
            store,
            owners,
            writer: Mutex::new(None),
            bulk: RwLock::default(),
            granted_numbers: Mutex::default(),
            hand_overs: AtomicU64::new(0),
            paths: RwLock::new(None),
            facts: Mutex::new(None),
            codes: codes::CodesByIndex::default(),
            linking: Mutex::default(),
            linking_requests: AtomicU64::new(1),
            linked_requests: AtomicU64::new(0),
            phase: AtomicU8::new(Phase::Serving as u8),
            change_capture: Mutex::new(None),
            bytes_to_look_at: AtomicU64::new(0),
            passed_until: AtomicU64::new(0),
            passed_before: AtomicU64::new(u64::MAX),
            stamps: Stamps::default(),
            paths_until: AtomicU64::new(0),
            newest_range: AtomicU32::new(u32::MAX),
        }
    }

    /// Returns the partition with the LSN up to which its history is merged.
    pub fn with_mixed_until(self, lsn: u64) -> Self {
        Partition {
            mixed_until: lsn,
            ..self
        }
    }

    /// Tells a partition of a copy which range of its container is the newest in the copy.
    pub fn set_newest_range(&self, id: u32) {
        self.newest_range.store(id, Ordering::Relaxed);
    }

    /// Writes the first commit of a new partition: LSN 1, without items.
    ///
    /// # Errors
    /// 503 and 500 as the store reports.
    pub fn create(&self) -> Result<Receipt> {
        let mut writer = self.lock()?;
        let first = writer.submit(self, CommitChanges::default(), 0);
        Ok(first.receipt)
    }
}

/// Positions, and facts of snapshots.
impl Partition {
    /// Returns a position in the history of this partition.
    pub fn position(&self, lsn: u64, item_lsn: Option<u64>) -> Position {
        Position {
            range_id: self.id,
            version: self.version,
            lsn,
            item_lsn,
        }
    }

    /// Returns the position of the last durable commit, or LSN 0 if the store cannot be read.
    pub fn position_now(&self) -> Position {
        let lsn = match self.snapshot() {
            Ok(snapshot) => snapshot.head().lsn,
            Err(_) => 0,
        };
        self.position(lsn, None)
    }

    /// Waits until everything that this partition has accepted so far is durable.
    ///
    /// # Errors
    /// 500 and 503 if the store cannot sync.
    pub fn sync(&self) -> Result<()> {
        let synced = self.store.sync_partition(self.storage_id);
        synced.map_err(storage_failure)
    }

    /// Waits until everything that all partitions of the store have accepted so far is durable.
    ///
    /// # Errors
    /// 500 and 503 if the store cannot sync.
    pub fn sync_store(&self) -> Result<()> {
        self.store.sync().map_err(storage_failure)
    }

    /// Returns the policy generations of the items in a snapshot.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub fn generations(snapshot: &dyn Snapshot) -> Result<PolicyGenerations> {
        let row = snapshot.get(&keys::policy_generations());
        match row.map_err(storage_failure)? {
            Some(row) => PolicyGenerations::decode(&row)
                .ok_or_else(|| damaged("the row of index generations")),
            None => Ok(PolicyGenerations::default()),
        }
    }

    /// Returns true if every item of a snapshot has index entries: an indexed item has an entry for
    /// `_ts`, whatever paths the policy has.
    ///
    /// # Errors
    /// 500 if the store cannot be read or a row is damaged.
    pub(crate) fn indexes_all_items(&self, snapshot: &dyn Snapshot) -> Result<bool> {
        let items = Partition::counters(snapshot)?.items;
        let ts = PathStep::Name("_ts".to_owned());
        let indexed = match self.paths(snapshot)?.find(&[ts]) {
            Some(number) => Partition::entries_of(snapshot, number)?,
            None => 0,
        };
        Ok(items == indexed)
    }

    /// Returns the LSNs after which versions are kept in a snapshot, or `None` if none are kept.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub(crate) fn version_floors(snapshot: &dyn Snapshot) -> Result<Option<VersionFloors>> {
        let row = snapshot.get(&keys::versions_floor());
        match row.map_err(storage_failure)? {
            Some(row) => VersionFloors::decode(&row)
                .map(Some)
                .ok_or_else(|| damaged("the row of kept versions")),
            None => Ok(None),
        }
    }
}

/// Marks for background work.
impl Partition {
    /// Locks the linking of vectors. Returns `None` if another thread has locked it.
    pub(crate) fn begin_linking(&self) -> Option<MutexGuard<'_, ()>> {
        match self.linking.try_lock() {
            Ok(guard) => Some(guard),
            // A step that panicked has changed nothing.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Lets the next visit of the task that links vectors look at the partition.
    pub(crate) fn expect_linking(&self) {
        self.linking_requests.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of the last request to link vectors, if there was one since they were
    /// linked.
    pub(crate) fn linking_request(&self) -> Option<u64> {
        let request = self.linking_requests.load(Ordering::SeqCst);
        (request != self.linked_requests.load(Ordering::SeqCst)).then_some(request)
    }

    /// Notes that all vectors are linked which had changed before a request.
    pub(crate) fn note_linked(&self, request: u64) {
        self.linked_requests.store(request, Ordering::SeqCst);
    }

    /// Returns true if a commit leaves so many bytes of items that the size is to be looked at.
    pub fn asks_for_look_at_size(&self, bytes: u64) -> bool {
        bytes >= self.bytes_to_look_at.load(Ordering::Relaxed)
    }

    /// Sets the bytes from which on the size is to be looked at again: when the partition becomes
    /// larger than `bytes_max`, and whenever its size has grown by a part of what changes the
    /// throughput of autoscale. A partition that is too large and has one partition key only is
    /// looked at again when it has grown by a part.
    ///
    /// A failure to read the size leaves the mark where it was.
    pub fn expect_growth(&self, bytes_max: u64, gigabyte_bytes: u64) {
        // An owner that takes the partition over expects growth before it owns the partition.
        let Ok(snapshot) = self.snapshot_in_any_phase() else {
            return;
        };
        let Ok(Counters { bytes, .. }) = Partition::counters(snapshot.as_ref()) else {
            return;
        };
        let next = match bytes <= bytes_max {
            true => (bytes + gigabyte_bytes / 10 + 1).min(bytes_max.saturating_add(1)),
            false => bytes + bytes_max / 64 + 1,
        };
        self.bytes_to_look_at.store(next, Ordering::Relaxed);
    }

    /// Returns the LSN up to which no changed item expires by the `defaultTtl` of its container
    /// before second `now` is passed.
    pub fn passed_until(&self, now: u64) -> u64 {
        if now >= self.passed_before.load(Ordering::Relaxed) {
            self.passed_before.store(u64::MAX, Ordering::Relaxed);
            self.passed_until.store(0, Ordering::Relaxed);
        }
        self.passed_until.load(Ordering::Relaxed)
    }

    /// Remembers that no item that was changed up to an LSN expires by the `defaultTtl` of its
    /// container before a second. An item that is written again has a higher LSN.
    pub fn set_passed_until(&self, lsn: u64, second: u64) {
        self.passed_before.fetch_min(second, Ordering::Relaxed);
        self.passed_until.fetch_max(lsn, Ordering::Relaxed);
    }
}

/// Phases, and the capture of changes for a split or merge.
impl Partition {
    /// Checks that requests may write to the partition.
    ///
    /// # Errors
    /// 503 while it is not known whether other partitions have replaced this one; those of
    /// [`Partition::check_phase`].
    fn check_writable(&self) -> Result<()> {
        match self.phase.load(Ordering::Acquire) {
            phase if phase == Phase::InDoubt as u8 => Err(unconfirmed()),
            _ => self.check_phase(),
        }
    }

    /// Checks that requests may read the partition.
    ///
    /// # Errors
    /// 410/1007 while the partition is completing, 410/1002 when it is gone.
    fn check_phase(&self) -> Result<()> {
        match self.phase.load(Ordering::Acquire) {
            phase if phase == Phase::Serving as u8 || phase == Phase::InDoubt as u8 => Ok(()),
            gone if gone == Phase::Gone as u8 => Err(gone_error(self.id)),
            _ => Err(Error::new(
                Kind::CompletingSplit,
                format!(
                    "The partition key range {} is completing a split or merge. Retry the request.",
                    self.id
                ),
            )),
        }
    }

    /// Sets the phase.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Serves requests again, if the partition is in the phase `from`.
    pub fn serve_after(&self, from: Phase) {
        let (from, serving) = (from as u8, Phase::Serving as u8);
        let phase = &self.phase;
        let _ = phase.compare_exchange(from, serving, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Begins to capture the rows of every commit.
    ///
    /// # Errors
    /// 409 if changes are captured already; 410 and 503 as for [`Partition::lock`].
    pub fn start_change_capture(&self) -> Result<()> {
        let _writer = self.lock_in_any_phase()?;
        self.check_writable()?;
        let mut capture = lock(&self.change_capture);
        if capture.is_some() {
            return Err(Error::new(
                Kind::Conflict,
                format!(
                    "The partition key range {} is being split or merged already.",
                    self.id
                ),
            ));
        }
        *capture = Some(ChangeCapture::default());
        Ok(())
    }

    /// Takes the captured commits up to an LSN.
    ///
    /// # Errors
    /// 449 if a commit is missing from the capture.
    pub fn take_captured(&self, up_to: u64) -> Result<Vec<CapturedCommit>> {
        match &mut *lock(&self.change_capture) {
            Some(capture) => capture.take(up_to),
            None => Ok(Vec::new()),
        }
    }

    /// Returns true while the changes are captured.
    pub(crate) fn is_captured(&self) -> bool {
        lock(&self.change_capture).is_some()
    }

    /// Stops capturing changes.
    pub fn stop_change_capture(&self) {
        *lock(&self.change_capture) = None;
    }
}

/// The writer.
impl Partition {
    /// Locks the writer, and opens it if there is none.
    ///
    /// # Errors
    /// 500 if the store cannot be opened; 410/1002 if the partition is gone, 410/1007 if it is
    /// completing; 503 if another process owns it.
    pub fn lock(&self) -> Result<WriterGuard<'_>> {
        let guard = lock(&self.writer);
        self.check_owned()?;
        // The writer of a partition that is gone is never opened: in an owner, a later object of
        // the same partition may have one.
        self.check_writable()?;
        let guard = self.opened(guard)?;
        self.check_writable()?;
        Ok(guard)
    }

    /// Locks the writer for the split or merge that takes the partition over. A partition that
    /// another process owns is taken back first.
    ///
    /// # Errors
    /// 500 if the store cannot be opened, 503 if the partition cannot be taken back.
    pub fn lock_in_any_phase(&self) -> Result<WriterGuard<'_>> {
        let guard = self.lock_owned()?;
        self.opened(guard)
    }

    /// Locks the place of the writer, after the partition was taken back from another process.
    fn lock_owned(&self) -> Result<MutexGuard<'_, Option<Writer>>> {
        loop {
            let recalled = self.owners.recall(self.storage_id);
            recalled.map_err(storage_failure)?;
            let guard = lock(&self.writer);
            // Given up again in between.
            if self.is_owned() {
                return Ok(guard);
            }
        }
    }

    /// Opens the writer if there is none.
    fn opened<'a>(&'a self, mut guard: MutexGuard<'a, Option<Writer>>) -> Result<WriterGuard<'a>> {
        if guard.is_none() {
            *guard = Some(Writer::open(self)?);
        }
        Ok(WriterGuard(guard))
    }

    /// Returns true if a commit has asked for a count of logical partitions. Opens no writer.
    pub(crate) fn asked_for_key_count(&self) -> bool {
        let writer = lock(&self.writer);
        writer
            .as_ref()
            .is_some_and(|writer| writer.key_sizes.is_requested())
    }

    /// Blocks writers until the guard is dropped. Opens no writer. A partition that another process
    /// owns is taken back first.
    ///
    /// # Errors
    /// 503 if the partition cannot be taken back.
    pub fn block_writes(&self) -> Result<WriteBlock<'_>> {
        Ok(WriteBlock {
            _writer: self.lock_owned()?,
        })
    }

    /// Drops the writer after a commit whose outcome is not known. The next write opens a new
    /// writer.
    pub fn abandon_writer(&self) {
        if let Some(capture) = &mut *lock(&self.change_capture) {
            // Captured commits may never have taken place.
            capture.mark_incomplete();
        }
        *lock(&self.writer) = None;
    }

    /// Returns what became of an attempt to commit, once the store has answered.
    ///
    /// An outcome that the store does not know is looked up in the commit log. The store has waited
    /// for a way to find out before it answered, so nothing is waited for here.
    ///
    /// # Errors
    /// 408 if the outcome stays unknown: the only error after which the commit may have taken
    /// place. If a newer lease or the log says that it did not: 503 for another process where
    /// requests are forwarded, else 449. 413, 429, 503 and 507 if the store refused it.
    pub fn settle(&self, outcome: CommitOutcome, attempt: CommitAttempt) -> Result<()> {
        let Some(error) = outcome_error(&outcome) else {
            return Ok(());
        };
        if attempt.is_refused {
            return Err(error);
        }
        // The writer counted on a commit that may have failed; the next one reads what is durable.
        self.abandon_writer();
        if outcome == CommitOutcome::Fenced {
            return Err(self.not_committed());
        }
        if outcome != CommitOutcome::Unknown {
            // The next owner carries the request out.
            self.check_owned()?;
            return Err(error);
        }
        match self.is_committed(attempt) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.not_committed()),
            Err(cause) => Err(unknown_outcome().with_cause(cause)),
        }
    }

    /// Returns a receipt that answers when the store is done with everything that this partition
    /// has accepted so far.
    pub(crate) fn barrier(&self) -> Receipt {
        self.store.barrier(self.storage_id)
    }

    /// Checks that a commit of another request is durable, from which an answer follows. `barrier`
    /// is the answer of a [`Partition::barrier`] behind the commit.
    ///
    /// # Errors
    /// Those of a write that builds on the commit: 449, or 503 for another process, if it did not
    /// take place; 503 and 507 if the store refused it. 503 if it stays unknown whether it took
    /// place: the request of the answer has written nothing in any case.
    pub(crate) fn confirm(&self, barrier: CommitOutcome, attempt: CommitAttempt) -> Result<()> {
        let outcome = match (self.is_logged(attempt), barrier) {
            // A snapshot shows durable commits only, so the answer of the store does not matter.
            (Ok(true), _) => return Ok(()),
            // The commit had failed before the store was asked.
            (Ok(false), CommitOutcome::Ok) => CommitOutcome::Fenced,
            (Err(error), CommitOutcome::Ok) => return Err(error),
            (_, outcome) => outcome,
        };
        self.settle(outcome, attempt)
            .map_err(|error| match error.kind() == Kind::UnknownOutcome {
                true => unconfirmed().with_cause(error),
                false => error,
            })
    }

    /// Returns the error for a commit that did not take place because of a newer lease. The owner
    /// may be another process by now, or this one again, so the request is best forwarded.
    fn not_committed(&self) -> Error {
        // No request for the catalog is forwarded: the client sends the request again.
        match self.owners.are_forwarded() && self.storage_id != CATALOG_PARTITION {
            true => Error::not_owned(Some(self.storage_id.0)),
            false => did_not_happen(),
        }
    }

    /// Returns true if an attempt to commit took place. Decided under a newer lease than that of
    /// the commit, so that the commit cannot take place afterwards.
    ///
    /// # Errors
    /// When the partition is gone or the store fails: the outcome stays unknown.
    fn is_committed(&self, attempt: CommitAttempt) -> Result<bool> {
        // The log of a partition that is gone says nothing any more; a client that is sent to the
        // successor would write twice.
        drop(self.lock()?);
        self.is_logged(attempt)
    }

    /// Returns true if the durable commit log has an attempt to commit.
    fn is_logged(&self, attempt: CommitAttempt) -> Result<bool> {
        let snapshot = self.snapshot_in_any_phase()?;
        let row = snapshot.get(&keys::log(attempt.lsn));
        let row = row.map_err(storage_failure)?;
        let expected = writer::log_row(attempt.lsn, attempt.token);
        Ok(row.is_some_and(|row| row[..] == expected[..]))
    }
}

/// The state in memory.
impl Partition {
    /// Returns what the partition keeps in memory for its writer, as text, once everything that
    /// was accepted is durable. Opens the writer if there is none.
    ///
    /// # Errors
    /// As for [`Partition::lock`] and [`Partition::snapshot_with`].
    pub(crate) fn state_in_memory(&self) -> Result<String> {
        let mut writer = self.lock()?;
        let snapshot = self.snapshot_with(writer.lsn)?;
        writer.forget_durable(snapshot.head().lsn);
        let paths = self.paths_for_write()?.rows();
        let (ts, is_captured) = (self.last_commit_second(), self.is_captured());
        Ok(format!(
            "{}paths {paths:?}\nsecond {ts}, captured {is_captured}",
            *writer
        ))
    }
}

/// The owner, and the way of a partition from one owner to the next.
impl Partition {
    /// Returns true if this process owns the partition.
    pub fn is_owned(&self) -> bool {
        self.owners.owns(self.storage_id)
    }

    /// Checks that this process owns the partition.
    ///
    /// # Errors
    /// 503 with the number of the partition.
    pub fn check_owned(&self) -> Result<()> {
        match self.is_owned() {
            true => Ok(()),
            false => Err(Error::not_owned(Some(self.storage_id.0))),
        }
    }

    /// Checks that the part of the store which has the partition can be reached.
    ///
    /// # Errors
    /// 503 if it is known to be away.
    pub(crate) fn check_reachable(&self) -> Result<()> {
        let reachable = self.store.check_reachable(self.storage_id);
        reachable.map_err(storage_failure)
    }

    /// Returns true if this process may read the partition.
    pub fn is_readable(&self) -> bool {
        self.owners.reads_all() || self.is_owned()
    }

    /// Checks that this process may read the partition.
    fn check_readable(&self) -> Result<()> {
        match self.owners.reads_all() {
            true => Ok(()),
            false => self.check_owned(),
        }
    }

    /// Lets a request of several commits end before the partition is given up.
    pub fn begin_bulk(&self) -> RwLockReadGuard<'_, ()> {
        read(&self.bulk)
    }

    /// Drops the writer, once everything that it has accepted is durable. `mark` makes another
    /// process the owner, or none; no commit is accepted after it has returned true. Returns false
    /// if `mark` does, and while changes are captured for a split or merge; `mark` is not called
    /// then.
    ///
    /// # Errors
    /// 500 and 503 if the store does not answer. `mark` was called.
    pub fn give_up(&self, mark: impl FnOnce() -> bool) -> Result<bool> {
        let bulk = write(&self.bulk);
        let mut writer = lock(&self.writer);
        // A capture begins under the lock, and sees the commits of this process only.
        if self.is_captured() || !mark() {
            return Ok(false);
        }
        *writer = None;
        *lock(&self.granted_numbers) = None;
        self.stamps.forget_moments();
        self.hand_overs.fetch_add(1, Ordering::AcqRel);
        // The other process adds paths of its own.
        self.forget_paths();
        self.forget_codes();
        drop((writer, bulk));
        let released = self.store.release(self.storage_id);
        released.map_err(storage_failure).map(|()| true)
    }

    /// Opens a new writer, so that no commit of another process can take place any more.
    ///
    /// # Errors
    /// As for [`Partition::lock_in_any_phase`].
    pub fn fence(&self) -> Result<()> {
        let mut guard = lock(&self.writer);
        *guard = None;
        self.stamps.forget_moments();
        self.opened(guard).map(drop)
    }

    /// Returns a number that changes when the numbers of paths may be those of another process.
    pub(crate) fn hand_overs(&self) -> u64 {
        self.hand_overs.load(Ordering::Acquire)
    }

    /// Opens the writer of a partition that this process is about to own. `numbers` are the item
    /// numbers that the process may use.
    ///
    /// # Errors
    /// As for [`Partition::lock_in_any_phase`].
    pub fn take_over(&self, numbers: Range<ItemNumber>) -> Result<()> {
        let mut guard = lock(&self.writer);
        *lock(&self.granted_numbers) = Some(numbers);
        // A writer from before has counted on commits that another process has followed.
        *guard = None;
        self.stamps.forget_moments();
        self.opened(guard).map(drop)
    }

    /// Returns a number that no item of the container has had before.
    ///
    /// # Errors
    /// 500 if the store cannot be read; 503 if the numbers that were handed out are used up, so
    /// that the process that hands them out must take the partition back.
    pub(crate) fn new_item_number(&self, container: &dyn ContainerView) -> Result<ItemNumber> {
        match &mut *lock(&self.granted_numbers) {
            Some(numbers) => {
                let next = numbers.next();
                next.ok_or_else(|| Error::not_owned(Some(self.storage_id.0)))
            }
            None => container.new_item_number(),
        }
    }

    /// Returns a number above every number that [`Partition::new_item_number`] has returned.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn item_number_bound(&self, container: &dyn ContainerView) -> Result<ItemNumber> {
        match &*lock(&self.granted_numbers) {
            Some(numbers) => Ok(numbers.start),
            None => container.item_number_bound(),
        }
    }
}

/// Iterates over the rows of a key range, which excludes its end.
pub(crate) fn scan<'a>(
    snapshot: &'a dyn Snapshot,
    range: &(Vec<u8>, Vec<u8>),
    direction: Direction,
) -> impl Iterator<Item = Result<(Bytes, Bytes)>> + use<'a> {
    let bounds = (Bound::Included(&range.0[..]), Bound::Excluded(&range.1[..]));
    let rows = snapshot.scan(bounds, direction);
    rows.map(|row| row.map_err(storage_failure))
}

/// Returns the keys of a range.
pub(crate) fn keys_in<'a>(
    snapshot: &'a dyn Snapshot,
    range: &(Vec<u8>, Vec<u8>),
    direction: Direction,
) -> Box<dyn Keys + 'a> {
    let bounds = (Bound::Included(&range.0[..]), Bound::Excluded(&range.1[..]));
    snapshot.scan_keys(bounds, direction)
}

/// Returns what a function reads from each key of a range.
pub(crate) fn scan_keys<'a, T, F: FnMut(&[u8]) -> Result<T>>(
    snapshot: &'a dyn Snapshot,
    range: &(Vec<u8>, Vec<u8>),
    direction: Direction,
    mut read: F,
) -> impl Iterator<Item = Result<T>> + use<'a, T, F> {
    let mut keys = keys_in(snapshot, range, direction);
    std::iter::from_fn(move || {
        let key = keys.next_key()?;
        Some(key.map_err(storage_failure).and_then(&mut read))
    })
}

/// Attempts of an operation that finds its partition gone each time.
const ATTEMPTS: usize = 20;

/// Runs an operation, and runs it again if the partition that it found was gone when it came to use
/// it: the next attempt finds the successors. An operation that names a range that is gone fails
/// every time.
///
/// # Errors
/// The error of the operation.
pub(crate) fn retry_if_moved<T>(mut operation: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match operation() {
            Err(error) if error.kind() == Kind::PartitionKeyRangeGone => {}
            done => return done,
        }
    }
    operation()
}

/// Turns the error of background work whose partition is gone, completing, or owned by another
/// process into nothing done: the successors and the owner have their own turn. The same holds for
/// a partition with damaged data, which the operator knows of, so that the work of the other
/// partitions goes on.
///
/// # Errors
/// Every other error.
pub(crate) fn skip_if_moved<T: Default>(done: Result<T>) -> Result<T> {
    match done {
        Err(error)
            if matches!(
                error.kind(),
                Kind::PartitionKeyRangeGone
                    | Kind::CompletingSplit
                    | Kind::DataDamaged
                    | Kind::NotOwned
            ) =>
        {
            Ok(T::default())
        }
        done => done,
    }
}

/// Turns the error of background work whose partition is gone or completing into `None`: the work
/// is to be done later, in the partition or its successors.
///
/// # Errors
/// Every other error.
pub(crate) fn wait_while_moved<T>(done: Result<T>) -> Result<Option<T>> {
    skip_if_moved(done.map(Some))
}

/// Waits until a commit of background work is durable. If the commit failed, the writer is dropped,
/// because it builds on a commit that may not have taken place.
///
/// # Errors
/// As for [`Partition::settle`].
pub(crate) fn wait_durable(partition: &Partition, commit: SubmittedCommit) -> Result<()> {
    partition.settle(commit.receipt.wait(), commit.attempt)
}
