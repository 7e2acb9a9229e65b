//! The dictionary of paths: every path that some item of the partition has, with a number for index keys.
//!
//! Paths form a tree; a path's number is that of its node. The root is 0 and stands for the item itself. Numbers are
//! given in the order in which paths are first seen and are never used again. Beside the tree stand *derived* paths, whose
//! values are made of several others: composite indexes, by their text.

use crate::partition::keys::PathNumber;
use std::collections::{HashMap, HashSet};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A member's name.
    Name(String),
    /// Any element of an array.
    Element,
}

/// The path of the item itself.
pub const ROOT: PathNumber = 0;

/// The tree of paths.
#[derive(Debug, Default)]
pub struct Paths {
    names: HashMap<(PathNumber, String), PathNumber>,
    elements: HashMap<PathNumber, PathNumber>,
    derived: HashMap<String, PathNumber>,
    count: PathNumber,
    unsaved: Vec<(PathNumber, Vec<u8>)>,
}

impl Paths {
    /// Takes in a stored row.
    pub fn load(&mut self, number: PathNumber, row: &[u8]) -> Option<()> {
        let parent = PathNumber::from_be_bytes(row.get(..4)?.try_into().ok()?);
        match row.get(4..)? {
            [] => _ = self.elements.insert(parent, number),
            [b'+', text @ ..] => {
                _ = self
                    .derived
                    .insert(String::from_utf8(text.to_vec()).ok()?, number)
            }
            [b'/', name @ ..] => {
                _ = self
                    .names
                    .insert((parent, String::from_utf8(name.to_vec()).ok()?), number)
            }
            _ => return None,
        }
        self.count = self.count.max(number);
        Some(())
    }

    /// The number of a step below `parent`, if any item has it.
    pub fn step(&self, parent: PathNumber, step: &Step) -> Option<PathNumber> {
        match step {
            Step::Name(name) => self.names.get(&(parent, name.clone())).copied(),
            Step::Element => self.elements.get(&parent).copied(),
        }
    }

    /// The number of a whole path, if any item has it.
    pub fn find(&self, steps: &[Step]) -> Option<PathNumber> {
        steps.iter().try_fold(ROOT, |at, step| self.step(at, step))
    }

    /// The number of member `name` below `parent`; a new one if need be.
    pub fn name(&mut self, parent: PathNumber, name: &str) -> PathNumber {
        if let Some(&number) = self.names.get(&(parent, name.to_owned())) {
            return number;
        }
        let number = self.new_number(row(parent, Some(name)));
        self.names.insert((parent, name.to_owned()), number);
        number
    }

    /// The number of the elements of array `parent`; a new one if need be.
    pub fn element(&mut self, parent: PathNumber) -> PathNumber {
        if let Some(&number) = self.elements.get(&parent) {
            return number;
        }
        let number = self.new_number(row(parent, None));
        self.elements.insert(parent, number);
        number
    }

    /// The number of a derived path, if any item has a value there.
    pub fn find_derived(&self, text: &str) -> Option<PathNumber> {
        self.derived.get(text).copied()
    }

    /// The number of a derived path; a new one if need be.
    pub fn derived(&mut self, text: &str) -> PathNumber {
        if let Some(&number) = self.derived.get(text) {
            return number;
        }
        let number = self.new_number(derived_row(text));
        self.derived.insert(text.to_owned(), number);
        number
    }

    /// The number here of a path that another dictionary stored as `row`; `parent` says what its parent's is here.
    pub fn adopt(
        &mut self,
        row: &[u8],
        parent: impl FnOnce(PathNumber) -> Option<PathNumber>,
    ) -> Option<PathNumber> {
        let theirs = PathNumber::from_be_bytes(row.get(..4)?.try_into().ok()?);
        match row.get(4..)? {
            [] => Some(self.element(parent(theirs)?)),
            [b'+', text @ ..] => Some(self.derived(std::str::from_utf8(text).ok()?)),
            [b'/', name @ ..] => Some(self.name(parent(theirs)?, std::str::from_utf8(name).ok()?)),
            _ => None,
        }
    }

    fn new_number(&mut self, row: Vec<u8>) -> PathNumber {
        self.count += 1;
        self.unsaved.push((self.count, row));
        self.count
    }

