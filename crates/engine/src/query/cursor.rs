//! One partition's candidates, one after the other, in natural order or in the order of an ORDER BY path.
//!
//! A cursor first finds *postings* (number and place of an item, and for ORDER BY its encoded value) and loads the item
//! only when it is taken, so that a merge over many partitions loads no more than it hands out. Postings that an index
//! check or the hash space rules out are passed and counted.

use super::access::{Access, Ask, Driver};
use super::checks::Check;
use super::condition::holds;
use crate::catalog::Container;
use crate::index::value;
use crate::keys::{self, Number, PathNumber, Place};
use crate::partition::{Partition, scan, storage_failure};
use crate::transaction::{Stored, complete_row, read_row};
use bytes::Bytes;
use orrery_model::json::parse;
use orrery_model::work::QueryWork;
use orrery_model::{Error, Result};
use orrery_sql::{Condition, Demand, Path, Test};
use orrery_storage::{Direction, Snapshot};
use std::cmp::Ordering;

/// A posting's place in the order of the query: the encoded value for ORDER BY, then the number. Items without the
/// path come before all values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The encoded value; `None` in natural order, and in ORDER BY for items that lack the path.
    pub value: Option<Vec<u8>>,
    /// The item's number.
    pub number: Number,
}

/// A candidate as the query gets it.
pub struct Found {
    /// Where it stands.
    pub spot: Spot,
    /// Its text; `None` if nobody needs it.
    pub text: Option<Bytes>,
    /// Whether the condition is known to hold.
    pub satisfied: bool,
}

type Postings<'a> = Box<dyn Iterator<Item = Result<Posting>> + 'a>;

struct Posting {
    spot: Spot,
    place: Place,
    /// The row's first value where finding the posting read it anyway.
    first: Option<Bytes>,
    /// Whether the entry holds all of the value that was tested.
    is_whole: bool,
}

/// One partition's candidates.
pub struct Cursor<'a> {
    container: &'a Container,
    snapshot: &'a dyn Snapshot,
    ask: Ask<'a>,
    access: Access,
    postings: Postings<'a>,
    checks: Vec<Check>,
    peeked: Option<Posting>,
    now: u64,
    /// What this partition did.
    pub work: QueryWork,
}

impl<'a> Cursor<'a> {
    /// Opens a partition behind `after`, if it is given.
    ///
    /// # Errors
    /// What the store reports.
    pub fn open(
        container: &'a Container,
        partition: &'a Partition,
        snapshot: &'a dyn Snapshot,
        ask: Ask<'a>,
        access: Access,
        after: Option<&Spot>,
        now: u64,
    ) -> Result<Self> {
        let work = QueryWork { seeks: access.seeks, ..QueryWork::default() };
        // Rows that ORDER BY holds equal stay as they come: by number, from the end if it descends.
        let descending = ask.query.order().first().is_some_and(|key| key.descending);
        let direction = if descending { Direction::Reverse } else { Direction::Forward };
        let postings = match &access.driver {
            Driver::Nothing => Box::new(std::iter::empty()) as Postings<'a>,
            Driver::Everything => naturals(snapshot, after, direction),
            Driver::Logical(place) => logical(snapshot, *place, after, direction),
            Driver::Postings { ranges, one_value, strings } => {
                by_terms(snapshot, ranges, *one_value, strings.as_ref(), after, direction)?
            }
            Driver::Order { path, descending } => {
                in_order(partition, snapshot, *path, *descending, ask.query.order()[0].path.as_ref(), after)?
            }
        };
        let checks = access.checks.iter().map(|(path, value)| Check::new(*path, value.clone())).collect();
        Ok(Cursor { container, snapshot, ask, access, postings, checks, peeked: None, now, work })
    }

    /// Whether candidates come in the order that the query asks for.
    pub fn is_ordered(&self) -> bool {
        self.ask.query.order().is_empty() || self.access.is_ordered()
    }

    /// How it was chosen to be found.
    pub fn explanation(&self) -> &str {
        &self.access.explanation
    }

