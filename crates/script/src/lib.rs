//! Runs JavaScript for stored procedures, triggers and user-defined functions.
//!
//! The idea: scripts are strangers, and some of them hang inside native builtins that no interrupt reaches.
//! So they run in a few *script-host processes* that can be killed:
//!
//! ```text
//!   engine ── ScriptPool ──frames──▶ script host: QuickJS, the prelude, the script
//!     ▲           │      ◀─frames──      │
//!     └── Host ◀──┘                      └─ one fresh runtime per execution
//! ```
//!
//! A script asks for items through frames on its standard output; the pool hands each to the caller's [`Host`] and
//! sends the reply back. The child knows no file, no network, no clock and no randomness but what a call brings along.
//!
//! Promises:
//! 1. A call ends within its time plus a short grace, whatever the script does; the next call finds a working host.
//! 2. Nothing of one execution is seen by the next.
//! 3. The same call against the same [`Host`] answers the same: time and randomness come in through [`Ambient`].
//! 4. Nothing a child writes can make the parent panic, hang or take more memory than a frame.
//!
//! Absent on purpose: HTTP status codes beyond what a script names itself, transactions (the [`Host`] has them),
//! partition keys, and the charging of work (this crate counts steps, it prices nothing).

mod calls;
mod error;
mod execution;
mod frame;
mod functions;
mod interpreter;
mod native;
mod pool;
mod process;
mod serve;
mod watchdog;
mod wire;

pub use calls::{
    Ambient, ContainerLinks, DocumentLink, Host, HostCall, HostFailure, HostReply, IndexAction,
    Operation, Procedure, ProcedureOutcome, Quota, Trigger, TriggerOutcome, TriggerTime,
};
pub use error::ScriptError;
pub use functions::FunctionSession;
pub use pool::{HostCommand, PoolOptions, ScriptPool};
pub use serve::serve_script_host;

/// The source of the system procedure `__.sys.echo`, which every container has: it answers its first argument.
pub const ECHO_PROCEDURE: &str =
    "function echo(value) { getContext().getResponse().setBody(value); }";
