//! The lifecycle of the server and its components, as the management API sees them.

use crate::continuous_backup::ContinuousBackups;
use crate::jobs::Jobs;
use crate::problem::Problem;
use orrery_engine::Engine;
use orrery_gateway::Gateway;
use orrery_model::world::ShiftedWorld;
use orrery_placement::PlacedStore;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// The fleet of a node, as the node sees it.
pub trait Fleet: Send + Sync {
    /// Returns true if this node holds the lease of the account.
    fn holds_lease(&self) -> bool;

    /// Returns what this node has done as the leaseholder since its start.
    fn counts(&self) -> FleetCounts;

    /// Returns the live nodes in the order of their names, this node among them.
    fn nodes(&self) -> Vec<FleetNode>;

    /// Gives the lease to another node, and ends this process afterwards. The requests in progress
    /// are finished first.
    fn hand_over(&self, name: &str);

    /// Sends a request to the management API of the leaseholder. The answer is `None` if there is
    /// no leaseholder, or it does not answer: the request may have been carried out then.
    fn forward(
        &self,
        request: ForwardedRequest,
    ) -> Pin<Box<dyn Future<Output = Option<ForwardedAnswer>> + Send>>;
}

/// A request that a node forwards to the leaseholder.
#[derive(Clone, Debug)]
pub struct ForwardedRequest {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The body; empty for none.
    pub body: String,
}

/// The answer of the leaseholder to a [`ForwardedRequest`].
#[derive(Clone, Debug)]
pub struct ForwardedAnswer {
    /// The status.
    pub status: u16,
    /// The body, in JSON, or empty.
    pub body: String,
}

/// Counters of a node as the leaseholder, since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct FleetCounts {
    /// The times that the node has taken the lease of the account.
    pub takeovers: u64,
    /// Partitions that were given to other nodes.
    pub granted: u64,
    /// Partitions that their owners gave back.
    pub returned: u64,
    /// Partitions that were taken back from owners that did not answer.
    pub expired: u64,
}

/// A live node of a fleet.
pub struct FleetNode {
    /// The name, which no other node has.
    pub name: String,
    /// The region; `None` for a node without one.
    pub region: Option<String>,
    /// The address at which other nodes reach the node.
    pub address: String,
    /// The clusters in the cluster file of the node; empty for a node that has not told them.
    pub clusters: Vec<String>,
    /// Physical partitions that the node owns, as the node that answers knows.
    pub partitions: usize,
    /// Milliseconds since the node was heard of; 0 for the node that answers.
    pub silent_ms: u64,
    /// True for the leaseholder.
    pub holds_lease: bool,
    /// Milliseconds by which the clock of the node is ahead of that of the leaseholder.
    pub clock_ahead_ms: i64,
    /// A sentence about the clock of a node that may not hold the lease because of it.
    pub wrong_clock: Option<String>,
}

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
    /// The fleet; `None` for a server that is no node.
    pub fleet: Option<Arc<dyn Fleet>>,
    /// Work of minutes that the management API starts.
    pub jobs: Arc<Jobs>,
    /// The continuous backup; `None` if there is none.
    pub continuous_backup: Option<Arc<ContinuousBackups>>,
    /// Start of the process.
    pub started: Instant,
}

/// Lifecycle stage of the server.
#[derive(Clone)]
pub(crate) enum Stage {
    /// The data is being opened.
    Recovering,
    /// The server is a node that forwards the requests of clients to other nodes, except for the
    /// partitions that it owns. The components are those of these partitions, once there may be
    /// any.
    Forwarding(Arc<dyn Fleet>, Option<Arc<Components>>),
    /// The server accepts connections and carries out requests.
    Serving(Arc<Components>),
    /// The server accepts no new connections and finishes the requests in progress.
    Draining(Arc<Components>),
}

/// Returns the response to a request that needs the data before the data is open.
pub(crate) fn recovering() -> Problem {
    Problem::new(503, "Recovering", "the server is opening its data")
}

/// Returns the response of a node to a request that needs the data, which another node has open.
pub(crate) fn forwarding(fleet: &dyn Fleet) -> Problem {
    let holder = fleet.nodes().into_iter().find(|node| node.holds_lease);
    let message = match holder {
        Some(node) => format!(
            "this node forwards requests to the node '{}' at {}, which holds the lease of the \
             account: ask the management API of that node",
            node.name, node.address
        ),
        None => "this node waits until a node holds the lease of the account".to_owned(),
    };
    Problem::new(503, "Forwarding", message)
}
