//! Writes that are ordered and not yet on disk.

use crate::partition::{Ordered, Partition, outcome_error};
use crate::request::Outcome;
use orrery_model::{Error, Kind};
use orrery_storage::Outcome as Stored;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A write that is ordered but not yet on disk. Answer the client only after [`Pending::wait`], or after awaiting it.
///
/// Dropping it does not undo the write.
#[must_use = "the client may be answered only when the write is durable"]
pub struct Pending<T> {
    ordered: Option<(Ordered, Arc<Partition>)>,
    outcome: Option<Outcome<T>>,
}

impl<T> Pending<T> {
    /// An answer that waits for a commit.
    pub(crate) fn new(ordered: Option<Ordered>, partition: &Arc<Partition>, outcome: Outcome<T>) -> Self {
        Pending { ordered: ordered.map(|o| (o, Arc::clone(partition))), outcome: Some(outcome) }
    }

    /// Blocks until the write is durable.
    pub fn wait(mut self) -> Outcome<T> {
        let outcome = self.outcome.take().expect("taken once");
        match self.ordered.take() {
            None => outcome,
            Some((ordered, partition)) => {
                let Ordered { receipt, lsn, token } = ordered;
                conclude(outcome, receipt.wait(), &partition, lsn, token)
            }
        }
    }
}

impl<T: Unpin> Future for Pending<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        if let Some((ordered, partition)) = &mut self.ordered {
            let Poll::Ready(stored) = Pin::new(&mut ordered.receipt).poll(context) else { return Poll::Pending };
            let (lsn, token, partition) = (ordered.lsn, ordered.token, Arc::clone(partition));
            self.ordered = None;
            let outcome = self.outcome.take().expect("polled after it was ready");
            return Poll::Ready(conclude(outcome, stored, &partition, lsn, token));
        }
        Poll::Ready(self.outcome.take().expect("polled after it was ready"))
    }
}

/// What the client learns. An unknown outcome is looked up with a newer lease before anybody is told anything.
fn conclude<T>(outcome: Outcome<T>, stored: Stored, partition: &Partition, lsn: u64, token: [u8; 16]) -> Outcome<T> {
    let Some(error) = outcome_error(&stored) else { return outcome };
    let error = match stored {
        Stored::Fenced | Stored::Unknown => match partition.took_place(lsn, token) {
            Ok(true) => return outcome,
            Ok(false) => Error::new(Kind::RetryWith, "The write did not take place. Retry it.").caused_by(error),
            Err(cause) => cause,
        },
        _ => {
            partition.abandon_writer();
            error
        }
    };
    Outcome { result: Err(error), charge: outcome.charge, position: outcome.position }
}
