//! The limit of bytes per second, so that a backup leaves the disk to the clients of the server.
//!
//! Left out: the time that the copying itself takes is measured, so a slow disk is not slowed
//! further.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use orrery_model::sync;

use crate::files::PIECE_BYTES;

/// The least bytes that are read at a time.
const PIECE_BYTES_MIN: u64 = 4 << 10;

/// The clock and the pauses of a limit. Tests have their own, so that they need not wait.
pub(crate) trait Clock {
    /// Returns the time since some moment.
    fn now(&mut self) -> Duration;
    /// Waits.
    fn pause(&mut self, time: Duration);
}

/// The clock of the machine.
pub(crate) struct MachineClock<'a> {
    began: Instant,
    /// Ends a pause once it is true.
    is_cancelled: Option<&'a AtomicBool>,
}

impl MachineClock<'_> {
    pub(crate) fn new(is_cancelled: Option<&AtomicBool>) -> MachineClock<'_> {
        MachineClock {
            began: Instant::now(),
            is_cancelled,
        }
    }
}

impl Clock for MachineClock<'_> {
    fn now(&mut self) -> Duration {
        self.began.elapsed()
    }

    fn pause(&mut self, time: Duration) {
        match self.is_cancelled {
            Some(is_cancelled) => sync::pause_unless(is_cancelled, time),
            None => sync::pause(time),
        }
    }
}

/// A limit of bytes per second.
pub(crate) struct Pace<'a> {
    clock: &'a mut dyn Clock,
    /// 0 for no limit.
    bytes_per_second: u64,
    /// The time from which on the next piece may be read.
    next: Duration,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(bytes_per_second: u64, clock: &'a mut dyn Clock) -> Pace<'a> {
        let next = clock.now();
        Pace {
            clock,
            bytes_per_second,
            next,
        }
    }

    /// Returns the bytes to read at a time: a tenth of a second's, so that a pause is short.
    pub(crate) fn piece_bytes(&self) -> usize {
        if self.bytes_per_second == 0 {
            return PIECE_BYTES;
        }
        let piece = (self.bytes_per_second / 10).clamp(PIECE_BYTES_MIN, PIECE_BYTES as u64);
        usize::try_from(piece).unwrap_or(PIECE_BYTES)
    }

    /// Waits until the limit allows the next piece, and counts its bytes. Time in which nothing was
    /// read is not made up for later.
    pub(crate) fn spend(&mut self, bytes: u64) {
        if self.bytes_per_second == 0 {
            return;
        }
        let now = self.clock.now();
        if now < self.next {
            self.clock.pause(self.next - now);
        }
        let time = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        self.next = self.next.max(now) + time;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A clock that only pauses move on.
    #[derive(Default)]
    pub(crate) struct TestClock {
        pub(crate) now: Duration,
    }

    impl Clock for TestClock {
        fn now(&mut self) -> Duration {
            self.now
        }

        fn pause(&mut self, time: Duration) {
            self.now += time;
        }
    }

    #[test]
    fn the_bytes_of_ten_seconds_take_ten_seconds_and_no_limit_takes_none() {
        let mut clock = TestClock::default();
        let mut pace = Pace::new(1_000_000, &mut clock);
        let piece = pace.piece_bytes() as u64;
        assert_eq!(piece, 100_000);
        for _ in 0..101 {
            pace.spend(piece);
        }
        // The last piece begins when the hundred before it have had their time.
        assert_eq!(clock.now, Duration::from_secs(10));

        let mut clock = TestClock::default();
        let mut pace = Pace::new(0, &mut clock);
        pace.spend(1 << 40);
        assert_eq!(clock.now, Duration::ZERO);
    }

    #[test]
    fn a_low_limit_reads_small_pieces_and_idle_time_is_not_made_up_for() {
        let mut clock = TestClock {
            now: Duration::from_secs(100),
        };
        let mut pace = Pace::new(100, &mut clock);
        assert_eq!(pace.piece_bytes(), 4 << 10);
        pace.spend(100);
        pace.spend(100);
        assert_eq!(clock.now, Duration::from_secs(101));
    }
}
