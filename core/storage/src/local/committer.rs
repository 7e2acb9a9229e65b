//! Group commit for all partitions: one sync makes durable every commit accepted before it.
//!
//! The committer is a queue with leader and followers. Accepted tasks wait in the queue. A thread
//! that waits for its own task while no group is being written becomes the *leader*: it takes the
//! queued tasks, writes them, syncs once and answers all of them. Meanwhile the next group gathers,
//! and at the end the leader hands over to a thread that waits in the next group. So a lone writer
//! pays for no hand-off to another thread, and no thread leads for longer than the group that holds
//! its own task.
//!
//! A receipt that is polled as a future must not block its thread, so a background thread leads for
//! such receipts. The background thread is started when first needed and parks while there is
//! nothing to write. A receipt that is dropped wakes the background thread too.
//!
//! After a failed group the committer is *stopped*: it answers every task "not done" at once. If
//! the group failed for want of a resource, the leader lets the sink reopen its database before it
//! answers the tasks of the group, since only then their outcome is certain; and the background
//! thread looks for the resource, with growing pauses, until writing can resume. After any other
//! failure the committer stays stopped.
//!
//! Promised: groups keep the order of acceptance; every receipt that is waited for, polled or
//! dropped gets its answer with no further call; after a failed group no task is answered `Ok`
//! until the sink was reopened.
//!
//! Locks: the queue is locked before a slot, never the other way round, and neither lock is held
//! while the sink writes or is reopened. A stopped committer has at most one thread that reopens
//! the sink: it is the leader meanwhile.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use orrery_model::sync;

use super::reopening::{Exhausted, Reopened};
use crate::commit::{CommitOutcome, PartitionId};
use crate::ownership::OwnershipTable;
use crate::receipt::Pending;

/// The most bytes that one group takes, so that many large commits do not make one endless sync.
const GROUP_BYTES_MAX: usize = 32 << 20;
/// The most bytes that may wait. Beyond it the store answers "later" and takes no more memory.
const QUEUE_BYTES_MAX: usize = 256 << 20;
/// Milliseconds that a caller is told to wait when the queue is full.
const RETRY_FULL_MS: u64 = 50;
/// Milliseconds that a caller is told to wait after a failed group that a restart must follow.
const RETRY_POISONED_MS: u64 = 5_000;
/// Milliseconds that a caller is told to wait while a resource is missing.
const RETRY_EXHAUSTED_MS: u64 = 1_000;
/// The first pause between two looks for a missing resource.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two looks for a missing resource.
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause before writing resumes, after many failures that followed one another.
const LAST_RESUMPTION_PAUSE: Duration = Duration::from_secs(10);
/// A failure within this time of the last resumption counts as following it.
const FAILURE_CHAIN: Duration = Duration::from_secs(60);
/// Failures without a known cause, with no group written in between, before only a restart helps.
const UNKNOWN_FAILURES_MAX: u32 = 5;

/// The destination of groups.
pub(super) trait Sink: Send + Sync + 'static {
    /// One accepted task.
    type Task: Send;

    /// Writes the tasks in order, syncs, and makes them visible to readers. A failure, or a panic,
    /// stops the committer.
    fn write(&self, group: Vec<Self::Task>) -> Result<(), Failure>;

    /// Discards what failed groups have written, and becomes able to write again. `accepted` has
    /// the heads of all accepted tasks, which may not have been written.
    ///
    /// # Errors
    /// When that is not possible now. The sink can be read or waits with its readers meanwhile, and
    /// a later call may succeed.
    fn reopen(&self, accepted: &OwnershipTable) -> Result<Reopened, String>;

    /// Returns true if a resource that a write lacked seems to be there again.
    fn has_resource(&self, exhausted: Exhausted) -> bool;
}

/// The failure of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) detail: String,
    /// The resource that was missing; `None` if only a restart helps.
    pub(super) exhausted: Option<Exhausted>,
    /// A part of the group may be written.
    pub(super) is_written: bool,
}

