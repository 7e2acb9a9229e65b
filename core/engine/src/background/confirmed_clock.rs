//! The confirmed clock: the time up to which background work may remove what has expired.
//!
//! Readers hide expired items by the clock as it is, and a clock that is set right shows them
//! again. A removal cannot be taken back, so it follows the clock only while the clock agrees with
//! a second one that cannot be set ([`World::monotonic_ms`]):
//!
//! - A clock that moved no further than the second one, give or take [`TOLERANCE_MS`], is followed.
//! - A clock that jumped ahead is followed when it has kept its distance for [`CONFIRMATION_MS`].
//!   Until then removal goes on by the time that the second clock gives.
//! - A clock that moved back is followed at once: then less has expired.
//!
//! The second clock begins anew with the process. So the store keeps the confirmed time of the last
//! removal and of the last orderly end. A clock that is close to that time, or before it, is
//! followed from the start. Any other clock has jumped, or the server was down for long. The two
//! cases look the same, so the clock is followed after the confirmation, which costs some space for
//! ten minutes. A catalog without databases has nothing to lose, and follows the clock from the
//! start.
//!
//! [`World::monotonic_ms`]: orrery_model::world::World::monotonic_ms

use orrery_model::sync::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

/// Milliseconds by which the clock may move ahead of the monotonic clock between two looks.
const TOLERANCE_MS: u64 = 60_000;
/// Milliseconds of the monotonic clock for which a clock that jumped ahead keeps its distance.
const CONFIRMATION_MS: u64 = 10 * 60_000;

/// Milliseconds since 1970 before which no confirmed time lies: a store that has kept none begins
/// with 0.
const UNKNOWN_MS: u64 = 365 * 86_400_000;

/// A move of the clock that the passing of time does not explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockJump {
    /// The clock is ahead of the expected time by so many milliseconds. Removal waits.
    Ahead(u64),
    /// The clock is behind the expected time by so many milliseconds.
    Behind(u64),
    /// A clock that jumped ahead by so many milliseconds has kept its distance, and is followed.
    Confirmed(u64),
    /// Some data is dated later than the clock by so many milliseconds. Reported once.
    Misdated(u64),
}

type Listener = Box<dyn Fn(ClockJump) + Send + Sync>;

/// The confirmed clock of an engine.
#[derive(Default)]
pub(crate) struct ConfirmedClock {
    state: Mutex<State>,
    listener: OnceLock<Listener>,
    /// Jumps that were seen before there was a listener: those of the start.
    unheard: Mutex<Vec<ClockJump>>,
    has_told_misdated: AtomicBool,
}

/// Two clocks at one moment, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    /// Milliseconds since 1970 by the clock of the machine.
    pub(crate) wall_ms: u64,
    /// Milliseconds of the monotonic clock.
    pub(crate) monotonic_ms: u64,
}

#[derive(Default)]
struct State {
    /// The last confirmed look.
    confirmed: Option<Clocks>,
    suspicion: Option<Suspicion>,
}

/// A clock that jumped ahead.
#[derive(Clone, Copy)]
struct Suspicion {
    /// The monotonic time at which the jump was seen.
    since_ms: u64,
    /// The distance from the expected time.
    ahead_ms: u64,
}

impl ConfirmedClock {
    /// Begins with the time that the store keeps; `None` follows the clock from the first look.
    pub(crate) fn begin(&self, stored_ms: Option<u64>, now: Clocks) {
        lock(&self.state).confirmed = Some(Clocks {
            wall_ms: stored_ms.unwrap_or(now.wall_ms),
            ..now
        });
        // The look lets a confirmation that is needed begin now.
        self.look(now);
    }

    /// Sets the function that hears of jumps, also of those that were seen before. Only the first
    /// call has an effect.
    pub(crate) fn set_listener(&self, listener: Listener) {
        let _ = self.listener.set(listener);
        for jump in std::mem::take(&mut *lock(&self.unheard)) {
            self.report(jump);
        }
    }

    /// Tells the listener, once, of data that is dated later than the clock.
    pub(crate) fn report_misdated(&self, by_ms: u64) {
        if !self.has_told_misdated.swap(true, Ordering::Relaxed) {
            self.report(ClockJump::Misdated(by_ms));
        }
    }

    /// Tells the listener of a jump.
    pub(crate) fn report(&self, jump: ClockJump) {
        match self.listener.get() {
            Some(listener) => listener(jump),
            None => lock(&self.unheard).push(jump),
        }
    }

    /// Looks at the clocks. Returns the confirmed time in milliseconds since 1970.
    pub(crate) fn look(&self, now: Clocks) -> u64 {
        let (is_known, (confirmed_ms, jump)) = {
            let mut state = lock(&self.state);
            let last_ms = state.confirmed.map_or(now.wall_ms, |last| last.wall_ms);
            (last_ms >= UNKNOWN_MS, state.look(now))
        };
        // A store that has kept no time needs the confirmation too, but its clock has not jumped.
        if let Some(jump) = jump
            && is_known
        {
            self.report(jump);
        }
        confirmed_ms
    }
}

