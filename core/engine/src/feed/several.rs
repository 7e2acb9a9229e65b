//! Change feeds over several physical partitions: of a container, an EPK range, or a prefix of a
//! hierarchical key, for clients that name no partition key range.
//!
//! A page reads the partitions one after another until it is full. Its position is that of each
//! partition; the partition with which the next page begins comes first, so that a partition with
//! many changes does not keep the others waiting.
//!
//! A position says that every change of a partition up to an LSN is read. It stays true when the
//! partition is split or merged, because the LSNs of a partition key ascend through all of that. So
//! a position of several partitions is a set of such sentences, and a change is read if one of them
//! says so:
//!
//! ```text
//! read: A up to 60, B up to 950        A and B become M
//! M:    keys of A from 61, keys of B from 951
//! page to 800: A up to 60, B up to 950, M up to 800
//! page to the end: M up to the end
//! ```
//!
//! Promises: the pages together have every change of latest versions, or every version, each once.
//! The changes of one partition key stay in their order.
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
use std::collections::HashSet;

/// Bytes of rows after which a page reads no further partition. The rows of one partition may take
/// the bytes of a whole page.
const BYTES_BEFORE_NEXT: usize = 1 << 20;

/// A partition that a page may read.
struct Part {
    range: u32,
    scope: Scope,
    start: StartIn,
}

/// The start of a page in one partition.
pub(super) struct StartIn {
    pub(super) start: FeedStart,
    /// The positions in the parts of the partition, if the reader names positions of several
    /// partitions. The parts cover the partition.
    pub(super) parts: Vec<PartPosition>,
}

/// The position of a reader in a part of a partition.
#[derive(Clone, Debug)]
pub(super) struct PartPosition {
    /// The part.
    pub(super) within: EpkRange,
    /// The position, which may be of a larger range.
    pub(super) position: RangePosition,
    /// The index of the position among those that the reader names.
    place: usize,
}

impl PartPosition {
    /// Returns the LSN up to which every change of the part is read.
    pub(super) fn read_until(&self) -> u64 {
        match self.position.start {
            RangeStart::Lsn(lsn) => lsn,
            RangeStart::After(_) => 0,
        }
    }

