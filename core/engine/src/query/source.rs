//! The candidates of a query over one or many partitions, as the source of the executor.
//!
//! Without ORDER BY the partitions are read in sequence, each in natural order and only as far as
//! needed. With ORDER BY the partitions are merged, in the order of an index or for a sort
//! (`query/contest.rs`); equal values are ordered by item number. A position names the partition of
//! the last candidate and its place there. If that partition is split or merged, its successors are
//! merged by item number.

use super::access::{AccessPath, Counting};
use super::cursor::{Compared, Cursor, CursorItem};
use super::merge::Merge;
use super::partition_query::{FixedOrder, PartitionQuery};
use super::position::{QueryPosition, RangePart};
use super::posting::{IndexPosition, Posting};
use super::totals::{PartitionTotals, partition_totals};
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::index::policy::Composite;
use crate::partition::keys::{self, EpkPrefix};
use crate::partition::visibility::Visibility;
use crate::partition::{Facts, Partition};
use orrery_model::partition_key::EpkRange;
use orrery_model::work::QueryWork;
use orrery_model::{Error, Result};
use orrery_sql::{Candidate, Clock, QueryError, Source, Stopwatch, Total};
use orrery_storage::Snapshot;
use std::collections::VecDeque;
use std::sync::Arc;
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
    /// The facts of the partition at the snapshot.
    pub facts: Arc<Facts>,
}

/// The work of a query in one partition.
pub(crate) struct PartitionWork {
    /// Id of the partition key range.
    pub range: u32,
    /// The counted work.
    pub work: QueryWork,
    /// The number of the first item that was loaded.
    pub first_loaded: Option<u64>,
    /// The work for an access path that was not chosen.
    pub compared: Compared,
    /// The access path in words.
    pub explanation: String,
    /// The composite index that was used, if any.
    pub composite: Option<Composite>,
}

/// The next posting of a merge.
pub(super) enum MergedPosting {
    /// The index has not checked the posting yet.
    Unchecked(Posting),
    /// The posting passed the checks.
    Checked(Posting),
    /// The item was needed for a test and passed it.
    Item(CursorItem),
}

