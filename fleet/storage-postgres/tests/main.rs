//! The tests of the store in PostgreSQL through its public interface, one module for each subject.
//!
//! All are one test binary, because each binary links the crate's libraries again. The tests of the
//! module `faults` are run alone with
//! `cargo test -p orrery-storage-postgres --test storage-postgres faults::`.

#[path = "support/mod.rs"]
mod servers;
#[path = "../../../core/storage/tests/support/mod.rs"]
mod stores;

mod connecting;
mod contract;
mod faults;
mod followers;
mod groups;
mod identity;
mod known_heads;
mod reuse;
mod rights;
mod single_rows;
