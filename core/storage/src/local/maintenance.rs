//! The background thread of a store: compactions, the search for damaged blocks, and the regular
//! check of all blocks.
//!
//! fjall poisons the whole database when one of its own compactions fails. So fjall is given a
//! strategy that only moves tables (`database.rs`), which reads no block, and the compactions that
//! read are run here: an error comes back to this thread and stops no writer.
//!
//! - A compaction that meets a damaged block makes the thread check the blocks of the keyspace.
//!   The damaged block is entered into the list of damage (`damage.rs`) and sealed (`blocks.rs`);
//!   then the compaction is repeated.
//! - Any other error, as of a full disk, is repeated after a while.
//! - The regular check reads all blocks at the rate of `LocalOptions::scrub_bytes_per_second`, once
//!   at the start and then every [`PASS_INTERVAL`]. A new start begins anew: the place of the last
//!   pass is not stored.
//!
//! The thread parks while there is nothing to do: the leader wakes it after it sealed a memtable,
//! and a reader after it met a damaged block.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fjall::AbstractTree;
use fjall::compaction::Leveled;
use lsm_tree::Table;
use orrery_model::sync;

use super::blocks::{BlockEntry, BlockKind, TableFile, seal};
use super::committer::Committer;
use super::tables::Tables;
use crate::commit::CommitOutcome;
use crate::damage::{Damage, DamagedContents, ScrubProgress};
use crate::error::StoreError;

/// The time between two complete checks of all blocks.
const PASS_INTERVAL: Duration = Duration::from_secs(7 * 24 * 3600);
/// The time between two pieces of the regular check.
const PIECE_INTERVAL: Duration = Duration::from_millis(250);
/// The time between two looks at a flush that is under way.
const FLUSH_POLL: Duration = Duration::from_millis(5);
/// The longest time that a reader of a damaged block waits until the block is found and named.
const CHECK_WAIT_MAX: Duration = Duration::from_millis(500);
/// The shortest time between two checks that readers ask for.
const CHECK_INTERVAL_MIN: Duration = Duration::from_secs(10);
/// The shortest and the longest time before a failed compaction is repeated.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// The work that the thread is asked to do.
#[derive(Default)]
struct Requests {
    /// A memtable was sealed.
    compact: bool,
    /// A damaged block was met while rows, or index entries, were read.
    check: [bool; 2],
    /// The number of checks of each keyspace that ended.
    checks_ended: [u64; 2],
    last_check_end: [Option<Instant>; 2],
    is_closing: bool,
}

/// The mailbox of the thread.
#[derive(Default)]
pub(super) struct Signal {
    requests: Mutex<Requests>,
    /// Notified for the thread.
    changed: Condvar,
    /// Notified when a check ended.
    checked: Condvar,
}

impl Signal {
    /// Asks for compactions after a flush.
    pub(super) fn compact(&self) {
        sync::lock(&self.requests).compact = true;
        self.changed.notify_one();
    }

    /// Asks for a check of a keyspace in which a damaged block was met.
    pub(super) fn check(&self, is_index: bool) {
        sync::lock(&self.requests).check[usize::from(is_index)] = true;
        self.changed.notify_one();
    }

