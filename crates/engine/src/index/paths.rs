//! The dictionary of paths: every path that some item of the partition has, with a number for index
//! keys.
//!
//! Paths form a tree, and the number of a path is that of its node. The root is 0 and stands for
//! the item itself. Numbers are assigned in the order in which paths are first seen and are never
//! reused. *Derived* paths stand outside of the tree: the values of a composite or spatial index
//! are computed from other values, and the text of the index is the name of its path.

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

/// Number of the path of the item itself.
pub(crate) const ROOT: PathNumber = 0;

/// A dictionary of paths.
#[derive(Debug, Default)]
pub struct Paths {
    names: HashMap<(PathNumber, String), PathNumber>,
    elements: HashMap<PathNumber, PathNumber>,
    derived: HashMap<String, PathNumber>,
    /// The largest number in use.
    last: PathNumber,
    unsaved: Vec<(PathNumber, Vec<u8>)>,
}

/// A stored row: the number of the parent, and the kind of the path below it.
enum PathRow<'a> {
    Element(PathNumber),
    Name(PathNumber, &'a str),
    Derived(&'a str),
}

impl<'a> PathRow<'a> {
    /// Reads a stored row, or returns `None` for a damaged row.
    fn read(row: &'a [u8]) -> Option<Self> {
        let parent = PathNumber::from_be_bytes(row.get(..4)?.try_into().ok()?);
        match row.get(4..)? {
            [] => Some(PathRow::Element(parent)),
            [b'+', text @ ..] => Some(PathRow::Derived(std::str::from_utf8(text).ok()?)),
            [b'/', name @ ..] => Some(PathRow::Name(parent, std::str::from_utf8(name).ok()?)),
            _ => None,
        }
    }

    /// Returns the stored bytes.
    fn write(&self) -> Vec<u8> {
        match self {
            PathRow::Element(parent) => parent.to_be_bytes().to_vec(),
            PathRow::Name(parent, name) => {
                [&parent.to_be_bytes()[..], b"/", name.as_bytes()].concat()
            }
            PathRow::Derived(text) => [&ROOT.to_be_bytes()[..], b"+", text.as_bytes()].concat(),
        }
    }
}

impl Paths {
    /// Adds a stored row. Returns `None` if the row is damaged.
    pub fn load(&mut self, number: PathNumber, row: &[u8]) -> Option<()> {
        match PathRow::read(row)? {
            PathRow::Element(parent) => {
                self.elements.insert(parent, number);
            }
            PathRow::Name(parent, name) => {
                self.names.insert((parent, name.to_owned()), number);
            }
            PathRow::Derived(text) => {
                self.derived.insert(text.to_owned(), number);
            }
        }
        self.last = self.last.max(number);
        Some(())
    }

    /// Returns the largest number in use.
    pub fn last(&self) -> PathNumber {
        self.last
    }

    /// Returns the number of a step below `parent`, if some item has the path.
    pub fn step(&self, parent: PathNumber, step: &Step) -> Option<PathNumber> {
        match step {
            Step::Name(name) => self.names.get(&(parent, name.clone())).copied(),
            Step::Element => self.elements.get(&parent).copied(),
        }
    }

    /// Returns the number of a whole path, if some item has the path.
    pub fn find(&self, steps: &[Step]) -> Option<PathNumber> {
        let mut number = ROOT;
        for step in steps {
            number = self.step(number, step)?;
        }
        Some(number)
    }

    /// Returns the number of the member `name` below `parent`. Assigns a number to a new path.
    pub fn name(&mut self, parent: PathNumber, name: &str) -> PathNumber {
        if let Some(&number) = self.names.get(&(parent, name.to_owned())) {
            return number;
        }
        let number = self.assign_number(&PathRow::Name(parent, name));
        self.names.insert((parent, name.to_owned()), number);
        number
    }

    /// Returns the number of the elements of the array `parent`. Assigns a number to a new path.
    pub fn element(&mut self, parent: PathNumber) -> PathNumber {
        if let Some(&number) = self.elements.get(&parent) {
            return number;
        }
        let number = self.assign_number(&PathRow::Element(parent));
        self.elements.insert(parent, number);
        number
    }

    /// Returns the number of a derived path, if some item has a value there.
    pub fn find_derived(&self, text: &str) -> Option<PathNumber> {
        self.derived.get(text).copied()
    }

    /// Returns the number of a derived path. Assigns a number to a new path.
    pub fn derived(&mut self, text: &str) -> PathNumber {
        if let Some(&number) = self.derived.get(text) {
            return number;
        }
        let number = self.assign_number(&PathRow::Derived(text));
        self.derived.insert(text.to_owned(), number);
        number
    }

    /// Returns the number in this dictionary of a path that another dictionary stored as `row`.
    /// `parent` translates the number of the path's parent. Returns `None` if the row is damaged or
    /// the parent is unknown.
    pub fn import(
        &mut self,
        row: &[u8],
        parent: impl FnOnce(PathNumber) -> Option<PathNumber>,
    ) -> Option<PathNumber> {
        match PathRow::read(row)? {
            PathRow::Element(theirs) => Some(self.element(parent(theirs)?)),
            PathRow::Name(theirs, name) => Some(self.name(parent(theirs)?, name)),
            PathRow::Derived(text) => Some(self.derived(text)),
        }
    }

    fn assign_number(&mut self, row: &PathRow<'_>) -> PathNumber {
        self.last += 1;
        self.unsaved.push((self.last, row.write()));
        self.last
    }

    /// Returns true if each path of another dictionary has the same number here.
    pub fn has_all_of(&self, other: &Paths) -> bool {
        let mut names = other.names.iter();
        let mut elements = other.elements.iter();
        let mut derived = other.derived.iter();
        names.all(|(path, number)| self.names.get(path) == Some(number))
            && elements.all(|(parent, number)| self.elements.get(parent) == Some(number))
            && derived.all(|(text, number)| self.derived.get(text) == Some(number))
    }

    /// Sets the paths that the store has. All other paths are written with the next commit, even if
    /// an earlier commit took them and failed.
    pub fn set_saved(&mut self, stored: &Paths) {
        let mut saved: HashSet<PathNumber> = HashSet::new();
        saved.extend(stored.names.values());
        saved.extend(stored.elements.values());
        saved.extend(stored.derived.values());

        let mut rows = Vec::new();
        for ((parent, name), number) in &self.names {
            rows.push((*number, PathRow::Name(*parent, name)));
        }
        for (parent, number) in &self.elements {
            rows.push((*number, PathRow::Element(*parent)));
        }
        for (text, number) in &self.derived {
            rows.push((*number, PathRow::Derived(text)));
        }

        let mut unsaved = Vec::new();
        for (number, row) in rows {
            if !saved.contains(&number) {
                unsaved.push((number, row.write()));
            }
        }
        unsaved.sort_unstable();
        self.unsaved = unsaved;
    }

    /// Removes and returns the rows that no commit has taken.
    pub fn take_unsaved(&mut self) -> Vec<(PathNumber, Vec<u8>)> {
        std::mem::take(&mut self.unsaved)
    }
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
        let mut reloaded = Paths::default();
        for (number, row) in paths.take_unsaved() {
            reloaded.load(number, &row).expect("a stored row");
        }
        assert_eq!(
            reloaded.find(&[
                Step::Name("a".into()),
                Step::Element,
                Step::Name("b".into())
            ]),
            Some(b)
        );
        assert_eq!(reloaded.find(&[Step::Name("b".into())]), None);
        assert_eq!(reloaded.find_derived("/a ASC, /b DESC"), Some(composite));
        assert!(reloaded.name(ROOT, "c") > composite);
        assert!(paths.take_unsaved().is_empty());
    }

    #[test]
    fn paths_of_another_dictionary_are_imported() {
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
                .import(&row, |parent| map.get(&parent).copied())
                .expect("a stored row");
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
            ours.import(b"\0\0\0\x09/x", |parent| map.get(&parent).copied()),
            None
        );
    }

    #[test]
    fn paths_that_the_store_lacks_are_written_again() {
        let mut paths = Paths::default();
        let a = paths.name(ROOT, "a");
        let rows = paths.take_unsaved();
        let b = paths.element(a);
        let mut stored = Paths::default();
        paths.set_saved(&stored);
        assert_eq!(
            paths
                .take_unsaved()
                .iter()
                .map(|(number, _)| *number)
                .collect::<Vec<_>>(),
            [a, b]
        );
        rows.iter()
            .for_each(|(number, row)| stored.load(*number, row).expect("a stored row"));
        paths.set_saved(&stored);
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
