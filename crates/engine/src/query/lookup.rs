//! Index entries that answer a condition: from terms, AND and OR to key ranges, and from those to items in natural
//! order.

use super::condition::{is_answerable, is_selective, value_ranges};
use super::index_view::IndexView;
use crate::errors::storage_failure;
use crate::index::policy::Composite;
use crate::index::value;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan;
use orrery_model::{Error, Json, Result};
use orrery_sql::{Condition, Path, Test};
use orrery_storage::{Direction, Snapshot};
use std::iter::Peekable;

/// Keys from (inclusive) and to (exclusive).
pub type KeyRange = (Vec<u8>, Vec<u8>);

/// Lists that are merged as they are read; more of them are read first and sorted.
const MERGED_LISTS: usize = 32;

/// Index entries that lead to every item which fulfils a condition.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// No item does.
    Nothing,
    /// The entries in some ranges of keys.
    Entries {
        /// The ranges; they do not overlap.
        ranges: Vec<KeyRange>,
        /// Each range is of one value, so its entries come by number.
        one_value: bool,
        /// A test on the string in the entry.
        strings: Option<Test>,
    },
    /// Items in one of these.
    Any(Vec<Lookup>),
    /// Items in all of these.
    All(Vec<Lookup>),
}

/// An item that a lookup leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// Its number.
    pub number: ItemNumber,
    /// Its place.
    pub epk_prefix: EpkPrefix,
    /// Whether the entries say all that the lookup's condition asks.
    pub is_whole: bool,
}

/// A lookup with what the planner has to know of it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The entries.
    pub lookup: Lookup,
    /// Whether they lead to no other items than those that fulfil the condition.
    pub exact: bool,
    /// Equality values looked up.
    pub seeks: u64,
    /// The term, if the condition is just one: it can be asked of a single item.
    pub term: Option<(PathNumber, Vec<u8>)>,
    /// The composite index that it asks, if it is one.
    pub composite: Option<Composite>,
    /// Whether it leads to few of the items that have its path, as far as its form can tell.
    pub selective: bool,
    /// The condition as text.
    pub text: String,
}

impl Planned {
    fn nothing(text: String, seeks: u64) -> Self {
        Planned {
            lookup: Lookup::Nothing,
            exact: true,
            seeks,
            term: None,
            composite: None,
            selective: true,
            text,
        }
    }
}

/// The lookup of a condition, if the index answers it.
pub fn plan(index: &IndexView<'_>, condition: &Condition) -> Option<Planned> {
    match condition {
        Condition::All => None,
        Condition::Never => Some(Planned::nothing("never".into(), 0)),
        Condition::Term { path, test, exact } => term(index, path, test, *exact),
        Condition::Or(parts) => {
            let parts: Vec<Planned> = parts
                .iter()
                .map(|part| plan(index, part))
                .collect::<Option<_>>()?;
            let selective = parts.iter().all(|part| part.selective);
            Some(Planned {
                selective,
                ..together(parts, " or ", Lookup::Any)
            })
        }
        Condition::And(parts) => {
            let planned: Vec<Planned> = parts.iter().filter_map(|part| plan(index, part)).collect();
            if planned.is_empty() {
                return None;
            }
            let all = planned.len() == parts.len();
            let selective = planned.iter().any(|part| part.selective);
            let together = together(planned, " and ", Lookup::All);
            Some(Planned {
                exact: together.exact && all,
                selective,
                ..together
            })
        }
    }
}

fn together(parts: Vec<Planned>, word: &str, lookup: fn(Vec<Lookup>) -> Lookup) -> Planned {
    let texts: Vec<&str> = parts.iter().map(|p| p.text.as_str()).collect();
    Planned {
        exact: parts.iter().all(|p| p.exact),
        seeks: parts.iter().map(|p| p.seeks).sum(),
        term: None,
        composite: None,
        selective: false,
        text: format!("({})", texts.join(word)),
        lookup: lookup(parts.into_iter().map(|p| p.lookup).collect()),
    }
}

