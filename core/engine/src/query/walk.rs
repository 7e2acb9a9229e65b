//! Walks: items in the order of ORDER BY, read along an index.
//!
//! 1. [`options`] returns a walk for each index that has the order of ORDER BY:
//!    `OrderWalk::along_path` for the index of its only path, `OrderWalk::along_composite` for a
//!    composite index.
//! 2. Conditions on the path narrow a walk to a range of keys. [`OrderWalk::covers`] lists the
//!    conditions that hold for every entry of the range.
//! 3. The planner in `query/access.rs` chooses one, and `query/contest.rs` compares it with a sort.
//! 4. [`OrderWalk::postings`] opens the walk behind a position. `ValuePostings` turns each entry of
//!    the range into a posting.
//! 5. An index keeps the beginning of a very long string and the nearest double of a large number.
//!    Entries that are equal up to such a value are a *run* (`OrderWalk::run_of`).
//!    `ValuePostings::read_run` loads the items of a run ([`OrderWalk::position_of`]) and sorts
//!    them by their true values.
//! 6. Items that lack the path have no entry. `OrderWalk::postings_without_path` finds them by
//!    their numbers and returns them before all values, or after them if the order descends.

use super::composite_range::{composite_range, tests_on};
use super::condition::{steps, value_ranges};
use super::index_view::IndexView;
use super::lookup::count_keys;
use super::position::QueryPosition;
use super::posting::{
    Entries, IndexPosition, KeyRange, OrderValue, Posting, Postings, damaged_row, entries,
    read_natural_row,
};
use crate::errors::storage_failure;
use crate::index::composite;
use crate::index::paths::Step;
use crate::index::policy::{Composite, path_text};
use crate::index::value::{self, TypeBand};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::row_reader::read_row;
use crate::partition::{Facts, scan};
use orrery_model::json::parse;
use orrery_model::{Json, Result};
use orrery_sql::{Condition, OrderKey, Test};
use orrery_storage::{Direction, Snapshot};
use std::fmt;
use std::iter::Peekable;

/// The index that a walk reads.
#[derive(Clone, Debug)]
enum WalkedIndex {
    Path(Vec<Step>),
    Composite(Composite),
}

/// A walk along an index in the order of ORDER BY.
#[derive(Clone, Debug)]
pub(crate) struct OrderWalk {
    index: WalkedIndex,
    /// Number of the index's path, if some item has the path.
    number: Option<PathNumber>,
    descending: bool,
    /// The range that conditions leave; `None` for the whole index.
    range: Option<KeyRange>,
    /// Indexes of the conditions that hold for every entry in the range.
    covers: Vec<usize>,
    /// True if items without the path may match. ORDER BY includes them.
    includes_missing: bool,
    /// Number of paths of a composite index before those of ORDER BY. Each has a single value in
    /// the range.
    pinned_paths: usize,
}

/// Returns the walks that have the order of ORDER BY.
pub(crate) fn options(
    order: &[OrderKey],
    conditions: &[&Condition],
    index: &IndexView<'_>,
) -> Vec<OrderWalk> {
    // Each path of ORDER BY, and true if it descends. No index orders by an expression.
    let mut keys: Vec<(Vec<Step>, bool)> = Vec::with_capacity(order.len());
    for key in order {
        match &key.path {
            Some(path) => keys.push((steps(path), key.descending)),
            None => return Vec::new(),
        }
    }

    let mut walks = Vec::new();
    if let (
        [
            OrderKey {
                path: Some(path), ..
            },
        ],
        [(steps, descending)],
    ) = (order, &keys[..])
        && index.covers(path)
    {
        let number = index.number(path);
        walks.push(OrderWalk::along_path(
            steps,
            number,
            *descending,
            conditions,
        ));
    }
    if !keys.is_empty() {
        for (composite, number) in index.composites() {
            walks.extend(OrderWalk::along_composite(
                composite, number, &keys, conditions,
            ));
        }
    }
    walks
}

impl OrderWalk {
    /// Returns the walk along the index of a path.
    fn along_path(
        path: &[Step],
        number: Option<PathNumber>,
        descending: bool,
        conditions: &[&Condition],
    ) -> OrderWalk {
        let tests = tests_on(path, conditions);
        // Every test but NOT IS_DEFINED rules out the items that lack the path.
        let includes_missing = tests
            .iter()
            .all(|(_, test, _)| matches!(test, Test::NotDefined));

        // The first test that leaves a single range narrows the walk.
        let mut range = None;
        let mut covers = Vec::new();
        for (at, test, is_exact) in tests {
            if matches!(test, Test::ScanStrings(_)) {
                continue;
            }
            let (Some(number), Some(values)) = (number, value_ranges(test, value::STRING_BYTES))
            else {
                continue;
            };
            let [(from, to)] = &values.ranges[..] else {
                continue;
            };
            range = Some((keys::terms(number, from), keys::terms(number, to)));
            // A test that the encoded values do not decide is repeated on the item.
            if is_exact && values.is_exact {
                covers.push(at);
            }
            break;
        }
        OrderWalk {
            index: WalkedIndex::Path(path.to_vec()),
            number,
            descending,
            range,
            covers,
            includes_missing,
            pinned_paths: 0,
        }
    }

