//! Walks over the entries of a vector or full-text index, the highest score first: the order of
//! ORDER BY VectorDistance, and of the scores of ORDER BY RANK.
//!
//! Scores have no order on disk, so a walk works in rounds. A round reads the entries that have a
//! score, and keeps the best ones behind the last posting. Where a vector index proposes candidates
//! (`approximation.rs`), the first rounds read these alone. A continuation is a round that begins
//! behind its position. The number that a round keeps is bounded, whatever the number of entries; a
//! query that takes more postings costs another round.
//!
//! ```text
//! round 1:  vectors of the scope, or words of the query ── scores ──▶ the best n ──▶ postings
//! round 2:  the same ── scores ──▶ the best n behind the last posting ──▶ postings
//! zeros:    texts without a word of the query, by number
//! rest:     items without a score, by number
//! ```
//!
//! Promises: scores are those that the executor computes from the items, so the order is the order
//! of a sort, but for the items that the candidates of an index lack. Items whose score is
//! undefined come last, as undefined does in a descending order.

use super::approximation::Approximation;
use super::lookup::PlannedLookup;
use super::partition_query::PartitionQuery;
use super::position::QueryPosition;
use super::posting::{
    CHECK_INTERVAL, IndexPosition, Posting, Postings, count_checked, damaged_row, read_natural_row,
};
use super::term_lists::TermLists;
use super::text_hits::TextHits;
use crate::errors::storage_failure;
use crate::index::texts::EVERY_TEXT;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan;
use bytes::Bytes;
use orrery_model::Result;
use orrery_sql::{Condition, IndexedScore, Nearest, VECTORS_AT_ONCE};
use orrery_storage::{Direction, Snapshot};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::rc::Rc;

/// The least number of postings that a round keeps.
const ROUND_MIN: usize = 256;
/// The largest number of postings that a round keeps: 1.5 MiB of them.
const ROUND_MAX: usize = 1 << 16;
/// Vectors of some items that are read at once.
const VECTORS_PER_READ: usize = 64;

/// The entries that walks have read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScoredEntries {
    /// The number of vectors.
    pub vectors: u64,
    /// Bytes of their rows.
    pub vector_bytes: u64,
    /// The number of entries of full-text indexes.
    pub words: u64,
    /// The number of words of an index that were compared with those of fuzzy terms.
    pub compared_words: u64,
}

impl ScoredEntries {
    pub(crate) fn add(&mut self, other: ScoredEntries) {
        self.vectors += other.vectors;
        self.vector_bytes += other.vector_bytes;
        self.words += other.words;
        self.compared_words += other.compared_words;
    }
}

/// The order of items with equal scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ties {
    /// By number: the order of ORDER BY RANK.
    Ascend,
    /// The item that was created last comes first: the order of ORDER BY that descends.
    Descend,
}

impl Ties {
    fn direction(self) -> Direction {
        match self {
            Ties::Ascend => Direction::Forward,
            Ties::Descend => Direction::Reverse,
        }
    }
}

/// A walk over the entries of an index, the highest score first.
#[derive(Clone, Debug)]
pub(crate) struct ScoreWalk {
    score: IndexedScore,
    /// The name of the index.
    text: String,
    /// Number of the index in the dictionary of paths, if some item has an entry.
    number: Option<PathNumber>,
    ties: Ties,
    /// The candidates that the first rounds compare in place of all vectors.
    pub(super) approximation: Option<Approximation>,
    /// A lookup with few matches, whose vectors alone are read.
    pub(super) filter: Option<PlannedLookup>,
    /// The entries of the words of a text score.
    words: Rc<TermLists>,
    /// The work of all rounds.
    entries: Rc<Cell<ScoredEntries>>,
}

/// An item with its score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scored {
    pub score: f64,
    pub number: ItemNumber,
    pub epk_prefix: EpkPrefix,
}

