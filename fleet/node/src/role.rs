//! The role of a node, and what the other parts of the node share.
//!
//! ```text
//!             begin_serving             end_serving
//! Waiting ───────────────────▶ Serving ─────────────▶ Leaving
//!    │                                                   │
//!    └────────────────────── end ────────────────────────┴───▶ Ending
//! ```
//!
//! | role | a request of a client | a request of a node |
//! |---|---|---|
//! | waiting | served if owned or from a standby, else forwarded | served if owned, else refused |
//! | serving | served | served |
//! | leaving | forwarded to the next leaseholder | refused |
//! | ending | as waiting or leaving, without a wait | as waiting or leaving |
//!
//! Owned means that the node owns the partition. A forwarded request waits for a leaseholder; the
//! answer of a node that leaves ends the connection.
//!
//! A node that has lost the lease has no role: its process ends at once (`clusters.rs`).
//!
//! Promise: each look finds one role with its parts; a request that looks twice may find two. The
//! lock is held for moments only.

use crate::forward::NodesClient;
use crate::forward::to_owner::OwnerForwarder;
use crate::grants::OwnerNode;
use crate::manage::Manager;
use crate::roster::members::Members;
use crate::standby::Reader;
use crate::{Leaseholder, Node, NodesKey};
use orrery_model::sync::{lock, read, write};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// The pause between attempts to get the lease of a leaseholder that leaves, and their number.
const QUICK_PAUSE: Duration = Duration::from_millis(5);
const QUICK_ATTEMPTS: u32 = 200;

/// The role of a node.
enum Role {
    /// The node waits for the lease.
    Waiting(WaitingParts),
    /// The node is the leaseholder and serves requests.
    Serving {
        serving: Arc<Serving>,
        /// Closed when the last request that this node serves has ended.
        ended: mpsc::Receiver<()>,
    },
    /// The node has served and serves no more. The port is going to be closed.
    Leaving,
    /// The port is being closed, and no request waits for a leaseholder any more.
    Ending {
        /// The parts of a node that has never served.
        parts: WaitingParts,
        has_served: bool,
    },
}

/// The parts with which a node without the lease answers requests.
#[derive(Default)]
struct WaitingParts {
    /// There if the node can read standbys.
    reader: Option<Arc<Reader>>,
    /// There if the node may own partitions.
    owner: Option<Arc<OwnerNode>>,
}

/// The parts of a node that serves. Each request in progress has a reference.
pub(crate) struct Serving {
    /// The key of all nodes.
    pub(crate) key: NodesKey,
    /// The way to the owners of partitions.
    pub(crate) forwarder: OwnerForwarder,
    /// Dropped with the last reference.
    _in_progress: mpsc::Sender<()>,
}

/// The parts with which a node has served, and the receiver that is closed with the last reference
/// to them.
type Served = (Arc<Serving>, mpsc::Receiver<()>);

impl Default for Role {
    /// Returns the role of a process that has just started.
    fn default() -> Role {
        Role::Waiting(WaitingParts::default())
    }
}

impl Role {
    /// Begins to serve. Returns the parts that a node without the lease had.
    fn serve(self, serving: Serving, ended: mpsc::Receiver<()>) -> (Role, WaitingParts) {
        let parts = match self {
            Role::Waiting(parts) => parts,
            Role::Serving { .. } | Role::Leaving | Role::Ending { .. } => WaitingParts::default(),
        };
        let serving = Arc::new(serving);
        (Role::Serving { serving, ended }, parts)
    }

    /// Serves no further requests. Returns the parts with which the node has served.
    fn leave(self) -> (Role, Option<Served>) {
        match self {
            Role::Serving { serving, ended } => (Role::Leaving, Some((serving, ended))),
            Role::Waiting(_) | Role::Leaving | Role::Ending { .. } => (Role::Leaving, None),
        }
    }

    /// Lets no request wait for a leaseholder any more.
    fn end(self) -> Role {
        let (parts, has_served) = match self {
            Role::Waiting(parts) => (parts, false),
            Role::Serving { .. } | Role::Leaving => (WaitingParts::default(), true),
            Role::Ending { parts, has_served } => (parts, has_served),
        };
        Role::Ending { parts, has_served }
    }

    /// Returns the parts of a node without the lease, if the node has not served.
    fn waiting_parts(&self) -> Option<&WaitingParts> {
        match self {
            Role::Waiting(parts) | Role::Ending { parts, .. } => Some(parts),
            Role::Serving { .. } | Role::Leaving => None,
        }
    }
}

