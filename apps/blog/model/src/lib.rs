//! The reference blog: users, posts, comments and likes in three successive data models, with the
//! workload that measures the models.
//!
//! The blog shows the effect of modelling and partitioning. Each of its ten requests (C1–C4 write,
//! Q1–Q6 read) is implemented once for each model, and every result carries its cost: request
//! units, time, and the number of physical partitions that handled the request. [`bench::run`]
//! loads a data set of any size and returns the table of the article "How to model and partition
//! data on Azure Cosmos DB using a real-world example" with measured figures beside the published
//! ones.
//!
//! ```text
//! bench ── load ── dataset        measurement, and the data that is measured
//!   │        │        └─ prose     sentences and names of the data set
//! lesson                          comparison of the models, what traffic costs, and the lab
//!   │
//! site ── control                 the models that an application serves, and its own data
//!   │
//! models ── pipelines ── migrate  requests, copies maintained through the change feed, migration
//!   │                    drift    of a running blog to another model, comparison of all copies
//! client ── query ── feed         requests through `orrery-client`, each added to a meter
//! ```
//!
//! The crate uses only the public protocol, through `orrery-client`, and does not depend on the
//! crates of the server. `pricing` states the published rules for charges a second time, to compute
//! the expected figures of the table.

mod article;
pub mod bench;
pub mod client;
pub mod control;
pub mod dataset;
pub mod drift;
mod error;
mod excerpt;
pub mod feed;
pub mod lesson;
pub mod load;
pub mod meter;
pub mod migrate;
pub mod models;
pub mod offers;
mod options;
mod paging;
mod pipeline_bench;
pub mod pipelines;
mod pricing;
mod progress;
mod prose;
mod query;
mod random;
mod report;
mod resumption;
pub mod site;
pub mod writes;

pub use client::Client;
pub use control::Control;
pub use error::BlogError;
pub use excerpt::{EXCERPT_CHARS_MAX, excerpt};
pub use load::{Copies, Estimate, Fill, Filled, estimate, fill};
pub use meter::{Charge, Measurement, Meter, Operation, RequestRecord};
pub use models::{Blog, Model, Request, Throughput};
pub use options::{Format, Load, Options, Profile};
pub use orrery_client::sync;
pub use paging::{ListPage, PAGE_ROWS};
pub use pipelines::{Pipeline, Pipelines};
pub use progress::{Progress, on_stderr};
pub use query::Query;
pub use report::{CopySummary, LoadSummary, Report, Row, WriteRow};
pub use site::{FillState, Migration, Phase, Site, WriteTurn};
