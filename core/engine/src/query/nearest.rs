//! Walks over the vectors of a partition, the nearest first: the order of ORDER BY VectorDistance.
//!
//! Vectors have no order on disk, so a walk works in rounds. A round reads the vectors of the
//! partition, or of one logical partition, and keeps the nearest ones behind the last posting. A
//! continuation is a round that begins behind its position. The number that a round keeps is
//! bounded, whatever the number of vectors; a query that takes more postings costs another round.
//!
//! ```text
//! round 1:  vectors of the scope ── scores ──▶ the nearest n ──▶ postings, nearest first
//! round 2:  vectors of the scope ── scores ──▶ the nearest n behind the last posting ──▶ ...
//! rest:     items without a score, by descending number
//! ```
//!
//! Promises: scores are those that the executor computes from the items, so the order is the order
//! of a sort. Items whose score is undefined come last, as undefined does in a descending order.

use super::partition_query::PartitionQuery;
use super::posting::{IndexPosition, Posting, Postings, damaged_row, read_natural_row};
use crate::errors::storage_failure;
use crate::index::vectors::VectorIndex;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan;
use bytes::Bytes;
use orrery_model::Result;
use orrery_sql::{Nearest, VECTORS_AT_ONCE};
use orrery_storage::{Direction, Snapshot};
use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;

/// The least number of postings that a round keeps.
const ROUND_MIN: usize = 256;
/// The largest number of postings that a round keeps: 1.5 MiB of them.
const ROUND_MAX: usize = 1 << 16;
/// Vectors between two calls of the check point.
const CHECK_INTERVAL: u64 = 4_096;

/// The vectors that walks have compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ComparedVectors {
    /// The number of vectors.
    pub vectors: u64,
    /// Bytes of their rows.
    pub bytes: u64,
}

/// A walk over the vectors of an index, the nearest first.
#[derive(Clone, Debug)]
pub(crate) struct NearestWalk {
    order: Nearest,
    /// The name of the index.
    text: String,
    /// Number of the index in the dictionary of paths, if some item has a vector.
    number: Option<PathNumber>,
    /// The work of all rounds.
    compared: Rc<Cell<ComparedVectors>>,
}

/// A vector with a score, as a round keeps it.
#[derive(Clone, Copy, Debug)]
struct Scored {
    score: f64,
    number: ItemNumber,
    epk_prefix: EpkPrefix,
}

impl Scored {
    /// Compares in the order of the walk: the nearest first, and of equal scores the item that was
    /// created last.
    fn compare(&self, other: &Scored) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        by_score.then(other.number.cmp(&self.number))
    }

    fn posting(self) -> Posting {
        let position = IndexPosition {
            value: Some(encoded_score(self.score).to_vec()),
            run_values: None,
            number: self.number,
        };
        Posting::new(position, self.epk_prefix)
    }
}

impl NearestWalk {
    /// Returns the walk in the order of a query over an index with the number `number`. Returns
    /// `None` if the vectors of the index have another data type or other dimensions than those of
    /// the query.
    pub(crate) fn new(
        order: &Nearest,
        index: &VectorIndex,
        number: Option<PathNumber>,
    ) -> Option<Self> {
        let is_served =
            index.data_type == order.data_type && index.dimensions == order.dimensions();
        is_served.then(|| NearestWalk {
            order: order.clone(),
            text: index.text.clone(),
            number,
            compared: Rc::default(),
        })
    }

    /// Returns the id of the walk's index in continuations. A position is valid only for the same
    /// index; the continuation names the query, and so the vector.
    pub(crate) fn index_id(&self) -> u32 {
        crc32fast::hash(self.to_string().as_bytes())
    }

    /// Returns the number of the walk's index, if some item has a vector.
    pub(crate) fn number(&self) -> Option<PathNumber> {
        self.number
    }

    /// Returns the vectors that the walk has compared so far.
    pub(crate) fn compared(&self) -> ComparedVectors {
        self.compared.get()
    }

