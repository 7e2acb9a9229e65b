//! The answer to one commit, for a thread that waits and for a task that polls.

use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

use orrery_model::sync::{self, lock};
use orrery_storage::{CommitOutcome, Pending};

use crate::wait::blocking;

/// The place of an answer.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    outcome: Option<CommitOutcome>,
    waker: Option<Waker>,
}

impl Slot {
    /// Gives the answer. A second answer is ignored.
    pub(crate) fn answer(&self, outcome: CommitOutcome) {
        let waker = {
            let mut state = lock(&self.state);
            state.outcome.get_or_insert(outcome);
            state.waker.take()
        };
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The receipt of a commit.
pub(crate) struct Ticket(pub(crate) Arc<Slot>);

impl Pending for Ticket {
    fn wait(self: Box<Self>) -> CommitOutcome {
        blocking(|| {
            let mut state = lock(&self.0.state);
            loop {
                if let Some(outcome) = state.outcome {
                    return outcome;
                }
                state = sync::wait(&self.0.changed, state);
            }
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CommitOutcome> {
        let mut state = lock(&self.0.state);
        match state.outcome {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
