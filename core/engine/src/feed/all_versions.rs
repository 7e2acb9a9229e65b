//! The change feed with all versions and deletes: each change of each item, as far back as the
//! container keeps versions.

use super::several::not_of_one_partition;
use super::{FeedPageBuilder, FeedReader};
use crate::partition::versions::{Versions, floors};
use crate::request::{FeedPage, FeedStart};
use orrery_model::{Error, Result};

/// Reads a page of at most `page_items` changes.
///
/// # Errors
/// 400 if the container keeps no versions, if the feed starts at the beginning or at a point in
/// time, and if versions after the start are gone; 500 if the store cannot be read.
pub(super) fn read_page(
    reader: &FeedReader<'_>,
    start: &FeedStart,
    page_items: usize,
) -> Result<FeedPage> {
    let retention = reader.container.settings().retention_seconds;
    let retention_seconds = retention.ok_or_else(versions_not_kept)?;
    match start {
        FeedStart::Now => Ok(reader.empty_page()),
        FeedStart::Lsn(lsn) => versions_after(reader, *lsn, retention_seconds, page_items),
        FeedStart::Ranges(_) => Err(not_of_one_partition()),
        FeedStart::Beginning | FeedStart::After { .. } => Err(Error::bad(
            "A change feed in the mode All Versions and Deletes starts from now or from a continuation \
             (If-None-Match), not from the beginning or a point in time.",
        )),
    }
}

fn versions_after(
    reader: &FeedReader<'_>,
    after: u64,
    retention_seconds: u64,
    page_items: usize,
) -> Result<FeedPage> {
    for (range, floor) in floors(reader.snapshot)?.by_range() {
        let read_until = reader.read_until(&range, after);
        if read_until.is_some_and(|read_until| read_until < floor) {
            return Err(versions_are_gone());
        }
    }
    let oldest = reader.moment.now.saturating_sub(retention_seconds);
    let mut page = FeedPageBuilder::new(after, page_items, reader.memory);
    for entry in Versions::after(reader.snapshot, after) {
        let (lsn, version) = entry?;
        let is_shown = reader.is_unread(&version.row, lsn) && reader.filter.has(&version.row);
        // A version beyond the retention counts as gone, whether its row is removed yet or not.
        // Merged histories are not in the order of time: behind the reader's position in one there
        // may be old versions of another, which the reader has read.
        if version.crts < oldest && (is_shown || lsn > reader.mixed_until) {
            return Err(versions_are_gone());
        }
        if !page.reaches(lsn) {
            return Ok(page.cut());
        }
        if is_shown
            && !page.add(version.text(
                reader.container.rid(),
                reader.container.partition_key(),
                lsn,
            )?)?
        {
            return Ok(page.cut());
        }
    }
    Ok(page.end(reader.snapshot.head().lsn))
}

fn versions_not_kept() -> Error {
    Error::bad(
        "The change feed mode All Versions and Deletes must be enabled: set a 'changeFeedPolicy' with a \
         'retentionDuration' (in minutes) on the container, or start the server with \
         --all-versions-and-deletes for all containers that have no such policy.",
    )
}

fn versions_are_gone() -> Error {
    Error::bad(
        "The continuation of the change feed in the mode All Versions and Deletes is older than the versions that are \
         kept: changes since then are beyond the retention of the container, or more than the \
         account keeps. Start again from now.",
    )
}