    /// Returns the postings behind `after`, in order.
    ///
    /// # Errors
    /// 400 if `after` is no position of such a walk.
    pub(crate) fn postings<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        query: PartitionQuery<'a>,
        after: Option<&IndexPosition>,
    ) -> Result<Postings<'a>> {
        let after = match after {
            None => After::Nothing,
            Some(position) => match &position.value {
                None => After::Rest(position.number),
                Some(value) => After::Vector(Scored {
                    score: decoded_score(value).ok_or_else(damaged_row)?,
                    number: position.number,
                    epk_prefix: EpkPrefix::default(),
                }),
            },
        };
        // A query that filters may take any number of postings.
        let is_filtered = !matches!(query.query.condition(), orrery_sql::Condition::All)
            || !query.query.condition_is_exact();
        let kept_max = match is_filtered {
            true => ROUND_MAX,
            false => query.rows_wanted.saturating_mul(2),
        };
        Ok(Box::new(NearestPostings {
            walk: self.clone(),
            snapshot,
            query,
            kept_max: kept_max.clamp(ROUND_MIN, ROUND_MAX),
            round: Vec::new().into_iter(),
            scored: None,
            after,
            rest: None,
            is_failed: false,
        }))
    }
}

impl fmt::Display for NearestWalk {
    /// Writes the walk as EXPLAIN shows it. The id of the index is made from this text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nearest of {}", self.text)
    }
}

/// The place behind which postings begin.
#[derive(Clone, Copy)]
enum After {
    /// The beginning.
    Nothing,
    /// A vector with its score.
    Vector(Scored),
    /// The item with this number, which has no score.
    Rest(ItemNumber),
}

/// The postings of a walk.
struct NearestPostings<'a> {
    walk: NearestWalk,
    snapshot: &'a dyn Snapshot,
    query: PartitionQuery<'a>,
    /// Postings that a round keeps.
    kept_max: usize,
    /// The rest of the current round.
    round: std::vec::IntoIter<Scored>,
    /// The number of items with a score, once a round has read all vectors.
    scored: Option<u64>,
    /// The last posting.
    after: After,
    /// The items without a score, once all others have been returned.
    rest: Option<Postings<'a>>,
    is_failed: bool,
}

impl<'a> NearestPostings<'a> {
    /// Returns the EPK prefix of the only logical partition that is read.
    fn key_prefix(&self) -> Option<EpkPrefix> {
        self.query.key.map(|key| keys::epk_prefix(key.epk()))
    }

    /// Reads the vectors and keeps the nearest ones behind the last posting.
    fn read_round(&mut self) -> Result<()> {
        let mut nearest = Kept::new(self.kept_max, self.after);
        let mut scored = 0;
        let mut batch: Vec<(ItemNumber, EpkPrefix, Bytes)> = Vec::with_capacity(VECTORS_AT_ONCE);
        let mut compared = self.walk.compared.get();
        if let Some(path) = self.walk.number {
            let range = keys::vectors(path, self.key_prefix());
            for row in scan(self.snapshot, &range, Direction::Forward) {
                let (key, vector) = row?;
                let (epk_prefix, number) = keys::read_vector(&key).ok_or_else(damaged_row)?;
                compared.vectors += 1;
                compared.bytes += (key.len() + vector.len()) as u64;
                if compared.vectors.is_multiple_of(CHECK_INTERVAL) {
                    (self.query.check_point)()?;
                }
                batch.push((number, epk_prefix, vector));
                if batch.len() == VECTORS_AT_ONCE {
                    scored += self.walk.score(&mut batch, &mut nearest);
                }
            }
            scored += self.walk.score(&mut batch, &mut nearest);
        }
        self.walk.compared.set(compared);
        self.scored = Some(scored);
        self.round = nearest.finish().into_iter();
        Ok(())
    }

