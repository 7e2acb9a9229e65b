//! The local engine on fjall: its settings, its keys, and how one group commit is written.
//!
//! ```text
//! keyspace rows     partition u64 BE | key, first byte below 80         8 KiB blocks, filters but on the last level
//! keyspace index    partition u64 BE | key, first byte 80 and above     16 KiB blocks, no filters
//! keyspace rows     ff*8 | 01 | partition u64 BE   -> epoch u64 | lsn u64 | token 16      head record
//!                   ff*8 | 03                      -> epoch u64                           floor of epochs
//!                   ff*8 | 04 | partition u64 BE   -> nothing                             destruction not finished
//! both keyspaces    ff*8 | 02 "orrery group"       -> group record (journal.rs)
//! ```
//!
//! Internal integers in values are little-endian. Each commit is one fjall batch, so it is atomic by fjall's journal; the
//! group record is the last batch of a group; then one `fdatasync` covers all of them.
//!
//! **Why readers get a prepared snapshot.** fjall publishes the sequence number of a batch when the batch is applied, which
//! here is before the sync. Worse, a memtable flush or compaction publishes a *later* number of its own, even while a batch
//! with a lower one is still being applied: a snapshot taken from fjall at that moment would change under its reader. So
//! only the leader takes snapshots from fjall, after the sync and between batches, when nothing is in flight; readers share
//! that one until the next group.

use std::collections::{HashMap, HashSet};
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use orrery_model::metrics::{Histogram, HistogramSnapshot, LATENCY_BOUNDS_SECONDS};

use fjall::config::{BlockSizePolicy, CompressionPolicy, FilterPolicy};
use fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch,
    PersistMode, Readable,
};

use super::LocalOptions;
use super::committer::Sink;
use super::directory::Directory;
use super::high_water::{HighWater, Mark};
use super::journal::{GROUP_KEY, GroupRecord};
use crate::error::StoreError;
use crate::owners::{Owner, RESERVED};
use crate::store::{Commit, Head, Lease, PartitionId};

/// First byte of a key from which on it is an index entry.
pub(super) const INDEX_TAG: u8 = 0x80;
pub(super) const PREFIX_BYTES: usize = 8;

const MEMTABLE_BYTES: u64 = 16 << 20;
/// A memtable size that is never reached.
const NEVER: u64 = 1 << 40;
const JOURNAL_BYTES_MAX: u64 = 512 << 20;
/// Keys removed per batch when a partition is destroyed, to bound memory.
const DESTROY_KEYS: usize = 10_000;
/// fjall halts a writer inside a commit, deaf to failures, at 4 sealed memtables or 30 runs: we wait outside, before that.
const SEALED_MAX: usize = 3;
const RUNS_MAX: usize = 28;
const ROOM_POLL: Duration = Duration::from_millis(1);
/// Work that can wait does so one step before, and so long at most: the last of the room is for clients. Any earlier, and
/// clients that write all the time would keep it waiting.
const SEALED_BEHIND: usize = SEALED_MAX - 1;
const RUNS_BEHIND: usize = 20;
const CATCH_UP_MOST: Duration = Duration::from_secs(1);

/// One accepted piece of work.
pub(super) enum Work {
    /// A commit, its keys already prefixed.
    Commit(Box<PreparedCommit>),
    /// A new epoch.
    Raise {
        partition: PartitionId,
        owner: Owner,
    },
    /// All of a partition goes, of which nothing may be left already.
    Destroy {
        partition: PartitionId,
        floor: u64,
        is_empty: bool,
    },
    /// Nothing to write: answers when all before it is durable.
    Barrier,
}

/// A commit as far as it can be prepared before its turn, on the caller's own thread.
pub(super) struct PreparedCommit {
    batch: OwnedWriteBatch,
    partition: PartitionId,
    head: Head,
    ranges: Vec<Range<Vec<u8>>>,
    /// Keys that a range delete must spare, being put or deleted by the same commit. Empty without ranges.
    spared: HashSet<Vec<u8>>,
    digest: u32,
}

