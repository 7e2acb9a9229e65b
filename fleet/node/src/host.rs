//! The server in whose process a node runs, as the node sees it.
//!
//! The values of [`NodeContext`] exist before the data is open; [`Host`] has the few calls.
//!
//! Left out: the configuration of the server, its announcement, its health and its management API.

use orrery_engine::{Engine, EngineOptions};
use orrery_gateway::{Field, Gateway, Log, LogLevel, Options};
use orrery_model::memory::MemoryBudget;
use orrery_model::world::World;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The parts of a server that its node uses.
#[derive(Clone)]
pub struct NodeContext {
    /// Clock and random numbers.
    pub world: Arc<dyn World>,
    /// The log of the server.
    pub log: Arc<Log>,
    /// The memory of the bodies of requests.
    pub bodies: Arc<MemoryBudget>,
    /// The server itself.
    pub host: Arc<dyn Host>,
}

/// The calls of a node to its server.
pub trait Host: Send + Sync {
    /// Returns the options of an engine that answers reads from standbys, with a share of the
    /// server's memory.
    ///
    /// # Errors
    /// The reason for which the server has no usable options now, for the log.
    fn options_of_reader(&self) -> Result<DatabaseOptions, String>;

    /// Returns the options of an engine that owns partitions, with memory of its own.
    ///
    /// # Errors
    /// As [`Host::options_of_reader`].
    fn options_of_owner(&self) -> Result<DatabaseOptions, String>;

    /// Adds a gateway that checks signatures with the keys of the account. The gateway gets the
    /// keys that the server has read since its start.
    fn add_gateway(&self, gateway: &Arc<Gateway>);

    /// Starts the background work of an engine, which runs until the handles are aborted.
    fn start_tasks(&self, engine: &Arc<Engine>) -> Vec<JoinHandle<()>>;
}

/// The options of an engine with a gateway.
pub struct DatabaseOptions {
    /// The options of the engine.
    pub engine: EngineOptions,
    /// The options of the gateway.
    pub gateway: Options,
    /// Threads that queries may have.
    pub query_threads: usize,
}

/// The reason for which a node cannot start.
#[derive(Debug)]
pub enum NodeError {
    /// The cluster file cannot be used.
    Usage(String),
    /// A cluster cannot be used.
    Data(String),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (NodeError::Usage(message) | NodeError::Data(message)) = self;
        f.write_str(message)
    }
}

impl Error for NodeError {}

impl NodeContext {
    /// Writes a line to the log.
    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        self.log.write(self.world.now_ms(), level, message, &[]);
    }

    /// Writes a line with a cause to the log.
    pub(crate) fn log_with_cause(&self, level: LogLevel, message: &str, cause: &str) {
        let fields = [("cause", Field::Text(cause))];
        self.log.write(self.world.now_ms(), level, message, &fields);
    }
}