    /// Does the same as [`Signal::check`] and waits for the end of the check, but no longer than
    /// [`CHECK_WAIT_MAX`]. A check that ended shortly before is not repeated.
    pub(super) fn check_and_wait(&self, is_index: bool) {
        let keyspace = usize::from(is_index);
        let now = Instant::now();
        let deadline = now + CHECK_WAIT_MAX;
        let mut requests = sync::lock(&self.requests);
        let last_end = requests.last_check_end[keyspace];
        if last_end.is_some_and(|end| now < end + CHECK_INTERVAL_MIN) {
            return;
        }
        requests.check[keyspace] = true;
        // A check that is under way may have passed the block already.
        let awaited = requests.checks_ended[keyspace] + 1;
        self.changed.notify_one();
        while requests.checks_ended[keyspace] < awaited && !requests.is_closing {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return;
            };
            requests = sync::wait_timeout(&self.checked, requests, left);
        }
    }

    /// Tells the readers that wait that a check ended.
    fn end_check(&self, is_index: bool) {
        let mut requests = sync::lock(&self.requests);
        requests.checks_ended[usize::from(is_index)] += 1;
        requests.last_check_end[usize::from(is_index)] = Some(Instant::now());
        drop(requests);
        self.checked.notify_all();
    }

    /// Takes a request for compactions, if there is one.
    fn take_compact(&self) -> bool {
        std::mem::take(&mut sync::lock(&self.requests).compact)
    }

    fn close(&self) {
        sync::lock(&self.requests).is_closing = true;
        self.changed.notify_one();
        self.checked.notify_all();
    }

    fn is_closing(&self) -> bool {
        sync::lock(&self.requests).is_closing
    }

    /// Takes the requests; waits for one, but no longer than `timeout`.
    fn take(&self, timeout: Option<Duration>) -> Requests {
        let mut requests = sync::lock(&self.requests);
        let has_request = |r: &Requests| r.compact || r.check != [false; 2] || r.is_closing;
        if !has_request(&requests) {
            requests = match timeout {
                Some(timeout) => sync::wait_timeout(&self.changed, requests, timeout),
                None => sync::wait(&self.changed, requests),
            };
        }
        Requests {
            compact: std::mem::take(&mut requests.compact),
            check: std::mem::take(&mut requests.check),
            checks_ended: requests.checks_ended,
            last_check_end: requests.last_check_end,
            is_closing: requests.is_closing,
        }
    }
}

/// The running thread. Dropping it waits for the compaction under way.
pub(super) struct Maintenance {
    committer: Arc<Committer<Tables>>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    /// Starts the thread.
    pub(super) fn start(
        committer: Arc<Committer<Tables>>,
        scrub_bytes_per_second: u64,
    ) -> Result<Maintenance, StoreError> {
        let worker = Worker {
            committer: committer.clone(),
            scrub: Scrub::new(scrub_bytes_per_second),
            wants_compaction: false,
            next_attempt: None,
            retry: RETRY_MIN,
        };
        // The tables of the last run may need compactions.
        committer.sink().signal().compact();
        committer.sink().set_waiting_allowed(true);
        let thread = std::thread::Builder::new()
            .name("orrery-tables".to_owned())
            .spawn(move || worker.run())
            .map_err(StoreError::io(
                "start the thread for",
                &committer.sink().path(),
            ))?;
        Ok(Maintenance {
            committer,
            thread: Some(thread),
        })
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.committer.sink().signal().close();
        // A report of damage may hold the last reference to the store; then this is the thread
        // itself, which ends by the signal.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the thread has no one left to hear of it.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Worker {
    committer: Arc<Committer<Tables>>,
    scrub: Scrub,
    /// A compaction may be needed.
    wants_compaction: bool,
    /// The time before which no compaction is tried: a flush is under way, or one failed.
    next_attempt: Option<Instant>,
    /// The time to wait after the next failure.
    retry: Duration,
}

/// The result of the compactions of both keyspaces.
enum Compacted {
    /// No more is to be done.
    Finished,
    /// A flush is under way, and compactions follow it.
    FlushPending,
    /// A compaction failed.
    Failed,
}

/// The result of checking a keyspace.
#[derive(Default)]
struct Checked {
    /// Damaged blocks that were sealed.
    sealed: usize,
    /// Damaged data blocks that could not be sealed.
    unsealed: usize,
    /// The system could not do its part for a block, which may succeed later.
    has_failed: bool,
}

impl Worker {
    fn run(mut self) {
        let mut timeout = None;
        loop {
            let requests = self.tables().signal().take(timeout);
            if requests.is_closing {
                return;
            }
            for is_index in [false, true] {
                if requests.check[usize::from(is_index)] {
                    self.check_for_reader(is_index);
                    self.tables().signal().end_check(is_index);
                }
            }
            self.wants_compaction |= requests.compact;
            let next_attempt = self.compact_if_due();
            let next_piece = self.scrub_piece();
            timeout = match (next_attempt, next_piece) {
                (Some(attempt), Some(piece)) => Some(attempt.min(piece)),
                (attempt, piece) => attempt.or(piece),
            };
        }
    }

