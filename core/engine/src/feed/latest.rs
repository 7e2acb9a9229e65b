//! The change feed of latest versions: each item once, at its last change, in the order of LSNs.

use super::several::not_of_one_partition;
use super::{FeedPageBuilder, FeedReader, ROW};
use crate::errors::{damaged, storage_failure};
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::Row;
use crate::partition::row_reader::read_change;
use crate::partition::row_reader::read_row;
use crate::partition::scan;
use crate::partition::visibility::Visibility;
use crate::request::{FeedPage, FeedStart, RangeStart};
use orrery_model::Result;
use orrery_storage::Direction;

/// Seconds by which clocks may have been set back while a partition was written.
const CLOCK_SLACK_SECONDS: u64 = 60;

/// Reads a page of at most `page_items` changes.
///
/// # Errors
/// 500 if the store cannot be read.
pub(super) fn read_page(
    reader: &FeedReader<'_>,
    start: &FeedStart,
    page_items: usize,
) -> Result<FeedPage> {
    match start {
        FeedStart::Now => Ok(reader.empty_page()),
        FeedStart::Beginning => changes_after(reader, 0, None, page_items),
        FeedStart::Lsn(lsn) => changes_after(reader, *lsn, None, page_items),
        FeedStart::Ranges(_) => Err(not_of_one_partition()),
        FeedStart::After { seconds } => {
            let mut after = lsn_before(reader, *seconds)?;
            // Each part says what is new in it.
            let changed_after = reader.parts.is_empty().then_some(*seconds);
            for part in &reader.parts {
                if let RangeStart::Lsn(lsn) = part.position.start {
                    after = after.min(lsn);
                }
            }
            changes_after(reader, after, changed_after, page_items)
        }
    }
}

/// Returns the visible items whose last change is after an LSN and after second `changed_after`.
fn changes_after(
    reader: &FeedReader<'_>,
    after: u64,
    changed_after: Option<u64>,
    page_items: usize,
) -> Result<FeedPage> {
    let settings = reader.container.settings();
    let visibility = Visibility::of(reader.snapshot, reader.moment, &settings)?;
    let mut page = FeedPageBuilder::new(after, page_items, reader.memory);
    let range = keys::feed_after(after);
    for entry in scan(reader.snapshot, &range, Direction::Forward) {
        let (key, value) = entry?;
        let (lsn, number, epk_prefix) = read_change(&key, &value)?;
        if !page.reaches(lsn) {
            return Ok(page.cut());
        }
        // The prefix rules most items of other logical partitions out without a read.
        if !reader.filter.may_have(epk_prefix) {
            continue;
        }
        let row = item_row(reader, number, epk_prefix)?;
        let is_new_enough = changed_after.is_none_or(|second| row.ts > second);
        if is_new_enough
            && reader.is_unread(&row, lsn)
            && reader.filter.has(&row)
            && visibility.has(&row)
        {
            let text = row.feed_text(reader.container.rid(), number);
            if !page.add(text)? {
                return Ok(page.cut());
            }
        }
    }
    Ok(page.end(reader.snapshot.head().lsn))
}

/// Returns an LSN before the first change after `second`.
///
/// Rows carry the seconds of their changes in the order of the feed, with two exceptions: a clock
/// may have been set back, and changes of merged histories are not in the order of time. The search
/// skips as much as is safe, and then looks at each change.
fn lsn_before(reader: &FeedReader<'_>, second: u64) -> Result<u64> {
    // Bisection over LSNs above the merged part: `old` is old enough, `new` may be too new.
    let head = reader.snapshot.head().lsn;
    let (mut old, mut new) = (reader.mixed_until, head);
    while old < new {
        let middle = old + (new - old) / 2;
        match rows_after(reader, middle).next().transpose()? {
            Some((lsn, row)) if row.ts <= second.saturating_sub(CLOCK_SLACK_SECONDS) => old = lsn,
            _ => new = middle,
        }
    }
    // No change in the order of time is old enough, so the merged part may hold newer changes
    // anywhere.
    if old == reader.mixed_until {
        old = 0;
    }
    for change in rows_after(reader, old) {
        let (lsn, row) = change?;
        if row.ts > second {
            return Ok(lsn - 1);
        }
    }
    Ok(head)
}

/// Iterates over the items whose last change is after an LSN, each with the LSN of that change.
fn rows_after(reader: &FeedReader<'_>, lsn: u64) -> impl Iterator<Item = Result<(u64, Row)>> {
    let changes = scan(reader.snapshot, &keys::feed_after(lsn), Direction::Forward);
    changes.map(|entry| {
        let (key, value) = entry?;
        let (lsn, number, epk_prefix) = read_change(&key, &value)?;
        Ok((lsn, item_row(reader, number, epk_prefix)?))
    })
}

fn item_row(reader: &FeedReader<'_>, number: ItemNumber, epk_prefix: EpkPrefix) -> Result<Row> {
    let row = read_row(epk_prefix, number, |key| {
        reader.snapshot.get(key).map_err(storage_failure)
    })?;
    row.ok_or_else(|| damaged(ROW))
}
