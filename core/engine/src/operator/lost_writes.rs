//! The names of lost writes: containers and item ids of commits that the store describes as keys.

use crate::Engine;
use crate::partition::keys::CATALOG_PARTITION;
use crate::partition::keys::{self, ItemNumber};
use orrery_storage::{LostCommit, PartitionId};
use std::collections::{BTreeMap, BTreeSet};

/// The place of writes to the catalog.
const CATALOG_PLACE: &str = "databases, containers and their settings";

/// The lost writes of one partition of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostWrites {
    /// The container with its partition key range, or the part of the store that is not a
    /// container, for a person.
    pub place: String,
    /// Number of commits.
    pub commits: u64,
    /// Number of items that the commits wrote or deleted.
    pub items: u64,
    /// The ids of the items that the commits created or deleted, sorted. A replaced item keeps the
    /// row with its id, so its id is not among the keys of the commit.
    pub ids: Vec<String>,
}

impl LostWrites {
    /// Describes the writes of lost commits, in the order of the partitions of the store. Without
    /// an engine, which cannot be opened before the loss is accepted, the places have no names.
    pub fn of(commits: &[LostCommit], engine: Option<&Engine>) -> Vec<LostWrites> {
        let mut of_partitions: BTreeMap<PartitionId, Vec<&LostCommit>> = BTreeMap::new();
        for commit in commits {
            let of_partition = of_partitions.entry(commit.partition).or_default();
            of_partition.push(commit);
        }
        let mut found = Vec::new();
        for (partition, commits) in of_partitions {
            let mut numbers: BTreeSet<ItemNumber> = BTreeSet::new();
            let mut ids = BTreeSet::new();
            // Rows of the catalog are no items.
            let commits_of_items = if partition == CATALOG_PARTITION {
                &[][..]
            } else {
                &commits[..]
            };
            for key in commits_of_items.iter().flat_map(|commit| &commit.keys) {
                numbers.extend(keys::read_item(key).map(|(_, number)| number));
                ids.extend(keys::read_primary(key));
            }
            found.push(LostWrites {
                place: match engine {
                    Some(engine) => engine.place_of(partition),
                    None if partition == CATALOG_PARTITION => CATALOG_PLACE.to_owned(),
                    None => format!("partition {partition} of the store"),
                },
                commits: commits.len() as u64,
                items: numbers.len() as u64,
                ids: ids.into_iter().collect(),
            });
        }
        found
    }
}

impl Engine {
    /// Returns the physical partitions of all containers by their numbers in the store: the ids of
    /// database and container, and the partition key range id.
    pub fn partitions_by_storage_id(&self) -> BTreeMap<PartitionId, (String, String, u32)> {
        let mut all = BTreeMap::new();
        for container in self.every_container() {
            let (database, id) = (container.database_id(), container.id());
            for partition in container.partitions().iter() {
                let name = (database.to_string(), id.to_string(), partition.id);
                all.insert(partition.storage_id, name);
            }
        }
        all
    }

    /// Returns the name of a partition of the store for a person.
    fn place_of(&self, storage_id: PartitionId) -> String {
        if storage_id == CATALOG_PARTITION {
            return CATALOG_PLACE.to_owned();
        }
        for container in self.every_container() {
            for partition in container.partitions().iter() {
                if partition.storage_id == storage_id {
                    return format!(
                        "/dbs/{}/colls/{}, partition key range {}",
                        container.database_id(),
                        container.id(),
                        partition.id
                    );
                }
            }
        }
        "a partition that no container uses now".to_owned()
    }
}
