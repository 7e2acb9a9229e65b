//! Progress of a measurement on standard error: steps, rate, and an estimate of the time left.

use crate::sync::lock;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time after which a log has a further line, even if less than a tenth was completed since.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// A receiver of the progress of a long run, which consists of stages with a known number of steps.
pub trait Progress: Send + Sync {
    /// Starts a stage of `total` steps.
    fn begin(&self, stage: &str, total: u64);
    /// Adds `steps` completed steps.
    fn advance(&self, steps: u64);
    /// Ends the stage.
    fn end(&self);
}

/// Discards all progress.
#[cfg(test)]
pub(crate) struct NoProgress;

#[cfg(test)]
impl Progress for NoProgress {
    fn begin(&self, _stage: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn end(&self) {}
}

/// Returns a receiver that writes to standard error: a bar if that is a terminal, otherwise a line
/// for each tenth of a stage and every half minute.
pub fn on_stderr() -> Box<dyn Progress> {
    if std::io::stderr().is_terminal() {
        Box::new(Bar::new())
    } else {
        Box::new(Lines::new(|line| eprintln!("{line}")))
    }
}

/// A progress bar on a terminal.
struct Bar(ProgressBar);

impl Bar {
    /// Creates a bar without a stage.
    fn new() -> Self {
        let bar = ProgressBar::new(0);
        let template = "{msg:28} {wide_bar} {human_pos}/{human_len} {per_sec:>12} {eta:>5}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Progress for Bar {
    fn begin(&self, stage: &str, total: u64) {
        self.0.reset();
        self.0.set_length(total);
        self.0.set_message(stage.to_owned());
    }

    fn advance(&self, steps: u64) {
        self.0.inc(steps);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// Progress as lines of a log, each passed to `write`.
struct Lines<F> {
    write: F,
    stage: Mutex<Stage>,
}

/// The current stage.
struct Stage {
    name: String,
    total: u64,
    done: u64,
    begun: Instant,
    /// Time after the begin at which the last line was written.
    last_line: Duration,
}

impl Stage {
    /// Returns the completed part of the stage in tenths, rounded down.
    fn tenths_done(&self) -> u64 {
        self.done * 10 / self.total.max(1)
    }

    /// Returns the line of a log, `elapsed` after the begin.
    fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let rate = self.done as f64 / seconds;
        let left = (self.total.saturating_sub(self.done)) as f64 / rate.max(1e-9);
        format!(
            "{}: {} of {}, {rate:.0}/s, {} left",
            self.name,
            self.done,
            self.total,
            duration(left)
        )
    }
}

/// Returns a number of seconds as text: `45 s`, `12 min`, `3.5 h`.
fn duration(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{seconds:.0} s")
    } else if seconds < 5_400.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3_600.0)
    }
}

impl<F: Fn(&str) + Send + Sync> Lines<F> {
    fn new(write: F) -> Self {
        Self {
            write,
            stage: Mutex::new(Stage {
                name: String::new(),
                total: 0,
                done: 0,
                begun: Instant::now(),
                last_line: Duration::ZERO,
            }),
        }
    }
}

impl<F: Fn(&str) + Send + Sync> Progress for Lines<F> {
    fn begin(&self, stage: &str, total: u64) {
        *lock(&self.stage) = Stage {
            name: stage.to_owned(),
            total,
            done: 0,
            begun: Instant::now(),
            last_line: Duration::ZERO,
        };
    }

    fn advance(&self, steps: u64) {
        let mut stage = lock(&self.stage);
        let tenths_before = stage.tenths_done();
        stage.done += steps;
        let elapsed = stage.begun.elapsed();
        let is_due = elapsed.saturating_sub(stage.last_line) >= LINE_INTERVAL;
        if stage.tenths_done() > tenths_before || is_due {
            stage.last_line = elapsed;
            (self.write)(&stage.line(elapsed));
        }
    }

    fn end(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_line_for_each_tenth_of_a_stage() {
        let lines = Mutex::new(Vec::new());
        let progress =
            Lines::new(|line: &str| lines.lock().expect("no panic").push(line.to_owned()));
        progress.begin("loading V1", 30);
        (0..30).for_each(|_| progress.advance(1));
        progress.end();
        progress.begin("measuring V1", 4);
        progress.advance(4);
        let lines = lines.lock().expect("no panic");
        assert_eq!(lines.len(), 11);
        assert!(lines[0].starts_with("loading V1: 3 of 30, "));
        assert!(lines[9].starts_with("loading V1: 30 of 30, "));
        assert!(lines[10].starts_with("measuring V1: 4 of 4, "));
    }

    #[test]
    fn a_line_states_the_rate_and_the_time_left() {
        let stage = Stage {
            name: "loading V3".into(),
            total: 4_000,
            done: 1_000,
            begun: Instant::now(),
            last_line: Duration::ZERO,
        };
        let line = |seconds| stage.line(Duration::from_secs(seconds));
        assert_eq!(line(10), "loading V3: 1000 of 4000, 100/s, 30 s left");
        assert_eq!(line(100), "loading V3: 1000 of 4000, 10/s, 5 min left");
        assert_eq!(line(10_000), "loading V3: 1000 of 4000, 0/s, 8.3 h left");
    }
}
