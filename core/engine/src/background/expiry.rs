//! Removal of expired items, and of the space of deleted containers.
//!
//! Clients see an expired item no more, see `partition/visibility.rs`; the removal here frees its
//! rows.

use super::work::Removed;
use crate::Engine;
use crate::catalog::Container;
use crate::errors::{damaged, storage_failure};
use crate::partition::item::StoredItem;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::Row;
use crate::partition::row_reader::{read_change, read_row};
use crate::partition::stamps::Moment;
use crate::partition::{Partition, scan};
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};

/// Expired items that one commit removes.
const EXPIRED_PER_COMMIT: usize = 100;
/// Changes that one search for expired items visits, about.
const CHANGES_PER_STEP: usize = 1_000;
/// Items that are not expired after which a search in the change feed ends.
const LIVE_VISITED: usize = 100;
/// The subject of the error for a damaged row.
const ROW: &str = "an expiry row";

impl Engine {
    /// Frees the space of deleted containers.
    ///
    /// # Errors
    /// 500 and 503 as the store reports; the next call goes on.
    pub fn destroy_deleted(&self) -> Result<()> {
        while self.catalog().destroy_one_orphan()? {}
        Ok(())
    }

    /// Removes expired items, a bounded number from each partition. Returns their number.
    ///
    /// # Errors
    /// 500 and 503 as the store reports; the next call goes on.
    pub fn remove_expired(&self) -> Result<usize> {
        let removed = self.for_each_partition(
            |container| container.settings().default_ttl.is_some(),
            |container, partition| Ok(self.remove_expired_of(container, partition)?.count),
        )?;
        self.meters().expired_items.add(removed as u64);
        Ok(removed)
    }

    /// Removes some expired items of one partition.
    pub(super) fn remove_expired_of(
        &self,
        container: &Container,
        partition: &Partition,
    ) -> Result<Removed> {
        let wall = partition.moment(self.world().now_seconds());
        let times = RemovalTimes {
            wall,
            confirmed: Moment {
                now: self.confirmed_seconds(),
                ..wall
            },
            default_ttl: container.settings().default_ttl,
        };
        let snapshot = partition.snapshot_of_accepted()?;
        let found = find_expired(partition, snapshot.as_ref(), times)?;
        drop(snapshot);
        if found.expired.is_empty() {
            return Ok(Removed {
                count: 0,
                is_partial: found.is_partial,
                next_seconds: found.next_seconds,
            });
        }
        let count = self.transaction_step(container, partition, |transaction, snapshot| {
            let mut removed = 0;
            for old in found.expired {
                if transaction.is_large() {
                    break;
                }
                // A client may have written the item again since it was found.
                let current = read_row(keys::epk_prefix(&old.row.epk), old.number, |key| {
                    snapshot.get(key).map_err(storage_failure)
                })?;
                if current.is_some_and(|row| row.lsn == old.row.lsn) {
                    transaction.erase(&old)?;
                    removed += 1;
                }
            }
            Ok(removed)
        })?;
        // After a removal there may be more: the next visit looks.
        Ok(Removed {
            count,
            is_partial: true,
            next_seconds: None,
        })
    }
}

/// The times by which items are removed: an item has expired by the clock, as readers see it, and
/// by the confirmed clock.
#[derive(Clone, Copy)]
struct RemovalTimes {
    wall: Moment,
    confirmed: Moment,
    default_ttl: Option<i32>,
}

impl RemovalTimes {
    fn is_expired(&self, row: &Row) -> bool {
        !self.wall.has(row, self.default_ttl) && !self.confirmed.has(row, self.default_ttl)
    }

    /// Returns the second in which an item expires.
    fn expires(&self, row: &Row) -> u64 {
        let expires = self.confirmed.expires(row, self.default_ttl);
        expires.unwrap_or(u64::MAX)
    }
}

/// The result of a search for expired items.
#[derive(Default)]
struct ExpiredItems {
    expired: Vec<StoredItem>,
    /// True if the search ended before it came to an item that is not expired.
    is_partial: bool,
    /// The second in which the next item expires, as far as the search came.
    next_seconds: Option<u64>,
}

