//! The receipt of a submitted commit, which answers when the outcome is known.
//!
//! A thread calls [`Receipt::wait`]; async code awaits the receipt. No runtime is needed: the
//! engine stores the waker and wakes it when the commit is durable. A receipt that is dropped does
//! not take its commit back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::commit::CommitOutcome;

/// A commit that is accepted and not yet answered, as an engine implements it. Dropping the value
/// does not abandon the commit: the engine makes it durable although no caller waits.
pub trait Pending: Send {
    /// Blocks until the outcome is known.
    fn wait(self: Box<Self>) -> CommitOutcome;

    /// Returns the outcome, or arranges to wake the task when it is known. Never blocks for long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CommitOutcome>;
}

/// The promise of a [`CommitOutcome`].
#[must_use = "a commit is durable only when its receipt says so"]
pub struct Receipt(State);

enum State {
    Ready(CommitOutcome),
    Pending(Box<dyn Pending>),
}

impl Receipt {
    /// Creates a receipt whose outcome is known already. For engines only.
    pub fn ready(outcome: CommitOutcome) -> Receipt {
        Receipt(State::Ready(outcome))
    }

    /// Creates a receipt whose outcome is not known yet. For engines only.
    pub fn pending(pending: impl Pending + 'static) -> Receipt {
        Receipt(State::Pending(Box::new(pending)))
    }

    /// Returns the outcome of a commit that was refused at once, so that the head is as it was
    /// before; `None` if the commit was accepted, or its outcome is not known yet. A fenced commit
    /// does not count as refused: its writer has to open the partition again.
    pub fn refusal(&self) -> Option<CommitOutcome> {
        match self.0 {
            State::Pending(_) => None,
            State::Ready(CommitOutcome::Ok | CommitOutcome::Fenced | CommitOutcome::Unknown) => {
                None
            }
            State::Ready(refusal) => Some(refusal),
        }
    }

    /// Returns the outcome if it is known already.
    pub fn answer(&self) -> Option<CommitOutcome> {
        match self.0 {
            State::Ready(outcome) => Some(outcome),
            State::Pending(_) => None,
        }
    }

    /// Blocks until the outcome is known.
    pub fn wait(self) -> CommitOutcome {
        match self.0 {
            State::Ready(outcome) => outcome,
            State::Pending(pending) => pending.wait(),
        }
    }
}

impl Future for Receipt {
    type Output = CommitOutcome;

    /// Polls for the outcome. May be called again after it was ready, and gives the same answer.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CommitOutcome> {
        let outcome = match &mut self.0 {
            State::Ready(outcome) => *outcome,
            State::Pending(pending) => match pending.poll(cx) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => return Poll::Pending,
            },
        };
        self.0 = State::Ready(outcome);
        Poll::Ready(outcome)
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            State::Ready(outcome) => write!(f, "Receipt({outcome:?})"),
            State::Pending(_) => write!(f, "Receipt(pending)"),
        }
    }
}
