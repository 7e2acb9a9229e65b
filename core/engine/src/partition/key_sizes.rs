//! The sizes of the logical partitions of a physical partition, as far as the limit on them needs
//! to be watched.
//!
//! A logical partition is never larger than its physical partition, so most physical partitions
//! need no sizes at all. A larger one is counted once in the background
//! (`background/key_sizes.rs`). The count divides its logical partitions in two:
//!
//! - *large* ones, of which each has a row with its exact size. Every commit that changes the
//!   items of a large logical partition writes the row anew;
//! - all others, which had at most `base` bytes at the count. Together they have grown by `growth`
//!   bytes since, so none of them is larger than `base + growth`.
//!
//! ```text
//! size of a large one:  its row
//! size of any other:    at most min(bytes of the physical partition, base + growth)
//! ```
//!
//! A write that could pass the limit by this bound counts its own logical partition first. So the
//! limit is exact whatever the state of the background count is, and the count only saves time.
//! Splits and merges do not copy the rows: their successors are counted anew.

use crate::container::tasks::BackgroundTask;
use crate::container::view::ContainerView;
use crate::errors::{damaged, storage_failure};
use crate::partition::key_limit::KeyLimit;
use crate::partition::keys;
use crate::partition::row_reader::{complete_row, rows_of_epk_prefix};
use crate::partition::{CommitChanges, Partition, SubmittedCommit, Writer, scan};
use orrery_model::Result;
use orrery_model::partition_key::Epk;
use orrery_storage::{Direction, Snapshot};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Large logical partitions of one physical partition at most.
const LARGE_MAX: usize = 4_096;
/// The part of the limit from which on a logical partition is large.
const LARGE_PART: u64 = 128;
/// The part of the limit by which the bound may pass before a count.
const COUNT_PART: u64 = 2;
/// The part of the limit by which others must have grown before another count.
const RECOUNT_PART: u64 = 4;
/// The subject of the error for a damaged row.
const ROW: &str = "the row of the size of a logical partition";

/// The change of the bytes of items, by logical partition.
pub(crate) type KeyChanges = HashMap<Epk, i64>;

/// The sizes that a writer knows.
#[derive(Default)]
pub(super) struct KeySizes {
    /// The exact sizes of large logical partitions.
    large: HashMap<Epk, u64>,
    /// The largest size of any other at the last count; `None` if there was no count.
    base: Option<u64>,
    /// Bytes by which the others have grown since.
    growth: u64,
    /// The count that is running.
    count: Option<Count>,
    /// True if a count is on the agenda or running.
    is_requested: bool,
}

/// The changes since the snapshots of a count that is running.
#[derive(Default)]
struct Count {
    /// Bytes by which logical partitions have grown since the first snapshot.
    growth: u64,
    /// Change of each that is counted exactly, since the second snapshot.
    changes: HashMap<Epk, i64>,
}

impl KeySizes {
    /// Loads the rows of a snapshot.
    ///
    /// # Errors
    /// 500 if the store cannot be read or a row is damaged.
    pub(super) fn load(snapshot: &dyn Snapshot) -> Result<Self> {
        let mut sizes = KeySizes {
            large: large_of(snapshot)?.into_iter().collect(),
            ..KeySizes::default()
        };
        let bound = snapshot.get(&keys::key_size_bound());
        if let Some(row) = bound.map_err(storage_failure)? {
            let at = |i: usize| keys::number(row.get(i * 8..i * 8 + 8)?);
            let (base, growth) = at(0).zip(at(1)).ok_or_else(|| damaged(ROW))?;
            (sizes.base, sizes.growth) = (Some(base), growth);
        }
        Ok(sizes)
    }

    /// Returns the largest size that a logical partition which is not large can have in a physical
    /// partition of this size.
    fn bound(&self, partition_bytes: u64) -> u64 {
        match self.base {
            Some(base) => partition_bytes.min(base.saturating_add(self.growth)),
            None => partition_bytes,
        }
    }

    /// Returns true, once, if a count would save writes from counting. Called when the commit that
    /// asks is accepted.
    pub(super) fn asks_for_count(&mut self, partition_bytes: u64, bytes_max: u64) -> bool {
        if self.is_requested || self.bound(partition_bytes) <= bytes_max / COUNT_PART {
            return false;
        }
        let is_new = self.base.is_none() || self.growth > bytes_max / RECOUNT_PART;
        self.is_requested = is_new;
        is_new
    }

