//! The first cluster of a file: the one with the lease and the list of partitions, which says what
//! the other clusters must be.
//!
//! The checks are made before the lease is taken and before anything is fenced. Tables of a first
//! cluster are created only for a new fleet, of which no cluster of the file has data.

use orrery_placement::{KnownCluster, check_clusters, known_clusters};
use orrery_storage::{Store, StoreError};
use orrery_storage_postgres::{
    ClusterConfig, ClusterId, Expected, Found, Membership, PostgresStore, StoreOptions,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::NodeError;

/// The first cluster of a file, open for the lease, with connections of its own: commits of clients
/// must not delay a renewal.
pub struct FirstCluster {
    store: Arc<PostgresStore>,
    fleet: ClusterId,
    pub(super) name: String,
    pub(super) file: PathBuf,
}

impl FirstCluster {
    /// Opens the first cluster of a file with these clusters, and checks that it is one. A new
    /// fleet gets its tables.
    ///
    /// # Errors
    /// [`NodeError::Data`] if the cluster cannot be used, is not the first one of its fleet, or has
    /// no tables although another one of the file belongs to a fleet or has data.
    pub fn open(file: &Path, configs: &[ClusterConfig]) -> Result<FirstCluster, NodeError> {
        let first = FirstCluster::open_alone(file, configs, |found| match found {
            Found::Nothing => check_new_fleet(file, configs).map(|()| true),
            Found::Tables { .. } => Ok(false),
        })?;
        // A node that does not know a cluster must not take the lease from one that does.
        let names: Vec<String> = configs.iter().map(|config| config.name.clone()).collect();
        check_clusters(&*first.store, &names).map_err(|error| unusable_in(file, &error))?;
        let known = first.known()?;
        let remembered = known.get(&first.name).and_then(|one| one.id).map(ClusterId);
        match remembered {
            Some(id) if id != first.fleet => Err(first.changed_id(id, &configs[0].schema)),
            _ => Ok(first),
        }
    }

    /// Opens the first cluster of a file, and creates no tables.
    ///
    /// # Errors
    /// [`NodeError::Data`] if the cluster cannot be used, or is not the first one of its fleet.
    pub(crate) fn open_existing(
        file: &Path,
        configs: &[ClusterConfig],
    ) -> Result<FirstCluster, NodeError> {
        FirstCluster::open_alone(file, configs, |_| Ok(false))
    }

    /// Opens the cluster. `may_create` decides about what was found there.
    fn open_alone(
        file: &Path,
        configs: &[ClusterConfig],
        may_create: impl FnOnce(&Found) -> Result<bool, NodeError>,
    ) -> Result<FirstCluster, NodeError> {
        let config = ClusterConfig {
            write_connections: 1,
            read_connections: 1,
            ..configs[0].clone()
        };
        let name = config.name.clone();
        let failed = |error: StoreError| unusable_in(file, &error);
        let found = PostgresStore::look(config.clone()).map_err(failed)?;
        let may_create = may_create(&found)?;
        let options = StoreOptions {
            expected: Expected::First { may_create },
            ..StoreOptions::default()
        };
        let store = PostgresStore::open_with(config, options).map_err(failed)?;
        store.check_rights().map_err(failed)?;
        let fleet = store.id().ok_or_else(|| {
            NodeError::Data(format!(
                "database cluster '{name}': it has no id of a cluster"
            ))
        })?;
        Ok(FirstCluster {
            store: Arc::new(store),
            fleet,
            name,
            file: file.to_owned(),
        })
    }

    /// Returns the store with the row of the lease.
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Reads what the list of partitions knows of the clusters.
    fn known(&self) -> Result<BTreeMap<String, KnownCluster>, NodeError> {
        let known = known_clusters(&*self.store, &self.name);
        known.map_err(|error| unusable_in(&self.file, &error))
    }

    /// Returns what the clusters of these names must be, by what the fleet knows of them now. The
    /// first name is that of the first cluster. `may_join`: a new cluster may become one of the
    /// fleet.
    ///
    /// # Errors
    /// [`NodeError::Data`] if the list of partitions cannot be read.
    pub(crate) fn expected(
        &self,
        names: &[String],
        may_join: bool,
    ) -> Result<Vec<Expected>, NodeError> {
        let known = self.known()?;
        let expected = |(at, name): (usize, &String)| match at {
            0 => Expected::Id(self.fleet),
            _ => {
                let KnownCluster { id, partitions } = known.get(name).copied().unwrap_or_default();
                Expected::Member(Membership {
                    fleet: self.fleet,
                    known: id.map(ClusterId),
                    partitions,
                    may_join,
                })
            }
        };
        Ok(names.iter().enumerate().map(expected).collect())
    }

    fn changed_id(&self, remembered: ClusterId, schema: &str) -> NodeError {
        NodeError::Data(format!(
            "database cluster '{}': it had the id {remembered}, by which the other clusters of the \
             fleet know it, and has the id {} now: UPDATE {schema}.identity SET cluster = \
             '\\x{remembered}', fleet = '\\x{remembered}' (the cluster file is {})",
            self.name,
            self.fleet,
            self.file.display()
        ))
    }
}

/// Checks that the clusters of a file whose first one has no tables are those of a new fleet.
fn check_new_fleet(file: &Path, configs: &[ClusterConfig]) -> Result<(), NodeError> {
    let (first, others) = (&configs[0], &configs[1..]);
    for other in others {
        let why = match PostgresStore::look(other.clone()) {
            Ok(Found::Nothing) => continue,
            Ok(Found::Tables {
                has_rows, identity, ..
            }) => match identity.and_then(|identity| identity.member) {
                Some(member) => format!(
                    "the cluster '{}' belongs to the fleet {}",
                    other.name, member.fleet
                ),
                None if has_rows => format!("the cluster '{}' has data", other.name),
                None => continue,
            },
            Err(error) => format!(
                "whether this is a new fleet cannot be known while another cluster is away \
                 ({error})"
            ),
        };
        return Err(NodeError::Data(format!(
            "database cluster '{}': there are no tables in the schema '{}', and {why}: restore the \
             first cluster, or correct the order and the addresses in the cluster file {}",
            first.name,
            first.schema,
            file.display()
        )));
    }
    Ok(())
}

/// Returns the error of a cluster that a file describes.
pub(crate) fn unusable_in(file: &Path, error: &StoreError) -> NodeError {
    NodeError::Data(format!("{error} (the cluster file is {})", file.display()))
}