    /// Returns the walk along a composite index, if its last paths are those of ORDER BY and
    /// conditions pin each path before them to a single value.
    fn along_composite(
        composite: &Composite,
        number: Option<PathNumber>,
        keys: &[(Vec<Step>, bool)],
        conditions: &[&Condition],
    ) -> Option<OrderWalk> {
        let pinned_paths = composite.paths.len().checked_sub(keys.len())?;
        let descending = keys[0].1;
        // Rows with equal values are ordered by number in the direction of the first key, so the
        // path of the first key must ascend in the index.
        for ((path, ascending), (key_path, key_descending)) in
            composite.paths[pinned_paths..].iter().zip(keys)
        {
            if path != key_path || *ascending != (*key_descending == descending) {
                return None;
            }
        }
        let range = composite_range(composite, conditions);
        if range.pinned_paths < pinned_paths {
            return None;
        }
        Some(OrderWalk {
            range: number.map(|number| range.keys(number)),
            index: WalkedIndex::Composite(composite.clone()),
            number,
            descending,
            covers: if range.is_exact {
                range.covered
            } else {
                Vec::new()
            },
            includes_missing: false,
            pinned_paths,
        })
    }

    /// Returns the indexes of the conditions that hold for every entry of the walk.
    pub(crate) fn covers(&self) -> &[usize] {
        &self.covers
    }

    /// Returns the composite index of the walk, if it has one.
    pub(crate) fn composite(&self) -> Option<&Composite> {
        match &self.index {
            WalkedIndex::Path(_) => None,
            WalkedIndex::Composite(composite) => Some(composite),
        }
    }

    /// Returns the entries of the walk if conditions narrow it to fewer than `entries_max`.
    pub(crate) fn narrow_count(&self, snapshot: &dyn Snapshot, entries_max: usize) -> Option<u64> {
        if self.includes_missing || self.range.is_none() {
            return None;
        }
        let Some(range) = self.key_range() else {
            return Some(0);
        };
        let counted = count_keys(snapshot, &range).take(entries_max).count();
        (counted < entries_max).then_some(counted as u64)
    }

    /// Returns the id of the walk's index in continuations. A position is valid only for the same
    /// index.
    pub(crate) fn index_id(&self) -> u32 {
        crc32fast::hash(self.to_string().as_bytes())
    }

    /// Returns true if the index of a path has arrays or objects. Equal arrays are not adjacent in
    /// it.
    pub(crate) fn has_structures(&self, snapshot: &dyn Snapshot) -> bool {
        let (WalkedIndex::Path(_), Some(number)) = (&self.index, self.number) else {
            return false;
        };
        let from = keys::terms(number, &[TypeBand::Array.bounds().0]);
        let to = keys::terms(number, &[TypeBand::Object.bounds().1]);
        scan(snapshot, &(from, to), Direction::Forward)
            .next()
            .is_some()
    }

    /// Returns the range of keys of the walk, or `None` if no item has the path.
    fn key_range(&self) -> Option<KeyRange> {
        if let Some(range) = &self.range {
            return Some(range.clone());
        }
        let start = keys::terms(self.number?, &[]);
        let end = keys::after(&start);
        Some((start, end))
    }

    fn direction(&self) -> Direction {
        if self.descending {
            Direction::Reverse
        } else {
            Direction::Forward
        }
    }