    /// Where the next candidate stands.
    ///
    /// # Errors
    /// What the store reports.
    pub fn peek(&mut self) -> Result<Option<&Spot>> {
        while self.peeked.is_none() {
            let Some(posting) = self.postings.next() else { return Ok(None) };
            let posting = posting?;
            self.count_passing();
            if self.passes_checks(&posting)? {
                self.peeked = Some(posting);
            }
        }
        Ok(self.peeked.as_ref().map(|p| &p.spot))
    }

    fn count_passing(&mut self) {
        if self.access.walks {
            self.work.walk += 1;
        }
        if self.access.scans {
            self.work.scan_terms += 1;
        }
    }

    fn passes_checks(&mut self, posting: &Posting) -> Result<bool> {
        for check in &mut self.checks {
            if !check.holds(self.snapshot, posting.spot.number, posting.place)? {
                return Ok(false);
            }
        }
        Ok(self.ask.key.is_none_or(|key| keys::place(key) == posting.place))
    }

    /// The next candidate.
    ///
    /// # Errors
    /// What the store reports.
    pub fn next(&mut self) -> Result<Option<Found>> {
        loop {
            if self.peek()?.is_none() {
                return Ok(None);
            }
            let Some(posting) = self.peeked.take() else { return Ok(None) };
            if let Some(found) = self.load(posting)? {
                return Ok(Some(found));
            }
        }
    }

    /// The candidate at a spot that was peeked; `None` if the query may not see it after all.
    ///
    /// # Errors
    /// What the store reports.
    pub fn take_at(&mut self, spot: &Spot) -> Result<Option<Found>> {
        match self.peeked.take_if(|posting| posting.spot == *spot) {
            Some(posting) => self.load(posting),
            None => Ok(None),
        }
    }

    /// The item behind a posting, if it is one the query may see.
    fn load(&mut self, posting: Posting) -> Result<Option<Found>> {
        let satisfied = self.access.decides && posting.is_whole;
        if self.counts_without_loading() && posting.is_whole {
            return Ok(Some(Found { spot: posting.spot, text: None, satisfied }));
        }
        let Posting { spot, place, first, .. } = posting;
        let get = |key: &[u8]| self.snapshot.get(key).map_err(storage_failure);
        let row = match first {
            Some(first) => Some(complete_row(first, spot.number, get)?),
            None => read_row(place, spot.number, get)?,
        };
        let Some(row) = row else { return Err(Error::internal("an index entry leads to no item")) };
        let visible = row.is_live(self.now, self.ask.settings.default_ttl)
            && self.ask.key.is_none_or(|key| row.epk == *key)
            && self.ask.within.is_none_or(|within| within.contains(&row.epk));
        if !visible {
            return Ok(None);
        }
        let stored = Stored { number: spot.number, row };
        let text = stored.row.text(self.container.rid(), stored.number);
        let mut satisfied = satisfied;
        if self.access.test_items {
            let item = parse(&text).map_err(|e| Error::internal(e.to_string()))?;
            if !holds(self.ask.query.condition(), &item) {
                return Ok(None);
            }
            satisfied = true;
        }
        if self.charges_loading() {
            self.work.loaded += 1;
            self.work.loaded_bytes += text.len() as u64;
        }
        Ok(Some(Found { spot, text: Some(text), satisfied }))
    }

    /// Only the number of items matters, and the index alone decides which they are.
    fn counts_without_loading(&self) -> bool {
        self.ask.query.demand() == Demand::Count
            && self.ask.profile.counts_from_index()
            && (self.access.decides || matches!(self.ask.query.condition(), Condition::All))
            && !self.access.test_items
            && self.ask.key.is_none()
            && self.ask.within.is_none()
            && self.ask.settings.default_ttl.is_none()
    }

    /// A count within a logical partition is paid as the index would do it, though the rows are read.
    fn charges_loading(&self) -> bool {
        self.ask.query.demand() != Demand::Count || !self.ask.profile.counts_from_index()
    }
}