impl Scored {
    fn compare(&self, other: &Scored, ties: Ties) -> Ordering {
        let by_number = match ties {
            Ties::Ascend => self.number.cmp(&other.number),
            Ties::Descend => other.number.cmp(&self.number),
        };
        other.score.total_cmp(&self.score).then(by_number)
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

impl ScoreWalk {
    /// Returns the walk by a score over the index with the name `text`, which has the number
    /// `number` if some item has an entry.
    pub(crate) fn new(
        score: &IndexedScore,
        text: &str,
        number: Option<PathNumber>,
        ties: Ties,
    ) -> Self {
        ScoreWalk {
            score: score.clone(),
            text: text.to_owned(),
            number,
            ties,
            approximation: None,
            filter: None,
            words: Rc::default(),
            entries: Rc::default(),
        }
    }

    /// Finds the entries of the words of a text score. Returns `None` if they are too many for a
    /// merge.
    ///
    /// # Errors
    /// 500 if the store cannot be read; those of the check point.
    pub(crate) fn with_words(
        mut self,
        snapshot: &dyn Snapshot,
        query: &PartitionQuery<'_>,
    ) -> Result<Option<Self>> {
        if let (IndexedScore::Text(score), Some(path)) = (&self.score, self.number) {
            let words = TermLists::of(snapshot, path, &score.terms, query.end_point)?;
            let Some(words) = words else {
                return Ok(None);
            };
            let mut entries = self.entries.get();
            entries.compared_words += words.compared_words;
            entries.words += words.entries;
            self.entries.set(entries);
            self.words = Rc::new(words);
        }
        Ok(Some(self))
    }

    /// Returns the score.
    pub(crate) fn score(&self) -> &IndexedScore {
        &self.score
    }

    /// Returns true if the walk reads the words of texts.
    pub(crate) fn reads_words(&self) -> bool {
        matches!(self.score, IndexedScore::Text(_))
    }

    /// Returns the number of the walk's index, if some item has an entry.
    pub(crate) fn number(&self) -> Option<PathNumber> {
        self.number
    }

    /// Returns the id of the walk's index in continuations. A position is valid only for the same
    /// index; the continuation names the query, and so the score.
    pub(crate) fn index_id(&self) -> u32 {
        let kind = match &self.score {
            IndexedScore::Vector(_) => "nearest",
            IndexedScore::Text(_) => "best",
        };
        crc32fast::hash(format!("{kind} of {}", self.text).as_bytes())
    }

    /// Returns the entries that the walk has read so far.
    pub(crate) fn entries(&self) -> ScoredEntries {
        self.entries.get()
    }

    /// Returns the postings behind `after`, in order. A round keeps at most `kept_max` of them.
    ///
    /// # Errors
    /// 400 if `after` is no position of such a walk.
    pub(crate) fn postings<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        query: PartitionQuery<'a>,
        after: Option<&IndexPosition>,
        kept_max: usize,
    ) -> Result<Postings<'a>> {
        let after = match after {
            None => After::Nothing,
            Some(position) => match &position.value {
                None => After::Rest(position.number),
                Some(value) => After::Scored(Scored {
                    score: decoded_score(value).ok_or_else(QueryPosition::mismatch_error)?,
                    number: position.number,
                    epk_prefix: EpkPrefix::default(),
                }),
            },
        };
        Ok(Box::new(ScoredPostings {
            walk: self.clone(),
            snapshot,
            query,
            kept_max: kept_max.clamp(ROUND_MIN, ROUND_MAX),
            round: Vec::new().into_iter(),
            is_last_round: false,
            with_score: None,
            is_from_beginning: matches!(after, After::Nothing),
            has_read_all: self.approximation.is_none() && self.filter.is_none(),
            seen: 0,
            after,
            rounds: 0,
            zeros: None,
            rest: None,
            is_failed: false,
        }))
    }

    /// Returns the postings that a round keeps for a query that takes them in order.
    pub(crate) fn kept_for(query: &PartitionQuery<'_>) -> usize {
        // A query that filters may take any number of postings.
        let is_filtered =
            !matches!(query.query.condition(), Condition::All) || !query.query.condition_is_exact();
        match is_filtered {
            true => ROUND_MAX,
            false => query.rows_wanted.saturating_mul(2),
        }
    }

