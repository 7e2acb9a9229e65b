//! One store out of several clusters.
//!
//! [`PlacedStore`] implements [`orrery_storage::Store`] over several stores, of which each is one
//! *cluster*. A partition lives in one cluster as a whole, and the rows of a partition of the first
//! cluster, the *ledger*, say in which. [`PlacedStore::move_partition`] moves a partition while it
//! is written; [`copy_store`] copies whole stores that are not written.
//!
//! - `store.rs`: the calls of the trait; `cluster.rs`: the description of a cluster; `place.rs`:
//!   the way of one partition's calls;
//! - `ledger.rs` and `row.rs`: the rows that say where partitions live; `known.rs`: the ids of the
//!   clusters;
//! - `moving.rs`, `changes.rs`: a move; `balance.rs`: drains, balance and lists for the operator;
//!   `plan.rs`: the move that makes clusters more equal;
//! - `writer.rs`: commits of one writer that knows the outcome of each; `target.rs`: the rows of a
//!   copy in commits; `copy.rs`: whole stores; `migrate.rs`: whole stores to an empty one, with a
//!   comparison;
//! - `timer.rs`: the times of commits; `patience.rs`: waits.
//!
//! Promised beyond the trait: an interrupted move leaves the source in force or is complete; epochs
//! rise over moves; a process that does not own the ledger any more opens no partition.
//!
//! Left out: transactions over clusters, reads from standbys of any cluster but the first, moves of
//! partition 0.

mod balance;
mod changes;
mod cluster;
mod copies;
mod copy;
mod known;
mod ledger;
mod migrate;
mod moving;
mod patience;
mod place;
mod plan;
mod row;
mod store;
mod target;
mod timer;
mod writer;

pub use balance::{ClusterStatus, Placement, PlacementState};
pub use cluster::NamedCluster;
pub use copies::StandbyCopies;
pub use copy::{CopyProgress, copy_store};
pub use known::{Identify, KnownCluster, check_clusters, known_clusters};
pub use ledger::ClusterKey;
pub use migrate::{Migration, MigrationProgress, is_incomplete_copy, migrate_store};
pub use plan::{BalanceLimits, BalanceMove, BalanceReason, Load, Loads};
pub use store::{BeforeMove, LEDGER, Objection, Options, PlacedStore};
