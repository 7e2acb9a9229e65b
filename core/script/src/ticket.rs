//! The ticket of a request that runs scripts: it connects the processes that the request uses with
//! the one who bounds all such requests.
//!
//! A request carries its ticket in its thread, because the processes are taken far below the place
//! that admits the request: in the middle of a transaction, or by a function that a query calls.
//! [`Ticket::run`] sets the ticket of the thread, and every process that the pool hands out in the
//! meantime belongs to the ticket.
//!
//! The holder of the other end can do two things while the request runs: [`Ticket::lower`] gives
//! its processes a low priority, and [`Ticket::end`] ends them. Nothing of an ended request takes
//! effect, because its transaction is not committed.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use orrery_model::sync;

use crate::error::ScriptError;
use crate::watchdog::WatchedChild;

thread_local! {
    /// The ticket of the request that this thread runs.
    static CURRENT: RefCell<Option<Ticket>> = const { RefCell::new(None) };
}

/// The right of one request to run scripts.
#[derive(Clone, Debug, Default)]
pub struct Ticket {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The processes that the request uses now: a procedure, and the functions of its query.
    children: Vec<Arc<WatchedChild>>,
    is_lowered: bool,
    is_ended: bool,
}

impl Ticket {
    /// Returns the ticket of this thread, if it runs a request that has one.
    #[must_use]
    pub fn current() -> Option<Ticket> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Runs `work` with this ticket.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Sets the ticket of the thread back, also after a panic.
        struct Restore(Option<Ticket>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self.clone())));
        work()
    }

    /// Gives the processes of the request a low priority, also those that it uses later. Such a
    /// process is not used again, because its priority cannot be raised.
    pub fn lower(&self) {
        let mut state = self.lock();
        state.is_lowered = true;
        for child in &state.children {
            child.lower();
        }
    }

    /// Returns the processor time that the processes of the request have used since it took them,
    /// as far as the system tells; `None` if it does not.
    #[must_use]
    pub fn processor_time(&self) -> Option<Duration> {
        let state = self.lock();
        let mut sum = Duration::ZERO;
        for child in &state.children {
            sum += child.processor_time()?.saturating_sub(child.time_before());
        }
        Some(sum)
    }

    /// Ends the processes of the request, and refuses it further ones.
    pub fn end(&self) {
        let mut state = self.lock();
        state.is_ended = true;
        for child in &state.children {
            child.evict();
        }
    }

    /// Returns true after [`Ticket::end`].
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.lock().is_ended
    }

    /// Returns true if the request uses a process now.
    pub(crate) fn has_process(&self) -> bool {
        !self.lock().children.is_empty()
    }

    /// Enters a process that the request uses from now on.
    ///
    /// # Errors
    /// [`ScriptError::Evicted`] if the ticket was ended.
    pub(crate) fn attach(&self, child: Arc<WatchedChild>) -> Result<(), ScriptError> {
        let mut state = self.lock();
        if state.is_ended {
            return Err(ScriptError::Evicted);
        }
        if state.is_lowered {
            child.lower();
        }
        child.mark_time();
        state.children.push(child);
        Ok(())
    }

    /// Removes a process that the request does not use any more.
    pub(crate) fn detach(&self, child: &Arc<WatchedChild>) {
        self.lock()
            .children
            .retain(|other| !Arc::ptr_eq(other, child));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_ticket_of_its_work_and_none_afterwards() {
        let ticket = Ticket::default();
        assert!(Ticket::current().is_none());
        ticket.run(|| Ticket::current().expect("the ticket").end());
        assert!(ticket.is_ended());
        assert!(Ticket::current().is_none());
    }
}