    /// Returns the next vector, or `None` behind the last one.
    fn next_vector(&mut self) -> Result<Option<Scored>> {
        if matches!(self.after, After::Rest(_)) {
            return Ok(None);
        }
        if self.round.len() == 0 {
            self.read_round()?;
        }
        let next = self.round.next();
        if let Some(scored) = next {
            self.after = After::Vector(scored);
        }
        Ok(next)
    }

    /// Returns the items without a score, by descending number.
    fn items_without_score(&self) -> Result<Postings<'a>> {
        // All items of the partition may have a score.
        let is_whole_partition = self.query.key.is_none();
        if let Some(scored) = self.scored
            && is_whole_partition
            && self.query.facts.counters(self.snapshot)?.items == scored
        {
            return Ok(Box::new(std::iter::empty()));
        }
        let last = match self.after {
            After::Rest(number) => number,
            _ => ItemNumber::MAX,
        };
        let (walk, snapshot) = (self.walk.clone(), self.snapshot);
        let without_score = move |(number, epk_prefix): (ItemNumber, EpkPrefix)| {
            let has_score = walk.has_score(snapshot, number, epk_prefix)?;
            let position = IndexPosition::natural(number);
            Ok((!has_score).then(|| Posting::new(position, epk_prefix)))
        };
        let items: Box<dyn Iterator<Item = Result<(ItemNumber, EpkPrefix)>> + 'a> =
            match self.key_prefix() {
                Some(epk_prefix) => {
                    let (first, _) = keys::items_of(epk_prefix, 0);
                    let range = (first, keys::item(epk_prefix, last));
                    Box::new(scan(snapshot, &range, Direction::Reverse).map(|row| {
                        let (key, _) = row?;
                        let (epk_prefix, number) = keys::read_item(&key).ok_or_else(damaged_row)?;
                        Ok((number, epk_prefix))
                    }))
                }
                None => {
                    let range = (keys::naturals_from(0).0, keys::natural(last));
                    let rows = scan(snapshot, &range, Direction::Reverse);
                    Box::new(rows.map(|row| row.and_then(read_natural_row)))
                }
            };
        Ok(Box::new(items.filter_map(move |item| {
            item.and_then(&without_score).transpose()
        })))
    }

    fn next_posting(&mut self) -> Result<Option<Posting>> {
        if self.rest.is_none() {
            if let Some(scored) = self.next_vector()? {
                return Ok(Some(scored.posting()));
            }
            self.rest = Some(self.items_without_score()?);
        }
        match &mut self.rest {
            Some(rest) => rest.next().transpose(),
            None => Ok(None),
        }
    }
}

impl Iterator for NearestPostings<'_> {
    type Item = Result<Posting>;

    fn next(&mut self) -> Option<Result<Posting>> {
        if self.is_failed {
            return None;
        }
        let next = self.next_posting();
        self.is_failed = next.is_err();
        next.transpose()
    }
}

impl NearestWalk {
    /// Scores the vectors of a batch, adds them to the nearest ones, and empties the batch. Returns
    /// the number of vectors that have a score.
    fn score(&self, batch: &mut Vec<(ItemNumber, EpkPrefix, Bytes)>, nearest: &mut Kept) -> u64 {
        let mut vectors: [&[u8]; VECTORS_AT_ONCE] = [&[]; VECTORS_AT_ONCE];
        for (vector, (_, _, stored)) in vectors.iter_mut().zip(batch.iter()) {
            *vector = stored;
        }
        let scores = self.order.scores(vectors);
        let mut count = 0;
        for ((number, epk_prefix, _), score) in batch.drain(..).zip(scores) {
            if let Some(score) = score {
                count += 1;
                nearest.add(Scored {
                    // The zeros of both signs are one value to ORDER BY.
                    score: if score == 0.0 { 0.0 } else { score },
                    number,
                    epk_prefix,
                });
            }
        }
        count
    }