/// The database with the state that goes with it.
pub(super) struct Tables {
    path: PathBuf,
    db: Database,
    rows: Keyspace,
    index: Keyspace,
    ledger: Mutex<Ledger>,
    published: RwLock<Published>,
    sync_seconds: Histogram,
    // Last, so that the lock is given back after everything else, snapshots included.
    directory: Directory,
}

/// What only the leader touches.
struct Ledger {
    mark: Mark,
    high_water: HighWater,
    /// First sequence number of batches that an earlier process left without a group record.
    loose: Option<u64>,
}

/// What readers see: swapped as one.
struct Published {
    view: Arc<fjall::Snapshot>,
    heads: HashMap<PartitionId, Head>,
}

/// The heads and epochs found at open.
pub(super) struct Recovered {
    pub(super) owners: HashMap<PartitionId, Owner>,
    pub(super) floor: u64,
}

/// An open database before anything was compared with the high-water mark.
pub(super) struct Opened {
    path: PathBuf,
    db: Database,
    rows: Keyspace,
    index: Keyspace,
}

impl Opened {
    /// Opens or makes the database.
    pub(super) fn open(
        path: &Path,
        options: &LocalOptions,
        fresh: bool,
    ) -> Result<Opened, StoreError> {
        let failed = |e: fjall::Error| explain(path, &e);
        let db = Database::builder(path)
            .worker_threads(options.worker_threads.max(1))
            .cache_size(options.cache_bytes)
            .manual_journal_persist(true)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .open()
            .map_err(failed)?;
        for (name, what) in [("rows", "rows"), ("index", "index entries")] {
            if !fresh && !db.keyspace_exists(name) {
                return Err(StoreError::damaged(
                    &path.join("keyspaces"),
                    format!("the tables of {what} are missing"),
                ));
            }
        }
        let rows = db.keyspace("rows", rows_options).map_err(failed)?;
        let index = db.keyspace("index", index_options).map_err(failed)?;
        Ok(Opened {
            path: path.to_owned(),
            db,
            rows,
            index,
        })
    }

    /// Group numbers: the last one in both keyspaces, and the last that tables on disk hold without the journals.
    pub(super) fn groups(&self) -> Result<(u64, u64), StoreError> {
        let (mut last, mut persisted) = (u64::MAX, u64::MAX);
        for keyspace in [&self.rows, &self.index] {
            let failed = |e: fjall::LsmError| explain(&self.path, &fjall::Error::from(e));
            let newest = keyspace
                .tree
                .get(GROUP_KEY, fjall::SeqNo::MAX >> 1)
                .map_err(failed)?;
            last = last.min(group_number(newest.as_deref()));
            let on_disk = match keyspace.tree.get_highest_persisted_seqno() {
                Some(sequence) => keyspace.tree.get(GROUP_KEY, sequence + 1).map_err(failed)?,
                None => None,
            };
            persisted = persisted.min(group_number(on_disk.as_deref()));
        }
        Ok((last, persisted))
    }

    /// The mark of the last group.
    pub(super) fn mark(&self) -> Result<Mark, StoreError> {
        let record = self
            .rows
            .get(GROUP_KEY)
            .map_err(|e| explain(&self.path, &e))?;
        Ok(record
            .and_then(|bytes| GroupRecord::decode(&bytes))
            .map(|record| record.mark)
            .unwrap_or_default())
    }