    /// Returns the encoding that all values of a run begin with, if an encoded value belongs to a
    /// run.
    fn run_of<'b>(&self, encoded: &'b [u8]) -> Option<&'b [u8]> {
        match &self.index {
            WalkedIndex::Path(_) => value::hides_order(encoded).then_some(encoded),
            WalkedIndex::Composite(composite) => {
                let length = composite::hides_order_from(composite, encoded)?;
                encoded.get(..length)
            }
        }
    }

    /// Returns true if a position lies in a run.
    pub(crate) fn is_in_run(&self, position: &IndexPosition) -> bool {
        match &position.value {
            Some(value) => self.run_of(value).is_some(),
            None => false,
        }
    }

    /// Returns values of a position in a run with their directions.
    ///
    /// # Errors
    /// 400 if the position belongs to another index.
    pub(crate) fn order_values(&self, values: &[Option<Json>]) -> Result<Vec<OrderValue>> {
        let directions: Vec<bool> = match &self.index {
            WalkedIndex::Path(_) => vec![true],
            WalkedIndex::Composite(composite) => {
                let paths = composite.paths.iter();
                paths.map(|(_, ascending)| *ascending).collect()
            }
        };
        if directions.len() != values.len() {
            return Err(QueryPosition::mismatch_error());
        }
        Ok(values.iter().cloned().zip(directions).collect())
    }

    /// Computes the position of an item from the item itself. Returns `None` if the item is gone.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the item is damaged.
    pub(crate) fn position_of(
        &self,
        snapshot: &dyn Snapshot,
        number: ItemNumber,
        epk_prefix: EpkPrefix,
    ) -> Result<Option<IndexPosition>> {
        let get = |key: &[u8]| snapshot.get(key).map_err(storage_failure);
        let Some(row) = read_row(epk_prefix, number, get)? else {
            return Ok(None);
        };
        let json = parse(&row.body).map_err(|_| damaged_row())?;
        let item = json.as_object().ok_or_else(damaged_row)?;
        let ts = Json::from(row.ts);

        // The encoded value as the index has it, and the values behind the encoding.
        let mut values: Vec<OrderValue> = Vec::new();
        let encoded = match &self.index {
            WalkedIndex::Path(path) => {
                let value = composite::value_at(path, item, &ts).cloned();
                let encoded = value.as_ref().map(|value| value::encode(value).bytes);
                values.push((value, true));
                encoded
            }
            WalkedIndex::Composite(composite) => {
                for (path, ascending) in &composite.paths {
                    let value = composite::value_at(path, item, &ts).cloned();
                    values.push((value, *ascending));
                }
                Some(composite::encode(composite, item, row.ts))
            }
        };

        // In a run the position has the encoding of the run and the values; elsewhere the encoding
        // decides.
        let run = match &encoded {
            Some(encoded) => self.run_of(encoded).map(<[u8]>::to_vec),
            None => None,
        };
        Ok(Some(match run {
            Some(run) => IndexPosition {
                value: Some(run),
                run_values: Some(values),
                number,
            },
            None => IndexPosition {
                value: encoded,
                run_values: None,
                number,
            },
        }))
    }

    /// Returns the postings behind `after`, in order.
    ///
    /// # Errors
    /// 500 if the store cannot be read or an entry is damaged.
    pub(crate) fn postings<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        facts: &Facts,
        after: Option<&IndexPosition>,
    ) -> Result<Postings<'a>> {
        // Items without the path exist if the partition has more items than the path has entries.
        let has_missing = if self.includes_missing {
            let entries = match self.number {
                Some(number) => facts.entries_of(snapshot, number)?,
                None => 0,
            };
            facts.counters(snapshot)?.items > entries
        } else {
            false
        };
        let is_after_value = after.is_some_and(|position| position.value.is_some());
        let is_after_missing = after.is_some_and(|position| position.value.is_none());

        // Descending, a position among the items without the path is behind all values.
        let values: Postings<'a> = match self.key_range() {
            Some(range) if !(self.descending && is_after_missing) => {
                let after = after.filter(|_| is_after_value).cloned();
                Box::new(ValuePostings::new(self.clone(), snapshot, range, after))
            }
            _ => Box::new(std::iter::empty()),
        };
        // Ascending, a position with a value is behind all items without the path.
        let missing: Postings<'a> = if !has_missing || (is_after_value && !self.descending) {
            Box::new(std::iter::empty())
        } else {
            self.postings_without_path(snapshot, after.filter(|_| is_after_missing))?
        };
        Ok(if self.descending {
            Box::new(values.chain(missing))
        } else {
            Box::new(missing.chain(values))
        })
    }

    /// Returns the items that have no entry for the path, by number. Reads the whole index of the
    /// path to find them, which happens only if there are such items.
    fn postings_without_path<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        after: Option<&IndexPosition>,
    ) -> Result<Postings<'a>> {
        let mut numbers_with_path: Vec<ItemNumber> = Vec::new();
        if self.number.is_some()
            && let Some(range) = self.key_range()
        {
            for entry in entries(snapshot, &range, Direction::Forward) {
                numbers_with_path.push(entry?.number);
            }
        }
        numbers_with_path.sort_unstable();

        // All other items of the partition lack the path.
        let mut range = keys::naturals_from(0);
        if let Some(position) = after {
            match self.direction() {
                Direction::Forward => range.0 = keys::natural(position.number.saturating_add(1)),
                Direction::Reverse => range.1 = keys::natural(position.number),
            }
        }
        let rows = scan(snapshot, &range, self.direction());
        Ok(Box::new(rows.filter_map(move |row| {
            let (number, epk_prefix) = match row.and_then(read_natural_row) {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            if numbers_with_path.binary_search(&number).is_ok() {
                return None;
            }
            Some(Ok(Posting::new(IndexPosition::natural(number), epk_prefix)))
        })))
    }
}

