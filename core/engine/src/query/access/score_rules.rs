//! The rules for orders by a score: walks over vectors and words, and the best items of ORDER BY
//! RANK.
//!
//! A condition decides which entries a walk over vectors reads:
//!
//! | matches of the shortest lookup | entries |
//! |---|---|
//! | few items | none: the items are read and sorted |
//! | few beside all vectors | the vectors of the matches |
//! | more, where the index has quantised vectors | the quantised vectors of the matches |
//! | many | candidates of the index or of some of its shards, or all vectors |

use super::{AccessMethod, AccessPath, Estimates, Planner, Remaining};
use crate::query::approximation::Approximation;
use crate::query::partition_query::FixedOrder;
use crate::query::ranked::RankedItems;
use crate::query::score_walk::{ScoreWalk, Ties};
use orrery_model::Result;
use orrery_sql::IndexedScore;

/// Entries of a vector or full-text index that can be read at the cost of reading and testing one
/// item.
const ENTRIES_PER_ITEM: usize = 32;
/// Matches of a lookup that are read and sorted rather than found by their vectors.
const FEW_ITEMS: usize = 64;
/// Vectors that are read in their order in the time of one that is looked up.
const VECTORS_PER_MATCH: u64 = 10;
/// Matches of a lookup whose vectors are read where an index proposes candidates otherwise.
const MATCHES_MAX: u64 = 1_000;
/// Vectors for each match of a lookup whose quantised vectors are compared.
const VECTORS_PER_CODE: u64 = 8;
/// Entries of a lookup that are counted, and matches whose quantised vectors are compared.
pub(super) const COUNTED_MAX: usize = 30_000;
/// Best rows by a score that are read one by one. For more of them all items are read.
const RANKED_ROWS_MAX: u64 = 10_000;

impl Planner<'_, '_> {
    /// Rule: an order by a score walks over the index of the score, unless the matches of a lookup
    /// are so few that reading their items costs less than reading the index.
    pub(super) fn score_walk(&self, estimates: &Estimates) -> Result<Option<AccessPath>> {
        let order = match self.query.query.order_score() {
            Some(order) if self.query.order != Some(FixedOrder::Sort) => order,
            _ => return Ok(None),
        };
        let Some(mut walk) = self.walk_by(order, Ties::Descend) else {
            return Ok(None);
        };
        if let Some(FixedOrder::Index(id)) = self.query.order {
            if walk.index_id() != id {
                return Ok(None);
            }
        } else if self.has_few_matches(estimates, &walk)?
            && (walk.reads_words() || self.has_few_items(estimates))
        {
            return Ok(None);
        }
        self.choose_vectors(estimates, &mut walk)?;
        let Some(walk) = walk.with_words(self.snapshot, self.query)? else {
            return Ok(None);
        };
        let items = self.items_of_partition()?;
        let Remaining { checks, tests, .. } = self.remaining(&[], &estimates.lookups, items);
        Ok(Some(AccessPath {
            checks,
            tests,
            indexed: self.indexed_conditions(),
            is_exact: self.is_exact,
            seeks: self.seeks + 1,
            charges_walk: !self.conditions.is_empty(),
            ..AccessPath::new(
                AccessMethod::ScoreWalk(Box::new(walk.clone())),
                walk.to_string(),
            )
        }))
    }

    /// Rule: ORDER BY RANK reads the best items by each score, if the index decides all conditions
    /// and no lookup has few matches.
    pub(super) fn ranked_items(&self, estimates: &Estimates) -> Result<Option<AccessPath>> {
        let Some((scores, rows)) = self.query.query.ranked_scores() else {
            return Ok(None);
        };
        if rows > RANKED_ROWS_MAX {
            return Ok(None);
        }
        let is_decided = self.is_exact || self.conditions.is_empty();
        if !is_decided || !self.query.query.condition_is_exact() {
            return Ok(None);
        }
        let mut walks = Vec::with_capacity(scores.len());
        let mut texts = Vec::with_capacity(scores.len());
        for score in scores {
            let Some(mut walk) = self.walk_by(score, Ties::Ascend) else {
                return Ok(None);
            };
            if self.has_few_matches(estimates, &walk)? {
                return Ok(None);
            }
            walk.approximation = self.candidates_of(&walk)?;
            let walk = walk.with_words(self.snapshot, self.query)?;
            let Some(walk) = walk else {
                return Ok(None);
            };
            texts.push(walk.to_string());
            walks.push(walk);
        }
        let lookups = self.planned.iter().flatten();
        let ranked = RankedItems {
            walks,
            rows: usize::try_from(rows).unwrap_or(usize::MAX),
            filters: lookups.map(|planned| planned.lookup.clone()).collect(),
        };
        Ok(Some(AccessPath {
            indexed: self.indexed_conditions(),
            is_exact: self.is_exact,
            seeks: self.seeks + scores.len() as u64,
            ..AccessPath::new(AccessMethod::Ranked(ranked), texts.join(" and "))
        }))
    }

