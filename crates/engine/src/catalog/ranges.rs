//! What the catalog keeps of physical partitions: those that live, and those that they came from.
//!
//! Each has a row of its own (`22 container id`), so that a split is a change of three small rows. Rows of partitions that
//! were split or merged stay as long as their container: tokens that clients kept name them, and say by them which
//! stretch of the hash space they are about.

use super::records::Record;
use super::{Batch, Catalog, Container, own_json};
use crate::errors::{gone_error, storage_failure};
use crate::partition::{Partition, Phase, WriterGuard};
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_model::sync::{lock, write};
use orrery_model::{Error, Json, Object, Result, Rid, object};
use orrery_storage::{PartitionId, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first byte of the rows.
pub(super) const RANGE: u8 = 0x22;

/// A physical partition that lives or has lived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRecord {
    /// The partition key range id that clients see; never used twice in a container.
    pub id: u32,
    /// Its stretch of the hash space.
    pub range: EpkRange,
    /// The partitions that it came from at once: one if it was split off, several if they were merged.
    pub parents: Vec<u32>,
    /// Its place in the store while it lives.
    pub home: Option<PartitionId>,
    /// Changes up to this LSN stand in the order of several histories that were merged, not in that of time.
    pub mixed_until: u64,
    /// The millisecond in which it came into being.
    pub since_ms: u64,
    /// The millisecond in which others took its place, if they did.
    pub until_ms: Option<u64>,
}

/// All partitions that a container has or had, by id.
pub type Lineage = BTreeMap<u32, RangeRecord>;

impl RangeRecord {
    /// The value of its row.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut row = object! {
            "id" => self.id, "min" => self.range.min.to_string(), "max" => self.range.max.to_string(),
            "parents" => self.parents.iter().map(|id| Json::from(*id)).collect::<Vec<_>>(),
            "since" => self.since_ms,
        };
        let set = |row: &mut Object, name: &str, value: Option<u64>| {
            if let Some(value) = value {
                row.set(name, value);
            }
        };
        set(&mut row, "home", self.home.map(|home| home.0));
        set(
            &mut row,
            "mixedUntil",
            (self.mixed_until > 0).then_some(self.mixed_until),
        );
        set(&mut row, "until", self.until_ms);
        Json::Object(row).to_text().into_bytes()
    }

    fn from_json(json: &Json) -> Option<Self> {
        let epk = |name: &str| Epk::from_hex(json.get(name)?.as_str()?).ok();
        let short = |json: &Json| u32::try_from(json.as_i64()?).ok();
        let number = |name: &str| u64::try_from(json.get(name)?.as_i64()?).ok();
        Some(RangeRecord {
            id: short(json.get("id")?)?,
            range: EpkRange::new(epk("min")?, epk("max")?),
            parents: json
                .get("parents")?
                .as_array()?
                .iter()
                .map(short)
                .collect::<Option<_>>()?,
            home: number("home").map(PartitionId),
            mixed_until: number("mixedUntil").unwrap_or(0),
            since_ms: number("since")?,
            until_ms: number("until"),
        })
    }

    /// Reads a row: whose it is, and what it says.
    ///
    /// # Errors
    /// 500 if it is damaged.
    pub(super) fn read(key: &[u8], value: &[u8]) -> Result<(Rid, RangeRecord)> {
        let rid = key
            .get(1..9)
            .and_then(Rid::from_bytes)
            .ok_or_else(Record::damaged)?;
        let record = Self::from_json(&own_json(value)?).ok_or_else(Record::damaged)?;
        Ok((rid, record))
    }
}

fn key(container: Rid, id: u32) -> Vec<u8> {
    [&[RANGE][..], container.as_bytes(), &id.to_be_bytes()].concat()
}

impl Batch {
    pub(super) fn put_range(&mut self, container: Rid, range: &RangeRecord) {
        self.puts.push((key(container, range.id), range.text()));
    }

    pub(super) fn delete_range(&mut self, container: Rid, id: u32) {
        self.deletes.push(key(container, id));
    }
}

/// All partitions that one came from, oldest first.
fn ancestors(lineage: &Lineage, id: u32) -> Vec<u32> {
    let mut all: Vec<u32> = Vec::new();
    let mut open = vec![id];
    while let Some(parents) = open
        .pop()
        .and_then(|id| lineage.get(&id))
        .map(|range| &range.parents)
    {
        let new: Vec<u32> = parents
            .iter()
            .copied()
            .filter(|id| !all.contains(id))
            .collect();
        open.extend(&new);
        all.extend(new);
    }
    all.sort_unstable();
    all
}

/// The partition that a row describes, if it lives.
fn partition(
    store: &Arc<dyn Store>,
    lineage: &Lineage,
    range: &RangeRecord,
    version: u64,
) -> Option<Arc<Partition>> {
    let parents = ancestors(lineage, range.id);
    let partition = Partition::new(
        Arc::clone(store),
        range.id,
        parents,
        range.range.clone(),
        range.home?,
        version,
    );
    Some(Arc::new(partition.with_mixed_until(range.mixed_until)))
}

