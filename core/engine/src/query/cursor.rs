//! The candidates of one partition, in natural order or in the order of ORDER BY.
//!
//! 1. [`Cursor::open`] opens the postings of the access path behind a position.
//! 2. [`Cursor::next_posting`] returns the next posting. A merge over many partitions reads the
//!    first posting of each.
//! 3. [`Cursor::admits`] checks a posting by the index. Only the postings whose turn comes are
//!    checked.
//! 4. [`Cursor::load`] loads the item of the posting, tests the conditions that the index answers
//!    but does not decide, and returns the candidate. [`Cursor::next`] does all three.
//!
//! Postings that are passed and items that are loaded are counted in [`Cursor::work`].

use super::access::{AccessMethod, AccessPath, IndexCheck};
use super::checks::Check;
use super::condition::holds;
use super::lookup::ItemMatch;
use super::partition_query::PartitionQuery;
use super::posting::{IndexPosition, Posting, Postings, damaged_row, read_natural_row};
use super::score_walk::ScoreWalk;
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::partition::item::StoredItem;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::Row;
use crate::partition::row_reader::{complete_row, read_row};
use crate::partition::scan;
use bytes::Bytes;
use orrery_model::work::QueryWork;
use orrery_model::{Error, Result};
use orrery_sql::{Condition, Demand, read_members};
use orrery_storage::{Direction, Snapshot};

/// A candidate with its position.
pub(crate) struct CursorItem {
    /// The position of the item.
    pub position: IndexPosition,
    /// The text of the item; `None` if the query counts items only.
    pub text: Option<Bytes>,
    /// True if the condition of the query is known to hold.
    pub condition_holds: bool,
    /// Number of items that the candidate stands for.
    pub copies: u64,
}

/// The work in a partition for the access path that was not chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Index entries counted.
    pub counted: u64,
    /// Index entries passed.
    pub passed: u64,
    /// Items read.
    pub items: u64,
}

/// The candidates of one partition.
pub(crate) struct Cursor<'a> {
    container: &'a Container,
    snapshot: &'a dyn Snapshot,
    query: PartitionQuery<'a>,
    access: AccessPath,
    postings: Postings<'a>,
    checks: Vec<Check<'a>>,
    /// Top-level members that the tests of the access path read.
    tested_members: Vec<String>,
    /// True if the postings have been counted and checked.
    is_checked: bool,
    /// The work in this partition so far, without that of [`Cursor::counted_work`].
    pub work: QueryWork,
    /// The number of the first item that was loaded.
    pub first_loaded: Option<ItemNumber>,
    /// Items read so far, whether they matched or not.
    pub rows_read: u64,
    /// The work for an access path that was compared with this one and not chosen.
    pub compared: Compared,
}

