//! What was measured, and the table of it.

use std::fmt::Write as _;
use std::time::Duration;

/// A line of the table: one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Read,
    BareHttp,
    BareGet,
    Create,
    BareCommit,
}

impl Line {
    /// In the order in which a round measures and the table shows them.
    pub(crate) const ALL: [Line; 5] = [
        Line::Read,
        Line::BareHttp,
        Line::BareGet,
        Line::Create,
        Line::BareCommit,
    ];

    fn name(self) -> &'static str {
        match self {
            Line::Read => "point read, 1 KB",
            Line::BareHttp => "bare HTTP server",
            Line::BareGet => "bare store get",
            Line::Create => "durable create, 400 B",
            Line::BareCommit => "bare store commit",
        }
    }

    /// What it is compared with.
    fn base(self) -> Option<Line> {
        match self {
            Line::Read => Some(Line::BareHttp),
            Line::Create => Some(Line::BareCommit),
            Line::BareHttp | Line::BareGet | Line::BareCommit => None,
        }
    }
}

/// One measurement in one round.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// How long it took in all.
    pub(crate) elapsed: Duration,
    /// How long each operation took.
    pub(crate) latencies: Vec<Duration>,
}

struct Row {
    line: Line,
    connections: usize,
    rates: Vec<f64>,
    latencies: Vec<Duration>,
}

/// All measurements.
pub(crate) struct Report(Vec<Row>);

impl Report {
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

    pub(crate) fn add(&mut self, line: Line, connections: usize, slice: Slice) {
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

    /// The ratio of each round to its neighbour in the same round, and of those the middle.
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

    /// The table, aligned: rates and ratios are medians over the rounds, latencies are over all operations.
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
            let least = row.rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = row.rates.iter().copied().fold(0.0, f64::max);
            let ratio = self.ratio(row).zip(row.line.base());
            let ratio = ratio.map_or_else(String::new, |(ratio, base)| {
                format!("{ratio:.2} of {}", base.name())
            });
            let (rate, span) = (median(row.rates.clone()), format!("({least:.0}–{most:.0})"));
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

/// The middle of some figures; 0 of none.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(operations: usize, microseconds: u64) -> Slice {
        let latencies = vec![Duration::from_micros(microseconds); operations];
        Slice {
            elapsed: Duration::from_secs(1),
            latencies,
        }
    }

    #[test]
    fn a_ratio_compares_neighbours_of_the_same_round() {
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
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
