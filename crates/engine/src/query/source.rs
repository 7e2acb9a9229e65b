//! The candidates of a query over one or many partitions, as the source of the executor.
//!
//! Without ORDER BY the partitions are read in sequence, each in natural order and only as far as
//! needed. With an ORDER BY that the indexes of all partitions serve, the partitions are merged;
//! equal values are ordered by item number. A position names the partition of the last candidate
//! and its place there. If that partition is split or merged, its successors are merged by item
//! number.

use super::access::AccessPath;
use super::cursor::{Cursor, CursorItem};
use super::partition_query::{FixedOrder, PartitionQuery};
use super::position::{QueryPosition, RangePart};
use super::posting::IndexPosition;
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::index::policy::Composite;
use crate::partition::Partition;
use crate::partition::keys::{self, EpkPrefix};
use crate::partition::visibility::Visibility;
use orrery_model::partition_key::EpkRange;
use orrery_model::work::QueryWork;
use orrery_model::{Error, Result};
use orrery_sql::{Candidate, QueryError, Source};
use orrery_storage::Snapshot;
use std::ops::Range;
use std::time::{Duration, Instant};

/// A partition that a query reads.
pub(crate) struct Target<'a> {
    /// The partition.
    pub partition: &'a Partition,
    /// The part of a partition key range by which positions name the target.
    pub part: RangePart,
    /// The snapshot that is read.
    pub snapshot: &'a dyn Snapshot,
    /// The EPK range that is read, if not the whole partition.
    pub within: Option<EpkRange>,
    /// The items that the query may see.
    pub visible: Visibility,
}

/// The work of a query in one partition.
pub(crate) struct PartitionWork {
    /// Id of the partition key range.
    pub range: u32,
    /// The counted work.
    pub work: QueryWork,
    /// The access path in words.
    pub explanation: String,
    /// The composite index that was used, if any.
    pub composite: Option<Composite>,
}

/// The candidates of several partitions.
pub(crate) struct Candidates<'a> {
    container: &'a Container,
    targets: &'a [Target<'a>],
    /// The parameters that all targets share.
    query: PartitionQuery<'a>,
    /// The cursor of each target, once it is open.
    cursors: Vec<Option<Cursor<'a>>>,
    /// True if all targets are merged.
    is_merged: bool,
    descending: bool,
    /// Number of leading targets that are merged by item number: successors of one partition.
    merged_successors: usize,
    /// Index of the target that is read, if targets are read in sequence.
    current: usize,
    /// Position of the last candidate.
    last: Option<QueryPosition>,
    short_positions: bool,
    lookup_time: Duration,
}

