//! The search for data that is dated later than the clock shows: written by a clock that was ahead,
//! or looked at by a clock that is behind now.
//!
//! The survey looks at one item of each partition: the one with the latest `_ts` by the index, and
//! the one that was changed last. The operator is told once; `orrery repair --clock` is the remedy.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::{damaged, storage_failure};
use crate::index::paths::Step;
use crate::partition::keys::{self, Kept};
use crate::partition::row_reader::read_row;
use crate::partition::stamps::is_ahead;
use crate::partition::{Partition, newest_ts, scan, skip_if_moved};
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};

impl Engine {
    /// Looks for misdated items in one container.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(super) fn look_for_misdated(&self, container: &Container) -> Result<()> {
        for partition in container.partitions().iter().filter(|p| p.is_owned()) {
            let newest = skip_if_moved(newest_stamp(partition))?;
            self.report_if_misdated(newest);
        }
        Ok(())
    }

    /// Tells the operator, once, if a stamp is far later than the clock.
    pub(crate) fn report_if_misdated(&self, stamp: u64) {
        let now = self.world.now_seconds();
        if is_ahead(stamp, now) {
            self.confirmed_clock.report_misdated((stamp - now) * 1000);
        }
    }
}

/// Returns the latest `_ts` of the items of a partition, as far as the index tells; 0 if there is
/// no item.
fn newest_stamp(partition: &Partition) -> Result<u64> {
    let snapshot = partition.snapshot()?;
    let snapshot = snapshot.as_ref();
    Ok(newest_ts(snapshot)?.max(newest_indexed(partition, snapshot)?))
}

fn newest_indexed(partition: &Partition, snapshot: &dyn Snapshot) -> Result<u64> {
    let path = partition
        .paths(snapshot)?
        .find(&[Step::Name("_ts".to_owned())]);
    let Some(path) = path else { return Ok(0) };
    let first = keys::terms(path, &[]);
    let range = (first.clone(), keys::after(&first));
    let Some(entry) = scan(snapshot, &range, Direction::Reverse).next() else {
        return Ok(0);
    };
    let (key, _) = entry?;
    let Some(Kept::IndexEntry(_, epk_prefix, number)) = keys::kept(&key) else {
        return Err(damaged("an index entry"));
    };
    let row = read_row(epk_prefix, number, |key| {
        snapshot.get(key).map_err(storage_failure)
    })?;
    Ok(row.map_or(0, |row| row.ts))
}
