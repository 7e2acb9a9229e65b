//! The seconds of changes (`_ts`), and the moment by which the time to live of items is judged.
//!
//! `_ts` is the second of the clock, and the clock of a machine can be wrong:
//!
//! ```text
//! last stamp is                         the next stamp is
//! not after the clock                   the clock
//! ahead by up to HELD_SECONDS           the last stamp: `_ts` waits until the clock has come there
//! ahead by more                         the clock: the last stamp was wrong
//! ahead by more, and the clock shows    the last stamp: the clock was never set
//! a time before FIRST_SECOND
//! ```
//!
//! So a clock that was years ahead once spoils the items that were written then, and no others. An
//! item that is dated later than the clock is at least as old as the time for which the process
//! knows the partition without a step back of the clock ([`Moment::since`]), and expires by that.
//! `orrery repair --clock` dates such items anew.
//!
//! Promises: an item does not expire before its time because of the stamps of others; sessions and
//! the order of change feeds follow LSNs and never stamps.

use super::Partition;
use crate::partition::row::Row;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds by which the last stamp may be ahead of the clock and is still held.
const HELD_SECONDS: u64 = 86_400;
/// The first second of 2025. A clock that shows an earlier time was never set.
const FIRST_SECOND: u64 = 1_735_689_600;
/// Seconds by which the clock may go back without a notice.
const SLACK_SECONDS: u64 = 60;

/// Returns the second of a change at `now` that follows one of second `last`.
pub(crate) fn stamp(now: u64, last: u64) -> u64 {
    match is_ahead(last, now) {
        true => now,
        false => now.max(last),
    }
}

/// Returns true if a clock that shows this second was never set.
pub fn is_unset_clock(now: u64) -> bool {
    now < FIRST_SECOND
}

/// Returns true if a stamp is so far ahead of the clock that it must be wrong.
pub(crate) fn is_ahead(stamp: u64, now: u64) -> bool {
    !is_unset_clock(now) && stamp > now.saturating_add(HELD_SECONDS)
}

/// The time at which items are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The second of the clock.
    pub(crate) now: u64,
    /// A second of the same clock. Every item whose stamp is far ahead of the clock was written
    /// before.
    pub(crate) since: u64,
}

impl Moment {
    /// Returns true if a row is dated later than it can have been written.
    pub(crate) fn is_misdated(&self, row: &Row) -> bool {
        // New items are stamped at most as far ahead as a stamp is held.
        is_ahead(row.ts, self.now.saturating_add(2 * SLACK_SECONDS))
    }

    /// Returns the second from which on a row is expired in a container with this `defaultTtl`, or
    /// `None` if it never expires.
    pub(crate) fn expires(&self, row: &Row, default_ttl: Option<i32>) -> Option<u64> {
        let ttl = row.ttl_in(default_ttl)?;
        let written = match self.is_misdated(row) {
            true => self.since,
            false => row.ts,
        };
        Some(written + ttl)
    }

    /// Returns true if a row is not expired.
    pub(crate) fn has(&self, row: &Row, default_ttl: Option<i32>) -> bool {
        let expires = self.expires(row, default_ttl);
        expires.is_none_or(|second| self.now < second)
    }
}

/// The stamps of a partition, as its owner knows them.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// The second of the last commit, from the first opening of the writer on.
    last: AtomicU64,
    /// The second of the clock at the last look; 0 before the first.
    seen: AtomicU64,
    /// [`Moment::since`].
    since: AtomicU64,
}

impl Stamps {
    /// Begins anew: items may have been written by another process until now.
    pub(super) fn forget_moments(&self) {
        self.seen.store(0, Ordering::SeqCst);
    }

    fn look(&self, now: u64) -> Moment {
        let seen = self.seen.load(Ordering::SeqCst);
        if seen == 0 || now.saturating_add(SLACK_SECONDS) < seen {
            self.since.store(now, Ordering::SeqCst);
        }
        if seen != now {
            self.seen.store(now, Ordering::SeqCst);
        }
        let since = self.since.load(Ordering::SeqCst);
        Moment { now, since }
    }
}

