//! The paths that a transaction brings, until its commit is accepted.
//!
//! Index terms refer to paths by number, and the writer gives numbers to new paths. A transaction
//! does not know yet whether it will be committed, so it refers to its new paths by *provisional*
//! numbers of its own:
//!
//! ```text
//! 0 … 2^31 - 1   numbers of the dictionary       2^31 + n   the n-th new path of the transaction
//! ```
//!
//! [`NewPaths::assign`] turns them into numbers of the dictionary, under the writer's lock and as
//! part of the commit. A path that another commit has brought meanwhile gets the number of that
//! commit. A transaction that ends without a commit drops its paths.
//!
//! Promises: nothing outside of the transaction changes before the commit is accepted; only paths
//! that the items which the transaction leaves need are committed, and they are counted by
//! [`NewPaths::rows`] and [`NewPaths::bytes`].

use super::paths::{PathIndex, PathRow, Paths, ROOT};
use super::terms::Terms;
use crate::partition::keys::PathNumber;
use orrery_model::{Error, Result, limits};

/// The first provisional number.
pub(super) const PROVISIONAL: PathNumber = 1 << 31;
/// Bytes of the key of a dictionary row.
const KEY_BYTES: usize = 5;

/// New paths of a transaction.
#[derive(Debug, Default)]
pub struct NewPaths {
    index: PathIndex,
    entries: Vec<NewPath>,
    /// Rows that the used paths need in the dictionary.
    rows: usize,
    /// Bytes of these rows.
    bytes: usize,
    /// Bytes of the names of the used paths.
    name_bytes: usize,
}

/// A new path.
#[derive(Debug)]
struct NewPath {
    /// The stored row, with the number of the parent as the transaction knows it.
    row: Vec<u8>,
    /// Index terms and paths that need the path.
    uses: u32,
}

/// Numbers of the dictionary for the new paths of a transaction.
#[derive(Debug, Default)]
pub struct AssignedPaths {
    /// The numbers by the order of the provisional ones; `None` for a path that is not used.
    numbers: Vec<Option<PathNumber>>,
    /// The rows that the dictionary lacks, in the order of their numbers, which follow the last
    /// number of the dictionary.
    pub(crate) rows: Vec<(PathNumber, Vec<u8>)>,
}

impl AssignedPaths {
    /// Returns the number of a path in the dictionary, or `None` for a provisional number whose
    /// path no item has.
    pub(crate) fn number(&self, path: PathNumber) -> Option<PathNumber> {
        match path.checked_sub(PROVISIONAL) {
            None => Some(path),
            Some(at) => *self.numbers.get(at as usize)?,
        }
    }

    /// Splits the first rows off for a commit of their own, if there are more rows or bytes than
    /// one commit should bring.
    pub(crate) fn split_off(&mut self, rows_max: usize, bytes_max: usize) -> Option<AssignedPaths> {
        let mut bytes = 0;
        let end = self.rows.iter().position(|(_, row)| {
            bytes += KEY_BYTES + row.len();
            bytes > bytes_max
        });
        let end = end.unwrap_or(self.rows.len()).clamp(1, rows_max);
        (end < self.rows.len()).then(|| AssignedPaths {
            numbers: Vec::new(),
            rows: self.rows.drain(..end).collect(),
        })
    }
}

/// The dictionary as a transaction sees it: with its own new paths.
pub struct PathNumbers<'a> {
    /// The dictionary of the partition.
    pub known: &'a Paths,
    /// The new paths of the transaction.
    pub new: &'a mut NewPaths,
}

impl PathNumbers<'_> {
    /// Returns the number of the member `name` below `parent`.
    pub(super) fn name(&mut self, parent: PathNumber, name: &str) -> PathNumber {
        self.number(&PathRow::Name(parent, name))
    }

    /// Returns the number of the elements of the array `parent`.
    pub(super) fn element(&mut self, parent: PathNumber) -> PathNumber {
        self.number(&PathRow::Element(parent))
    }

    /// Returns the number of a derived path.
    pub(super) fn derived(&mut self, text: &str) -> PathNumber {
        self.number(&PathRow::Derived(text))
    }

    /// Returns the number of a path; a provisional one if the dictionary lacks the path.
    ///
    /// A path that the transaction knows as new keeps its provisional number, also if another
    /// commit has brought the path since.
    fn number(&mut self, path: &PathRow<'_>) -> PathNumber {
        let number = self.new.index.get(path).or_else(|| self.known.get(path));
        number.unwrap_or_else(|| self.new.add(path))
    }
}

