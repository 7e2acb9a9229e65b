//! Sorting rows that the source did not bring in order.
//!
//! Only as many rows are kept as the page can need: those before it, its own, and one to know whether there is more.

use crate::error::QueryError;
use crate::value::weight;
use bytes::Bytes;
use orrery_model::json::{Json, compare};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The first rows of an order.
pub(crate) struct Sorter<'q> {
    heap: BinaryHeap<Entry<'q>>,
    keep: usize,
    descending: &'q [bool],
    sequence: u64,
    memory: usize,
    memory_limit: usize,
}

struct Entry<'q> {
    keys: Vec<Option<Json>>,
    sequence: u64,
    row: Bytes,
    descending: &'q [bool],
}

impl<'q> Sorter<'q> {
    pub fn new(descending: &'q [bool], keep: usize, memory_limit: usize) -> Self {
        Sorter { heap: BinaryHeap::new(), keep, descending, sequence: 0, memory: 0, memory_limit }
    }

    /// Whether a row with these keys would be kept.
    pub fn wants(&self, keys: &[Option<Json>]) -> bool {
        let full = self.heap.len() >= self.keep;
        !full || self.heap.peek().is_some_and(|last| order(keys, &last.keys, self.descending).is_lt())
    }

    pub fn add(&mut self, keys: Vec<Option<Json>>, row: Bytes) -> Result<(), QueryError> {
        self.memory += size(&keys, &row);
        self.sequence += 1;
        self.heap.push(Entry { keys, sequence: self.sequence, row, descending: self.descending });
        if self.heap.len() > self.keep
            && let Some(out) = self.heap.pop()
        {
            self.memory -= size(&out.keys, &out.row);
        }
        if self.memory > self.memory_limit {
            return Err(QueryError::Memory("The query sorts more than fits into its memory.".into()));
        }
        Ok(())
    }

    /// The rows in order.
    pub fn finish(self) -> impl Iterator<Item = Bytes> {
        self.heap.into_sorted_vec().into_iter().map(|entry| entry.row)
    }
}

fn size(keys: &[Option<Json>], row: &Bytes) -> usize {
    96 + row.len() + keys.iter().flatten().map(weight).sum::<usize>()
}

fn order(a: &[Option<Json>], b: &[Option<Json>], descending: &[bool]) -> Ordering {
    for ((a, b), descending) in a.iter().zip(b).zip(descending) {
        let order = match (a, b) {
            (Some(a), Some(b)) => compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        if order.is_ne() {
            return if *descending { order.reverse() } else { order };
        }
    }
    Ordering::Equal
}

impl Ord for Entry<'_> {
    /// Ties stay in the order in which the rows came.
    fn cmp(&self, other: &Self) -> Ordering {
        order(&self.keys, &other.keys, self.descending).then(self.sequence.cmp(&other.sequence))
    }
}

impl PartialOrd for Entry<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry<'_> {}