    /// Adds the rows that follow from the changes of a commit, which is not accepted yet.
    pub(super) fn add_rows(
        &self,
        changes: &KeyChanges,
        puts: &mut Vec<(Vec<u8>, Vec<u8>)>,
        deletes: &mut Vec<Vec<u8>>,
    ) {
        let mut growth = self.growth;
        for (epk, change) in changes {
            match self.large.get(epk) {
                Some(size) => match size.saturating_add_signed(*change) {
                    0 => deletes.push(keys::key_size(epk)),
                    size => puts.push((keys::key_size(epk), size.to_be_bytes().to_vec())),
                },
                None => growth = growth.saturating_add(growth_of(*change)),
            }
        }
        if let Some(base) = self.base
            && growth != self.growth
        {
            puts.push(bound_row(base, growth));
        }
    }

    /// Takes the changes of an accepted commit in.
    pub(super) fn apply(&mut self, changes: &KeyChanges) {
        for (epk, change) in changes {
            if let Some(size) = self.large.get_mut(epk) {
                *size = size.saturating_add_signed(*change);
                if *size == 0 {
                    self.large.remove(epk);
                }
                continue;
            }
            let growth = growth_of(*change);
            if let Some(count) = &mut self.count {
                count.growth = count.growth.saturating_add(growth);
                if let Some(total) = count.changes.get_mut(epk) {
                    *total += change;
                }
            }
            if self.base.is_some() {
                self.growth = self.growth.saturating_add(growth);
            }
        }
    }

    /// Returns true if a count is on the agenda or running.
    pub(super) fn is_requested(&self) -> bool {
        self.is_requested
    }

    /// Begins a count: the first snapshot is taken now.
    pub(super) fn begin_count(&mut self) {
        self.is_requested = true;
        self.count = Some(Count::default());
    }

    /// Follows the logical partitions that are counted exactly: the second snapshot is taken now.
    /// Returns those whose size is not known, or `None` if the writer was opened anew since the
    /// count began.
    pub(super) fn follow(&mut self, candidates: Vec<Epk>) -> Option<Vec<Epk>> {
        let count = self.count.as_mut()?;
        let mut unknown = candidates;
        unknown.retain(|epk| !self.large.contains_key(epk));
        for epk in &unknown {
            count.changes.insert(epk.clone(), 0);
        }
        Some(unknown)
    }

    /// Returns the running count that a result belongs to; `None` if the writer does not know the
    /// beginning of that count any more.
    fn count_of(&self, finished: &FinishedCount) -> Option<&Count> {
        let count = self.count.as_ref()?;
        let follows = |(epk, _): &(Epk, u64)| count.changes.contains_key(epk);
        finished.sizes.iter().all(follows).then_some(count)
    }

    /// Returns the exact sizes that a count has found and no write has counted meanwhile.
    fn found_by(&self, finished: &FinishedCount, count: &Count) -> Vec<(Epk, u64)> {
        let mut found = Vec::new();
        for (epk, size) in &finished.sizes {
            if !self.large.contains_key(epk) {
                found.push((epk.clone(), size.saturating_add_signed(count.changes[epk])));
            }
        }
        found
    }

    /// Adds the rows that follow from the result of a count, whose commit is not accepted yet and
    /// changes no items.
    pub(super) fn add_rows_of_count(
        &self,
        finished: &FinishedCount,
        puts: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) {
        let Some(count) = self.count_of(finished) else {
            return;
        };
        // From now on only a row tells that a logical partition may be larger than the bound.
        let row = |epk: &Epk, size: u64| (keys::key_size(epk), size.to_be_bytes().to_vec());
        for (epk, size) in &self.large {
            puts.push(row(epk, *size));
        }
        for (epk, size) in self.found_by(finished, count) {
            puts.push(row(&epk, size));
        }
        puts.push(bound_row(finished.base, count.growth));
    }

    /// Ends a count whose result is accepted. A count whose beginning the writer does not know any
    /// more is dropped.
    pub(super) fn end_count(&mut self, finished: FinishedCount) {
        if let Some(count) = self.count_of(&finished) {
            let (found, growth) = (self.found_by(&finished, count), count.growth);
            self.large.extend(found);
            (self.base, self.growth) = (Some(finished.base), growth);
        }
        self.is_requested = false;
        self.count = None;
    }
}

