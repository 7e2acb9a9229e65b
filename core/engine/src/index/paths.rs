//! The dictionary of paths: every path that some item of the partition has, with a number for index
//! keys.
//!
//! Paths form a tree, and the number of a path is that of its node. The root is 0 and stands for
//! the item itself. Numbers are assigned in the order in which paths are first committed. *Derived*
//! paths stand outside of the tree: the values of a composite or spatial index are computed from
//! other values, and the text of the index is the name of its path.
//!
//! Promises: the dictionary of a writer has the paths of accepted commits and no others. The paths
//! that a transaction brings are in `new_paths.rs` until its commit is accepted.

use crate::partition::keys::PathNumber;
use orrery_storage::Limits;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

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

/// Bytes of a stored row before the name or text of its path: the parent and the kind.
const ROW_HEAD_BYTES: usize = 5;
/// Bytes of the longest name that a row can hold. A longer one is not indexed, and a query for its
/// path reads the items.
const NAME_BYTES: usize = Limits::ENVELOPE.value_bytes - ROW_HEAD_BYTES;

/// Returns true if the index can have a path with this name.
pub(crate) fn is_indexable(name: &str) -> bool {
    name.len() <= NAME_BYTES
}

/// A dictionary of paths.
#[derive(Debug, Default)]
pub struct Paths {
    index: PathIndex,
    /// The largest number in use.
    last: PathNumber,
}

/// A path below its parent: the content of a stored row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathRow<'a> {
    Element(PathNumber),
    Name(PathNumber, &'a str),
    Derived(&'a str),
}

/// Returns the steps of a path that has only names.
pub(crate) fn steps_of(names: &[String]) -> Vec<Step> {
    names.iter().cloned().map(Step::Name).collect()
}

impl<'a> PathRow<'a> {
    /// Reads a stored row, or returns `None` for a damaged row.
    pub(super) fn read(row: &'a [u8]) -> Option<Self> {
        let parent = PathNumber::from_be_bytes(row.get(..4)?.try_into().ok()?);
        match row.get(4..)? {
            [] => Some(PathRow::Element(parent)),
            [b'+', text @ ..] => Some(PathRow::Derived(std::str::from_utf8(text).ok()?)),
            [b'/', name @ ..] => Some(PathRow::Name(parent, std::str::from_utf8(name).ok()?)),
            _ => None,
        }
    }

    /// Returns the stored bytes.
    pub(super) fn write(&self) -> Vec<u8> {
        match self {
            PathRow::Element(parent) => parent.to_be_bytes().to_vec(),
            PathRow::Name(parent, name) => {
                [&parent.to_be_bytes()[..], b"/", name.as_bytes()].concat()
            }
            PathRow::Derived(text) => [&ROOT.to_be_bytes()[..], b"+", text.as_bytes()].concat(),
        }
    }

    /// Returns the number of the parent; derived paths have none.
    pub(super) fn parent(&self) -> Option<PathNumber> {
        match self {
            PathRow::Element(parent) | PathRow::Name(parent, _) => Some(*parent),
            PathRow::Derived(_) => None,
        }
    }

    /// Returns the same step below another parent.
    pub(super) fn below(self, parent: PathNumber) -> PathRow<'a> {
        match self {
            PathRow::Element(_) => PathRow::Element(parent),
            PathRow::Name(_, name) => PathRow::Name(parent, name),
            PathRow::Derived(text) => PathRow::Derived(text),
        }
    }

    /// Returns the bytes of the name or text.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            PathRow::Element(_) => 0,
            PathRow::Name(_, text) | PathRow::Derived(text) => text.len(),
        }
    }
}

/// A member's name below a parent, as a key of a map.
#[derive(Debug, PartialEq, Eq)]
struct NameKey {
    parent: PathNumber,
    name: Box<str>,
}

/// The borrowed form of a [`NameKey`], so that a look-up copies no name.
trait NameOf {
    fn parts(&self) -> (PathNumber, &str);
}

impl NameOf for NameKey {
    fn parts(&self) -> (PathNumber, &str) {
        (self.parent, &self.name)
    }
}

