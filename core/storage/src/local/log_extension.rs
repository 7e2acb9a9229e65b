//! The extension of a copied data directory by the segments of a log: the store of a later moment.
//!
//! The copy has tables and journals up to one group. Segments are written into its journals at
//! their places, in order, as far as they hold later groups; then the high-water file gets the mark
//! of the last group, so that the start of the store checks that all of them are there.
//!
//! Promised: a segment that does not continue the groups of the copy is refused. The directory is
//! not a store before its format file is written, so an interrupted extension is never opened.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::directory::{HIGH_WATER_FILE, STORE_DIRECTORY, owner_only, sync_directory};
use super::high_water::{HighWater, Mark};
use super::journal::read_batch;
use super::journal_log::GroupReader;
use crate::error::StoreError;
use crate::journal_log::{LogPosition, LogSegment};

impl LogSegment {
    /// Returns the place behind the last group that was written in `second` or before; the start of
    /// the segment if all groups are later.
    ///
    /// # Errors
    /// When the bytes are not those of the segment.
    pub fn end_at(&self, second: u64) -> Result<LogPosition, StoreError> {
        let mut last = self.start;
        self.follow(|group| {
            let counts = group.second <= second;
            if counts {
                last = *group;
            }
            counts
        })?;
        Ok(last)
    }

    /// Calls `on_group` with the place behind each group, until it returns false.
    ///
    /// # Errors
    /// When the bytes are not those of the segment.
    fn follow(&self, mut on_group: impl FnMut(&LogPosition) -> bool) -> Result<(), StoreError> {
        let mut rest = self.bytes.as_slice();
        let mut groups = GroupReader::new(self.start);
        while !rest.is_empty() {
            let batch = read_batch(&mut rest).ok().and_then(Result::ok);
            let Some(ends_group) = batch.and_then(|batch| groups.follow(&batch)) else {
                return Err(self.refused("does not hold the groups that it names"));
            };
            if ends_group && !on_group(&groups.group_end) {
                return Ok(());
            }
        }
        let end = groups.batch_end();
        match (end.offset, end.group, end.chain)
            == (self.end.offset, self.end.group, self.end.chain)
        {
            true => Ok(()),
            false => Err(self.refused("does not end with the group that it names")),
        }
    }

    fn refused(&self, detail: &str) -> StoreError {
        let place = PathBuf::from(format!("{}.jnl", self.start.journal));
        let (start, end) = (self.start.group, self.end.group);
        StoreError::damaged(
            &place,
            format!("the segment behind group {start}, up to group {end}, {detail}"),
        )
    }
}

/// A copied data directory without its format file that gets later groups.
pub struct LogExtension {
    root: PathBuf,
    /// The last group of the copy.
    copied: Mark,
    /// The place behind the last group so far; `None` before the first segment.
    end: Option<LogPosition>,
    changed: BTreeSet<PathBuf>,
}

impl LogExtension {
    /// Begins with a copy, which may lack its format file.
    ///
    /// # Errors
    /// When its high-water file cannot be read.
    pub fn of_copy(root: &Path) -> Result<LogExtension, StoreError> {
        Ok(LogExtension {
            root: root.to_owned(),
            copied: HighWater::read(&root.join(HIGH_WATER_FILE))?,
            end: None,
            changed: BTreeSet::new(),
        })
    }

    /// Adds the groups of the next segment, up to the end of `last_group` if the segment goes
    /// further. A segment that ends before the copy does changes nothing.
    ///
    /// # Errors
    /// When it does not follow the segment before it or the copy, or a file cannot be written.
    pub fn add(&mut self, segment: &LogSegment, last_group: Option<u64>) -> Result<(), StoreError> {
        let start = segment.start;
        match self.end {
            // The first segment reaches back to the groups of the copy, or begins behind them.
            None if start.group > self.copied.group => {
                return Err(segment.refused("does not follow the copy"));
            }
            Some(end) if (start.group, start.chain) != (end.group, end.chain) => {
                return Err(segment.refused("does not follow the segment before it"));
            }
            _ => {}
        }
        if start.group == self.copied.group && start.chain != self.copied.chain {
            return Err(segment.refused("is of another history than the copy"));
        }
        if segment.end.group < self.copied.group {
            return Ok(());
        }
        let copied = self.copied;
        let mut is_of_copy = true;
        let mut end = start;
        segment.follow(|group| {
            if last_group.is_some_and(|last| group.group > last) {
                return false;
            }
            is_of_copy &= group.group != copied.group || group.chain == copied.chain;
            end = *group;
            true
        })?;
        if !is_of_copy {
            return Err(segment.refused("is of another history than the copy"));
        }
        // The copy may lack the journal, whose groups are in its tables.
        if end.group == copied.group && end.offset == segment.end.offset {
            return Ok(());
        }
        // The bytes of a group that ends in the next journal.
        if end.group == segment.end.group && last_group != Some(end.group) {
            end = segment.end;
        }
        let count = (end.offset - start.offset) as usize;
        self.write(segment, &segment.bytes[..count])?;
        self.end = Some(end);
        Ok(())
    }

    /// Writes bytes at their place in the journal, and cuts the journal behind them.
    fn write(&mut self, segment: &LogSegment, bytes: &[u8]) -> Result<(), StoreError> {
        let journal = segment.start.journal;
        let path = self
            .root
            .join(STORE_DIRECTORY)
            .join(format!("{journal}.jnl"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let mut write = || {
            let mut file = owner_only(&mut options).open(&path)?;
            if file.metadata()?.len() < segment.start.offset {
                return Ok(false);
            }
            file.seek(SeekFrom::Start(segment.start.offset))?;
            file.write_all(bytes)?;
            file.set_len(segment.start.offset + bytes.len() as u64)?;
            Ok(true)
        };
        let is_written = write().map_err(StoreError::io("write", &path))?;
        if !is_written {
            return Err(segment.refused("does not follow what the copy has of its journal"));
        }
        self.changed.insert(path);
        Ok(())
    }

    /// Makes all journals and the mark durable. Returns the number of the last group.
    ///
    /// # Errors
    /// When a file cannot be written, or the last group is not whole.
    pub fn finish(self) -> Result<u64, StoreError> {
        for path in &self.changed {
            let synced = File::open(path).and_then(|file| file.sync_all());
            synced.map_err(StoreError::io("sync", path))?;
        }
        let store = self.root.join(STORE_DIRECTORY);
        sync_directory(&store).map_err(StoreError::io("sync", &store))?;
        let mark = match self.end {
            Some(end) if end.group > self.copied.group => Mark {
                group: end.group,
                chain: end.chain,
            },
            _ => self.copied,
        };
        HighWater::create(&self.root.join(HIGH_WATER_FILE), mark)?;
        Ok(mark.group)
    }
}
