//! The tests of a node through the public interface of its crate, one module for each subject.
//!
//! All are one test binary, because each binary links the crate's libraries again. The tests of the
//! module `lease` are run alone with
//! `cargo test -p orrery-node --test node lease::`.

mod lease;
