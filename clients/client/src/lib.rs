//! The client of the protocol: connections, signatures, requests and their answers. The data tools,
//! the reference blog and the examples use it.
//!
//! ```text
//! items, queries, changes, resources, throughput    what a program asks for
//! fan_out, merge the rows of a query over all physical partitions
//! scope          the text of a query, and the partitions that a request addresses
//! client         signed requests, repeated when the server throttles or a connection breaks
//! request, answer, error                            one request, its answer, its failure
//! options, connection_string                        endpoint and key from options, environment
//! pool, tls, signature                              HTTP connections, certificates, signatures
//! sync           a lock that survives a panic
//! files          the files that options name, within bounds
//! ```
//!
//! The crate uses the public protocol only: it works with every server that speaks the protocol,
//! and it knows nothing of this one. A resource is named by its link, for example
//! `dbs/shop/colls/orders`; a link is not escaped. Bodies are passed as text, so that numbers keep
//! the digits with which they were written.
//!
//! Left out: directory identities, regions, and the merge of aggregates and groups over several
//! physical partitions.

pub mod answer;
pub mod changes;
pub mod client;
pub mod connection_string;
mod error;
mod fan_out;
pub mod files;
pub mod items;
mod merge;
pub mod options;
pub mod pool;
pub mod queries;
pub mod request;
pub mod resources;
pub mod scope;
pub mod signature;
pub mod sync;
pub mod throughput;
pub mod tls;

pub use answer::Answer;
pub use changes::ChangesPage;
pub use client::{Client, Observer};
pub use connection_string::ConnectionString;
pub use error::{ClientError, Refusal};
pub use merge::Plan;
pub use options::{Connection, ConnectionOptions, Secret, WELL_KNOWN_KEY};
pub use queries::QueryPage;
pub use request::Request;
pub use resources::{ScriptKind, container_link, database_link};
pub use scope::{PartitionKey, PartitionKeyRange, QueryText, Scope};
pub use throughput::{Offer, Throughput};
pub use tls::Trust;
