//! The items that decide ORDER BY RANK in a partition: the best ones by each score.
//!
//! The executor keeps the best rows by each score and fuses their ranks, so all other items may be
//! left out. A walk over the index of each score names its best items; those that the query may not
//! see, or that a condition excludes, do not count.

use super::cursor::read_visible_row;
use super::lookup::{ItemMatch, Lookup};
use super::partition_query::PartitionQuery;
use super::posting::{IndexPosition, Posting, Postings};
use super::score_walk::{ScoreWalk, ScoredEntries};
use crate::partition::keys::ItemNumber;
use orrery_model::Result;
use orrery_storage::Snapshot;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Postings between two calls of the check point.
const CHECK_INTERVAL: u64 = 256;

/// The best items by some scores.
#[derive(Debug)]
pub(crate) struct RankedItems {
    /// A walk for each score.
    pub walks: Vec<ScoreWalk>,
    /// The number of the best items by each score.
    pub rows: usize,
    /// The lookups of the conditions, which decide them.
    pub filters: Vec<Lookup>,
}

impl RankedItems {
    /// Returns the entries that the walks have read so far.
    pub(crate) fn entries(&self) -> ScoredEntries {
        let mut entries = ScoredEntries::default();
        for walk in &self.walks {
            entries.add(walk.entries());
        }
        entries
    }

    /// Returns the postings of the items in natural order, or `None` if the index does not decide
    /// the conditions for every item.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn postings<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        query: PartitionQuery<'a>,
    ) -> Result<Option<Postings<'a>>> {
        let matches = match &self.filters[..] {
            [] => None,
            filters => {
                let all = Lookup::All(filters.to_vec());
                let Some(matches) = all.collect(snapshot, query.check_point, 0, usize::MAX)? else {
                    return Ok(None);
                };
                if !matches.iter().all(|found| found.is_exact) {
                    return Ok(None);
                }
                Some(matches)
            }
        };
        let passes = |number: ItemNumber| {
            let matches = matches.as_ref();
            matches.is_none_or(|matches: &Vec<ItemMatch>| {
                let found = matches.binary_search_by_key(&number, |found| found.number);
                found.is_ok()
            })
        };
        let matches_max = matches.as_ref().map_or(usize::MAX, Vec::len);

        // An item that is among the best by several scores is read once.
        let mut chosen: BTreeMap<ItemNumber, Posting> = BTreeMap::new();
        for walk in &self.walks {
            let kept_max = match matches {
                None => self.rows.saturating_mul(2),
                Some(_) => usize::MAX,
            };
            let (mut best, mut passed, mut seen) = (0, 0, 0_u64);
            for posting in walk.postings(snapshot, query, None, kept_max)? {
                if best >= self.rows || passed >= matches_max {
                    break;
                }
                let posting = posting?;
                seen += 1;
                if seen.is_multiple_of(CHECK_INTERVAL) {
                    (query.check_point)()?;
                }
                let number = posting.position.number;
                if !passes(number) {
                    continue;
                }
                passed += 1;
                if let Entry::Vacant(entry) = chosen.entry(number) {
                    let row = read_visible_row(snapshot, &query, posting.epk_prefix, number, None)?;
                    if row.is_none() {
                        continue;
                    }
                    let position = IndexPosition::natural(number);
                    entry.insert(Posting::new(position, posting.epk_prefix));
                }
                best += 1;
            }
        }
        Ok(Some(Box::new(chosen.into_values().map(Ok))))
    }
}
