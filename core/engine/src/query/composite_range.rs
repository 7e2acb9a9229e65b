//! Ranges of composite indexes: the part of a composite index that conditions on its paths leave.

use super::condition::{steps, value_ranges};
use super::posting::KeyRange;
use crate::index::paths::Step;
use crate::index::policy::Composite;
use crate::index::value;
use crate::partition::keys::{self, PathNumber};
use orrery_sql::{Condition, Test};

/// A range of values of a composite index.
pub(crate) struct CompositeRange {
    /// First encoded value.
    from: Vec<u8>,
    /// End of the encoded values (exclusive); empty for the end of the index.
    to: Vec<u8>,
    /// Number of leading paths that have a single value in the range.
    pub pinned_paths: usize,
    /// Indexes of the conditions that the range follows from.
    pub covered: Vec<usize>,
    /// True if every entry in the range fulfils the covered conditions.
    pub is_exact: bool,
}

impl CompositeRange {
    /// Returns the range of keys under the path number of the index.
    pub(crate) fn keys(&self, number: PathNumber) -> KeyRange {
        let end = if self.to.is_empty() {
            keys::after(&keys::terms(number, &[]))
        } else {
            keys::terms(number, &self.to)
        };
        (keys::terms(number, &self.from), end)
    }
}

/// Returns the range of a composite index that conditions leave: equalities on its first paths, and
/// a range on the path after them.
pub(crate) fn composite_range(composite: &Composite, conditions: &[&Condition]) -> CompositeRange {
    let mut prefix: Vec<u8> = Vec::new();
    let mut range = CompositeRange {
        from: Vec::new(),
        to: Vec::new(),
        pinned_paths: 0,
        covered: Vec::new(),
        is_exact: true,
    };
    for (path, ascending) in &composite.paths {
        let tests = tests_on(path, conditions);

        // An equality adds its value to the prefix of all entries, and the next path is examined.
        let mut pinned = None;
        for (at, test, is_exact) in &tests {
            if let Test::Equals(value) = test {
                pinned = Some((*at, value, *is_exact));
                break;
            }
        }
        if let Some((at, value, is_exact)) = pinned {
            let encoded = value::encode_within(value, composite.string_bytes());
            range.is_exact &= is_exact && encoded.is_exact;
            range.covered.push(at);
            range.pinned_paths += 1;
            if *ascending {
                prefix.extend(encoded.bytes);
            } else {
                prefix.extend(value::inverted(&encoded.bytes));
            }
            continue;
        }

        // A range ends the prefix: the values of later paths are not contiguous inside of it.
        if let Some((at, (from, to), is_exact)) = value_range_of(&tests, composite) {
            range.is_exact &= is_exact;
            range.covered.push(at);
            // Inverted bytes sort in the opposite order, and the exclusive end becomes the
            // inclusive start.
            let (from, to) = if *ascending {
                (from, to)
            } else {
                let from_inverted = keys::after(&value::inverted(&to));
                (from_inverted, keys::after(&value::inverted(&from)))
            };
            range.from = [&prefix[..], &from].concat();
            range.to = [&prefix[..], &to].concat();
            return range;
        }
        break;
    }
    if !prefix.is_empty() {
        range.to = keys::after(&prefix);
        range.from = prefix;
    }
    range
}

/// Returns the tests on a path, each with the index of its condition and true if the test is the
/// whole condition of the query.
pub(crate) fn tests_on<'a>(
    path: &[Step],
    conditions: &[&'a Condition],
) -> Vec<(usize, &'a Test, bool)> {
    let mut tests = Vec::new();
    for (at, condition) in conditions.iter().enumerate() {
        if let Condition::Term {
            path: tested,
            test,
            exact,
        } = condition
            && steps(tested) == path
        {
            tests.push((at, test, *exact));
        }
    }
    tests
}

/// Returns the range of values of the first range or prefix test that has one range, with the index
/// of its condition and true if the encoded values decide the test.
fn value_range_of(
    tests: &[(usize, &Test, bool)],
    composite: &Composite,
) -> Option<(usize, KeyRange, bool)> {
    for (at, test, is_exact) in tests {
        if !matches!(test, Test::Range { .. } | Test::Prefix(_)) {
            continue;
        }
        if let Some(values) = value_ranges(test, composite.string_bytes()) {
            let [range] = &values.ranges[..] else {
                return None;
            };
            return Some((*at, range.clone(), *is_exact && values.is_exact));
        }
    }
    None
}
