//! The slots in which queries work: the cores are divided among the pages that run, in slices, and
//! pages that have worked less come first.
//!
//! A page of a query has a thread, but works only while it holds a slot. There are as many slots as
//! cores. At its check points a page that has used up its slice looks for pages that wait; if one
//! of them has worked as little as itself, or less, the page gives its slot away and waits. So a
//! small query among many large ones waits for a slice at most, and large ones advance in turn.
//!
//! A page that has just begun may also use one of the *express* slots, which are as many again, for
//! one slice. So a small query does not wait at all while large ones are between two check points.
//!
//! Among pages that have just begun, those of a database with fewer pages come first, so that the
//! many pages of one database do not keep the first slot of another one waiting.
//!
//! Every [`OLDEST_EVERY`]th slot goes to the page that has waited longest, so that large pages
//! advance however many small ones there are.
//!
//! Slots decide when a page works and never what it answers: work and charge of a page are the
//! same with and without them, except that a page ends early when its time is over.
//!
//! [`SlotQueue`] decides and has neither a clock nor threads; [`Slots`] and [`Turn`] add both.

use super::Cancel;
use orrery_model::Rid;
use orrery_model::sync::{lock, wait};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The time that a page works before it gives way to others.
const SLICE: Duration = Duration::from_millis(5);
/// The highest level. Pages that worked for longer are on it together.
const MAX_LEVEL: u32 = 12;
/// One of so many slots goes to the page that has waited longest.
const OLDEST_EVERY: u64 = 8;

/// The two kinds of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    /// For the first slice of a page.
    Express,
}

/// The place of a page that waits: its level, its round, and the number of its arrival.
///
/// The round of a page that has just begun is the number of pages that its database had before it;
/// later it is 0.
type PagePlace = (u32, usize, u64);

/// The slots, and the pages that wait for them.
#[derive(Debug)]
struct SlotQueue {
    free: usize,
    free_express: usize,
    /// The pages that wait. The value wakes the page.
    waiting: BTreeMap<PagePlace, Arc<Waiter>>,
    /// The pages of each database that work or wait.
    pages: BTreeMap<Rid, usize>,
    arrivals: u64,
    slots_given: u64,
}

/// A page that waits.
#[derive(Debug, Default)]
struct Waiter {
    woken: Condvar,
    /// The slot that the page was given. Guarded by the mutex of the queue.
    granted: Mutex<Option<Kind>>,
}

impl SlotQueue {
    fn new(slots: usize) -> Self {
        SlotQueue {
            free: slots,
            free_express: slots,
            waiting: BTreeMap::new(),
            pages: BTreeMap::new(),
            arrivals: 0,
            slots_given: 0,
        }
    }

    /// Gives a slot to a page of this level, if there is one.
    fn take(&mut self, level: u32) -> Option<Kind> {
        if self.free > 0 {
            self.free -= 1;
            Some(Kind::Regular)
        } else if level == 0 && self.free_express > 0 {
            self.free_express -= 1;
            Some(Kind::Express)
        } else {
            None
        }
    }

    /// Enters a page that waits.
    fn enter(&mut self, level: u32, round: usize, waiter: Arc<Waiter>) {
        self.arrivals += 1;
        let round = if level == 0 { round } else { 0 };
        self.waiting.insert((level, round, self.arrivals), waiter);
    }

    /// Counts a page of a database. Returns the number of pages that the database had before.
    fn begin(&mut self, database: Option<Rid>) -> usize {
        let Some(database) = database else {
            return 0;
        };
        let pages = self.pages.entry(database).or_default();
        *pages += 1;
        *pages - 1
    }

    /// Removes a page of a database from the count.
    fn end(&mut self, database: Option<Rid>) {
        let Some(database) = database else {
            return;
        };
        if let Some(pages) = self.pages.get_mut(&database) {
            *pages -= 1;
            if *pages == 0 {
                self.pages.remove(&database);
            }
        }
    }

    /// Returns true if a page of this level that has used up its slice must give its slot away.
    fn must_yield(&self, kind: Kind, level: u32) -> bool {
        let first = self.waiting.keys().next();
        kind == Kind::Express || first.is_some_and(|(waiting, ..)| *waiting <= level)
    }

    /// Takes a slot back. Returns the page that gets the slot now.
    fn give_back(&mut self, kind: Kind) -> Option<Arc<Waiter>> {
        let place = match kind {
            Kind::Regular => self.next_place(),
            Kind::Express => self.first_place().filter(|(level, ..)| *level == 0),
        };
        match (place, kind) {
            (Some(place), _) => self.waiting.remove(&place),
            (None, Kind::Regular) => {
                self.free += 1;
                None
            }
            (None, Kind::Express) => {
                self.free_express += 1;
                None
            }
        }
    }

    fn first_place(&self) -> Option<PagePlace> {
        self.waiting.keys().next().copied()
    }

