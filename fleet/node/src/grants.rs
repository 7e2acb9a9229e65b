//! Partitions that nodes without the lease own.
//!
//! The leaseholder gives partitions with load to the other nodes, so that the nodes share the
//! requests. `rules.rs` has the rules of a grant, and `core/engine/src/ownership.rs` the way of a
//! partition from one process to the other.
//!
//! - `rules.rs`: the rules; `assignment.rs`: the choice of the owner of a partition by loads;
//! - `messages.rs`: the messages between leaseholder and owners; `wire.rs`: their way to the other
//!   node, and their signatures;
//! - `grantor.rs`: the side of the leaseholder; `recaller.rs`: its thread that takes partitions
//!   back;
//! - `partition_owner.rs`: the side of an owner, without the network; `routed_store.rs`: the way to
//!   the rows of its partitions; `owner.rs`: the node around an owner.
//!
//! `forward/to_owner.rs` is the way of a request to the owner of its partition.
//!
//! ```text
//! owner ── POST /_nodes/grants, every half second ──▶ leaseholder
//!          what it owns, has counted, has found
//!       ◀── the partitions that it owns for 2 seconds, and who owns the others ──
//! leaseholder ── POST /_nodes/recall, when the catalog changes, … ──▶ owner
//! ```
//!
//! Promises:
//! 1. One process at a time carries out the requests of a partition, and each answers only while
//!    the partition is its own. Safety of commits rests on the store besides: each compares the
//!    epoch of the partition.
//! 2. An owner that does not answer holds a partition up for three seconds at most.
//! 3. A request is forwarded only if it was not carried out. A write whose answer is lost on the
//!    way gets 408/1900.

pub(crate) mod assignment;
mod counts;
mod grantor;
mod messages;
mod owner;
mod partition_owner;
mod recaller;
mod routed_store;
pub(crate) mod rules;
mod wire;

pub use counts::GrantCounts;
pub(crate) use grantor::on_threads;
pub use grantor::{Grantor, GrantorOptions, RunInBackground};
pub use messages::{Poll, PollAnswer, RecallText, Returned};
pub(crate) use owner::Tried;
pub use owner::{OwnerNode, open_owner};
pub use partition_owner::{PartitionOwner, PartitionOwnerOptions};
pub(crate) use recaller::Recaller;
pub use recaller::{Ended, SendRecalls};
pub(crate) use wire::{POLL_PATH, RECALL_PATH};
