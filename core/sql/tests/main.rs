//! The tests of the query language through its public interface, one module for each subject.
//!
//! All are one test binary, because each binary links the crate's libraries again. The tests of the
//! module `golden` are run alone with
//! `cargo test -p orrery-sql --test sql golden::`.

mod support;

mod bounds;
mod golden;
mod hostile;
mod search;