    /// Calls `take` with each vector of the scope that has a score, or with each text that has a
    /// score above 0.
    fn for_each_scored(
        &self,
        snapshot: &dyn Snapshot,
        query: &PartitionQuery<'_>,
        take: &mut dyn FnMut(Scored),
    ) -> Result<()> {
        let Some(path) = self.number else {
            return Ok(());
        };
        let prefix = query.key.map(|key| keys::epk_prefix(key.epk()));
        let mut entries = self.entries.get();
        let result = match &self.score {
            IndexedScore::Vector(nearest) => {
                let mut vectors = Vectors::new(nearest, take);
                match self.matches(snapshot, prefix, query.check_point)? {
                    Some(items) => vectors.read_some(snapshot, path, &items, query, &mut entries),
                    None => {
                        let range = keys::vectors(path, prefix);
                        vectors.read(snapshot, &range, query, &mut entries)
                    }
                }
            }
            IndexedScore::Text(score) => {
                let hits = TextHits::open(snapshot, path, &self.words);
                let mut texts = 0_u64;
                hits.for_each(|text| {
                    entries.words += text.entries;
                    texts += 1;
                    if texts.is_multiple_of(CHECK_INTERVAL) {
                        (query.check_point)()?;
                    }
                    let is_in_scope = prefix.is_none_or(|prefix| prefix == text.epk_prefix);
                    let value = score.score(text.length, text.hits);
                    if value > 0.0 && is_in_scope {
                        take(Scored {
                            score: value,
                            number: text.number,
                            epk_prefix: text.epk_prefix,
                        });
                    }
                    Ok(())
                })
            }
        };
        self.entries.set(entries);
        result
    }

    /// Returns the items to which the lookup of the walk leads, if the walk has one.
    fn matches(
        &self,
        snapshot: &dyn Snapshot,
        prefix: Option<EpkPrefix>,
        check_point: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Vec<(EpkPrefix, ItemNumber)>>> {
        let Some(planned) = &self.filter else {
            return Ok(None);
        };
        let lookup = &planned.lookup;
        let Some(matches) = lookup.collect(snapshot, check_point, 0, usize::MAX)? else {
            return Ok(None);
        };
        let mut items = Vec::with_capacity(matches.len());
        for found in matches {
            if prefix.is_none_or(|prefix| prefix == found.epk_prefix) {
                items.push((found.epk_prefix, found.number));
            }
        }
        Ok(Some(items))
    }

    /// Returns true if the score of an item is defined.
    fn has_score(
        &self,
        snapshot: &dyn Snapshot,
        number: ItemNumber,
        epk_prefix: EpkPrefix,
    ) -> Result<bool> {
        let Some(path) = self.number else {
            return Ok(false);
        };
        let key = match &self.score {
            IndexedScore::Vector(_) => keys::vector(path, epk_prefix, number),
            IndexedScore::Text(_) => keys::word(path, EVERY_TEXT, number, epk_prefix),
        };
        let entry = snapshot.get(&key).map_err(storage_failure)?;
        Ok(entry.is_some_and(|entry| match &self.score {
            IndexedScore::Vector(nearest) => nearest.score(&entry).is_some(),
            IndexedScore::Text(_) => true,
        }))
    }
}

impl fmt::Display for ScoreWalk {
    /// Writes the walk as EXPLAIN shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.score {
            IndexedScore::Vector(_) => {
                write!(f, "nearest of {}", self.text)?;
                match (&self.approximation, &self.filter) {
                    (Some(approximation), _) => write!(f, " by {approximation}"),
                    (None, Some(filter)) => write!(f, " among index {}", filter.text),
                    (None, None) => Ok(()),
                }
            }
            IndexedScore::Text(_) => write!(f, "best of {}", self.text),
        }
    }
}

/// Vectors while they are read.
pub(super) struct Vectors<'t> {
    nearest: &'t Nearest,
    batch: Vec<(ItemNumber, EpkPrefix, Bytes)>,
    take: &'t mut dyn FnMut(Scored),
}

