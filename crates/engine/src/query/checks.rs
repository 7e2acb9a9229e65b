//! Whether an item has an index term: asked of the index one by one, or, once it pays, of the whole list in memory.
//!
//! A walk along an ORDER BY path asks the same term for many items. After [`ASKED_ONE_BY_ONE`] questions the term's list
//! is read, which costs about as much a sixteenth as asking for each of its entries; a list that is longer than
//! [`LIST_MOST`] is given up and asked on.

use crate::keys::{self, Number, PathNumber, Place};
use crate::partition::{scan, storage_failure};
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};
use std::collections::HashSet;

const ASKED_ONE_BY_ONE: usize = 32;
const LIST_MOST: usize = 16_384;

/// A term that candidates must have.
pub struct Check {
    path: PathNumber,
    value: Vec<u8>,
    asked: usize,
    list: Option<HashSet<Number>>,
}

impl Check {
    /// The term of a path and an encoded value.
    pub fn new(path: PathNumber, value: Vec<u8>) -> Self {
        Check { path, value, asked: 0, list: None }
    }

    /// Whether an item has it.
    ///
    /// # Errors
    /// What the store reports.
    pub fn holds(&mut self, snapshot: &dyn Snapshot, number: Number, place: Place) -> Result<bool> {
        if let Some(list) = &self.list {
            return Ok(list.contains(&number));
        }
        self.asked += 1;
        if self.asked == ASKED_ONE_BY_ONE {
            self.list = self.read_list(snapshot)?;
        }
        let key = keys::term(self.path, &self.value, number, place);
        Ok(snapshot.get(&key).map_err(storage_failure)?.is_some())
    }

    /// All items that have it, if they are not too many.
    fn read_list(&self, snapshot: &dyn Snapshot) -> Result<Option<HashSet<Number>>> {
        let start = keys::terms(self.path, &self.value);
        let mut list = HashSet::new();
        for entry in scan(snapshot, &(start.clone(), keys::after(&start)), Direction::Forward) {
            if list.len() == LIST_MOST {
                return Ok(None);
            }
            list.extend(keys::read_term(&entry?.0).map(|(_, number, _)| number));
        }
        Ok(Some(list))
    }
}