impl Failure {
    /// Returns the answer to a task that was not written.
    fn refusal(&self) -> CommitOutcome {
        match self.exhausted {
            Some(Exhausted::Disk) => CommitOutcome::StorageFull {
                retry_after_ms: RETRY_EXHAUSTED_MS,
            },
            Some(_) => CommitOutcome::Unavailable {
                retry_after_ms: RETRY_EXHAUSTED_MS,
            },
            None => CommitOutcome::Unavailable {
                retry_after_ms: RETRY_POISONED_MS,
            },
        }
    }
}

/// The state after a failed group.
struct Stopped {
    failure: Failure,
    /// The sink was not reopened yet.
    needs_reopening: bool,
    /// The pause before the next look for the resource.
    pause: Duration,
    /// Writing resumes no earlier.
    not_before: Instant,
}

/// The queue of accepted tasks and the rules of leading it.
pub(super) struct Committer<S: Sink> {
    sink: S,
    queue: Mutex<Queue<S::Task>>,
    /// Tells without the lock that `Queue::stopped` is set.
    is_stopped: AtomicBool,
    /// A group was written since the last failure.
    has_written: AtomicBool,
    /// Notifies the background thread.
    background: Condvar,
    /// The background thread, once it is started.
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Queue<T> {
    ownership: OwnershipTable,
    pending: VecDeque<Entry<T>>,
    pending_bytes: usize,
    /// A thread leads, or has been told to lead.
    has_leader: bool,
    /// The thread that has been told to lead is the background thread.
    background_must_lead: bool,
    /// The queue holds a task whose receipt is polled or dropped: no thread of its own will lead.
    needs_background: bool,
    /// The failure of a group, until writing resumes.
    stopped: Option<Stopped>,
    /// The time of the last resumption, and the number of failures that followed one another.
    last_resumption: Option<Instant>,
    failures: u32,
    /// The number of failures without a known cause since a group was last written.
    unknown_failures: u32,
    is_closing: bool,
}

struct Entry<T> {
    task: T,
    bytes: usize,
    slot: Arc<Slot>,
}

/// The place where the answer to one task appears.
#[derive(Default)]
pub(super) struct Slot {
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Default)]
struct SlotState {
    outcome: Option<CommitOutcome>,
    /// A thread is blocked on this slot and could lead.
    has_waiter: bool,
    /// The blocked thread is to lead now.
    must_lead: bool,
    waker: Option<Waker>,
}

impl<S: Sink> Committer<S> {
    pub(super) fn new(sink: S, ownership: OwnershipTable) -> Committer<S> {
        let queue = Queue {
            ownership,
            pending: VecDeque::new(),
            pending_bytes: 0,
            has_leader: false,
            background_must_lead: false,
            needs_background: false,
            stopped: None,
            last_resumption: None,
            failures: 0,
            unknown_failures: 0,
            is_closing: false,
        };
        Committer {
            sink,
            queue: Mutex::new(queue),
            is_stopped: AtomicBool::new(false),
            has_written: AtomicBool::new(false),
            background: Condvar::new(),
            thread: Mutex::new(None),
        }
    }

    pub(super) fn sink(&self) -> &S {
        &self.sink
    }

    /// Returns the failure after which nothing is written, until writing resumes.
    pub(super) fn failure(&self) -> Option<Failure> {
        let queue = self.lock_queue();
        queue
            .stopped
            .as_ref()
            .map(|stopped| stopped.failure.clone())
    }

    /// Returns the answer to every task while nothing is written.
    pub(super) fn refusal(&self) -> Option<CommitOutcome> {
        if self.is_stopped.load(Ordering::Acquire) {
            self.lock_queue().refusal()
        } else {
            None
        }
    }

    /// Returns the partitions that were opened and not destroyed, in ascending order.
    pub(super) fn partitions(&self) -> Vec<PartitionId> {
        self.lock_queue().ownership.partitions()
    }

    /// Queues the task that `accept` returns, or returns its refusal. Acceptance and queueing
    /// happen under one lock, so the order of acceptance is the order of the log.
    pub(super) fn submit(
        &self,
        bytes: usize,
        accept: impl FnOnce(&mut OwnershipTable) -> Result<S::Task, CommitOutcome>,
    ) -> Result<Arc<Slot>, CommitOutcome> {
        let queue = &mut *self.lock_queue();
        if let Some(refusal) = queue.refusal() {
            return Err(refusal);
        }
        if queue.pending_bytes > QUEUE_BYTES_MAX {
            return Err(CommitOutcome::Busy {
                retry_after_ms: RETRY_FULL_MS,
            });
        }
        let task = accept(&mut queue.ownership)?;
        let slot = Arc::new(Slot::default());
        queue.pending.push_back(Entry {
            task,
            bytes,
            slot: slot.clone(),
        });
        queue.pending_bytes += bytes;
        Ok(slot)
    }

