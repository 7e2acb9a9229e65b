//! The thread that ends script-host processes whose deadline has passed.
//!
//! A caller reads and writes its pipe with blocking calls, without polling. If the child hangs or
//! does not read, the watchdog's thread kills it and the pipe breaks. One thread serves the whole
//! pool and sleeps until the earliest deadline. Arming a deadline wakes the thread only if the new
//! deadline is earlier, which for equal time budgets happens at most once per budget.

use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orrery_model::sync;

/// Steps by which the priority of a lowered process is below that of the server.
///
/// On a machine whose processors all are busy, such a process has about a tenth of the time of a
/// process of the server's priority: too little to delay it much, and enough that a script of some
/// 100 ms ends within the time of a request. With the lowest priority it would have a seventieth.
#[cfg(unix)]
const LOWERED_STEPS: i32 = 10;
/// The lowest priority that a system knows.
#[cfg(unix)]
const LOWEST_PRIORITY: i32 = 19;

/// A child process that the caller's thread and the watchdog share.
#[derive(Debug)]
pub(crate) struct WatchedChild {
    child: Mutex<Child>,
    is_overdue: AtomicBool,
    is_evicted: AtomicBool,
    is_lowered: AtomicBool,
    /// Milliseconds of processor time that the process had used when its user took it.
    time_before_ms: AtomicU64,
}

impl WatchedChild {
    pub(crate) fn new(child: Child) -> Self {
        Self {
            child: Mutex::new(child),
            is_overdue: AtomicBool::new(false),
            is_evicted: AtomicBool::new(false),
            is_lowered: AtomicBool::new(false),
            time_before_ms: AtomicU64::new(0),
        }
    }

    /// Returns true if the watchdog ended the process.
    pub(crate) fn is_overdue(&self) -> bool {
        self.is_overdue.load(Ordering::Acquire)
    }

    /// Returns true if the process was ended for other requests.
    pub(crate) fn is_evicted(&self) -> bool {
        self.is_evicted.load(Ordering::Acquire)
    }

    /// Returns the processor time of the process, or `None` on a system that does not tell.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        // The lock keeps the process from being waited for, and so its id from being reused. A
        // process whose user ends it works no more.
        let Ok(child) = self.child.try_lock() else {
            return Some(Duration::ZERO);
        };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
        drop(child);
        processor_time_of(&stat)
    }

    /// Remembers the processor time until now, which is not that of the next user.
    pub(crate) fn mark_time(&self) {
        let time = self.processor_time().unwrap_or_default();
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.time_before_ms.store(time_ms, Ordering::Release);
    }

    /// Returns the processor time that the process had used when its user took it.
    pub(crate) fn time_before(&self) -> Duration {
        Duration::from_millis(self.time_before_ms.load(Ordering::Acquire))
    }

    /// Returns true if the process was neither lowered nor ended for other requests.
    pub(crate) fn is_as_started(&self) -> bool {
        !self.is_lowered.load(Ordering::Acquire) && !self.is_evicted()
    }

    /// Kills the process for other requests. Its user finds its pipe broken and waits for its end.
    pub(crate) fn evict(&self) {
        self.is_evicted.store(true, Ordering::Release);
        self.kill();
    }

    /// Kills the process without waiting for its end.
    fn kill(&self) {
        // The lock is taken only by a user who ends the process.
        if let Ok(mut child) = self.child.try_lock() {
            // The call fails only for a process that is gone already.
            let _ = child.kill();
        }
    }

    /// Gives all threads of the process a low priority. A system that refuses it runs the process
    /// as before.
    pub(crate) fn lower(&self) {
        self.is_lowered.store(true, Ordering::Release);
        // The lock keeps the process from being waited for, and so its id from being reused.
        let Ok(child) = self.child.try_lock() else {
            return;
        };
        #[cfg(unix)]
        {
            let id = i32::try_from(child.id()).ok();
            let server = rustix::process::getpriority_process(None);
            if let (Some(group), Ok(server)) = (id.and_then(rustix::process::Pid::from_raw), server)
            {
                let low = (server + LOWERED_STEPS).min(LOWEST_PRIORITY);
                let _ = rustix::process::setpriority_pgrp(Some(group), low);
            }
        }
        drop(child);
    }

    /// Kills the process and waits for its end, so that no zombie stays.
    pub(crate) fn end(&self) {
        let mut child = sync::lock(&self.child);
        // Both calls fail only for a process that is gone already.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Reads the processor time out of the text of `/proc/<id>/stat`.
fn processor_time_of(stat: &str) -> Option<Duration> {
    /// Milliseconds of a tick; 100 ticks a second on every architecture we build for.
    const TICK_MS: u64 = 10;
    // The name of the program stands in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * TICK_MS))
}

#[derive(Debug)]
struct ArmedDeadline {
    ticket: u64,
    deadline: Instant,
    child: Arc<WatchedChild>,
}

#[derive(Debug, Default)]
struct State {
    armed: Vec<ArmedDeadline>,
    next_ticket: u64,
    /// The moment at which the thread wakes by itself; `None` if it sleeps until it is notified.
    wakes_at: Option<Instant>,
    is_started: bool,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }
}

