//! The settings of the gateway.

use crate::auth::{Directory, Keys};
use crate::cors::Cors;
use crate::hosts::Hosts;
use crate::log::Log;
use orrery_model::memory::MemoryBudget;
use orrery_model::world::World;
use std::sync::Arc;

/// The parts that a gateway needs besides the engine.
pub struct Options {
    /// The keys of the account, with which clients sign requests.
    pub keys: Keys,
    /// The directory whose identities are accepted; `None` accepts no directory identities.
    pub directory: Option<Directory>,
    /// The content of the account document.
    pub account: Account,
    /// The source of time and random numbers.
    pub world: Arc<dyn World>,
    /// The log.
    pub log: Arc<Log>,
    /// The memory for the bodies of requests and answers.
    pub memory: Arc<MemoryBudget>,
    /// The host names that are answered for while the credentials are known to all.
    pub hosts: Hosts,
    /// The origins whose pages may use the server.
    pub cors: Cors,
}

/// The account that clients read when they start.
#[derive(Clone, Debug)]
pub struct Account {
    /// The id of the account. Clients treat the id `localhost` specially, so avoid it.
    pub name: String,
    /// The names of the regions, at least one. This server serves all of them; the first is the
    /// write region.
    pub regions: Vec<String>,
    /// The consistency of requests that do not ask for a weaker level.
    pub consistency: Consistency,
    /// The address that the account document tells clients to use; `None` for the address that the
    /// client used. One that begins with `//` takes the scheme that the client used.
    pub endpoint: Option<String>,
}

impl Default for Account {
    fn default() -> Self {
        Account {
            name: "orrery".into(),
            regions: vec!["South Central US".into()],
            consistency: Consistency::Session,
            endpoint: None,
        }
    }
}

/// The consistency levels, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consistency {
    /// Reads return the last committed write.
    Strong,
    /// Reads lag behind by a bounded number of versions or seconds.
    BoundedStaleness,
    /// A client reads its own writes.
    Session,
    /// Reads never return writes out of order.
    ConsistentPrefix,
    /// Reads return every write eventually.
    Eventual,
}

impl Consistency {
    /// All levels, the strongest first.
    pub const ALL: [Consistency; 5] = [
        Consistency::Strong,
        Consistency::BoundedStaleness,
        Consistency::Session,
        Consistency::ConsistentPrefix,
        Consistency::Eventual,
    ];

    /// Returns the name of the level in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Consistency::Strong => "Strong",
            Consistency::BoundedStaleness => "BoundedStaleness",
            Consistency::Session => "Session",
            Consistency::ConsistentPrefix => "ConsistentPrefix",
            Consistency::Eventual => "Eventual",
        }
    }

    /// Returns the level with a name, which is compared without regard to case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(name))
    }
}