/// The candidates of several partitions.
pub(crate) struct Candidates<'a> {
    container: &'a Container,
    pub(super) targets: &'a [Target<'a>],
    /// The parameters that all targets share.
    pub(super) query: PartitionQuery<'a>,
    /// The cursor of each target, once it is open.
    pub(super) cursors: Vec<Option<Cursor<'a>>>,
    /// The merge of the targets that are read together.
    pub(super) merge: Merge,
    /// The next candidates, if a contest found them.
    pub(super) found: VecDeque<(usize, MergedPosting)>,
    /// True if all targets are merged.
    is_merged: bool,
    pub(super) descending: bool,
    /// Number of leading targets that are merged by item number: successors of one partition.
    merged_successors: usize,
    /// Index of the target that is read, if targets are read in sequence.
    current: usize,
    /// Position of the last candidate.
    last: Option<QueryPosition>,
    /// Items that the last candidate stands for.
    copies: u64,
    lookup_time: Duration,
    loads: Stopwatch<'a>,
    /// The work of aggregates that were read from the index.
    totals_work: Vec<PartitionWork>,
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
            merge: Merge::of(0..0, false),
            found: VecDeque::new(),
            is_merged: false,
            descending: false,
            merged_successors,
            current: 0,
            last,
            copies: 1,
            lookup_time: Duration::ZERO,
            loads: Stopwatch::default(),
            totals_work: Vec::new(),
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

    /// Measures the time of [`Candidates::load_us`] from now on.
    pub(crate) fn measure_loads(&mut self, clock: Option<Clock<'a>>) {
        self.loads = Stopwatch::new(clock);
    }

    /// Returns the microseconds for finding and loading items so far, without those of
    /// [`Candidates::lookup_time`]. The time is measured by samples.
    pub(crate) fn load_us(&self) -> u64 {
        self.loads.total_us()
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
        let is_contested = paths.iter().any(|path| path.is_contested);
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
        self.merge = Merge::of(0..self.targets.len(), self.descending);
        if fixed.is_none() && is_ordered && is_contested {
            self.hold_contest()?;
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

    /// Returns the index position of the last candidate. A shortened position, and one in a run
    /// without its values, is computed from the item itself.
    fn index_position(&self, last: &QueryPosition, paths: &[AccessPath]) -> Result<IndexPosition> {
        let target = self.target_of(last)?;
        let mut written = IndexPosition {
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

        if let Some(values) = &last.run_values {
            written.run_values = Some(walk.order_values(values)?);
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
        let Some(found) = found else {
            return Err(changed_item());
        };
        let part = last.part.clone();
        let position = QueryPosition::behind(part, last.index, found.clone());
        let is_same = match last.is_short {
            true => last.digest == position.value_digest(),
            false => last.value == position.value,
        };
        match is_same {
            true => Ok(found),
            false => Err(changed_item()),
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
            within,
            visible,
            facts,
            ..
        } = &self.targets[target];
        PartitionQuery {
            within: within.as_ref(),
            visible,
            facts,
            order,
            ..self.query
        }
    }

    /// Chooses the access path of each target.
    fn choose(&self, order: Option<FixedOrder>) -> Result<Vec<AccessPath>> {
        let mut paths = Vec::with_capacity(self.targets.len());
        for target in 0..self.targets.len() {
            paths.push(self.choose_in(target, order, &mut Counting::default())?);
        }
        Ok(paths)
    }

    /// Chooses the access path of a target. `counting` continues a count that planning began.
    pub(super) fn choose_in(
        &self,
        target: usize,
        order: Option<FixedOrder>,
        counting: &mut Counting<'a>,
    ) -> Result<AccessPath> {
        let query = self.query_of(target, order);
        let Target {
            partition,
            snapshot,
            ..
        } = &self.targets[target];
        AccessPath::choose(&query, partition, *snapshot, counting)
    }

    pub(super) fn open_cursor(
        &self,
        target: usize,
        path: AccessPath,
        after: Option<&IndexPosition>,
    ) -> Result<Cursor<'a>> {
        let snapshot = self.targets[target].snapshot;
        let query = self.query_of(target, None);
        Cursor::open(self.container, snapshot, query, path, after)
    }

    /// Returns some aggregates over all items, if the index of each target knows them.
    fn totals_of_targets(&mut self, wanted: &[Total]) -> Result<Option<Vec<u64>>> {
        let mut sums = vec![0; wanted.len()];
        let mut works = Vec::with_capacity(self.targets.len());
        for target in self.targets {
            let sees_all_items = self.query.key.is_none()
                && target.within.is_none()
                && target.visible.is_everything();
            if !sees_all_items {
                return Ok(None);
            }
            let totals = partition_totals(
                target.partition,
                &target.facts,
                target.snapshot,
                self.query.policies,
                wanted,
                self.query.end_point,
            )?;
            let Some(PartitionTotals {
                totals,
                entries,
                compared_words,
            }) = totals
            else {
                return Ok(None);
            };
            for (sum, total) in sums.iter_mut().zip(totals) {
                *sum += total;
            }
            works.push(PartitionWork {
                range: target.partition.id,
                work: QueryWork {
                    seeks: wanted.len() as u64,
                    walked_entries: entries,
                    scan_terms: compared_words,
                    ..QueryWork::default()
                },
                first_loaded: None,
                compared: Compared::default(),
                explanation: "statistics of texts".to_owned(),
                composite: None,
            });
        }
        self.totals_work = works;
        Ok(Some(sums))
    }

    /// Returns the work in each partition that was read.
    pub(crate) fn work(&mut self) -> Vec<PartitionWork> {
        let mut all = std::mem::take(&mut self.totals_work);
        for (target, cursor) in self.targets.iter().zip(&self.cursors) {
            if let Some(cursor) = cursor {
                let path = cursor.access();
                all.push(PartitionWork {
                    range: target.partition.id,
                    work: cursor.counted_work(),
                    first_loaded: cursor.first_loaded,
                    compared: cursor.compared,
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
            self.next_merged()
        } else {
            self.next_in_sequence()
        }
    }

    /// Returns the next candidate of the current target, or of the next target that has one.
    fn next_in_sequence(&mut self) -> Result<Option<(usize, CursorItem)>> {
        while self.current < self.targets.len() {
            // The successors of a partition are read together, any other target alone.
            let end = self.merged_successors.max(self.current + 1);
            if self.cursors[self.current].is_none() {
                for target in self.current..end {
                    let begun = Instant::now();
                    let cursor = self.open_in_sequence(target);
                    self.lookup_time += begun.elapsed();
                    self.cursors[target] = Some(cursor?);
                }
                self.merge = Merge::of(self.current..end, self.descending);
            }
            let item = if end - self.current == 1 {
                let item = match &mut self.cursors[self.current] {
                    Some(cursor) => cursor.next()?,
                    None => None,
                };
                item.map(|item| (self.current, item))
            } else {
                self.next_merged()?
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
        let path = AccessPath::choose(&query, partition, *snapshot, &mut Counting::default())?;
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

    /// Returns the first of the next candidates of the targets that are merged.
    fn next_merged(&mut self) -> Result<Option<(usize, CursorItem)>> {
        loop {
            let (target, found) = match self.found.pop_front() {
                Some(found) => found,
                None => match self.merge.next(&mut self.cursors)? {
                    Some((target, posting)) => (target, MergedPosting::Unchecked(posting)),
                    None => return Ok(None),
                },
            };
            let Some(cursor) = &mut self.cursors[target] else {
                continue;
            };
            let posting = match found {
                MergedPosting::Item(item) => return Ok(Some((target, item))),
                MergedPosting::Unchecked(posting) if !cursor.admits(&posting)? => continue,
                MergedPosting::Unchecked(posting) | MergedPosting::Checked(posting) => posting,
            };
            if let Some(item) = cursor.load(posting)? {
                return Ok(Some((target, item)));
            }
        }
    }
}

impl Source for Candidates<'_> {
    fn next(&mut self) -> std::result::Result<Option<Candidate>, QueryError> {
        let lap = self.loads.begin();
        let lookups_before = self.lookup_time;
        let next = self.next_item();
        let lookup_time = self.lookup_time.saturating_sub(lookups_before);
        self.loads.end(lap, lookup_time.as_micros() as u64);
        let Some((target, item)) = next.map_err(|error| QueryError::Source(Box::new(error)))?
        else {
            return Ok(None);
        };
        let index = match &self.cursors[target] {
            Some(cursor) => cursor.index_id(),
            None => None,
        };
        let item_number = Some(item.position.number);
        self.copies = item.copies;
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
            Some(last) => last.write(false),
        }
    }

    fn copies(&self) -> u64 {
        self.copies
    }

    fn totals(&mut self, wanted: &[Total]) -> std::result::Result<Option<Vec<u64>>, QueryError> {
        let totals = self.totals_of_targets(wanted);
        totals.map_err(|error| QueryError::Source(Box::new(error)))
    }

    fn is_page_budget_spent(&self) -> bool {
        let profile = self.query.profile;
        self.cursors
            .iter()
            .flatten()
            .any(|cursor| profile.is_a_full_page(&cursor.counted_work()))
    }
}

/// Returns the error for a position without the value of its item, which has changed.
fn changed_item() -> Error {
    Error::bad(
        "Invalid Continuation Token: it holds a part of a long value, and the item that it names \
         has changed. Start the query again.",
    )
}
