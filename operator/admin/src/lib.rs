//! The management API: the requests of operators and test suites, on a port of its own.
//!
//! ```text
//! admin      path of a request: host, route, key, arguments, handler, response
//! routes     table of all routes with their handlers; the OpenAPI description is generated from it
//! route      type of a route
//! schema     schemas of bodies, query parameters and responses
//! openapi    OpenAPI description of a list of routes
//! call       checked request and its response, the interface of handlers
//! stage      lifecycle of the server and its components
//! continuous_backup   copying of the log of the store, and what it did
//! jobs       work of minutes that goes on after a response
//! families, cluster_metrics   metrics as values, from which their text and their export are made
//! health, status, metrics, live, requests, language, faults, clock, snapshots, partitions,
//! traffic, feed_consumers, operations, clusters, balancing, nodes, throughput, predictions,
//! query_predictions, running_queries, search_indexes, verification, backups
//!            handlers, one file for each subject
//! ```
//!
//! Promises:
//! - Every request needs an admin key, except those for the health of the server.
//! - A query parameter or body member that the route does not know is refused with an error that
//!   names the member.
//! - Every error is JSON that states the defect and its location in the request.
//! - The crate stores nothing but the jobs that it has started, in memory: all other state belongs
//!   to the engine and the gateway.
//!
//! The database protocol is left out: there are no request signatures, no request charges and no
//! sessions.

mod admin;
mod backups;
mod balancing;
mod call;
mod clock;
mod cluster_metrics;
mod clusters;
mod continuous_backup;
mod families;
mod faults;
mod feed_consumers;
mod health;
mod jobs;
mod key;
mod language;
mod live;
mod metrics;
mod nodes;
mod openapi;
mod operations;
mod partitions;
mod predictions;
mod problem;
mod process;
mod query_predictions;
mod requests;
mod route;
mod routes;
mod running_queries;
mod schema;
mod search_indexes;
mod snapshots;
mod stage;
mod status;
mod throughput;
mod traffic;
mod verification;

pub use admin::{Admin, Options};
pub use backups::{about, backup_json, is_inside};
pub use balancing::balance_clusters;
pub use continuous_backup::ContinuousBackups;
pub use families::{MetricFamily, MetricKind, MetricSample, MetricValue, metric_families};
pub use jobs::Jobs;
pub use key::{AdminKeys, AdminKeysError};
pub use routes::{KnownRoute, known_routes};
pub use stage::{Components, Fleet, FleetCounts, FleetNode, ForwardedAnswer, ForwardedRequest};
pub use verification::verification_json;
