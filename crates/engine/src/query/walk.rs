//! Items in the order of ORDER BY, along an index: that of its one path, or a composite one.
//!
//! An index keeps the beginning of a very long string and the nearest double of a large number. Entries that look the
//! same up to such a part are a *run*: its items are loaded and put into their true order.

use super::condition::{steps, value_ranges};
use super::cursor::{Posting, Postings};
use super::index_view::IndexView;
use super::lookup::{KeyRange, Narrowed, narrow, read_entry};
use crate::errors::storage_failure;
use crate::index::composite;
use crate::index::paths::Step;
use crate::index::policy::Composite;
use crate::index::value::{self, TypeBand};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::row_reader::read_row;
use crate::partition::{Partition, scan};
use crate::throughput::Profile;
use orrery_model::json::{compare, parse};
use orrery_model::{Error, Json, Result};
use orrery_sql::{Condition, OrderKey, Test};
use orrery_storage::{Direction, Snapshot};
use std::cmp::Ordering;
use std::fmt;
use std::iter::Peekable;

/// A sort holds all matches and is done again for every page, a walk goes on where it stopped: a sort must be this many
/// times cheaper.
pub const SORT_PENALTY: u64 = 2;

/// A value that an item is ordered by, and whether it ascends.
pub type Part = (Option<Json>, bool);

/// A posting's place in the order of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexPosition {
    /// The value's bytes in the index, of a run what all its values begin with; `None` in natural order, and in ORDER BY for items that lack the path: those
    /// come before all values.
    pub value: Option<Vec<u8>>,
    /// In a run: the values themselves, and whether each ascends.
    pub finer: Option<Vec<Part>>,
    /// The item's number.
    pub number: ItemNumber,
}

impl IndexPosition {
    /// A place in natural order.
    pub fn natural(number: ItemNumber) -> Self {
        IndexPosition {
            number,
            ..IndexPosition::default()
        }
    }

    /// The order in which a merge takes spots.
    pub fn compare(&self, other: &IndexPosition, descending: bool) -> Ordering {
        let finer = || match (&self.finer, &other.finer) {
            (Some(a), Some(b)) => a
                .iter()
                .zip(b)
                .map(compare_parts)
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal),
            _ => Ordering::Equal,
        };
        let order = self
            .value
            .cmp(&other.value)
            .then_with(finer)
            .then(self.number.cmp(&other.number));
        if descending { order.reverse() } else { order }
    }
}

