//! Whether an item has an index term: asked of the index one by one, or, once it pays, of the whole list in memory.
//!
//! A walk along an ORDER BY path asks the same term for many items. Reading the term's list costs about a sixteenth as
//! much as asking for each of its entries, so after [`ASKED_ONE_BY_ONE`] questions, and each time they have doubled, as
//! much of the list is read as the questions so far have cost; if it is longer, and at most [`LIST_MOST`], they go on.

use super::lookup::{Lookup, has_entry, read_entry};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan;
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};
use std::collections::HashSet;

const ASKED_ONE_BY_ONE: usize = 16;
const READ_FOR_A_QUESTION: usize = 16;
const LIST_MOST: usize = 1 << 20;

/// What candidates must have.
pub struct Check {
    /// The term, if it is one.
    term: Option<(PathNumber, Vec<u8>)>,
    asked: usize,
    list: Option<HashSet<ItemNumber>>,
}

impl Check {
    /// To have the term of a path and an encoded value.
    pub fn new(path: PathNumber, value: Vec<u8>) -> Self {
        Check {
            term: Some((path, value)),
            asked: 0,
            list: None,
        }
    }

    /// To be among the items of a lookup.
    ///
    /// # Errors
    /// What the store reports.
    pub fn among(lookup: &Lookup, snapshot: &dyn Snapshot) -> Result<Self> {
        let hits = lookup.collect(snapshot, 0, usize::MAX)?.unwrap_or_default();
        Ok(Check {
            term: None,
            asked: 0,
            list: Some(hits.into_iter().map(|hit| hit.number).collect()),
        })
    }

    /// Whether an item has it.
    ///
    /// # Errors
    /// What the store reports.
    pub fn holds(
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
        self.asked += 1;
        if self.asked >= ASKED_ONE_BY_ONE && self.asked.is_power_of_two() {
            let most = self
                .asked
                .saturating_mul(READ_FOR_A_QUESTION)
                .min(LIST_MOST);
            self.list = read_list(*path, value, snapshot, most)?;
        }
        has_entry(snapshot, *path, value, number, epk_prefix)
    }
}

/// All items that have a term, if they are not more than `most`.
fn read_list(
    path: PathNumber,
    value: &[u8],
    snapshot: &dyn Snapshot,
    most: usize,
) -> Result<Option<HashSet<ItemNumber>>> {
    let start = keys::terms(path, value);
    let mut list = HashSet::new();
    for entry in scan(
        snapshot,
        &(start.clone(), keys::after(&start)),
        Direction::Forward,
    ) {
        if list.len() == most {
            return Ok(None);
        }
        list.insert(read_entry(&entry?.0)?.1.number);
    }
    Ok(Some(list))
}
