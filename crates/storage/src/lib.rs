//! The ordered transactional store under the engine.
//!
//! One trait, [`Store`], says what the engine may rely on; everything else here keeps that promise in one way or
//! another. Read [`store`] first: its numbered promises are what `tests/contract.rs` runs against every engine.
//!
//! - [`MemoryStore`]: everything in memory, for tests and for `--memory`;
//! - [`LocalStore`]: a directory on one machine, durable, with group commit and a guard against a log that lost its end;
//! - [`testing`]: engines that fail, crash and compare, for the tests of other crates.
//!
//! This crate knows bytes, partitions and log sequence numbers. It has never heard of items, containers or JSON, and
//! it needs no async runtime: a [`Receipt`] can be waited for by a thread and polled as a future.

pub mod error;
pub mod local;

pub mod memory;
mod owners;
pub mod receipt;
pub mod store;
pub mod testing;

pub use error::StoreError;
pub use local::{LocalOptions, LocalStore};

pub use memory::MemoryStore;
pub use receipt::{Pending, Receipt};
pub use store::{
    Bytes, Capabilities, Commit, CommitOutcome, Direction, Head, KeyRange, Lease, Limits, Lsn,
    PartitionId, Rows, Snapshot, Store, Token,
};
