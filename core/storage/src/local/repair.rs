//! The repair of a data directory whose journals lost acknowledged commits: the loss is described
//! and its remains are kept before it is accepted.
//!
//! Promised: [`examine`] changes nothing; [`Loss::keep_remains`] is durable when it returns, so
//! that the bytes that the next open cuts off are not gone.
//!
//! Left out: damage of tables and of older journals, and damage before the commits that the tables
//! hold already. Only a backup helps there.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::database::check_not_ahead;
use super::directory::{Directory, Stage, sync_directory};
use super::high_water::{HighWater, Mark};
use super::journal::{self, JournalContents};
use super::keys::{HEAD_PREFIX, PREFIX_BYTES, decode_ownership, partition_behind};
use crate::commit::PartitionId;
use crate::error::StoreError;

/// The acknowledged commits that a data directory lost, as far as its files tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The refusal of the directory, with the damaged file.
    pub problem: String,
    /// The last group commit that is left.
    pub last_group: u64,
    /// The last group commit that was acknowledged; `None` if the file that tells is lost itself.
    pub acknowledged_group: Option<u64>,
    /// The newest journal.
    pub journal: PathBuf,
    /// The offset in the journal from which on its commits are lost, in bytes.
    pub offset: u64,
    /// The bytes from the offset to the last byte that is not zero.
    pub bytes: u64,
    /// The lost commits that are readable behind the damage, in the order in which they were
    /// written. Some of them may not have been acknowledged.
    pub commits: Vec<LostCommit>,
}

/// A lost commit whose bytes are still readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostCommit {
    /// The partition that the commit wrote.
    pub partition: PartitionId,
    /// The LSN of the commit.
    pub lsn: u64,
    /// The keys that the commit put or deleted.
    pub keys: Vec<Vec<u8>>,
}

/// Describes the loss for which a data directory is refused. Returns `None` if the journals are
/// complete.
///
/// # Errors
/// When the directory is in use, missing or of another program, or when it is damaged in a way that
/// accepting a loss does not mend.
pub(super) fn examine(root: &Path) -> Result<Option<Loss>, StoreError> {
    let directory = Directory::claim_existing(root)?;
    if directory.stage == Stage::Creating {
        return Ok(None);
    }
    directory.check_parts()?;
    let store = directory.store();
    let mark = HighWater::read(&directory.high_water());
    let refusal = match &mark {
        Ok(mark) => match journal::inspect(&store, Some(*mark)) {
            Ok(_) => return Ok(None),
            Err(refusal) => refusal.to_string(),
        },
        Err(missing) => missing.to_string(),
    };
    // The journals are readable up to a point of the newest one, or accepting a loss is no remedy.
    let contents = journal::inspect(&store, None)?;
    check_not_ahead(&store, contents.last_sequence)?;
    describe(refusal, mark.ok(), contents).map(Some)
}

/// Reads the bytes behind the end of the newest journal.
fn describe(
    problem: String,
    mark: Option<Mark>,
    contents: JournalContents,
) -> Result<Loss, StoreError> {
    let (journal, offset) = contents.end.unwrap_or_default();
    let remains = remains(&journal, offset)?;
    let mut commits = Vec::new();
    for batch in journal::salvage_batches(&remains) {
        commits.extend(lost_commit(batch));
    }
    Ok(Loss {
        problem,
        last_group: contents.groups.map_or(0, |(_, last)| last.mark.group),
        acknowledged_group: mark.map(|mark| mark.group),
        journal,
        offset,
        bytes: remains.len() as u64,
        commits,
    })
}

/// Returns the bytes of a journal from `offset` on, without the zeros at its end.
fn remains(journal: &Path, offset: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let mut read = || {
        let mut file = File::open(journal)?;
        file.seek(SeekFrom::Start(offset))?;
        file.read_to_end(&mut bytes)
    };
    read().map_err(StoreError::io("read", journal))?;
    let end = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(end.map_or(0, |last| last + 1));
    Ok(bytes)
}

/// Returns the commit that a batch holds; `None` for the batches that the store writes for itself.
fn lost_commit(batch: Vec<(Vec<u8>, Vec<u8>)>) -> Option<LostCommit> {
    let mut head = None;
    let mut keys = Vec::new();
    for (mut key, value) in batch {
        if key.starts_with(HEAD_PREFIX) {
            head = partition_behind(HEAD_PREFIX, &key).zip(decode_ownership(&value));
        } else if key.len() > PREFIX_BYTES {
            keys.push(key.split_off(PREFIX_BYTES));
        }
    }
    let (partition, ownership) = head?;
    // A batch with a head and no keys raises an epoch.
    (!keys.is_empty()).then_some(LostCommit {
        partition,
        lsn: ownership.head.lsn,
        keys,
    })
}

impl Loss {
    /// Copies the bytes that the next open cuts off, and the high-water file, into the new
    /// directory `target`, durably.
    ///
    /// # Errors
    /// When the directory exists or cannot be written.
    pub fn keep_remains(&self, root: &Path, target: &Path) -> Result<(), StoreError> {
        let keep = || {
            std::fs::create_dir(target)?;
            let journal = remains(&self.journal, self.offset).map_err(std::io::Error::other)?;
            write_synced(&target.join("journal-remains"), &journal)?;
            let high_water = root.join("high-water");
            if high_water.exists() {
                write_synced(&target.join("high-water"), &std::fs::read(&high_water)?)?;
            }
            sync_directory(target)?;
            match target.parent() {
                Some(parent) => sync_directory(parent),
                None => Ok(()),
            }
        };
        keep().map_err(StoreError::io("keep the lost bytes in", target))
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
