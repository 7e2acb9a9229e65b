//! The settings of the gateway.

use crate::account::Account;
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
