//! Change feeds over several physical partitions: of a container, an EPK range, or a prefix of a
//! hierarchical key, for clients that name no partition key range.
//!
//! A page reads the partitions one after another until it is full. Its position is that of each
//! partition; the partition with which the next page begins comes first, so that a partition with
//! many changes does not keep the others waiting.
//!
//! Promises: the pages together have every change of latest versions, or every version; each once,
//! unless partitions are merged meanwhile: then the merged partition is read from the earliest of
//! the positions of its predecessors on. The changes of one partition key stay in their order.
//!
//! Leaves out: an order of changes of different partitions, which the protocol does not have.

use super::FeedRequest;
use crate::Engine;
use crate::catalog::Container;
use crate::ownership::check_all_owned;
use crate::partition::retry_if_moved;
use crate::pending::Pending;
use crate::query::scope_reach;
use crate::request::{Charge, FeedPage, FeedStart, Outcome, RangePosition, RangeStart, Scope};
use orrery_model::memory::RowsMemory;
use orrery_model::partition_key::EpkRange;
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Kind, Result};

/// Bytes of rows after which a page reads no further partition. The rows of one partition may take
/// the bytes of a whole page.
const BYTES_BEFORE_NEXT: usize = 1 << 20;

/// A partition that a page may read.
struct Part {
    range: u32,
    scope: Scope,
    start: FeedStart,
}

/// The charge and the work of the partitions that were read.
#[derive(Default)]
struct Spent {
    charge: Charge,
    work: Work,
}

impl Engine {
    /// Answers a page of the changes of several physical partitions.
    pub(super) fn page_of_several(
        &self,
        request: &FeedRequest<'_>,
        scope: &Scope,
    ) -> Pending<FeedPage> {
        let mut spent = Spent::default();
        let result = retry_if_moved(|| self.read_parts(request, scope, &mut spent));
        let result = self.moved_with_catalog(request.container, result);
        // A refusal before the first partition is charged as that of a feed of one.
        if spent.work.steps.is_empty() {
            spent.work.steps.push(Step::Feed { items: Vec::new() });
            spent.charge = self.profile.price(&spent.work);
        }
        Pending::ready(Outcome {
            result,
            charge: spent.charge,
            work: spent.work,
            position: None,
        })
    }

    fn read_parts(
        &self,
        request: &FeedRequest<'_>,
        scope: &Scope,
        spent: &mut Spent,
    ) -> Result<FeedPage> {
        let parts = self.parts(request, scope)?;
        let mut page = FeedPage {
            rows: Vec::new(),
            continue_after: 0,
            ranges: Vec::new(),
            cut: false,
        };
        let mut bytes = 0;
        let mut positions = Vec::with_capacity(parts.len());
        for part in &parts {
            let rows_left = request
                .max_items
                .map(|most| most.saturating_sub(page.rows.len()));
            if page.cut || rows_left == Some(0) || bytes >= BYTES_BEFORE_NEXT {
                break;
            }
            let one = FeedRequest {
                start: &part.start,
                max_items: rows_left,
                held_bytes: bytes + page.rows.len() * RowsMemory::ROW_BYTES,
                ..*request
            };
            let outcome = self.page_of_one(&one, &part.scope).wait();
            spent.charge = Charge(spent.charge.0 + outcome.charge.0);
            spent.work.steps.extend(outcome.work.steps);
            let found = match outcome.result {
                // The rows of other partitions are not thrown away.
                Err(error) if error.kind() == Kind::Throttled && !page.rows.is_empty() => break,
                found => found?,
            };
            positions.push(RangePosition {
                range: part.range,
                start: RangeStart::Lsn(found.continue_after),
            });
            bytes += found.rows.iter().map(|row| row.len()).sum::<usize>();
            page.rows.extend(found.rows);
            page.cut = found.cut;
        }

        // The next page begins with the partitions that this page did not read.
        let read = positions.len();
        page.cut |= read < parts.len();
        for part in &parts[read..] {
            page.ranges.push(RangePosition {
                range: part.range,
                start: self.unread_start(&part.start),
            });
        }
        page.ranges.extend(positions);
        Ok(page)
    }