impl Serving {
    /// Creates the parts of a node that serves, and the receiver that is closed with the last
    /// reference to them.
    pub(crate) fn new(key: NodesKey, forwarder: OwnerForwarder) -> (Serving, mpsc::Receiver<()>) {
        let (in_progress, ended) = mpsc::channel(1);
        let serving = Serving {
            key,
            forwarder,
            _in_progress: in_progress,
        };
        (serving, ended)
    }
}

/// The part of a node that its other parts share.
pub struct Seat {
    /// This node as others see it.
    pub node: Node,
    /// The nodes of the fleet.
    pub(crate) members: Arc<Members>,
    /// The client for other nodes.
    pub(crate) client: NodesClient,
    /// The way of management requests of other nodes.
    pub manager: Manager,
    /// Told each leaseholder.
    pub(crate) leaseholder: watch::Sender<Option<Leaseholder>>,
    /// The waits between the attempts to get the lease.
    pub(crate) claim: ClaimWait,
    role: RwLock<Role>,
    /// The node to which an operator has given the lease; this process ends then.
    successor: watch::Sender<Option<String>>,
    /// The address of another node that uses the name of this one.
    pub(crate) namesake: watch::Sender<Option<String>>,
    /// The reason for which the lease cannot be read or renewed now.
    lease_failure: Mutex<Option<String>>,
}

impl Seat {
    /// Creates the seat of a node that waits for the lease.
    pub(crate) fn new(node: Node, members: Members, client: NodesClient) -> Seat {
        Seat {
            node,
            members: Arc::new(members),
            client,
            manager: Manager::default(),
            leaseholder: watch::Sender::new(None),
            claim: ClaimWait::default(),
            role: RwLock::default(),
            successor: watch::Sender::new(None),
            namesake: watch::Sender::new(None),
            lease_failure: Mutex::default(),
        }
    }

    /// Returns the reason for which this node cannot read or renew the lease now, for clients and
    /// probes.
    pub fn lease_failure(&self) -> Option<String> {
        lock(&self.lease_failure).clone()
    }

    pub(crate) fn set_lease_failure(&self, reason: Option<String>) {
        *lock(&self.lease_failure) = reason;
    }

    /// Ends this process in favour of another node.
    pub(crate) fn hand_over_to(&self, name: &str) {
        self.successor.send_replace(Some(name.to_owned()));
    }

    /// Returns the node to which an operator has given the lease.
    pub fn successor(&self) -> Option<String> {
        self.successor.borrow().clone()
    }

    /// Returns when an operator gives the lease to another node.
    pub async fn wait_for_successor(&self) {
        // The sender lives as long as `self`.
        let _ = self.successor.subscribe().wait_for(Option::is_some).await;
    }

    /// Notes that this node holds the lease. Requests wait from now on until this node serves, and
    /// are not sent to the leaseholder before, which has ended; if that node comes back, it sends
    /// its facts.
    pub(crate) fn take_lease(&self, key: &NodesKey) {
        let before = self.leaseholder.borrow().clone();
        if let Some(before) = before.filter(|before| before.node != self.node) {
            self.members.forget(&before.node.name);
        }
        // Its clock is the one that others are compared with from now on.
        self.members.forget(&self.node.name);
        self.leaseholder.send_replace(Some(Leaseholder {
            node: self.node.clone(),
            key: Some(key.clone()),
        }));
    }

    /// Answers reads from standbys from now on, until this node serves.
    pub fn begin_reading(&self, reader: Reader) {
        if let Role::Waiting(parts) = &mut *write(&self.role) {
            parts.reader = Some(Arc::new(reader));
        }
    }

    /// Owns the partitions that the leaseholder gives from now on, until this node serves.
    pub fn begin_owning(&self, owner: Arc<OwnerNode>) {
        if let Role::Waiting(parts) = &mut *write(&self.role) {
            parts.owner = Some(owner);
        }
    }

    /// Serves requests from now on. Returns the part that has owned partitions before.
    pub(crate) fn begin_serving(
        &self,
        serving: Serving,
        ended: mpsc::Receiver<()>,
    ) -> Option<Arc<OwnerNode>> {
        let parts = self.change(|role| role.serve(serving, ended));
        // The reader ends here, beside the lock.
        parts.owner
    }

    /// Serves no further requests. Returns the receiver that is closed when the last request in
    /// progress has ended.
    pub(crate) fn end_serving(&self) -> Option<mpsc::Receiver<()>> {
        let (serving, ended) = self.change(Role::leave)?;
        // Requests that wait for a cluster would keep the lease from the next node.
        serving.forwarder.gateway.end_waits();
        Some(ended)
    }