    /// Runs compactions if they are needed and due. Returns the time until the next attempt.
    fn compact_if_due(&mut self) -> Option<Duration> {
        if !self.wants_compaction {
            return None;
        }
        let now = Instant::now();
        if let Some(next_attempt) = self.next_attempt
            && now < next_attempt
        {
            return Some(next_attempt - now);
        }
        let pause = match self.compact() {
            Compacted::Finished => {
                self.wants_compaction = false;
                self.next_attempt = None;
                self.retry = RETRY_MIN;
                return None;
            }
            Compacted::FlushPending => FLUSH_POLL,
            Compacted::Failed => {
                let pause = self.retry;
                self.retry = (pause * 2).min(RETRY_MAX);
                pause
            }
        };
        self.next_attempt = Some(Instant::now() + pause);
        Some(pause)
    }

    fn tables(&self) -> &Tables {
        self.committer.sink()
    }

    /// Compacts both keyspaces until neither changes.
    fn compact(&mut self) -> Compacted {
        loop {
            let mut has_changed = false;
            for is_index in [false, true] {
                if self.tables().signal().is_closing() {
                    return Compacted::Finished;
                }
                match self.compact_once(is_index) {
                    Some(changed) => has_changed |= changed,
                    None => return Compacted::Failed,
                }
            }
            if !has_changed {
                break;
            }
        }
        let Some(database) = self.tables().access.database() else {
            return Compacted::Failed;
        };
        let is_flushing = [&database.rows, &database.index]
            .into_iter()
            .any(|keyspace| keyspace.tree.sealed_memtable_count() > 0);
        if is_flushing {
            Compacted::FlushPending
        } else {
            Compacted::Finished
        }
    }

    /// Runs one compaction. Returns true if the tables changed, and `None` if it failed.
    fn compact_once(&mut self, is_index: bool) -> Option<bool> {
        // While the database is exchanged there is nothing to compact.
        let database = self.tables().access.database()?;
        let tree = &database.keyspace(is_index).tree;
        let version = tree.current_version().id();
        let first_new_table = tree.next_table_id();
        let watermark = self.tables().access.oldest_view();
        let compacted = catch_unwind(AssertUnwindSafe(|| {
            tree.compact(Arc::new(Leveled::default()), watermark)
        }));
        let error = match compacted {
            Ok(Ok(())) => {
                self.tables().damage().forget_replaced_tables();
                self.tables().set_stuck(false);
                return Some(tree.current_version().id() != version);
            }
            Ok(Err(error)) => error,
            Err(_) => fjall::LsmError::Unrecoverable,
        };
        remove_unfinished(tree, first_new_table);
        let directory = tree.tree_config().path.clone();
        if !is_damage(&error) {
            log::warn!(
                "a compaction in {} failed and is repeated: {error}",
                directory.display()
            );
            return None;
        }
        let checked = self.check_for_compaction(is_index);
        if checked.sealed > 0 {
            return Some(true);
        }
        log::error!(
            "a compaction in {} failed, and {} damaged blocks cannot be taken out of it: {error}",
            directory.display(),
            checked.unsealed
        );
        self.tables().set_stuck(!checked.has_failed);
        None
    }

    /// Checks the tables of a keyspace up to the first one with a block that can be sealed. The
    /// compaction is repeated then, and comes back for the next one.
    fn check_for_compaction(&self, is_index: bool) -> Checked {
        let mut checked = Checked::default();
        for id in self.table_ids(is_index) {
            self.check_table(is_index, id, &mut checked);
            if checked.sealed > 0 {
                break;
            }
        }
        checked
    }

