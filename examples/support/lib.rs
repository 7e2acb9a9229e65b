//! The parts that `telemetry` and `tenants` share: handles for databases and containers on the
//! client of this repository, a server for the time of one run, load at a fixed rate, and aligned
//! tables.
//!
//! ```text
//! client       one request and its response in JSON
//! container    databases, containers, items, queries, procedures, changes
//! access       users, permissions, resource tokens
//! load         requests at a fixed rate, their refusals and latencies
//! server       command-line options; the server of a run
//! table        output
//! ```
//!
//! Leaves out: session tokens, and the merge of rows from several physical partitions, which the
//! server does. An official SDK has both.

#![allow(
    clippy::print_stdout,
    reason = "the output is the purpose of the examples"
)]

pub mod access;
pub mod client;
pub mod container;
pub mod load;
pub mod server;
pub mod table;

/// An error with a message for the person who runs the example.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// A result of the examples.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns an error unless a fact that the example is about to print holds.
pub fn check(holds: bool, fact: &str) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(format!("the server does not keep this fact: {fact}").into())
    }
}
