//! Bodies in memory: each is counted in a budget from the time it is read or made until its last
//! byte is dropped.
//!
//! The bytes of a held body carry their reservation. Clones and slices share it, so the budget gets
//! the bytes back exactly when nothing holds them any more: the operation has ended, or the socket
//! has taken the answer.

use bytes::Bytes;
use orrery_model::memory::{MemoryBudget, Reservation};
use orrery_model::metrics::{Counter, Gauge};
use orrery_model::{Error, Kind, Result};
use std::sync::Arc;

/// The largest body that may use the last eighth of the budget. Large bodies leave this part free,
/// so that small requests are served while clients hold many large answers.
const SMALL_BYTES: u64 = 64 * 1024;
/// The memory for large heads is this part of the budget for bodies, beside it.
const HEADS_PART: u64 = 8;
/// The bytes of a head that are not counted.
const UNCOUNTED_HEAD_BYTES: u64 = 8 * 1024;
/// The milliseconds after which a client may try again.
const RETRY_AFTER_MS: u64 = 500;

/// The memory for the bodies of requests and answers.
#[derive(Clone, Debug)]
pub struct BodyMemory {
    budget: Arc<MemoryBudget>,
    /// The memory for large heads, apart from that of bodies: heads need no credentials.
    heads: Arc<MemoryBudget>,
    held: Arc<Gauge>,
    refused: Arc<Counter>,
}

/// The bytes of one body, taken from the budget as the body grows.
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
            held: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Returns the bytes of bodies that are held now.
    pub fn held_bytes(&self) -> u64 {
        u64::try_from(self.held.get()).unwrap_or(0)
    }

    /// Returns the bytes of large heads that are held now.
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

    /// Reserves `bytes` for a body that arrives.
    ///
    /// # Errors
    /// 429 if the budget has fewer left.
    pub(crate) fn begin(&self, bytes: u64) -> Result<Growing> {
        let reservation = match self.has_room(bytes, bytes) {
            true => self.budget.reserve(bytes),
            false => None,
        };
        let reservation = reservation.ok_or_else(|| self.refuse(bytes))?;
        self.held.add(signed(bytes));
        let memory = self.clone();
        Ok(Growing {
            reservation,
            memory,
        })
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
        reservation.map(Some).ok_or_else(|| {
            self.refused.add(1);
            let message = "Request rate is large: the server has no memory left for the head of \
                           this request, because other requests have large heads. Please retry \
                           later.";
            Error::new(Kind::Throttled, message).with_retry_after_ms(RETRY_AFTER_MS)
        })
    }

    /// Holds a body that is in memory already.
    ///
    /// # Errors
    /// 429 if the budget has too few bytes left.
    pub fn hold(&self, body: Bytes) -> Result<Bytes> {
        if body.is_empty() {
            return Ok(body);
        }
        let growing = self.begin(body.len() as u64)?;
        Ok(growing.hold(body))
    }

    /// Returns true if a body of `bytes` may take `more` from the budget.
    fn has_room(&self, bytes: u64, more: u64) -> bool {
        let for_large = self.budget.limit() / 8 * 7;
        bytes <= SMALL_BYTES || self.budget.used().saturating_add(more) <= for_large
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

impl Growing {
    /// Makes the reservation at least `bytes` large.
    ///
    /// # Errors
    /// 429 if the budget has too few bytes left.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<()> {
        let more = bytes.saturating_sub(self.reservation.bytes());
        if more == 0 {
            return Ok(());
        }
        if !self.memory.has_room(bytes, more) || !self.reservation.grow(more) {
            return Err(self.memory.refuse(bytes));
        }
        self.memory.held.add(signed(more));
        Ok(())
    }

    /// Ties the reservation to the bytes of the complete body.
    pub(crate) fn hold(self, body: Bytes) -> Bytes {
        let growing = self;
        Bytes::from_owner(Held {
            body,
            _growing: growing,
        })
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        self.memory.held.add(-signed(self.reservation.bytes()));
    }
}

/// Bytes with their reservation.
struct Held {
    body: Bytes,
    _growing: Growing,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
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
    fn large_bodies_leave_the_last_eighth_to_small_ones() {
        let memory = BodyMemory::new(MemoryBudget::new(800_000));
        let body = |bytes| Bytes::from(vec![7; bytes]);
        let _large = memory.hold(body(640_000)).expect("it fits");
        assert!(memory.hold(body(70_000)).is_err());
        assert!(
            memory
                .begin(0)
                .and_then(|mut body| body.grow_to(70_000))
                .is_err()
        );
        let _small = memory.hold(body(60_000)).expect("it fits");
        let _another = memory.hold(body(60_000)).expect("it fits");
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
