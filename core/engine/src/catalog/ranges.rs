//! The rows of physical partitions: the live ones and their ancestors.
//!
//! Each partition has a row of its own (`22 container id`), so a split changes three small rows.
//! The row of a partition that was split or merged stays as long as its container: session tokens
//! and continuations of clients still name the partition, and the row tells its EPK range.

use super::records::{Record, as_u32, as_u64};
use super::{Catalog, Container, RowChanges, orphan_key, parse_stored};
use crate::container::owners::Owners;
use crate::errors::{gone_error, storage_failure, unknown_outcome};
use crate::partition::{Partition, Phase, WriterGuard};
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_model::{Json, Result, Rid, object};
use orrery_storage::{PartitionId, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first byte of the keys.
pub(super) const RANGE: u8 = 0x22;

/// A physical partition that is live or was live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRecord {
    /// The partition key range id that clients see; never used twice in a container.
    pub id: u32,
    /// The EPK range of the partition.
    pub range: EpkRange,
    /// Range ids of the direct predecessors: one after a split, several after a merge.
    pub parents: Vec<u32>,
    /// The key space of the store while the partition is live; `None` afterwards. `home` on disk.
    pub storage_id: Option<PartitionId>,
    /// After a merge, the last LSN of the merged histories. Changes up to it are in the order of
    /// several histories one after another, not in the order of time. 0 without a merge.
    pub mixed_until: u64,
    /// The millisecond since 1970 in which the partition was created.
    pub since_ms: u64,
    /// The millisecond since 1970 in which successors replaced the partition; `None` while it is
    /// live.
    pub until_ms: Option<u64>,
}

/// All partitions that a container has or had, by range id.
/// Boxed, since most containers have one and a node of the map has room for eleven.
pub(crate) type Lineage = BTreeMap<u32, Box<RangeRecord>>;

impl RangeRecord {
    /// Returns the value of the row.
    pub(super) fn text(&self) -> Vec<u8> {
        let parents: Vec<Json> = self.parents.iter().map(|id| Json::from(*id)).collect();
        let mut row = object! {
            "id" => self.id,
            "min" => self.range.min.to_string(),
            "max" => self.range.max.to_string(),
            "parents" => parents,
            "since" => self.since_ms,
        };
        if let Some(storage_id) = self.storage_id {
            row.set("home", storage_id.0);
        }
        if self.mixed_until > 0 {
            row.set("mixedUntil", self.mixed_until);
        }
        if let Some(until_ms) = self.until_ms {
            row.set("until", until_ms);
        }
        Json::Object(row).to_text().into_bytes()
    }

    fn from_json(json: &Json) -> Option<Self> {
        let epk = |name: &str| Epk::from_hex(json.get(name)?.as_str()?).ok();
        let number = |name: &str| json.get(name).and_then(as_u64);
        let parents = json.get("parents")?.as_array()?;
        Some(RangeRecord {
            id: json.get("id").and_then(as_u32)?,
            range: EpkRange::new(epk("min")?, epk("max")?),
            parents: parents.iter().map(as_u32).collect::<Option<_>>()?,
            storage_id: number("home").map(PartitionId),
            mixed_until: number("mixedUntil").unwrap_or(0),
            since_ms: number("since")?,
            until_ms: number("until"),
        })
    }

    /// Reads a row. Returns the container and the partition.
    ///
    /// # Errors
    /// 500 if the row is damaged.
    pub(super) fn read(key: &[u8], value: &[u8]) -> Result<(Rid, RangeRecord)> {
        let container = key.get(1..9).and_then(Rid::from_bytes);
        let container = container.ok_or_else(Record::damaged)?;
        let record = Self::from_json(&parse_stored(value)?).ok_or_else(Record::damaged)?;
        Ok((container, record))
    }
}

fn key(container: Rid, id: u32) -> Vec<u8> {
    [&[RANGE][..], container.as_bytes(), &id.to_be_bytes()].concat()
}

impl RowChanges {
    pub(super) fn put_range(&mut self, container: Rid, range: &RangeRecord) {
        self.puts.push((key(container, range.id), range.text()));
    }

    pub(super) fn delete_range(&mut self, container: Rid, id: u32) {
        self.deletes.push(key(container, id));
    }
}