impl NameOf for (PathNumber, &str) {
    fn parts(&self) -> (PathNumber, &str) {
        *self
    }
}

impl Hash for NameKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl<'a> Borrow<dyn NameOf + 'a> for NameKey {
    fn borrow(&self) -> &(dyn NameOf + 'a) {
        self
    }
}

impl Hash for dyn NameOf + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for dyn NameOf + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn NameOf + '_ {}

/// Numbers by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PathIndex {
    names: HashMap<NameKey, PathNumber>,
    elements: HashMap<PathNumber, PathNumber>,
    derived: HashMap<Box<str>, PathNumber>,
    /// Bytes of all names and texts.
    text_bytes: usize,
}

impl PathIndex {
    /// Returns the number of a path.
    pub(super) fn get(&self, path: &PathRow<'_>) -> Option<PathNumber> {
        match path {
            PathRow::Name(parent, name) => {
                self.names.get(&(*parent, *name) as &dyn NameOf).copied()
            }
            PathRow::Element(parent) => self.elements.get(parent).copied(),
            PathRow::Derived(text) => self.derived.get(*text).copied(),
        }
    }

    /// Adds a path that is not there yet.
    pub(super) fn insert(&mut self, path: &PathRow<'_>, number: PathNumber) {
        self.text_bytes += path.text_bytes();
        match path {
            PathRow::Name(parent, name) => {
                let key = NameKey {
                    parent: *parent,
                    name: (*name).into(),
                };
                self.names.insert(key, number);
            }
            PathRow::Element(parent) => {
                self.elements.insert(*parent, number);
            }
            PathRow::Derived(text) => {
                self.derived.insert((*text).into(), number);
            }
        }
    }

    /// Removes a path.
    fn remove(&mut self, path: &PathRow<'_>) {
        let removed = match path {
            PathRow::Name(parent, name) => self.names.remove(&(*parent, *name) as &dyn NameOf),
            PathRow::Element(parent) => self.elements.remove(parent),
            PathRow::Derived(text) => self.derived.remove(*text),
        };
        if removed.is_some() {
            self.text_bytes -= path.text_bytes();
        }
    }

    fn count(&self) -> usize {
        self.names.len() + self.elements.len() + self.derived.len()
    }
}

impl Paths {
    /// Adds a stored row. Returns `None` if the row is damaged.
    pub fn load(&mut self, number: PathNumber, row: &[u8]) -> Option<()> {
        self.index.insert(&PathRow::read(row)?, number);
        self.last = self.last.max(number);
        Some(())
    }

    /// Returns the largest number in use.
    pub fn last(&self) -> PathNumber {
        self.last
    }

