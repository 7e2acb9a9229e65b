//! Aggregates over all items of a partition that a full-text index knows.
//!
//! The words of all texts are the count of the index's entries, and the texts with a term are the
//! entries of its stem, or for a phrase the texts in which its words follow each other.

use super::index_view::IndexView;
use super::like_words::TermLists;
use super::posting::{CHECK_INTERVAL, count_checked};
use super::text_hits::TextHits;
use crate::index::generations::Policies;
use crate::index::texts::stem_key;
use crate::partition::keys::{self, PathNumber};
use crate::partition::{Facts, Partition};
use orrery_model::Result;
use orrery_sql::{TermWord, Total};
use orrery_storage::Snapshot;

/// Lists of entries that are merged for a term. Texts with a term of more lists are counted from
/// the items.
const LISTS_MAX: usize = 256;

/// The aggregates of a partition.
pub(super) struct PartitionTotals {
    /// Each of the aggregates that were asked for.
    pub totals: Vec<u64>,
    /// Entries that were read.
    pub entries: u64,
    /// Keys that were read to find the words that are like those of fuzzy terms.
    pub compared_words: u64,
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
    let mut found = PartitionTotals {
        totals: Vec::with_capacity(wanted.len()),
        entries: 0,
        compared_words: 0,
    };
    for (at, total) in wanted.iter().enumerate() {
        // Terms of one stem have the same texts.
        if let Some(known) = wanted[..at].iter().position(|other| other == total) {
            found.totals.push(found.totals[known]);
            continue;
        }
        let (path, language, words) = match total {
            Total::Items => {
                found.totals.push(facts.counters(snapshot)?.items);
                continue;
            }
            Total::Words { path, language } => (path, language, None),
            Total::TextsWithTerm {
                path,
                language,
                words,
            } => (path, language, Some(words)),
        };
        let is_fuzzy = words.into_iter().flatten().any(|word| word.like.is_some());
        let Some((_, number)) = index.texts(path, language, is_fuzzy) else {
            return Ok(None);
        };
        check_point()?;
        let count = match (words, number) {
            (_, None) => Some(0),
            (None, Some(number)) => Some(facts.entries_of(snapshot, number)?),
            (Some(words), Some(number)) => {
                texts_with(snapshot, number, words, &mut found, check_point)?
            }
        };
        match count {
            Some(count) => found.totals.push(count),
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Returns the number of texts in which words that match those of a term follow each other, or
/// `None` if too many words match.
fn texts_with(
    snapshot: &dyn Snapshot,
    number: PathNumber,
    words: &[TermWord],
    work: &mut PartitionTotals,
    check_point: &dyn Fn() -> Result<()>,
) -> Result<Option<u64>> {
    if let [TermWord { stem, like: None }] = words {
        let range = keys::words(number, &stem_key(stem));
        let count = count_checked(snapshot, &range, check_point)?;
        work.entries += count;
        return Ok(Some(count));
    }
    let terms = [words.to_vec()];
    let lists = TermLists::of(snapshot, number, &terms, LISTS_MAX, check_point)?;
    let Some(lists) = lists else {
        return Ok(None);
    };
    work.compared_words += lists.passed;
    let (mut count, mut texts) = (0, 0_u64);
    TextHits::open(snapshot, number, &lists).for_each(|text| {
        work.entries += text.entries;
        count += u64::from(text.hits[0] > 0);
        texts += 1;
        match texts.is_multiple_of(CHECK_INTERVAL) {
            true => check_point(),
            false => Ok(()),
        }
    })?;
    Ok(Some(count))
}
