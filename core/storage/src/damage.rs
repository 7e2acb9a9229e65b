//! Damage of a store: which blocks are unreadable, and which keys stood in them.

use std::ops::Bound;
use std::path::PathBuf;

use crate::commit::PartitionId;

/// A damaged block of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file that has the block.
    pub file: PathBuf,
    /// Offset of the block in the file, in bytes.
    pub offset: u64,
    /// Length of the block in bytes.
    pub bytes: u64,
    /// The fault, as in "*its checksum does not match its bytes*".
    pub fault: String,
    /// The contents of the block.
    pub contents: DamagedContents,
}

/// The contents of a damaged block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamagedContents {
    /// Keys of partitions. Reads of these keys fail, and the partitions take no commits.
    Keys {
        /// The block had index entries, and rows otherwise.
        is_index: bool,
        /// The partitions that had keys in the range of the block, in order.
        partitions: Vec<PartitionId>,
        /// The lowest key that the block can have had: partition number, big-endian, and key.
        first: Bound<Vec<u8>>,
        /// The highest key of the block.
        last: Vec<u8>,
    },
    /// The index, the filter or the metadata of a table. No key is lost; reads that need the block
    /// fail until the store writes the table anew.
    Auxiliary,
    /// Records of the store itself, or keys of partitions that no longer exist. The store wrote
    /// the records anew; nothing is lost.
    Restored,
}

impl Damage {
    /// Returns the partitions that take no commits because of this damage.
    pub fn partitions(&self) -> &[PartitionId] {
        match &self.contents {
            DamagedContents::Keys { partitions, .. } => partitions,
            DamagedContents::Auxiliary | DamagedContents::Restored => &[],
        }
    }
}

/// The progress of the checks of all blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubProgress {
    /// Bytes that were checked since the store was opened.
    pub checked_bytes: u64,
    /// Bytes of the pass that is under way, or of the last pass, that were checked.
    pub pass_checked_bytes: u64,
    /// Bytes that the pass has to check.
    pub pass_bytes: u64,
    /// Passes that were completed since the store was opened.
    pub passes: u64,
    /// Seconds since the last pass was completed, if one was.
    pub seconds_since_pass: Option<u64>,
}
