//! Equality and order of values for ORDER BY, MIN, MAX, DISTINCT and the index.

use super::{Json, Number, Object};
use std::cmp::Ordering;
use std::collections::HashMap;

/// The types in the order of ORDER BY and of the index. Undefined sorts before all types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TypeRank {
    /// `null`
    Null,
    /// `false` sorts before `true`.
    Bool,
    /// Sorted by value.
    Number,
    /// Sorted by Unicode scalar value.
    String,
    /// Sorted element by element.
    Array,
    /// Sorted by members.
    Object,
}

impl TypeRank {
    /// Returns the type of a value.
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

/// Compares two values in a total order: by type, then by value.
///
/// Strings compare by Unicode scalar value, which is the order of their UTF-8 bytes. NaN sorts
/// before all other numbers. Arrays compare element by element, objects by their members sorted by
/// name; the service does not specify these two, and this order is at least stable.
pub fn compare(a: &Json, b: &Json) -> Ordering {
    match (a, b) {
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Number(a), Json::Number(b)) => compare_numbers(a, b),
        (Json::String(a), Json::String(b)) => a.cmp(b),
        (Json::Array(a), Json::Array(b)) => {
            for (a, b) in a.iter().zip(b) {
                let order = compare(a, b);
                if order.is_ne() {
                    return order;
                }
            }
            a.len().cmp(&b.len())
        }
        (Json::Object(a), Json::Object(b)) => compare_objects(a, b),
        _ => TypeRank::of(a).cmp(&TypeRank::of(b)),
    }
}

/// Up to this number of members a linear search is cheaper than a hash map.
const FEW_MEMBERS: usize = 16;

/// Returns true if two values are equal: members in any order, numbers by value, NaN unequal to
/// itself.
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
                return a.iter().all(|(name, value)| {
                    b.get(name).is_some_and(|other| deep_equal(value, other))
                });
            }
            // Without the map a client could cause quadratic work by comparing two large objects.
            let b: HashMap<&str, &Json> = b.iter().collect();
            a.iter()
                .all(|(name, value)| b.get(name).is_some_and(|other| deep_equal(value, other)))
        }
        // `compare` treats NaN as equal to itself, IEEE 754 does not.
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
    for ((a_name, a_value), (b_name, b_value)) in a.iter().zip(&b) {
        let order = a_name.cmp(b_name).then_with(|| compare(a_value, b_value));
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}
