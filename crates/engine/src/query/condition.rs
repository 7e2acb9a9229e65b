//! What a query's condition means: which values a test accepts, as an index has them, and a direct test on an item.

use crate::index::paths::Step;
use crate::index::value::{self, TypeBand};
use crate::partition::keys;
use orrery_model::Json;
use orrery_model::json::compare;
use orrery_sql::{Condition, Path, Test, ValueType};
use std::ops::Bound;

/// The steps of a query's path as the index knows them.
pub fn steps(path: &Path) -> Vec<Step> {
    let step = |step: &orrery_sql::Step| match step {
        orrery_sql::Step::Name(name) => Step::Name(name.clone()),
        orrery_sql::Step::Element => Step::Element,
    };
    path.0.iter().map(step).collect()
}

/// The conditions that must all hold.
pub fn conjuncts(condition: &Condition) -> Vec<&Condition> {
    match condition {
        Condition::All => Vec::new(),
        Condition::And(parts) => parts.iter().collect(),
        other => vec![other],
    }
}

/// Whether the index answers a test without scanning every value of its path.
pub fn is_selective(test: &Test) -> bool {
    matches!(
        test,
        Test::Equals(_) | Test::In(_) | Test::Range { .. } | Test::Prefix(_)
    )
}

/// Whether an index of values can answer a test at all.
pub fn is_answerable(test: &Test) -> bool {
    !matches!(test, Test::NotDefined | Test::Near { .. })
}

/// The stretches of encoded values that a test accepts.
pub struct ValueRanges {
    /// From (inclusive) and to (exclusive), without overlap.
    pub ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Equality values looked up; 0 for scans.
    pub seeks: u64,
    /// Whether the bytes alone decide.
    pub exact: bool,
}

/// No value's bytes are at or after these.
const BEYOND: u8 = 0xF0;

/// What a test accepts, of an index that keeps so many bytes of a string; `None` if it accepts a missing value.
pub fn value_ranges(test: &Test, string_bytes: usize) -> Option<ValueRanges> {
    let whole = |start: Vec<u8>| (start.clone(), keys::after(&start));
    let equal = |value: &Json| {
        let encoded = value::encode_within(value, string_bytes);
        (whole(encoded.bytes), encoded.is_exact)
    };
    let scan = |ranges, exact| ValueRanges {
        ranges,
        seeks: 0,
        exact,
    };
    Some(match test {
        Test::Equals(value) => {
            let (range, exact) = equal(value);
            ValueRanges {
                ranges: vec![range],
                seeks: 1,
                exact,
            }
        }
        Test::In(values) => {
            let all: Vec<_> = values.iter().map(equal).collect();
            let exact = all.iter().all(|(_, exact)| *exact);
            let mut ranges: Vec<_> = all.into_iter().map(|(range, _)| range).collect();
            let seeks = ranges.len() as u64;
            // Values that look alike in the index are looked up once.
            ranges.sort_unstable();
            ranges.dedup();
            ValueRanges {
                ranges,
                seeks,
                exact,
            }
        }
        Test::Range { lower, upper } => range(lower, upper, string_bytes)?,
        Test::Prefix(prefix) => {
            let (start, complete) = value::string_start(prefix, string_bytes);
            scan(vec![whole(start)], complete)
        }
        Test::ScanStrings(_) => scan(vec![stretch(TypeBand::String)], true),
        Test::IsType(kind) => {
            let kind = match kind {
                ValueType::Bool => TypeBand::Bool,
                ValueType::Number => TypeBand::Number,
                ValueType::String => TypeBand::String,
                ValueType::Array => TypeBand::Array,
                ValueType::Object => TypeBand::Object,
            };
            scan(vec![stretch(kind)], true)
        }
        Test::Defined => scan(vec![(Vec::new(), vec![BEYOND])], true),
        Test::NotEquals(value) => {
            let ((from, to), exact) = equal(value);
            let both = vec![(Vec::new(), from), (to, vec![BEYOND])];
            scan(
                if exact {
                    both
                } else {
                    vec![(Vec::new(), vec![BEYOND])]
                },
                exact,
            )
        }
        Test::NotDefined | Test::Near { .. } => return None,
    })
}

fn stretch(kind: TypeBand) -> (Vec<u8>, Vec<u8>) {
    let (from, to) = kind.bounds();
    (vec![from], vec![to])
}