fn natural_spot(number: Number) -> Spot {
    Spot { value: None, number }
}

fn damaged() -> Error {
    Error::internal("a row of the index is damaged")
}

fn first_number(after: Option<&Spot>) -> Number {
    after.map_or(0, |spot| spot.number.saturating_add(1))
}

fn naturals<'a>(snapshot: &'a dyn Snapshot, after: Option<&Spot>, direction: Direction) -> Postings<'a> {
    let range = keys::naturals_from(first_number(after));
    Box::new(scan(snapshot, &range, direction).map(|entry| {
        let (key, value) = entry?;
        let number = keys::read_natural(&key).ok_or_else(damaged)?;
        let place = value[..].try_into().map_err(|_| damaged())?;
        Ok(Posting { spot: natural_spot(number), place, first: None, is_whole: true })
    }))
}

fn logical<'a>(snapshot: &'a dyn Snapshot, place: Place, after: Option<&Spot>, direction: Direction) -> Postings<'a> {
    let range = keys::items_of(place, first_number(after));
    Box::new(scan(snapshot, &range, direction).map(|entry| {
        let (key, value) = entry?;
        let (place, number) = keys::read_item(&key).ok_or_else(damaged)?;
        Ok(Posting { spot: natural_spot(number), place, first: Some(value), is_whole: true })
    }))
}

fn term_posting(key: &[u8]) -> Result<(Vec<u8>, Posting)> {
    let (value, number, place) = keys::read_term(key).ok_or_else(damaged)?;
    Ok((value.to_vec(), Posting { spot: natural_spot(number), place, first: None, is_whole: true }))
}

/// Entries of one value come in natural order; others are sorted first, each item once.
fn by_terms<'a>(
    snapshot: &'a dyn Snapshot,
    ranges: &[(Vec<u8>, Vec<u8>)],
    one_value: bool,
    strings: Option<&Test>,
    after: Option<&Spot>,
    direction: Direction,
) -> Result<Postings<'a>> {
    let from = first_number(after);
    if one_value && let [(start, end)] = ranges {
        let start = [&start[..], &from.to_be_bytes()].concat();
        let entries = scan(snapshot, &(start, end.clone()), direction);
        return Ok(Box::new(entries.map(|entry| term_posting(&entry?.0).map(|(_, posting)| posting))));
    }
    let mut found: Vec<(Number, Place, bool)> = Vec::new();
    for range in ranges {
        for entry in scan(snapshot, range, Direction::Forward) {
            let (value, posting) = term_posting(&entry?.0)?;
            if posting.spot.number >= from && strings.is_none_or(|test| string_passes(test, &value)) {
                found.push((posting.spot.number, posting.place, strings.is_none() || !value::is_inexact(&value)));
            }
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|(number, ..)| *number);
    if direction == Direction::Reverse {
        found.reverse();
    }
    let posting = |(number, place, is_whole)| Ok(Posting { spot: natural_spot(number), place, first: None, is_whole });
    Ok(Box::new(found.into_iter().map(posting)))
}

/// A string that was cut for the index may pass: its item decides.
fn string_passes(test: &Test, encoded: &[u8]) -> bool {
    match (test, value::decode_string(encoded)) {
        (Test::ScanStrings(passes), Some(text)) => passes(&text),
        _ => true,
    }
}

