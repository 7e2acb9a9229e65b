//! Group commit for all partitions: one sync makes everything durable that was accepted before it.
//!
//! The idea is leader and followers. Accepted work queues up. Whoever waits for his own first, while nobody is writing,
//! becomes the *leader*: he takes what is queued, writes it, syncs once and answers all of it. Meanwhile the next group
//! gathers, and at the end the leader hands over to one of those who wait in it. So a lone writer pays no hand-off to
//! another thread, and nobody leads for more than the group that holds his own work.
//!
//! A receipt polled as a future must not block its thread, so for those a background thread leads. It is started when first
//! needed and parks when there is nothing to do. A receipt that is dropped wakes it too.
//!
//! Promised: groups keep the order of acceptance; every receipt that is waited for, polled or dropped gets its answer
//! with no further call; after a failed group nothing is ever answered `Ok` again.
//!
//! Locks: the queue before a slot, never the other way round, and neither is held while the sink writes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use crate::owners::Owners;
use crate::receipt::Pending;
use crate::store::CommitOutcome;

/// Most bytes one group takes, so that a flood of large commits does not make one endless sync.
const GROUP_BYTES_MAX: usize = 32 << 20;
/// Most bytes that may wait: beyond it the store says "later" instead of eating memory.
const QUEUE_BYTES_MAX: usize = 256 << 20;
/// What a refused caller is told to wait.
const RETRY_FULL_MS: u64 = 50;
const RETRY_POISONED_MS: u64 = 5_000;

/// Where groups go.
pub(super) trait Sink: Send + Sync + 'static {
    /// One accepted piece of work.
    type Work: Send;

    /// Writes the works in order, syncs, and makes them visible to readers. An error, or a panic, poisons the committer.
    fn write(&self, group: Vec<Self::Work>) -> Result<(), String>;
}

/// The queue and the rules of leading it.
pub(super) struct Committer<S: Sink> {
    sink: S,
    queue: Mutex<Queue<S::Work>>,
    background: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Queue<W> {
    owners: Owners,
    pending: VecDeque<Entry<W>>,
    pending_bytes: usize,
    /// Somebody leads, or has been told to.
    led: bool,
    /// The one told to is the background thread.
    background_turn: bool,
    /// Somebody in the queue will not lead himself.
    background_wanted: bool,
    poisoned: Option<String>,
    closing: bool,
}

struct Entry<W> {
    work: W,
    bytes: usize,
    slot: Arc<Slot>,
}

/// Where the answer to one piece of work appears.
#[derive(Default)]
pub(super) struct Slot {
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Default)]
struct SlotState {
    outcome: Option<CommitOutcome>,
    /// A thread is blocked on this slot and could lead.
    waiting: bool,
    /// That thread is to lead now.
    lead: bool,
    waker: Option<Waker>,
}

impl<S: Sink> Committer<S> {
    pub(super) fn new(sink: S, owners: Owners) -> Committer<S> {
        let queue = Queue {
            owners,
            pending: VecDeque::new(),
            pending_bytes: 0,
            led: false,
            background_turn: false,
            background_wanted: false,
            poisoned: None,
            closing: false,
        };
        Committer {
            sink,
            queue: Mutex::new(queue),
            background: Condvar::new(),
            thread: Mutex::new(None),
        }
    }

    pub(super) fn sink(&self) -> &S {
        &self.sink
    }

    /// Why nothing is written any more, if so.
    pub(super) fn poisoned(&self) -> Option<String> {
        self.lock().poisoned.clone()
    }

    /// Queues one piece of work, if `accept` finds it in order. Both happen under one lock, so the order of acceptance is
    /// the order of the log.
    pub(super) fn submit(
        &self,
        bytes: usize,
        accept: impl FnOnce(&mut Owners) -> Result<S::Work, CommitOutcome>,
    ) -> Result<Arc<Slot>, CommitOutcome> {
        let queue = &mut *self.lock();
        if queue.poisoned.is_some() || queue.closing {
            return Err(CommitOutcome::Unavailable {
                retry_after_ms: RETRY_POISONED_MS,
            });
        }
        if queue.pending_bytes > QUEUE_BYTES_MAX {
            return Err(CommitOutcome::Busy {
                retry_after_ms: RETRY_FULL_MS,
            });
        }
        let work = accept(&mut queue.owners)?;
        let slot = Arc::new(Slot::default());
        queue.pending.push_back(Entry {
            work,
            bytes,
            slot: slot.clone(),
        });
        queue.pending_bytes += bytes;
        Ok(slot)
    }

