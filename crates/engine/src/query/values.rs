//! Values of one path instead of items, for queries that look at nothing else (`orrery_sql::CoveredPath`).
//!
//! Distinct values are found by leaping from one to the next, the least and greatest at the ends of the index. What the
//! index keeps only in part is loaded.

use super::access::Ask;
use super::index_view::IndexView;
use super::lookup::{KeyRange, Lookup, Planned, read_entry};
use super::walk::{Entries, IndexPosition};
use crate::index::value::{self, TypeBand};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::{Partition, scan};
use orrery_model::{Json, Object, Result};
use orrery_sql::{Condition, CoveredPath, NeededValues, Path, Step};
use orrery_storage::{Direction, Snapshot};
use std::fmt;

/// Entries of one value that are passed one by one before leaping to the next value.
const BEFORE_A_LEAP: usize = 8;

/// A scan of the values at a path.
#[derive(Clone, Debug)]
pub struct ValueScan {
    covered: CoveredPath,
    number: PathNumber,
    /// Ascending, without overlap.
    ranges: Vec<KeyRange>,
}

impl fmt::Display for ValueScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = match self.covered.values {
            NeededValues::Minimum => "least",
            NeededValues::Maximum => "greatest",
            NeededValues::Distinct => "distinct",
            NeededValues::EveryItem => "all",
        };
        write!(f, "{} {which}", self.covered.path)
    }
}

/// The scan that answers a query, if there is one.
///
/// # Errors
/// What the store reports.
pub fn plan(
    ask: &Ask<'_>,
    index: &IndexView<'_>,
    conditions: &[&Condition],
    planned: &[Option<Planned>],
    snapshot: &dyn Snapshot,
) -> Result<Option<ValueScan>> {
    // Of expired items, and of those of other keys, the index does not know.
    let whole = ask.key.is_none() && ask.within.is_none() && ask.settings.default_ttl.is_none();
    if !whole || !ask.profile.counts_from_index() {
        return Ok(None);
    }
    let covered = ask
        .query
        .covered_path()
        .filter(|covered| ask.may_scan_values && index.covers(&covered.path));
    let Some(mut covered) = covered else {
        return Ok(None);
    };
    // While logical partitions are being deleted each value is looked at with its item: the first may be of one that is
    // gone. How many distinct ones there are is then not known beforehand.
    if ask.visible.has_key_deletions() {
        if covered.values == NeededValues::Distinct {
            return Ok(None);
        }
        covered.values = NeededValues::EveryItem;
    }
    // Where the index does not say all that is asked, the first value that it has may not be one.
    if !ask.query.condition_is_exact()
        && matches!(
            covered.values,
            NeededValues::Minimum | NeededValues::Maximum
        )
    {
        covered.values = NeededValues::EveryItem;
    }
    let Some(number) = index.number(&covered.path) else {
        return Ok(None);
    };
    let start = keys::terms(number, &[]);
    let ranges = match (conditions, planned) {
        ([], []) => vec![(start.clone(), keys::after(&start))],
        ([Condition::Term { path, .. }], [Some(planned)])
            if planned.exact && *path == covered.path =>
        {
            match &planned.lookup {
                Lookup::Entries {
                    ranges,
                    strings: None,
                    ..
                } => ranges.clone(),
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    if covered.includes_missing
        && Partition::counters(snapshot)?.items > Partition::entries_of(snapshot, number)?
    {
        return Ok(None);
    }
    let scan = ValueScan {
        covered,
        number,
        ranges,
    };
    // Pages of distinct rows count what earlier ones gave, which a value added in between would put wrong.
    let fits = scan.covered.values != NeededValues::Distinct
        || scan.values(snapshot, None).take(ask.page_rows + 1).count() <= ask.page_rows;
    Ok(fits.then_some(scan))
}

/// A value, or the item that has one which the index keeps only in part.
pub struct Found {
    /// Where it stands in the index.
    pub spot: IndexPosition,
    /// Where the item is.
    pub epk_prefix: EpkPrefix,
    /// The value, in an item that has nothing else; `None` for one that has to be loaded.
    pub value: Option<Json>,
}

impl ValueScan {
    /// What continuations call it.
    pub fn name(&self) -> u32 {
        crc32fast::hash(self.to_string().as_bytes())
    }

    /// The values behind `after`.
    pub fn values<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        after: Option<&IndexPosition>,
    ) -> Box<dyn Iterator<Item = Result<Found>> + 'a> {
        let path = self.covered.path.clone();
        let found = move |entry: Result<(Vec<u8>, ItemNumber, EpkPrefix)>| {
            let (bytes, number, epk_prefix) = entry?;
            let value = value::decode(&bytes).map(|value| wrapped(&path, value));
            Ok(Found {
                spot: IndexPosition {
                    value: Some(bytes),
                    finer: None,
                    number,
                },
                epk_prefix,
                value,
            })
        };
        let mut ranges = self.ranges.clone();
        if let Some(IndexPosition {
            value: Some(value),
            number,
            ..
        }) = after
        {
            let behind = keys::after(
                &[&keys::terms(self.number, value)[..], &number.to_be_bytes()].concat(),
            );
            let here = [&keys::terms(self.number, value)[..], &number.to_be_bytes()].concat();
            for (from, to) in &mut ranges {
                match self.covered.values {
                    NeededValues::Maximum => *to = here.clone().min(std::mem::take(to)),
                    _ => *from = behind.clone().max(std::mem::take(from)),
                }
            }
            ranges.retain(|(from, to)| from < to);
        }
        let entries: Entries<'a> = match self.covered.values {
            NeededValues::EveryItem => Box::new(
                ranges
                    .into_iter()
                    .flat_map(move |range| entries(snapshot, &range, Direction::Forward)),
            ),
            NeededValues::Distinct => Box::new(Distinct {
                snapshot,
                path: self.number,
                ranges,
                last: None,
                open: None,
            }),
            NeededValues::Minimum => Box::new(
                self.end(snapshot, ranges, Direction::Forward)
                    .chain(self.structure(snapshot)),
            ),
            NeededValues::Maximum => self.end(snapshot, ranges, Direction::Reverse),
        };
        Box::new(entries.map(found))
    }

    /// The entries of the first value in a direction.
    fn end<'a>(
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
        let Ok((bytes, ..)) = &first else {
            return Box::new(std::iter::once(first));
        };
        // One array or object tells as much as all of them.
        if !value::hides_order(bytes) {
            return Box::new(std::iter::once(first));
        }
        let bytes = bytes.clone();
        let same =
            all.take_while(move |entry| entry.as_ref().map_or(true, |(other, ..)| *other == bytes));
        Box::new(std::iter::once(first).chain(same))
    }

    /// One entry of an array or object, if there is any.
    fn structure<'a>(&self, snapshot: &'a dyn Snapshot) -> Entries<'a> {
        let (from, to) = (TypeBand::Array.bounds().0, TypeBand::Object.bounds().1);
        let (from, to) = (
            keys::terms(self.number, &[from]),
            keys::terms(self.number, &[to]),
        );
        let parts = self
            .ranges
            .clone()
            .into_iter()
            .map(move |(a, b)| (a.max(from.clone()), b.min(to.clone())));
        Box::new(
            parts
                .filter(|(a, b)| a < b)
                .flat_map(move |range| entries(snapshot, &range, Direction::Forward))
                .take(1),
        )
    }
}

