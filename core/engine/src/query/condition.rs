//! Conditions of queries: the encoded values that a test accepts in an index, and a direct test on
//! an item.

use super::posting::KeyRange;
use crate::index::paths::Step;
use crate::index::value::{self, TypeBand};
use crate::partition::keys;
use orrery_model::Json;
use orrery_model::json::compare;
use orrery_sql::{Condition, Path, Test, ValueType, has_word};
use std::ops::Bound;

/// End of all encoded values (exclusive).
const VALUES_END: u8 = 0xF0;

/// Returns the steps of a query's path as steps of the index.
pub(crate) fn steps(path: &Path) -> Vec<Step> {
    let mut steps = Vec::with_capacity(path.0.len());
    for step in &path.0 {
        steps.push(match step {
            orrery_sql::Step::Name(name) => Step::Name(name.clone()),
            orrery_sql::Step::Element => Step::Element,
        });
    }
    steps
}

/// Returns the conditions that must all hold.
pub(crate) fn conjuncts(condition: &Condition) -> Vec<&Condition> {
    match condition {
        Condition::All => Vec::new(),
        Condition::And(parts) => parts.iter().collect(),
        other => vec![other],
    }
}

/// Returns true if the index answers a test without reading every value of its path.
pub(crate) fn is_selective(test: &Test) -> bool {
    matches!(
        test,
        Test::Equals(_) | Test::In(_) | Test::Range { .. } | Test::Prefix(_)
    )
}

/// Returns true if an index of values can answer a test.
pub(crate) fn is_answerable(test: &Test) -> bool {
    !matches!(
        test,
        Test::NotDefined | Test::Near { .. } | Test::HasWord { .. }
    )
}

/// The ranges of encoded values that a test accepts.
pub(crate) struct ValueRanges {
    /// The ranges, ascending and without overlap.
    pub ranges: Vec<KeyRange>,
    /// Number of equality values that are looked up; 0 for scans.
    pub seeks: u64,
    /// True if the encoded values decide the test.
    pub is_exact: bool,
}

impl ValueRanges {
    fn scan(ranges: Vec<KeyRange>, is_exact: bool) -> Self {
        ValueRanges {
            ranges,
            seeks: 0,
            is_exact,
        }
    }
}

/// Returns the ranges of encoded values that a test accepts, or `None` if the test cannot be
/// answered by an index of values. The index keeps at most `string_bytes` bytes of a string.
pub(crate) fn value_ranges(test: &Test, string_bytes: usize) -> Option<ValueRanges> {
    Some(match test {
        Test::Equals(value) => {
            let (range, is_exact) = range_of_value(value, string_bytes);
            ValueRanges {
                ranges: vec![range],
                seeks: 1,
                is_exact,
            }
        }
        Test::In(values) => {
            let mut ranges = Vec::with_capacity(values.len());
            let mut all_exact = true;
            for value in values {
                let (range, is_exact) = range_of_value(value, string_bytes);
                ranges.push(range);
                all_exact &= is_exact;
            }
            // Each value is charged, but values with the same encoding are read once.
            let seeks = ranges.len() as u64;
            ranges.sort_unstable();
            ranges.dedup();
            ValueRanges {
                ranges,
                seeks,
                is_exact: all_exact,
            }
        }
        Test::Range { lower, upper } => range_between(lower, upper, string_bytes)?,
        Test::Prefix(prefix) => {
            let (start, is_complete) = value::string_start(prefix, string_bytes);
            let end = keys::after(&start);
            ValueRanges::scan(vec![(start, end)], is_complete)
        }
        Test::ScanStrings(_) => ValueRanges::scan(vec![range_of_type(TypeBand::String)], true),
        Test::IsType(kind) => {
            let band = match kind {
                ValueType::Bool => TypeBand::Bool,
                ValueType::Number => TypeBand::Number,
                ValueType::String => TypeBand::String,
                ValueType::Array => TypeBand::Array,
                ValueType::Object => TypeBand::Object,
            };
            ValueRanges::scan(vec![range_of_type(band)], true)
        }
        Test::Defined => ValueRanges::scan(vec![(Vec::new(), vec![VALUES_END])], true),
        Test::NotEquals(value) => {
            let ((from, to), is_exact) = range_of_value(value, string_bytes);
            // Values that share an inexact encoding may differ from the value, so its range stays
            // in.
            let ranges = if is_exact {
                vec![(Vec::new(), from), (to, vec![VALUES_END])]
            } else {
                vec![(Vec::new(), vec![VALUES_END])]
            };
            ValueRanges::scan(ranges, is_exact)
        }
        Test::NotDefined | Test::Near { .. } | Test::HasWord { .. } => return None,
    })
}

/// Returns the range of the encoding of a value, and true if the encoding is exact.
fn range_of_value(value: &Json, string_bytes: usize) -> (KeyRange, bool) {
    let encoded = value::encode_within(value, string_bytes);
    let end = keys::after(&encoded.bytes);
    ((encoded.bytes, end), encoded.is_exact)
}

/// Returns the range of the encodings of a type.
fn range_of_type(band: TypeBand) -> KeyRange {
    let (from, to) = band.bounds();
    (vec![from], vec![to])
}

