//! The check of quantised vectors and their graphs: each vector has a code, or a mark, or is not
//! reached yet; each code is that of a vector, or of a marked one; each list is that of a code.

use super::findings::{Check, PartitionFindings, Watch};
use crate::errors::{damaged, storage_failure};
use crate::index::approximate::{
    ApproximateState, ChangeMark, Progress, VectorCode, read_quantiser,
};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan;
use orrery_ann::{ENTRY, read_list};
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};
use std::collections::HashSet;

/// Checks every index with quantised vectors.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub(super) fn check(
    snapshot: &dyn Snapshot,
    found: &mut PartitionFindings<'_>,
    watch: &mut Watch<'_>,
) -> Result<()> {
    let mut paths = HashSet::new();
    for row in scan(snapshot, &keys::approximate_states(), Direction::Forward) {
        let (key, value) = row?;
        let path = keys::read_approximate_state(&key).ok_or_else(|| damaged("a state"))?;
        let state = ApproximateState::of_row(&value)?;
        paths.insert(path);
        // The rows of an index that is no longer wanted are on their way out.
        if state.progress != Progress::Removing {
            Index::read(snapshot, path, state)?.check(found, watch)?;
        }
    }
    // Rows of an index without a state: the first row of each index is looked at.
    for (mut from, end) in keys::of_quantised_vectors() {
        while let Some(row) = scan(snapshot, &(from, end.clone()), Direction::Forward).next() {
            let (key, _) = row?;
            let path = keys::path_of_quantised(&key).ok_or_else(|| damaged("a code"))?;
            if !paths.contains(&path) {
                let detail = "the row is of an index without a state";
                found.add(Check::QuantisedVectors, &key, detail);
            }
            from = keys::after(key.get(..5).unwrap_or(&key));
        }
    }
    Ok(())
}

/// The quantised vectors of an index.
struct Index<'a> {
    snapshot: &'a dyn Snapshot,
    path: PathNumber,
    state: ApproximateState,
    /// The items of marked vectors.
    marked: HashSet<ItemNumber>,
    /// The items that have a code, ascending.
    coded: Vec<ItemNumber>,
    code_bytes: usize,
}

impl<'a> Index<'a> {
    fn read(
        snapshot: &'a dyn Snapshot,
        path: PathNumber,
        state: ApproximateState,
    ) -> Result<Index<'a>> {
        let code_bytes = read_quantiser(snapshot, path)?.code_bytes();
        let mut marked = HashSet::new();
        for row in scan(
            snapshot,
            &keys::changed_vectors(path, 0),
            Direction::Forward,
        ) {
            let (key, value) = row?;
            marked.insert(ChangeMark::read(&key, &value)?.number);
        }
        Ok(Index {
            snapshot,
            path,
            state,
            marked,
            coded: Vec::new(),
            code_bytes,
        })
    }

    fn check(mut self, found: &mut PartitionFindings<'_>, watch: &mut Watch<'_>) -> Result<()> {
        self.check_codes(found, watch)?;
        self.check_vectors(found, watch)?;
        self.check_lists(found, watch)
    }

    /// Checks that each code is that of a vector.
    fn check_codes(
        &mut self,
        found: &mut PartitionFindings<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        for row in scan(self.snapshot, &keys::codes(self.path), Direction::Forward) {
            let (key, value) = row?;
            if !watch.read_again(&key, &value) {
                return Ok(());
            }
            let number = keys::read_vector_number(&key).ok_or_else(|| damaged("a code"))?;
            let code = VectorCode::read(&value, self.code_bytes)?;
            let vector = keys::vector(self.path, code.epk_prefix, number);
            let has_vector = self
                .snapshot
                .get(&vector)
                .map_err(storage_failure)?
                .is_some();
            if !has_vector && !self.marked.contains(&number) {
                let detail = format!("the item number {number} of a code has no vector");
                found.add(Check::QuantisedVectors, &key, detail);
            }
            self.coded.push(number);
        }
        Ok(())
    }

    /// Checks that each vector that the task has reached has a code.
    fn check_vectors(
        &self,
        found: &mut PartitionFindings<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        for row in scan(
            self.snapshot,
            &keys::vectors(self.path, None),
            Direction::Forward,
        ) {
            let (key, value) = row?;
            if !watch.read_again(&key, &value) {
                return Ok(());
            }
            let place = keys::read_vector(&key).ok_or_else(|| damaged("a vector"))?;
            let is_known = !self.is_reached(place)
                || self.marked.contains(&place.1)
                || self.coded.binary_search(&place.1).is_ok();
            if !is_known {
                let detail = format!("the vector of item number {} has no code", place.1);
                found.add(Check::QuantisedVectors, &key, detail);
            }
        }
        Ok(())
    }

    fn is_reached(&self, place: (EpkPrefix, ItemNumber)) -> bool {
        match self.state.progress {
            Progress::From(next) => place < next,
            Progress::Complete | Progress::Removing => true,
        }
    }

    /// Checks that each list of neighbours is that of an item with a code, or of an entry. A list
    /// may name items that are gone: a search passes over them.
    fn check_lists(&self, found: &mut PartitionFindings<'_>, watch: &mut Watch<'_>) -> Result<()> {
        for row in scan(
            self.snapshot,
            &keys::all_neighbours(self.path),
            Direction::Forward,
        ) {
            let (key, value) = row?;
            if !watch.read_again(&key, &value) {
                return Ok(());
            }
            read_list(&value).ok_or_else(|| damaged("a list of neighbours"))?;
            let is_of_entry = key.starts_with(&keys::neighbours(self.path, ENTRY));
            let number = keys::read_vector_number(&key).unwrap_or(ENTRY);
            if !is_of_entry && self.coded.binary_search(&number).is_err() {
                let detail = format!("the item number {number} has a list and no code");
                found.add(Check::QuantisedVectors, &key, detail);
            }
        }
        Ok(())
    }
}