impl<'t> Vectors<'t> {
    /// Returns a reader that calls `take` with each vector that has a score.
    fn new(nearest: &'t Nearest, take: &'t mut dyn FnMut(Scored)) -> Self {
        Vectors {
            nearest,
            batch: Vec::with_capacity(VECTORS_AT_ONCE),
            take,
        }
    }

    /// Returns the vector to which all others are compared.
    pub(super) fn nearest(&self) -> &'t Nearest {
        self.nearest
    }

    /// Reads the vectors of a range and takes those that have a score.
    pub(super) fn read(
        &mut self,
        snapshot: &dyn Snapshot,
        range: &(Vec<u8>, Vec<u8>),
        query: &PartitionQuery<'_>,
        entries: &mut ScoredEntries,
    ) -> Result<()> {
        for row in scan(snapshot, range, Direction::Forward) {
            let (key, vector) = row?;
            let (epk_prefix, number) = keys::read_vector(&key).ok_or_else(damaged_row)?;
            entries.vectors += 1;
            entries.vector_bytes += (key.len() + vector.len()) as u64;
            if entries.vectors.is_multiple_of(CHECK_INTERVAL) {
                (query.check_point)()?;
            }
            self.add(number, epk_prefix, vector);
        }
        self.finish();
        Ok(())
    }

    /// Reads the vectors of some items and takes those that have a score.
    pub(super) fn read_some(
        &mut self,
        snapshot: &dyn Snapshot,
        path: PathNumber,
        items: &[(EpkPrefix, ItemNumber)],
        query: &PartitionQuery<'_>,
        entries: &mut ScoredEntries,
    ) -> Result<()> {
        for some in items.chunks(VECTORS_PER_READ) {
            (query.check_point)()?;
            let mut row_keys = Vec::with_capacity(some.len());
            for (epk_prefix, number) in some {
                row_keys.push(keys::vector(path, *epk_prefix, *number));
            }
            let row_keys: Vec<&[u8]> = row_keys.iter().map(Vec::as_slice).collect();
            let rows = snapshot.multi_get(&row_keys).map_err(storage_failure)?;
            for ((epk_prefix, number), vector) in some.iter().zip(rows) {
                if let Some(vector) = vector {
                    entries.vectors += 1;
                    entries.vector_bytes += vector.len() as u64;
                    self.add(*number, *epk_prefix, vector);
                }
            }
        }
        self.finish();
        Ok(())
    }

    /// Adds a vector, which is taken with the next ones.
    pub(super) fn add(&mut self, number: ItemNumber, epk_prefix: EpkPrefix, vector: Bytes) {
        self.batch.push((number, epk_prefix, vector));
        if self.batch.len() == VECTORS_AT_ONCE {
            self.finish();
        }
    }

    /// Takes the vectors that have been added.
    pub(super) fn finish(&mut self) {
        let mut vectors: [&[u8]; VECTORS_AT_ONCE] = [&[]; VECTORS_AT_ONCE];
        for (vector, (_, _, stored)) in vectors.iter_mut().zip(&self.batch) {
            *vector = stored;
        }
        let scores = self.nearest.scores(vectors);
        for ((number, epk_prefix, _), score) in self.batch.drain(..).zip(scores) {
            if let Some(score) = score {
                (self.take)(Scored {
                    // The zeros of both signs are one value to ORDER BY.
                    score: if score == 0.0 { 0.0 } else { score },
                    number,
                    epk_prefix,
                });
            }
        }
    }
}

/// The place behind which postings begin.
#[derive(Clone, Copy)]
enum After {
    /// The beginning.
    Nothing,
    /// An item with its score.
    Scored(Scored),
    /// The item with this number, which has no score.
    Rest(ItemNumber),
}

impl After {
    /// Returns true if an item with a score is behind the place.
    fn is_before(&self, scored: &Scored, ties: Ties) -> bool {
        match self {
            After::Nothing => true,
            After::Scored(after) => scored.compare(after, ties).is_gt(),
            After::Rest(_) => false,
        }
    }
}

