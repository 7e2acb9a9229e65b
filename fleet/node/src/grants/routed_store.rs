//! The rows of the partitions that a node owns, in the clusters where they live.
//!
//! The list of partitions and clusters belongs to the leaseholder, so a node learns the
//! place of a partition with its grant. The catalog is in the first cluster.
//!
//! Promise: a partition without a place can be neither opened nor read. Left out: the time until
//! which the node owns its partitions, which `LeasedStore` checks around this store.

use crate::clusters::NamedStore;
use orrery_model::sync::{read, write};
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, KnownHead, Lease, PartitionId, ReadAhead, Receipt,
    Snapshot, Store, StoreError,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

/// The head of a partition in a cluster, as a process knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownHeadAt {
    pub(super) cluster: String,
    /// The number of the partition in the cluster.
    pub(super) number: PartitionId,
    pub(super) known: KnownHead,
}

/// The partition with the catalog of the engine.
const CATALOG: PartitionId = PartitionId(0);
/// Milliseconds after which another attempt may succeed.
const RETRY_MS: u64 = 100;

/// A store over the places of single partitions.
pub(super) struct RoutedStore {
    /// The clusters by their names, the first one first.
    clusters: Vec<NamedStore>,
    places: RwLock<HashMap<PartitionId, Place>>,
}

/// The place of a partition.
#[derive(Clone)]
struct Place {
    /// The index of the cluster.
    cluster: usize,
    /// The number of the partition in the cluster.
    number: PartitionId,
    /// The newest lease, under the number in the cluster.
    lease: Option<Lease>,
}

impl RoutedStore {
    /// Creates the store of clusters, of which there is at least one. The catalog is in the first.
    pub(super) fn new(clusters: Vec<NamedStore>) -> RoutedStore {
        RoutedStore {
            clusters,
            places: RwLock::default(),
        }
    }

    /// Adds the place of a partition. Returns false if no cluster has the name.
    pub(super) fn add(&self, partition: PartitionId, cluster: &str, number: PartitionId) -> bool {
        let Some(cluster) = self.clusters.iter().position(|(name, _)| name == cluster) else {
            return false;
        };
        let place = Place {
            cluster,
            number,
            lease: None,
        };
        write(&self.places).insert(partition, place);
        true
    }

    /// Returns what this process knows of the head of a partition, with the partition's cluster and
    /// number there.
    pub(super) fn known_head_at(&self, partition: PartitionId) -> Option<KnownHeadAt> {
        let place = self.place(partition).ok()?;
        Some(KnownHeadAt {
            cluster: self.clusters[place.cluster].0.clone(),
            number: place.number,
            known: self.store_of(&place).known_head(place.number)?,
        })
    }

    /// Forgets the place of a partition. Snapshots that are held read on.
    pub(super) fn remove(&self, partition: PartitionId) {
        write(&self.places).remove(&partition);
    }

    fn store_of(&self, place: &Place) -> &Arc<dyn Store> {
        &self.clusters[place.cluster].1
    }

    fn place(&self, partition: PartitionId) -> Result<Place, StoreError> {
        if partition == CATALOG {
            return Ok(Place {
                cluster: 0,
                number: CATALOG,
                lease: None,
            });
        }
        let place = read(&self.places).get(&partition).cloned();
        place.ok_or_else(not_owned)
    }
}

fn not_owned() -> StoreError {
    StoreError::Unavailable {
        reason: "this node does not own the partition",
        retry_after_ms: RETRY_MS,
        is_full: false,
    }
}

impl Store for RoutedStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        let place = self.place(partition)?;
        let lease = self.store_of(&place).open(place.number)?;
        let own = Lease::new(partition, lease.epoch(), lease.head());
        match write(&self.places).get_mut(&partition) {
            Some(place) => place.lease = Some(lease),
            // Given back meanwhile.
            None => return Err(not_owned()),
        }
        Ok(own)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let places = read(&self.places);
        let Some(place) = places.get(&lease.partition()) else {
            return Receipt::ready(CommitOutcome::Fenced);
        };
        match &place.lease {
            Some(of_copy) if of_copy.epoch() == lease.epoch() => {
                self.store_of(place).submit(of_copy, commit)
            }
            _ => Receipt::ready(CommitOutcome::Fenced),
        }
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        let place = self.place(partition)?;
        self.store_of(&place).snapshot(place.number)
    }

    fn snapshots(&self, partitions: &[PartitionId]) -> Result<Vec<Box<dyn Snapshot>>, StoreError> {
        // The partitions of each cluster, with their indexes in the answer.
        let mut of_cluster: BTreeMap<usize, Vec<(usize, PartitionId)>> = BTreeMap::new();
        for (index, &partition) in partitions.iter().enumerate() {
            let place = self.place(partition)?;
            let of_one = of_cluster.entry(place.cluster).or_default();
            of_one.push((index, place.number));
        }
        let mut found = Vec::with_capacity(partitions.len());
        for (cluster, of_one) in of_cluster {
            let numbers: Vec<PartitionId> = of_one.iter().map(|(_, number)| *number).collect();
            let snapshots = self.clusters[cluster].1.snapshots(&numbers)?;
            for ((index, _), snapshot) in of_one.into_iter().zip(snapshots) {
                found.push((index, snapshot));
            }
        }
        found.sort_by_key(|(index, _)| *index);
        Ok(found.into_iter().map(|(_, snapshot)| snapshot).collect())
    }

    fn snapshot_ahead(
        &self,
        partition: PartitionId,
        ahead: &ReadAhead,
    ) -> Result<Box<dyn Snapshot>, StoreError> {
        let place = self.place(partition)?;
        self.store_of(&place).snapshot_ahead(place.number, ahead)
    }

    fn read_ahead(&self, partition: PartitionId, ahead: &ReadAhead) -> Result<(), StoreError> {
        let place = self.place(partition)?;
        self.store_of(&place).read_ahead(place.number, ahead)
    }

    fn destroy(&self, _partition: PartitionId) -> Result<(), StoreError> {
        Err(not_owned())
    }

    fn release(&self, partition: PartitionId) -> Result<(), StoreError> {
        let place = self.place(partition)?;
        self.store_of(&place).release(place.number)
    }

    fn known_head(&self, partition: PartitionId) -> Option<KnownHead> {
        let place = self.place(partition).ok()?;
        self.store_of(&place).known_head(place.number)
    }

    fn note_known_head(&self, partition: PartitionId, known: &KnownHead) {
        if let Ok(place) = self.place(partition) {
            self.store_of(&place).note_known_head(place.number, known);
        }
    }

    fn check_reachable(&self, partition: PartitionId) -> Result<(), StoreError> {
        let place = self.place(partition)?;
        self.store_of(&place).check_reachable(place.number)
    }

    fn sync_partition(&self, partition: PartitionId) -> Result<(), StoreError> {
        let place = self.place(partition)?;
        self.store_of(&place).sync_partition(place.number)
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut result = Ok(());
        for (_, cluster) in &self.clusters {
            result = result.and(cluster.sync());
        }
        result
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            long_snapshots: false,
            followers: false,
            remote: true,
        }
    }

    fn write_failure(&self) -> Option<String> {
        let failures = self.clusters.iter();
        failures
            .filter_map(|(_, cluster)| cluster.write_failure())
            .next()
    }

    fn approximate_bytes(&self) -> u64 {
        0
    }
}
