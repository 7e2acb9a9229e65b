//! Bodies in memory: each is counted in a budget from the time it is read or made until its last
//! byte is dropped.
//!
//! The bytes of a held body carry their reservation. Clones and slices share it, so the budget gets
//! the bytes back exactly when nothing holds them any more: the operation has ended, or the socket
//! has taken the answer.

use bytes::Bytes;
use orrery_model::memory::{AnswerMemory, MemoryBudget, Reservation};
use orrery_model::metrics::Counter;
use orrery_model::{Error, Kind, Result};
use std::sync::Arc;

/// The memory for heads is this part of the budget for bodies, beside it.
pub const HEADS_PART: u64 = 4;
/// The bytes of a head that are not counted.
const UNCOUNTED_HEAD_BYTES: u64 = 8 * 1024;
/// The milliseconds after which a client may try again.
const RETRY_AFTER_MS: u64 = 500;

/// The memory for the bodies of requests and answers. Large bodies leave the last eighth to small
/// ones if the budget says so.
#[derive(Clone, Debug)]
pub struct BodyMemory {
    budget: Arc<MemoryBudget>,
    /// The memory for heads, apart from that of bodies: heads need no credentials.
    heads: Arc<MemoryBudget>,
    refused: Arc<Counter>,
}

/// The bytes of one body that arrives, taken from the budget as the body grows.
#[derive(Debug)]
pub(crate) struct Growing {
    reservation: Reservation,
    memory: BodyMemory,
}

impl BodyMemory {
    /// Creates the memory for bodies on a budget.
    pub fn new(budget: Arc<MemoryBudget>) -> Self {
        BodyMemory {
            heads: MemoryBudget::new(budget.limit() / HEADS_PART),
            budget,
            refused: Arc::default(),
        }
    }

    /// Returns the bytes that are held now: bodies, and what is reserved for answers in the making.
    pub fn held_bytes(&self) -> u64 {
        self.budget.used()
    }

    /// Returns the bytes of heads that are held now.
    #[cfg(test)]
    pub(crate) fn head_bytes(&self) -> u64 {
        self.heads.used()
    }

    /// Returns the number of requests that were refused because there was no memory.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Returns true if more than half of the budget is in use. Slow readers are then cut sooner.
    pub(crate) fn is_short(&self) -> bool {
        self.budget.used() > self.budget.limit() / 2
    }

    /// Returns the memory of an answer, which the operation that makes the answer reserves.
    pub(crate) fn answer(&self) -> AnswerMemory {
        AnswerMemory::new(&self.budget)
    }

    /// Reserves `bytes` for a body that arrives.
    ///
    /// # Errors
    /// 429 if the budget has fewer left.
    pub(crate) fn begin(&self, bytes: u64) -> Result<Growing> {
        let mut growing = Growing {
            reservation: self.budget.reserve_nothing(),
            memory: self.clone(),
        };
        growing.grow_to(bytes)?;
        Ok(growing)
    }

    /// Reserves `bytes` for the head of a request; a small head takes none.
    ///
    /// # Errors
    /// 429 if the memory for heads has fewer left.
    pub(crate) fn hold_head(&self, bytes: u64) -> Result<Option<Reservation>> {
        if bytes <= UNCOUNTED_HEAD_BYTES {
            return Ok(None);
        }
        let reservation = self.heads.reserve(bytes);
        reservation
            .map(Some)
            .ok_or_else(|| self.no_memory_for_head())
    }

    /// Returns a reservation for the heads of a connection, which holds nothing yet.
    pub(crate) fn heads_of_connection(&self) -> Reservation {
        self.heads.reserve_nothing()
    }

    /// Returns the refusal of a request for whose head there is no memory.
    pub(crate) fn no_memory_for_head(&self) -> Error {
        self.refused.add(1);
        let message = "Request rate is large: the server has no memory left for the head of this \
                       request, because other requests use all that it has for heads. Please \
                       retry later.";
        Error::new(Kind::Throttled, message).with_retry_after_ms(RETRY_AFTER_MS)
    }

    /// Holds a body that is in memory already.
    ///
    /// # Errors
    /// 429 if the budget has too few bytes left.
    pub fn hold(&self, body: Bytes) -> Result<Bytes> {
        self.hold_answer(body, &self.answer())
    }