impl NewPaths {
    fn add(&mut self, path: &PathRow<'_>) -> PathNumber {
        let number = PROVISIONAL + self.entries.len() as PathNumber;
        self.index.insert(path, number);
        let row = path.write();
        self.entries.push(NewPath { row, uses: 0 });
        number
    }

    /// Returns how many rows the dictionary needs for the paths that are used.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the bytes of these rows.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts the paths of the terms of an item that the transaction leaves.
    pub(crate) fn hold(&mut self, terms: &Terms) {
        for path in terms.paths_from(PROVISIONAL) {
            self.hold_path(path);
        }
    }

    /// Takes the paths of terms out of the count again.
    pub(crate) fn release(&mut self, terms: &Terms) {
        for path in terms.paths_from(PROVISIONAL) {
            self.release_path(path);
        }
    }

    /// Takes all paths out of the count.
    pub(crate) fn release_all(&mut self) {
        for entry in &mut self.entries {
            entry.uses = 0;
        }
        (self.rows, self.bytes, self.name_bytes) = (0, 0, 0);
    }

    /// Counts a use of a path. The first use needs the path's row and its parent.
    fn hold_path(&mut self, path: PathNumber) {
        let mut next = Some(path);
        while let Some(at) = next.and_then(|path| path.checked_sub(PROVISIONAL)) {
            let entry = &mut self.entries[at as usize];
            entry.uses += 1;
            if entry.uses > 1 {
                return;
            }
            let (bytes, name_bytes, parent) = entry.facts();
            self.rows += 1;
            self.bytes += bytes;
            self.name_bytes += name_bytes;
            next = parent;
        }
    }

    /// Takes a use of a path back.
    fn release_path(&mut self, path: PathNumber) {
        let mut next = Some(path);
        while let Some(at) = next.and_then(|path| path.checked_sub(PROVISIONAL)) {
            let entry = &mut self.entries[at as usize];
            entry.uses = entry.uses.saturating_sub(1);
            if entry.uses > 0 {
                return;
            }
            let (bytes, name_bytes, parent) = entry.facts();
            self.rows -= 1;
            self.bytes -= bytes;
            self.name_bytes -= name_bytes;
            next = parent;
        }
    }

    /// Checks that the dictionary may take the paths that are used.
    ///
    /// # Errors
    /// 400 if the dictionary would have too many paths, or too many bytes of names.
    pub(crate) fn check(&self, known: &Paths) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let (paths, bytes) = known.size();
        if paths + self.rows > limits::PATHS_PER_PARTITION {
            return Err(Error::bad(format!(
                "The request brings {} property names that are new to the index of its physical \
                 partition, which has {paths} and takes at most {}.",
                self.rows,
                limits::PATHS_PER_PARTITION
            ))
            .with_help(REMEDY));
        }
        if bytes + self.name_bytes > limits::PATH_BYTES_PER_PARTITION {
            return Err(Error::bad(format!(
                "The request brings {} bytes of property names that are new to the index of its \
                 physical partition, which has {bytes} and takes at most {}.",
                self.name_bytes,
                limits::PATH_BYTES_PER_PARTITION
            ))
            .with_help(REMEDY));
        }
        Ok(())
    }

    /// Gives numbers of the dictionary to the paths that are used. The writer is locked, so that
    /// no other commit gives the same numbers.
    pub(crate) fn assign(&self, known: &Paths) -> AssignedPaths {
        let mut assigned = AssignedPaths {
            numbers: Vec::with_capacity(self.entries.len()),
            rows: Vec::with_capacity(self.rows),
        };
        let mut last = known.last();
        for entry in &self.entries {
            if entry.uses == 0 {
                assigned.numbers.push(None);
                continue;
            }
            // A used path has a parent that is used and has its number already.
            let row = PathRow::read(&entry.row).expect("written by this module");
            let parent = row.parent().and_then(|parent| assigned.number(parent));
            let row = row.below(parent.unwrap_or(ROOT));
            let number = known.get(&row).unwrap_or_else(|| {
                last += 1;
                assigned.rows.push((last, row.write()));
                last
            });
            assigned.numbers.push(Some(number));
        }
        assigned
    }
}