    /// Checks all tables of a keyspace. Compactions that become necessary meanwhile do not wait.
    fn check_for_reader(&mut self, is_index: bool) {
        for id in self.table_ids(is_index) {
            self.check_table(is_index, id, &mut Checked::default());
            self.wants_compaction |= self.tables().signal().take_compact();
            self.compact_if_due();
        }
    }

    fn check_table(&self, is_index: bool, id: u64, checked: &mut Checked) {
        let Some(mut reading) = self.open_table(is_index, id) else {
            return;
        };
        while self.check_next(&mut reading, checked).is_some() {
            if self.tables().signal().is_closing() {
                return;
            }
        }
    }

    fn table_ids(&self, is_index: bool) -> Vec<u64> {
        let Some(database) = self.tables().access.database() else {
            return Vec::new();
        };
        let version = database.keyspace(is_index).tree.current_version();
        version.iter_tables().map(Table::id).collect()
    }

    /// Opens a table for checking; `None` if it no longer exists, or its index is damaged.
    fn open_table(&self, is_index: bool, id: u64) -> Option<Reading> {
        let database = self.tables().access.database()?;
        let version = database.keyspace(is_index).tree.current_version();
        let table = version
            .iter_tables()
            .find(|table| table.id() == id)?
            .clone();
        let mut file = match TableFile::open(&table.path) {
            Ok(file) => file,
            Err(error) => {
                log::warn!("cannot check {}: {error}", table.path.display());
                return None;
            }
        };
        match file.blocks(&table) {
            Ok(blocks) => Some(Reading {
                is_index,
                table,
                file,
                blocks: blocks.into_iter(),
            }),
            Err((offset, fault)) => {
                self.report_auxiliary(table.path.to_path_buf(), offset, 0, fault);
                None
            }
        }
    }

    /// Checks the next block of a table. Returns its length; `None` behind the last block.
    fn check_next(&self, reading: &mut Reading, checked: &mut Checked) -> Option<u64> {
        let block = reading.blocks.next()?;
        let bytes = block.bytes as u64;
        // A second look, since the first one may have failed on its way from the disk.
        let fault = reading
            .file
            .check(&block)
            .and_then(|_| reading.file.check(&block));
        let Some(fault) = fault else {
            return Some(bytes);
        };
        let path = reading.table.path.to_path_buf();
        if block.kind == BlockKind::Auxiliary {
            self.report_auxiliary(path, block.offset, bytes, fault);
            return Some(bytes);
        }
        let damage = Damage {
            file: path,
            offset: block.offset,
            bytes,
            fault,
            contents: self.contents_of(reading, &block),
        };
        let is_known = self.tables().damage().is_known(&damage);
        match self.take_out(reading, &block, &damage) {
            Ok(true) => checked.sealed += 1,
            Ok(false) => checked.unsealed += 1,
            Err(error) => {
                checked.has_failed = true;
                log::error!("a damaged block cannot be taken out now: {error}");
            }
        }
        if !is_known {
            self.tables().report(&damage);
        }
        Some(bytes)
    }

    /// Returns the partitions and keys of a damaged data block.
    fn contents_of(&self, reading: &Reading, block: &BlockEntry) -> DamagedContents {
        let lowest = reading.table.metadata.key_range.min();
        let first = match &block.after {
            Some(key) => std::ops::Bound::Excluded(key.clone()),
            None => std::ops::Bound::Included(lowest.to_vec()),
        };
        let start = block.after.as_deref().unwrap_or(lowest);
        let partitions = self
            .tables()
            .access
            .partitions_between(start, &block.last_key);
        if partitions.is_empty() {
            return DamagedContents::Restored;
        }
        DamagedContents::Keys {
            is_index: reading.is_index,
            partitions,
            first,
            last: block.last_key.clone(),
        }
    }

