//! Value scans: values of one path in place of items, for queries that read nothing else
//! (`orrery_sql::CoveredPath`).
//!
//! Distinct values are found by seeking from each value to the next, minimum and maximum at the
//! ends of the index. For GROUP BY the items of each value are counted by their entries. An item is
//! loaded if the index keeps only a part of its value.
//!
//! Distinct and counted values come in the order of the first item of each, which is the order in
//! which the items themselves would show them. So the rows of a query have the same order however
//! its pages are read.

use super::index_view::IndexView;
use super::lookup::{Lookup, PlannedLookup};
use super::partition_query::PartitionQuery;
use super::posting::{
    Entries, IndexEntry, IndexPosition, KeyRange, Posting, Postings, entries, read_entry,
    read_natural_row,
};
use crate::errors::storage_failure;
use crate::index::value::{self, TypeBand};
use crate::partition::keys::{self, ItemNumber, PathNumber};
use crate::partition::{keys_in, scan};
use orrery_model::{Json, Object, Result};
use orrery_sql::{Condition, CoveredPath, NeededValues, Path, Step};
use orrery_storage::{Direction, Snapshot};
use std::fmt;
use std::sync::Arc;

/// Entries of one value that are read in sequence before the scan seeks the next value.
const ENTRIES_BEFORE_SEEK: usize = 8;
/// Bytes of distinct values that the scans of one page hold in memory in place of items.
pub(crate) const VALUES_BYTES_MAX: usize = 2 << 20;
/// Items of a partition whose numbers are held in memory to find those that lack a path.
const NUMBERS_MAX: u64 = 1 << 17;
/// Entries between two calls of the check point.
const CHECK_INTERVAL: usize = 1_024;

/// A scan of the values of a path.
#[derive(Clone, Debug)]
pub(crate) struct ValueScan {
    covered: CoveredPath,
    number: PathNumber,
    /// Ranges of keys, ascending and without overlap.
    ranges: Vec<KeyRange>,
    /// The distinct values, if the query needs them.
    distinct: Arc<Vec<DistinctValue>>,
}

/// A distinct value, or one item whose value the index does not hold as a whole.
#[derive(Clone, Debug)]
struct DistinctValue {
    /// The first entry.
    first: IndexEntry,
    /// Number of items.
    copies: u64,
}

impl fmt::Display for ValueScan {
    /// Writes the scan as EXPLAIN shows it. The id of the index is made from this text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = match self.covered.values {
            NeededValues::Minimum => "least",
            NeededValues::Maximum => "greatest",
            NeededValues::Distinct => "distinct",
            NeededValues::Counted => "counted",
            NeededValues::EveryItem => "all",
        };
        write!(f, "{} {values}", self.covered.path)
    }
}

/// Returns the value scan that answers a query, if there is one. `planned` holds the lookup of each
/// condition.
///
/// # Errors
/// 500 if the store cannot be read.
pub(crate) fn plan(
    query: &PartitionQuery<'_>,
    index: &IndexView<'_>,
    conditions: &[&Condition],
    planned: &[Option<PlannedLookup>],
    snapshot: &dyn Snapshot,
) -> Result<Option<ValueScan>> {
    // The index does not show which items are expired or of which partition key they are.
    let reads_all_items =
        query.key.is_none() && query.within.is_none() && query.settings.default_ttl.is_none();
    if !reads_all_items || !query.profile.counts_from_index() || !query.may_scan_values {
        return Ok(None);
    }
    let Some(mut covered) = query.query.covered_path() else {
        return Ok(None);
    };
    if !index.covers(&covered.path) {
        return Ok(None);
    }

    // While logical partitions are being deleted, each value is checked with its item, because the
    // first item of a value may be deleted. The number of distinct values is unknown then.
    if query.visible.has_key_deletions() {
        if matches!(
            covered.values,
            NeededValues::Distinct | NeededValues::Counted
        ) {
            return Ok(None);
        }
        covered.values = NeededValues::EveryItem;
    }
    // If the index does not decide the condition, the item of the first value may not match.
    let is_extreme = matches!(
        covered.values,
        NeededValues::Minimum | NeededValues::Maximum
    );
    if is_extreme && !query.query.condition_is_exact() {
        covered.values = NeededValues::EveryItem;
    }

    let Some(number) = index.number(&covered.path) else {
        return Ok(None);
    };
    let Some(ranges) = scanned_ranges(&covered, number, conditions, planned) else {
        return Ok(None);
    };
    let scan = ValueScan {
        covered,
        number,
        ranges,
        distinct: Arc::default(),
    };
    match scan.covered.values {
        NeededValues::Distinct | NeededValues::Counted => scan.with_distinct(query, snapshot),
        _ => Ok(Some(scan)),
    }
}

