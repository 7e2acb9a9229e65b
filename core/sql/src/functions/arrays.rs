//! Array and set functions. Values are compared deeply: objects with the same members are equal.

use super::{ANY, Arguments, Function, IndexUse, Quantifier, metered, strict};
use crate::error::QueryError;
use crate::run::frame::Context;
use crate::value::{digest, number, weight};
use orrery_model::json::{Json, Object, compare, deep_equal};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Largest array that ARRAY_CONCAT makes, in bytes; a larger result is undefined.
const ARRAY_BYTES: usize = 1 << 26;

/// Largest number of members that are looked up one by one; with more, a hash map is cheaper.
const MAX_LINEAR_LOOKUPS: usize = 16;

pub(super) const TABLE: &[Function] = &[
    strict(
        &["ARRAY_CONCAT", "ARRAYCONCAT"],
        (2, ANY),
        "the arrays joined",
        |a| {
            let parts: Option<Vec<&[Json]>> = a.iter().map(|v| v?.as_array()).collect();
            let parts = parts?;
            let bytes: usize = parts.iter().flat_map(|p| p.iter()).map(weight).sum();
            (bytes <= ARRAY_BYTES).then(|| Json::Array(parts.concat()))
        },
    ),
    strict(
        &["ARRAY_CONTAINS", "ARRAYCONTAINS"],
        (2, 3),
        "true if a value is an element; with true as the third, also if it is part of one",
        array_contains,
    )
    .index_use(IndexUse::Seek),
    metered(
        &["ARRAY_CONTAINS_ANY", "ARRAYCONTAINSANY"],
        (2, ANY),
        "true if one of the values is an element",
        |cx, a| contains_several(cx, a, Quantifier::Any),
    ),
    metered(
        &["ARRAY_CONTAINS_ALL", "ARRAYCONTAINSALL"],
        (2, ANY),
        "true if all of the values are elements",
        |cx, a| contains_several(cx, a, Quantifier::All),
    ),
    strict(
        &["ARRAY_LENGTH", "ARRAYLENGTH"],
        (1, 1),
        "the number of elements",
        |a| Some(Json::from(a.array(0)?.len())),
    ),
    strict(
        &["ARRAY_SLICE", "ARRAYSLICE"],
        (2, 3),
        "a number of elements from a position on",
        array_slice,
    ),
    strict(
        &["ARRAY_SUM", "ARRAYSUM"],
        (1, 1),
        "the sum of an array of numbers",
        |a| Some(number(numbers(a)?.iter().sum())),
    ),
    strict(
        &["ARRAY_AVG", "ARRAYAVG"],
        (1, 1),
        "the mean of an array of numbers",
        |a| {
            let numbers = numbers(a)?;
            if numbers.is_empty() {
                return None;
            }
            let sum: f64 = numbers.iter().sum();
            Some(number(sum / numbers.len() as f64))
        },
    ),
    strict(
        &["ARRAY_MEDIAN", "ARRAYMEDIAN"],
        (1, 1),
        "the median of an array of numbers",
        median,
    ),
    strict(
        &["ARRAY_MIN", "ARRAYMIN"],
        (1, 1),
        "the smallest scalar, by type and value",
        |a| extreme(a, Ordering::Less),
    ),
    strict(
        &["ARRAY_MAX", "ARRAYMAX"],
        (1, 1),
        "the largest scalar, by type and value",
        |a| extreme(a, Ordering::Greater),
    ),
    strict(
        &["SETINTERSECT", "SET_INTERSECT"],
        (2, 2),
        "the distinct values that are in both arrays",
        |a| {
            let (first, second) = (digests(a.array(0)?), a.array(1)?);
            let common = second.iter().filter(|v| first.contains(&digest(Some(v))));
            Some(distinct(common))
        },
    ),
    strict(
        &["SETUNION", "SET_UNION"],
        (2, 2),
        "the distinct values that are in either array",
        |a| Some(distinct(a.array(0)?.iter().chain(a.array(1)?))),
    ),
    strict(
        &["SETDIFFERENCE", "SET_DIFFERENCE"],
        (2, 2),
        "the distinct values that are in the first array only",
        |a| {
            let (first, second) = (a.array(0)?, digests(a.array(1)?));
            let others = first.iter().filter(|v| !second.contains(&digest(Some(v))));
            Some(distinct(others))
        },
    ),
    strict(
        &["SETEQUAL", "SET_EQUAL"],
        (2, 2),
        "true if both arrays hold the same values",
        |a| Some(Json::Bool(digests(a.array(0)?) == digests(a.array(1)?))),
    ),
];

