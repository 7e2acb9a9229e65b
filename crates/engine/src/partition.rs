//! One physical partition: a stretch of the hash space, its history, and its one writer.
//!
//! A write is ordered under the writer's lock and durable later: [`Writer::submit`] hands the commit to the store and
//! returns at once, so the lock is held for computing and never for a sync. Until a commit is durable, its rows wait in
//! `pending`, where the next write of this partition sees them and nobody else does; readers take snapshots, which hold
//! durable commits only.
//!
//! A partition that is split or merged goes through three phases: it serves, it is completing (a moment in which nobody
//! may use it), it is gone and others have taken its place. Whoever holds one that is gone is told so by
//! [`Partition::lock`] and [`Partition::snapshot`], and looks again which partition there is.
//!
//! If the store does not know what became of a commit, the writer is dropped; the next one opens a newer lease, and the
//! commit log says whether the commit took place ([`Partition::is_committed`]).

pub mod change_capture;
pub mod container_view;
mod counts;
mod dictionary;
pub mod item;
mod item_rows;
pub mod key_deletion;
pub mod keys;
pub mod row;
pub mod row_reader;
pub mod session;
pub mod staging;
pub mod transaction;
pub mod versions;
pub mod visibility;
mod writer;

pub use counts::{Counters, summary_rows};
pub use dictionary::PathsRef;
pub use writer::{CommitChanges, SubmittedCommit, WriteBlock, Writer, WriterGuard, token_of};

use crate::errors::{gone_error, outcome_error, storage_failure};
use crate::index::generations::PolicyGenerations;
use crate::index::paths::Paths;
use crate::request::Position;
use crate::throughput::Meter;
use bytes::Bytes;
use change_capture::ChangeCapture;
use orrery_model::partition_key::EpkRange;
use orrery_model::{Error, Kind, Result};
use orrery_storage::{Direction, PartitionId, Receipt, Snapshot, Store, Token};
use std::ops::Bound;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A physical partition.
pub struct Partition {
    /// The partition key range id that clients see.
    pub id: u32,
    /// All ranges that it came from, oldest first.
    pub parents: Vec<u32>,
    /// Its stretch of the hash space.
    pub range: EpkRange,
    /// Its place in the store.
    pub home: PartitionId,
    /// Which life of its container it belongs to: the millisecond of the container's creation.
    pub version: u64,
    /// Changes up to this LSN stand in the order of several histories that were merged, not in that of time.
    pub mixed_until: u64,
    /// Its budget, and the account of what it served.
    pub(crate) meter: Arc<Meter>,
    store: Arc<dyn Store>,
    writer: Mutex<Option<Writer>>,
    paths: RwLock<Option<Paths>>,
    phase: AtomicU8,
    change_capture: Mutex<Option<ChangeCapture>>,
}

/// Whether a partition may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It is read and written.
    Serving = 0,
    /// Others are about to take its place; for now nobody may use it.
    Completing = 1,
    /// Others have taken its place.
    Gone = 2,
}

impl Partition {
    /// A partition that exists in the store, or is about to.
    pub fn new(
        store: Arc<dyn Store>,
        id: u32,
        parents: Vec<u32>,
        range: EpkRange,
        home: PartitionId,
        version: u64,
    ) -> Self {
        Partition {
            id,
            parents,
            range,
            home,
            version,
            mixed_until: 0,
            meter: Arc::default(),
            store,
            writer: Mutex::new(None),
            paths: RwLock::new(None),
            phase: AtomicU8::new(Phase::Serving as u8),
            change_capture: Mutex::new(None),
        }
    }

    /// The same with changes of merged histories.
    pub fn mixed_until(self, lsn: u64) -> Self {
        Partition {
            mixed_until: lsn,
            ..self
        }
    }

    /// Writes the first commit of a new partition, LSN 1, which holds nothing.
    pub fn create(&self) -> Result<Receipt> {
        let mut writer = self.lock()?;
        Ok(writer.submit(self, CommitChanges::default(), 0).receipt)
    }

