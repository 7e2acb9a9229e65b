//! The memory of the server: how much it may use, and its division into shares.
//!
//! The limit comes from the configuration, or is half of what the machine has, or its control group
//! if that has less. A fixed part is for the program and for the writes that the store has not yet
//! written to tables. The rest is divided:
//!
//! | share | of the rest | used by | when it is spent |
//! |---|---|---|---|
//! | blocks | 20 % | the cache of the store, which takes up to twice its size | old blocks go |
//! | queries | 20 % | rows to be sorted, groups, lists, texts, items | a page ends early, or 429 |
//! | bodies | 16 % | requests; answers from the first row to the last byte | shorter pages, 429 |
//! | heads | 4 % | large heads, and requests of HTTP/2 with the heads of their answers | 429 |
//! | scripts | 30 % | script processes of 64 MiB each | requests with scripts wait, then 429 |
//! | | 10 % | everything that no share counts | |
//!
//! A small limit has a smaller fixed part, smaller tables in memory, fewer threads for queries, and
//! one request with scripts at a time in a smaller process.

use orrery_gateway::HEADS_PART;
use orrery_model::memory::MemoryBudget;
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// The smallest limit. A server with less could not run a script and a query side by side.
const MINIMUM_BYTES: u64 = 256 * MIB;
/// Most and least memory for the program itself and for writes that are not yet in tables.
const FIXED_BYTES_MAX: u64 = 128 * MIB;
const FIXED_BYTES_MIN: u64 = 64 * MIB;
/// Most and least bytes of writes that a table in memory collects before it is written.
const MEMTABLE_BYTES_MAX: u64 = 16 * MIB;
const MEMTABLE_BYTES_MIN: u64 = 4 * MIB;
/// The largest cache. A larger one takes memory from the cache of the system.
const CACHE_BYTES_MAX: u64 = 1024 * MIB;
/// Memory of a script process, and the least of it under a small limit.
const SCRIPT_BYTES: u64 = 64 * MIB;
const SCRIPT_BYTES_MIN: u64 = 24 * MIB;
/// Requests with scripts that run at once, however much memory there is.
const SCRIPT_REQUESTS_MAX: u64 = 64;
/// Memory of queries for each thread that runs them. The allocator keeps about half of it for a
/// thread that has no work.
const QUERY_THREAD_BYTES: u64 = 2 * MIB;
/// Most and least threads that run queries.
const QUERY_THREADS_MAX: u64 = 256;
const QUERY_THREADS_MIN: u64 = 24;
/// Threads for blocking work that is neither a query nor a script nor a batch.
const OTHER_THREADS: usize = 32;

/// The memory that the server may use, which is not below the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit(u64);

impl MemoryLimit {
    /// Returns the limit of so many bytes.
    ///
    /// # Errors
    /// A sentence with the smallest limit, if `bytes` is less.
    pub fn new(bytes: u64) -> Result<MemoryLimit, String> {
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
    /// The bytes of writes that a table in memory collects before it is written.
    pub(crate) memtable_bytes: u64,
    /// The memory of queries.
    pub(crate) queries: Arc<MemoryBudget>,
    /// Threads that run queries.
    pub(crate) query_threads: usize,
    /// The memory of the bodies of requests and responses, for the gateway. The gateway takes a
    /// part of the same size as `HEADS_PART` says for heads beside it.
    pub(crate) bodies: Arc<MemoryBudget>,
    /// Requests with scripts that run at once. A quarter more processes may exist, at least one.
    pub(crate) script_requests: usize,
    /// The memory of a script process, in bytes.
    pub(crate) script_bytes: u64,
}

impl Memory {
    /// Returns the shares for the limit of the configuration, or for half of the memory of the
    /// machine.
    pub(crate) fn new(limit: Option<MemoryLimit>) -> Memory {
        match limit {
            Some(MemoryLimit(limit)) => Memory::divide(limit),
            None => Memory::divide(default_limit(available())),
        }
    }

