//! The reopening of the database inside the process, after a write failed because a resource was
//! exhausted: disk space, descriptors, memory.
//!
//! After a failed write fjall refuses every later write, and the bytes that it has written since
//! the last sync are in doubt: the system may forget them although a later sync succeeds. So the
//! store does what a restart does. The steps, of which each may fail and is repeated later:
//!
//! 1. the high-water file gets the mark of the last acknowledged group, which a failed write may
//!    have passed;
//! 2. readers give the database up ([`Access::drain`]), and fjall is closed with its threads;
//! 3. all batches from the failed group on are cut from the journals, and the cut is synced, so
//!    that nothing rests on bytes that a failed sync may have lost;
//! 4. the journals are checked and fjall opens them, as at the start of the process;
//! 5. readers get the new database.
//!
//! Afterwards the commits of the failed group have definitely not happened, so callers that were
//! told nothing certain may go on. There is one exception: fjall may have flushed a memtable with
//! some of them before it was closed. The journals then keep the batches that a table holds,
//! written and synced once more; the store can be read, and writes again after a restart.
//!
//! A failure of the device (`EIO`) is never followed by this: only the next start of the process
//! reads what the device still holds.

use std::io;
use std::time::Duration;

use super::database::OpenDatabase;
use super::journal_cut::cut_journals;
use super::tables::{Tables, WriterState};
use super::{compare, journal, older_list, open_database};
use crate::error::StoreError;
use crate::ownership::OwnershipTable;
use orrery_model::sync;

/// The longest time that readers of the old database are waited for in one attempt.
const DRAIN_WAIT: Duration = Duration::from_secs(1);
/// Descriptors that must be free before the database is given up: those of journals, tables and
/// directories that opening needs at once.
const DESCRIPTORS_NEEDED: usize = 32;

/// Milliseconds that a caller is told to wait for the end of an exchange of the database.
const RETRY_MS: u64 = 1_000;

/// Returns the error for a caller that needs the database while it is being opened again.
pub(super) fn being_reopened() -> StoreError {
    StoreError::Unavailable {
        reason: "the store is being opened again after a failure",
        retry_after_ms: RETRY_MS,
        is_full: false,
    }
}

/// The resource that a failed write lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exhausted {
    /// Space on the disk, or a quota of it.
    Disk,
    /// Descriptors of the process or of the system.
    Descriptors,
    /// Memory of the system.
    Memory,
    /// A thread of fjall failed and told no cause.
    Unknown,
}

/// The failure of a group.
#[derive(Debug)]
pub(super) struct GroupFailure {
    pub(super) error: StoreError,
    /// The exhausted resource; `None` if only a restart helps.
    pub(super) exhausted: Option<Exhausted>,
}

impl GroupFailure {
    /// Creates the failure of a call of fjall.
    pub(super) fn of(store: &std::path::Path, error: &fjall::Error) -> GroupFailure {
        let exhausted = match error {
            fjall::Error::Io(e) | fjall::Error::Storage(fjall::LsmError::Io(e)) => exhausted_by(e),
            fjall::Error::Poisoned => Some(Exhausted::Unknown),
            _ => None,
        };
        GroupFailure {
            error: super::database::store_error(store, error),
            exhausted,
        }
    }
}

impl From<StoreError> for GroupFailure {
    fn from(error: StoreError) -> GroupFailure {
        let exhausted = match &error {
            StoreError::Io { source, .. } => exhausted_by(source),
            _ => None,
        };
        GroupFailure { error, exhausted }
    }
}

/// Returns the resource that an error of the operating system names.
pub(super) fn exhausted_by(error: &io::Error) -> Option<Exhausted> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(Exhausted::Disk),
        io::ErrorKind::OutOfMemory => Some(Exhausted::Memory),
        // ENFILE and EMFILE have these numbers on every Unix.
        _ if cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24)) => {
            Some(Exhausted::Descriptors)
        }
        _ => None,
    }
}

/// The state of a store whose database was reopened.
pub(super) struct Reopened {
    /// The owners of all partitions.
    pub(super) ownership: OwnershipTable,
    /// No commit of the failed group happened.
    pub(super) is_group_cut: bool,
}

/// The batches to cut from the journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The sequence number from which on batches belong to the failed group.
    pub(super) from: u64,
    /// The highest sequence number that a table holds.
    pub(super) persisted: u64,
}

impl Tables {
    /// Returns true if the resource seems to be there again.
    pub(super) fn has_exhausted_resource(&self, exhausted: Exhausted) -> bool {
        // A lack of one resource is often met together with another, and an unknown cause may be
        // any of them.
        match exhausted {
            Exhausted::Descriptors | Exhausted::Memory => self.has_descriptors(),
            Exhausted::Disk | Exhausted::Unknown => {
                self.has_descriptors() && self.space.has_space_for_sure()
            }
        }
    }

