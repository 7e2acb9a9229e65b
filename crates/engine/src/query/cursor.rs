//! One partition's candidates, one after the other, in natural order or in the order of ORDER BY.
//!
//! A cursor first finds *postings* (number and place of an item, and for ORDER BY its encoded value) and loads the item
//! only when it is taken, so that a merge over many partitions loads no more than it hands out. Postings that the index
//! or the hash space rules out are passed and counted.

use super::access::{Access, Ask, Driver, Required};
use super::checks::Check;
use super::condition::holds;
use super::lookup::Hit;
use super::values;
use super::walk::IndexPosition;
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::partition::item::StoredItem;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row_reader::{complete_row, read_row};
use crate::partition::scan;
use bytes::Bytes;
use orrery_model::work::QueryWork;
use orrery_model::{Error, Json, Result};
use orrery_sql::{Condition, Demand, read_members};
use orrery_storage::{Direction, Snapshot};

/// A candidate as the query gets it.
pub struct Found {
    /// Where it stands.
    pub spot: IndexPosition,
    /// Its text; `None` if nobody needs it.
    pub text: Option<Bytes>,
    /// Whether the condition is known to hold.
    pub satisfied: bool,
}

/// What a cursor goes over.
pub type Postings<'a> = Box<dyn Iterator<Item = Result<Posting>> + 'a>;

/// An item that may be a candidate.
pub struct Posting {
    /// Where it stands.
    pub spot: IndexPosition,
    epk_prefix: EpkPrefix,
    /// The row's first value where finding the posting read it anyway.
    first: Option<Bytes>,
    /// In place of an item that is not needed: its value.
    value: Option<Json>,
    /// Whether the entry holds all of the value that was tested.
    is_whole: bool,
}

impl Posting {
    /// An item at a spot.
    pub fn new(spot: IndexPosition, epk_prefix: EpkPrefix) -> Self {
        Posting {
            spot,
            epk_prefix,
            first: None,
            value: None,
            is_whole: true,
        }
    }
}

/// One partition's candidates.
pub struct Cursor<'a> {
    container: &'a Container,
    snapshot: &'a dyn Snapshot,
    ask: Ask<'a>,
    access: Access,
    postings: Postings<'a>,
    checks: Vec<Check>,
    /// Members that the tests look at.
    names: Vec<String>,
    peeked: Option<Posting>,
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
        snapshot: &'a dyn Snapshot,
        ask: Ask<'a>,
        mut access: Access,
        after: Option<&IndexPosition>,
    ) -> Result<Self> {
        let work = QueryWork {
            seeks: access.seeks,
            ..QueryWork::default()
        };
        // Rows that ORDER BY holds equal stay as they come: by number, from the end if it descends.
        let descending = ask.query.order().first().is_some_and(|key| key.descending);
        let direction = if descending {
            Direction::Reverse
        } else {
            Direction::Forward
        };
        let postings = match &access.driver {
            Driver::Nothing => Box::new(std::iter::empty()) as Postings<'a>,
            Driver::Everything => naturals(snapshot, after, direction),
            Driver::Logical(epk_prefix) => logical(snapshot, *epk_prefix, after, direction),
            Driver::Order(walk) => walk.postings(snapshot, after)?,
            Driver::Values(scan) => Box::new(
                scan.values(snapshot, after)
                    .map(|found| found.map(value_posting)),
            ),
            Driver::Lookup(lookup, most) => {
                match lookup.hits(snapshot, first_number(after), direction, *most)? {
                    Some(hits) => Box::new(hits.map(|hit| hit.map(posting_of))),
                    None => {
                        access.read_through();
                        naturals(snapshot, after, direction)
                    }
                }
            }
        };
        let mut checks = Vec::new();
        for required in &access.required {
            checks.push(match required {
                Required::Term(path, value) => Check::new(*path, value.clone()),
                Required::Lookup(lookup) => Check::among(lookup, snapshot)?,
            });
        }
        let names = access.tests.iter().flat_map(condition_names).collect();
        Ok(Cursor {
            container,
            snapshot,
            ask,
            access,
            postings,
            checks,
            names,
            peeked: None,
            work,
        })
    }

    /// Whether candidates come in the order that the query asks for.
    pub fn is_ordered(&self) -> bool {
        self.ask.query.order().is_empty() || self.access.is_ordered()
    }

    /// The index along which candidates come, if they do.
    pub fn along(&self) -> Option<u32> {
        self.access.along()
    }

    /// The way that was chosen.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Where the next candidate stands.
    ///
    /// # Errors
    /// What the store reports.
    pub fn peek(&mut self) -> Result<Option<&IndexPosition>> {
        while self.peeked.is_none() {
            let Some(posting) = self.postings.next() else {
                return Ok(None);
            };
            let posting = posting?;
            if !self.access.reads_through() {
                self.count_passing();
            }
            if self.passes_checks(&posting)? {
                self.peeked = Some(posting);
            }
        }
        Ok(self.peeked.as_ref().map(|p| &p.spot))
    }

    fn count_passing(&mut self) {
        if self.access.walks {
            self.work.walked_entries += 1;
        }
        if self.access.scans {
            self.work.scan_terms += 1;
        }
    }

    fn passes_checks(&mut self, posting: &Posting) -> Result<bool> {
        for check in &mut self.checks {
            if !check.holds(self.snapshot, posting.spot.number, posting.epk_prefix)? {
                return Ok(false);
            }
        }
        Ok(self
            .ask
            .key
            .is_none_or(|key| keys::epk_prefix(key) == posting.epk_prefix))
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
            let Some(posting) = self.peeked.take() else {
                return Ok(None);
            };
            if let Some(found) = self.load(posting)? {
                return Ok(Some(found));
            }
        }
    }

    /// The candidate at a spot that was peeked; `None` if the query may not see it after all.
    ///
    /// # Errors
    /// What the store reports.
    pub fn take_at(&mut self, spot: &IndexPosition) -> Result<Option<Found>> {
        match self.peeked.take_if(|posting| posting.spot == *spot) {
            Some(posting) => self.load(posting),
            None => Ok(None),
        }
    }

    /// The item behind a posting, if it is one the query may see.
    fn load(&mut self, posting: Posting) -> Result<Option<Found>> {
        let satisfied = self.access.decides && posting.is_whole;
        if let Some(value) = posting
            .value
            .filter(|_| !self.ask.visible.has_key_deletions())
        {
            return Ok(Some(Found {
                spot: posting.spot,
                text: Some(Bytes::from(value.to_text())),
                satisfied: false,
            }));
        }
        if self.counts_without_loading() && posting.is_whole {
            return Ok(Some(Found {
                spot: posting.spot,
                text: None,
                satisfied,
            }));
        }
        let Posting {
            spot,
            epk_prefix,
            first,
            ..
        } = posting;
        let get = |key: &[u8]| self.snapshot.get(key).map_err(storage_failure);
        let row = match first {
            Some(first) => Some(complete_row(first, spot.number, get)?),
            None => read_row(epk_prefix, spot.number, get)?,
        };
        let Some(row) = row else {
            return Err(Error::internal("an index entry leads to no item"));
        };
        let visible = self.ask.visible.has(&row)
            && self.ask.key.is_none_or(|key| row.epk == *key)
            && self
                .ask
                .within
                .is_none_or(|within| within.contains(&row.epk));
        if !visible {
            return Ok(None);
        }
        let stored = StoredItem {
            number: spot.number,
            row,
        };
        let text = stored.row.text(self.container.rid(), stored.number);
        if !self.access.tests.is_empty() {
            let item =
                read_members(&text, &self.names).map_err(|e| Error::internal(e.to_string()))?;
            if !self.access.tests.iter().all(|test| holds(test, &item)) {
                return Ok(None);
            }
        }
        if self.access.reads_through() {
            self.count_passing();
        }
        if self.charges_loading() {
            self.work.loaded_items += 1;
            self.work.loaded_bytes += text.len() as u64;
        }
        Ok(Some(Found {
            spot,
            text: Some(text),
            satisfied,
        }))
    }

    /// Only the number of items matters, and the index alone decides which they are.
    fn counts_without_loading(&self) -> bool {
        self.ask.query.demand() == Demand::Count
            && self.ask.profile.counts_from_index()
            && (self.access.decides || matches!(self.ask.query.condition(), Condition::All))
            && self.access.tests.is_empty()
            && self.ask.key.is_none()
            && self.ask.within.is_none()
            && self.ask.visible.is_everything()
    }

    /// A count within a logical partition is paid as the index would do it, though the rows are read.
    fn charges_loading(&self) -> bool {
        self.ask.query.demand() != Demand::Count || !self.ask.profile.counts_from_index()
    }
}

