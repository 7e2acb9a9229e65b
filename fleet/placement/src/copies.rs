//! The partitions of several clusters as the standbys of the first cluster have them.
//!
//! The home of a partition may change, and the catalog of the engine and the partitions must be of
//! one moment. One transaction on one standby shows the ledger, the catalog and the partitions that
//! live in the first cluster. Partitions of the other clusters are left to the writer: two clusters
//! have no moment in common.

use orrery_model::sync::lock;
use orrery_storage::{Copies, Head, PartitionId, Snapshot, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::ledger::partition_rows;
use crate::row::{Row, Step};
use crate::store::LEDGER;

/// Attempts to read partitions while they are moved.
const ATTEMPTS: usize = 3;

/// The standbys of the first cluster.
pub struct StandbyCopies {
    first: Arc<dyn Store>,
    cluster: String,
    known: Mutex<Known>,
}

/// The ledger as a standby has shown it.
#[derive(Default)]
struct Known {
    head: Head,
    rows: BTreeMap<PartitionId, Row>,
}

impl StandbyCopies {
    /// Creates the copies of the first cluster, which has this name.
    pub fn new(first: Arc<dyn Store>, cluster: &str) -> StandbyCopies {
        StandbyCopies {
            first,
            cluster: cluster.to_owned(),
            known: Mutex::default(),
        }
    }

    /// Returns the state of the ledger for which the numbers hold, and the numbers that partitions
    /// have in the first cluster; `None` if one of them lives in another cluster.
    fn numbers(&self, partitions: &[PartitionId]) -> (Head, Option<Vec<PartitionId>>) {
        let known = lock(&self.known);
        let number = |id: &PartitionId| match known.rows.get(id) {
            // Data from the time before the ledger, and a partition that this state does not have.
            None => Some(*id),
            Some(row) if row.step == Step::Destroying => None,
            Some(row) => (row.home.cluster == self.cluster).then_some(row.home.number),
        };
        (known.head, partitions.iter().map(number).collect())
    }
}

impl Copies for StandbyCopies {
    fn snapshots(
        &self,
        partitions: &[PartitionId],
    ) -> Result<Option<Vec<Box<dyn Snapshot>>>, StoreError> {
        for _ in 0..ATTEMPTS {
            let (head, numbers) = self.numbers(partitions);
            let mut wanted = vec![(LEDGER, 0)];
            for number in numbers.iter().flatten() {
                wanted.push((*number, 0));
            }
            let Some(mut found) = self.first.follower_snapshots(&wanted)? else {
                return Ok(None);
            };
            let ledger = found.remove(0);
            if ledger.head() == head {
                return Ok(numbers.map(|_| found));
            }
            // Another standby may be further behind than the one that was read before.
            if ledger.head().lsn < head.lsn {
                return Ok(None);
            }
            let rows = partition_rows(ledger.as_ref(), &self.cluster)?;
            *lock(&self.known) = Known {
                head: ledger.head(),
                rows,
            };
        }
        Ok(None)
    }
}
