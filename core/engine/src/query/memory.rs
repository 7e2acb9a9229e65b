//! The memory that all queries share, and the order in which they get it when it is short.
//!
//! A page reserves as it grows. If the budget is spent, the page that began first waits until
//! others give memory back, and every other page that wants to grow is refused. Without this order,
//! large pages would take each other's last bytes, and none of them would end. Pages up to
//! [`SMALL_BYTES`] are not part of the order: they are refused only by the budget itself.
//!
//! A page that needs more than the whole budget is refused at once, because no wait would help it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use orrery_model::memory::{MemoryBudget, Reservation};
use orrery_model::sync;

/// The size up to which a page stands outside of the order.
const SMALL_BYTES: u64 = 512 << 10;
/// The memory of a query by the bytes of its text and parameters, which become a tree: a number of
/// two bytes becomes a value of 32 bytes in a list that grows by doubling.
const TEXT_FACTOR: u64 = 32;
/// The longest time that the first page waits for memory.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The memory of all queries of an engine.
pub(crate) struct QueryMemory {
    budget: Arc<MemoryBudget>,
    order: Mutex<Order>,
    /// Notified when a page gives memory back.
    released: Condvar,
}

/// The large pages, by the order of their beginning.
#[derive(Default)]
struct Order {
    next: u64,
    pages: BTreeSet<u64>,
    /// The page that waits. While there is one, no other page grows.
    waiting: Option<u64>,
}

impl QueryMemory {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        QueryMemory {
            budget,
            order: Mutex::default(),
            released: Condvar::new(),
        }
    }

    /// Returns the budget, for the operator.
    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Begins the reservations of a page.
    pub(crate) fn page(&self) -> PageMemory<'_> {
        PageMemory {
            memory: self,
            state: RefCell::default(),
            exceeds_budget: Cell::new(false),
        }
    }

    /// Reserves memory for a text of so many bytes and for what it becomes: its values and its
    /// tree. Returns `None` if there is none left, or if a page waits for memory.
    pub(crate) fn hold_text(&self, bytes: usize) -> Option<TextMemory<'_>> {
        if sync::lock(&self.order).waiting.is_some() {
            return None;
        }
        // The largest text must find room under the smallest limit, when no other is there.
        let most = self.budget.limit() / 2;
        let needed = (bytes as u64).saturating_mul(TEXT_FACTOR).min(most);
        let reservation = self.budget.reserve(needed)?;
        Some(TextMemory {
            memory: self,
            reservation: Some(reservation),
        })
    }
}

/// The memory of the text of a query. Dropping it gives the memory back.
pub struct TextMemory<'a> {
    memory: &'a QueryMemory,
    reservation: Option<Reservation>,
}

impl Drop for TextMemory<'_> {
    fn drop(&mut self) {
        self.reservation = None;
        self.memory.released.notify_all();
    }
}

/// The memory of one page. Dropping it gives the memory back.
pub(crate) struct PageMemory<'a> {
    memory: &'a QueryMemory,
    state: RefCell<PageState>,
    exceeds_budget: Cell<bool>,
}

#[derive(Default)]
struct PageState {
    reservation: Option<Reservation>,
    /// The place in the order, once the page is large.
    place: Option<u64>,
}