impl Partition {
    /// Returns the moment for looking at items at second `now` of the clock.
    pub(crate) fn moment(&self, now: u64) -> Moment {
        match self.is_owned() && !self.is_copy() {
            true => self.stamps.look(now),
            // Another process may write items now, by a clock of its own.
            false => Moment { now, since: now },
        }
    }

    /// Returns the second of a commit at second `now` of the clock.
    pub fn commit_second(&self, now: u64) -> u64 {
        stamp(now, self.stamps.last.load(Ordering::Relaxed))
    }

    /// Remembers the second of an accepted commit. The writer is locked.
    pub(super) fn note_commit_second(&self, second: u64) {
        let last = self.stamps.last.load(Ordering::Relaxed);
        self.stamps
            .last
            .store(stamp(second, last), Ordering::Relaxed);
    }

    /// Sets the second of the last durable commit, for a new writer.
    pub(crate) fn set_commit_second(&self, second: u64) {
        self.stamps.last.store(second, Ordering::Relaxed);
    }

    /// Returns the second of the last commit.
    pub(crate) fn last_commit_second(&self) -> u64 {
        self.stamps.last.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::IndexingDirective;
    use bytes::Bytes;
    use orrery_model::partition_key::Epk;

    const NOW: u64 = 1_795_000_000;
    const DAY: u64 = 86_400;
    const YEARS: u64 = 20 * 365 * DAY;

    fn row(ts: u64, ttl: i32) -> Row {
        Row {
            lsn: 1,
            sequence: 0,
            ts,
            etag: 0,
            ttl,
            indexing: IndexingDirective::Default,
            has_no_links: false,
            epk: Epk::from_bytes(b"abc"),
            body: Bytes::from_static(b"{}"),
        }
    }

    #[test]
    fn a_stamp_waits_for_a_day_and_not_for_years() {
        assert_eq!(stamp(NOW, NOW - 5), NOW);
        assert_eq!(stamp(NOW, NOW + DAY), NOW + DAY);
        assert_eq!(stamp(NOW, NOW + DAY + 1), NOW);
        assert_eq!(stamp(NOW, NOW + YEARS), NOW);
        // A machine without a battery starts in 1970.
        assert_eq!(stamp(40, NOW), NOW);
    }

    #[test]
    fn a_misdated_item_expires_its_time_after_the_process_has_seen_it() {
        let stamps = Stamps::default();
        let item = row(NOW + YEARS, 60);
        let first = stamps.look(NOW);
        assert_eq!(first.expires(&item, Some(-1)), Some(NOW + 60));
        let later = stamps.look(NOW + 60);
        assert!(first.has(&item, Some(-1)) && !later.has(&item, Some(-1)));
        assert!(later.has(&row(NOW + YEARS, -1), Some(-1)));
        assert!(later.has(&item, None));
        // An item with a right stamp expires by the stamp.
        assert_eq!(later.expires(&row(NOW - 10, 60), Some(-1)), Some(NOW + 50));
    }

    #[test]
    fn a_clock_that_goes_back_while_the_process_runs_lets_nothing_expire_early() {
        let stamps = Stamps::default();
        stamps.look(NOW);
        let ahead = stamps.look(NOW + YEARS);
        let item = row(ahead.now, 60);
        assert!(ahead.has(&item, Some(-1)));
        // The process is 10 days old; the item was written a moment ago.
        let back = stamps.look(NOW + 10 * DAY);
        assert!(back.has(&item, Some(-1)));
        assert!(!stamps.look(NOW + 10 * DAY + 60).has(&item, Some(-1)));
    }

    #[test]
    fn nothing_expires_by_a_clock_that_was_never_set() {
        let moment = Stamps::default().look(40);
        assert!(moment.has(&row(NOW, 60), Some(-1)));
        assert!(
            Moment {
                now: 5_000,
                ..moment
            }
            .has(&row(NOW, 60), Some(-1))
        );
    }
}
