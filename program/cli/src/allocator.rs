//! The allocator within the limit of memory.
//!
//! The allocator keeps what is freed for a while, because memory that is used again soon is cheaper
//! than memory from the system, and it asks the system for huge pages. Neither is part of the
//! shares (`memory.rs`): a server that answers many large pages frees gigabytes in a second, and
//! one used byte keeps a huge page of 2 MiB. So the time follows the limit, and there are no huge
//! pages.
//!
//! Promises: what the allocator keeps after it was freed stays below a few percent of the limit.

#![expect(
    unsafe_code,
    reason = "the allocator's options are set by a function in C, which takes two numbers"
)]

use std::ffi::{c_int, c_long};

/// The largest limit under which freed memory is given back at once. A core frees about 1 GiB in a
/// second when it does nothing but answer large pages, and the allocator waits for ten times the
/// time that it is told.
const KEPT_NOT_BELOW: u64 = 1 << 30;
/// Bytes of a larger limit for a millisecond in which freed memory is kept.
const LIMIT_BYTES_PER_MS: u64 = 128 << 20;
/// The most milliseconds, which are the allocator's own default.
const KEPT_MS_MAX: u64 = 1_000;
/// The number of `mi_option_purge_delay` among the options of mimalloc.
const PURGE_DELAY: c_int = 15;

unsafe extern "C" {
    safe fn mi_option_set(option: c_int, value: c_long);
    #[cfg(test)]
    safe fn mi_option_get(option: c_int) -> c_long;
}

/// Makes the allocator give freed memory back in time for a limit of so many bytes.
pub(crate) fn keep_within(limit: u64) {
    let milliseconds = kept_ms(limit);
    mi_option_set(PURGE_DELAY, milliseconds as c_long);
    refuse_huge_pages();
}

fn kept_ms(limit: u64) -> u64 {
    match limit <= KEPT_NOT_BELOW {
        true => 0,
        false => (limit / LIMIT_BYTES_PER_MS).min(KEPT_MS_MAX),
    }
}

/// Refuses huge pages for this process and those that it starts.
#[cfg(target_os = "linux")]
fn refuse_huge_pages() {
    // A system without huge pages refuses the call, and has nothing to refuse.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// This system gives no huge pages without being asked.
#[cfg(not(target_os = "linux"))]
fn refuse_huge_pages() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_is_kept_for_a_time_that_follows_the_limit() {
        assert_eq!(kept_ms(256 << 20), 0);
        assert_eq!(kept_ms(1 << 30), 0);
        assert_eq!(kept_ms(8 << 30), 64);
        assert_eq!(kept_ms(1 << 40), 1_000);
    }

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // The default of the option is known, and neither option beside it has the same.
        let defaults = [
            mi_option_get(PURGE_DELAY - 1),
            mi_option_get(PURGE_DELAY + 1),
        ];
        assert_eq!((mi_option_get(PURGE_DELAY), defaults), (1_000, [1, 0]));
        keep_within(2 << 30);
        assert_eq!(mi_option_get(PURGE_DELAY), 16);
    }
}
