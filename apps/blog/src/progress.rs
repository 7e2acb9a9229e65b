//! How a run says how far it is.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};

/// Told of each stage of a long run.
pub trait Progress: Send + Sync {
    /// A stage begins that has `total` steps.
    fn begin(&self, stage: &str, total: u64);
    /// `steps` more are done.
    fn advance(&self, steps: u64);
    /// The stage is done.
    fn end(&self);
}

/// Says nothing.
#[cfg(test)]
pub(crate) struct Quiet;

#[cfg(test)]
impl Progress for Quiet {
    fn begin(&self, _stage: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn end(&self) {}
}

/// On standard error: a bar where that is a terminal, else a line for each tenth of a stage.
pub fn on_stderr() -> Box<dyn Progress> {
    if std::io::stderr().is_terminal() {
        Box::new(Bar::new())
    } else {
        Box::new(Lines::new(|line| eprintln!("{line}")))
    }
}

/// A bar on a terminal.
struct Bar(ProgressBar);

impl Bar {
    /// A bar that waits for its first stage.
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

/// Lines for a log.
struct Lines<F> {
    write: F,
    stage: Mutex<Stage>,
}

#[derive(Default)]
struct Stage {
    name: String,
    total: u64,
    done: u64,
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
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Stage {
            name: stage.to_owned(),
            total,
            done: 0,
        };
    }

    fn advance(&self, steps: u64) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let tenths = |done: u64| done * 10 / stage.total.max(1);
        let (before, after) = (tenths(stage.done), tenths(stage.done + steps));
        stage.done += steps;
        if after > before {
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
    fn a_log_gets_a_line_for_each_tenth() {
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
