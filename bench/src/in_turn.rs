//! Measurements of several states in turn, each compared with the first state in the same round.

use crate::Result;
use crate::record::figure;
use crate::report::median;

/// The figures of each state, in the order of the rounds.
pub(crate) struct InTurn(Vec<Vec<f64>>);

impl InTurn {
    /// Measures each of `count` states once in each round.
    ///
    /// # Errors
    /// The first one of `measure`, which gets the place of a state.
    pub(crate) fn measure(
        rounds: usize,
        count: usize,
        mut measure: impl FnMut(usize) -> Result<f64>,
    ) -> Result<InTurn> {
        let mut figures = vec![Vec::with_capacity(rounds); count];
        for round in 0..rounds {
            // Each round begins with another state, so that none is always measured first.
            for turn in 0..count {
                let state = (round + turn) % count;
                figures[state].push(measure(state)?);
            }
        }
        Ok(InTurn(figures))
    }

    /// Prints and records the median of each state with this number of decimals, and the median of
    /// its ratios to the first state.
    pub(crate) fn print(self, subject: &str, unit: &str, decimals: usize, names: &[&str]) {
        println!("{subject:<34} {unit:>8} {:>8}", "ratio");
        let first = self.0.first().cloned().unwrap_or_default();
        for (name, figures) in names.iter().zip(self.0) {
            let ratios = figures.iter().zip(&first).map(|(own, first)| own / first);
            let ratio = median(ratios.collect());
            let value = median(figures);
            println!("{name:<34} {value:>8.decimals$} {ratio:>8.3}");
            figure(format!("{name}, {unit}"), value);
            figure(format!("{name}, ratio"), ratio);
        }
    }
}
