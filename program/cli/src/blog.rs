//! `orrery blog`: the reference blog, with its database in the same process or elsewhere.
//!
//! ```text
//! serve      database ── fill ── pipelines ── application, and their end in reverse order
//!   filling      data of a new blog
//!   pipelines    workers of this process
//! migrate    change of the home model of a running blog
//! worker     pipelines only, for a blog that runs elsewhere
//! drift      comparison of the copies of a running blog
//! port       connections of visitors
//! place      file that tells other commands where a blog runs
//! report     announcement when the blog is ready
//! ```
//!
//! The application runs on the runtime of this module. A server in the same process has threads and
//! a runtime of its own and is used over its port, as any other server: the blog needs nothing but
//! the public protocol.

mod drift;
mod filling;
mod migrate;
mod pipelines;
mod place;
mod port;
mod report;
mod serve;
mod worker;

pub(crate) use place::account_at;

use crate::command::{BlogAction, BlogCommand};
use orrery_blog::BlogError;
use orrery_server::Failure;
use tokio::runtime::Runtime;

/// The name of the default data directory.
const DIRECTORY: &str = "orrery-blog";
/// Connections to the database for the application and its pipelines.
const CONNECTIONS: usize = 64;

/// Runs a blog, or an action on a running blog.
///
/// # Errors
/// See [`Failure`], which also gives the exit code.
pub(crate) fn run(command: BlogCommand) -> Result<(), Failure> {
    match command.action {
        None => serve::run(&command.serve),
        Some(BlogAction::Migrate(arguments)) => migrate::run(&arguments),
        Some(BlogAction::Worker(arguments)) => worker::run(&arguments),
        Some(BlogAction::Drift(arguments)) => drift::run(&arguments),
    }
}

/// Returns the runtime of the application.
fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))
}

/// Returns the failure for an error of the blog.
fn failure(error: BlogError) -> Failure {
    match error {
        BlogError::InvalidOption(message) => Failure::Usage(message),
        error => Failure::Failed(in_words(&error)),
    }
}

/// Returns an error of the blog in words.
pub(crate) fn in_words(error: &BlogError) -> String {
    match error {
        BlogError::Unreachable { .. } => {
            format!("{error}; start a server with `orrery start`, or name another with --endpoint")
        }
        error => error.to_string(),
    }
}
