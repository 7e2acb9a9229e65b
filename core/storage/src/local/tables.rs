//! The tables of the local engine: the writing of one group commit, and the view that readers get.
//!
//! The keys are drawn in `keys.rs`. Each commit is one fjall batch, so fjall's journal makes it
//! atomic; the group record is the last batch of a group; then one `fdatasync` covers all batches
//! of the group.
//!
//! **Why readers get a prepared snapshot.** fjall publishes the sequence number of a batch when the
//! batch is applied, which here is before the sync. Worse, a memtable flush or compaction publishes
//! a *later* number of its own, even while a batch with a lower number is still being applied: a
//! snapshot taken from fjall at that moment would change under its reader. So only the leader takes
//! snapshots from fjall, after the sync and between batches, when no batch is in flight; readers
//! share that snapshot until the next group.

use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orrery_model::metrics::{Histogram, HistogramSnapshot, LATENCY_BOUNDS_SECONDS};
use orrery_model::sync;

use fjall::{AbstractTree, OwnedWriteBatch, PersistMode, Readable};

use super::LocalOptions;
use super::access::{Access, View};
use super::blocks::SEAL;
use super::checkpoint::Checkpoints;
use super::committer::{Failure, Sink};
use super::damage::DamageList;
use super::database::{OpenDatabase, Recovered};
use super::directory::Directory;
use super::high_water::{HighWater, Mark};
use super::journal::{GROUP_KEY, GroupRecord};
use super::kept_journals::{KeptJournals, SECOND_KEY};
use super::keys::{
    EPOCH_FLOOR_KEY, MIRRORED_KEY, PREFIX_BYTES, destruction_key, encode_ownership, head_key,
    is_index_key, partition_range, prefixed_key,
};
use super::maintenance::{Progress, Signal, is_damage};
use super::reopening::{Cut, Exhausted, FaultPoint, GroupFailure, Reopened, being_reopened};
use super::space::SpaceWatch;
use crate::commit::{Commit, Head, PartitionId};
use crate::damage::Damage;
use crate::error::StoreError;
use crate::ownership::{Ownership, OwnershipTable, RESERVED};
use crate::store::{DamageReport, Lease};

/// Keys removed per batch when a partition is destroyed, to bound memory.
const DESTROY_KEYS: usize = 10_000;
/// Head records per batch when all are written anew, to bound memory.
const RESTORE_HEADS: usize = 10_000;
/// The backlog at which the leader waits. fjall halts a writer inside a commit, without noticing
/// failures, at 4 sealed memtables or 30 runs; the leader waits outside of a commit, before that.
const BACKLOG_MAX: Backlog = Backlog {
    sealed_memtables: 3,
    runs: 28,
};
/// The backlog at which background writes wait: one sealed memtable before the leader waits, so
/// that the last memtable is left to clients. With a lower limit, clients that write all the time
/// would keep background writes waiting.
const BACKGROUND_BACKLOG_MAX: Backlog = Backlog {
    sealed_memtables: BACKLOG_MAX.sealed_memtables - 1,
    runs: 20,
};
/// The time between two looks at the backlog.
const BACKLOG_POLL: Duration = Duration::from_millis(1);
/// The longest time that a background write waits.
const BACKGROUND_WAIT_MAX: Duration = Duration::from_secs(1);

/// Flushes and compactions of a keyspace that are to be done.
#[derive(Clone, Copy)]
struct Backlog {
    /// Memtables that wait to be flushed.
    sealed_memtables: usize,
    /// Runs of level 0 that wait to be compacted.
    runs: usize,
}

