//! Moves of many partitions, and lists for the operator.

use orrery_model::metrics::HistogramSnapshot;
use orrery_model::sync::{lock, read};
use orrery_storage::{FollowerLag, PartitionId, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::cluster::failed;
use crate::ledger::Change;
use crate::plan::{BalanceLimits, BalanceMove, Load, Loads, PlannedCluster, next_move};
use crate::row::Step;
use crate::store::PlacedStore;

/// The home of a partition, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The partition.
    pub partition: PartitionId,
    /// The cluster that has it.
    pub cluster: String,
    /// The work under way.
    pub state: PlacementState,
    /// The failure of the last move or removal, if none has succeeded since.
    pub failure: Option<String>,
}

/// The work under way for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementState {
    /// None.
    Settled,
    /// A move to this cluster. The partition is read and written where it was.
    Moving {
        /// The cluster that gets the partition.
        to: String,
    },
    /// The removal of the source of a move from this cluster.
    Leaving {
        /// The cluster that had the partition.
        from: String,
    },
    /// The removal of the partition.
    Destroying,
}

/// A cluster, for the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterStatus {
    /// The name.
    pub name: String,
    /// Bytes in use, as the store measures them.
    pub bytes: u64,
    /// Partitions whose home the cluster is.
    pub partitions: usize,
    /// The cluster gets no further partitions.
    pub is_drained: bool,
    /// A drain is under way.
    pub is_draining: bool,
    /// The failure of the last drain, if none was started since.
    pub drain_failure: Option<String>,
    /// The reason for which the cluster takes no writes now.
    pub write_failure: Option<String>,
    /// The times of the commits that this process made durable there.
    pub commit_seconds: HistogramSnapshot,
}

/// Failures of work in the background, and the work under way.
#[derive(Default)]
pub(crate) struct Failures {
    partitions: Mutex<BTreeMap<PartitionId, String>>,
    drains: Mutex<BTreeMap<String, String>>,
    draining: Mutex<BTreeSet<String>>,
    /// A move for the balance is being chosen, or is under way.
    is_balancing: AtomicBool,
}

/// The turn of the only move for the balance.
struct Balancing {
    store: Arc<PlacedStore>,
}

impl Balancing {
    /// Returns the turn, unless another call has it.
    fn begin(store: &Arc<PlacedStore>) -> Option<Balancing> {
        let was_set = store.failures.is_balancing.swap(true, Ordering::AcqRel);
        (!was_set).then(|| Balancing {
            store: store.clone(),
        })
    }
}

impl Drop for Balancing {
    fn drop(&mut self) {
        self.store
            .failures
            .is_balancing
            .store(false, Ordering::Release);
    }
}

impl Failures {
    pub(crate) fn note(&self, partition: PartitionId, failure: String) {
        lock(&self.partitions).insert(partition, failure);
    }

    fn forget(&self, partition: PartitionId) {
        lock(&self.partitions).remove(&partition);
    }
}

impl PlacedStore {
    /// Returns every partition with its cluster, in order.
    pub fn placements(&self) -> Vec<Placement> {
        let failures = lock(&self.failures.partitions).clone();
        let ledger = self.ledger();
        let rows = ledger.rows().iter();
        rows.map(|(partition, row)| Placement {
            partition: *partition,
            cluster: row.home.cluster.clone(),
            state: match &row.step {
                Step::Settled => PlacementState::Settled,
                Step::Moving { to } => PlacementState::Moving {
                    to: to.cluster.clone(),
                },
                Step::Leaving { from } => PlacementState::Leaving {
                    from: from.cluster.clone(),
                },
                Step::Destroying => PlacementState::Destroying,
            },
            failure: failures.get(partition).cloned(),
        })
        .collect()
    }

    /// Returns the clusters, the first one first.
    pub fn clusters(&self) -> Vec<ClusterStatus> {
        let counts = self.partition_counts();
        let drains = lock(&self.failures.drains).clone();
        let draining = lock(&self.failures.draining).clone();
        let mut all = Vec::new();
        for (at, cluster) in self.clusters.iter().enumerate() {
            all.push(ClusterStatus {
                name: cluster.name.clone(),
                bytes: cluster.store.approximate_bytes(),
                partitions: counts[at],
                is_drained: self.is_drained(at),
                is_draining: draining.contains(&cluster.name),
                drain_failure: drains.get(&cluster.name).cloned(),
                write_failure: cluster.store.write_failure(),
                commit_seconds: self.commit_seconds[at].snapshot(),
            });
        }
        all
    }

