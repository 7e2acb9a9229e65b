//! The local engine: a data directory on one machine, on fjall, with a group commit and a guard
//! against truncated logs of its own.
//!
//! - `directory.rs`: the layout of the directory, the format file, the lock;
//! - `high_water.rs` and `journal.rs`: the check that the log is complete, made before fjall may
//!   touch it;
//! - `keys.rs`: the keys in fjall; `database.rs`: the opening of fjall;
//! - `committer.rs`: the order of writes and syncs; `tables.rs`: the writing of one group;
//!   `access.rs` and `snapshot.rs`: reads;
//! - `repair.rs`: lost commits, before their loss is accepted;
//! - `space.rs`: the limits of free space and the reserve; `reopening.rs` and `journal_cut.rs`: the
//!   way back after a failed write;
//! - `checkpoint.rs`: links to all files at one moment, for a backup;
//! - `kept_journals.rs`, `journal_log.rs` and `log_extension.rs`: the journals as a log that a
//!   continuous backup copies, and that extends a copy of the directory;
//! - `maintenance.rs`: compactions and the check of all blocks; `blocks.rs`: the blocks of a table;
//!   `damage.rs`: the list of damaged blocks; `diagnosis.rs`: the damaged file behind a refusal;
//! - `older_list.rs`: the way back from a list of tables that was not finished.
//!
//! Promised beyond the trait: opening gives every acknowledged commit, or refuses with the name of
//! a file; a directory is used by one process at a time; after a failed write or sync no commit is
//! acknowledged until the database was opened again. A write that failed for want of space,
//! descriptors or memory is followed by this opening inside the process, as soon as there is enough
//! again; after any other failure only the next start of the process writes. A damaged block of a
//! table stops the writes of its partitions only.
//!
//! Left out: damage inside a table is found when the block is read (block checksums), not at open.

mod access;
mod blocks;
mod checkpoint;
mod committer;
mod damage;
mod database;
mod diagnosis;
mod directory;
mod high_water;
mod journal;
mod journal_cut;
mod journal_log;
mod kept_journals;
mod keys;
#[cfg(test)]
mod local_tests;
mod log_extension;
mod maintenance;
mod older_list;
mod reopening;
mod repair;
mod snapshot;
mod space;
mod tables;

use orrery_model::metrics::HistogramSnapshot;
use std::any::Any;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use self::committer::{Committer, Slot, Ticket};
use self::damage::DamageList;
use self::database::{OpenDatabase, check_not_ahead};
use self::directory::{Directory, RESTORE_ADVICE, Stage};
use self::high_water::{ACCEPT_ADVICE, HighWater, Mark};
use self::journal::JournalContents;
use self::maintenance::Maintenance;
use self::snapshot::LocalSnapshot;
use self::space::{Accepted, SpaceWatch};
use self::tables::{Tables, WriteTask};

pub use self::diagnosis::FileFault;
pub use self::directory::FORMAT;
pub use self::kept_journals::{LogClock, LogKeeping};
pub use self::log_extension::LogExtension;
pub use self::repair::{Loss, LostCommit};
use crate::checkpoint::Checkpoint;
use crate::commit::{Commit, CommitOutcome, Limits, PartitionId};
use crate::damage::{Damage, ScrubProgress};
use crate::error::StoreError;
use crate::journal_log::JournalLog;
use crate::ownership::{Ownership, OwnershipTable, check_partition};
use crate::receipt::Receipt;
use crate::store::{Capabilities, DamageReport, Direction, Lease, Snapshot, Store};