/// The postings of a walk.
struct ScoredPostings<'a> {
    walk: ScoreWalk,
    snapshot: &'a dyn Snapshot,
    query: PartitionQuery<'a>,
    /// Postings that a round keeps.
    kept_max: usize,
    /// The rest of the current round.
    round: std::vec::IntoIter<Scored>,
    /// True if no item with a score is behind the current round.
    is_last_round: bool,
    /// The numbers of the items of the only round of a text score.
    with_score: Option<HashSet<ItemNumber>>,
    is_from_beginning: bool,
    /// True if the rounds read all entries.
    has_read_all: bool,
    /// Postings with a score so far.
    seen: u64,
    /// The last posting.
    after: After,
    /// Rounds of candidates so far.
    rounds: u32,
    /// The texts with a score of 0, once all others have been returned.
    zeros: Option<Postings<'a>>,
    /// The items without a score, once all others have been returned.
    rest: Option<Postings<'a>>,
    is_failed: bool,
}

impl<'a> ScoredPostings<'a> {
    /// Returns the next posting of the rounds, or `None` behind the last one.
    fn next_scored(&mut self) -> Result<Option<Posting>> {
        if self.round.len() == 0 {
            self.read_candidates()?;
        }
        if self.round.len() == 0 && !self.is_last_round {
            let mut best = Best::new(self.kept_max, self.after, self.walk.ties);
            let take = &mut |scored| best.add(scored);
            self.walk
                .for_each_scored(self.snapshot, &self.query, take)?;
            let is_first = matches!(self.after, After::Nothing);
            let round = best.finish();
            self.is_last_round = best.last.is_none();
            if self.is_last_round && is_first && matches!(self.walk.score, IndexedScore::Text(_)) {
                self.with_score = Some(round.iter().map(|scored| scored.number).collect());
            }
            self.round = round.into_iter();
        }
        let next = self.round.next();
        if let Some(scored) = next {
            self.after = After::Scored(scored);
            self.seen += 1;
        }
        Ok(next.map(Scored::posting))
    }

    /// Reads rounds of candidates of the index until one has a posting, or all vectors have to be
    /// compared.
    fn read_candidates(&mut self) -> Result<()> {
        let (Some(approximation), IndexedScore::Vector(nearest)) =
            (&self.walk.approximation, &self.walk.score)
        else {
            return Ok(());
        };
        let (snapshot, ties) = (self.snapshot, self.walk.ties);
        while self.round.len() == 0
            && !self.is_last_round
            && let Some(effort) = approximation.effort(approximation.first_round + self.rounds)
        {
            self.rounds += 1;
            let mut entries = self.walk.entries.get();
            let mut best = Best::new(effort.returned, After::Nothing, ties);
            let mut worst: Option<Scored> = None;
            let take = &mut |scored: Scored| {
                let is_worse = worst.is_none_or(|worst| scored.compare(&worst, ties).is_gt());
                if is_worse {
                    worst = Some(scored);
                }
                best.add(scored);
            };
            let vectors = Vectors::new(nearest, take);
            let query = &self.query;
            let proposed =
                approximation.compare_proposed(effort, snapshot, query, vectors, &mut entries)?;
            let is_complete = proposed.is_complete;
            let take = &mut |scored| best.add(scored);
            let vectors = Vectors::new(nearest, take);
            approximation.compare_others(proposed, snapshot, query, vectors, &mut entries)?;
            self.walk.entries.set(entries);

            // Nearer vectors than those behind the worst proposed one may be missing.
            let mut round = best.finish();
            if is_complete {
                // No other item of the scope can be an answer, if the round keeps all of them.
                self.is_last_round = best.last.is_none();
            } else {
                let is_known = |scored: &Scored| {
                    worst.is_some_and(|worst| !scored.compare(&worst, ties).is_gt())
                };
                round.retain(is_known);
            }
            let after = self.after;
            round.retain(|scored| after.is_before(scored, ties));
            self.round = round.into_iter();
        }
        // Comparing the vectors of all matches of a lookup is the end of its rounds.
        if self.round.len() == 0
            && !self.is_last_round
            && let Some(planned) = approximation.lookup().cloned()
        {
            self.walk.filter = Some(planned);
            self.walk.approximation = None;
        }
        Ok(())
    }

