//! The fleet as one of its nodes sees it: which nodes live, in which regions, and which node owns
//! which partition.
//!
//! - `lease.rs`: the lease of the node that serves the account;
//! - `roster.rs`: the live nodes, and the messages with which a node tells of itself;
//! - `assignment.rs`: the choice of the owner of a partition by loads;
//! - `grants.rs`: the partitions that the holder of the lease lets other nodes own;
//! - `local_read.rs`: the requests that a node may answer from a copy of the data;
//! - `regions.rs`: the addresses of the account's regions, made from the live nodes.
//!
//! Promises: the decisions outside of `lease.rs` are functions of their arguments, without clock and
//! network. A text of another node becomes part of an address for clients only if it has the form of
//! one.
//!
//! Left out: the connections between nodes, and their signatures.

mod assignment;
mod grants;
mod lease;
mod local_read;
mod regions;
mod roster;

pub use assignment::{Assignment, PartitionLoad, next_assignment};
pub use grants::{Answer, Changes, Given, Owned, Owner, Recall};
pub use lease::{
    Holder, LEASE_PARTITION, LeasedStore, Moment, Node, NodeLease, NodesKey, Progress, Report,
    Terms, Validity, holder,
};
pub use local_read::{Freshness, freshness, is_final, is_query};
pub use regions::{Location, Locations, locations};
pub use roster::{Hearing, LiveNode, NodeFacts, Roster, facts_from_text, facts_to_text};