    /// Holds the body of an answer, for which `answer` has reserved what its operation needed. What
    /// the body does not need is given back.
    ///
    /// # Errors
    /// 429 if the reservation is too small and the budget has too few bytes left.
    pub(crate) fn hold_answer(&self, body: Bytes, answer: &AnswerMemory) -> Result<Bytes> {
        let mut reservation = answer.take();
        let bytes = body.len() as u64;
        reservation.shrink_to(bytes);
        if !reservation.grow_to(bytes) {
            return Err(self.refuse(bytes));
        }
        if body.is_empty() {
            return Ok(body);
        }
        Ok(Bytes::from_owner(Held {
            body,
            _reservation: reservation,
        }))
    }

    /// Counts an answer that its operation refused to make, for lack of memory.
    pub(crate) fn count_refused(&self) {
        self.refused.add(1);
    }

    fn refuse(&self, bytes: u64) -> Error {
        self.refused.add(1);
        let message = format!(
            "Request rate is large: the server has no memory left for a body of {bytes} bytes, \
             because other requests use all {} bytes that it has for bodies. Please retry later.",
            self.budget.limit()
        );
        Error::new(Kind::Throttled, message).with_retry_after_ms(RETRY_AFTER_MS)
    }
}

/// Returns the refusal of a request for whose texts, `bytes` long, there is no memory.
pub(crate) fn no_memory_for_texts(bytes: usize) -> Error {
    let message = format!(
        "Request rate is large: the server has no memory left for the {bytes} bytes of text that \
         the binary JSON of this request stands for. Please retry later."
    );
    Error::new(Kind::Throttled, message).with_retry_after_ms(RETRY_AFTER_MS)
}

impl Growing {
    /// Makes the reservation at least `bytes` large.
    ///
    /// # Errors
    /// 429 if the budget has too few bytes left.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<()> {
        match self.reservation.grow_to(bytes) {
            true => Ok(()),
            false => Err(self.memory.refuse(bytes)),
        }
    }

    /// Ties the reservation to the bytes of the complete body.
    pub(crate) fn hold(self, body: Bytes) -> Bytes {
        Bytes::from_owner(Held {
            body,
            _reservation: self.reservation,
        })
    }
}

/// Bytes with their reservation.
struct Held {
    body: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_held_until_its_last_slice_is_dropped() {
        let memory = BodyMemory::new(MemoryBudget::new(100));
        let body = memory.hold(Bytes::from(vec![7; 60])).expect("it fits");
        let slice = body.slice(10..20);
        drop(body);
        assert_eq!(memory.held_bytes(), 60);
        assert!(memory.is_short());
        let error = memory.hold(Bytes::from(vec![7; 41])).expect_err("too much");
        assert_eq!(
            (error.status(), error.retry_after_ms()),
            (429, Some(RETRY_AFTER_MS))
        );
        drop(slice);
        assert_eq!((memory.held_bytes(), memory.refused()), (0, 1));
        assert_eq!(
            memory
                .hold(Bytes::from(vec![7; 100]))
                .expect("it fits")
                .len(),
            100
        );
    }

    #[test]
    fn an_answer_is_counted_from_its_first_row_until_its_last_byte() {
        let memory = BodyMemory::new(MemoryBudget::new(100));
        let answer = memory.answer();
        assert!(answer.reserve(80));
        assert_eq!(memory.held_bytes(), 80);
        assert!(memory.hold(Bytes::from(vec![7; 21])).is_err());
        // The body needs less than the operation reserved.
        let body = memory.hold_answer(Bytes::from(vec![7; 50]), &answer);
        let body = body.expect("it is reserved");
        drop(answer);
        assert_eq!(memory.held_bytes(), 50);
        drop(body);
        // An operation that reserves nothing gets its memory when its body is there.
        let answer = memory.answer();
        let body = memory.hold_answer(Bytes::from(vec![7; 60]), &answer);
        assert_eq!(memory.held_bytes(), 60);
        let refused = memory.hold_answer(Bytes::from(vec![7; 60]), &memory.answer());
        assert_eq!(refused.expect_err("too much").status(), 429);
        drop((answer, body));
        assert_eq!(memory.held_bytes(), 0);
    }

    #[test]
    fn a_body_that_grows_takes_what_it_needs() {
        let memory = BodyMemory::new(MemoryBudget::new(100));
        let mut growing = memory.begin(10).expect("it fits");
        growing.grow_to(5).expect("it has more");
        growing.grow_to(90).expect("it fits");
        assert!(growing.grow_to(101).is_err());
        assert_eq!(memory.held_bytes(), 90);
        drop(growing);
        assert_eq!(memory.held_bytes(), 0);
    }
}
