//! The lifecycle of the server and its components, as the management API sees them.

use crate::problem::Problem;
use orrery_engine::Engine;
use orrery_gateway::Gateway;
use orrery_model::world::ShiftedWorld;
use orrery_placement::PlacedStore;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// A question to the lease of a node.
pub type HoldsLease = Arc<dyn Fn() -> bool + Send + Sync>;

/// Components of a server that has opened its data.
pub struct Components {
    /// Engine that holds the data.
    pub engine: Arc<Engine>,
    /// Gateway that serves clients.
    pub gateway: Arc<Gateway>,
    /// Clock of the data, which the management API can move forward.
    pub clock: Arc<ShiftedWorld>,
    /// Data directory; `None` if the data is in memory.
    pub data_dir: Option<PathBuf>,
    /// Store over several clusters; `None` if the data is in one store.
    pub placement: Option<Arc<PlacedStore>>,
    /// Tells if this node holds the lease of the account; `None` without a lease.
    pub holds_lease: Option<HoldsLease>,
    /// Start of the process.
    pub started: Instant,
}

/// Lifecycle stage of the server.
#[derive(Clone)]
pub(crate) enum Stage {
    /// The data is being opened.
    Recovering,
    /// The server accepts connections and carries out requests.
    Serving(Arc<Components>),
    /// The server accepts no new connections and finishes the requests in progress.
    Draining(Arc<Components>),
}

/// Returns the response to a request that needs the data before the data is open.
pub(crate) fn recovering() -> Problem {
    Problem::new(503, "Recovering", "the server is opening its data")
}