impl ExpiredItems {
    fn is_full(&self) -> bool {
        self.expired.len() >= 2 * EXPIRED_PER_COMMIT
    }

    fn expect(&mut self, seconds: u64) {
        let next = self.next_seconds.unwrap_or(u64::MAX);
        self.next_seconds = Some(next.min(seconds));
    }
}

/// Finds some items of a snapshot that have expired.
fn find_expired(
    partition: &Partition,
    snapshot: &dyn Snapshot,
    times: RemovalTimes,
) -> Result<ExpiredItems> {
    let now = times.confirmed.now;
    let mut found = ExpiredItems::default();
    let mut candidates: Vec<(ItemNumber, EpkPrefix)> = Vec::new();
    // Items with a `ttl` of their own have a row under the second in which they expire.
    for entry in scan(
        snapshot,
        &keys::expiries_until(u64::MAX - 1),
        Direction::Forward,
    ) {
        let (key, value) = entry?;
        let (second, number) = keys::read_expiry(&key).ok_or_else(|| damaged(ROW))?;
        if second > now {
            found.expect(second);
            break;
        }
        if candidates.len() == EXPIRED_PER_COMMIT {
            found.is_partial = true;
            break;
        }
        candidates.push((number, value[..].try_into().map_err(|_| damaged(ROW))?));
    }
    let has_candidates = !candidates.is_empty();
    for (number, epk_prefix) in candidates {
        let row = read_row(epk_prefix, number, |key| {
            snapshot.get(key).map_err(storage_failure)
        })?;
        if let Some(row) = row
            && times.is_expired(&row)
        {
            found.expired.push(StoredItem { number, row });
        }
    }
    if has_candidates && found.expired.is_empty() {
        // No row leads to an expired item. Another search at once would find the same.
        found.is_partial = false;
        found.expect(now);
    }
    if times.default_ttl.is_some_and(|ttl| ttl > 0) {
        find_expired_by_default(partition, snapshot, times, &mut found)?;
    }
    Ok(found)
}

/// Finds items without a `ttl` of their own that have expired. They expire in the order in which
/// they were last changed: that of the change feed. Items with a `ttl` of their own are passed
/// over, and so are live items that are dated later than the clock, which say nothing about those
/// after them. The partition remembers how far there is nothing else.
fn find_expired_by_default(
    partition: &Partition,
    snapshot: &dyn Snapshot,
    times: RemovalTimes,
    found: &mut ExpiredItems,
) -> Result<()> {
    let after = partition.passed_until(times.confirmed.now);
    let (mut last_lsn, mut only_passed, mut live) = (after, true, 0);
    // The second in which the first of the items that are passed over expires.
    let mut passed_before = u64::MAX;
    let rows = scan(snapshot, &keys::feed_after(after), Direction::Forward);
    for (entry, visited) in rows.zip(0..) {
        let (key, value) = entry?;
        let (lsn, number, epk_prefix) = read_change(&key, &value)?;
        // The changes of one commit are visited together, so that the next search can begin
        // behind them.
        if lsn != last_lsn && (visited >= CHANGES_PER_STEP || found.is_full()) {
            // After an item that is not expired the search may end: the item's time is known.
            found.is_partial = live == 0;
            break;
        }
        let row = read_row(epk_prefix, number, |key| {
            snapshot.get(key).map_err(storage_failure)
        })?;
        if let Some(row) = row
            && row.ttl == 0
        {
            let is_expired = times.is_expired(&row);
            let expires = times.expires(&row);
            if !is_expired {
                found.expect(expires);
            }
            if !is_expired && times.confirmed.is_misdated(&row) {
                passed_before = passed_before.min(expires);
            } else {
                if only_passed {
                    partition.set_passed_until(lsn.saturating_sub(1), passed_before);
                    only_passed = false;
                }
                match is_expired {
                    true => found.expired.push(StoredItem { number, row }),
                    false => live += 1,
                }
            }
        }
        // Merged histories are not in the order of time, so a few items more are looked at.
        if live == LIVE_VISITED {
            break;
        }
        last_lsn = lsn;
    }
    if only_passed {
        partition.set_passed_until(last_lsn, passed_before);
    }
    Ok(())
}
