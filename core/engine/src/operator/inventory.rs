//! Inventory: containers, partitions and their contents, for the operator. Nothing here is charged.

use super::large_keys::{LogicalPartitionSize, largest_keys};
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::partition::keys::{self, CATALOG_PARTITION, Kept};
use crate::partition::row_reader::complete_row;
use crate::partition::{Counters, Partition, retry_if_moved};
use crate::request::{PageRequest, PartitionThroughput, QueryRequest};
use crate::{Engine, Feed};
use orrery_model::metrics::HistogramSnapshot;
use orrery_model::partition_key::EpkRange;
use orrery_model::{Error, Kind, Result};
use orrery_storage::{Direction, Snapshot};
use std::ops::Bound;
use std::sync::Arc;

/// The durable contents of a physical partition.
#[derive(Clone, Debug)]
pub struct PartitionInventory {
    /// The partition key range id that clients see.
    pub id: u32,
    /// The ids of the ranges that the partition came from.
    pub parents: Vec<u32>,
    /// The EPK range.
    pub range: EpkRange,
    /// The last LSN.
    pub lsn: u64,
    /// Number of items.
    pub items: u64,
    /// Bytes of the texts of the items.
    pub bytes: u64,
    /// Bytes of the index rows, keys and values.
    pub index_bytes: u64,
    /// The largest logical partitions, the largest first, if the partition is larger than half of
    /// the limit on one.
    pub largest_keys: Vec<LogicalPartitionSize>,
    /// The budget, and the account of what was served.
    pub throughput: PartitionThroughput,
}

impl Engine {
    /// Returns every container, ordered by the names of database and container.
    pub fn every_container(&self) -> Vec<Arc<Container>> {
        let mut all = self.catalog().all_containers();
        all.sort_by(|a, b| (a.database_id(), a.id()).cmp(&(b.database_id(), b.id())));
        all
    }

    /// Returns the number of databases.
    pub fn database_count(&self) -> usize {
        self.catalog().database_count()
    }

    /// Returns the physical partitions of a container that this process may read, in order of their
    /// ranges.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn partition_inventory(&self, container: &Container) -> Result<Vec<PartitionInventory>> {
        self.inventory(container, Partition::counters)
    }

    /// Returns the physical partitions with figures that are counted row by row, to check the
    /// counters. Reads every row.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn partition_recount(&self, container: &Container) -> Result<Vec<PartitionInventory>> {
        self.inventory(container, recounted)
    }

    /// Returns what each physical partition of a container keeps in memory beside its rows, as
    /// text. It follows from the durable rows alone: an engine that was just opened on the same
    /// store has the same, whatever was refused here. Opens the writers.
    ///
    /// # Errors
    /// 500 and 503 if the store cannot be opened or read.
    pub fn partition_memory(&self, container: &Container) -> Result<Vec<String>> {
        let partitions = container.partitions();
        partitions.iter().map(|one| one.state_in_memory()).collect()
    }

    fn inventory(
        &self,
        container: &Container,
        counters: fn(&dyn Snapshot) -> Result<Counters>,
    ) -> Result<Vec<PartitionInventory>> {
        let now = self.world().now_ms();
        let one = |partition: &Arc<Partition>| -> Result<_> {
            let snapshot = partition.snapshot_while_completing()?;
            let counters = match counters(snapshot.as_ref()) {
                // The operator needs the other partitions most when one cannot be read.
                Err(error) if error.kind() == Kind::DataDamaged => Counters::default(),
                counted => counted?,
            };
            let largest_keys = largest_keys(container, snapshot.as_ref(), counters.bytes);
            let largest_keys = match largest_keys {
                Err(error) if error.kind() == Kind::DataDamaged => Vec::new(),
                found => found?,
            };
            Ok(PartitionInventory {
                id: partition.id,
                parents: partition.parents.clone(),
                range: partition.range.clone(),
                lsn: snapshot.head().lsn,
                items: counters.items,
                bytes: counters.bytes,
                index_bytes: counters.index_bytes,
                largest_keys,
                throughput: partition.throughput(now),
            })
        };
        // An owner of single partitions reads its own.
        retry_if_moved(|| {
            let partitions = container.partitions();
            let readable = partitions.iter().filter(|one| one.is_readable());
            readable.map(one).collect()
        })
    }

    /// Returns the bytes that the store takes on disk or in memory, approximately.
    pub fn store_bytes(&self) -> u64 {
        self.store.approximate_bytes()
    }

    /// Returns the durations of the syncs of the store's log in seconds, if the store has a log.
    pub fn sync_seconds(&self) -> Option<HistogramSnapshot> {
        self.store.sync_seconds()
    }

    /// Checks that requests would succeed now: the catalog is durable, and a query is answered. A
    /// part of the store that has no catalog may be away: the others are served meanwhile.
    ///
    /// # Errors
    /// The reason why requests would fail.
    pub fn probe(&self) -> Result<()> {
        let synced = self.store.sync_partition(CATALOG_PARTITION);
        synced.map_err(storage_failure)?;
        self.catalog().probe()?;
        let query = QueryRequest {
            cross_partition: true,
            ..QueryRequest::of(
                "SELECT VALUE COUNT(1) FROM c",
                Vec::new(),
                PageRequest::default(),
            )
        };
        let rows = self
            .query_feed(Feed::Databases, &query)
            .result?
            .page
            .rows
            .len();
        if rows == 1 {
            Ok(())
        } else {
            Err(Error::internal(format!("a query for one row gave {rows}")))
        }
    }
}

/// Counts the rows of a partition.
fn recounted(snapshot: &dyn Snapshot) -> Result<Counters> {
    let mut counters = Partition::counters(snapshot)?;
    (counters.items, counters.bytes, counters.index_bytes) = (0, 0, 0);
    for row in snapshot.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
        let (key, value) = row.map_err(storage_failure)?;
        match keys::kept(&key) {
            Some(Kept::Item(_, number)) => {
                let row = complete_row(value, number, |key| {
                    snapshot.get(key).map_err(storage_failure)
                })?;
                counters.items += 1;
                counters.bytes += row.size() as u64;
            }
            Some(Kept::IndexEntry(..)) => counters.index_bytes += (key.len() + value.len()) as u64,
            _ => {}
        }
    }
    Ok(counters)
}