impl<'a> Cursor<'a> {
    /// Opens the candidates of a partition behind `after`, or from the beginning.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn open(
        container: &'a Container,
        snapshot: &'a dyn Snapshot,
        query: PartitionQuery<'a>,
        mut access: AccessPath,
        after: Option<&IndexPosition>,
    ) -> Result<Self> {
        let postings = match open_postings(snapshot, query, &access, after)? {
            Some(postings) => postings,
            None => {
                access.read_through();
                all_items(snapshot, after, direction_of(&query))
            }
        };

        // A full scan in place of a lookup has no checks left, so they are opened after the
        // postings.
        let mut checks = Vec::with_capacity(access.checks.len());
        for check in &access.checks {
            checks.push(match check {
                IndexCheck::Term(path, value) => Check::of_term(*path, value.clone()),
                IndexCheck::Lookup(lookup) => {
                    Check::of_lookup(lookup, snapshot, query.check_point)?
                }
            });
        }
        let mut tested_members = Vec::new();
        for test in &access.tests {
            add_members(test, &mut tested_members);
        }
        let work = QueryWork {
            seeks: access.seeks,
            ..QueryWork::default()
        };
        Ok(Cursor {
            container,
            snapshot,
            query,
            access,
            postings,
            checks,
            tested_members,
            is_checked: false,
            work,
            first_loaded: None,
            rows_read: 0,
            compared: Compared::default(),
        })
    }

    /// Returns true if candidates come in the order that the query asks for.
    pub(crate) fn is_ordered(&self) -> bool {
        self.query.query.order().is_empty() || self.access.is_ordered()
    }

    /// Returns the id of the index in whose order candidates come, if they come in the order of an
    /// index.
    pub(crate) fn index_id(&self) -> Option<u32> {
        self.access.index_id()
    }

    /// Returns the access path.
    pub(crate) fn access(&self) -> &AccessPath {
        &self.access
    }

    /// Returns the work in this partition so far.
    pub(crate) fn counted_work(&self) -> QueryWork {
        let scored = self.access.scored_entries();
        let compared_words = scored.compared_words + self.access.compared_words();
        QueryWork {
            compared_vectors: scored.vectors,
            compared_vector_bytes: scored.vector_bytes,
            walked_entries: self.work.walked_entries + scored.words,
            scan_terms: self.work.scan_terms + compared_words,
            ..self.work
        }
    }

    /// Returns the next posting, which is not checked and not counted yet.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn next_posting(&mut self) -> Result<Option<Posting>> {
        self.postings.next().transpose()
    }

    /// Counts a posting as passed. Returns true if it passes the checks of the access path; the
    /// item may still turn out to be invisible.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn admits(&mut self, posting: &Posting) -> Result<bool> {
        if self.is_checked {
            return Ok(true);
        }
        if !self.access.is_read_through() {
            self.count_passed_entries(posting.copies);
        }
        self.passes_checks(posting)
    }

    /// Reads and checks all postings, and keeps those that pass. Returns their number.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn read_ahead(&mut self) -> Result<u64> {
        let mut kept = Vec::new();
        while let Some(posting) = self.next_posting()? {
            if self.admits(&posting)? {
                kept.push(Ok(posting));
            }
        }
        let count = kept.len() as u64;
        self.postings = Box::new(kept.into_iter());
        self.is_checked = true;
        Ok(count)
    }

    /// Counts the entries of a value.
    fn count_passed_entries(&mut self, entries: u64) {
        if self.access.charges_walk {
            self.work.walked_entries += entries;
        }
        if self.access.charges_scan {
            self.work.scan_terms += 1;
        }
    }

    /// Returns true if a posting passes the checks of the index and may be of the wanted logical
    /// partition.
    fn passes_checks(&mut self, posting: &Posting) -> Result<bool> {
        let number = posting.position.number;
        for check in &mut self.checks {
            if !check.passes(self.snapshot, number, posting.epk_prefix)? {
                return Ok(false);
            }
        }
        Ok(match self.query.key {
            Some(key) => keys::epk_prefix(key.epk()) == posting.epk_prefix,
            None => true,
        })
    }

    /// Returns the next candidate.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn next(&mut self) -> Result<Option<CursorItem>> {
        while let Some(posting) = self.next_posting()? {
            if self.admits(&posting)?
                && let Some(item) = self.load(posting)?
            {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Loads the item of a posting that passed the checks. Returns `None` if the query may not see
    /// the item or a test fails.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn load(&mut self, posting: Posting) -> Result<Option<CursorItem>> {
        let condition_holds = self.access.is_exact && posting.is_exact;
        let Posting {
            position,
            epk_prefix,
            row_head,
            value,
            copies,
            is_exact,
        } = posting;

        // The value of the index replaces the item, unless the item may belong to a logical
        // partition that is being deleted.
        if let Some(value) = value
            && !self.query.visible.has_key_deletions()
        {
            return Ok(Some(CursorItem {
                position,
                text: Some(Bytes::from(value.to_text())),
                condition_holds: false,
                copies,
            }));
        }

        // A count needs the number of items only.
        if is_exact && self.counts_without_loading() {
            return Ok(Some(CursorItem {
                position,
                text: None,
                condition_holds,
                copies: 1,
            }));
        }

        self.rows_read += 1;
        let Some(row) = read_visible_row(
            self.snapshot,
            &self.query,
            epk_prefix,
            position.number,
            row_head,
        )?
        else {
            return Ok(None);
        };

        // The tests are of conditions that the index answers, so an item that fails is not counted
        // as loaded.
        let stored = StoredItem {
            number: position.number,
            row,
        };
        let text = stored.row.text(self.container.rid(), stored.number);
        if !self.passes_tests(&text)? {
            return Ok(None);
        }
        self.first_loaded.get_or_insert(position.number);
        if self.access.is_read_through() {
            self.count_passed_entries(1);
        }
        if self.charges_loading() {
            self.work.loaded_items += 1;
            self.work.loaded_bytes += text.len() as u64;
        }
        Ok(Some(CursorItem {
            position,
            text: Some(text),
            condition_holds,
            copies: 1,
        }))
    }

    /// Returns true if an item passes the tests of the access path.
    fn passes_tests(&self, text: &Bytes) -> Result<bool> {
        if self.access.tests.is_empty() {
            return Ok(true);
        }
        let item = read_members(text, &self.tested_members)
            .map_err(|error| Error::internal(error.to_string()))?;
        Ok(self.access.tests.iter().all(|test| holds(test, &item)))
    }

    /// Returns true if the query needs only the number of items and the index decides which items
    /// match.
    fn counts_without_loading(&self) -> bool {
        let query = &self.query;
        let index_decides =
            self.access.is_exact || matches!(query.query.condition(), Condition::All);
        let sees_all_items =
            query.key.is_none() && query.within.is_none() && query.visible.is_everything();
        query.query.demand() == Demand::Count
            && query.profile.counts_from_index()
            && index_decides
            && self.access.tests.is_empty()
            && sees_all_items
    }

    /// Returns true if loaded items are charged. A count in a logical partition is charged as if
    /// the index had answered it, although rows are read.
    fn charges_loading(&self) -> bool {
        self.query.query.demand() != Demand::Count || !self.query.profile.counts_from_index()
    }
}