    /// Returns the partitions of a scope in the order in which the page reads them.
    ///
    /// # Errors
    /// 400 for a position that is none of this scope; 503 if another process owns one of the
    /// partitions.
    fn parts(&self, request: &FeedRequest<'_>, scope: &Scope) -> Result<Vec<Part>> {
        let container = request.container;
        let reach = scope_reach(container, scope)?;
        check_all_owned(
            reach
                .partitions
                .iter()
                .map(|(partition, _)| partition.as_ref()),
        )?;
        let mut parts = Vec::with_capacity(reach.partitions.len());
        for (partition, within) in reach.partitions {
            let start = start_in(container, &partition.range, request.start)?;
            let place = place_in(container, &partition.range, request.start);
            let part = Part {
                range: partition.id,
                scope: Scope::Range {
                    id: partition.id,
                    within,
                },
                start,
            };
            parts.push((place, part));
        }
        parts.sort_by_key(|(place, _)| *place);
        Ok(parts.into_iter().map(|(_, part)| part).collect())
    }

    /// Returns the position of a partition that was not read.
    fn unread_start(&self, start: &FeedStart) -> RangeStart {
        match start {
            FeedStart::Lsn(lsn) => RangeStart::Lsn(*lsn),
            FeedStart::After { seconds } => RangeStart::After(*seconds),
            FeedStart::Beginning | FeedStart::Ranges(_) => RangeStart::Lsn(0),
            FeedStart::Now => RangeStart::After(self.world().now_seconds()),
        }
    }
}

/// Returns the start of the changes of one partition with this range, out of the positions of
/// several. A successor of a split continues after the position of the partition that was split; a
/// merged partition continues after the earliest of the positions of its predecessors.
///
/// # Errors
/// 400 if none of the positions is of this partition or of one that it succeeds.
pub(super) fn start_in(
    container: &Container,
    range: &EpkRange,
    start: &FeedStart,
) -> Result<FeedStart> {
    let FeedStart::Ranges(positions) = start else {
        return Ok(start.clone());
    };
    let mut lsn_min: Option<u64> = None;
    let mut seconds_min: Option<u64> = None;
    for position in positions {
        if !is_of(container, range, position) {
            continue;
        }
        match position.start {
            RangeStart::Lsn(lsn) => lsn_min = Some(lsn_min.map_or(lsn, |least| least.min(lsn))),
            RangeStart::After(seconds) => {
                seconds_min = Some(seconds_min.map_or(seconds, |least| least.min(seconds)));
            }
        }
    }
    match (seconds_min, lsn_min) {
        // A partition that was not read yet has the earlier start.
        (Some(seconds), _) => Ok(FeedStart::After { seconds }),
        (None, Some(lsn)) => Ok(FeedStart::Lsn(lsn)),
        (None, None) => Err(Error::bad(
            "The header 'If-None-Match' is no etag of this change feed: it names other partition \
             key ranges. Send the etag of the page before, or start again without one.",
        )),
    }
}

/// Returns the place of a partition among the positions: that of the first position of it.
fn place_in(container: &Container, range: &EpkRange, start: &FeedStart) -> usize {
    match start {
        FeedStart::Ranges(positions) => {
            let mut positions = positions.iter();
            let place = positions.position(|position| is_of(container, range, position));
            place.unwrap_or(usize::MAX)
        }
        _ => 0,
    }
}

/// Returns true if a position is of the partition with this range, of one that it succeeds, or of
/// one that succeeds it.
fn is_of(container: &Container, range: &EpkRange, position: &RangePosition) -> bool {
    let named = container.epk_range_of(position.range);
    named.is_some_and(|named| named.intersection(range).is_some())
}

/// Returns the error for positions of several partitions where one is read.
pub(super) fn not_of_one_partition() -> Error {
    Error::internal("the position of one partition was not taken out of those of several")
}
