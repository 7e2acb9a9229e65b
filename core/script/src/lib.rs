//! Runs JavaScript for stored procedures, triggers and user-defined functions.
//!
//! Scripts come from clients and are not trusted, and some of them hang inside native builtins that
//! no interrupt reaches. So they run in a few *script-host processes* that can be killed:
//!
//! ```text
//!   engine ── ScriptPool ──frames──▶ script host: QuickJS, the prelude, the script
//!     ▲           │      ◀─frames──      │
//!     └── Host ◀──┘                      └─ one new runtime per execution
//! ```
//!
//! A script requests items through frames on the standard output of its process; the pool hands
//! each request to the caller's [`Host`] and sends the reply back. The child process has no file,
//! no network, no clock and no randomness but the values that a call brings along.
//!
//! Promises:
//! 1. A call ends within its time plus a short grace, whatever the script does; the next call finds
//!    a working host.
//! 2. No state of an execution is visible to the next one.
//! 3. The same call against the same [`Host`] gives the same answer: time and randomness come in
//!    through [`Ambient`].
//! 4. No bytes that a child writes make the parent panic, hang or take more memory than a frame.
//!
//! Absent on purpose: HTTP status codes beyond the numbers that a script throws, transactions (the
//! [`Host`] has them), partition keys, and the price of work (this crate counts steps).
//!
//! Read `pool.rs` and `execution.rs` for the parent's side, `serve.rs` and `interpreter.rs` for the
//! child's. The messages between the two are in `wire.rs`, the service's objects for scripts in the
//! prelude (`prelude/*.js`).

mod calls;
mod channel;
mod error;
mod execution;
mod frame;
mod functions;
mod interpreter;
mod meter;
mod native;
mod pool;
mod process;
mod serve;
mod ticket;
mod watchdog;
mod wire;

pub use calls::{
    Ambient, ContainerLinks, DocumentLink, Host, HostCall, HostFailure, HostReply, IndexAction,
    Operation, Procedure, ProcedureOutcome, Quota, Trigger, TriggerOutcome, TriggerTime,
};
pub use error::ScriptError;
pub use functions::FunctionSession;
pub use pool::{PoolOptions, ScriptPool};
pub use process::HostCommand;
pub use serve::serve_script_host;
pub use ticket::Ticket;

/// The source of the system procedure `__.sys.echo`, which every container has. It answers its
/// first argument.
pub const ECHO_PROCEDURE: &str =
    "function echo(value) { getContext().getResponse().setBody(value); }";
