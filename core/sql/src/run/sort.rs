//! Sorting of rows that the source does not serve in order.
//!
//! [`Sorter`] keeps only as many rows as the page can need: the rows before the page, the rows of
//! the page, and one to know if there is another page. [`SortPosition`] names the row at which a
//! page ended, so that the next page need not sort the rows before it again.

use crate::error::QueryError;
use crate::value::weight;
use bytes::Bytes;
use orrery_model::json::{Json, compare, parse};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Limit in bytes of the sort values in a [`SortPosition`], which travels in a continuation token.
/// After a row with longer values the next page skips rows by their number instead, and so may lose
/// or repeat rows if rows before were added or deleted. Clients accept headers of 16 KiB in all.
pub(super) const POSITION_BYTES: usize = 4096;

/// Bytes of a kept row besides its text and its sort values.
const ROW_OVERHEAD: usize = 104;

/// The sort values of a row, one for each key of ORDER BY; `None` is undefined.
pub(crate) type Keys = Vec<Option<Json>>;

/// The first rows of an order, up to a number of rows.
pub(crate) struct Sorter<'q> {
    /// The kept rows; the last one in order is on top.
    heap: BinaryHeap<Entry<'q>>,
    rows_to_keep: usize,
    /// For each key of ORDER BY, true if it descends.
    pub descending: &'q [bool],
    /// Number of rows added so far.
    sequence: u64,
    memory: usize,
    max_memory: usize,
}

/// A kept row. Rows with equal sort values stay in the order in which they were added.
struct Entry<'q> {
    row: SortedRow,
    sequence: u64,
    descending: &'q [bool],
}

/// A row with its sort values.
pub(crate) struct SortedRow {
    pub keys: Keys,
    /// The number of the row's item, see [`crate::Candidate::item_number`].
    pub item_number: Option<u64>,
    /// The row as JSON text.
    pub row: Bytes,
}

impl<'q> Sorter<'q> {
    pub(crate) fn new(descending: &'q [bool], rows_to_keep: usize, max_memory: usize) -> Self {
        Sorter {
            heap: BinaryHeap::new(),
            rows_to_keep,
            descending,
            sequence: 0,
            memory: 0,
            max_memory,
        }
    }

    /// Returns true if a row with these sort values would be kept.
    pub(crate) fn would_keep(&self, keys: &[Option<Json>]) -> bool {
        if self.heap.len() < self.rows_to_keep {
            return true;
        }
        match self.heap.peek() {
            Some(last) => compare_keys(keys, &last.row.keys, self.descending).is_lt(),
            None => false,
        }
    }

    /// Adds a row and drops the last one in order if there are too many.
    ///
    /// # Errors
    /// [`QueryError::Memory`] if the kept rows exceed the memory limit.
    pub(crate) fn add(&mut self, row: SortedRow) -> Result<(), QueryError> {
        self.memory += row.size();
        self.sequence += 1;
        self.heap.push(Entry {
            row,
            sequence: self.sequence,
            descending: self.descending,
        });
        if self.heap.len() > self.rows_to_keep
            && let Some(dropped) = self.heap.pop()
        {
            self.memory -= dropped.row.size();
        }
        if self.memory > self.max_memory {
            return Err(QueryError::Memory(
                "The query sorts more than fits into its memory.".into(),
            ));
        }
        Ok(())
    }

    /// Returns the bytes of the kept rows.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Returns the kept rows in order.
    pub(crate) fn finish(self) -> Vec<SortedRow> {
        let entries = self.heap.into_sorted_vec();
        entries.into_iter().map(|entry| entry.row).collect()
    }
}

impl SortedRow {
    fn size(&self) -> usize {
        let key_bytes: usize = self.keys.iter().flatten().map(weight).sum();
        ROW_OVERHEAD + self.row.len() + key_bytes
    }

    /// Returns true if both rows are of one item and have equal sort values.
    fn is_tied_with(&self, other: &SortedRow) -> bool {
        self.item_number == other.item_number && self.keys == other.keys
    }
}

/// The position of the last row of a page in the order of the query.
///
/// Rows with equal sort values are ordered by the number of their item: upwards, or downwards if
/// the first key of ORDER BY descends. Rows of one item with equal sort values are counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortPosition {
    keys: Keys,
    item_number: u64,
    /// Rows of that item with these sort values, up to and including the last row of the page.
    tied_rows: u64,
    /// Fingerprint of the query that returned all pages so far; 0 if these were several queries.
    fingerprint: u64,
}

impl SortPosition {
    /// Returns the position of row `last` of a page that began at `start`. Returns `None` if the
    /// next page must skip rows by their number: the item has no number, or the sort values are
    /// long and all pages are of one query.
    pub(crate) fn after_row(
        rows: &[SortedRow],
        last: usize,
        start: Option<&SortPosition>,
        fingerprint: u64,
    ) -> Option<SortPosition> {
        let row = rows.get(last)?;
        let item_number = row.item_number?;
        let tied_before = rows[..last]
            .iter()
            .rev()
            .take_while(|before| before.is_tied_with(row))
            .count();

        // If the tied rows reach back to the start of the page, tied rows of earlier pages count.
        let mut tied_rows = tied_before as u64 + 1;
        if let Some(start) = start
            && start.item_number == item_number
            && start.keys == row.keys
            && tied_before == last
        {
            tied_rows += start.tied_rows;
        }
        let is_one_query = start.is_none_or(|start| start.fingerprint == fingerprint);

        // A number of rows is meaningless for another query, so its position is kept at any length.
        let key_bytes: usize = row
            .keys
            .iter()
            .flatten()
            .map(|key| key.to_text().len())
            .sum();
        if key_bytes > POSITION_BYTES && is_one_query && fingerprint != 0 {
            return None;
        }
        Some(SortPosition {
            keys: row.keys.clone(),
            item_number,
            tied_rows,
            fingerprint: if is_one_query { fingerprint } else { 0 },
        })
    }