/// Reads the row of an item. Returns `None` if the query may not see the item.
///
/// # Errors
/// 500 if the store cannot be read, or if there is no such item.
pub(super) fn read_visible_row(
    snapshot: &dyn Snapshot,
    query: &PartitionQuery<'_>,
    epk_prefix: EpkPrefix,
    number: ItemNumber,
    row_head: Option<Bytes>,
) -> Result<Option<Row>> {
    let get = |key: &[u8]| snapshot.get(key).map_err(storage_failure);
    let row = match row_head {
        Some(row_head) => Some(complete_row(row_head, number, get)?),
        None => read_row(epk_prefix, number, get)?,
    };
    let Some(row) = row else {
        return Err(Error::internal("an index entry leads to no item"));
    };

    // Different keys may share an EPK prefix, and even an EPK.
    let is_visible = query.visible.has(&row)
        && query.key.is_none_or(|key| row.is_of(key))
        && query.within.is_none_or(|range| range.contains(&row.epk));
    Ok(is_visible.then_some(row))
}

/// Returns the direction of items in natural order. Rows that ORDER BY treats as equal are ordered
/// by number, in reverse if ORDER BY descends.
fn direction_of(query: &PartitionQuery<'_>) -> Direction {
    match query.query.order().first() {
        Some(key) if key.descending => Direction::Reverse,
        _ => Direction::Forward,
    }
}

/// Opens the postings of an access path behind a position. Returns `None` for an index lookup with
/// more entries than may be sorted into natural order.
fn open_postings<'a>(
    snapshot: &'a dyn Snapshot,
    query: PartitionQuery<'a>,
    access: &AccessPath,
    after: Option<&IndexPosition>,
) -> Result<Option<Postings<'a>>> {
    let direction = direction_of(&query);
    Ok(Some(match &access.method {
        AccessMethod::Empty => Box::new(std::iter::empty()),
        AccessMethod::FullScan => all_items(snapshot, after, direction),
        AccessMethod::LogicalPartition(epk_prefix) => {
            items_of_key(snapshot, *epk_prefix, after, direction)
        }
        AccessMethod::OrderWalk(walk) => walk.postings(snapshot, query.facts, after)?,
        AccessMethod::ScoreWalk(walk) => {
            walk.postings(snapshot, query, after, ScoreWalk::kept_for(&query))?
        }
        AccessMethod::Ranked(ranked) => return ranked.postings(snapshot, query),
        AccessMethod::ValueScan(scan) => scan.postings(snapshot, after),
        AccessMethod::IndexLookup {
            lookup,
            entries_to_sort_max,
        } => {
            let from = first_number(after);
            let (check_point, entries_max) = (query.check_point, *entries_to_sort_max);
            match lookup.matches(snapshot, check_point, from, direction, entries_max)? {
                Some(matches) => Box::new(matches.map(|found| found.map(posting_of))),
                None => return Ok(None),
            }
        }
    }))
}

/// Adds the top-level members that a condition reads.
fn add_members(condition: &Condition, members: &mut Vec<String>) {
    match condition {
        Condition::And(parts) | Condition::Or(parts) => {
            for part in parts {
                add_members(part, members);
            }
        }
        Condition::Term { path, .. } => {
            if let Some(orrery_sql::Step::Name(name)) = path.0.first() {
                members.push(name.clone());
            }
        }
        Condition::All | Condition::Never => {}
    }
}

/// Returns the first number behind a position in natural order.
fn first_number(after: Option<&IndexPosition>) -> ItemNumber {
    match after {
        Some(position) => position.number.saturating_add(1),
        None => 0,
    }
}

fn posting_of(found: ItemMatch) -> Posting {
    Posting {
        is_exact: found.is_exact,
        ..Posting::new(IndexPosition::natural(found.number), found.epk_prefix)
    }
}

/// Returns the postings of all items in natural order.
fn all_items<'a>(
    snapshot: &'a dyn Snapshot,
    after: Option<&IndexPosition>,
    direction: Direction,
) -> Postings<'a> {
    let range = keys::naturals_from(first_number(after));
    Box::new(scan(snapshot, &range, direction).map(|row| {
        let (number, epk_prefix) = read_natural_row(row?)?;
        Ok(Posting::new(IndexPosition::natural(number), epk_prefix))
    }))
}

/// Returns the postings of a logical partition in natural order.
fn items_of_key<'a>(
    snapshot: &'a dyn Snapshot,
    epk_prefix: EpkPrefix,
    after: Option<&IndexPosition>,
    direction: Direction,
) -> Postings<'a> {
    let range = keys::items_of(epk_prefix, first_number(after));
    Box::new(scan(snapshot, &range, direction).map(|row| {
        let (key, value) = row?;
        let (epk_prefix, number) = keys::read_item(&key).ok_or_else(damaged_row)?;
        Ok(Posting {
            row_head: Some(value),
            ..Posting::new(IndexPosition::natural(number), epk_prefix)
        })
    }))
}