impl State {
    fn look(&mut self, now: Clocks) -> (u64, Option<ClockJump>) {
        let last = *self.confirmed.get_or_insert(now);
        let Some(elapsed_ms) = now.monotonic_ms.checked_sub(last.monotonic_ms) else {
            // Only the management API sets the monotonic clock back, together with the other one.
            return self.confirm(now, None);
        };
        let expected_ms = last.wall_ms.saturating_add(elapsed_ms);
        if now.wall_ms <= expected_ms.saturating_add(TOLERANCE_MS) {
            let behind_ms = expected_ms.saturating_sub(now.wall_ms);
            let jump = (behind_ms > TOLERANCE_MS).then_some(ClockJump::Behind(behind_ms));
            return self.confirm(now, jump);
        }

        let ahead_ms = now.wall_ms - expected_ms;
        match self.suspicion {
            Some(seen) if ahead_ms.abs_diff(seen.ahead_ms) <= TOLERANCE_MS => {
                if now.monotonic_ms.saturating_sub(seen.since_ms) >= CONFIRMATION_MS {
                    return self.confirm(now, Some(ClockJump::Confirmed(ahead_ms)));
                }
                (expected_ms, None)
            }
            _ => {
                self.suspicion = Some(Suspicion {
                    since_ms: now.monotonic_ms,
                    ahead_ms,
                });
                (expected_ms, Some(ClockJump::Ahead(ahead_ms)))
            }
        }
    }

    fn confirm(&mut self, now: Clocks, jump: Option<ClockJump>) -> (u64, Option<ClockJump>) {
        self.confirmed = Some(now);
        self.suspicion = None;
        (now.wall_ms, jump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_767_225_600_000;
    const DAY: u64 = 86_400_000;
    const MINUTE: u64 = 60_000;

    fn clocks(wall_ms: u64, monotonic_ms: u64) -> Clocks {
        Clocks {
            wall_ms,
            monotonic_ms,
        }
    }

    fn begun(stored_ms: Option<u64>) -> State {
        let mut state = State {
            confirmed: Some(clocks(stored_ms.unwrap_or(START), 0)),
            suspicion: None,
        };
        state.look(clocks(START, 0));
        state
    }

    #[test]
    fn a_store_that_has_kept_no_time_tells_of_no_jump() {
        for (stored_ms, jumps) in [(0, 0), (START - DAY, 1)] {
            let clock = ConfirmedClock::default();
            clock.begin(Some(stored_ms), clocks(START, 0));
            assert_eq!(clock.look(clocks(START, 0)), stored_ms, "not confirmed yet");
            let confirmed_ms = clock.look(clocks(START + CONFIRMATION_MS, CONFIRMATION_MS));
            assert_eq!(confirmed_ms, START + CONFIRMATION_MS);
            // The jump, and its confirmation.
            assert_eq!(lock(&clock.unheard).len(), 2 * jumps);
        }
    }

    #[test]
    fn a_clock_that_goes_with_the_monotonic_clock_is_followed() {
        let mut state = begun(None);
        for (wall_ms, monotonic_ms) in [(1_000, 1_000), (DAY, DAY - 30_000), (2 * DAY, 2 * DAY)] {
            let look = state.look(clocks(START + wall_ms, monotonic_ms));
            assert_eq!(look, (START + wall_ms, None));
        }
    }

    #[test]
    fn a_jump_ahead_is_followed_after_it_was_seen_again_ten_minutes_later() {
        let mut state = begun(None);
        let ahead = ClockJump::Ahead(DAY);
        let seen = state.look(clocks(START + DAY + MINUTE, MINUTE));
        assert_eq!(seen, (START + MINUTE, Some(ahead)));
        let waiting = state.look(clocks(START + DAY + 10 * MINUTE, 10 * MINUTE));
        assert_eq!(waiting, (START + 10 * MINUTE, None));
        let over = START + DAY + 11 * MINUTE;
        let confirmed = ClockJump::Confirmed(DAY);
        assert_eq!(
            state.look(clocks(over, 11 * MINUTE)),
            (over, Some(confirmed))
        );
    }

    #[test]
    fn a_jump_ahead_that_is_taken_back_is_never_followed() {
        let mut state = begun(None);
        state.look(clocks(START + DAY, 0));
        let back = state.look(clocks(START + MINUTE, MINUTE));
        assert_eq!(back, (START + MINUTE, None));
        let again = state.look(clocks(START + DAY + 20 * MINUTE, 20 * MINUTE));
        assert_eq!(again, (START + 20 * MINUTE, Some(ClockJump::Ahead(DAY))));
    }

    #[test]
    fn every_further_jump_begins_the_confirmation_anew() {
        let mut state = begun(None);
        state.look(clocks(START + DAY, 0));
        state.look(clocks(START + 2 * DAY + 9 * MINUTE, 9 * MINUTE));
        let look = state.look(clocks(START + 2 * DAY + 11 * MINUTE, 11 * MINUTE));
        assert_eq!(look, (START + 11 * MINUTE, None));
    }

    #[test]
    fn a_jump_back_is_followed_at_once() {
        let mut state = begun(None);
        let look = state.look(clocks(START - DAY + 1_000, 1_000));
        assert_eq!(look, (START - DAY + 1_000, Some(ClockJump::Behind(DAY))));
    }

    #[test]
    fn after_a_start_a_clock_far_from_the_stored_time_waits_for_its_confirmation() {
        let mut close = begun(Some(START - 30_000));
        assert_eq!(close.look(clocks(START + 1, 1)), (START + 1, None));
        let mut far = begun(Some(START - DAY));
        assert_eq!(far.look(clocks(START + 1, 1)), (START - DAY + 1, None));
        let (later, _) = far.look(clocks(START + 10 * MINUTE, 10 * MINUTE));
        assert_eq!(later, START + 10 * MINUTE);
    }
}