impl fmt::Display for KeySizes {
    /// Writes what is known of the sizes. A count that is running is left out: it begins again with
    /// another writer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let large: BTreeMap<&[u8], u64> = self
            .large
            .iter()
            .map(|(epk, size)| (epk.as_bytes(), *size))
            .collect();
        let (base, growth) = (self.base, self.growth);
        write!(f, "large {large:?}, base {base:?}, growth {growth}")
    }
}

/// Returns the bytes by which a change lets a logical partition grow.
fn growth_of(change: i64) -> u64 {
    u64::try_from(change).unwrap_or(0)
}

/// Returns the row of `base` and `growth`.
fn bound_row(base: u64, growth: u64) -> (Vec<u8>, Vec<u8>) {
    let mut row = base.to_be_bytes().to_vec();
    row.extend_from_slice(&growth.to_be_bytes());
    (keys::key_size_bound(), row)
}

/// The result of a count.
pub struct FinishedCount {
    /// The logical partitions that were followed, with their sizes in the second snapshot.
    sizes: Vec<(Epk, u64)>,
    /// The largest size that any other had in the first snapshot.
    base: u64,
}

/// The logical partitions that a count has to read again.
pub(crate) struct FollowedKeys {
    /// Those whose size is not known.
    pub unknown: Vec<Epk>,
    /// The second snapshot.
    pub snapshot: Box<dyn Snapshot>,
}

/// The steps of a count, see `background/key_sizes.rs`.
impl Partition {
    /// Begins a count if a commit has asked for one. Returns the first snapshot.
    ///
    /// # Errors
    /// As for [`Partition::lock`] and [`Partition::snapshot_with`].
    pub(crate) fn begin_key_count(&self) -> Result<Option<Box<dyn Snapshot>>> {
        if !self.asked_for_key_count() {
            return Ok(None);
        }
        let mut writer = self.lock()?;
        writer.key_sizes.begin_count();
        self.snapshot_with(writer.lsn).map(Some)
    }

    /// Follows the logical partitions that are to be counted exactly. Returns `None` if the count
    /// has to begin again.
    ///
    /// # Errors
    /// As for [`Partition::lock`] and [`Partition::snapshot_with`].
    pub(crate) fn follow_keys(&self, candidates: Vec<Epk>) -> Result<Option<FollowedKeys>> {
        let mut writer = self.lock()?;
        let Some(unknown) = writer.key_sizes.follow(candidates) else {
            return Ok(None);
        };
        let snapshot = self.snapshot_with(writer.lsn)?;
        Ok(Some(FollowedKeys { unknown, snapshot }))
    }

    /// Submits the result of a count: the sizes in the second snapshot, and the largest size that
    /// any other logical partition had in the first.
    ///
    /// # Errors
    /// As for [`Partition::lock`].
    pub(crate) fn end_key_count(
        &self,
        sizes: Vec<(Epk, u64)>,
        base: u64,
        random: u64,
    ) -> Result<SubmittedCommit> {
        let mut writer = self.lock()?;
        let changes = CommitChanges {
            counters: writer.counters,
            key_count: Some(FinishedCount { sizes, base }),
            ..CommitChanges::default()
        };
        Ok(writer.submit(self, changes, random))
    }
}

impl Writer {
    /// Reports the logical partitions that an accepted commit brings near to the limit, and enters
    /// a count that is needed.
    pub(super) fn report_key_sizes(
        &mut self,
        container: &dyn ContainerView,
        passed: &[(Epk, u64)],
        now_ms: u64,
    ) {
        for (epk, bytes) in passed {
            container.report_large_key(epk, *bytes);
        }
        let bytes_max = container.key_limit().bytes_max();
        if self
            .key_sizes
            .asks_for_count(self.counters.bytes, bytes_max)
        {
            container.enter_work(BackgroundTask::KeySizes, now_ms);
        }
    }

