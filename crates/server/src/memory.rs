//! The memory of the server: how much it may use, and its division into shares.
//!
//! The limit comes from `--memory-limit`, or is half of what the machine has, or its control group
//! if that has less. A fixed part is for the program and for the writes that the store has not yet
//! written to tables. The rest is divided:
//!
//! | share | of the rest | used by | when it is spent |
//! |---|---|---|---|
//! | blocks | 20 % | the cache of the store, which takes up to twice its size | old blocks go |
//! | queries | 25 % | rows to be sorted, groups, lists of all queries | a page ends early, or 429 |
//! | bodies | 15 % | bodies of requests and responses | the gateway answers 429 or 413 |
//! | scripts | 30 % | script processes of 64 MiB each | requests with scripts wait, then 429 |
//! | | 10 % | everything that no share counts | |

use crate::sizes::{self, Units};
use orrery_model::memory::MemoryBudget;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// The smallest limit. A server with less could not run two scripts and a query side by side.
const MINIMUM_BYTES: u64 = 768 * MIB;
/// Memory for the program itself and for writes that are not yet in tables.
const FIXED_BYTES: u64 = 128 * MIB;
/// The largest cache. A larger one takes memory from the cache of the system.
const CACHE_BYTES_MAX: u64 = 1024 * MIB;
/// Memory of a script process.
const SCRIPT_BYTES: u64 = 64 * MIB;
/// Requests with scripts that run at once, however much memory there is.
const SCRIPT_REQUESTS_MAX: u64 = 64;

/// The units of sizes of memory.
const UNITS: Units = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("m", MIB),
    ("mib", MIB),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

/// The memory that the server may use, in bytes: a size on the command line such as `1500000000`,
/// `900MiB`, `2GiB` or `2G`, which is not below the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit(u64);

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = sizes::parse(text, UNITS)?;
        if bytes < MINIMUM_BYTES {
            let least = MINIMUM_BYTES / MIB;
            return Err(format!("the server needs at least {least}MiB"));
        }
        Ok(MemoryLimit(bytes))
    }
}

/// The shares of the memory.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// The limit, in bytes.
    pub(crate) limit: u64,
    /// The size of the store's cache of blocks, in bytes.
    pub(crate) cache_bytes: u64,
    /// The memory of queries.
    pub(crate) queries: Arc<MemoryBudget>,
    /// The memory of the bodies of requests and responses, for the gateway.
    pub(crate) bodies: Arc<MemoryBudget>,
    /// Requests with scripts that run at once. A quarter more processes may exist, at least one.
    pub(crate) script_requests: usize,
}

impl Memory {
    /// Returns the shares for the limit of the command line, or for half of the memory of the
    /// machine. A small machine gets the minimum rather than no server.
    pub(crate) fn new(limit: Option<MemoryLimit>) -> Memory {
        match limit {
            Some(MemoryLimit(limit)) => Memory::divide(limit),
            None => Memory::divide((available() / 2).max(MINIMUM_BYTES)),
        }
    }

    fn divide(limit: u64) -> Memory {
        let rest = limit.saturating_sub(FIXED_BYTES);
        let percent = |share: u64| rest.saturating_mul(share) / 100;
        let processes = percent(30) / SCRIPT_BYTES;
        let requests = (processes * 4 / 5).clamp(1, SCRIPT_REQUESTS_MAX);
        Memory {
            limit,
            // The cache uses up to twice its size.
            cache_bytes: (percent(20) / 2).min(CACHE_BYTES_MAX),
            queries: MemoryBudget::new(percent(25)),
            bodies: MemoryBudget::new(percent(15)),
            script_requests: usize::try_from(requests).unwrap_or(1),
        }
    }

    /// Returns the shares as a text for the log.
    pub(crate) fn description(&self) -> String {
        format!(
            "memory limit {} MiB: cache {} MiB, queries {} MiB, bodies {} MiB, {} requests with \
             scripts",
            self.limit / MIB,
            self.cache_bytes / MIB,
            self.queries.limit() / MIB,
            self.bodies.limit() / MIB,
            self.script_requests
        )
    }
}

/// Returns the memory of the machine, or that of the control group of this process if that is less.
/// A system that tells neither counts as one with 2 GiB.
fn available() -> u64 {
    let machine = read("/proc/meminfo").and_then(|text| memory_of_machine(&text));
    let group = read("/proc/self/cgroup").and_then(|text| memory_of_groups(&text, read));
    let known = [machine, group].into_iter().flatten().min();
    known.unwrap_or(2048 * MIB)
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Reads the memory of a machine from the text of `/proc/meminfo`.
fn memory_of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the smallest limit of the control groups that `/proc/self/cgroup` names, and of those
/// around them. A file without a number stands for no limit.
fn memory_of_groups(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut smallest = None;
    for line in groups.lines() {
        // `hierarchy:controllers:path`; the second version has one hierarchy without controllers.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // Inside a container the path may be that of the machine; its root is the group then.
        for group in Path::new(path).ancestors() {
            let group = group.to_string_lossy();
            let group = group.trim_end_matches('/');
            let limit = read(&format!("{root}{group}/{file}"));
            let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
            smallest = [smallest, limit].into_iter().flatten().min();
        }
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("1073741824", 1 << 30),
            ("2GiB", 2 << 30),
            ("2 GiB", 2 << 30),
            ("2g", 2 << 30),
            ("768MiB", MINIMUM_BYTES),
            ("1500000kB", 1_500_000_000),
        ] {
            assert_eq!(text.parse(), Ok(MemoryLimit(bytes)), "{text}");
        }
        for text in [
            "",
            "GiB",
            "2.5GiB",
            "-1",
            "2 apples",
            "99999999999999TiB",
            "767MiB",
        ] {
            assert!(text.parse::<MemoryLimit>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_shares_never_exceed_the_limit_and_the_smallest_one_runs_scripts() {
        for limit in [MINIMUM_BYTES, 2 << 30, 16 << 30, 1 << 40] {
            let memory = Memory::divide(limit);
            let requests = memory.script_requests as u64;
            let processes = requests + (requests / 4).max(1);
            let sum = FIXED_BYTES
                + 2 * memory.cache_bytes
                + memory.queries.limit()
                + memory.bodies.limit()
                + processes * SCRIPT_BYTES;
            assert!(sum <= limit, "{sum} of {limit}");
            assert!(memory.script_requests >= 2);
        }
    }

    #[test]
    fn the_limit_of_a_control_group_is_the_smallest_of_its_ancestors() {
        let files = |path: &str| match path {
            "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/a/memory.max" => Some("3000000\n".to_owned()),
            "/sys/fs/cgroup/memory/x/memory.limit_in_bytes" => Some("2000000\n".to_owned()),
            _ => None,
        };
        assert_eq!(memory_of_groups("0::/a/b\n", files), Some(3_000_000));
        let first_version = "5:cpu,cpuacct:/x\n4:memory:/x\n";
        assert_eq!(memory_of_groups(first_version, files), Some(2_000_000));
        assert_eq!(memory_of_groups("0::/other\n", files), None);
        assert_eq!(
            memory_of_machine("MemTotal:       2048 kB\nMemFree: 1 kB\n"),
            Some(2 << 20)
        );
    }
}