    /// Records a damaged data block and seals it. Returns false if it cannot be sealed.
    ///
    /// # Errors
    /// When it cannot be sealed now.
    fn take_out(
        &self,
        reading: &mut Reading,
        block: &BlockEntry,
        damage: &Damage,
    ) -> Result<bool, StoreError> {
        let list = self.tables().damage();
        if Tables::is_internal(&block.last_key) {
            // The records of the store are in memory too, and are written anew before the block
            // disappears.
            self.restore_records()?;
        }
        if damage.contents == DamagedContents::Restored {
            list.add_harmless(damage.clone());
        } else {
            let found = reading.file.read(block.offset, block.bytes);
            list.add(damage.clone(), &found.unwrap_or_default())?;
        }
        // The files of a checkpoint are links to the tables, so they would change with them.
        let failed = StoreError::io("seal a damaged block of", &damage.file);
        let (checkpoints, directory) = (&self.tables().checkpoints, &self.tables().directory);
        let detached = checkpoints.detach(directory, reading.is_index, &damage.file);
        let sealed = detached.and_then(|is_detached| {
            if is_detached {
                return seal(&reading.table, block).map(Some);
            }
            Ok(None)
        });
        sealed.map_err(failed)?.ok_or(StoreError::Unavailable {
            reason: "its table is being copied for a backup, and is changed afterwards",
            retry_after_ms: RETRY_MAX.as_millis() as u64,
            is_full: false,
        })
    }

    /// Writes the heads, the epoch floor and the group record anew, durably.
    fn restore_records(&self) -> Result<(), StoreError> {
        let slot = self
            .committer
            .submit(0, |ownership| Ok(Tables::restore_task(ownership)));
        self.tables().set_waiting_allowed(false);
        let outcome = match slot {
            Ok(slot) => self.committer.wait(&slot),
            Err(outcome) => outcome,
        };
        self.tables().set_waiting_allowed(true);
        if outcome == CommitOutcome::Ok {
            return Ok(());
        }
        Err(StoreError::Poisoned {
            detail: "the records of the store cannot be written anew".to_owned(),
        })
    }