    /// Returns the place of the page whose turn it is.
    fn next_place(&mut self) -> Option<PagePlace> {
        self.slots_given += 1;
        if self.slots_given.is_multiple_of(OLDEST_EVERY) {
            let places = self.waiting.keys().copied();
            return places.min_by_key(|(.., arrival)| *arrival);
        }
        self.first_place()
    }
}

/// Returns the level of a page that has used up this number of slices.
fn level_of(slices: u32) -> u32 {
    match slices {
        0 => 0,
        some => (1 + some.ilog2()).min(MAX_LEVEL),
    }
}

/// The slots of an engine.
#[derive(Debug)]
pub(crate) struct Slots {
    queue: Mutex<SlotQueue>,
}

impl Slots {
    /// Creates slots for a number of cores.
    pub(crate) fn new(cores: usize) -> Self {
        Slots {
            queue: Mutex::new(SlotQueue::new(cores.max(1))),
        }
    }

    /// Waits for a slot and returns the turn of a page, which begins its work. Pages that belong to
    /// no database are counted with none. `cancel` tells that the client no longer waits.
    pub(crate) fn begin<'a>(
        &'a self,
        database: Option<Rid>,
        cancel: Option<&'a Cancel>,
    ) -> Turn<'a> {
        let turn = Turn {
            slots: self,
            cancel,
            database,
            round: self.lock().begin(database),
            kind: Cell::new(None),
            slices: Cell::new(0),
            slice_began: Cell::new(Instant::now()),
            waited: Cell::new(Duration::ZERO),
        };
        turn.take_slot();
        turn
    }

    /// Returns the number of pages of databases that have begun and not ended, including those that
    /// wait for a slot.
    pub(crate) fn begun(&self) -> usize {
        self.lock().pages.values().sum()
    }

    /// Returns the number of pages that wait for a slot.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, SlotQueue> {
        lock(&self.queue)
    }

    /// Gives a slot back, and wakes the page that gets it.
    fn give_back(&self, queue: &mut SlotQueue, kind: Kind) {
        if let Some(waiter) = queue.give_back(kind) {
            *lock(&waiter.granted) = Some(kind);
            waiter.woken.notify_one();
        }
    }

    /// Waits until a page is given a slot.
    fn wait<'a>(&'a self, mut queue: MutexGuard<'a, SlotQueue>, waiter: &Waiter) -> Kind {
        loop {
            if let Some(kind) = lock(&waiter.granted).take() {
                return kind;
            }
            queue = wait(&waiter.woken, queue);
        }
    }
}

/// The turn of one page. The page works while the turn exists, except within [`Turn::pause`].
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    slots: &'a Slots,
    cancel: Option<&'a Cancel>,
    database: Option<Rid>,
    /// The number of pages that the database had before.
    round: usize,
    /// The slot that the page holds.
    kind: Cell<Option<Kind>>,
    /// The slices that the page has used up.
    slices: Cell<u32>,
    slice_began: Cell<Instant>,
    /// The time that the page has waited for slots.
    waited: Cell<Duration>,
}

