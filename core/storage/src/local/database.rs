//! The opening of the fjall database: the settings of its two keyspaces, the group commits found in
//! them, and the translation of fjall's errors.
//!
//! fjall compacts by itself and poisons the database when a compaction fails. So it is given
//! thresholds that are never reached, and moves tables at most; `maintenance.rs` compacts.
//!
//! Nothing here writes: the caller compares the open database with the journals and the high-water
//! mark before the first group commit.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy, FilterPolicy};
use fjall::{AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, Readable};
use lsm_tree::SequenceNumberCounter;

use super::LocalOptions;
use super::blocks::SEAL;
use super::directory::RESTORE_ADVICE;
use super::high_water::Mark;
use super::journal::{GROUP_KEY, GroupRecord};
use super::kept_journals::SECOND_KEY;
use super::keys::{
    DESTRUCTION_PREFIX, EPOCH_FLOOR_KEY, HEAD_PREFIX, MIRRORED_KEY, decode_ownership,
    partition_behind,
};
use super::maintenance::is_damage;
use crate::commit::{Head, PartitionId};
use crate::error::StoreError;
use crate::ownership::{Ownership, RESERVED};

/// A memtable size that is never reached, in bytes. The store rotates memtables itself; see
/// `Tables::prevent_stall`.
const MEMTABLE_BYTES_UNREACHABLE: u64 = 1 << 40;
/// Bytes of all journals beyond which fjall flushes the memtables that keep old journals alive.
const JOURNAL_BYTES_MAX: u64 = 512 << 20;

/// Tables in level 0 from which on fjall itself compacts. The leader waits long before that.
const PASSIVE_L0_TABLES: u8 = u8::MAX;
/// The size of a table on which fjall bases the sizes of levels: never reached.
const PASSIVE_TABLE_BYTES: u64 = 1 << 50;

/// An open database that was not yet compared with the high-water mark.
pub(super) struct OpenDatabase {
    pub(super) path: PathBuf,
    pub(super) db: Database,
    pub(super) rows: Keyspace,
    pub(super) index: Keyspace,
    /// A damaged block with a record of the store was met in the keyspace of rows, or of index
    /// entries.
    has_damaged_record: [AtomicBool; 2],
}

/// The numbers of the newest group commits in the tables.
pub(super) struct GroupNumbers {
    /// The last group that both keyspaces hold.
    pub(super) last: u64,
    /// The last group that the tables of both keyspaces hold on disk, without the journals.
    pub(super) persisted: u64,
    /// The pointer to the tables of the keyspace that ends first.
    pub(super) lagging: PathBuf,
}

/// The heads and epochs found at open.
pub(super) struct Recovered {
    pub(super) ownership: HashMap<PartitionId, Ownership>,
    pub(super) epoch_floor: u64,
}

impl Recovered {
    /// Returns the head of each partition.
    pub(super) fn heads(&self) -> HashMap<PartitionId, Head> {
        let heads = self.ownership.iter();
        heads.map(|(id, found)| (*id, found.head)).collect()
    }
}

impl OpenDatabase {
    /// Opens the database, and creates it if it is new.
    pub(super) fn open(
        path: &Path,
        options: &LocalOptions,
        is_new: bool,
    ) -> Result<OpenDatabase, StoreError> {
        let failed = |e: fjall::Error| store_error(path, &e);
        if !is_new {
            stop_own_compactions(path).map_err(|e| failed(e.into()))?;
        }
        let db = Database::builder(path)
            .worker_threads(options.worker_threads.max(1))
            .cache_size(options.cache_bytes)
            .max_cached_files(Some(options.open_tables.max(10)))
            .manual_journal_persist(true)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .open()
            .map_err(failed)?;
        // fjall would create a missing keyspace anew, and its data would be gone silently.
        for (name, content) in [("rows", "rows"), ("index", "index entries")] {
            if !is_new && !db.keyspace_exists(name) {
                return Err(StoreError::damaged(
                    &path.join("keyspaces"),
                    format!("the tables of {content} are missing"),
                ));
            }
        }
        let rows = db.keyspace("rows", rows_options).map_err(failed)?;
        let index = db.keyspace("index", index_options).map_err(failed)?;
        Ok(OpenDatabase {
            path: path.to_owned(),
            db,
            rows,
            index,
            has_damaged_record: Default::default(),
        })
    }

    /// Returns the numbers of the newest group commits. A keyspace whose group record is in a
    /// damaged block is passed over, if the other one has its record.
    pub(super) fn groups(&self) -> Result<GroupNumbers, StoreError> {
        let mut numbers: Option<GroupNumbers> = None;
        let mut damage = None;
        for is_index in [false, true] {
            let keyspace = self.keyspace(is_index);
            let (last, persisted) = match newest_groups(keyspace) {
                Ok(found) => found,
                Err(error) if is_damage(&error) => {
                    self.set_damaged_record(is_index);
                    damage = Some(error);
                    continue;
                }
                Err(error) => return Err(store_error(&self.path, &error.into())),
            };
            let current = keyspace.path().join("current");
            let numbers = numbers.get_or_insert_with(|| GroupNumbers {
                last,
                persisted,
                lagging: current.clone(),
            });
            if last < numbers.last {
                numbers.last = last;
                numbers.lagging = current;
            }
            numbers.persisted = numbers.persisted.min(persisted);
        }
        match (numbers, damage) {
            (Some(numbers), _) => Ok(numbers),
            (None, Some(error)) => Err(store_error(&self.path, &error.into())),
            (None, None) => Err(self.unreadable_record()),
        }
    }

