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
//! commit log says whether the commit took place ([`Partition::took_place`]).

mod counts;
mod dictionary;
mod writer;

pub use counts::{Counters, summary_rows};
pub use dictionary::PathsRef;
pub use writer::{Changes, Ordered, Still, Writer, WriterGuard, token_of};

use crate::index::paths::Paths;
use crate::index::stretches::Stretches;
use crate::keys;
use crate::recording::Recording;
use crate::request::Position;
use crate::throughput::Meter;
use bytes::Bytes;
use orrery_model::partition_key::EpkRange;
use orrery_model::{Error, Kind, Result};
use orrery_storage::{
    CommitOutcome, Direction, PartitionId, Receipt, Snapshot, Store, StoreError, Token,
};
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
    recording: Mutex<Option<Recording>>,
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
            recording: Mutex::new(None),
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
        Ok(writer.submit(self, Changes::default(), 0).receipt)
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
    pub fn survey(&self) -> Result<Box<dyn Snapshot>> {
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
    pub fn record(&self) -> Result<()> {
        let _writer = self.lock()?;
        let mut recording = self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if recording.is_some() {
            return Err(Error::new(
                Kind::Conflict,
                format!(
                    "The partition key range {} is being split or merged already.",
                    self.id
                ),
            ));
        }
        *recording = Some(Recording::default());
        Ok(())
    }

    /// Takes what was remembered of commits up to an LSN.
    ///
    /// # Errors
    /// 449 if something is missing from it.
    pub fn recorded(&self, up_to: u64) -> Result<Vec<crate::recording::Recorded>> {
        let mut recording = self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        recording
            .as_mut()
            .map_or_else(|| Ok(Vec::new()), |recording| recording.take(up_to))
    }

    /// Remembers no more.
    pub fn stop_recording(&self) {
        *self
            .recording
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
    pub fn stretches(snapshot: &dyn Snapshot) -> Result<Stretches> {
        let Some(row) = snapshot.get(&keys::stretches()).map_err(storage_failure)? else {
            return Ok(Stretches::default());
        };
        Stretches::decode(&row)
            .ok_or_else(|| Error::internal("the row of index stretches is damaged"))
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
        let guard = self.hold()?;
        self.check_phase()?;
        Ok(guard)
    }

    /// The writer in any phase, for whoever is taking the partition's place.
    ///
    /// # Errors
    /// As for [`Partition::lock`], but for 410.
    pub fn hold(&self) -> Result<WriterGuard<'_>> {
        let mut guard = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            *guard = Some(Writer::open(self)?);
        }
        Ok(WriterGuard(guard))
    }

    /// Keeps everybody from writing until the result is gone. Opens no writer for it.
    pub fn still(&self) -> Still<'_> {
        Still {
            _writer: self.writer.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Gives the writer up after an outcome that is not known; the next write opens a new one.
    pub fn abandon_writer(&self) {
        if let Some(recording) = &mut *self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            // What was remembered may never have taken place.
            recording.spoil();
        }
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the commit that carried `token` as LSN `lsn` took place, decided with a lease newer than its own.
    pub fn took_place(&self, lsn: u64, token: Token) -> Result<bool> {
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
pub fn again<T>(mut operation: impl FnMut() -> Result<T>) -> Result<T> {
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
pub fn unless_gone<T: Default>(done: Result<T>) -> Result<T> {
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

/// The error for a partition whose place others have taken.
pub fn gone_error(id: u32) -> Error {
    Error::new(
        Kind::PartitionKeyRangeGone,
        format!("The partition key range {id} is gone: it does not exist or was split."),
    )
}

/// A store's failure as a client's error: 503 where waiting may help, else 500.
pub fn storage_failure(error: StoreError) -> Error {
    Error::internal(error)
}

/// Waits for a commit of work beside requests. If it failed the writer is given up: it believes in what may not have
/// taken place, and the next one looks.
///
/// # Errors
/// What the store reports.
pub fn settled(partition: &Partition, ordered: Ordered) -> Result<()> {
    let Some(error) = outcome_error(&ordered.receipt.wait()) else {
        return Ok(());
    };
    partition.abandon_writer();
    Err(error)
}

/// What a commit's outcome means for the client that waits for it. `None`: it is durable.
pub fn outcome_error(outcome: &CommitOutcome) -> Option<Error> {
    match outcome {
        CommitOutcome::Ok => None,
        CommitOutcome::TooLarge => Some(Error::new(
            Kind::RequestEntityTooLarge,
            "The request changes more than one transaction may hold. Split it into smaller ones.",
        )),
        CommitOutcome::Fenced | CommitOutcome::Unknown => {
            Some(Error::internal("the outcome of a commit is not known"))
        }
        // Clients come back to a server that is busy, and keep away from one that is unavailable.
        CommitOutcome::Busy { retry_after_ms } => Some(
            Error::new(
                Kind::Throttled,
                "Too many writes wait to become durable. Retry later.",
            )
            .with_retry_after_ms(*retry_after_ms),
        ),
        CommitOutcome::Unavailable { retry_after_ms } => Some(
            Error::new(Kind::Unavailable, "The store cannot take writes now.")
                .with_retry_after_ms(*retry_after_ms),
        ),
    }
}
