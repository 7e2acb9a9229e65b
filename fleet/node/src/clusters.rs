//! The store in PostgreSQL clusters, for `orrery start --store postgres`.
//!
//! Several servers, the *nodes*, may be started with the same clusters. One node at a time holds
//! the lease of the account, and grants single partitions to others (`grants.rs`). The others wait
//! for the lease, own the partitions that were granted to them, and forward other requests. A node
//! that loses the lease ends at once, so that its supervisor starts it again as one that waits.

use crate::grants::{GrantCounts, Grantor, GrantorOptions, Recaller, on_threads};
use crate::manage::{ManageAnswer, ManageRequest};
use crate::role::Seat;
use crate::{
    LEASE_PARTITION, LeasedStore, LiveNode, Node, NodeContext, NodeError, NodeFacts, NodeLease,
    Progress, Report, Terms, Validity,
};
use orrery_gateway::{LogLevel, RepeatedFailures};
use orrery_placement::{NamedCluster, PlacedStore};
use orrery_storage::{Store, StoreError};
use orrery_storage_postgres::{ClusterConfig, PostgresStore, PreparedStore, StoreOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

mod first;

pub use first::FirstCluster;
use first::unusable_in;

/// The exit code of a node that another node has replaced.
const REPLACED: i32 = 1;

/// The store of a cluster, with the name of the cluster.
pub(crate) type NamedStore = (String, Arc<dyn Store>);

/// The clusters of a leaseholder.
pub struct Clusters {
    /// The store of all clusters, for the operator.
    pub placed: Arc<PlacedStore>,
    lease: NodeLease,
    /// The partitions of other nodes.
    pub grantor: Arc<Grantor>,
    /// The store with the row of the lease.
    lease_store: Arc<dyn Store>,
    seat: Arc<Seat>,
}

/// The fleet as a node sees it.
pub struct FleetOfNode {
    seat: Arc<Seat>,
    /// The validity of the lease, and the partitions of other nodes; `None` for a node that does
    /// not hold the lease.
    holding: Option<(Arc<Validity>, Arc<Grantor>)>,
}

/// A live node of a fleet, as another node sees it.
pub struct SeenNode {
    /// The facts that the node has told.
    pub facts: NodeFacts,
    /// Milliseconds since the node was heard of; 0 for the node that answers.
    pub silent_ms: u64,
    /// Physical partitions that the node owns, as the node that answers knows.
    pub partitions: usize,
    /// True for the leaseholder.
    pub holds_lease: bool,
}

impl FleetOfNode {
    /// Returns the fleet as a node without the lease sees it.
    pub fn without_lease(seat: Arc<Seat>) -> FleetOfNode {
        FleetOfNode {
            seat,
            holding: None,
        }
    }

    /// Returns the leaseholder, if it is known. A node that does not serve is not the
    /// leaseholder, although the row may name it: of an earlier process, or while the node opens
    /// the data.
    fn leaseholder(&self) -> Option<Node> {
        let own = &self.seat.node;
        if self.holds_lease() {
            return Some(own.clone());
        }
        let known = self.seat.leaseholder.borrow().clone()?;
        (known.node != *own).then_some(known.node)
    }

    /// Returns the number of partitions that each node owns, by the address of the node. A node
    /// without the lease does not know how many the leaseholder owns.
    fn partitions_by_address(&self) -> BTreeMap<String, usize> {
        let own = self.seat.node.address.clone();
        match (&self.holding, self.seat.owner()) {
            (Some((_, grantor)), _) => grantor.partitions_by_address(own),
            (None, Some(owner)) => owner.partitions_by_address(own),
            (None, None) => BTreeMap::new(),
        }
    }

    /// Returns true if this node holds the lease of the account.
    pub fn holds_lease(&self) -> bool {
        let holding = self.holding.as_ref();
        holding.is_some_and(|(validity, _)| validity.is_valid())
    }

    /// Returns the live nodes in the order of their names, this node among them.
    pub fn nodes(&self) -> Vec<SeenNode> {
        let leaseholder = self.leaseholder();
        let is_leaseholder = |facts: &NodeFacts| {
            let leaseholder = leaseholder.as_ref();
            leaseholder.is_some_and(|node| node.name == facts.name && node.address == facts.address)
        };
        let owned = self.partitions_by_address();
        let live = self.seat.members.live().into_iter();
        live.map(|LiveNode { facts, silent_ms }| SeenNode {
            holds_lease: is_leaseholder(&facts),
            partitions: owned.get(&facts.address).copied().unwrap_or(0),
            facts,
            silent_ms,
        })
        .collect()
    }

    /// Sends a request to the management API of the leaseholder, see [`Seat::manage`].
    pub fn manage(
        &self,
        request: ManageRequest,
    ) -> impl Future<Output = Option<ManageAnswer>> + Send + 'static {
        let seat = self.seat.clone();
        async move { seat.manage(request).await }
    }

    /// Returns true if this process has ever held the lease of the account.
    pub fn has_held_lease(&self) -> bool {
        self.holding.is_some()
    }

    /// Returns the numbers of grants that this node has begun and ended as the leaseholder.
    pub fn grant_counts(&self) -> GrantCounts {
        let holding = self.holding.as_ref();
        holding.map_or_else(GrantCounts::default, |(_, grantor)| grantor.counts())
    }

    /// Gives the lease to another node, and ends this process afterwards. The requests in progress
    /// are finished first.
    pub fn hand_over(&self, name: &str) {
        self.seat.hand_over_to(name);
    }
}