impl PageMemory<'_> {
    /// Reserves memory up to `bytes` in all. `pause` runs a wait for other pages.
    pub(crate) fn reserve(&self, bytes: u64, pause: impl FnOnce(&mut dyn FnMut())) -> bool {
        let mut state = self.state.borrow_mut();
        if bytes <= SMALL_BYTES {
            return self.grow(&mut state, bytes);
        }
        if bytes > self.memory.budget.limit() {
            self.exceeds_budget.set(true);
            return false;
        }
        let place = self.enter(&mut state);
        let is_first = {
            let mut order = sync::lock(&self.memory.order);
            let others_wait = order.waiting.is_some_and(|waiting| waiting != place);
            if !others_wait && self.grow(&mut state, bytes) {
                return true;
            }
            let is_first = order.pages.first() == Some(&place);
            if is_first {
                order.waiting = Some(place);
            }
            is_first
        };
        if !is_first {
            return false;
        }
        let mut has_grown = false;
        pause(&mut || has_grown = self.wait(&mut state, bytes));
        has_grown
    }

    /// Returns true if the page wanted more than the memory of all queries: it would be refused
    /// also if it were alone.
    pub(crate) fn exceeds_budget(&self) -> bool {
        self.exceeds_budget.get()
    }

    /// Waits until the memory is there, as the first page.
    fn wait(&self, state: &mut PageState, bytes: u64) -> bool {
        let deadline = Instant::now() + WAIT_MAX;
        let mut order = sync::lock(&self.memory.order);
        loop {
            let has_grown = self.grow(state, bytes);
            let left = deadline.saturating_duration_since(Instant::now());
            if has_grown || left.is_zero() {
                order.waiting = None;
                return has_grown;
            }
            order = sync::wait_timeout(&self.memory.released, order, left);
        }
    }

    /// Returns the place in the order, which a page gets when it becomes large.
    fn enter(&self, state: &mut PageState) -> u64 {
        if let Some(place) = state.place {
            return place;
        }
        let mut order = sync::lock(&self.memory.order);
        let place = order.next;
        order.next += 1;
        order.pages.insert(place);
        state.place = Some(place);
        place
    }

    fn grow(&self, state: &mut PageState, bytes: u64) -> bool {
        if let Some(reservation) = &mut state.reservation {
            return reservation.grow_to(bytes);
        }
        state.reservation = self.memory.budget.reserve(bytes);
        state.reservation.is_some()
    }
}

impl Drop for PageMemory<'_> {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.reservation = None;
        let mut order = sync::lock(&self.memory.order);
        if let Some(place) = state.place.take() {
            order.pages.remove(&place);
        }
        drop(order);
        self.memory.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn no_wait(_: &mut dyn FnMut()) {
        panic!("only the first page waits");
    }

    #[test]
    fn the_first_large_page_waits_and_gets_what_others_give_back() {
        let memory = QueryMemory::new(MemoryBudget::new(10 * MIB));
        let (first, second) = (memory.page(), memory.page());
        assert!(first.reserve(6 * MIB, no_wait));
        let mut second = Some(second);
        assert!(second.as_ref().expect("a page").reserve(4 * MIB, no_wait));
        let has_grown = first.reserve(9 * MIB, |wait| {
            let page = second.take().expect("a page");
            assert!(
                !page.reserve(5 * MIB, no_wait),
                "the first page has priority"
            );
            let small = memory.page();
            assert!(!small.reserve(SMALL_BYTES, no_wait), "the budget is spent");
            drop(page);
            assert!(
                small.reserve(SMALL_BYTES, no_wait),
                "small pages do not queue"
            );
            drop(small);
            wait();
        });
        assert!(has_grown);
        drop(first);
        assert_eq!(memory.budget().used(), 0);
        assert!(memory.page().reserve(10 * MIB, no_wait));
    }

    #[test]
    fn a_page_that_needs_more_than_the_budget_does_not_wait() {
        let memory = QueryMemory::new(MemoryBudget::new(10 * MIB));
        let page = memory.page();
        assert!(page.reserve(10 * MIB, no_wait));
        assert!(!page.exceeds_budget());
        assert!(!page.reserve(11 * MIB, no_wait));
        assert!(page.exceeds_budget());
    }

    #[test]
    fn a_text_is_held_until_it_is_dropped() {
        let memory = QueryMemory::new(MemoryBudget::new(10 * MIB));
        let text = memory.hold_text(1 << 17).expect("4 MiB");
        assert_eq!(memory.budget().used(), 4 * MIB);
        let longest = memory.hold_text(usize::MAX).expect("half of the budget");
        assert!(memory.hold_text(1 << 17).is_none());
        drop((text, longest));
        assert_eq!(memory.budget().used(), 0);
        assert!(memory.hold_text(1 << 17).is_some());
    }

    #[test]
    fn large_pages_that_grow_against_each_other_all_end() {
        let memory = QueryMemory::new(MemoryBudget::new(10 * MIB));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    // Each page needs more than half of the budget, and is begun again if refused.
                    'page: loop {
                        let page = memory.page();
                        for mib in 1..=6 {
                            if !page.reserve(mib * MIB, |wait| wait()) {
                                continue 'page;
                            }
                        }
                        return;
                    }
                });
            }
        });
        assert_eq!(memory.budget().used(), 0);
    }
}
