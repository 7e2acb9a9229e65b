//! The log of a store as a sequence of pieces of its journals, for a continuous backup.
//!
//! ```text
//! journal 7                       journal 8
//! |g41|g42|g43|g44 first part|    |g44 rest|g45|g46|
//!         ^position           ^end of a segment
//! ```
//!
//! A store commits in groups, and each group is durable as a whole. A [`LogPosition`] is a place
//! behind a group, a [`LogSegment`] the bytes of one journal from one place to the next. All
//! segments of a store in order are its journals, so a copy of the store of an earlier moment and
//! the segments that follow give the store of each later moment (`local/log_extension.rs`).
//!
//! Promised: a segment holds durable groups only. A segment that follows another one is checked to
//! do so by the chained checksum of groups.
//!
//! Left out: the copying (`operator/backup`), and stores without journals of their own.

use crate::error::StoreError;

/// A place in the journals, behind a group of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// The number of the journal.
    pub journal: u64,
    /// The place in the journal, in bytes.
    pub offset: u64,
    /// The number of the last group that ends before the place.
    pub group: u64,
    /// The checksum that is chained over all groups up to that group.
    pub chain: u32,
    /// The second in which that group was written, since 1970; 0 if it is not known. Groups have
    /// their seconds in order, also when the clock is set back.
    pub second: u64,
}

/// A piece of one journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSegment {
    /// The place of the first byte. Its journal is that of the segment.
    pub start: LogPosition,
    /// The place behind the last byte, in the same journal. The last group may go on in the next
    /// journal; `end.group` is then the group before it.
    pub end: LogPosition,
    /// The bytes of the journal between the two places.
    pub bytes: Vec<u8>,
}

/// The next piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextSegment {
    /// The next piece.
    Segment(LogSegment),
    /// Every durable group lies before the place.
    UpToDate,
    /// The journals do not go on at the place: they were removed meanwhile, or are those of another
    /// history.
    Gap,
}

/// The journals that a store keeps for a continuous backup.
pub trait JournalLog {
    /// Returns the id of the store: 32 hexadecimal digits.
    ///
    /// # Errors
    /// When the store has none yet and its format file cannot be written.
    fn store_id(&self) -> Result<String, StoreError>;

    /// Returns the place behind the last durable group. Keeps all journals from there on.
    ///
    /// # Errors
    /// When a journal cannot be read or kept, or the store is being opened again after a failure.
    fn position(&self) -> Result<LogPosition, StoreError>;

    /// Returns the number of the last durable group.
    fn last_group(&self) -> u64;

    /// Returns the next piece behind a place, of about `bytes_max` bytes at most: of one group at
    /// least.
    ///
    /// # Errors
    /// When a journal cannot be read.
    fn next(&self, after: &LogPosition, bytes_max: usize) -> Result<NextSegment, StoreError>;

    /// Gives up the journals before the one of a place. Returns the bytes of all journals that are
    /// kept although the store itself needs them no more.
    ///
    /// # Errors
    /// When a file cannot be removed or looked at.
    fn release(&self, before: &LogPosition) -> Result<u64, StoreError>;
}
