//! Array and set functions. Equality is deep.

use super::{ANY, Arguments, Function, IndexUse, metered, strict};
use crate::error::QueryError;
use crate::run::frame::Context;
use crate::value::{digest, number, weight};
use orrery_model::json::{Json, compare, deep_equal};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Bytes of the largest array that ARRAY_CONCAT makes; what would be larger is undefined.
const ARRAY_BYTES: usize = 1 << 26;

/// Up to this many members looking for one is cheaper than hashing all.
const FEW_MEMBERS: usize = 16;

pub(super) const TABLE: &[Function] = &[
    strict(
        &["ARRAY_CONCAT", "ARRAYCONCAT"],
        (2, ANY),
        "the arrays one after the other",
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
        "whether a value is an element, or part of one",
        array_contains,
    )
    .index_use(IndexUse::Seek),
    metered(
        &["ARRAY_CONTAINS_ANY", "ARRAYCONTAINSANY"],
        (2, ANY),
        "whether one of the values is an element",
        |cx, a| contains_several(cx, a, false),
    ),
    metered(
        &["ARRAY_CONTAINS_ALL", "ARRAYCONTAINSALL"],
        (2, ANY),
        "whether all of the values are elements",
        |cx, a| contains_several(cx, a, true),
    ),
    strict(
        &["ARRAY_LENGTH", "ARRAYLENGTH"],
        (1, 1),
        "how many elements",
        |a| Some(Json::from(a.array(0)?.len())),
    ),
    strict(
        &["ARRAY_SLICE", "ARRAYSLICE"],
        (2, 3),
        "from a position, so many elements",
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
            (!numbers.is_empty())
                .then(|| number(numbers.iter().sum::<f64>() / numbers.len() as f64))
        },
    ),
    strict(
        &["ARRAY_MEDIAN", "ARRAYMEDIAN"],
        (1, 1),
        "the middle of an array of numbers",
        median,
    ),
    strict(
        &["ARRAY_MIN", "ARRAYMIN"],
        (1, 1),
        "the least scalar, by type and value",
        |a| extreme(a, Ordering::Less),
    ),
    strict(
        &["ARRAY_MAX", "ARRAYMAX"],
        (1, 1),
        "the greatest scalar, by type and value",
        |a| extreme(a, Ordering::Greater),
    ),
    strict(
        &["SETINTERSECT", "SET_INTERSECT"],
        (2, 2),
        "what is in both arrays, each once",
        |a| {
            let (first, second) = (digests(a.array(0)?), a.array(1)?);
            Some(distinct(
                second.iter().filter(|v| first.contains(&digest(Some(v)))),
            ))
        },
    ),
    strict(
        &["SETUNION", "SET_UNION"],
        (2, 2),
        "what is in either array, each once",
        |a| Some(distinct(a.array(0)?.iter().chain(a.array(1)?))),
    ),
    strict(
        &["SETDIFFERENCE", "SET_DIFFERENCE"],
        (2, 2),
        "what is in the first array only, each once",
        |a| {
            let (first, second) = (a.array(0)?, digests(a.array(1)?));
            Some(distinct(
                first.iter().filter(|v| !second.contains(&digest(Some(v)))),
            ))
        },
    ),
    strict(
        &["SETEQUAL", "SET_EQUAL"],
        (2, 2),
        "whether both arrays hold the same values",
        |a| Some(Json::Bool(digests(a.array(0)?) == digests(a.array(1)?))),
    ),
];

fn digests(elements: &[Json]) -> HashSet<u128> {
    elements.iter().map(|v| digest(Some(v))).collect()
}

fn distinct<'j>(elements: impl Iterator<Item = &'j Json>) -> Json {
    let mut seen = HashSet::new();
    Json::Array(
        elements
            .filter(|v| seen.insert(digest(Some(v))))
            .cloned()
            .collect(),
    )
}

fn array_contains(a: Arguments<'_, '_>) -> Option<Json> {
    let (elements, wanted) = (a.array(0)?, a.get(1)?);
    let matches = if a.flag(2)? { partly_equal } else { deep_equal };
    Some(Json::Bool(elements.iter().any(|e| matches(e, wanted))))
}

/// Whether an element has everything that an object asks for; inside arrays element by element.
fn partly_equal(element: &Json, wanted: &Json) -> bool {
    match (element, wanted) {
        (Json::Object(element), Json::Object(wanted)) if wanted.len() <= FEW_MEMBERS => wanted
            .iter()
            .all(|(name, w)| element.get(name).is_some_and(|e| partly_equal(e, w))),
        (Json::Object(element), Json::Object(wanted)) => {
            let element: HashMap<&str, &Json> = element.iter().collect();
            wanted
                .iter()
                .all(|(name, w)| element.get(name).is_some_and(|e| partly_equal(e, w)))
        }
        (Json::Array(element), Json::Array(wanted)) => {
            element.len() == wanted.len()
                && element.iter().zip(wanted).all(|(e, w)| partly_equal(e, w))
        }
        _ => deep_equal(element, wanted),
    }
}

fn contains_several(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    all: bool,
) -> Result<Option<Json>, QueryError> {
    let Some(elements) = a.array(0) else {
        return Ok(None);
    };
    let mut unknown = false;
    for wanted in a.iter().skip(1) {
        cx.count_iterations(1 + elements.len() as u64 / 8)?;
        match wanted {
            None => unknown = true,
            Some(wanted) if elements.iter().any(|e| deep_equal(e, wanted)) != all => {
                return Ok(Some(Json::Bool(!all)));
            }
            Some(_) => {}
        }
    }
    Ok((!unknown).then_some(Json::Bool(all)))
}

fn array_slice(a: Arguments<'_, '_>) -> Option<Json> {
    let elements = a.array(0)?;
    let (start, length) = (a.whole(1)?, a.whole_or(2, i64::MAX)?);
    let total = elements.len() as i64;
    let from = if start < 0 {
        (total.saturating_add(start)).max(0)
    } else {
        start.min(total)
    };
    let count = length.clamp(0, total - from);
    Some(Json::Array(
        elements[from as usize..(from + count) as usize].to_vec(),
    ))
}

fn numbers(a: Arguments<'_, '_>) -> Option<Vec<f64>> {
    a.array(0)?.iter().map(Json::as_f64).collect()
}

fn median(a: Arguments<'_, '_>) -> Option<Json> {
    let mut numbers = numbers(a)?;
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    Some(number(if numbers.len() % 2 == 0 {
        (numbers[middle - 1] + upper) / 2.0
    } else {
        upper
    }))
}

fn extreme(a: Arguments<'_, '_>, wanted: Ordering) -> Option<Json> {
    let elements = a.array(0)?;
    if elements
        .iter()
        .any(|e| matches!(e, Json::Array(_) | Json::Object(_)))
    {
        return None;
    }
    elements
        .iter()
        .reduce(|best, e| if compare(e, best) == wanted { e } else { best })
        .cloned()
}
