//! Reindexing: indexes follow a new indexing policy step by step, while reads and writes go on.
//!
//! A step locks the writer of one partition, compares the index entries of some items with those
//! that the newest policy asks for, and writes the difference. The progress is part of the same
//! commit (`index/generations.rs`): a process that ends in between goes on where it was, and
//! queries use every path that all policies in force have in common.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::{damaged, storage_failure};
use crate::index::policy::Policy;
use crate::index::terms::Terms;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::Row;
use crate::partition::row_reader::read_row;
use crate::partition::{CommitChanges, Partition, scan, wait_durable};
use bytes::Bytes;
use orrery_model::json::parse;
use orrery_model::{Error, Kind, Result};
use orrery_storage::Direction;

/// The subject of the error for a damaged row.
const ROW: &str = "a row";

/// Index rows that one step changes, about; writes of clients go on between steps.
const ROWS_PER_STEP: usize = 4_000;
/// Items that one step of [`Engine::finish_reindexing`] visits.
pub const ITEMS_PER_STEP: usize = 1_000;

impl Engine {
    /// Runs one step of reindexing, which visits at most `items` items. Returns true if there is
    /// more to do.
    ///
    /// # Errors
    /// 500 and 503 as the store reports; the next call repeats the step.
    pub fn reindex_some(&self, items: usize) -> Result<bool> {
        for container in self.catalog().all_containers() {
            match self.reindex_some_of(&container, items) {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                Err(error) if error.kind() == Kind::CompletingSplit => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Runs one step of reindexing in one container. Returns true if there is more to do.
    ///
    /// # Errors
    /// 410/1007 while a partition is completing a split; 500 and 503 as the store reports.
    pub(super) fn reindex_some_of(&self, container: &Container, items: usize) -> Result<bool> {
        let policies = container.policies();
        if policies.older.is_empty() {
            return Ok(false);
        }
        for partition in container.partitions().iter() {
            match self.reindex_step(container, partition, items.max(1)) {
                Ok(Progress::Done) => {}
                Ok(Progress::More) => return Ok(true),
                // The successors took over the index as it was, and the work that is left.
                Err(error) if error.kind() == Kind::PartitionKeyRangeGone => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        self.catalog()
            .retire_policies(container, policies.newest.0)?;
        Ok(false)
    }

    /// Brings all indexes to their newest policies.
    ///
    /// # Errors
    /// 500 and 503 as the store reports.
    pub fn finish_reindexing(&self) -> Result<()> {
        while self.reindex_some(ITEMS_PER_STEP)? {}
        Ok(())
    }

    /// Returns the part of a container's index that follows the newest policy, in percent.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn index_progress(&self, container: &Container) -> Result<u8> {
        let policies = container.policies();
        if policies.older.is_empty() {
            return Ok(100);
        }
        let (mut done, mut all) = (0u64, 0u64);
        for partition in container.partitions().iter() {
            let snapshot = partition.snapshot()?;
            let numbers = Partition::counters(snapshot.as_ref())?.next_number.max(1);
            let frontier = Partition::generations(snapshot.as_ref())?.frontier(policies.newest.0);
            done += frontier.min(numbers);
            all += numbers;
        }
        // 100 is shown only once the older policies are out of use.
        Ok((done * 100 / all.max(1)).min(99) as u8)
    }

    /// Runs one step in one partition.
    fn reindex_step(
        &self,
        container: &Container,
        partition: &Partition,
        items: usize,
    ) -> Result<Progress> {
        self.store.wait_for_compaction();
        let mut writer = partition.lock()?;
        // Read under the lock, so that no step works for an older policy than the step before.
        let policies = container.policies();
        let newest = policies.newest.0;
        if writer.generations.are_all(newest) {
            return Ok(Progress::Done);
        }
        let snapshot = partition.snapshot_with(writer.lsn)?;
        let snapshot = snapshot.as_ref();
        let mut generations = writer.generations.clone();
        let mut changes = CommitChanges {
            counters: writer.counters,
            ..CommitChanges::default()
        };

        // Items are visited by number from the frontier on: below it, all follow the newest policy.
        let mut next = None;
        let from = keys::naturals_from(generations.frontier(newest));
        for (visited, entry) in scan(snapshot, &from, Direction::Forward).enumerate() {
            let (number, epk_prefix) = read_natural(entry?)?;
            if visited == items || changes.puts.len() + changes.deletes.len() >= ROWS_PER_STEP {
                next = Some(number);
                break;
            }
            let before = policies.get(generations.generation_of(number));
            let before = before.ok_or_else(|| Error::internal("a policy in use is not known"))?;
            let row = read_row(epk_prefix, number, |key| {
                snapshot.get(key).map_err(storage_failure)
            })?;
            let row = row.ok_or_else(|| damaged(ROW))?;
            let (before, after) = terms_of(container, partition, &row, before, &policies.newest.1)?;
            changes.replace_terms(&before, &after, number, epk_prefix);
        }

        // The progress goes into the same commit as the entries.
        match next {
            Some(number) => generations.advance_frontier(newest, number),
            None => generations.set_all(newest),
        }
        changes.generations = Some(generations);
        let commit = writer.submit(partition, changes, self.world().random());
        drop(writer);
        wait_durable(partition, commit)?;
        Ok(match next {
            Some(_) => Progress::More,
            None => Progress::Done,
        })
    }
}

/// The state of a partition's index after a step.
enum Progress {
    /// The index follows the newest policy.
    Done,
    /// Items are left that follow an older policy.
    More,
}

/// Returns the terms of an item under two policies.
fn terms_of(
    container: &Container,
    partition: &Partition,
    row: &Row,
    before: &Policy,
    after: &Policy,
) -> Result<(Terms, Terms)> {
    let json = parse(&row.body).map_err(|_| damaged(ROW))?;
    let item = json.as_object().ok_or_else(|| damaged(ROW))?;
    let key_is_id = container.settings().partition_key_is_id();
    let mut paths = partition.paths_mut()?;
    let mut terms = |policy: &Policy| match policy.indexes(row.indexing) {
        true => Terms::of(item, row.ts, policy, key_is_id, &mut paths),
        false => Terms::default(),
    };
    Ok((terms(before), terms(after)))
}

fn read_natural((key, value): (Bytes, Bytes)) -> Result<(ItemNumber, EpkPrefix)> {
    let number = keys::read_natural(&key).ok_or_else(|| damaged(ROW))?;
    Ok((number, value[..].try_into().map_err(|_| damaged(ROW))?))
}
