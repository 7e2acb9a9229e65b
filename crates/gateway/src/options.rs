//! What the operator decides about the gateway.

use crate::auth::{Directory, Keys};
use crate::log::Log;
use orrery_model::world::World;
use std::sync::Arc;

/// Everything that a gateway needs besides the engine.
pub struct Options {
    /// The keys that sign requests.
    pub keys: Keys,
    /// Which directory identities are accepted; none without.
    pub directory: Option<Directory>,
    /// What the account document says.
    pub account: Account,
    /// Time and randomness.
    pub world: Arc<dyn World>,
    /// Where log lines go.
    pub log: Arc<Log>,
}

/// The account as clients see it when they start.
#[derive(Clone, Debug)]
pub struct Account {
    /// The account's id. Clients treat `localhost` specially, so it is not a good one.
    pub name: String,
    /// The names of the regions, at least one, all served here. The first is the write region.
    pub regions: Vec<String>,
    /// The consistency that requests get unless they ask for a weaker one.
    pub consistency: Consistency,
    /// The address that clients are told to use; `None` tells each the address it came by.
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

/// Consistency levels, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consistency {
    /// Reads see the last committed write.
    Strong,
    /// Reads lag by a bounded number of versions or seconds.
    BoundedStaleness,
    /// A client reads its own writes.
    Session,
    /// Reads never see writes out of order.
    ConsistentPrefix,
    /// Reads converge.
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

    /// The level's name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Consistency::Strong => "Strong",
            Consistency::BoundedStaleness => "BoundedStaleness",
            Consistency::Session => "Session",
            Consistency::ConsistentPrefix => "ConsistentPrefix",
            Consistency::Eventual => "Eventual",
        }
    }

    /// Reads a name, in any case of letters.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(name))
    }
}
