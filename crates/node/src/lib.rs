//! The fleet as one of its nodes sees it: which nodes live, and in which regions.
//!
//! - `roster.rs`: the live nodes, and the messages with which a node tells of itself;
//! - `local_read.rs`: the requests that a node may answer from a copy of the data;
//! - `regions.rs`: the addresses of the account's regions, made from the live nodes.
//!
//! Promises: the decisions are functions of their arguments, without clock and network. A text of
//! another node becomes part of an address for clients only if it has the form of one.
//!
//! Left out: the connections between nodes, and their signatures.

mod local_read;
mod regions;
mod roster;

pub use local_read::{Freshness, freshness, is_final, is_query};
pub use regions::{Location, Locations, locations};
pub use roster::{Hearing, LiveNode, NodeFacts, Roster, facts_from_text, facts_to_text};