impl Turn<'_> {
    /// Returns the time that the page has waited for slots so far.
    pub(crate) fn waited(&self) -> Duration {
        self.waited.get()
    }

    /// Returns true if the client of the page no longer waits, so that the page must end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(Cancel::check)
    }

    /// Gives way to other pages if the slice of this page is used up. Called at the check points of
    /// a page, about once in a millisecond of its work.
    pub(crate) fn check(&self) {
        if self.slice_began.get().elapsed() < SLICE {
            return;
        }
        self.slices.set(self.slices.get().saturating_add(1));
        let level = level_of(self.slices.get());
        let mut queue = self.slots.lock();
        if let Some(kind) = self.kind.get()
            && queue.must_yield(kind, level)
        {
            if kind == Kind::Express && queue.free > 0 {
                queue.free -= 1;
                self.slots.give_back(&mut queue, kind);
                self.kind.set(Some(Kind::Regular));
            } else {
                // The page enters the line before it gives its slot away, so that it keeps its slot
                // if it is its turn again.
                let waiter = Arc::new(Waiter::default());
                self.kind.set(None);
                queue.enter(level, self.round, waiter.clone());
                self.slots.give_back(&mut queue, kind);
                self.wait_for_slot(queue, &waiter);
            }
        }
        self.slice_began.set(Instant::now());
    }

    /// Runs `work`, which waits for another process, without a slot.
    pub(crate) fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        self.give_slot_back();
        let result = work();
        self.take_slot();
        result
    }

    fn take_slot(&self) {
        let level = level_of(self.slices.get());
        let mut queue = self.slots.lock();
        match queue.take(level) {
            Some(kind) => self.kind.set(Some(kind)),
            None => {
                let waiter = Arc::new(Waiter::default());
                queue.enter(level, self.round, waiter.clone());
                self.wait_for_slot(queue, &waiter);
            }
        }
    }

    fn wait_for_slot(&self, queue: MutexGuard<'_, SlotQueue>, waiter: &Waiter) {
        let began = Instant::now();
        let kind = self.slots.wait(queue, waiter);
        self.kind.set(Some(kind));
        self.waited.set(self.waited.get() + began.elapsed());
        self.slice_began.set(Instant::now());
    }

    fn give_slot_back(&self) {
        if let Some(kind) = self.kind.take() {
            let mut queue = self.slots.lock();
            self.slots.give_back(&mut queue, kind);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.give_slot_back();
        self.slots.lock().end(self.database);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enters a page of a level that waits, and returns what identifies it.
    fn enter(queue: &mut SlotQueue, level: u32) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter::default());
        queue.enter(level, 0, waiter.clone());
        waiter
    }

    fn is_given(queue: &mut SlotQueue, kind: Kind, to: &Arc<Waiter>) -> bool {
        let given = queue.give_back(kind);
        given.is_some_and(|waiter| Arc::ptr_eq(&waiter, to))
    }

    #[test]
    fn a_page_that_begins_finds_an_express_slot_beside_large_pages() {
        let mut queue = SlotQueue::new(1);
        assert_eq!(queue.take(3), Some(Kind::Regular));
        assert_eq!(queue.take(3), None);
        assert_eq!(queue.take(0), Some(Kind::Express));
        assert_eq!(queue.take(0), None);
        // After its first slice a page leaves the express slot.
        assert!(queue.must_yield(Kind::Express, 1));
    }

    #[test]
    fn pages_that_worked_less_come_first_and_equal_ones_in_turn() {
        let mut queue = SlotQueue::new(1);
        queue.take(5);
        let large = enter(&mut queue, 5);
        let middle = enter(&mut queue, 2);
        let second = enter(&mut queue, 2);
        assert!(queue.must_yield(Kind::Regular, 2));
        assert!(!queue.must_yield(Kind::Regular, 1));
        assert!(is_given(&mut queue, Kind::Regular, &middle));
        assert!(is_given(&mut queue, Kind::Regular, &second));
        assert!(is_given(&mut queue, Kind::Regular, &large));
        assert!(queue.give_back(Kind::Regular).is_none());
        assert_eq!(queue.free, 1);
    }

    #[test]
    fn a_large_page_advances_however_many_small_ones_arrive() {
        let mut queue = SlotQueue::new(1);
        queue.take(1);
        let large = enter(&mut queue, 9);
        let mut slots_given = 0;
        loop {
            enter(&mut queue, 1);
            slots_given += 1;
            if is_given(&mut queue, Kind::Regular, &large) {
                break;
            }
        }
        assert_eq!(slots_given, OLDEST_EVERY);
    }

    #[test]
    fn an_express_slot_goes_to_a_page_that_begins_only() {
        let mut queue = SlotQueue::new(1);
        queue.take(0);
        queue.take(0);
        let large = enter(&mut queue, 4);
        assert!(queue.give_back(Kind::Express).is_none());
        assert_eq!(queue.free_express, 1);
        assert!(is_given(&mut queue, Kind::Regular, &large));
    }

    #[test]
    fn the_first_page_of_a_database_comes_before_the_many_of_another() {
        let mut queue = SlotQueue::new(1);
        let many = Some(Rid::database(1));
        queue.take(3);
        let mut waiters = Vec::new();
        for _ in 0..3 {
            let round = queue.begin(many);
            waiters.push(Arc::new(Waiter::default()));
            queue.enter(0, round, waiters[round].clone());
        }
        let other = Arc::new(Waiter::default());
        let round = queue.begin(Some(Rid::database(2)));
        queue.enter(0, round, other.clone());
        assert!(is_given(&mut queue, Kind::Regular, &waiters[0]));
        assert!(is_given(&mut queue, Kind::Regular, &other));
        assert!(is_given(&mut queue, Kind::Regular, &waiters[1]));
        for _ in 0..3 {
            queue.end(many);
        }
        assert_eq!(queue.pages.len(), 1);
    }

    #[test]
    fn levels_rise_with_the_logarithm_of_the_work() {
        let levels: Vec<u32> = [0, 1, 2, 3, 4, 8, 1_000, u32::MAX].map(level_of).into();
        assert_eq!(levels, [0, 1, 2, 2, 3, 4, 10, MAX_LEVEL]);
    }

    #[test]
    fn many_threads_never_work_on_more_slots_than_there_are() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let slots = Slots::new(1);
        let (working, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let turn = slots.begin(None, None);
                        let now = working.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        working.fetch_sub(1, Ordering::SeqCst);
                        turn.pause(std::thread::yield_now);
                    }
                });
            }
        });
        assert!(
            most.load(Ordering::SeqCst) <= 2,
            "a regular and an express slot"
        );
        let queue = lock(&slots.queue);
        assert_eq!((queue.free, queue.free_express), (1, 1));
        assert!(queue.waiting.is_empty());
    }
}
