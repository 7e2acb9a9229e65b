//! The tests of the lease through its public interface, one module for each subject.
//!
//! All are one test binary, because each binary links the crate's libraries again. The tests of the
//! module `lease` are run alone with
//! `cargo test -p orrery-node-lease --test node-lease lease::`.

mod lease;
