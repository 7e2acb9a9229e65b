//! The knowledge that the ledger has of the clusters: their ids, and how many partitions each has.
//!
//! A cluster is remembered under its name before its first partition, so that another one under the
//! same name is noticed. A cluster that the operator has taken away is forgotten when it has no
//! partition any more.

use orrery_storage::{Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};

use crate::ledger::{Change, ClusterKey, cluster_ids, partition_rows};
use crate::store::{LEDGER, PlacedStore, check_names};

/// The knowledge that the ledger has of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownCluster {
    /// The id, if one is remembered.
    pub id: Option<ClusterKey>,
    /// Partitions that are there as a whole or in part.
    pub partitions: usize,
}

/// A function that returns the id of the cluster of a name, if it is known now.
pub type Identify = Box<dyn Fn(&str) -> Option<ClusterKey> + Send + Sync>;

/// Reads what the ledger in the store `first` knows of clusters, by their names. Takes nothing
/// over.
///
/// # Errors
/// Those of the store; a damaged row.
pub fn known_clusters(
    first: &dyn Store,
    name: &str,
) -> Result<BTreeMap<String, KnownCluster>, StoreError> {
    let snapshot = first.snapshot(LEDGER)?;
    let mut known: BTreeMap<String, KnownCluster> = BTreeMap::new();
    for row in partition_rows(snapshot.as_ref(), name)?.values() {
        for copy in row.copies() {
            known.entry(copy.cluster.clone()).or_default().partitions += 1;
        }
    }
    for (cluster, id) in cluster_ids(snapshot.as_ref(), name)? {
        known.entry(cluster).or_default().id = Some(id);
    }
    Ok(known)
}

/// Checks that the names of clusters, of which `first` has the ledger, include all that the ledger
/// names. Takes nothing over, so that a process which does not own the ledger can check itself.
///
/// # Errors
/// A missing cluster; those of the store.
pub fn check_clusters(first: &dyn Store, names: &[String]) -> Result<(), StoreError> {
    let name = names.first().map_or("", String::as_str);
    let rows = partition_rows(first.snapshot(LEDGER)?.as_ref(), name)?;
    check_names(|cluster| names.iter().any(|name| name == cluster), &rows)
}

impl PlacedStore {
    /// Sets the function that tells the ids of the clusters, and remembers the ids that are known
    /// now. Only the first call has an effect on later ones.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn identify_by(&self, call: Identify) -> Result<(), StoreError> {
        let _ = self.identify.set(call);
        self.remember_clusters()
    }

    /// Remembers the ids of clusters that are new, and forgets clusters that the list of clusters
    /// does not have any more, and that have no partition.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub(crate) fn remember_clusters(&self) -> Result<(), StoreError> {
        let Some(identify) = self.identify.get() else {
            return Ok(());
        };
        let mut ledger = self.ledger();
        let mut ids = Vec::new();
        for cluster in &self.clusters {
            // The id of a name never changes.
            if !ledger.ids().contains_key(&cluster.name)
                && let Some(id) = identify(&cluster.name)
            {
                ids.push((cluster.name.clone(), Some(id)));
            }
        }
        let is_listed = |name: &str| self.clusters.iter().any(|cluster| cluster.name == name);
        let copies = ledger.rows().values().flat_map(|row| row.copies());
        let used: BTreeSet<&str> = copies.map(|copy| copy.cluster.as_str()).collect();
        let names = ledger.ids().keys();
        let gone = names.filter(|name| !is_listed(name) && !used.contains(name.as_str()));
        ids.extend(gone.map(|name| (name.clone(), None)));
        if ids.is_empty() {
            return Ok(());
        }
        ledger.commit(Change {
            ids,
            ..Change::default()
        })
    }
}
