//! Index lookups: from a condition to ranges of index keys, and from the ranges to items in natural
//! order.
//!
//! 1. [`plan`] descends through AND and OR and plans a lookup for each part that the index can
//!    answer.
//! 2. `plan_term` asks `value_ranges` for the encoded values that a test accepts, and prefixes them
//!    with the number of the path. `plan_spatial` asks the grid of a spatial index, `plan_word` a
//!    full-text index, [`plan_composite`] a composite index.
//! 3. `combine` joins the parts: [`Lookup::Any`] for OR, [`Lookup::All`] for AND.
//! 4. The planner in `query/access.rs` counts the entries of each lookup ([`Lookup::count`]) and
//!    chooses one.
//! 5. [`Lookup::matches`] reads the chosen lookup. The entries of a single value are in natural
//!    order, so a few such lists are merged as they are read (`MergedMatches`).
//! 6. All other lookups are read completely, sorted by item number and freed of duplicates
//!    ([`Lookup::collect`]); AND keeps the items of all parts (`intersect`).
//! 7. A match whose entry is [inexact](value) is marked, and the cursor leaves the condition to the
//!    item.

use super::composite_range::composite_range;
use super::condition::{is_answerable, is_selective, value_ranges};
use super::index_view::IndexView;
use super::like_lookup::LikeLookup;
use super::posting::{KeyRange, read_entry};
use crate::index::policy::Composite;
use crate::index::texts::stem_key;
use crate::index::value;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan_keys;
use orrery_model::{Json, Result};
use orrery_sql::{Condition, Path, TermWord, Test};
use orrery_storage::{Direction, Snapshot};
use std::cmp::Ordering;
use std::iter::Peekable;

/// Maximum number of lists that are merged as they are read. More lists are read first and sorted.
const MERGED_LISTS: usize = 32;

/// Index entries that lead to every item that fulfils a condition.
#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    /// No item fulfils the condition.
    Nothing,
    /// The entries in some ranges of keys.
    Entries {
        /// The ranges, which do not overlap.
        ranges: Vec<KeyRange>,
        /// True if each range is of a single value. Its entries are then in natural order.
        is_single_value: bool,
        /// A test on the string of each entry.
        string_test: Option<Test>,
    },
    /// The entries of the words that match a word of a fuzzy term.
    Like(LikeLookup),
    /// Items of at least one of these lookups.
    Any(Vec<Lookup>),
    /// Items of all these lookups.
    All(Vec<Lookup>),
}

/// An item that a lookup leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ItemMatch {
    /// The number of the item.
    pub number: ItemNumber,
    /// The EPK prefix of the item.
    pub epk_prefix: EpkPrefix,
    /// True if the entries decide the lookup's condition.
    pub is_exact: bool,
}

/// Matches in natural order.
type Matches<'a> = Box<dyn Iterator<Item = Result<ItemMatch>> + 'a>;

/// A lookup with its properties for the planner.
#[derive(Clone, Debug)]
pub(crate) struct PlannedLookup {
    /// The entries.
    pub lookup: Lookup,
    /// True if the entries lead only to items that fulfil the condition.
    pub is_exact: bool,
    /// Number of index seeks: values of equality conditions.
    pub seeks: u64,
    /// The term, if the condition is a single equality. A single item can be checked for it.
    pub term: Option<(PathNumber, Vec<u8>)>,
    /// The composite index, if the lookup uses one.
    pub composite: Option<Composite>,
    /// True if the form of the condition suggests that it holds for few of the items that have the
    /// path.
    pub is_selective: bool,
    /// The condition as text.
    pub text: String,
}

impl PlannedLookup {
    /// Returns the lookup of a condition that no item fulfils.
    fn nothing(text: String, seeks: u64) -> Self {
        PlannedLookup {
            lookup: Lookup::Nothing,
            is_exact: true,
            seeks,
            term: None,
            composite: None,
            is_selective: true,
            text,
        }
    }
}

