//! The time until which the leaseholder may trust its lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_model::world::World;
use orrery_storage::StoreError;

use super::RETRY_MS;

/// The time until which a lease is valid, by two clocks of the node.
///
/// The monotonic clock of a machine that was suspended has stood still. The other clock has not, so
/// both must agree. A clock that is set ahead costs the answers until the next renewal.
pub struct Validity {
    world: Arc<dyn World>,
    until_monotonic_ms: AtomicU64,
    until_ms: AtomicU64,
}

/// A moment by both clocks.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Milliseconds of the monotonic clock.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970.
    pub now_ms: u64,
}

impl Moment {
    /// Returns the present moment.
    pub fn now(world: &dyn World) -> Moment {
        Moment {
            monotonic_ms: world.monotonic_ms(),
            now_ms: world.now_ms(),
        }
    }
}

impl Validity {
    /// Creates a validity that has ended.
    pub fn ended(world: Arc<dyn World>) -> Validity {
        Validity {
            world,
            until_monotonic_ms: AtomicU64::new(0),
            until_ms: AtomicU64::new(0),
        }
    }

    /// Returns true if no other node can hold the lease at this moment.
    pub fn is_valid(&self) -> bool {
        let now = Moment::now(self.world.as_ref());
        now.monotonic_ms < self.until_monotonic_ms.load(Ordering::SeqCst)
            && now.now_ms < self.until_ms.load(Ordering::SeqCst)
    }

    /// Extends the validity to `ttl_ms` after a moment.
    pub fn extend(&self, since: Moment, ttl_ms: u64) {
        let until = since.monotonic_ms.saturating_add(ttl_ms);
        self.until_monotonic_ms.store(until, Ordering::SeqCst);
        let until = since.now_ms.saturating_add(ttl_ms);
        self.until_ms.store(until, Ordering::SeqCst);
    }

    /// Returns the milliseconds for which the validity lasts if it is not extended.
    pub fn remaining_ms(&self) -> u64 {
        let now = Moment::now(self.world.as_ref());
        let until = self.until_monotonic_ms.load(Ordering::SeqCst);
        let by_wall = self.until_ms.load(Ordering::SeqCst);
        let monotonic = until.saturating_sub(now.monotonic_ms);
        monotonic.min(by_wall.saturating_sub(now.now_ms))
    }

    /// Ends the validity.
    pub fn end(&self) {
        self.until_monotonic_ms.store(0, Ordering::SeqCst);
        self.until_ms.store(0, Ordering::SeqCst);
    }

    /// Checks that the lease is valid.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if it is not.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.is_valid() {
            return Ok(());
        }
        Err(StoreError::Unavailable {
            reason: EXPIRED,
            retry_after_ms: RETRY_MS,
            is_full: false,
        })
    }
}

/// The refusal of a node without a valid lease.
pub(crate) const EXPIRED: &str =
    "the lease of this node has expired: another node may serve the account";
