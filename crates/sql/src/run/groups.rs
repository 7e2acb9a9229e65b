//! Groups and their aggregates.
//!
//! Undefined values are skipped by every aggregate. One value of the wrong kind poisons SUM, AVG, MIN and MAX: the
//! result is undefined from then on.

use super::frame::{Context, Scope};
use crate::bound::Grouping;
use crate::error::QueryError;
use crate::functions::AggregateKind;
use crate::value::{digest, number, weight};
use orrery_model::json::{Json, Object, compare};
use std::collections::{HashMap, HashSet};

/// All groups of one grouping, in the order in which they first appeared.
pub(crate) struct Groups {
    places: HashMap<u128, usize>,
    groups: Vec<Group>,
    memory: usize,
}

struct Group {
    keys: Vec<Option<Json>>,
    states: Vec<State>,
}

impl Group {
    fn new(keys: Vec<Option<Json>>, grouping: &Grouping) -> Self {
        Group {
            keys,
            states: grouping
                .aggregates
                .iter()
                .map(|(kind, _)| State::new(*kind))
                .collect(),
        }
    }
}

impl Groups {
    pub fn new(grouping: &Grouping) -> Self {
        let mut groups = Groups {
            places: HashMap::new(),
            groups: Vec::new(),
            memory: 0,
        };
        if grouping.keys.is_empty() {
            groups.groups.push(Group::new(Vec::new(), grouping));
        }
        groups
    }

    /// Counts one tuple in.
    pub fn add(
        &mut self,
        grouping: &Grouping,
        cx: &mut Context<'_>,
        tuple: &Scope<'_>,
    ) -> Result<(), QueryError> {
        let mut at = 0;
        if !grouping.keys.is_empty() {
            let mut key = 0u128;
            let mut values = Vec::with_capacity(grouping.keys.len());
            for expr in &grouping.keys {
                let value = expr.eval(cx, tuple)?;
                value
                    .as_deref()
                    .map_or(Ok(()), |value| cx.count_value_read(value))?;
                // Keys are told apart by place: rotate before mixing the next one in.
                key = key.rotate_left(31).wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    ^ digest(value.as_deref());
                values.push(value);
            }
            at = match self.places.get(&key) {
                Some(at) => *at,
                None => {
                    let keys: Vec<Option<Json>> = values
                        .into_iter()
                        .map(|v| v.map(|v| v.into_owned()))
                        .collect();
                    self.memory += 96
                        + keys.iter().flatten().map(weight).sum::<usize>()
                        + 64 * grouping.aggregates.len();
                    self.groups.push(Group::new(keys, grouping));
                    self.places.insert(key, self.groups.len() - 1);
                    self.groups.len() - 1
                }
            };
        }
        for (state, (_, expr)) in self.groups[at].states.iter_mut().zip(&grouping.aggregates) {
            if let Some(value) = expr.eval(cx, tuple)? {
                cx.count_iteration()?;
                cx.count_value_read(&value)?;
                self.memory += state.add(&value);
            }
        }
        Ok(())
    }

    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Keys and results of every group.
    pub fn finish(self) -> impl Iterator<Item = (Vec<Option<Json>>, Vec<Option<Json>>)> {
        self.groups
            .into_iter()
            .map(|g| (g.keys, g.states.into_iter().map(State::finish).collect()))
    }

    /// The partial aggregates of the one group of a query without GROUP BY; `None` if they have no short form.
    pub fn save(&self) -> Option<Vec<u8>> {
        let group = self.groups.first()?;
        let states: Option<Vec<Json>> = group.states.iter().map(State::save).collect();
        Some(Json::Array(states?).to_text().into_bytes())
    }

    /// Continues from what `save` gave.
    pub fn restore(&mut self, saved: &[u8]) -> Option<()> {
        let Json::Array(saved) = orrery_model::json::parse(saved).ok()? else {
            return None;
        };
        let group = self.groups.first_mut()?;
        if saved.len() != group.states.len() {
            return None;
        }
        group
            .states
            .iter_mut()
            .zip(saved)
            .try_for_each(|(state, saved)| state.restore(saved))
    }
}

/// One aggregate of one group, halfway.
enum State {
    Count(u64),
    CountIf(u64),
    Sum {
        sum: f64,
        poisoned: bool,
    },
    Average {
        sum: f64,
        count: u64,
        poisoned: bool,
    },
    Extreme {
        maximum: bool,
        best: Option<Json>,
        poisoned: bool,
    },
    List(Vec<Json>),
    Set(HashSet<u128>, Vec<Json>),
}

