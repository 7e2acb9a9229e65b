//! Equality and order of values, as ORDER BY, MIN, MAX, DISTINCT and the index have them.

use super::{Json, Number, Object};
use std::cmp::Ordering;
use std::collections::HashMap;

/// Types in the order in which ORDER BY and the index sort them; undefined sorts before all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TypeRank {
    /// `null`
    Null,
    /// `false` before `true`
    Bool,
    /// by value
    Number,
    /// by code unit
    String,
    /// element by element
    Array,
    /// by members
    Object,
}

impl TypeRank {
    /// The rank of a value.
    pub fn of(value: &Json) -> Self {
        match value {
            Json::Null => TypeRank::Null,
            Json::Bool(_) => TypeRank::Bool,
            Json::Number(_) => TypeRank::Number,
            Json::String(_) => TypeRank::String,
            Json::Array(_) => TypeRank::Array,
            Json::Object(_) => TypeRank::Object,
        }
    }
}

/// Total order over all values: by type, then by value. Arrays compare by element, objects by their members sorted by
/// name; the service leaves those two unspecified, ours is at least stable. NaN sorts before all other numbers.
///
/// Strings compare by Unicode scalar value, which is the order of their UTF-8 bytes.
pub fn compare(a: &Json, b: &Json) -> Ordering {
    match (a, b) {
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Number(a), Json::Number(b)) => compare_numbers(a, b),
        (Json::String(a), Json::String(b)) => a.cmp(b),
        (Json::Array(a), Json::Array(b)) => {
            let first = a
                .iter()
                .zip(b)
                .map(|(a, b)| compare(a, b))
                .find(|o| o.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Json::Object(a), Json::Object(b)) => compare_objects(a, b),
        _ => TypeRank::of(a).cmp(&TypeRank::of(b)),
    }
}

/// Up to this many members looking for one is cheaper than hashing all.
const FEW_MEMBERS: usize = 16;

/// Deep equality: members in any order, numbers by value.
pub fn deep_equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| deep_equal(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            if a.len() != b.len() {
                return false;
            }
            if a.len() <= FEW_MEMBERS {
                return a
                    .iter()
                    .all(|(name, value)| b.get(name).is_some_and(|v| deep_equal(value, v)));
            }
            let b: HashMap<&str, &Json> = b.iter().collect();
            a.iter()
                .all(|(name, value)| b.get(name).is_some_and(|v| deep_equal(value, v)))
        }
        (Json::Number(a), Json::Number(b)) if !a.is_finite() || !b.is_finite() => {
            a.as_f64() == b.as_f64()
        }
        _ => compare(a, b).is_eq(),
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    if let (Some(a), Some(b)) = (a.exact_integer(), b.exact_integer()) {
        return a.cmp(&b);
    }
    let (a, b) = (a.as_f64(), b.as_f64());
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn compare_objects(a: &Object, b: &Object) -> Ordering {
    fn sorted(object: &Object) -> Vec<(&str, &Json)> {
        let mut members: Vec<_> = object.iter().collect();
        members.sort_by_key(|(name, _)| *name);
        members
    }
    let (a, b) = (sorted(a), sorted(b));
    let first = a
        .iter()
        .zip(&b)
        .map(|(a, b)| a.0.cmp(b.0).then_with(|| compare(a.1, b.1)))
        .find(|o| o.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}
