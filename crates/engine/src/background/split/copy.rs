//! Copying the rows of some partitions into those that take their place, while they are read and written.
//!
//! A source is copied in rounds, in the order of its keys. Each round takes a new snapshot, first brings what it copied
//! before up to that snapshot (from what the writer recorded meanwhile), then copies the next rows as the snapshot has
//! them. So after each round the targets have exactly the rows below the cursor as of one moment, no snapshot is held
//! for long, and memory holds two rounds: one that the store is writing, and the next, which is read meanwhile. When all
//! is copied the source's writer is held for a last round, which is short.
//!
//! Rows keep their bytes but for two: where dictionaries of paths meet in a merge, index terms get the path's number in
//! the target. LSNs stay, so positions in the change feed stay what they were; a target's own LSNs go on above those of
//! all its sources.

use super::routing::Routing;
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::index::generations::PolicyGenerations;
use crate::index::paths::{Paths, ROOT};
use crate::partition::change_capture::CapturedCommit;
use crate::partition::container_view::ContainerView;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, Kept, PathNumber};
use crate::partition::row_reader::complete_row;
use crate::partition::staging::StagingWriter;
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

/// Bytes of rows that a round copies: clients' commits wait about as long as it takes to write them.
const ROUND_BYTES: usize = 64 << 10;

/// A copy under way.
pub struct PartitionCopy {
    store: Arc<dyn Store>,
    sources: Vec<Source>,
    targets: Vec<Target>,
    routing: Routing,
    /// Whether the sources' paths get new numbers: several dictionaries become one.
    merges: bool,
    /// Bytes of rows copied so far.
    pub copied_bytes: u64,
}

struct Source {
    partition: Arc<Partition>,
    /// Rows below are copied; `None`: all are.
    cursor: Option<Vec<u8>>,
    paths: HashMap<PathNumber, PathNumber>,
    /// Where the last version that was copied went, for its further chunks.
    last_version: Option<(keys::VersionAt, usize)>,
}

struct Target {
    range: EpkRange,
    writer: StagingWriter,
    counters: Counters,
    counts: Vec<u64>,
    paths: Paths,
}

/// Rows of a source that were read and are to be copied.
struct Ahead {
    rows: Vec<(Bytes, Bytes)>,
    /// Where the next begin; `None`: these were the last.
    cursor: Option<Vec<u8>>,
}

/// A row as it was and shall be, over several commits.
struct Folded {
    /// Whether it was there before the first of them.
    existed: bool,
    value: Option<Vec<u8>>,
}

impl PartitionCopy {
    /// Begins to follow the sources. The homes of the targets are empty and belong to nobody.
    ///
    /// # Errors
    /// 409 if a source is being split or merged already; 410 if it is gone; what the store reports.
    pub fn begin(
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
        // What was written before the recordings began is in every snapshot from here on.
        this.store.sync().map_err(storage_failure)?;
        for (home, range) in targets {
            let writer = StagingWriter::open(store, world, *home)?;
            let (counters, counts, paths) = Default::default();
            this.targets.push(Target {
                range: range.clone(),
                writer,
                counters,
                counts,
                paths,
            });
        }
        Ok(this)
    }

    /// Where the targets lie, and their stretches.
    pub fn targets(&self) -> Vec<(PartitionId, EpkRange)> {
        self.targets
            .iter()
            .map(|target| (target.writer.storage_id(), target.range.clone()))
            .collect()
    }

    /// One round; whether all that was there when it began is copied.
    ///
    /// # Errors
    /// 449 if what was written meanwhile could not be followed; what the store reports.
    pub fn round(&mut self) -> Result<bool> {
        self.store.wait_for_compaction();
        let next = self
            .sources
            .iter()
            .position(|source| source.cursor.is_some());
        for at in 0..self.sources.len() {
            let snapshot = self.sources[at].partition.snapshot_in_any_phase()?;
            // Read while the store is still at what the round before handed over.
            let ahead = (next == Some(at))
                .then(|| self.sources[at].read_on(snapshot.as_ref()))
                .transpose()?;
            self.settle()?;
            self.follow(at, snapshot.as_ref())?;
            if let Some(ahead) = ahead {
                self.copy(at, ahead, snapshot.as_ref())?;
            }
        }
        self.hand_over();
        Ok(self.sources.iter().all(|source| source.cursor.is_none()))
    }

