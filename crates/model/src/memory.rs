//! A budget of memory that requests share: each takes the bytes that it holds, and is refused when
//! the budget has none left.
//!
//! A budget counts bytes and allocates nothing. A holder reserves before it allocates, grows its
//! reservation as it reads more, and gives the bytes back by dropping the reservation. The count is
//! exact for the bytes that are reserved; allocations without a reservation are not seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit on the bytes that all holders of reservations have together.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    used: AtomicU64,
}

impl MemoryBudget {
    /// Creates a budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget {
            limit,
            used: AtomicU64::new(0),
        })
    }

    /// Creates a budget that refuses nothing and still counts.
    #[must_use]
    pub fn unlimited() -> Arc<MemoryBudget> {
        MemoryBudget::new(u64::MAX)
    }

    /// Returns the limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes that are reserved now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Reserves `bytes`; `None` if the budget has fewer left.
    #[must_use]
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        self.take(bytes).then(|| Reservation {
            budget: self.clone(),
            bytes,
        })
    }

    /// Adds `bytes` to the count unless the limit would be passed.
    fn take(&self, bytes: u64) -> bool {
        let add = |used: u64| {
            let sum = used.checked_add(bytes)?;
            (sum <= self.limit).then_some(sum)
        };
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes taken from a [`MemoryBudget`]. Dropping the reservation gives them back.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// Returns the reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves `bytes` more. Returns false, and changes nothing, if the budget has fewer left.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let has_grown = self.budget.take(bytes);
        if has_grown {
            self.bytes += bytes;
        }
        has_grown
    }

    /// Gives back all bytes above `bytes`. A reservation that holds fewer stays as it is.
    pub fn shrink_to(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.budget.give_back(surplus);
        self.bytes -= surplus;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_refused_beyond_the_limit_and_come_back_when_dropped() {
        let budget = MemoryBudget::new(100);
        let mut first = budget.reserve(60).expect("within the limit");
        assert!(budget.reserve(41).is_none());
        let second = budget.reserve(40).expect("exactly the rest");
        assert!(!first.grow(1));
        drop(second);
        assert!(first.grow(40));
        assert_eq!((first.bytes(), budget.used()), (100, 100));
        first.shrink_to(10);
        first.shrink_to(50);
        assert_eq!((first.bytes(), budget.used()), (10, 10));
        drop(first);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let budget = MemoryBudget::unlimited();
        let _most = budget.reserve(u64::MAX).expect("unlimited");
        assert!(budget.reserve(1).is_none());
    }

    #[test]
    fn threads_that_reserve_at_once_never_pass_the_limit() {
        let budget = MemoryBudget::new(1_000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let held = budget.reserve(300);
                        assert!(budget.used() <= 1_000);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
    }
}
