//! The tests of the stores through their public interface, one module for each subject.
//!
//! All are one test binary, because each binary links the crate's libraries again. The tests of the
//! module `contract` are run alone with
//! `cargo test -p orrery-storage --test storage contract::`.

mod support;

mod bad_block;
mod checkpoint;
mod compaction;
mod contract;
mod crash;
mod damage;
#[cfg(unix)]
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod disk_history;
mod exhaustion;
mod history;
mod memory;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod power_loss;