fn term(index: &IndexView<'_>, path: &Path, test: &Test, exact: bool) -> Option<Planned> {
    if let Test::Near { geometry, distance } = test {
        return near(index, path, test, geometry, *distance);
    }
    if !is_answerable(test) || !index.covers(path) {
        return None;
    }
    let text = format!("{path} {test}");
    let values = value_ranges(test, value::STRING_BYTES)?;
    let Some(number) = index.number(path) else {
        return Some(Planned::nothing(
            format!("{text} (no item has the path)"),
            values.seeks,
        ));
    };
    let key = |value: &Vec<u8>| keys::terms(number, value);
    let term = match test {
        Test::Equals(value) => Some((number, value::encode(value).bytes)),
        _ => None,
    };
    Some(Planned {
        exact: exact && values.exact,
        seeks: values.seeks,
        lookup: Lookup::Entries {
            ranges: values
                .ranges
                .iter()
                .map(|(from, to)| (key(from), key(to)))
                .collect(),
            one_value: values.seeks > 0,
            strings: matches!(test, Test::ScanStrings(_)).then(|| test.clone()),
        },
        term,
        composite: None,
        selective: is_selective(test) || matches!(test, Test::ScanStrings(_)),
        text,
    })
}

/// The entries of a spatial index around a figure.
fn near(
    index: &IndexView<'_>,
    path: &Path,
    test: &Test,
    geometry: &Json,
    distance: f64,
) -> Option<Planned> {
    let (frame, number) = index.spatial(path)?;
    let text = format!("spatial {path} {test}");
    // A constant that is no figure makes the function undefined.
    let (Some(number), Some(boxes)) = (
        number,
        orrery_sql::extents_within(geometry, frame.is_planar, distance),
    ) else {
        return Some(Planned::nothing(text, 0));
    };
    let key =
        |(from, to): (Vec<u8>, Vec<u8>)| (keys::terms(number, &from), keys::terms(number, &to));
    Some(Planned {
        lookup: Lookup::Entries {
            ranges: frame.search_ranges(&boxes).into_iter().map(key).collect(),
            one_value: false,
            strings: None,
        },
        exact: false,
        seeks: 0,
        term: None,
        composite: None,
        selective: true,
        text,
    })
}

/// The entries of a composite index for equalities on its first paths and, if there is one, a range on the next; and
/// which of the conditions they cover.
pub fn plan_composite(
    composite: &Composite,
    number: Option<PathNumber>,
    conditions: &[&Condition],
) -> Option<(Planned, Vec<usize>)> {
    let narrowed = narrow(composite, conditions);
    if narrowed.covered.len() < 2 {
        return None;
    }
    let text = format!("composite ({})", composite.text);
    let used = Some(composite.clone());
    let Some(number) = number else {
        return Some((
            Planned {
                composite: used,
                ..Planned::nothing(text, 1)
            },
            narrowed.covered,
        ));
    };
    let planned = Planned {
        lookup: Lookup::Entries {
            ranges: vec![narrowed.keys(number)],
            one_value: narrowed.pinned == composite.paths.len(),
            strings: None,
        },
        exact: narrowed.exact,
        seeks: narrowed.pinned as u64,
        term: None,
        composite: used,
        selective: true,
        text,
    };
    Some((planned, narrowed.covered))
}

/// A stretch of a composite index.
pub struct Narrowed {
    from: Vec<u8>,
    to: Vec<u8>,
    /// Paths that have one value in it.
    pub pinned: usize,
    /// Which conditions it follows from.
    pub covered: Vec<usize>,
    /// Whether everything in it fulfils them.
    pub exact: bool,
}

impl Narrowed {
    /// Its keys.
    pub fn keys(&self, number: PathNumber) -> KeyRange {
        let end = |bytes: &[u8]| {
            if bytes.is_empty() {
                keys::after(&keys::terms(number, &[]))
            } else {
                keys::terms(number, bytes)
            }
        };
        (keys::terms(number, &self.from), end(&self.to))
    }
}