    /// Ready for work. Completes destructions that a crash cut short.
    pub(super) fn start(
        self,
        directory: Directory,
        high_water: HighWater,
        loose: Option<u64>,
    ) -> Result<(Tables, Recovered), StoreError> {
        let mark = self.mark()?;
        let view = Arc::new(self.db.snapshot());
        let Opened {
            path,
            db,
            rows,
            index,
        } = self;
        let tables = Tables {
            path,
            db,
            rows,
            index,
            ledger: Mutex::new(Ledger {
                mark,
                high_water,
                loose,
            }),
            published: RwLock::new(Published {
                view,
                heads: HashMap::new(),
            }),
            sync_seconds: Histogram::new(LATENCY_BOUNDS_SECONDS),
            directory,
        };
        let unfinished = tables.unfinished_destructions()?;
        let recovered = tables.recover_heads()?;
        let works: Vec<Work> = unfinished
            .into_iter()
            .map(|partition| Work::Destroy {
                partition,
                floor: recovered.floor,
                is_empty: false,
            })
            // A first group also proves, before anybody relies on it, that this directory can be written.
            .chain((mark.group == 0).then_some(Work::Raise {
                partition: RESERVED,
                owner: Owner::default(),
            }))
            .collect();
        if !works.is_empty() {
            tables
                .write(works)
                .map_err(|detail| StoreError::Poisoned { detail })?;
        }
        Ok((tables, recovered))
    }
}

fn rows_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(8 << 10))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .expect_point_read_hits(true)
        .max_memtable_size(NEVER)
        .manual_journal_persist(true)
}

fn index_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::disabled())
        .max_memtable_size(NEVER)
        .manual_journal_persist(true)
}

fn group_number(bytes: Option<&[u8]>) -> u64 {
    bytes
        .and_then(GroupRecord::decode)
        .map_or(0, |record| record.mark.group)
}

/// fjall's errors print as debug dumps; a person needs to know where to look.
pub(super) fn explain(store: &Path, error: &fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            StoreError::Io {
                doing: "use the tables in",
                path: store.to_owned(),
                source: std::io::Error::new(source.kind(), source.to_string()),
            }
        }
        fjall::Error::Locked => StoreError::Locked {
            directory: store.to_owned(),
            holder: None,
        },
        fjall::Error::Poisoned => StoreError::Poisoned {
            detail: format!("an earlier write to {} failed", store.display()),
        },
        fjall::Error::JournalRecovery(e) => {
            StoreError::damaged(&store.join("*.jnl"), format!("{e:?}"))
        }
        other => StoreError::damaged(
            &store.join("keyspaces"),
            format!("a table cannot be read ({other:?})"),
        ),
    }
}

