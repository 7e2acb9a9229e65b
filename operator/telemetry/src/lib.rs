//! The export of traces and metrics by the OpenTelemetry protocol (OTLP), protobuf over HTTP.
//!
//! ```text
//! settings    the option of the server and the standard variables of OpenTelemetry
//! spans       a request of the gateway as a span
//! metrics     the metrics of the management API as data points
//! wire        the messages of the protocol
//! collector   one request to the collector, and the meaning of its answer
//! exporter    the thread that sends both
//! ```
//!
//! Promises: the export never makes a request wait, takes bounded memory, and ends in bounded time.
//! Left out: gRPC, JSON, compression, logs, and spans for the steps inside a request.

mod collector;
mod exporter;
mod metrics;
mod settings;
mod spans;
pub mod wire;

pub use exporter::{Exporter, STOP_TIMEOUT, Sources};
pub use settings::{Settings, Switches, Target};
