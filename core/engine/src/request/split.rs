//! Requests for splits and merges of physical partitions, and their status.

use orrery_model::partition_key::Epk;

/// The border of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitAt {
    /// The middle of the EPK range.
    Middle,
    /// A border that leaves about half of the items on each side.
    Median,
    /// This effective partition key, which is the first of the second successor.
    Border(Epk),
}

/// A split or merge of the physical partitions of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeChange {
    /// Two partitions replace one.
    Split {
        /// The range id of the partition.
        range: u32,
        /// The border between the successors.
        at: SplitAt,
    },
    /// One partition replaces two or more adjacent ones.
    Merge {
        /// The range ids of the partitions.
        ranges: Vec<u32>,
    },
}

/// The stage of a split or merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeChangeStage {
    /// Rows are being copied. Requests are not affected.
    Copying,
    /// All rows are copied, and new writes are copied as they happen.
    Copied,
    /// Requests to the old partitions are answered with 410/1007.
    Completing,
    /// The new partitions have taken over; the old range ids are answered with 410/1002.
    Done,
    /// Cancelled on request. The old partitions are unchanged.
    Cancelled,
    /// Ended by a failure. The old partitions are unchanged.
    Failed,
}

impl RangeChangeStage {
    /// Returns the name of the stage.
    pub fn name(self) -> &'static str {
        match self {
            RangeChangeStage::Copying => "copying",
            RangeChangeStage::Copied => "copied",
            RangeChangeStage::Completing => "completing",
            RangeChangeStage::Done => "done",
            RangeChangeStage::Cancelled => "cancelled",
            RangeChangeStage::Failed => "failed",
        }
    }

    /// Returns the name of the next step; `None` if there is none.
    pub fn next(self) -> Option<&'static str> {
        match self {
            RangeChangeStage::Copying => Some("copy"),
            RangeChangeStage::Copied => Some("close"),
            RangeChangeStage::Completing => Some("switch"),
            _ => None,
        }
    }

    /// Returns true if the split or merge has ended.
    pub fn is_over(self) -> bool {
        self.next().is_none()
    }
}

/// The status of a split or merge.
#[derive(Clone, Debug)]
pub struct RangeChangeStatus {
    /// The number of the operation since the engine was opened.
    pub id: u64,
    /// The id of the database.
    pub database: String,
    /// The id of the container.
    pub container: String,
    /// The requested change.
    pub change: RangeChange,
    /// True if each step is requested separately.
    pub stepwise: bool,
    /// The current stage.
    pub stage: RangeChangeStage,
    /// The bytes of copied rows, including index entries.
    pub copied_bytes: u64,
    /// The range ids of the successors; empty until the operation is done.
    pub new_ranges: Vec<u32>,
    /// The cause of a failure.
    pub failure: Option<String>,
    /// The begin in milliseconds since 1970.
    pub began_ms: u64,
    /// The end in milliseconds since 1970; `None` until then.
    pub ended_ms: Option<u64>,
}
