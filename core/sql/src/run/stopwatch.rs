//! Time of a step that a page repeats for each row, measured by samples.
//!
//! A reading of the clock takes as long as a part of the step, so only the first repetitions are
//! all measured; of the others, one stands for as many as it is chosen from. A clock of whole
//! microseconds serves steps that are shorter: the rounding of the samples evens out.
//!
//! Promises: without a clock nothing is read. Leaves out repetitions that end with an error.

/// The repetitions that are all measured.
const MEASURED_FIRST: u64 = 32;
/// One of so many later repetitions is measured.
const SAMPLED_OF: u64 = 32;

/// The clock of a stopwatch: microseconds from any beginning.
pub type Clock<'a> = &'a dyn Fn() -> u64;

/// The measurement of one step.
#[derive(Clone, Copy, Default)]
pub struct Stopwatch<'a> {
    clock: Option<Clock<'a>>,
    repetitions: u64,
    total_us: u64,
}

/// The begin of a repetition that is measured.
#[derive(Clone, Copy)]
pub struct Lap {
    began_us: u64,
    /// The number of repetitions for which this one stands.
    weight: u64,
}

impl<'a> Stopwatch<'a> {
    /// Creates a stopwatch, which measures nothing without a clock.
    pub fn new(clock: Option<Clock<'a>>) -> Self {
        Stopwatch {
            clock,
            ..Stopwatch::default()
        }
    }

    /// Begins a repetition. Returns `None` if it is not measured.
    pub fn begin(&mut self) -> Option<Lap> {
        let clock = self.clock?;
        let number = self.repetitions;
        self.repetitions += 1;
        let weight = if number < MEASURED_FIRST {
            1
        } else if number.is_multiple_of(SAMPLED_OF) {
            SAMPLED_OF
        } else {
            return None;
        };
        Some(Lap {
            began_us: clock(),
            weight,
        })
    }

    /// Ends a repetition, of which `other_us` microseconds do not belong to the step.
    pub fn end(&mut self, lap: Option<Lap>, other_us: u64) {
        if let (Some(lap), Some(clock)) = (lap, self.clock) {
            let took_us = clock().saturating_sub(lap.began_us);
            self.total_us += took_us.saturating_sub(other_us) * lap.weight;
        }
    }

    /// Returns the microseconds of all repetitions so far.
    pub fn total_us(&self) -> u64 {
        self.total_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn samples_stand_for_the_repetitions_between_them() {
        let (now, readings) = (Cell::new(0), Cell::new(0));
        let clock = || {
            readings.set(readings.get() + 1);
            now.get()
        };
        let mut watch = Stopwatch::new(Some(&clock));
        for _ in 0..1024 {
            let lap = watch.begin();
            now.set(now.get() + 5);
            watch.end(lap, 2);
        }
        assert_eq!(watch.total_us(), 1024 * 3);
        assert_eq!(readings.get(), 2 * (32 + 31));
    }

    #[test]
    fn without_a_clock_nothing_is_measured() {
        let mut watch = Stopwatch::new(None);
        let lap = watch.begin();
        watch.end(lap, 0);
        assert!(lap.is_none());
        assert_eq!(watch.total_us(), 0);
    }
}