    /// Says which paths the store has. All others go along with the next commit, whatever became of an earlier one.
    pub fn saved_are(&mut self, stored: &Paths) {
        let names = self
            .names
            .iter()
            .map(|((parent, name), number)| (*number, row(*parent, Some(name))));
        let elements = self
            .elements
            .iter()
            .map(|(parent, number)| (*number, row(*parent, None)));
        let derived = self
            .derived
            .iter()
            .map(|(text, number)| (*number, derived_row(text)));
        let known = stored
            .names
            .values()
            .chain(stored.elements.values())
            .chain(stored.derived.values());
        let known: HashSet<PathNumber> = known.copied().collect();
        let mut unsaved: Vec<_> = names
            .chain(elements)
            .chain(derived)
            .filter(|(number, _)| !known.contains(number))
            .collect();
        unsaved.sort_unstable();
        self.unsaved = unsaved;
    }

    /// Rows that no commit has carried yet.
    pub fn take_unsaved(&mut self) -> Vec<(PathNumber, Vec<u8>)> {
        std::mem::take(&mut self.unsaved)
    }
}

fn derived_row(text: &str) -> Vec<u8> {
    [&ROOT.to_be_bytes()[..], b"+", text.as_bytes()].concat()
}

/// The stored row of a path.
fn row(parent: PathNumber, name: Option<&str>) -> Vec<u8> {
    let mut row = parent.to_be_bytes().to_vec();
    if let Some(name) = name {
        row.push(b'/');
        row.extend_from_slice(name.as_bytes());
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_keep_their_numbers_through_a_reload() {
        let mut paths = Paths::default();
        let a = paths.name(ROOT, "a");
        let element = paths.element(a);
        let b = paths.name(element, "b");
        let composite = paths.derived("/a ASC, /b DESC");
        assert_eq!(
            (paths.name(ROOT, "a"), paths.derived("/a ASC, /b DESC")),
            (a, composite)
        );
        let mut again = Paths::default();
        for (number, row) in paths.take_unsaved() {
            again.load(number, &row).expect("a row of ours");
        }
        assert_eq!(
            again.find(&[
                Step::Name("a".into()),
                Step::Element,
                Step::Name("b".into())
            ]),
            Some(b)
        );
        assert_eq!(again.find(&[Step::Name("b".into())]), None);
        assert_eq!(again.find_derived("/a ASC, /b DESC"), Some(composite));
        assert!(again.name(ROOT, "c") > composite);
        assert!(paths.take_unsaved().is_empty());
    }

    #[test]
    fn paths_of_another_dictionary_are_adopted() {
        let mut theirs = Paths::default();
        theirs.name(ROOT, "a");
        let b = theirs.name(ROOT, "b");
        theirs.element(b);
        theirs.derived("/a ASC");
        let mut ours = Paths::default();
        ours.name(ROOT, "b");
        let mut map = HashMap::from([(ROOT, ROOT)]);
        for (number, row) in theirs.take_unsaved() {
            let here = ours
                .adopt(&row, |parent| map.get(&parent).copied())
                .expect("a row of theirs");
            map.insert(number, here);
        }
        assert_eq!(
            ours.find(&[Step::Name("b".into()), Step::Element])
                .map(|n| map.values().any(|m| *m == n)),
            Some(true)
        );
        assert_eq!(ours.find(&[Step::Name("a".into())]), map.get(&1).copied());
        assert!(ours.find_derived("/a ASC").is_some());
        assert_eq!(
            ours.adopt(b"\0\0\0\x09/x", |parent| map.get(&parent).copied()),
            None
        );
    }

    #[test]
    fn paths_that_the_store_lacks_go_along_again() {
        let mut paths = Paths::default();
        let a = paths.name(ROOT, "a");
        let rows = paths.take_unsaved();
        let b = paths.element(a);
        let mut stored = Paths::default();
        paths.saved_are(&stored);
        assert_eq!(
            paths
                .take_unsaved()
                .iter()
                .map(|(number, _)| *number)
                .collect::<Vec<_>>(),
            [a, b]
        );
        rows.iter()
            .for_each(|(number, row)| stored.load(*number, row).expect("a row of ours"));
        paths.saved_are(&stored);
        assert_eq!(
            paths
                .take_unsaved()
                .iter()
                .map(|(number, _)| *number)
                .collect::<Vec<_>>(),
            [b]
        );
    }
}
