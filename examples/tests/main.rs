//! The tests of the example programs, one module for each subject.
//!
//! All are one test binary, because each binary links the crate's libraries again. The tests of the
//! module `workloads` are run alone with
//! `cargo test -p orrery-examples --test examples workloads::`.

mod support;

mod programs;
mod workloads;