/// The top-level members that a condition looks at.
fn condition_names(condition: &Condition) -> Vec<String> {
    match condition {
        Condition::And(parts) | Condition::Or(parts) => {
            parts.iter().flat_map(condition_names).collect()
        }
        Condition::Term { path, .. } => match path.0.first() {
            Some(orrery_sql::Step::Name(name)) => vec![name.clone()],
            _ => Vec::new(),
        },
        Condition::All | Condition::Never => Vec::new(),
    }
}

fn damaged() -> Error {
    Error::internal("a row of the index is damaged")
}

fn first_number(after: Option<&IndexPosition>) -> ItemNumber {
    after.map_or(0, |spot| spot.number.saturating_add(1))
}

fn posting_of(hit: Hit) -> Posting {
    Posting {
        is_whole: hit.is_whole,
        ..Posting::new(IndexPosition::natural(hit.number), hit.epk_prefix)
    }
}

fn value_posting(found: values::Found) -> Posting {
    Posting {
        value: found.value,
        ..Posting::new(found.spot, found.epk_prefix)
    }
}

fn naturals<'a>(
    snapshot: &'a dyn Snapshot,
    after: Option<&IndexPosition>,
    direction: Direction,
) -> Postings<'a> {
    let range = keys::naturals_from(first_number(after));
    Box::new(scan(snapshot, &range, direction).map(|entry| {
        let (key, value) = entry?;
        let number = keys::read_natural(&key).ok_or_else(damaged)?;
        let epk_prefix = value[..].try_into().map_err(|_| damaged())?;
        Ok(Posting::new(IndexPosition::natural(number), epk_prefix))
    }))
}

fn logical<'a>(
    snapshot: &'a dyn Snapshot,
    epk_prefix: EpkPrefix,
    after: Option<&IndexPosition>,
    direction: Direction,
) -> Postings<'a> {
    let range = keys::items_of(epk_prefix, first_number(after));
    Box::new(scan(snapshot, &range, direction).map(|entry| {
        let (key, value) = entry?;
        let (epk_prefix, number) = keys::read_item(&key).ok_or_else(damaged)?;
        Ok(Posting {
            first: Some(value),
            ..Posting::new(IndexPosition::natural(number), epk_prefix)
        })
    }))
}
