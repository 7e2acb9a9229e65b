//! The reference blog: users, posts, comments and likes in three successive data models, and the workload that measures them.
//!
//! The blog exists to show *why* one models and partitions as one does. Each of its ten requests (C1–C4 write, Q1–Q6
//! read) is written three times, once per model, and every answer carries what it cost: request units, time, and the
//! number of physical partitions asked. [`bench::run`] loads a data set of any size and prints the table of the
//! well-known article "How to model and partition data on Azure Cosmos DB using a real-world example" with our figures
//! beside its own.
//!
//! ```text
//! bench ── load ── dataset          what is measured, on what
//!   │        │
//! models ── pipelines ── upgrade    the data layer: requests, views kept by the change feed, moving a live system
//!   │
//! client ── query ── feed           the public protocol over HTTP, as an official SDK speaks it
//! ```
//!
//! The crate speaks only that protocol, and knows nothing of how a server stores or prices anything; `pricing` states
//! the published rules of charging a second time, to say beforehand what each cell of the table should be.

mod article;
pub mod bench;
pub mod client;
mod connection;
pub mod dataset;
mod error;
pub mod feed;
mod load;
mod merge;
pub mod meter;
pub mod models;
pub mod pipelines;
mod pricing;
mod progress;
mod query;
mod random;
mod report;
mod signature;
mod upgrade;

pub use bench::{Format, Load, Options, Profile};
pub use client::Client;
pub use error::BlogError;
pub use meter::{Charge, Measured, Meter};
pub use models::{Blog, Model, Request};
pub use progress::{Progress, on_stderr};
pub use query::Query;
pub use report::{Loaded, Report, Row};
pub use upgrade::{Upgraded, upgrade};
