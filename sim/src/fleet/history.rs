//! The requests for one item, and the order in which they may have taken place.
//!
//! A history is *linearizable* if each request took place at one moment between its beginning and
//! its end. The checker follows the history request by request (just-in-time linearization, Lowe
//! 2017): it keeps every state in which the item may be, with the open requests that have taken
//! place in it. An answer that no state explains is a fault.
//!
//! A request with an unknown outcome stays open for ever. A request that was refused without an
//! effect must not have taken place in the remaining states.

use std::collections::{BTreeMap, BTreeSet};

/// A request for an item. Each write has a number of its own, `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A create.
    Create(u64),
    /// An upsert.
    Upsert(u64),
    /// A replacement; with a number, only of the version with this number.
    Replace(u64, Option<u64>),
    /// A deletion.
    Delete,
    /// A read.
    Read,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    /// The write took place.
    Done,
    /// The read shows this version.
    Shows(u64),
    /// There is no item.
    NotFound,
    /// There is an item.
    Conflict,
    /// The item has another version.
    PreconditionFailed,
}

impl Action {
    /// Returns true for a request that changes nothing.
    pub(super) fn is_read(self) -> bool {
        self == Action::Read
    }

    /// Returns the version behind the request, and its answer, at an item with a version.
    fn apply(self, item: Option<u64>) -> (Option<u64>, Answer) {
        match (self, item) {
            (Action::Create(n), None) | (Action::Upsert(n), _) => (Some(n), Answer::Done),
            (Action::Create(_), Some(_)) => (item, Answer::Conflict),
            (Action::Replace(_, Some(expected)), Some(found)) if expected != found => {
                (item, Answer::PreconditionFailed)
            }
            (Action::Replace(n, _), Some(_)) => (Some(n), Answer::Done),
            (Action::Delete, Some(_)) => (None, Answer::Done),
            (Action::Replace(..) | Action::Delete | Action::Read, None) => (None, Answer::NotFound),
            (Action::Read, Some(n)) => (item, Answer::Shows(n)),
        }
    }
}

/// A state in which the item may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    item: Option<u64>,
    /// The open requests that have taken place, with their answers.
    taken: BTreeMap<u64, Answer>,
}

/// The history of one item.
#[derive(Debug)]
pub(super) struct History {
    open: BTreeMap<u64, Action>,
    /// The open requests whose outcomes stay unknown.
    unknown: BTreeSet<u64>,
    states: BTreeSet<State>,
}

impl History {
    /// Creates the history of an item that was never written.
    pub(super) fn new() -> History {
        let state = State {
            item: None,
            taken: BTreeMap::new(),
        };
        History {
            open: BTreeMap::new(),
            unknown: BTreeSet::new(),
            states: BTreeSet::from([state]),
        }
    }

    /// Returns the number of requests whose outcomes stay unknown.
    pub(super) fn unknown_count(&self) -> usize {
        self.unknown.len()
    }

    /// Returns true if a request is under way.
    pub(super) fn is_in_use(&self) -> bool {
        self.open.len() > self.unknown.len()
    }

    /// Notes that a request begins.
    pub(super) fn begin(&mut self, request: u64, action: Action) {
        self.open.insert(request, action);
    }

    /// Notes that the outcome of a request stays unknown.
    pub(super) fn stays_unknown(&mut self, request: u64) {
        match self.open.get(&request) {
            Some(action) if action.is_read() => self.forget(request),
            _ => _ = self.unknown.insert(request),
        }
    }

    /// Removes a request without an effect from all states.
    fn forget(&mut self, request: u64) {
        self.open.remove(&request);
        let states = std::mem::take(&mut self.states);
        for mut state in states {
            state.taken.remove(&request);
            self.states.insert(state);
        }
    }

    /// Takes in that a request was refused and had no effect. Returns false if it had one for sure.
    pub(super) fn was_not_carried_out(&mut self, request: u64) -> bool {
        self.states
            .retain(|state| !state.taken.contains_key(&request));
        self.open.remove(&request);
        !self.states.is_empty()
    }

    /// Takes in the answer to a request. Returns false if no state explains it.
    pub(super) fn end(&mut self, request: u64, answer: Answer) -> bool {
        let mut explained = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut tried: Vec<State> = std::mem::take(&mut self.states).into_iter().collect();
        while let Some(state) = tried.pop() {
            if let Some(taken) = state.taken.get(&request) {
                if *taken == answer {
                    let mut state = state;
                    state.taken.remove(&request);
                    explained.insert(state);
                }
                continue;
            }
            for (open, action) in &self.open {
                if state.taken.contains_key(open) {
                    continue;
                }
                let (item, given) = action.apply(state.item);
                let mut next = state.clone();
                next.item = item;
                next.taken.insert(*open, given);
                if seen.insert(next.clone()) {
                    tried.push(next);
                }
            }
        }
        self.open.remove(&request);
        self.states = explained;
        !self.states.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history of requests with answers, one after the other.
    fn of(requests: &[(Action, Answer)]) -> (History, bool) {
        let mut history = History::new();
        let mut is_explained = true;
        for (number, (action, answer)) in requests.iter().enumerate() {
            history.begin(number as u64, *action);
            is_explained &= history.end(number as u64, *answer);
        }
        (history, is_explained)
    }

    #[test]
    fn answers_one_after_the_other_follow_from_each_other() {
        let created = (Action::Create(1), Answer::Done);
        for (action, answer, is_right) in [
            (Action::Read, Answer::Shows(1), true),
            (Action::Read, Answer::Shows(2), false),
            (Action::Read, Answer::NotFound, false),
            (Action::Create(2), Answer::Conflict, true),
            (Action::Create(2), Answer::Done, false),
            (Action::Replace(2, Some(1)), Answer::Done, true),
            (
                Action::Replace(2, Some(7)),
                Answer::PreconditionFailed,
                true,
            ),
            (Action::Replace(2, Some(7)), Answer::Done, false),
            (Action::Delete, Answer::NotFound, false),
        ] {
            let (_, is_explained) = of(&[created, (action, answer)]);
            assert_eq!(is_explained, is_right, "{action:?} {answer:?}");
        }
    }

    #[test]
    fn requests_at_the_same_time_have_either_order() {
        for shown in [1, 2] {
            let mut history = History::new();
            history.begin(0, Action::Upsert(1));
            history.begin(1, Action::Upsert(2));
            assert!(history.end(0, Answer::Done) && history.end(1, Answer::Done));
            history.begin(2, Action::Read);
            assert!(history.end(2, Answer::Shows(shown)));
            history.begin(3, Action::Read);
            assert!(!history.end(3, Answer::Shows(3 - shown)));
        }
    }

    #[test]
    fn a_write_with_an_unknown_outcome_may_take_place_late_and_once() {
        let (mut history, _) = of(&[(Action::Upsert(1), Answer::Done)]);
        history.begin(10, Action::Upsert(2));
        history.stays_unknown(10);
        for (request, shown, is_right) in [(11, 1, true), (12, 2, true), (13, 1, false)] {
            history.begin(request, Action::Read);
            assert_eq!(history.end(request, Answer::Shows(shown)), is_right);
        }
    }

    #[test]
    fn a_refused_write_that_was_seen_is_a_fault() {
        let (mut history, _) = of(&[(Action::Upsert(1), Answer::Done)]);
        history.begin(10, Action::Upsert(2));
        history.begin(11, Action::Read);
        assert!(history.end(11, Answer::Shows(2)));
        assert!(!history.was_not_carried_out(10));
    }
}