/// Returns the lookup of a condition, if the index can answer the condition.
pub(crate) fn plan(index: &IndexView<'_>, condition: &Condition) -> Option<PlannedLookup> {
    match condition {
        Condition::All => None,
        Condition::Never => Some(PlannedLookup::nothing("never".into(), 0)),
        Condition::Term { path, test, exact } => plan_term(index, path, test, *exact),
        // The index answers OR only if it answers every part.
        Condition::Or(parts) => {
            let mut planned = Vec::with_capacity(parts.len());
            for part in parts {
                planned.push(plan(index, part)?);
            }
            let is_selective = planned.iter().all(|part| part.is_selective);
            Some(PlannedLookup {
                is_selective,
                ..combine(planned, " or ", Lookup::Any)
            })
        }
        // A part of AND that the index does not answer makes the lookup inexact.
        Condition::And(parts) => {
            let planned: Vec<_> = parts.iter().filter_map(|part| plan(index, part)).collect();
            if planned.is_empty() {
                return None;
            }
            let answers_all = planned.len() == parts.len();
            let is_selective = planned.iter().any(|part| part.is_selective);
            let combined = combine(planned, " and ", Lookup::All);
            Some(PlannedLookup {
                is_exact: combined.is_exact && answers_all,
                is_selective,
                ..combined
            })
        }
    }
}

/// Combines the lookups of parts to one. `word` joins their texts.
fn combine(
    parts: Vec<PlannedLookup>,
    word: &str,
    variant: fn(Vec<Lookup>) -> Lookup,
) -> PlannedLookup {
    let mut is_exact = true;
    let mut seeks = 0;
    let mut texts = Vec::with_capacity(parts.len());
    let mut lookups = Vec::with_capacity(parts.len());
    for part in parts {
        is_exact &= part.is_exact;
        seeks += part.seeks;
        texts.push(part.text);
        lookups.push(part.lookup);
    }
    PlannedLookup {
        lookup: variant(lookups),
        is_exact,
        seeks,
        term: None,
        composite: None,
        is_selective: false,
        text: format!("({})", texts.join(word)),
    }
}

/// Returns the lookup of a test on a path.
fn plan_term(
    index: &IndexView<'_>,
    path: &Path,
    test: &Test,
    is_exact: bool,
) -> Option<PlannedLookup> {
    if let Test::Near { geometry, distance } = test {
        return plan_spatial(index, path, test, geometry, *distance);
    }
    if let Test::HasWord { language, word } = test {
        return plan_word(index, path, test, language, word, is_exact);
    }
    if !is_answerable(test) || !index.covers(path) {
        return None;
    }
    // Seeks are charged even if no item has the path.
    let text = format!("{path} {test}");
    let values = value_ranges(test, value::STRING_BYTES)?;
    let Some(number) = index.number(path) else {
        let text = format!("{text} (no item has the path)");
        return Some(PlannedLookup::nothing(text, values.seeks));
    };

    let mut ranges = Vec::with_capacity(values.ranges.len());
    for (from, to) in &values.ranges {
        ranges.push((keys::terms(number, from), keys::terms(number, to)));
    }
    let term = match test {
        Test::Equals(value) => Some((number, value::encode(value).bytes)),
        _ => None,
    };
    let scans_strings = matches!(test, Test::ScanStrings(_));
    Some(PlannedLookup {
        lookup: Lookup::Entries {
            ranges,
            is_single_value: values.seeks > 0,
            string_test: scans_strings.then(|| test.clone()),
        },
        is_exact: is_exact && values.is_exact,
        seeks: values.seeks,
        term,
        composite: None,
        is_selective: is_selective(test) || scans_strings,
        text,
    })
}

/// Returns the lookup in a full-text index for the texts with a word that matches.
fn plan_word(
    index: &IndexView<'_>,
    path: &Path,
    test: &Test,
    language: &str,
    word: &TermWord,
    is_exact: bool,
) -> Option<PlannedLookup> {
    let (_, number) = index.texts(path, language, word.like.is_some())?;
    let text = format!("text {path} {test}");
    let Some(number) = number else {
        return Some(PlannedLookup::nothing(text, 1));
    };
    let lookup = match &word.like {
        Some(_) => Lookup::Like(LikeLookup::new(number, word)),
        None => Lookup::Entries {
            ranges: vec![keys::words(number, &stem_key(&word.stem))],
            is_single_value: true,
            string_test: None,
        },
    };
    Some(PlannedLookup {
        lookup,
        is_exact,
        seeks: 1,
        term: None,
        composite: None,
        is_selective: true,
        text,
    })
}

