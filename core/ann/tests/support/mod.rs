//! Seeded vectors, a graph in memory, and the truth by brute force.

use orrery_ann::{
    Codes, GraphChanges, GraphEdit, GraphView, Lists, Metric, Quantiser, QuantiserKind, Shape,
};
use orrery_model::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const DIMENSIONS: usize = 24;
pub(crate) const CODE_BYTES: usize = 12;

/// A sequence of numbers that depends on the seed alone.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    }

    /// Returns a number from -1 to 1, small ones more often.
    pub(crate) fn component(&mut self) -> f32 {
        let mut uniform = || (self.next() >> 40) as f32 / (1_u32 << 23) as f32 - 1.0;
        (uniform() + uniform() + uniform()) / 3.0
    }
}

/// Returns vectors around so many centres.
pub(crate) fn clustered(seed: u64, count: usize, centres: usize) -> Vec<Vec<f32>> {
    clustered_of(DIMENSIONS, seed, count, centres)
}

/// Returns vectors of so many dimensions around so many centres.
pub(crate) fn clustered_of(
    dimensions: usize,
    seed: u64,
    count: usize,
    centres: usize,
) -> Vec<Vec<f32>> {
    let mut centre_numbers = Numbers(77);
    let centres: Vec<Vec<f32>> = (0..centres)
        .map(|_| {
            (0..dimensions)
                .map(|_| centre_numbers.component())
                .collect()
        })
        .collect();
    let mut numbers = Numbers(seed);
    (0..count)
        .map(|_| {
            let centre = &centres[numbers.next() as usize % centres.len()];
            centre
                .iter()
                .map(|&component| component + numbers.component() / 2.0)
                .collect()
        })
        .collect()
}

/// Trains a product quantiser.
pub(crate) fn trained(metric: Metric, vectors: &[Vec<f32>]) -> Quantiser {
    trained_as(QuantiserKind::Product, CODE_BYTES, metric, vectors)
}

pub(crate) fn trained_as(
    kind: QuantiserKind,
    code_bytes: usize,
    metric: Metric,
    vectors: &[Vec<f32>],
) -> Quantiser {
    let sample: Vec<f32> = vectors.iter().take(1000).flatten().copied().collect();
    let dimensions = vectors[0].len();
    Quantiser::train(
        kind,
        metric,
        dimensions,
        code_bytes,
        &sample,
        1,
        &mut || Ok(()),
    )
    .unwrap()
}

/// Returns the exact distance of a metric.
pub(crate) fn exact(metric: Metric, left: &[f32], right: &[f32]) -> f32 {
    let products = |left: &[f32], right: &[f32]| -> f32 {
        left.iter()
            .zip(right)
            .map(|(left, right)| left * right)
            .sum()
    };
    match metric {
        Metric::DotProduct => -products(left, right),
        Metric::Cosine => {
            -products(left, right) / (products(left, left) * products(right, right)).sqrt()
        }
        Metric::Euclidean => left
            .iter()
            .zip(right)
            .map(|(left, right)| (left - right).powi(2))
            .sum(),
    }
}

/// Adjacency lists in memory. They count reads, and can fail.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) lists: BTreeMap<u64, Vec<u64>>,
    pub(crate) reads: AtomicU64,
    pub(crate) fails: bool,
}

impl Lists for Stored {
    fn neighbours(&self, node: u64) -> Result<Vec<u64>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.fails {
            return Err(Error::internal("the disk is gone"));
        }
        Ok(self.lists.get(&node).cloned().unwrap_or_default())
    }
}

/// A graph with its vectors.
pub(crate) struct Graph {
    pub(crate) quantiser: Quantiser,
    pub(crate) codes: Codes,
    pub(crate) stored: Stored,
    pub(crate) vectors: BTreeMap<u64, Vec<f32>>,
}