impl Tables {
    pub(super) fn directory_mut(&mut self) -> &mut Directory {
        &mut self.directory
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn keyspace(&self, index: bool) -> &Keyspace {
        if index { &self.index } else { &self.rows }
    }

    /// What readers may see of a partition now.
    pub(super) fn view(&self, partition: PartitionId) -> (Arc<fjall::Snapshot>, Head) {
        let published = self
            .published
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        (
            published.view.clone(),
            published.heads.get(&partition).copied().unwrap_or_default(),
        )
    }

    pub(super) fn sync_seconds(&self) -> HistogramSnapshot {
        self.sync_seconds.snapshot()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.db.disk_space().unwrap_or(0)
    }

    /// Makes the high-water mark survive a power loss.
    pub(super) fn sync_mark(&self) -> Result<(), StoreError> {
        self.ledger
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .high_water
            .sync()
    }

    /// Turns a commit into a batch, on the caller's thread: sorted, prefixed, with its new head.
    pub(super) fn prepare(&self, lease: &Lease, mut commit: Commit) -> PreparedCommit {
        commit.settle();
        let partition = lease.partition();
        let head = commit.new_head();
        let mut spared = HashSet::new();
        if !commit.range_deletes.is_empty() {
            spared.extend(
                commit
                    .puts
                    .iter()
                    .map(|(key, _)| key)
                    .chain(&commit.deletes)
                    .cloned(),
            );
        }
        let mut digest = crc32fast::Hasher::new();
        let mut batch = OwnedWriteBatch::with_capacity(
            self.db.clone(),
            commit.puts.len() + commit.deletes.len() + 1,
        );
        for (key, value) in commit.puts {
            let keyspace = self.keyspace(is_index(&key));
            let key = prefixed(partition, &key);
            digest.update(&key);
            digest.update(&value);
            batch.insert(keyspace, key, value);
        }
        for key in commit.deletes {
            digest.update(&key);
            batch.remove(self.keyspace(is_index(&key)), prefixed(partition, &key));
        }
        let owner = Owner {
            epoch: lease.epoch(),
            head,
        };
        batch.insert(&self.rows, head_key(partition), encode_owner(owner));
        digest.update(&encode_owner(owner));
        PreparedCommit {
            batch,
            partition,
            head,
            ranges: commit.range_deletes,
            spared,
            digest: digest.finalize(),
        }
    }

    fn write_group(&self, group: Vec<Work>) -> Result<(), StoreError> {
        if group.iter().all(|work| matches!(work, Work::Barrier)) {
            return Ok(());
        }
        let failed = |e: fjall::Error| explain(&self.path, &e);
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        self.make_room().map_err(failed)?;
        let first_sequence = ledger.loose.unwrap_or(u64::MAX).min(self.db.seqno());
        let mut chain = crc32fast::Hasher::new();
        chain.update(&ledger.mark.chain.to_le_bytes());
        chain.update(&(ledger.mark.group + 1).to_le_bytes());
        let mut heads = Vec::with_capacity(group.len());
        for work in group {
            heads.extend(self.apply(work, &mut chain).map_err(failed)?);
        }
        let mark = Mark {
            group: ledger.mark.group + 1,
            chain: chain.finalize(),
        };
        let record = GroupRecord {
            mark,
            previous: ledger.mark.chain,
            first_sequence,
        }
        .encode();
        let mut batch = OwnedWriteBatch::with_capacity(self.db.clone(), 2);
        batch.insert(&self.rows, GROUP_KEY, record);
        batch.insert(&self.index, GROUP_KEY, record);
        batch.commit().map_err(failed)?;
        self.sync_seconds
            .time(|| self.db.persist(PersistMode::SyncData))
            .map_err(failed)?;
        ledger.high_water.advance(mark)?;
        ledger.mark = mark;
        ledger.loose = None;
        self.publish(heads);
        Ok(())
    }

    /// Writes one work to fjall, not yet synced; the head that changes by it (none: the partition is gone).
    fn apply(
        &self,
        work: Work,
        chain: &mut crc32fast::Hasher,
    ) -> Result<Option<(PartitionId, Option<Head>)>, fjall::Error> {
        match work {
            Work::Commit(commit) => {
                chain.update(&commit.digest.to_le_bytes());
                let PreparedCommit {
                    mut batch,
                    partition,
                    head,
                    ranges,
                    spared,
                    ..
                } = *commit;
                for range in ranges {
                    self.remove_range(&mut batch, partition, &range, &spared)?;
                }
                batch.commit()?;
                Ok(Some((partition, Some(head))))
            }
            Work::Raise { partition, owner } => {
                let record = encode_owner(owner);
                chain.update(&record);
                let mut batch = OwnedWriteBatch::with_capacity(self.db.clone(), 1);
                batch.insert(&self.rows, head_key(partition), record);
                batch.commit()?;
                Ok(None)
            }
            Work::Destroy {
                partition,
                floor,
                is_empty,
            } => {
                chain.update(&partition.0.to_le_bytes());
                self.remove_partition(partition, floor, is_empty)?;
                Ok(Some((partition, None)))
            }
            Work::Barrier => Ok(None),
        }
    }

    /// Adds tombstones for all that earlier commits left in the range. fjall has no range tombstones.
    fn remove_range(
        &self,
        batch: &mut OwnedWriteBatch,
        partition: PartitionId,
        range: &Range<Vec<u8>>,
        spared: &HashSet<Vec<u8>>,
    ) -> Result<(), fjall::Error> {
        if range.start >= range.end {
            return Ok(());
        }
        // Nothing is in flight while the leader is here, so this snapshot holds exactly what was written before.
        let now = self.db.snapshot();
        for keyspace in [&self.rows, &self.index] {
            for row in now.range(
                keyspace,
                prefixed(partition, &range.start)..prefixed(partition, &range.end),
            ) {
                let key = row.key()?;
                if !spared.contains(&key[PREFIX_BYTES..]) {
                    batch.remove(keyspace, key);
                }
            }
        }
        Ok(())
    }

    /// Removes a partition in steps: first its head, leaving a note; then its keys; then the note. One that is known to
    /// have no keys has nothing to note.
    fn remove_partition(
        &self,
        partition: PartitionId,
        floor: u64,
        is_empty: bool,
    ) -> Result<(), fjall::Error> {
        let mut batch = self.db.batch();
        batch.remove(&self.rows, head_key(partition));
        batch.insert(&self.rows, [FLOOR_KEY].concat(), floor.to_le_bytes());
        if is_empty {
            return batch.commit();
        }
        batch.insert(&self.rows, doomed_key(partition), []);
        batch.commit()?;
        let now = self.db.snapshot();
        for keyspace in [&self.rows, &self.index] {
            let mut batch = self.db.batch();
            for row in now.range(keyspace, whole(partition)) {
                batch.remove(keyspace, row.key()?);
                if batch.len() >= DESTROY_KEYS {
                    std::mem::replace(&mut batch, self.db.batch()).commit()?;
                    self.make_room()?;
                }
            }
            batch.commit()?;
        }
        let mut batch = self.db.batch();
        batch.remove(&self.rows, doomed_key(partition));
        batch.commit()
    }

    fn publish(&self, heads: Vec<(PartitionId, Option<Head>)>) {
        let view = Arc::new(self.db.snapshot());
        let mut published = self
            .published
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut published.view, view);
        for (partition, head) in heads {
            match head {
                Some(head) => published.heads.insert(partition, head),
                None => published.heads.remove(&partition),
            };
        }
        drop(published);
        drop(old);
    }