/// Returns the ranges of keys that hold the values of a path under the conditions. Returns `None`
/// if a condition is on another path or is not decided by the index.
fn scanned_ranges(
    covered: &CoveredPath,
    number: PathNumber,
    conditions: &[&Condition],
    planned: &[Option<PlannedLookup>],
) -> Option<Vec<KeyRange>> {
    match (conditions, planned) {
        ([], []) => {
            let start = keys::terms(number, &[]);
            let end = keys::after(&start);
            Some(vec![(start, end)])
        }
        ([Condition::Term { path, .. }], [Some(planned)])
            if planned.is_exact && *path == covered.path =>
        {
            match &planned.lookup {
                Lookup::Entries {
                    ranges,
                    string_test: None,
                    ..
                } => Some(ranges.clone()),
                _ => None,
            }
        }
        _ => None,
    }
}

impl ValueScan {
    /// Returns the id of the scan in continuations.
    pub(crate) fn index_id(&self) -> u32 {
        crc32fast::hash(self.to_string().as_bytes())
    }

    /// Returns true if the scan counts the items of each value.
    pub(crate) fn counts_items(&self) -> bool {
        self.covered.values == NeededValues::Counted
    }

    /// Reads the distinct values. Returns `None` if they take more room than the page has left, if
    /// there are too many of them for DISTINCT, or if there are too many items to find those that
    /// lack the path.
    fn with_distinct(
        mut self,
        query: &PartitionQuery<'_>,
        snapshot: &dyn Snapshot,
    ) -> Result<Option<ValueScan>> {
        // The index has no entry for items that lack the path. They are found by their numbers.
        let items = query.facts.counters(snapshot)?.items;
        let lacks_items = self.covered.includes_missing
            && items > query.facts.entries_of(snapshot, self.number)?;
        // A page of DISTINCT may end after a few rows, so it does not read all entries first.
        if lacks_items && (items > NUMBERS_MAX || !self.counts_items()) {
            return Ok(None);
        }
        let room = query.values_room.get();
        let distinct = if self.counts_items() {
            self.counted_values(query, snapshot, lacks_items)?
        } else {
            self.distinct_values(query, snapshot)?
        };
        let Some(mut distinct) = distinct else {
            query.values_room.set(room);
            return Ok(None);
        };
        distinct.sort_unstable_by_key(|value| value.first.number);
        self.distinct = Arc::new(distinct);
        Ok(Some(self))
    }

    /// Returns the distinct values, or `None` if there are too many for the page.
    fn distinct_values(
        &self,
        query: &PartitionQuery<'_>,
        snapshot: &dyn Snapshot,
    ) -> Result<Option<Vec<DistinctValue>>> {
        let entries = DistinctEntries {
            snapshot,
            path: self.number,
            ranges: self.ranges.clone(),
            last: None,
            open: None,
        };
        let mut values = Vec::new();
        for first in entries {
            if values.len() == query.distinct_values_max || !keep(first?, &mut values, query) {
                return Ok(None);
            }
            if values.len().is_multiple_of(CHECK_INTERVAL) {
                (query.check_point)()?;
            }
        }
        Ok(Some(values))
    }