    /// Returns true if a row comes after this position. `tied_rows` counts the rows of the
    /// position's item and sort values so far, over all calls.
    pub(crate) fn precedes(
        &self,
        keys: &Keys,
        item_number: Option<u64>,
        descending: &[bool],
        tied_rows: &mut u64,
    ) -> bool {
        let Some(item_number) = item_number else {
            return true;
        };
        let mut by_item = item_number.cmp(&self.item_number);
        if descending.first() == Some(&true) {
            by_item = by_item.reverse();
        }
        match compare_keys(keys, &self.keys, descending).then(by_item) {
            Ordering::Less => false,
            Ordering::Equal => {
                *tied_rows += 1;
                *tied_rows > self.tied_rows
            }
            Ordering::Greater => true,
        }
    }

    /// Encodes the position: item number, tied rows and fingerprint as little-endian u64, then a
    /// JSON array with `[value]` for each sort value and `[]` for undefined.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [self.item_number, self.tied_rows, self.fingerprint] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(keys_to_json(&self.keys).to_text().as_bytes());
        out
    }

    /// Decodes the bytes of [`SortPosition::encode`]. Returns `None` for any other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<SortPosition> {
        let (numbers, keys) = bytes.split_at_checked(24)?;
        let number = |at: usize| {
            let bytes = numbers.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        Some(SortPosition {
            keys: keys_from_json(&parse(keys).ok()?)?,
            item_number: number(0)?,
            tied_rows: number(8)?,
            fingerprint: number(16)?,
        })
    }

    /// Returns the fingerprint of the one query that returned all pages so far, from the bytes of
    /// [`SortPosition::encode`]. Returns `None` if these were several queries, and for any other
    /// bytes.
    pub(crate) fn query_of(bytes: &[u8]) -> Option<u64> {
        let fingerprint = SortPosition::decode(bytes)?.fingerprint;
        (fingerprint != 0).then_some(fingerprint)
    }

    /// Returns the number of sort values.
    pub(crate) fn key_count(&self) -> usize {
        self.keys.len()
    }
}

/// Returns sort values as a JSON array, with `[value]` for a value and `[]` for undefined.
pub fn keys_to_json(keys: &[Option<Json>]) -> Json {
    let keys = keys
        .iter()
        .map(|key| Json::Array(key.iter().cloned().collect()));
    Json::Array(keys.collect())
}

/// Reads the array of [`keys_to_json`]. Returns `None` for any other value.
pub fn keys_from_json(json: &Json) -> Option<Vec<Option<Json>>> {
    let mut keys = Keys::new();
    for key in json.as_array()? {
        match key.as_array()? {
            [] => keys.push(None),
            [value] => keys.push(Some(value.clone())),
            _ => return None,
        }
    }
    Some(keys)
}

/// Compares sort values. Undefined is less than every value.
pub(super) fn compare_keys(
    a: &[Option<Json>],
    b: &[Option<Json>],
    descending: &[bool],
) -> Ordering {
    for ((a, b), is_descending) in a.iter().zip(b).zip(descending) {
        let order = match (a, b) {
            (Some(a), Some(b)) => compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        if order.is_ne() {
            return if *is_descending {
                order.reverse()
            } else {
                order
            };
        }
    }
    Ordering::Equal
}

impl Ord for Entry<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_keys(&self.row.keys, &other.row.keys, self.descending)
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

    fn row(n: i64, item_number: u64) -> SortedRow {
        SortedRow {
            keys: vec![Some(Json::from(n)), None],
            item_number: Some(item_number),
            row: Bytes::new(),
        }
    }

    #[test]
    fn a_position_counts_the_tied_rows_of_its_item_over_pages() {
        let rows = [row(1, 7), row(2, 8), row(2, 8)];
        let first = SortPosition::after_row(&rows, 2, None, 9).expect("short values");
        assert_eq!(SortPosition::decode(&first.encode()), Some(first.clone()));
        assert_eq!(first.tied_rows, 2);
        // The next page consists of tied rows as well.
        let second = SortPosition::after_row(&rows[1..], 1, Some(&first), 9).expect("short values");
        assert_eq!((second.tied_rows, second.fingerprint), (4, 9));
        let mut tied_rows = 0;
        let mut precedes =
            || first.precedes(&rows[1].keys, Some(8), &[false, false], &mut tied_rows);
        assert_eq!([precedes(), precedes(), precedes()], [false, false, true]);
        assert!(
            !first.precedes(&rows[1].keys, Some(7), &[false, false], &mut 0),
            "an item with a smaller number comes earlier"
        );
        assert!(
            first.precedes(&rows[1].keys, Some(7), &[true, false], &mut 0),
            "in a descending order it comes later"
        );
    }

    #[test]
    fn rows_with_long_values_or_without_item_number_have_no_position() {
        let long = SortedRow {
            keys: vec![Some(Json::from("x".repeat(POSITION_BYTES)))],
            item_number: Some(1),
            row: Bytes::new(),
        };
        assert_eq!(SortPosition::after_row(&[long], 0, None, 9), None);
        let without_number = SortedRow {
            item_number: None,
            ..row(1, 1)
        };
        assert_eq!(SortPosition::after_row(&[without_number], 0, None, 9), None);
    }
}