    /// Returns the mark of the last group; the default mark if there is no group.
    pub(super) fn mark(&self) -> Result<Mark, StoreError> {
        let records = self.records(GROUP_KEY)?;
        let record = records
            .first()
            .and_then(|(_, bytes)| GroupRecord::decode(bytes));
        Ok(record.map(|record| record.mark).unwrap_or_default())
    }

    /// Returns the last second that a group was written in, as far as it is recorded; 0 if not.
    pub(super) fn second(&self) -> Result<u64, StoreError> {
        let records = self.records(SECOND_KEY)?;
        let bytes = records.first().and_then(|(_, bytes)| bytes.first_chunk());
        Ok(bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }

    /// Returns true if both keyspaces have all records of the store.
    pub(super) fn is_mirrored(&self) -> bool {
        matches!(self.index.get(MIRRORED_KEY), Ok(Some(_)))
    }

    /// Returns the records of the store whose keys begin with `prefix`.
    fn records(&self, prefix: &[u8]) -> Result<Records, StoreError> {
        let view = self.db.snapshot();
        let in_rows = read_records(&view, &self.rows, prefix);
        let records = match in_rows {
            Err(fjall::Error::Storage(error)) if is_damage(&error) && self.is_mirrored() => {
                self.set_damaged_record(false);
                read_records(&view, &self.index, prefix)
            }
            other => other,
        };
        records.map_err(|error| store_error(&self.path, &error))
    }

    /// Returns true if a record of the store in the keyspace of rows, or of index entries, was met
    /// in a damaged block.
    pub(super) fn has_damaged_record(&self, is_index: bool) -> bool {
        self.has_damaged_record[usize::from(is_index)].load(Ordering::Relaxed)
    }

    fn set_damaged_record(&self, is_index: bool) {
        self.has_damaged_record[usize::from(is_index)].store(true, Ordering::Relaxed);
    }

    fn unreadable_record(&self) -> StoreError {
        let keyspaces = self.path.join("keyspaces");
        StoreError::damaged(&keyspaces, "a record of the store is unreadable")
    }

    /// Closes the database and waits for its threads. Returns the highest sequence number that a
    /// table holds. The caller is the only holder.
    pub(super) fn close(self) -> u64 {
        let OpenDatabase {
            db, rows, index, ..
        } = self;
        // The threads end here; before that a flush may still write a table.
        drop(db);
        let persisted = [&rows, &index].map(|keyspace| keyspace.tree.get_highest_persisted_seqno());
        persisted.into_iter().flatten().max().unwrap_or(0)
    }

    /// Returns the keyspace of index entries, or of rows.
    pub(super) fn keyspace(&self, is_index: bool) -> &Keyspace {
        if is_index { &self.index } else { &self.rows }
    }

    /// Reads all head records and the epoch floor.
    pub(super) fn recover_heads(&self) -> Result<Recovered, StoreError> {
        let unreadable = || self.unreadable_record();
        let mut ownership = HashMap::new();
        for (key, value) in self.records(HEAD_PREFIX)? {
            let partition = partition_behind(HEAD_PREFIX, &key).ok_or_else(unreadable)?;
            let found = decode_ownership(&value).ok_or_else(unreadable)?;
            // The first group writes a head record of the reserved partition.
            if partition != RESERVED {
                ownership.insert(partition, found);
            }
        }
        let epoch_floor = match self.records(EPOCH_FLOOR_KEY)?.first() {
            Some((_, bytes)) => match bytes.as_ref().try_into() {
                Ok(bytes) => u64::from_le_bytes(bytes),
                Err(_) => return Err(unreadable()),
            },
            None => 0,
        };
        Ok(Recovered {
            ownership,
            epoch_floor,
        })
    }

    /// Returns the partitions whose destruction a crash interrupted.
    pub(super) fn unfinished_destructions(&self) -> Result<Vec<PartitionId>, StoreError> {
        let mut partitions = Vec::new();
        for (key, _) in self.records(DESTRUCTION_PREFIX)? {
            let partition = partition_behind(DESTRUCTION_PREFIX, &key);
            partitions.push(partition.ok_or_else(|| self.unreadable_record())?);
        }
        Ok(partitions)
    }
}

/// Records of the store: keys and values.
type Records = Vec<(fjall::UserKey, fjall::UserValue)>;

/// Reads the records of the store in one keyspace. A block that was sealed after its records had
/// been written anew has none.
fn read_records(
    view: &fjall::Snapshot,
    keyspace: &Keyspace,
    prefix: &[u8],
) -> Result<Records, fjall::Error> {
    let mut records = Vec::new();
    for row in view.prefix(keyspace, prefix) {
        let (key, value) = row.into_inner()?;
        if !value.starts_with(SEAL) {
            records.push((key, value));
        }
    }
    Ok(records)
}

/// Returns the numbers of the last group in a keyspace, and of the last one in its tables on disk.
fn newest_groups(keyspace: &Keyspace) -> Result<(u64, u64), fjall::LsmError> {
    let newest = keyspace.tree.get(GROUP_KEY, fjall::SeqNo::MAX >> 1)?;
    let on_disk = match keyspace.tree.get_highest_persisted_seqno() {
        Some(sequence) => keyspace.tree.get(GROUP_KEY, sequence + 1)?,
        None => None,
    };
    Ok((
        group_number(newest.as_deref()),
        group_number(on_disk.as_deref()),
    ))
}

/// Refuses a store whose tables hold commits behind the end of the journals. A keyspace that was
/// flushed later than the other would hold parts of commits that the other lacks. The tables are
/// opened without fjall, which would change them.
///
/// # Errors
/// When the tables are ahead of the journals, or cannot be read.
pub(super) fn check_not_ahead(store: &Path, last_sequence: Option<u64>) -> Result<(), StoreError> {
    for keyspace in [1, 2] {
        let folder = store.join(format!("keyspaces/{keyspace}"));
        let (sequence, visible) = Default::default();
        let tree = lsm_tree::Config::new(&folder, sequence, visible).open();
        let tree = tree.map_err(|error| store_error(store, &error.into()))?;
        let persisted = tree.get_highest_persisted_seqno();
        if persisted > last_sequence {
            let detail = format!(
                "it holds commits behind the place where the journals cannot be read any more, so \
                 the commits before that place cannot be separated from those behind it. \
                 {RESTORE_ADVICE}"
            );
            return Err(StoreError::damaged(&folder.join("tables"), detail));
        }
    }
    Ok(())
}

/// Sets the thresholds of fjall's own compactions in the list of keyspaces, where fjall reads them
/// at every open. Keyspaces that an earlier version of this program created have lower ones.
fn stop_own_compactions(store: &Path) -> Result<(), fjall::LsmError> {
    let sequence = SequenceNumberCounter::default();
    let visible = SequenceNumberCounter::default();
    let folder = store.join("keyspaces/0");
    let keyspaces = lsm_tree::Config::new(folder, sequence.clone(), visible).open()?;
    let mut settings = Vec::new();
    for keyspace in [1u64, 2] {
        let setting = |name: &str| [b"c", &keyspace.to_be_bytes()[..], name.as_bytes()].concat();
        settings.push((setting("leveled_l0_threshold"), vec![PASSIVE_L0_TABLES]));
        let table_bytes = PASSIVE_TABLE_BYTES.to_le_bytes().to_vec();
        settings.push((setting("leveled_target_size"), table_bytes));
    }
    let mut is_set = true;
    for (key, value) in &settings {
        let found = keyspaces.get(key, fjall::SeqNo::MAX)?;
        is_set &= found.as_deref() == Some(&value[..]);
    }
    if is_set {
        return Ok(());
    }
    // The new settings must be newer than those that they replace.
    sequence.fetch_max(
        keyspaces
            .get_highest_seqno()
            .map_or(0, |highest| highest + 1),
    );
    let mut ingestion = keyspaces.ingestion()?;
    for (key, value) in settings {
        ingestion.write(key, value)?;
    }
    ingestion.finish()
}

/// Returns the strategy that only moves tables.
fn passive_strategy() -> Arc<Leveled> {
    let strategy = Leveled::default().with_l0_threshold(PASSIVE_L0_TABLES);
    Arc::new(strategy.with_table_target_size(PASSIVE_TABLE_BYTES))
}

fn rows_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(8 << 10))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .expect_point_read_hits(true)
        .max_memtable_size(MEMTABLE_BYTES_UNREACHABLE)
        .compaction_strategy(passive_strategy())
        .manual_journal_persist(true)
}

fn index_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::disabled())
        .max_memtable_size(MEMTABLE_BYTES_UNREACHABLE)
        .compaction_strategy(passive_strategy())
        .manual_journal_persist(true)
}

/// Returns the number in a group record; 0 if there is no readable record.
pub(super) fn group_number(record: Option<&[u8]>) -> u64 {
    match record.and_then(GroupRecord::decode) {
        Some(record) => record.mark.group,
        None => 0,
    }
}

/// Translates an error of fjall, which prints as a debug dump, into an error that names the
/// directory concerned.
pub(super) fn store_error(store: &Path, error: &fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            StoreError::Io {
                doing: "use the tables in",
                path: store.to_owned(),
                // A copy, since an error of the operating system cannot be cloned.
                source: match source.raw_os_error() {
                    Some(number) => std::io::Error::from_raw_os_error(number),
                    None => std::io::Error::new(source.kind(), source.to_string()),
                },
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