impl Graph {
    pub(crate) fn new(quantiser: Quantiser) -> Self {
        let codes = Codes::new(quantiser.code_bytes());
        Self {
            quantiser,
            codes,
            stored: Stored::default(),
            vectors: BTreeMap::new(),
        }
    }

    /// Links the vectors as the nodes 0, 1, 2 …, by codes of a product quantiser.
    pub(crate) fn of(metric: Metric, vectors: &[Vec<f32>]) -> Self {
        Self::linked(trained(metric, vectors), vectors)
    }

    /// Links the vectors as the nodes 0, 1, 2 … in edits of 100.
    pub(crate) fn linked(quantiser: Quantiser, vectors: &[Vec<f32>]) -> Self {
        let mut graph = Self::new(quantiser);
        let nodes: Vec<_> = (0..).zip(vectors.iter().cloned()).collect();
        for part in nodes.chunks(100) {
            graph.change(&[], part);
        }
        graph
    }

    pub(crate) fn edit(&self) -> GraphEdit<'_> {
        GraphEdit::new(&self.quantiser, &self.codes, &self.stored, Shape::default())
    }

    /// Unlinks and links nodes, in one edit.
    pub(crate) fn change(&mut self, removed: &[u64], linked: &[(u64, Vec<f32>)]) {
        let mut edit = self.edit();
        for &node in removed {
            edit.unlink(node).unwrap();
        }
        for (node, vector) in linked {
            edit.link(*node, vector).unwrap();
        }
        let changes = edit.into_changes();
        self.store(changes);
        for node in removed {
            self.vectors.remove(node);
        }
        self.vectors.extend(linked.iter().cloned());
    }

    /// Replaces the first nodes by others, which get the numbers from 2000 on, in edits of 50.
    pub(crate) fn replace_first(&mut self, vectors: &[Vec<f32>]) {
        for (part, new) in vectors.chunks(50).enumerate() {
            let first = part as u64 * 50;
            let removed: Vec<u64> = (first..first + 50).collect();
            let linked: Vec<_> = (2000 + first..).zip(new.iter().cloned()).collect();
            self.change(&removed, &linked);
        }
    }

    pub(crate) fn store(&mut self, changes: GraphChanges) {
        for (node, list) in changes.lists {
            if list.is_empty() {
                self.stored.lists.remove(&node);
            } else {
                self.stored.lists.insert(node, list);
            }
        }
        for (node, code) in changes.codes {
            match code {
                Some(code) => self.codes.insert(node, &code),
                None => self.codes.remove(node),
            }
        }
    }

    pub(crate) fn view(&self) -> GraphView<'_> {
        GraphView {
            quantiser: &self.quantiser,
            codes: &self.codes,
            lists: &self.stored,
        }
    }

    pub(crate) fn search(&self, vector: &[f32], list_size: usize) -> Vec<u64> {
        let found = self.view().search(vector, list_size).unwrap();
        found.nodes.into_iter().map(|(_, node)| node).collect()
    }

    /// Returns the share of the 10 nearest nodes that `candidates` has, over all queries.
    pub(crate) fn recall(
        &self,
        queries: &[Vec<f32>],
        candidates: impl Fn(&[f32]) -> Vec<u64>,
    ) -> f64 {
        let mut hits = 0;
        for query in queries {
            let candidates: BTreeSet<u64> = candidates(query).into_iter().collect();
            hits += self
                .nearest(query, 10)
                .iter()
                .filter(|node| candidates.contains(node))
                .count();
        }
        hits as f64 / (10 * queries.len()) as f64
    }

    /// Returns the nearest nodes by brute force.
    pub(crate) fn nearest(&self, query: &[f32], count: usize) -> Vec<u64> {
        let metric = self.quantiser.metric();
        let mut all: Vec<(f32, u64)> = self
            .vectors
            .iter()
            .map(|(&node, vector)| (exact(metric, query, vector), node))
            .collect();
        all.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
        all.into_iter().take(count).map(|(_, node)| node).collect()
    }
}