    /// The last round, with the sources' writers held: afterwards the targets have everything. Their LSNs are above all
    /// of the sources'.
    ///
    /// # Errors
    /// As for [`PartitionCopy::round`]; 449 if an index follows a new policy in one source and not in the other.
    pub fn finish(&mut self, container: &Container, held: &[WriterGuard<'_>]) -> Result<()> {
        self.store.sync().map_err(storage_failure)?;
        self.settle()?;
        for (at, writer) in held.iter().enumerate() {
            let snapshot = self.sources[at].partition.snapshot_in_any_phase()?;
            if snapshot.head().lsn != writer.lsn {
                return Err(Error::internal(
                    "a partition's last commits are not durable",
                ));
            }
            self.follow(at, snapshot.as_ref())?;
        }
        let whole = whole_rows(held)?;
        self.hand_over();
        let least = held.iter().map(|writer| writer.lsn).max().unwrap_or(0);
        self.targets
            .iter_mut()
            .for_each(|target| target.conclude(least, container.item_number_bound(), &whole));
        self.settle()
    }

    /// The LSN up to which changes in the target stand in the order of several histories.
    pub fn mixed_until(&self) -> u64 {
        let before = self
            .sources
            .iter()
            .map(|source| source.partition.mixed_until)
            .max()
            .unwrap_or(0);
        if self.merges {
            self.targets
                .iter()
                .map(|target| target.writer.lsn())
                .max()
                .unwrap_or(before)
        } else {
            before
        }
    }

    /// The sources, in order.
    pub fn sources(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.sources.iter().map(|source| &source.partition)
    }

    /// Brings what is copied of a source up to a snapshot.
    fn follow(&mut self, at: usize, snapshot: &dyn Snapshot) -> Result<()> {
        let recorded = self.sources[at]
            .partition
            .take_captured(snapshot.head().lsn)?;
        let cursor = self.sources[at].cursor.clone();
        for (key, folded) in fold(recorded, cursor.as_deref()) {
            match folded.value {
                Some(value) => self.put(at, &key, &value.into(), Some(folded.existed), snapshot)?,
                None => self.delete(at, &key, folded.existed)?,
            }
        }
        Ok(())
    }

    /// Copies the next rows of a source.
    fn copy(&mut self, at: usize, ahead: Ahead, snapshot: &dyn Snapshot) -> Result<()> {
        for (key, value) in ahead.rows {
            self.copied_bytes += (key.len() + value.len()) as u64;
            self.put(at, &key, &value, None, snapshot)?;
        }
        self.sources[at].cursor = ahead.cursor;
        Ok(())
    }

    /// A row of a source is there. `existed`: whether it was, if it is not copied for the first time.
    fn put(
        &mut self,
        at: usize,
        key: &[u8],
        value: &Bytes,
        existed: Option<bool>,
        snapshot: &dyn Snapshot,
    ) -> Result<()> {
        let kept = keys::kept(key).ok_or_else(damaged)?;
        match kept {
            Kept::Own | Kept::Whole => return Ok(()),
            Kept::Path(number) => return self.put_path(at, number, key, value),
            _ => {}
        }
        // What a later commit took away again needs no place.
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
            Kept::Term(path, ..) => {
                let path = self.sources[at].path(self.merges, path)?;
                target.count_term(path, key.len(), i64::from(!existed.unwrap_or(false)));
                target
                    .writer
                    .put(keys::with_path(key, path), value.to_vec());
            }
            _ => target.writer.put(key.to_vec(), value.to_vec()),
        }
        Ok(())
    }

