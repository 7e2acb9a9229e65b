//! The terms of an item, and what they are charged.
//!
//! Charging follows the service's price: a distinct scalar is one unit for its path and one for its value (a string's
//! value one for each 40 bytes begun), an array or object one; `id`, `_ts` and the partition key one each.

use super::composite;
use super::paths::{Paths, ROOT};
use super::policy::{At, Policy};
use super::value::{self, Encoded};
use crate::partition::keys::PathNumber;
use orrery_model::{Json, Object};
use std::collections::{BTreeMap, BTreeSet};

/// Units of one composite index.
const COMPOSITE_UNITS: usize = 2;

/// The distinct (path, value) pairs of an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    entries: BTreeSet<(PathNumber, Vec<u8>)>,
    /// Units of each (path) and (path, value), the way they are charged.
    units: BTreeMap<(PathNumber, Option<Vec<u8>>), u32>,
    /// Whether `_ts` is indexed. A write is charged for its change even within one second.
    has_ts: bool,
}

impl Terms {
    /// The terms of an item written at second `ts`, with new paths entered into the dictionary.
    ///
    /// `partition_key_is_id`: the key's own entry is charged unless it is the id's.
    pub fn of(
        item: &Object,
        ts: u64,
        policy: &Policy,
        partition_key_is_id: bool,
        paths: &mut Paths,
    ) -> Terms {
        let mut terms = Terms::default();
        if !policy.is_consistent() {
            return terms;
        }
        let start = policy.start();
        for (name, member) in item
            .iter()
            .filter(|(name, _)| !crate::partition::row::is_system(name))
        {
            let at = start.name(name);
            if !at.is_dead_end() {
                let path = paths.name(ROOT, name);
                terms.walk(member, path, at, paths, name == "id");
            }
        }
        let ts_path = paths.name(ROOT, "_ts");
        terms.insert(ts_path, value::encode(&Json::from(ts)));
        terms.has_ts = true;
        if !partition_key_is_id {
            terms.charge(ROOT, None, 1);
        }
        for index in policy.composites() {
            terms.entries.insert((
                paths.derived(&index.text),
                composite::encode(index, item, ts),
            ));
        }
        for index in policy.spatial_places() {
            let json = Json::from(ts);
            let Some(value) = composite::value_at(&index.path, item, &json) else {
                continue;
            };
            let Some(boxes) = orrery_sql::extents(value, index.frame.is_planar) else {
                continue;
            };
            let path = paths.derived(&index.text);
            terms.entries.extend(
                index
                    .frame
                    .cells(&boxes)
                    .into_iter()
                    .map(|cell| (path, cell)),
            );
        }
        terms.charge_policy(item, policy);
        terms
    }

    fn walk(&mut self, json: &Json, path: PathNumber, at: At<'_>, paths: &mut Paths, is_id: bool) {
        match json {
            Json::Object(members) => {
                self.structure(json, path, at);
                for (name, member) in members.iter() {
                    let at = at.name(name);
                    if !at.is_dead_end() {
                        let path = paths.name(path, name);
                        self.walk(member, path, at, paths, false);
                    }
                }
            }
            Json::Array(elements) => {
                self.structure(json, path, at);
                let at = at.element();
                if !at.is_dead_end() && !elements.is_empty() {
                    let path = paths.element(path);
                    elements
                        .iter()
                        .for_each(|element| self.walk(element, path, at, paths, false));
                }
            }
            scalar if at.scalar() => {
                let encoded = value::encode(scalar);
                if is_id {
                    self.charge(path, Some(encoded.bytes.clone()), 1);
                } else {
                    self.charge(path, None, 1);
                    self.charge(path, Some(encoded.bytes.clone()), value_units(scalar));
                }
                self.insert(path, encoded);
            }
            _ => {}
        }
    }

    /// An array or object: indexed as such, so that `IS_DEFINED` and ORDER BY know of it.
    fn structure(&mut self, json: &Json, path: PathNumber, at: At<'_>) {
        // A path that names only scalars still tells that there is something else, or it could not answer IS_DEFINED.
        if at.container() || at.scalar() {
            self.insert(path, value::encode(json));
        }
        if at.container() {
            *self.units.entry((path, None)).or_default() += 1;
        }
    }

