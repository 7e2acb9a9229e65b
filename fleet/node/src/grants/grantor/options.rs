//! The parts of a grantor, and the ways in which it reaches other nodes and other threads.

use crate::grants::SendRecalls;
use crate::roster::members::Members;
use crate::{NodesKey, Validity};
use orrery_gateway::Log;
use orrery_model::world::World;
use orrery_placement::PlacedStore;
use std::sync::Arc;

/// Runs a piece of work with a name in the background. Returns false if that is not possible now.
pub type RunInBackground = Box<dyn Fn(&str, Box<dyn FnOnce() + Send>) -> bool + Send + Sync>;

/// Runs each piece of work on a thread of its own.
pub(crate) fn on_threads() -> RunInBackground {
    Box::new(|name, work| {
        let started = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work);
        started.is_ok()
    })
}

/// The parts of a grantor.
pub struct GrantorOptions {
    /// The term of the leaseholder.
    pub term: u64,
    /// The key of all nodes.
    pub key: NodesKey,
    /// The validity of the lease of the account.
    pub validity: Arc<Validity>,
    /// Clock and random numbers.
    pub world: Arc<dyn World>,
    /// The log of the node.
    pub log: Arc<Log>,
    /// The store of all clusters.
    pub placed: Arc<PlacedStore>,
    /// The nodes of the fleet.
    pub members: Arc<Members>,
    /// Sends recalls to owners.
    pub recalls: Box<dyn SendRecalls>,
    /// Runs work that no poll waits for.
    pub in_background: RunInBackground,
    /// Request units a second from which on a partition is given; `None` gives none.
    pub least_load: Option<u64>,
}
