//! The groups of GROUP BY, and aggregates.
//!
//! Every aggregate ignores undefined values. A value of a type that SUM, AVG, MIN or MAX cannot
//! take makes the result of that aggregate undefined, whatever comes after it. An aggregate without
//! GROUP BY has one group, even of no rows.

use super::frame::{Context, Scope};
use crate::bound::Grouping;
use crate::error::QueryError;
use crate::functions::AggregateKind;
use crate::value::{digest, number, weight};
use orrery_model::json::{Json, Object, compare, parse};
use std::collections::{HashMap, HashSet};

/// Bytes of a group besides its keys, and of each of its aggregates.
const GROUP_OVERHEAD: usize = 96;
const STATE_BYTES: usize = 64;
/// Bytes of a digest in a set, with the overhead of the set.
const DIGEST_BYTES: usize = 24;
/// Largest value, in bytes, that the partial state of MIN or MAX may hold: the state travels in a
/// continuation token.
const MAX_SAVED_BYTES: usize = 256;

/// All groups, in the order in which they first appeared.
pub(crate) struct Groups {
    /// The index in `groups`, by the digest of the keys.
    index_by_key: HashMap<u128, usize>,
    groups: Vec<OpenGroup>,
    /// Bytes of keys and states.
    memory: usize,
}

/// A group that takes further tuples.
struct OpenGroup {
    keys: Vec<Option<Json>>,
    states: Vec<State>,
}

/// A group after its last tuple.
pub(crate) struct Group {
    pub keys: Vec<Option<Json>>,
    /// The results of the aggregates.
    pub results: Vec<Option<Json>>,
}

impl OpenGroup {
    fn new(keys: Vec<Option<Json>>, grouping: &Grouping) -> Self {
        let states = grouping
            .aggregates
            .iter()
            .map(|(kind, _)| State::new(*kind))
            .collect();
        OpenGroup { keys, states }
    }
}

impl Groups {
    pub(crate) fn new(grouping: &Grouping) -> Self {
        let mut groups = Groups {
            index_by_key: HashMap::new(),
            groups: Vec::new(),
            memory: 0,
        };
        if grouping.keys.is_empty() {
            groups.groups.push(OpenGroup::new(Vec::new(), grouping));
        }
        groups
    }

    /// Adds a tuple to its group.
    ///
    /// # Errors
    /// Those of the evaluation.
    pub(crate) fn add(
        &mut self,
        grouping: &Grouping,
        cx: &mut Context<'_>,
        tuple: &Scope<'_>,
    ) -> Result<(), QueryError> {
        let group = if grouping.keys.is_empty() {
            0
        } else {
            self.group_of(grouping, cx, tuple)?
        };
        let states = &mut self.groups[group].states;
        for (state, (_, expr)) in states.iter_mut().zip(&grouping.aggregates) {
            if let Some(value) = expr.eval(cx, tuple)? {
                cx.count_iteration()?;
                cx.count_value_read(&value)?;
                self.memory += state.add(&value, cx.copies);
            }
        }
        Ok(())
    }

    /// Adds what each aggregate of the only group counts or sums over all tuples.
    pub(crate) fn add_totals(&mut self, totals: &[u64]) {
        let Some(group) = self.groups.first_mut() else {
            return;
        };
        for (state, total) in group.states.iter_mut().zip(totals) {
            match state {
                State::Count(count) | State::CountIf(count) => *count += total,
                State::Sum { sum, .. } => *sum += *total as f64,
                // No other aggregate is a total.
                _ => {}
            }
        }
    }