impl<'a> Candidates<'a> {
    /// Opens the candidates behind the position `after`. With ORDER BY all partitions are opened,
    /// and either all of them return candidates in order or none.
    ///
    /// `query` holds the parameters that all targets share. `merged_successors` is the number of
    /// leading targets that succeed a single partition.
    ///
    /// # Errors
    /// 400 if the position does not belong to the query, 500 if the store cannot be read.
    pub(crate) fn open(
        container: &'a Container,
        targets: &'a [Target<'a>],
        merged_successors: usize,
        query: PartitionQuery<'a>,
        after: Option<&[u8]>,
        short_positions: bool,
    ) -> Result<Self> {
        let last = match after {
            Some(bytes) => QueryPosition::read(bytes)?,
            None => None,
        };
        let mut candidates = Candidates {
            container,
            targets,
            query,
            cursors: targets.iter().map(|_| None).collect(),
            is_merged: false,
            descending: false,
            merged_successors,
            current: 0,
            last,
            short_positions,
            lookup_time: Duration::ZERO,
        };
        // A merge compares the first candidates of all partitions, so all cursors are opened at
        // once.
        if !query.query.order().is_empty() {
            let was_sorted = after.is_some_and(<[u8]>::is_empty);
            let begun = Instant::now();
            let opened = candidates.open_merged(was_sorted);
            candidates.lookup_time += begun.elapsed();
            opened?;
        }
        Ok(candidates)
    }

    /// Returns the time that planning and opening cursors has taken so far, in all partitions.
    /// Reads of the index between two candidates are not included.
    pub(crate) fn lookup_time(&self) -> Duration {
        self.lookup_time
    }

    /// Opens the cursors of all targets for a merge. `was_sorted`: the page before sorted its
    /// matches.
    fn open_merged(&mut self, was_sorted: bool) -> Result<()> {
        self.is_merged = true;
        let first_key = self.query.query.order().first();
        self.descending = first_key.is_some_and(|key| key.descending);

        // A later page keeps the order of the first page. A blocking query has no position among
        // the candidates, and its order is chosen again with the same result.
        let fixed = match &self.last {
            Some(last) => {
                let index = last.index.ok_or_else(QueryPosition::mismatch_error)?;
                Some(FixedOrder::Index(index))
            }
            None if was_sorted && !self.query.query.is_blocking() => Some(FixedOrder::Sort),
            None => None,
        };
        let mut paths = self.choose(fixed)?;
        if fixed.is_none() {
            self.agree_on_order(&mut paths)?;
        }
        let is_ordered = paths.iter().all(AccessPath::is_ordered);
        if !is_ordered && matches!(fixed, Some(FixedOrder::Index(_))) {
            return Err(QueryPosition::mismatch_error());
        }

        // A sort has no position: every page sorts all matches and skips the rows of the pages
        // before.
        let after = match &self.last {
            Some(last) if is_ordered => Some(self.index_position(last, &paths)?),
            _ => None,
        };
        for (target, path) in paths.into_iter().enumerate() {
            self.cursors[target] = Some(self.open_cursor(target, path, after.as_ref())?);
        }
        Ok(())
    }

    /// Chooses the access paths again if some but not all of them have the order of the same index.
    fn agree_on_order(&self, paths: &mut Vec<AccessPath>) -> Result<()> {
        let Some(index) = paths.iter().find_map(AccessPath::index_id) else {
            return Ok(());
        };
        let has_order =
            |path: &AccessPath| path.is_ordered() && path.index_id().is_none_or(|own| own == index);
        if !paths.iter().all(has_order) {
            *paths = self.choose(Some(FixedOrder::Index(index)))?;
        }
        if !paths.iter().all(has_order) {
            *paths = self.choose(Some(FixedOrder::Sort))?;
        }
        Ok(())
    }

    /// Returns the index position of the last candidate. In a run, and for a shortened position,
    /// the position is computed from the item itself.
    fn index_position(&self, last: &QueryPosition, paths: &[AccessPath]) -> Result<IndexPosition> {
        let target = self.target_of(last)?;
        let written = IndexPosition {
            value: last.value.clone(),
            run_values: None,
            number: last.number,
        };
        let walk = paths[target]
            .walk()
            .or_else(|| paths.iter().find_map(AccessPath::walk));
        let Some(walk) = walk else {
            return Ok(written);
        };
        if !last.is_short && !walk.is_in_run(&written) {
            return Ok(written);
        }

        let snapshot = self.targets[target].snapshot;
        let row = snapshot.get(&keys::natural(last.number));
        let epk_prefix: Option<EpkPrefix> = match row.map_err(storage_failure)? {
            Some(value) => value[..].try_into().ok(),
            None => None,
        };
        let found = match epk_prefix {
            Some(epk_prefix) => walk.position_of(snapshot, last.number, epk_prefix)?,
            None => None,
        };

        // The position is valid only if the item still has the value.
        if last.is_short {
            return match found {
                Some(found) if last.digest == QueryPosition::digest_of(found.value.as_deref()) => {
                    Ok(found)
                }
                _ => Err(Error::bad(
                    "Invalid Continuation Token: it was shortened to fit its limit, and the item \
                     that it names has changed. Start the query again.",
                )),
            };
        }
        match found {
            Some(found) if found.value == written.value => Ok(found),
            // The item has changed. Its number is a position in the run too, though not the same
            // one.
            _ => Ok(written),
        }
    }

    /// Returns the index of the target that holds the item of a position, or of the first target if
    /// the item is gone.
    fn target_of(&self, last: &QueryPosition) -> Result<usize> {
        let mut parts = self.targets.iter().map(|target| &target.part);
        if let Some(target) = parts.position(|part| *part == last.part) {
            return Ok(target);
        }
        self.container
            .epk_range_of(last.part.range)
            .ok_or_else(QueryPosition::mismatch_error)?;
        for (at, target) in self.targets.iter().enumerate() {
            let row = target.snapshot.get(&keys::natural(last.number));
            if row.map_err(storage_failure)?.is_some() {
                return Ok(at);
            }
        }
        if self.targets.is_empty() {
            return Err(QueryPosition::mismatch_error());
        }
        Ok(0)
    }

    /// Returns the parameters of the query in a target.
    fn query_of(&self, target: usize, order: Option<FixedOrder>) -> PartitionQuery<'a> {
        let Target {
            within, visible, ..
        } = &self.targets[target];
        PartitionQuery {
            within: within.as_ref(),
            visible,
            order,
            ..self.query
        }
    }

    /// Chooses the access path of each target.
    fn choose(&self, order: Option<FixedOrder>) -> Result<Vec<AccessPath>> {
        let mut paths = Vec::with_capacity(self.targets.len());
        for (at, target) in self.targets.iter().enumerate() {
            let query = self.query_of(at, order);
            let snapshot = target.snapshot;
            paths.push(AccessPath::choose(&query, target.partition, snapshot)?);
        }
        Ok(paths)
    }

    fn open_cursor(
        &self,
        target: usize,
        path: AccessPath,
        after: Option<&IndexPosition>,
    ) -> Result<Cursor<'a>> {
        let snapshot = self.targets[target].snapshot;
        let query = self.query_of(target, None);
        Cursor::open(self.container, snapshot, query, path, after)
    }

    /// Returns the work in each partition that was read.
    pub(crate) fn work(&self) -> Vec<PartitionWork> {
        let mut all = Vec::new();
        for (target, cursor) in self.targets.iter().zip(&self.cursors) {
            if let Some(cursor) = cursor {
                let path = cursor.access();
                all.push(PartitionWork {
                    range: target.partition.id,
                    work: cursor.work,
                    explanation: path.explanation.clone(),
                    composite: path.composite.clone(),
                });
            }
        }
        all
    }

    /// Returns the next candidate with the index of its target.
    fn next_item(&mut self) -> Result<Option<(usize, CursorItem)>> {
        if self.is_merged {
            self.next_merged(0..self.targets.len())
        } else {
            self.next_in_sequence()
        }
    }

    /// Returns the next candidate of the current target, or of the next target that has one.
    fn next_in_sequence(&mut self) -> Result<Option<(usize, CursorItem)>> {
        while self.current < self.targets.len() {
            // The successors of a partition are read together, any other target alone.
            let end = self.merged_successors.max(self.current + 1);
            for target in self.current..end {
                if self.cursors[target].is_none() {
                    let begun = Instant::now();
                    let cursor = self.open_in_sequence(target);
                    self.lookup_time += begun.elapsed();
                    self.cursors[target] = Some(cursor?);
                }
            }
            let item = if end - self.current == 1 {
                let item = match &mut self.cursors[self.current] {
                    Some(cursor) => cursor.next()?,
                    None => None,
                };
                item.map(|item| (self.current, item))
            } else {
                self.next_merged(self.current..end)?
            };
            if item.is_some() {
                return Ok(item);
            }
            self.current = end;
        }
        Ok(None)
    }

    /// Opens the cursor of a target in natural order, behind the last position if that is in the
    /// target.
    fn open_in_sequence(&self, target: usize) -> Result<Cursor<'a>> {
        let Target {
            partition,
            part,
            snapshot,
            ..
        } = &self.targets[target];
        let last = match &self.last {
            Some(last) if last.part == *part && !last.is_start => Some(last),
            _ => None,
        };

        // A page that stopped among values continues among the values of the same index, and a page
        // that stopped among items among items.
        let index = last.and_then(|last| last.index);
        let is_among_items = last.is_some_and(|last| last.index.is_none());
        let mut query = self.query_of(target, index.map(FixedOrder::Index));
        query.may_scan_values &= !is_among_items;
        let path = AccessPath::choose(&query, partition, *snapshot)?;
        if index.is_some() && path.index_id() != index {
            return Err(QueryPosition::mismatch_error());
        }
        let after = last.map(|last| IndexPosition {
            value: last.value.clone(),
            run_values: None,
            number: last.number,
        });
        self.open_cursor(target, path, after.as_ref())
    }

    /// Returns the first of the next candidates of some targets.
    fn next_merged(&mut self, targets: Range<usize>) -> Result<Option<(usize, CursorItem)>> {
        loop {
            let mut first: Option<(usize, IndexPosition)> = None;
            for target in targets.clone() {
                let Some(cursor) = &mut self.cursors[target] else {
                    continue;
                };
                let Some(position) = cursor.peek()? else {
                    continue;
                };
                let is_before = match &first {
                    Some((_, best)) => position.compare(best, self.descending).is_lt(),
                    None => true,
                };
                if is_before {
                    first = Some((target, position.clone()));
                }
            }
            let Some((target, position)) = first else {
                return Ok(None);
            };
            // Loading may find that the query may not see the item. The cursor has then moved on,
            // and all cursors are compared again.
            if let Some(cursor) = &mut self.cursors[target]
                && let Some(item) = cursor.take_at(&position)?
            {
                return Ok(Some((target, item)));
            }
        }
    }
}

impl Source for Candidates<'_> {
    fn next(&mut self) -> std::result::Result<Option<Candidate>, QueryError> {
        let next = self.next_item();
        let Some((target, item)) = next.map_err(|error| QueryError::Source(Box::new(error)))?
        else {
            return Ok(None);
        };
        let index = match &self.cursors[target] {
            Some(cursor) => cursor.index_id(),
            None => None,
        };
        let item_number = Some(item.position.number);
        let part = self.targets[target].part.clone();
        self.last = Some(QueryPosition::behind(part, index, item.position));
        Ok(Some(Candidate {
            text: item.text,
            condition_holds: item.condition_holds,
            item_number,
        }))
    }

    fn is_ordered(&self) -> bool {
        self.cursors.iter().flatten().all(Cursor::is_ordered)
    }

    fn position(&self) -> Vec<u8> {
        match &self.last {
            None => QueryPosition::BEGINNING.to_vec(),
            Some(last) => last.write(self.short_positions),
        }
    }

    fn is_page_budget_spent(&self) -> bool {
        let profile = self.query.profile;
        self.cursors
            .iter()
            .flatten()
            .any(|cursor| profile.is_a_full_page(&cursor.work))
    }
}
