//! `orrery start`: a server that is announced on standard output and stops at a signal.
//!
//! Standard output carries the announcement and nothing else; the log goes to standard error.
//! [`run_server`] is for every command that runs a server in this process: it sets the allocator
//! of the program, and has variables that no command reads logged.

use crate::command::StartArguments;
use crate::{allocator, announce, signals, variables};
use orrery_gateway::LogLevel;
use orrery_server::config::ServerConfig;
use orrery_server::{Announcement, Failure, notify};

/// Runs a server until SIGTERM or Ctrl-C, and tells systemd of its state.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run(arguments: StartArguments) -> Result<(), Failure> {
    let ready_json = arguments.ready_json;
    let config = arguments.into_config()?;
    let announce = |announcement: &Announcement<'_>| -> Result<(), Failure> {
        let written = announce::write(announcement, ready_json);
        written.map_err(|error| {
            Failure::Failed(format!("cannot write to standard output: {error}"))
        })?;
        notify::ready();
        notify::start_watchdog();
        Ok(())
    };
    let stopped = || -> Result<_, Failure> {
        let signal = signals::shutdown()?;
        Ok(async {
            signal.await;
            notify::stopping();
        })
    };
    run_server(config, stopped, announce)
}

/// Runs a server as [`orrery_server::run`] does, with an allocator that gives freed memory back in
/// time for the limit of the server.
///
/// # Errors
/// Those of [`orrery_server::run`].
pub(crate) fn run_server<S: Future<Output = ()>>(
    mut config: ServerConfig,
    stopped: impl FnOnce() -> Result<S, Failure>,
    ready: impl FnOnce(&Announcement<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let warnings = variables::warnings().into_iter();
    config
        .notes
        .extend(warnings.map(|warning| (LogLevel::Warn, warning)));
    allocator::keep_within(config.memory_bytes());
    orrery_server::run(config, stopped, ready)
}
