//! The dictionary of paths: every path that some item of the partition has, with a number for index keys.
//!
//! Paths form a tree; a path's number is that of its node. The root is 0 and stands for the item itself. Numbers are
//! given in the order in which paths are first seen and are never used again.

use crate::keys::PathNumber;
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
    count: PathNumber,
    unsaved: Vec<(PathNumber, Vec<u8>)>,
}

impl Paths {
    /// Takes in a stored row.
    pub fn load(&mut self, number: PathNumber, row: &[u8]) -> Option<()> {
        let parent = PathNumber::from_be_bytes(row.get(..4)?.try_into().ok()?);
        match row.get(4..)? {
            [] => _ = self.elements.insert(parent, number),
            [b'/', name @ ..] => _ = self.names.insert((parent, String::from_utf8(name.to_vec()).ok()?), number),
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
        let number = self.new_number(parent, Some(name));
        self.names.insert((parent, name.to_owned()), number);
        number
    }

    /// The number of the elements of array `parent`; a new one if need be.
    pub fn element(&mut self, parent: PathNumber) -> PathNumber {
        if let Some(&number) = self.elements.get(&parent) {
            return number;
        }
        let number = self.new_number(parent, None);
        self.elements.insert(parent, number);
        number
    }

    fn new_number(&mut self, parent: PathNumber, name: Option<&str>) -> PathNumber {
        self.count += 1;
        self.unsaved.push((self.count, row(parent, name)));
        self.count
    }

    /// Says which paths the store has. All others go along with the next commit, whatever became of an earlier one.
    pub fn saved_are(&mut self, stored: &Paths) {
        let names = self.names.iter().map(|((parent, name), number)| (*number, row(*parent, Some(name))));
        let elements = self.elements.iter().map(|(parent, number)| (*number, row(*parent, None)));
        let known: HashSet<PathNumber> = stored.names.values().chain(stored.elements.values()).copied().collect();
        let mut unsaved: Vec<_> = names.chain(elements).filter(|(number, _)| !known.contains(number)).collect();
        unsaved.sort_unstable();
        self.unsaved = unsaved;
    }

    /// Rows that no commit has carried yet.
    pub fn take_unsaved(&mut self) -> Vec<(PathNumber, Vec<u8>)> {
        std::mem::take(&mut self.unsaved)
    }
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
        assert_eq!(paths.name(ROOT, "a"), a);
        let mut again = Paths::default();
        for (number, row) in paths.take_unsaved() {
            again.load(number, &row).expect("a row of ours");
        }
        assert_eq!(again.find(&[Step::Name("a".into()), Step::Element, Step::Name("b".into())]), Some(b));
        assert_eq!(again.find(&[Step::Name("b".into())]), None);
        assert!(again.name(ROOT, "c") > b);
        assert!(paths.take_unsaved().is_empty());
    }

    #[test]
    fn paths_that_the_store_lacks_go_along_again() {
        let mut paths = Paths::default();
        let a = paths.name(ROOT, "a");
        let rows = paths.take_unsaved();
        let b = paths.element(a);
        let mut stored = Paths::default();
        paths.saved_are(&stored);
        assert_eq!(paths.take_unsaved().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [a, b]);
        rows.iter().for_each(|(number, row)| stored.load(*number, row).expect("a row of ours"));
        paths.saved_are(&stored);
        assert_eq!(paths.take_unsaved().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [b]);
    }
}