    /// Lets no request wait for a leaseholder any more.
    pub(crate) fn end(&self) {
        self.change(|role| (role.end(), ()));
    }

    /// Goes to the next role. Returns what the role before has left.
    fn change<T>(&self, transition: impl FnOnce(Role) -> (Role, T)) -> T {
        let mut role = write(&self.role);
        let (next, left) = transition(std::mem::take(&mut *role));
        *role = next;
        left
    }

    /// Returns the parts of this node while it serves.
    pub(crate) fn serving(&self) -> Option<Arc<Serving>> {
        match &*read(&self.role) {
            Role::Serving { serving, .. } => Some(serving.clone()),
            Role::Waiting(_) | Role::Leaving | Role::Ending { .. } => None,
        }
    }

    /// Returns the reader of standbys, if there is one.
    pub(crate) fn reader(&self) -> Option<Arc<Reader>> {
        read(&self.role).waiting_parts()?.reader.clone()
    }

    /// Returns the part of this node that owns partitions, if there is one.
    pub fn owner(&self) -> Option<Arc<OwnerNode>> {
        read(&self.role).waiting_parts()?.owner.clone()
    }

    /// Returns true while the node serves requests.
    pub(crate) fn is_serving(&self) -> bool {
        matches!(&*read(&self.role), Role::Serving { .. })
    }

    /// Returns true if the node has served and serves no more: each answer ends its connection,
    /// since the port is going to be closed. The refusals for other nodes end none.
    pub(crate) fn ends_connections(&self) -> bool {
        let role = read(&self.role);
        matches!(
            &*role,
            Role::Leaving
                | Role::Ending {
                    has_served: true,
                    ..
                }
        )
    }

    /// Returns true if no request is to wait for a leaseholder any more.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(&*read(&self.role), Role::Ending { .. })
    }
}

/// The waits between the attempts of a node to get the lease.
#[derive(Default)]
pub(crate) struct ClaimWait {
    state: Mutex<ClaimState>,
    changed: Condvar,
}

#[derive(Default)]
struct ClaimState {
    is_cancelled: bool,
    /// The attempts that are left of those that come quickly.
    quick: u32,
}

impl ClaimWait {
    /// Waits for a time, or less if the leaseholder leaves. Returns false if no attempt is to
    /// follow.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let state = lock(&self.state);
        let is_idle = |state: &mut ClaimState| !state.is_cancelled && state.quick == 0;
        let waited = self.changed.wait_timeout_while(state, time, is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.quick > 0 && !state.is_cancelled {
            state.quick -= 1;
            let is_going_on = |state: &mut ClaimState| !state.is_cancelled;
            let waited = self
                .changed
                .wait_timeout_while(state, QUICK_PAUSE.min(time), is_going_on);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.is_cancelled
    }

    /// Makes the next attempts come quickly, since the leaseholder has told that it leaves.
    pub(crate) fn hurry(&self) {
        lock(&self.state).quick = QUICK_ATTEMPTS;
        self.changed.notify_all();
    }

    /// Ends the attempts.
    pub(crate) fn cancel(&self) {
        lock(&self.state).is_cancelled = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeFacts;
    use crate::forward::nodes_client;
    use orrery_model::world::SeededWorld;

    fn seat() -> Seat {
        let node = Node {
            name: "a".to_owned(),
            address: "http://127.0.0.1:1".to_owned(),
        };
        let own = NodeFacts {
            name: node.name.clone(),
            region: None,
            address: node.address.clone(),
            clusters: Vec::new(),
            clock_ahead_ms: 0,
        };
        let members = Members::new(own, Arc::new(SeededWorld::new(0, 1)));
        Seat::new(node, members, nodes_client())
    }

    #[test]
    fn a_node_that_has_never_served_ends_no_connections() {
        let seat = seat();
        assert!(!seat.is_serving() && !seat.ends_connections() && !seat.is_ending());
        seat.end();
        assert!(seat.is_ending() && !seat.ends_connections());
        seat.end();
        assert!(seat.is_ending() && !seat.ends_connections());
    }

    #[test]
    fn a_node_that_has_served_ends_connections_until_its_end() {
        let seat = seat();
        assert!(seat.end_serving().is_none());
        assert!(seat.ends_connections() && !seat.is_ending());
        seat.end();
        assert!(seat.ends_connections() && seat.is_ending());
    }
}
