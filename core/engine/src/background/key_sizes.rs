//! The count of the logical partitions of a physical partition that is larger than half of the
//! limit on one, see `partition/key_sizes.rs`.
//!
//! ```text
//! first snapshot ── read every item: which ones are large? ── second snapshot ── read the large
//! ones again ── one commit with their sizes
//! ```
//!
//! Writes go on meanwhile: the writer adds up what has changed since each snapshot. A count that is
//! cut short leaves nothing behind.

use super::{BackgroundTask, wait_durable};
use crate::Engine;
use crate::catalog::Container;
use crate::container::view::ContainerView;
use crate::partition::key_sizes::{bytes_of, find_large};
use crate::partition::{Partition, wait_while_moved};
use orrery_model::Result;

/// Milliseconds after which a count that was cut short is begun again.
const RETRY_MS: u64 = 1_000;

impl Engine {
    /// Counts the physical partitions of a container that need a count.
    ///
    /// # Errors
    /// 500 and 503 as the store reports; the next call begins again.
    pub(super) fn visit_for_key_sizes(&self, container: &Container) -> Result<()> {
        for partition in container.partitions().iter().filter(|p| p.is_owned()) {
            let counted = self.count_keys_of(container, partition);
            if wait_while_moved(counted)? != Some(true) {
                let at_ms = self.world().now_ms() + RETRY_MS;
                container.enter_work(BackgroundTask::KeySizes, at_ms);
            }
        }
        Ok(())
    }

    /// Counts one physical partition if it asked for a count. Returns false if the count has to
    /// begin again.
    fn count_keys_of(&self, container: &Container, partition: &Partition) -> Result<bool> {
        let bytes_max = container.key_limit().bytes_max();
        self.store.wait_for_compaction();
        let Some(snapshot) = partition.begin_key_count()? else {
            return Ok(true);
        };
        let (candidates, base) = find_large(snapshot.as_ref(), bytes_max)?;
        drop(snapshot);

        let Some(followed) = partition.follow_keys(candidates)? else {
            return Ok(false);
        };
        let mut sizes = Vec::with_capacity(followed.unknown.len());
        for epk in followed.unknown {
            let bytes = bytes_of(followed.snapshot.as_ref(), &epk)?;
            sizes.push((epk, bytes));
        }
        drop(followed.snapshot);

        let random = self.world().random();
        let commit = partition.end_key_count(sizes, base, random)?;
        wait_durable(partition, commit)?;
        Ok(true)
    }
}
