//! Splits and merges of physical partitions, as they are asked for and told of.

use orrery_model::partition_key::Epk;

/// Where a physical partition is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitAt {
    /// In the middle of its stretch of the hash space.
    Middle,
    /// Where about half of its items lie on either side.
    Median,
    /// Before this point.
    Border(Epk),
}

/// Which physical partitions others take the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeChange {
    /// Two take the place of one.
    Split {
        /// Its range id.
        range: u32,
        /// Where the border comes.
        at: SplitAt,
    },
    /// One takes the place of neighbours.
    Merge {
        /// Their range ids, two or more.
        ranges: Vec<u32>,
    },
}

/// How far a split or merge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeChangeStage {
    /// Rows are being copied; nobody notices.
    Copying,
    /// All is copied, and follows what is written.
    Copied,
    /// Requests to the old partitions are answered with 410/1007.
    Completing,
    /// The new partitions have taken over; the old range ids are answered with 410/1002.
    Done,
    /// Given up on request: everything is as it was.
    Cancelled,
    /// Given up after a failure: everything is as it was.
    Failed,
}

impl RangeChangeStage {
    /// Its name.
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

    /// What the next step does; `None` if there is none.
    pub fn next(self) -> Option<&'static str> {
        match self {
            RangeChangeStage::Copying => Some("copy"),
            RangeChangeStage::Copied => Some("close"),
            RangeChangeStage::Completing => Some("switch"),
            _ => None,
        }
    }

    /// Whether nothing more will happen.
    pub fn is_over(self) -> bool {
        self.next().is_none()
    }
}

/// A split or merge.
#[derive(Clone, Debug)]
pub struct RangeChangeStatus {
    /// Its number since the engine was opened.
    pub id: u64,
    /// The id of the database.
    pub database: String,
    /// The id of the container.
    pub container: String,
    /// What was asked for.
    pub change: RangeChange,
    /// Whether each step is asked for.
    pub stepwise: bool,
    /// How far it is.
    pub stage: RangeChangeStage,
    /// Bytes of rows copied, index entries among them.
    pub copied_bytes: u64,
    /// The range ids that came, when it is done.
    pub new_ranges: Vec<u32>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// The millisecond in which it began.
    pub began_ms: u64,
    /// The millisecond in which it was over, if it is.
    pub ended_ms: Option<u64>,
}
