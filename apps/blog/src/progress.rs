//! How a run says how far it is.

use indicatif::{ProgressBar, ProgressStyle};

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
#[derive(Debug, Default, Clone, Copy)]
pub struct Quiet;

impl Progress for Quiet {
    fn begin(&self, _stage: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn end(&self) {}
}

/// A bar on standard error, hidden where that is no terminal.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar that waits for its first stage.
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        let template = "{msg:28} {wide_bar} {human_pos}/{human_len} {per_sec:>12} {eta:>5}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
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
