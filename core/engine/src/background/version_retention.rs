//! The beginning and the end of kept versions: marks the LSN after which a partition keeps
//! versions, and removes versions that are older than the container keeps them, or the oldest of
//! more bytes than the account keeps.

use super::work::Removed;
use crate::Engine;
use crate::catalog::Container;
use crate::errors::damaged;
use crate::partition::keys;
use crate::partition::stamps::is_ahead;
use crate::partition::version_floors::VersionFloors;
use crate::partition::versions::{ROW, Version, crts_of, floors};
use crate::partition::{
    CommitChanges, NOT_LOOKED_AT, Partition, VERSION_LOOKS, scan, skip_if_moved, wait_durable,
};
use orrery_model::Result;
use orrery_model::partition_key::EpkRange;
use orrery_storage::{Direction, Snapshot};

/// Rows of versions that one commit removes, about: the rows of one commit of a client go together.
const ROWS_PER_COMMIT: usize = 1_000;
/// Rows behind a version with a wrong date that are looked at for a right one.
const ROWS_LOOKED_AT: usize = 1_000;

impl Engine {
    /// Marks in each partition of a container with versions that they are kept from now on. Commits
    /// would mark it too, but until the first of them a reader could not tell what it misses.
    ///
    /// # Errors
    /// 500 and 503 as the store reports; [`Engine::remove_old_versions`] tries again.
    pub(crate) fn begin_versions(&self, container: &Container) -> Result<()> {
        for partition in container.partitions().iter() {
            skip_if_moved(self.begin_versions_of(container, partition))?;
        }
        Ok(())
    }

    pub(super) fn begin_versions_of(
        &self,
        container: &Container,
        partition: &Partition,
    ) -> Result<()> {
        if !keeps_versions(container) {
            return Ok(());
        }
        if Partition::version_floors(partition.snapshot()?.as_ref())?.is_some() {
            return Ok(());
        }
        let mut writer = partition.lock()?;
        // Checked again under the lock: a commit may have marked it, or the policy may have
        // changed.
        if !keeps_versions(container) || writer.version_floors.is_some() {
            return Ok(());
        }
        let changes = CommitChanges {
            counters: writer.counters,
            version_floors: Some(Some(VersionFloors::of_one(writer.lsn))),
            ..CommitChanges::default()
        };
        let commit = writer.submit(partition, changes, self.world().random());
        drop(writer);
        wait_durable(partition, commit)
    }

    /// Removes versions that are older than their container keeps them, some from each partition.
    /// Returns the number of rows removed.
    ///
    /// # Errors
    /// 500 and 503 as the store reports; the next call goes on.
    pub fn remove_old_versions(&self) -> Result<usize> {
        self.for_each_partition(
            |_| true,
            |container, partition| {
                self.begin_versions_of(container, partition)?;
                Ok(self.remove_old_versions_of(container, partition)?.count)
            },
        )
    }

    /// Removes some old versions of one partition.
    pub(super) fn remove_old_versions_of(
        &self,
        container: &Container,
        partition: &Partition,
    ) -> Result<Removed> {
        let bytes_max = container.settings().version_bytes_max;
        let cut = match bytes_max {
            Some(bytes_max) => cut_by_size(partition, bytes_max)?,
            None => 0,
        };
        let removed = self.remove_versions_up_to(container, partition, cut);
        if removed.is_err() && cut > 0 {
            partition.lock()?.version_bytes = NOT_LOOKED_AT;
        }
        removed
    }

    /// Removes some versions of one partition that are too old or not after the LSN `cut`.
    fn remove_versions_up_to(
        &self,
        container: &Container,
        partition: &Partition,
        cut: u64,
    ) -> Result<Removed> {
        let now = self.confirmed_seconds();
        // A container that keeps no versions any more keeps none of the old ones either.
        let retention = container.settings().retention_seconds;
        let oldest_kept = match retention {
            Some(retention) => now.saturating_sub(retention),
            None => u64::MAX,
        };
        let snapshot = partition.snapshot_of_accepted()?;
        let mixed_until = partition.mixed_until;
        let mut floors = floors(snapshot.as_ref())?;
        floors.raise(cut, mixed_until);
        let obsolete = find_obsolete(snapshot.as_ref(), &floors, oldest_kept, now)?;
        drop(snapshot);
        if obsolete.keys.is_empty() {
            let oldest = obsolete.next_second.zip(retention);
            return Ok(Removed {
                next_seconds: oldest.map(|(second, kept)| second.saturating_add(kept + 1)),
                ..Removed::default()
            });
        }
        let removed = obsolete.keys.len();
        let mut writer = partition.lock()?;
        // Readers from before the new floors are told that they miss versions.
        let mut version_floors = writer.version_floors.clone();
        if let Some(floors) = &mut version_floors {
            floors.raise(cut, mixed_until);
            obsolete.raise(floors, mixed_until);
        }
        let changes = CommitChanges {
            deletes: obsolete.keys,
            counters: writer.counters,
            may_use_reserve: true,
            version_floors: version_floors.map(Some),
            ..CommitChanges::default()
        };
        let commit = writer.submit(partition, changes, self.world().random());
        drop(writer);
        wait_durable(partition, commit)?;
        Ok(Removed {
            count: removed,
            is_partial: true,
            next_seconds: None,
        })
    }
}