impl Clusters {
    /// Waits for the lease of the account, and opens the clusters of a file. Returns `None` if the
    /// node is to wait no longer.
    ///
    /// # Errors
    /// [`NodeError::Usage`] for a file that cannot be used, [`NodeError::Data`] if a cluster
    /// cannot.
    pub fn open(
        file: &Path,
        least_load: Option<u64>,
        terms: Terms,
        seat: &Arc<Seat>,
        context: &NodeContext,
    ) -> Result<Option<Clusters>, NodeError> {
        let configs = read_file(file)?;
        let first = FirstCluster::open(file, &configs)?;
        let (lease_store, cluster) = (first.store(), first.name.clone());
        // Clients wait from the end of the leaseholder before until this node serves, so the
        // connections are made now.
        let prepared = prepare_placed(configs, first)?;
        let lease = acquire((lease_store.clone(), &cluster), terms, seat, context);
        let Some(lease) = lease.map_err(|error| unusable_in(file, &error))? else {
            return Ok(None);
        };
        context.log(
            LogLevel::Info,
            "this node has taken the lease of the account",
        );
        seat.take_lease(lease.key());
        let placed = prepared.open_available(lease.validity())?;
        let members = seat.members.clone();
        placed.ask_before_use(Box::new(move |cluster| {
            let node = members.without_cluster(cluster)?;
            Some(format!(
                "the node '{node}' does not know the cluster: start it again with the present \
                 cluster file"
            ))
        }));
        let recaller = Recaller::start(lease.key().clone(), lease.term(), context.world.clone());
        let grantor = Grantor::new(GrantorOptions {
            term: lease.term(),
            key: lease.key().clone(),
            validity: lease.validity().clone(),
            world: context.world.clone(),
            log: context.log.clone(),
            placed: placed.clone(),
            members: seat.members.clone(),
            recalls: Box::new(recaller),
            in_background: on_threads(),
            least_load,
        });
        Ok(Some(Clusters {
            placed,
            lease,
            grantor,
            lease_store,
            seat: seat.clone(),
        }))
    }

    /// Returns the store with the row of the lease.
    pub fn lease_store(&self) -> Arc<dyn Store> {
        self.lease_store.clone()
    }

    /// Returns the fleet, for the operator.
    pub fn fleet(&self) -> FleetOfNode {
        FleetOfNode {
            seat: self.seat.clone(),
            holding: Some((self.lease.validity().clone(), self.grantor.clone())),
        }
    }

    /// Gives the lease back, and leaves it to a node if an operator has named one.
    pub fn release(self) {
        if let Some(name) = self.seat.successor() {
            self.lease.set_successor(&name);
        }
    }

    /// Returns the store of the engine.
    pub fn store(&self) -> Arc<dyn Store> {
        let validity = self.lease.validity().clone();
        Arc::new(LeasedStore::new(self.placed.clone(), validity))
    }
}

impl Drop for Clusters {
    fn drop(&mut self) {
        // The lease is given back when its own value is dropped, after this.
        self.grantor.stop();
        self.placed.stop_moves();
    }
}

