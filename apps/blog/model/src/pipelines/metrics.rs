//! The figures of this process in the text format of Prometheus.

use super::delivery::Precision;
use super::status::{Figures, ReactionFigures};
use std::fmt::{self, Write as _};

/// A counter of a reaction: name, help, and value.
type Counter = (&'static str, &'static str, fn(&ReactionFigures) -> f64);

const COUNTERS: [Counter; 5] = [
    ("changes_total", "Changes processed.", |f| {
        f.processed as f64
    }),
    (
        "written_total",
        "Items written in reaction to changes.",
        |f| f.written as f64,
    ),
    (
        "retries_total",
        "Attempts that failed and were repeated.",
        |f| f.retries as f64,
    ),
    (
        "dead_letters_total",
        "Changes that became dead letters.",
        |f| f.dead_letters as f64,
    ),
    (
        "request_units_total",
        "Request units of the reactions.",
        |f| f.ru.ru(),
    ),
];

/// Returns the text of all metrics.
pub(super) fn text(figures: &Figures) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    write_all(figures, &mut out).unwrap_or_default();
    out
}

fn write_all(figures: &Figures, out: &mut String) -> fmt::Result {
    for (name, help, value) in COUNTERS {
        head(out, name, help, "counter")?;
        for ((pipeline, reaction), of_reaction) in &figures.reactions {
            let value = value(of_reaction);
            writeln!(
                out,
                "blog_pipeline_{name}{{pipeline=\"{pipeline}\",reaction=\"{reaction}\"}} {value}"
            )?;
        }
    }
    head(
        out,
        "feed_reads_total",
        "Pages read of the feed.",
        "counter",
    )?;
    for (pipeline, feed) in &figures.feeds {
        let reads = feed.reads;
        writeln!(
            out,
            "blog_pipeline_feed_reads_total{{pipeline=\"{pipeline}\"}} {reads}"
        )?;
    }
    let help = "Request units of the pages of the feed.";
    head(out, "feed_request_units_total", help, "counter")?;
    for (pipeline, feed) in &figures.feeds {
        let ru = feed.ru.ru();
        writeln!(
            out,
            "blog_pipeline_feed_request_units_total{{pipeline=\"{pipeline}\"}} {ru}"
        )?;
    }
    let help = "Changes of an owned range that are not processed, by LSN.";
    head(out, "lag_changes", help, "gauge")?;
    for ((pipeline, range), state) in &figures.ranges {
        if let Some(lag) = state.lag {
            writeln!(
                out,
                "blog_pipeline_lag_changes{{pipeline=\"{pipeline}\",range=\"{range}\"}} {lag}"
            )?;
        }
    }
    write_delivery(figures, out)
}

/// Writes the histograms of delivery times.
fn write_delivery(figures: &Figures, out: &mut String) -> fmt::Result {
    let help = "Time from the commit of a change to the end of the reaction; by the clock of the \
                commit.";
    head(out, "delivery_seconds", help, "histogram")?;
    for ((pipeline, reaction), of_reaction) in &figures.reactions {
        let kinds = [
            (Precision::Microseconds, &of_reaction.exact),
            (Precision::Seconds, &of_reaction.coarse),
        ];
        for (precision, histogram) in kinds {
            let labels = format!(
                "pipeline=\"{pipeline}\",reaction=\"{reaction}\",precision=\"{precision}\""
            );
            let name = "blog_pipeline_delivery_seconds";
            for (bound_ms, count) in histogram.cumulative() {
                let bound = bound_ms / 1e3;
                writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}")?;
            }
            let (count, sum) = (histogram.count(), histogram.sum_ms() / 1e3);
            writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
            writeln!(out, "{name}_sum{{{labels}}} {sum}")?;
            writeln!(out, "{name}_count{{{labels}}} {count}")?;
        }
    }
    Ok(())
}

/// Writes the lines that describe a metric.
fn head(out: &mut String, name: &str, help: &str, kind: &str) -> fmt::Result {
    writeln!(out, "# HELP blog_pipeline_{name} {help}")?;
    writeln!(out, "# TYPE blog_pipeline_{name} {kind}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Charge;

    #[test]
    fn the_text_has_each_metric_once_and_a_line_for_each_reaction() {
        let mut figures = Figures::default();
        for reaction in ["copyToFeed", "copyToUsers"] {
            let key = ("blog-v3.posts".to_owned(), reaction.to_owned());
            let of_reaction = figures.reactions.entry(key).or_default();
            of_reaction.processed = 3;
            of_reaction.ru = Charge(1_250);
            of_reaction.exact.add(40.0);
        }
        let key = ("blog-v3.posts".to_owned(), "7".to_owned());
        figures.ranges.entry(key).or_default().lag = Some(2);
        let text = text(&figures);
        for line in [
            "blog_pipeline_changes_total{pipeline=\"blog-v3.posts\",reaction=\"copyToFeed\"} 3",
            "blog_pipeline_request_units_total{pipeline=\"blog-v3.posts\",\
             reaction=\"copyToUsers\"} 12.5",
            "blog_pipeline_lag_changes{pipeline=\"blog-v3.posts\",range=\"7\"} 2",
            "blog_pipeline_delivery_seconds_bucket{pipeline=\"blog-v3.posts\",\
             reaction=\"copyToFeed\",precision=\"microseconds\",le=\"0.05\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        let helps = text.matches("# HELP").count();
        assert_eq!(helps, text.matches("# TYPE").count());
        assert_eq!(
            text.matches("# HELP blog_pipeline_changes_total").count(),
            1
        );
    }
}