    /// Returns the standbys of each cluster that answer, with their distance from the primary. Asks
    /// the servers, which may take seconds.
    pub fn followers(&self) -> Vec<(String, Vec<FollowerLag>)> {
        let clusters = self.clusters.iter();
        let lag = clusters.map(|one| (one.name.clone(), one.store.follower_lag()));
        lag.collect()
    }

    /// Sets if a cluster gets no further partitions, durably.
    ///
    /// # Errors
    /// When no cluster has the name, it is the first cluster, or the ledger cannot be written.
    pub fn set_drained(&self, cluster: &str, is_drained: bool) -> Result<(), StoreError> {
        if self.index_of(cluster)? == 0 && is_drained {
            let detail = "the first cluster has the catalog and the list of partitions, so it \
                          cannot be drained";
            return Err(failed(cluster, detail));
        }
        self.ledger().commit(Change {
            drained: Some((cluster.to_owned(), is_drained)),
            ..Change::default()
        })
    }

    /// Moves all partitions of a cluster to others, and gives the cluster no further ones. Returns
    /// the number of partitions that were moved.
    ///
    /// # Errors
    /// As [`PlacedStore::set_drained`] and [`PlacedStore::move_partition`], after every partition
    /// was tried; when no other cluster takes partitions.
    pub fn drain(&self, cluster: &str) -> Result<usize, StoreError> {
        self.set_drained(cluster, true)?;
        let (mut moved, mut result) = (0, Ok(()));
        for partition in self.partitions_of(cluster) {
            let to = self.clusters[self.emptiest()?].name.clone();
            match self.move_noted(partition, &to) {
                Ok(()) => moved += 1,
                Err(error) => result = Err(error),
            }
            if self.stop.is_set() {
                break;
            }
        }
        result.map(|()| moved)
    }

    /// Starts the move that makes the clusters more equal, if there is one, on a thread of its own.
    /// Returns the move. [`PlacedStore::placements`] shows its progress and its failure.
    ///
    /// # Errors
    /// When a move or a drain is under way, so that there is one move at a time; when no thread can
    /// be started.
    pub fn start_balance(
        self: &Arc<Self>,
        loads: &Loads,
        limits: &BalanceLimits,
    ) -> Result<Option<BalanceMove>, StoreError> {
        let first = self.clusters[0].name.as_str();
        let under_way = || failed(first, "a move or a drain is under way: balance after it");
        let Some(turn) = Balancing::begin(self) else {
            return Err(under_way());
        };
        if self.has_work() {
            return Err(under_way());
        }
        let Some(next) = self.next_move(loads, limits) else {
            return Ok(None);
        };
        let (partition, to) = (next.partition, next.to.clone());
        self.failures.forget(partition);
        self.start(&next.to, move || {
            // The failure is in the list of placements.
            let _ = turn.store.move_noted(partition, &to);
            drop(turn);
        })?;
        Ok(Some(next))
    }

    /// Returns true while a move that [`PlacedStore::start_balance`] has chosen is under way.
    pub fn is_balancing(&self) -> bool {
        self.failures.is_balancing.load(Ordering::Acquire)
    }

    /// Returns true while a move for the balance, another move or a drain is under way.
    pub fn is_busy(&self) -> bool {
        self.is_balancing() || self.has_work()
    }

    /// Returns true while a move or a drain is under way. The row of a move that has failed may
    /// stay until its remains are removed.
    fn has_work(&self) -> bool {
        let is_moving = |partition: PartitionId| {
            let place = self.places.get(partition);
            place.is_some_and(|place| read(&place.route).changes.is_some())
        };
        let rows = self.ledger().rows().clone();
        let mut begun = rows
            .iter()
            .filter(|(_, row)| matches!(row.step, Step::Moving { .. }));
        !lock(&self.failures.draining).is_empty() || begun.any(|(id, _)| is_moving(*id))
    }