    /// Checks that a commit lets no logical partition grow beyond the limit. Returns the logical
    /// partitions that pass the size of the warning, with their new sizes.
    ///
    /// # Errors
    /// 403/1014 if one would be too large; 500 if the store cannot be read.
    pub(super) fn check_key_sizes(
        &mut self,
        partition: &Partition,
        limit: &KeyLimit,
        changes: &KeyChanges,
    ) -> Result<Vec<(Epk, u64)>> {
        let warning_bytes = limit.warning_bytes();
        let mut passed = Vec::new();
        for (epk, change) in changes {
            let Ok(growth @ 1..) = u64::try_from(*change) else {
                continue;
            };
            let bound = self.key_sizes.bound(self.counters.bytes);
            let before = match self.key_sizes.large.get(epk) {
                Some(size) => *size,
                None if bound.saturating_add(growth) <= warning_bytes => continue,
                None => self.count_key(partition, epk)?,
            };
            let after = before.saturating_add(growth);
            if after > limit.bytes_max() {
                return Err(limit.refusal());
            }
            if before <= warning_bytes && after > warning_bytes {
                passed.push((epk.clone(), after));
            }
        }
        Ok(passed)
    }

    /// Returns the size of a logical partition after the last accepted commit, and remembers it:
    /// the size is that of the stored items, whatever becomes of the commit that asks, and a client
    /// that writes to a full logical partition again and again has it counted once.
    fn count_key(&mut self, partition: &Partition, epk: &Epk) -> Result<u64> {
        let snapshot = partition.snapshot_with(self.lsn)?;
        let bytes = bytes_of(snapshot.as_ref(), epk)?;
        if bytes > 0 && self.key_sizes.large.len() < LARGE_MAX {
            self.key_sizes.large.insert(epk.clone(), bytes);
        }
        Ok(bytes)
    }
}

/// Returns the exact sizes that a snapshot has rows for.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub(crate) fn large_of(snapshot: &dyn Snapshot) -> Result<Vec<(Epk, u64)>> {
    let mut sizes = Vec::new();
    for entry in scan(snapshot, &keys::key_sizes(), Direction::Forward) {
        let (key, value) = entry?;
        let row = keys::read_key_size(&key).zip(keys::number(&value));
        sizes.push(row.ok_or_else(|| damaged(ROW))?);
    }
    Ok(sizes)
}

/// Returns the largest size that a logical partition without a row of its own can have, if there
/// was a count.
///
/// # Errors
/// 500 if the store cannot be read or the row is damaged.
pub(crate) fn bound_of(snapshot: &dyn Snapshot) -> Result<Option<u64>> {
    let sizes = KeySizes::load(snapshot)?;
    Ok(sizes.base.map(|base| base.saturating_add(sizes.growth)))
}

/// Returns the bytes of the items of a logical partition in a snapshot.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub(crate) fn bytes_of(snapshot: &dyn Snapshot, epk: &Epk) -> Result<u64> {
    let mut bytes = 0;
    for stored in rows_of_epk_prefix(snapshot, keys::epk_prefix(epk), 0) {
        let row = stored?.row;
        if row.epk == *epk {
            bytes += row.size() as u64;
        }
    }
    Ok(bytes)
}

/// Returns the logical partitions of a snapshot that are large by the limit, and a size that no
/// other exceeds. Reads every item.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub(crate) fn find_large(snapshot: &dyn Snapshot, bytes_max: u64) -> Result<(Vec<Epk>, u64)> {
    let large_bytes = bytes_max / LARGE_PART;
    let mut large: Vec<(Epk, u64)> = Vec::new();
    // The rows of a prefix lie side by side; different keys can share a prefix.
    let mut prefix = None;
    let mut sizes: HashMap<Epk, u64> = HashMap::new();
    for entry in scan(snapshot, &keys::items(), Direction::Forward) {
        let (key, value) = entry?;
        let (epk_prefix, number) = keys::read_item(&key).ok_or_else(|| damaged(ROW))?;
        let row = complete_row(value, number, |key| {
            snapshot.get(key).map_err(storage_failure)
        })?;
        if prefix != Some(epk_prefix) {
            large.extend(sizes.drain().filter(|(_, bytes)| *bytes > large_bytes));
            prefix = Some(epk_prefix);
        }
        let bytes = row.size() as u64;
        *sizes.entry(row.epk).or_default() += bytes;
    }
    large.extend(sizes.drain().filter(|(_, bytes)| *bytes > large_bytes));

    // Beyond the number that is kept, the largest are kept, and the others raise the bound.
    large.sort_unstable_by_key(|(_, bytes)| Reverse(*bytes));
    let base = match large.get(LARGE_MAX) {
        Some((_, bytes)) => *bytes,
        None => large_bytes,
    };
    large.truncate(LARGE_MAX);
    Ok((large.into_iter().map(|(epk, _)| epk).collect(), base))
}