/// Clusters with connections, for a process that does not hold the lease of the account yet.
pub struct PreparedClusters {
    first: FirstCluster,
    names: Vec<String>,
    stores: Vec<PreparedStore>,
}

/// Makes connections to clusters, of which `first` is the first one.
///
/// # Errors
/// [`NodeError::Data`] if the description of a cluster, or the list of partitions, cannot be used.
pub fn prepare_placed(
    configs: Vec<ClusterConfig>,
    first: FirstCluster,
) -> Result<PreparedClusters, NodeError> {
    let names: Vec<String> = configs.iter().map(|config| config.name.clone()).collect();
    let expected = first.expected(&names, true)?;
    let mut stores = Vec::new();
    for (config, expected) in configs.into_iter().zip(expected) {
        // The lease will make this process the only writer, except for the lease itself.
        let options = StoreOptions {
            only_writer: true,
            spared: Some(LEASE_PARTITION),
            expected,
            ..StoreOptions::default()
        };
        let store = PostgresStore::prepare(config, options);
        stores.push(store.map_err(|error| unusable_in(&first.file, &error))?);
    }
    Ok(PreparedClusters {
        first,
        names,
        stores,
    })
}

impl PreparedClusters {
    /// Opens the clusters for a process that holds the lease of the account.
    ///
    /// # Errors
    /// [`NodeError::Data`] if a cluster cannot be used, or the list of partitions does not fit the
    /// clusters.
    pub fn open(self) -> Result<Arc<PlacedStore>, NodeError> {
        self.open_by(|_, store| store.open())
    }

    /// Opens the clusters as [`PreparedClusters::open`] does. A cluster besides the first that
    /// cannot be used now is opened as soon as that is possible: the partitions of the other
    /// clusters are served meanwhile. `validity` is that of the lease.
    ///
    /// # Errors
    /// As [`PreparedClusters::open`], for the first cluster, which has the catalog and the lease.
    pub fn open_available(self, validity: &Arc<Validity>) -> Result<Arc<PlacedStore>, NodeError> {
        self.open_by(|at, store| match at {
            0 => store.open(),
            _ => {
                let validity = validity.clone();
                Ok(store.open_or_later(move || validity.is_valid()))
            }
        })
    }

    /// Opens each cluster by a function of its index.
    fn open_by(
        self,
        open: impl Fn(usize, PreparedStore) -> Result<PostgresStore, StoreError> + Sync,
    ) -> Result<Arc<PlacedStore>, NodeError> {
        // The fleet may have got partitions and clusters while this process waited for the lease.
        let expected = self.first.expected(&self.names, true)?;
        for (store, expected) in self.stores.iter().zip(expected) {
            store.expect(expected);
        }
        // Clients wait meanwhile, so all clusters are opened at the same time.
        let open = &open;
        let stores = std::thread::scope(|scope| {
            let mut opening = Vec::new();
            for (at, store) in self.stores.into_iter().enumerate() {
                opening.push(scope.spawn(move || open(at, store)));
            }
            let joined = opening.into_iter().map(|thread| thread.join());
            joined.collect::<Vec<_>>()
        });
        let mut by_name = BTreeMap::new();
        let mut clusters = Vec::new();
        for (name, store) in self.names.into_iter().zip(stores) {
            let store = store.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let store = Arc::new(store.map_err(|error| unusable_in(&self.first.file, &error))?);
            by_name.insert(name.clone(), store.clone());
            clusters.push(NamedCluster {
                name,
                store,
                drained: false,
            });
        }
        let unusable = |error: StoreError| unusable_in(&self.first.file, &error);
        let placed = PlacedStore::open(clusters).map_err(unusable)?;
        let identify = move |name: &str| by_name.get(name)?.id().map(|id| id.0);
        placed.identify_by(Box::new(identify)).map_err(unusable)?;
        Ok(Arc::new(placed))
    }
}