    /// Returns the move that makes the clusters more equal.
    fn next_move(&self, loads: &Loads, limits: &BalanceLimits) -> Option<BalanceMove> {
        let failures = lock(&self.failures.partitions).clone();
        let mut clusters = Vec::new();
        for (at, cluster) in self.clusters.iter().enumerate() {
            let mut one = PlannedCluster {
                name: cluster.name.clone(),
                is_drained: self.is_drained(at) || self.check_use(&cluster.name).is_err(),
                partitions: Vec::new(),
                load: Load::default(),
            };
            for partition in self.partitions_of(&cluster.name) {
                let Some(load) = loads.get(&partition) else {
                    continue;
                };
                one.load.bytes = one.load.bytes.saturating_add(load.bytes);
                one.load.request_units += load.request_units;
                if partition.0 != 0 {
                    one.partitions
                        .push((partition, failures.contains_key(&partition)));
                }
            }
            clusters.push(one);
        }
        next_move(&clusters, loads, limits)
    }

    /// Starts a move on a thread of its own. [`PlacedStore::placements`] shows its progress and its
    /// failure.
    ///
    /// # Errors
    /// When the partition or the cluster does not exist, or no thread can be started.
    pub fn start_move(
        self: &Arc<Self>,
        partition: PartitionId,
        to: &str,
    ) -> Result<(), StoreError> {
        self.index_of(to)?;
        if partition.0 == 0 || self.row(partition)?.is_none() {
            let detail = format!("partition {partition} does not exist or cannot be moved");
            return Err(failed(to, detail));
        }
        self.check_use(to)?;
        let (store, name) = (Arc::clone(self), to.to_owned());
        // A caller that looks at once must not see the failure of an earlier move.
        self.failures.forget(partition);
        self.start(to, move || {
            // The failure is in the list of placements.
            let _ = store.move_noted(partition, &name);
        })
    }

    /// Starts a drain on a thread of its own. [`PlacedStore::clusters`] shows its progress and its
    /// failure. Does nothing if a drain of the cluster is under way.
    ///
    /// # Errors
    /// As [`PlacedStore::set_drained`], and if no thread can be started.
    pub fn start_drain(self: &Arc<Self>, cluster: &str) -> Result<(), StoreError> {
        self.set_drained(cluster, true)?;
        if !lock(&self.failures.draining).insert(cluster.to_owned()) {
            return Ok(());
        }
        lock(&self.failures.drains).remove(cluster);
        let (store, name) = (Arc::clone(self), cluster.to_owned());
        let started = self.start(cluster, move || {
            if let Err(error) = store.drain(&name) {
                lock(&store.failures.drains).insert(name.clone(), error.to_string());
            }
            lock(&store.failures.draining).remove(&name);
        });
        if started.is_err() {
            lock(&self.failures.draining).remove(cluster);
        }
        started
    }

    /// Ends the moves and drains that are under way soon, and all later ones. The partitions that
    /// are being moved stay where they are. For the end of the process.
    pub fn stop_moves(&self) {
        self.stop.set();
    }

    fn start(&self, cluster: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let thread = std::thread::Builder::new().name("orrery-placement".to_owned());
        let started = thread.spawn(work);
        let failure = |error| failed(cluster, format!("cannot start a thread: {error}"));
        started.map(|_| ()).map_err(failure)
    }

    /// Moves a partition and notes the failure for the operator.
    fn move_noted(&self, partition: PartitionId, to: &str) -> Result<(), StoreError> {
        self.failures.forget(partition);
        let moved = self.move_partition(partition, to);
        if let Err(error) = &moved {
            self.failures.note(partition, error.to_string());
        }
        moved
    }

    /// Returns the partitions of a cluster, in order.
    fn partitions_of(&self, cluster: &str) -> Vec<PartitionId> {
        let ledger = self.ledger();
        let rows = ledger.rows().iter();
        let of_cluster = rows.filter(|(_, row)| row.home.cluster == cluster);
        of_cluster.map(|(partition, _)| *partition).collect()
    }
}