    fn divide(limit: u64) -> Memory {
        let fixed = (limit / 6).clamp(FIXED_BYTES_MIN, FIXED_BYTES_MAX);
        let rest = limit.saturating_sub(fixed);
        let percent = |share: u64| rest.saturating_mul(share) / 100;
        let queries = percent(20);
        let threads = queries / QUERY_THREAD_BYTES;
        let (script_requests, script_bytes) = scripts(percent(30));
        Memory {
            limit,
            // The cache uses up to twice its size.
            cache_bytes: (percent(20) / 2).min(CACHE_BYTES_MAX),
            memtable_bytes: (limit / 64).clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX),
            queries: MemoryBudget::new(queries),
            query_threads: threads.clamp(QUERY_THREADS_MIN, QUERY_THREADS_MAX) as usize,
            bodies: MemoryBudget::with_part_for_small(percent(16)),
            script_requests,
            script_bytes,
        }
    }

    /// Returns the threads for blocking work. The runtime would start another one whenever none is
    /// idle at the moment, up to 512, and each keeps memory of its own.
    pub(crate) fn blocking_threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        self.query_threads + 2 * self.script_requests + 8 * cores.max(2) + OTHER_THREADS
    }

    /// Returns true if the machine has too little memory for the smallest limit.
    pub(crate) fn is_too_small(&self) -> bool {
        self.limit < MINIMUM_BYTES
    }

    /// Returns the shares as a text for the log.
    pub(crate) fn description(&self) -> String {
        format!(
            "memory limit {} MiB: cache {} MiB, queries {} MiB, bodies {} MiB, heads {} MiB, {} \
             requests with scripts of {} MiB",
            self.limit / MIB,
            self.cache_bytes / MIB,
            self.queries.limit() / MIB,
            self.bodies.limit() / MIB,
            self.bodies.limit() / HEADS_PART / MIB,
            self.script_requests,
            self.script_bytes / MIB
        )
    }
}

/// Returns the limit of a server on a machine, or in a control group, with so much memory: half of
/// it. Below the smallest limit the server takes more than half, and leaves a quarter to the
/// system.
fn default_limit(available: u64) -> u64 {
    let half = available / 2;
    if half >= MINIMUM_BYTES {
        return half;
    }
    MINIMUM_BYTES.min(available / 4 * 3)
}

/// Returns the number of requests with scripts that run at once in so much memory, and the memory
/// of a process. A request may need a second process for functions, so one process more is counted.
fn scripts(bytes: u64) -> (usize, u64) {
    let processes = bytes / SCRIPT_BYTES;
    if processes < 3 {
        return (1, (bytes / 2).clamp(SCRIPT_BYTES_MIN, SCRIPT_BYTES));
    }
    let requests = (processes * 4 / 5).min(SCRIPT_REQUESTS_MAX);
    (requests as usize, SCRIPT_BYTES)
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
    fn the_shares_never_exceed_the_limit_and_the_smallest_one_runs_a_script() {
        for mib in [256, 320, 384, 512, 768, 1024, 2048, 16 << 10, 1 << 20] {
            let memory = Memory::divide(mib * MIB);
            let requests = memory.script_requests as u64;
            let processes = requests + (requests / 4).max(1);
            let fixed = (memory.limit / 6).clamp(FIXED_BYTES_MIN, FIXED_BYTES_MAX);
            let sum = fixed
                + 2 * memory.cache_bytes
                + memory.queries.limit()
                + memory.bodies.limit()
                + memory.bodies.limit() / HEADS_PART
                + processes * memory.script_bytes;
            assert!(sum <= memory.limit, "{sum} of {mib} MiB");
            assert!(memory.script_requests >= 1);
            // Two keyspaces, each with a table that is filled and three that are written.
            assert!(8 * memory.memtable_bytes <= fixed, "{mib} MiB");
        }
        assert!(Memory::divide(768 * MIB).script_requests >= 2);
    }

    #[test]
    fn the_limit_follows_a_small_machine() {
        for (available, limit) in [(16 << 10, 8 << 10), (1024, 512), (512, 256), (400, 256)] {
            assert_eq!(default_limit(available * MIB), limit * MIB, "{available}");
            assert!(!Memory::divide(limit * MIB).is_too_small());
        }
        for (available, limit) in [(256, 192), (128, 96)] {
            assert_eq!(default_limit(available * MIB), limit * MIB, "{available}");
            assert!(Memory::divide(limit * MIB).is_too_small());
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