/// One accepted task of a group.
pub(super) enum WriteTask {
    /// Writes a commit whose keys are prefixed already.
    Commit(Box<PreparedCommit>),
    /// Writes a new epoch.
    RaiseEpoch {
        partition: PartitionId,
        ownership: Ownership,
    },
    /// Removes a partition; `is_empty` says that it is known to have no keys.
    Destroy {
        partition: PartitionId,
        epoch_floor: u64,
        is_empty: bool,
    },
    /// Writes the records of the store itself anew, since a block with some of them is damaged.
    Restore {
        heads: Vec<(PartitionId, Ownership)>,
        epoch_floor: u64,
    },
    /// Removes the entries of sealed blocks, by keyspace and key with its prefix.
    RemoveSeals(Vec<(bool, Vec<u8>)>),
    /// Writes nothing: it is answered when every task before it is durable.
    Barrier,
}

/// A commit as far as it can be prepared before its turn, on the caller's own thread.
pub(super) struct PreparedCommit {
    batch: OwnedWriteBatch,
    partition: PartitionId,
    head: Head,
    range_deletes: Vec<Range<Vec<u8>>>,
    /// Keys that the range deletes leave alone, since the same commit puts or deletes them. Empty
    /// without range deletes.
    own_keys: HashSet<Vec<u8>>,
    /// Checksum of the changes, for the chain of the group.
    digest: u32,
    /// The database that the batch belongs to, which is not exchanged while the commit exists.
    _database: Arc<OpenDatabase>,
}

/// The database and the state that belongs to it.
pub(super) struct Tables {
    pub(super) options: LocalOptions,
    /// Locked before `access`.
    pub(super) writer: Mutex<WriterState>,
    pub(super) access: Access,
    pub(super) space: SpaceWatch,
    damage: DamageList,
    signal: Signal,
    progress: Progress,
    /// The receiver of each new damage.
    damage_report: Mutex<Option<DamageReport>>,
    /// Compactions cannot go on, so waiting for them would be for ever.
    is_stuck: AtomicBool,
    /// The leader may wait for compactions: the maintenance thread runs, and does not itself wait
    /// for the leader.
    is_waiting_allowed: AtomicBool,
    sync_seconds: Histogram,
    pub(super) checkpoints: Checkpoints,
    /// The journals that are kept for a continuous backup, if there is one.
    pub(super) kept_journals: Option<KeptJournals>,
    pub(super) fault: FaultPoint,
    // Declared last, so that the directory is unlocked after all other fields, snapshots included,
    // are dropped.
    pub(super) directory: Directory,
}

/// The state that only the leader uses.
pub(super) struct WriterState {
    /// The mark of the last group.
    pub(super) mark: Mark,
    pub(super) high_water: HighWater,
    /// The sequence number of the first batch that an earlier process left without a group record.
    pub(super) ungrouped_from: Option<u64>,
    /// The sequence number from which on batches belong to the group that is being written, or that
    /// failed; `None` if none of its batches is written.
    pub(super) failed_from: Option<u64>,
    /// The batches that are to be cut before the database is opened again.
    pub(super) cut: Option<Cut>,
}

impl Tables {
    /// Takes the compared database into use. Completes destructions that a crash interrupted.
    pub(super) fn start(
        database: OpenDatabase,
        directory: Directory,
        high_water: HighWater,
        ungrouped_from: Option<u64>,
        options: LocalOptions,
        space: SpaceWatch,
        damage: DamageList,
    ) -> Result<(Tables, Recovered), StoreError> {
        let mark = database.mark()?;
        let unfinished = database.unfinished_destructions()?;
        let recovered = database.recover_heads()?;
        let is_mirrored = database.is_mirrored();
        let kept_journals = match options.log.clock(&directory.kept_journals())? {
            Some(clock) => {
                let (folder, store) = (directory.kept_journals(), directory.store());
                let second = database.second()?;
                let kept = KeptJournals::open(folder, store, clock, mark.group, second)?;
                Some(kept)
            }
            None => {
                directory.remove_kept_journals()?;
                None
            }
        };
        let signal = Signal::default();
        for is_index in [false, true] {
            // The other keyspace had the records; the maintenance thread takes the block out.
            if database.has_damaged_record(is_index) {
                signal.check(is_index);
            }
        }
        let tables = Tables {
            options,
            writer: Mutex::new(WriterState {
                mark,
                high_water,
                ungrouped_from,
                failed_from: None,
                cut: None,
            }),
            access: Access::new(database, recovered.heads()),
            space,
            damage,
            signal,
            progress: Progress::default(),
            damage_report: Mutex::new(None),
            is_stuck: AtomicBool::new(false),
            is_waiting_allowed: AtomicBool::new(false),
            sync_seconds: Histogram::new(LATENCY_BOUNDS_SECONDS),
            checkpoints: Checkpoints::default(),
            kept_journals,
            fault: FaultPoint::default(),
            directory,
        };
        let existing = recovered.ownership.keys().copied().collect();
        tables.damage.keep_existing(&existing)?;
        let tasks = first_tasks(unfinished, &recovered, mark, is_mirrored);
        if !tasks.is_empty() {
            tables.write_group(tasks).map_err(|failure| failure.error)?;
        }
        Ok((tables, recovered))
    }

