//! The copy of the rows of some partitions into their successors, while clients read and write.
//!
//! A source is copied in rounds, in the order of its keys:
//!
//! ```text
//! round n:   snapshot ── bring the copied rows up to the snapshot ── copy the next rows ──▶ cursor
//!                        (from the captured commits)                 (as the snapshot has them)
//! ```
//!
//! After each round the targets hold exactly the rows below the cursor as of one moment. No
//! snapshot is held for long, and memory holds two rounds: one that the store is writing, and the
//! next, which is read meanwhile. When everything is copied, the writer of the source is locked for
//! a last round, which is short.
//!
//! Rows keep their bytes with one exception: where dictionaries of paths meet in a merge, index
//! terms get the number of their path in the target. LSNs stay, so positions in the change feed
//! stay valid; the LSNs of a target go on above those of all its sources.

use super::routing::Routing;
use crate::catalog::Container;
use crate::container::view::ContainerView;
use crate::errors::{damaged, storage_failure};
use crate::index::generations::PolicyGenerations;
use crate::index::paths::{Paths, ROOT};
use crate::partition::change_capture::CapturedCommit;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, Kept, PathNumber};
use crate::partition::row_reader::complete_row;
use crate::partition::staging::StagingWriter;
use crate::partition::version_floors::{FloorSource, VersionFloors};
use crate::partition::versions::Version;
use crate::partition::{Counters, Partition, WriterGuard, summary_rows};
use bytes::Bytes;
use orrery_model::partition_key::{Epk, EpkRange, Hashing};
use orrery_model::world::World;
use orrery_model::{Error, Kind, Result};
use orrery_storage::{Direction, PartitionId, Snapshot, Store};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// The subject of the error for a damaged row.
const ROW: &str = "a row of a partition";

/// Bytes of rows that a round copies. Commits of clients wait about as long as the store takes to
/// write them.
const ROUND_BYTES: usize = 64 << 10;

/// A running copy.
pub(crate) struct PartitionCopy {
    store: Arc<dyn Store>,
    sources: Vec<Source>,
    targets: Vec<Target>,
    routing: Routing,
    /// True if paths get new numbers, because several dictionaries become one.
    merges: bool,
    /// Bytes of rows copied so far.
    pub copied_bytes: u64,
}

/// A partition that is copied.
struct Source {
    partition: Arc<Partition>,
    /// The key below which rows are copied; `None` if all are copied.
    cursor: Option<Vec<u8>>,
    /// The path numbers of the target by those of the source, in a merge.
    paths: HashMap<PathNumber, PathNumber>,
    /// The version that was copied last and its target, for the further chunks of the version.
    last_version: Option<(keys::VersionAt, usize)>,
}

/// A successor that is written.
struct Target {
    range: EpkRange,
    writer: StagingWriter,
    counters: Counters,
    /// Index entries by path.
    entry_counts: Vec<u64>,
    /// The dictionary of paths, in a merge.
    paths: Paths,
}

/// Rows of a source that were read and are not copied yet.
struct NextRows {
    rows: Vec<(Bytes, Bytes)>,
    /// The key at which the following rows begin; `None` if these are the last.
    cursor: Option<Vec<u8>>,
}

/// The change of a row over several commits.
struct NetChange {
    /// True if the row existed before the first of the commits.
    existed: bool,
    /// The row after the last of the commits.
    value: Option<Vec<u8>>,
}

impl PartitionCopy {
    /// Begins a copy into key spaces that are empty and belong to no partition.
    ///
    /// # Errors
    /// 409 if a source is being split or merged already, 410 if it is gone, 500 as the store
    /// reports.
    pub(crate) fn begin(
        store: &Arc<dyn Store>,
        world: &Arc<dyn World>,
        hashing: Hashing,
        sources: &[Arc<Partition>],
        targets: &[(PartitionId, EpkRange)],
    ) -> Result<Self> {
        let ranges: Vec<EpkRange> = targets.iter().map(|(_, range)| range.clone()).collect();
        let mut this = PartitionCopy {
            store: Arc::clone(store),
            sources: Vec::new(),
            targets: Vec::new(),
            routing: Routing::new(&ranges, hashing != Hashing::V1),
            merges: sources.len() > 1,
            copied_bytes: 0,
        };
        for source in sources {
            source.start_change_capture()?;
            let source = Source {
                partition: Arc::clone(source),
                cursor: Some(Vec::new()),
                paths: HashMap::from([(ROOT, ROOT)]),
                last_version: None,
            };
            this.sources.push(source);
        }
        // Commits from before the captures began are in every snapshot from here on.
        for source in &this.sources {
            source.partition.sync()?;
        }
        for (storage_id, range) in targets {
            this.targets.push(Target {
                range: range.clone(),
                writer: StagingWriter::open(store, world, *storage_id)?,
                counters: Counters::default(),
                entry_counts: Vec::new(),
                paths: Paths::default(),
            });
        }
        Ok(this)
    }

