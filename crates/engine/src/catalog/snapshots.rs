//! Snapshots in the catalog: what was there at a moment, under a name, and how it comes back.
//!
//! ```text
//! 23 number·8                    a snapshot: its name, when it was taken, how much it holds
//! 23 number·8 (key of a row)     a row of the catalog as it was then; homes are those of copies
//! ```
//! The rows of a snapshot are written first and its head last, in one commit that frees what an older one of the name
//! had. A restoration writes the rows of the snapshot, with homes of new copies, as those of a new age (`ages.rs`), and
//! one commit begins it. So a process that ends on the way leaves things as they were before or as they are after; homes
//! of copies that belong to no container are marked as orphans before they are filled, and rows without a head are removed before the next
//! snapshot is taken.

use super::ranges::{RANGE, RangeRecord};
use super::records::{Kind, Record};
use super::{Batch, Catalog, RECORD, orphan_key, own_json};
use crate::partition::container_view::ContainerView;
use crate::partition::keys;
use crate::partition::{Partition, Phase, WriteBlock, scan};
use crate::request::SnapshotInfo;
use crate::throughput::ThroughputOptions;
use orrery_model::sync::{lock, write};
use orrery_model::{Error, Json, Kind as ErrorKind, Object, Result, Rid, object};
use orrery_storage::{Direction, PartitionId, Snapshot};
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The first byte of the rows.
const SNAPSHOT: u8 = 0x23;

/// Homes of partitions, each with the home of its copy.
pub type Homes = HashMap<PartitionId, PartitionId>;

/// The catalog and all partitions at one moment.
pub struct Moment {
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Each partition that lives, as it was.
    pub partitions: Vec<(PartitionId, Box<dyn Snapshot>)>,
    taken_ms: u64,
    containers: usize,
    items: u64,
    bytes: u64,
}

/// A snapshot, found.
pub struct Kept {
    number: u64,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// The homes of its partitions, each with the container it is of.
    pub homes: Vec<(PartitionId, Rid)>,
}

/// What a container has reached: nothing that comes after may be below.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// The highest LSN of its partitions.
    pub lsn: u64,
    /// Above every item number.
    pub next_number: u64,
}

/// A catalog that nobody changes, whose partitions nobody writes.
pub struct Stopped<'a> {
    catalog: &'a Catalog,
    partitions: Vec<Arc<Partition>>,
    _still: Vec<WriteBlock<'a>>,
    _writing: MutexGuard<'a, ()>,
}

fn head_key(number: u64) -> Vec<u8> {
    [&[SNAPSHOT][..], &number.to_be_bytes()].concat()
}

fn range_of(number: u64) -> (Vec<u8>, Vec<u8>) {
    let mut first = head_key(number);
    first.push(0);
    (first, keys::after(&head_key(number)))
}

fn head_text(name: &str, moment: &Moment, note: &Object) -> Vec<u8> {
    let head = object! {
        "name" => name, "taken" => moment.taken_ms, "containers" => moment.containers,
        "partitions" => moment.partitions.len(), "items" => moment.items, "bytes" => moment.bytes,
        "note" => note.clone(),
    };
    Json::Object(head).to_text().into_bytes()
}

fn read_head(text: &[u8]) -> Result<SnapshotInfo> {
    let json = own_json(text)?;
    let number = |name: &str| {
        json.get(name)
            .and_then(Json::as_i64)
            .and_then(|n| u64::try_from(n).ok())
    };
    let read = || {
        Some(SnapshotInfo {
            name: json.get("name")?.as_str()?.to_owned(),
            taken_ms: number("taken")?,
            containers: number("containers")?,
            partitions: number("partitions")?,
            items: number("items")?,
            bytes: number("bytes")?,
            note: json.get("note")?.as_object()?.clone(),
        })
    };
    read().ok_or_else(Record::damaged)
}

/// The home that a row of the catalog gives to a partition, and whose it is.
fn home_in(key: &[u8], value: &[u8]) -> Result<Option<(PartitionId, Rid)>> {
    if key.first() != Some(&RANGE) {
        return Ok(None);
    }
    let (container, range) = RangeRecord::read(key, value)?;
    Ok(range.home.map(|home| (home, container)))
}

