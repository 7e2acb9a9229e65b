//! Checks of candidates against the index: one look-up for each item, or a list of item numbers in
//! memory.
//!
//! A walk along an index checks the same term for many items. Reading an entry of the term's list
//! costs about a sixteenth of a look-up. After [`LOOKUPS_BEFORE_LIST`] look-ups, and each time
//! their number has doubled, the check reads as much of the list as the look-ups so far have cost.
//! If the list is longer, or longer than [`LIST_ITEMS_MAX`], the check continues with look-ups.

use super::lookup::Lookup;
use super::posting::{entries, has_entry};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};
use std::collections::HashSet;

/// Look-ups before the list is read for the first time.
const LOOKUPS_BEFORE_LIST: usize = 16;
/// Entries of a list that can be read at the cost of one look-up.
const ENTRIES_PER_LOOKUP: usize = 16;
/// Maximum number of items in a list in memory.
const LIST_ITEMS_MAX: usize = 1 << 20;

/// A check that candidates have to pass.
pub(crate) struct Check {
    /// The path and encoded value, if the check is for a single term.
    term: Option<(PathNumber, Vec<u8>)>,
    /// Look-ups so far.
    lookups: usize,
    /// The items that pass, if the list has been read.
    list: Option<HashSet<ItemNumber>>,
}

impl Check {
    /// Returns the check for the term of a path and an encoded value.
    pub(crate) fn of_term(path: PathNumber, value: Vec<u8>) -> Self {
        Check {
            term: Some((path, value)),
            lookups: 0,
            list: None,
        }
    }

    /// Returns the check for the items of a lookup. Reads all of them.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn of_lookup(lookup: &Lookup, snapshot: &dyn Snapshot) -> Result<Self> {
        let matches = lookup.collect(snapshot, 0, usize::MAX)?.unwrap_or_default();
        Ok(Check {
            term: None,
            lookups: 0,
            list: Some(matches.iter().map(|found| found.number).collect()),
        })
    }

    /// Returns true if an item passes.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn passes(
        &mut self,
        snapshot: &dyn Snapshot,
        number: ItemNumber,
        epk_prefix: EpkPrefix,
    ) -> Result<bool> {
        if let Some(list) = &self.list {
            return Ok(list.contains(&number));
        }
        let Some((path, value)) = &self.term else {
            return Ok(true);
        };
        self.lookups += 1;
        if self.lookups >= LOOKUPS_BEFORE_LIST && self.lookups.is_power_of_two() {
            let affordable = self.lookups.saturating_mul(ENTRIES_PER_LOOKUP);
            self.list = read_list(*path, value, snapshot, affordable.min(LIST_ITEMS_MAX))?;
        }
        has_entry(snapshot, *path, value, number, epk_prefix)
    }
}

/// Returns all items that have a term, or `None` if there are more than `items_max`.
fn read_list(
    path: PathNumber,
    value: &[u8],
    snapshot: &dyn Snapshot,
    items_max: usize,
) -> Result<Option<HashSet<ItemNumber>>> {
    let start = keys::terms(path, value);
    let range = (start.clone(), keys::after(&start));
    let mut list = HashSet::new();
    for entry in entries(snapshot, &range, Direction::Forward) {
        if list.len() == items_max {
            return Ok(None);
        }
        list.insert(entry?.number);
    }
    Ok(Some(list))
}
