//! Reindexing: indexes follow a new indexing policy step by step, while reads and writes go on.
//!
//! A step locks the writer of one partition, compares the index entries of some items with those
//! that the newest policy asks for, and writes the difference. The progress is part of the same
//! commit (`index/generations.rs`): a process that ends in between goes on where it was, and
//! queries use every path that all policies in force have in common.
//!
//! Many new paths go into commits of their own before the step: a path without entries does no
//! harm. The limit on the paths of a partition does not hold here, since a policy that is in force
//! has to be followed.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::{damaged, storage_failure};
use crate::index::generations::{Policies, PolicyGenerations};
use crate::index::new_paths::{NewPaths, PathNumbers};
use crate::index::policy::Policy;
use crate::index::terms::Terms;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::Row;
use crate::partition::row_reader::read_row;
use crate::partition::{
    CommitChanges, Partition, SubmittedCommit, WriterGuard, scan, wait_durable,
};
use bytes::Bytes;
use orrery_model::json::parse;
use orrery_model::{Error, Kind, Result};
use orrery_storage::{Direction, Snapshot};

/// The subject of the error for a damaged row.
const ROW: &str = "a row";

/// Index rows that one step changes, about; writes of clients go on between steps.
const ROWS_PER_STEP: usize = 4_000;
/// Bytes of a value that count as one more index row of a step.
const BYTES_PER_ROW: usize = 64;
/// Bytes of an item that cost as much to analyse as an index row of a step.
const BYTES_PER_READ_ROW: usize = 4 << 10;
/// Bytes of new paths that one commit brings, about.
const PATH_BYTES_PER_COMMIT: usize = 2 << 20;
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
        let mut step = Step::default();
        if follows_without_changes(partition, snapshot, &policies, &generations)? {
            generations.set_all(newest);
            for commit in self.submit_step(partition, &mut writer, step, generations)? {
                wait_durable(partition, commit)?;
            }
            return Ok(Progress::Done);
        }

        // Items are visited by number from the frontier on: below it, all follow the newest policy.
        let mut next = None;
        let from = keys::naturals_from(generations.frontier(newest));
        for (visited, entry) in scan(snapshot, &from, Direction::Forward).enumerate() {
            let (number, epk_prefix) = read_natural(entry?)?;
            if visited == items || step.rows + step.new_paths.rows() >= ROWS_PER_STEP {
                next = Some(number);
                break;
            }
            let before = policies.get(generations.generation_of(number));
            let before = before.ok_or_else(|| Error::internal("a policy in use is not known"))?;
            let row = read_row(epk_prefix, number, |key| {
                snapshot.get(key).map_err(storage_failure)
            })?;
            let row = row.ok_or_else(|| damaged(ROW))?;
            let mut paths = PathNumbers {
                known: &*partition.paths_for_write()?,
                new: &mut step.new_paths,
            };
            let terms = terms_of(container, &row, before, &policies.newest.1, &mut paths)?;
            step.rows += row.body.len() / BYTES_PER_READ_ROW;
            step.add(number, epk_prefix, terms);
        }

        // The progress goes into the same commit as the entries.
        match next {
            Some(number) => generations.advance_frontier(newest, number),
            None => generations.set_all(newest),
        }
        let commits = self.submit_step(partition, &mut writer, step, generations)?;
        drop(writer);
        for commit in commits {
            wait_durable(partition, commit)?;
        }
        Ok(match next {
            Some(_) => Progress::More,
            None => Progress::Done,
        })
    }

    /// Submits a step: its many new paths first, and then the entries with the progress. Returns
    /// the commits in their order; one that is refused is the last.
    fn submit_step(
        &self,
        partition: &Partition,
        writer: &mut WriterGuard<'_>,
        step: Step,
        generations: PolicyGenerations,
    ) -> Result<Vec<SubmittedCommit>> {
        let mut assigned = step.new_paths.assign(&*partition.paths_for_write()?);
        let mut commits = Vec::new();
        while let Some(new_paths) = assigned.split_off(ROWS_PER_STEP, PATH_BYTES_PER_COMMIT) {
            let changes = CommitChanges {
                counters: writer.counters,
                new_paths,
                ..CommitChanges::default()
            };
            let commit = writer.submit(partition, changes, self.world().random());
            let is_accepted = commit.is_accepted();
            commits.push(commit);
            if !is_accepted {
                return Ok(commits);
            }
        }
        let mut changes = CommitChanges {
            counters: writer.counters,
            new_paths: assigned,
            generations: Some(generations),
            ..CommitChanges::default()
        };
        for (number, epk_prefix, (before, after)) in step.items {
            changes.replace_terms(&before, &after, number, epk_prefix);
        }
        commits.push(writer.submit(partition, changes, self.world().random()));
        Ok(commits)
    }
}

/// The items of a step, with what changes in the index.
#[derive(Default)]
struct Step {
    /// Each item with its terms before and after the step.
    items: Vec<(ItemNumber, EpkPrefix, (Terms, Terms))>,
    /// Index rows that change, with what reading the items counts as.
    rows: usize,
    /// The paths that the index lacks.
    new_paths: NewPaths,
}

impl Step {
    fn add(&mut self, number: ItemNumber, epk_prefix: EpkPrefix, terms: (Terms, Terms)) {
        let (before, after) = &terms;
        self.rows += before.difference(after).count() + after.difference(before).count();
        for (_, value, _) in before
            .search_unlike(after)
            .chain(after.search_unlike(before))
        {
            self.rows += 1 + value.len() / BYTES_PER_ROW;
        }
        if before != after {
            self.new_paths.hold(after);
            self.items.push((number, epk_prefix, terms));
        }
    }
}

/// The state of a partition's index after a step.
enum Progress {
    /// The index follows the newest policy.
    Done,
    /// Items are left that follow an older policy.
    More,
}

/// Returns true if the index entries of all items are those of the newest policy already: the
/// policies before left out excluded items only, and no item of the partition is without entries.
fn follows_without_changes(
    partition: &Partition,
    snapshot: &dyn Snapshot,
    policies: &Policies,
    generations: &PolicyGenerations,
) -> Result<bool> {
    let newest = &policies.newest.1;
    for generation in generations.generations() {
        let policy = policies.get(generation);
        let policy = policy.ok_or_else(|| Error::internal("a policy in use is not known"))?;
        let is_older = generation != policies.newest.0;
        let is_same = policy.leaves_out_excluded() && policy.has_same_entries(newest);
        if is_older && !is_same {
            return Ok(false);
        }
    }
    partition.indexes_all_items(snapshot)
}

/// Returns the terms of an item under two policies.
fn terms_of(
    container: &Container,
    row: &Row,
    before: &Policy,
    after: &Policy,
    paths: &mut PathNumbers<'_>,
) -> Result<(Terms, Terms)> {
    let json = parse(&row.body).map_err(|_| damaged(ROW))?;
    let item = json.as_object().ok_or_else(|| damaged(ROW))?;
    let key_is_id = container.settings().partition_key_is_id();
    let mut terms = |policy: &Policy| match policy.indexes(row.indexing) {
        true => Terms::of(item, row.ts, policy, key_is_id, paths),
        false => Terms::default(),
    };
    Ok((terms(before), terms(after)))
}

fn read_natural((key, value): (Bytes, Bytes)) -> Result<(ItemNumber, EpkPrefix)> {
    let number = keys::read_natural(&key).ok_or_else(|| damaged(ROW))?;
    Ok((number, value[..].try_into().map_err(|_| damaged(ROW))?))
}
