//! The beginning and the end of kept versions: marks the LSN from which a partition keeps them, removes old ones.

use crate::Engine;
use crate::catalog::Container;
use crate::partition::keys;
use crate::partition::versions::{crts_of, damaged, floor};
use crate::partition::{CommitChanges, Partition, scan, skip_if_moved, wait_durable};
use orrery_model::Result;
use orrery_storage::Direction;

/// Rows of versions that one commit removes.
const ROWS_A_COMMIT: usize = 1_000;

impl Engine {
    /// Says in each partition of a container that asks for versions that they are kept from now on, if it does not say
    /// so yet. Commits would do so too, but until the first of them a reader could not tell what it misses.
    ///
    /// # Errors
    /// What the store reports; it is tried again by [`Engine::remove_old_versions`].
    pub(crate) fn begin_versions(&self, container: &Container) -> Result<()> {
        container
            .partitions()
            .iter()
            .try_for_each(|partition| skip_if_moved(self.begin_versions_of(container, partition)))
    }

    fn begin_versions_of(&self, container: &Container, partition: &Partition) -> Result<()> {
        let keeps = || container.settings().retention_seconds.is_some();
        if !keeps() || Partition::versions_after(partition.snapshot()?.as_ref())?.is_some() {
            return Ok(());
        }
        let mut writer = partition.lock()?;
        if !keeps() || writer.versions_after.is_some() {
            return Ok(());
        }
        let versions_after = Some(Some(writer.lsn));
        let changes = CommitChanges {
            counters: writer.counters,
            versions_after,
            ..CommitChanges::default()
        };
        let ordered = writer.submit(partition, changes, self.world().random());
        drop(writer);
        wait_durable(partition, ordered)
    }

    /// Removes versions that are older than their container keeps them, some from each partition; how many rows.
    ///
    /// # Errors
    /// What the store reports; the rest is tried again next time.
    pub fn remove_old_versions(&self) -> Result<usize> {
        let mut removed = 0;
        for container in self.catalog().all_containers() {
            for partition in container.partitions().iter() {
                skip_if_moved(self.begin_versions_of(&container, partition))?;
                removed += skip_if_moved(self.remove_old_versions_of(&container, partition))?;
            }
        }
        Ok(removed)
    }

    fn remove_old_versions_of(
        &self,
        container: &Container,
        partition: &Partition,
    ) -> Result<usize> {
        let retention = container.settings().retention_seconds;
        let oldest = retention.map(|seconds| self.world().now_seconds().saturating_sub(seconds));
        let is_old = |crts: u64| oldest.is_none_or(|oldest| crts < oldest);
        let snapshot = partition.snapshot()?;
        let floor = floor(snapshot.as_ref())?;
        let (mut obsolete_keys, mut last) = (Vec::new(), 0);
        for entry in scan(
            snapshot.as_ref(),
            &keys::versions_after(0),
            Direction::Forward,
        ) {
            let (key, value) = entry?;
            let ((lsn, ..), chunk) = keys::read_version(&key).ok_or_else(damaged)?;
            if lsn != last && obsolete_keys.len() >= ROWS_A_COMMIT {
                break;
            }
            // The changes of one commit have one second, which the first chunk of each says.
            let goes = lsn <= floor || lsn == last || chunk == 0 && is_old(crts_of(&value)?);
            if !goes {
                break;
            }
            last = lsn;
            obsolete_keys.push(key.to_vec());
        }
        if obsolete_keys.is_empty() {
            return Ok(0);
        }
        drop(snapshot);
        let removed = obsolete_keys.len();
        let mut writer = partition.lock()?;
        let mut changes = CommitChanges {
            deletes: obsolete_keys,
            counters: writer.counters,
            ..CommitChanges::default()
        };
        changes.versions_after = writer.versions_after.map(|after| Some(after.max(last)));
        let ordered = writer.submit(partition, changes, self.world().random());
        drop(writer);
        wait_durable(partition, ordered).map(|()| removed)
    }
}
