//! The index terms of an item, and the index units that a write of the item is charged for.
//!
//! The units follow the published charges of the service. A distinct scalar is one unit for its
//! path and one for its value; the value of a string is one unit for each 40 bytes or part of 40
//! bytes. An array or object is one unit. `id`, `_ts` and the partition key are one unit each.

use super::composite;
use super::new_paths::PathNumbers;
use super::paths::{ROOT, is_indexable};
use super::policy::{Policy, PolicyCursor};
use super::texts::TextIndex;
use super::value;
use crate::partition::keys::PathNumber;
use crate::partition::row::is_system;
use orrery_model::partition_key::murmur3_128;
use orrery_model::{Json, Object};
use std::collections::{BTreeMap, BTreeSet};

/// Units of one composite index.
const COMPOSITE_UNITS: usize = 2;
/// Bytes of a string that one unit covers.
const BYTES_PER_UNIT: usize = 40;

/// The number of a vector or full-text index, and the stem of a word in a full-text index.
pub(crate) type SearchKey = (PathNumber, Option<Vec<u8>>);

/// The distinct (path, value) pairs of an item, and its entries in vector and full-text indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    entries: BTreeSet<(PathNumber, Vec<u8>)>,
    /// The values of the entries in vector and full-text indexes.
    search: BTreeMap<SearchKey, Vec<u8>>,
    /// Charged units of each path (no value) and of each pair of path and value.
    units: BTreeMap<(PathNumber, Option<Vec<u8>>), u32>,
    /// True if `_ts` is indexed. A write is charged for a change of `_ts` even if the second is the
    /// same.
    has_ts: bool,
}

impl Terms {
    /// Returns the terms of an item that was written at second `ts`. New paths get numbers of the
    /// transaction.
    ///
    /// `partition_key_is_id`: the partition key has its own unit unless its path is that of the id.
    pub fn of(
        item: &Object,
        ts: u64,
        policy: &Policy,
        partition_key_is_id: bool,
        paths: &mut PathNumbers<'_>,
    ) -> Terms {
        let mut terms = Terms::default();
        if !policy.is_consistent() {
            return terms;
        }

        // The values of the item, as far as the policy indexes them.
        let root = policy.root();
        for (name, member) in item.iter() {
            if is_system(name) {
                continue;
            }
            let cursor = root.name(name);
            if !cursor.indexes_nothing() && is_indexable(name) {
                let path = paths.name(ROOT, name);
                terms.add_value(member, path, cursor, paths, name == "id");
            }
        }
        let ts_value = Json::from(ts);
        terms.insert(paths.name(ROOT, "_ts"), value::encode(&ts_value).bytes);
        terms.has_ts = true;
        if !partition_key_is_id {
            terms.set_units(ROOT, None, 1);
        }

        // Composite and spatial indexes hold values that are computed from those of the item.
        for index in policy.composites() {
            let encoded = composite::encode(index, item, ts);
            terms.insert(paths.derived(&index.text), encoded);
        }
        for index in policy.spatial_grid_indexes() {
            let Some(value) = composite::value_at(&index.path, item, &ts_value) else {
                continue;
            };
            let Some(boxes) = orrery_sql::extents(value, index.grid.is_planar) else {
                continue;
            };
            let path = paths.derived(&index.text);
            for cell in index.grid.cells(&boxes) {
                terms.insert(path, cell);
            }
        }
        for index in policy.stored_vectors() {
            if let Some(vector) = index.row_of(item, &ts_value) {
                let path = paths.derived(&index.text);
                let digest = murmur3_128(&vector).to_vec();
                terms.set_units(path, Some(digest), index.units());
                terms.search.insert((path, None), vector);
            }
        }
        let mut text_entries = 0;
        for index in policy.stored_texts() {
            let entries_left = index.entries_max().saturating_sub(text_entries);
            let entries = index.entries_of(item, entries_left);
            text_entries += entries.len();
            if !entries.is_empty() {
                let path = paths.derived(&index.text);
                let digest = TextIndex::digest(&entries).to_vec();
                terms.set_units(path, Some(digest), TextIndex::units(&entries));
                for (stem, value) in entries {
                    terms.search.insert((path, Some(stem)), value);
                }
            }
        }
        terms.add_policy_units(item, policy);
        terms
    }