    pub(super) fn directory_mut(&mut self) -> &mut Directory {
        &mut self.directory
    }

    /// Returns what readers may see of a partition now.
    ///
    /// # Errors
    /// When the database is being exchanged for too long.
    pub(super) fn view(&self, partition: PartitionId) -> Result<View, StoreError> {
        self.access.view(partition).ok_or_else(being_reopened)
    }

    /// Returns the directory of the database.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.store()
    }

    pub(super) fn damage(&self) -> &DamageList {
        &self.damage
    }

    /// Returns the mailbox of the maintenance thread.
    pub(super) fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Returns the progress of the regular check of all blocks.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Sets the receiver of new damage, and passes the known damage to it.
    pub(super) fn set_damage_report(&self, report: DamageReport) {
        let mut receiver = sync::lock(&self.damage_report);
        for damage in self.damage.all() {
            report(&damage);
        }
        *receiver = Some(report);
    }

    /// Passes new damage on, or logs it as long as there is no receiver.
    pub(super) fn report(&self, damage: &Damage) {
        match &*sync::lock(&self.damage_report) {
            Some(report) => report(damage),
            None => log::error!(
                "damaged block in {} at byte {}: {}",
                damage.file.display(),
                damage.offset,
                damage.fault
            ),
        }
    }

    /// Returns true if a key, with its prefix, is a record of the store itself.
    pub(super) fn is_internal(key: &[u8]) -> bool {
        key.starts_with(&RESERVED.0.to_be_bytes())
    }

    /// Returns the task that writes the records of the store anew.
    pub(super) fn restore_task(ownership: &OwnershipTable) -> WriteTask {
        WriteTask::Restore {
            heads: ownership.all().collect(),
            epoch_floor: ownership.epoch_floor(),
        }
    }

    /// Records that compactions cannot go on, or that they do.
    pub(super) fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Ordering::SeqCst);
    }

    /// Lets the leader wait for compactions, or not.
    pub(super) fn set_waiting_allowed(&self, is_allowed: bool) {
        self.is_waiting_allowed.store(is_allowed, Ordering::SeqCst);
    }

    pub(super) fn sync_seconds(&self) -> HistogramSnapshot {
        self.sync_seconds.snapshot()
    }

    pub(super) fn bytes(&self) -> u64 {
        match self.access.database() {
            Some(database) => database.db.disk_space().unwrap_or(0),
            None => 0,
        }
    }

    /// Syncs the high-water mark, so that it survives a power loss.
    pub(super) fn sync_mark(&self) -> Result<(), StoreError> {
        sync::lock(&self.writer).high_water.sync()
    }

    /// Turns a commit into a batch, on the caller's thread: sorted, with prefixed keys and its new
    /// head. Returns `None` while the database is being exchanged.
    pub(super) fn prepare(&self, lease: &Lease, mut commit: Commit) -> Option<PreparedCommit> {
        let database = self.access.database()?;
        commit.normalize();
        let partition = lease.partition();
        let head = commit.new_head();
        // The keys are copied only for the rare commit with range deletes.
        let mut own_keys = HashSet::new();
        if !commit.range_deletes.is_empty() {
            own_keys.extend(commit.puts.iter().map(|(key, _)| key.clone()));
            own_keys.extend(commit.deletes.iter().cloned());
        }
        // The digest covers every change, so that the chain of groups identifies the history.
        let mut digest = crc32fast::Hasher::new();
        let batch_len = commit.puts.len() + commit.deletes.len() + 2;
        let mut batch = OwnedWriteBatch::with_capacity(database.db.clone(), batch_len);
        for (key, value) in commit.puts {
            let keyspace = database.keyspace(is_index_key(&key));
            let key = prefixed_key(partition, &key);
            digest.update(&key);
            digest.update(&value);
            batch.insert(keyspace, key, value);
        }
        for key in commit.deletes {
            digest.update(&key);
            let keyspace = database.keyspace(is_index_key(&key));
            batch.remove(keyspace, prefixed_key(partition, &key));
        }
        // The head record is part of the batch: changes and head become durable together.
        let ownership = encode_ownership(Ownership {
            epoch: lease.epoch(),
            head,
        });
        put_record(&database, &mut batch, &head_key(partition), &ownership);
        digest.update(&ownership);
        Some(PreparedCommit {
            batch,
            partition,
            head,
            range_deletes: commit.range_deletes,
            own_keys,
            digest: digest.finalize(),
            _database: database,
        })
    }

    /// Writes the tasks of a group and its group record, syncs, advances the high-water mark, and
    /// publishes the new view.
    fn write_group(&self, group: Vec<WriteTask>) -> Result<(), GroupFailure> {
        if group.iter().all(|task| matches!(task, WriteTask::Barrier)) {
            return Ok(());
        }
        self.space.look();
        let mut writer = sync::lock(&self.writer);
        let Some(database) = self.access.database() else {
            return Err(StoreError::Poisoned {
                detail: "the database is closed".to_owned(),
            }
            .into());
        };
        let database = &*database;
        let failed = |e: fjall::Error| GroupFailure::of(&database.path, &e);
        self.prevent_stall(database).map_err(failed)?;
        // Batches that an earlier process left without a group record become part of this group.
        let next_sequence = database.db.seqno();
        writer.failed_from = Some(next_sequence);
        let first_sequence = writer.ungrouped_from.unwrap_or(u64::MAX).min(next_sequence);
        let group_number = writer.mark.group + 1;
        // The chain continues the previous group's, so that groups of two histories never match.
        let mut chain = crc32fast::Hasher::new();
        chain.update(&writer.mark.chain.to_le_bytes());
        chain.update(&group_number.to_le_bytes());
        let mut heads = Vec::with_capacity(group.len());
        for task in group {
            heads.extend(self.apply(database, task, &mut chain).map_err(failed)?);
        }
        let mark = Mark {
            group: group_number,
            chain: chain.finalize(),
        };
        // The record is the last batch: a journal that holds it holds the whole group.
        let record = GroupRecord {
            mark,
            previous: writer.mark.chain,
            first_sequence,
        }
        .encode();
        let mut batch = OwnedWriteBatch::with_capacity(database.db.clone(), 3);
        put_record(database, &mut batch, GROUP_KEY, &record);
        let kept = self.kept_journals.as_ref();
        let second = kept.and_then(|kept| kept.new_second(writer.mark.group));
        if let Some(second) = second {
            batch.insert(&database.rows, SECOND_KEY, second.to_le_bytes());
        }
        batch.commit().map_err(failed)?;
        self.fault.pass(database).map_err(failed)?;
        self.sync_seconds
            .time(|| database.db.persist(PersistMode::SyncData))
            .map_err(failed)?;
        // Only after the sync: the mark is never ahead of the log, and readers see durable commits.
        writer.high_water.advance(mark)?;
        writer.mark = mark;
        writer.ungrouped_from = None;
        writer.failed_from = None;
        if let Some(kept) = kept {
            kept.link_next();
            if let Some(second) = second {
                kept.set_second(second);
            }
        }
        self.access.publish(heads);
        Ok(())
    }

    /// Writes one task to fjall, without a sync. Returns the partition whose head changes and its
    /// new head; the head is `None` if the partition was removed.
    fn apply(
        &self,
        database: &OpenDatabase,
        task: WriteTask,
        chain: &mut crc32fast::Hasher,
    ) -> Result<Option<(PartitionId, Option<Head>)>, fjall::Error> {
        match task {
            WriteTask::Commit(commit) => {
                chain.update(&commit.digest.to_le_bytes());
                let mut commit = *commit;
                // Range deletes are resolved here and not in `prepare`, since they cover every
                // commit that is written before this one.
                for range in &commit.range_deletes {
                    let (partition, own_keys) = (commit.partition, &commit.own_keys);
                    self.remove_range(database, &mut commit.batch, partition, range, own_keys)?;
                }
                commit.batch.commit()?;
                Ok(Some((commit.partition, Some(commit.head))))
            }
            WriteTask::RaiseEpoch {
                partition,
                ownership,
            } => {
                let record = encode_ownership(ownership);
                chain.update(&record);
                let mut batch = OwnedWriteBatch::with_capacity(database.db.clone(), 1);
                put_record(database, &mut batch, &head_key(partition), &record);
                batch.commit()?;
                Ok(None)
            }
            WriteTask::Destroy {
                partition,
                epoch_floor,
                is_empty,
            } => {
                chain.update(&partition.0.to_le_bytes());
                self.remove_partition(database, partition, epoch_floor, is_empty)?;
                Ok(Some((partition, None)))
            }
            WriteTask::Restore { heads, epoch_floor } => {
                restore_records(database, &heads, epoch_floor)?;
                Ok(None)
            }
            WriteTask::RemoveSeals(keys) => {
                remove_seals(database, keys)?;
                Ok(None)
            }
            WriteTask::Barrier => Ok(None),
        }
    }

    /// Gives up the keys of all damaged blocks: what is left of their partitions can be read and
    /// written from now on.
    pub(super) fn accept_damage(&self) -> Result<(), StoreError> {
        let seals = self.damage.last_keys();
        if seals.is_empty() {
            return Ok(());
        }
        self.write_group(vec![WriteTask::RemoveSeals(seals)])
            .map_err(|failure| failure.error)?;
        self.damage.forget_all()
    }

    /// Adds tombstones for all keys that earlier commits left in the range. fjall has no range
    /// tombstones.
    fn remove_range(
        &self,
        database: &OpenDatabase,
        batch: &mut OwnedWriteBatch,
        partition: PartitionId,
        range: &Range<Vec<u8>>,
        own_keys: &HashSet<Vec<u8>>,
    ) -> Result<(), fjall::Error> {
        if range.start >= range.end {
            return Ok(());
        }
        // No batch is in flight while the leader is here, so this snapshot holds exactly the
        // batches written before.
        let now = database.db.snapshot();
        let start = prefixed_key(partition, &range.start);
        let end = prefixed_key(partition, &range.end);
        for keyspace in [&database.rows, &database.index] {
            for row in now.range(keyspace, &*start..&*end) {
                let key = row.key()?;
                if !own_keys.contains(&key[PREFIX_BYTES..]) {
                    batch.remove(keyspace, key);
                }
            }
        }
        Ok(())
    }

    /// Removes a partition. The first batch removes the head and records the destruction, so that
    /// the next open completes it after a crash; the next batches remove the keys; the last removes
    /// the record. A partition without keys needs no record.
    fn remove_partition(
        &self,
        database: &OpenDatabase,
        partition: PartitionId,
        epoch_floor: u64,
        is_empty: bool,
    ) -> Result<(), fjall::Error> {
        let mut batch = database.db.batch();
        remove_record(database, &mut batch, &head_key(partition));
        let epoch_floor = epoch_floor.to_le_bytes();
        put_record(database, &mut batch, EPOCH_FLOOR_KEY, &epoch_floor);
        if is_empty {
            return batch.commit();
        }
        put_record(database, &mut batch, &destruction_key(partition), &[]);
        batch.commit()?;

        let now = database.db.snapshot();
        for keyspace in [&database.rows, &database.index] {
            let mut batch = database.db.batch();
            for row in now.range(keyspace, partition_range(partition)) {
                let key = match row.key() {
                    Ok(key) => key,
                    // The record of the destruction stays, and the next open goes on.
                    Err(fjall::Error::Storage(error)) if is_damage(&error) => {
                        self.signal.check(*keyspace == database.index);
                        return batch.commit();
                    }
                    Err(error) => return Err(error),
                };
                batch.remove(keyspace, key);
                if batch.len() >= DESTROY_KEYS {
                    std::mem::replace(&mut batch, database.db.batch()).commit()?;
                    self.prevent_stall(database)?;
                }
            }
            batch.commit()?;
        }

        let mut batch = database.db.batch();
        remove_record(database, &mut batch, &destruction_key(partition));
        batch.commit()
    }

    /// Hands full memtables over to be flushed, and waits until flushes and compactions have caught
    /// up, so that fjall does not halt the leader inside a commit, where a failure is not noticed.
    ///
    /// fjall would request the rotation itself, once for every batch beyond the size. While its one
    /// worker compacts, these requests fill the worker's queue, and the worker then waits for ever
    /// for space in the queue to request the flush. So fjall is given a size that is never reached,
    /// and the rotation is done here, once.
    fn prevent_stall(&self, database: &OpenDatabase) -> Result<(), fjall::Error> {
        for keyspace in [&database.rows, &database.index] {
            if keyspace.tree.active_memtable().size() > self.options.memtable_bytes {
                keyspace.rotate_memtable()?;
                self.signal.compact();
            }
        }
        while has_backlog(database, BACKLOG_MAX) && self.is_waiting_allowed.load(Ordering::SeqCst) {
            if self.is_stuck.load(Ordering::SeqCst) {
                // Only a restart helps, so the error is not that of an exhausted resource.
                return Err(fjall::LsmError::Unrecoverable.into());
            }
            // `persist` costs nothing when there is nothing to write, and fails if the background
            // worker died.
            database.db.persist(PersistMode::Buffer)?;
            #[expect(
                clippy::disallowed_methods,
                reason = "the tables announce no end of a compaction"
            )]
            std::thread::sleep(BACKLOG_POLL);
        }
        Ok(())
    }

    /// Waits until flushes and compactions have caught up, but no longer than
    /// [`BACKGROUND_WAIT_MAX`]: the writes of clients alone may keep them behind.
    pub(super) fn wait_for_compaction(&self) {
        let polls = BACKGROUND_WAIT_MAX.as_millis() / BACKLOG_POLL.as_millis();
        for _ in 0..polls {
            // The database is not held while waiting, so that it can be exchanged.
            let has_backlog = match self.access.database() {
                Some(database) => has_backlog(&database, BACKGROUND_BACKLOG_MAX),
                None => false,
            };
            if !has_backlog {
                return;
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "the tables announce no end of a compaction"
            )]
            std::thread::sleep(BACKLOG_POLL);
        }
    }
}