    /// Returns the distinct values with the number of items of each, or `None` if they take too
    /// much room. With `adds_missing` each item that lacks the path is a value without an encoding.
    fn counted_values(
        &self,
        query: &PartitionQuery<'_>,
        snapshot: &dyn Snapshot,
        adds_missing: bool,
    ) -> Result<Option<Vec<DistinctValue>>> {
        let mut values: Vec<DistinctValue> = Vec::new();
        let mut numbers_with_path: Vec<ItemNumber> = Vec::new();
        let mut entries_read = 0usize;
        for range in &self.ranges {
            let mut keys = keys_in(snapshot, range, Direction::Forward);
            while let Some(key) = keys.next_key() {
                let key = key.map_err(storage_failure)?;
                entries_read += 1;
                if entries_read.is_multiple_of(CHECK_INTERVAL) {
                    (query.check_point)()?;
                }
                let (encoded, number, epk_prefix) = read_entry(key)?;
                if adds_missing {
                    numbers_with_path.push(number);
                }
                if let Some(last) = values.last_mut()
                    && last.first.value == encoded
                    && !value::is_inexact(encoded)
                {
                    last.copies += 1;
                    continue;
                }
                let first = IndexEntry {
                    value: encoded.to_vec(),
                    number,
                    epk_prefix,
                };
                if !keep(first, &mut values, query) {
                    return Ok(None);
                }
            }
        }
        if !adds_missing {
            return Ok(Some(values));
        }
        numbers_with_path.sort_unstable();
        for row in scan(snapshot, &keys::naturals_from(0), Direction::Forward) {
            let (number, epk_prefix) = read_natural_row(row?)?;
            if numbers_with_path.binary_search(&number).is_ok() {
                continue;
            }
            let first = IndexEntry {
                value: Vec::new(),
                number,
                epk_prefix,
            };
            if !keep(first, &mut values, query) {
                return Ok(None);
            }
        }
        (query.check_point)()?;
        Ok(Some(values))
    }

    /// Returns the values behind `after`. A posting has no value if its item has to be loaded,
    /// because the index keeps only a part of the value.
    pub(crate) fn postings<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        after: Option<&IndexPosition>,
    ) -> Postings<'a> {
        let path = self.covered.path.clone();
        let ranges = self.ranges_after(after);
        let entries: Entries<'a> = match self.covered.values {
            NeededValues::EveryItem => Box::new(
                ranges
                    .into_iter()
                    .flat_map(move |range| entries(snapshot, &range, Direction::Forward)),
            ),
            NeededValues::Distinct | NeededValues::Counted => {
                let distinct = Arc::clone(&self.distinct);
                return Box::new((0..distinct.len()).map(move |at| {
                    let DistinctValue { first, copies } = &distinct[at];
                    Ok(Posting {
                        copies: *copies,
                        ..posting_of(&path, first.clone())
                    })
                }));
            }
            NeededValues::Minimum => {
                let first = self.first_value(snapshot, ranges, Direction::Forward);
                Box::new(first.chain(self.first_structure(snapshot)))
            }
            NeededValues::Maximum => self.first_value(snapshot, ranges, Direction::Reverse),
        };
        Box::new(entries.map(move |entry| Ok(posting_of(&path, entry?))))
    }

    /// Returns the parts of the ranges behind a position, or before it if the maximum is wanted.
    fn ranges_after(&self, after: Option<&IndexPosition>) -> Vec<KeyRange> {
        let mut ranges = self.ranges.clone();
        if let Some(after) = after
            && let Some(value) = &after.value
        {
            let value_start = keys::terms(self.number, value);
            let entry = [&value_start[..], &after.number.to_be_bytes()].concat();
            let behind = keys::after(&entry);
            for (from, to) in &mut ranges {
                match self.covered.values {
                    NeededValues::Maximum => *to = entry.clone().min(std::mem::take(to)),
                    _ => *from = behind.clone().max(std::mem::take(from)),
                }
            }
            ranges.retain(|(from, to)| from < to);
        }
        ranges
    }

    /// Returns the first entry in a direction, with all entries of the same encoded value if the
    /// encoding does not order its values.
    fn first_value<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        mut ranges: Vec<KeyRange>,
        direction: Direction,
    ) -> Entries<'a> {
        if direction == Direction::Reverse {
            ranges.reverse();
        }
        let mut all = ranges
            .into_iter()
            .flat_map(move |range| entries(snapshot, &range, direction));
        let Some(first) = all.next() else {
            return Box::new(std::iter::empty());
        };
        // A single array or object is enough for the query.
        let encoded = match &first {
            Ok(entry) if value::hides_order(&entry.value) => entry.value.clone(),
            _ => return Box::new(std::iter::once(first)),
        };
        let equal = all.take_while(move |entry| match entry {
            Ok(entry) => entry.value == encoded,
            Err(_) => true,
        });
        Box::new(std::iter::once(first).chain(equal))
    }

    /// Returns the first entry of an array or object, if there is one.
    fn first_structure<'a>(&self, snapshot: &'a dyn Snapshot) -> Entries<'a> {
        let structures_from = keys::terms(self.number, &[TypeBand::Array.bounds().0]);
        let structures_to = keys::terms(self.number, &[TypeBand::Object.bounds().1]);
        let mut ranges = Vec::new();
        for (from, to) in &self.ranges {
            let from = from.max(&structures_from).clone();
            let to = to.min(&structures_to).clone();
            if from < to {
                ranges.push((from, to));
            }
        }
        let all = ranges
            .into_iter()
            .flat_map(move |range| entries(snapshot, &range, Direction::Forward));
        Box::new(all.take(1))
    }
}

