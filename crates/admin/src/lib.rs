//! The management API: what operators and test suites ask of a server, on a port of its own.
//!
//! ```text
//! routes     every path in one table, with what it takes and gives; the OpenAPI description is made from it
//! admin      the path of a request: host, route, key, body, answer, fenced against panics
//! shape      the members of bodies and answers: checked, and described
//! health status …   what the routes do
//! ```
//!
//! What it promises: nothing is told or changed without an admin key, but for the health of the server; a member that
//! no route knows is refused by name; errors are JSON that says what was wrong and where; what is known is known from
//! the engine and the gateway, and nothing is kept here.
//!
//! It has nothing of the protocol of the database: no signatures, no charges, no sessions.

mod admin;
mod call;
mod clock;
mod faults;
mod health;
mod key;
mod metrics;
mod openapi;
mod operations;
mod partitions;
mod problem;
mod process;
mod routes;
mod shape;
mod snapshots;
mod status;
mod throughput;
mod traffic;

pub use admin::{Admin, Options, Parts};
pub use key::{AdminKeys, AdminKeysError};
pub use routes::{KnownRoute, known_routes};
