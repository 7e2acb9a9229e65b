//! The log of a store beside its backups: the continuous backup.
//!
//! ```text
//! log/ID/reached.json   the second up to which the span has everything, and its place
//! log/ID/G-J-O-E-S.seg  a segment: the group before it, its journal and offset, its last group
//!                       and the second of that group
//! log/lock              locked while a server adds to the log; holds the process id
//! ```
//!
//! A *span* is a sequence of segments without a gap; its id is the time of its beginning. A backup
//! of the repository that is not older than the span, and the segments behind it, give the store of
//! each second up to the one that the span has reached.
//!
//! - `segment.rs`: the file of one segment;
//! - `spans.rs`: the folder;
//! - `follow.rs`: the copying of the log, and the removal of what is too old;
//! - `moment.rs`: the choice of backup and segments for a second, and the restore;
//! - `check.rs`: the check of all segments.

mod check;
mod follow;
mod moment;
mod segment;
mod spans;

pub(crate) use check::verify_spans;
pub use check::{LogProblem, VerifiedSpan};
pub(crate) use follow::is_continuous;
pub use follow::{
    BaseBegun, ContinuousBackup, ContinuousOptions, Expired, Expiry, Round, create_base, limit_kept,
};
pub use moment::{Moment, RestoredMoment, Window, restore_to, windows};