    /// Blocks until the slot is answered, leading the queue if nobody does.
    pub(super) fn wait(&self, slot: &Slot) -> CommitOutcome {
        {
            let mut queue = self.lock();
            let mut state = slot.lock();
            state.waiting = true;
            if state.outcome.is_none() && !queue.led {
                queue.led = true;
                state.lead = true;
            }
        }
        loop {
            let mut state = slot.lock();
            while state.outcome.is_none() && !state.lead {
                state = slot
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            // Leading comes first, even if the answer arrived meanwhile: a lead that is not taken stops everybody.
            if !std::mem::take(&mut state.lead) {
                return state.outcome.unwrap_or(CommitOutcome::Unknown);
            }
            drop(state);
            self.lead();
        }
    }

    /// Writes one group and hands over. The caller has been made leader and holds no lock.
    fn lead(&self) {
        let (works, slots) = self.take_group();
        let result = if works.is_empty() {
            Ok(())
        } else {
            catch_unwind(AssertUnwindSafe(|| self.sink.write(works)))
                .unwrap_or_else(|_| Err("a bug: panic".to_owned()))
        };
        match result {
            Ok(()) => {
                self.hand_over();
                settle(slots, CommitOutcome::Ok);
            }
            Err(detail) => {
                let stranded = self.poison(detail);
                self.hand_over();
                settle(slots, CommitOutcome::Unknown);
                settle(stranded, CommitOutcome::Unknown);
            }
        }
    }

    fn take_group(&self) -> (Vec<S::Work>, Vec<Arc<Slot>>) {
        let queue = &mut *self.lock();
        let (mut works, mut slots, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(entry) = queue.pending.pop_front() {
            bytes += entry.bytes;
            works.push(entry.work);
            slots.push(entry.slot);
            if bytes >= GROUP_BYTES_MAX {
                break;
            }
        }
        queue.pending_bytes -= bytes;
        if queue.pending.is_empty() {
            queue.background_wanted = false;
        }
        (works, slots)
    }

    /// Remembers the failure; the slots of everything still queued.
    fn poison(&self, detail: String) -> Vec<Arc<Slot>> {
        let queue = &mut *self.lock();
        queue.poisoned.get_or_insert(detail);
        queue.pending_bytes = 0;
        queue.pending.drain(..).map(|entry| entry.slot).collect()
    }

    /// Lets the next one lead: a thread that waits anyway, else the background thread if a future asked for it.
    fn hand_over(&self) {
        let queue = &mut *self.lock();
        let waiter_leads = queue.pending.iter().any(|entry| entry.slot.offer_lead());
        if waiter_leads {
            return;
        }
        if queue.background_wanted && !queue.pending.is_empty() {
            queue.background_turn = true;
            self.background.notify_one();
            return;
        }
        queue.led = false;
    }

    fn lock(&self) -> MutexGuard<'_, Queue<S::Work>> {
        // Nothing between taking and releasing this lock can panic half-way except `accept`, which changes one head.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Sink> Committer<S> {
    /// Has the queue written without the caller's help.
    fn lead_in_background(self: &Arc<Self>) {
        // The thread comes first: whoever leads now hands over to it as soon as it is wanted, so it must be there.
        let threaded = self.ensure_thread();
        {
            let queue = &mut *self.lock();
            queue.background_wanted = threaded;
            if queue.led || queue.pending.is_empty() {
                return;
            }
            queue.led = true;
            queue.background_turn = threaded;
        }
        if threaded {
            self.background.notify_one();
        } else {
            // No thread to be had: blocking the caller is better than leaving the work.
            self.lead();
        }
    }

    /// Starts the background thread if there is none; false if the system refuses one.
    fn ensure_thread(self: &Arc<Self>) -> bool {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let this = self.clone();
            let name = "orrery-commit".to_owned();
            *thread = std::thread::Builder::new()
                .name(name)
                .spawn(move || this.run_background())
                .ok();
        }
        thread.is_some()
    }

    fn run_background(&self) {
        let mut queue = self.lock();
        loop {
            if queue.background_turn {
                queue.background_turn = false;
                drop(queue);
                self.lead();
                queue = self.lock();
            } else if queue.closing {
                return;
            } else {
                queue = self
                    .background
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn poll(self: &Arc<Self>, slot: &Slot, cx: &Context<'_>) -> Poll<CommitOutcome> {
        {
            let mut state = slot.lock();
            if let Some(outcome) = state.outcome {
                return Poll::Ready(outcome);
            }
            match &mut state.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
        }
        self.lead_in_background();
        // Without a background thread the work was just done here.
        slot.lock().outcome.map_or(Poll::Pending, Poll::Ready)
    }

    /// Takes no more work and ends the background thread. What is queued must have been waited for.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.background.notify_one();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // Its panics are caught where it leads; there is nobody to tell about another.
            let _ = thread.join();
        }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread that waits here the leader, if one does.
    fn offer_lead(&self) -> bool {
        let mut state = self.lock();
        if state.waiting {
            state.lead = true;
            self.changed.notify_one();
        }
        state.waiting
    }
}

fn settle(slots: Vec<Arc<Slot>>, outcome: CommitOutcome) {
    for slot in slots {
        let mut state = slot.lock();
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        if state.waiting {
            slot.changed.notify_one();
        }
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The receipt of one piece of work.
pub(super) struct Ticket<S: Sink> {
    committer: Arc<Committer<S>>,
    slot: Arc<Slot>,
    answered: bool,
}

impl<S: Sink> Ticket<S> {
    pub(super) fn new(committer: Arc<Committer<S>>, slot: Arc<Slot>) -> Ticket<S> {
        Ticket {
            committer,
            slot,
            answered: false,
        }
    }
}

impl<S: Sink> Pending for Ticket<S> {
    fn wait(mut self: Box<Self>) -> CommitOutcome {
        self.answered = true;
        self.committer.wait(&self.slot)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CommitOutcome> {
        let outcome = self.committer.poll(&self.slot, cx);
        self.answered = outcome.is_ready();
        outcome
    }
}

impl<S: Sink> Drop for Ticket<S> {
    fn drop(&mut self) {
        if !self.answered {
            self.committer.lead_in_background();
        }
    }
}

#[cfg(test)]
#[path = "committer_tests.rs"]
mod tests;