    /// Hands full memtables over to be flushed, and waits until flushes and compactions caught up, so that fjall does not
    /// stop us where a failure goes unheard.
    ///
    /// fjall would ask for the rotation itself, once for every batch beyond the size: while its one worker compacts, these
    /// requests fill the worker's queue, and the worker then waits for ever for room in it to ask for the flush. So fjall
    /// is told of no size, and the rotation is done here, once.
    fn make_room(&self) -> Result<(), fjall::Error> {
        for keyspace in [&self.rows, &self.index] {
            if keyspace.tree.active_memtable().size() > MEMTABLE_BYTES {
                keyspace.rotate_memtable()?;
            }
        }
        while self.is_behind(SEALED_MAX, RUNS_MAX) {
            // Costs nothing when clean, and says whether the background worker died.
            self.db.persist(PersistMode::Buffer)?;
            std::thread::sleep(ROOM_POLL);
        }
        Ok(())
    }

    /// Whether so many memtables wait to be flushed, or so many runs to be compacted.
    fn is_behind(&self, sealed: usize, runs: usize) -> bool {
        let is_behind = |keyspace: &Keyspace| {
            keyspace.tree.sealed_memtable_count() >= sealed || keyspace.tree.l0_run_count() >= runs
        };
        is_behind(&self.rows) || is_behind(&self.index)
    }

    /// Waits until flushes and compactions caught up, but not for ever: clients alone may keep them busy.
    pub(super) fn let_catch_up(&self) {
        let polls = CATCH_UP_MOST.as_millis() / ROOM_POLL.as_millis();
        for _ in (0..polls).take_while(|_| self.is_behind(SEALED_BEHIND, RUNS_BEHIND)) {
            std::thread::sleep(ROOM_POLL);
        }
    }