fn compare_parts(((a, ascending), (b, _)): (&Part, &Part)) -> Ordering {
    let order = match (a, b) {
        // Arrays among themselves, and objects, have no order.
        (Some(Json::Array(_)), Some(Json::Array(_)))
        | (Some(Json::Object(_)), Some(Json::Object(_))) => Ordering::Equal,
        (Some(a), Some(b)) => compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    if *ascending { order } else { order.reverse() }
}

/// Which index a walk goes along.
#[derive(Clone, Debug)]
enum Along {
    Path(Vec<Step>),
    Composite(Composite),
}

/// A walk.
#[derive(Clone, Debug)]
pub struct OrderWalk {
    along: Along,
    number: Option<PathNumber>,
    descending: bool,
    /// The stretch that conditions leave.
    range: Option<KeyRange>,
    covers: Vec<usize>,
    /// Items without the path belong to the order and may match.
    with_lacking: bool,
    /// Paths of a composite index before those of ORDER BY, each of one value.
    pinned: usize,
}

/// The walks that give an order.
pub fn options(
    order: &[OrderKey],
    conditions: &[&Condition],
    index: &IndexView<'_>,
) -> Vec<OrderWalk> {
    let keys: Option<Vec<(Vec<Step>, bool)>> = order
        .iter()
        .map(|key| Some((steps(key.path.as_ref()?), key.descending)))
        .collect();
    let Some(keys) = keys.filter(|keys| !keys.is_empty()) else {
        return Vec::new();
    };
    let single = match (order, &keys[..]) {
        ([key], [(path, descending)])
            if key.path.as_ref().is_some_and(|path| index.covers(path)) =>
        {
            let number = key.path.as_ref().and_then(|path| index.number(path));
            Some(OrderWalk::along_path(
                path.clone(),
                number,
                *descending,
                conditions,
            ))
        }
        _ => None,
    };
    let composite = index.composites().filter_map(|(composite, number)| {
        OrderWalk::along_composite(composite, number, &keys, conditions)
    });
    single.into_iter().chain(composite).collect()
}

impl OrderWalk {
    fn along_path(
        path: Vec<Step>,
        number: Option<PathNumber>,
        descending: bool,
        conditions: &[&Condition],
    ) -> OrderWalk {
        let tests: Vec<(usize, &Test, bool)> = conditions
            .iter()
            .enumerate()
            .filter_map(|(i, condition)| match condition {
                Condition::Term {
                    path: at,
                    test,
                    exact,
                } if steps(at) == path => Some((i, test, *exact)),
                _ => None,
            })
            .collect();
        let with_lacking = !tests
            .iter()
            .any(|(_, test, _)| !matches!(test, Test::NotDefined));
        let narrowing = tests.iter().find_map(|(i, test, exact)| {
            let values = value_ranges(test, value::STRING_BYTES)
                .filter(|_| !matches!(test, Test::ScanStrings(_)))?;
            let [(from, to)] = &values.ranges[..] else {
                return None;
            };
            let number = number?;
            // What is not decided by the bytes is asked again of the item.
            let covers = if *exact && values.exact {
                vec![*i]
            } else {
                Vec::new()
            };
            Some(((keys::terms(number, from), keys::terms(number, to)), covers))
        });
        let (range, covers) =
            narrowing.map_or((None, Vec::new()), |(range, covers)| (Some(range), covers));
        OrderWalk {
            along: Along::Path(path),
            number,
            descending,
            range,
            covers,
            with_lacking,
            pinned: 0,
        }
    }

    /// A composite index serves the order if its paths are those of ORDER BY, after some that have one value each.
    fn along_composite(
        composite: &Composite,
        number: Option<PathNumber>,
        keys: &[(Vec<Step>, bool)],
        conditions: &[&Condition],
    ) -> Option<OrderWalk> {
        let pinned = composite.paths.len().checked_sub(keys.len())?;
        let descending = keys[0].1;
        // Rows of equal values come by number in the direction of the first key, so its path must ascend in the index.
        let serves = composite.paths[pinned..]
            .iter()
            .zip(keys)
            .all(|(own, key)| own.0 == key.0 && own.1 == (key.1 == descending));
        let narrowed: Narrowed = narrow(composite, conditions);
        if !serves || narrowed.pinned < pinned {
            return None;
        }
        Some(OrderWalk {
            range: number.map(|number| narrowed.keys(number)),
            along: Along::Composite(composite.clone()),
            number,
            descending,
            covers: if narrowed.exact {
                narrowed.covered
            } else {
                Vec::new()
            },
            with_lacking: false,
            pinned,
        })
    }

    /// Which conditions hold for everything along it.
    pub fn covers(&self) -> &[usize] {
        &self.covers
    }

    /// The composite index that it goes along, if it is one.
    pub fn composite(&self) -> Option<&Composite> {
        match &self.along {
            Along::Path(_) => None,
            Along::Composite(composite) => Some(composite),
        }
    }

    /// Whether it goes along less than all of its index.
    pub fn is_narrowed(&self) -> bool {
        !self.with_lacking && self.range.is_some()
    }

    /// What continuations call it: they are of use only along the same index.
    pub fn name(&self) -> u32 {
        crc32fast::hash(self.to_string().as_bytes())
    }

    /// Counts entries up to `most`.
    pub fn count(&self, snapshot: &dyn Snapshot, most: usize) -> usize {
        self.range().map_or(0, |range| {
            scan(snapshot, &range, Direction::Forward)
                .take(most)
                .count()
        })
    }

    /// Whether arrays or objects are among its values: equal ones do not lie side by side.
    pub fn has_structures(&self, snapshot: &dyn Snapshot) -> bool {
        let stretch = |number| {
            (
                keys::terms(number, &[TypeBand::Array.bounds().0]),
                keys::terms(number, &[TypeBand::Object.bounds().1]),
            )
        };
        let range = self
            .number
            .filter(|_| matches!(self.along, Along::Path(_)))
            .map(stretch);
        range.is_some_and(|range| scan(snapshot, &range, Direction::Forward).next().is_some())
    }

    fn range(&self) -> Option<KeyRange> {
        let all = |number| {
            let start = keys::terms(number, &[]);
            (start.clone(), keys::after(&start))
        };
        self.range.clone().or_else(|| self.number.map(all))
    }

    fn direction(&self) -> Direction {
        if self.descending {
            Direction::Reverse
        } else {
            Direction::Forward
        }
    }

    /// What the values of a run begin with, if these bytes are in one.
    fn run_of<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        match &self.along {
            Along::Path(_) => value::hides_order(bytes).then_some(bytes),
            Along::Composite(composite) => {
                composite::hides_order_from(composite, bytes).and_then(|length| bytes.get(..length))
            }
        }
    }

    /// Whether a spot lies in a run, where the value's bytes do not say all.
    pub fn in_run(&self, spot: &IndexPosition) -> bool {
        spot.value
            .as_ref()
            .is_some_and(|value| self.run_of(value).is_some())
    }

    /// The spot of an item, from the item itself.
    ///
    /// # Errors
    /// What the store reports.
    pub fn spot_of(
        &self,
        snapshot: &dyn Snapshot,
        number: ItemNumber,
        epk_prefix: EpkPrefix,
    ) -> Result<Option<IndexPosition>> {
        let Some(row) = read_row(epk_prefix, number, |key| {
            snapshot.get(key).map_err(storage_failure)
        })?
        else {
            return Ok(None);
        };
        let json = parse(&row.body).map_err(|_| damaged())?;
        let item = json.as_object().ok_or_else(damaged)?;
        let ts = Json::from(row.ts);
        let at = |path: &[Step]| composite::value_at(path, item, &ts).cloned();
        let (value, finer) = match &self.along {
            Along::Path(path) => {
                let value = at(path);
                (
                    value.as_ref().map(|v| value::encode(v).bytes),
                    vec![(value, true)],
                )
            }
            Along::Composite(composite) => {
                let values = composite
                    .paths
                    .iter()
                    .map(|(path, ascending)| (at(path), *ascending))
                    .collect();
                (Some(composite::encode(composite, item, row.ts)), values)
            }
        };
        let run = value
            .as_deref()
            .and_then(|bytes| self.run_of(bytes))
            .map(<[u8]>::to_vec);
        let finer = run.is_some().then_some(finer);
        Ok(Some(IndexPosition {
            value: run.or(value),
            finer,
            number,
        }))
    }

    /// The postings behind `after`, in order.
    ///
    /// # Errors
    /// What the store reports.
    pub fn postings<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        after: Option<&IndexPosition>,
    ) -> Result<Postings<'a>> {
        let has_lacking = self.with_lacking && {
            let entries = self
                .number
                .map_or(Ok(0), |number| Partition::entries_of(snapshot, number))?;
            Partition::counters(snapshot)?.items > entries
        };
        let in_values = after.is_some_and(|spot| spot.value.is_some());
        let in_lacking = after.is_some_and(|spot| spot.value.is_none());
        // Ascending, items without the path come first; descending, last.
        let values: Postings<'a> = match self.range() {
            Some(range) if !(self.descending && in_lacking) => Box::new(Valued::new(
                self.clone(),
                snapshot,
                range,
                after.filter(|_| in_values).cloned(),
            )),
            _ => Box::new(std::iter::empty()),
        };
        let rest: Postings<'a> = if !has_lacking || (in_values && !self.descending) {
            Box::new(std::iter::empty())
        } else {
            self.lacking(snapshot, after.filter(|_| in_lacking))?
        };
        Ok(if self.descending {
            Box::new(values.chain(rest))
        } else {
            Box::new(rest.chain(values))
        })
    }

    /// Items that have no entry for the path, by number: all but those that have one. There are usually none, and then
    /// nobody comes here.
    fn lacking<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        after: Option<&IndexPosition>,
    ) -> Result<Postings<'a>> {
        let mut having: Vec<ItemNumber> = Vec::new();
        if let Some(range) = self.number.and_then(|_| self.range()) {
            for entry in scan(snapshot, &range, Direction::Forward) {
                having.push(read_entry(&entry?.0)?.1.number);
            }
        }
        having.sort_unstable();
        let mut range = keys::naturals_from(0);
        if let Some(spot) = after {
            match self.direction() {
                Direction::Forward => range.0 = keys::natural(spot.number.saturating_add(1)),
                Direction::Reverse => range.1 = keys::natural(spot.number),
            }
        }
        let lacks = move |entry: Result<(bytes::Bytes, bytes::Bytes)>| -> Result<Option<Posting>> {
            let (key, value) = entry?;
            let number = keys::read_natural(&key).ok_or_else(damaged)?;
            let epk_prefix: EpkPrefix = value[..].try_into().map_err(|_| damaged())?;
            Ok(having
                .binary_search(&number)
                .is_err()
                .then(|| Posting::new(IndexPosition::natural(number), epk_prefix)))
        };
        Ok(Box::new(
            scan(snapshot, &range, self.direction())
                .filter_map(move |entry| lacks(entry).transpose()),
        ))
    }
}

