//! The answers that a write may get, by what is known of the items of its logical partition.
//!
//! While outcomes are unknown an item has several possible states. Each combination of them is
//! tried, and each gives one answer; the engine must give one of these.

use crate::model::ContainerModel;
use crate::spec::{ItemKey, Value};
use orrery_model::Kind;
use std::collections::BTreeMap;

/// Combinations that are tried; beyond them every answer is allowed.
const WORLDS_MAX: usize = 200;

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A create.
    Create,
    /// An upsert.
    Upsert,
    /// A replacement.
    Replace,
    /// A partial update.
    Patch,
    /// A deletion.
    Delete,
}

/// One write of one item.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// The item.
    pub(crate) key: ItemKey,
    /// The kind.
    pub(crate) action: Action,
    /// The new value; `None` for a deletion.
    pub(crate) value: Option<Value>,
    /// The version that the item must have: its `n` and its etag.
    pub(crate) if_match: Option<(u64, String)>,
}

impl Write {
    /// Returns the write as a part of an event.
    pub(crate) fn shown(&self) -> String {
        let ItemKey { key, id } = self.key;
        let mut text = format!("{:?} {key}/{id}", self.action);
        if let Some(value) = &self.value {
            let Value {
                n,
                base,
                k,
                unique,
                ttl,
                ..
            } = value;
            text.push_str(&format!(" n {n} base {base} k {k} u {unique} ttl {ttl:?}"));
        }
        if let Some((n, _)) = &self.if_match {
            text.push_str(&format!(" if {n}"));
        }
        text
    }
}

/// The states of the items of a logical partition.
type State = BTreeMap<ItemKey, Option<Value>>;

/// The answers that a request may get.
#[derive(Debug)]
pub(crate) struct Prediction {
    /// True if it may succeed.
    pub(crate) may_succeed: bool,
    /// The refusals that it may get.
    pub(crate) refusals: Vec<Kind>,
    /// True if too much is unknown for a prediction.
    pub(crate) is_open: bool,
}

impl Prediction {
    /// Returns true if the request succeeds for sure.
    pub(crate) fn is_success(&self) -> bool {
        !self.is_open && self.refusals.is_empty()
    }

    /// Returns true if the request may be refused in this way.
    pub(crate) fn allows(&self, kind: Kind) -> bool {
        self.refusals.contains(&kind)
            || self.is_open
                && matches!(
                    kind,
                    Kind::Conflict | Kind::NotFound | Kind::PreconditionFailed
                )
    }
}

/// Returns the answers that writes of one logical partition may get that take place together.
pub(crate) fn predict(model: &ContainerModel, writes: &[Write], now: u64) -> Prediction {
    let mut prediction = Prediction {
        may_succeed: false,
        refusals: Vec::new(),
        is_open: false,
    };
    let Some(states) = states_of(model, writes, now) else {
        prediction.is_open = true;
        prediction.may_succeed = true;
        return prediction;
    };
    for mut state in states {
        let is_unique = model.spec.has_unique_key;
        let carried_out = writes
            .iter()
            .try_for_each(|write| apply(&mut state, write, is_unique));
        match carried_out {
            Ok(()) => prediction.may_succeed = true,
            Err(kind) if !prediction.refusals.contains(&kind) => prediction.refusals.push(kind),
            Err(_) => {}
        }
    }
    prediction
}

/// Returns the combinations of the possible states of the items that count; `None` if there are too
/// many.
fn states_of(model: &ContainerModel, writes: &[Write], now: u64) -> Option<Vec<State>> {
    let first = writes.first()?.key;
    let counts =
        |key: &ItemKey| model.spec.has_unique_key || writes.iter().any(|write| write.key == *key);
    let mut states = vec![State::new()];
    for key in ItemKey::all_of(first.key).filter(counts) {
        let possible = model.accepted(key, now);
        if states.len() * possible.len() > WORLDS_MAX {
            return None;
        }
        let mut longer = Vec::with_capacity(states.len() * possible.len());
        for state in states {
            for value in &possible {
                let mut state = state.clone();
                state.insert(key, value.clone());
                longer.push(state);
            }
        }
        states = longer;
    }
    Some(states)
}

/// Carries out a write on a state.
fn apply(state: &mut State, write: &Write, has_unique_key: bool) -> Result<(), Kind> {
    let old = state.get(&write.key).cloned().flatten();
    match (write.action, &old) {
        (Action::Create, Some(_)) => return Err(Kind::Conflict),
        (Action::Replace | Action::Patch | Action::Delete, None) => return Err(Kind::NotFound),
        (_, Some(old)) => {
            if write.if_match.as_ref().is_some_and(|(n, _)| *n != old.n) {
                return Err(Kind::PreconditionFailed);
            }
        }
        (Action::Create | Action::Upsert, None) => {}
    }
    if has_unique_key && let Some(new) = &write.value {
        let is_taken = state.iter().any(|(key, other)| {
            *key != write.key
                && other
                    .as_ref()
                    .is_some_and(|other| other.unique == new.unique)
        });
        if is_taken {
            return Err(Kind::Conflict);
        }
    }
    state.insert(write.key, write.value.clone());
    Ok(())
}