    /// Returns the same position for another part.
    fn of_part(&self, within: EpkRange) -> PartPosition {
        PartPosition {
            within,
            ..self.clone()
        }
    }
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
        let (mut bytes, mut read) = (0, 0);
        let mut positions = Vec::with_capacity(parts.len());
        for part in &parts {
            let rows_left = request
                .max_items
                .map(|most| most.saturating_sub(page.rows.len()));
            if page.cut || rows_left == Some(0) || bytes >= BYTES_BEFORE_NEXT {
                break;
            }
            let named = part.start.named();
            let one = FeedRequest {
                start: &named,
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
            read += 1;
            if found.ranges.is_empty() {
                positions.push(RangePosition {
                    range: part.range,
                    start: RangeStart::Lsn(found.continue_after),
                });
            }
            positions.extend(found.ranges);
            bytes += found.rows.iter().map(|row| row.len()).sum::<usize>();
            page.rows.extend(found.rows);
            page.cut = found.cut;
        }

        // The next page begins with the partitions that this page did not read.
        page.cut |= read < parts.len();
        for part in &parts[read..] {
            if part.start.parts.is_empty() {
                page.ranges.push(RangePosition {
                    range: part.range,
                    start: self.unread_start(&part.start.start),
                });
            }
            let known = part.start.parts.iter().map(|part| part.position);
            page.ranges.extend(known);
        }
        page.ranges.extend(positions);
        page.ranges = without_repeats(page.ranges);
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
            // A partition that was read has a position behind those that were not.
            let place = start.parts.iter().map(|part| part.place).max();
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

impl StartIn {
    /// Returns the start as a request names it.
    fn named(&self) -> FeedStart {
        match self.parts.is_empty() {
            true => self.start.clone(),
            false => FeedStart::Ranges(self.parts.iter().map(|part| part.position).collect()),
        }
    }
}

/// Returns the start of the changes of one partition with this range. A successor of a split
/// continues after the position of the partition that was split; a merged partition continues after
/// the earliest of the positions of its predecessors, and passes over what was read of the others.
///
/// # Errors
/// 400 if none of the positions is of this partition or of one that it succeeds.
pub(super) fn start_in(
    container: &Container,
    range: &EpkRange,
    start: &FeedStart,
) -> Result<StartIn> {
    let FeedStart::Ranges(positions) = start else {
        return Ok(StartIn {
            start: start.clone(),
            parts: Vec::new(),
        });
    };
    let parts = parts_in(container, range, positions);
    let seconds = parts.iter().filter_map(|part| match part.position.start {
        RangeStart::After(seconds) => Some(seconds),
        RangeStart::Lsn(_) => None,
    });
    let start = match (
        seconds.min(),
        parts.iter().map(PartPosition::read_until).min(),
    ) {
        // Something was not read yet.
        (Some(seconds), _) => FeedStart::After { seconds },
        (None, Some(lsn)) => FeedStart::Lsn(lsn),
        (None, None) => {
            return Err(Error::bad(
                "The header 'If-None-Match' is no etag of this change feed: it names other \
                 partition key ranges. Send the etag of the page before, or start again without \
                 one.",
            ));
        }
    };
    Ok(StartIn { start, parts })
}

/// Returns the parts of a range that differ in what was read of them, each with the position that
/// says most. Empty if no position is of the range.
fn parts_in(
    container: &Container,
    range: &EpkRange,
    positions: &[RangePosition],
) -> Vec<PartPosition> {
    // What was read furthest comes first, and what was not read at all last.
    let mut known = Vec::new();
    for (place, position) in positions.iter().enumerate() {
        let named = container.epk_range_of(position.range);
        if let Some(within) = named.and_then(|named| named.intersection(range)) {
            known.push(PartPosition {
                within,
                position: *position,
                place,
            });
        }
    }
    known.sort_by_key(|part| match part.position.start {
        RangeStart::Lsn(lsn) => (0, u64::MAX - lsn),
        RangeStart::After(seconds) => (1, seconds),
    });
    let mut seen = HashSet::new();
    known.retain(|part| seen.insert(part.position.range));

    // Each position covers what no position before has covered.
    let mut uncovered = vec![range.clone()];
    let mut parts = Vec::new();
    for candidate in &known {
        let mut rest = Vec::new();
        for piece in uncovered {
            match piece.intersection(&candidate.within) {
                Some(common) => {
                    rest.extend(around(&piece, &common));
                    parts.push(candidate.of_part(common));
                }
                None => rest.push(piece),
            }
        }
        uncovered = rest;
    }

    // An etag of a page covers all that the page could read; of another one the rest is read from
    // the earliest position on.
    let is_unread = |part: &&PartPosition| matches!(part.position.start, RangeStart::After(_));
    if let Some(earliest) = known.iter().find(is_unread).or(known.last()) {
        parts.extend(uncovered.into_iter().map(|piece| earliest.of_part(piece)));
    }
    parts
}

/// Returns the parts of a range before and behind a part in its middle.
fn around(range: &EpkRange, middle: &EpkRange) -> impl Iterator<Item = EpkRange> + use<> {
    let before = EpkRange::new(range.min.clone(), middle.min.clone());
    let behind = EpkRange::new(middle.max.clone(), range.max.clone());
    [before, behind].into_iter().filter(|part| !part.is_empty())
}

/// Returns the positions after a page of the partition `range` that ends at an LSN: that of the
/// partition, with those that say more of a part of it. Empty if none does.
pub(super) fn positions_after(range: u32, parts: &[PartPosition], lsn: u64) -> Vec<RangePosition> {
    let mut positions: Vec<RangePosition> = Vec::new();
    for part in parts.iter().filter(|part| part.read_until() > lsn) {
        positions.push(part.position);
    }
    if !positions.is_empty() {
        positions.push(RangePosition {
            range,
            start: RangeStart::Lsn(lsn),
        });
    }
    without_repeats(positions)
}

/// Returns positions in their order, each once.
fn without_repeats(mut positions: Vec<RangePosition>) -> Vec<RangePosition> {
    let mut seen = HashSet::new();
    positions.retain(|position| seen.insert(*position));
    positions
}

/// Returns the error for positions of several partitions where one is read.
pub(super) fn not_of_one_partition() -> Error {
    Error::internal("the position of one partition was not taken out of those of several")
}
