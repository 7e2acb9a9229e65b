//! Aggregates over all items of a partition that a full-text index knows.
//!
//! The words of all texts are the count of the index's entries, and the texts with a term are the
//! entries of its stem, or for a phrase the texts in which its stems follow each other.

use super::index_view::IndexView;
use super::text_hits::TextHits;
use crate::index::generations::Policies;
use crate::index::texts::stem_key;
use crate::partition::keys::{self, PathNumber};
use crate::partition::{Facts, Partition, scan_keys};
use orrery_model::Result;
use orrery_sql::Total;
use orrery_storage::{Direction, Snapshot};

/// Texts between two calls of the check point.
const CHECK_INTERVAL: u64 = 4_096;

/// The aggregates of a partition.
pub(super) struct PartitionTotals {
    /// Each of the aggregates that were asked for.
    pub totals: Vec<u64>,
    /// Entries that were read.
    pub entries: u64,
}

/// Returns some aggregates over all items of a partition, or `None` if the index does not know one
/// of them.
///
/// # Errors
/// 500 if the store cannot be read, 410 if the partition is split or merged; those of
/// `check_point`.
pub(super) fn partition_totals(
    partition: &Partition,
    facts: &Facts,
    snapshot: &dyn Snapshot,
    policies: &Policies,
    wanted: &[Total],
    check_point: &dyn Fn() -> Result<()>,
) -> Result<Option<PartitionTotals>> {
    let Some(index) = IndexView::of(partition, facts, snapshot, policies)? else {
        return Ok(None);
    };
    let (mut totals, mut entries) = (Vec::with_capacity(wanted.len()), 0);
    for total in wanted {
        let number = match total {
            Total::Items => {
                totals.push(facts.counters(snapshot)?.items);
                continue;
            }
            Total::Words { path, language } | Total::TextsWithTerm { path, language, .. } => {
                match index.texts(path, language) {
                    Some((_, number)) => number,
                    None => return Ok(None),
                }
            }
        };
        check_point()?;
        totals.push(match (total, number) {
            (Total::Words { .. }, Some(number)) => facts.entries_of(snapshot, number)?,
            (Total::TextsWithTerm { stems, .. }, Some(number)) => {
                texts_with(snapshot, number, stems, &mut entries, check_point)?
            }
            _ => 0,
        });
    }
    Ok(Some(PartitionTotals { totals, entries }))
}

/// Returns the number of texts in which some stems follow each other.
fn texts_with(
    snapshot: &dyn Snapshot,
    number: PathNumber,
    stems: &[String],
    entries: &mut u64,
    check_point: &dyn Fn() -> Result<()>,
) -> Result<u64> {
    match stems {
        [] => Ok(0),
        [stem] => {
            let range = keys::words(number, &stem_key(stem));
            let mut count = 0_u64;
            for key in scan_keys(snapshot, &range, Direction::Forward, |_| Ok(())) {
                key?;
                count += 1;
                if count.is_multiple_of(CHECK_INTERVAL) {
                    check_point()?;
                }
            }
            *entries += count;
            Ok(count)
        }
        phrase => {
            let terms = [phrase.to_vec()];
            let (mut count, mut texts) = (0, 0_u64);
            TextHits::open(snapshot, number, &terms).for_each(|text| {
                *entries += text.entries;
                count += u64::from(text.hits[0] > 0);
                texts += 1;
                match texts.is_multiple_of(CHECK_INTERVAL) {
                    true => check_point(),
                    false => Ok(()),
                }
            })?;
            Ok(count)
        }
    }
}
