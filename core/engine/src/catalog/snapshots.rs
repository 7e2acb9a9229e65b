//! Snapshots of the whole account in the catalog: capture, storage, restoration and deletion.
//!
//! ```text
//! 23 number·8                    head of a snapshot: name, time, sizes
//! 23 number·8 (key of a row)     a row of the catalog as it was; storage ids are those of copies
//! ```
//! The rows of a snapshot are written first. Its head is written last, in one commit that also
//! deletes the head of an older snapshot of the same name.
//!
//! A restoration writes the rows of the snapshot, with the storage ids of new copies, as a new row
//! set (`row_sets.rs`), and makes the set current in one commit. So a process that ends on the way
//! leaves the state before or the state after. Key spaces of copies are orphans until a commit uses
//! them, and rows without a head are deleted before the next snapshot is stored.

use super::ranges::{RANGE, RangeRecord};
use super::records::{Kind, Record, as_u64};
use super::{Catalog, RECORD, Row, RowChanges, chunks, orphan_key, parse_stored};
use crate::container::view::ContainerView;
use crate::errors::storage_failure;
use crate::partition::keys;
use crate::partition::{Partition, Phase, WriteBlock, scan};
use crate::request::SnapshotInfo;
use crate::throughput::ThroughputOptions;
use bytes::Bytes;
use orrery_model::sync::{lock, write};
use orrery_model::{Error, Json, Kind as ErrorKind, Object, Result, Rid, object};
use orrery_storage::{Direction, PartitionId, Snapshot};
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

/// The first byte of the keys.
const SNAPSHOT: u8 = 0x23;

/// The storage id of each partition with the storage id of its copy.
pub(crate) type CopyIds = HashMap<PartitionId, PartitionId>;

/// The catalog and all partitions at one moment.
pub(crate) struct CapturedState {
    rows: Vec<Row>,
    /// A store snapshot of each live partition.
    pub partitions: Vec<(PartitionId, Box<dyn Snapshot>)>,
    taken_ms: u64,
    containers: usize,
    items: u64,
    bytes: u64,
}

/// A snapshot that was read from the catalog.
pub(crate) struct StoredSnapshot {
    number: u64,
    rows: Vec<Row>,
    /// The storage ids of its partitions, each with the resource id of its container.
    pub partitions: Vec<(PartitionId, Rid)>,
}

/// Bounds of the numbers that a container has used. A restored history continues above them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HighWaterMarks {
    /// The highest LSN of the container's partitions.
    pub lsn: u64,
    /// A number above every item number.
    pub next_number: u64,
}

/// The catalog while neither the catalog nor any partition accepts writes.
pub(crate) struct BlockedCatalog<'a> {
    catalog: &'a Catalog,
    partitions: Vec<Arc<Partition>>,
    _write_blocks: Vec<WriteBlock<'a>>,
}

/// Returns the key of the head of a snapshot, which is also the prefix of the keys of its rows.
fn head_key(number: u64) -> Vec<u8> {
    [&[SNAPSHOT][..], &number.to_be_bytes()].concat()
}

/// Returns the key range of the rows of a snapshot, without its head.
fn key_range(number: u64) -> (Vec<u8>, Vec<u8>) {
    let mut first = head_key(number);
    first.push(0);
    (first, keys::after(&head_key(number)))
}

/// Returns the rows of all snapshots, complete ones or not, with the keys that the rows had.
pub(super) fn rows_of_snapshots(
    catalog: &dyn Snapshot,
) -> impl Iterator<Item = Result<(Bytes, Bytes)>> {
    let prefix_length = head_key(0).len();
    let rows = scan(catalog, &keys::tagged(SNAPSHOT), Direction::Forward);
    // The head of a snapshot has an empty rest of a key, which no row has.
    rows.map(move |row| {
        let (key, value) = row?;
        let rest = key.get(prefix_length..).ok_or_else(Record::damaged)?;
        Ok((key.slice_ref(rest), value))
    })
}

fn head_text(name: &str, captured: &CapturedState, note: &Object) -> Vec<u8> {
    let head = object! {
        "name" => name,
        "taken" => captured.taken_ms,
        "containers" => captured.containers,
        "partitions" => captured.partitions.len(),
        "items" => captured.items,
        "bytes" => captured.bytes,
        "note" => note.clone(),
    };
    Json::Object(head).to_text().into_bytes()
}

