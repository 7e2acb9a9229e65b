//! A server of the Model Context Protocol over standard input and output: assistants look into an
//! account, and change it if the operator allows that.
//!
//! ```text
//! session   messages in, answers out: versions, methods, cancellation
//! wire      lines with an upper bound, JSON-RPC messages and errors
//! tools     the table of tools, with their arguments and annotations
//! reading   tools that read           writing   tools that change something
//! rows      pages of a query within bounds of rows, bytes and request units
//! sample    the schema of a container from a sample of its items
//! context   resources and prompts
//! account   requests within the view and the cap of the session
//! ```
//!
//! Promises: nothing but messages is written to the output; a tool that changes something is
//! neither listed nor carried out without [`Options::allows_writes`]; the account key is in no
//! message; no message from the client ends the session.
//!
//! Left out: the HTTP transport, subscriptions, completion of arguments and notifications about
//! changed lists. docs/decisions/2026-11-assistants-by-json-rpc.md says why the messages are
//! written by hand.

mod account;
mod context;
mod reading;
mod rows;
mod sample;
mod session;
mod tools;
mod wire;
mod writing;

pub use session::serve;

/// Bytes of the rows of one answer, unless the options say otherwise.
pub const RESULT_BYTES_DEFAULT: usize = 64 * 1024;

/// The bounds of a session.
#[derive(Debug, Clone)]
pub struct Options {
    /// Offers tools that create, change and delete.
    pub allows_writes: bool,
    /// The only database that the session sees; `None` for all.
    pub database: Option<String>,
    /// The only container that the session sees; needs `database`.
    pub container: Option<String>,
    /// Request units after which the session refuses further requests; `None` without a cap.
    pub max_charge: Option<f64>,
    /// Bytes of the rows of one answer.
    pub result_bytes_max: usize,
}
