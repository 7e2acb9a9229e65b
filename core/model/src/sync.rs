//! Locks of the standard library that remain usable after a panic.
//!
//! The standard library marks a lock as *poisoned* when a thread panics while holding the lock, and
//! every later attempt to lock fails. A panic in a request must cost this request only: the gateway
//! returns 500 and the server continues (see "Errors" in `ARCHITECTURE.md`). A poisoned lock would
//! instead fail every later request for the same container or partition until a restart, so the
//! functions of this module ignore the mark.
//!
//! Ignoring the mark is safe under two conditions, which every lock used through this module must
//! meet:
//!
//! 1. The value behind the lock is usable after each single step of an update. A value is replaced
//!    as a whole or changed by one call; code that may panic (parsing, reading the store) runs
//!    before the update, not in the middle of it.
//! 2. Nothing durable depends on the value alone. Stored data changes only through a commit of the
//!    store, which takes place whole or not at all and compares the writer's lease and the head of
//!    the partition itself. A value left behind by a panic can refuse a request; it cannot damage
//!    data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::{Duration, Instant};

/// Blocks the thread for a time, for what no event tells of. Rarely returns earlier.
pub fn pause(time: Duration) {
    let never = Mutex::new(());
    drop(wait_timeout(&Condvar::new(), lock(&never), time));
}

/// The longest part of a pause between two looks at the flag that ends it.
const PAUSE_PART: Duration = Duration::from_millis(100);

/// Blocks the thread for a time, but not much longer than until the flag is true.
pub fn pause_unless(is_over: &AtomicBool, time: Duration) {
    let end = Instant::now() + time;
    while !is_over.load(Ordering::Relaxed)
        && let Some(left) = end.checked_duration_since(Instant::now())
        && !left.is_zero()
    {
        pause(left.min(PAUSE_PART));
    }
}

/// Locks a mutex, poisoned or not.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a read-write lock for shared reading, poisoned or not.
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a read-write lock for exclusive writing, poisoned or not.
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Releases `guard`, waits for a notification of `condition` and locks again, poisoned or not.
///
/// Wakes without a notification too, as [`Condvar::wait`] does: the caller checks its condition in
/// a loop.
pub fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}

/// Does the same as [`wait`], but waits no longer than `timeout`.
pub fn wait_timeout<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> MutexGuard<'a, T> {
    let (guard, _) = condition
        .wait_timeout(guard, timeout)
        .unwrap_or_else(PoisonError::into_inner);
    guard
}

/// Consumes a mutex and returns its value, poisoned or not.
pub fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_lock_is_usable_after_a_panic_of_its_holder() {
        let mutex = Mutex::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock(&mutex);
            panic!("while the mutex is locked");
        }));
        assert!(panicked.is_err() && mutex.is_poisoned());
        *lock(&mutex) += 1;
        assert_eq!(into_inner(mutex), 2);

        let shared = RwLock::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = write(&shared);
            panic!("while the read-write lock is locked");
        }));
        assert!(panicked.is_err() && shared.is_poisoned());
        *write(&shared) += 1;
        assert_eq!(*read(&shared), 2);
    }
}