/// Items that lack the path, then the path's entries; or the other way round.
fn in_order<'a>(
    partition: &'a Partition,
    snapshot: &'a dyn Snapshot,
    path: Option<PathNumber>,
    descending: bool,
    steps: Option<&Path>,
    after: Option<&Spot>,
) -> Result<Postings<'a>> {
    let entries = match path {
        Some(path) => Partition::entries_of(snapshot, path)?,
        None => 0,
    };
    let (direction, items) =
        (if descending { Direction::Reverse } else { Direction::Forward }, Partition::counters(snapshot)?.items);
    let has_lacking = items > entries;
    let in_values = after.is_some_and(|spot| spot.value.is_some());
    let in_lacking = after.is_some_and(|spot| spot.value.is_none());
    let values: Postings<'a> = match path {
        Some(path) if descending || !in_lacking || after.is_none() => {
            if descending && in_lacking {
                Box::new(std::iter::empty())
            } else {
                valued(snapshot, path, direction, after.filter(|_| in_values))
            }
        }
        Some(path) => valued(snapshot, path, direction, None),
        None => Box::new(std::iter::empty()),
    };
    let skip_lacking = !has_lacking || (in_values && !descending);
    let rest: Postings<'a> = if skip_lacking {
        Box::new(std::iter::empty())
    } else {
        lacking(partition, snapshot, path, steps, direction, after.filter(|_| in_lacking))
    };
    Ok(if descending { Box::new(values.chain(rest)) } else { Box::new(rest.chain(values)) })
}

fn valued<'a>(
    snapshot: &'a dyn Snapshot,
    path: PathNumber,
    direction: Direction,
    after: Option<&Spot>,
) -> Postings<'a> {
    let prefix = keys::terms(path, &[]);
    let mut range = (prefix.clone(), keys::after(&prefix));
    if let Some(Spot { value: Some(value), number }) = after {
        let here = [&keys::terms(path, value)[..], &number.to_be_bytes()].concat();
        match direction {
            Direction::Forward => range.0 = keys::after(&here),
            Direction::Reverse => range.1 = here,
        }
    }
    Box::new(scan(snapshot, &range, direction).map(|entry| {
        let (value, mut posting) = term_posting(&entry?.0)?;
        posting.spot.value = Some(value);
        Ok(posting)
    }))
}

/// Items that have no entry for the path, by number. Each item is looked at: there are usually none, and then nobody
/// comes here.
fn lacking<'a>(
    _partition: &'a Partition,
    snapshot: &'a dyn Snapshot,
    path: Option<PathNumber>,
    steps: Option<&Path>,
    direction: Direction,
    after: Option<&Spot>,
) -> Postings<'a> {
    let mut range = keys::naturals_from(0);
    if let Some(spot) = after {
        match direction {
            Direction::Forward => range.0 = keys::natural(spot.number.saturating_add(1)),
            Direction::Reverse => range.1 = keys::natural(spot.number),
        }
    }
    let steps = steps.cloned().unwrap_or_default();
    let check = move |entry: Result<(Bytes, Bytes)>| -> Result<Option<Posting>> {
        let (key, value) = entry?;
        let number = keys::read_natural(&key).ok_or_else(damaged)?;
        let place: Place = value[..].try_into().map_err(|_| damaged())?;
        let posting = Posting { spot: natural_spot(number), place, first: None, is_whole: true };
        let Some(path) = path else { return Ok(Some(posting)) };
        let row = read_row(place, number, |key| snapshot.get(key).map_err(storage_failure))?.ok_or_else(damaged)?;
        let item = parse(&row.body).map_err(|_| damaged())?;
        let found = steps.0.iter().try_fold(&item, |at, step| match step {
            orrery_sql::Step::Name(name) => at.get(name),
            orrery_sql::Step::Element => None,
        });
        let system_ts = orrery_model::Json::from(row.ts);
        let found = found
            .or_else(|| matches!(&steps.0[..], [orrery_sql::Step::Name(name)] if name == "_ts").then_some(&system_ts));
        let Some(found) = found else { return Ok(Some(posting)) };
        let entry = keys::term(path, &value::encode(found).bytes, number, place);
        let indexed = snapshot.get(&entry).map_err(storage_failure)?.is_some();
        Ok((!indexed).then_some(posting))
    };
    Box::new(scan(snapshot, &range, direction).filter_map(move |entry| check(entry).transpose()))
}

/// The order in which a merge takes spots.
pub fn compare_spots(a: &Spot, b: &Spot, descending: bool) -> Ordering {
    let order = a.value.cmp(&b.value).then(a.number.cmp(&b.number));
    if descending { order.reverse() } else { order }
}
