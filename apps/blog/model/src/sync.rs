//! A mutex lock that remains usable after a panic of its holder.
//!
//! Every mutex of this crate guards a cache, a sum or a list, and each update is a single
//! insertion, removal or addition. A panic therefore never leaves a half-changed value, and a
//! poisoned mutex is safe to use.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