/// The same row with another home, if it gives one.
fn moved(key: &[u8], value: &[u8], homes: &Homes) -> Result<Vec<u8>> {
    if key.first() != Some(&RANGE) {
        return Ok(value.to_vec());
    }
    let (_, range) = RangeRecord::read(key, value)?;
    let Some(home) = range.home else {
        return Ok(value.to_vec());
    };
    let new = homes.get(&home).copied().ok_or_else(Record::damaged)?;
    Ok(RangeRecord {
        home: Some(new),
        ..range
    }
    .text())
}

/// The row of a container whose life begins in this millisecond: session tokens of other lives say nothing about it.
fn begun(value: &[u8], began: u64) -> Result<Vec<u8>> {
    let mut record = Record::read(value)?;
    record.kept.set("created", began);
    Ok(record.text())
}

impl Stopped<'_> {
    /// What each container has reached.
    ///
    /// # Errors
    /// What the store reports.
    pub fn reached(&self) -> Result<HashMap<Rid, Reached>> {
        let mut all = HashMap::new();
        for container in self.catalog.all_containers() {
            let mut reached = Reached {
                lsn: 0,
                next_number: container.item_number_bound(),
            };
            for partition in container.partitions().iter() {
                reached.lsn = reached
                    .lsn
                    .max(partition.snapshot_in_any_phase()?.head().lsn);
            }
            all.insert(container.rid(), reached);
        }
        Ok(all)
    }

    /// All that is there now.
    ///
    /// # Errors
    /// What the store reports.
    pub fn moment(&self) -> Result<Moment> {
        let rows = self.catalog.rows()?;
        let (mut items, mut bytes, mut partitions) = (0, 0, Vec::new());
        for partition in &self.partitions {
            let snapshot = partition.snapshot_in_any_phase()?;
            let counters = Partition::counters(snapshot.as_ref())?;
            items += counters.items;
            bytes += counters.bytes;
            partitions.push((partition.storage_id, snapshot));
        }
        let (taken_ms, containers) = (
            self.catalog.world.now_ms(),
            self.catalog.all_containers().len(),
        );
        Ok(Moment {
            rows,
            partitions,
            taken_ms,
            containers,
            items,
            bytes,
        })
    }

    /// Ranges that came after the snapshot stay known as ranges that were, in containers that come back: their ids are
    /// not used again.
    fn keep_lineages(&self, batch: &mut Batch) -> Result<()> {
        let mut come: HashMap<Rid, Vec<u32>> = HashMap::new();
        for (key, value) in batch
            .puts
            .iter()
            .filter(|(key, _)| key.first() == Some(&RANGE))
        {
            let (container, range) = RangeRecord::read(key, value)?;
            come.entry(container).or_default().push(range.id);
        }
        let now = self.catalog.world.now_ms();
        for container in self.catalog.all_containers() {
            let Some(come) = come.get(&container.rid()) else {
                continue;
            };
            for range in container
                .lineage()
                .values()
                .filter(|range| !come.contains(&range.id))
            {
                let until_ms = range.until_ms.or(Some(now));
                batch.put_range(
                    container.rid(),
                    &RangeRecord {
                        home: None,
                        until_ms,
                        ..range.clone()
                    },
                );
            }
        }
        Ok(())
    }

    /// Puts a snapshot in the place of everything, with `homes` for its partitions; nothing at all without one.
    ///
    /// # Errors
    /// What the store reports; nothing has changed then.
    pub fn become_of(self, kept: Option<(&Kept, &Homes)>) -> Result<()> {
        let catalog = self.catalog;
        catalog.forget_other_ages()?;
        let rows = self.rows_of(kept)?;
        // Made before the commit, so that nothing can fail after it.
        let fresh = catalog.like(&rows)?;
        let age = catalog.age() + 1;
        catalog.write_age(age, &rows)?;
        let mut batch = Batch::default();
        batch.begin_age(age);
        if let Some((_, homes)) = kept {
            batch
                .deletes
                .extend(homes.values().map(|home| orphan_key(home.0)));
        }
        self.partitions
            .iter()
            .for_each(|partition| batch.mark_orphan(partition.storage_id));
        catalog.commit(batch)?;
        catalog.enter_age(age);
        catalog.become_like(fresh);
        // In this order: whoever finds one gone finds those that came.
        self.partitions
            .iter()
            .for_each(|partition| partition.set_phase(Phase::Gone));
        catalog.queue_orphans(
            self.partitions
                .iter()
                .map(|partition| partition.storage_id.0)
                .collect(),
        );
        // The restoration has taken place; what cannot be removed now is before the next one.
        let _ = catalog.forget_other_ages();
        Ok(())
    }

    /// The rows of the catalog when a snapshot is in the place of everything; none without one.
    fn rows_of(&self, kept: Option<(&Kept, &Homes)>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let Some((kept, homes)) = kept else {
            return Ok(Vec::new());
        };
        let mut batch = Batch::default();
        // Lives of containers are told apart by when they began, and listed by it.
        let newest = self
            .catalog
            .all_containers()
            .iter()
            .map(|container| container.created())
            .max();
        let mut began = self
            .catalog
            .world
            .now_ms()
            .max(newest.map_or(0, |newest| newest + 1));
        let (mut containers, others): (Vec<_>, Vec<_>) =
            kept.rows.iter().partition(|(key, _)| is_container(key));
        containers.sort_by_key(|(_, value)| created_of(value));
        for (key, value) in others {
            batch.puts.push((key.clone(), moved(key, value, homes)?));
        }
        for (key, value) in containers {
            batch.puts.push((key.clone(), begun(value, began)?));
            began += 1;
        }
        self.keep_lineages(&mut batch)?;
        Ok(batch.puts)
    }
}