/// Returns the lookup in a spatial index for the geometries within a distance of a geometry. On the
/// Earth the distance is in metres.
fn plan_spatial(
    index: &IndexView<'_>,
    path: &Path,
    test: &Test,
    geometry: &Json,
    distance: f64,
) -> Option<PlannedLookup> {
    let (grid, number) = index.spatial(path)?;
    let text = format!("spatial {path} {test}");
    // The spatial functions are undefined for a constant that is no geometry.
    let boxes = orrery_sql::extents_within(geometry, grid.is_planar, distance);
    let (Some(number), Some(boxes)) = (number, boxes) else {
        return Some(PlannedLookup::nothing(text, 0));
    };
    let mut ranges = Vec::new();
    for (from, to) in grid.search_ranges(&boxes) {
        ranges.push((keys::terms(number, &from), keys::terms(number, &to)));
    }
    Some(PlannedLookup {
        lookup: Lookup::Entries {
            ranges,
            is_single_value: false,
            string_test: None,
        },
        is_exact: false,
        seeks: 0,
        term: None,
        composite: None,
        is_selective: true,
        text,
    })
}

/// Returns the lookup in a composite index, and the indexes of the conditions that it covers.
/// Returns `None` if the lookup would cover fewer than two conditions.
pub(crate) fn plan_composite(
    composite: &Composite,
    number: Option<PathNumber>,
    conditions: &[&Condition],
) -> Option<(PlannedLookup, Vec<usize>)> {
    let range = composite_range(composite, conditions);
    if range.covered.len() < 2 {
        return None;
    }
    // Without an item in the index the lookup is empty, and a single seek shows that.
    let text = format!("composite ({})", composite.text);
    let planned = match number {
        None => PlannedLookup {
            composite: Some(composite.clone()),
            ..PlannedLookup::nothing(text, 1)
        },
        Some(number) => PlannedLookup {
            lookup: Lookup::Entries {
                ranges: vec![range.keys(number)],
                is_single_value: range.pinned_paths == composite.paths.len(),
                string_test: None,
            },
            is_exact: range.is_exact,
            seeks: range.pinned_paths as u64,
            term: None,
            composite: Some(composite.clone()),
            is_selective: true,
            text,
        },
    };
    Some((planned, range.covered))
}

