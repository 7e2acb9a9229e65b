//! The measurements of the HTTP benchmark and their table.

use std::fmt::Write as _;
use std::time::Duration;

use crate::record::figure;

/// A line of the table: one measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Read,
    ReadWithSleep,
    BareHttp,
    BareGet,
    Create,
    BareCommit,
}

impl Line {
    /// All lines in the order of measurement and of the table.
    pub(crate) const ALL: [Line; 6] = [
        Line::Read,
        Line::ReadWithSleep,
        Line::BareHttp,
        Line::BareGet,
        Line::Create,
        Line::BareCommit,
    ];

    /// Returns the name in the table.
    fn name(self) -> &'static str {
        match self {
            Line::Read => "point read, 1 KB",
            Line::ReadWithSleep => "the same, --spin 0",
            Line::BareHttp => "bare HTTP server",
            Line::BareGet => "bare store get",
            Line::Create => "durable create, 400 B",
            Line::BareCommit => "bare store commit",
        }
    }

    /// Returns the line with which this line is compared.
    fn base(self) -> Option<Line> {
        match self {
            Line::Read | Line::ReadWithSleep => Some(Line::BareHttp),
            Line::Create => Some(Line::BareCommit),
            Line::BareHttp | Line::BareGet | Line::BareCommit => None,
        }
    }
}

/// One measurement of a line in one round.
#[derive(Debug, Default)]
pub(crate) struct Measurement {
    /// Total duration.
    pub(crate) elapsed: Duration,
    /// Duration of each operation.
    pub(crate) latencies: Vec<Duration>,
}

/// The measurements of a line with a number of connections.
struct Row {
    line: Line,
    connections: usize,
    /// Operations per second in each round.
    rates: Vec<f64>,
    /// Durations of all operations of all rounds.
    latencies: Vec<Duration>,
}

/// All measurements.
pub(crate) struct Report(Vec<Row>);

impl Report {
    /// Creates a report without measurements.
    pub(crate) fn new(concurrency: &[usize]) -> Report {
        let row = |line, connections| Row {
            line,
            connections,
            rates: Vec::new(),
            latencies: Vec::new(),
        };
        Report(
            Line::ALL
                .iter()
                .flat_map(|&line| concurrency.iter().map(move |&n| row(line, n)))
                .collect(),
        )
    }

    /// Adds a measurement.
    pub(crate) fn add(&mut self, line: Line, connections: usize, slice: Measurement) {
        if let Some(row) = self
            .0
            .iter_mut()
            .find(|row| row.line == line && row.connections == connections)
        {
            row.rates
                .push(slice.latencies.len() as f64 / slice.elapsed.as_secs_f64());
            row.latencies.extend(slice.latencies);
        }
    }

    /// Returns the median of the ratios to the compared line in the same round.
    fn ratio(&self, row: &Row) -> Option<f64> {
        let base = row.line.base()?;
        let base = self
            .0
            .iter()
            .find(|other| other.line == base && other.connections == row.connections)?;
        Some(median(
            row.rates
                .iter()
                .zip(&base.rates)
                .map(|(rate, base)| rate / base)
                .collect(),
        ))
    }

    /// States the rate of each line, and its ratio to the compared line.
    pub(crate) fn state_figures(&self) {
        for row in &self.0 {
            let name = format!("{}, {} conn.", row.line.name(), row.connections);
            figure(format!("{name}, ops/s"), median(row.rates.clone()));
            if let Some(ratio) = self.ratio(row) {
                figure(format!("{name}, ratio"), ratio);
            }
        }
    }

    /// Returns the aligned table. Rates and ratios are medians over the rounds; latencies are
    /// percentiles of all operations.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<22} {:>5} {:>10} {:>19} {:>9} {:>9}  {}\n",
            "operation", "conn.", "ops/s", "(slowest–fastest)", "p50 µs", "p99 µs", "ratio"
        );
        for row in &self.0 {
            let mut latencies = row.latencies.clone();
            latencies.sort_unstable();
            let at = |percent: usize| {
                let latency = latencies
                    .get(latencies.len() * percent / 100)
                    .copied()
                    .unwrap_or_default();
                format!("{:.1}", latency.as_secs_f64() * 1e6)
            };
            let slowest = row.rates.iter().copied().fold(f64::INFINITY, f64::min);
            let fastest = row.rates.iter().copied().fold(0.0, f64::max);
            let ratio = self.ratio(row).zip(row.line.base());
            let ratio = ratio.map_or_else(String::new, |(ratio, base)| {
                format!("{ratio:.2} of {}", base.name())
            });
            let (rate, span) = (
                median(row.rates.clone()),
                format!("({slowest:.0}–{fastest:.0})"),
            );
            let (name, connections) = (row.line.name(), row.connections);
            let line = format!(
                "{name:<22} {connections:>5} {rate:>10.0} {span:>19} {:>9} {:>9}  {ratio}",
                at(50),
                at(99)
            );
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

/// Returns the median; 0 without figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// Returns the `p`-th percentile by the nearest-rank method.
pub(crate) fn percentile(values: &mut [f64], p: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    orrery_blog::bench::percentile(values, p)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(operations: usize, microseconds: u64) -> Measurement {
        let latencies = vec![Duration::from_micros(microseconds); operations];
        Measurement {
            elapsed: Duration::from_secs(1),
            latencies,
        }
    }

    #[test]
    fn a_ratio_compares_measurements_of_the_same_round() {
        let mut report = Report::new(&[1]);
        for (read, bare) in [(50, 100), (500, 1000), (1, 2)] {
            report.add(Line::Read, 1, slice(read, 20));
            report.add(Line::BareHttp, 1, slice(bare, 10));
        }
        let table = report.table();
        let read = table.lines().nth(1).expect("a line");
        assert!(
            read.contains(" 50 ") && read.contains("(1–500)") && read.contains("20.0"),
            "{table}"
        );
        assert!(read.ends_with("0.50 of bare HTTP server"), "{table}");
    }

    #[test]
    fn the_median_is_the_middle_of_the_sorted_figures() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
