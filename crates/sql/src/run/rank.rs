//! ORDER BY RANK: the best rows by each score, and the fusion of their ranks.
//!
//! Of every score the best [`POOL_LEAST`] rows are kept, or twice as many as the query can need if that is more; ranks are
//! counted among the rows so kept. This is what a client does that merges the answers of several partitions itself, so
//! both ways give the same. Without TOP and LIMIT all rows are kept, as far as memory allows.
//!
//! A row's place is decided by the sum over the scores of `weight / (60 + rank)`; ranks begin at 1, equal scores share
//! one, and the next is one higher.

use super::frame::{Context, Scope};
use crate::bound::{Component, Ranking};
use crate::error::QueryError;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// Rows of each score that are kept at least.
pub(crate) const POOL_LEAST: u64 = 120;
/// The constant of reciprocal rank fusion, as clients have it.
const FUSION: f64 = 60.0;

/// How many rows of each score a query needs.
pub(crate) fn pool_size(rows_needed: u64) -> u64 {
    rows_needed.saturating_mul(2).max(POOL_LEAST)
}

/// Rows while they are ranked.
pub(crate) struct Ranked<'q> {
    ranking: &'q Ranking,
    keep: usize,
    best: Vec<BinaryHeap<Place>>,
    /// By the order in which they came.
    held: BTreeMap<u64, Held>,
    next: u64,
    memory: usize,
}

struct Held {
    scores: Vec<f64>,
    row: Bytes,
    /// Scores among whose best it is.
    uses: usize,
}

/// A row among the best of one score; the greatest is the worst.
struct Place {
    /// Lower is better.
    badness: f64,
    number: u64,
}

impl<'q> Ranked<'q> {
    pub fn new(ranking: &'q Ranking, rows_needed: Option<u64>) -> Self {
        let keep = rows_needed.map_or(usize::MAX, |rows| {
            usize::try_from(pool_size(rows)).unwrap_or(usize::MAX)
        });
        let best = ranking
            .components
            .iter()
            .map(|_| BinaryHeap::new())
            .collect();
        Ranked {
            ranking,
            keep,
            best,
            held: BTreeMap::new(),
            next: 0,
            memory: 0,
        }
    }

    /// A row's scores, one for each component; a missing one is worse than all others.
    pub fn scores(&self, cx: &mut Context<'_>, tuple: &Scope<'_>) -> Result<Vec<f64>, QueryError> {
        let mut scores = Vec::with_capacity(self.ranking.components.len());
        for component in &self.ranking.components {
            let score = component
                .score
                .eval(cx, tuple)?
                .and_then(|v| v.as_f64())
                .filter(|v| !v.is_nan());
            scores.push(score.unwrap_or(component.score_if_undefined));
        }
        Ok(scores)
    }

    /// Whether a row with these scores would be kept.
    pub fn wants(&self, scores: &[f64]) -> bool {
        let mut each = self.best.iter().zip(scores).zip(&self.ranking.components);
        each.any(|((best, score), component)| {
            best.len() < self.keep
                || best
                    .peek()
                    .is_some_and(|worst| badness(component, *score) < worst.badness)
        })
    }

    /// Takes a row; gives the bytes that all rows hold.
    pub fn add(&mut self, scores: Vec<f64>, row: Bytes) -> usize {
        let number = self.next;
        self.next += 1;
        self.memory += size(&scores, &row);
        let uses = self.best.len();
        for ((best, score), component) in self
            .best
            .iter_mut()
            .zip(&scores)
            .zip(&self.ranking.components)
        {
            best.push(Place {
                badness: badness(component, *score),
                number,
            });
        }
        self.held.insert(number, Held { scores, row, uses });
        for best in &mut self.best {
            if best.len() <= self.keep {
                continue;
            }
            let Some(out) = best.pop() else { continue };
            let Some(held) = self.held.get_mut(&out.number) else {
                continue;
            };
            held.uses -= 1;
            if held.uses == 0
                && let Some(held) = self.held.remove(&out.number)
            {
                self.memory -= size(&held.scores, &held.row);
            }
        }
        self.memory
    }

    /// The rows in order; equal ones as they came.
    pub fn finish(self) -> impl Iterator<Item = Bytes> {
        let held: Vec<Held> = self.held.into_values().collect();
        let mut places: Vec<(f64, usize)> = (0..held.len()).map(|i| (0.0, i)).collect();
        for (at, component) in self.ranking.components.iter().enumerate() {
            let bad = |i: usize| badness(component, held[i].scores[at]);
            if let [only] = self.ranking.components.as_slice() {
                // The only score decides by itself.
                places
                    .iter_mut()
                    .for_each(|(sum, i)| *sum = -badness(only, held[*i].scores[at]));
                break;
            }
            let mut sorted: Vec<usize> = (0..held.len()).collect();
            sorted.sort_by(|a, b| bad(*a).total_cmp(&bad(*b)));
            let mut rank = 1.0;
            for (position, i) in sorted.iter().enumerate() {
                if position > 0 && bad(*i) != bad(sorted[position - 1]) {
                    rank += 1.0;
                }
                places[*i].0 += component.weight / (FUSION + rank);
            }
        }
        places.sort_by(|a, b| b.0.total_cmp(&a.0));
        places.into_iter().map(move |(_, i)| held[i].row.clone())
    }
}

fn badness(component: &Component, score: f64) -> f64 {
    if component.is_reversed { score } else { -score }
}

fn size(scores: &[f64], row: &Bytes) -> usize {
    160 + row.len() + scores.len() * 24
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.badness
            .total_cmp(&other.badness)
            .then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}
