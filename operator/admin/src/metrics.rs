//! `GET /metrics`: the metrics in the text format of Prometheus, version 0.0.4.

use crate::call::{Answer, Call};
use crate::families::{MetricFamily, MetricKind, MetricValue, metric_families};
use crate::problem::Problem;
use orrery_model::metrics::HistogramSnapshot;
use std::fmt::Write;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all metrics.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let mut text = MetricsText::default();
    for family in metric_families(&call.components)? {
        text.add(&family);
    }
    Ok(Answer {
        status: 200,
        content_type: CONTENT_TYPE,
        body: text.0,
    })
}

/// A text in the format of Prometheus, written line by line.
#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    /// Writes a metric with its samples, which must be adjacent.
    fn add(&mut self, family: &MetricFamily) {
        let MetricFamily { name, help, .. } = family;
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        for sample in &family.samples {
            let labels: Vec<(&str, &str)> = sample
                .labels
                .iter()
                .map(|(name, text)| (*name, text.as_str()))
                .collect();
            match &sample.value {
                MetricValue::Number(value) => self.sample(name, &labels, *value),
                MetricValue::Histogram(counted) => self.histogram(name, &labels, counted),
            }
        }
    }

    /// Writes a sample.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
            return;
        }
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escape_label(value)))
            .collect();
        self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
    }

    /// Writes the samples of a histogram: cumulative counts by upper bound, the sum and the count.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], counted: &HistogramSnapshot) {
        let mut buckets: Vec<(String, u64)> = Vec::new();
        for (bound, count) in &counted.buckets {
            buckets.push((bound.to_string(), *count));
        }
        buckets.push(("+Inf".to_owned(), counted.count));
        for (bound, count) in &buckets {
            let labels = [labels, &[("le", bound.as_str())]].concat();
            self.sample(&format!("{name}_bucket"), &labels, *count as f64);
        }
        self.sample(&format!("{name}_sum"), labels, counted.sum);
        self.sample(&format!("{name}_count"), labels, counted.count as f64);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

/// Escapes the value of a label; ids of databases and containers may contain quotes and line ends.
fn escape_label(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::MetricSample;

    #[test]
    fn samples_are_written_in_the_format_of_prometheus() {
        let mut text = MetricsText::default();
        let sample = |labels, value| MetricSample {
            labels,
            value: MetricValue::Number(value),
        };
        let labels = vec![("db", "a\"b\\c\nd".to_owned()), ("coll", "ü".to_owned())];
        text.add(&MetricFamily {
            name: "x_items",
            kind: MetricKind::Gauge,
            help: "Items.",
            samples: vec![sample(labels, 1.5), sample(Vec::new(), 3.0)],
        });
        assert_eq!(
            text.0,
            "# HELP x_items Items.\n# TYPE x_items gauge\n\
             x_items{db=\"a\\\"b\\\\c\\nd\",coll=\"ü\"} 1.5\nx_items 3\n"
        );
        let mut text = MetricsText::default();
        text.histogram(
            "h",
            &[("op", "o")],
            &HistogramSnapshot {
                buckets: vec![(0.5, 1), (2.0, 3)],
                count: 4,
                sum: 12.25,
            },
        );
        assert_eq!(
            text.0,
            "h_bucket{op=\"o\",le=\"0.5\"} 1\nh_bucket{op=\"o\",le=\"2\"} 3\n\
             h_bucket{op=\"o\",le=\"+Inf\"} 4\nh_sum{op=\"o\"} 12.25\nh_count{op=\"o\"} 4\n"
        );
    }
}