fn entries<'a>(
    snapshot: &'a dyn Snapshot,
    range: &KeyRange,
    direction: Direction,
) -> impl Iterator<Item = Result<(Vec<u8>, ItemNumber, EpkPrefix)>> + use<'a> {
    scan(snapshot, range, direction).map(|entry| {
        let key = entry?.0;
        let (bytes, hit) = read_entry(&key)?;
        Ok((bytes.to_vec(), hit.number, hit.epk_prefix))
    })
}

/// An item that has one value.
fn wrapped(path: &Path, value: Json) -> Json {
    path.0.iter().rev().fold(value, |inner, step| match step {
        Step::Name(name) => {
            let mut object = Object::new();
            object.push_new(name.as_str(), inner);
            Json::Object(object)
        }
        Step::Element => inner,
    })
}

/// The first entry of each value; all entries of those that are kept in part.
struct Distinct<'a> {
    snapshot: &'a dyn Snapshot,
    path: PathNumber,
    ranges: Vec<KeyRange>,
    last: Option<Vec<u8>>,
    open: Option<Entries<'a>>,
}

impl Iterator for Distinct<'_> {
    type Item = Result<(Vec<u8>, ItemNumber, EpkPrefix)>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut passed = 0;
        loop {
            let Some(open) = &mut self.open else {
                let range = self.ranges.first()?;
                self.open = Some(Box::new(entries(self.snapshot, range, Direction::Forward)));
                continue;
            };
            let Some(entry) = open.next() else {
                self.open = None;
                self.ranges.remove(0);
                continue;
            };
            let Ok((bytes, ..)) = &entry else {
                return Some(entry);
            };
            if self.last.as_deref() != Some(bytes) || value::is_inexact(bytes) {
                self.last = Some(bytes.clone());
                return Some(entry);
            }
            passed += 1;
            if passed == BEFORE_A_LEAP {
                let beyond = keys::after(&keys::terms(self.path, bytes));
                self.open = None;
                if beyond < self.ranges[0].1 {
                    self.ranges[0].0 = beyond;
                } else {
                    self.ranges.remove(0);
                }
                passed = 0;
            }
        }
    }
}
