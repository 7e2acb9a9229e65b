//! Indexes that follow a new policy, a step at a time, while reads and writes go on.
//!
//! A step takes the writer of one partition, compares what some items have in the index with what the newest policy
//! asks for, and writes the difference. Where it stands is part of the same commit (`index/generations.rs`), so a process
//! that ends in between goes on where it was, and queries use every path that all policies in force have in common.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::index::generations::{Policies, PolicyGenerations};
use crate::index::policy::Policy;
use crate::index::terms::Terms;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::Row;
use crate::partition::row_reader::read_row;
use crate::partition::{CommitChanges, Partition, scan, wait_durable};
use orrery_model::json::parse;
use orrery_model::{Error, Kind, Result};
use orrery_storage::Direction;

/// Index rows that one step changes at most, about; writes of clients go on between steps.
const ROWS_A_STEP: usize = 4_000;
/// Items that one step of [`Engine::finish_reindexing`] looks at.
pub const ITEMS_PER_STEP: usize = 1_000;

impl Engine {
    /// Brings one index one step nearer to its policy, a step of so many items at most; whether there is more to do.
    ///
    /// # Errors
    /// What the store reports; the step is done again next time.
    pub fn reindex_some(&self, items: usize) -> Result<bool> {
        for container in self.catalog().all_containers() {
            let policies = container.policies();
            if policies.older.is_empty() {
                continue;
            }
            for partition in container.partitions().iter() {
                match self.step(&container, partition, items.max(1)) {
                    Ok(true) => {}
                    Ok(false) => return Ok(true),
                    // Those that took its place have its index, and its work.
                    Err(error) if error.kind() == Kind::PartitionKeyRangeGone => return Ok(true),
                    Err(error) if error.kind() == Kind::CompletingSplit => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            self.catalog()
                .retire_policies(&container, policies.newest.0)?;
        }
        Ok(false)
    }

    /// Brings all indexes to their policies.
    ///
    /// # Errors
    /// What the store reports.
    pub fn finish_reindexing(&self) -> Result<()> {
        while self.reindex_some(ITEMS_PER_STEP)? {}
        Ok(())
    }

    /// How much of a container's index follows its policy, in percent.
    ///
    /// # Errors
    /// What the store reports.
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
        // It is whole only when the older policies are out of use.
        Ok((done * 100 / all.max(1)).min(99) as u8)
    }

    /// One step in one partition; whether nothing was left to do there.
    fn step(&self, container: &Container, partition: &Partition, items: usize) -> Result<bool> {
        self.store.wait_for_compaction();
        let mut writer = partition.lock()?;
        // Under the lock, so that no step works for an older policy than the one before it.
        let policies = container.policies();
        let newest = policies.newest.0;
        if writer.generations.are_all(newest) {
            return Ok(true);
        }
        let snapshot = partition.snapshot_with(writer.lsn)?;
        let mut generations = writer.generations.clone();
        let mut changes = CommitChanges {
            counters: writer.counters,
            ..CommitChanges::default()
        };
        let mut reached = None;
        let from = keys::naturals_from(generations.frontier(newest));
        for (looked_at, entry) in scan(snapshot.as_ref(), &from, Direction::Forward).enumerate() {
            let (number, epk_prefix) = read_natural(entry?)?;
            if looked_at == items || changes.puts.len() + changes.deletes.len() >= ROWS_A_STEP {
                reached = Some(number);
                break;
            }
            let Some((before, after)) = policies.pair(&generations, number) else {
                return Err(Error::internal("a policy in use is not known"));
            };
            let row = read_row(epk_prefix, number, |key| {
                snapshot.get(key).map_err(storage_failure)
            })?
            .ok_or_else(damaged)?;
            if !row.leave_out_of_index {
                let item = Item {
                    number,
                    epk_prefix,
                    row,
                };
                item.change(container, partition, before, after, &mut changes)?;
            }
        }
        match reached {
            Some(number) => generations.advance(newest, number),
            None => generations.settle(newest),
        }
        changes.generations = Some(generations);
        let ordered = writer.submit(partition, changes, self.world().random());
        drop(writer);
        wait_durable(partition, ordered).map(|()| reached.is_none())
    }
}

impl Policies {
    /// The policy that an item's entries follow, and the one that they shall.
    fn pair(
        &self,
        generations: &PolicyGenerations,
        number: ItemNumber,
    ) -> Option<(&Policy, &Policy)> {
        Some((self.get(generations.generation_of(number))?, &self.newest.1))
    }
}

struct Item {
    number: ItemNumber,
    epk_prefix: EpkPrefix,
    row: Row,
}

impl Item {
    /// The difference between what an item's index entries are and shall be.
    fn change(
        &self,
        container: &Container,
        partition: &Partition,
        before: &Policy,
        after: &Policy,
        changes: &mut CommitChanges,
    ) -> Result<()> {
        let json = parse(&self.row.body).map_err(|_| damaged())?;
        let item = json.as_object().ok_or_else(damaged)?;
        let key_is_id = container.settings().partition_key_is_id();
        let mut paths = partition.paths_mut()?;
        let mut terms =
            |policy: &Policy| Terms::of(item, self.row.ts, policy, key_is_id, &mut paths);
        let (before, after) = (terms(before), terms(after));
        changes.replace_terms(&before, &after, self.number, self.epk_prefix);
        Ok(())
    }
}

fn read_natural((key, value): (bytes::Bytes, bytes::Bytes)) -> Result<(ItemNumber, EpkPrefix)> {
    let number = keys::read_natural(&key).ok_or_else(damaged)?;
    Ok((number, value[..].try_into().map_err(|_| damaged())?))
}

fn damaged() -> Error {
    Error::internal("a row is damaged")
}