    /// A row of a source is gone.
    fn delete(&mut self, at: usize, key: &[u8], existed: bool) -> Result<()> {
        let kept = keys::kept(key).ok_or_else(damaged)?;
        let to = match kept {
            Kept::Own | Kept::Whole | Kept::Path(_) => return Ok(()),
            Kept::OfKey(epk) => Some(self.routing.of_key(&Epk::from_bytes(epk))),
            Kept::Item(epk_prefix, _) | Kept::Term(_, epk_prefix, _) => {
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
                Kept::Term(path, ..) => {
                    let path = self.sources[at].path(self.merges, path)?;
                    let key = keys::with_path(key, path);
                    let was_here = existed && (to.is_some() || target.has(&key)?);
                    target.count_term(path, key.len(), -i64::from(was_here));
                    target.writer.delete(key);
                }
                _ => target.writer.delete(key.to_vec()),
            }
        }
        Ok(())
    }

    /// Which target a row goes to; `None` if the snapshot has no item to it any more.
    fn target_of(
        &mut self,
        at: usize,
        kept: Kept<'_>,
        value: &Bytes,
        snapshot: &dyn Snapshot,
    ) -> Result<Option<usize>> {
        let place_in = |value: &[u8]| EpkPrefix::try_from(value).map_err(|_| damaged());
        match kept {
            Kept::OfKey(epk) => Ok(Some(self.routing.of_key(&Epk::from_bytes(epk)))),
            Kept::Item(epk_prefix, number) | Kept::Term(_, epk_prefix, number) => {
                self.routing.of_item(epk_prefix, number, snapshot)
            }
            Kept::OfItem(number) => self.routing.of_item(place_in(value)?, number, snapshot),
            Kept::ItemRest(number) => self.of_number(number, snapshot),
            Kept::Version(version, 0) => {
                let to = self.routing.of_key(&Version::epk_of(value)?);
                self.sources[at].last_version = Some((version, to));
                Ok(Some(to))
            }
            Kept::Version(version, _) => match self.sources[at].last_version {
                Some((last, to)) if last == version => Ok(Some(to)),
                _ => {
                    let (lsn, sequence, number) = version;
                    let first = snapshot
                        .get(&keys::version(lsn, sequence, number, 0))
                        .map_err(storage_failure)?;
                    first
                        .map(|first| Ok(self.routing.of_key(&Version::epk_of(&first)?)))
                        .transpose()
                }
            },
            Kept::Own | Kept::Whole | Kept::Path(_) => Ok(None),
        }
    }

    fn of_number(&self, number: ItemNumber, snapshot: &dyn Snapshot) -> Result<Option<usize>> {
        let Some(epk_prefix) = snapshot
            .get(&keys::natural(number))
            .map_err(storage_failure)?
        else {
            return Ok(None);
        };
        let epk_prefix = epk_prefix[..].try_into().map_err(|_| damaged())?;
        self.routing.of_item(epk_prefix, number, snapshot)
    }

    /// A path of the dictionary goes to all targets, under a number of theirs in a merge.
    fn put_path(&mut self, at: usize, number: PathNumber, key: &[u8], value: &Bytes) -> Result<()> {
        if !self.merges {
            self.targets
                .iter_mut()
                .for_each(|target| target.writer.put(key.to_vec(), value.to_vec()));
            return Ok(());
        }
        let known = &mut self.sources[at].paths;
        for target in &mut self.targets {
            let adopted = target
                .paths
                .adopt(value, |parent| known.get(&parent).copied());
            known.insert(number, adopted.ok_or_else(damaged)?);
            let rows = target.paths.take_unsaved();
            rows.into_iter()
                .for_each(|(number, row)| target.writer.put(keys::path(number), row));
        }
        Ok(())
    }

    /// Gives the store what was gathered; it is durable when [`PartitionCopy::settle`] says so.
    fn hand_over(&mut self) {
        self.targets
            .iter_mut()
            .for_each(|target| target.writer.flush());
    }

    fn settle(&mut self) -> Result<()> {
        self.targets
            .iter_mut()
            .try_for_each(|target| target.writer.wait_durable())
    }
}

impl Drop for PartitionCopy {
    fn drop(&mut self) {
        self.sources
            .iter()
            .for_each(|source| source.partition.stop_change_capture());
    }
}