fn read_head(text: &[u8]) -> Result<SnapshotInfo> {
    let json = parse_stored(text)?;
    head_from_json(&json).ok_or_else(Record::damaged)
}

fn head_from_json(json: &Json) -> Option<SnapshotInfo> {
    let number = |name: &str| json.get(name).and_then(as_u64);
    Some(SnapshotInfo {
        name: json.get("name")?.as_str()?.to_owned(),
        taken_ms: number("taken")?,
        containers: number("containers")?,
        partitions: number("partitions")?,
        items: number("items")?,
        bytes: number("bytes")?,
        note: json.get("note")?.as_object()?.clone(),
    })
}

/// Returns the storage id and the container of a row of a live partition; `None` for other rows.
pub(super) fn live_partition(key: &[u8], value: &[u8]) -> Result<Option<(PartitionId, Rid)>> {
    if key.first() != Some(&RANGE) {
        return Ok(None);
    }
    let (container, range) = RangeRecord::read(key, value)?;
    Ok(range.storage_id.map(|storage_id| (storage_id, container)))
}

/// Returns the value of a row after its storage id, if it has one, is replaced by that of the copy.
fn with_copy_id(key: &[u8], value: &[u8], copies: &CopyIds) -> Result<Vec<u8>> {
    if key.first() != Some(&RANGE) {
        return Ok(value.to_vec());
    }
    let (_, range) = RangeRecord::read(key, value)?;
    let Some(storage_id) = range.storage_id else {
        return Ok(value.to_vec());
    };
    let copy = copies.get(&storage_id).copied();
    let copied = RangeRecord {
        storage_id: Some(copy.ok_or_else(Record::damaged)?),
        ..range
    };
    Ok(copied.text())
}

/// Returns the row of a container with another creation time. The time is the version in session
/// tokens, so tokens from before the restoration demand nothing of the restored container.
fn with_creation_time(value: &[u8], created_ms: u64) -> Result<Vec<u8>> {
    let mut record = Record::read(value)?;
    record.internal.set("created", created_ms);
    Ok(record.text())
}