impl fmt::Display for OrderWalk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.descending {
            "descending"
        } else {
            "ascending"
        };
        match &self.along {
            Along::Path(path) => {
                write!(f, "order {} {order}", crate::index::policy::path_text(path))
            }
            Along::Composite(composite) if self.pinned == 0 => {
                write!(f, "order composite ({}) {order}", composite.text)
            }
            Along::Composite(composite) => {
                write!(
                    f,
                    "order composite ({}) after {} {order}",
                    composite.text, self.pinned
                )
            }
        }
    }
}

/// Values with their items.
pub type Entries<'a> = Box<dyn Iterator<Item = Result<(Vec<u8>, ItemNumber, EpkPrefix)>> + 'a>;

/// The entries of an index in order, runs put right.
struct Valued<'a> {
    walk: OrderWalk,
    snapshot: &'a dyn Snapshot,
    entries: Peekable<Entries<'a>>,
    after: Option<IndexPosition>,
    run: std::vec::IntoIter<Posting>,
}

impl<'a> Valued<'a> {
    fn new(
        walk: OrderWalk,
        snapshot: &'a dyn Snapshot,
        mut range: KeyRange,
        after: Option<IndexPosition>,
    ) -> Self {
        if let (
            Some(IndexPosition {
                value: Some(value),
                number,
                ..
            }),
            Some(path),
        ) = (&after, walk.number)
        {
            let same = keys::terms(path, value);
            let here = [&same[..], &number.to_be_bytes()].concat();
            let in_run = walk.run_of(value).is_some();
            match walk.direction() {
                // In a run the items before it are not those with smaller numbers: it is begun anew.
                Direction::Forward => {
                    range.0 = range.0.max(if in_run { same } else { keys::after(&here) })
                }
                Direction::Reverse => {
                    range.1 = range.1.min(if in_run { keys::after(&same) } else { here })
                }
            }
        }
        let direction = walk.direction();
        let entries: Entries<'a> = if range.0 < range.1 {
            Box::new(scan(snapshot, &range, direction).map(|entry| {
                let key = entry?.0;
                let (bytes, hit) = read_entry(&key)?;
                Ok((bytes.to_vec(), hit.number, hit.epk_prefix))
            }))
        } else {
            Box::new(std::iter::empty())
        };
        Valued {
            walk,
            snapshot,
            entries: entries.peekable(),
            after,
            run: Vec::new().into_iter(),
        }
    }

    /// Loads the items of a run that begins with this entry, and puts them in order.
    fn read_run(&mut self, begin: &[u8], first: (ItemNumber, EpkPrefix)) -> Result<()> {
        let mut items = vec![first];
        while let Some(Ok((_, number, epk_prefix))) = self
            .entries
            .next_if(|e| e.as_ref().is_ok_and(|(v, ..)| v.starts_with(begin)))
        {
            items.push((number, epk_prefix));
        }
        let mut run = Vec::with_capacity(items.len());
        for (number, epk_prefix) in items {
            let spot = self
                .walk
                .spot_of(self.snapshot, number, epk_prefix)?
                .ok_or_else(damaged)?;
            run.push(Posting::new(spot, epk_prefix));
        }
        let descending = self.walk.descending;
        run.sort_by(|a, b| a.spot.compare(&b.spot, descending));
        if let Some(after) = self
            .after
            .as_ref()
            .filter(|after| after.value.as_deref() == Some(begin))
        {
            run.retain(|posting| posting.spot.compare(after, descending).is_gt());
        }
        self.run = run.into_iter();
        Ok(())
    }
}