/// Returns the range ids of all ancestors of a partition, the oldest first.
fn ancestors(lineage: &Lineage, id: u32) -> Vec<u32> {
    let mut all: Vec<u32> = Vec::new();
    let mut unvisited = vec![id];
    while let Some(id) = unvisited.pop() {
        let Some(range) = lineage.get(&id) else {
            break;
        };
        for parent in &range.parents {
            if !all.contains(parent) {
                all.push(*parent);
                unvisited.push(*parent);
            }
        }
    }
    all.sort_unstable();
    all
}

/// Opens the partition of a row; `None` if the partition is not live.
fn open_partition(
    (store, owners): (&Arc<dyn Store>, &Arc<dyn Owners>),
    lineage: &Lineage,
    range: &RangeRecord,
    version: u64,
) -> Option<Arc<Partition>> {
    let partition = Partition::new(
        Arc::clone(store),
        Arc::clone(owners),
        range.id,
        ancestors(lineage, range.id),
        range.range.clone(),
        range.storage_id?,
        version,
    );
    Some(Arc::new(partition.with_mixed_until(range.mixed_until)))
}

/// Opens the live partitions of a lineage, in the order of their EPK ranges.
///
/// `version` is the creation time of the container, see [`crate::request::Position::version`].
///
/// # Errors
/// 500 if the ranges have gaps or overlap.
pub(super) fn open_live_partitions(
    of: (&Arc<dyn Store>, &Arc<dyn Owners>),
    lineage: &Lineage,
    version: u64,
) -> Result<Arc<[Arc<Partition>]>> {
    let mut live: Vec<_> = lineage
        .values()
        .filter_map(|range| open_partition(of, lineage, range, version))
        .collect();
    live.sort_by(|a, b| a.range.min.cmp(&b.range.min));

    let are_adjacent = live
        .windows(2)
        .all(|pair| pair[0].range.max == pair[1].range.min);
    let reach_both_ends = live.first().is_some_and(|p| p.range.min == Epk::min())
        && live.last().is_some_and(|p| p.range.max == Epk::max());
    if are_adjacent && reach_both_ends {
        Ok(live.into())
    } else {
        Err(Record::damaged())
    }
}

/// Returns the rows of partitions that end at `now`: they stay without a key space, as ancestors.
///
/// # Errors
/// 410 for a partition that is not in the lineage.
fn ended_ranges(
    lineage: &Lineage,
    sources: &[Arc<Partition>],
    now: u64,
) -> Result<Vec<RangeRecord>> {
    let mut ended = Vec::with_capacity(sources.len());
    for source in sources {
        let range = lineage.get(&source.id);
        let range = range.ok_or_else(|| gone_error(source.id))?;
        ended.push(RangeRecord {
            storage_id: None,
            until_ms: Some(now),
            ..RangeRecord::clone(range)
        });
    }
    Ok(ended)
}

/// The partitions that replace others in a split or merge.
pub(crate) struct Successors {
    /// The key space and EPK range of each, in the order of the ranges.
    pub partitions: Vec<(PartitionId, EpkRange)>,
    /// The value of [`RangeRecord::mixed_until`] for each.
    pub mixed_until: u64,
}

impl Catalog {
    /// Reserves empty key spaces of the store. They are orphans until a commit gives them to a
    /// container or a snapshot, so the next open destroys them if the process ends before that.
    ///
    /// # Errors
    /// The store's error.
    pub(crate) fn new_storage_ids(&self, count: usize) -> Result<Vec<PartitionId>> {
        let _writing = self.begin_change()?;
        let first = self.state().last_storage_id + 1;
        let storage_ids: Vec<_> = (first..).take(count).map(PartitionId).collect();

        let mut changes = RowChanges::default();
        for storage_id in &storage_ids {
            self.empty_key_space(*storage_id)?;
            changes.mark_orphan(*storage_id);
        }
        self.commit_unseen(changes)?;
        if let Some(last) = storage_ids.last() {
            self.raise_last_storage_id(last.0);
        }
        Ok(storage_ids)
    }

    /// Gives back key spaces that [`Catalog::new_storage_ids`] reserved and nothing uses.
    pub(crate) fn release_storage_ids(&self, storage_ids: impl IntoIterator<Item = PartitionId>) {
        self.queue_orphans(storage_ids.into_iter().collect());
    }