/// The options with which a local store is opened.
#[derive(Clone, Copy, Debug)]
pub struct LocalOptions {
    /// Memory for blocks of tables, in bytes. The process was measured to use up to twice this
    /// value: give half of the memory that it may use.
    pub cache_bytes: u64,
    /// Files of tables that stay open between two reads, at least 10.
    pub open_tables: usize,
    /// Threads for flushes and compactions. One is best on two cores.
    pub worker_threads: usize,
    /// Bytes of the reserve file, which is released when the disk is full, so that deletions and
    /// compactions go on. At most an eighth of the file system; 0 for no reserve.
    pub reserve_bytes: u64,
    /// Opens a store whose log is truncated, or whose high-water file is missing, with the commits
    /// that are left. Acknowledged commits may be missing afterwards: for a person to decide, once,
    /// after the refusal said what is lost.
    pub accept_loss: bool,
    /// Gives up the keys of all damaged blocks, so that their partitions take commits again. The
    /// caller must be able to live with any missing key, index entries included.
    pub accept_damage: bool,
    /// Bytes per second that the regular check of all blocks reads; 0 for no check.
    pub scrub_bytes_per_second: u64,
    /// Bytes from which on a memtable is sealed and written to a table.
    pub memtable_bytes: u64,
    /// The keeping of journals for a continuous backup: see [`Store::journal_log`].
    pub log: LogKeeping,
}

impl Default for LocalOptions {
    fn default() -> LocalOptions {
        LocalOptions {
            cache_bytes: 64 << 20,
            open_tables: 900,
            worker_threads: 1,
            reserve_bytes: 0,
            accept_loss: false,
            accept_damage: false,
            scrub_bytes_per_second: 4 << 20,
            memtable_bytes: 16 << 20,
            log: LogKeeping::Off,
        }
    }
}

/// A store in a data directory. Dropping it waits until every accepted commit is durable.
pub struct LocalStore {
    committer: Arc<Committer<Tables>>,
    /// Ended before the committer is closed.
    maintenance: Option<Maintenance>,
}

impl LocalStore {
    /// Opens the data directory, and creates it if there is none.
    ///
    /// # Errors
    /// When another process uses the directory, or when it is not a data directory, has another
    /// format, or is damaged; see [`StoreError`].
    pub fn open(path: impl AsRef<Path>, options: LocalOptions) -> Result<LocalStore, StoreError> {
        LocalStore::open_watched(path.as_ref(), options, SpaceWatch::start)
    }

    /// Returns true if a directory holds a store that was created completely. [`LocalStore::open`]
    /// creates a new one otherwise.
    ///
    /// # Errors
    /// When the directory cannot be read, or has another format.
    pub fn is_created(path: impl AsRef<Path>) -> Result<bool, StoreError> {
        directory::is_ready(path.as_ref())
    }

    fn open_watched(
        path: &Path,
        options: LocalOptions,
        watch: impl FnOnce(&Path, u64) -> SpaceWatch,
    ) -> Result<LocalStore, StoreError> {
        let directory = Directory::claim(path)?;
        // The reserve is released here if the disk is full, so that the store can be opened.
        let space = watch(directory.root(), options.reserve_bytes);
        let store = directory.store();
        LocalStore::open_claimed(directory, options, space)
            .map_err(|error| diagnosis::name_file(&store, error))
    }

    fn open_claimed(
        directory: Directory,
        options: LocalOptions,
        space: SpaceWatch,
    ) -> Result<LocalStore, StoreError> {
        let is_new = directory.stage == Stage::Creating;
        let (database, mark, ungrouped_from) = if is_new {
            // A creation that did not finish acknowledged nothing, so its files may go.
            directory.remove_unfinished()?;
            let database = open_database(&directory, &options, true)?;
            (database, Mark::default(), None)
        } else {
            open_checked(&directory, &options)?
        };
        let high_water = HighWater::create(&directory.high_water(), mark)?;
        let damage = DamageList::open(directory.damage(), directory.store())?;
        let (mut tables, recovered) = Tables::start(
            database,
            directory,
            high_water,
            ungrouped_from,
            options,
            space,
            damage,
        )?;
        if options.accept_damage {
            tables.accept_damage()?;
        }
        if is_new {
            // The format file says "ready" only when all parts are on disk: from then on a missing
            // part is damage.
            tables.sync_mark()?;
            tables.directory_mut().check_parts()?;
            tables.directory_mut().sync_new_parts()?;
            tables.directory_mut().mark_ready()?;
        }
        let ownership = OwnershipTable::new(recovered.ownership, recovered.epoch_floor);
        let committer = Arc::new(Committer::new(tables, ownership));
        let maintenance = Maintenance::start(committer.clone(), options.scrub_bytes_per_second)?;
        Ok(LocalStore {
            committer,
            maintenance: Some(maintenance),
        })
    }