impl BlockedCatalog<'_> {
    /// Returns the high water marks of each container.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn high_water_marks(&self) -> Result<HashMap<Rid, HighWaterMarks>> {
        let mut all = HashMap::new();
        for container in self.catalog.all_containers() {
            let mut lsn = 0;
            for partition in container.partitions().iter() {
                lsn = lsn.max(partition.snapshot_in_any_phase()?.head().lsn);
            }
            let marks = HighWaterMarks {
                lsn,
                next_number: container.item_number_bound()?,
            };
            all.insert(container.rid(), marks);
        }
        Ok(all)
    }

    /// Captures the catalog and a store snapshot of every live partition.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn capture(&self) -> Result<CapturedState> {
        let mut captured = CapturedState {
            rows: self.catalog.rows()?,
            partitions: Vec::new(),
            taken_ms: self.catalog.world.now_ms(),
            containers: self.catalog.all_containers().len(),
            items: 0,
            bytes: 0,
        };
        for partition in &self.partitions {
            let snapshot = partition.snapshot_in_any_phase()?;
            let counters = Partition::counters(snapshot.as_ref())?;
            captured.items += counters.items;
            captured.bytes += counters.bytes;
            captured.partitions.push((partition.storage_id, snapshot));
        }
        Ok(captured)
    }

    /// Adds the rows of partitions that were created after the snapshot, as ancestors without a key
    /// space. So the restored containers never use the range ids of these partitions again.
    fn retain_newer_ranges(&self, changes: &mut RowChanges) -> Result<()> {
        let mut restored_ids: HashMap<Rid, Vec<u32>> = HashMap::new();
        for (key, value) in &changes.puts {
            if key.first() == Some(&RANGE) {
                let (container, range) = RangeRecord::read(key, value)?;
                restored_ids.entry(container).or_default().push(range.id);
            }
        }

        let now = self.catalog.world.now_ms();
        for container in self.catalog.all_containers() {
            let Some(restored_ids) = restored_ids.get(&container.rid()) else {
                continue;
            };
            for range in container.lineage().values() {
                if restored_ids.contains(&range.id) {
                    continue;
                }
                let ancestor = RangeRecord {
                    storage_id: None,
                    until_ms: range.until_ms.or(Some(now)),
                    ..RangeRecord::clone(range)
                };
                changes.put_range(container.rid(), &ancestor);
            }
        }
        Ok(())
    }

    /// Replaces all resources by those of a snapshot, whose partitions have the given copies.
    /// Without a snapshot, deletes all resources.
    ///
    /// # Errors
    /// The store's error. Nothing has changed then.
    pub(crate) fn replace_all(self, restored: Option<(&StoredSnapshot, &CopyIds)>) -> Result<()> {
        let catalog = self.catalog;
        catalog.delete_other_row_sets()?;
        let rows = match restored {
            Some((snapshot, copies)) => self.restored_rows(snapshot, copies)?,
            None => Vec::new(),
        };
        // The new state is built before the commit, because nothing may fail after the commit.
        let new_catalog = catalog.in_memory_copy(&rows)?;

        // The rows may exceed the size of a commit, so they are written as a row set of their own.
        let row_set = catalog.row_set() + 1;
        catalog.write_row_set(row_set, &rows)?;

        // One commit makes the row set current and exchanges the orphans.
        let mut changes = RowChanges::default();
        changes.make_current(row_set);
        if let Some((_, copies)) = restored {
            for copy in copies.values() {
                changes.deletes.push(orphan_key(*copy));
            }
        }
        for partition in &self.partitions {
            changes.mark_orphan(partition.storage_id);
        }
        catalog.commit(changes)?;
        catalog.use_row_set(row_set);
        catalog.adopt_state(new_catalog);

        // A request that finds a partition gone looks it up again, so the new state must be visible
        // before the phases change.
        let mut replaced = Vec::new();
        for partition in &self.partitions {
            partition.set_phase(Phase::Gone);
            replaced.push(partition.storage_id);
        }
        catalog.queue_orphans(replaced);
        // The restoration is complete. Rows that cannot be deleted now are deleted by the next
        // restoration or the next open.
        let _ = catalog.delete_other_row_sets();
        Ok(())
    }

    /// Returns the rows of the catalog after a restoration.
    fn restored_rows(&self, snapshot: &StoredSnapshot, copies: &CopyIds) -> Result<Vec<Row>> {
        let mut changes = RowChanges::default();
        let (mut containers, others): (Vec<_>, Vec<_>) = snapshot
            .rows
            .iter()
            .partition(|(key, _)| is_container_row(key));
        for (key, value) in others {
            let value = with_copy_id(key, value, copies)?;
            changes.puts.push((key.clone(), value));
        }

        // Creation times order the containers and distinguish a restored container from its earlier
        // versions, so each gets a new time above all earlier ones, in the old order.
        let newest = self
            .catalog
            .all_containers()
            .iter()
            .map(|c| c.created())
            .max();
        let mut created_ms = self.catalog.world.now_ms();
        if let Some(newest) = newest {
            created_ms = created_ms.max(newest + 1);
        }
        containers.sort_by_key(|(_, value)| created_of(value));
        for (key, value) in containers {
            let value = with_creation_time(value, created_ms)?;
            changes.puts.push((key.clone(), value));
            created_ms += 1;
        }
        self.retain_newer_ranges(&mut changes)?;
        Ok(changes.puts)
    }
}

fn is_container_row(key: &[u8]) -> bool {
    key.get(..2) == Some(&[RECORD, Kind::Container as u8])
}

/// Returns the creation time of a container in milliseconds since 1970; 0 for a damaged row, which
/// [`with_creation_time`] reports.
fn created_of(row: &[u8]) -> u64 {
    let record = Record::read(row).ok();
    record.and_then(|record| record.created()).unwrap_or(0)
}

