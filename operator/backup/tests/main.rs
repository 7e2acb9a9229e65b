//! Tests of backups through the public interface, on real stores in directories.
//!
//! All are one test binary, because each binary links the crate's libraries again.

mod archive;
mod damage;
mod interruption;
mod log;
mod refusals;
mod repository;
mod support;
