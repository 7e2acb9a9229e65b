//! The tests of scripts through the public interface, one module for each subject.
//!
//! All are one test binary, because each binary links the crate's libraries again. The tests of the
//! module `hostile` are run alone with
//! `cargo test -p orrery-script --test script hostile::`.

mod memory;

mod collection;
mod functions;
mod hostile;
mod procedures;
mod triggers;
