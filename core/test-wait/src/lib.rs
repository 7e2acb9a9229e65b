//! Waits for events in tests: the state of a server, a thread or a file is looked at until the
//! event has come.
//!
//! Promises: a wait ends with the event, or panics at the first look after three minutes, with the
//! name of the event and the last state that was seen. The thread sleeps between two looks, so that
//! a wait takes no processor from the work that it waits for.
//!
//! Leaves out: events that a channel, a condition variable or the end of a thread tells. A test
//! waits for those directly.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Time until a wait gives up. It only ends tests that hang.
const DEADLINE: Duration = Duration::from_secs(180);
/// The pauses between two looks: each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// Calls `look` until it returns `Ok`, and returns that value. `look` returns the state that it saw
/// in place of the event as `Err`.
///
/// # Panics
///
/// After three minutes without the event.
#[track_caller]
pub fn wait_until<T, S: Debug>(event: &str, look: impl FnMut() -> Result<T, S>) -> T {
    wait_within(DEADLINE, event, look)
}

/// Reads a state until the event has come, and returns the state that shows the event.
///
/// # Panics
///
/// After three minutes without the event.
#[track_caller]
pub fn wait_for<S: Debug>(
    event: &str,
    mut read: impl FnMut() -> S,
    mut has_come: impl FnMut(&S) -> bool,
) -> S {
    wait_until(event, || {
        let state = read();
        if has_come(&state) {
            Ok(state)
        } else {
            Err(state)
        }
    })
}

/// Does what [`wait_until`] does, with another limit than three minutes.
///
/// # Panics
///
/// At the first look after the limit without the event.
#[track_caller]
pub fn wait_within<T, S: Debug>(
    limit: Duration,
    event: &str,
    mut look: impl FnMut() -> Result<T, S>,
) -> T {
    let deadline = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        match look() {
            Ok(value) => return value,
            Err(state) if Instant::now() >= deadline => give_up(limit, event, &state),
            Err(_) => {}
        }
        nap(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test may have no event to wait for, only a state to look at"
)]
fn nap(pause: Duration) {
    std::thread::sleep(pause);
}

#[track_caller]
fn give_up(limit: Duration, event: &str, state: &dyn Debug) -> ! {
    panic!("waited {limit:?} for this event: {event}; last state: {state:?}")
}

/// Does what [`wait_until`] does on a runtime of tokio, whose other tasks go on meanwhile.
///
/// # Panics
///
/// After three minutes without the event.
#[cfg(feature = "tokio")]
pub async fn wait_until_async<T, S: Debug>(
    event: &str,
    look: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    wait_within_async(DEADLINE, event, look).await
}

#[cfg(feature = "tokio")]
async fn wait_within_async<T, S: Debug>(
    limit: Duration,
    event: &str,
    mut look: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    let deadline = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        match look().await {
            Ok(value) => return value,
            Err(state) if Instant::now() >= deadline => give_up(limit, event, &state),
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Returns a look that finds the event at the third time.
    fn third_time() -> impl FnMut() -> Result<&'static str, u32> {
        let mut looks = 0;
        move || {
            looks += 1;
            if looks == 3 { Ok("come") } else { Err(looks) }
        }
    }

    #[test]
    fn a_wait_looks_until_the_event_has_come() {
        assert_eq!(wait_until("the third look", third_time()), "come");
        let count = Cell::new(0);
        let read = || {
            count.set(count.get() + 1);
            count.get()
        };
        assert_eq!(wait_for("the fourth look", read, |looks| *looks == 4), 4);
        assert_eq!(count.get(), 4);
    }

    #[test]
    #[should_panic(expected = "for this event: the end of the world; last state: \"it turns\"")]
    fn a_wait_in_vain_names_the_event_and_the_last_state() {
        wait_within(Duration::ZERO, "the end of the world", || {
            Err::<(), _>("it turns")
        });
    }

    #[test]
    fn an_event_that_has_come_is_found_after_the_deadline_too() {
        let found = wait_within(Duration::ZERO, "a look", || Ok::<_, ()>(7));
        assert_eq!(found, 7);
    }

    #[cfg(feature = "tokio")]
    #[tokio::test]
    async fn an_async_wait_looks_until_the_event_has_come() {
        let mut look = third_time();
        let found = wait_until_async("the third look", async || look()).await;
        assert_eq!(found, "come");
    }

    #[cfg(feature = "tokio")]
    #[tokio::test]
    #[should_panic(expected = "for this event: the end of the world; last state: \"it turns\"")]
    async fn an_async_wait_in_vain_names_the_event_and_the_last_state() {
        wait_within_async(Duration::ZERO, "the end of the world", async || {
            Err::<(), _>("it turns")
        })
        .await;
    }
}
