//! The opening of the fjall database: the settings of its two keyspaces, the group commits found in
//! them, and the translation of fjall's errors.
//!
//! Nothing here writes: the caller compares the open database with the journals and the high-water
//! mark before the first group commit.

use std::path::{Path, PathBuf};

use fjall::config::{BlockSizePolicy, CompressionPolicy, FilterPolicy};
use fjall::{AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions};

use super::LocalOptions;
use super::high_water::Mark;
use super::journal::{GROUP_KEY, GroupRecord};
use crate::error::StoreError;

/// A memtable size that is never reached, in bytes. The store rotates memtables itself; see
/// `Tables::prevent_stall`.
const MEMTABLE_BYTES_UNREACHABLE: u64 = 1 << 40;
/// Bytes of all journals beyond which fjall flushes the memtables that keep old journals alive.
const JOURNAL_BYTES_MAX: u64 = 512 << 20;

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
}

impl OpenDatabase {
    /// Opens the database, and creates it if it is new.
    pub(super) fn open(
        path: &Path,
        options: &LocalOptions,
        is_new: bool,
    ) -> Result<OpenDatabase, StoreError> {
        let failed = |e: fjall::Error| store_error(path, &e);
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
        })
    }

    /// Returns the numbers of the newest group commits.
    pub(super) fn groups(&self) -> Result<GroupNumbers, StoreError> {
        let (mut last, mut persisted) = (u64::MAX, u64::MAX);
        for keyspace in [&self.rows, &self.index] {
            let failed = |e: fjall::LsmError| store_error(&self.path, &fjall::Error::from(e));
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
        Ok(GroupNumbers { last, persisted })
    }

    /// Returns the mark of the last group; the default mark if there is no group.
    pub(super) fn mark(&self) -> Result<Mark, StoreError> {
        let value = self.rows.get(GROUP_KEY);
        let value = value.map_err(|e| store_error(&self.path, &e))?;
        let record = value.and_then(|bytes| GroupRecord::decode(&bytes));
        Ok(record.map(|record| record.mark).unwrap_or_default())
    }
}

fn rows_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(8 << 10))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .expect_point_read_hits(true)
        .max_memtable_size(MEMTABLE_BYTES_UNREACHABLE)
        .manual_journal_persist(true)
}

fn index_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::disabled())
        .max_memtable_size(MEMTABLE_BYTES_UNREACHABLE)
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