    /// Returns the texts without a word of the query.
    fn texts_without_score(&mut self) -> Result<Postings<'a>> {
        let (IndexedScore::Text(_), Some(path)) = (&self.walk.score, self.walk.number) else {
            return Ok(Box::new(std::iter::empty()));
        };
        let with_score = match self.with_score.take() {
            Some(with_score) => with_score,
            None => {
                let mut with_score = HashSet::new();
                let take = &mut |scored: Scored| {
                    with_score.insert(scored.number);
                };
                self.walk
                    .for_each_scored(self.snapshot, &self.query, take)?;
                with_score
            }
        };
        let (mut first, mut end) = keys::words(path, EVERY_TEXT);
        if let After::Scored(last) = self.after
            && last.score == 0.0
        {
            match self.walk.ties {
                Ties::Ascend => {
                    first.extend_from_slice(&last.number.saturating_add(1).to_be_bytes());
                }
                Ties::Descend => {
                    end.clone_from(&first);
                    end.extend_from_slice(&last.number.to_be_bytes());
                }
            }
        }
        let prefix = self.query.key.map(|key| keys::epk_prefix(key.epk()));
        let texts = scan(self.snapshot, &(first, end), self.walk.ties.direction());
        Ok(Box::new(texts.filter_map(move |row| {
            let (key, _) = match row {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            let Some((_, number, epk_prefix)) = keys::read_term(&key) else {
                return Some(Err(damaged_row()));
            };
            let is_in_scope = prefix.is_none_or(|prefix| prefix == epk_prefix);
            let scored = Scored {
                score: 0.0,
                number,
                epk_prefix,
            };
            (is_in_scope && !with_score.contains(&number)).then(|| Ok(scored.posting()))
        })))
    }

    /// Returns the items without a score, by number.
    fn items_without_score(&self) -> Result<Postings<'a>> {
        // All items of the partition may have a score.
        let (walk, snapshot) = (self.walk.clone(), self.snapshot);
        if self.query.key.is_none() {
            let is_counted = self.is_from_beginning && self.has_read_all;
            let with_score = match is_counted {
                true => self.seen,
                false => self.count_with_score()?,
            };
            if self.query.facts.counters(snapshot)?.items == with_score {
                return Ok(Box::new(std::iter::empty()));
            }
        }
        let check_point = self.query.check_point;
        let without_score = move |(number, epk_prefix): (ItemNumber, EpkPrefix)| {
            if number.is_multiple_of(CHECK_INTERVAL) {
                check_point()?;
            }
            let has_score = walk.has_score(snapshot, number, epk_prefix)?;
            let position = IndexPosition::natural(number);
            Ok((!has_score).then(|| Posting::new(position, epk_prefix)))
        };
        let (first, end) = match (self.after, self.walk.ties) {
            (After::Rest(number), Ties::Ascend) => (number.saturating_add(1), ItemNumber::MAX),
            (After::Rest(number), Ties::Descend) => (0, number),
            _ => (0, ItemNumber::MAX),
        };
        let direction = self.walk.ties.direction();
        let items: Box<dyn Iterator<Item = Result<(ItemNumber, EpkPrefix)>> + 'a> =
            match self.query.key.map(|key| keys::epk_prefix(key.epk())) {
                Some(epk_prefix) => {
                    let range = (keys::item(epk_prefix, first), keys::item(epk_prefix, end));
                    Box::new(scan(snapshot, &range, direction).map(|row| {
                        let (key, _) = row?;
                        let (epk_prefix, number) = keys::read_item(&key).ok_or_else(damaged_row)?;
                        Ok((number, epk_prefix))
                    }))
                }
                None => {
                    let range = (keys::natural(first), keys::natural(end));
                    let rows = scan(snapshot, &range, direction);
                    Box::new(rows.map(|row| row.and_then(read_natural_row)))
                }
            };
        Ok(Box::new(items.filter_map(move |item| {
            item.and_then(&without_score).transpose()
        })))
    }

    /// Returns the number of items that have a score.
    fn count_with_score(&self) -> Result<u64> {
        let mut count = 0_u64;
        match (&self.walk.score, self.walk.number) {
            (IndexedScore::Vector(_), _) => {
                let all = ScoreWalk {
                    filter: None,
                    ..self.walk.clone()
                };
                let take = &mut |_| count += 1;
                all.for_each_scored(self.snapshot, &self.query, take)?;
            }
            (IndexedScore::Text(_), Some(path)) => {
                let texts = keys::words(path, EVERY_TEXT);
                count = count_checked(self.snapshot, &texts, self.query.check_point)?;
            }
            (IndexedScore::Text(_), None) => {}
        }
        Ok(count)
    }

    fn next_posting(&mut self) -> Result<Option<Posting>> {
        let is_behind_scores = matches!(self.after, After::Rest(_));
        if self.zeros.is_none() && !is_behind_scores {
            if let Some(posting) = self.next_scored()? {
                return Ok(Some(posting));
            }
            self.zeros = Some(self.texts_without_score()?);
        }
        if let Some(zeros) = &mut self.zeros
            && let Some(posting) = zeros.next().transpose()?
        {
            self.seen += 1;
            return Ok(Some(posting));
        }
        if self.rest.is_none() {
            self.rest = Some(self.items_without_score()?);
        }
        match &mut self.rest {
            Some(rest) => rest.next().transpose(),
            None => Ok(None),
        }
    }
}