impl Lookup {
    /// Returns the items from the number `from` on, each once, in natural order or in reverse.
    /// Returns `None` if more than `entries_max` entries would have to be read before the first
    /// item is known.
    ///
    /// # Errors
    /// 500 if the store cannot be read or an entry is damaged; those of `check_point`.
    pub(crate) fn matches<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        check_point: &dyn Fn() -> Result<()>,
        from: ItemNumber,
        direction: Direction,
        entries_max: usize,
    ) -> Result<Option<Matches<'a>>> {
        // Lists of single values are in natural order already, and need not be read to their ends.
        if let Some(ranges) = self.single_value_ranges()
            && ranges.len() <= MERGED_LISTS
        {
            let mut lists = Vec::with_capacity(ranges.len());
            for (start, end) in ranges {
                let start = [&start[..], &from.to_be_bytes()].concat();
                lists.push(read_matches(snapshot, &(start, end), direction).peekable());
            }
            if lists.len() == 1 {
                return Ok(Some(Box::new(lists.swap_remove(0))));
            }
            return Ok(Some(Box::new(MergedMatches {
                lists,
                direction,
                last: None,
            })));
        }

        let matches = self.collect(snapshot, check_point, from, entries_max)?;
        let Some(mut matches) = matches else {
            return Ok(None);
        };
        if direction == Direction::Reverse {
            matches.reverse();
        }
        Ok(Some(Box::new(matches.into_iter().map(Ok))))
    }

    /// Returns the ranges of the lookup, if each range is of a single value and the lookup is their
    /// union.
    fn single_value_ranges(&self) -> Option<Vec<KeyRange>> {
        match self {
            Lookup::Nothing => Some(Vec::new()),
            Lookup::Entries {
                ranges,
                is_single_value: true,
                ..
            } => Some(ranges.clone()),
            Lookup::Any(parts) => {
                let mut ranges = Vec::new();
                for part in parts {
                    ranges.extend(part.single_value_ranges()?);
                }
                Some(ranges)
            }
            _ => None,
        }
    }

    /// Returns all items from the number `from` on in natural order, or `None` if more than
    /// `entries_max` entries would have to be read.
    ///
    /// # Errors
    /// 500 if the store cannot be read or an entry is damaged; those of `check_point`.
    pub(crate) fn collect(
        &self,
        snapshot: &dyn Snapshot,
        check_point: &dyn Fn() -> Result<()>,
        from: ItemNumber,
        entries_max: usize,
    ) -> Result<Option<Vec<ItemMatch>>> {
        let mut matches = match self {
            Lookup::Nothing => Vec::new(),
            Lookup::Entries {
                ranges,
                string_test,
                ..
            } => {
                let test = string_test.as_ref();
                match collect_entries(ranges, test, snapshot, from, entries_max)? {
                    Some(matches) => matches,
                    None => return Ok(None),
                }
            }
            Lookup::Like(like) => match like.collect(snapshot, check_point, from, entries_max)? {
                Some(matches) => matches,
                None => return Ok(None),
            },
            Lookup::Any(parts) => {
                let mut union = Vec::new();
                for part in parts {
                    let entries_left = entries_max.saturating_sub(union.len());
                    match part.collect(snapshot, check_point, from, entries_left)? {
                        Some(matches) => union.extend(matches),
                        None => return Ok(None),
                    }
                }
                union
            }
            Lookup::All(parts) => {
                return Self::intersection(parts, snapshot, check_point, from, entries_max);
            }
        };
        // Inexact matches of an item sort first and remain: the condition is then tested on the
        // item.
        matches.sort_unstable();
        matches.dedup_by_key(|found| found.number);
        Ok(Some(matches))
    }

    /// Returns the items that all parts lead to, as [`Lookup::collect`] does.
    fn intersection(
        parts: &[Lookup],
        snapshot: &dyn Snapshot,
        check_point: &dyn Fn() -> Result<()>,
        from: ItemNumber,
        entries_max: usize,
    ) -> Result<Option<Vec<ItemMatch>>> {
        let mut common: Option<Vec<ItemMatch>> = None;
        for part in parts {
            let matches = part.collect(snapshot, check_point, from, entries_max)?;
            let Some(matches) = matches else {
                return Ok(None);
            };
            common = Some(match common {
                None => matches,
                Some(before) => intersect(&before, &matches),
            });
        }
        Ok(Some(common.unwrap_or_default()))
    }

    /// Returns true if the lookup tests strings, which the index may have truncated.
    pub(crate) fn scans_strings(&self) -> bool {
        match self {
            Lookup::Nothing | Lookup::Like(_) => false,
            Lookup::Entries { string_test, .. } => string_test.is_some(),
            Lookup::Any(parts) | Lookup::All(parts) => parts.iter().any(Lookup::scans_strings),
        }
    }

    /// Returns the keys of full-text indexes that were read so far to find the words that are like
    /// those of fuzzy terms.
    pub(crate) fn compared_words(&self) -> u64 {
        match self {
            Lookup::Nothing | Lookup::Entries { .. } => 0,
            Lookup::Like(like) => like.compared_words(),
            Lookup::Any(parts) | Lookup::All(parts) => {
                parts.iter().map(Lookup::compared_words).sum()
            }
        }
    }

    /// Returns an iterator over the entries that counts them for an estimate.
    pub(crate) fn count<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
    ) -> Box<dyn Iterator<Item = ()> + 'a> {
        // The intersection has as many items as its shortest part at most; the first part serves as
        // the estimate.
        let parts = match self {
            Lookup::Nothing => return Box::new(std::iter::empty()),
            Lookup::Entries { ranges, .. } => {
                let ranges = ranges.clone().into_iter();
                return Box::new(ranges.flat_map(move |range| count_keys(snapshot, &range)));
            }
            Lookup::Like(like) => return like.count(snapshot),
            Lookup::Any(parts) => &parts[..],
            Lookup::All(parts) => &parts[..parts.len().min(1)],
        };
        let counts: Vec<_> = parts.iter().map(|part| part.count(snapshot)).collect();
        Box::new(counts.into_iter().flatten())
    }
}

