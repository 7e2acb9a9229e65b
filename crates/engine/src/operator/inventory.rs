//! What there is, counted: for the operator, not for clients. Nothing here is priced.

use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::partition::keys::{self, Kept};
use crate::partition::row_reader::complete_row;
use crate::partition::{Counters, Partition, retry_if_moved};
use crate::request::{PageRequest, PartitionThroughput, QueryRequest};
use crate::{Engine, Feed};
use orrery_model::metrics::HistogramSnapshot;
use orrery_model::partition_key::EpkRange;
use orrery_model::{Error, Result};
use orrery_storage::{Direction, Snapshot};
use std::ops::Bound;
use std::sync::Arc;

/// What a physical partition holds durably.
#[derive(Clone, Debug)]
pub struct PartitionInventory {
    /// The partition key range id that clients see.
    pub id: u32,
    /// The ids of the ranges it came from.
    pub parents: Vec<u32>,
    /// Its stretch of the hash space.
    pub range: EpkRange,
    /// Its last LSN.
    pub lsn: u64,
    /// Items.
    pub items: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// Bytes of the rows of its index entries, keys and values.
    pub index_bytes: u64,
    /// What it may spend, and what it served.
    pub throughput: PartitionThroughput,
}

impl Engine {
    /// Every container there is, by the names of its database and its own.
    pub fn every_container(&self) -> Vec<Arc<Container>> {
        let mut all = self.catalog().all_containers();
        all.sort_by(|a, b| (a.database_id(), a.id()).cmp(&(b.database_id(), b.id())));
        all
    }

    /// How many databases there are.
    pub fn database_count(&self) -> usize {
        self.catalog().databases().len()
    }

    /// The physical partitions of a container, in order of their ranges.
    ///
    /// # Errors
    /// What the store reports.
    pub fn partition_inventory(&self, container: &Container) -> Result<Vec<PartitionInventory>> {
        self.inventory(container, Partition::counters)
    }

    /// The same with figures that are counted row by row, for whoever doubts the counters. It reads everything.
    ///
    /// # Errors
    /// What the store reports.
    pub fn partition_recount(&self, container: &Container) -> Result<Vec<PartitionInventory>> {
        self.inventory(container, recounted)
    }

    fn inventory(
        &self,
        container: &Container,
        counters: fn(&dyn Snapshot) -> Result<Counters>,
    ) -> Result<Vec<PartitionInventory>> {
        let now = self.world().now_ms();
        let one = |partition: &Arc<Partition>| -> Result<_> {
            let snapshot = partition.snapshot_while_completing()?;
            let counters = counters(snapshot.as_ref())?;
            Ok(PartitionInventory {
                id: partition.id,
                parents: partition.parents.clone(),
                range: partition.range.clone(),
                lsn: snapshot.head().lsn,
                items: counters.items,
                bytes: counters.bytes,
                index_bytes: counters.index_bytes,
                throughput: partition.throughput(now),
            })
        };
        retry_if_moved(|| container.partitions().iter().map(one).collect())
    }

    /// Bytes that the store takes on its disk, or in memory. Best effort.
    pub fn store_bytes(&self) -> u64 {
        self.store.approximate_bytes()
    }

    /// How long syncs of the store's log took, in seconds, if it has one.
    pub fn sync_seconds(&self) -> Option<HistogramSnapshot> {
        self.store.sync_seconds()
    }

    /// Whether requests would succeed now: the store takes part, and a query is answered.
    ///
    /// # Errors
    /// Why they would not.
    pub fn probe(&self) -> Result<()> {
        self.store.sync().map_err(storage_failure)?;
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

/// What the counters of a partition should say.
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
            Some(Kept::Term(..)) => counters.index_bytes += (key.len() + value.len()) as u64,
            _ => {}
        }
    }
    Ok(counters)
}
