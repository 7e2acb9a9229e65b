//! Metrics of the process, read from `/proc`. On systems without `/proc` there are none.

use crate::families::MetricKind;
use std::fs;

/// A metric of the process, under the name that Prometheus client libraries use.
pub(crate) struct ProcessMetric {
    pub(crate) name: &'static str,
    pub(crate) kind: MetricKind,
    pub(crate) help: &'static str,
    pub(crate) value: f64,
}

/// Ticks per second of the processor times in `/proc`; 100 on every architecture we build for.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns the metrics that the system provides; a metric that cannot be read is left out.
pub(crate) fn process_metrics() -> Vec<ProcessMetric> {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.as_deref().and_then(Stat::parse);
    let cpu_seconds = stat.as_ref().map(|stat| stat.processor_seconds);

    // The kernel reports the start of the process relative to the start of the machine.
    let boot_seconds = number_in_file("/proc/stat", "btime ");
    let start_seconds = match (&stat, boot_seconds) {
        (Some(stat), Some(boot)) => Some(boot + stat.start_seconds),
        _ => None,
    };

    let resident_bytes =
        number_in_file("/proc/self/status", "VmRSS:").map(|kibibytes| kibibytes * 1024.0);
    let open_files = fs::read_dir("/proc/self/fd")
        .ok()
        .map(|files| files.count() as f64);
    let max_files = number_in_file("/proc/self/limits", "Max open files");

    let rows = [
        (
            "process_cpu_seconds_total",
            MetricKind::Counter,
            "Processor time used by the process.",
            cpu_seconds,
        ),
        (
            "process_resident_memory_bytes",
            MetricKind::Gauge,
            "Resident memory of the process.",
            resident_bytes,
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

/// The used fields of `/proc/self/stat`; see proc_pid_stat(5).
struct Stat {
    /// Processor time in user and kernel mode.
    processor_seconds: f64,
    /// Start of the process, in seconds after the start of the machine.
    start_seconds: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // Field 2 is the program's name in parentheses, which may contain blanks and parentheses,
        // so fields are counted from the last closing parenthesis. The first of them is field 3.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let (user, kernel, start) = (ticks(14)?, ticks(15)?, ticks(22)?);
        Some(Stat {
            processor_seconds: (user + kernel) / TICKS_PER_SECOND,
            start_seconds: start / TICKS_PER_SECOND,
        })
    }
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
    fn the_fields_of_the_proc_files_are_found() {
        let text = "7 (a (b) c) S 1 7 7 0 -1 4194304 10 0 0 0 150 50 0 0 20 0 3 0 4200 1000 200 \
                    18446744073709551615";
        let stat = Stat::parse(text).expect("the line is complete");
        assert_eq!((stat.processor_seconds, stat.start_seconds), (2.0, 42.0));
        assert!(Stat::parse("7 (a").is_none() && Stat::parse("").is_none());
        assert_eq!(
            number_after("VmPeak: 9 kB\nVmRSS:\t  12 kB\n", "VmRSS:"),
            Some(12.0)
        );
        assert_eq!(
            number_after(
                "Max open files            1024   4096  files\n",
                "Max open files"
            ),
            Some(1024.0)
        );
    }
}