    /// Adds the terms of a value and of all values below it.
    fn add_value(
        &mut self,
        json: &Json,
        path: PathNumber,
        cursor: PolicyCursor<'_>,
        paths: &mut PathNumbers<'_>,
        is_id: bool,
    ) {
        match json {
            Json::Object(members) => {
                self.add_structure(json, path, cursor);
                for (name, member) in members.iter() {
                    let cursor = cursor.name(name);
                    if !cursor.indexes_nothing() && is_indexable(name) {
                        let path = paths.name(path, name);
                        self.add_value(member, path, cursor, paths, false);
                    }
                }
            }
            Json::Array(elements) => {
                self.add_structure(json, path, cursor);
                let cursor = cursor.element();
                if !cursor.indexes_nothing() && !elements.is_empty() {
                    let path = paths.element(path);
                    for element in elements {
                        self.add_value(element, path, cursor, paths, false);
                    }
                }
            }
            scalar if cursor.indexes_scalar() => {
                let bytes = value::encode(scalar).bytes;
                // The id is charged one unit, any other scalar one for the path and some for the
                // value.
                if is_id {
                    self.set_units(path, Some(bytes.clone()), 1);
                } else {
                    self.set_units(path, None, 1);
                    self.set_units(path, Some(bytes.clone()), value_units(scalar));
                }
                self.insert(path, bytes);
            }
            _ => {}
        }
    }

    /// Adds an array or object itself. `IS_DEFINED` and ORDER BY need the entry.
    fn add_structure(&mut self, json: &Json, path: PathNumber, cursor: PolicyCursor<'_>) {
        // A path that is indexed for scalars alone needs the entry too: IS_DEFINED is true here.
        if cursor.indexes_structure() || cursor.indexes_scalar() {
            self.insert(path, value::encode(json).bytes);
        }
        if cursor.indexes_structure() {
            *self.units.entry((path, None)).or_default() += 1;
        }
    }

    /// Adds the units that do not depend on values of the item: one for each explicitly included
    /// path that the item lacks, and those of composite indexes.
    fn add_policy_units(&mut self, item: &Object, policy: &Policy) {
        let mut units = COMPOSITE_UNITS * policy.composites().len();
        for path in policy.explicit_scalars() {
            if !has_path(item, path) {
                units += 1;
            }
        }
        if units > 0 {
            self.set_units(PathNumber::MAX, None, units as u32);
        }
    }

    fn insert(&mut self, path: PathNumber, value: Vec<u8>) {
        self.entries.insert((path, value));
    }

    fn set_units(&mut self, path: PathNumber, value: Option<Vec<u8>>, units: u32) {
        self.units.insert((path, value), units);
    }

    /// Returns the path of each pair and of each entry in a vector or full-text index, if the path
    /// has at least the number `from`.
    pub(super) fn paths_from(&self, from: PathNumber) -> impl Iterator<Item = PathNumber> {
        let pairs = self.entries.range((from, Vec::new())..);
        let search = self.search.range((from, None)..);
        pairs
            .map(|(path, _)| *path)
            .chain(search.map(|((path, _), _)| *path))
    }

    /// Returns the number of entries in vector and full-text indexes.
    pub(crate) fn search_entries(&self) -> usize {
        self.search.len()
    }