    /// A place in this partition's history.
    pub fn position(&self, lsn: u64, item_lsn: Option<u64>) -> Position {
        Position {
            range_id: self.id,
            version: self.version,
            lsn,
            item_lsn,
        }
    }

    /// The end of what is durable; the beginning if nobody can say.
    pub fn position_now(&self) -> Position {
        self.position(
            self.snapshot().map_or(0, |snapshot| snapshot.head().lsn),
            None,
        )
    }

    /// What is durable now.
    ///
    /// # Errors
    /// 410 if others have taken the partition's place, or are about to.
    pub fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.stored()?;
        // Asked afterwards: what is taken before a partition is gone has all that was ever written to it.
        self.check_phase()?;
        Ok(snapshot)
    }

    /// What is durable now, for whoever only asks how much there is: also while the partition is completing.
    ///
    /// # Errors
    /// 410/1002 if others have taken the partition's place.
    pub fn snapshot_while_completing(&self) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.stored()?;
        match self.check_phase() {
            Err(error) if error.kind() == Kind::PartitionKeyRangeGone => Err(error),
            _ => Ok(snapshot),
        }
    }

    /// What is durable now, for whoever is taking its place.
    pub fn stored(&self) -> Result<Box<dyn Snapshot>> {
        self.store.snapshot(self.home).map_err(storage_failure)
    }

    /// Whether it may be used.
    ///
    /// # Errors
    /// 410/1007 while it is completing, 410/1002 when it is gone.
    fn check_phase(&self) -> Result<()> {
        match self.phase.load(Ordering::Acquire) {
            serving if serving == Phase::Serving as u8 => Ok(()),
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

    /// Goes over into a phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Begins to remember what commits change.
    ///
    /// # Errors
    /// 409 if somebody does so already; 410 and what the store reports.
    pub fn start_change_capture(&self) -> Result<()> {
        let _writer = self.lock()?;
        let mut change_capture = self
            .change_capture
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if change_capture.is_some() {
            return Err(Error::new(
                Kind::Conflict,
                format!(
                    "The partition key range {} is being split or merged already.",
                    self.id
                ),
            ));
        }
        *change_capture = Some(ChangeCapture::default());
        Ok(())
    }

    /// Takes what was remembered of commits up to an LSN.
    ///
    /// # Errors
    /// 449 if something is missing from it.
    pub fn take_captured(&self, up_to: u64) -> Result<Vec<change_capture::CapturedCommit>> {
        let mut change_capture = self
            .change_capture
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        change_capture.as_mut().map_or_else(
            || Ok(Vec::new()),
            |change_capture| change_capture.take(up_to),
        )
    }

    /// Remembers no more.
    pub fn stop_change_capture(&self) {
        *self
            .change_capture
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What is durable, commit `lsn` included; waits for it if need be.
    pub fn snapshot_with(&self, lsn: u64) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.snapshot()?;
        if snapshot.head().lsn >= lsn {
            return Ok(snapshot);
        }
        drop(snapshot);
        self.sync()?;
        self.snapshot()
    }

    /// Waits until everything accepted so far is durable.
    pub fn sync(&self) -> Result<()> {
        self.store.sync().map_err(storage_failure)
    }

    /// Which items follow which policy in a snapshot.
    pub fn generations(snapshot: &dyn Snapshot) -> Result<PolicyGenerations> {
        let Some(row) = snapshot
            .get(&keys::policy_generations())
            .map_err(storage_failure)?
        else {
            return Ok(PolicyGenerations::default());
        };
        PolicyGenerations::decode(&row)
            .ok_or_else(|| Error::internal("the row of index generations is damaged"))
    }

    /// The LSN after which versions are kept in a snapshot, if they are.
    pub fn versions_after(snapshot: &dyn Snapshot) -> Result<Option<u64>> {
        let Some(row) = snapshot
            .get(&keys::versions_floor())
            .map_err(storage_failure)?
        else {
            return Ok(None);
        };
        keys::number(&row)
            .map(Some)
            .ok_or_else(|| Error::internal("the row of kept versions is damaged"))
    }

    /// The writer; opened if need be.
    ///
    /// # Errors
    /// 503 if the store cannot be written now, 410 if others have taken the partition's place, or are about to.
    pub fn lock(&self) -> Result<WriterGuard<'_>> {
        let guard = self.lock_in_any_phase()?;
        self.check_phase()?;
        Ok(guard)
    }

    /// The writer in any phase, for whoever is taking the partition's place.
    ///
    /// # Errors
    /// As for [`Partition::lock`], but for 410.
    pub fn lock_in_any_phase(&self) -> Result<WriterGuard<'_>> {
        let mut guard = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            *guard = Some(Writer::open(self)?);
        }
        Ok(WriterGuard(guard))
    }

    /// Keeps everybody from writing until the result is gone. Opens no writer for it.
    pub fn block_writes(&self) -> WriteBlock<'_> {
        WriteBlock {
            _writer: self.writer.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Gives the writer up after an outcome that is not known; the next write opens a new one.
    pub fn abandon_writer(&self) {
        if let Some(change_capture) = &mut *self
            .change_capture
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            // What was remembered may never have taken place.
            change_capture.mark_incomplete();
        }
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the commit that carried `token` as LSN `lsn` took place, decided with a lease newer than its own.
    pub fn is_committed(&self, lsn: u64, token: Token) -> Result<bool> {
        self.abandon_writer();
        // Of one that is gone nothing can be told any more, and a client that is sent elsewhere would do it twice.
        drop(
            self.lock()
                .map_err(|_| Error::internal("the outcome of a commit is not known"))?,
        );
        let row = self
            .stored()?
            .get(&keys::log(lsn))
            .map_err(storage_failure)?;
        Ok(row.is_some_and(|row| row[..] == writer::log_row(lsn, token)[..]))
    }
}