impl Catalog {
    /// Runs `work` while neither the catalog nor any partition accepts writes. Writes that were
    /// accepted before are durable when `work` begins.
    ///
    /// # Errors
    /// 500 if the store cannot be synced, and the error of `work`.
    pub(crate) fn with_writes_blocked<T>(
        &self,
        work: impl FnOnce(BlockedCatalog<'_>) -> Result<T>,
    ) -> Result<T> {
        let writing = self.begin_change()?;
        self.with_partitions_blocked(&writing, work)
    }

    /// Runs `work` while no partition accepts writes, within a change of the catalog.
    ///
    /// # Errors
    /// As for [`Catalog::with_writes_blocked`].
    pub(super) fn with_partitions_blocked<T>(
        &self,
        _writing: &MutexGuard<'_, ()>,
        work: impl FnOnce(BlockedCatalog<'_>) -> Result<T>,
    ) -> Result<T> {
        // Other owners are waited for before writers are locked.
        self.owners.recall_all().map_err(storage_failure)?;
        let mut partitions: Vec<Arc<Partition>> = Vec::new();
        for container in self.all_containers() {
            partitions.extend(container.partitions().iter().cloned());
        }
        // The guards borrow from a list of their own, which outlives them.
        let blocked = partitions.clone();
        let write_blocks = blocked
            .iter()
            .map(|partition| partition.block_writes())
            .collect::<Result<_>>()?;
        self.partition.sync_store()?;
        work(BlockedCatalog {
            catalog: self,
            partitions,
            _write_blocks: write_blocks,
        })
    }

    /// Creates another catalog on the same store, without resources.
    pub(super) fn empty_copy(&self) -> Catalog {
        let options = ThroughputOptions {
            burst_capacity: self.bursts,
            ..ThroughputOptions::default()
        };
        Catalog {
            agenda: Arc::clone(&self.agenda),
            gigabyte_bytes: self.gigabyte_bytes,
            container_ru: self.container_ru,
            ..Catalog::empty(
                Arc::clone(&self.store),
                Arc::clone(&self.owners),
                Arc::clone(&self.world),
                options,
                self.account_versions,
                Arc::clone(&self.size_limits),
            )
        }
    }

    /// Creates another catalog on the same store, with the state of `rows` in memory.
    fn in_memory_copy(&self, rows: &[Row]) -> Result<Catalog> {
        let copy = self.empty_copy();
        let mut sorted: Vec<&Row> = rows.iter().collect();
        sorted.sort_unstable();
        let rows_of = |tag: u8| {
            let tagged = (sorted.iter()).filter(move |(key, _)| key.first() == Some(&tag));
            tagged.map(|(key, value)| {
                let copied = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
                Ok((copied(key), copied(value)))
            })
        };
        let records = rows_of(RECORD).map(|row| Record::read(&row?.1));
        copy.load_rows(rows_of(RANGE), records)?;
        Ok(copy)
    }

    /// Replaces the state in memory by that of `other`.
    pub(super) fn adopt_state(&self, other: Catalog) {
        let mut new_state = std::mem::take(&mut *write(&other.state));
        let new_budgets = std::mem::take(&mut *lock(&other.shared_budgets));
        let mut state = write(&self.state);
        new_state.last_storage_id = new_state.last_storage_id.max(state.last_storage_id);
        *state = new_state;
        *lock(&self.shared_budgets) = new_budgets;
    }

    /// Reserves an empty key space for a copy of each partition, see [`Catalog::new_storage_ids`].
    ///
    /// # Errors
    /// The store's error.
    pub(crate) fn new_copy_ids(
        &self,
        originals: impl ExactSizeIterator<Item = PartitionId>,
    ) -> Result<CopyIds> {
        let copies = self.new_storage_ids(originals.len())?;
        Ok(originals.zip(copies).collect())
    }

    /// Returns all snapshots, ordered by name.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        let heads = self.snapshot_heads()?;
        let mut all: Vec<SnapshotInfo> = heads.into_iter().map(|(_, head)| head).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Returns the heads of all snapshots with their numbers.
    fn snapshot_heads(&self) -> Result<Vec<(u64, SnapshotInfo)>> {
        let snapshot = self.partition.snapshot()?;
        let head_length = head_key(0).len();
        let mut heads = Vec::new();
        for row in scan(
            snapshot.as_ref(),
            &keys::tagged(SNAPSHOT),
            Direction::Forward,
        ) {
            let (key, value) = row?;
            if key.len() == head_length {
                let number = keys::number(&key[1..]).ok_or_else(Record::damaged)?;
                heads.push((number, read_head(&value)?));
            }
        }
        Ok(heads)
    }

    /// Reads the snapshot of a name.
    ///
    /// # Errors
    /// 404 if there is none, 500 if the store cannot be read.
    pub(crate) fn find_snapshot(&self, name: &str) -> Result<StoredSnapshot> {
        let heads = self.snapshot_heads()?;
        let found = heads.into_iter().find(|(_, head)| head.name == name);
        let (number, _) = found.ok_or_else(|| snapshot_not_found(name))?;
        self.read_snapshot(number)
    }

    fn read_snapshot(&self, number: u64) -> Result<StoredSnapshot> {
        let prefix_length = head_key(number).len();
        let snapshot = self.partition.snapshot()?;
        let mut rows = Vec::new();
        let mut partitions = Vec::new();
        let rows_range = key_range(number);
        for row in chunks::joined(scan(snapshot.as_ref(), &rows_range, Direction::Forward)) {
            let (key, value) = row?;
            let key = &key[prefix_length..];
            partitions.extend(live_partition(key, &value)?);
            rows.push((key.to_vec(), value.to_vec()));
        }
        Ok(StoredSnapshot {
            number,
            rows,
            partitions,
        })
    }

    /// Stores a captured state under a name, with the copies of its partitions. Replaces an older
    /// snapshot of the name.
    ///
    /// # Errors
    /// The store's error. No snapshot has changed then.
    pub(crate) fn store_snapshot(
        &self,
        name: &str,
        captured: &CapturedState,
        copies: &CopyIds,
        note: &Object,
    ) -> Result<()> {
        let _writing = self.begin_change()?;
        let heads = self.snapshot_heads()?;
        let numbers: Vec<u64> = heads.iter().map(|(number, _)| *number).collect();
        // The new number may be that of a deleted or interrupted snapshot, whose rows must not mix
        // with the new rows.
        self.delete_rows_without_head(&numbers)?;
        let number = numbers.iter().max().unwrap_or(&0) + 1;

        // The rows may exceed the size of a commit. They count only after the head is written.
        self.commit_in_chunks(captured.rows.iter().map(|(key, value)| {
            let snapshot_key = [&head_key(number)[..], key].concat();
            let value = with_copy_id(key, value, copies)?;
            Ok((snapshot_key, Some(value)))
        }))?;

        // One commit writes the head, takes the copies into use and releases the older snapshot.
        let mut changes = RowChanges::default();
        changes
            .puts
            .push((head_key(number), head_text(name, captured, note)));
        for copy in copies.values() {
            changes.deletes.push(orphan_key(*copy));
        }
        let mut released = Vec::new();
        if let Some((older, _)) = heads.iter().find(|(_, head)| head.name == name) {
            released = changes.release_snapshot(&self.read_snapshot(*older)?);
        }
        self.commit(changes)?;
        self.queue_orphans(released);
        Ok(())
    }

    /// Deletes a snapshot.
    ///
    /// # Errors
    /// 404 if there is none; the store's error.
    pub(crate) fn delete_snapshot(&self, name: &str) -> Result<()> {
        let _writing = self.begin_change()?;
        let snapshot = self.find_snapshot(name)?;
        let mut changes = RowChanges::default();
        let released = changes.release_snapshot(&snapshot);
        self.commit(changes)?;
        self.queue_orphans(released);

        let heads = self.snapshot_heads()?;
        let numbers: Vec<u64> = heads.iter().map(|(number, _)| *number).collect();
        self.delete_rows_without_head(&numbers)
    }

    /// Deletes the rows of snapshots that were deleted or never completed. `numbers` are the
    /// snapshots that have a head.
    fn delete_rows_without_head(&self, numbers: &[u64]) -> Result<()> {
        let snapshot = self.partition.snapshot()?;
        let rows = scan(
            snapshot.as_ref(),
            &keys::tagged(SNAPSHOT),
            Direction::Forward,
        );
        let deletion = |key: &[u8]| -> Result<_> {
            let number = key.get(1..9).and_then(keys::number);
            let number = number.ok_or_else(Record::damaged)?;
            let has_head = numbers.contains(&number);
            Ok((!has_head).then(|| (key.to_vec(), None)))
        };
        let deletions = rows.filter_map(|row| match row {
            Ok((key, _)) => deletion(&key).transpose(),
            Err(error) => Some(Err(error)),
        });
        self.commit_in_chunks(deletions)
    }

    /// Returns the highest storage id that a snapshot uses; 0 if there is none.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(super) fn last_snapshot_storage_id(&self) -> Result<u64> {
        let mut last = 0;
        for (number, _) in self.snapshot_heads()? {
            for (storage_id, _) in self.read_snapshot(number)?.partitions {
                last = last.max(storage_id.0);
            }
        }
        Ok(last)
    }
}

impl RowChanges {
    /// Deletes the head of a snapshot and turns its key spaces into orphans. Returns the orphans.
    fn release_snapshot(&mut self, snapshot: &StoredSnapshot) -> Vec<PartitionId> {
        self.deletes.push(head_key(snapshot.number));
        let mut released = Vec::new();
        for (storage_id, _) in &snapshot.partitions {
            self.mark_orphan(*storage_id);
            released.push(*storage_id);
        }
        released
    }
}

fn snapshot_not_found(name: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("There is no snapshot '{name}'."),
    )
}