    /// Returns the resource that is missing now, if a thread of fjall failed without telling why.
    pub(super) fn likely_cause(&self, exhausted: Option<Exhausted>) -> Option<Exhausted> {
        if exhausted != Some(Exhausted::Unknown) {
            return exhausted;
        }
        if self.space.is_low_now() {
            return Some(Exhausted::Disk);
        }
        if !self.has_descriptors() {
            return Some(Exhausted::Descriptors);
        }
        exhausted
    }

    fn has_descriptors(&self) -> bool {
        let mut files = Vec::with_capacity(DESCRIPTORS_NEEDED);
        for _ in 0..DESCRIPTORS_NEEDED {
            match std::fs::File::open(self.directory.root()) {
                Ok(file) => files.push(file),
                Err(_) => return false,
            }
        }
        true
    }

    /// Closes the database, cuts the failed group from the journals and opens the database again.
    /// The caller leads, so no group is being written. `accepted` is the table of owners with the
    /// commits that were accepted.
    ///
    /// # Errors
    /// When readers hold the old database for too long, or a step fails. A later call goes on from
    /// there.
    pub(super) fn reopen_database(
        &self,
        accepted: &OwnershipTable,
    ) -> Result<Reopened, StoreError> {
        self.access.exchange(|| self.exchange_database(accepted))
    }

    fn exchange_database(&self, accepted: &OwnershipTable) -> Result<Reopened, StoreError> {
        let mut writer = sync::lock(&self.writer);
        if !self.access.is_closed() {
            let mark = writer.mark;
            writer.high_water.write_both(mark)?;
            if !self.has_descriptors() {
                return Err(StoreError::Poisoned {
                    detail: "descriptors are exhausted".to_owned(),
                });
            }
            let Some(database) = self.access.drain(DRAIN_WAIT) else {
                return Err(StoreError::Poisoned {
                    detail: "readers hold the database".to_owned(),
                });
            };
            let persisted = database.close();
            writer.cut = writer.failed_from.map(|from| Cut { from, persisted });
        }
        let (database, is_group_cut) = self.open_cut(&mut writer)?;
        let recovered = database.recover_heads()?;
        self.access.reopen(database, recovered.heads());
        Ok(Reopened {
            ownership: accepted.after_reopening(recovered.ownership, recovered.epoch_floor),
            is_group_cut,
        })
    }

    /// Cuts the journals and opens the database.
    fn open_cut(&self, writer: &mut WriterState) -> Result<(OpenDatabase, bool), StoreError> {
        let store = self.directory.store();
        let mut is_group_cut = true;
        if let Some(cut) = writer.cut {
            cut_journals(&store, cut)?;
            is_group_cut = cut.persisted < cut.from;
        }
        self.directory.check_parts()?;
        let contents = journal::inspect(&store, Some(writer.mark))?;
        older_list::check_lists(&self.directory, &contents, Some(writer.mark))?;
        journal::cut_torn_tail(&contents)?;
        let database = open_database(&self.directory, &self.options, false)?;
        compare(&store, &database, &contents, Some(writer.mark))?;
        // A journal that was cut is another file now.
        if let Some(kept) = &self.kept_journals {
            kept.link_all()?;
        }
        writer.mark = database.mark()?;
        writer.ungrouped_from = contents.ungrouped_from;
        writer.failed_from = None;
        writer.cut = None;
        Ok((database, is_group_cut))
    }
}

/// A place between the writing of a group and its sync, at which a test can let the group fail.
#[derive(Default)]
pub(super) struct FaultPoint {
    #[cfg(test)]
    planned: std::sync::Mutex<Option<(fjall::Error, bool)>>,
}

impl FaultPoint {
    /// Lets the next group fail with this error, after its rows are flushed into tables if
    /// `is_flushed`.
    #[cfg(test)]
    pub(super) fn plan(&self, error: fjall::Error, is_flushed: bool) {
        *sync::lock(&self.planned) = Some((error, is_flushed));
    }

    /// Fails if a test has planned it.
    #[cfg(test)]
    pub(super) fn pass(&self, database: &OpenDatabase) -> Result<(), fjall::Error> {
        let Some((error, is_flushed)) = sync::lock(&self.planned).take() else {
            return Ok(());
        };
        if is_flushed {
            database.rows.rotate_memtable_and_wait()?;
        }
        Err(error)
    }

    /// Does nothing outside of tests.
    #[cfg(not(test))]
    pub(super) fn pass(&self, _: &OpenDatabase) -> Result<(), fjall::Error> {
        Ok(())
    }
}
