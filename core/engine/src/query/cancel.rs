//! The cancellation of a page of a query whose client no longer waits for the answer, and the early
//! end of a page whose client waits less long than a page may take.
//!
//! The caller sets a [`Cancel`] from another thread; the page looks at it at its check points,
//! about once in a millisecond of its work, and ends as if its time were over. Work that was done
//! is charged.

use std::sync::atomic::{AtomicBool, Ordering};

/// Tells a page of a query that its client no longer waits, or that its time is over.
#[derive(Debug, Default)]
pub struct Cancel {
    is_set: AtomicBool,
    /// The time of the page is over, and its client waits for the rows found so far.
    is_time_over: AtomicBool,
    /// The page has found the flag set.
    was_seen: AtomicBool,
}

impl Cancel {
    /// Ends the page at its next check point. A page that has ended is not affected.
    pub fn cancel(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }

    /// Ends the page at its next check point with the rows found so far and a continuation.
    pub fn end_page(&self) {
        self.is_time_over.store(true, Ordering::Relaxed);
    }

    /// Returns true if the page is to end with what it has.
    pub fn is_time_over(&self) -> bool {
        self.is_time_over.load(Ordering::Relaxed)
    }

    /// Returns true if the page is cancelled.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Returns true if the page must end.
    pub(crate) fn check(&self) -> bool {
        let is_set = self.is_set.load(Ordering::Relaxed);
        if is_set {
            self.was_seen.store(true, Ordering::Relaxed);
        }
        is_set || self.is_time_over.load(Ordering::Relaxed)
    }

    /// Returns true if the page has ended because of this flag. `is_failed`: the page failed.
    pub(crate) fn has_ended_page(&self, is_failed: bool) -> bool {
        // A script process that was ended with the page makes the page fail before a check point.
        self.was_seen.load(Ordering::Relaxed) || is_failed && self.is_set.load(Ordering::Relaxed)
    }
}