impl Source {
    /// The next rows to copy, and the cursor behind them.
    fn read_on(&self, snapshot: &dyn Snapshot) -> Result<Ahead> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let Some(from) = &self.cursor else {
            return Ok(Ahead { rows, cursor: None });
        };
        for row in snapshot.scan(
            (Bound::Included(&from[..]), Bound::Unbounded),
            Direction::Forward,
        ) {
            let (key, value) = row.map_err(storage_failure)?;
            if bytes >= ROUND_BYTES {
                return Ok(Ahead {
                    rows,
                    cursor: Some(key.to_vec()),
                });
            }
            bytes += key.len() + value.len();
            rows.push((key, value));
        }
        Ok(Ahead { rows, cursor: None })
    }

    /// The number that a path has in the target.
    fn path(&self, merges: bool, path: PathNumber) -> Result<PathNumber> {
        if merges {
            self.paths.get(&path).copied().ok_or_else(damaged)
        } else {
            Ok(path)
        }
    }
}

impl Target {
    /// So many terms of a path more or fewer, with keys of so many bytes.
    fn count_term(&mut self, path: PathNumber, bytes: usize, change: i64) {
        let at = path as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add_signed(change);
        self.counters.index_bytes = self
            .counters
            .index_bytes
            .saturating_add_signed(change * bytes as i64);
    }

    fn has(&self, key: &[u8]) -> Result<bool> {
        Ok(self
            .writer
            .snapshot()?
            .get(key)
            .map_err(storage_failure)?
            .is_some())
    }

    /// An item that may have been copied counts no more. What was copied in earlier rounds is durable by now.
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

    /// Hands over the commit that makes it a partition.
    fn conclude(&mut self, least_lsn: u64, next_number: ItemNumber, whole: &[(Vec<u8>, Vec<u8>)]) {
        self.counters.next_number = next_number;
        let rows = summary_rows(self.counters, &self.counts)
            .into_iter()
            .chain(whole.iter().cloned());
        rows.for_each(|(key, value)| self.writer.put(key, value));
        self.writer.submit(least_lsn);
    }
}

/// The rows that hold for a partition as a whole. One target has one of each for all its items.
///
/// # Errors
/// 449 if the sources do not agree on which items follow which policy.
fn whole_rows(held: &[WriterGuard<'_>]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let generations = held
        .first()
        .map_or_else(PolicyGenerations::default, |writer| {
            writer.generations.clone()
        });
    if held.iter().any(|writer| writer.generations != generations) {
        return Err(Error::new(
            Kind::RetryWith,
            "The index of the partitions is following a new policy. Merge them when it has.",
        ));
    }
    let mut rows = vec![(keys::policy_generations(), generations.encode())];
    // Nothing is missing behind the latest of them; where one says nothing, the first commit of the target will.
    let floors: Option<Vec<u64>> = held.iter().map(|writer| writer.versions_after).collect();
    let floor = floors.and_then(|floors| floors.into_iter().max());
    rows.extend(floor.map(|lsn| (keys::versions_floor(), lsn.to_be_bytes().to_vec())));
    Ok(rows)
}

/// What several commits together make of each row below the cursor.
fn fold(recorded: Vec<CapturedCommit>, cursor: Option<&[u8]>) -> BTreeMap<Vec<u8>, Folded> {
    let mut folded: BTreeMap<Vec<u8>, Folded> = BTreeMap::new();
    let copied = |key: &Vec<u8>| cursor.is_none_or(|cursor| key[..] < *cursor);
    for CapturedCommit { puts, deletes, .. } in recorded {
        for key in deletes.into_iter().filter(copied) {
            folded
                .entry(key)
                .or_insert(Folded {
                    existed: true,
                    value: None,
                })
                .value = None;
        }
        for (key, value) in puts.into_iter().filter(|(key, _)| copied(key)) {
            folded
                .entry(key)
                .or_insert(Folded {
                    existed: false,
                    value: None,
                })
                .value = Some(value);
        }
    }
    folded
}

fn damaged() -> Error {
    Error::internal("a row of a partition is damaged")
}