    /// Returns the storage ids and EPK ranges of the targets.
    pub(crate) fn targets(&self) -> Vec<(PartitionId, EpkRange)> {
        self.targets
            .iter()
            .map(|target| (target.writer.storage_id(), target.range.clone()))
            .collect()
    }

    /// Runs one round. Returns true if every row that existed when the round began is copied.
    ///
    /// # Errors
    /// 449 if a commit is missing from the capture, 500 as the store reports.
    pub(crate) fn round(&mut self) -> Result<bool> {
        self.store.wait_for_compaction();
        let next = self
            .sources
            .iter()
            .position(|source| source.cursor.is_some());
        for at in 0..self.sources.len() {
            let snapshot = self.sources[at].partition.snapshot_in_any_phase()?;
            // The next rows are read while the store still writes those of the round before.
            let next_rows = match next == Some(at) {
                true => Some(self.sources[at].read_next(snapshot.as_ref())?),
                false => None,
            };
            self.wait_durable()?;
            self.follow(at, snapshot.as_ref())?;
            if let Some(next_rows) = next_rows {
                self.copy(at, next_rows, snapshot.as_ref())?;
            }
        }
        self.flush();
        Ok(self.sources.iter().all(|source| source.cursor.is_none()))
    }

    /// Runs the last round, with the writers of the sources locked. Afterwards the targets hold
    /// everything, and their LSNs are above all LSNs of the sources.
    ///
    /// # Errors
    /// As for [`PartitionCopy::round`]; 449 if the sources differ in their policy generations.
    pub(crate) fn finish(
        &mut self,
        container: &Container,
        writers: &[WriterGuard<'_>],
    ) -> Result<()> {
        for source in &self.sources {
            source.partition.sync()?;
        }
        self.wait_durable()?;
        for (at, writer) in writers.iter().enumerate() {
            let snapshot = self.sources[at].partition.snapshot_in_any_phase()?;
            if snapshot.head().lsn != writer.lsn {
                return Err(Error::internal(
                    "a partition's last commits are not durable",
                ));
            }
            self.follow(at, snapshot.as_ref())?;
        }
        let generations = generations_of(writers)?;
        let floors = self.version_floors(writers);
        self.flush();
        let lsn_min = writers.iter().map(|writer| writer.lsn).max().unwrap_or(0);
        let next_number = container.item_number_bound()?;
        for target in &mut self.targets {
            let row = (keys::policy_generations(), generations.encode());
            let floors = floors.as_ref().map(|floors| floors.within(&target.range));
            let floors = floors.map(|floors| (keys::versions_floor(), floors.encode()));
            target.finish(lsn_min, next_number, [row].into_iter().chain(floors));
        }
        self.wait_durable()
    }

    /// Returns the LSNs after which the targets have every version; `None` if no source keeps any.
    fn version_floors(&self, writers: &[WriterGuard<'_>]) -> Option<VersionFloors> {
        if writers.iter().all(|writer| writer.version_floors.is_none()) {
            return None;
        }
        let sources = self.sources.iter().zip(writers).map(|(source, writer)| {
            // A source without a floor has no version up to here.
            let floors = writer.version_floors.clone();
            let floors = floors.unwrap_or_else(|| VersionFloors::of_one(writer.lsn));
            (source.partition.range.clone(), floors, writer.lsn)
        });
        let sources: Vec<FloorSource> = sources.collect();
        match &sources[..] {
            [(_, floors, _)] => Some(floors.clone()),
            _ => Some(VersionFloors::merged(&sources)),
        }
    }

    /// Returns the LSN up to which changes of the target stand in the order of several merged
    /// histories.
    pub(crate) fn mixed_until(&self) -> u64 {
        let before = self
            .sources
            .iter()
            .map(|source| source.partition.mixed_until);
        let before = before.max().unwrap_or(0);
        if !self.merges {
            return before;
        }
        let merged = self.targets.iter().map(|target| target.writer.lsn());
        merged.max().unwrap_or(before)
    }

    /// Iterates over the sources in order of their ranges.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.sources.iter().map(|source| &source.partition)
    }

    /// Brings the copied rows of a source up to a snapshot.
    fn follow(&mut self, at: usize, snapshot: &dyn Snapshot) -> Result<()> {
        let source = &self.sources[at];
        let captured = source.partition.take_captured(snapshot.head().lsn)?;
        let cursor = source.cursor.clone();
        for (key, change) in net_changes(captured, cursor.as_deref()) {
            match change.value {
                Some(value) => self.put(at, &key, &value.into(), Some(change.existed), snapshot)?,
                None => self.delete(at, &key, change.existed)?,
            }
        }
        Ok(())
    }

    /// Copies the next rows of a source.
    fn copy(&mut self, at: usize, next: NextRows, snapshot: &dyn Snapshot) -> Result<()> {
        for (key, value) in next.rows {
            self.copied_bytes += (key.len() + value.len()) as u64;
            self.put(at, &key, &value, None, snapshot)?;
        }
        self.sources[at].cursor = next.cursor;
        Ok(())
    }

    /// Copies a row of a source. `existed` is `None` if the row is copied for the first time, else
    /// it says whether the row existed before the followed commits.
    fn put(
        &mut self,
        at: usize,
        key: &[u8],
        value: &Bytes,
        existed: Option<bool>,
        snapshot: &dyn Snapshot,
    ) -> Result<()> {
        let kept = keys::kept(key).ok_or_else(|| damaged(ROW))?;
        match kept {
            // Rows for the partition as a whole are written by the last round.
            Kept::Own | Kept::Whole => return Ok(()),
            Kept::Path(number) => return self.put_path(at, number, key, value),
            _ => {}
        }
        // An item that a later commit removed again needs no copy.
        let Some(to) = self.target_of(at, kept, value, snapshot)? else {
            return Ok(());
        };
        let target = &mut self.targets[to];
        match kept {
            Kept::Item(_, number) => {
                let get = |key: &[u8]| snapshot.get(key).map_err(storage_failure);
                let size = complete_row(value.clone(), number, get)?.size() as u64;
                if existed.is_some() {
                    target.forget_item(key, number)?;
                }
                target.counters.items += 1;
                target.counters.bytes += size;
                target.writer.put(key.to_vec(), value.to_vec());
            }
            Kept::IndexEntry(path, ..) => {
                let path = self.sources[at].path(self.merges, path)?;
                let key = keys::with_path(key, path);
                // A term is written once. Other entries may be written again, with another value.
                let is_counted = match existed {
                    Some(existed) if keys::is_term(&key) => existed,
                    Some(_) => {
                        target.forget_entry(path, &key)?;
                        false
                    }
                    None => false,
                };
                if !is_counted {
                    target.count_entry(path, &key, value, 1);
                }
                target.writer.put(key, value.to_vec());
            }
            _ => target.writer.put(key.to_vec(), value.to_vec()),
        }
        Ok(())
    }

    /// Removes the copy of a row that a source has removed. `existed` says whether the row existed
    /// before the followed commits.
    fn delete(&mut self, at: usize, key: &[u8], existed: bool) -> Result<()> {
        let kept = keys::kept(key).ok_or_else(|| damaged(ROW))?;
        // A key without EPK and prefix does not name its target: the row is removed in all of them.
        let to = match kept {
            Kept::Own | Kept::Whole | Kept::Path(_) => return Ok(()),
            Kept::OfKey(epk) => Some(self.routing.of_key(&Epk::from_bytes(epk))),
            Kept::Item(epk_prefix, _) | Kept::IndexEntry(_, epk_prefix, _) => {
                self.routing.of_epk_prefix(epk_prefix)
            }
            _ => None,
        };
        let targets = to.map_or(0..self.targets.len(), |to| to..to + 1);
        for target in &mut self.targets[targets] {
            match kept {
                Kept::Item(_, number) => {
                    target.forget_item(key, number)?;
                    target.writer.delete(key.to_vec());
                }
                Kept::IndexEntry(path, ..) => {
                    let path = self.sources[at].path(self.merges, path)?;
                    let key = keys::with_path(key, path);
                    if keys::is_term(&key) {
                        if existed && (to.is_some() || target.has(&key)?) {
                            target.count_entry(path, &key, &[], -1);
                        }
                    } else {
                        target.forget_entry(path, &key)?;
                    }
                    target.writer.delete(key);
                }
                _ => target.writer.delete(key.to_vec()),
            }
        }
        Ok(())
    }

    /// Returns the target of a row, or `None` if the snapshot does not have the item of the row any
    /// more.
    fn target_of(
        &mut self,
        at: usize,
        kept: Kept<'_>,
        value: &Bytes,
        snapshot: &dyn Snapshot,
    ) -> Result<Option<usize>> {
        let prefix_in = |value: &[u8]| EpkPrefix::try_from(value).map_err(|_| damaged(ROW));
        match kept {
            Kept::OfKey(epk) => Ok(Some(self.routing.of_key(&Epk::from_bytes(epk)))),
            Kept::Item(epk_prefix, number) | Kept::IndexEntry(_, epk_prefix, number) => {
                self.routing.of_item(epk_prefix, number, snapshot)
            }
            Kept::OfItem(number) => self.routing.of_item(prefix_in(value)?, number, snapshot),
            Kept::ItemRest(number) => self.target_of_number(number, snapshot),
            // The first chunk of a version names the partition key; further chunks follow it.
            Kept::Version(version, 0) => {
                let to = self.routing.of_key(&Version::epk_of(value)?);
                self.sources[at].last_version = Some((version, to));
                Ok(Some(to))
            }
            Kept::Version(version, _) => match self.sources[at].last_version {
                Some((last, to)) if last == version => Ok(Some(to)),
                _ => {
                    let (lsn, sequence, number) = version;
                    let first = snapshot.get(&keys::version(lsn, sequence, number, 0));
                    match first.map_err(storage_failure)? {
                        Some(first) => Ok(Some(self.routing.of_key(&Version::epk_of(&first)?))),
                        None => Ok(None),
                    }
                }
            },
            Kept::Own | Kept::Whole | Kept::Path(_) => Ok(None),
        }
    }

    fn target_of_number(
        &self,
        number: ItemNumber,
        snapshot: &dyn Snapshot,
    ) -> Result<Option<usize>> {
        let Some(epk_prefix) = snapshot
            .get(&keys::natural(number))
            .map_err(storage_failure)?
        else {
            return Ok(None);
        };
        let epk_prefix = epk_prefix[..].try_into().map_err(|_| damaged(ROW))?;
        self.routing.of_item(epk_prefix, number, snapshot)
    }

    /// Copies a path of the dictionary to all targets; in a merge under a number of the target.
    fn put_path(&mut self, at: usize, number: PathNumber, key: &[u8], value: &Bytes) -> Result<()> {
        if !self.merges {
            for target in &mut self.targets {
                target.writer.put(key.to_vec(), value.to_vec());
            }
            return Ok(());
        }
        let known = &mut self.sources[at].paths;
        for target in &mut self.targets {
            let imported = target
                .paths
                .import(value, |parent| known.get(&parent).copied());
            let (here, new) = imported.ok_or_else(|| damaged(ROW))?;
            known.insert(number, here);
            if let Some(row) = new {
                target.writer.put(keys::path(here), row);
            }
        }
        Ok(())
    }

    /// Submits the gathered rows of all targets.
    fn flush(&mut self) {
        for target in &mut self.targets {
            target.writer.flush();
        }
    }

    /// Waits until all submitted rows of all targets are durable.
    fn wait_durable(&mut self) -> Result<()> {
        for target in &mut self.targets {
            target.writer.wait_durable()?;
        }
        Ok(())
    }
}

impl Drop for PartitionCopy {
    fn drop(&mut self) {
        for source in &self.sources {
            source.partition.stop_change_capture();
        }
    }
}

impl Source {
    /// Reads the next rows to copy, about [`ROUND_BYTES`] of them.
    fn read_next(&self, snapshot: &dyn Snapshot) -> Result<NextRows> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let Some(from) = &self.cursor else {
            return Ok(NextRows { rows, cursor: None });
        };
        for row in snapshot.scan(
            (Bound::Included(&from[..]), Bound::Unbounded),
            Direction::Forward,
        ) {
            let (key, value) = row.map_err(storage_failure)?;
            if bytes >= ROUND_BYTES {
                return Ok(NextRows {
                    rows,
                    cursor: Some(key.to_vec()),
                });
            }
            bytes += key.len() + value.len();
            rows.push((key, value));
        }
        Ok(NextRows { rows, cursor: None })
    }