/// Removes the entries that stand for damaged blocks.
fn remove_seals(database: &OpenDatabase, keys: Vec<(bool, Vec<u8>)>) -> Result<(), fjall::Error> {
    let mut batch = database.db.batch();
    for (is_index, key) in keys {
        let keyspace = database.keyspace(is_index);
        // A newer table may have a sound value of the key.
        let value = keyspace.get(&key)?;
        if value.is_some_and(|value| value.starts_with(SEAL)) {
            batch.remove(keyspace, key);
        }
    }
    batch.commit()
}

/// Returns what a store writes when it is opened.
fn first_tasks(
    unfinished: Vec<PartitionId>,
    recovered: &Recovered,
    mark: Mark,
    is_mirrored: bool,
) -> Vec<WriteTask> {
    let mut tasks = Vec::new();
    for partition in unfinished {
        tasks.push(WriteTask::Destroy {
            partition,
            epoch_floor: recovered.epoch_floor,
            is_empty: false,
        });
    }
    // The first group of a new directory also proves, before a caller relies on it, that the
    // directory can be written.
    if mark.group == 0 {
        tasks.push(WriteTask::RaiseEpoch {
            partition: RESERVED,
            ownership: Ownership::default(),
        });
    }
    // A new directory, or one of an earlier version.
    if !is_mirrored {
        tasks.push(WriteTask::Restore {
            heads: recovered.ownership.clone().into_iter().collect(),
            epoch_floor: recovered.epoch_floor,
        });
    }
    tasks
}

