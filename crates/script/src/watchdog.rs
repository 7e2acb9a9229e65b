//! Ends script-host processes whose deadline has passed.
//!
//! A caller reads and writes its pipe plainly, without polling; if the child hangs or refuses to read, this one thread
//! kills it and the pipe breaks. One thread serves the whole pool, asleep until the earliest deadline it knows.
//! Arming wakes it only if the new deadline is earlier, which for equal budgets is once per budget at most.

use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A process that may have to die, seen from both threads.
#[derive(Debug)]
pub(crate) struct Mortal {
    child: Mutex<Child>,
    overdue: AtomicBool,
}

impl Mortal {
    pub(crate) fn new(child: Child) -> Self {
        Self {
            child: Mutex::new(child),
            overdue: AtomicBool::new(false),
        }
    }

    /// Whether the watchdog ended it.
    pub(crate) fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Acquire)
    }

    /// Ends it and waits for it, so that no zombie stays.
    pub(crate) fn end(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // Both fail only for a process that is gone already.
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[derive(Debug)]
struct Armed {
    ticket: u64,
    deadline: Instant,
    mortal: Arc<Mortal>,
}

#[derive(Debug, Default)]
struct State {
    armed: Vec<Armed>,
    next_ticket: u64,
    /// When the thread wakes by itself; `None` if it sleeps until told.
    wakes_at: Option<Instant>,
    started: bool,
    closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that kills; it starts with the first deadline and ends with this value.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
}

/// Dropping it takes the deadline back; after that the process is safe.
#[derive(Debug)]
pub(crate) struct Deadline<'a> {
    watchdog: &'a Watchdog,
    ticket: u64,
}

impl Watchdog {
    /// Ends the process at this moment unless the answer is dropped before. Fails if no thread can be started.
    pub(crate) fn arm(
        &self,
        mortal: Arc<Mortal>,
        deadline: Instant,
    ) -> std::io::Result<Deadline<'_>> {
        let mut state = self.shared.lock();
        if !state.started {
            let shared = Arc::clone(&self.shared);
            std::thread::Builder::new()
                .name("script-watchdog".into())
                .spawn(move || watch(&shared))?;
            state.started = true;
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.armed.push(Armed {
            ticket,
            deadline,
            mortal,
        });
        if state.wakes_at.is_none_or(|at| deadline < at) {
            self.shared.changed.notify_one();
        }
        Ok(Deadline {
            watchdog: self,
            ticket,
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        self.watchdog
            .shared
            .lock()
            .armed
            .retain(|armed| armed.ticket != self.ticket);
    }
}

/// The thread's body. Killing happens under the lock: who has taken a deadline back can rely on it.
fn watch(shared: &Shared) {
    let mut state = shared.lock();
    while !state.closed {
        let now = Instant::now();
        state.armed.retain(|armed| {
            let overdue = armed.deadline <= now;
            if overdue {
                armed.mortal.overdue.store(true, Ordering::Release);
                armed.mortal.end();
            }
            !overdue
        });
        state.wakes_at = state.armed.iter().map(|armed| armed.deadline).min();
        state = match state.wakes_at {
            None => shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(at) => {
                let (state, _) = shared
                    .changed
                    .wait_timeout(state, at - now)
                    .unwrap_or_else(PoisonError::into_inner);
                state
            }
        };
    }
}