    /// Returns the number of a path in the target.
    fn path(&self, merges: bool, path: PathNumber) -> Result<PathNumber> {
        if merges {
            self.paths.get(&path).copied().ok_or_else(|| damaged(ROW))
        } else {
            Ok(path)
        }
    }
}

impl Target {
    /// Counts the row of an index entry once more, or once less if `sign` is -1.
    fn count_entry(&mut self, path: PathNumber, key: &[u8], value: &[u8], sign: i64) {
        let at = path as usize;
        if self.entry_counts.len() <= at {
            self.entry_counts.resize(at + 1, 0);
        }
        let entries = sign * keys::entries_counted(key, value);
        self.entry_counts[at] = self.entry_counts[at].saturating_add_signed(entries);
        let bytes = sign * (key.len() + value.len()) as i64;
        self.counters.index_bytes = self.counters.index_bytes.saturating_add_signed(bytes);
    }

    /// Returns true if a row is copied and durable.
    fn has(&self, key: &[u8]) -> Result<bool> {
        let row = self.writer.snapshot()?.get(key);
        Ok(row.map_err(storage_failure)?.is_some())
    }

    /// Takes an index entry out of the counts if it was copied. Rows of earlier rounds are durable
    /// by now.
    fn forget_entry(&mut self, path: PathNumber, key: &[u8]) -> Result<()> {
        let row = self.writer.snapshot()?.get(key).map_err(storage_failure)?;
        if let Some(value) = row {
            self.count_entry(path, key, &value, -1);
        }
        Ok(())
    }

