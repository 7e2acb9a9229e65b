//! Verification: every row of every physical partition is read and compared with what must be
//! there.
//!
//! ```text
//! items -> rows that follow from them -> sums by item \ differ: the rows of these items
//! rows  -------------------------------> sums by item /  again, one by one -> findings
//! ```
//!
//! Most rows of a partition follow from its items: primary keys, natural order, change feed, index
//! entries, unique keys, times to live. One pass in the order of the keys adds up the digests of
//! the rows that follow from the items, and those of the rows that are there (`fingerprints.rs`).
//! A second pass names the rows of sums that differ. So a partition without a difference is read
//! once, and memory grows by 8 bytes with each quantised vector and with nothing else. Rows that
//! follow from no single item have checks of their own: `own_rows.rs`, `versions.rs`, `vectors.rs`.
//!
//! Promises: nothing is changed. Each partition is compared as of one moment, so writes may go on.
//! A difference in a row is found whatever the row is, and named with its partition, its key and,
//! where there is one, its item; a row that cannot be read ends the comparison of its partition and
//! is itself a finding. [`Engine::rebuild_partition`] writes what can be derived anew.
//!
//! Left out: the blocks of the store, which the store checks itself (`operator/damage.rs`); rows
//! of logs that a later commit replaces; the lists of a graph are checked to be those of
//! vectors, and not to be good ones.

mod catalog;
mod findings;
mod fingerprints;
mod item_rows;
mod own_rows;
mod partition;
mod rebuild;
mod vectors;
mod versions;

pub use findings::{Check, Finding, FindingPlace, Verification, VerifyProgress};

use crate::Engine;
use crate::catalog::Container;
use crate::partition::{Partition, wait_while_moved};
use crate::request::Id;
use findings::{Findings, Watch};
use orrery_model::Result;
use orrery_storage::PartitionId;
use std::sync::Arc;

impl Engine {
    /// Reads every row, of one container or of all of them, and returns what is not as it must be.
    ///
    /// `watch` hears of the progress after about each megabyte, may wait, and returns false to end
    /// the verification. Nothing is charged.
    ///
    /// # Errors
    /// 500 and 503 if the store cannot be read at all. A row that cannot be read is a finding.
    pub fn verify(
        &self,
        container: Option<&Container>,
        watch: &mut dyn FnMut(&VerifyProgress) -> bool,
    ) -> Result<Verification> {
        let mut watch = Watch::new(watch);
        let mut findings = Findings::default();
        let containers = match container {
            Some(container) => vec![self.catalog().container(
                Id::Rid(container.database().rid()),
                Id::Rid(container.rid()),
            )?],
            None => self.every_container(),
        };

        // The partitions of each container; one that is split meanwhile is left to its successors.
        for (at, container) in containers.iter().enumerate() {
            catalog::check_ranges(container, &mut findings);
            let later: usize = containers[at + 1..]
                .iter()
                .map(|one| one.partitions().len())
                .sum();
            let mut visited = Vec::new();
            while let Some((partition, left)) = next_of(container, &visited) {
                visited.push(partition.storage_id);
                watch.begin_partition(FindingPlace::of(container, &partition), left + later);
                let checked = partition::check(container, &partition, &mut findings, &mut watch);
                // A container that is deleted meanwhile has nothing to compare any more.
                if let Err(error) = wait_while_moved(checked)
                    && self.catalog().container_of(container.rid()).is_some()
                {
                    let place = FindingPlace::of(container, &partition);
                    findings.add_failure(place, &error);
                }
                if watch.is_ended() {
                    return Ok(watch.end(findings));
                }
                watch.progress.partitions_done += 1;
            }
        }
        if container.is_none()
            && let Err(error) = self.check_key_spaces(&mut findings, &mut watch)
        {
            findings.add_failure(FindingPlace::Store, &error);
        }
        self.add_damaged_blocks(container, &mut findings);
        Ok(watch.end(findings))
    }
}

/// Returns the next partition of a container that was not visited and may be read here, and the
/// number of partitions that are left with it. A partition that is split or merged makes way for
/// its successors.
fn next_of(container: &Container, visited: &[PartitionId]) -> Option<(Arc<Partition>, usize)> {
    let partitions = container.partitions();
    let is_left = |one: &&Arc<Partition>| one.is_readable() && !visited.contains(&one.storage_id);
    let mut left = partitions.iter().filter(is_left);
    let next = Arc::clone(left.next()?);
    Some((next, 1 + left.count()))
}
