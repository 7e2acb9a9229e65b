//! The rebuild of a physical partition: everything that follows from its items is written anew.
//!
//! The items, their versions and the deletions of logical partitions are copied to a new key space
//! of the store, with their LSNs; the rows that follow from them are made as a write makes them, by
//! the newest indexing policy. One commit of the catalog then puts the new key space in the place
//! of the old one, as the end of a split does, and the partition gets a new partition key range id.
//! Quantised vectors are made by the background task again, and sizes of logical partitions are
//! counted again.
//!
//! Promises: no row of an item is lost or changed; if one cannot be read, nothing happens. Clients
//! wait while a partition is rebuilt, so this is for a server that has none.

use super::item_rows::ItemRules;
use crate::Engine;
use crate::catalog::{Container, Successors};
use crate::container::view::ContainerView;
use crate::errors::{damaged, storage_failure};
use crate::index::generations::PolicyGenerations;
use crate::index::paths::Paths;
use crate::partition::keys::{self, PathNumber};
use crate::partition::row_reader::complete_row;
use crate::partition::staging::StagingWriter;
use crate::partition::{CommitChanges, Counters, Partition, scan, summary_rows};
use orrery_model::{Error, Kind, Result};
use orrery_storage::{Direction, PartitionId, Snapshot};
use std::sync::Arc;

/// Bytes of rows that wait for the store before more are read.
const ROUND_BYTES: u64 = 4 << 20;

impl Engine {
    /// Writes everything that follows from the items of a partition anew. Returns the number of
    /// items, and the new partition key range id.
    ///
    /// # Errors
    /// 404 if the container is gone, 410 if the partition is; 500 if an item, a version or a
    /// deletion of a logical partition cannot be read. Nothing has changed then.
    pub fn rebuild_partition(&self, container: &Container, range_id: u32) -> Result<(u64, u32)> {
        let source = container.partition_by_id(range_id)?;
        let storage_ids = self.catalog().new_storage_ids(1)?;
        let mut items = 0;
        let replaced = self.catalog().replace_blocked(container, &source, || {
            let target = self.rebuilt(container, &source, storage_ids[0])?;
            items = target.counters.items;
            Ok(Successors {
                partitions: vec![(storage_ids[0], source.range.clone())],
                mixed_until: source.mixed_until,
            })
        });
        let new_ids = replaced.inspect_err(|error| {
            // After a commit that may have taken place the container may use the new key space: the
            // next start destroys it if nothing does.
            if error.kind() != Kind::UnknownOutcome {
                self.catalog().release_storage_ids(storage_ids);
            }
        })?;
        match new_ids.first() {
            Some(id) => Ok((items, *id)),
            None => Err(Error::internal("a rebuilt partition has no range")),
        }
    }

    /// Writes the rows of a partition to a new key space.
    fn rebuilt(
        &self,
        container: &Container,
        source: &Arc<Partition>,
        storage_id: PartitionId,
    ) -> Result<Target> {
        source.sync()?;
        let snapshot = source.snapshot_in_any_phase()?;
        let snapshot = snapshot.as_ref();
        let policies = container.policies();
        let mut generations = PolicyGenerations::default();
        generations.set_all(policies.newest.0);
        let settings = container.settings();
        let mut target = Target {
            writer: StagingWriter::open(&self.store, &self.world, storage_id)?,
            paths: Paths::default(),
            counters: Counters::default(),
            entries: Vec::new(),
            unawaited_bytes: 0,
        };
        // The dictionary grows with the items, so that paths which no item has any more go.
        for row in scan(snapshot, &keys::items(), Direction::Forward) {
            let (key, value) = row?;
            let (_, number) = keys::read_item(&key).ok_or_else(|| damaged("an item row"))?;
            let row = complete_row(value, number, |key| {
                snapshot.get(key).map_err(storage_failure)
            })?;
            let rules = ItemRules {
                settings: &settings,
                policies: &policies,
                generations: &generations,
                paths: &target.paths,
            };
            let changes = rules.rows_of(number, row)?.changes;
            target.add_item(changes)?;
        }
        for range in keys::kept_by_rebuild() {
            for row in scan(snapshot, &range, Direction::Forward) {
                let (key, value) = row?;
                target.put(key.to_vec(), value.to_vec())?;
            }
        }
        target.counters.next_number = container.item_number_bound()?;
        target.finish(snapshot, &generations)?;
        Ok(target)
    }
}

/// The new key space.
struct Target {
    writer: StagingWriter,
    paths: Paths,
    counters: Counters,
    /// Index entries by path.
    entries: Vec<u64>,
    unawaited_bytes: u64,
}

impl Target {
    fn add_item(&mut self, changes: CommitChanges) -> Result<()> {
        for (number, row) in changes.new_paths.rows {
            let loaded = self.paths.load(number, &row);
            loaded.ok_or_else(|| damaged("a path of an item"))?;
            self.put(keys::path(number), row)?;
        }
        for (key, value) in changes.puts {
            self.put(key, value)?;
        }
        for (path, count) in changes.entries {
            self.count_entries(path, count);
        }
        self.counters.items += changes.counters.items;
        self.counters.bytes += changes.counters.bytes;
        self.counters.index_bytes += changes.counters.index_bytes;
        Ok(())
    }

    fn count_entries(&mut self, path: PathNumber, count: i64) {
        let at = path as usize;
        if self.entries.len() <= at {
            self.entries.resize(at + 1, 0);
        }
        self.entries[at] = self.entries[at].saturating_add_signed(count);
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        self.unawaited_bytes += (key.len() + value.len()) as u64;
        self.writer.put(key, value);
        if self.unawaited_bytes >= ROUND_BYTES {
            self.unawaited_bytes = 0;
            self.writer.flush();
            self.writer.wait_durable()?;
        }
        Ok(())
    }

    /// Writes the rows for the partition as a whole, with an LSN above all of the source.
    fn finish(&mut self, source: &dyn Snapshot, generations: &PolicyGenerations) -> Result<()> {
        for (key, value) in summary_rows(self.counters, &self.entries) {
            self.writer.put(key, value);
        }
        self.writer
            .put(keys::policy_generations(), generations.encode());
        self.writer.submit(source.head().lsn);
        self.writer.wait_durable()
    }
}