    /// Describes the commits that a data directory lost and for which [`LocalStore::open`] refuses
    /// it; `None` if its journals are complete. Changes nothing.
    ///
    /// # Errors
    /// When the directory does not exist or is in use, or when its damage is of another kind:
    /// [`LocalOptions::accept_loss`] does not help then.
    pub fn examine(path: impl AsRef<Path>) -> Result<Option<Loss>, StoreError> {
        repair::examine(path.as_ref())
    }

    /// Checks that no other process uses a data directory. Reads none of its data.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process uses the directory; others when it does not exist
    /// or has another format.
    pub fn check_unused(path: impl AsRef<Path>) -> Result<(), StoreError> {
        Directory::claim_existing(path.as_ref()).map(drop)
    }

    /// Returns the files of a data directory that are not as written, each with its fault. Journals
    /// are left out, which [`LocalStore::examine`] reads, and the blocks of tables, which an open
    /// store checks. Changes nothing.
    ///
    /// # Errors
    /// When the directory does not exist, is in use, or was not created completely.
    pub fn file_faults(path: impl AsRef<Path>) -> Result<Vec<FileFault>, StoreError> {
        let directory = Directory::claim_existing(path.as_ref())?;
        directory.check_parts()?;
        Ok(diagnosis::faults(
            directory.root(),
            &directory.store(),
            &directory.high_water(),
        ))
    }

    /// Waits for a submitted task and turns its outcome into a result.
    fn finish(&self, submitted: Result<Arc<Slot>, CommitOutcome>) -> Result<(), StoreError> {
        let outcome = match submitted {
            Ok(slot) => self.committer.wait(&slot),
            Err(refusal) => refusal,
        };
        let failure = self.committer.failure();
        let (retry_after_ms, is_full) = match (outcome, failure) {
            (CommitOutcome::Ok, _) => return Ok(()),
            (_, Some(failure)) if failure.exhausted.is_none() => {
                return Err(StoreError::Poisoned {
                    detail: failure.detail,
                });
            }
            (CommitOutcome::StorageFull { retry_after_ms }, _) => (retry_after_ms, true),
            (CommitOutcome::Busy { retry_after_ms }, _)
            | (CommitOutcome::Unavailable { retry_after_ms }, _) => (retry_after_ms, false),
            _ => (RETRY_MS, false),
        };
        let reason = match (outcome, is_full) {
            (_, true) => "the disk is full",
            (CommitOutcome::Busy { .. }, _) => "too much work is waiting for the disk",
            _ => "the store takes no writes now, since a resource of the system is exhausted",
        };
        Err(StoreError::Unavailable {
            reason,
            retry_after_ms,
            is_full,
        })
    }

    /// Returns the answer to a commit that would be refused whatever it holds.
    fn refusal_of(&self, may_use_reserve: bool) -> Option<CommitOutcome> {
        if let Some(refusal) = self.committer.refusal() {
            return Some(refusal);
        }
        let is_accepted = match self.committer.sink().space.look_if_low() {
            Accepted::All => true,
            Accepted::Deletions => may_use_reserve,
            Accepted::Nothing => false,
        };
        (!is_accepted).then_some(CommitOutcome::StorageFull {
            retry_after_ms: RETRY_MS,
        })
    }
}

/// Milliseconds that a caller is told to wait for space on the disk.
const RETRY_MS: u64 = 1_000;

/// Opens a finished directory: reads the journals, lets fjall open the database, and compares the
/// two. Returns the database, the mark of its last group, and the sequence number of the first
/// batch without a group record, if there is one.
fn open_checked(
    directory: &Directory,
    options: &LocalOptions,
) -> Result<(OpenDatabase, Mark, Option<u64>), StoreError> {
    let store = directory.store();
    directory.check_parts()?;
    // Without a mark the journals may end anywhere: that is what accepting a loss means.
    let mark = if options.accept_loss {
        None
    } else {
        Some(HighWater::read(&directory.high_water())?)
    };
    let contents = journal::inspect(&store, mark)?;
    older_list::check_lists(directory, &contents, mark)?;
    if mark.is_none() {
        check_not_ahead(&store, contents.last_sequence)?;
    }
    journal::cut_torn_tail(&contents)?;
    journal::rewrite_unacknowledged(&contents)?;
    let database = open_database(directory, options, false)?;
    compare(&store, &database, &contents, mark)?;
    let mark = database.mark()?;
    Ok((database, mark, contents.ungrouped_from))
}