/// Opens the clusters of a file for a process that writes the partitions which it opens, and no
/// others. A cluster besides the first that cannot be used now is opened as soon as that is
/// possible.
///
/// # Errors
/// [`NodeError::Usage`] for a file that cannot be used, [`NodeError::Data`] if the first cluster
/// cannot.
pub(crate) fn open_for_owner(file: &Path) -> Result<Vec<NamedStore>, NodeError> {
    let configs = read_file(file)?;
    let names: Vec<String> = configs.iter().map(|config| config.name.clone()).collect();
    // The leaseholder creates tables and adds clusters to the fleet.
    let expected = FirstCluster::open_existing(file, &configs)?.expected(&names, false)?;
    let mut clusters = Vec::new();
    for (config, expected) in configs.into_iter().zip(expected) {
        let name = config.name.clone();
        let options = StoreOptions {
            owns_opened: true,
            expected,
            ..StoreOptions::default()
        };
        let store = match clusters.is_empty() {
            true => PostgresStore::open_with(config, options),
            false => PostgresStore::open_or_later(config, options),
        };
        let store = store.map_err(|error| unusable_in(file, &error))?;
        let store: Arc<dyn Store> = Arc::new(store);
        clusters.push((name, store));
    }
    Ok(clusters)
}

/// Reads a cluster file.
///
/// # Errors
/// [`NodeError::Usage`] for a file that cannot be used.
pub fn read_file(file: &Path) -> Result<Vec<ClusterConfig>, NodeError> {
    ClusterConfig::read_file(file).map_err(|error| NodeError::Usage(error.to_string()))
}

/// Waits until this node holds the lease of the account, which the cluster of this name has; `None`
/// if the wait was cancelled.
fn acquire(
    (store, cluster): (Arc<dyn Store>, &str),
    terms: Terms,
    seat: &Arc<Seat>,
    context: &NodeContext,
) -> Result<Option<NodeLease>, StoreError> {
    let world = context.world.clone();
    let report = report(context.clone(), seat.clone(), cluster.to_owned());
    let node = seat.node.clone();
    let wait = |pause| seat.claim.wait(pause);
    NodeLease::acquire(store, node, terms, world, report, wait)
}

/// Returns the receiver of the news of the lease, which the cluster of this name has.
fn report(context: NodeContext, seat: Arc<Seat>, cluster: String) -> Report {
    let failures = RepeatedFailures::default();
    Arc::new(move |progress| match progress {
        // A program that only moves the data answers no requests, and may leave a copy that no
        // node can use.
        Progress::Waiting(leaseholder, _) if leaseholder.node.address.is_empty() => {
            let message = format!(
                "'{}' holds the lease of the account: this node waits for the lease",
                leaseholder.node.name
            );
            context.log(LogLevel::Info, &message);
            seat.leaseholder.send_replace(None);
        }
        Progress::Waiting(leaseholder, _) => {
            let Node { name, address } = &leaseholder.node;
            let message = format!(
                "the node '{name}' ({address}) holds the lease of the account: this node \
                 forwards requests to that node, and waits for the lease"
            );
            context.log(LogLevel::Info, &message);
            seat.leaseholder.send_replace(Some(leaseholder));
        }
        Progress::Answered => {
            let message = format!("the lease is read and renewed in the cluster '{cluster}' again");
            context.log(LogLevel::Info, &message);
            seat.set_lease_failure(None);
        }
        Progress::Released => {
            let message = "this node has given the lease of the account back";
            context.log(LogLevel::Info, message);
        }
        Progress::Failed(cause) => {
            // Clients and probes without credentials get this text, so the cause is not in it.
            seat.set_lease_failure(Some(format!(
                "the lease of the account cannot be read or renewed in the cluster '{cluster}'"
            )));
            if failures.is_news(&cause, context.world.monotonic_ms()) {
                let message = format!(
                    "the lease of this node cannot be read or renewed in the cluster '{cluster}' \
                     now; trying again"
                );
                context.log_with_cause(LogLevel::Warn, &message, &cause);
            }
        }
        Progress::Lost(Node { name, address }) => {
            let message = format!(
                "the node '{name}' ({address}) has taken the lease of the account: this node ends"
            );
            context.log(LogLevel::Error, &message);
            end();
        }
    })
}

/// Ends the process at once. Nothing that it could still do is of use: the store behind the lease
/// confirms no commit and shows no snapshot any more.
#[expect(
    clippy::disallowed_methods,
    reason = "an orderly end would wait for commits that cannot be confirmed"
)]
pub fn end() -> ! {
    std::process::exit(REPLACED)
}

/// Returns the name of this machine.
#[cfg(unix)]
pub fn machine_name() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

/// Returns the name of this machine.
#[cfg(not(unix))]
pub fn machine_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "node".to_owned())
}
