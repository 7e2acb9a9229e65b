//! Progress of a measurement on standard error.

use crate::sync::lock;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;

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
/// for each tenth of a stage.
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
#[derive(Default)]
struct Stage {
    name: String,
    total: u64,
    done: u64,
}

impl Stage {
    /// Returns the completed part of the stage in tenths, rounded down.
    fn tenths_done(&self) -> u64 {
        self.done * 10 / self.total.max(1)
    }
}

impl<F: Fn(&str) + Send + Sync> Lines<F> {
    fn new(write: F) -> Self {
        Self {
            write,
            stage: Mutex::default(),
        }
    }
}

impl<F: Fn(&str) + Send + Sync> Progress for Lines<F> {
    fn begin(&self, stage: &str, total: u64) {
        *lock(&self.stage) = Stage {
            name: stage.to_owned(),
            total,
            done: 0,
        };
    }

    fn advance(&self, steps: u64) {
        let mut stage = lock(&self.stage);
        let tenths_before = stage.tenths_done();
        stage.done += steps;
        if stage.tenths_done() > tenths_before {
            (self.write)(&format!(
                "{}: {} of {}",
                stage.name, stage.done, stage.total
            ));
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
        assert_eq!(
            (&lines[0][..], &lines[9][..]),
            ("loading V1: 3 of 30", "loading V1: 30 of 30")
        );
        assert_eq!(lines[10], "measuring V1: 4 of 4");
    }
}