    fn recover_heads(&self) -> Result<Recovered, StoreError> {
        let failed = |e: fjall::Error| explain(&self.path, &e);
        let damaged = || {
            StoreError::damaged(
                &self.path.join("keyspaces"),
                "a partition's head record is unreadable",
            )
        };
        let mut published = self
            .published
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let view = published.view.clone();
        let mut owners = HashMap::new();
        for row in view.prefix(&self.rows, HEAD_PREFIX) {
            let (key, value) = row.into_inner().map_err(failed)?;
            let partition = key
                .get(HEAD_PREFIX.len()..)
                .and_then(|id| id.try_into().ok())
                .map(u64::from_be_bytes);
            let partition = PartitionId(partition.ok_or_else(damaged)?);
            let owner = decode_owner(&value).ok_or_else(damaged)?;
            if partition != RESERVED {
                published.heads.insert(partition, owner.head);
                owners.insert(partition, owner);
            }
        }
        let floor = view.get(&self.rows, FLOOR_KEY).map_err(failed)?;
        let floor = floor
            .map(|bytes| bytes.as_ref().try_into().map(u64::from_le_bytes))
            .transpose();
        Ok(Recovered {
            owners,
            floor: floor.map_err(|_| damaged())?.unwrap_or(0),
        })
    }

    fn unfinished_destructions(&self) -> Result<Vec<PartitionId>, StoreError> {
        let view = self.view(RESERVED).0;
        let ids = view.prefix(&self.rows, DOOMED_PREFIX).map(|row| {
            let key = row.key().map_err(|e| explain(&self.path, &e))?;
            let id = key
                .get(DOOMED_PREFIX.len()..)
                .and_then(|id| id.try_into().ok())
                .map(u64::from_be_bytes);
            let unreadable = || {
                StoreError::damaged(
                    &self.path.join("keyspaces"),
                    "a note of a destruction is unreadable",
                )
            };
            id.map(PartitionId).ok_or_else(unreadable)
        });
        ids.collect()
    }
}

impl Sink for Tables {
    type Work = Work;

    fn write(&self, group: Vec<Work>) -> Result<(), String> {
        self.write_group(group).map_err(|e| e.to_string())
    }
}

const HEAD_PREFIX: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x01";
const FLOOR_KEY: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x03";
const DOOMED_PREFIX: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x04";

/// Whether a key (without prefix) is an index entry.
pub(super) fn is_index(key: &[u8]) -> bool {
    key.first().is_some_and(|tag| *tag >= INDEX_TAG)
}

/// The key as fjall has it.
pub(super) fn prefixed(partition: PartitionId, key: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(PREFIX_BYTES + key.len());
    whole.extend_from_slice(&partition.0.to_be_bytes());
    whole.extend_from_slice(key);
    whole
}

/// All keys of a partition.
fn whole(partition: PartitionId) -> (Bound<[u8; 8]>, Bound<[u8; 8]>) {
    // No overflow: the highest number is reserved.
    (
        Bound::Included(partition.0.to_be_bytes()),
        Bound::Excluded((partition.0 + 1).to_be_bytes()),
    )
}

fn head_key(partition: PartitionId) -> Vec<u8> {
    [HEAD_PREFIX, &partition.0.to_be_bytes()].concat()
}

fn doomed_key(partition: PartitionId) -> Vec<u8> {
    [DOOMED_PREFIX, &partition.0.to_be_bytes()].concat()
}

fn encode_owner(owner: Owner) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&owner.epoch.to_le_bytes());
    bytes[8..16].copy_from_slice(&owner.head.lsn.to_le_bytes());
    bytes[16..].copy_from_slice(&owner.head.token);
    bytes
}

fn decode_owner(bytes: &[u8]) -> Option<Owner> {
    let bytes: &[u8; 32] = bytes.try_into().ok()?;
    let epoch = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    let lsn = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    let token = bytes[16..].try_into().ok()?;
    Some(Owner {
        epoch,
        head: Head { lsn, token },
    })
}