    /// Takes an item out of the counters if it was copied. Rows of earlier rounds are durable by
    /// now.
    fn forget_item(&mut self, key: &[u8], number: ItemNumber) -> Result<()> {
        let snapshot = self.writer.snapshot()?;
        let get = |key: &[u8]| snapshot.get(key).map_err(storage_failure);
        let Some(first) = get(key)? else {
            return Ok(());
        };
        let size = complete_row(first, number, get)?.size() as u64;
        self.counters.items = self.counters.items.saturating_sub(1);
        self.counters.bytes = self.counters.bytes.saturating_sub(size);
        Ok(())
    }

    /// Submits the last commit, after which the target can serve: counters and the rows for the
    /// partition as a whole, with an LSN of at least `lsn_min`.
    fn finish(
        &mut self,
        lsn_min: u64,
        next_number: ItemNumber,
        partition_rows: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
    ) {
        self.counters.next_number = next_number;
        for (key, value) in summary_rows(self.counters, &self.entry_counts) {
            self.writer.put(key, value);
        }
        for (key, value) in partition_rows {
            self.writer.put(key, value);
        }
        self.writer.submit(lsn_min);
    }
}

/// Returns the policy generations of the sources, which every target gets.
///
/// # Errors
/// 449 if the sources differ in them.
fn generations_of(writers: &[WriterGuard<'_>]) -> Result<PolicyGenerations> {
    let generations = match writers.first() {
        Some(writer) => writer.generations.clone(),
        None => PolicyGenerations::default(),
    };
    if writers
        .iter()
        .any(|writer| writer.generations != generations)
    {
        return Err(Error::new(
            Kind::RetryWith,
            "The index of the partitions is following a new policy. Merge them when it has.",
        ));
    }
    Ok(generations)
}

/// Returns the change of each row below the cursor over all of these commits.
fn net_changes(
    captured: Vec<CapturedCommit>,
    cursor: Option<&[u8]>,
) -> BTreeMap<Vec<u8>, NetChange> {
    let is_copied = |key: &[u8]| cursor.is_none_or(|cursor| key < cursor);
    let mut changes: BTreeMap<Vec<u8>, NetChange> = BTreeMap::new();
    for CapturedCommit { puts, deletes, .. } in captured {
        for key in deletes {
            if is_copied(&key) {
                // Only a row that exists is removed, unless an earlier commit wrote it.
                let change = changes.entry(key).or_insert(NetChange {
                    existed: true,
                    value: None,
                });
                change.value = None;
            }
        }
        for (key, value) in puts {
            if is_copied(&key) {
                let change = changes.entry(key).or_insert(NetChange {
                    existed: false,
                    value: None,
                });
                change.value = Some(value);
            }
        }
    }
    changes
}
