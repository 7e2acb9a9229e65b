//! The tests of frames and tokens through the public interface, one module for each subject.
//!
//! All are one test binary. The golden frames are run alone with
//! `cargo test -p orrery-rntbd --test rntbd golden::`.

mod golden;
mod guid;
mod header;
mod properties;
mod reader;
mod support;
mod tables;
mod writer;