fn is_container(key: &[u8]) -> bool {
    key.get(..2) == Some(&[RECORD, Kind::Container as u8])
}

/// The millisecond in which a container was created; 0 for a row that makes no sense, which is noticed elsewhere.
fn created_of(row: &[u8]) -> u64 {
    let created = Record::read(row)
        .ok()
        .and_then(|record| record.kept.get("created").and_then(Json::as_i64));
    created
        .and_then(|created| u64::try_from(created).ok())
        .unwrap_or(0)
}

impl Catalog {
    /// Keeps everybody from changing the catalog and from writing to partitions, until the result is gone. What was
    /// accepted before is durable then.
    ///
    /// # Errors
    /// What the store reports.
    pub fn stop<T>(&self, work: impl FnOnce(Stopped<'_>) -> Result<T>) -> Result<T> {
        let writing = lock(&self.writing);
        let partitions: Vec<Arc<Partition>> = self
            .all_containers()
            .iter()
            .flat_map(|container| container.partitions().to_vec())
            .collect();
        // The guards borrow from a list of their own, which outlives them.
        let held = partitions.clone();
        let still = held
            .iter()
            .map(|partition| partition.block_writes())
            .collect();
        self.home.sync()?;
        work(Stopped {
            catalog: self,
            partitions,
            _still: still,
            _writing: writing,
        })
    }

    /// Another catalog on the same store, in memory only, of these rows.
    fn like(&self, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<Catalog> {
        let options = ThroughputOptions {
            burst_capacity: self.bursts,
            ..ThroughputOptions::default()
        };
        let like = Catalog::empty(Arc::clone(&self.store), Arc::clone(&self.world), options);
        like.fill(rows.iter().map(|(key, value)| (&key[..], &value[..])))?;
        Ok(like)
    }

    /// Takes over what another has in memory.
    fn become_like(&self, other: Catalog) {
        let mut fresh = other
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let shared = other
            .shared
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = write(&self.state);
        fresh.last_home = fresh.last_home.max(state.last_home);
        *state = fresh;
        *lock(&self.shared) = shared;
    }

    /// Empty homes for copies of these. They are orphans until a commit takes them in.
    ///
    /// # Errors
    /// What the store reports.
    pub fn homes_for(&self, homes: impl ExactSizeIterator<Item = PartitionId>) -> Result<Homes> {
        let copies = self.new_homes(homes.len())?;
        Ok(homes.zip(copies).collect())
    }

    /// The snapshots there are, by name.
    ///
    /// # Errors
    /// What the store reports.
    pub fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        let mut all: Vec<SnapshotInfo> = self.heads()?.into_iter().map(|(_, head)| head).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    fn heads(&self) -> Result<Vec<(u64, SnapshotInfo)>> {
        let snapshot = self.home.snapshot()?;
        let mut heads = Vec::new();
        for row in scan(
            snapshot.as_ref(),
            &keys::tagged(SNAPSHOT),
            Direction::Forward,
        ) {
            let (key, value) = row?;
            if key.len() == head_key(0).len() {
                heads.push((
                    keys::number(&key[1..]).ok_or_else(Record::damaged)?,
                    read_head(&value)?,
                ));
            }
        }
        Ok(heads)
    }

    /// The snapshot of this name.
    ///
    /// # Errors
    /// 404; what the store reports.
    pub fn kept(&self, name: &str) -> Result<Kept> {
        let found = self
            .heads()?
            .into_iter()
            .find(|(_, head)| head.name == name);
        let (number, _) = found.ok_or_else(|| missing(name))?;
        self.read_kept(number)
    }

    fn read_kept(&self, number: u64) -> Result<Kept> {
        let prefix = head_key(number).len();
        let snapshot = self.home.snapshot()?;
        let (mut rows, mut homes) = (Vec::new(), Vec::new());
        for row in scan(snapshot.as_ref(), &range_of(number), Direction::Forward) {
            let (key, value) = row?;
            homes.extend(home_in(&key[prefix..], &value)?);
            rows.push((key[prefix..].to_vec(), value.to_vec()));
        }
        Ok(Kept {
            number,
            rows,
            homes,
        })
    }

    /// Keeps a moment under a name, with the homes of its partitions' copies; an older snapshot of the name goes.
    ///
    /// # Errors
    /// What the store reports; nothing has changed then.
    pub fn keep(&self, name: &str, moment: &Moment, homes: &Homes, note: &Object) -> Result<()> {
        let _writing = lock(&self.writing);
        let heads = self.heads()?;
        let number = heads.iter().map(|(number, _)| *number).max().unwrap_or(0) + 1;
        self.forget_rows(&heads.iter().map(|(number, _)| *number).collect::<Vec<_>>())?;
        let row = |(key, value): &(Vec<u8>, Vec<u8>)| -> Result<_> {
            Ok((
                [head_key(number), key.clone()].concat(),
                Some(moved(key, value, homes)?),
            ))
        };
        self.commit_in_pieces(moment.rows.iter().map(row))?;
        let mut batch = Batch::default();
        batch
            .puts
            .push((head_key(number), head_text(name, moment, note)));
        batch
            .deletes
            .extend(homes.values().map(|home| orphan_key(home.0)));
        let older = heads
            .iter()
            .find(|(_, head)| head.name == name)
            .map(|(number, _)| self.read_kept(*number));
        let freed = older
            .transpose()?
            .map_or_else(Vec::new, |older| free(&older, &mut batch));
        self.commit(batch)?;
        self.queue_orphans(freed);
        Ok(())
    }

    /// Deletes a snapshot.
    ///
    /// # Errors
    /// 404; what the store reports.
    pub fn delete_snapshot(&self, name: &str) -> Result<()> {
        let _writing = lock(&self.writing);
        let kept = self.kept(name)?;
        let mut batch = Batch::default();
        let freed = free(&kept, &mut batch);
        self.commit(batch)?;
        self.queue_orphans(freed);
        let heads = self.heads()?;
        self.forget_rows(&heads.iter().map(|(number, _)| *number).collect::<Vec<_>>())
    }

    /// Removes rows of snapshots that have no head: of those that were deleted, or never came to their end.
    fn forget_rows(&self, numbers: &[u64]) -> Result<()> {
        let snapshot = self.home.snapshot()?;
        let rows = scan(
            snapshot.as_ref(),
            &keys::tagged(SNAPSHOT),
            Direction::Forward,
        );
        let number = |key: &[u8]| {
            key.get(1..9)
                .and_then(keys::number)
                .ok_or_else(Record::damaged)
        };
        let headless = rows.filter_map(|row| {
            let row = row.and_then(|(key, _)| Ok((number(&key)?, key)));
            row.map(|(number, key)| (!numbers.contains(&number)).then(|| (key.to_vec(), None)))
                .transpose()
        });
        self.commit_in_pieces(headless)
    }

    /// The last home that a snapshot has.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) fn last_kept_home(&self) -> Result<u64> {
        let mut last = 0;
        for (number, _) in self.heads()? {
            let homes = self.read_kept(number)?.homes;
            last = homes.iter().map(|(home, _)| home.0).fold(last, u64::max);
        }
        Ok(last)
    }
}

/// The head of a snapshot goes, and its homes become orphans; which they are.
fn free(kept: &Kept, batch: &mut Batch) -> Vec<u64> {
    batch.deletes.push(head_key(kept.number));
    kept.homes
        .iter()
        .for_each(|(home, _)| batch.mark_orphan(*home));
    kept.homes.iter().map(|(home, _)| home.0).collect()
}

fn missing(name: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("There is no snapshot '{name}'."),
    )
}