impl NewPath {
    /// Returns the bytes of the row and of the name, and the parent.
    fn facts(&self) -> (usize, usize, Option<PathNumber>) {
        let row = PathRow::read(&self.row).expect("written by this module");
        (KEY_BYTES + self.row.len(), row.text_bytes(), row.parent())
    }
}

/// The remedy for a request that brings too many names.
const REMEDY: &str = "Exclude the paths whose names change from item to item from the indexing \
                      policy (\"/path/*\"), or store such names as values in an array.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::policy::Policy;
    use orrery_model::json::parse;

    /// Returns the terms of an item for a transaction.
    fn terms(item: &str, known: &Paths, new: &mut NewPaths) -> Terms {
        let json = parse(item.as_bytes()).expect("JSON");
        let item = json.as_object().expect("an object");
        let mut paths = PathNumbers { known, new };
        Terms::of(item, 1, &Policy::default_policy(), true, &mut paths)
    }

    /// Adds the rows of a commit to a dictionary.
    fn commit(known: &mut Paths, assigned: &AssignedPaths) {
        for (number, row) in &assigned.rows {
            known.load(*number, row).expect("a stored row");
        }
    }

    #[test]
    fn paths_that_no_item_needs_get_no_number() {
        let mut new = NewPaths::default();
        let known = Paths::default();
        let kept = terms(r#"{"a":{"b":[1]}}"#, &known, &mut new);
        let dropped = terms(r#"{"a":{"c":1},"d":2}"#, &known, &mut new);
        new.hold(&kept);
        // `_ts`, `a`, `b` and its elements.
        assert_eq!(new.rows(), 4);
        new.hold(&dropped);
        assert_eq!(new.rows(), 6);
        new.release(&dropped);
        assert_eq!(new.rows(), 4);
        let assigned = new.assign(&known);
        let bytes: usize = assigned.rows.iter().map(|(_, row)| 5 + row.len()).sum();
        assert_eq!((assigned.rows.len(), new.bytes()), (4, bytes));
        let numbers = assigned.rows.iter().map(|(number, _)| *number);
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3, 4]);
        new.release(&kept);
        assert_eq!((new.rows(), new.bytes(), new.name_bytes), (0, 0, 0));
    }

    #[test]
    fn a_path_that_another_commit_brought_meanwhile_gets_its_number() {
        let mut known = Paths::default();
        let (mut first, mut second) = (NewPaths::default(), NewPaths::default());
        let both = r#"{"a":{"b":1}}"#;
        let before = terms(both, &known, &mut first);
        let other = terms(both, &known, &mut second);
        second.hold(&other);
        let assigned = second.assign(&known);
        commit(&mut known, &assigned);
        // The transaction sees the same terms as before, and adds one path of its own.
        let after = terms(r#"{"a":{"b":1,"c":1}}"#, &known, &mut first);
        assert_eq!(before.difference(&after).count(), 0);
        first.hold(&after);
        let assigned = first.assign(&known);
        assert_eq!(assigned.rows.len(), 1);
        commit(&mut known, &assigned);
        let mut none = NewPaths::default();
        terms(r#"{"a":{"b":1,"c":1}}"#, &known, &mut none);
        assert_eq!(none.entries.len(), 0);
        assert_eq!(known.size().0, 4);
    }

    #[test]
    fn a_path_beyond_those_that_the_dictionary_takes_is_refused_with_the_reason() {
        let mut full = Paths::default();
        for number in 1..=limits::PATHS_PER_PARTITION as PathNumber {
            let row = PathRow::Name(ROOT, &number.to_string()).write();
            full.load(number, &row).expect("a stored row");
        }
        let mut new = NewPaths::default();
        let item = terms(r#"{"1":1,"2":[]}"#, &full, &mut new);
        assert!(new.check(&full).is_ok());
        new.hold(&item);
        assert_eq!(new.rows(), 1, "`_ts` alone is new");
        let error = new.check(&full).expect_err("there are too many");
        assert_eq!(error.status(), 400);
        assert!(error.message().contains("has 500000"), "{error}");

        let mut text = Paths::default();
        let name = "n".repeat(limits::PATH_BYTES_PER_PARTITION);
        let row = PathRow::Name(ROOT, &name).write();
        text.load(1, &row).expect("a stored row");
        let error = new.check(&text).expect_err("the names are too long");
        assert!(error.message().contains("has 33554432"), "{error}");
    }
}