/// Returns the range of the encodings between two bounds. Only values of the type of the bounds lie
/// between them.
fn range_between(
    lower: &Bound<Json>,
    upper: &Bound<Json>,
    string_bytes: usize,
) -> Option<ValueRanges> {
    let bound = match lower {
        Bound::Unbounded => upper,
        _ => lower,
    };
    let (Bound::Included(sample) | Bound::Excluded(sample)) = bound else {
        return None;
    };
    let (first, last) = range_of_type(TypeBand::of(sample));
    let mut is_exact = true;

    // Values that share the inexact encoding of a bound lie on both sides of the bound. The range
    // includes them, and the item is tested.
    let from = match lower {
        Bound::Unbounded => first,
        Bound::Included(value) | Bound::Excluded(value) => {
            let encoded = value::encode_within(value, string_bytes);
            is_exact &= encoded.is_exact;
            if encoded.is_exact && matches!(lower, Bound::Excluded(_)) {
                keys::after(&encoded.bytes)
            } else {
                encoded.bytes
            }
        }
    };
    let to = match upper {
        Bound::Unbounded => last,
        Bound::Included(value) | Bound::Excluded(value) => {
            let encoded = value::encode_within(value, string_bytes);
            is_exact &= encoded.is_exact;
            if encoded.is_exact && matches!(upper, Bound::Excluded(_)) {
                encoded.bytes
            } else {
                keys::after(&encoded.bytes)
            }
        }
    };
    // No value lies between bounds that cross.
    let ranges = if from < to {
        vec![(from, to)]
    } else {
        Vec::new()
    };
    Some(ValueRanges::scan(ranges, is_exact))
}

/// Returns true if an item fulfils a condition.
pub(crate) fn holds(condition: &Condition, item: &Json) -> bool {
    match condition {
        Condition::All => true,
        Condition::Never => false,
        Condition::And(parts) => parts.iter().all(|part| holds(part, item)),
        Condition::Or(parts) => parts.iter().any(|part| holds(part, item)),
        Condition::Term { path, test, .. } => holds_at(&path.0, test, Some(item)),
    }
}

/// Returns true if the value at a path below `value` passes a test; for the elements of an array,
/// if one of them does.
fn holds_at(path: &[orrery_sql::Step], test: &Test, value: Option<&Json>) -> bool {
    match path.split_first() {
        None => passes(test, value),
        Some((orrery_sql::Step::Name(name), rest)) => {
            holds_at(rest, test, value.and_then(|value| value.get(name)))
        }
        Some((orrery_sql::Step::Element, rest)) => match value {
            Some(Json::Array(elements)) => elements
                .iter()
                .any(|element| holds_at(rest, test, Some(element))),
            _ => false,
        },
    }
}

/// Returns true if a value passes a test. `None` stands for undefined.
fn passes(test: &Test, value: Option<&Json>) -> bool {
    let Some(value) = value else {
        return matches!(test, Test::NotDefined);
    };
    match test {
        Test::Equals(wanted) => value == wanted,
        Test::NotEquals(unwanted) => value != unwanted,
        Test::In(wanted) => wanted.contains(value),
        Test::Range { lower, upper } => {
            // Values of different types are not comparable.
            let is_comparable = |bound: &Json| TypeBand::of(bound) == TypeBand::of(value);
            let is_above = match lower {
                Bound::Unbounded => true,
                Bound::Included(bound) => is_comparable(bound) && compare(value, bound).is_ge(),
                Bound::Excluded(bound) => is_comparable(bound) && compare(value, bound).is_gt(),
            };
            let is_below = match upper {
                Bound::Unbounded => true,
                Bound::Included(bound) => is_comparable(bound) && compare(value, bound).is_le(),
                Bound::Excluded(bound) => is_comparable(bound) && compare(value, bound).is_lt(),
            };
            is_above && is_below
        }
        // The query itself evaluates spatial functions.
        Test::Defined | Test::Near { .. } => true,
        Test::NotDefined => false,
        Test::Prefix(prefix) => match value.as_str() {
            Some(text) => text.starts_with(prefix.as_str()),
            None => false,
        },
        Test::ScanStrings(passes) => value.as_str().is_some_and(|text| passes(text)),
        Test::HasWord { language, word } => value
            .as_str()
            .is_some_and(|text| has_word(language, text, word)),
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

/// Returns the values that a condition allows at a path, or `None` if it leaves the path open. Used
/// to find the partition keys that a condition names.
pub(crate) fn pinned<'a>(condition: &'a Condition, names: &[String]) -> Option<Vec<&'a Json>> {
    match condition {
        Condition::Term { path, test, .. } if is_path_of(path, names) => match test {
            Test::Equals(value) => Some(vec![value]),
            Test::In(values) => Some(values.iter().collect()),
            _ => None,
        },
        Condition::And(parts) => parts.iter().find_map(|part| pinned(part, names)),
        Condition::Or(parts) => {
            let mut values = Vec::new();
            for part in parts {
                values.extend(pinned(part, names)?);
            }
            Some(values)
        }
        Condition::Never => Some(Vec::new()),
        _ => None,
    }
}

/// Returns true if a path consists of these names.
pub(crate) fn is_path_of(path: &Path, names: &[String]) -> bool {
    let mut pairs = path.0.iter().zip(names);
    path.0.len() == names.len()
        && pairs.all(|(step, name)| matches!(step, orrery_sql::Step::Name(own) if own == name))
}