/// The watchdog. Its thread starts with the first deadline and ends with this value.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
}

/// A deadline that is in force until this value is dropped. After the drop the watchdog does not
/// touch the process.
#[derive(Debug)]
pub(crate) struct Deadline<'a> {
    watchdog: &'a Watchdog,
    ticket: u64,
}

impl Watchdog {
    /// Arranges that the process is ended at this moment, unless the returned value is dropped
    /// before.
    ///
    /// # Errors
    /// When the watchdog's thread cannot be started.
    pub(crate) fn arm(
        &self,
        child: Arc<WatchedChild>,
        deadline: Instant,
    ) -> std::io::Result<Deadline<'_>> {
        let mut state = self.shared.lock();
        if !state.is_started {
            let shared = Arc::clone(&self.shared);
            std::thread::Builder::new()
                .name("script-watchdog".into())
                .spawn(move || watch(&shared))?;
            state.is_started = true;
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.armed.push(ArmedDeadline {
            ticket,
            deadline,
            child,
        });
        // Waking the thread costs a switch, so it is left asleep if it wakes early enough.
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
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        let mut state = self.watchdog.shared.lock();
        state.armed.retain(|armed| armed.ticket != self.ticket);
    }
}

/// Runs the watchdog's thread. Processes are killed under the lock, so that a caller that has
/// dropped its deadline can rely on its process. The caller waits for the end of its process.
fn watch(shared: &Shared) {
    let mut state = shared.lock();
    while !state.is_closed {
        let now = Instant::now();
        state.armed.retain(|armed| {
            let is_overdue = armed.deadline <= now;
            if is_overdue {
                armed.child.is_overdue.store(true, Ordering::Release);
                armed.child.kill();
            }
            !is_overdue
        });
        state.wakes_at = state.armed.iter().map(|armed| armed.deadline).min();
        state = match state.wakes_at {
            None => sync::wait(&shared.changed, state),
            Some(at) => sync::wait_timeout(&shared.changed, state, at - now),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_is_that_of_user_and_system() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 3 4 0 0 25 5";
        assert_eq!(processor_time_of(stat), Some(Duration::from_millis(70)));
        assert_eq!(processor_time_of("12 (a"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_lowered_process_keeps_a_share_of_a_busy_processor() {
        let mut sleep = std::process::Command::new("sleep");
        std::os::unix::process::CommandExt::process_group(sleep.arg("60"), 0);
        let child = sleep.spawn().expect("a process");
        let id = rustix::process::Pid::from_child(&child);
        let priority = |id| rustix::process::getpriority_process(id).expect("a priority");
        let child = WatchedChild::new(child);
        child.lower();
        let lowered = priority(Some(id));
        child.end();
        assert_eq!(
            lowered,
            (priority(None) + LOWERED_STEPS).min(LOWEST_PRIORITY)
        );
    }
}
