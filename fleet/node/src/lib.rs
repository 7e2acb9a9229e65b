//! The fleet as one of its nodes sees it: which nodes live, in which regions, and which node owns
//! which partition.
//!
//! - `lease.rs`: the lease of the node that serves the account;
//! - `roster.rs`: the live nodes, and the messages with which a node tells of itself;
//!   `roster/regions.rs`: the addresses of the account's regions, made from the live nodes;
//! - `grants/rules.rs`: the partitions that the holder of the lease lets other nodes own;
//!   `grants/assignment.rs`: the choice of the owner of a partition by loads;
//! - `standby/local_read.rs`: the requests that a node may answer from a copy of the data.
//!
//! Promises: the decisions outside of `lease.rs` are functions of their arguments, without clock and
//! network. A text of another node becomes part of an address for clients only if it has the form of
//! one.
//!
//! Left out: the connections between nodes, and their signatures.

mod grants {
    pub(crate) mod assignment;
    pub(crate) mod rules;
}
mod lease;
mod roster;
mod standby {
    pub(crate) mod local_read;
}

pub use grants::assignment::{Assignment, PartitionLoad, next_assignment};
pub use grants::rules::{Answer, Changes, Given, Owned, Owner, Recall};
pub use lease::{
    Holder, LEASE_PARTITION, LeasedStore, Moment, Node, NodeLease, NodesKey, Progress, Report,
    Terms, Validity, holder,
};
pub use roster::regions::{Location, Locations, locations};
pub use roster::{Hearing, LiveNode, NodeFacts, Roster, facts_from_text, facts_to_text};
pub use standby::local_read::{Freshness, freshness, is_final, is_query};
