//! The opening of the fjall database: the settings of its two keyspaces, the group commits found in
//! them, and the translation of fjall's errors.
//!
//! fjall compacts by itself and poisons the database when a compaction fails. So it is given
//! thresholds that are never reached, and moves tables at most; `maintenance.rs` compacts.
//!
//! Nothing here writes: the caller compares the open database with the journals and the high-water
//! mark before the first group commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy, FilterPolicy};
use fjall::{AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions};
use lsm_tree::SequenceNumberCounter;

use super::LocalOptions;
use super::high_water::Mark;
use super::journal::{GROUP_KEY, GroupRecord};
use crate::error::StoreError;

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
        })
    }

    /// Returns the numbers of the newest group commits.
    pub(super) fn groups(&self) -> Result<GroupNumbers, StoreError> {
        let (mut last, mut persisted) = (u64::MAX, u64::MAX);
        let mut lagging = PathBuf::new();
        for keyspace in [&self.rows, &self.index] {
            let failed = |e: fjall::LsmError| store_error(&self.path, &fjall::Error::from(e));
            let newest = keyspace
                .tree
                .get(GROUP_KEY, fjall::SeqNo::MAX >> 1)
                .map_err(failed)?;
            let newest = group_number(newest.as_deref());
            if newest < last {
                last = newest;
                lagging = keyspace.path().join("current");
            }
            let on_disk = match keyspace.tree.get_highest_persisted_seqno() {
                Some(sequence) => keyspace.tree.get(GROUP_KEY, sequence + 1).map_err(failed)?,
                None => None,
            };
            persisted = persisted.min(group_number(on_disk.as_deref()));
        }
        Ok(GroupNumbers {
            last,
            persisted,
            lagging,
        })
    }

    /// Returns the mark of the last group; the default mark if there is no group.
    pub(super) fn mark(&self) -> Result<Mark, StoreError> {
        let value = self.rows.get(GROUP_KEY);
        let value = value.map_err(|e| store_error(&self.path, &e))?;
        let record = value.and_then(|bytes| GroupRecord::decode(&bytes));
        Ok(record.map(|record| record.mark).unwrap_or_default())
    }
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
fn group_number(record: Option<&[u8]>) -> u64 {
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