/// The stretch of a composite index that conditions leave.
pub fn narrow(composite: &Composite, conditions: &[&Condition]) -> Narrowed {
    let mut prefix: Vec<u8> = Vec::new();
    let mut narrowed = Narrowed {
        from: Vec::new(),
        to: Vec::new(),
        pinned: 0,
        covered: Vec::new(),
        exact: true,
    };
    for (steps, ascending) in &composite.paths {
        let on_path = || {
            conditions
                .iter()
                .enumerate()
                .filter_map(|(i, condition)| match condition {
                    Condition::Term { path, test, exact }
                        if super::condition::steps(path) == *steps =>
                    {
                        Some((i, test, *exact))
                    }
                    _ => None,
                })
        };
        let turn = |bytes: Vec<u8>| {
            if *ascending {
                bytes
            } else {
                value::inverted(&bytes)
            }
        };
        if let Some((i, Test::Equals(value), exact)) =
            on_path().find(|(_, test, _)| matches!(test, Test::Equals(_)))
        {
            let encoded = value::encode_within(value, composite.string_bytes());
            narrowed.exact &= exact && encoded.is_exact;
            narrowed.covered.push(i);
            prefix.extend(turn(encoded.bytes));
            narrowed.pinned += 1;
            continue;
        }
        let range = on_path().find_map(|(i, test, exact)| match test {
            Test::Range { .. } | Test::Prefix(_) => {
                value_ranges(test, composite.string_bytes()).map(|values| (i, values, exact))
            }
            _ => None,
        });
        if let Some((i, values, exact)) = range
            && let [(from, to)] = &values.ranges[..]
        {
            narrowed.exact &= exact && values.exact;
            narrowed.covered.push(i);
            // Turned bytes sort the other way round, and what was left out at one end comes first at the other.
            let (from, to) = match ascending {
                true => (from.clone(), to.clone()),
                false => (
                    keys::after(&value::inverted(to)),
                    keys::after(&value::inverted(from)),
                ),
            };
            narrowed.from = [&prefix[..], &from].concat();
            narrowed.to = [&prefix[..], &to].concat();
            return narrowed;
        }
        break;
    }
    if !prefix.is_empty() {
        narrowed.to = keys::after(&prefix);
        narrowed.from = prefix;
    }
    narrowed
}

type Hits<'a> = Box<dyn Iterator<Item = Result<Hit>> + 'a>;

impl Lookup {
    /// The items from number `from` on, each once, in natural order or from the end; `None` if more than `most` entries
    /// would have to be read before the first is known.
    ///
    /// # Errors
    /// What the store reports.
    pub fn hits<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
        from: ItemNumber,
        direction: Direction,
        most: usize,
    ) -> Result<Option<Hits<'a>>> {
        let lists = self.lists().filter(|lists| lists.len() <= MERGED_LISTS);
        if let Some(lists) = lists {
            let open = |(start, end): KeyRange| {
                let start = [&start[..], &from.to_be_bytes()].concat();
                one_list(snapshot, &(start, end), direction).peekable()
            };
            let mut lists: Vec<_> = lists.into_iter().map(open).collect();
            return Ok(Some(match lists.len() {
                1 => Box::new(lists.swap_remove(0)),
                _ => Box::new(Merged {
                    lists,
                    direction,
                    last: None,
                }),
            }));
        }
        let Some(mut hits) = self.collect(snapshot, from, most)? else {
            return Ok(None);
        };
        if direction == Direction::Reverse {
            hits.reverse();
        }
        Ok(Some(Box::new(hits.into_iter().map(Ok))))
    }

    /// The lists of one value each that make it up, if it is so.
    fn lists(&self) -> Option<Vec<KeyRange>> {
        match self {
            Lookup::Nothing => Some(Vec::new()),
            Lookup::Entries {
                ranges,
                one_value: true,
                ..
            } => Some(ranges.clone()),
            Lookup::Any(parts) => {
                let each: Option<Vec<Vec<KeyRange>>> = parts.iter().map(Lookup::lists).collect();
                Some(each?.concat())
            }
            _ => None,
        }
    }

    /// All items from number `from` on, in natural order; `None` if more than `most` entries would have to be read.
    ///
    /// # Errors
    /// What the store reports.
    pub fn collect(
        &self,
        snapshot: &dyn Snapshot,
        from: ItemNumber,
        most: usize,
    ) -> Result<Option<Vec<Hit>>> {
        let mut hits: Vec<Hit> = Vec::new();
        match self {
            Lookup::Nothing => {}
            Lookup::Entries {
                ranges, strings, ..
            } => {
                let mut read = 0usize;
                for range in ranges {
                    for entry in scan(snapshot, range, Direction::Forward) {
                        read += 1;
                        if read > most {
                            return Ok(None);
                        }
                        let key = entry?.0;
                        let (bytes, mut hit) = read_entry(&key)?;
                        if hit.number >= from
                            && strings
                                .as_ref()
                                .is_none_or(|test| string_passes(test, bytes))
                        {
                            hit.is_whole = strings.is_none() || !value::is_inexact(bytes);
                            hits.push(hit);
                        }
                    }
                }
            }
            Lookup::Any(parts) => {
                for part in parts {
                    let Some(found) =
                        part.collect(snapshot, from, most.saturating_sub(hits.len()))?
                    else {
                        return Ok(None);
                    };
                    hits.extend(found);
                }
            }
            Lookup::All(parts) => return Self::intersection(parts, snapshot, from, most),
        }
        hits.sort_unstable();
        // Where one of several entries of an item does not say all, the item is looked at.
        hits.dedup_by_key(|hit| hit.number);
        Ok(Some(hits))
    }

    fn intersection(
        parts: &[Lookup],
        snapshot: &dyn Snapshot,
        from: ItemNumber,
        most: usize,
    ) -> Result<Option<Vec<Hit>>> {
        let mut common: Option<Vec<Hit>> = None;
        for part in parts {
            let Some(hits) = part.collect(snapshot, from, most)? else {
                return Ok(None);
            };
            common = Some(match common {
                None => hits,
                Some(before) => both(&before, &hits),
            });
        }
        Ok(Some(common.unwrap_or_default()))
    }

    /// Whether it tests strings, of which the index may have only the beginning.
    pub fn scans_strings(&self) -> bool {
        match self {
            Lookup::Nothing => false,
            Lookup::Entries { strings, .. } => strings.is_some(),
            Lookup::Any(parts) | Lookup::All(parts) => parts.iter().any(Lookup::scans_strings),
        }
    }

    /// Its entries, to be counted.
    pub fn count<'a>(&'a self, snapshot: &'a dyn Snapshot) -> Box<dyn Iterator<Item = ()> + 'a> {
        match self {
            Lookup::Nothing => Box::new(std::iter::empty()),
            Lookup::Entries { ranges, .. } => Box::new(
                ranges
                    .iter()
                    .flat_map(move |range| scan(snapshot, range, Direction::Forward))
                    .map(|_| ()),
            ),
            Lookup::Any(parts) => Box::new(parts.iter().flat_map(move |part| part.count(snapshot))),
            // As many as the shortest; the first will do for an estimate.
            Lookup::All(parts) => Box::new(
                parts
                    .iter()
                    .take(1)
                    .flat_map(move |part| part.count(snapshot)),
            ),
        }
    }
}