impl State {
    fn new(kind: AggregateKind) -> Self {
        match kind {
            AggregateKind::Count => State::Count(0),
            AggregateKind::CountIf => State::CountIf(0),
            AggregateKind::Sum => State::Sum {
                sum: 0.0,
                poisoned: false,
            },
            AggregateKind::Average => State::Average {
                sum: 0.0,
                count: 0,
                poisoned: false,
            },
            AggregateKind::Min => State::Extreme {
                maximum: false,
                best: None,
                poisoned: false,
            },
            AggregateKind::Max => State::Extreme {
                maximum: true,
                best: None,
                poisoned: false,
            },
            AggregateKind::MakeList => State::List(Vec::new()),
            AggregateKind::MakeSet => State::Set(HashSet::new(), Vec::new()),
        }
    }

    /// Counts a defined value in; returns the bytes that are held because of it.
    fn add(&mut self, value: &Json) -> usize {
        match self {
            State::Count(count) => *count += 1,
            State::CountIf(count) => *count += u64::from(value.as_bool() == Some(true)),
            State::Sum { sum, poisoned } => match value.as_f64() {
                Some(n) => *sum += n,
                None => *poisoned = true,
            },
            State::Average {
                sum,
                count,
                poisoned,
            } => match value.as_f64() {
                Some(n) => {
                    *sum += n;
                    *count += 1;
                }
                None => *poisoned = true,
            },
            State::Extreme {
                maximum,
                best,
                poisoned,
            } => {
                *poisoned |= matches!(value, Json::Array(_) | Json::Object(_));
                let better = best.as_ref().is_none_or(|b| {
                    let order = compare(value, b);
                    if *maximum {
                        order.is_gt()
                    } else {
                        order.is_lt()
                    }
                });
                if better && !*poisoned {
                    *best = Some(value.clone());
                }
            }
            State::List(list) => {
                list.push(value.clone());
                return weight(value);
            }
            State::Set(seen, list) => {
                if seen.insert(digest(Some(value))) {
                    list.push(value.clone());
                    return weight(value) + 24;
                }
            }
        }
        0
    }

    fn finish(self) -> Option<Json> {
        match self {
            State::Count(count) | State::CountIf(count) => Some(Json::from(count)),
            State::Sum { sum, poisoned } => (!poisoned).then(|| number(sum)),
            State::Average {
                sum,
                count,
                poisoned,
            } => (!poisoned && count > 0).then(|| number(sum / count as f64)),
            State::Extreme { best, poisoned, .. } => best.filter(|_| !poisoned),
            State::List(list) | State::Set(_, list) => Some(Json::Array(list)),
        }
    }

    fn save(&self) -> Option<Json> {
        let mut saved = Object::new();
        match self {
            State::Count(count) | State::CountIf(count) => saved.push_new("n", *count),
            State::Sum { sum, poisoned } => {
                saved.push_new("s", sum.to_bits());
                saved.push_new("p", *poisoned);
            }
            State::Average {
                sum,
                count,
                poisoned,
            } => {
                saved.push_new("s", sum.to_bits());
                saved.push_new("n", *count);
                saved.push_new("p", *poisoned);
            }
            State::Extreme { best, poisoned, .. } => {
                saved.push_new("p", *poisoned);
                // A long string would not fit into a continuation token.
                match best {
                    Some(best) if weight(best) > 256 => return None,
                    Some(best) => saved.push_new("b", best.clone()),
                    None => {}
                }
            }
            State::List(_) | State::Set(..) => return None,
        }
        Some(Json::Object(saved))
    }

    fn restore(&mut self, saved: Json) -> Option<()> {
        let bits = |name: &str| match saved.get(name)? {
            Json::Number(n) => n.text().parse::<u64>().ok(),
            _ => None,
        };
        let flag = |name: &str| saved.get(name)?.as_bool();
        match self {
            State::Count(count) | State::CountIf(count) => *count = bits("n")?,
            State::Sum { sum, poisoned } => {
                *sum = f64::from_bits(bits("s")?);
                *poisoned = flag("p")?;
            }
            State::Average {
                sum,
                count,
                poisoned,
            } => {
                *sum = f64::from_bits(bits("s")?);
                *count = bits("n")?;
                *poisoned = flag("p")?;
            }
            State::Extreme { best, poisoned, .. } => {
                *poisoned = flag("p")?;
                *best = saved.get("b").cloned();
            }
            State::List(_) | State::Set(..) => return None,
        }
        Some(())
    }
}