    /// Returns the entries in vector and full-text indexes that `other` lacks or has with another
    /// value, and the value of `other`.
    pub(crate) fn search_unlike<'a>(
        &'a self,
        other: &'a Terms,
    ) -> impl Iterator<Item = (&'a SearchKey, &'a [u8], Option<&'a [u8]>)> {
        self.search.iter().filter_map(|(key, value)| {
            let others = other.search.get(key);
            let differs = others != Some(value);
            differs.then_some((key, value.as_slice(), others.map(Vec::as_slice)))
        })
    }

    /// Returns the pairs in ascending order.
    pub fn entries(&self) -> impl Iterator<Item = (PathNumber, &[u8])> {
        self.entries
            .iter()
            .map(|(path, value)| (*path, value.as_slice()))
    }

    /// Returns the pairs of this item that `other` lacks.
    pub fn difference<'a>(
        &'a self,
        other: &'a Terms,
    ) -> impl Iterator<Item = (PathNumber, &'a [u8])> {
        self.entries
            .difference(&other.entries)
            .map(|(path, value)| (*path, value.as_slice()))
    }

    /// Returns the units that creating or deleting the item is charged for.
    pub fn units(&self) -> u32 {
        self.units.values().sum::<u32>() + u32::from(self.has_ts)
    }

    /// Returns the units that replacing `old` by this item is charged for: those of the entries
    /// removed and added.
    pub fn units_changed_from(&self, old: &Terms) -> u32 {
        let ts_units = u32::from(self.has_ts) + u32::from(old.has_ts);
        self.units_missing_in(old) + old.units_missing_in(self) + ts_units
    }

    /// Returns the sum of the units that `other` does not have in the same number.
    fn units_missing_in(&self, other: &Terms) -> u32 {
        let mut sum = 0;
        for (key, units) in &self.units {
            if other.units.get(key) != Some(units) {
                sum += units;
            }
        }
        sum
    }
}

/// Returns true if an item has a value at a path of names.
fn has_path(item: &Object, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return false;
    };
    let mut value = item.get(first);
    for name in rest {
        value = value.and_then(|value| value.get(name));
    }
    value.is_some()
}

/// Returns the units of the value of a scalar.
fn value_units(scalar: &Json) -> u32 {
    match scalar {
        Json::String(text) => {
            let indexed_bytes = text.len().min(value::STRING_BYTES);
            indexed_bytes.div_ceil(BYTES_PER_UNIT).max(1) as u32
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::new_paths::NewPaths;
    use crate::index::paths::Paths;
    use orrery_model::json::parse;

    fn terms(text: &str, policy: &Policy, key_is_id: bool, new: &mut NewPaths) -> Terms {
        let json = parse(text.as_bytes()).expect("JSON");
        let mut paths = PathNumbers {
            known: &Paths::default(),
            new,
        };
        let item = json.as_object().expect("object");
        Terms::of(item, 1_700_000_000, policy, key_is_id, &mut paths)
    }

    fn units(text: &str, key_is_id: bool) -> u32 {
        terms(
            text,
            &Policy::default_policy(),
            key_is_id,
            &mut NewPaths::default(),
        )
        .units()
    }

    /// Published charges, minus the 26 units of the body.
    #[test]
    fn published_writes_have_the_units_of_their_charges() {
        let guid = "00000000-0000-0000-0000-000000000000";
        assert_eq!(
            units(r#"{"id":"u1","username":"ann"}"#, true),
            4,
            "user of the article: 5.71 RU"
        );
        let like = format!(
            r#"{{"id":"{guid}","type":"like","postId":"{guid}","userId":"{guid}",
                "creationDate":"2019-01-01T00:00:00Z"}}"#
        );
        assert_eq!(units(&like, false), 11, "like of the article: 7.05 RU");
        assert_eq!(units("{}", false), 2);
    }

    #[test]
    fn elements_of_an_array_share_a_path_and_count_once() {
        let mut paths = NewPaths::default();
        let terms = terms(
            r#"{"tags":["a","b","a"]}"#,
            &Policy::default_policy(),
            true,
            &mut paths,
        );
        // The array itself, two values, and `_ts`.
        assert_eq!(terms.entries().count(), 4);
        assert_eq!(terms.units(), 1 + 1 + 2 + 1);
    }

    #[test]
    fn a_replace_is_charged_for_changed_terms() {
        let (policy, mut paths) = (Policy::default_policy(), NewPaths::default());
        let old = terms(r#"{"id":"a","n":1,"s":"x"}"#, &policy, true, &mut paths);
        let new = terms(r#"{"id":"a","n":2,"s":"x"}"#, &policy, true, &mut paths);
        // The old and the new value of the number, and of `_ts`.
        assert_eq!(new.units_changed_from(&old), 4);
        assert_eq!(new.difference(&old).count(), 1);
        assert_eq!(old.units_changed_from(&old), 2);
    }
}