    /// What is charged beside what the item has: explicitly included paths that it lacks, and composite indexes.
    fn charge_policy(&mut self, item: &Object, policy: &Policy) {
        let found = |path: &[String]| {
            let (first, rest) = path.split_first()?;
            rest.iter()
                .try_fold(item.get(first)?, |at, name| at.get(name))
                .map(|_| ())
        };
        let missing = policy
            .explicit_scalars()
            .iter()
            .filter(|path| found(path).is_none())
            .count();
        let beside = missing + COMPOSITE_UNITS * policy.composites().len();
        if beside > 0 {
            self.charge(PathNumber::MAX, None, beside as u32);
        }
    }

    fn insert(&mut self, path: PathNumber, value: Encoded) {
        self.entries.insert((path, value.bytes));
    }

    fn charge(&mut self, path: PathNumber, value: Option<Vec<u8>>, units: u32) {
        self.units.insert((path, value), units);
    }

    /// The pairs, sorted.
    pub fn entries(&self) -> impl Iterator<Item = (PathNumber, &[u8])> {
        self.entries
            .iter()
            .map(|(path, value)| (*path, value.as_slice()))
    }

    /// Pairs of this item that `other` lacks.
    pub fn without<'a>(&'a self, other: &'a Terms) -> impl Iterator<Item = (PathNumber, &'a [u8])> {
        self.entries
            .difference(&other.entries)
            .map(|(path, value)| (*path, value.as_slice()))
    }

    /// What creating or deleting the item is charged.
    pub fn units(&self) -> u32 {
        self.units.values().sum::<u32>() + u32::from(self.has_ts)
    }

    /// What turning `old` into this is charged: entries removed and added.
    pub fn units_changed_from(&self, old: &Terms) -> u32 {
        let missing = |a: &Terms, b: &Terms| -> u32 {
            a.units
                .iter()
                .filter(|(key, units)| b.units.get(key) != Some(units))
                .map(|(_, units)| units)
                .sum()
        };
        missing(self, old) + missing(old, self) + u32::from(self.has_ts) + u32::from(old.has_ts)
    }
}

/// Units of a scalar's value.
fn value_units(scalar: &Json) -> u32 {
    const BYTES_A_UNIT: usize = 40;
    match scalar {
        Json::String(text) => text
            .len()
            .min(value::STRING_BYTES)
            .div_ceil(BYTES_A_UNIT)
            .max(1) as u32,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn terms(text: &str, policy: &Policy, key_is_id: bool, paths: &mut Paths) -> Terms {
        let json = parse(text.as_bytes()).expect("JSON");
        Terms::of(
            json.as_object().expect("object"),
            1_700_000_000,
            policy,
            key_is_id,
            paths,
        )
    }

    fn units(text: &str, key_is_id: bool) -> u32 {
        terms(
            text,
            &Policy::default_policy(),
            key_is_id,
            &mut Paths::default(),
        )
        .units()
    }

    /// Published charges, less the 26 units of the body.
    #[test]
    fn published_writes_have_the_units_that_were_paid() {
        let guid = "00000000-0000-0000-0000-000000000000";
        assert_eq!(
            units(r#"{"id":"u1","username":"ann"}"#, true),
            4,
            "user of the article: 5.71 RU"
        );
        let like = format!(
            r#"{{"id":"{guid}","type":"like","postId":"{guid}","userId":"{guid}","creationDate":"2019-01-01T00:00:00Z"}}"#
        );
        assert_eq!(units(&like, false), 11, "like of the article: 7.05 RU");
        assert_eq!(units("{}", false), 2);
    }

    #[test]
    fn elements_of_an_array_share_a_path_and_count_once() {
        let mut paths = Paths::default();
        let terms = terms(
            r#"{"tags":["a","b","a"]}"#,
            &Policy::default_policy(),
            true,
            &mut paths,
        );
        // the array itself, two values, _ts
        assert_eq!(terms.entries().count(), 4);
        assert_eq!(terms.units(), 1 + 1 + 2 + 1);
    }

    #[test]
    fn a_replace_pays_for_what_changed() {
        let (policy, mut paths) = (Policy::default_policy(), Paths::default());
        let old = terms(r#"{"id":"a","n":1,"s":"x"}"#, &policy, true, &mut paths);
        let new = terms(r#"{"id":"a","n":2,"s":"x"}"#, &policy, true, &mut paths);
        // the number's old and new value, and those of _ts
        assert_eq!(new.units_changed_from(&old), 4);
        assert_eq!(new.without(&old).count(), 1);
        assert_eq!(old.units_changed_from(&old), 2);
    }
}