impl Iterator for ScoredPostings<'_> {
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

/// The best items behind a place, up to a number of them.
struct Best {
    items: Vec<Scored>,
    count_max: usize,
    after: After,
    ties: Ties,
    /// The last one of the best items, once there are as many as are kept. Items behind it are not
    /// needed.
    last: Option<Scored>,
}

impl Best {
    fn new(count_max: usize, after: After, ties: Ties) -> Self {
        Best {
            items: Vec::new(),
            count_max,
            after,
            ties,
            last: None,
        }
    }

    fn add(&mut self, scored: Scored) {
        let is_behind = self.after.is_before(&scored, self.ties);
        let last = self.last;
        let is_needed = last.is_none_or(|last| scored.compare(&last, self.ties).is_lt());
        if !is_behind || !is_needed {
            return;
        }
        self.items.push(scored);
        // Twice as many are gathered before the worse half is dropped, so an item costs a constant
        // number of comparisons.
        if self.items.len() == self.count_max * 2 {
            self.drop_worse();
        }
    }

    fn drop_worse(&mut self) {
        let ties = self.ties;
        if self.items.len() > self.count_max {
            let order = |a: &Scored, b: &Scored| a.compare(b, ties);
            let (_, last, _) = self.items.select_nth_unstable_by(self.count_max - 1, order);
            self.last = Some(*last);
            self.items.truncate(self.count_max);
        }
    }

    /// Returns the best items in order. `last` is then `None` if these are all.
    fn finish(&mut self) -> Vec<Scored> {
        self.drop_worse();
        let ties = self.ties;
        self.items.sort_unstable_by(|a, b| a.compare(b, ties));
        std::mem::take(&mut self.items)
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
    fn rounds_of_any_size_return_all_items_in_order() {
        let scores = [3.0, 1.0, 2.0, 1.0, 0.5, 3.0, -1.0, 2.5, 1.0];
        let mut all: Vec<Scored> = Vec::new();
        for (score, number) in scores.into_iter().zip(0..) {
            all.push(Scored {
                score,
                number,
                epk_prefix: EpkPrefix::default(),
            });
        }
        for ties in [Ties::Ascend, Ties::Descend] {
            let mut wanted = all.clone();
            wanted.sort_by(|a, b| a.compare(b, ties));
            let wanted: Vec<_> = wanted.iter().map(|scored| scored.number).collect();
            for count_max in 1..=10 {
                let (mut after, mut found) = (After::Nothing, Vec::new());
                loop {
                    let mut best = Best::new(count_max, after, ties);
                    all.iter().for_each(|scored| best.add(*scored));
                    let round = best.finish();
                    let Some(last) = round.last() else { break };
                    after = After::Scored(*last);
                    found.extend(round.iter().map(|scored| scored.number));
                }
                assert_eq!(found, wanted, "{count_max}");
            }
        }
    }
}
