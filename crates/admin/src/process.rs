//! What the system knows of the process. Only where there is a `/proc`; elsewhere nothing is said.

use std::fs;

/// A number of the system's, by the name that Prometheus clients agree on.
pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) help: &'static str,
    pub(crate) value: f64,
}

/// The unit of processor time in `/proc`: a hundredth of a second on every architecture that we build for.
const TICKS_A_SECOND: f64 = 100.0;

/// What can be found out.
pub(crate) fn facts() -> Vec<Fact> {
    let fact = |name, kind, help, value: Option<f64>| {
        value.map(|value| Fact {
            name,
            kind,
            help,
            value,
        })
    };
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.as_deref().and_then(Stat::parse);
    let boot = fs::read_to_string("/proc/stat")
        .ok()
        .and_then(|text| number_after(&text, "btime "));
    let limits = fs::read_to_string("/proc/self/limits").ok();
    let most_files = limits.and_then(|text| number_after(&text, "Max open files"));
    let open_files = fs::read_dir("/proc/self/fd")
        .ok()
        .map(|files| files.count() as f64);
    let memory = fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| number_after(&text, "VmRSS:"));
    let cpu = stat.as_ref().map(|stat| stat.processor_seconds);
    let begun = stat
        .as_ref()
        .zip(boot)
        .map(|(stat, boot)| boot + stat.begun_seconds);
    [
        fact(
            "process_cpu_seconds_total",
            "counter",
            "Processor time of the process.",
            cpu,
        ),
        fact(
            "process_resident_memory_bytes",
            "gauge",
            "Memory that it has.",
            memory.map(|kilobytes| kilobytes * 1024.0),
        ),
        fact(
            "process_open_fds",
            "gauge",
            "Files and sockets that it holds open.",
            open_files,
        ),
        fact(
            "process_max_fds",
            "gauge",
            "Files and sockets that it may hold open.",
            most_files,
        ),
        fact(
            "process_start_time_seconds",
            "gauge",
            "When it began, in seconds since 1970.",
            begun,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What `/proc/self/stat` says.
struct Stat {
    processor_seconds: f64,
    /// After the machine began.
    begun_seconds: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The second field is the program's name in parentheses, and may hold blanks.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |n: usize| fields.get(n - 3)?.parse::<f64>().ok();
        Some(Stat {
            processor_seconds: (ticks(14)? + ticks(15)?) / TICKS_A_SECOND,
            begun_seconds: ticks(22)? / TICKS_A_SECOND,
        })
    }
}

/// The first number behind a word at the beginning of a line.
fn number_after(text: &str, word: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_the_system_are_found_where_they_stand() {
        let text = "7 (a (b) c) S 1 7 7 0 -1 4194304 10 0 0 0 150 50 0 0 20 0 3 0 4200 1000 200 18446744073709551615";
        let stat = Stat::parse(text).expect("it is whole");
        assert_eq!((stat.processor_seconds, stat.begun_seconds), (2.0, 42.0));
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