    /// Returns true if the matches of a lookup are so few that all of them are read: the query may
    /// ask for all, or for about as many.
    fn has_few_items(&self, estimates: &Estimates) -> bool {
        let few = self.query.query.rows_needed().unwrap_or(u64::MAX);
        let few = usize::try_from(few).unwrap_or(usize::MAX).max(FEW_ITEMS);
        let shortest = estimates.shortest_lookup();
        shortest.is_some_and(|shortest| shortest.count.is_complete && shortest.count.entries <= few)
    }

    /// Lets a walk over vectors read those of the matches of a lookup, if these are few beside all
    /// vectors, or the candidates of the index, as many as the condition asks for.
    fn choose_vectors(&self, estimates: &Estimates, walk: &mut ScoreWalk) -> Result<()> {
        let (Some(path), false) = (walk.number(), walk.reads_words()) else {
            return Ok(());
        };
        let shortest = estimates.shortest_lookup();
        let Some(shortest) = shortest.filter(|shortest| shortest.count.is_complete) else {
            walk.approximation = self.candidates_of(walk)?;
            return Ok(());
        };
        let vectors = match estimates.logical_partition {
            Some(rows) => rows.entries as u64,
            None => self.query.facts.entries_of(self.snapshot, path)?,
        };
        let matches = shortest.count.entries as u64;
        let are_few = matches <= vectors / VECTORS_PER_MATCH;
        // The index is not asked, and does not read its codes, if the matches are few in any case.
        if !are_few || matches > MATCHES_MAX {
            walk.approximation = self.candidates_of(walk)?;
        }
        match &mut walk.approximation {
            None if are_few => walk.filter = Some(shortest.planned.clone()),
            None => {}
            Some(approximation) => {
                let searched = approximation.searched().min(vectors);
                match matches <= searched / VECTORS_PER_CODE {
                    true => approximation.compare_matches_of(shortest.planned.clone()),
                    false => approximation.expect_matches(matches),
                }
            }
        }
        Ok(())
    }

    /// Returns true if the rows of the logical partition, or the matches of a lookup, are few
    /// beside the entries of a walk.
    fn has_few_matches(&self, estimates: &Estimates, walk: &ScoreWalk) -> Result<bool> {
        // The words of a full-text index are those of the whole partition.
        if walk.reads_words()
            && let Some(rows) = estimates.logical_partition
            && rows.is_complete
            && rows.entries.saturating_mul(ENTRIES_PER_ITEM) < self.items_of_partition()?
        {
            return Ok(true);
        }
        let Some(shortest) = estimates.shortest_lookup() else {
            return Ok(false);
        };
        let entries = match (estimates.logical_partition, walk.number()) {
            (Some(rows), _) => rows.entries,
            (None, Some(_)) => self.items_of_partition()?,
            (None, None) => 0,
        };
        let matches = shortest.count.entries.saturating_mul(ENTRIES_PER_ITEM);
        Ok(shortest.count.is_complete && matches < entries)
    }

    /// Returns the walk by a score, if an index has the entries for it.
    fn walk_by(&self, score: &IndexedScore, ties: Ties) -> Option<ScoreWalk> {
        let (text, number) = self.index.scores(score)?;
        Some(ScoreWalk::new(score, text, number, ties))
    }

    /// Returns the candidates of the index of a walk over vectors, if it proposes some.
    fn candidates_of(&self, walk: &ScoreWalk) -> Result<Option<Approximation>> {
        match walk.score() {
            IndexedScore::Vector(nearest) => {
                Approximation::plan(self.query, self.snapshot, self.index, nearest)
            }
            IndexedScore::Text(_) => Ok(None),
        }
    }
}