    /// Replaces partitions of a container in one commit. Returns the range ids of the successors.
    ///
    /// `finish` is called with the locked writers of the sources. It brings the successors up to
    /// the last commit of the sources.
    ///
    /// # Errors
    /// 404 if the container is gone, 410 if a source is gone, and the error of `finish`. Nothing
    /// has changed then. 408 if the commit may have taken place.
    pub(crate) fn replace_partitions(
        &self,
        container: &Container,
        sources: &[Arc<Partition>],
        finish: impl FnOnce(&[WriterGuard<'_>]) -> Result<Successors>,
    ) -> Result<Vec<u32>> {
        self.replace_locked(container, sources, || {
            let writers = sources.iter().map(|source| source.lock_in_any_phase());
            let writers = writers.collect::<Result<Vec<_>>>()?;
            Ok((finish(&writers)?, writers))
        })
    }

    /// Does the same for one partition, whose writer is kept out and not opened: rows that a writer
    /// reads may be damaged.
    ///
    /// # Errors
    /// As for [`Catalog::replace_partitions`].
    pub(crate) fn replace_blocked(
        &self,
        container: &Container,
        source: &Arc<Partition>,
        finish: impl FnOnce() -> Result<Successors>,
    ) -> Result<Vec<u32>> {
        self.replace_locked(container, std::slice::from_ref(source), || {
            let block = source.block_writes()?;
            Ok((finish()?, block))
        })
    }

    /// Replaces partitions by those that `finish` returns, with the guard that keeps writers of the
    /// sources out.
    fn replace_locked<G>(
        &self,
        container: &Container,
        sources: &[Arc<Partition>],
        finish: impl FnOnce() -> Result<(Successors, G)>,
    ) -> Result<Vec<u32>> {
        let _writing = self.begin_change()?;
        self.check_current(container)?;

        // Other owners are waited for before writers are locked.
        self.owners.recall_all().map_err(storage_failure)?;
        // From here on the sources accept no commit, so the copy that `finish` completes is whole.
        let (successors, writers) = finish()?;

        let lineage = container.lineage();
        let now = self.world.now_ms();
        let mut changed = ended_ranges(&lineage, sources, now)?;

        // Rows of ancestors are never deleted, so the last id of the lineage is the highest ever
        // used.
        let next_id = lineage.keys().next_back().map_or(0, |id| id + 1);
        let parents: Vec<u32> = sources.iter().map(|source| source.id).collect();
        let mut new_ids = Vec::new();
        let mut changes = RowChanges::default();
        for (id, (storage_id, range)) in (next_id..).zip(successors.partitions) {
            changes.deletes.push(orphan_key(storage_id));
            new_ids.push(id);
            changed.push(RangeRecord {
                id,
                range,
                parents: parents.clone(),
                storage_id: Some(storage_id),
                mixed_until: successors.mixed_until,
                since_ms: now,
                until_ms: None,
            });
        }

        // One commit moves the container to the successors and turns the sources into orphans.
        for range in &changed {
            changes.put_range(container.rid(), range);
        }
        for source in sources {
            changes.mark_orphan(source.storage_id);
        }
        self.commit(changes)?;

        // A request that finds a source gone looks the partition up again, so the successors must
        // be registered before the phase of the sources changes.
        let changed_ranges = container.change_ranges((&self.store, &self.owners), &changed, now);
        changed_ranges.map_err(|error| unknown_outcome().with_cause(error))?;
        for source in sources {
            source.set_phase(Phase::Gone);
        }
        drop(writers);
        container.enter_all_work();
        self.queue_orphans(sources.iter().map(|source| source.storage_id).collect());
        Ok(new_ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(id: u32, parents: &[u32]) -> RangeRecord {
        RangeRecord {
            id,
            range: EpkRange::all(),
            parents: parents.to_vec(),
            storage_id: Some(PartitionId(7)),
            mixed_until: 3,
            since_ms: 5,
            until_ms: Some(9),
        }
    }

    #[test]
    fn rows_of_ranges_read_back() {
        let rid = Rid::container(Rid::database(1), 1);
        for range in [
            range(1, &[0]),
            RangeRecord {
                storage_id: None,
                mixed_until: 0,
                until_ms: None,
                ..range(2, &[])
            },
        ] {
            assert_eq!(
                RangeRecord::read(&key(rid, range.id), &range.text()).expect("a row"),
                (rid, range)
            );
        }
        assert!(RangeRecord::read(b"\x22", b"{}").is_err());
    }

    #[test]
    fn all_ancestors_are_named_once() {
        let lineage: Lineage = [
            range(0, &[]),
            range(1, &[0]),
            range(2, &[0]),
            range(3, &[1, 2]),
        ]
        .map(|r| (r.id, Box::new(r)))
        .into();
        assert_eq!(ancestors(&lineage, 3), [0, 1, 2]);
        assert!(ancestors(&lineage, 0).is_empty());
    }
}