fn range(lower: &Bound<Json>, upper: &Bound<Json>, string_bytes: usize) -> Option<ValueRanges> {
    let (Bound::Included(sample) | Bound::Excluded(sample)) = (if matches!(lower, Bound::Unbounded)
    {
        upper
    } else {
        lower
    }) else {
        return None;
    };
    let (first, last) = stretch(TypeBand::of(sample));
    let mut exact = true;
    let is_exact = |value: &Json| value::encode_within(value, string_bytes).is_exact;
    let mut key = |value: &Json, after: bool| {
        let encoded = value::encode_within(value, string_bytes);
        // Values that share their bytes lie on both sides of the bound: take them in and look at the item.
        exact &= encoded.is_exact;
        if after {
            keys::after(&encoded.bytes)
        } else {
            encoded.bytes
        }
    };
    let from = match lower {
        Bound::Unbounded => first,
        Bound::Included(v) => key(v, false),
        Bound::Excluded(v) => key(v, is_exact(v)),
    };
    let to = match upper {
        Bound::Unbounded => last,
        Bound::Included(v) => key(v, true),
        Bound::Excluded(v) => key(v, !is_exact(v)),
    };
    // Bounds that cross leave nothing.
    let ranges = if from < to {
        vec![(from, to)]
    } else {
        Vec::new()
    };
    Some(ValueRanges {
        ranges,
        seeks: 0,
        exact,
    })
}

/// Whether an item fulfils a condition.
pub fn holds(condition: &Condition, item: &Json) -> bool {
    match condition {
        Condition::All => true,
        Condition::Never => false,
        Condition::And(parts) => parts.iter().all(|part| holds(part, item)),
        Condition::Or(parts) => parts.iter().any(|part| holds(part, item)),
        Condition::Term { path, test, .. } => term_holds(&path.0, test, Some(item)),
    }
}

fn term_holds(path: &[orrery_sql::Step], test: &Test, value: Option<&Json>) -> bool {
    match path.split_first() {
        None => test_holds(test, value),
        Some((orrery_sql::Step::Name(name), rest)) => {
            term_holds(rest, test, value.and_then(|v| v.get(name)))
        }
        Some((orrery_sql::Step::Element, rest)) => value
            .and_then(Json::as_array)
            .is_some_and(|elements| elements.iter().any(|e| term_holds(rest, test, Some(e)))),
    }
}

fn test_holds(test: &Test, value: Option<&Json>) -> bool {
    let Some(value) = value else {
        return matches!(test, Test::NotDefined);
    };
    let same_type = |bound: &Json| TypeBand::of(bound) == TypeBand::of(value);
    match test {
        Test::Equals(wanted) => value == wanted,
        Test::NotEquals(unwanted) => value != unwanted,
        Test::In(wanted) => wanted.iter().any(|w| value == w),
        Test::Range { lower, upper } => {
            let above = match lower {
                Bound::Unbounded => true,
                Bound::Included(b) => same_type(b) && compare(value, b).is_ge(),
                Bound::Excluded(b) => same_type(b) && compare(value, b).is_gt(),
            };
            above
                && match upper {
                    Bound::Unbounded => true,
                    Bound::Included(b) => same_type(b) && compare(value, b).is_le(),
                    Bound::Excluded(b) => same_type(b) && compare(value, b).is_lt(),
                }
        }
        // What a spatial index leaves is for the query to judge.
        Test::Defined | Test::Near { .. } => true,
        Test::NotDefined => false,
        Test::Prefix(prefix) => value
            .as_str()
            .is_some_and(|s| s.starts_with(prefix.as_str())),
        Test::ScanStrings(passes) => value.as_str().is_some_and(|s| passes(s)),
        Test::IsType(kind) => matches!(
            (kind, value),
            (ValueType::Bool, Json::Bool(_))
                | (ValueType::Number, Json::Number(_))
                | (ValueType::String, Json::String(_))
                | (ValueType::Array, Json::Array(_))
                | (ValueType::Object, Json::Object(_))
        ),
    }
}

/// The values that a condition allows at a path, if it allows only some: what pins a partition key.
pub fn pinned<'a>(condition: &'a Condition, names: &[String]) -> Option<Vec<&'a Json>> {
    let is_path = |path: &Path| {
        path.0.len() == names.len()
            && path
                .0
                .iter()
                .zip(names)
                .all(|(step, name)| matches!(step, orrery_sql::Step::Name(n) if n == name))
    };
    match condition {
        Condition::Term {
            path,
            test: Test::Equals(value),
            ..
        } if is_path(path) => Some(vec![value]),
        Condition::Term {
            path,
            test: Test::In(values),
            ..
        } if is_path(path) => Some(values.iter().collect()),
        Condition::And(parts) => parts.iter().find_map(|part| pinned(part, names)),
        Condition::Or(parts) => {
            let each: Option<Vec<Vec<&Json>>> =
                parts.iter().map(|part| pinned(part, names)).collect();
            each.map(|values| values.into_iter().flatten().collect())
        }
        Condition::Never => Some(Vec::new()),
        _ => None,
    }
}