    /// Returns the index of the group of a tuple, which is created with its first tuple.
    fn group_of(
        &mut self,
        grouping: &Grouping,
        cx: &mut Context<'_>,
        tuple: &Scope<'_>,
    ) -> Result<usize, QueryError> {
        // The digest of all keys depends on their order: it is rotated before the next one enters.
        let mut key_digest = 0u128;
        let mut keys = Vec::with_capacity(grouping.keys.len());
        for expr in &grouping.keys {
            let key = expr.eval(cx, tuple)?;
            if let Some(key) = &key {
                cx.count_value_read(key)?;
            }
            key_digest = key_digest
                .rotate_left(31)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                ^ digest(key.as_deref());
            keys.push(key);
        }
        if let Some(index) = self.index_by_key.get(&key_digest) {
            return Ok(*index);
        }

        let keys: Vec<Option<Json>> = keys
            .into_iter()
            .map(|key| key.map(|key| key.into_owned()))
            .collect();
        let key_bytes: usize = keys.iter().flatten().map(weight).sum();
        self.memory += GROUP_OVERHEAD + key_bytes + STATE_BYTES * grouping.aggregates.len();
        let index = self.groups.len();
        self.groups.push(OpenGroup::new(keys, grouping));
        self.index_by_key.insert(key_digest, index);
        Ok(index)
    }

    /// Returns the bytes that the groups hold.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Returns the keys and the results of every group.
    pub(crate) fn finish(self) -> impl Iterator<Item = Group> {
        self.groups.into_iter().map(|group| Group {
            keys: group.keys,
            results: group.states.into_iter().map(State::finish).collect(),
        })
    }

    /// Returns the partial aggregates of the only group of a query without GROUP BY, as a JSON
    /// array with an object for each. Returns `None` if one of them has no short form.
    pub(crate) fn save(&self) -> Option<Vec<u8>> {
        let group = self.groups.first()?;
        let states: Option<Vec<Json>> = group.states.iter().map(State::save).collect();
        Some(Json::Array(states?).to_text().into_bytes())
    }

    /// Continues from the bytes of [`Groups::save`]. Returns `None` for any other bytes.
    pub(crate) fn restore(&mut self, saved: &[u8]) -> Option<()> {
        let Json::Array(saved) = parse(saved).ok()? else {
            return None;
        };
        let group = self.groups.first_mut()?;
        if saved.len() != group.states.len() {
            return None;
        }
        for (state, saved) in group.states.iter_mut().zip(saved) {
            state.restore(saved)?;
        }
        Some(())
    }
}

/// The partial result of one aggregate of one group. `is_undefined` is true after a value of a
/// wrong type.
enum State {
    Count(u64),
    CountIf(u64),
    Sum {
        sum: f64,
        is_undefined: bool,
    },
    Average {
        sum: f64,
        count: u64,
        is_undefined: bool,
    },
    /// MIN and MAX.
    Extreme {
        is_maximum: bool,
        best: Option<Json>,
        is_undefined: bool,
    },
    /// MAKELIST.
    List(Vec<Json>),
    /// MAKESET: the digests of the values, and the values.
    Set(HashSet<u128>, Vec<Json>),
}

impl State {
    fn new(kind: AggregateKind) -> Self {
        match kind {
            AggregateKind::Count => State::Count(0),
            AggregateKind::CountIf => State::CountIf(0),
            AggregateKind::Sum => State::Sum {
                sum: 0.0,
                is_undefined: false,
            },
            AggregateKind::Average => State::Average {
                sum: 0.0,
                count: 0,
                is_undefined: false,
            },
            AggregateKind::Min | AggregateKind::Max => State::Extreme {
                is_maximum: kind == AggregateKind::Max,
                best: None,
                is_undefined: false,
            },
            AggregateKind::MakeList => State::List(Vec::new()),
            AggregateKind::MakeSet => State::Set(HashSet::new(), Vec::new()),
        }
    }