/// The partitions that live, in the order of their stretches.
///
/// # Errors
/// 500 if they do not tile the hash space.
pub(super) fn live(
    store: &Arc<dyn Store>,
    lineage: &Lineage,
    version: u64,
) -> Result<Arc<[Arc<Partition>]>> {
    let mut live: Vec<_> = lineage
        .values()
        .filter_map(|range| partition(store, lineage, range, version))
        .collect();
    live.sort_by(|a, b| a.range.min.cmp(&b.range.min));
    let borders = live
        .windows(2)
        .all(|pair| pair[0].range.max == pair[1].range.min);
    let ends = live.first().is_some_and(|p| p.range.min == Epk::min())
        && live.last().is_some_and(|p| p.range.max == Epk::max());
    if borders && ends {
        Ok(live.into())
    } else {
        Err(Record::damaged())
    }
}

/// What takes the place of some partitions.
pub struct NewRanges {
    /// Where each lies in the store, and its stretch; in order.
    pub homes: Vec<(PartitionId, EpkRange)>,
    /// See [`RangeRecord::mixed_until`].
    pub mixed_until: u64,
}

impl Catalog {
    /// Empty partitions of the store that belong to nobody. If the process ends before they belong to a container, the
    /// next one destroys them.
    ///
    /// # Errors
    /// What the store reports.
    pub fn new_homes(&self, count: usize) -> Result<Vec<PartitionId>> {
        let _writing = lock(&self.writing);
        let first = self.state().last_home + 1;
        let homes: Vec<_> = (first..).take(count).map(PartitionId).collect();
        let mut batch = Batch::default();
        for home in &homes {
            self.store.destroy(*home).map_err(storage_failure)?;
            batch.mark_orphan(*home);
        }
        self.commit(batch)?;
        let mut state = write(&self.state);
        state.last_home = homes
            .last()
            .map_or(state.last_home, |home| state.last_home.max(home.0));
        Ok(homes)
    }

    /// Such partitions will belong to nobody.
    pub fn give_up_homes(&self, homes: impl IntoIterator<Item = PartitionId>) {
        self.queue_orphans(homes.into_iter().map(|home| home.0).collect());
    }

    /// Other partitions take the place of some, in one commit; their range ids. `finish` is called with the writers of
    /// those that go held, and makes those that come complete.
    ///
    /// # Errors
    /// 404 if the container is gone, 410 if a partition is; what `finish` says. Nothing has changed then.
    pub fn replace_partitions(
        &self,
        container: &Container,
        sources: &[Arc<Partition>],
        finish: impl FnOnce(&[WriterGuard<'_>]) -> Result<NewRanges>,
    ) -> Result<Vec<u32>> {
        let _writing = lock(&self.writing);
        if !self.has(container) {
            return Err(Error::not_found());
        }
        let held = sources
            .iter()
            .map(|source| source.lock_in_any_phase())
            .collect::<Result<Vec<_>>>()?;
        let NewRanges { homes, mixed_until } = finish(&held)?;
        let (lineage, now) = (container.lineage(), self.world.now_ms());
        let gone = |source: &Arc<Partition>| -> Result<RangeRecord> {
            let range = lineage
                .get(&source.id)
                .ok_or_else(|| gone_error(source.id))?;
            Ok(RangeRecord {
                home: None,
                until_ms: Some(now),
                ..range.clone()
            })
        };
        let mut changed = sources.iter().map(gone).collect::<Result<Vec<_>>>()?;
        let parents: Vec<u32> = sources.iter().map(|source| source.id).collect();
        // The newest range lives or was replaced by newer ones, so no id was ever higher.
        let next_id = lineage.keys().next_back().map_or(0, |id| id + 1);
        let mut batch = Batch::default();
        for (id, (home, range)) in (next_id..).zip(homes) {
            batch.deletes.push(super::orphan_key(home.0));
            let (parents, home) = (parents.clone(), Some(home));
            changed.push(RangeRecord {
                id,
                range,
                parents,
                home,
                mixed_until,
                since_ms: now,
                until_ms: None,
            });
        }
        changed
            .iter()
            .for_each(|range| batch.put_range(container.rid(), range));
        sources
            .iter()
            .for_each(|source| batch.mark_orphan(source.storage_id));
        self.commit(batch)?;
        container.change_ranges(&self.store, &changed, now)?;
        // In this order: whoever finds one gone finds those that came.
        sources
            .iter()
            .for_each(|source| source.set_phase(Phase::Gone));
        drop(held);
        self.queue_orphans(sources.iter().map(|source| source.storage_id.0).collect());
        Ok(changed
            .iter()
            .filter(|range| range.until_ms.is_none())
            .map(|range| range.id)
            .collect())
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
            home: Some(PartitionId(7)),
            mixed_until: 3,
            since_ms: 5,
            until_ms: Some(9),
        }
    }

    #[test]
    fn rows_read_back() {
        let rid = Rid::container(Rid::database(1), 1);
        for range in [
            range(1, &[0]),
            RangeRecord {
                home: None,
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
        .map(|r| (r.id, r))
        .into();
        assert_eq!(ancestors(&lineage, 3), [0, 1, 2]);
        assert!(ancestors(&lineage, 0).is_empty());
    }
}