fn digests(elements: &[Json]) -> HashSet<u128> {
    elements.iter().map(|v| digest(Some(v))).collect()
}

/// Returns the first of equal elements, in order.
fn distinct<'j>(elements: impl Iterator<Item = &'j Json>) -> Json {
    let mut seen = HashSet::new();
    let mut values = Vec::new();
    for element in elements {
        if seen.insert(digest(Some(element))) {
            values.push(element.clone());
        }
    }
    Json::Array(values)
}

fn array_contains(a: Arguments<'_, '_>) -> Option<Json> {
    let (elements, wanted) = (a.array(0)?, a.get(1)?);
    let matches = if a.flag(2)? { has_parts } else { deep_equal };
    Some(Json::Bool(elements.iter().any(|e| matches(e, wanted))))
}

/// Returns true if an element equals a value, or is an object that has every member of a wanted
/// object, at any depth. Arrays are compared element by element.
fn has_parts(element: &Json, wanted: &Json) -> bool {
    match (element, wanted) {
        (Json::Object(element), Json::Object(wanted)) => {
            if wanted.len() <= MAX_LINEAR_LOOKUPS {
                return has_members(wanted, |name| element.get(name));
            }
            let members: HashMap<&str, &Json> = element.iter().collect();
            has_members(wanted, |name| members.get(name).copied())
        }
        (Json::Array(element), Json::Array(wanted)) => {
            element.len() == wanted.len()
                && element.iter().zip(wanted).all(|(e, w)| has_parts(e, w))
        }
        _ => deep_equal(element, wanted),
    }
}

fn has_members<'j>(wanted: &Object, member: impl Fn(&str) -> Option<&'j Json>) -> bool {
    wanted
        .iter()
        .all(|(name, wanted)| member(name).is_some_and(|value| has_parts(value, wanted)))
}

/// Combines ARRAY_CONTAINS for several values with AND (`All`) or OR (`Any`) in three-valued logic:
/// an undefined value makes the result undefined, unless another one decides it.
fn contains_several(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    quantifier: Quantifier,
) -> Result<Option<Json>, QueryError> {
    let Some(elements) = a.array(0) else {
        return Ok(None);
    };
    // For `All` a missing value decides, for `Any` one that is found.
    let decisive = quantifier == Quantifier::Any;
    let mut has_undefined = false;
    for wanted in a.iter().skip(1) {
        cx.count_iterations(1 + elements.len() as u64 / 8)?;
        let Some(wanted) = wanted else {
            has_undefined = true;
            continue;
        };
        if elements.iter().any(|e| deep_equal(e, wanted)) == decisive {
            return Ok(Some(Json::Bool(decisive)));
        }
    }
    Ok((!has_undefined).then_some(Json::Bool(!decisive)))
}

/// ARRAY_SLICE: a negative start counts from the end.
fn array_slice(a: Arguments<'_, '_>) -> Option<Json> {
    let elements = a.array(0)?;
    let (start, length) = (a.integer(1)?, a.integer_or(2, i64::MAX)?);
    let total = elements.len() as i64;
    let from = if start < 0 {
        total.saturating_add(start).max(0)
    } else {
        start.min(total)
    };
    let count = length.clamp(0, total - from);
    let slice = &elements[from as usize..(from + count) as usize];
    Some(Json::Array(slice.to_vec()))
}

fn numbers(a: Arguments<'_, '_>) -> Option<Vec<f64>> {
    a.array(0)?.iter().map(Json::as_f64).collect()
}

fn median(a: Arguments<'_, '_>) -> Option<Json> {
    let mut numbers = numbers(a)?;
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    let median = if numbers.len() % 2 == 0 {
        (numbers[middle - 1] + upper) / 2.0
    } else {
        upper
    };
    Some(number(median))
}

/// Returns the first of the smallest (`Less`) or largest (`Greater`) elements. The result is
/// undefined if an element is no scalar.
fn extreme(a: Arguments<'_, '_>, wanted: Ordering) -> Option<Json> {
    let elements = a.array(0)?;
    let is_structured = |e: &Json| matches!(e, Json::Array(_) | Json::Object(_));
    if elements.iter().any(is_structured) {
        return None;
    }
    elements
        .iter()
        .reduce(|best, e| if compare(e, best) == wanted { e } else { best })
        .cloned()
}
