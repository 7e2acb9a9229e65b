//! The answer to a submitted commit, when it comes.
//!
//! A thread calls [`Receipt::wait`]; async code awaits the receipt. No runtime is needed: the engine stores the waker and
//! wakes it when the commit is durable. A receipt that is dropped does not take its commit back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::store::CommitOutcome;

/// For engines: a commit that is accepted and not yet answered. Dropping one must not leave its commit lying: the engine
/// sees to it that it becomes durable without anybody waiting.
pub trait Pending: Send {
    /// Blocks until the outcome is known.
    fn wait(self: Box<Self>) -> CommitOutcome;

    /// Asks for the outcome, or to be woken when it is known. Never blocks for long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CommitOutcome>;
}

/// The promise of an [`CommitOutcome`].
#[must_use = "a commit is durable only when its receipt says so"]
pub struct Receipt(State);

enum State {
    Settled(CommitOutcome),
    Pending(Box<dyn Pending>),
}

impl Receipt {
    /// For engines: an outcome that is known already.
    pub fn ready(outcome: CommitOutcome) -> Receipt {
        Receipt(State::Settled(outcome))
    }

    /// For engines: an outcome that is to come.
    pub fn pending(pending: impl Pending + 'static) -> Receipt {
        Receipt(State::Pending(Box::new(pending)))
    }

    /// Blocks until the outcome is known.
    pub fn wait(self) -> CommitOutcome {
        match self.0 {
            State::Settled(outcome) => outcome,
            State::Pending(pending) => pending.wait(),
        }
    }
}

impl Future for Receipt {
    type Output = CommitOutcome;

    /// May be polled again after it was ready, and gives the same answer.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CommitOutcome> {
        let outcome = match &mut self.0 {
            State::Settled(outcome) => *outcome,
            State::Pending(pending) => match pending.poll(cx) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => return Poll::Pending,
            },
        };
        self.0 = State::Settled(outcome);
        Poll::Ready(outcome)
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            State::Settled(outcome) => write!(f, "Receipt({outcome:?})"),
            State::Pending(_) => write!(f, "Receipt(pending)"),
        }
    }
}
