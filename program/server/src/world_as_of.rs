//! A world whose clock stands still.

use orrery_model::world::World;
use std::sync::Arc;

/// A world that is at one moment for ever, so that data of the past can be read as it was then:
/// nothing expires. Time that is measured goes on.
pub(crate) struct WorldAsOf {
    inner: Arc<dyn World>,
    now_ms: u64,
}

impl WorldAsOf {
    /// Creates a world at a moment, in milliseconds since 1970.
    pub(crate) fn new(inner: Arc<dyn World>, now_ms: u64) -> Self {
        WorldAsOf { inner, now_ms }
    }
}

impl World for WorldAsOf {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn monotonic_ms(&self) -> u64 {
        self.inner.monotonic_ms()
    }

    fn monotonic_us(&self) -> u64 {
        self.inner.monotonic_us()
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}