    /// Adds a defined value, of so many items if only they are counted. Returns the bytes that are
    /// held because of it.
    fn add(&mut self, value: &Json, copies: u64) -> usize {
        match self {
            // COUNT counts every defined value, null included.
            State::Count(count) => *count += copies,

            // COUNTIF counts the values that are true.
            State::CountIf(count) => *count += u64::from(value.as_bool() == Some(true)),

            // SUM takes numbers.
            State::Sum { sum, is_undefined } => match value.as_f64() {
                Some(n) => *sum += n,
                None => *is_undefined = true,
            },

            // AVG takes numbers.
            State::Average {
                sum,
                count,
                is_undefined,
            } => match value.as_f64() {
                Some(n) => {
                    *sum += n;
                    *count += 1;
                }
                None => *is_undefined = true,
            },

            // MIN and MAX take scalars and compare them across types.
            State::Extreme {
                is_maximum,
                best,
                is_undefined,
            } => {
                *is_undefined |= matches!(value, Json::Array(_) | Json::Object(_));
                let is_better = match best {
                    None => true,
                    Some(best) if *is_maximum => compare(value, best).is_gt(),
                    Some(best) => compare(value, best).is_lt(),
                };
                if is_better && !*is_undefined {
                    let before = best.as_ref().map_or(0, weight);
                    *best = Some(value.clone());
                    return weight(value).saturating_sub(before);
                }
            }

            // MAKELIST keeps every value.
            State::List(list) => {
                list.push(value.clone());
                return weight(value);
            }

            // MAKESET keeps the first of equal values.
            State::Set(seen, list) => {
                if seen.insert(digest(Some(value))) {
                    list.push(value.clone());
                    return weight(value) + DIGEST_BYTES;
                }
            }
        }
        0
    }

    /// Returns the result.
    fn finish(self) -> Option<Json> {
        match self {
            State::Count(count) | State::CountIf(count) => Some(Json::from(count)),
            // The sum of no values is 0.
            State::Sum { sum, is_undefined } => (!is_undefined).then(|| number(sum)),
            // The mean of no values is undefined.
            State::Average {
                sum,
                count,
                is_undefined,
            } => (!is_undefined && count > 0).then(|| number(sum / count as f64)),
            State::Extreme {
                best, is_undefined, ..
            } => best.filter(|_| !is_undefined),
            State::List(list) | State::Set(_, list) => Some(Json::Array(list)),
        }
    }

    /// Returns the partial result as an object: `n` for a count, `s` for the bits of a sum, `p` for
    /// `is_undefined`, `b` for the best value. Returns `None` for states without a short form.
    fn save(&self) -> Option<Json> {
        let mut saved = Object::new();
        match self {
            State::Count(count) | State::CountIf(count) => saved.push_new("n", *count),
            State::Sum { sum, is_undefined } => {
                saved.push_new("s", sum.to_bits());
                saved.push_new("p", *is_undefined);
            }
            State::Average {
                sum,
                count,
                is_undefined,
            } => {
                saved.push_new("s", sum.to_bits());
                saved.push_new("n", *count);
                saved.push_new("p", *is_undefined);
            }
            State::Extreme {
                best, is_undefined, ..
            } => {
                saved.push_new("p", *is_undefined);
                match best {
                    Some(best) if weight(best) > MAX_SAVED_BYTES => return None,
                    Some(best) => saved.push_new("b", best.clone()),
                    None => {}
                }
            }
            // Lists and sets grow with the items and do not fit into a continuation token.
            State::List(_) | State::Set(..) => return None,
        }
        Some(Json::Object(saved))
    }

    /// Restores the object of [`State::save`]. Returns `None` for any other value.
    fn restore(&mut self, saved: Json) -> Option<()> {
        // Bits of a double exceed the integers that a JSON number holds exactly, so the text is
        // read.
        let integer = |name: &str| match saved.get(name)? {
            Json::Number(n) => n.text().parse::<u64>().ok(),
            _ => None,
        };
        let flag = |name: &str| saved.get(name)?.as_bool();
        match self {
            State::Count(count) | State::CountIf(count) => *count = integer("n")?,
            State::Sum { sum, is_undefined } => {
                *sum = f64::from_bits(integer("s")?);
                *is_undefined = flag("p")?;
            }
            State::Average {
                sum,
                count,
                is_undefined,
            } => {
                *sum = f64::from_bits(integer("s")?);
                *count = integer("n")?;
                *is_undefined = flag("p")?;
            }
            State::Extreme {
                best, is_undefined, ..
            } => {
                *is_undefined = flag("p")?;
                *best = saved.get("b").cloned();
            }
            State::List(_) | State::Set(..) => return None,
        }
        Some(())
    }
}