/// Writes all head records and the epoch floor. The group record follows in any case.
fn restore_records(
    database: &OpenDatabase,
    heads: &[(PartitionId, Ownership)],
    epoch_floor: u64,
) -> Result<(), fjall::Error> {
    for heads in heads.chunks(RESTORE_HEADS) {
        let mut batch = OwnedWriteBatch::with_capacity(database.db.clone(), 2 * heads.len());
        for (partition, ownership) in heads {
            let record = encode_ownership(*ownership);
            put_record(database, &mut batch, &head_key(*partition), &record);
        }
        batch.commit()?;
    }
    let mut batch = database.db.batch();
    let epoch_floor = epoch_floor.to_le_bytes();
    put_record(database, &mut batch, EPOCH_FLOOR_KEY, &epoch_floor);
    batch.insert(&database.index, MIRRORED_KEY, []);
    batch.commit()
}

/// Adds a record of the store to a batch, for both keyspaces.
fn put_record(database: &OpenDatabase, batch: &mut OwnedWriteBatch, key: &[u8], value: &[u8]) {
    batch.insert(&database.rows, key, value);
    batch.insert(&database.index, key, value);
}

/// Removes a record of the store from both keyspaces.
fn remove_record(database: &OpenDatabase, batch: &mut OwnedWriteBatch, key: &[u8]) {
    batch.remove(&database.rows, key);
    batch.remove(&database.index, key);
}

/// Returns true if one of the keyspaces has reached the backlog.
fn has_backlog(database: &OpenDatabase, limit: Backlog) -> bool {
    [&database.rows, &database.index]
        .into_iter()
        .any(|keyspace| {
            keyspace.tree.sealed_memtable_count() >= limit.sealed_memtables
                || keyspace.tree.l0_run_count() >= limit.runs
        })
}

impl Sink for Tables {
    type Task = WriteTask;

    fn write(&self, group: Vec<WriteTask>) -> Result<(), Failure> {
        self.write_group(group).map_err(|failure| {
            let exhausted = self.likely_cause(failure.exhausted);
            if exhausted == Some(Exhausted::Disk) {
                self.space.release_reserve();
            }
            Failure {
                detail: failure.error.to_string(),
                exhausted,
                is_written: sync::lock(&self.writer).failed_from.is_some(),
            }
        })
    }

    fn reopen(&self, accepted: &OwnershipTable) -> Result<Reopened, String> {
        self.reopen_database(accepted).map_err(|e| e.to_string())
    }

    fn has_resource(&self, exhausted: Exhausted) -> bool {
        self.has_exhausted_resource(exhausted)
    }
}
