//! A node of a fleet: one of several servers on the same PostgreSQL clusters.
//!
//! One node at a time holds the lease of the account and answers for everything that it has not
//! granted to another node. The others wait for the lease, own the partitions that were granted to
//! them, and forward other requests.
//!
//! - `lease.rs`: the lease of the node that serves the account;
//! - `clusters.rs`: the stores, and the way of a node to the lease; `clusters/first.rs`: the checks
//!   that the clusters are those of the fleet;
//! - `signed.rs`: signed messages between nodes;
//! - `roster.rs`: the live nodes; `roster/members.rs`: the messages with which a node tells of
//!   itself; `roster/regions.rs`: the addresses of the account's regions, made from the live nodes;
//! - `grants.rs`: partitions that nodes without the lease own;
//! - `forward.rs`: the way of a request to the leaseholder, and to the owner of a partition;
//! - `standby.rs`: reads from standbys;
//! - `role.rs`: the role of a node, from the wait for the lease to the end of the process;
//! - `port.rs`: the client port of a node, from before the lease until the end of the process;
//! - `host.rs`: the server in whose process the node runs.
//!
//! Promises: the decisions in `grants/rules.rs`, `grants/assignment.rs`, `roster.rs`,
//! `roster/regions.rs` and `standby/local_read.rs` are functions of their arguments, without clock
//! and network. A text of another node becomes part of an address for clients only if it has the
//! form of one.
//!
//! Left out: the configuration of a server, its life, and its management API.

mod clusters;
mod forward;
mod grants;
mod host;
mod lease;
mod manage;
mod port;
mod role;
mod roster;
mod signed;
mod standby;

pub use clusters::{
    Clusters, FirstCluster, FleetOfNode, PreparedClusters, SeenNode, end, machine_name,
    prepare_placed, read_file,
};
pub use forward::Forwarder;
pub use grants::assignment::{Assignment, PartitionLoad, next_assignment};
pub use grants::rules::{Answer, Changes, Given, Owned, Owner, Recall};
pub use grants::{
    Ended, GrantCounts, Grantor, GrantorOptions, OwnerNode, PartitionOwner, PartitionOwnerOptions,
    Poll, PollAnswer, RecallText, Returned, RunInBackground, SendRecalls, open_owner,
};
pub use host::{DatabaseOptions, Host, NodeContext, NodeError};
pub use lease::{
    Attempt, Claim, Holding, LEASE_PARTITION, LeasedStore, Leaseholder, Moment, Node, NodeLease,
    NodesKey, Progress, Renewal, Report, Terms, Validity, leaseholder,
};
pub use manage::{ManageAnswer, ManageHandler, ManageRequest, Managed, Manager};
pub use port::{NodePort, NodePortOptions};
pub use role::Seat;
pub use roster::members::Members;
pub use roster::regions::{Location, Locations, locations};
pub use roster::{Hearing, LiveNode, NodeFacts, Roster, ToldNodes, facts_from_text, facts_to_text};
pub use standby::local_read::{Freshness, freshness, is_final, is_query};
pub use standby::{Reader, open_reader};
