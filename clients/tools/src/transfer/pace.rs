//! The speed of an import: the number of requests in flight, and the request units per second.
//!
//! The number of requests grows by one each time as many requests as are in flight have succeeded,
//! and is cut by a quarter when the server throttles (429), at most once in 100 ms. It therefore
//! stays just below the highest rate that the server accepts. With a limit of RU/s, a request is
//! sent when its expected charge fits.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Requests in flight at the start.
const START: f64 = 4.0;
/// Time between two cuts: the answers of requests that were in flight together count once.
const BETWEEN_CUTS: Duration = Duration::from_millis(100);
/// Expected charge of an item before the first answer.
const FIRST_GUESS_RU: f64 = 8.0;

/// The speed of an import.
#[derive(Debug)]
pub(super) struct Pace {
    state: Mutex<State>,
    /// Requests in flight at most.
    limit_max: f64,
    /// Request units per second at most.
    rate: Option<f64>,
}

#[derive(Debug)]
struct State {
    limit: f64,
    last_cut: Option<Instant>,
    throttled: u64,
    /// Request units that may be spent now; below 0 after a request that cost more than expected.
    balance: f64,
    refilled: Instant,
    items: f64,
    charge: f64,
}

impl Pace {
    pub(super) fn new(limit_max: usize, rate: Option<f64>) -> Self {
        let limit_max = limit_max.max(1) as f64;
        Self {
            state: Mutex::new(State {
                limit: START.min(limit_max),
                last_cut: None,
                throttled: 0,
                balance: 0.0,
                refilled: Instant::now(),
                items: 0.0,
                charge: 0.0,
            }),
            limit_max,
            rate,
        }
    }

    /// Returns the number of requests that may be in flight.
    pub(super) fn limit(&self) -> usize {
        self.state().limit as usize
    }

    /// Returns the number of throttled answers.
    pub(super) fn throttled(&self) -> u64 {
        self.state().throttled
    }

    /// Waits until a request with `items` items may be sent, and returns their expected charge.
    pub(super) async fn admit(&self, items: usize) -> f64 {
        loop {
            match self.admit_at(items, Instant::now()) {
                Ok(expected) => return expected,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    /// Returns the expected charge if a request with `items` items may be sent now, and the time to
    /// wait if it may not.
    fn admit_at(&self, items: usize, now: Instant) -> Result<f64, Duration> {
        let mut state = self.state();
        let each = if state.items > 0.0 {
            state.charge / state.items
        } else {
            FIRST_GUESS_RU
        };
        let expected = each * items as f64;
        let Some(rate) = self.rate else {
            return Ok(expected);
        };
        // A second's worth may be saved up; a request may begin as soon as nothing is owed.
        let earned = rate * now.duration_since(state.refilled).as_secs_f64();
        state.balance = (state.balance + earned).min(rate);
        state.refilled = now;
        if state.balance >= 0.0 {
            state.balance -= expected;
            return Ok(expected);
        }
        let wait = (-state.balance / rate).clamp(0.001, 60.0);
        Err(Duration::from_secs_f64(wait))
    }

    /// Takes note of an answer: `items` of the request's items were carried out for `charge`;
    /// `expected` is the charge that was admitted.
    pub(super) fn answered(&self, items: usize, charge: f64, expected: f64, is_throttled: bool) {
        let now = Instant::now();
        self.answered_at(items, charge, expected, is_throttled, now);
    }

    fn answered_at(
        &self,
        items: usize,
        charge: f64,
        expected: f64,
        is_throttled: bool,
        now: Instant,
    ) {
        let mut state = self.state();
        state.items += items as f64;
        state.charge += charge;
        state.balance += expected - charge;
        if !is_throttled {
            state.limit = (state.limit + 1.0 / state.limit).min(self.limit_max);
            return;
        }
        state.throttled += 1;
        let is_new = state
            .last_cut
            .is_none_or(|cut| now.duration_since(cut) > BETWEEN_CUTS);
        if is_new {
            state.limit = (state.limit * 0.75).max(1.0);
            state.last_cut = Some(now);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each update leaves whole numbers, so a panic of another holder does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_flight_grow_with_success_and_are_cut_once_by_throttling() {
        let pace = Pace::new(16, None);
        assert_eq!(pace.limit(), 4);
        for _ in 0..1000 {
            pace.answered(1, 6.0, 6.0, false);
        }
        assert_eq!(pace.limit(), 16);
        let now = Instant::now();
        for _ in 0..5 {
            pace.answered_at(0, 0.0, 6.0, true, now);
        }
        assert_eq!((pace.limit(), pace.throttled()), (12, 5));
        pace.answered_at(0, 0.0, 6.0, true, now + 2 * BETWEEN_CUTS);
        assert_eq!((pace.limit(), pace.throttled()), (9, 6));
    }

    #[test]
    fn a_rate_delays_the_request_after_an_expensive_one() {
        let pace = Pace::new(16, Some(1000.0));
        let now = Instant::now();
        pace.state().refilled = now;
        let expected = pace.admit_at(10, now).expect("nothing is owed");
        pace.answered_at(10, 120.0, expected, false, now);
        // 120 request units are owed at 1,000 for each second.
        let wait = pace.admit_at(1, now).expect_err("a wait");
        assert_eq!(wait.as_millis(), 120);
        assert_eq!(pace.admit_at(1, now + wait), Ok(12.0));
    }
}
