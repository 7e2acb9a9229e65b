//! ORDER BY RANK: the best rows of each score, and the fusion of their ranks.
//!
//! A query has one or more scores, called components. Of each component the pool keeps the best
//! [`MIN_POOL_ROWS`] rows, or twice the number of rows that the query can need if that is more.
//! Without TOP and LIMIT the pool keeps all rows, as far as memory allows. Clients that merge the
//! answers of several partitions do the same, so both ways return the same rows.
//!
//! The order is reciprocal rank fusion: the sum over the components of `weight / (60 + rank)`, the
//! largest first. Ranks are counted among the rows of the pool and begin at 1. Equal scores share a
//! rank, and the next rank is one higher. A single component orders by its score.

use super::frame::{Context, Scope};
use crate::bound::{Component, Ranking};
use crate::error::QueryError;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// Smallest number of rows that are kept for each component.
pub(crate) const MIN_POOL_ROWS: u64 = 120;
/// The constant of reciprocal rank fusion, the same as in the SDKs.
const FUSION_CONSTANT: f64 = 60.0;
/// Bytes of a pooled row besides its text and its scores.
const ROW_OVERHEAD: usize = 160;
/// The most rows that are kept. Clients read the number in a plan as one of 32 bits with a sign.
const MAX_POOL_ROWS: u64 = i32::MAX as u64;
/// Bytes of a score and of the entry of its component.
const SCORE_BYTES: usize = 24;

/// Returns the number of rows that are kept for each component of a query that needs `rows_needed`.
pub(crate) fn pool_size(rows_needed: u64) -> u64 {
    let twice = rows_needed.saturating_mul(2);
    twice.clamp(MIN_POOL_ROWS, MAX_POOL_ROWS)
}

/// The best rows of each component.
pub(crate) struct RankPool<'q> {
    ranking: &'q Ranking,
    /// Largest number of rows for each component.
    max_rows: usize,
    /// For each component its best rows; the worst of them is on top.
    best: Vec<BinaryHeap<PoolEntry>>,
    /// Every row that is among the best of some component, by its sequence number.
    rows: BTreeMap<u64, PooledRow>,
    next_sequence: u64,
    /// Bytes of the rows in the pool.
    memory: usize,
}

struct PooledRow {
    scores: Vec<f64>,
    row: Bytes,
    /// Number of components that have the row among their best.
    uses: usize,
}

/// A row among the best of one component. The greatest entry is the worst row.
struct PoolEntry {
    /// The score as a sort value: smaller is better.
    sort_value: f64,
    sequence: u64,
}

impl<'q> RankPool<'q> {
    /// Creates an empty pool. With `rows_needed` `None` it keeps every row.
    pub(crate) fn new(ranking: &'q Ranking, rows_needed: Option<u64>) -> Self {
        let max_rows = match rows_needed {
            Some(rows) => usize::try_from(pool_size(rows)).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let best = ranking
            .components
            .iter()
            .map(|_| BinaryHeap::new())
            .collect();
        RankPool {
            ranking,
            max_rows,
            best,
            rows: BTreeMap::new(),
            next_sequence: 0,
            memory: 0,
        }
    }

    /// Evaluates the scores of a row, one for each component. A score that is undefined or no
    /// number becomes the component's score for undefined, which is worse than all others.
    pub(crate) fn scores(
        &self,
        cx: &mut Context<'_>,
        tuple: &Scope<'_>,
    ) -> Result<Vec<f64>, QueryError> {
        let mut scores = Vec::with_capacity(self.ranking.components.len());
        for component in &self.ranking.components {
            let value = component.score.eval(cx, tuple)?;
            let score = match value.and_then(|value| value.as_f64()) {
                Some(score) if !score.is_nan() => score,
                _ => component.score_if_undefined,
            };
            scores.push(score);
        }
        Ok(scores)
    }

    /// Returns true if a row with these scores would be kept.
    pub(crate) fn would_keep(&self, scores: &[f64]) -> bool {
        for (at, best) in self.best.iter().enumerate() {
            if best.len() < self.max_rows {
                return true;
            }
            let sort_value = sort_value(&self.ranking.components[at], scores[at]);
            if best
                .peek()
                .is_some_and(|worst| sort_value < worst.sort_value)
            {
                return true;
            }
        }
        false
    }

    /// Adds a row. Returns the bytes of all rows in the pool.
    pub(crate) fn add(&mut self, scores: Vec<f64>, row: Bytes) -> usize {
        // The row first enters the best rows of every component.
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        for (at, best) in self.best.iter_mut().enumerate() {
            best.push(PoolEntry {
                sort_value: sort_value(&self.ranking.components[at], scores[at]),
                sequence,
            });
        }
        self.memory += row_size(&scores, &row);
        let uses = self.best.len();
        self.rows.insert(sequence, PooledRow { scores, row, uses });

        // Each component then drops its worst row if it has too many. A row that no component uses
        // leaves the pool.
        for best in &mut self.best {
            if best.len() <= self.max_rows {
                continue;
            }
            let Some(worst) = best.pop() else { continue };
            let Some(dropped) = self.rows.get_mut(&worst.sequence) else {
                continue;
            };
            dropped.uses -= 1;
            if dropped.uses == 0
                && let Some(dropped) = self.rows.remove(&worst.sequence)
            {
                self.memory -= row_size(&dropped.scores, &dropped.row);
            }
        }
        self.memory
    }

    /// Returns the rows in order. Rows with equal results stay in the order in which they were
    /// added.
    pub(crate) fn finish(self) -> impl Iterator<Item = Bytes> {
        let rows: Vec<PooledRow> = self.rows.into_values().collect();
        let mut order: Vec<(f64, usize)> = match self.ranking.components.as_slice() {
            // A single component orders by its score.
            [only] => {
                let results = rows.iter().map(|row| -sort_value(only, row.scores[0]));
                results.zip(0..).collect()
            }
            components => fused_scores(components, &rows)
                .into_iter()
                .zip(0..)
                .collect(),
        };
        order.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        order.into_iter().map(move |(_, row)| rows[row].row.clone())
    }
}

/// Returns for each row the sum over the components of `weight / (60 + rank)`.
fn fused_scores(components: &[Component], rows: &[PooledRow]) -> Vec<f64> {
    let mut fused = vec![0.0; rows.len()];
    for (at, component) in components.iter().enumerate() {
        let value_of = |row: usize| sort_value(component, rows[row].scores[at]);
        let mut by_score: Vec<usize> = (0..rows.len()).collect();
        by_score.sort_by(|a, b| value_of(*a).total_cmp(&value_of(*b)));
        let mut rank = 1.0;
        for (position, row) in by_score.iter().enumerate() {
            if position > 0 && value_of(*row) != value_of(by_score[position - 1]) {
                rank += 1.0;
            }
            fused[*row] += component.weight / (FUSION_CONSTANT + rank);
        }
    }
    fused
}

/// Returns a score as a sort value, smaller for better. A component with a negative weight prefers
/// low scores.
fn sort_value(component: &Component, score: f64) -> f64 {
    if component.is_reversed { score } else { -score }
}

fn row_size(scores: &[f64], row: &Bytes) -> usize {
    ROW_OVERHEAD + row.len() + scores.len() * SCORE_BYTES
}

impl Ord for PoolEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sort_value
            .total_cmp(&other.sort_value)
            .then(self.sequence.cmp(&other.sequence))
    }
}

impl PartialOrd for PoolEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PoolEntry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PoolEntry {}