/// Checks that the open database holds every group commit of the journals, up to the high-water
/// mark.
fn compare(
    store: &Path,
    database: &OpenDatabase,
    contents: &JournalContents,
    mark: Option<Mark>,
) -> Result<(), StoreError> {
    let groups = database.groups()?;
    if let Some((first, last)) = contents.groups {
        // The journals must go on where the flushed tables end.
        let (first, last) = (first.mark.group, last.mark.group);
        if first > groups.persisted + 1 {
            let detail = format!(
                "the oldest journal left begins at group commit {first}, but the tables end at {}: \
                 a journal between them is missing. {RESTORE_ADVICE}",
                groups.persisted
            );
            return Err(StoreError::damaged(&journal::oldest(store), detail));
        }
        // fjall must have replayed the journals to their end.
        if groups.last < last {
            let detail = format!(
                "the tables end at group commit {} and the journals at {last}. {RESTORE_ADVICE}",
                groups.last
            );
            return Err(StoreError::damaged(&groups.lagging, detail));
        }
    }
    // The last group must be the acknowledged one, or a later one.
    let Some(mark) = mark else {
        return Ok(());
    };
    if groups.last < mark.group {
        return Err(journal::truncated_log(store, groups.last, mark.group));
    }
    if groups.last == mark.group && database.mark()? != mark {
        let detail = format!(
            "it and the tables do not belong together (group commit {}). {RESTORE_ADVICE}. \
             {ACCEPT_ADVICE}",
            groups.last
        );
        return Err(StoreError::damaged(
            &store.with_file_name("high-water"),
            detail,
        ));
    }
    Ok(())
}

/// Opens the database of fjall. fjall panics on some kinds of damage; a panic here means the same
/// as an error.
fn open_database(
    directory: &Directory,
    options: &LocalOptions,
    is_new: bool,
) -> Result<OpenDatabase, StoreError> {
    let store = directory.store();
    let opened = catch_unwind(AssertUnwindSafe(|| {
        OpenDatabase::open(&store, options, is_new)
    }));
    match opened {
        Ok(result) => result,
        Err(panic) => {
            let text = panic_text(panic.as_ref());
            let detail = format!("the tables cannot be opened ({text}). {RESTORE_ADVICE}");
            Err(StoreError::damaged(&store, detail))
        }
    }
}

/// Returns the message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<String>() {
        return text;
    }
    match panic.downcast_ref::<&str>() {
        Some(text) => text,
        None => "no reason given",
    }
}

