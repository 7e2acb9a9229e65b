//! The tests of values and rules through the public interface, one module for each subject.
//!
//! All are one test binary, because each binary links the crate's libraries again. The tests of the
//! module `patch` are run alone with
//! `cargo test -p orrery-model --test model patch::`.

mod patch;
