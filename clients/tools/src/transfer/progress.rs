//! Progress on standard error: a bar on a terminal, otherwise a line every ten seconds.

use indicatif::{HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// The state of an import or export.
#[derive(Debug, Clone, Copy, Default)]
pub struct State {
    /// Bytes of the input that were read, or items that were written, in the unit of the total.
    pub done: u64,
    /// Items.
    pub items: u64,
    /// Refused items.
    pub refused: u64,
    /// Request units.
    pub charge: f64,
    /// Requests in flight.
    pub requests: usize,
    /// Throttled answers.
    pub throttled: u64,
}

/// A receiver of the progress.
pub trait Progress: Send + Sync {
    /// Begins; `total` is in the unit of [`State::done`], if it is known.
    fn begin(&self, total: Option<u64>);
    /// Tells the state.
    fn update(&self, state: &State);
    /// Ends.
    fn end(&self);
}

/// Discards all progress.
pub struct Quiet;

impl Progress for Quiet {
    fn begin(&self, _total: Option<u64>) {}
    fn update(&self, _state: &State) {}
    fn end(&self) {}
}

/// Returns a receiver that writes to standard error.
pub fn on_stderr() -> Box<dyn Progress> {
    let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(0));
    Box::new(Terminal {
        bar,
        times: Mutex::new(Times {
            begin: Instant::now(),
            told: Instant::now(),
            total: None,
            first: None,
        }),
    })
}

struct Terminal {
    /// `None` if standard error is no terminal.
    bar: Option<ProgressBar>,
    times: Mutex<Times>,
}

struct Times {
    begin: Instant,
    told: Instant,
    total: Option<u64>,
    /// The first state: a resumed import does not count what was there before.
    first: Option<State>,
}

impl Progress for Terminal {
    fn begin(&self, total: Option<u64>) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.begin = Instant::now();
        times.told = times.begin;
        times.total = total;
        if let Some(bar) = &self.bar {
            let template = match total {
                Some(_) => "{wide_bar} {percent:>3}%  {msg}",
                None => "{spinner} {msg}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_length(total.unwrap_or_default());
        }
    }

    fn update(&self, state: &State) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let first = *times.first.get_or_insert(*state);
        let text = line(state, &first, times.total, times.begin.elapsed());
        match &self.bar {
            Some(bar) => {
                bar.set_position(state.done);
                bar.set_message(text);
            }
            None if times.told.elapsed() >= LINE_INTERVAL => {
                times.told = Instant::now();
                eprintln!("{text}");
            }
            None => {}
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns the state in words, with rates since `first`, which was `elapsed` ago.
fn line(state: &State, first: &State, total: Option<u64>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = state.items.saturating_sub(first.items) as f64 / seconds;
    let mut text = format!(
        "{} items, {}/s, {:.0} RU/s, {} requests in flight",
        HumanCount(state.items),
        HumanCount(rate as u64),
        state.charge / seconds,
        state.requests
    );
    if state.throttled > 0 {
        text.push_str(&format!(", {} throttled", state.throttled));
    }
    if state.refused > 0 {
        text.push_str(&format!(", {} refused", state.refused));
    }
    let done = state.done.saturating_sub(first.done);
    if let Some(total) = total.filter(|_| done > 0) {
        let left = total.saturating_sub(state.done) as f64 / (done as f64 / seconds);
        let left = HumanDuration(Duration::from_secs_f64(left.min(1e8)));
        text.push_str(&format!(", {left} left"));
    } else if total.is_none() && state.done > 0 {
        text.push_str(&format!(", {} read", HumanBytes(state.done)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rates_refusals_and_the_time_left() {
        let state = State {
            done: 500,
            items: 10_000,
            refused: 2,
            charge: 60_000.0,
            requests: 8,
            throttled: 3,
        };
        let text = line(
            &state,
            &State::default(),
            Some(1500),
            Duration::from_secs(5),
        );
        assert_eq!(
            text,
            "10,000 items, 2,000/s, 12000 RU/s, 8 requests in flight, 3 throttled, 2 refused, 10 \
             seconds left"
        );
    }
}
