//! The ordered transactional store under the engine.
//!
//! One trait, [`Store`], says what the engine may rely on; every engine in this crate implements
//! it. Read [`store`] first: `tests/contract.rs` runs its numbered promises against every engine.
//!
//! - [`MemoryStore`]: keeps all data in memory, for tests and for `--memory`;
//! - [`LocalStore`]: a directory on one machine, durable, with group commit and a guard against a
//!   truncated log;
//! - [`testing`]: engines that fail, crash and compare, for the tests of other crates.
//!
//! This crate works with bytes, partitions and log sequence numbers. It does not know items,
//! containers or JSON, and it needs no async runtime: a thread can wait for a [`Receipt`], and a
//! task can poll it as a future.

pub mod checkpoint;
pub mod commit;
pub mod damage;
pub mod error;
pub mod journal_log;
pub mod local;
pub mod memory;
mod ownership;
pub mod receipt;
pub mod store;
pub mod testing;

pub use checkpoint::{Checkpoint, CheckpointFile, FORMAT_FILE, format_of_new_store};
pub use commit::{Commit, CommitOutcome, Head, Limits, Lsn, PartitionId, Token};
pub use damage::{Damage, DamagedContents, ScrubProgress};
pub use error::StoreError;
pub use journal_log::{JournalLog, LogPosition, LogSegment, NextSegment};
pub use local::{
    FORMAT, FileFault, LocalOptions, LocalStore, LogClock, LogExtension, LogKeeping, Loss,
    LostCommit,
};
pub use memory::MemoryStore;
pub use receipt::{Pending, Receipt};
pub use store::{
    Bytes, Capabilities, Copies, DamageReport, Direction, FollowerLag, KeyRange, Keys, KnownHead,
    Lease, Link, ReadAhead, Rows, Snapshot, Store,
};
