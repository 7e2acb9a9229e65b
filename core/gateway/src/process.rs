//! Figures of this process, read from `/proc`: processor time, memory, bytes on the disk.
//!
//! Promises: a figure that the system does not provide is `None`; on systems without `/proc` all
//! are.

use std::fs;

/// Ticks per second of the processor times in `/proc`; 100 on every architecture we build for.
const TICKS_PER_SECOND: f64 = 100.0;

/// The figures of this process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    /// Processor time in user and kernel mode since the start, in seconds.
    pub processor_seconds: Option<f64>,
    /// Start of the process, in seconds after the start of the machine.
    pub start_seconds: Option<f64>,
    /// Memory that the process has in use, in bytes.
    pub resident_bytes: Option<u64>,
    /// Bytes that the process has read from disks.
    pub disk_read_bytes: Option<u64>,
    /// Bytes that the process has written to disks.
    pub disk_written_bytes: Option<u64>,
}

impl ProcessFigures {
    /// Reads the figures of now.
    pub fn read() -> ProcessFigures {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        ProcessFigures::parse(
            &text("/proc/self/stat"),
            &text("/proc/self/status"),
            &text("/proc/self/io"),
        )
    }

    /// Reads the figures from the texts of the files `stat`, `status` and `io`; see proc(5).
    fn parse(stat: &str, status: &str, io: &str) -> ProcessFigures {
        // Field 2 is the program's name in parentheses, which may contain blanks and parentheses,
        // so fields are counted from the last closing parenthesis. The first of them is field 3.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let seconds = |number: usize| {
            let ticks = fields.get(number - 3)?.parse::<f64>().ok()?;
            Some(ticks / TICKS_PER_SECOND)
        };
        let processor_seconds = match (seconds(14), seconds(15)) {
            (Some(user), Some(kernel)) => Some(user + kernel),
            _ => None,
        };
        ProcessFigures {
            processor_seconds,
            start_seconds: seconds(22),
            resident_bytes: number_after(status, "VmRSS:").map(|kibibytes| kibibytes * 1024),
            disk_read_bytes: number_after(io, "read_bytes:"),
            disk_written_bytes: number_after(io, "write_bytes:"),
        }
    }
}

/// Returns the first number after `label` on the first line that begins with `label`.
fn number_after(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_the_proc_files_are_found() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194304 10 0 0 0 150 50 0 0 20 0 3 0 4200 1000 200 \
                    18446744073709551615";
        let io = "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n";
        let figures = ProcessFigures::parse(stat, "VmPeak: 9 kB\nVmRSS:\t  12 kB\n", io);
        assert_eq!(
            figures,
            ProcessFigures {
                processor_seconds: Some(2.0),
                start_seconds: Some(42.0),
                resident_bytes: Some(12 * 1024),
                disk_read_bytes: Some(4096),
                disk_written_bytes: Some(8192),
            }
        );
        assert_eq!(
            ProcessFigures::parse("7 (a", "", ""),
            ProcessFigures::default()
        );
    }
}
