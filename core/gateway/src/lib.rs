//! The protocol over HTTP: the only crate that knows routes, headers, signatures and wire JSON.
//!
//! A request passes through these modules in this order:
//!
//! ```text
//! serve       accepts connections: TLS or plain text, HTTP/1.1 or HTTP/2; `connections` limits
//!             their number, `activity` the time of slow clients
//! gateway     takes the request through the steps below; a panic becomes a 500
//! hosts       the host name, against DNS rebinding; `cors` the origins whose pages are answered
//! route       path -> resource
//! auth        credentials -> caller, and the rights of the caller
//! headers     request headers -> typed options, by one table of all known headers
//! operations  method, headers and resource -> one row of the table of operations, and its function
//! pools       the bounded pools for operations that may take long
//! reply       result -> status, body and the headers that clients read
//! ```
//!
//! Promises: every reply contains JSON or nothing, a charge and an activity id. Everything that a
//! client asks for has its effect, is documented as having none, or is refused. A client gets the
//! message of an error and never its cause.
//!
//! Left out: the direct (TCP) connection mode, and replies in the binary encoding of JSON.

mod account;
mod activity;
mod address;
mod auth;
mod binary_json;
pub mod body;
mod call;
mod connection;
mod connections;
mod cors;
mod date;
mod fair_queue;
mod faults;
mod feed;
mod gateway;
mod headers;
mod held;
mod hosts;
mod hybrid_row;
mod known_routes;
mod live;
mod log;
mod metrics;
mod notices;
mod operations;
mod options;
mod ownership;
mod pools;
mod reply;
mod request_body;
mod request_log;
mod route;
mod script_lane;
mod serve;
mod slow;
mod spans;
mod spin;
mod trusted;

pub use account::{Account, AccountRegion, AccountRegions, Consistency};
pub use activity::{CloseReason, Patience};
pub use auth::{Directory, DirectoryError, Keys, KeysError};
pub use connection::{Connection, Scheme, TrustedAccess};
pub use connections::ConnectionLimits;
pub use cors::{Cors, CorsError};
pub use faults::{
    ArmedFault, FaultAnswer, FaultOutcome, FaultRule, FaultTime, Faults, Unanswered, known_statuses,
};
pub use gateway::Gateway;
pub use headers::{Header, known_headers};
pub use held::{BodyMemory, HEADS_PART};
pub use hosts::{Hosts, WrongHost, host_of_url};
pub use known_routes::{KnownRoute, known_routes};
pub use live::{ContainerName, ContainerSeries, LiveSample, LiveSelection, LiveView};
pub use log::{Field, Log, LogFormat, LogLevel};
pub use metrics::{ConnectionCounters, Metrics, RequestCounts, RequestKind, SpanCounters};
pub use operations::Operation;
pub use options::Options;
pub use ownership::{NotOwned, TakeBack};
pub use pools::{Pool, catch_panics};
pub use reply::error_response;
pub use request_body::RequestBody;
pub use request_log::{
    QueryRecord, RecordFilter, RecordPage, RecordReason, RecordSettings, RequestLog, RequestRecord,
    SettingsChange, StatusFilter,
};
pub use serve::{Port, Service, serve};
pub use slow::SlowRequests;
pub use spans::{RequestSpan, SpanQueue, SpanRecorder, SpanSampler};

/// The key that the vendor's emulator uses and every client documents. The key is public and
/// protects nothing.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