    /// Returns how many paths there are, and the bytes of their names.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.index.count(), self.index.text_bytes)
    }

    /// Returns the number of a path.
    pub(super) fn get(&self, path: &PathRow<'_>) -> Option<PathNumber> {
        self.index.get(path)
    }

    /// Returns the number of a step below `parent`, if some item has the path.
    pub fn step(&self, parent: PathNumber, step: &Step) -> Option<PathNumber> {
        match step {
            Step::Name(name) => self.index.get(&PathRow::Name(parent, name)),
            Step::Element => self.index.get(&PathRow::Element(parent)),
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

    /// Returns the number of a derived path, if some item has a value there.
    pub fn find_derived(&self, text: &str) -> Option<PathNumber> {
        self.index.get(&PathRow::Derived(text))
    }

    /// Returns the number in this dictionary of a path that another dictionary stored as `row`,
    /// and the row to store here if the path is new. `parent` translates the number of the path's
    /// parent. Returns `None` if the row is damaged or the parent is unknown.
    pub fn import(
        &mut self,
        row: &[u8],
        parent: impl FnOnce(PathNumber) -> Option<PathNumber>,
    ) -> Option<(PathNumber, Option<Vec<u8>>)> {
        let theirs = PathRow::read(row)?;
        let ours = match theirs.parent() {
            Some(number) => theirs.below(parent(number)?),
            None => theirs,
        };
        if let Some(number) = self.index.get(&ours) {
            return Some((number, None));
        }
        self.last += 1;
        self.index.insert(&ours, self.last);
        Some((self.last, Some(ours.write())))
    }

    /// Removes the newest paths again, whose commit was refused. `rows` are their stored rows.
    pub(crate) fn take_back(&mut self, rows: &[(PathNumber, Vec<u8>)]) {
        for (number, row) in rows {
            if let Some(path) = PathRow::read(row) {
                self.index.remove(&path);
            }
            self.last = self.last.min(number - 1);
        }
    }

    /// Returns true if another dictionary has the same paths with the same numbers.
    pub(crate) fn is_same(&self, other: &Paths) -> bool {
        self.last == other.last && self.index == other.index
    }

    /// Returns all paths as stored rows, in the order of their numbers.
    pub(crate) fn rows(&self) -> Vec<(PathNumber, Vec<u8>)> {
        let mut rows = Vec::with_capacity(self.index.count());
        for (key, number) in &self.index.names {
            rows.push((*number, PathRow::Name(key.parent, &key.name).write()));
        }
        for (parent, number) in &self.index.elements {
            rows.push((*number, PathRow::Element(*parent).write()));
        }
        for (text, number) in &self.index.derived {
            rows.push((*number, PathRow::Derived(text).write()));
        }
        rows.sort_unstable();
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a dictionary of paths given in the order of their numbers.
    fn dictionary(rows: &[PathRow<'_>]) -> Paths {
        let mut paths = Paths::default();
        for (row, number) in rows.iter().zip(1..) {
            paths.load(number, &row.write()).expect("a stored row");
        }
        paths
    }

    fn name(text: &str) -> Step {
        Step::Name(text.to_owned())
    }

    const ROWS: &[PathRow<'_>] = &[
        PathRow::Name(ROOT, "a"),
        PathRow::Element(1),
        PathRow::Name(2, "b"),
        PathRow::Derived("/a ASC, /b DESC"),
    ];

    #[test]
    fn paths_are_found_as_they_were_stored() {
        let paths = dictionary(ROWS);
        assert_eq!(paths.find(&[name("a"), Step::Element, name("b")]), Some(3));
        assert_eq!(paths.find(&[name("b")]), None);
        assert_eq!(paths.find_derived("/a ASC, /b DESC"), Some(4));
        assert_eq!((paths.last(), paths.size()), (4, (4, 1 + 1 + 15)));
        let again: Vec<_> = ROWS.iter().map(PathRow::write).collect();
        let rows = paths.rows().into_iter().map(|(_, row)| row);
        assert_eq!(rows.collect::<Vec<_>>(), again);
    }

    #[test]
    fn paths_that_are_taken_back_leave_nothing() {
        let mut paths = dictionary(ROWS);
        let added = [
            (5, PathRow::Name(3, "new").write()),
            (6, PathRow::Element(5).write()),
        ];
        for (number, row) in &added {
            paths.load(*number, row).expect("a stored row");
        }
        assert!(!paths.is_same(&dictionary(ROWS)));
        paths.take_back(&added);
        assert!(paths.is_same(&dictionary(ROWS)));
    }

    #[test]
    fn paths_of_another_dictionary_are_imported() {
        let theirs = dictionary(&[
            PathRow::Name(ROOT, "a"),
            PathRow::Name(ROOT, "b"),
            PathRow::Element(2),
            PathRow::Derived("/a ASC"),
        ]);
        let mut ours = dictionary(&[PathRow::Name(ROOT, "b")]);
        let mut map = HashMap::from([(ROOT, ROOT)]);
        let mut added = Vec::new();
        for (number, row) in theirs.rows() {
            let imported = ours.import(&row, |parent| map.get(&parent).copied());
            let (here, new) = imported.expect("a stored row");
            added.extend(new.map(|row| (here, row)));
            map.insert(number, here);
        }
        assert_eq!(ours.find(&[name("b"), Step::Element]), map.get(&3).copied());
        assert_eq!(ours.find(&[name("a")]), map.get(&1).copied());
        assert_eq!(map.get(&2), Some(&1));
        assert_eq!(ours.rows()[1..], added);
        let unknown = ours.import(b"\0\0\0\x09/x", |parent| map.get(&parent).copied());
        assert_eq!(unknown, None);
    }
}