/// Returns an iterator over the keys of a range that counts them for an estimate.
pub(crate) fn count_keys<'a>(
    snapshot: &'a dyn Snapshot,
    range: &KeyRange,
) -> impl Iterator<Item = ()> + use<'a> {
    // A key that cannot be read counts: the access that was chosen will report the error.
    scan_keys(snapshot, range, Direction::Forward, |_| Ok(())).map(|_| ())
}

/// Returns the items of the entries in some ranges, unsorted, or `None` if there are more than
/// `entries_max` entries.
fn collect_entries(
    ranges: &[KeyRange],
    string_test: Option<&Test>,
    snapshot: &dyn Snapshot,
    from: ItemNumber,
    entries_max: usize,
) -> Result<Option<Vec<ItemMatch>>> {
    let mut matches = Vec::new();
    let mut entries_read = 0;
    for range in ranges {
        let entries = scan_keys(snapshot, range, Direction::Forward, |key| {
            let (value, number, epk_prefix) = read_entry(key)?;
            let passes = string_test.is_none_or(|test| string_passes(test, value));
            let is_exact = string_test.is_none() || !value::is_inexact(value);
            Ok((number >= from && passes).then_some(ItemMatch {
                number,
                epk_prefix,
                is_exact,
            }))
        });
        for found in entries {
            entries_read += 1;
            if entries_read > entries_max {
                return Ok(None);
            }
            matches.extend(found?);
        }
    }
    Ok(Some(matches))
}

/// Returns the items in both of two lists in natural order.
fn intersect(a: &[ItemMatch], b: &[ItemMatch]) -> Vec<ItemMatch> {
    let (mut i, mut j, mut common) = (0, 0, Vec::new());
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        match x.number.cmp(&y.number) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => {
                common.push(ItemMatch {
                    is_exact: x.is_exact && y.is_exact,
                    ..*x
                });
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    common
}

/// Returns the items of the entries in a range.
fn read_matches<'a>(
    snapshot: &'a dyn Snapshot,
    range: &KeyRange,
    direction: Direction,
) -> impl Iterator<Item = Result<ItemMatch>> + use<'a> {
    scan_keys(snapshot, range, direction, |key| {
        let (_, number, epk_prefix) = read_entry(key)?;
        Ok(ItemMatch {
            number,
            epk_prefix,
            is_exact: true,
        })
    })
}

/// Returns true if the string of an entry passes a test, or may pass because the index truncated
/// it.
fn string_passes(test: &Test, encoded: &[u8]) -> bool {
    match (test, value::decode_string(encoded)) {
        (Test::ScanStrings(passes), Some(text)) => passes(&text),
        _ => true,
    }
}

/// The union of several lists in natural order, each item once.
struct MergedMatches<I: Iterator<Item = Result<ItemMatch>>> {
    lists: Vec<Peekable<I>>,
    direction: Direction,
    /// Number of the last item.
    last: Option<ItemNumber>,
}

impl<I: Iterator<Item = Result<ItemMatch>>> Iterator for MergedMatches<I> {
    type Item = Result<ItemMatch>;

    fn next(&mut self) -> Option<Result<ItemMatch>> {
        loop {
            // The next item is the first one of all lists in the direction of the scan.
            let mut best: Option<(usize, ItemNumber)> = None;
            for (at, list) in self.lists.iter_mut().enumerate() {
                let number = match list.peek() {
                    None => continue,
                    Some(Err(_)) => return list.next(),
                    Some(Ok(found)) => found.number,
                };
                let is_before = match (best, self.direction) {
                    (None, _) => true,
                    (Some((_, first)), Direction::Forward) => number < first,
                    (Some((_, first)), Direction::Reverse) => number > first,
                };
                if is_before {
                    best = Some((at, number));
                }
            }
            let (at, number) = best?;
            let found = self.lists[at].next();

            // An item in several lists is returned once.
            if self.last.replace(number) != Some(number) {
                return found;
            }
        }
    }
}
