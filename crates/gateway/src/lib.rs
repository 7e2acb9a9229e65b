//! The protocol over HTTP: the only crate that knows routes, headers, signatures and wire JSON.
//!
//! One request passes through these rooms, in this order:
//!
//! ```text
//! serve      a connection on the one port: TLS or not, HTTP/1.1 or HTTP/2
//! gateway    the path of a request, catch_panics against panics
//! route      path to resource
//! auth       signature to access
//! headers    every header we know, in one table, to what the client asks
//! operations method and headers to one operation, then the call of the engine
//! placement  here, or on the pool for what may be slow
//! reply      the answer with the headers that clients read
//! ```
//!
//! What it promises: every answer carries JSON or nothing, a charge and an activity id; nothing that a client asks for
//! is dropped in silence; a client learns our errors' sentences and never their causes.
//!
//! Left out: the direct (TCP) connection mode, and answers in binary encodings of JSON.

mod account;
mod address;
mod auth;
mod binary_json;
pub mod body;
mod call;
mod date;
mod faults;
mod feed;
mod gateway;
mod headers;
mod hybrid_row;
mod log;
mod metrics;
mod operations;
mod options;
mod placement;
mod reply;
mod route;
mod serve;

pub use auth::{Directory, DirectoryError, Keys, KeysError};
pub use faults::{
    ArmedFault, FaultAnswer, FaultOutcome, FaultRule, FaultTime, Faults, Unanswered,
    known_operations, known_statuses,
};
pub use gateway::{Connection, Gateway, Scheme};
pub use headers::{Header, known_headers};
pub use log::{Field, Log, LogFormat, LogLevel};
pub use metrics::{Metrics, RequestCounts, RequestKind};
pub use options::{Account, Consistency, Options};
pub use placement::{Pool, catch_panics};
pub use route::{KnownRoute, known_routes};
pub use serve::{Service, serve};

/// The key that the vendor's emulator and every client's documentation use: known to all, secret to nobody.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