/// Adds a value with its first entry. Returns false if the page has no room left for the value.
fn keep(first: IndexEntry, values: &mut Vec<DistinctValue>, query: &PartitionQuery<'_>) -> bool {
    let bytes = size_of::<DistinctValue>() + first.value.capacity();
    let Some(left) = query.values_room.get().checked_sub(bytes) else {
        return false;
    };
    query.values_room.set(left);
    values.push(DistinctValue { first, copies: 1 });
    true
}

/// Returns the posting of an entry. An inexact encoding has no value to return, and the cursor
/// loads the item.
fn posting_of(path: &Path, entry: IndexEntry) -> Posting {
    let value = value::decode(&entry.value).map(|value| wrap_value(path, value));
    let position = IndexPosition {
        value: Some(entry.value),
        run_values: None,
        number: entry.number,
    };
    Posting {
        value,
        ..Posting::new(position, entry.epk_prefix)
    }
}

/// Returns a document that has a value at a path and nothing else.
fn wrap_value(path: &Path, value: Json) -> Json {
    let mut document = value;
    for step in path.0.iter().rev() {
        if let Step::Name(name) = step {
            let mut object = Object::new();
            object.push_new(name.as_str(), document);
            document = Json::Object(object);
        }
    }
    document
}

/// The first entry of each distinct value, and all entries of inexact values.
struct DistinctEntries<'a> {
    snapshot: &'a dyn Snapshot,
    path: PathNumber,
    /// The ranges from the current one on.
    ranges: Vec<KeyRange>,
    /// The last encoded value.
    last: Option<Vec<u8>>,
    /// The entries of the current range, if it is open.
    open: Option<Entries<'a>>,
}

impl Iterator for DistinctEntries<'_> {
    type Item = Result<IndexEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut passed_entries = 0;
        loop {
            let Some(open) = &mut self.open else {
                let range = self.ranges.first()?;
                self.open = Some(Box::new(entries(self.snapshot, range, Direction::Forward)));
                continue;
            };
            let entry = match open.next() {
                Some(Ok(entry)) => entry,
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.open = None;
                    self.ranges.remove(0);
                    continue;
                }
            };
            if self.last.as_ref() != Some(&entry.value) || value::is_inexact(&entry.value) {
                self.last = Some(entry.value.clone());
                return Some(Ok(entry));
            }

            // A value with many entries is passed by a seek to the key behind it.
            passed_entries += 1;
            if passed_entries == ENTRIES_BEFORE_SEEK {
                let behind = keys::after(&keys::terms(self.path, &entry.value));
                self.open = None;
                if behind < self.ranges[0].1 {
                    self.ranges[0].0 = behind;
                } else {
                    self.ranges.remove(0);
                }
                passed_entries = 0;
            }
        }
    }
}
