//! Checks of candidates against the index: one look-up for each item, or a list of item numbers in
//! memory.
//!
//! A walk along an index checks the same term for many items. Reading an entry of the term's list
//! costs about a sixteenth of a look-up. After [`LOOKUPS_BEFORE_LIST`] look-ups, and each time
//! their number has doubled, the check reads on in the list, as much as the look-ups so far have
//! cost. Until the end of the list is reached the check continues with look-ups. A list of more
//! than [`LIST_ITEMS_MAX`] items is given up.

use super::lookup::Lookup;
use super::posting::{Entries, entries, has_entry};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};

/// Look-ups before the list is read for the first time.
const LOOKUPS_BEFORE_LIST: usize = 16;
/// Entries of a list that can be read at the cost of one look-up.
const ENTRIES_PER_LOOKUP: usize = 16;
/// Maximum number of items in a list in memory.
const LIST_ITEMS_MAX: usize = 1 << 20;

/// A check that candidates have to pass.
pub(crate) struct Check<'a> {
    /// The path and encoded value, if the check is for a single term.
    term: Option<(PathNumber, Vec<u8>)>,
    /// Look-ups so far.
    lookups: usize,
    /// The items that pass, as far as the list has been read, in ascending order.
    list: Vec<ItemNumber>,
    /// The rest of the list.
    rest: Rest<'a>,
}

/// The part of a list that has not been read.
enum Rest<'a> {
    Unopened,
    Opened(Entries<'a>),
    /// The whole list has been read.
    Nothing,
    TooLong,
}

impl<'a> Check<'a> {
    /// Returns the check for the term of a path and an encoded value.
    pub(crate) fn of_term(path: PathNumber, value: Vec<u8>) -> Self {
        Check {
            term: Some((path, value)),
            lookups: 0,
            list: Vec::new(),
            rest: Rest::Unopened,
        }
    }

    /// Returns the check for the items of a lookup. Reads all of them.
    ///
    /// # Errors
    /// 500 if the store cannot be read; those of `check_point`.
    pub(crate) fn of_lookup(
        lookup: &Lookup,
        snapshot: &dyn Snapshot,
        check_point: &dyn Fn() -> Result<()>,
    ) -> Result<Self> {
        let matches = lookup.collect(snapshot, check_point, 0, usize::MAX)?;
        let matches = matches.unwrap_or_default();
        Ok(Check {
            term: None,
            lookups: 0,
            list: matches.iter().map(|found| found.number).collect(),
            rest: Rest::Nothing,
        })
    }

    /// Returns true if an item passes.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn passes(
        &mut self,
        snapshot: &'a dyn Snapshot,
        number: ItemNumber,
        epk_prefix: EpkPrefix,
    ) -> Result<bool> {
        if matches!(self.rest, Rest::Nothing) {
            return Ok(self.list.binary_search(&number).is_ok());
        }
        let Some((path, value)) = &self.term else {
            return Ok(true);
        };
        self.lookups += 1;
        let has_entry = has_entry(snapshot, *path, value, number, epk_prefix)?;
        if self.lookups >= LOOKUPS_BEFORE_LIST && self.lookups.is_power_of_two() {
            self.read_list(snapshot)?;
        }
        Ok(has_entry)
    }

    /// Reads on in the list, whose entries are in the order of their items, as much as the look-ups
    /// so far have cost.
    fn read_list(&mut self, snapshot: &'a dyn Snapshot) -> Result<()> {
        if let (Rest::Unopened, Some((path, value))) = (&self.rest, &self.term) {
            let start = keys::terms(*path, value);
            let range = (start.clone(), keys::after(&start));
            self.rest = Rest::Opened(Box::new(entries(snapshot, &range, Direction::Forward)));
        }
        let Rest::Opened(rest) = &mut self.rest else {
            return Ok(());
        };
        let affordable = self.lookups.saturating_mul(ENTRIES_PER_LOOKUP);
        while self.list.len() < affordable {
            match rest.next() {
                Some(_) if self.list.len() == LIST_ITEMS_MAX => {
                    self.list = Vec::new();
                    self.rest = Rest::TooLong;
                    return Ok(());
                }
                Some(entry) => {
                    self.list.push(entry?.number);
                }
                None => {
                    self.rest = Rest::Nothing;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
