//! The tests of placement through its public interface, one module for each subject.
//!
//! All are one test binary, because each binary links the crate's libraries again. The tests of the
//! module `moves` are run alone with
//! `cargo test -p orrery-placement --test placement moves::`.

#[path = "../../storage-postgres/tests/support/mod.rs"]
mod servers;
#[path = "../../../core/storage/tests/support/mod.rs"]
mod stores;
mod support;

mod contract;
mod history;
mod known;
mod migrate;
mod moves;
mod postgres;