    /// Returns true if an item has a vector whose score is defined.
    fn has_score(
        &self,
        snapshot: &dyn Snapshot,
        number: ItemNumber,
        epk_prefix: EpkPrefix,
    ) -> Result<bool> {
        let Some(path) = self.number else {
            return Ok(false);
        };
        let vector = snapshot.get(&keys::vector(path, epk_prefix, number));
        let vector = vector.map_err(storage_failure)?;
        Ok(vector.is_some_and(|vector| self.order.score(&vector).is_some()))
    }
}

/// The nearest vectors behind a place, up to a number of them.
struct Kept {
    vectors: Vec<Scored>,
    count_max: usize,
    after: After,
    /// The last one of the nearest vectors, once there are as many as are kept. Vectors behind it
    /// are not needed.
    last: Option<Scored>,
}

impl Kept {
    fn new(count_max: usize, after: After) -> Self {
        Kept {
            vectors: Vec::new(),
            count_max,
            after,
            last: None,
        }
    }

    fn add(&mut self, scored: Scored) {
        let is_behind = match &self.after {
            After::Nothing => true,
            After::Vector(after) => scored.compare(after).is_gt(),
            After::Rest(_) => false,
        };
        let is_needed = self.last.is_none_or(|last| scored.compare(&last).is_lt());
        if !is_behind || !is_needed {
            return;
        }
        self.vectors.push(scored);
        // Twice as many are gathered before the farther half is dropped, so a vector costs a
        // constant number of comparisons.
        if self.vectors.len() == self.count_max * 2 {
            self.drop_farther();
        }
    }

    fn drop_farther(&mut self) {
        if self.vectors.len() > self.count_max {
            let (_, last, _) = self
                .vectors
                .select_nth_unstable_by(self.count_max - 1, Scored::compare);
            self.last = Some(*last);
            self.vectors.truncate(self.count_max);
        }
    }

    /// Returns the nearest vectors in order.
    fn finish(mut self) -> Vec<Scored> {
        self.drop_farther();
        self.vectors.sort_unstable_by(Scored::compare);
        self.vectors
    }
}

/// Returns eight bytes that sort as scores do.
fn encoded_score(score: f64) -> [u8; 8] {
    let bits = score.to_bits();
    let ordered = match score.is_sign_negative() {
        true => !bits,
        false => bits | 1 << 63,
    };
    ordered.to_be_bytes()
}

/// Reads the bytes of [`encoded_score`].
fn decoded_score(bytes: &[u8]) -> Option<f64> {
    let ordered = u64::from_be_bytes(bytes.try_into().ok()?);
    let bits = match ordered >> 63 {
        0 => !ordered,
        _ => ordered & !(1 << 63),
    };
    Some(f64::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_scores_sort_as_scores_do() {
        let scores = [f64::MIN, -2.5, -1e-300, 0.0, 1e-300, 0.1, 3.0, f64::MAX];
        for pair in scores.windows(2) {
            assert!(encoded_score(pair[0]) < encoded_score(pair[1]));
        }
        for score in scores {
            assert_eq!(decoded_score(&encoded_score(score)), Some(score));
        }
    }

    #[test]
    fn rounds_of_any_size_return_all_vectors_in_order() {
        let scores = [3.0, 1.0, 2.0, 1.0, 0.5, 3.0, -1.0, 2.5, 1.0];
        let mut wanted: Vec<Scored> = Vec::new();
        for (score, number) in scores.into_iter().zip(0..) {
            wanted.push(Scored {
                score,
                number,
                epk_prefix: EpkPrefix::default(),
            });
        }
        let all = wanted.clone();
        wanted.sort_by(Scored::compare);
        for count_max in 1..=10 {
            let (mut after, mut found) = (After::Nothing, Vec::new());
            loop {
                let mut kept = Kept::new(count_max, after);
                all.iter().for_each(|scored| kept.add(*scored));
                let round = kept.finish();
                let Some(last) = round.last() else { break };
                after = After::Vector(*last);
                found.extend(round.iter().map(|scored| scored.number));
            }
            let wanted: Vec<_> = wanted.iter().map(|scored| scored.number).collect();
            assert_eq!(found, wanted, "{count_max}");
        }
    }
}