    /// Blocks until the slot is answered, and leads the queue if no other thread does.
    pub(super) fn wait(self: &Arc<Self>, slot: &Slot) -> CommitOutcome {
        {
            let mut queue = self.lock_queue();
            let mut state = slot.lock();
            state.has_waiter = true;
            if state.outcome.is_none() && !queue.has_leader {
                queue.has_leader = true;
                state.must_lead = true;
            }
        }
        loop {
            let mut state = slot.lock();
            while state.outcome.is_none() && !state.must_lead {
                state = sync::wait(&slot.changed, state);
            }
            // Leading comes first, even if the answer arrived meanwhile: a leader that does not
            // lead stops every other thread.
            if !std::mem::take(&mut state.must_lead) {
                return state.outcome.unwrap_or(CommitOutcome::Unknown);
            }
            drop(state);
            self.lead();
        }
    }

    /// Writes one group and hands over. The caller has been made leader and holds no lock.
    fn lead(self: &Arc<Self>) {
        let (tasks, slots) = self.take_group();
        match self.write(tasks) {
            Ok(()) => {
                self.has_written.store(true, Ordering::Relaxed);
                // The next leader starts before the answers go out, so that the disk is not idle.
                self.hand_over();
                answer(slots, CommitOutcome::Ok);
            }
            Err(failure) => {
                let refusal = failure.refusal();
                let is_written = failure.is_written;
                // No task that still waits was written, and none can be any more.
                answer(self.stop(failure), refusal);
                let is_undone = self.reopen();
                self.resume();
                self.hand_over();
                if self.needs_recovery() && self.ensure_thread() {
                    self.background.notify_one();
                }
                let is_refused = is_undone || !is_written;
                let outcome = if is_refused {
                    refusal
                } else {
                    CommitOutcome::Unknown
                };
                answer(slots, outcome);
            }
        }
    }

    /// Writes a group to the sink. A panic of the sink is an error like any other.
    fn write(&self, tasks: Vec<S::Task>) -> Result<(), Failure> {
        if tasks.is_empty() {
            return Ok(());
        }
        match catch_unwind(AssertUnwindSafe(|| self.sink.write(tasks))) {
            Ok(result) => result,
            Err(_) => Err(Failure {
                detail: "a bug: panic".to_owned(),
                exhausted: None,
                is_written: true,
            }),
        }
    }

