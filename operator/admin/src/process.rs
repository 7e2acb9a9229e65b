//! Metrics of the process, read from `/proc`. On systems without `/proc` there are none.

use crate::families::MetricKind;
use orrery_gateway::ProcessFigures;
use std::fs;

/// A metric of the process, under the name that Prometheus client libraries use.
pub(crate) struct ProcessMetric {
    pub(crate) name: &'static str,
    pub(crate) kind: MetricKind,
    pub(crate) help: &'static str,
    pub(crate) value: f64,
}

/// Returns the metrics that the system provides; a metric that cannot be read is left out.
pub(crate) fn process_metrics() -> Vec<ProcessMetric> {
    let figures = ProcessFigures::read();

    // The kernel reports the start of the process relative to the start of the machine.
    let boot_seconds = number_in_file("/proc/stat", "btime ");
    let start_seconds = match (figures.start_seconds, boot_seconds) {
        (Some(start), Some(boot)) => Some(boot + start),
        _ => None,
    };
    let open_files = fs::read_dir("/proc/self/fd")
        .ok()
        .map(|files| files.count() as f64);
    let max_files = number_in_file("/proc/self/limits", "Max open files");

    let rows = [
        (
            "process_cpu_seconds_total",
            MetricKind::Counter,
            "Processor time used by the process.",
            figures.processor_seconds,
        ),
        (
            "process_resident_memory_bytes",
            MetricKind::Gauge,
            "Resident memory of the process.",
            figures.resident_bytes.map(|bytes| bytes as f64),
        ),
        (
            "process_open_fds",
            MetricKind::Gauge,
            "Open file descriptors of the process.",
            open_files,
        ),
        (
            "process_max_fds",
            MetricKind::Gauge,
            "Maximum number of open file descriptors.",
            max_files,
        ),
        (
            "process_start_time_seconds",
            MetricKind::Gauge,
            "Start time of the process in seconds since 1970-01-01 UTC.",
            start_seconds,
        ),
    ];
    let mut metrics = Vec::new();
    for (name, kind, help, value) in rows {
        if let Some(value) = value {
            metrics.push(ProcessMetric {
                name,
                kind,
                help,
                value,
            });
        }
    }
    metrics
}

/// Returns the number after `label` in a file; see [`number_after`].
fn number_in_file(path: &str, label: &str) -> Option<f64> {
    number_after(&fs::read_to_string(path).ok()?, label)
}

/// Returns the first number after `label` on the first line that begins with `label`.
fn number_after(text: &str, label: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_after_its_label() {
        assert_eq!(
            number_after(
                "Max open files            1024   4096  files\n",
                "Max open files"
            ),
            Some(1024.0)
        );
    }
}
