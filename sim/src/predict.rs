//! The answers that a write may get, by what is known of the items of its logical partition.
//!
//! While outcomes are unknown an item has several possible states. Each combination of them is
//! tried, and each gives one answer; the engine must give one of these.
//!
//! A refusal may follow from an open change alone: no state without the change gives it. The engine
//! must then not answer before the change is durable, so the answer makes the change certain.

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

/// The states of the items of a logical partition, each with the open change that it needs.
type State = BTreeMap<ItemKey, (Option<Value>, Option<u64>)>;

/// A refusal in one combination of states.
struct Refusal {
    kind: Kind,
    /// The open change from which it follows.
    rests_on: Option<u64>,
}

/// The answers that a request may get.
#[derive(Debug)]
pub(crate) struct Prediction {
    /// True if it may succeed.
    pub(crate) may_succeed: bool,
    /// The refusals that it may get.
    pub(crate) refusals: Vec<Kind>,
    /// The open change from which each refusal follows, if there is one.
    rests_on: Vec<(Kind, Option<u64>)>,
    /// True if too much is unknown for a prediction.
    pub(crate) is_open: bool,
}

impl Prediction {
    /// Returns true if the request succeeds for sure.
    pub(crate) fn is_success(&self) -> bool {
        !self.is_open && self.refusals.is_empty()
    }

    /// Creates the prediction of a request that succeeds, or is refused in one of these ways for a
    /// reason that no item gives.
    pub(crate) fn success_or(refusals: Vec<Kind>) -> Prediction {
        Prediction {
            may_succeed: true,
            refusals,
            rests_on: Vec::new(),
            is_open: false,
        }
    }

    /// Returns the open change that took place if the request is refused in this way.
    pub(crate) fn rests_on(&self, kind: Kind) -> Option<u64> {
        let found = self.rests_on.iter().find(|(known, _)| *known == kind);
        found.and_then(|(_, change)| *change)
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
    let mut prediction = Prediction::success_or(Vec::new());
    let accepted = states_of(model, writes, |key| {
        let values = model.accepted(key, now);
        values.into_iter().map(|value| (value, None)).collect()
    });
    let Some(states) = accepted else {
        prediction.is_open = true;
        return prediction;
    };
    prediction.may_succeed = false;
    let is_unique = model.spec.has_unique_key;
    for state in states {
        match carry_out(state, writes, is_unique) {
            Ok(()) => prediction.may_succeed = true,
            Err(Refusal { kind, .. }) if prediction.refusals.contains(&kind) => {}
            Err(Refusal { kind, .. }) => prediction.refusals.push(kind),
        }
    }
    // What is durable when the answer comes is any of the states that a read may show.
    let visible = states_of(model, writes, |key| model.visible_by_change(key, now));
    for state in visible.unwrap_or_default() {
        if let Err(Refusal { kind, rests_on }) = carry_out(state, writes, is_unique) {
            let mut all = prediction.rests_on.iter_mut();
            match all.find(|(known, _)| *known == kind) {
                Some((_, change)) if *change != rests_on => *change = None,
                Some(_) => {}
                None => prediction.rests_on.push((kind, rests_on)),
            }
        }
    }
    prediction
}

/// Returns the combinations of the possible states of the items that count; `None` if there are too
/// many.
fn states_of(
    model: &ContainerModel,
    writes: &[Write],
    of_item: impl Fn(ItemKey) -> Vec<(Option<Value>, Option<u64>)>,
) -> Option<Vec<State>> {
    let first = writes.first()?.key;
    let counts =
        |key: &ItemKey| model.spec.has_unique_key || writes.iter().any(|write| write.key == *key);
    let mut states = vec![State::new()];
    for key in ItemKey::all_of(first.key).filter(counts) {
        let possible = of_item(key);
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

/// Carries out writes on a state, up to the first refusal.
fn carry_out(mut state: State, writes: &[Write], has_unique_key: bool) -> Result<(), Refusal> {
    let mut writes = writes.iter();
    writes.try_for_each(|write| apply(&mut state, write, has_unique_key))
}

/// Carries out a write on a state.
fn apply(state: &mut State, write: &Write, has_unique_key: bool) -> Result<(), Refusal> {
    let (old, rests_on) = state.get(&write.key).cloned().unwrap_or_default();
    let refused = |kind| Err(Refusal { kind, rests_on });
    match (write.action, &old) {
        (Action::Create, Some(_)) => return refused(Kind::Conflict),
        (Action::Replace | Action::Patch | Action::Delete, None) => return refused(Kind::NotFound),
        (_, Some(old)) => {
            if write.if_match.as_ref().is_some_and(|(n, _)| *n != old.n) {
                return refused(Kind::PreconditionFailed);
            }
        }
        (Action::Create | Action::Upsert, None) => {}
    }
    if has_unique_key && let Some(new) = &write.value {
        let holder = state.iter().find(|(key, (other, _))| {
            let is_equal = |other: &Value| other.unique == new.unique;
            **key != write.key && other.as_ref().is_some_and(is_equal)
        });
        if let Some((_, (_, rests_on))) = holder {
            return Err(Refusal {
                kind: Kind::Conflict,
                rests_on: *rests_on,
            });
        }
    }
    // What the request itself has written is no state of an open change.
    state.insert(write.key, (write.value.clone(), None));
    Ok(())
}