    /// Takes the next group off the queue.
    fn take_group(&self) -> (Vec<S::Task>, Vec<Arc<Slot>>) {
        let queue = &mut *self.lock_queue();
        let (mut tasks, mut slots, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(entry) = queue.pending.pop_front() {
            bytes += entry.bytes;
            tasks.push(entry.task);
            slots.push(entry.slot);
            if bytes >= GROUP_BYTES_MAX {
                break;
            }
        }
        queue.pending_bytes -= bytes;
        if queue.pending.is_empty() {
            queue.needs_background = false;
        }
        (tasks, slots)
    }

    /// Stores the failure and empties the queue. Returns the slots of the tasks that were queued.
    fn stop(&self, mut failure: Failure) -> Vec<Arc<Slot>> {
        let queue = &mut *self.lock_queue();
        let now = Instant::now();
        let follows = match queue.last_resumption {
            Some(last) => now.duration_since(last) < FAILURE_CHAIN,
            None => false,
        };
        queue.failures = if follows { queue.failures + 1 } else { 0 };
        // A group that was written in between shows that the cause of the earlier failures is gone.
        let has_written = self.has_written.swap(false, Ordering::Relaxed);
        let is_unknown = failure.exhausted == Some(Exhausted::Unknown);
        if has_written || !is_unknown {
            queue.unknown_failures = 0;
        }
        queue.unknown_failures += u32::from(is_unknown);
        if queue.unknown_failures > UNKNOWN_FAILURES_MAX {
            failure.exhausted = None;
        }
        let wait = FIRST_PAUSE * 2u32.saturating_pow(queue.failures.min(16));
        let wait = if follows { wait } else { Duration::ZERO };
        queue.stopped = Some(Stopped {
            failure,
            needs_reopening: true,
            pause: FIRST_PAUSE,
            not_before: now + wait.min(LAST_RESUMPTION_PAUSE),
        });
        self.is_stopped.store(true, Ordering::Release);
        queue.pending_bytes = 0;
        queue.needs_background = false;
        // The tasks are dropped here: they hold the database that is to be reopened.
        queue.pending.drain(..).map(|entry| entry.slot).collect()
    }

    /// Reopens the sink after a failure for want of a resource. Returns true if no task of the
    /// failed group took place. The caller leads.
    fn reopen(&self) -> bool {
        let accepted = {
            let queue = self.lock_queue();
            match &queue.stopped {
                Some(stopped) if stopped.is_curable() && stopped.needs_reopening => {
                    queue.ownership.clone()
                }
                _ => return false,
            }
        };
        let reopened = catch_unwind(AssertUnwindSafe(|| self.sink.reopen(&accepted)));
        let Ok(Ok(reopened)) = reopened else {
            return false;
        };
        let queue = &mut *self.lock_queue();
        queue.ownership = reopened.ownership;
        if let Some(stopped) = &mut queue.stopped {
            stopped.needs_reopening = false;
            if !reopened.is_group_cut {
                // Callers were told that these tasks may have taken place, and now some have. Only
                // a restart makes all of them look.
                stopped.failure.exhausted = None;
                stopped
                    .failure
                    .detail
                    .push_str("; a table holds a part of the commits that failed");
            }
        }
        reopened.is_group_cut
    }

    /// Resumes writing if the sink is reopened and the resource is there again. The caller leads.
    fn resume(&self) {
        let exhausted = {
            let queue = self.lock_queue();
            match &queue.stopped {
                Some(stopped) if stopped.may_resume() => stopped.failure.exhausted,
                _ => return,
            }
        };
        if exhausted.is_none_or(|exhausted| !self.sink.has_resource(exhausted)) {
            return;
        }
        let queue = &mut *self.lock_queue();
        queue.stopped = None;
        self.is_stopped.store(false, Ordering::Release);
        queue.last_resumption = Some(Instant::now());
    }

    /// Chooses the next leader: a thread that waits in the queue, else the background thread if a
    /// polled or dropped receipt needs it.
    fn hand_over(&self) {
        let queue = &mut *self.lock_queue();
        let is_led_by_waiter = queue.pending.iter().any(|entry| entry.slot.offer_lead());
        if is_led_by_waiter {
            return;
        }
        if queue.needs_background && !queue.pending.is_empty() {
            queue.background_must_lead = true;
            self.background.notify_one();
            return;
        }
        queue.has_leader = false;
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue<S::Task>> {
        // No code between taking and releasing this lock can panic half-way except `accept`, which
        // changes one head.
        sync::lock(&self.queue)
    }
}

impl<S: Sink> Committer<S> {
    /// Has the queue written without the caller's help.
    fn lead_in_background(self: &Arc<Self>) {
        // The thread is started first: a present leader hands over to it as soon as
        // `needs_background` is set, so it must exist by then.
        let has_thread = self.ensure_thread();
        {
            let queue = &mut *self.lock_queue();
            queue.needs_background = has_thread;
            if queue.has_leader || queue.pending.is_empty() {
                return;
            }
            queue.has_leader = true;
            queue.background_must_lead = has_thread;
        }
        if has_thread {
            self.background.notify_one();
        } else {
            // The system refuses a thread: blocking the caller is better than leaving the tasks.
            self.lead();
        }
    }

    /// Starts the background thread if there is none. Returns false if the system refuses a thread.
    fn ensure_thread(self: &Arc<Self>) -> bool {
        let mut thread = sync::lock(&self.thread);
        if thread.is_none() {
            let this = self.clone();
            let builder = std::thread::Builder::new().name("orrery-commit".to_owned());
            *thread = builder.spawn(move || this.run_background()).ok();
        }
        thread.is_some()
    }

    fn run_background(self: &Arc<Self>) {
        let mut queue = self.lock_queue();
        loop {
            if queue.background_must_lead {
                queue.background_must_lead = false;
                drop(queue);
                self.lead();
                queue = self.lock_queue();
            } else if queue.is_closing {
                return;
            } else if let Some(pause) = queue.begin_recovery() {
                queue = sync::wait_timeout(&self.background, queue, pause);
                if !queue.background_must_lead && !queue.is_closing && !queue.has_leader {
                    queue.has_leader = true;
                    drop(queue);
                    self.reopen();
                    self.resume();
                    self.hand_over();
                    queue = self.lock_queue();
                }
            } else {
                queue = sync::wait(&self.background, queue);
            }
        }
    }

    /// Returns true if the committer is stopped and may resume without a restart.
    fn needs_recovery(&self) -> bool {
        let queue = self.lock_queue();
        queue.stopped.as_ref().is_some_and(Stopped::is_curable)
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
        // Without a background thread the call above wrote the task on this thread.
        match slot.lock().outcome {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }

    /// Takes no more tasks and ends the background thread. The queued tasks must have been waited
    /// for.
    pub(super) fn close(&self) {
        self.lock_queue().is_closing = true;
        self.background.notify_one();
        let thread = sync::lock(&self.thread).take();
        if let Some(thread) = thread {
            // Panics are caught where the thread leads; no caller is left to hear of another.
            let _ = thread.join();
        }
    }
}

impl<T> Queue<T> {
    /// Returns the answer to every task while nothing is written.
    fn refusal(&self) -> Option<CommitOutcome> {
        if self.is_closing {
            return Some(CommitOutcome::Unavailable {
                retry_after_ms: RETRY_POISONED_MS,
            });
        }
        let stopped = self.stopped.as_ref()?;
        Some(stopped.failure.refusal())
    }

    /// Returns the pause before the next attempt to resume, and makes the pause after that longer.
    /// Returns `None` if there is nothing to resume.
    fn begin_recovery(&mut self) -> Option<Duration> {
        let stopped = self.stopped.as_mut()?;
        if !stopped.is_curable() {
            return None;
        }
        let pause = stopped.pause;
        stopped.pause = (pause * 2).min(LAST_PAUSE);
        Some(pause)
    }
}

impl Stopped {
    /// Returns true if writing can resume without a restart.
    fn is_curable(&self) -> bool {
        self.failure.exhausted.is_some()
    }

    fn may_resume(&self) -> bool {
        self.is_curable() && !self.needs_reopening && Instant::now() >= self.not_before
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        sync::lock(&self.state)
    }

    /// Makes the thread that waits on this slot the leader. Returns false if no thread waits.
    fn offer_lead(&self) -> bool {
        let mut state = self.lock();
        if state.has_waiter {
            state.must_lead = true;
            self.changed.notify_one();
        }
        state.has_waiter
    }
}

/// Sets the outcome of each slot and wakes the thread or the task that waits for it.
fn answer(slots: Vec<Arc<Slot>>, outcome: CommitOutcome) {
    for slot in slots {
        let mut state = slot.lock();
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        if state.has_waiter {
            slot.changed.notify_one();
        }
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The receipt of one task.
pub(super) struct Ticket<S: Sink> {
    committer: Arc<Committer<S>>,
    slot: Arc<Slot>,
    is_answered: bool,
}

impl<S: Sink> Ticket<S> {
    pub(super) fn new(committer: Arc<Committer<S>>, slot: Arc<Slot>) -> Ticket<S> {
        Ticket {
            committer,
            slot,
            is_answered: false,
        }
    }
}

impl<S: Sink> Pending for Ticket<S> {
    fn wait(mut self: Box<Self>) -> CommitOutcome {
        self.is_answered = true;
        self.committer.wait(&self.slot)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CommitOutcome> {
        let outcome = self.committer.poll(&self.slot, cx);
        self.is_answered = outcome.is_ready();
        outcome
    }
}

impl<S: Sink> Drop for Ticket<S> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.committer.lead_in_background();
        }
    }
}

#[cfg(test)]
#[path = "committer_tests.rs"]
mod tests;
