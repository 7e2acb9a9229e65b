//! The protocol of the service over HTTP: the only crate that knows its routes, headers, signatures
//! and wire JSON.
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
//! held        the memory of bodies, and of answers that are not sent yet
//! live, request_log, slow, spans   what operators see of requests, bounded and in memory
//! running     the queries that run, which operators may cancel
//! process     figures of the process: processor time, memory, disk
//! spin        short waits for the next request of a fast client
//! hybrid_row, binary_json   the binary forms of batches and of bodies
//! ```
//!
//! Three tables define the protocol: the paths in `route.rs`, the request headers in
//! `headers/table.rs`, and the operations in `operations.rs`. A row of the last one states the
//! method, the distinguishing header and the target of an operation, its name, the rights of its
//! caller, the thread on which it starts, and its function.
//!
//! # A request, step by step
//!
//! 1. `serve_connection` tells TLS from plain text by the first byte of the connection and passes
//!    each request to [`Gateway::handle`], which measures and logs the request, and turns a panic
//!    of any later step into a 500.
//! 2. `Gateway::check_head` checks everything that needs no body: `Path::parse` and `Path::route`
//!    find the resource, `Authenticator::authenticate` finds the caller, `RequestHeaders::parse`
//!    parses the headers by their table, `operations::choose` selects a row of the table of
//!    operations, and `auth::check` compares rights.
//! 3. `body::read` reads the body within its bounds of size, time and memory. A fault on demand
//!    (`faults.rs`) strikes before the next steps or after them.
//! 4. `Operation::lane` selects the thread. Reads, and creates of small items, start on the thread
//!    that received them; queries, requests with scripts, and the rest of the slow ones (writes of
//!    metadata, bodies over `POOL_BODY_BYTES`) have pools of their own. Requests with scripts wait
//!    for their turn without a thread.
//! 5. `Operation::start` finds the container and calls the function of the row, such as
//!    `items::read`, which takes partition key, id and options from the request and calls the
//!    engine.
//! 6. The gateway awaits the engine's `Pending`, if the request may write.
//! 7. `Reply::render` writes body, charge, session token and the other headers.
//!
//! A client that closes its connection drops the future of its request, which cancels the page of a
//! query at its next check point.
//!
//! # Promises
//!
//! Every reply contains JSON or nothing, a charge and an activity id. Everything that a client asks
//! for has its effect, is documented as having none, or is refused. A client gets the message of an
//! error and never its cause.
//!
//! # Left out
//!
//! The direct (TCP) connection mode, and replies in the binary encoding of JSON. The ports of the
//! management API and of the console have routes of their own, in `operator/admin` and
//! `operator/console`.

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
mod direct;
mod fair_queue;
mod faults;
mod feed;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod handshakes;
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
mod prefixed;
mod process;
mod repeated_failures;
mod reply;
mod request_body;
mod request_log;
mod route;
mod running;
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
pub use direct::{
    DirectMode, DirectPlaces, FrameAnswer, FrameFuture, FrameOutcome, FrameRequest, FrameService,
    Transport,
};
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
pub use process::ProcessFigures;
pub use repeated_failures::RepeatedFailures;
pub use reply::error_response;
pub use request_body::RequestBody;
pub use request_log::{
    QueryRecord, RecordFilter, RecordPage, RecordReason, RecordSettings, RequestLog, RequestRecord,
    SettingsChange, StatusFilter,
};
pub use running::RunningQuery;
pub use serve::{Port, Service, serve};
pub use slow::SlowRequests;
pub use spans::{RequestSpan, SpanQueue, SpanRecorder, SpanSampler};

/// The key that the vendor's emulator uses and every client documents. The key is public and
/// protects nothing.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