impl Iterator for Valued<'_> {
    type Item = Result<Posting>;

    fn next(&mut self) -> Option<Result<Posting>> {
        loop {
            if let Some(posting) = self.run.next() {
                return Some(Ok(posting));
            }
            let (value, number, epk_prefix) = match self.entries.next()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let Some(begin) = self.walk.run_of(&value).map(<[u8]>::to_vec) else {
                return Some(Ok(Posting::new(
                    IndexPosition {
                        value: Some(value),
                        finer: None,
                        number,
                    },
                    epk_prefix,
                )));
            };
            if let Err(error) = self.read_run(&begin, (number, epk_prefix)) {
                return Some(Err(error));
            }
        }
    }
}

/// Entries passed until the page is full, and the items on it, in 1/10,000 RU.
pub fn cost(profile: Profile, items: usize, matches: usize, wanted: usize) -> u64 {
    let passed = wanted.saturating_mul(items) / matches.max(1);
    profile.cost_of_walking(passed.min(items) as u64) + profile.cost_of_loading(wanted as u64)
}

/// All matches read and sorted, in 1/10,000 RU.
pub fn sort_cost(profile: Profile, matches: usize) -> u64 {
    profile.cost_of_walking(matches as u64) + profile.cost_of_loading(matches as u64)
}

fn damaged() -> Error {
    Error::internal("a row of the index is damaged")
}