/// The rows of a range of keys.
pub fn scan<'a>(
    snapshot: &'a dyn Snapshot,
    range: &(Vec<u8>, Vec<u8>),
    direction: Direction,
) -> impl Iterator<Item = Result<(Bytes, Bytes)>> + use<'a> {
    let bounds = (Bound::Included(&range.0[..]), Bound::Excluded(&range.1[..]));
    snapshot
        .scan(bounds, direction)
        .map(|row| row.map_err(storage_failure))
}

/// Tries of an operation whose partitions are gone each time it comes to use them.
const TRIES: usize = 20;

/// Does an operation, and again if the partition that it had found was gone when it came to use it: others have taken
/// its place then, and are found next time. What names a range that is gone fails each time.
///
/// # Errors
/// What the operation says.
pub fn retry_if_moved<T>(mut operation: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match operation() {
            Err(error) if error.kind() == Kind::PartitionKeyRangeGone => {}
            done => return done,
        }
    }
    operation()
}

/// Work beside requests that found its partition gone, or about to be: it is for those that take its place.
///
/// # Errors
/// Every other one.
pub fn skip_if_moved<T: Default>(done: Result<T>) -> Result<T> {
    match done {
        Err(error)
            if matches!(
                error.kind(),
                Kind::PartitionKeyRangeGone | Kind::CompletingSplit
            ) =>
        {
            Ok(T::default())
        }
        done => done,
    }
}

/// Waits for a commit of work beside requests. If it failed the writer is given up: it believes in what may not have
/// taken place, and the next one looks.
///
/// # Errors
/// What the store reports.
pub fn wait_durable(partition: &Partition, ordered: SubmittedCommit) -> Result<()> {
    let Some(error) = outcome_error(&ordered.receipt.wait()) else {
        return Ok(());
    };
    partition.abandon_writer();
    Err(error)
}
