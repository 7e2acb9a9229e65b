//! Sorting rows that the source did not bring in order.
//!
//! Only as many rows are kept as the page can need: those before it, its own, and one to know whether there is more.

use crate::error::QueryError;
use crate::value::weight;
use bytes::Bytes;
use orrery_model::json::{Json, compare, parse};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Bytes of the sort values that a page's place may hold; behind a longer one the next page counts.
const PLACE_BYTES: usize = 256;

/// The sort values of a row; `None` is undefined.
pub(crate) type Keys = Vec<Option<Json>>;

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
    row: Sorted,
    sequence: u64,
    descending: &'q [bool],
}

/// A row with what it was sorted by.
pub(crate) struct Sorted {
    pub keys: Keys,
    /// The number of its item, if that has one.
    pub item: Option<u64>,
    pub row: Bytes,
}

impl<'q> Sorter<'q> {
    pub fn new(descending: &'q [bool], keep: usize, memory_limit: usize) -> Self {
        Sorter {
            heap: BinaryHeap::new(),
            keep,
            descending,
            sequence: 0,
            memory: 0,
            memory_limit,
        }
    }

    /// Whether a row with these keys would be kept.
    pub fn wants(&self, keys: &[Option<Json>]) -> bool {
        let full = self.heap.len() >= self.keep;
        !full
            || self
                .heap
                .peek()
                .is_some_and(|last| order(keys, &last.row.keys, self.descending).is_lt())
    }

    pub fn add(&mut self, row: Sorted) -> Result<(), QueryError> {
        self.memory += row.size();
        self.sequence += 1;
        self.heap.push(Entry {
            row,
            sequence: self.sequence,
            descending: self.descending,
        });
        if self.heap.len() > self.keep
            && let Some(out) = self.heap.pop()
        {
            self.memory -= out.row.size();
        }
        if self.memory > self.memory_limit {
            return Err(QueryError::Memory(
                "The query sorts more than fits into its memory.".into(),
            ));
        }
        Ok(())
    }

    /// The rows in order.
    pub fn finish(self) -> Vec<Sorted> {
        self.heap
            .into_sorted_vec()
            .into_iter()
            .map(|entry| entry.row)
            .collect()
    }
}

impl Sorted {
    fn size(&self) -> usize {
        104 + self.row.len() + self.keys.iter().flatten().map(weight).sum::<usize>()
    }

    fn is_beside(&self, other: &Sorted) -> bool {
        self.item == other.item && self.keys == other.keys
    }
}

/// Where a page of sorted rows ended. Rows of equal values come by the number of their item, upwards, or downwards if
/// the first key descends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    keys: Keys,
    item: u64,
    /// Rows of that item with these values up to here.
    rows: u64,
    /// The hash of the text that made all pages up to here; 0 if they were of several texts.
    text: u64,
}

impl Place {
    /// The place behind the row at `last` of a page that began at `start`; `None` if the rows before it are better
    /// counted: its values are long, or its item has no number.
    pub fn behind(rows: &[Sorted], last: usize, start: Option<&Place>, text: u64) -> Option<Place> {
        let row = rows.get(last)?;
        let beside = rows[..last]
            .iter()
            .rev()
            .take_while(|before| before.is_beside(row))
            .count() as u64;
        let of_page = beside + 1;
        let item = row.item?;
        let earlier =
            start.filter(|s| s.item == item && s.keys == row.keys && of_page == last as u64 + 1);
        let rows = of_page + earlier.map_or(0, |s| s.rows);
        let text = if start.is_none_or(|s| s.text == text) {
            text
        } else {
            0
        };
        let place = Place {
            keys: row.keys.clone(),
            item,
            rows,
            text,
        };
        let fits = place
            .keys
            .iter()
            .flatten()
            .map(|key| key.to_text().len())
            .sum::<usize>()
            <= PLACE_BYTES;
        (fits || text == 0).then_some(place)
    }

    /// Whether a row comes behind this place. `beside` counts the rows of the same item and values so far.
    pub fn is_before(
        &self,
        keys: &Keys,
        item: Option<u64>,
        descending: &[bool],
        beside: &mut u64,
    ) -> bool {
        let Some(item) = item else { return true };
        let by_item = item.cmp(&self.item);
        let downwards = descending.first() == Some(&true);
        let place = order(keys, &self.keys, descending).then(if downwards {
            by_item.reverse()
        } else {
            by_item
        });
        if place.is_eq() {
            *beside += 1;
        }
        place.is_gt() || (place.is_eq() && *beside > self.rows)
    }

    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [self.item, self.rows, self.text] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let keys = self
            .keys
            .iter()
            .map(|key| Json::Array(key.iter().cloned().collect()));
        out.extend_from_slice(Json::Array(keys.collect()).to_text().as_bytes());
        out
    }

    pub fn read(bytes: &[u8]) -> Option<Place> {
        let (numbers, keys) = bytes.split_at_checked(24)?;
        let number = |at: usize| {
            Some(u64::from_le_bytes(
                numbers.get(at..at + 8)?.try_into().ok()?,
            ))
        };
        let keys = parse(keys).ok()?;
        let one = |key: &Json| match key.as_array()? {
            [] => Some(None),
            [value] => Some(Some(value.clone())),
            _ => None,
        };
        let keys = keys.as_array()?.iter().map(one).collect::<Option<_>>()?;
        Some(Place {
            keys,
            item: number(0)?,
            rows: number(8)?,
            text: number(16)?,
        })
    }

    /// How many keys it has.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }
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
        order(&self.row.keys, &other.row.keys, self.descending)
            .then(self.sequence.cmp(&other.sequence))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: i64, item: u64) -> Sorted {
        Sorted {
            keys: vec![Some(Json::from(n)), None],
            item: Some(item),
            row: Bytes::new(),
        }
    }

    #[test]
    fn a_place_counts_the_rows_of_its_item_over_pages() {
        let rows = [row(1, 7), row(2, 8), row(2, 8)];
        let first = Place::behind(&rows, 2, None, 9).expect("short values");
        assert_eq!(Place::read(&first.write()), Some(first.clone()));
        assert_eq!(first.rows, 2);
        // A page that goes on among the same rows.
        let second = Place::behind(&rows[1..], 1, Some(&first), 9).expect("short values");
        assert_eq!((second.rows, second.text), (4, 9));
        let mut beside = 0;
        let is_before =
            |beside: &mut u64| first.is_before(&rows[1].keys, Some(8), &[false, false], beside);
        assert_eq!(
            [
                is_before(&mut beside),
                is_before(&mut beside),
                is_before(&mut beside)
            ],
            [false, false, true]
        );
        assert!(
            !first.is_before(&rows[1].keys, Some(7), &[false, false], &mut 0),
            "an earlier item"
        );
        assert!(
            first.is_before(&rows[1].keys, Some(7), &[true, false], &mut 0),
            "downwards it comes later"
        );
    }

    #[test]
    fn long_values_are_counted_while_the_text_stays() {
        let long = Sorted {
            keys: vec![Some(Json::from("x".repeat(1_000)))],
            item: Some(1),
            row: Bytes::new(),
        };
        assert_eq!(Place::behind(&[long], 0, None, 9), None);
        assert_eq!(
            Place::behind(
                &[Sorted {
                    item: None,
                    ..row(1, 1)
                }],
                0,
                None,
                9
            ),
            None
        );
    }
}
