//! A mutex lock that remains usable after a panic of its holder, for clients of the protocol.
//!
//! The lock is for a cache, a sum or a list of idle connections, whose updates are single
//! insertions, removals or additions. A panic therefore leaves no half-changed value, and a
//! poisoned mutex is safe to use. The crates of clients have this function because they do not
//! depend on the crates of the database, which have `orrery_model::sync`.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, poisoned or not.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