impl fmt::Display for OrderWalk {
    /// Writes the walk as EXPLAIN shows it. The id of the index is made from this text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.descending {
            "descending"
        } else {
            "ascending"
        };
        match &self.index {
            WalkedIndex::Path(path) => write!(f, "order {} {order}", path_text(path)),
            WalkedIndex::Composite(composite) => {
                write!(f, "order composite ({})", composite.text)?;
                if self.pinned_paths > 0 {
                    write!(f, " after {}", self.pinned_paths)?;
                }
                write!(f, " {order}")
            }
        }
    }
}

/// The postings of the entries of an index in order. Runs are sorted by the values of their items.
struct ValuePostings<'a> {
    walk: OrderWalk,
    snapshot: &'a dyn Snapshot,
    entries: Peekable<Entries<'a>>,
    /// The position behind which the postings begin.
    after: Option<IndexPosition>,
    /// The rest of the current run.
    run: std::vec::IntoIter<Posting>,
}

impl<'a> ValuePostings<'a> {
    fn new(
        walk: OrderWalk,
        snapshot: &'a dyn Snapshot,
        mut range: KeyRange,
        after: Option<IndexPosition>,
    ) -> Self {
        if let Some(after) = &after
            && let Some(value) = &after.value
            && let Some(path) = walk.number
        {
            // In a run the numbers of the items before the position are not the smaller ones, so
            // the run is read from its beginning and filtered in `read_run`.
            let value_start = keys::terms(path, value);
            let entry = [&value_start[..], &after.number.to_be_bytes()].concat();
            let is_in_run = walk.run_of(value).is_some();
            match (walk.direction(), is_in_run) {
                (Direction::Forward, true) => range.0 = range.0.max(value_start),
                (Direction::Forward, false) => range.0 = range.0.max(keys::after(&entry)),
                (Direction::Reverse, true) => range.1 = range.1.min(keys::after(&value_start)),
                (Direction::Reverse, false) => range.1 = range.1.min(entry),
            }
        }
        let entries: Entries<'a> = if range.0 < range.1 {
            Box::new(entries(snapshot, &range, walk.direction()))
        } else {
            Box::new(std::iter::empty())
        };
        ValuePostings {
            walk,
            snapshot,
            entries: entries.peekable(),
            after,
            run: Vec::new().into_iter(),
        }
    }

    /// Loads the items of the run that begins with an entry of the item `first`, and sorts them.
    fn read_run(&mut self, run_prefix: &[u8], first: (ItemNumber, EpkPrefix)) -> Result<()> {
        let mut items = vec![first];
        while let Some(Ok(entry)) = self.entries.next_if(|entry| match entry {
            Ok(entry) => entry.value.starts_with(run_prefix),
            Err(_) => false,
        }) {
            items.push((entry.number, entry.epk_prefix));
        }
        let mut run = Vec::with_capacity(items.len());
        for (number, epk_prefix) in items {
            let position = self.walk.position_of(self.snapshot, number, epk_prefix)?;
            run.push(Posting::new(position.ok_or_else(damaged_row)?, epk_prefix));
        }
        let descending = self.walk.descending;
        run.sort_by(|a, b| a.position.compare(&b.position, descending));

        // The page before may have ended inside of this run.
        if let Some(after) = &self.after
            && after.value.as_deref() == Some(run_prefix)
        {
            run.retain(|posting| posting.position.compare(after, descending).is_gt());
        }
        self.run = run.into_iter();
        Ok(())
    }
}

impl Iterator for ValuePostings<'_> {
    type Item = Result<Posting>;

    fn next(&mut self) -> Option<Result<Posting>> {
        loop {
            if let Some(posting) = self.run.next() {
                return Some(Ok(posting));
            }
            let entry = match self.entries.next()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let Some(run_prefix) = self.walk.run_of(&entry.value).map(<[u8]>::to_vec) else {
                let position = IndexPosition {
                    value: Some(entry.value),
                    run_values: None,
                    number: entry.number,
                };
                return Some(Ok(Posting::new(position, entry.epk_prefix)));
            };
            if let Err(error) = self.read_run(&run_prefix, (entry.number, entry.epk_prefix)) {
                return Some(Err(error));
            }
        }
    }
}
