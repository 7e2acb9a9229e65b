//! The log of the local engine: whole groups, read from the journals that are kept.
//!
//! Only groups up to the mark of the last durable group are read: what stands behind them in the
//! newest journal may be cut off again. A journal that has a successor is read to its last whole
//! batch, since a group may begin in one journal and end in the next.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use orrery_model::sync;

use super::LocalStore;
use super::high_water::Mark;
use super::journal::{Batch, read_batch};
use super::kept_journals::KeptJournals;
use super::reopening::being_reopened;
use crate::error::StoreError;
use crate::journal_log::{JournalLog, LogPosition, LogSegment, NextSegment};

/// Groups that are followed batch by batch.
pub(super) struct GroupReader {
    /// The place behind the last group.
    pub(super) group_end: LogPosition,
    /// The place behind the last batch.
    offset: u64,
    /// The second of the batches since the last group, if one of them has it.
    second: Option<u64>,
}

impl GroupReader {
    /// Begins behind a group, at a place of a journal.
    pub(super) fn new(start: LogPosition) -> GroupReader {
        GroupReader {
            offset: start.offset,
            group_end: start,
            second: None,
        }
    }

    /// Takes the next batch. Returns true if a group ends with it, and `None` if that group does
    /// not follow the last one.
    pub(super) fn follow(&mut self, batch: &Batch) -> Option<bool> {
        self.offset += batch.bytes;
        self.second = batch.second.or(self.second);
        let Some(record) = batch.record else {
            return Some(false);
        };
        let last = self.group_end;
        if record.mark.group != last.group + 1 || record.previous != last.chain {
            return None;
        }
        self.group_end = LogPosition {
            journal: last.journal,
            offset: self.offset,
            group: record.mark.group,
            chain: record.mark.chain,
            second: self.second.take().unwrap_or(last.second),
        };
        Some(true)
    }

    /// Returns the place behind the last batch.
    pub(super) fn batch_end(&self) -> LogPosition {
        LogPosition {
            offset: self.offset,
            ..self.group_end
        }
    }
}

impl JournalLog for LocalStore {
    fn store_id(&self) -> Result<String, StoreError> {
        self.committer.sink().directory.id()
    }

    fn position(&self) -> Result<LogPosition, StoreError> {
        let tables = self.committer.sink();
        // No group is written while the lock is held, so none begins before the journal found.
        let writer = sync::lock(&tables.writer);
        if tables.access.database().is_none() || writer.failed_from.is_some() {
            return Err(being_reopened());
        }
        let kept = kept_of(self)?;
        kept.link_all()?;
        let (mark, second) = (writer.mark, kept.second());
        let newest = kept.all()?.pop();
        drop(writer);
        let Some((journal, path)) = newest else {
            let folder = kept.path(0);
            return Err(StoreError::damaged(&folder, "no journal is kept"));
        };
        end_of_group(&path, journal, mark, second)
    }

    fn last_group(&self) -> u64 {
        sync::lock(&self.committer.sink().writer).mark.group
    }

    fn next(&self, after: &LogPosition, bytes_max: usize) -> Result<NextSegment, StoreError> {
        let mark = sync::lock(&self.committer.sink().writer).mark;
        if after.group == mark.group {
            return Ok(match after.chain == mark.chain {
                true => NextSegment::UpToDate,
                false => NextSegment::Gap,
            });
        }
        let kept = kept_of(self)?;
        if after.group < kept.began() {
            return Ok(NextSegment::Gap);
        }
        let newest = kept.all()?.pop().map_or(0, |(number, _)| number);
        let mut start = *after;
        loop {
            let read = Piece {
                path: &kept.path(start.journal),
                start,
                mark,
                bytes_max,
                has_successor: start.journal < newest,
            };
            match read.read()? {
                // The place is the end of a journal that is finished.
                Some(segment) if segment.bytes.is_empty() && start.journal < newest => {
                    start.journal += 1;
                    start.offset = 0;
                }
                Some(segment) if segment.bytes.is_empty() => return Ok(NextSegment::Gap),
                Some(segment) => return Ok(NextSegment::Segment(segment)),
                None => return Ok(NextSegment::Gap),
            }
        }
    }

    fn release(&self, before: &LogPosition) -> Result<u64, StoreError> {
        kept_of(self)?.release(before.journal)
    }
}

/// Returns the kept journals of a store. A store without them gives no log.
fn kept_of(store: &LocalStore) -> Result<&KeptJournals, StoreError> {
    let tables = store.committer.sink();
    let kept = tables.kept_journals.as_ref();
    kept.ok_or_else(|| StoreError::damaged(tables.directory.root(), "no journal is kept"))
}

/// Returns the place behind a group, or the beginning of the journal if the group is not in it.
fn end_of_group(
    path: &Path,
    journal: u64,
    mark: Mark,
    second: u64,
) -> Result<LogPosition, StoreError> {
    let mut reader = open(path, 0)?;
    let mut offset = 0;
    let mut found = 0;
    while let Ok(batch) = read_batch(&mut reader).map_err(StoreError::io("read", path))? {
        offset += batch.bytes;
        if batch.record.is_some_and(|record| record.mark == mark) {
            found = offset;
            break;
        }
    }
    Ok(LogPosition {
        journal,
        offset: found,
        group: mark.group,
        chain: mark.chain,
        second,
    })
}

/// The piece of a journal that is to be read.
struct Piece<'a> {
    path: &'a Path,
    start: LogPosition,
    /// The last durable group.
    mark: Mark,
    bytes_max: usize,
    has_successor: bool,
}

impl Piece<'_> {
    /// Reads the piece; one without bytes if the journal has no further batch that counts. `None`
    /// if the journal does not exist or does not go on at the place.
    fn read(&self) -> Result<Option<LogSegment>, StoreError> {
        if !self
            .path
            .try_exists()
            .map_err(StoreError::io("look for", self.path))?
        {
            return Ok(None);
        }
        let failed = || StoreError::io("read", self.path);
        let mut reader = open(self.path, self.start.offset)?;
        let mut groups = GroupReader::new(self.start);
        let mut is_at_end = false;
        loop {
            let read = groups.group_end.offset - self.start.offset;
            let is_full = read as usize >= self.bytes_max;
            if is_full || groups.group_end.group == self.mark.group {
                break;
            }
            let Ok(batch) = read_batch(&mut reader).map_err(failed())? else {
                is_at_end = true;
                break;
            };
            if groups.follow(&batch).is_none() {
                return Ok(None);
            }
        }
        // The mark tells that the next group is durable: it ends in the next journal, and what this
        // journal has behind its last group belongs to it.
        let end = match is_at_end && self.has_successor {
            true => groups.batch_end(),
            false => groups.group_end,
        };
        let mut bytes = vec![0; (end.offset - self.start.offset) as usize];
        let mut file = open(self.path, self.start.offset)?;
        file.read_exact(&mut bytes).map_err(failed())?;
        Ok(Some(LogSegment {
            start: self.start,
            end,
            bytes,
        }))
    }
}

/// Opens a journal at a place.
fn open(path: &Path, offset: u64) -> Result<BufReader<File>, StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let seek = reader.seek(SeekFrom::Start(offset));
    seek.map_err(StoreError::io("read", path))?;
    Ok(reader)
}