/// Items in both of two lists in natural order.
fn both(a: &[Hit], b: &[Hit]) -> Vec<Hit> {
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        match x.number.cmp(&y.number) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                out.push(Hit {
                    is_whole: x.is_whole && y.is_whole,
                    ..*x
                });
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    out
}

fn one_list<'a>(
    snapshot: &'a dyn Snapshot,
    range: &KeyRange,
    direction: Direction,
) -> impl Iterator<Item = Result<Hit>> + use<'a> {
    scan(snapshot, range, direction).map(|entry| read_entry(&entry?.0).map(|(_, hit)| hit))
}

/// Value and item of an index entry.
///
/// # Errors
/// 500 for a damaged one.
pub fn read_entry(key: &[u8]) -> Result<(&[u8], Hit)> {
    let damaged = || Error::internal("a row of the index is damaged");
    let (bytes, number, epk_prefix) = keys::read_term(key).ok_or_else(damaged)?;
    Ok((
        bytes,
        Hit {
            number,
            epk_prefix,
            is_whole: true,
        },
    ))
}

/// A string that was cut for the index may pass: its item decides.
fn string_passes(test: &Test, encoded: &[u8]) -> bool {
    match (test, value::decode_string(encoded)) {
        (Test::ScanStrings(passes), Some(text)) => passes(&text),
        _ => true,
    }
}

/// Several lists in natural order as one, each item once.
struct Merged<I: Iterator<Item = Result<Hit>>> {
    lists: Vec<Peekable<I>>,
    direction: Direction,
    last: Option<ItemNumber>,
}

impl<I: Iterator<Item = Result<Hit>>> Iterator for Merged<I> {
    type Item = Result<Hit>;

    fn next(&mut self) -> Option<Result<Hit>> {
        loop {
            let mut best: Option<(usize, ItemNumber)> = None;
            for (i, list) in self.lists.iter_mut().enumerate() {
                let number = match list.peek() {
                    None => continue,
                    Some(Err(_)) => return list.next(),
                    Some(Ok(hit)) => hit.number,
                };
                let sooner = best.is_none_or(|(_, least)| match self.direction {
                    Direction::Forward => number < least,
                    Direction::Reverse => number > least,
                });
                if sooner {
                    best = Some((i, number));
                }
            }
            let (list, number) = best?;
            let hit = self.lists[list].next();
            if self.last.replace(number) != Some(number) {
                return hit;
            }
        }
    }
}

/// Whether an item has an entry.
///
/// # Errors
/// What the store reports.
pub fn has_entry(
    snapshot: &dyn Snapshot,
    path: PathNumber,
    bytes: &[u8],
    number: ItemNumber,
    epk_prefix: EpkPrefix,
) -> Result<bool> {
    let key = keys::term(path, bytes, number, epk_prefix);
    Ok(snapshot.get(&key).map_err(storage_failure)?.is_some())
}
