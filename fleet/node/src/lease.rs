//! The lease of the node that serves an account.
//!
//! Several nodes can run on the same clusters, and one of them, the *leaseholder*, serves the
//! account. The lease is a row of a partition of its own. The leaseholder renews the row by a
//! commit every sixth of the lease's time to live (TTL), and at once after a renewal that was slow.
//! Another node *claims* the lease if the leaseholder has released it, or if the row did not change
//! for the TTL and a fifth of it. The TTL is part of the row, so each leaseholder may have another.
//!
//! Commits of the row that take up to half of the TTL each cost nothing. With slower ones the
//! validity ends meanwhile, and the lease is kept as long as each takes at most the TTL.
//!
//! - `row.rs`: the row; `key.rs`: the key that all nodes share;
//! - `holding.rs`: renewal and release; `claim.rs`: the way to the lease;
//! - `validity.rs`: until when the leaseholder may trust its lease; `node_lease.rs`: the thread
//!   that renews; `leased_store.rs`: a store that answers only while the lease is valid.
//!
//! Promises:
//! 1. At no moment is the lease valid at two nodes, as long as their clocks differ by less than a
//!    fifth in speed. A node counts the validity from before it sent a renewal, and a claimer
//!    counts the silence of the leaseholder from after it saw the row.
//! 2. [`LeasedStore`] confirms a commit only if the lease was valid after the commit was durable,
//!    and hands out a snapshot only if the lease was valid after the snapshot was taken. So no
//!    answer of an earlier leaseholder leaves out a commit of a later one, however long a node was
//!    paused.
//!
//! Left out: partitions that the leaseholder lets other nodes own (`grants.rs`), and
//! the removal of partitions by a leaseholder that was paused for longer than the TTL between the
//! check of its lease and the call of the store.

mod claim;
mod holding;
mod key;
mod leased_store;
mod node_lease;
mod row;
mod validity;

pub use claim::{Attempt, Claim};
pub use holding::{Holding, Renewal};
pub use key::NodesKey;
pub use leased_store::LeasedStore;
pub use node_lease::{NodeLease, Progress, Report, Terms, leaseholder};
pub use row::{Leaseholder, Node};
pub use validity::{Moment, Validity};

use orrery_storage::PartitionId;

/// The partition with the row of the lease.
pub const LEASE_PARTITION: PartitionId = PartitionId(u64::MAX - 3);
/// Milliseconds after which another attempt may succeed.
pub(crate) const RETRY_MS: u64 = 1_000;