    fn report_auxiliary(&self, file: PathBuf, offset: u64, bytes: u64, fault: String) {
        let damage = Damage {
            file,
            offset,
            bytes,
            fault,
            contents: DamagedContents::Auxiliary,
        };
        if self.tables().damage().add_harmless(damage.clone()) {
            self.tables().report(&damage);
        }
    }
}

/// Removes the files that a failed compaction left, which fjall would keep until the next start.
fn remove_unfinished(tree: &lsm_tree::AnyTree, first_new_table: u64) {
    // No flush runs while this lock is held, so each new file without a table is left over.
    let _no_flush = tree.get_flush_lock();
    let known: Vec<u64> = tree
        .current_version()
        .iter_tables()
        .map(Table::id)
        .collect();
    for id in first_new_table..tree.next_table_id() {
        if !known.contains(&id) {
            let path = tree.tree_config().path.join("tables").join(id.to_string());
            // The file may not exist; a file that cannot be removed is removed at the next start.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A table that is being checked.
struct Reading {
    is_index: bool,
    table: Table,
    file: TableFile,
    blocks: std::vec::IntoIter<BlockEntry>,
}

/// The regular check of all blocks.
struct Scrub {
    bytes_per_second: u64,
    /// The tables that the pass has still to check, the next one last.
    tables: Vec<(bool, u64)>,
    reading: Option<Reading>,
    /// The start of the next pass; `None` while a pass is under way.
    next_pass: Option<Instant>,
    next_piece: Instant,
}

impl Scrub {
    fn new(bytes_per_second: u64) -> Scrub {
        let now = Instant::now();
        Scrub {
            bytes_per_second,
            tables: Vec::new(),
            reading: None,
            next_pass: Some(now),
            next_piece: now,
        }
    }
}

impl Worker {
    /// Checks the next piece if it is due. Returns the time until the next one.
    fn scrub_piece(&mut self) -> Option<Duration> {
        if self.scrub.bytes_per_second == 0 {
            return None;
        }
        let now = Instant::now();
        if let Some(start) = self.scrub.next_pass {
            if now < start {
                return Some(start - now);
            }
            self.begin_pass(now);
        }
        if now < self.scrub.next_piece {
            return Some(self.scrub.next_piece - now);
        }
        let per_piece = PIECE_INTERVAL.as_secs_f64() * self.scrub.bytes_per_second as f64;
        self.check_piece(per_piece as u64 + 1);
        if self.scrub.reading.is_none() && self.scrub.tables.is_empty() {
            self.scrub.next_pass = Some(now + PASS_INTERVAL);
            self.tables().progress().finish_pass();
            return Some(PASS_INTERVAL);
        }
        self.scrub.next_piece = Instant::now() + PIECE_INTERVAL;
        Some(PIECE_INTERVAL)
    }

    fn begin_pass(&mut self, now: Instant) {
        let mut tables = Vec::new();
        let mut bytes = 0;
        for is_index in [false, true] {
            if let Some(database) = self.tables().access.database() {
                bytes += database.keyspace(is_index).tree.disk_space();
            }
            tables.extend(
                self.table_ids(is_index)
                    .into_iter()
                    .map(|id| (is_index, id)),
            );
        }
        self.scrub.tables = tables;
        self.scrub.next_pass = None;
        self.scrub.next_piece = now;
        self.tables().progress().begin_pass(bytes);
    }

    /// Checks blocks until `bytes` are read or a compaction is asked for.
    fn check_piece(&mut self, bytes: u64) {
        let mut read = 0;
        let mut checked = Checked::default();
        while read < bytes {
            let Some(mut reading) = self.scrub.reading.take() else {
                let Some((is_index, id)) = self.scrub.tables.pop() else {
                    return;
                };
                self.scrub.reading = self.open_table(is_index, id);
                continue;
            };
            if let Some(length) = self.check_next(&mut reading, &mut checked) {
                read += length;
                self.tables().progress().add(length);
                self.scrub.reading = Some(reading);
            }
        }
    }
}

/// The progress of the regular check, for the operator.
#[derive(Default)]
pub(super) struct Progress {
    state: Mutex<(ScrubProgress, Option<Instant>)>,
}

impl Progress {
    fn begin_pass(&self, bytes: u64) {
        let (progress, _) = &mut *sync::lock(&self.state);
        progress.pass_bytes = bytes;
        progress.pass_checked_bytes = 0;
    }

    fn add(&self, bytes: u64) {
        let (progress, _) = &mut *sync::lock(&self.state);
        progress.checked_bytes += bytes;
        progress.pass_checked_bytes += bytes;
    }

    fn finish_pass(&self) {
        let (progress, finished) = &mut *sync::lock(&self.state);
        progress.passes += 1;
        *finished = Some(Instant::now());
    }

    pub(super) fn get(&self) -> ScrubProgress {
        let (progress, finished) = *sync::lock(&self.state);
        ScrubProgress {
            seconds_since_pass: finished.map(|at| at.elapsed().as_secs()),
            ..progress
        }
    }
}

/// Returns true if an error of lsm-tree tells of damaged bytes, and false if the system could not
/// do its part.
pub(super) fn is_damage(error: &fjall::LsmError) -> bool {
    match error {
        fjall::LsmError::Io(error) => is_damage_of_file(error),
        _ => true,
    }
}

/// Returns true if an error of the system tells of a damaged, cut or missing file.
pub(super) fn is_damage_of_file(error: &std::io::Error) -> bool {
    // 5 is the system's EIO: the disk cannot read a sector.
    let kinds = [
        std::io::ErrorKind::UnexpectedEof,
        std::io::ErrorKind::NotFound,
        std::io::ErrorKind::InvalidData,
        std::io::ErrorKind::InvalidInput,
    ];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(5)
}
