//! The figures of long runs: the sizes that a variable sets, the lines that a run prints, and the
//! memory of a server.

use super::Server;

/// Returns the number that the variable `name` sets, or `default`.
pub(crate) fn setting(name: &str, default: usize) -> usize {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

/// Prints a figure of a run.
#[expect(clippy::print_stdout, reason = "a long run shows its figures")]
pub(crate) fn show(figure: &str) {
    println!("{figure}");
}

impl Server {
    /// Returns the kilobytes of a field of the status of the process, such as `VmHWM`, the largest
    /// resident set so far, or `VmRSS`, the present one; `None` if the system does not tell it.
    pub(crate) fn memory_kilobytes(&self, field: &str) -> Option<u64> {
        let path = format!("/proc/{}/status", self.process_id());
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(field))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }
}