fn keeps_versions(container: &Container) -> bool {
    container.settings().retention_seconds.is_some()
}

/// Version rows to remove.
struct Obsolete {
    keys: Vec<Vec<u8>>,
    /// The LSN of the last of them.
    last_lsn: u64,
    /// The LSN of the last of them in each range with a floor of its own; 0 if there is none.
    last_of_ranges: Vec<(EpkRange, u64)>,
    /// The second of the oldest version that stays.
    next_second: Option<u64>,
}

impl Obsolete {
    /// Raises floors to what is removed.
    fn raise(&self, floors: &mut VersionFloors, mixed_until: u64) {
        for (range, lsn) in &self.last_of_ranges {
            floors.raise_within(range, *lsn);
        }
        // Behind the merged histories there is one order, in which all before is removed.
        if self.last_lsn > mixed_until {
            floors.raise(self.last_lsn, mixed_until);
        }
    }
}

/// Returns the LSN up to which versions go because all of them take more than about `bytes_max`
/// bytes; 0 if none has to go. Counts only if enough versions were written since the last count.
fn cut_by_size(partition: &Partition, bytes_max: u64) -> Result<u64> {
    let mut writer = partition.lock()?;
    if !writer.asks_for_look_at_versions(bytes_max) {
        return Ok(0);
    }
    // What is written from here on counts for the next look.
    writer.version_bytes = 0;
    drop(writer);
    let cut = find_cut(partition, bytes_max);
    if cut.is_err() {
        partition.lock()?.version_bytes = NOT_LOOKED_AT;
    }
    cut
}

/// Returns the LSN of the newest version that does not fit into `bytes_max` bytes together with all
/// that are newer and with what is written until the next look; 0 if all fit.
fn find_cut(partition: &Partition, bytes_max: u64) -> Result<u64> {
    let snapshot = partition.snapshot_of_accepted()?;
    let rows = scan(
        snapshot.as_ref(),
        &keys::versions_after(0),
        Direction::Reverse,
    );
    let mut bytes_left = bytes_max - bytes_max / VERSION_LOOKS;
    for entry in rows {
        let (key, value) = entry?;
        match bytes_left.checked_sub((key.len() + value.len()) as u64) {
            Some(left) => bytes_left = left,
            None => {
                let ((lsn, ..), _) = keys::read_version(&key).ok_or_else(|| damaged(ROW))?;
                return Ok(lsn);
            }
        }
    }
    Ok(0)
}

/// Returns the oldest version rows, as far as they are from before second `oldest_kept` or not
/// above the floors, and as many as one commit should remove. A version that is dated far later
/// than `now` is as old as the next one with a date that can be right.
fn find_obsolete(
    snapshot: &dyn Snapshot,
    floors: &VersionFloors,
    oldest_kept: u64,
    now: u64,
) -> Result<Obsolete> {
    let floors = floors.by_range();
    let mut obsolete = Obsolete {
        keys: Vec::new(),
        last_lsn: 0,
        last_of_ranges: floors.iter().map(|(range, _)| (range.clone(), 0)).collect(),
        next_second: None,
    };
    // The range of the version that is looked at.
    let mut at = 0;
    for entry in scan(snapshot, &keys::versions_after(0), Direction::Forward) {
        let (key, value) = entry?;
        let ((lsn, ..), chunk) = keys::read_version(&key).ok_or_else(|| damaged(ROW))?;
        // The rows of one commit go together, so that a reader never sees a part of one.
        if lsn != obsolete.last_lsn && obsolete.keys.len() >= ROWS_PER_COMMIT {
            break;
        }
        if chunk == 0 && floors.len() > 1 {
            let epk = Version::epk_of(&value)?;
            let found = floors.iter().position(|(range, _)| range.contains(&epk));
            at = found.unwrap_or(0);
        }
        // All changes of a commit have one second, which the first chunk of each version holds. A
        // row below the floor goes whatever it holds.
        let second = match chunk {
            0 => {
                let second = crts_of(&value)?;
                match is_ahead(second, now) {
                    true => next_right_second(snapshot, lsn, now)?,
                    false => second,
                }
            }
            _ => u64::MAX,
        };
        let (_, last_of_range) = &mut obsolete.last_of_ranges[at];
        let is_begun = lsn <= floors[at].1 || lsn == *last_of_range;
        if !is_begun && second >= oldest_kept {
            obsolete.next_second = Some(second);
            break;
        }
        (obsolete.last_lsn, *last_of_range) = (lsn, lsn);
        obsolete.keys.push(key.to_vec());
    }
    Ok(obsolete)
}

/// Returns the second of the first version after an LSN that is not dated far later than `now`;
/// `now` if there is none near.
fn next_right_second(snapshot: &dyn Snapshot, lsn: u64, now: u64) -> Result<u64> {
    let rows = scan(snapshot, &keys::versions_after(lsn), Direction::Forward);
    for entry in rows.take(ROWS_LOOKED_AT) {
        let (key, value) = entry?;
        let (_, chunk) = keys::read_version(&key).ok_or_else(|| damaged(ROW))?;
        if chunk == 0 {
            let second = crts_of(&value)?;
            if !is_ahead(second, now) {
                return Ok(second);
            }
        }
    }
    Ok(now)
}