impl Store for LocalStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        check_partition(partition)?;
        let mut raised = None;
        let slot = self.committer.submit(0, |ownership| {
            let lease = raised.insert(ownership.raise_epoch(partition));
            Ok(WriteTask::RaiseEpoch {
                partition,
                ownership: Ownership {
                    epoch: lease.epoch(),
                    head: lease.head(),
                },
            })
        });
        self.finish(slot)?;
        raised.ok_or_else(|| StoreError::Poisoned {
            detail: "the epoch was not raised".to_owned(),
        })
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let damage = self.committer.sink().damage();
        if damage.of_partition(lease.partition()).is_some() {
            return Receipt::ready(CommitOutcome::Damaged);
        }
        // The commit is prepared before its place in the queue is known, so that the queue is
        // locked for the comparison of the head and no longer.
        let (expect_lsn, head, bytes) = (commit.expect_lsn, commit.new_head(), commit.bytes());
        if let Some(refusal) = self.refusal_of(commit.may_use_reserve) {
            return Receipt::ready(refusal);
        }
        let within_limits = Limits::ENVELOPE.admit(&commit);
        let mut prepared = None;
        if within_limits {
            let Some(commit) = self.committer.sink().prepare(lease, commit) else {
                return Receipt::ready(CommitOutcome::Unavailable {
                    retry_after_ms: RETRY_MS,
                });
            };
            prepared = Some(Box::new(commit));
        }
        let accepted = self.committer.submit(bytes, |ownership| {
            ownership.accept(lease, expect_lsn, head, within_limits)?;
            prepared
                .map(WriteTask::Commit)
                .ok_or(CommitOutcome::TooLarge)
        });
        match accepted {
            Ok(slot) => Receipt::pending(Ticket::new(self.committer.clone(), slot)),
            Err(refusal) => Receipt::ready(refusal),
        }
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        check_partition(partition)?;
        let snapshot = LocalSnapshot::take(self.committer.clone(), partition)?;
        Ok(Box::new(snapshot))
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        check_partition(partition)?;
        // The search for a first key runs here and not on the leader, for which all commits wait:
        // passing the tombstones of many removed keys is slow.
        let snapshot = self.snapshot(partition)?;
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let head_when_empty = match snapshot.scan(everything, Direction::Forward).next() {
            None => Some(snapshot.head()),
            // Damaged keys are removed like all others.
            Some(Ok(_) | Err(StoreError::DamagedBlock { .. })) => None,
            Some(Err(error)) => return Err(error),
        };
        drop(snapshot);
        let slot = self.committer.submit(0, |ownership| {
            // With the same head no commit was accepted since the search; removing the ownership
            // keeps out every later one.
            let is_empty = head_when_empty == Some(ownership.head(partition));
            Ok(WriteTask::Destroy {
                partition,
                epoch_floor: ownership.remove(partition),
                is_empty,
            })
        });
        self.finish(slot)?;
        self.committer.sink().damage().forget(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        let slot = self.committer.submit(0, |_| Ok(WriteTask::Barrier));
        self.finish(slot)?;
        self.committer.sink().sync_mark()
    }

    fn barrier(&self, _partition: PartitionId) -> Receipt {
        // One log has the commits of all partitions.
        match self.committer.submit(0, |_| Ok(WriteTask::Barrier)) {
            Ok(slot) => Receipt::pending(Ticket::new(self.committer.clone(), slot)),
            Err(refusal) => Receipt::ready(refusal),
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            long_snapshots: true,
            followers: false,
            remote: false,
        }
    }

    fn refusal(&self, may_use_reserve: bool) -> Option<CommitOutcome> {
        self.refusal_of(may_use_reserve)
    }

    fn write_failure(&self) -> Option<String> {
        if let Some(failure) = self.committer.failure() {
            let remedy = match failure.exhausted {
                Some(_) => "writing resumes when the resource is there again",
                None => "only a restart makes the store write again",
            };
            return Some(format!("{}; {remedy}", failure.detail));
        }
        match self.committer.sink().space.look_if_low() {
            Accepted::All => None,
            Accepted::Deletions => Some(
                "the disk is nearly full: only deletions are accepted until there is room".into(),
            ),
            Accepted::Nothing => {
                Some("the disk is full: no write is accepted until there is room".into())
            }
        }
    }

    fn wait_for_compaction(&self) {
        self.committer.sink().wait_for_compaction();
    }

    fn approximate_bytes(&self) -> u64 {
        self.committer.sink().bytes()
    }

    fn sync_seconds(&self) -> Option<HistogramSnapshot> {
        Some(self.committer.sink().sync_seconds())
    }

    fn damage(&self) -> Vec<Damage> {
        self.committer.sink().damage().all()
    }

    fn partitions(&self) -> Result<Option<Vec<PartitionId>>, StoreError> {
        Ok(Some(self.committer.partitions()))
    }

    fn report_damage(&self, report: DamageReport) {
        self.committer.sink().set_damage_report(report);
    }

    fn scrub_progress(&self) -> Option<ScrubProgress> {
        Some(self.committer.sink().progress().get())
    }

    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        checkpoint::take(&self.committer, |from, to| std::fs::hard_link(from, to)).map(Some)
    }

    fn journal_log(&self) -> Option<&dyn JournalLog> {
        let tables = self.committer.sink();
        tables
            .kept_journals
            .is_some()
            .then_some(self as &dyn JournalLog)
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        // A failure was reported to the caller of the commit concerned; no caller is left here.
        let _ = self.sync();
        self.maintenance = None;
        self.committer.close();
    }
}
