//! A budget of memory that requests share: each takes the bytes that it holds, and is refused when
//! the budget has none left.
//!
//! A budget counts bytes and allocates nothing. A holder reserves before it allocates, grows its
//! reservation as it reads more, and gives the bytes back by dropping the reservation. The count is
//! exact for the bytes that are reserved; allocations without a reservation are not seen.
//!
//! A budget may keep a part for small holders: a holder that grows beyond a size leaves this part
//! free, so that small requests are served while clients hold many large answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// The largest holder that may use the last eighth of a budget with a part for small holders.
pub const SMALL_BYTES: u64 = 64 * 1024;

/// A limit on the bytes that all holders of reservations have together.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    /// The limit for holders of more than [`SMALL_BYTES`].
    limit_of_large: u64,
    used: AtomicU64,
}

impl MemoryBudget {
    /// Creates a budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget {
            limit,
            limit_of_large: limit,
            used: AtomicU64::new(0),
        })
    }

    /// Creates a budget of `limit` bytes that keeps the last eighth for holders of up to
    /// [`SMALL_BYTES`].
    #[must_use]
    pub fn with_part_for_small(limit: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget {
            limit,
            limit_of_large: limit / 8 * 7,
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
        let mut reservation = self.reserve_nothing();
        reservation.grow(bytes).then_some(reservation)
    }

    /// Returns a reservation of no bytes, which grows later.
    #[must_use]
    pub fn reserve_nothing(self: &Arc<Self>) -> Reservation {
        Reservation {
            budget: self.clone(),
            bytes: 0,
        }
    }

    /// Adds `bytes` to the count of a holder that then has `all` bytes, unless the limit for its
    /// size would be passed.
    fn take(&self, bytes: u64, all: u64) -> bool {
        let limit = match all <= SMALL_BYTES {
            true => self.limit,
            false => self.limit_of_large,
        };
        let add = |used: u64| {
            let sum = used.checked_add(bytes)?;
            (sum <= limit).then_some(sum)
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
        let all = self.bytes.saturating_add(bytes);
        let has_grown = self.budget.take(bytes, all);
        if has_grown {
            self.bytes += bytes;
        }
        has_grown
    }

    /// Makes the reservation at least `bytes` large. Returns false, and changes nothing, if the
    /// budget has fewer left.
    #[must_use]
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        more == 0 || self.grow(more)
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

/// The memory of one answer, from its first row until the client has taken its last byte.
///
/// The operation that makes the answer reserves what the answer needs so far. The reservation then
/// goes with the bytes of the body, so that no moment is without a count: a finished answer waits
/// for its commit, for its connection and for its client.
#[derive(Debug)]
pub struct AnswerMemory {
    reservation: Mutex<Reservation>,
    /// True if the budget had too few bytes left for a reservation.
    was_refused: AtomicBool,
}

impl AnswerMemory {
    /// Creates the memory of an answer of no bytes.
    #[must_use]
    pub fn new(budget: &Arc<MemoryBudget>) -> AnswerMemory {
        AnswerMemory {
            reservation: Mutex::new(budget.reserve_nothing()),
            was_refused: AtomicBool::new(false),
        }
    }

    /// Makes the reservation at least `bytes` large. Returns false, and changes nothing, if the
    /// budget has fewer left.
    #[must_use]
    pub fn reserve(&self, bytes: u64) -> bool {
        let is_reserved = lock(&self.reservation).grow_to(bytes);
        if !is_reserved {
            self.was_refused.store(true, Ordering::Relaxed);
        }
        is_reserved
    }

    /// Returns true if the budget had too few bytes left for a reservation.
    pub fn was_refused(&self) -> bool {
        self.was_refused.load(Ordering::Relaxed)
    }

    /// Returns the reservation and leaves one of no bytes.
    #[must_use]
    pub fn take(&self) -> Reservation {
        let mut reservation = lock(&self.reservation);
        let empty = reservation.budget.reserve_nothing();
        std::mem::replace(&mut reservation, empty)
    }
}

/// The memory of the rows of a page while the page fills. It is reserved in steps, and for small
/// pages not at all, so that a row costs an addition.
#[derive(Debug)]
pub struct RowsMemory {
    bytes: usize,
    /// Bytes up to which rows are taken without another reservation.
    reserved: usize,
}

impl RowsMemory {
    /// The memory of a row beside its text: its place in the list, and what the allocator adds.
    pub const ROW_BYTES: usize = 96;
    /// The memory of the rows of a page that is not reserved.
    pub const UNRESERVED_BYTES: usize = 32 * 1024;
    /// The memory that is reserved at a time.
    const STEP_BYTES: usize = 64 * 1024;

    /// Begins the memory of a page that has `bytes` of rows already.
    #[must_use]
    pub fn holding(bytes: usize) -> RowsMemory {
        RowsMemory {
            bytes,
            reserved: Self::UNRESERVED_BYTES,
        }
    }

    /// Returns the bytes that the rows take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes with one more row, whose text has `row` bytes.
    pub fn bytes_with(&self, row: usize) -> usize {
        self.bytes + row + Self::ROW_BYTES
    }

    /// Returns true if there is memory for one more row. `reserve` reserves memory up to so many
    /// bytes in all, and returns false if there is none left.
    pub fn has_room(&mut self, row: usize, reserve: impl FnOnce(usize) -> bool) -> bool {
        let needed = self.bytes_with(row);
        if needed <= self.reserved {
            return true;
        }
        let wanted = needed.next_multiple_of(Self::STEP_BYTES);
        let is_reserved = reserve(wanted);
        if is_reserved {
            self.reserved = wanted;
        }
        is_reserved
    }

    /// Counts a row.
    pub fn add(&mut self, row: usize) {
        self.bytes = self.bytes_with(row);
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
    fn large_holders_leave_the_last_eighth_to_small_ones() {
        let budget = MemoryBudget::with_part_for_small(8 * SMALL_BYTES);
        let mut large = budget.reserve(6 * SMALL_BYTES).expect("below the limit");
        assert!(large.grow(SMALL_BYTES));
        assert!(!large.grow(1));
        assert!(budget.reserve(SMALL_BYTES + 1).is_none());
        let mut small = budget.reserve(SMALL_BYTES).expect("the last eighth");
        assert!(!small.grow(1));
        drop(large);
        assert!(small.grow(1));
    }

    #[test]
    fn the_memory_of_an_answer_grows_and_goes_on_with_its_bytes() {
        let budget = MemoryBudget::new(100);
        let answer = AnswerMemory::new(&budget);
        assert!(answer.reserve(60) && answer.reserve(40));
        assert!(!answer.was_refused());
        assert!(!answer.reserve(101) && answer.was_refused());
        assert_eq!(budget.used(), 60);
        let reservation = answer.take();
        drop(answer);
        assert_eq!((reservation.bytes(), budget.used()), (60, 60));
        drop(reservation);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_memory_of_rows_is_reserved_in_steps_and_for_small_pages_not_at_all() {
        let mut rows = RowsMemory::holding(0);
        let refuse = |_| false;
        assert!(rows.has_room(30_000, refuse));
        rows.add(30_000);
        assert_eq!(rows.bytes(), 30_096);
        assert!(!rows.has_room(30_000, refuse));
        assert!(rows.has_room(30_000, |bytes| bytes == 64 * 1024));
        rows.add(30_000);
        assert!(rows.has_room(5_000, refuse));
        assert!(!rows.has_room(6_000, refuse));
        assert!(!RowsMemory::holding(32 * 1024).has_room(0, refuse));
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
